"""The facts of a report: checked inputs, the assessment, counts over the target; numbers only."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from priorshift._typing import Floats, Indices, Mask, Vector
from priorshift._validation import (
    Predictions,
    as_decisions,
    check_priors,
    check_proba,
    encode_labels,
    ordered,
    read_labels,
)
from priorshift.assessment import Assessment, adapting, weigh
from priorshift.diagnostics import Diagnostics, Reliability
from priorshift.estimators import PriorEstimate
from priorshift.evaluation import Comparison, MethodResult, Scores
from priorshift.execution import Block, Rows, Table, map_reduce
from priorshift.shift_test import ShiftTest
from priorshift.solvers import condition_number
from priorshift.statistics import Confusion
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
        Labels of each class.
    before, after : Scores or None
    """

    routes: Any
    truth: Vector | None = None
    before: Scores | None = None
    after: Scores | None = None


def count_target(
    estimate: PriorEstimate, rows: Rows, label: Indices | None
) -> tuple[Counted, list[str]]:
    """Go through the target once; return what adapting does to it, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        whole = isinstance(rows, np.ndarray)  # then a warning counts the rows of all of it
        adapted = estimate.adapt(Predictions.from_checked(rows)) if whole else None
        found = map_reduce(_Count(estimate, label, adapted), rows)
    told = [str(warning.message) for warning in caught]
    if isinstance(rows, Table):
        told = [KEPT_SOMEWHERE if KEPT in message else message for message in told]
    routes, hits_before, hits_after, loss_before, loss_after = found
    if label is None:
        return Counted(routes), told
    counts = np.bincount(label, minlength=estimate.classes.size)
    before = _scores(hits_before, loss_before, counts, estimate.source_priors)
    after = _scores(hits_after, loss_after, counts, estimate.priors)
    return Counted(routes, counts / counts.sum(), before, after), told


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
    """Count a block's decisions before and after; right ones by class, and add up log losses."""

    estimate: PriorEstimate
    label: Indices | None
    adapted: Floats | None

    def __call__(self, block: Block, rows: slice) -> tuple[Any, Vector, Vector, float, float]:
        if self.adapted is None:
            adapted = self.estimate.adapt(Predictions.from_checked(block))
        else:
            adapted = self.adapted[rows]
        before, after = block.argmax(axis=1), adapted.argmax(axis=1)
        K = block.shape[1]
        routes = csr_array((np.ones(before.size), (before, after)), shape=(K, K))
        if self.label is None:
            return routes, np.zeros(0), np.zeros(0), 0.0, 0.0
        truth = self.label[rows]
        hits = [
            np.bincount(truth[chosen == truth], minlength=K).astype(np.float64)
            for chosen in (before, after)
        ]
        loss_before, loss_after = (_log_loss(values, truth) for values in (block, adapted))
        return routes, *hits, loss_before, loss_after


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
    """Decisions (largest probability) on the target, before and after adaptation."""

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
            adapting(inputs.estimate), inputs.proba_target.values, inputs.label_target
        )
        decisions, truth = decisions_of(counted.routes), truth_of(counted)
        warned += told
    return Facts(
        estimate=inputs.estimate,
        assessment=assessment,
        shift=shift_of(inputs.estimate),
        decisions=decisions,
        mistakes=mistakes,
        reliability=reliability,
        truth=truth,
        comparison=inputs.comparison,
        n_val=_rows_of(inputs.proba_val, assessment, "n_val"),
        n_target=_rows_of(inputs.proba_target, assessment, "n_target") or inputs.estimate.n_target,
        warnings=tuple(dict.fromkeys(warned)),
    )


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
    return Truth(target.truth, target.before, target.after)


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
