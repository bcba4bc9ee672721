r"""Assess: weigh all evidence, and say whether to adapt.

This is the one place where evidence becomes a verdict. With :math:`g` the expected gain in accuracy
and :math:`s` its standard error, both from validation, the target and the estimate, and :math:`u`
the share of the target that no change of priors explains (0 unless the assumption test rejects),

.. math:: e = \sqrt{s^2 + u^2}

is how far the gain may be off. Labels of the target, if you have some, measure the gain directly;
both are averaged by precision. They also say what the class shares are whatever changed (`PPI`):
where its interval and that of the estimate lie apart, u is at least how far apart.

- **adapt** if :math:`g > 1.2\, e`, unless there is no evidence that the class balance changed and g
  is below one point of accuracy;
- **leave** if there is nothing to gain: there is no evidence that the class balance changed, or
  :math:`g + 1.64\, e` is below one point of accuracy;
- **unclear** otherwise: the class balance changed, but whether adapting helps cannot be told. The
  reasons say what would make it clear.

With `costs`, the gain is what adapting saves per case, and "one point" is a hundredth of what an
error costs on average. With another `goal`, the gain is in that goal.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, ndtri
from sklearn.base import clone

from priorshift._typing import Indices, Labels, Vector
from priorshift.adapt import Goal, GoalName
from priorshift.border import (
    Predictions,
    Table,
    as_decisions,
    check_level,
    check_proba,
    column_of,
    encode_labels,
    is_named,
    known_labels,
    order_in_words,
    ordered,
    read_decisions,
    read_labels,
    settle_classes,
    warn_of_missing_names,
)
from priorshift.estimators import PPI, PriorEstimate, PriorEstimator, get_estimator
from priorshift.evidence import (
    AssumptionTest,
    Diagnostics,
    Expected,
    ShiftTest,
    check_assumption,
    detect_shift,
    diagnose,
    expected_score,
    is_shifted,
)
from priorshift.text import (
    listed,
    movers,
    numbers,
    percents,
    plural,
    quoted,
    short_percent,
    shorten,
)

Verdict = Literal["adapt", "leave", "unclear"]

ACCURACY = Goal("accuracy")

CAUTION = 1.2
"""Standard errors that the gain must exceed, as in Auto."""

WORTH = 0.01
"""Gain in accuracy below which adapting is not worth it."""

ENOUGH_POWER = 0.8
"""Chance of noticing a shift from which on not noticing one is evidence that there is none."""

SOME_LABELS = 100
"""Labels of the target to ask for where nothing is known of the changed decisions."""

FEW_ROWS = 30
"""Validation rows, at the estimated priors, below which more of them would help most."""

SAMPLE_NUMBERS = 10_000_000
"""Rows times classes of the target that are assessed: of a larger one a sample."""

MOST_CLASSES, MOST_CLASSES_OF_ASSUMPTION = 500, 200
"""Classes beyond which the tests take too long."""

BY_DECISIONS = (
    "The correction assumes that decisions err as often as on validation. Decisions alone cannot "
    "show whether they do; labels of some target rows can."
)

MANY_NUMBERS, MOST_NUMBERS = 2_000_000, 10_000_000
"""Rows times classes beyond which tests draw fewer resamples, or sides are thinned for them."""

MOST_NAMED, LONGEST_NAMED = 3, 16
"""Classes that a sentence on decisions names, and characters of their names."""

TOO_WIDE = 0.5
"""Width of an interval from which on nobody should report its share: a judgement, not a fit."""

BUDGET = 40_000_000
"""Rows times classes that verdicts on many groups or windows go through in all."""


@dataclass(frozen=True, eq=False, repr=False)
class Assessment:
    """What to do about a target, and why; frozen, picklable, without sample rows.

    Attributes
    ----------
    verdict : {"adapt", "leave", "unclear"}
        What to do.
    sentence : str
        The verdict for a reader who knows no statistics.
    reasons : tuple of str
        What it rests on, one sentence each, and what would help where it is unclear.
    gain : Expected
        Change of accuracy by adapting, with its interval: 0.05 is 5 points. With another goal,
        by how much balanced accuracy rises, or log loss or the expected cost per case falls.
    estimate : PriorEstimate
        The target's class priors with intervals. Its `strength` follows the verdict.
    shift_test : ShiftTest or None
        Whether the class balance changed; None where the test would take too long.
    assumption_test : AssumptionTest or None
        Whether only the class balance changed.
    diagnostics : Diagnostics or None
        Expected accuracy before and after, and what the estimate rests on.
    measured : Measured or None
        The goal's score on the labelled rows of the target, if there are any.
    ppi : PriorEstimate or None
        Class shares by these labels and all predictions, whatever changed: see `PPI`. The
        intervals hold for all classes together.
    n_val, n_target : int
        Rows of validation and target.
    rows_looked_at : int
        Rows of the target that were assessed: a sample of a very large one.
    warnings : tuple of str
        What was warned of on the way.
    advice : str
        What would make an unclear verdict clear, in one sentence; empty otherwise.
    goal : {"accuracy", "balanced_accuracy", "log_loss", "cost"}
        What the gain is in.
    score_before, score_after : Expected or None
        What to expect on the target as predictions are, and after adapting: accuracy, or what
        `goal` names. After is before plus the gain (minus, for log loss and cost); None for
        decisions, which cannot be adapted.
    costs : ndarray of shape (n_classes, n_classes) or None
        What errors cost, rows true classes, if you said so.
    decided_shares : ndarray of shape (n_classes,) or None
        Shares of the decisions as counted, where there are decisions only: the estimate corrects
        them.
    """

    verdict: Verdict
    sentence: str
    reasons: tuple[str, ...]
    gain: Expected
    estimate: PriorEstimate
    shift_test: ShiftTest | None
    assumption_test: AssumptionTest | None
    diagnostics: Diagnostics | None
    measured: "Measured | None"
    ppi: PriorEstimate | None
    n_val: int
    n_target: int
    rows_looked_at: int
    warnings: tuple[str, ...] = ()
    advice: str = ""
    goal: Literal["accuracy", "balanced_accuracy", "log_loss", "cost"] = "accuracy"
    score_before: Expected | None = None
    score_after: Expected | None = None
    costs: Vector | None = None
    decided_shares: Vector | None = None

    @property
    def judged_by(self) -> Goal:
        """The goal, with its words and its scale."""
        return Goal(self.goal, self.costs, self.costs)

    @property
    def accuracy_before(self) -> Expected | None:
        """Expected accuracy on the target of predictions as they are."""
        return None if self.diagnostics is None else self.diagnostics.accuracy_before

    @property
    def accuracy_after(self) -> Expected | None:
        """Expected accuracy on the target after adapting; None for decisions."""
        if self.diagnostics is None or self.decided_shares is not None:
            return None
        return self.score_after if self.goal == "accuracy" else self.diagnostics.accuracy_after

    @property
    def shares_to_report(self) -> PriorEstimate:
        """Which class shares to report: PPI's where labels of the target contradict the estimate.

        Where both agree, those of the smaller standard errors.
        """
        return shares_to_report(self.estimate, self.ppi)

    def adapt(self, y_proba: ArrayLike, **options: Any) -> NDArray[Any]:
        """Do what the verdict says: adapt predictions, or leave their decisions alone.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities of any rows of the target.
        **options
            As for `PriorEstimate.adapt`.
        """
        return self.estimate.adapt(y_proba, **options)

    def report(self, path: str | PathLike[str], **more: Any) -> Path:
        """Write the assessment as one self-contained HTML page.

        Parameters
        ----------
        path : path-like
            The file to write, whole or not at all.
        **more
            As for `priorshift.report.write_report`: `title`, and the data for further sections.
        """
        return self.estimate.report(path, assessment=self, **more)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON."""
        parts = ("estimate", "shift_test", "assumption_test", "diagnostics", "measured", "ppi")
        found = {name: getattr(self, name) for name in parts}
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "reasons": list(self.reasons),
            "goal": self.goal,
            "gain": self.gain.to_dict(),
            "score_before": None if self.score_before is None else self.score_before.to_dict(),
            "score_after": None if self.score_after is None else self.score_after.to_dict(),
            "decided_shares": None
            if self.decided_shares is None
            else dict(
                zip(self.estimate.classes.tolist(), self.decided_shares.tolist(), strict=True)
            ),
            "n_val": self.n_val,
            "n_target": self.n_target,
            "rows_looked_at": self.rows_looked_at,
            **{name: None if part is None else part.to_dict() for name, part in found.items()},
            "warnings": list(self.warnings),
        }

    def __repr__(self) -> str:
        """Show the verdict, the reasons, and the classes that moved."""
        reasons = "\n".join(f"  - {reason}" for reason in self.reasons)
        return f"{self.sentence}\n{reasons}\n{self.estimate!r}"

    def _repr_html_(self) -> str:
        reasons = "".join(f"<li>{escape(reason)}</li>" for reason in self.reasons)
        return (
            f"<div><p><strong>{escape(self.sentence)}</strong></p><ul>{reasons}</ul>"
            f"{self.estimate._repr_html_()}</div>"
        )


