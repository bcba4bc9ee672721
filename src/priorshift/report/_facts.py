"""The facts of a report: the assessment, and what it lacks, counted once over the rows given."""

import warnings
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit, logit

from priorshift._typing import Floats, Indices, Vector
from priorshift.adapt import Goal, adapt_proba, binary_cut
from priorshift.assessment import ACCURACY, Assessment, assess
from priorshift.border import (
    Block,
    Predictions,
    as_decisions,
    dense,
    encode_labels,
    map_reduce,
    read_labels,
    read_proba,
)
from priorshift.compare import Comparison, Scores, score_adapted
from priorshift.counts import Confusion
from priorshift.estimators import PriorEstimate
from priorshift.estimators.labelled import labels_needed
from priorshift.evidence import ungated
from priorshift.exceptions import KeptRowsWarning
from priorshift.plotting import ReliabilityDisplay
from priorshift.solvers import condition_number
from priorshift.text import movers

KNOWN = "known"
"""Method of an estimate that is none: its priors were given."""

ROUNDING = 1e-9
"""How far below 0 an unclipped entry may be by rounding alone."""

ENOUGH = 10
"""Validation rows from which on a class's errors are worth ranking."""

WIDTHS = (0.04, 0.02, 0.01, 0.004, 0.002, 0.001, 0.0004, 0.0002, 0.0001)
"""Full widths of intervals to plan labels for."""


@dataclass(eq=False)
class Facts:
    """Everything the report says in numbers; None where data were not given.

    Attributes
    ----------
    estimate, assessment, comparison
        As given; an assessment is made where there are rows for it and none was given.
    n_val, n_target : int
    warnings : tuple of str
    routes : tuple of two ndarrays or None
        Decisions per class before and after adapting.
    flows : tuple of three ndarrays or None
        Where changed decisions go, the largest flow first: class before, class after, rows.
    truth : ndarray or None
        Shares by the target's labels.
    scores : tuple of two Scores or None
        On these labels, before and after adapting.
    confusion : Confusion or None
        Decisions by true class on validation.
    conditions : tuple of two floats or None
        Condition numbers of the confusion matrix, with hard decisions and soft ones.
    pairs : tuple of four ndarrays or None
        The classes most confused: share, decision, true class, rows.
    reliability : ReliabilityDisplay or None
    predicted, observed : ndarray or None
        Mean probability and share of each class on validation; where the shares of training were
        given, of predictions adapted to validation's.
    decided : ndarray or None
        Shares of the decisions as counted, where there are no probabilities.
    plans : list of dict
        How many target rows to label for intervals of a full width.
    what_if : WhatIf or None
        Of two classes: what any other share would mean.
    """

    estimate: PriorEstimate
    assessment: Assessment | None
    comparison: Comparison | None
    n_val: int = 0
    n_target: int = 0
    warnings: tuple[str, ...] = ()
    routes: tuple[Indices, Indices] | None = None
    flows: tuple[Indices, Indices, Indices] | None = None
    truth: Vector | None = None
    scores: tuple[Scores, Scores] | None = None
    confusion: Confusion | None = None
    conditions: tuple[float, float] | None = None
    pairs: tuple[Vector, Indices, Indices, Indices] | None = None
    reliability: ReliabilityDisplay | None = None
    predicted: Vector | None = None
    observed: Vector | None = None
    decided: Vector | None = None
    plans: list[dict[str, Any]] = field(default_factory=list)
    what_if: "WhatIf | None" = None

    @property
    def shown(self) -> PriorEstimate:
        """The shares that the page shows: those to report, where there is an assessment."""
        return self.estimate if self.assessment is None else self.assessment.shares_to_report

    @property
    def goal(self) -> Goal:
        """What the verdict is about."""
        return ACCURACY if self.assessment is None else self.assessment.judged_by

    @property
    def adapts(self) -> bool:
        """Whether predictions are adapted in full: by the verdict, or else by the estimate."""
        if self.assessment is not None:
            return self.assessment.action == "adapt"
        return self.estimate.strength > 0

    @property
    def change(self) -> Vector:
        """By how much the share of each class grew."""
        return np.asarray(self.shown.priors - self.shown.source_priors)

    @property
    def n_changed(self) -> int:
        """Decisions that adapting changes."""
        return 0 if self.flows is None else int(self.flows[2].sum())

    @property
    def changed(self) -> float | None:
        """Share of decisions that adapting changes, if it is known."""
        if self.routes is not None:
            return self.n_changed / int(self.routes[0].sum())
        decided = self.estimate.decision
        return None if decided is None else float(decided["changed_decisions"])


