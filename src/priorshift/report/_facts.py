"""The facts of a report: the assessment, and what it lacks, counted once over the rows given."""

import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.special import expit, logit

from priorshift._typing import Floats, Indices, Vector
from priorshift.adapt import Goal, adapt_proba, binary_cut
from priorshift.assessment import ACCURACY, Assessment, adapting, weigh
from priorshift.border import (
    Block,
    Predictions,
    as_decisions,
    check_priors,
    check_proba,
    encode_labels,
    map_reduce,
    ordered,
    read_labels,
)
from priorshift.compare import Comparison, Scores, score_adapted
from priorshift.counts import Confusion
from priorshift.estimators import PriorEstimate
from priorshift.estimators.labelled import labels_needed
from priorshift.evidence import Reliability
from priorshift.exceptions import KeptRowsWarning
from priorshift.solvers import condition_number
from priorshift.text import movers

KNOWN = "known"
"""Method of an estimate that is none: its priors were given."""

ROUNDING = 1e-9
"""How far below 0 an unclipped entry may be by rounding alone."""

ENOUGH = 10
"""Validation rows from which on a class's errors are worth ranking."""

TYPED = 12
"""Classes whose shares a command can be given by hand."""

WIDTHS = (0.04, 0.02, 0.01, 0.004, 0.002, 0.001, 0.0004, 0.0002, 0.0001)
"""Full widths of intervals to plan labels for."""


class Plan(NamedTuple):
    """How many target rows to label for intervals of a given full width."""

    width: float
    labels: int
    with_predictions: int | None


class SeenBefore(NamedTuple):
    """Share of validation decided rightly; how sure the model should be, and is, of the target."""

    accuracy: float
    expected: float
    confidence: float


@dataclass(frozen=True, eq=False)
class Facts:
    """Everything the report says in numbers; None where data were not given.

    Attributes
    ----------
    estimate, assessment, comparison
        As given; an assessment is made where there are rows for it and none was given.
    shown : PriorEstimate
        The shares that the page shows: those to report, where there is an assessment.
    goal : Goal
        What the verdict is about.
    n_val, n_target : int
    warnings : tuple of str
    routes : tuple of two ndarrays or None
        Decisions per class before and after adapting.
    flows : list of (before, after, rows) or None
        Where the changed decisions go, the largest flow first.
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
    reliability : Reliability or None
    predicted, observed : ndarray or None
        Mean probability and share of each class on validation; where the shares of training were
        given, of predictions adapted to validation's.
    decided : ndarray or None
        Shares of the decisions as counted, where there are no probabilities.
    plans : tuple of Plan
    what_if : WhatIf or None
        Of two classes: what any other share would mean.
    seen_before : SeenBefore or None
        Signs that the model was trained on validation.
    """

    estimate: PriorEstimate
    assessment: Assessment | None
    comparison: Comparison | None
    shown: PriorEstimate
    goal: Goal
    n_val: int
    n_target: int
    warnings: tuple[str, ...]
    routes: tuple[Indices, Indices] | None = None
    flows: list[tuple[int, int, int]] | None = None
    truth: Vector | None = None
    scores: tuple[Scores, Scores] | None = None
    confusion: Confusion | None = None
    conditions: tuple[float, float] | None = None
    pairs: tuple[Vector, Indices, Indices, Indices] | None = None
    reliability: Reliability | None = None
    predicted: Vector | None = None
    observed: Vector | None = None
    decided: Vector | None = None
    plans: tuple[Plan, ...] = ()
    what_if: "WhatIf | None" = None
    seen_before: "SeenBefore | None" = None

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
        return sum(rows for _, _, rows in self.flows or ())

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
    y_proba_val: ArrayLike | None = None,
    y_val: ArrayLike | None = None,
    y_proba_target: Any = None,
    y_target: ArrayLike | None = None,
    y_pred_val: ArrayLike | None = None,
    y_pred_target: ArrayLike | None = None,
    comparison: Comparison | None = None,
    source_label_priors: Any = None,
    warned: tuple[str, ...] = (),
) -> Facts:
    """Check everything once, and count what the assessment does not have."""
    if not isinstance(estimate, PriorEstimate):
        raise ValueError(
            f"a report is about a PriorEstimate; got {type(estimate).__name__}. Pass what "
            "estimator.estimate(y_proba_target) returns."
        )
    classes = estimate.classes
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
    if source_label_priors is not None:
        source_label_priors = check_priors(source_label_priors, classes, "source_label_priors")
    enough = label_val is not None and target is not None and estimate.method != KNOWN
    if assessment is None and enough and val is not None and label_val is not None:
        assessment = weigh(
            estimate,
            val,
            classes[label_val],
            target,  # type: ignore[arg-type]
            source_label_priors=source_label_priors,
            y_target=None if label_target is None else classes[label_target],
            confidence_level=estimate.confidence_level or 0.95,
        )
    goal = ACCURACY if assessment is None else assessment.judged_by
    shown, decided = estimate, None
    if assessment is not None:
        decided = assessment.decided_shares
        # one "before" for all readings
        shown = replace(assessment.shares_to_report, source_priors=estimate.source_priors)
    if target is not None and target.decided is not None:
        decided = np.bincount(target.decided, minlength=classes.size) / target.decided.size
    told = list(warned) + list(() if assessment is None else assessment.warnings)
    found: dict[str, Any] = {}
    if val is not None and label_val is not None:
        found |= _count_validation(val, label_val, estimate, assessment)
        if classes.size == 2 and val.decided is None and estimate.method != KNOWN:
            acting = estimate if assessment is None else assessment.estimate
            found["what_if"] = WhatIf.of(
                val.values, label_val, estimate, acting, float(shown.priors[1]), goal
            )
    if target is not None and target.decided is None:
        counted, more = _count_target(target.values, label_target, estimate, goal)
        found |= counted
        told += more
    if val is not None and target is not None and "reliability" in found:
        found["seen_before"] = _seen_before(val.values, label_val, target.values, estimate)
    if label_target is None and estimate.method != KNOWN:
        planned = estimate if decided is None else shown
        found["plans"] = plan_labels(planned, found.get("confusion"))
    n_target = estimate.n_target if assessment is None else assessment.n_target
    return Facts(
        estimate=estimate,
        assessment=assessment,
        comparison=comparison,
        shown=shown,
        goal=goal,
        n_val=int(val.shape[0]) if val is not None else assessment.n_val if assessment else 0,
        n_target=int(target.shape[0]) if target is not None else n_target,
        warnings=tuple(dict.fromkeys(told)),
        decided=decided,
        **found,
    )


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
    predictions = check_proba(y_proba, name, tables=part == "target", classes=classes)
    predictions = ordered(predictions, classes, name)
    if y is None:
        return predictions, None
    labels = read_labels(y, predictions.shape[0], f"y_{part}")
    return predictions, encode_labels(labels, classes, f"y_{part}")


