"""The report's pictures: displays drawn as SVG that follows the page."""

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

from priorshift.plotting import ComparisonDisplay, ConfusionDisplay
from priorshift.report._facts import Facts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 4.6
"""Inches: narrow, so that text is still read where the page is a phone's."""

WIDE = 5.4
"""Of matrices, whose cells hold numbers."""

MARGIN = 0.03
"""Inches above and below a figure."""

INK, LINES = "#010203", "#040506"
"""Colours that no palette has: text becomes the page's text colour, grid lines its line colour."""

FONT_SIZE = 10.5

_COLOURS = {
    INK: "text.color axes.labelcolor axes.titlecolor xtick.color ytick.color legend.labelcolor",
    LINES: "axes.edgecolor grid.color legend.edgecolor",
    "none": "figure.facecolor axes.facecolor savefig.facecolor legend.facecolor",
}
_SIZES = {
    FONT_SIZE: "font.size axes.labelsize axes.titlesize",
    FONT_SIZE - 1: "xtick.labelsize ytick.labelsize legend.fontsize",
}
_STYLE: dict[Any, Any] = {
    "legend.frameon": False,
    "legend.columnspacing": 1.0,
    "legend.handlelength": 1.4,
    "legend.handletextpad": 0.4,
    "text.parse_math": False,  # a class may be called $5-$10
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "priorshift",  # ids are the same at every run
}
for _value, _names in (_COLOURS | _SIZES).items():
    _STYLE |= dict.fromkeys(_names.split(), _value)


@contextmanager
def report_style() -> Iterator[None]:
    """Draw with the report's own settings, whatever the user's style is."""
    import matplotlib as mpl

    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        # the reader's browser has the glyphs that Matplotlib's own font lacks
        warnings.filterwarnings("ignore", message=".*(missing from|does not support).*")
        yield


def draw_figures(facts: Facts) -> dict[str, str]:
    """Draw what the facts allow, by the names of sections."""
    figures: dict[str, str] = {}
    comparison = facts.comparison
    past = None if facts.assessment is None else facts.assessment.backtest
    with report_style():
        if comparison is not None and len(comparison.estimates) > 1:
            estimates = comparison.estimates
            shares = np.array([estimate.priors for estimate in estimates.values()])
            display = ComparisonDisplay(
                shares, list(estimates), comparison.classes, comparison.truth
            )
            size = (WIDE, display.figsize()[1])
            about = "Priors of the classes on which the compared methods differ most."
            figures["methods"] = draw_svg(display.plot, "methods", size, about, legend_above=False)
        if past is not None:
            figures["history"] = draw_svg(
                past.plot,
                "history",
                (WIDE, 0.9 + 0.4 * len(past.groups)),
                "What adapting and calibrating gained on past groups; see the table.",
            )
        if facts.confusion is not None:
            hard, classes = facts.confusion, facts.estimate.classes
            figures["confusion"] = draw_svg(
                ConfusionDisplay(hard.conditional, classes, hard.seen).plot,
                "confusion",
                (WIDE, WIDE * 0.88),
                "Confusion matrix on validation; see the table of the classes most confused.",
            )
        if facts.reliability is not None:
            figures["reliability"] = draw_svg(
                facts.reliability.plot,
                "reliability",
                (WIDTH, WIDTH),
                "Share of right decisions by confidence on validation; see the table.",
            )
    return figures


def draw_svg(
    plot: "Callable[[Axes], object]",
    prefix: str,
    size: tuple[float, float],
    title: str,
    *,
    legend_above: bool = True,
) -> str:
    """Draw on a figure of its own; headings and captions say what a title would."""
    from matplotlib.dates import AutoDateLocator
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    ax = figure.subplots()
    plot(ax)
    ax.set_title("", loc="left")
    legend = ax.get_legend()
    if legend_above and legend is not None:  # beside long names, axes have no room for it
        legend.remove()
        handles, labels = ax.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    dates = isinstance(ax.xaxis.get_major_locator(), AutoDateLocator)
    if size[0] == WIDTH and not dates:  # long names leave little room for ticks
        figure.draw_without_rendering()
        room = ax.get_window_extent().width / figure.dpi
        ax.locator_params(axis="x", nbins=max(int(room / 0.65), 2))
    return inline_svg(figure, prefix=prefix, title=title)


def inline_svg(figure: "Figure", *, prefix: str, title: str) -> str:
    """Return a figure as an `<svg>` element for an HTML page.

    Parameters
    ----------
    figure : Figure
    prefix : str
        Begins every id, so that several figures share a page.
    title : str
        What a screen reader says of the picture.
    """
    from matplotlib.transforms import Bbox

    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # or saving would lay it out again, within the smaller box
    # without empty space above and below, with all that sticks out
    drawn = figure.get_tightbbox()
    left, right = min(drawn.x0, 0.0), max(drawn.x1, figure.get_figwidth())
    box = Bbox([[left, drawn.y0 - MARGIN], [right, drawn.y1 + MARGIN]])
    buffer, nothing = io.BytesIO(), dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(buffer, format="svg", metadata=nothing, transparent=True, bbox_inches=box)
    root = ElementTree.fromstring(buffer.getvalue())
    for element in list(root.iter()):
        for child in [c for c in element if c.tag.endswith(("}metadata", "}style"))]:
            element.remove(child)
    for element in root.iter():
        # HTML's parser supplies the namespaces
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {
            name: value
            for old, text in element.attrib.items()
            for name, value in _attributes(old.rpartition("}")[2], text, prefix)
        }
        if element.tag not in ("text", "tspan", "title"):
            element.text = None
        element.tail = None
    view = root.attrib["viewBox"]
    name = ElementTree.Element("title", id=f"{prefix}-title")
    name.text = title
    root.insert(0, name)
    root.attrib = {"viewBox": view, "role": "img", "aria-labelledby": f"{prefix}-title"}
    return ElementTree.tostring(root, encoding="unicode")


def _attributes(name: str, value: str, prefix: str) -> Iterator[tuple[str, str]]:
    """Turn one attribute of Matplotlib's into what the page needs."""
    if name == "style":
        for declaration in value.split(";"):
            key, _, setting = (part.strip() for part in declaration.partition(":"))
            if key == "font":  # as older Matplotlib writes it; the family is the page's
                for part, form in (("size", r"[\d.]+px"), ("weight", r"\b(?:[1-9]00|bold)\b")):
                    if found := re.search(form, setting):
                        yield f"font-{part}", found[0]
            elif key and key not in ("font-family", "font-stretch"):
                yield from _attributes(key, setting, prefix)
    elif name == "id":
        yield "id", f"{prefix}-{value}"
    elif name == "href":
        yield "href", f"#{prefix}-{value[1:]}" if value.startswith("#") else value
    elif name in ("d", "points", "transform", "x", "y", "width", "height"):
        yield name, re.sub(r"-?\d+\.\d{3,}", lambda match: f"{float(match[0]):.2f}", value)
    else:
        value = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", value)
        yield name, {INK: "currentColor", LINES: "var(--line-strong)"}.get(value, value)