def gather(
    estimate: PriorEstimate,
    *,
    assessment: Assessment | None = None,
    y_proba_val: Any = None,
    y_val: Any = None,
    y_proba_target: Any = None,
    y_target: Any = None,
    y_pred_val: Any = None,
    y_pred_target: Any = None,
    comparison: Comparison | None = None,
    warned: tuple[str, ...] = (),
) -> Facts:
    """Check everything once, and count what the assessment does not have."""
    if not isinstance(estimate, PriorEstimate):
        raise ValueError(
            f"a report is about a PriorEstimate; got {type(estimate).__name__}. Pass what "
            "estimator.estimate(y_proba_target) returns."
        )
    classes, estimated = estimate.classes, estimate.method != KNOWN
    for name, other in (
        ("comparison", comparison),
        ("assessment", None if assessment is None else assessment.estimate),
    ):
        if other is not None and other.classes.tolist() != classes.tolist():
            raise ValueError(
                f"{name} and estimate have different classes, or another order of them; make both "
                "from the same data with the same classes=."
            )
    val, label_val = _read(classes, y_proba_val, y_pred_val, y_val, "val")
    target, label_target = _read(classes, y_proba_target, y_pred_target, y_target, "target")
    lacking = estimated and assessment is None and label_val is not None
    if lacking and val is not None and target is not None:
        assessment = assess(
            val,
            classes[label_val],
            target,
            method=estimate,
            y_target=None if label_target is None else classes[label_target],
            confidence_level=estimate.confidence_level or 0.95,
        )
    facts = Facts(estimate, assessment, comparison, n_target=estimate.n_target, warnings=warned)
    if assessment is not None:
        facts.n_val, facts.n_target = assessment.n_val, assessment.n_target
        facts.decided = assessment.decided_shares
        facts.warnings += assessment.warnings
    if val is not None:
        facts.n_val = val.shape[0]
    if val is not None and label_val is not None:
        _count_validation(facts, val, label_val)
    if target is not None:
        facts.n_target = target.shape[0]
        if target.decided is not None:
            facts.decided = np.bincount(target.decided, minlength=classes.size) / facts.n_target
        else:
            _count_target(facts, target.values, label_target)
    if label_target is None and estimated:
        facts.plans = plan_labels(facts.shown, facts.confusion)
    facts.warnings = tuple(dict.fromkeys(facts.warnings))
    return facts


def _read(
    classes: Any, y_proba: Any, y_pred: Any, y: Any, part: str
) -> tuple[Predictions | None, Indices | None]:
    """Check predictions and labels of one data set; the target's may be a table."""
    if y_pred is not None:
        if y_proba is not None:
            raise ValueError(f"pass y_proba_{part} or y_pred_{part}, not both.")
        y_proba = as_decisions(y_pred, classes)
    if y_proba is None:
        if y is not None:
            raise ValueError(f"y_{part} needs the predictions it belongs to: pass y_proba_{part}.")
        return None, None
    name = f"y_proba_{part}"
    predictions = read_proba(y_proba, classes, name, tables=part == "target")
    if y is None:
        return predictions, None
    labels = read_labels(y, predictions.shape[0], f"y_{part}")
    return predictions, encode_labels(labels, classes, f"y_{part}")


