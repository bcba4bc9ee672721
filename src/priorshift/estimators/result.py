"""PriorEstimate: what an estimator found, and how to use it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit

from priorshift._results import Backend, FrozenArrays, make_frame
from priorshift._typing import Vector
from priorshift._version import __version__
from priorshift.adapt import (
    Adapter,
    ProbaInterval,
    adapt_proba_interval,
    binary_cut,
    check_costs,
    prior_ratio,
    reweight,
    total_variation,
)
from priorshift.border import (
    LockFree,
    check_choice,
    check_numbers,
    check_outputs,
    like_input,
    ordered,
    read_proba,
    require_keys,
    some,
    warn_of_missing_names,
)
from priorshift.calibration import Calibration, calibration_from_dict
from priorshift.estimators.data import GIVEN, GIVEN_LABELS
from priorshift.exceptions import argument
from priorshift.intervals import Estimand, IntervalKind, IntervalRequest, PriorInterval
from priorshift.solvers import ADVICE, Status
from priorshift.text import (
    at_level,
    html_table,
    movers,
    number,
    percent,
    plain,
    points,
    text_table,
)
from priorshift.verdict import Action

MAX_ROWS = 10
"""Classes shown by a repr; beyond that the top movers."""

PER_CLASS = ("priors", "source_priors", "raw", "interval", "standard_error", "adapts_to")
"""What a dict holds as mappings from class."""

MADE_BY: dict[IntervalKind, str] = {
    "asymptotic": "standard errors of validation and target",
    "likelihood ratio": "likelihood ratios, which assume calibrated outputs",
    "bootstrap": "resampling validation and target",
    "bayesian": "posterior draws of priors and confusion matrix",
    "prediction-powered": "labels and predictions of the target, whatever changed",
    "readings": "what the target may mean: a new class balance, other features, or no change",
}


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
    source_priors : ndarray of shape (n_classes,) or None
        Priors the classifier was trained under: the denominator of the ratio. None where nothing
        is known of them, as for PPI without a validation set; `ratio` and `total_variation` are
        then None too.
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
        Of the confusion matrix that was inverted; the larger, the noisier the estimate. Infinite
        for every method whose confusion matrix is singular: see `cautions`.
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
    interval_method : {"asymptotic", "likelihood ratio", "bootstrap", "bayesian", \
"prediction-powered", "readings"} or None
        How the interval was found.
    estimand : {"population", "sample"} or None
        What the interval covers: the share in the population that the target was drawn from, or
        the share in these rows.
    simultaneous : bool or None
        Whether the confidence level is that of all classes together, not of each.
    calibrator : CalibrationMap, CalibrationAverage or None
        Applied to predictions before they are adapted.
    calibration : CalibrationMap, CalibrationAverage or None
        Fitted on validation, applied or not: what `with_action` applies.
    strength : float
        Exponent of the ratio when predictions are adapted; 0 keeps their priors.
    decision : mapping or None
        What Auto decided and why, or the assessment that it is part of; `decision["sentence"]`
        says it in words.
    cautions : tuple of str
        Why the estimate or its interval may be further off than it says, and what to do.
    adapts_to : ndarray of shape (n_classes,) or None
        Priors that `adapt` uses instead of `priors`: the iterate before the last, where
        `solver="released"` follows code that does so. `ratio` remains that of `priors`.
    named : bool
        Whether the classes were matched by the header of a frame: `adapt` then warns of an array.
        Not stored by `to_dict`.
    """

    method: str
    classes: NDArray[Any]
    priors: Vector
    source_priors: Any  # a Vector, or None
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
    adapts_to: Vector | None = None
    calibration: Calibration | None = None
    named: bool = False

    @property
    def ratio(self) -> Any:
        """Importance weight of each class: priors / source_priors; None without these."""
        return None if self.source_priors is None else prior_ratio(self.priors, self.source_priors)

    @LockFree
    def adapter(self) -> Adapter:
        """The adaptation alone, as `adapt` applies it: save it, send it, export it."""
        self._require_source()
        return Adapter(
            self.classes,
            self.source_priors,
            self.priors if self.adapts_to is None else self.adapts_to,
            calibration=self.calibrator,  # type: ignore[arg-type]
            strength=self.strength,
            provenance={
                "method": self.method,
                "status": self.status,
                "gap": self.gap,
                "n_target": self.n_target,
                "source_priors_from": self.source_priors_from,
                "created": datetime.now(UTC).isoformat(timespec="seconds"),
                "versions": {"priorshift": __version__, "numpy": np.__version__},
            },
        )

    @property
    def action(self) -> Action:
        """What `adapt` does: "none" leaves predictions as they are, "calibrate" keeps their priors.

        "adapt" moves them to the new ones.
        """
        if self.strength > 0:
            return "adapt"
        return "none" if self.calibrator is None else "calibrate"

    def with_action(self, action: Action) -> PriorEstimate:
        """Return the same estimate, whose `adapt` does this and nothing else, whatever was decided.

        Parameters
        ----------
        action : {"none", "calibrate", "adapt"}
            As in the attribute. Without a calibration, "calibrate" leaves predictions as they are.

        Examples
        --------
        >>> import priorshift as ps
        >>> y_proba = [[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]]
        >>> shift = ps.EM().fit(source_priors=[0.5, 0.5]).estimate(y_proba)
        >>> shift.action, shift.with_action("none").adapt(y_proba).tolist() == y_proba
        ('adapt', True)
        """
        check_choice(action, get_args(Action), "action")
        fitted = self.calibrator if self.calibration is None else self.calibration
        return replace(
            self,
            calibrator=None if action == "none" else fitted,
            calibration=fitted,
            strength=float(action == "adapt"),
        )

    @property
    def total_variation(self) -> Any:
        """How far the priors moved: the share of cases that belong to other classes than before."""
        if self.source_priors is None:
            return None
        return float(total_variation(self.priors, self.source_priors))

    @property
    def source_priors_given(self) -> bool:
        """Whether the source priors were given, rather than taken from validation."""
        return self.source_priors_from in (GIVEN, GIVEN_LABELS)

    def threshold(self, costs: Any = None) -> float | None:
        """Return the raw score above which cases, once adapted, are decided for the second class.

        Parameters
        ----------
        costs : array-like of shape (2, 2), or as `decide` takes them, optional
            What errors cost; by default all the same.

        Returns
        -------
        float or None
            None where no score is decided for it, or where there are not two classes.

        Examples
        --------
        >>> import numpy as np
        >>> import priorshift as ps
        >>> before, now = np.array([0.5, 0.5]), np.array([0.9, 0.1])
        >>> shift = ps.PriorEstimate("known", np.arange(2), now, before, "given", "direct")
        >>> round(shift.threshold(), 6)
        0.9
        """
        cut = binary_cut(check_costs(costs, self.classes, 2)) if self.classes.size == 2 else None
        if cut is None or self.source_priors is None:
            return None
        low, high, wanted = -18.0, 18.0, float(logit(cut))
        for _ in range(2):  # the second time between two neighbours of the first
            odds = np.linspace(low, high, 361)
            adapted = self.adapt(np.column_stack([expit(-odds), expit(odds)]))[:, 1]
            reached = np.maximum.accumulate(logit(adapted.clip(1e-12, 1 - 1e-12)))
            if wanted > reached[-1]:
                return None
            at = max(1, int(np.searchsorted(reached, wanted)))
            low, high = odds[at - 1], odds[at]
        return float(expit(np.interp(wanted, reached, odds)))

    def with_interval(self, bounds: PriorInterval, request: IntervalRequest) -> PriorEstimate:
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

    def adapt(self, y_proba: ArrayLike, *, from_logits: bool = False, strength: float = 1.0) -> Any:
        """Adapt predictions to the estimated priors.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities of any samples of the target. Columns of a frame are matched to
            the classes by name.
        from_logits : bool, default=False
            Whether `y_proba` holds logits or log-probabilities instead.
        strength : float in [0, 1], default=1
            How far to go, as a share of the result's own strength: below 1 the new priors are a
            boost rather than a hard filter.

        Returns
        -------
        ndarray of the shape of `y_proba`
            Adapted probabilities. A frame for a frame, with its index, its order of columns and its
            other columns; a sparse matrix for a sparse matrix, a `TopK` for a `TopK` whose rest is
            spread, and a tensor on the same device for a tensor.
        """
        if self.named:
            warn_of_missing_names(y_proba, self.classes, "y_proba")
        if (self.priors < 0).any():  # by the paper's BBSE: no adapter can stand for it
            read = check_outputs(y_proba, from_proba=not from_logits, classes=self.classes)
            read = ordered(read, self.classes)
            adapted = reweight(read.values, self.ratio**strength, from_logits=from_logits)
            return like_input(read, adapted, self.classes)
        return self.adapter(y_proba, from_logits=from_logits, strength=strength)

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
        self._require_source()
        predictions = read_proba(y_proba, self.classes, named=self.named)
        values = predictions.values
        if self.calibrator is not None:
            values = self.calibrator.apply(values)
        target = self.priors if self.adapts_to is None else self.adapts_to
        lower, upper = self.interval.T
        found = adapt_proba_interval(
            values,
            self.source_priors,
            target,
            interval=np.column_stack([np.minimum(lower, target), np.maximum(upper, target)]),
            confidence_level=self.confidence_level,
            strength=self.strength,
            classes=self.classes,
        )
        return ProbaInterval(*(like_input(predictions, part, self.classes) for part in found))

    def _require_source(self) -> None:
        if self.source_priors is None:
            raise ValueError(
                "nothing is known of the priors that the classifier was trained under, so "
                "predictions cannot be adapted to new ones; give "
                f"{argument('source_priors', 'them to fit: source_priors=')}, or a validation set."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON; vectors become mappings from class."""
        classes = self.classes.tolist()
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        del found["named"]  # it is about the session, not about the estimate
        fitted = self.calibrator if self.calibration is None else self.calibration
        found |= {
            "classes": classes,
            "calibrator": None if self.calibrator is None else self.calibrator.name,
            "calibration": None if fitted is None else fitted.to_dict(),
            "ratio": self.ratio,
        }
        for name in (*PER_CLASS, "ratio"):
            if found[name] is not None:
                found[name] = dict(zip(classes, found[name].tolist(), strict=True))
        return {name: plain(value) for name, value in found.items()}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> PriorEstimate:
        """Make an estimate again of what `to_dict` returned, also after a trip through JSON.

        Examples
        --------
        >>> import json
        >>> import priorshift as ps
        >>> shift = ps.EM().fit(source_priors=[0.5, 0.5]).estimate([[0.9, 0.1], [0.2, 0.8]])
        >>> again = ps.PriorEstimate.from_dict(json.loads(json.dumps(shift.to_dict())))
        >>> (again.priors == shift.priors).all()
        np.True_
        """
        known = [field.name for field in fields(cls) if field.name != "named"]
        require_keys(found, (*known, "ratio"), "the estimate")
        classes = np.array(found["classes"])
        named = {name: found[name] for name in known}
        for name in PER_CLASS:
            if named[name] is not None:
                shapes = ((classes.size,), (classes.size, 2))
                values = _in_order(named[name], classes.tolist(), name)
                named[name] = check_numbers(values, shapes, name)
        calibration = found["calibration"]
        if calibration is not None:
            calibration = calibration_from_dict(calibration, classes.size)
        unseen, cautions = tuple(named["unseen_classes"]), tuple(named["cautions"])
        applied = None if named["calibrator"] is None else calibration
        named |= {"classes": classes, "calibrator": applied, "calibration": calibration}
        return cls(**{**named, "unseen_classes": unseen, "cautions": cautions})

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return one row per class, as a frame of the named library.

        With an interval there are columns `lower`, `upper` and `standard_error`.
        """
        return make_frame(columns_of(self), backend)

    def report(self, path: str | PathLike[str], **data: Any) -> Path:
        """Write the estimate as one self-contained HTML file.

        The page holds what there are data for, and says what its other sections need. From the
        estimate alone: the class shares and how they were found. With `y_proba_val` and `y_val`:
        confusion matrix and calibration. With `y_proba_target`: which decisions change. With all
        three: the verdict, accuracy before and after, and the tests. `Assessment.report` has the
        verdict without them.

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

    def __repr__(self) -> str:
        """Show the certificate and the classes that moved."""
        gap = "" if self.gap is None else f", gap={self.gap:.2g}"
        head = (
            f"PriorEstimate(method={self.method!r}, status={self.status!r}{gap}, "
            f"n_classes={self.classes.size}, n_target={self.n_target})"
        )
        return f"{head}\n{self.in_text()}"

    def in_text(self) -> str:
        """Return the table of the priors, and notes on them."""
        header, rows = priors_table(self)
        lines = text_table([header, *rows], right=range(1, len(header)), least=8)
        return "\n".join(f"  {line}" for line in (*lines, *priors_notes(self)))

    def _repr_html_(self) -> str:
        gap = "" if self.gap is None else f", gap {self.gap:.2g}"
        head = escape(f"{self.method}: {self.status}{gap}, {self.n_target} target rows")
        return f"<div><strong>Prior estimate</strong> {head}{self.in_html()}</div>"

    def in_html(self) -> str:
        """Return the table of the priors, and notes on them, in HTML."""
        header, rows = priors_table(self)
        notes = "".join(f"<p>{escape(note)}</p>" for note in priors_notes(self))
        return html_table(rows, header) + notes


def _in_order(by_class: Any, classes: list[Any], name: str) -> list[Any]:
    """Return the values of a mapping in class order; JSON turns names into strings."""
    if isinstance(by_class, Mapping):
        for keys in (classes, [str(c) for c in classes], [json.dumps(c) for c in classes]):
            if set(keys) == set(by_class):
                return [by_class[key] for key in keys]
    raise ValueError(f"{name} must be a mapping from the classes ({some(classes)}) to numbers.")


def columns_of(found: PriorEstimate) -> dict[str, Any]:
    """Return columns with one entry per class; bounds and errors if there are any."""
    lower, upper = (None, None) if found.interval is None else found.interval.T
    columns = {
        "class": found.classes,
        "source_prior": found.source_priors,
        "prior": found.priors,
        "ratio": found.ratio,
        "lower": lower,
        "upper": upper,
        "standard_error": found.standard_error,
    }
    return {name: column for name, column in columns.items() if column is not None}


def priors_table(found: PriorEstimate, most: int = MAX_ROWS) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the priors, as results and commands show them.

    The largest movers first, and no more than `most`, where there are more classes.
    """
    K, source = found.classes.size, found.source_priors
    # how far each share moved; the share itself where nothing is known of the source
    change = found.priors if source is None else found.priors - source
    columns: dict[str, Any] = {"class": map(str, found.classes.tolist())}
    if source is not None:
        columns["source"] = map(percent, source)
    columns["target"] = map(percent, found.priors)
    if source is not None:
        columns |= {"points": map(points, change), "ratio": map(number, found.ratio)}
    # shares that were counted, as every row has a label, have bounds without width
    if found.interval is not None and np.ptp(found.interval, axis=1).any():
        lower, upper = (map(percent, bound) for bound in found.interval.T)
        columns[at_level(found.confidence_level)] = map("{} to {}".format, lower, upper)
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    if most < K:
        rows = [rows[k] for k in movers(change, most)]
    return list(columns), rows


def priors_notes(found: PriorEstimate, most: int = MAX_ROWS) -> list[str]:
    """Return what is said below the table of the priors."""
    notes = [
        f"{found.status}: {ADVICE[found.status]}",
        f"source priors: {found.source_priors_from}",
    ]
    if found.interval is not None and np.ptp(found.interval, axis=1).any():
        of = "these very rows" if found.estimand == "sample" else "the population"
        each = "for all classes together" if found.simultaneous else "for each class"
        by = "" if found.interval_method is None else f", by {MADE_BY[found.interval_method]}"
        level = at_level(found.confidence_level)
        notes.insert(0, f"{level} of the share in {of}, {each}{by}")
    if found.classes.size > most:
        which = "are largest" if found.source_priors is None else "moved most"
        notes.insert(0, f"... the {most} of {found.classes.size} classes that {which}")
    if found.condition_number is not None:
        notes.append(f"condition number of the confusion matrix: {found.condition_number:.3g}")
    if found.unseen_classes:
        notes.append(f"not in validation: {some(found.unseen_classes)}")
    return [*notes, *(f"caution: {caution}" for caution in found.cautions)]
