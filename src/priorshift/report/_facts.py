"""The facts of a report: checked inputs, the assessment, counts over the target; numbers only."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from priorshift._typing import Floats, Indices, Mask, Vector
from priorshift.adapt import Goal
from priorshift.assessment import ACCURACY, Assessment, adapting, weigh
from priorshift.border import (
    Block,
    Predictions,
    Rows,
    Table,
    as_decisions,
    check_priors,
    check_proba,
    encode_labels,
    map_reduce,
    ordered,
    read_labels,
)
from priorshift.compare import Comparison, MethodResult, Scores
from priorshift.counts import Confusion
from priorshift.estimators import PriorEstimate
from priorshift.estimators.ppi import labels_needed
from priorshift.evidence import Diagnostics, Reliability, ShiftTest
from priorshift.solvers import condition_number
from priorshift.text import movers

KNOWN = "known"
"""Method of an estimate that is none: its priors were given."""

KEPT = "rows have no class left that the target priors allow; they keep their original "
KEPT_SOMEWHERE = f"Some {KEPT}probabilities."


@dataclass(frozen=True, eq=False)
class Counted:
    """Decisions before and after adapting, and how good both are where labels are known.

    Attributes
    ----------
    routes : csr_array of shape (n_classes, n_classes)
        Rows by decision before and after.
    truth : ndarray of shape (n_classes,) or None
        Share of each class, by the labels.
    before, after : Scores or None
    cost : tuple of float or None
        Mean cost per case before and after, where errors have costs.
    """

    routes: Any
    truth: Vector | None = None
    before: Scores | None = None
    after: Scores | None = None
    cost: tuple[float, float] | None = None


def count_target(
    estimate: PriorEstimate, rows: Rows, label: Indices | None, goal: Goal = ACCURACY
) -> tuple[Counted, list[str]]:
    """Go through the target once; return what adapting does to it, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        whole = isinstance(rows, np.ndarray)  # then a warning counts the rows of all of it
        adapted = estimate.adapt(Predictions.from_checked(rows)) if whole else None
        found = map_reduce(_Count(estimate, label, adapted, goal), rows)
    told = [str(warning.message) for warning in caught]
    if isinstance(rows, Table):
        told = [KEPT_SOMEWHERE if KEPT in message else message for message in told]
    routes, hits_before, hits_after, loss_before, loss_after, cost_before, cost_after = found
    if label is None:
        return Counted(routes), told
    counts = np.bincount(label, minlength=estimate.classes.size)
    before = _scores(hits_before, loss_before, counts, estimate.source_priors)
    after = _scores(hits_after, loss_after, counts, estimate.priors)
    cost = None if goal.costs is None else (cost_before / label.size, cost_after / label.size)
    return Counted(routes, counts / counts.sum(), before, after, cost), told


def _scores(hits: Vector, loss: float, counts: Indices, priors: Vector) -> Scores:
    present, n = counts > 0, int(counts.sum())
    return Scores(
        accuracy=float(hits.sum() / n),
        balanced_accuracy=float((hits[present] / counts[present]).mean()),
        log_loss=float(loss / n),
        l1_error=float(np.abs(priors - counts / n).sum()),
    )


@dataclass(frozen=True)
class _Count:
    """Count a block's decisions before and after; add up right ones, log losses and costs."""

    estimate: PriorEstimate
    label: Indices | None
    adapted: Floats | None
    goal: Goal

    def __call__(self, block: Block, rows: slice) -> tuple[Any, ...]:
        if self.adapted is None:
            adapted = self.estimate.adapt(Predictions.from_checked(block))
        else:
            adapted = self.adapted[rows]
        before, after = self.goal.decide(block), self.goal.decide(adapted)
        K = block.shape[1]
        routes = csr_array((np.ones(before.size), (before, after)), shape=(K, K))
        if self.label is None:
            return routes, np.zeros(0), np.zeros(0), 0.0, 0.0, 0.0, 0.0
        truth = self.label[rows]
        hits = [
            np.bincount(truth[chosen == truth], minlength=K).astype(np.float64)
            for chosen in (before, after)
        ]
        loss_before, loss_after = (_log_loss(values, truth) for values in (block, adapted))
        prices = self.goal.costs
        paid = [
            0.0 if prices is None else float(prices[truth, chosen].sum())
            for chosen in (before, after)
        ]
        return routes, *hits, loss_before, loss_after, *paid


