"""Figures of a report over time."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from priorshift.plotting import MonitorDisplay
from priorshift.plotting.style import BLUE, VERMILLION, bare, label_time, positions, thinned_steps
from priorshift.report._figures import FigureOf
from priorshift.report._svg import inline_svg, report_style
from priorshift.streaming import MonitorHistory
from priorshift.text import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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


_PRIORS = "Class priors over time, one line a class; the tables below have the numbers."
_EVIDENCE = "Evidence of a change over time; the table below has the numbers."


def _caption(display: MonitorDisplay) -> str:
    hidden = display.classes.size - display.movers().size
    more = f" Not shown: {plural(hidden, 'class', 'classes')} that moved less." if hidden else ""
    return (
        "Lines are the estimated priors, circles at the left the source priors, triangles at the "
        f"top the alarms.{more}"
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