def _count_validation(facts: Facts, val: Predictions, y: Indices) -> None:
    """Count decisions by true class, the pairs most confused, calibration, and other shares."""
    rows, estimate, K = val.values, facts.estimate, facts.estimate.classes.size
    facts.confusion = hard = Confusion.from_arrays(rows, y, decision="hard")
    known = None if facts.assessment is None else facts.assessment.diagnostics
    if known is not None:  # it takes long with many classes
        soft = known.condition_number
    else:
        matrix = Confusion.from_arrays(rows, y, decision="soft")
        soft = condition_number(matrix.conditional[:, matrix.seen])
    facts.conditions = condition_number(hard.conditional[:, hard.seen]), soft
    shares = hard.conditional
    np.fill_diagonal(shares, 0.0)
    enough = hard.class_weights >= ENOUGH
    if enough.any():
        shares[:, ~enough] = 0.0  # one error in a class of two would lead the list
    order = np.lexsort((-hard.counts.ravel(), -shares.ravel()))[:12]
    order = order[shares.ravel()[order] > 0]
    facts.pairs = shares.ravel()[order], order // K, order % K, hard.counts.ravel()[order]
    if val.decided is not None:
        return
    if K == 2 and estimate.method != KNOWN:
        facts.what_if = WhatIf.of(facts, rows, y)
    if estimate.source_priors_given:
        # calibrated for the shares of training; validation may have others
        shares = np.maximum(hard.class_frequencies, 0.5 / y.size)
        rows = adapt_proba(rows, estimate.source_priors, shares / shares.sum())
    facts.reliability = ReliabilityDisplay.of(rows, y)
    facts.predicted = rows.mean(axis=0, dtype=np.float64)
    facts.observed = hard.class_frequencies


def _count_routes(estimate: PriorEstimate, goal: Goal, block: Block, _: slice) -> Any:
    """Count a block's rows by decision before and after adapting."""
    adapted = estimate.adapt(Predictions.from_checked(block))
    before, after = goal.decide(block), goal.decide(adapted)
    return csr_array((np.ones(before.size), (before, after)), shape=(block.shape[1],) * 2)


def _count_target(facts: Facts, rows: Any, label: Indices | None) -> None:
    """Count what adapting does to the target, whatever was decided: a reader asks what would be."""
    full, K = ungated(facts.estimate), facts.estimate.classes.size
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = map_reduce(partial(_count_routes, full, facts.goal), dense(rows))
    messages = [warning.message for warning in caught]
    kept = [told.n_kept for told in messages if isinstance(told, KeptRowsWarning)]
    facts.warnings += tuple(str(m) for m in messages if not isinstance(m, KeptRowsWarning))
    if kept:  # each block counts its own
        facts.warnings += (str(KeptRowsWarning(sum(kept), rows.shape[0])),)
    routes = found.tocoo()
    moved = routes.row != routes.col
    before, after = routes.row[moved].astype(np.int64), routes.col[moved]
    n = routes.data[moved].astype(np.int64)
    order = np.argsort(before * K + after)  # of equally many rows, the first class comes first
    order = order[movers(n[order])]
    facts.flows = before[order], after[order], n[order]
    facts.routes = (
        np.bincount(routes.row, routes.data, minlength=K).astype(np.int64),
        np.bincount(routes.col, routes.data, minlength=K).astype(np.int64),
    )
    if label is not None:
        raw, costs = replace(full, priors=full.source_priors), facts.goal.costs
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            facts.scores = (
                score_adapted(raw, rows, label, costs, adapts=False),
                score_adapted(full, rows, label, costs),
            )
        facts.truth = np.bincount(label, minlength=K) / label.size