def _log_loss(values: Floats, truth: Indices) -> float:
    of_truth = values[np.arange(truth.size), truth].astype(np.float64)
    return float(-np.log(of_truth.clip(min=np.finfo(np.float64).eps)).sum())


@dataclass(frozen=True, eq=False)
class Inputs:
    """Clean inputs of a report; None for what was not given."""

    estimate: PriorEstimate
    assessment: Assessment | None
    proba_val: Predictions | None
    label_val: Indices | None
    proba_target: Predictions | None
    label_target: Indices | None
    comparison: Comparison | None
    source_label_priors: Vector | None
    warnings: tuple[str, ...]


def check_inputs(
    estimate: PriorEstimate,
    *,
    assessment: Assessment | None = None,
    y_proba_val: ArrayLike | None,
    y_val: ArrayLike | None,
    y_proba_target: ArrayLike | Rows | None,
    y_target: ArrayLike | None,
    comparison: Comparison | None,
    y_pred_val: ArrayLike | None = None,
    y_pred_target: ArrayLike | None = None,
    source_label_priors: Any = None,
    warned: tuple[str, ...],
) -> Inputs:
    """Check everything once."""
    if not isinstance(estimate, PriorEstimate):
        raise ValueError(
            f"a report is about a PriorEstimate; got {type(estimate).__name__}. Pass what "
            "estimator.estimate(y_proba_target) returns."
        )
    _require_same_classes(estimate, comparison, "comparison")
    _require_same_classes(
        estimate, None if assessment is None else assessment.estimate, "assessment"
    )
    proba_val, label_val = _part(estimate, y_proba_val, y_pred_val, y_val, "val")
    proba_target, label_target = _part(estimate, y_proba_target, y_pred_target, y_target, "target")
    label_priors = None
    if source_label_priors is not None:
        label_priors = check_priors(source_label_priors, estimate.classes, "source_label_priors")
    return Inputs(
        estimate,
        assessment,
        proba_val,
        label_val,
        proba_target,
        label_target,
        comparison,
        label_priors,
        warned,
    )


def assessed(inputs: Inputs) -> Assessment | None:
    """Return the assessment given, or weigh the estimate where there are rows to do it with."""
    if inputs.assessment is not None:
        return inputs.assessment
    if inputs.estimate.method == KNOWN:
        return None
    if inputs.proba_val is None or inputs.label_val is None or inputs.proba_target is None:
        return None
    classes = inputs.estimate.classes
    truth = None if inputs.label_target is None else classes[inputs.label_target]
    return weigh(
        inputs.estimate,
        inputs.proba_val,
        classes[inputs.label_val],
        inputs.proba_target,
        source_label_priors=inputs.source_label_priors,
        y_target=truth,
        confidence_level=inputs.estimate.confidence_level or 0.95,
    )


def _part(
    estimate: PriorEstimate, y_proba: Any, y_pred: Any, y: Any, part: str
) -> tuple[Predictions | None, Indices | None]:
    """Check predictions and labels of one data set; the target's may be a table."""
    if y_pred is not None:
        if y_proba is not None:
            raise ValueError(f"pass y_proba_{part} or y_pred_{part}, not both.")
        y_proba = as_decisions(y_pred, estimate.classes)
    if y_proba is None:
        if y is not None:
            raise ValueError(f"y_{part} needs the predictions it belongs to: pass y_proba_{part}.")
        return None, None
    name = f"y_proba_{part}"
    predictions = check_proba(y_proba, name, tables=part == "target", classes=estimate.classes)
    predictions = ordered(predictions, estimate.classes, name)
    if y is None:
        return predictions, None
    labels = read_labels(y, predictions.shape[0], f"y_{part}")
    return predictions, encode_labels(labels, estimate.classes, f"y_{part}")


