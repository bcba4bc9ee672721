"""Words, tables and numbers of a report over time."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from priorshift.adaptation import prior_ratio
from priorshift.report._tables import MANY, Cell, Table, _cell, _cells, _rows
from priorshift.streaming import MonitorHistory, describe
from priorshift.text import (
    count,
    listed,
    movers,
    number,
    percent,
    plain,
    plural,
    points,
    quoted,
    shown_text,
)

SCHEMA_VERSION = 1
"""Of the JSON in the page; raised when a name goes or changes its meaning."""

MAX_STEPS = 1000
"""Steps in the table and in the page's JSON: the last ones."""

MAX_NAMED = 3
"""Classes and alarms that a sentence names."""

WAYS = {
    "flh-ftl": "FLH-FTL, which finds out by itself how far back to look",
    "window": "the mean of the last batches",
    "exponential": "all batches, the recent ones with more weight",
}


def headline(history: MonitorHistory) -> str:
    """Say in one sentence how things stand."""
    raised, steps = np.flatnonzero(history.raised), plural(len(history), "step")
    if history.alarm[-1]:
        at = f" since {_name_of(history, raised[-1])}" if raised.size else ""
        return f"An alarm stands{at}: decisions are not what they were."
    if raised.size:
        return f"No alarm stands after {steps}; {plural(raised.size, 'earlier one')} ended."
    return f"No alarm in {steps}."


def sentences(history: MonitorHistory, names: Sequence[str]) -> list[str]:
    """Say what moved, when, and what an alarm means."""
    change = history.priors[-1] - history.source_priors
    order = movers(change, MAX_NAMED)
    moves = [
        f"{quoted(names[k])} {percent(before)} to {percent(after)}"
        for k, before, after in zip(
            order, history.source_priors[order], history.priors[-1, order], strict=True
        )
    ]
    said = [f"From the source to the last step, most moved: {listed(moves)}."]
    raised = np.flatnonzero(history.raised)
    if raised.size:
        named = [_name_of(history, at) for at in raised[-MAX_NAMED:]]
        more = f", the last of {raised.size}" if raised.size > len(named) else ""
        said.append(f"Raised at {listed(named)}{more}.")
    said.append(
        f"While nothing changes, the chance that an alarm is ever raised, over all time, is at "
        f"most {level_in_words(history)}. That holds if rows are independent draws."
    )
    said.append(
        "An alarm says that classes are decided for with other frequencies. A change of priors "
        "does that, and so does a change of what the classes look like: compare with “priorshift "
        "test” before adapting."
    )
    return said


def level_in_words(history: MonitorHistory) -> str:
    """Show the chance of a false alarm as it was given."""
    return f"{100 * history.alarm_level:g}%"


def key_numbers(history: MonitorHistory) -> list[tuple[str, str]]:
    """Return the few numbers to see first."""
    return [
        ("steps", count(len(history))),
        ("rows", count(history.n_samples.sum())),
        ("alarms raised", count(history.raised.sum())),
        ("total variation now", percent(history.total_variation[-1])),
        ("p-value, valid at any time", number(float(history.p_value[-1]))),
    ]


def steps_table(history: MonitorHistory, names: Sequence[str]) -> Table:
    """List the last steps, the latest first."""
    records = history.records()[-MAX_STEPS:][::-1]
    distances = history.total_variation[-MAX_STEPS:][::-1].tolist()
    rows = tuple(
        (
            Cell(_label(record.index, record.time), float(record.index)),
            _cell(record.n_samples, count),
            _cell(distance, percent),
            Cell(_largest_move(record.priors - history.source_priors, names)),
            _cell(record.log_e_value, number),
            Cell(describe(record)),
        )
        for record, distance in zip(records, distances, strict=True)
    )
    shown, total = len(rows), len(history)
    caption = f"The last {shown:,} of {total:,} steps" if shown < total else f"All {total:,} steps"
    columns = ("Step", "Rows", "Total variation", "Moved most, points", "Evidence, nats", "Alarm")
    return Table("steps-table", f"{caption}, the latest first", columns, rows)


def source_and_present_table(history: MonitorHistory, names: Sequence[str]) -> Table:
    """List source and present priors of every class."""
    now, K = history.priors[-1], len(names)
    change = now - history.source_priors
    order = movers(change) if K > MANY else np.arange(K)
    parts = [
        _cells(history.source_priors, percent),
        _cells(history.priors.min(axis=0), percent),
        _cells(history.priors.max(axis=0), percent),
        _cells(now, percent),
        _cells(change, points),
        _cells(prior_ratio(now, history.source_priors), number),
    ]
    columns = ("Class", "Source", "Least", "Most", "Now", "Change, points", "Ratio")
    caption = f"Priors of {K:,} classes" + (", the largest change first" if K > MANY else "")
    return Table("priors-table", caption, columns, _rows(names, parts, order))


def monitor_data(history: MonitorHistory, warnings: Sequence[str], **about: Any) -> dict[str, Any]:
    """Return the numbers as plain values; vectors of classes in the order of `classes`."""
    last = slice(-MAX_STEPS, None)
    columns = ("index", "n_samples", "priors", "log_e_value", "p_value")
    flags = ("alarm", "raised")
    return {
        "schema_version": SCHEMA_VERSION,
        **about,
        "method": history.method,
        "online": history.online,
        "alarm_level": history.alarm_level,
        "classes": history.classes.tolist(),
        "source_priors": history.source_priors.tolist(),
        "n_steps": len(history),
        "steps": {
            "time": list(history.time[last]),
            **{name: plain(getattr(history, name)[last]) for name in (*columns, *flags)},
        },
        "warnings": list(warnings),
    }


def _name_of(history: MonitorHistory, at: Any) -> str:
    return _label(int(history.index[at]), history.time[at])


def _label(index: int, time: Any) -> str:
    return f"step {index}" if time is None else shown_text(str(time))


def _largest_move(change: Any, names: Sequence[str]) -> str:
    k = int(np.argmax(np.abs(change)))
    return f"{names[k]} {points(float(change[k]))}"