def _count_validation(
    val: Predictions, y: Indices, estimate: PriorEstimate, assessment: Assessment | None
) -> dict[str, Any]:
    """Count decisions by true class, the pairs most confused, and calibration."""
    rows, K = val.values, estimate.classes.size
    hard = Confusion.from_arrays(rows, y, decision="hard")
    known = None if assessment is None else assessment.diagnostics
    if known is not None:  # it takes long with many classes
        soft = known.condition_number
    else:
        matrix = Confusion.from_arrays(rows, y, decision="soft")
        soft = condition_number(matrix.conditional[:, matrix.seen])
    conditions = condition_number(hard.conditional[:, hard.seen]), soft
    shares = hard.conditional
    np.fill_diagonal(shares, 0.0)
    enough = hard.class_weights >= ENOUGH
    if enough.any():
        shares[:, ~enough] = 0.0  # one error in a class of two would lead the list
    order = np.lexsort((-hard.counts.ravel(), -shares.ravel()))[:12]
    order = order[shares.ravel()[order] > 0]
    pairs = shares.ravel()[order], order // K, order % K, hard.counts.ravel()[order]
    found: dict[str, Any] = {"confusion": hard, "conditions": conditions, "pairs": pairs}
    if val.decided is not None:
        return found
    if estimate.source_priors_given:
        # calibrated for the shares of training; validation may have others
        shares = np.maximum(hard.class_frequencies, 0.5 / y.size)
        rows = adapt_proba(rows, estimate.source_priors, shares / shares.sum())
    return {
        **found,
        "reliability": Reliability.of(rows, y),
        "predicted": rows.mean(axis=0, dtype=np.float64),
        "observed": hard.class_frequencies,
    }


def _seen_before(val: Floats, y: Any, target: Any, estimate: PriorEstimate) -> SeenBefore | None:
    """Return signs that the model was trained on validation, if there are any.

    Nearly all of validation is right, and the model is less sure of the target, by five points,
    than of validation's classes at the target's shares: new rows are harder than known ones.
    """
    if not isinstance(target, np.ndarray):
        return None
    accuracy, K = float((val.argmax(axis=1) == y).mean()), estimate.classes.size
    rows = np.bincount(y, minlength=K)
    sure = np.bincount(y, val.max(axis=1), K) / np.maximum(rows, 1)
    shares = np.where(rows > 0, estimate.priors, 0.0)
    expected = float(shares @ sure / max(shares.sum(), 1e-12))
    confidence = float(target.max(axis=1).mean())
    if accuracy < 0.98 or expected - confidence < 0.05:
        return None
    return SeenBefore(accuracy, expected, confidence)