def _require_same_classes(
    estimate: PriorEstimate, other: Comparison | PriorEstimate | None, name: str
) -> None:
    if other is not None and other.classes.tolist() != estimate.classes.tolist():
        raise ValueError(
            f"{name} and estimate have different classes, or another order of them; make both "
            "from the same data with the same classes=."
        )


MAX_FLOWS = 15
MAX_PAIRS = 12
ROUNDING = 1e-9
"""How far below 0 an unclipped entry may be by rounding alone."""
ENOUGH = 10
"""Validation samples from which on a class's errors are worth ranking."""


@dataclass(frozen=True, eq=False)
class Shift:
    """How the priors moved."""

    change: Vector
    total_variation: float
    by_size: Indices
    """Classes by |change|, largest first."""


@dataclass(frozen=True, eq=False)
class Flow:
    """Rows whose decision goes from one class to another."""

    before: int
    after: int
    rows: int


@dataclass(frozen=True, eq=False)
class Decisions:
    """Decisions on the target, before and after adaptation.

    Each is the most probable class or, where errors have costs, the one of least expected cost.
    """

    before: Indices
    after: Indices
    n_rows: int
    n_changed: int
    flows: tuple[Flow, ...]
    n_flows: int

    @property
    def difference(self) -> Indices:
        """Decisions that each class gains."""
        return self.after - self.before


@dataclass(frozen=True, eq=False)
class Pair:
    """Samples of one class that were decided to be another."""

    truth: int
    decision: int
    rows: int
    share: float


@dataclass(frozen=True, eq=False)
class Mistakes:
    """The classifier's confusion matrix on validation."""

    hard: Confusion
    condition_hard: float
    condition_soft: float
    pairs: tuple[Pair, ...]

    @property
    def accuracy(self) -> float:
        """Share of right decisions on validation."""
        return float(np.trace(self.hard.counts) / self.hard.counts.sum())

    @property
    def seen(self) -> Mask:
        """Which classes validation has."""
        return self.hard.seen


@dataclass(frozen=True, eq=False)
class Truth:
    """What target labels say, before and after adaptation."""

    priors: Vector
    before: Scores
    after: Scores
    cost: tuple[float, float] | None = None


@dataclass(frozen=True)
class Plan:
    """How many target rows to label for intervals of a given full width."""

    width: float
    labels: int
    with_predictions: int | None
    halves: bool = False
    """Whether this is half the width of the widest interval now."""


@dataclass(frozen=True, eq=False)
class Facts:
    """Everything the report says in numbers; None where data were not given."""

    estimate: PriorEstimate
    assessment: Assessment | None
    shift: Shift
    decisions: Decisions | None
    mistakes: Mistakes | None
    reliability: Reliability | None
    truth: Truth | None
    comparison: Comparison | None
    n_val: int
    n_target: int
    warnings: tuple[str, ...]
    decided: Vector | None = None
    """Shares of the decisions as counted, where there are no probabilities."""
    plans: tuple[Plan, ...] = ()

    @property
    def shown(self) -> PriorEstimate:
        """The shares that the page shows: of decisions, those to report."""
        return _shown(self.estimate, self.assessment)

    @property
    def goal(self) -> Goal:
        """What the verdict is about."""
        return ACCURACY if self.assessment is None else self.assessment.judged_by

    @property
    def verdict(self) -> str | None:
        """The assessment's verdict, if there is an assessment."""
        return None if self.assessment is None else self.assessment.verdict

    @property
    def adapts(self) -> bool:
        """Whether predictions are adapted: by the verdict or, without one, by the estimate."""
        if self.assessment is not None:
            return self.assessment.verdict == "adapt"
        return self.estimate.strength > 0

    @property
    def test(self) -> ShiftTest | None:
        """The shift test, if there was one."""
        return None if self.assessment is None else self.assessment.shift_test

    @property
    def diagnostics(self) -> Diagnostics | None:
        """The diagnostics, if there are any."""
        return None if self.assessment is None else self.assessment.diagnostics

    @property
    def changed_decisions(self) -> float | None:
        """Share of decisions that adapting changes, if it is known."""
        if self.decisions is not None:
            return self.decisions.n_changed / self.decisions.n_rows
        decided = self.estimate.decision
        return None if decided is None else float(decided["changed_decisions"])

    @property
    def estimating(self) -> tuple[MethodResult, ...]:
        """The compared methods that have an agreement, farthest from the others first."""
        results = () if self.comparison is None else self.comparison.results
        judged = [r for r in results if r.agreement is not None]
        return tuple(sorted(judged, key=lambda r: r.agreement or 0.0))


