"""PriorEstimate: what an estimator found, and how to use it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from priorshift._frames import Backend, make_frame
from priorshift._frozen import FrozenArrays
from priorshift._typing import Vector
from priorshift._validation import (
    check_fraction,
    check_outputs,
    check_source_mass,
    in_class_order,
)
from priorshift.adaptation import like_input, prior_ratio, reweight
from priorshift.calibration import Calibration
from priorshift.estimators._views import (
    as_dict,
    as_html,
    as_text,
    columns_of,
    interval_in_words,
)
from priorshift.execution import SparseTable, is_dask_array, map_chunks
from priorshift.solvers import Status
from priorshift.uncertain_priors import ProbaInterval, adapt_proba_interval
from priorshift.uncertainty import Estimand, IntervalKind, IntervalRequest, PriorInterval


@dataclass(frozen=True, eq=False, repr=False)
class PriorEstimate(FrozenArrays):
    """Estimated target priors with their certificate; frozen, picklable, without sample rows.

    Attributes
    ----------
    method : str
        Name of the estimator, as in `available_estimators()`.
    classes : ndarray of shape (n_classes,)
        Class names, in the order of every vector here.
    priors : ndarray of shape (n_classes,)
        Estimated target priors.
    source_priors : ndarray of shape (n_classes,)
        Priors the classifier was trained under: the denominator of the ratio.
    source_priors_from : str
        Where the source priors come from, in words.
    status : {"certified", "stationary", "direct", "not_converged"}
        What the solver can promise.
    gap : float or None
        How far, at most, the objective is from its maximum: in nats for likelihood methods, in
        units of their own objective for RLLS and constrained BBSE; None where no bound exists.
    n_iter : int
        Passes over the solver's data.
    objective : float or None
        Log-likelihood or log-posterior at `priors`, up to a constant.
    raw : ndarray of shape (n_classes,) or None
        The unclipped solution: priors for CM and SCM, ratio for BBSE, BBSE-S and RLLS.
    condition_number : float or None
        Of the confusion matrix that was used; the larger, the noisier the estimate.
    n_target : int
        Rows the estimate rests on.
    unseen_classes : tuple
        Classes that validation never saw. A confusion matrix says nothing of them: their priors
        come from the posterior likelihood (EM) if `source_priors` were given, else from the mean
        prediction on the target.
    interval : ndarray of shape (n_classes, 2) or None
        Lower and upper bound of each prior, if `estimate` was asked for them.
    standard_error : ndarray of shape (n_classes,) or None
        Of each prior, from validation and target noise together.
    confidence_level : float or None
        Of the interval.
    interval_method : {"asymptotic", "likelihood ratio", "bootstrap", "bayesian"} or None
        How the interval was found.
    estimand : {"population", "sample"} or None
        What the interval is of: the share in the population that the target was drawn from, or the
        share realised in these very rows.
    simultaneous : bool or None
        Whether the confidence level is that of all classes together, not of each.
    calibrator : CalibrationMap, CalibrationAverage or None
        Applied to predictions before they are adapted.
    strength : float
        Exponent of the ratio when predictions are adapted; 0 leaves them alone.
    decision : mapping or None
        What Auto decided and why; `decision["sentence"]` says it in words.
    cautions : tuple of str
        Why the estimate or its interval may be further off than it says, and what to do.
    """

    method: str
    classes: NDArray[Any]
    priors: Vector
    source_priors: Vector
    source_priors_from: str
    status: Status
    gap: float | None = None
    n_iter: int = 0
    objective: float | None = None
    raw: Vector | None = None
    condition_number: float | None = None
    n_target: int = 0
    unseen_classes: tuple[Any, ...] = ()
    interval: Vector | None = None
    standard_error: Vector | None = None
    confidence_level: float | None = None
    interval_method: IntervalKind | None = None
    estimand: Estimand | None = None
    simultaneous: bool | None = None
    calibrator: Calibration | None = None
    strength: float = 1.0
    decision: Mapping[str, Any] | None = None
    cautions: tuple[str, ...] = ()

    @property
    def ratio(self) -> Vector:
        """Importance weight of each class: priors / source_priors."""
        return prior_ratio(self.priors, self.source_priors)

    def with_interval(self, bounds: PriorInterval, request: IntervalRequest) -> "PriorEstimate":
        """Return the same estimate with an interval, and how it was asked for."""
        return replace(
            self,
            interval=bounds.interval,
            standard_error=bounds.standard_error,
            confidence_level=request.confidence_level,
            interval_method=bounds.method,
            estimand=request.estimand,
            simultaneous=request.simultaneous,
            cautions=self.cautions + (() if bounds.caution is None else (bounds.caution,)),
        )

    def adapt(
        self, y_proba: ArrayLike, *, from_logits: bool = False, strength: float = 1.0
    ) -> NDArray[Any]:
        """Adapt predictions to the estimated priors.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities of any samples of the target.
        from_logits : bool, default=False
            Whether `y_proba` holds logits or log-probabilities instead.
        strength : float in [0, 1], default=1
            How far to go, as a share of the result's own strength: below 1 the new priors are a
            boost rather than a hard filter.

        Returns
        -------
        ndarray of the shape of `y_proba`
            Adapted probabilities; a sparse matrix for a sparse matrix, and a `TopK` for a `TopK`
            whose rest is spread.
        """
        if is_dask_array(y_proba):
            again = partial(self.adapt, from_logits=from_logits, strength=strength)
            return map_chunks(again, y_proba)
        predictions = check_outputs(
            y_proba, from_proba=not from_logits, name="y_proba", sparse=True
        )
        values = in_class_order(predictions, self.classes)
        check_source_mass(
            self.source_priors,
            values,
            self.classes,
            from_logits=from_logits,
            origin=self.source_priors_from,
        )
        if self.calibrator is not None:
            if isinstance(values, SparseTable):
                raise ValueError(
                    f"{self.method} recalibrates predictions, which sparse ones do not allow; pass "
                    "them as an array, some rows at a time."
                )
            values = self.calibrator.apply(values, from_logits=from_logits)
            from_logits = False
        ratio = self.ratio ** (self.strength * check_fraction(strength, "strength"))
        return like_input(predictions, reweight(values, ratio, from_logits=from_logits))

    def adapt_interval(self, y_proba: ArrayLike) -> ProbaInterval:
        """Adapt predictions, with bounds that come from the interval of the priors.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities of any samples of the target.

        Returns
        -------
        ProbaInterval
            `proba`, `lower` and `upper`, each of the shape of `y_proba`.
        """
        if self.interval is None or self.confidence_level is None:
            raise ValueError(
                "there is no interval; ask for one: estimate(..., confidence_level=0.95)."
            )
        predictions = check_outputs(y_proba, from_proba=True, name="y_proba")
        values = in_class_order(predictions, self.classes)
        if self.calibrator is not None:
            values = self.calibrator.apply(values)
        found = adapt_proba_interval(
            values,
            self.source_priors,
            self.priors,
            interval=np.column_stack(
                [
                    np.minimum(self.interval[:, 0], self.priors),
                    np.maximum(self.interval[:, 1], self.priors),
                ]
            ),
            confidence_level=self.confidence_level,
            strength=self.strength,
            classes=self.classes,
        )
        return ProbaInterval(*(like_input(predictions, part) for part in found))

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON; vectors become mappings from class."""
        return as_dict(self)

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return one row a class, as a frame of the named library.

        With an interval there are columns `lower`, `upper` and `standard_error`.
        """
        return make_frame(columns_of(self), backend)

    def report(self, path: str | PathLike[str], **data: Any) -> Path:
        """Write the estimate as one self-contained HTML file.

        Parameters
        ----------
        path : str or path-like
            The file to write, or to replace as a whole.
        **data
            What the report may show beyond the estimate itself, above all `y_proba_val`, `y_val`
            and `y_proba_target`: see `priorshift.report.write_report`.

        Returns
        -------
        Path
            The file written.
        """
        from priorshift.report import write_report

        return write_report(path, self, **data)

    def interval_in_words(self) -> str:
        """Say the level of the interval, what it is of, and how it was made."""
        return interval_in_words(self)

    def __repr__(self) -> str:
        """Show the certificate and the classes that moved."""
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)
