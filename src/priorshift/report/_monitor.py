"""The report of a monitored stream: priors over time, alarms, what to do."""

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from priorshift.adapt import prior_ratio
from priorshift.estimators import Reference
from priorshift.files import write_text
from priorshift.monitor import MonitorHistory, PriorMonitor, describe
from priorshift.plotting import MonitorDisplay
from priorshift.plotting.style import BLUE, VERMILLION, bare, label_time, positions, thinned_steps
from priorshift.report._content import about_report, as_json
from priorshift.report._figures import FigureOf, inline_svg, report_style
from priorshift.report._render import _environment, _policy, _source, require_packages
from priorshift.report._tables import MANY, Cell, PageTable, _cell, _cells, _rows
from priorshift.report._words import Tile, description, references
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
    shown_names,
    shown_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    said = [f"From the source to the last step, these classes moved most: {listed(moves)}."]
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
        "An alarm means that the classes are predicted at different rates than before. Changed "
        "priors cause that, but so do classes that look different: run “priorshift test” before "
        "adapting."
    )
    return said


def level_in_words(history: MonitorHistory) -> str:
    """Show the chance of a false alarm as it was given."""
    return f"{100 * history.alarm_level:g}%"


def key_numbers(history: MonitorHistory) -> list[Tile]:
    """Return the few numbers to see first."""
    return [
        Tile("Steps", count(len(history)), (plural(history.n_samples.sum(), "row"),)),
        Tile("Alarms raised", count(history.raised.sum())),
        Tile(
            "Change in class balance",
            percent(history.total_variation[-1]),
            ("of cases, compared with the source",),
        ),
        Tile(
            "p-value",
            number(float(history.p_value[-1])),
            ("small if something changed; valid at any time",),
        ),
    ]


def steps_table(history: MonitorHistory, names: Sequence[str]) -> PageTable:
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
    return PageTable("steps-table", f"{caption}, the latest first", columns, rows)


def source_and_present_table(history: MonitorHistory, names: Sequence[str]) -> PageTable:
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
    return PageTable("priors-table", caption, columns, _rows(names, parts, order))


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


WIDTH = 5.4
"""Inches: narrow, so that text is still read where the page is a phone's."""

MAX_TICKS = 5


def draw_monitor_figures(history: MonitorHistory) -> dict[str, FigureOf]:
    """Draw priors and evidence, by the names of sections."""
    display = MonitorDisplay.of_history(history)
    with report_style():
        return {
            "priors": FigureOf(_draw(display.plot, "priors", 3.9, _PRIORS), _caption(display)),
            "evidence": FigureOf(
                _draw(lambda ax: _plot_evidence(ax, history, display), "evidence", 2.5, _EVIDENCE),
                "Evidence of a change, in nats. It raises an alarm at the dashed line, "
                "and may fall again: an alarm stands all the same until it is acknowledged.",
            ),
        }


_PRIORS = "Class priors over time, one line per class; the tables below have the numbers."
_EVIDENCE = "Evidence of a change over time; the table below has the numbers."


def _caption(display: MonitorDisplay) -> str:
    hidden = display.classes.size - display.movers().size
    more = f" Not shown: {plural(hidden, 'class', 'classes')} that moved less." if hidden else ""
    return (
        "Lines are the estimated priors, circles at the left, in the colour of their class, the "
        f"source priors, triangles at the top the alarms.{more}"
    )


def _plot_evidence(ax: "Axes", history: MonitorHistory, display: MonitorDisplay) -> None:
    when = positions(display.time)
    shown = thinned_steps(when.size)
    ax.plot(when[shown], history.log_e_value[shown], color=BLUE, label="evidence")
    threshold = float(-np.log(history.alarm_level))
    ax.axhline(threshold, color=VERMILLION, ls="--", lw=1.2, label="raises an alarm")
    label_time(ax, display.time, numbered=display.numbered)
    ax.set_ylabel("nats")
    ax.grid(axis="y", alpha=0.3)
    bare(ax, "bottom")
    ax.legend(loc="upper left", frameon=False)