def gather(inputs: Inputs) -> Facts:
    """Compute the facts of a report; what adapting warns of joins the other warnings."""
    mistakes = reliability = decisions = truth = None
    assessment, warned = assessed(inputs), list(inputs.warnings)
    if assessment is not None:
        warned += assessment.warnings
    if inputs.proba_val is not None and inputs.label_val is not None:
        known = None if assessment is None else assessment.diagnostics
        mistakes = mistakes_of(
            inputs.proba_val.values,
            inputs.label_val,
            None if known is None else known.condition_number,
        )
        if inputs.proba_val.decided is None:
            reliability = Reliability.of(inputs.proba_val.values, inputs.label_val)
    if inputs.proba_target is not None and inputs.proba_target.decided is None:
        # as if adapted, whatever was decided: a reader asks what would change
        counted, told = count_target(
            adapting(inputs.estimate),
            inputs.proba_target.values,
            inputs.label_target,
            ACCURACY if assessment is None else assessment.judged_by,
        )
        decisions, truth = decisions_of(counted.routes), truth_of(counted)
        warned += told
    return Facts(
        estimate=inputs.estimate,
        assessment=assessment,
        shift=shift_of(_shown(inputs.estimate, assessment)),
        decisions=decisions,
        mistakes=mistakes,
        reliability=reliability,
        truth=truth,
        comparison=inputs.comparison,
        n_val=_rows_of(inputs.proba_val, assessment, "n_val"),
        n_target=_rows_of(inputs.proba_target, assessment, "n_target") or inputs.estimate.n_target,
        warnings=tuple(dict.fromkeys(warned)),
        decided=_decided_shares(inputs, assessment),
        plans=()
        if inputs.label_target is not None
        else plans_of(_shown(inputs.estimate, assessment), mistakes),
    )


def _shown(estimate: PriorEstimate, assessment: Assessment | None) -> PriorEstimate:
    if assessment is None or assessment.decided_shares is None:
        return estimate
    return assessment.shares_to_report


def _decided_shares(inputs: Inputs, assessment: Assessment | None) -> Vector | None:
    """Return the shares of the target's decisions, if there are decisions only."""
    decided = None if inputs.proba_target is None else inputs.proba_target.decided
    if decided is not None:
        return np.bincount(decided, minlength=inputs.estimate.classes.size) / decided.size
    return None if assessment is None else assessment.decided_shares


WIDTHS = (0.04, 0.02, 0.01, 0.004, 0.002, 0.001, 0.0004, 0.0002, 0.0001)
"""Full widths of intervals to plan labels for."""

TYPED = 12
"""Classes whose shares a command can be given by hand."""


