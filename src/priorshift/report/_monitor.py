"""The report of a monitored stream: priors over time, alarms, what to do."""

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from priorshift.adapt import prior_ratio, total_variation
from priorshift.estimators import Reference, traits_of
from priorshift.files import write_text
from priorshift.monitor import MonitorHistory, PriorMonitor, Record, describe
from priorshift.plotting import MonitorDisplay
from priorshift.plotting.style import BLUE, VERMILLION, bare, label_time, positions, thinned_steps
from priorshift.report._figures import WIDE, draw_svg, report_style
from priorshift.report._page import GUIDE, fill, require_packages
from priorshift.text import plain, points, shown_names, shown_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_STEPS = 1000
"""Steps in the table and in the page's JSON: the last ones."""

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
    names, source = shown_names(history.classes), history.source_priors
    last, every = slice(-MAX_STEPS, None), np.arange(len(history))
    change = history.priors - source
    most = np.abs(change).argmax(axis=1)  # the class that moved most, of each step
    steps = [
        f"step {index}" if time is None else shown_text(str(time))
        for index, time in zip(history.index.tolist(), history.time, strict=True)
    ]
    told = tuple(dict.fromkeys(shown_text(str(warning)) for warning in warnings))
    display = MonitorDisplay.of_history(history)
    with report_style():
        figures = {
            "priors": draw_svg(
                display.plot,
                "priors",
                (WIDE, 3.9),
                "Class priors over time, one line per class; the tables below have the numbers.",
            ),
            "evidence": draw_svg(
                lambda ax: _plot_evidence(ax, history, display),
                "evidence",
                (WIDE, 2.5),
                "Evidence of a change over time; the table below has the numbers.",
            ),
        }
    traits = traits_of(history.method)
    papers = (GUIDE, traits.reference, BABY if history.online == "flh-ftl" else None)
    series = tuple(name for name in Record._fields if name != "time")
    data = {
        "method": history.method,
        "online": history.online,
        "alarm_level": history.alarm_level,
        "classes": history.classes,
        "source_priors": source,
        "n_steps": len(history),
        "steps": {
            "time": history.time[last],
            **{name: getattr(history, name)[last] for name in series},
        },
        "warnings": told,
    }
    return fill(
        "monitor.html.j2",
        plain(data),
        title=title or "Class priors over time",
        command=command,
        created=created,
        history=history,
        traits=traits,
        names=names,
        raised=[steps[at] for at in np.flatnonzero(history.raised)],
        steps=list(zip(steps, history.index.tolist(), strict=True)),
        latest=every[last][::-1],
        moved_most=[f"{names[k]} {points(change[at, k])}" for at, k in enumerate(most)],
        followed=history.priors[every, most],
        alone=history.own_priors[every, most],
        described=[describe(record) for record in history.records()],
        shifted=total_variation(history.priors, source),
        ratio=prior_ratio(history.priors[-1], source),
        hidden=display.classes.size - display.movers().size,
        figures=figures,
        warnings=told,
        references=[*dict.fromkeys(p for p in papers if p is not None), CONFORMAL, RAMDAS],
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