def _draw(plot: "Callable[[Axes], object]", prefix: str, height: float, title: str) -> str:
    """Draw on a figure of its own; headings and captions say what a title would."""
    from matplotlib.dates import AutoDateLocator
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    ax = figure.subplots()
    plot(ax)
    ax.set_title("", loc="left")
    if not isinstance(ax.xaxis.get_major_locator(), AutoDateLocator):
        ax.locator_params(axis="x", nbins=MAX_TICKS)
    legend = ax.get_legend()
    if legend is not None:
        legend.remove()
        handles, labels = ax.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return inline_svg(figure, prefix=prefix, title=title)


TITLE = "Class priors over time"
BABY = Reference(
    "Baby et al., NeurIPS 2023 (online label shift)", "https://arxiv.org/abs/2305.19570"
)
CONFORMAL = Reference(
    "Volkhonskiy et al., COPA 2017 (conformal martingales for change points)",
    "https://arxiv.org/abs/1706.03415",
)
RAMDAS = Reference(
    "Ramdas et al., Statistical Science 2023 (e-processes)", "https://arxiv.org/abs/2210.01948"
)


def render_monitor_report(
    monitor: PriorMonitor | MonitorHistory,
    *,
    title: str | None = None,
    command: str | None = None,
    warnings: Sequence[str] = (),
    created: datetime | None = None,
) -> str:
    """Render what a monitor has seen as one self-contained HTML page.

    Parameters
    ----------
    monitor : PriorMonitor or MonitorHistory
        With at least one step.
    title : str, optional
        Heading of the page.
    command : str, optional
        What was run, for whoever wants to run it again.
    warnings : sequence of str, default=()
        What was warned of on the way.
    created : datetime, optional
        Date of the report, by default now. All else depends on the arguments alone.

    Examples
    --------
    >>> import numpy as np
    >>> from priorshift.report import render_monitor_report
    >>> from priorshift.monitor import PriorMonitor
    >>> y_proba, y = np.tile([[0.9, 0.1], [0.2, 0.8]], (50, 1)), np.tile(["cat", "dog"], 50)
    >>> monitor = PriorMonitor().fit(y_proba, y)
    >>> step = monitor.update(y_proba[:40], time="2026-05-01")
    >>> "<h1>Cats and dogs</h1>" in render_monitor_report(monitor, title="Cats and dogs")
    True
    """
    require_packages()
    history = monitor.history if isinstance(monitor, PriorMonitor) else monitor
    if not len(history):
        raise ValueError("there is no step to report on; call update(y_proba) first.")
    if history.source_priors is None:
        raise ValueError(
            "the report compares every step with the source priors, which error rates alone do "
            "not tell; give source_priors to the monitor's fit. MonitorDisplay draws the steps "
            "without them."
        )
    about = about_report(title or TITLE, command, None, created)
    names = shown_names(history.classes)
    told = tuple(dict.fromkeys(shown_text(str(warning)) for warning in warnings))
    environment = _environment()
    css, script = (_source(environment, f"report.{kind}") for kind in ("css", "js"))
    return environment.get_template("monitor.html.j2").render(
        about=about,
        history=history,
        describe=description(history.method),
        headline=headline(history),
        sentences=sentences(history, names),
        numbers=key_numbers(history),
        tables={
            "steps": steps_table(history, names),
            "priors": source_and_present_table(history, names),
        },
        figures=draw_monitor_figures(history),
        warnings=told,
        references=_references(history),
        way=WAYS[history.online],
        level=level_in_words(history),
        count=count,
        plural=plural,
        json=as_json(monitor_data(history, told, **about)),
        css=css,
        script=script,
        policy=_policy(css, script),
    )


def write_monitor_report(
    path: str | os.PathLike[str], monitor: PriorMonitor | MonitorHistory, **given: Any
) -> Path:
    """Write a report over time to a file, whole or not at all.

    Parameters
    ----------
    path : path-like
        Where to write the page.
    monitor : PriorMonitor or MonitorHistory
        With at least one step.
    **given
        As for `render_monitor_report`.

    Returns
    -------
    Path
        The file written.
    """
    return write_text(path, render_monitor_report(monitor, **given))


def _references(history: MonitorHistory) -> list[Reference]:
    online = [BABY] if history.online == "flh-ftl" else []
    return [*references(history.method, calibration=False), *online, CONFORMAL, RAMDAS]
