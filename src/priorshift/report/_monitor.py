"""The report of a monitored stream: priors over time, alarms, what to do."""

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from priorshift.adapt import prior_ratio
from priorshift.estimators import Reference, traits_of
from priorshift.files import write_text
from priorshift.monitor import MonitorHistory, PriorMonitor, describe
from priorshift.plotting import MonitorDisplay
from priorshift.plotting.style import BLUE, VERMILLION, bare, label_time, positions, thinned_steps
from priorshift.report._figures import WIDE, FigureOf, _draw, report_style
from priorshift.report._page import GUIDE, about_page, fill, require_packages
from priorshift.report._tables import Column, PageTable, class_table, make_table
from priorshift.text import (
    count,
    movers,
    number,
    percent,
    plain,
    plural,
    points,
    shown_names,
    shown_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_STEPS = 1000
"""Steps in the table and in the page's JSON: the last ones."""

WAYS = {
    "flh-ftl": "FLH-FTL, which finds out by itself how far back to look",
    "window": "the mean of the last batches",
    "exponential": "all batches, the recent ones with more weight",
}


def make_monitor_tables(history: MonitorHistory, names: Sequence[str]) -> dict[str, PageTable]:
    """List the last steps, the latest first, and the source and present shares of every class."""
    records = history.records()[-MAX_STEPS:][::-1]
    changes = [record.priors - history.source_priors for record in records]
    farthest = [(int(movers(change, 1)[0]), change) for change in changes]
    followed = [(one, k) for one, (k, _) in zip(records, farthest, strict=True)]
    shown, total = len(records), len(history)
    caption = f"The last {shown:,} of {total:,} steps" if shown < total else f"All {total:,} steps"
    steps: list[Column] = [
        ("Step", [record.index for record in records], lambda at: _name_of(history, int(at))),
        ("Rows", [record.n_samples for record in records], count),
        ("Change in class balance", history.total_variation[-MAX_STEPS:][::-1], percent),
        ("Moved most, points", [f"{names[k]} {points(c[k])}" for k, c in farthest], None),
        ("Its share, followed", [one.priors[k] for one, k in followed], percent),
        ("In this step alone", [one.own_priors[k] for one, k in followed], percent),
        ("Evidence, nats", [record.log_e_value for record in records], number),
        ("Alarm", [describe(record) for record in records], None),
    ]
    now, source = history.priors[-1], history.source_priors
    shares = [
        ("Source", source, percent),
        ("Least", history.priors.min(axis=0), percent),
        ("Most", history.priors.max(axis=0), percent),
        ("Now", now, percent),
        ("Change, points", now - source, points),
        ("Ratio", prior_ratio(now, source), number),
    ]
    return {
        "steps": make_table("steps-table", f"{caption}, the latest first", steps),
        "priors": class_table("priors-table", "Shares", names, shares, now - source),
    }


def monitor_data(history: MonitorHistory, warnings: Sequence[str]) -> dict[str, Any]:
    """Return the numbers as plain values; vectors of classes in the order of `classes`."""
    last = slice(-MAX_STEPS, None)
    columns = ("index", "n_samples", "priors", "own_priors", "log_e_value", "p_value")
    flags = ("alarm", "raised")
    return {
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


def _name_of(history: MonitorHistory, index: int) -> str:
    """Name a step by its time, if it has one."""
    at = int(np.flatnonzero(history.index == index)[0])
    return f"step {index}" if history.time[at] is None else shown_text(str(history.time[at]))


def draw_monitor_figures(history: MonitorHistory) -> dict[str, FigureOf]:
    """Draw priors and evidence, by the names of sections."""
    display = MonitorDisplay.of_history(history)
    with report_style():
        return {
            "priors": FigureOf(
                _draw(display.plot, "priors", (WIDE, 3.9), _PRIORS, legend_above=True),
                _caption(display),
            ),
            "evidence": FigureOf(
                _draw(
                    lambda ax: _plot_evidence(ax, history, display),
                    "evidence",
                    (WIDE, 2.5),
                    _EVIDENCE,
                    legend_above=True,
                ),
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
    names = shown_names(history.classes)
    told = tuple(dict.fromkeys(shown_text(str(warning)) for warning in warnings))
    traits = traits_of(history.method)
    papers = (GUIDE, traits.reference, BABY if history.online == "flh-ftl" else None)
    raised = history.index[np.flatnonzero(history.raised)]
    return fill(
        "monitor.html.j2",
        about_page(title or TITLE, command, None, created),
        monitor_data(history, told),
        history=history,
        traits=traits,
        names=names,
        raised=[_name_of(history, int(index)) for index in raised],
        tables=make_monitor_tables(history, names),
        figures=draw_monitor_figures(history),
        warnings=told,
        references=[*dict.fromkeys(p for p in papers if p is not None), CONFORMAL, RAMDAS],
        way=WAYS[history.online],
        level=f"{100 * history.alarm_level:g}%",
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
