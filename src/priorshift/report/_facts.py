"""The facts of a report: numbers only, no words and no pictures."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from priorshift._typing import Floats, Indices, Mask, Vector
from priorshift.diagnostics import Diagnostics, Reliability
from priorshift.estimators import PriorEstimate
from priorshift.evaluation import Comparison, MethodResult, Scores
from priorshift.report._inputs import Inputs
from priorshift.report._target import Counted
from priorshift.report._trust import Trust, judge
from priorshift.shift_test import ShiftTest
from priorshift.solvers import condition_number
from priorshift.statistics import Confusion
from priorshift.text import movers

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
    shift: Shift
    decisions: Decisions | None
    mistakes: Mistakes | None
    reliability: Reliability | None
    truth: Truth | None
    trust: Trust | None
    comparison: Comparison | None
    n_val: int | None
    warnings: tuple[str, ...]

    @property
    def test(self) -> ShiftTest | None:
        """The shift test, if there was one."""
        return None if self.trust is None else self.trust.test

    @property
    def diagnostics(self) -> Diagnostics | None:
        """The diagnostics, if there are any."""
        return None if self.trust is None else self.trust.diagnostics

    @property
    def left_alone(self) -> bool:
        """Whether adapting changes nothing, by decision of the estimate."""
        return self.estimate.strength == 0 and self.estimate.calibrator is None

    @property
    def n_target(self) -> int:
        """Target rows: those of the estimate, or those at hand where priors were given."""
        return self.estimate.n_target or (0 if self.decisions is None else self.decisions.n_rows)

    @property
    def estimating(self) -> tuple[MethodResult, ...]:
        """The compared methods that have an agreement, farthest from the others first."""
        results = () if self.comparison is None else self.comparison.results
        judged = [r for r in results if r.agreement is not None]
        return tuple(sorted(judged, key=lambda r: r.agreement or 0.0))


def gather(inputs: Inputs) -> Facts:
    """Compute the facts of a report."""
    mistakes = reliability = decisions = truth = None
    trust = judge(inputs)
    if inputs.proba_val is not None and inputs.label_val is not None:
        known = None if trust is None else trust.diagnostics
        mistakes = mistakes_of(
            inputs.proba_val.values,
            inputs.label_val,
            None if known is None else known.condition_number,
        )
        reliability = Reliability.of(inputs.proba_val.values, inputs.label_val)
    if inputs.target is not None:
        decisions, truth = decisions_of(inputs.target.routes), truth_of(inputs.target)
    return Facts(
        estimate=inputs.estimate,
        shift=shift_of(inputs.estimate),
        decisions=decisions,
        mistakes=mistakes,
        reliability=reliability,
        truth=truth,
        trust=trust,
        comparison=inputs.comparison,
        n_val=None if inputs.proba_val is None else inputs.proba_val.shape[0],
        warnings=tuple(dict.fromkeys([*inputs.warnings, *(trust.warnings if trust else ())])),
    )


def shift_of(estimate: PriorEstimate) -> Shift:
    r"""Measure the shift: :math:`\mathrm{TV} = \frac12 \sum_k |p_k - s_k|`."""
    change = estimate.priors - estimate.source_priors
    size = np.abs(change)
    return Shift(change, float(size.sum() / 2), movers(size))


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