def plan_labels(estimate: PriorEstimate, confusion: Confusion | None) -> list[dict[str, Any]]:
    """Plan labels for intervals of a sensible full width, and of half the present width.

    A sensible width is at most half of the largest share: of a thousand classes, none has a share
    for which 4 points would say anything.
    """
    priors = estimate.priors
    widths = [next((w for w in WIDTHS if w <= float(priors.max()) / 2), WIDTHS[-1])]
    if estimate.interval is not None:
        half = float(f"{float(np.ptp(estimate.interval, axis=1).max()) / 2:.2g}")
        widths += [half] if half >= 1e-4 and half not in widths else []  # nobody plans for less
    plans = []
    for width in widths:
        n = labels_needed(
            width=width,
            confidence_level=estimate.confidence_level or 0.95,
            priors=priors,
            confusion=confusion if confusion is not None and confusion.seen.all() else None,
        )
        plans.append({"width": width, "labels": int(n), "with_predictions": n.with_predictions})
    return plans


@dataclass(frozen=True, eq=False)
class WhatIf:
    r"""What another share of the second of two classes would mean, by validation's scores.

    At a share :math:`\pi` the adapted log-odds of a score are those at the estimated share
    :math:`\hat\pi`, moved by :math:`\mathrm{logit}\,\pi - \mathrm{logit}\,\hat\pi`. A case is
    flagged where they reach :math:`\mathrm{logit}\,t`. Within a class scores are distributed as on
    validation, at every share.

    Attributes
    ----------
    scores : ndarray of shape (n_steps,)
        Raw scores, rising.
    log_odds : ndarray of shape (n_steps,)
        Of each after adapting to the estimated share; rising.
    above : ndarray of shape (2, n_steps)
        Share of each class's validation rows with at least that score.
    share, now : float
        The share of the second class that predictions are adapted to, and the one to report.
    cut : float
        Probability from which on a case is flagged: one half, or what costs ask for.
    threshold : float or None
        The raw score of that probability, after what the verdict says is done to predictions; None
        where no score reaches it.
    """

    scores: Vector
    log_odds: Vector
    above: Vector
    share: float
    now: float
    cut: float
    threshold: float | None

    @classmethod
    def of(cls, facts: Facts, y_proba: Floats, y: Indices) -> "WhatIf | None":
        """Count validation; None where there is nothing to tell the classes by."""
        share, now = float(facts.estimate.priors[1]), float(facts.shown.priors[1])
        cut = binary_cut(facts.goal.costs)
        if not 0 < share < 1 or not 0 < now < 1 or np.unique(y).size < 2 or cut is None:
            return None
        acting = facts.estimate if facts.assessment is None else facts.assessment.estimate
        scores = expit(np.linspace(-18, 18, 361))
        adapted = ungated(facts.estimate).adapt(np.column_stack([1 - scores, scores]))[:, 1]
        log_odds = np.maximum.accumulate(logit(adapted.clip(1e-12, 1 - 1e-12)))
        above = np.array(
            [
                1 - np.searchsorted(np.sort(of), scores) / of.size
                for of in (y_proba[y == k, 1].astype(np.float64) for k in (0, 1))
            ]
        )
        threshold = acting.threshold(facts.goal.costs)
        return cls(scores, log_odds.round(6), above.round(6), share, now, cut, threshold)

    def at(self, share: float) -> dict[str, float | None]:
        """Return threshold, alerts, missed cases and positive predictive value at a share."""
        needed = float(logit(self.cut) - logit(share) + logit(self.share))
        step = int(np.searchsorted(self.log_odds, needed))
        if step == self.scores.size:
            return {"share": share, "threshold": None, "alerts": 0.0, "missed": 1.0, "ppv": None}
        false, found = self.above[:, step].tolist()
        alerts = share * found + (1 - share) * false
        return {
            "share": share,
            "threshold": float(np.interp(needed, self.log_odds, self.scores)),
            "alerts": alerts,
            "missed": 1 - found,
            "ppv": share * found / alerts if alerts else None,
        }

    @property
    def rows(self) -> list[dict[str, float | None]]:
        """The table, with the share now among the others."""
        shares = {0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, self.now}
        return [self.at(share) for share in sorted(shares)]