@dataclass(frozen=True)
class Measured:
    """What labelled rows of the target say of predictions before and after adapting.

    Attributes
    ----------
    n_labelled : int
        Labelled rows.
    before, after, gain : Expected
        Accuracy, or what the goal names, and by how much it gets better, with intervals.
    expected_before : float or None
        Accuracy before adapting that validation promises on these rows, from that on each class.
    p_value : float or None
        Of the hypothesis that it holds: that decisions within classes are as good as on
        validation. None where no class has rows enough.
    """

    n_labelled: int
    before: Expected
    after: Expected
    gain: Expected
    expected_before: float | None = None
    p_value: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON."""
        named = {name: getattr(self, name).to_dict() for name in ("before", "after", "gain")}
        return {
            "n_labelled": self.n_labelled,
            **named,
            "expected_before": self.expected_before,
            "p_value": self.p_value,
        }


def assess(
    y_proba_val: ArrayLike | None = None,
    y_val: ArrayLike | None = None,
    y_proba_target: ArrayLike | None = None,
    *,
    y_pred_val: ArrayLike | None = None,
    y_pred_target: ArrayLike | None = None,
    source_priors: Any = None,
    source_label_priors: Any = None,
    classes: ArrayLike | None = None,
    method: str | PriorEstimator = "auto",
    y_target: ArrayLike | None = None,
    costs: Any = None,
    goal: GoalName = "accuracy",
    confidence_level: float = 0.95,
    random_state: int | np.random.Generator | None = None,
) -> Assessment:
    """Say whether to adapt predictions to a target, and why.

    Start here. `assess` estimates the target's class priors with intervals, tests whether they
    changed and whether nothing else did, works out the accuracy to expect before and after
    adapting, and weighs all of it into one verdict.

    Parameters
    ----------
    y_proba_val : array-like of shape (n_val, n_classes) or (n_val,)
        Predicted probabilities on validation, which the classifier was not trained on.
    y_val : array-like of shape (n_val,)
        Validation labels.
    y_proba_target : array-like of shape (n_target, n_classes) or (n_target,)
        Predicted probabilities on the target, from the same classifier. A target that is read in
        blocks is assessed by a sample of its rows.
    y_pred_val, y_pred_target : array-like of shape (n_val,) and (n_target,), optional
        Decisions on validation and target instead of probabilities. They cannot be adapted one by
        one; the assessment is about the class shares, corrected for the errors of the decisions.
    source_priors : array-like of shape (n_classes,) or mapping, optional
        Priors the classifier was trained under, as `fit` takes them.
    source_label_priors : array-like of shape (n_classes,) or mapping, optional
        Label frequencies of the training set.
    classes : array-like of shape (n_classes,), optional
        Class names in the order of the columns.
    method : str or PriorEstimator, default="auto"
        How to estimate the priors: a name, or an estimator that is not fitted. For decisions,
        "auto" is CM-L.
    y_target : array-like of shape (n_target,), optional
        Labels of the target, if you have some: None or NaN where a label is unknown, or -1 where
        that is no class.
    costs : array-like of shape (n_classes, n_classes) or mapping, optional
        What errors cost, as for `decide`: the verdict then rests on expected cost, of decisions
        that weigh it, instead of accuracy.
    goal : {"accuracy", "balanced_accuracy", "log_loss"}, default="accuracy"
        What adapting is to improve, without `costs`.
    confidence_level : float, default=0.95
        Of all intervals.
    random_state : None, int or numpy.random.Generator, optional
        For folds and resamples. None gives the same ones every time.

    Returns
    -------
    Assessment
        `verdict` is "adapt", "leave" or "unclear".

    Examples
    --------
    >>> import priorshift as ps
    >>> data = ps.datasets.load_fashion_lt()
    >>> found = ps.assess(
    ...     data.y_proba_val,
    ...     data.y_val,
    ...     data.y_proba_target,
    ...     classes=data.classes,
    ...     source_priors=data.source_priors,
    ... )
    >>> found.verdict
    'adapt'
    >>> adapted = found.adapt(data.y_proba_target)
    """
    check_level(confidence_level, "confidence_level")
    given = {"source_priors": source_priors, "source_label_priors": source_label_priors}
    if y_pred_val is not None or y_pred_target is not None:
        _require_pair(y_pred_val, y_pred_target, y_val, y_proba_val, y_proba_target)
        classes, decided, _ = read_decisions(y_pred_val, y_val, classes)  # type: ignore[arg-type]
        y_proba_val = Predictions.from_decisions(decided, classes.size)
        y_proba_target = as_decisions(y_pred_target, classes)
    data = _read(y_proba_val, y_val, y_proba_target, y_target, classes)
    if data.decisions and method == "auto":
        method = "cm-l"
    if data.decisions and goal == "log_loss":
        raise ValueError('goal="log_loss" needs probabilities; decisions have none.')
    seed = 0 if random_state is None else random_state
    with _collected() as told:
        estimator, aim = _estimator(method, random_state, costs, goal), (costs, goal)
        if "goal" in estimator.get_params():
            aim = (estimator.get_params()["costs"], estimator.get_params()["goal"])
        aimed = Goal.of(*aim, data.classes)
        fitted = estimator.fit(
            data.y_proba_val, data.classes[data.y_val], classes=data.classes, **given
        )
        estimate, no_interval = _estimated(fitted, data, confidence_level, seed)
    found = _weighed(data, estimate, given, confidence_level, seed, aimed)
    return replace(
        found,
        reasons=(*found.reasons, *no_interval),
        warnings=tuple(dict.fromkeys((*told, *found.warnings))),
    )


def _require_pair(
    y_pred_val: Any, y_pred_target: Any, y_val: Any, y_proba_val: Any, y_proba_target: Any
) -> None:
    """Refuse decisions of one part only, or with probabilities beside them."""
    if y_proba_val is not None or y_proba_target is not None:
        raise ValueError("y_proba and y_pred are two ways to give the same; pass one of them.")
    if y_pred_val is None or y_pred_target is None or y_val is None:
        raise ValueError(
            "an assessment of decisions needs y_pred_val, y_val and y_pred_target; one is missing."
        )


def weigh(
    estimate: PriorEstimate,
    y_proba_val: ArrayLike,
    y_val: ArrayLike,
    y_proba_target: ArrayLike,
    *,
    source_label_priors: Any = None,
    y_target: ArrayLike | None = None,
    confidence_level: float = 0.95,
    random_state: int | np.random.Generator | None = None,
) -> Assessment:
    """Assess an estimate that you have: `assess` without estimating.

    Parameters
    ----------
    estimate : PriorEstimate
        The target's class priors, from any estimator.
    y_proba_val, y_val, y_proba_target, source_label_priors, y_target, confidence_level, \