@dataclass(frozen=True)
class _Routes:
    """Count a block's rows by decision before and after adapting."""

    estimate: PriorEstimate
    goal: Goal

    def __call__(self, block: Block, _: slice) -> Any:
        adapted = self.estimate.adapt(Predictions.from_checked(block))
        before, after = self.goal.decide(block), self.goal.decide(adapted)
        return csr_array((np.ones(before.size), (before, after)), shape=(block.shape[1],) * 2)


def _count_target(
    rows: Any, label: Indices | None, estimate: PriorEstimate, goal: Goal
) -> tuple[dict[str, Any], list[str]]:
    """Return what adapting does to the target, and what it warns of.

    As if adapted, whatever was decided: a reader asks what would change.
    """
    full, K = adapting(estimate), estimate.classes.size
    counting = _Routes(full, goal)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if isinstance(rows, np.ndarray):
            routes = counting(rows, slice(None)).tocoo()
        else:
            routes = map_reduce(counting, rows).tocoo()
    messages = [warning.message for warning in caught]
    kept = [found.n_kept for found in messages if isinstance(found, KeptRowsWarning)]
    told = [str(found) for found in messages if not isinstance(found, KeptRowsWarning)]
    if kept:  # each block counts its own
        told.append(str(KeptRowsWarning(sum(kept), rows.shape[0])))
    moved = routes.row != routes.col
    before, after = routes.row[moved].astype(np.int64), routes.col[moved]
    n = routes.data[moved].astype(np.int64)
    order = np.argsort(before * K + after)  # of equally many rows, the first class comes first
    order = order[movers(n[order])]
    found: dict[str, Any] = {
        "routes": tuple(
            np.bincount(side, routes.data, minlength=K).astype(np.int64)
            for side in (routes.row, routes.col)
        ),
        "flows": list(
            zip(before[order].tolist(), after[order].tolist(), n[order].tolist(), strict=True)
        ),
    }
    if label is not None:
        raw = replace(
            full, priors=full.source_priors, adapts_to=None, strength=0.0, calibrator=None
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found["scores"] = tuple(score_adapted(e, rows, label, goal.costs) for e in (raw, full))
        found["truth"] = np.bincount(label, minlength=K) / label.size
    return found, told


def plan_labels(estimate: PriorEstimate, confusion: Confusion | None) -> tuple[Plan, ...]:
    """Plan labels for intervals of a sensible width, and of half the present width.

    A sensible width is at most half of the largest share: of a thousand classes, none has a share
    for which 4 points would say anything.
    """
    priors = planned_shares(estimate)
    widths = [next((w for w in WIDTHS if w <= float(priors.max()) / 2), WIDTHS[-1])]
    if estimate.interval is not None:
        half = float(f"{float(np.ptp(estimate.interval, axis=1).max()) / 2:.2g}")
        widths += [half] if half > 0 and half not in widths else []
    seen = confusion is not None and bool(confusion.seen.all())
    plans = []
    for width in widths:
        n = labels_needed(
            width=width,
            confidence_level=estimate.confidence_level or 0.95,
            priors=priors,
            confusion=confusion if seen else None,
        )
        plans.append(Plan(width, int(n), n.with_predictions))
    return tuple(plans)


def planned_shares(estimate: PriorEstimate) -> Vector:
    """Return the shares to plan for: rounded where a command names them, so that it agrees."""
    few = estimate.classes.size <= TYPED
    return np.round(estimate.priors, 4) if few else estimate.priors


PREVALENCES = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
"""Shares of the second class in the table of what would be."""

STEPS = 361


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
    def of(
        cls,
        y_proba: Floats,
        y: Indices,
        estimate: PriorEstimate,
        acting: PriorEstimate,
        now: float,
        goal: Goal,
    ) -> "WhatIf | None":
        """Count validation; None where there is nothing to tell the classes by."""
        share = float(estimate.priors[1])
        if not 0 < share < 1 or not 0 < now < 1 or np.unique(y).size < 2:
            return None
        scores = expit(np.linspace(-18, 18, STEPS))
        adapted = adapting(estimate).adapt(np.column_stack([1 - scores, scores]))[:, 1]
        log_odds = np.maximum.accumulate(logit(adapted.clip(1e-12, 1 - 1e-12)))
        above = np.array(
            [
                1 - np.searchsorted(np.sort(of), scores) / of.size
                for of in (y_proba[y == k, 1].astype(np.float64) for k in (0, 1))
            ]
        )
        cut = binary_cut(goal.costs)
        if cut is None:
            return None
        threshold = acting.threshold(goal.costs)
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
        return [self.at(share) for share in sorted({*PREVALENCES, self.now})]
