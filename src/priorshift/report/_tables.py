"""The report's tables: each column is what is read, and what it is sorted by."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Indices
from priorshift.adapt import Goal
from priorshift.estimators import PriorEstimate, traits_of
from priorshift.evidence import Backtest
from priorshift.report._facts import ROUNDING, Facts
from priorshift.text import (
    MISSING,
    count,
    movers,
    number,
    percent,
    points,
    short_percent,
    signed,
    signed_number,
)

MANY = 50
"""Rows beyond which a table scrolls, can be filtered, and begins with the largest change."""

PRINTED = 100
"""Rows of a table that are printed; the screen has them all."""

Column = tuple[str, Iterable[Any], Callable[[Any], str] | None]
"""Heading, values, and how a number is shown; None for text."""


@dataclass(frozen=True)
class PageTable:
    """A table that a page sorts by any column; the first column names the row."""

    id: str
    caption: str
    columns: tuple[str, ...]
    text: frozenset[int]
    """Columns that hold text."""
    rows: list[tuple[tuple[str, Any], ...]]
    """Cells: what is shown and, for numbers, the value to sort by ("" where there is none)."""
    chosen: int | None = None
    """Row set in bold."""

    @property
    def is_long(self) -> bool:
        """Whether it needs a box of its own to scroll in."""
        return len(self.rows) > MANY

    @property
    def n_printed(self) -> int:
        """Rows that are printed."""
        return PRINTED


def make_table(
    table_id: str, caption: str, columns: Sequence[Column], *, chosen: int | None = None
) -> PageTable:
    """Make a table from its columns."""
    cells = [
        [(str(value), None) if show is None else _cell(value, show) for value in values]
        for _, values, show in columns
    ]
    text = frozenset(at for at, (_, _, show) in enumerate(columns) if show is None)
    titles = tuple(title for title, _, _ in columns)
    return PageTable(table_id, caption, titles, text, list(zip(*cells, strict=True)), chosen)


def _cell(value: Any, show: Callable[[Any], str]) -> tuple[str, Any]:
    """Return a number as text and as a sort key; what is missing or no number sorts last."""
    if value is None or math.isnan(value):
        return MISSING, ""
    value = float(value)
    if math.isinf(value):
        return show(value), "Infinity" if value > 0 else "-Infinity"
    return show(value), int(value) if value.is_integer() else float(f"{value:.6g}")


def class_table(
    table_id: str,
    what: str,
    names: Sequence[str],
    columns: Sequence[tuple[str, NDArray[Any], Callable[[Any], str]]],
    change: NDArray[Any],
) -> PageTable:
    """List every class, in the order of classes or, of many, the largest change first."""
    many = len(names) > MANY
    order = movers(change) if many else np.arange(len(names))
    named: list[Column] = [("Class", [names[k] for k in order], None)]
    named += [(title, values[order].tolist(), show) for title, values, show in columns]
    first = ", the largest change first" if many else ""
    return make_table(table_id, f"{what} of {len(names):,} classes{first}", named)


def make_tables(facts: Facts, names: Sequence[str]) -> dict[str, PageTable | None]:
    """Make every table that the facts allow, by the section that shows it."""
    tables: dict[str, PageTable | None] = dict.fromkeys(("methods", "truth"))
    tables["priors"] = _priors(facts, names)
    assessment = facts.assessment
    if facts.what_if is not None:
        tables["what_if"] = _what_if(facts, names)
    if assessment is not None and assessment.backtest is not None:
        tables["history"] = _history(assessment.backtest)
    if facts.plans:
        tables["plan"] = _plan(facts)
    if facts.comparison is not None:
        tables["methods"] = _methods(facts)
    if facts.scores is not None:
        tables["truth"] = _scores(facts)
    if facts.flows is not None:
        tables["flows"], tables["decisions"] = _flows(facts, names), _decisions(facts, names)
    if facts.pairs is not None and facts.confusion is not None:
        share, decided, truth, rows = facts.pairs
        tables["pairs"] = make_table(
            "pairs-table",
            "Classes most confused on validation",
            [
                ("True class", [names[k] for k in truth], None),
                ("Decided as", [names[k] for k in decided], None),
                ("Share of the class", share, percent),
                ("Rows", rows, count),
                ("Rows of the class", facts.confusion.class_weights[truth], count),
            ],
        )
    if facts.reliability is not None:
        found = facts.reliability
        tables["reliability"] = make_table(
            "reliability-table",
            "Confidence and accuracy by bin",
            [
                ("Bin", [f"{at + 1}" for at in range(found.rows.size)], None),
                ("Rows", found.rows, count),
                ("Mean confidence", found.confidence, percent),
                ("Accuracy", found.accuracy, percent),
                ("Difference, points", found.accuracy - found.confidence, points),
            ],
        )
    if facts.predicted is not None and facts.observed is not None:
        predicted, observed = facts.predicted, facts.observed
        order = movers(predicted - observed, 20)
        tables["calibration"] = make_table(
            "calibration-table",
            "Mean prediction and share on validation, by class",
            [
                ("Class", [names[k] for k in order], None),
                ("Predicted", predicted[order], percent),
                ("Observed", observed[order], percent),
                ("Difference, points", (predicted - observed)[order], points),
            ],
        )
    return tables


def _priors(facts: Facts, names: Sequence[str]) -> PageTable:
    shown, assessment = facts.shown, facts.assessment
    columns: list[Any] = [("Before", shown.source_priors, percent), ("Now", shown.priors, percent)]
    if facts.decided is not None:
        columns.insert(1, ("Decided", facts.decided, percent))
    if shown.interval is not None:
        columns += [("Lower", shown.interval[:, 0], percent)]
        columns += [("Upper", shown.interval[:, 1], percent)]
    columns += [("Change, points", facts.change, points), ("Ratio", shown.ratio, number)]
    if facts.truth is not None:
        columns += [("Labels say", facts.truth, percent)]
    if shown.raw is not None and (shown.raw < -ROUNDING).any():
        what = "ratio" if traits_of(shown.method).raw_is == "ratio" else "prior"
        columns += [(f"Unclipped {what}", shown.raw, number)]
    found = class_table("priors-table", "Shares", names, columns, facts.change)
    if assessment is None:
        return found
    readings = {
        "If classes look as before": None if facts.decided is not None else facts.estimate,
        "If predictions mean as before": assessment.calibrated_mean,
        "By labels (PPI)": None if facts.truth is not None else assessment.ppi,
    }
    order = movers(facts.change) if found.is_long else np.arange(len(names))
    for title, reading in readings.items():
        if reading is not None:
            found = _beside(found, title, reading, order)
    return found


def _beside(found: PageTable, title: str, reading: PriorEstimate, order: Indices) -> PageTable:
    """Add a column of shares with their intervals."""
    shares, bounds = reading.priors[order].tolist(), reading.interval
    cells = [(percent(share), share) for share in shares]
    if bounds is not None:
        cells = [
            (f"{text} ({short_percent(low).removesuffix('%')} to {short_percent(high)})", share)
            for (text, share), (low, high) in zip(cells, bounds[order].tolist(), strict=True)
        ]
    rows = [(*row, cell) for row, cell in zip(found.rows, cells, strict=True)]
    return PageTable(found.id, found.caption, (*found.columns, title), found.text, rows)


def _what_if(facts: Facts, names: Sequence[str]) -> PageTable:
    assert facts.what_if is not None
    rows, name = facts.what_if.rows, names[1]
    shows: list[tuple[str, str, Callable[[Any], str]]] = [
        (f"Share of {name}", "share", short_percent),
        ("Flag above", "threshold", number),
        ("Cases flagged", "alerts", short_percent),
        (f"{name} missed", "missed", short_percent),
        (f"Flagged that are {name}", "ppv", short_percent),
    ]
    columns = [(title, [row[key] for row in rows], show) for title, key, show in shows]
    chosen = [row["share"] for row in rows].index(facts.what_if.now)
    return make_table("what-if-table", "At other shares", columns, chosen=chosen)


def _history(past: Backtest) -> PageTable:
    show = points if Goal(past.goal).in_points else signed_number
    off = np.array([group.off for group in past.groups])
    columns: list[Column] = [
        ("Group", [group.name for group in past.groups], None),
        ("Rows", [group.n for group in past.groups], count),
        ("Adapting gained", [group.gains["adapt"] for group in past.groups], show),
        ("Calibrating gained", [group.gains["calibrate"] for group in past.groups], show),
        ("Prior-shift estimate off by", off[:, 0], percent),
        ("Calibrated mean off by", off[:, 1], percent),
        ("Unchanged shares off by", off[:, 2], percent),
    ]
    return make_table("history-table", "Past groups, each taken for a target", columns)


def _plan(facts: Facts) -> PageTable:
    columns: list[Column] = [
        ("Every share within", [plan.width for plan in facts.plans], _half_width),
        ("Labels", [plan.labels for plan in facts.plans], count),
    ]
    powered = [plan.with_predictions for plan in facts.plans]
    if any(n is not None for n in powered):
        columns.append(("With predictions", powered, count))
    return make_table("plan-table", "Target rows to label, drawn at random", columns)


def _half_width(width: float) -> str:
    return f"±{50 * width:.2g} points"


def _methods(facts: Facts) -> PageTable:
    comparison = facts.comparison
    assert comparison is not None
    results = comparison.results
    estimates = [result.estimate for result in results]
    columns: list[Column] = [
        ("Method", [result.method for result in results], None),
        ("Status", [e.status.replace("_", " ") if e else "refused" for e in estimates], None),
        ("Farthest class", [result.disagreement for result in results], _times),
        ("Gap", [e and e.gap for e in estimates], number),
        ("Time, ms", [1000 * result.seconds for result in results], number),
    ]
    if comparison.truth is not None:
        scores = [result.scores for result in results]
        columns += [
            (title, [s and getattr(s, name) for s in scores], show)
            for title, name, show in SCORES
            if name != "cost" or comparison.goal == "cost"
        ]
    methods = [result.method for result in results]
    own = facts.estimate.method
    chosen = methods.index(own) if own in methods else None
    return make_table("methods-table", "Methods side by side", columns, chosen=chosen)


def _times(ratio: float) -> str:
    return f"{number(ratio)}×"


SCORES: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("Cost per case", "cost", number),
    ("Accuracy", "accuracy", percent),
    ("Balanced accuracy", "balanced_accuracy", percent),
    ("Log loss, nats", "log_loss", number),
    ("L1 error of the priors", "l1_error", number),
)


def _scores(facts: Facts) -> PageTable:
    assert facts.scores is not None
    shown = [row for row in SCORES if row[1] != "cost" or facts.scores[0].cost is not None]
    rows = [
        ((title, None), *(_cell(getattr(side, name), show) for side in facts.scores))
        for title, name, show in shown
    ]
    columns = ("Score", "Before", "After")
    return PageTable("truth-table", "Scores on the target’s labels", columns, frozenset({0}), rows)


def _flows(facts: Facts, names: Sequence[str]) -> PageTable:
    assert facts.flows is not None
    flows, total = facts.flows[:15], len(facts.flows)
    caption = "Flows of decisions"
    if total > len(flows):
        caption = f"The {len(flows)} largest of {total:,} flows of decisions"
    columns: list[Column] = [
        ("From", [names[before] for before, _, _ in flows], None),
        ("To", [names[after] for _, after, _ in flows], None),
        ("Rows", [rows for _, _, rows in flows], count),
        ("Share of changes", [rows / max(facts.n_changed, 1) for _, _, rows in flows], percent),
    ]
    return make_table("flows-table", caption, columns)


def _decisions(facts: Facts, names: Sequence[str]) -> PageTable:
    assert facts.routes is not None
    before, after = facts.routes
    difference = after - before
    total = int(np.count_nonzero(difference))
    order = movers(difference, min(total, 20))
    caption = "Decisions on the target by class"
    if order.size < total:
        caption = f"The {order.size} classes of {total:,} whose decisions change most"
    columns: list[Column] = [
        ("Class", [names[k] for k in order], None),
        ("Before", before[order], count),
        ("After", after[order], count),
        ("Difference", difference[order], lambda value: signed(int(value))),
    ]
    return make_table("decisions-table", caption, columns)