random_state
        As for `assess`.

    Returns
    -------
    Assessment
        Its `estimate` is the given one, with the `strength` that follows the verdict.

    Examples
    --------
    >>> import priorshift as ps
    >>> from priorshift.assessment import weigh
    >>> data = ps.datasets.load_fashion_lt()
    >>> fitted = ps.SCML().fit(data.y_proba_val, data.y_val, classes=data.classes)
    >>> shift = fitted.estimate(data.y_proba_target)
    >>> weigh(shift, data.y_proba_val, data.y_val, data.y_proba_target).verdict
    'adapt'
    """
    check_level(confidence_level, "confidence_level")
    data = _read(y_proba_val, y_val, y_proba_target, y_target, estimate.classes)
    # source priors that come from validation are no second opinion on it
    known = estimate.source_priors if estimate.source_priors_from == "given" else None
    given = {"source_priors": known, "source_label_priors": source_label_priors}
    seed = 0 if random_state is None else random_state
    return _weighed(data, estimate, given, confidence_level, seed)


def _weighed(
    data: "Data",
    estimate: PriorEstimate,
    given: dict[str, Any],
    level: float,
    seed: Any,
    goal: Goal = ACCURACY,
) -> Assessment:
    """Gather the evidence about an estimate, and weigh it."""
    with _collected() as told:
        diagnostics, why = _diagnosed(data, estimate, level)
        test, left_out = _tested(data, given, seed)
        goal = goal.at(estimate.priors)
        evidence = Evidence(
            estimate,
            test,
            diagnostics,
            _measured(data, estimate, level, goal),
            data.sizes,
            level,
            data.decided_shares,
            _powered(data, estimate, level),
            goal,
            _saved_on_validation(data, estimate, level, goal),
            _scored(data, estimate, level, goal, diagnostics),
        )
    verdict = evidence.verdict
    return Assessment(
        verdict=verdict,
        sentence=evidence.sentence,
        reasons=(*evidence.reasons, *why, *left_out, *data.notes),
        gain=evidence.gain,
        estimate=following(estimate, verdict),
        shift_test=test,
        assumption_test=None if test is None else test.assumption,
        diagnostics=diagnostics,
        measured=evidence.measured,
        ppi=evidence.ppi,
        n_val=data.y_val.size,
        n_target=data.n_target,
        rows_looked_at=data.y_proba_target.shape[0],
        warnings=tuple(told),
        advice=evidence.advice,
        goal=goal.name,
        score_before=evidence.before,
        score_after=evidence.after,
        costs=goal.costs,
        decided_shares=data.decided_shares,
    )


class Findings(NamedTuple):
    """What a verdict needs of a `ShiftTest`."""

    rejected: bool
    assumption: AssumptionTest | None


class Verdicts:
    """Give the verdict of `weigh`, and nothing else, on many groups or windows.

    What a verdict does not need is left out, such as the size of the shift. Beyond a fixed amount
    of work there are no more verdicts, so that thousands of groups do not take hours.

    Parameters
    ----------
    y_proba_val, y_val, source_label_priors
        As for `assess`.
    budget : int
        Rows times classes, of validation and of the target, to go through in all.

    Examples
    --------
    >>> import priorshift as ps
    >>> from priorshift.assessment import Verdicts
    >>> data = ps.datasets.load_fashion_lt()
    >>> known = {"source_priors": data.source_priors, "classes": data.classes}
    >>> fitted = ps.SCML().fit(data.y_proba_val, data.y_val, **known)
    >>> verdicts = Verdicts(data.y_proba_val, data.y_val)
    >>> half = data.y_proba_target[:2500]
    >>> verdicts.on(fitted.estimate(half), half)
    'adapt'
    """

    def __init__(
        self,
        y_proba_val: ArrayLike,
        y_val: ArrayLike,
        source_label_priors: Any = None,
        *,
        budget: int = BUDGET,
    ) -> None:
        self.validation = check_proba(y_proba_val, "y_proba_val"), y_val
        self.source_label_priors, self.budget = source_label_priors, budget

    def on(
        self, estimate: PriorEstimate, y_proba: ArrayLike, y: ArrayLike | None = None
    ) -> Verdict | None:
        """Return the verdict on some rows; None once the budget is spent.

        Parameters
        ----------
        estimate : PriorEstimate
            The priors of these rows.
        y_proba : array-like of shape (n_samples, n_classes)
        y : array-like of shape (n_samples,), optional
            Their labels, where known.
        """
        data = _read(*self.validation, y_proba, y, estimate.classes)
        K, n_rows = data.classes.size, data.y_val.size + data.n_target
        if K > MOST_CLASSES or self.budget < n_rows * (K + 10):
            self.budget = 0
            return None
        self.budget -= n_rows * (K + 10)
        with _collected():
            return self._weighed(data, estimate)

    def _weighed(self, data: "Data", estimate: PriorEstimate) -> Verdict:
        level = 0.95
        diagnostics, _ = _diagnosed(data, estimate, level)
        measured, ppi = _measured(data, estimate, level), _powered(data, estimate, level)
        evidence = Evidence(
            estimate, None, diagnostics, measured, data.sizes, level, data.decided_shares, ppi
        )
        rows = (data.y_proba_val, data.classes[data.y_val], data.y_proba_target)
        try:
            rejected = is_shifted(
                *rows, self.source_label_priors, classes=data.classes, random_state=0
            )
        except ValueError:  # too few rows
            return evidence.verdict
        evidence = replace(evidence, test=Findings(rejected, None))
        settled = not rejected and measured is None and evidence.verdict == "leave"
        if settled or data.classes.size > MOST_CLASSES_OF_ASSUMPTION:
            return evidence.verdict  # whatever else changed
        found = check_assumption(*rows, classes=data.classes, random_state=0)
        return replace(evidence, test=Findings(rejected, found)).verdict


class Sizes(NamedTuple):
    """Rows of validation, of its rarest class, and of the target."""

    n_val: int
    rarest: int
    rarest_class: Any
    n_target: int


@dataclass(frozen=True)
class Data:
    """Checked inputs; of a large target a sample."""

    classes: Labels
    y_proba_val: Predictions
    y_val: Indices
    y_proba_target: Predictions
    labelled: Indices
    """Rows of the target with a label."""
    y_target: Indices
    """Their labels."""
    n_target: int

    @property
    def labels(self) -> NDArray[np.object_]:
        """Labels of the target by name; None where there is none."""
        labels = np.full(self.y_proba_target.shape[0], None, dtype=object)
        labels[self.labelled] = self.classes[self.y_target]
        return labels

    @property
    def decisions(self) -> bool:
        """Whether rows are decisions, without probabilities."""
        return self.y_proba_target.decided is not None

    @property
    def decided_shares(self) -> Vector | None:
        """Shares of the decisions as counted; None where there are probabilities."""
        decided = self.y_proba_target.decided
        if decided is None:
            return None
        return np.bincount(decided, minlength=self.classes.size) / decided.size

    @property
    def sizes(self) -> Sizes:
        """Rows there are to judge from."""
        counts = np.bincount(self.y_val, minlength=self.classes.size)
        rarest = int(counts.argmin())
        return Sizes(self.y_val.size, int(counts[rarest]), self.classes[rarest], self.n_target)

    @property
    def notes(self) -> tuple[str, ...]:
        """Say that columns seem to be mixed up, and what was looked at if not everything."""
        notes = []
        said = order_in_words(self.y_proba_val.values, self.y_val, self.classes)
        if said is not None:
            notes.append(f"Before anything else: {said}")
        looked_at = self.y_proba_target.shape[0]
        if looked_at < self.n_target:
            notes.append(
                f"All of this rests on {looked_at:,} of the target's {self.n_target:,} rows, drawn "
                "at random."
            )
        return tuple(notes)


def _read(y_proba_val: Any, y_val: Any, y_proba_target: Any, y_target: Any, classes: Any) -> Data:
    y_proba_val, y_val = column_of(y_proba_val, y_val, "y_val", "y_proba_val")
    y_proba_target, y_target = column_of(y_proba_target, y_target, "y_target", "y_proba_target")
    labels = read_labels(y_val, None, "y_val")
    validation = check_proba(y_proba_val, "y_proba_val", classes=classes, labels=labels)
    labels = read_labels(labels, validation.values.shape[0], "y_val")
    names = settle_classes(validation, labels, classes)
    target = check_proba(y_proba_target, "y_proba_target", tables=True, classes=names)
    if is_named(y_proba_val):
        warn_of_missing_names(y_proba_target, names, "y_proba_target")
    target = ordered(target, names, "y_proba_target")
    n, K = target.shape
    index = draw_rows(n, K)
    if isinstance(target.values, Table) or index.size < n:
        target = target.take(index)
    known, truth = known_labels(y_target, names, n)
    position = np.searchsorted(index, known)
    kept = (position < index.size) & (index[np.minimum(position, index.size - 1)] == known)
    return Data(
        names,
        ordered(validation, names, "y_proba_val"),
        encode_labels(labels, names, "y_val"),
        target,
        position[kept],
        truth[kept],
        n,
    )


def draw_rows(n: int, n_classes: int) -> Indices:
    """Draw the rows of a large target to look at, the same every time; drawn twice counts once."""
    n_rows = max(1, SAMPLE_NUMBERS // n_classes)
    if n_rows >= n:
        return np.arange(n)
    return np.unique(np.random.default_rng(0).integers(n, size=n_rows))


def _estimator(
    method: str | PriorEstimator, random_state: Any, costs: Any, goal: GoalName
) -> PriorEstimator:
    named = isinstance(method, str)
    estimator: PriorEstimator = get_estimator(method) if isinstance(method, str) else clone(method)
    known = estimator.get_params()
    if named and random_state is not None and "random_state" in known:
        estimator.set_params(random_state=random_state)
    if "goal" in known and (costs is not None or goal != "accuracy"):
        estimator.set_params(costs=costs, goal=goal)
    return estimator


def _estimated(
    fitted: PriorEstimator, data: Data, level: float, seed: Any
) -> tuple[PriorEstimate, tuple[str, ...]]:
    """Estimate with an interval; without one, and saying so, where the method has none."""
    used = fitted.needs_target_labels or (fitted.uses_target_labels and data.labelled.size)
    labels: Any = {"y_target": data.labels} if used else {}
    try:
        return fitted.estimate(data.y_proba_target, level, seed, **labels), ()
    except ValueError as error:
        found = fitted.estimate(data.y_proba_target, **labels)
        return found, (f"There is no interval: {error}",)


@contextmanager
def _collected() -> Iterator[list[str]]:
    """Collect what is warned of, once each: the assessment tells it."""
    told: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield told
    told.extend(dict.fromkeys(str(warning.message) for warning in caught))


def _diagnosed(
    data: Data, estimate: PriorEstimate, level: float
) -> tuple[Diagnostics | None, tuple[str, ...]]:
    try:
        found = diagnose(
            data.y_proba_val,
            data.classes[data.y_val],
            data.y_proba_target,
            estimate,
            confidence_level=level,
        )
    except ValueError as error:
        return None, (f"There are no diagnostics: {error}",)
    return found, ()


def _tested(
    data: Data, given: dict[str, Any], seed: Any
) -> tuple[ShiftTest | None, tuple[str, ...]]:
    """Test for a shift and for nothing but a shift, where that does not take too long."""
    K = data.classes.size
    if K > MOST_CLASSES:
        return None, (
            f"The tests are left out: with {K:,} classes they would take too long. See "
            "priorshift.detect_shift.",
        )
    y_proba_val, y_val, y_proba_target = _thinned(data)
    numbers = (y_val.size + y_proba_target.shape[0]) * (K + 10)
    try:
        test = detect_shift(
            y_proba_val,
            y_val,
            y_proba_target,
            classes=data.classes,
            n_resamples=999 if numbers <= MANY_NUMBERS else 199,
            assumption=K <= MOST_CLASSES_OF_ASSUMPTION,
            random_state=seed,
            **given,
        )
    except ValueError as error:
        return None, (f"There is no test: {error}",)
    return test, ()


def _thinned(data: Data) -> tuple[Predictions, Labels, Predictions]:
    """Return both sides for the tests, or a random part of one that is too large."""
    most = MOST_NUMBERS // (data.classes.size + 10)
    rng = np.random.default_rng(0)
    sides = [data.y_proba_val, data.y_proba_target]
    labels = data.classes[data.y_val]
    for at, side in enumerate(sides):
        if side.shape[0] > most:
            rows = np.sort(rng.choice(side.shape[0], most, replace=False))
            sides[at] = Predictions.from_checked(side.values[rows])
            labels = labels[rows] if at == 0 else labels
    return sides[0], labels, sides[1]


def _measured(
    data: Data, estimate: PriorEstimate, level: float, goal: Goal = ACCURACY
) -> Measured | None:
    """Measure the goal on labelled rows of the target, before adapting and after, and the gain."""
    n, y = data.labelled.size, data.y_target
    if n < 2:
        return None
    rows = data.y_proba_target.values[data.labelled]
    # a decision without probabilities stays what it is
    adapted = rows if data.decisions else adapting(estimate).adapt(Predictions.from_checked(rows))
    right = (goal.decide(rows) == y).astype(np.float64)
    before, after = goal.scores(y, rows), goal.scores(y, adapted)
    saved = after - before if goal.in_points else before - after
    weight = _equal_classes(y) if goal.name == "balanced_accuracy" else np.ones(n)
    reach = float(ndtri((1 + level) / 2))

    def expected(scores: Vector, least: float, most: float) -> Expected:
        # one more row of either kind: no spread in few rows is no proof of none
        error = np.sqrt((scores.var() * n + 0.5 * (1 - scores.var())) / n) / np.sqrt(n)
        mean = float(scores.mean())
        return Expected(mean, max(least, mean - reach * error), min(most, mean + reach * error))

    def of_goal(scores: Vector, least: float, most: float) -> Expected:
        if goal.name == "accuracy":
            return expected(scores, least, most)
        found = _mean_score(weight * scores, level)
        return Expected(found.value, max(least, found.low), min(most, found.high))

    least, most = goal.bounds
    return Measured(
        n,
        of_goal(before, least, most),
        of_goal(after, least, most),
        of_goal(saved, least - most, most - least),
        *_as_on_validation(data, right, goal),
    )


def _equal_classes(y: Indices) -> Vector:
    """Return weights of rows under which every class that occurs weighs the same, of mean 1."""
    counts = np.bincount(y)
    return np.asarray(y.size / (np.count_nonzero(counts) * counts[y]))


def _scored(
    data: Data,
    estimate: PriorEstimate,
    level: float,
    goal: Goal,
    diagnostics: Diagnostics | None,
) -> tuple[Expected | None, Expected | None]:
    """Return the goal's score to expect on the target, before and after adapting.

    Per class as on validation, weighted by the estimated shares; in balanced accuracy all classes
    weigh the same.
    """
    if goal.name == "accuracy":
        if diagnostics is None:
            return None, None
        return diagnostics.accuracy_before, diagnostics.accuracy_after
    rows, y, K = data.y_proba_val.values, data.y_val, data.classes.size
    seen = np.bincount(y, minlength=K) > 0
    error = estimate.standard_error
    shares, noise = np.where(seen, estimate.priors, 0.0), np.zeros((K, K))
    if goal.name == "balanced_accuracy":
        shares = seen.astype(np.float64)
    elif error is not None:
        noise = np.diag(error**2)
    if not shares.any():
        return None, None
    adapted = adapting(estimate).adapt(Predictions.from_checked(rows))
    before, after = (
        expected_score(goal.scores(y, one), y, shares / shares.sum(), noise, level, goal.bounds)
        for one in (rows, adapted)
    )
    return before, after


def _saved(before: Any, after: Any, y: Indices, goal: Goal) -> Vector:
    """Return what adapting saves on rows whose class is known."""
    if goal.by_decisions:
        return goal.saved(y, goal.decide(before), goal.decide(after))
    return goal.scores(y, before) - goal.scores(y, after)


def _mean_score(saved: Vector, level: float) -> Expected:
    mean, reach = float(saved.mean()), float(ndtri((1 + level) / 2))
    error = float(np.sqrt((saved.var() + 1 / saved.size) / saved.size))
    return Expected(mean, mean - reach * error, mean + reach * error)


def _saved_on_validation(
    data: Data, estimate: PriorEstimate, level: float, goal: Goal
) -> Expected | None:
    """Return the gain in another goal than accuracy, where the method does not say it itself.

    Per class as on validation; the estimate that made the rule also scores it.
    """
    decided = estimate.decision
    if goal.name == "accuracy" or (decided is not None and decided["goal"] == goal.name):
        return None
    rows = data.y_proba_val.values
    adapted = adapting(estimate).adapt(Predictions.from_checked(rows))
    saved = _saved(rows, adapted, data.y_val, goal)
    error = estimate.standard_error
    K = data.classes.size
    noise = (
        np.zeros((K, K)) if error is None or goal.name == "balanced_accuracy" else np.diag(error**2)
    )
    most = max(goal.scale, float(np.abs(saved).max(initial=0.0)))
    seen = np.bincount(data.y_val, minlength=K) > 0
    return expected_score(
        saved, data.y_val, np.where(seen, estimate.priors, 0.0), noise, level, (-most, most)
    )


def _as_on_validation(
    data: Data, right: Vector, goal: Goal = ACCURACY
) -> tuple[float | None, float | None]:
    r"""Test whether decisions within classes are as good as on validation.

    With :math:`a_k` of :math:`n_k` labelled rows of class k decided rightly, and :math:`A_k` of all
    :math:`T_k`, validation's :math:`m_k` among them, the sum over K classes

    .. math:: \chi^2_K = \sum_k \frac{(a_k - n_k A_k / T_k)^2}{n_k m_k A_k (T_k - A_k) /
              (T_k^2 (T_k - 1))}

    compares each class by the moments of the hypergeometric distribution, as in the test of
    Cochran, Mantel and Haenszel (1959), but whatever the direction.

    Returns the accuracy that validation promises on these rows, and the p-value.
    """
    K, val = data.classes.size, data.y_proba_val.values
    hits = np.bincount(data.y_val, goal.decide(val) == data.y_val, K)
    m, n = np.bincount(data.y_val, minlength=K), np.bincount(data.y_target, minlength=K)
    both = (m > 0) & (n > 0)
    if not both.any():
        return None, None
    hits, m, n = hits[both], m[both].astype(np.float64), n[both].astype(np.float64)
    promised = float((n * hits / m).sum() / n.sum())
    found = np.bincount(data.y_target, right, K)[both]
    A, T = hits + found, m + n
    variance = n * m * A * (T - A) / (T**2 * np.maximum(T - 1, 1))
    tells = variance > 0  # not where all are right, or all wrong
    if not tells.any():
        return promised, None
    square = (found - n * A / T)[tells] ** 2 / variance[tells]
    return promised, float(chdtrc(np.count_nonzero(tells), square.sum()))


def _powered(data: Data, estimate: PriorEstimate, level: float) -> PriorEstimate | None:
    """Estimate shares by the labels of the target, for all classes together."""
    if data.labelled.size < 2:
        return None
    ppi = PPI().fit(classes=data.classes, source_priors=estimate.source_priors)
    return ppi.estimate(
        data.y_proba_target, confidence_level=level, y_target=data.labels, simultaneous=True
    )


def outside(ppi: PriorEstimate | None, low: Vector, high: Vector) -> Vector:
    """Return how far bounds of each share lie outside the interval that labels give it."""
    if ppi is None or ppi.interval is None:
        return np.zeros_like(low)
    least, most = ppi.interval.T
    return np.maximum(np.maximum(least - high, low - most), 0.0)


def prefers_estimate(estimate: PriorEstimate, ppi: PriorEstimate | None) -> bool:
    """Tell whether to report an estimate rather than the shares that labels and predictions give.

    Inside their intervals, those of the smaller standard errors are the better report.
    """
    if ppi is None or ppi.standard_error is None:
        return True
    if outside(ppi, estimate.priors, estimate.priors).any() or estimate.standard_error is None:
        return False
    return bool(estimate.standard_error.mean() <= np.mean(ppi.standard_error))


def shares_to_report(estimate: PriorEstimate, ppi: PriorEstimate | None) -> PriorEstimate:
    """Return the estimate, or what labels and predictions say where that is the better report."""
    return estimate if ppi is None or prefers_estimate(estimate, ppi) else ppi


def vaguest_share(estimate: PriorEstimate) -> int | None:
    """Return the class whose share is least known, if it is too vague to report."""
    if estimate.interval is None:
        return None
    width = np.ptp(estimate.interval, axis=1)
    return int(width.argmax()) if width.max() >= TOO_WIDE else None


def adapting(estimate: PriorEstimate) -> PriorEstimate:
    """Return an estimate that adapts, whatever it decided."""
    return estimate if estimate.strength > 0 else replace(estimate, strength=1.0)


def following(estimate: PriorEstimate, verdict: Verdict) -> PriorEstimate:
    """Return an estimate whose `adapt` does what the verdict says."""
    if verdict == "adapt":
        return adapting(estimate)
    if estimate.strength == 0:
        return estimate
    return replace(estimate, strength=0.0, calibrator=None)


def unexplained(test: ShiftTest | Findings | None, diagnostics: Diagnostics | None) -> float:
    r"""Return the share of the target that no change of priors explains, 0 unless it is refuted.

    The test's statistic T is twice a mean square of f deviations, in standard errors: chance alone
    makes it about 2. With M target rows and m effective validation rows,
    :math:`\phi^2 = f (T / 2 - 1) (1/M + 1/m)` is like Pearson's, and half of :math:`\phi` bounds
    the share of rows that moved.
    """
    found = None if test is None else test.assumption
    if found is None or not found.rejected or diagnostics is None:
        return 0.0
    excess = found.degrees_of_freedom * max(0.0, found.statistic / 2 - 1)
    noise = 1 / found.n_target + 1 / max(1.0, diagnostics.effective_sample_size)
    return float(min(1.0, 0.5 * np.sqrt(excess * noise)))


def shift_in_words(test: ShiftTest | None, estimate: PriorEstimate) -> str:
    """Say whether the class balance changed, with the number; nothing without a test.

    How far it changed is what the estimate says, as everywhere; the test has a noisier one.
    """
    if test is None:
        return ""
    if test.rejected:
        return (
            f"The class balance changed (p = {test.p_value:.3f}): about "
            f"{estimate.total_variation:.0%} of the cases are in other classes than training "
            "suggests."
        )
    noticed = f"a change of {test.alternative:.0%} of the cases would have been noticed with"
    unchanged = f"There is no evidence that the class balance changed (p = {test.p_value:.2f})"
    if test.power >= ENOUGH_POWER:
        return f"{unchanged}, and {noticed} {test.power:.0%} probability."
    return f"{unchanged}, but {noticed} {test.power:.0%} probability only."


def assumption_in_words(test: ShiftTest | None, diagnostics: Diagnostics | None) -> str:
    """Say whether only the class balance changed, with the number; nothing without a test."""
    found = None if test is None else test.assumption
    if found is None:
        return ""
    repeats = repeats_in_words(found)
    if found.p_value is None:
        return (
            f"There are too few rows to check that only the class balance changed: {found.n_val:,} "
            f"of validation and {found.n_target:,} of the target.{repeats}"
        )
    if not found.rejected:
        explained = "A change of class balance alone explains the target"
        return f"{explained} (p = {found.p_value:.2f}).{repeats}"
    return (
        f"A change of class balance alone does not explain the target (p = {found.p_value:.3f}):"
        f" up to {unexplained(test, diagnostics):.0%} of it looks different within its classes. "
        f"The verdict allows for that. (A target that was adapted already looks so too.){repeats}"
    )


def repeats_in_words(found: AssumptionTest) -> str:
    """Say how many rows repeat others, if any do: intervals count each of them."""
    sides = {"Validation": found.n_repeated_val, "The target": found.n_repeated_target}
    return "".join(
        f" {side} has {n:,} repeated rows: intervals are too narrow if these are copies."
        for side, n in sides.items()
        if n
    )


def labels_needed(gain: float, changed: float) -> int:
    r"""Return how many labelled target rows would tell whether adapting helps.

    A changed decision adds 1, 0 or -1 to what adapting gains, so with a share c of changed
    decisions, n labels measure a gain g with variance c / n at most. The verdict is "adapt" if g
    exceeds `CAUTION` standard errors; that happens 4 times out of 5 from

    .. math:: n = (\text{caution} + 0.84)^2 \, c / g^2

    on. Gains below one point of accuracy are not worth the labels: g counts as at least that. Fewer
    than 30 labels are never enough: the expected gain may be wrong.

    Examples
    --------
    >>> labels_needed(0.04, 0.1)
    261
    """
    needed = (CAUTION + float(ndtri(0.8))) ** 2 * changed / max(abs(gain), WORTH) ** 2
    return max(FEW_ROWS, int(np.ceil(needed)))


@dataclass(frozen=True)
class Evidence:
    """All that a verdict is made from."""

    estimate: PriorEstimate
    test: ShiftTest | Findings | None
    diagnostics: Diagnostics | None
    measured: Measured | None
    sizes: Sizes
    confidence_level: float
    decided: Vector | None = None
    """Shares of decisions as counted, where there are no probabilities: nothing to adapt."""
    ppi: PriorEstimate | None = None
    goal: Goal = ACCURACY
    saved: Expected | None = None
    """Gain in the goal by validation, where the estimate does not say it."""
    scored: tuple[Expected | None, Expected | None] = (None, None)
    """The goal's score by validation, before and after adapting."""

    @property
    def decisions(self) -> bool:
        """Whether there are decisions only."""
        return self.decided is not None

    @property
    def before(self) -> Expected | None:
        """The goal's score to expect as predictions are."""
        return self.scored[0]

    @property
    def after(self) -> Expected | None:
        """The score before and the gain by all evidence; its interval is as wide as validation's.

        None for decisions, which cannot be adapted.
        """
        before, found = self.scored
        if before is None or found is None or self.decisions:
            return None
        gain = self.gain.value if self.goal.in_points else -self.gain.value
        least, most = self.goal.bounds
        value = min(most, max(least, before.value + gain))
        low, high = value + found.low - found.value, value + found.high - found.value
        return Expected(value, max(least, low), min(most, high))

    @property
    def unexplained(self) -> float:
        """Share of the target that no change of priors explains, by the test or by labels."""
        found = self.estimate
        low, high = (found.priors,) * 2 if found.interval is None else found.interval.T
        by_labels = float(outside(self.ppi, low, high).sum())
        return min(1.0, max(unexplained(self.test, self.diagnostics), by_labels))

    @property
    def expected(self) -> tuple[float, float]:
        """Expected gain and its standard error, before any label of the target."""
        decided = self.estimate.decision
        if decided is not None and decided["goal"] == self.goal.name:
            return decided["expected_gain"], decided["expected_gain_se"]
        if self.saved is not None:
            return _mean_and_error(self.saved, self.confidence_level)
        if self.diagnostics is None:
            return 0.0, 1.0
        return _mean_and_error(self.diagnostics.accuracy_gain, self.diagnostics.confidence_level)

    @property
    def mean_and_error(self) -> tuple[float, float]:
        """Gain by all evidence, and how far it may be off."""
        if self.decisions:
            return 0.0, 0.0
        mean, error = self.expected
        error = float(np.hypot(error, self.unexplained * self.goal.scale))
        if self.measured is None:
            return mean, error
        seen, noise = _mean_and_error(self.measured.gain, self.confidence_level)
        weight = error**2 / (error**2 + noise**2)
        return mean + weight * (seen - mean), float(np.sqrt(weight) * noise)

    @property
    def gain(self) -> Expected:
        """Gain by all evidence, with its interval."""
        mean, error = self.mean_and_error
        reach = float(ndtri((1 + self.confidence_level) / 2)) * error
        most = 1.0 if self.goal.in_points else np.inf
        return Expected(mean, max(-most, mean - reach), min(most, mean + reach))

    @property
    def worth(self) -> float:
        """Gain below which adapting is not worth it."""
        return WORTH * self.goal.scale

    @property
    def no_shift(self) -> bool:
        """Whether there is no evidence that the class balance changed."""
        if self.test is not None:
            return not self.test.rejected
        return self.estimate.decision is not None and self.estimate.decision["reason"] == "no shift"

    @property
    def unknown_classes(self) -> list[Any]:
        """Classes that nothing is known of, so that predictions cannot be adapted to them."""
        decided = self.estimate.decision
        return [] if decided is None else list(decided["unknown_classes"])

    @property
    def verdict(self) -> Verdict:
        """Weigh gain, noise and tests; decisions cannot be adapted, and are always left."""
        if self.decisions:
            return "leave"
        mean, error = self.mean_and_error
        if self.unknown_classes:
            return "unclear"
        if mean > CAUTION * error and not (self.no_shift and mean < self.worth):
            return "adapt"
        if self.no_shift or mean + 1.64 * error < self.worth:
            return "leave"
        return "unclear"

    @property
    def sentence(self) -> str:
        """Say what to do, for a reader who knows no statistics."""
        verdict = self.verdict
        if self.decisions:
            return self._of_decisions()
        if verdict == "adapt":
            how = "rise" if self.goal.in_points else "fall"
            return f"Adapt: {self._changed()}{self.goal.word} should {how} {self._from_to()}."
        if verdict == "leave":
            return f"Leave the predictions as they are: {self._nothing_to_gain()}."
        if self.unknown_classes:
            return (
                f"Unclear: validation has no row of {self._unknown()}, so adapting to the new "
                "class balance would be a guess."
            )
        if self.unexplained > self.expected[1]:
            return (
                "Unclear: more than the class balance changed. The target looks different within "
                "its classes, so adapting may help or harm."
            )
        return (
            "Unclear: the class balance changed, but adapting may help or harm. "
            f"{self.goal.word.capitalize()} would change by {self._span()}."
        )

    def _unknown(self) -> str:
        first, *others = self.unknown_classes
        more = f" and {plural(len(others), 'other')}" if others else ""
        return f"class {quoted(str(first))}{more}"

    def _nothing_to_gain(self) -> str:
        mean, error = self.mean_and_error
        little = mean + 1.64 * error < self.worth
        if self.no_shift and not (self.test is None and little):
            return "there is no evidence that the class balance changed"
        changed = "" if self.test is None else "the class balance changed, but "
        if not self.goal.in_points:
            most = max(0.0, self.gain.high)
            return f"{changed}adapting would lower {self.goal.word} by {most:.2g} at most"
        most_points = _points(max(0.001, self.gain.high))
        return f"{changed}adapting would gain {most_points} points of {self.goal.word} at most"

    def _of_decisions(self) -> str:
        """Say that decisions stay, and which shares to report in place of their counts."""
        assert self.decided is not None
        shares, K = self.to_report.priors, self.decided.size
        vague = vaguest_share(self.to_report)
        if vague is not None and self.to_report.interval is not None:
            name = quoted(shorten(self.estimate.classes[vague], LONGEST_NAMED))
            low, high = (short_percent(bound) for bound in self.to_report.interval[vague].tolist())
            return (
                "Leave: your decisions stay as they are, and say too little to report class shares "
                f"({name}: {low} to {high}). Label some target rows."
            )
        few = K <= MOST_NAMED
        which = np.arange(K) if few else movers(shares - self.decided, MOST_NAMED - 1)
        named = [
            f"{quoted(shorten(self.estimate.classes[k], LONGEST_NAMED))} {short_percent(shares[k])}"
            f" (decided: {short_percent(self.decided[k])})"
            for k in which
        ]
        said = "these corrected shares: " if few else "the corrected shares, above all "
        return f"Leave: your decisions stay as they are. Report {said}{listed(named)}."

    @property
    def to_report(self) -> PriorEstimate:
        """Which shares to report: see `Assessment.shares_to_report`."""
        return shares_to_report(self.estimate, self.ppi)

    def _changed(self) -> str:
        shifted = self.test is not None and self.test.rejected
        return "the class balance has changed, and " if shifted else ""

    def _from_to(self) -> str:
        gain, span = self.gain, self._span()
        if self.before is not None and self.after is not None:
            show = percents if self.goal.in_points else numbers
            before, after = show(self.before.value, self.after.value)
            return f"from about {before} to {after} ({span})"
        if self.goal.in_points:
            return f"by about {_points(gain.value)} points ({span})"
        return f"by about {gain.value:.3g} ({span})"

    def _span(self) -> str:
        """Say between which bounds the goal would change."""
        gain = self.gain
        if not self.goal.in_points:
            return f"{-gain.high:+.2g} to {-gain.low:+.2g}"
        return f"{_signed(gain.low)} to {_signed(gain.high)} points"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Say what the verdict rests on, one sentence each with its number."""
        test = self.test if isinstance(self.test, ShiftTest) else None
        said = [
            shift_in_words(test, self.to_report if self.decisions else self.estimate),
            BY_DECISIONS if self.decisions else assumption_in_words(test, self.diagnostics),
            "" if self.decisions else self._of_gain(),
            self._of_labels(),
            self._of_accuracy(),
            self._of_shares(),
        ]
        said += [self._of_mismatch(), self.advice]
        return tuple(sentence for sentence in said if sentence)

    def _of_gain(self) -> str:
        mean, error = self.expected
        reach = float(ndtri((1 + self.confidence_level) / 2)) * error
        decided = self.estimate.decision
        tail = ""
        if decided is not None:
            tail = f" {decided['changed_decisions']:.0%} of the decisions would change."
        if self.goal.in_points:
            by = f"{_signed(mean)} points"
            span = f"{_signed(mean - reach)} to {_signed(mean + reach)}"
        else:
            by, span = f"{-mean:+.3g}", f"{-mean - reach:+.2g} to {-mean + reach:+.2g}"
        return (
            f"Judging by validation, adapting should change {self.goal.word} by {by} "
            f"({100 * self.confidence_level:g}% interval {span}).{tail}"
        )

    def _of_labels(self) -> str:
        found = self.measured
        if found is None:
            return ""
        if self.decisions:
            return (
                f"On {found.n_labelled:,} labelled rows of the target, {found.before.value:.1%} of "
                "the decisions are right."
            )
        before, after = f"{found.before.value:.1%}", f"{found.after.value:.1%}"
        if not self.goal.in_points:
            before, after = numbers(found.before.value, found.after.value)
        return (
            f"On {found.n_labelled:,} labelled rows of the target, {self.goal.word} is {before} "
            f"before and {after} after adapting."
        )

    def _of_accuracy(self) -> str:
        """Say whether labels of the target bear out that only the class balance changed."""
        found = self.measured
        if found is None or found.p_value is None or found.expected_before is None:
            return ""
        if found.p_value > 1 - self.confidence_level:
            return (
                "Within classes, decisions on them are as good as on validation "
                f"(p = {found.p_value:.2f})."
            )
        return (
            "Within classes, decisions on them are not as on validation, by which "
            f"{found.expected_before:.1%} should be right (p = {found.p_value:.3f}): more than the "
            "class balance changed."
        )

    def _of_shares(self) -> str:
        """Say whether the shares agree with what labels say of them, and which to report."""
        if self.ppi is None or self.ppi.interval is None:
            return ""
        shares, name = self.estimate.priors, self.estimate.method
        apart = outside(self.ppi, shares, shares)
        if apart.any():
            k = int(apart.argmax())
            low, high = self.ppi.interval[k]
            return (
                f"Those labels and all predictions (PPI) put class {self.estimate.classes[k]} at "
                f"{low:.1%} to {high:.1%}, whatever changed; {name} says "
                f"{shares[k]:.1%}. Report PPI's shares."
            )
        better = name if prefers_estimate(self.estimate, self.ppi) else "PPI"
        return (
            f"The shares by {name} are inside the intervals of PPI, which hold whatever changed. "
            f"Report those by {better}: they are more precise."
        )

    def _of_mismatch(self) -> str:
        decided = self.estimate.decision
        said = None if decided is None else decided["mismatch"]
        return "" if said is None else str(said).removeprefix("Note: ").capitalize()

    @property
    def advice(self) -> str:
        """Say what would help where the verdict is unclear."""
        if self.verdict != "unclear":
            return ""
        if self.unknown_classes:
            missing = plural(len(self.unknown_classes), "missing class", "missing classes")
            return f"Add validation rows of the {missing}, or give source_priors."
        n_val, rarest, name, n_target = self.sizes
        few = (
            self.diagnostics is not None and self.diagnostics.effective_sample_size < FEW_ROWS
        ) or rarest < FEW_ROWS
        if few:
            return (
                "More labelled validation rows would help most: class "
                f"{shorten(name)} has {rarest} of {n_val:,}."
            )
        if n_target < FEW_ROWS * self.estimate.classes.size:
            return f"More target rows would help most: there are {n_target:,}."
        return f"Labels of {self._labels} target rows would help most: pass them as y_target."

    @property
    def _labels(self) -> str:
        """How many labels would settle an unclear verdict, as far as that is known."""
        decided = self.estimate.decision
        if decided is None or self.goal.name not in ("accuracy", "cost"):
            return f"at least {SOME_LABELS}"
        gain = self.gain.value / self.goal.scale
        needed = labels_needed(gain, decided["changed_decisions"])
        return f"about {min(needed, self.sizes.n_target):,}"


def _mean_and_error(share: Expected, level: float) -> tuple[float, float]:
    """Return a share and its standard error, from an interval that may be cut at its ends."""
    reach = max(share.high - share.value, share.value - share.low)
    return share.value, max(reach / float(ndtri((1 + level) / 2)), 1e-6)


def _points(share: float) -> str:
    """Write a share as points: fewer digits where it is large."""
    return f"{100 * share:.{0 if abs(share) >= 0.0995 else 1}f}"


def _signed(share: float) -> str:
    return f"{100 * share:+.{0 if abs(share) >= 0.0995 else 1}f}"