def plans_of(estimate: PriorEstimate, mistakes: "Mistakes | None") -> tuple[Plan, ...]:
    """Plan labels for intervals of a sensible width, and of half the present width.

    A sensible width is at most half of the largest share: of a thousand classes, none has a share
    for which 4 points would say anything.
    """
    if estimate.method == KNOWN:
        return ()
    priors, level = planned_shares(estimate), estimate.confidence_level or 0.95
    width = next((w for w in WIDTHS if w <= float(priors.max()) / 2), WIDTHS[-1])
    widths = {width: False}
    if estimate.interval is not None:
        half = float(f"{float(np.ptp(estimate.interval, axis=1).max()) / 2:.2g}")
        if half > 0 and half != width:
            widths[half] = True
    seen = mistakes is not None and bool(mistakes.seen.all())
    confusion = mistakes.hard if seen and mistakes is not None else None
    found = {
        width: labels_needed(
            width=width, confidence_level=level, priors=priors, confusion=confusion
        )
        for width in widths
    }
    return tuple(
        Plan(width, int(n), n.with_predictions, halves=widths[width]) for width, n in found.items()
    )


def planned_shares(estimate: PriorEstimate) -> Vector:
    """Return the shares to plan for: rounded where a command names them, so that it agrees."""
    if estimate.classes.size > TYPED:
        return estimate.priors
    return np.round(estimate.priors, 4)


def _rows_of(rows: Predictions | None, assessment: Assessment | None, name: str) -> int:
    if rows is not None:
        return int(rows.shape[0])
    return 0 if assessment is None else int(getattr(assessment, name))


def shift_of(estimate: PriorEstimate) -> Shift:
    r"""Measure the shift: :math:`\mathrm{TV} = \frac12 \sum_k |p_k - s_k|`."""
    change = estimate.priors - estimate.source_priors
    size = np.abs(change)
    return Shift(change, estimate.total_variation, movers(size))


def decisions_of(routes: Any) -> Decisions:
    """Sum up decisions before and after, and where the changed ones go.

    `routes` is the sparse matrix of rows by decision before and after.
    """
    routes = routes.tocoo()
    K = routes.shape[0]
    changed = routes.row != routes.col
    before, after = routes.row[changed].astype(np.int64), routes.col[changed]
    rows = routes.data[changed].astype(np.int64)
    order = np.argsort(before * K + after)  # of equally many rows, the first class comes first
    before, after, rows = before[order], after[order], rows[order]
    largest = movers(rows, MAX_FLOWS)
    flows = tuple(Flow(int(before[i]), int(after[i]), int(rows[i])) for i in largest)
    return Decisions(
        np.bincount(routes.row, routes.data, minlength=K).astype(np.int64),
        np.bincount(routes.col, routes.data, minlength=K).astype(np.int64),
        int(routes.data.sum()),
        int(rows.sum()),
        flows,
        rows.size,
    )


def truth_of(target: Counted) -> Truth | None:
    """Return what labels of the target say, if there are any."""
    if target.truth is None or target.before is None or target.after is None:
        return None
    return Truth(target.truth, target.before, target.after, target.cost)


def mistakes_of(y_proba: Floats, y: Indices, condition_soft: float | None = None) -> Mistakes:
    """Count decisions by true class; find the pairs of classes most confused.

    The condition number of the soft matrix takes long with many classes, and may be known.
    """
    hard = Confusion.from_arrays(y_proba, y, decision="hard")
    if condition_soft is None:
        soft = Confusion.from_arrays(y_proba, y, decision="soft")
        condition_soft = condition_number(soft.conditional[:, soft.seen])
    shares = hard.conditional
    np.fill_diagonal(shares, 0.0)
    enough = hard.class_weights >= ENOUGH
    if enough.any():
        shares[:, ~enough] = 0.0  # one error in a class of two would lead the list
    order = np.lexsort((-hard.counts.ravel(), -shares.ravel()))[:MAX_PAIRS]
    pairs = tuple(
        Pair(int(cell % y_proba.shape[1]), int(cell // y_proba.shape[1]), int(n), float(share))
        for cell, n, share in zip(
            order, hard.counts.ravel()[order], shares.ravel()[order], strict=True
        )
        if share > 0
    )
    return Mistakes(
        hard,
        condition_number(hard.conditional[:, hard.seen]),
        condition_soft,
        pairs,
    )
