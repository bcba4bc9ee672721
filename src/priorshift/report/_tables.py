"""The report's tables, cell by cell: what is read, and what it is sorted by."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priorshift.estimators import PriorEstimate, traits_of
from priorshift.evidence import Reliability
from priorshift.report._facts import ROUNDING, Decisions, Facts, Mistakes, Truth
from priorshift.text import (
    MISSING,
    count,
    movers,
    number,
    percent,
    points,
    short_percent,
    signed,
)

MANY = 50
"""Rows beyond which a table scrolls, can be filtered, and begins with the largest change."""

MAX_CLASSES = 20
"""Classes in the table of decisions."""

PRINTED = 100
"""Rows of a table that are printed; the screen has them all."""


Show = Callable[[float], str]


@dataclass(frozen=True)
class Cell:
    """A cell: its text and, for numbers, the value it is sorted by ("" where there is none)."""

    text: str
    value: float | int | str | None = None


@dataclass(frozen=True)
class PageTable:
    """A table that a page sorts by any column; the first column names the row."""

    id: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    n_text: int = 1
    """Leading columns that hold text."""
    chosen: int | None = None
    """Row set in bold."""

    @property
    def is_long(self) -> bool:
        """Whether it needs a box of its own to scroll in."""
        return len(self.rows) > MANY

    @property
    def is_wide(self) -> bool:
        """Whether it has more columns than fit in large type."""
        return len(self.columns) > 7

    @property
    def n_printed(self) -> int:
        """Rows that are printed."""
        return PRINTED

    def is_text(self, column: int) -> bool:
        """Tell text from numbers."""
        return column < self.n_text


def priors_table(facts: Facts, names: Sequence[str]) -> PageTable:
    """List the share of every class before and now."""
    estimate, K = facts.shown, len(names)
    order = facts.shift.by_size if K > MANY else np.arange(K)
    columns = ["Class", "Before", "Now"]
    parts = [_cells(estimate.source_priors, percent), _cells(estimate.priors, percent)]
    if estimate.interval is not None:
        columns += ["Lower", "Upper"]
        parts += [_cells(estimate.interval[:, at], percent) for at in (0, 1)]
    columns += ["Change, points", "Ratio"]
    parts += [_cells(facts.shift.change, points), _cells(estimate.ratio, number)]
    if facts.decided is not None:
        columns.insert(2, "Decided")
        parts.insert(1, _cells(facts.decided, percent))
    if facts.truth is not None:
        columns.append("Labels say")
        parts.append(_cells(facts.truth.priors, percent))
    elif facts.assessment is not None and facts.assessment.ppi not in (None, estimate):
        columns.append("With labels (PPI)")
        parts.append(_bounded(facts.assessment.ppi))
    if estimate.raw is not None and (estimate.raw < -ROUNDING).any():
        of_ratio = traits_of(estimate.method).raw_is == "ratio"
        columns.append("Unclipped ratio" if of_ratio else "Unclipped prior")
        parts.append(_cells(estimate.raw, number))
    caption = f"Shares of {K:,} classes" + (", the largest change first" if K > MANY else "")
    return PageTable("priors-table", caption, tuple(columns), _rows(names, parts, order))


def _bounded(found: PriorEstimate) -> list[Cell]:
    """Show shares with their intervals in one column."""
    cells = _cells(found.priors, percent)
    if found.interval is None:
        return cells
    return [
        Cell(f"{cell.text} ({short_percent(low)} to {short_percent(high)})", cell.value)
        for cell, (low, high) in zip(cells, found.interval.tolist(), strict=True)
    ]


def plan_table(facts: Facts) -> PageTable:
    """List how many target rows to label, for intervals of several widths."""
    predicted = any(plan.with_predictions is not None for plan in facts.plans)
    rows = tuple(
        (
            Cell(
                f"±{50 * plan.width:.2g} points" + (" (half of now)" if plan.halves else ""),
                plan.width,
            ),
            _cell(plan.labels, count),
            *([_cell(plan.with_predictions, count)] if predicted else []),
        )
        for plan in facts.plans
    )
    columns = ("Every share within", "Labels", "With predictions")
    return PageTable(
        "plan-table",
        "Target rows to label, drawn at random",
        columns if predicted else columns[:2],
        rows,
    )


def methods_table(facts: Facts) -> PageTable | None:
    """List what every compared method says."""
    comparison = facts.comparison
    if comparison is None:
        return None
    columns = ["Method", "Status", "Agreement", "Gap", "Time, ms"]
    scored = any(result.scores is not None for result in comparison.results)
    if scored:
        columns += ["Accuracy", "Balanced accuracy", "Log loss", "L1 error"]
    rows = []
    for result in comparison.results:
        estimate, scores = result.estimate, result.scores
        row = [
            Cell(result.method),
            Cell("refused" if estimate is None else estimate.status.replace("_", " ")),
            _cell(result.agreement, percent),
            _cell(None if estimate is None else estimate.gap, number),
            _cell(1000 * result.seconds, number),
        ]
        if scored:
            row += [
                _cell(getattr(scores, "accuracy", None), percent),
                _cell(getattr(scores, "balanced_accuracy", None), percent),
                _cell(getattr(scores, "log_loss", None), number),
                _cell(getattr(scores, "l1_error", None), number),
            ]
        rows.append(tuple(row))
    methods = [result.method for result in comparison.results]
    method = facts.estimate.method
    return PageTable(
        "methods-table",
        "Methods side by side",
        tuple(columns),
        tuple(rows),
        n_text=2,
        chosen=methods.index(method) if method in methods else None,
    )


def decisions_table(decisions: Decisions, names: Sequence[str]) -> PageTable:
    """List decisions before and after, of the classes whose number changes."""
    n_classes = int(np.count_nonzero(decisions.difference))
    n_shown = min(n_classes, MAX_CLASSES)
    order = movers(decisions.difference, n_shown)
    caption = "Decisions on the target by class"
    if n_shown < n_classes:
        caption = f"The {n_shown} classes of {n_classes:,} whose decisions change most"
    parts = [
        _cells(decisions.before, count),
        _cells(decisions.after, count),
        _cells(decisions.difference, lambda value: signed(int(value))),
    ]
    return PageTable(
        "decisions-table",
        caption,
        ("Class", "Before", "After", "Difference"),
        _rows(names, parts, order),
    )


def flows_table(decisions: Decisions, names: Sequence[str]) -> PageTable:
    """List where the changed decisions go."""
    rows = tuple(
        (
            Cell(names[flow.before]),
            Cell(names[flow.after]),
            _cell(flow.rows, count),
            _cell(flow.rows / decisions.n_changed, percent),
        )
        for flow in decisions.flows
    )
    shown = f"The {len(rows)} largest of {decisions.n_flows:,} flows of decisions"
    caption = shown if decisions.n_flows > len(rows) else "Flows of decisions"
    return PageTable(
        "flows-table", caption, ("From", "To", "Rows", "Share of changes"), rows, n_text=2
    )


def pairs_table(mistakes: Mistakes, names: Sequence[str]) -> PageTable:
    """List the pairs of classes most confused."""
    rows = tuple(
        (
            Cell(names[pair.truth]),
            Cell(names[pair.decision]),
            _cell(pair.share, percent),
            _cell(pair.rows, count),
            _cell(mistakes.hard.class_weights[pair.truth], count),
        )
        for pair in mistakes.pairs
    )
    return PageTable(
        "pairs-table",
        "Classes most confused on validation",
        ("True class", "Decided as", "Share of the class", "Rows", "Rows of the class"),
        rows,
        n_text=2,
    )


def reliability_table(reliability: Reliability) -> PageTable:
    """List the bins of the reliability diagram."""
    parts = [
        _cells(reliability.rows, count),
        _cells(reliability.confidence, percent),
        _cells(reliability.accuracy, percent),
        _cells(reliability.accuracy - reliability.confidence, points),
    ]
    names = [f"{j + 1}" for j in range(reliability.rows.size)]
    return PageTable(
        "reliability-table",
        "Confidence and accuracy by bin",
        ("Bin", "Rows", "Mean confidence", "Accuracy", "Difference, points"),
        _rows(names, parts, range(len(names))),
    )


def truth_table(truth: Truth) -> PageTable:
    """List the scores before and after adaptation."""
    scores = (
        ("Accuracy", "accuracy", percent),
        ("Balanced accuracy", "balanced_accuracy", percent),
        ("Log loss, nats", "log_loss", number),
        ("L1 error of the priors", "l1_error", number),
    )
    rows = [
        (
            Cell(label),
            _cell(getattr(truth.before, name), show),
            _cell(getattr(truth.after, name), show),
        )
        for label, name, show in scores
    ]
    if truth.cost is not None:
        before, after = truth.cost
        rows.insert(0, (Cell("Cost per case"), _cell(before, number), _cell(after, number)))
    return PageTable(
        "truth-table", "Scores on the target’s labels", ("Score", "Before", "After"), tuple(rows)
    )


def _rows(
    names: Sequence[str], parts: Iterable[Sequence[Cell]], order: Iterable[int]
) -> tuple[tuple[Cell, ...], ...]:
    columns = list(parts)
    return tuple((Cell(names[k]), *(column[k] for column in columns)) for k in order)


def _cells(values: NDArray[Any], show: Show) -> list[Cell]:
    return [_cell(value, show) for value in values.tolist()]


def _cell(value: float | None, show: Show) -> Cell:
    """Make a cell of a number; what is missing or no number sorts last."""
    if value is None or math.isnan(value):
        return Cell(MISSING, "")
    value = float(value)
    if math.isinf(value):
        return Cell(show(value), "Infinity" if value > 0 else "-Infinity")
    return Cell(show(value), int(value) if value.is_integer() else float(f"{value:.6g}"))
