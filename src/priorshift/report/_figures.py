"""The report's figures: displays drawn on figures of their own, without pyplot."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from priorshift.plotting import (
    ComparisonDisplay,
    ConfusionDisplay,
    PriorsDisplay,
    ReliabilityDisplay,
)
from priorshift.report._facts import Facts
from priorshift.report._svg import inline_svg, report_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 4.6
"""Inches: narrow, so that text is still read where the page is a phone's."""

WIDE = 5.4
"""Of matrices, whose cells hold numbers."""

TICK = 0.65
"""Inches from tick to tick at least."""

MAX_DOTS = 60
"""Priors that a plot of methods shows one by one; beyond them it shows distances."""


@dataclass(frozen=True)
class FigureOf:
    """A figure for the page."""

    svg: str
    caption: str


def draw_figures(facts: Facts) -> dict[str, FigureOf]:
    """Draw what the facts allow, by the names of sections."""
    with report_style():
        figures = {"priors": _priors(facts)}
        if facts.comparison is not None and len(facts.comparison.estimates) > 1:
            figures["methods"] = _methods(facts)
        if facts.mistakes is not None:
            figures["confusion"] = _confusion(facts)
        if facts.reliability is not None:
            figures["reliability"] = _reliability(facts)
    return figures


def _priors(facts: Facts) -> FigureOf:
    estimate = facts.estimate
    display = PriorsDisplay(
        estimate.priors,
        estimate.source_priors,
        estimate.classes,
        interval=getattr(estimate, "interval", None),
        unseen_classes=estimate.unseen_classes,
        method=estimate.method,
    )
    title = "Class priors before and after, one row a class; the table below has the numbers."
    svg = _draw(display.plot, "priors", (WIDTH, display.figsize()[1]), title, legend_above=True)
    first, *more = display.summary().split("\n")
    sentences = [f"{line[0].upper()}{line[1:]}." for line in (first, *more)]
    return FigureOf(
        svg,
        "Circles are the source priors, triangles the target’s; at the right, how many times as "
        "frequent a class became. " + " ".join(sentences),
    )


def _methods(facts: Facts) -> FigureOf:
    comparison = facts.comparison
    assert comparison is not None
    estimates = comparison.estimates
    kind: Literal["priors", "distance"] = (
        "priors" if len(estimates) * comparison.classes.size <= MAX_DOTS else "distance"
    )
    display = ComparisonDisplay(
        [estimate.priors for estimate in estimates.values()],
        list(estimates),
        comparison.classes,
        truth=comparison.truth,
    )
    title = "How far the priors of the compared methods are apart."
    if kind == "priors":
        size = WIDTH, display.figsize(kind)[1]
        caption = "Priors of each class, by method."
    else:
        width, height = display.figsize(kind)
        size = WIDE, height * min(WIDE / width, 1.0)
        caption = "Total variation distance between the priors of every two methods, in per cent."
    if comparison.truth is not None:
        caption += " The truth is what the target’s labels say."
    svg = _draw(lambda ax: display.plot(ax, kind=kind), "methods", size, title)
    return FigureOf(svg, caption)


def _confusion(facts: Facts) -> FigureOf:
    assert facts.mistakes is not None
    hard = facts.mistakes.hard
    display = ConfusionDisplay(
        hard.conditional, facts.estimate.classes, seen=hard.seen, decision="hard"
    )
    title = "Confusion matrix on validation; the table below names the classes most confused."
    svg = _draw(display.plot, "confusion", (WIDE, WIDE * 0.88), title)
    return FigureOf(
        svg,
        "Each column is a true class, each cell the share of its validation rows decided as the "
        "class of the row.",
    )


def _reliability(facts: Facts) -> FigureOf:
    reliability = facts.reliability
    assert reliability is not None
    display = ReliabilityDisplay(
        reliability.confidence,
        reliability.accuracy,
        reliability.rows,
        reliability.histogram,
        facts.estimate.classes.size,
    )
    title = "Share of right decisions by confidence on validation; the table has the numbers."
    svg = _draw(display.plot, "reliability", (WIDTH, WIDTH), title, legend_above=True)
    return FigureOf(
        svg,
        "Points on the diagonal say as much as they know; below it, the classifier is too sure of "
        "itself. Grey: rows by confidence.",
    )


def _draw(
    plot: "Callable[[Axes], object]",
    prefix: str,
    size: tuple[float, float],
    title: str,
    *,
    legend_above: bool = False,
) -> str:
    """Draw on a figure of its own; headings and captions say what a title would."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    ax = figure.subplots()
    plot(ax)
    ax.set_title("", loc="left")
    if legend_above:
        _move_legend(ax)
    if size[0] == WIDTH:  # long names leave little room for ticks
        figure.draw_without_rendering()
        room = ax.get_window_extent().width / figure.dpi
        ax.locator_params(axis="x", nbins=max(int(room / TICK), 2))
    return inline_svg(figure, prefix=prefix, title=title)


def _move_legend(ax: "Axes") -> None:
    """Put the legend above the whole figure: beside long names, axes have no room for it."""
    legend = ax.get_legend()
    if legend is not None:
        legend.remove()
        handles, labels = ax.get_legend_handles_labels()
        ax.figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
