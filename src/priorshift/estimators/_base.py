"""PriorEstimator: what all estimators share, from a target to a PriorEstimate."""

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from priorshift._typing import Mask, Vector
from priorshift._validation import (
    NO_PRIOR,
    check_alpha,
    check_proba,
    check_source_mass,
    in_class_order,
    some,
)
from priorshift.estimators._fitting import FitsValidation
from priorshift.estimators._references import Reference
from priorshift.estimators._result import PriorEstimate
from priorshift.estimators._wide import as_taken, require_few_classes
from priorshift.exceptions import ConvergenceWarning, PriorShiftWarning, warn_user
from priorshift.execution import Rows
from priorshift.solvers import Solution
from priorshift.statistics import DecisionCounts
from priorshift.uncertainty import Estimand, IntervalMethod, IntervalRequest, PriorInterval

Batch = Literal["likelihood", "inversion", "posteriors", "calibrated"]
"""How the priors of many groups are found at once."""

NOTICEABLE = 0.01
"""A prior worth a warning when it cannot reach the predictions; a hyper-prior's share is less."""


class PriorEstimator(FitsValidation):
    """Base of all estimators: `fit` on validation, `estimate` on the target, `adapt`.

    A subclass has a `name`, says which confusion matrix it needs (`_decision`, None for none), and
    turns clean target predictions into a `PriorEstimate` in `_estimate`. Those that need no more
    than counts of decisions derive from `DecisionEstimator`.

    Everything else that reports, groups, monitors and commands need to know about a method are the
    traits below: class attributes, or properties where they depend on parameters. A subclass
    inherits them and overrides what it changes.

    Attributes
    ----------
    name : str
        What the method is called by `get_estimator`, on the command line and in results.
    other_names : tuple of str, default=()
        Further names that its results may carry as `method`.
    summary : str, default=""
        What the method does, as one sentence without its subject: "inverts the confusion matrix".
    reference : Reference or None, default=None
        The paper that proposed it.
    takes_sparse : bool, default=False
        Whether `_estimate` reads sparse rows as they are; otherwise it gets them as arrays, a few
        rows at a time.
    wide : bool
        Whether sparse predictions may have any number of classes, because no dense matrix of
        classes by classes is formed; by default the same as `takes_sparse`.
    counts_suffice : bool, default=False
        Whether counts of target decisions suffice for an estimate, so that the target can be
        counted in parts. `needs_rows` tells whether that holds for the method as fitted.
    fit_is_counts : bool, default=False
        Whether what `fit` learns is no more than counts, so that a monitor can save it.
    keeps_rows : bool, default=False
        Whether `fit` keeps validation row by row.
    calibrates : bool, default=False
        Whether the method calibrates predictions itself.
    trusts_outputs : bool, default=False
        Whether the method assumes that predicted probabilities are calibrated.
    estimates_nothing : bool, default=False
        Whether it is the baseline that returns the source priors.
    raw_is : {"priors", "ratio"}, default="priors"
        What `PriorEstimate.raw` holds.
    gap_unit : {"nats", ""}, default="nats"
        Unit of `PriorEstimate.gap`; "" for a method with an objective of its own.
    batch : {"likelihood", "inversion", "posteriors", "calibrated"} or None, default=None
        How `estimate_groups` solves for all groups at once: by the likelihood of counts under the
        columns `_columns`, by inverting them, by the likelihood of the posteriors, or by soft
        decisions of calibrated outputs. None estimates each group by itself. A subclass that
        overrides how priors are found starts again from None.
    """

    name: ClassVar[str]
    other_names: ClassVar[tuple[str, ...]] = ()
    summary: ClassVar[str] = ""
    reference: ClassVar[Reference | None] = None
    takes_sparse: ClassVar[bool] = False
    counts_suffice: ClassVar[bool] = False
    fit_is_counts: ClassVar[bool] = False
    trusts_outputs: ClassVar[bool] = False
    raw_is: ClassVar[Literal["priors", "ratio"]] = "priors"
    gap_unit: ClassVar[Literal["nats", ""]] = "nats"
    batch: ClassVar[Batch | None] = None

    def __init_subclass__(cls, **more: Any) -> None:
        """Drop an inherited `batch` where a subclass finds priors in another way."""
        super().__init_subclass__(**more)
        own = vars(cls)
        if "batch" not in own and ("_estimate" in own or "_solve" in own):
            cls.batch = None

    @property
    def wide(self) -> bool:
        """Whether sparse predictions may have any number of classes."""
        return self.takes_sparse

    @property
    def _hyper_prior(self) -> Vector:
        """Alpha of the Dirichlet hyper-prior per class; 1 where there is none."""
        return check_alpha(getattr(self, "alpha", 1.0), self.classes_.size)

    def estimate(
        self,
        y_proba: ArrayLike,
        confidence_level: float | None = None,
        random_state: int | np.random.Generator | None = None,
        *,
        interval_method: IntervalMethod = "auto",
        n_resamples: int = 300,
        simultaneous: bool = False,
        estimand: Estimand = "population",
    ) -> PriorEstimate:
        """Estimate the target priors from unlabelled predictions.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities on the target, from the same classifier.
        confidence_level : float, optional
            Such as 0.95: fill in `interval` and `standard_error`, from the noise of validation and
            target. By default there are none, and they cost nothing.
        random_state : None, int or numpy.random.Generator, optional
            For the intervals that draw: an int gives the same ones every time.
        interval_method : {"auto", "asymptotic", "bootstrap", "bayesian"}, default="auto"
            "asymptotic" are standard errors in closed form for methods with a confusion matrix,
            and likelihood ratios for EM and MAP, which assume calibrated outputs; "bootstrap"
            resamples validation and target; "bayesian" are credible intervals under Dirichlet(1/2),
            whatever the method's own hyper-prior, by Gibbs sampling of priors and confusion matrix
            from hard decisions.
            "auto" is "asymptotic" where there is such, else "bootstrap".
        n_resamples : int, default=300
            Resamples of the bootstrap, or posterior draws.
        simultaneous : bool, default=False
            Whether all intervals hold together at that level, not each.
        estimand : {"population", "sample"}, default="population"
            What the interval is of: the share in the population that the target was drawn from, or
            the share realised in these very rows.

        Returns
        -------
        PriorEstimate

        Notes
        -----
        Methods with a confusion matrix are bounded by the moments q = C p, without hyper-prior or
        constraint: the interval covers the truth whatever those pull to, is clipped to [0, 1] and
        widened to hold the estimate; the standard error is that of the unconstrained solution.
        Soft methods need the rows given to `fit`, with every class among them.

        EM and MAP are bounded by the likelihood of the posteriors. That is their noise if outputs
        are calibrated; if not, their bias can be larger. Source priors taken from validation add
        their noise; source priors given are taken as exact, which leaves the noise of the target.

        Examples
        --------
        >>> import numpy as np
        >>> import priorshift as ps
        >>> y_val = np.repeat([0, 1], 100)
        >>> decisions = np.repeat([0, 1, 0, 1], [80, 20, 20, 80])
        >>> cm = ps.CM().fit(np.eye(2)[decisions], y_val)
        >>> shift = cm.estimate(np.eye(2)[np.repeat([0, 1], [100, 100])], confidence_level=0.95)
        >>> shift.interval.round(2)
        array([[0.36, 0.65],
               [0.36, 0.65]])
        """
        check_is_fitted(self)
        values = in_class_order(check_proba(y_proba, tables=True), self.classes_)
        values = as_taken(self, values)
        check_source_mass(self._denominator, values, self.classes_, origin=self.source_priors_from_)
        if confidence_level is None:
            return self._estimate(values)
        request = IntervalRequest.of(
            confidence_level, random_state, interval_method, n_resamples, simultaneous, estimand
        )
        of_interval = require_few_classes(self, values)
        found = self._estimate(values)
        return found.with_interval(self._interval(of_interval, found, request), request)

    def estimate_counts(
        self,
        counts: DecisionCounts,
        confidence_level: float | None = None,
        random_state: int | np.random.Generator | None = None,
        *,
        interval_method: IntervalMethod = "auto",
        n_resamples: int = 300,
        simultaneous: bool = False,
        estimand: Estimand = "population",
    ) -> PriorEstimate:
        """Estimate the target priors from how often each class was decided for.

        It is what `estimate` gives on the rows that were counted, and parts of the target can be
        counted apart, in any order and anywhere, and added. For the methods that rest on a
        confusion matrix, unless validation lacks a class: see `needs_rows`.

        Parameters
        ----------
        counts : DecisionCounts
            Of the kind that the confusion matrix holds, `confusion_.decision`, with the classes in
            the order of `classes_`.
        confidence_level, random_state, interval_method, n_resamples, simultaneous, estimand
            As in `estimate`; for hard decisions, whose noise their counts tell.

        Returns
        -------
        PriorEstimate

        Examples
        --------
        >>> import numpy as np
        >>> import priorshift as ps
        >>> cm = ps.CM().fit([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.4, 0.6]], [0, 0, 1, 1])
        >>> monday = ps.DecisionCounts(np.array([30.0, 10.0]), "hard", n_samples=40)
        >>> tuesday = ps.DecisionCounts(np.array([30.0, 30.0]), "hard", n_samples=60)
        >>> cm.estimate_counts(monday + tuesday).priors
        array([0.6, 0.4])
        """
        check_is_fitted(self)
        if not isinstance(counts, DecisionCounts):
            raise ValueError(
                "counts must be DecisionCounts, as DecisionCounts.from_arrays(y_proba, "
                f"decision=...) returns; got {type(counts).__name__}."
            )
        found = self._estimate_counts(counts)
        if confidence_level is None:
            return found
        from priorshift.estimators._intervals import interval_of_counts  # it knows the subclasses

        request = IntervalRequest.of(
            confidence_level, random_state, interval_method, n_resamples, simultaneous, estimand
        )
        return found.with_interval(interval_of_counts(self, counts, found, request), request)

    @property
    def _denominator(self) -> Vector:
        """Priors that outputs stand for once they are calibrated, if the method calibrates."""
        return self.source_priors_

    @property
    def needs_rows(self) -> bool:
        """Whether the method, as fitted, needs rows of the target: `estimate_counts` will not do.

        So do EM and MAP always, and every method if validation lacks a class.
        """
        return True

    def adapt(self, y_proba: ArrayLike, *, strength: float = 1.0) -> NDArray[Any]:
        """Estimate the target priors and adapt the same predictions to them.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities on the target.
        strength : float in [0, 1], default=1
            How far to go: see `PriorEstimate.adapt`.
        """
        return self.estimate(y_proba).adapt(y_proba, strength=strength)

    def _estimate(self, y_proba: Rows) -> PriorEstimate:
        raise NotImplementedError

    def _interval(
        self, y_proba: Rows, found: PriorEstimate, request: IntervalRequest
    ) -> PriorInterval:
        """Find the interval of an estimate; a subclass may override it to supply its own."""
        from priorshift.estimators._intervals import interval_of  # it knows the subclasses

        return interval_of(self, y_proba, found, request)

    def _estimate_counts(self, counts: DecisionCounts) -> PriorEstimate:  # noqa: ARG002
        raise ValueError(
            f"{type(self).__name__} needs the rows of the target, which counts of decisions do "
            "not keep; use estimate(y_proba), or a method with a confusion matrix such as SCM-L."
        )

    def _source_of_unseen(self, seen: Mask, who: str) -> Vector | None:
        """Return the source priors if any were given; warn of classes that validation lacks."""
        known = any(given is not None for given in self._given)
        if not seen.all():
            how = (
                "EM estimates it from the predictions alone"
                if known
                else "and without source_priors nothing can: its mean prediction is taken. Give "
                "source_priors"
            )
            warn_user(
                f"validation has no sample of class {some(self.classes_[~seen].tolist())}: {who} "
                f"cannot identify its prior, {how}.",
                PriorShiftWarning,
            )
        return self.source_priors_ if known else None

    def _warn_if_short(self, solution: Solution) -> None:
        """Warn of a solution that fell short of its tolerance."""
        if solution.status == "not_converged":
            warn_user(
                f"{self.name} is not certified after {solution.n_iter} passes: its gap is "
                f"{solution.gap}; raise max_iter or tol.",
                ConvergenceWarning,
            )

    def _result(
        self, priors: Vector, solution: Solution, n_target: int, **more: Any
    ) -> PriorEstimate:
        """Wrap a solution."""
        lost = (priors > NOTICEABLE) & (self._denominator <= NO_PRIOR)
        if lost.any():
            warn_user(
                f"class {some(self.classes_[lost].tolist())} has a prior in the target but none in "
                "the source: predictions cannot be adapted to it. Give source_priors.",
                PriorShiftWarning,
            )
        return PriorEstimate(
            method=self.name,
            classes=self.classes_,
            priors=priors,
            source_priors=self._denominator,
            source_priors_from=self.source_priors_from_,
            status=solution.status,
            gap=solution.gap,
            n_iter=solution.n_iter,
            objective=solution.objective,
            n_target=n_target,
            **more,
        )
