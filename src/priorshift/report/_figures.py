"""The report's pictures: the class shares, and displays drawn as SVG that follows the page."""

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree

import numpy as np

from priorshift.compare import Comparison
from priorshift.plotting import ComparisonDisplay, ConfusionDisplay, ReliabilityDisplay
from priorshift.report._facts import Facts
from priorshift.text import movers, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

INK, LINES = "#010203", "#040506"
"""Colours that no palette has: text becomes the page's text colour, grid lines its line colour."""

FONT_SIZE = 10.5
MARGIN = 0.03
"""Inches above and below a figure."""

_STYLE: dict[Any, Any] = {
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.labelcolor": INK,
    "axes.edgecolor": LINES,
    "grid.color": LINES,
    "legend.edgecolor": LINES,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.facecolor": "none",
    "legend.frameon": False,
    "font.size": FONT_SIZE,
    "axes.labelsize": FONT_SIZE,
    "axes.titlesize": FONT_SIZE,
    "xtick.labelsize": FONT_SIZE - 1,
    "ytick.labelsize": FONT_SIZE - 1,
    "legend.fontsize": FONT_SIZE - 1,
    "legend.columnspacing": 1.0,
    "legend.handlelength": 1.4,
    "legend.handletextpad": 0.4,
    "text.parse_math": False,  # a class may be called $5-$10
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "priorshift",  # ids are the same at every run
}

_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_DECIMALS = re.compile(r"-?\d+\.\d{3,}")
_DROPPED = ("metadata", "style")
_FONT_SIZE = re.compile(r"[\d.]+px")
_FONT_WEIGHT = re.compile(r"\b(?:[1-9]00|bold)\b")


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
    buffer = io.BytesIO()
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    figure.savefig(
        buffer, format="svg", metadata=nothing, transparent=True, bbox_inches=_box(figure)
    )
    root = ElementTree.fromstring(buffer.getvalue())
    for element in list(root.iter()):
        for child in [c for c in element if _local(c.tag) in _DROPPED]:
            element.remove(child)
    for element in root.iter():
        element.tag = _local(element.tag)
        element.attrib = {
            name: value
            for old, text in element.attrib.items()
            for name, value in _attributes(_local(old), text, prefix)
        }
        element.text, element.tail = _kept(element.text, element.tag), None
    view = root.attrib["viewBox"]
    name = ElementTree.Element("title", id=f"{prefix}-title")
    name.text = title
    root.insert(0, name)
    root.attrib = {"viewBox": view, "role": "img", "aria-labelledby": f"{prefix}-title"}
    return ElementTree.tostring(root, encoding="unicode")


def _box(figure: "Figure") -> "Bbox":
    """Return the figure's box without empty space above and below, with all that sticks out."""
    from matplotlib.transforms import Bbox

    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # or saving would lay it out again, within the smaller box
    drawn = figure.get_tightbbox()
    left, right = min(drawn.x0, 0.0), max(drawn.x1, figure.get_figwidth())
    return Bbox([[left, drawn.y0 - MARGIN], [right, drawn.y1 + MARGIN]])


def _local(name: str) -> str:
    """Strip the namespace, which HTML's parser supplies."""
    return name.rpartition("}")[2]


def _kept(text: str | None, tag: str) -> str | None:
    return text if tag in ("text", "tspan", "title") else None


def _attributes(name: str, value: str, prefix: str) -> Iterator[tuple[str, str]]:
    """Turn one attribute of Matplotlib's into what the page needs."""
    if name == "style":
        for declaration in value.split(";"):
            key, _, setting = (part.strip() for part in declaration.partition(":"))
            if key == "font":
                yield from _font(setting)
            elif key and key not in ("font-family", "font-stretch"):
                yield key, _coloured(_local_urls(setting, prefix))
    elif name == "id":
        yield "id", f"{prefix}-{value}"
    elif name == "href":
        yield "href", f"#{prefix}-{value[1:]}" if value.startswith("#") else value
    elif name in ("d", "points", "transform", "x", "y", "width", "height"):
        yield name, _DECIMALS.sub(lambda match: f"{float(match[0]):.2f}", value)
    else:
        yield name, _coloured(_local_urls(value, prefix))


def _font(shorthand: str) -> Iterator[tuple[str, str]]:
    """Keep size and weight of a font as older Matplotlib writes it; the family is the page's."""
    size, weight = _FONT_SIZE.search(shorthand), _FONT_WEIGHT.search(shorthand)
    if size:
        yield "font-size", size[0]
    if weight:
        yield "font-weight", weight[0]


def _local_urls(value: str, prefix: str) -> str:
    return _REFERENCE.sub(lambda match: f"url(#{prefix}-{match[1]})", value)


def _coloured(value: str) -> str:
    """Replace the stand-ins by what follows the colour scheme."""
    if value == INK:
        return "currentColor"
    return "var(--line-strong)" if value == LINES else value


def picture(facts: Facts, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the classes that moved most, and of more than twelve the rest together.

    The scale holds every share shown, and intervals up to twice as far: one class of which nothing
    is known must not hide the others.
    """
    shown, K = facts.shown, len(names)
    parts = {"before": shown.source_priors, "now": shown.priors}
    parts |= {} if facts.truth is None else {"truth": facts.truth}
    parts |= {} if facts.decided is None else {"decided": facts.decided}
    order = movers(facts.change, K if K <= 12 else 10)
    largest = max(float(part[order].max()) for part in parts.values())
    if shown.interval is not None:
        largest = max(largest, min(float(shown.interval[order, 1].max()), 2 * largest))
    rows = [
        {
            "name": shorten(names[k], 28),  # names differ at either end
            "interval": None if shown.interval is None else shown.interval[k].tolist(),
            **{name: float(part[k]) for name, part in parts.items()},
        }
        for k in order
    ]
    rest = None
    if order.size < K:
        others = np.delete(np.arange(K), order)
        sums = {name: float(part[others].sum()) for name, part in parts.items()}
        rest = {"name": f"the other {others.size:,} classes", "interval": None, **sums}
    return {"rows": rows, "rest": rest, "scale": round_up(largest), "parts": parts}


def round_up(largest: float) -> float:
    """Return the round share at which a scale ends that holds the largest.

    Examples
    --------
    >>> round_up(0.23), round_up(0.95), round_up(0.0031)
    (0.25, 1.0, 0.004)
    """
    largest = max(largest, 1e-4)
    size = 10.0 ** np.floor(np.log10(largest))
    step = float(size * next(s for s in (0.1, 0.2, 0.5, 1.0, 2.0) if largest / (s * size) <= 5))
    return float(f"{np.ceil(largest / step - 1e-9) * step:.6g}")


def place(share: float, scale: float) -> float:
    """Return where a share stands on a track, in per cent of its width."""
    return round(1 + 97 * min(share / scale, 1.0), 2)


WIDTH = 4.6
"""Inches: narrow, so that text is still read where the page is a phone's."""

WIDE = 5.4
"""Of matrices, whose cells hold numbers."""


@dataclass(frozen=True)
class FigureOf:
    """A figure for the page."""

    svg: str
    caption: str


def draw_figures(facts: Facts) -> dict[str, FigureOf]:
    """Draw what the facts allow, by the names of sections."""
    figures: dict[str, FigureOf] = {}
    with report_style():
        if facts.comparison is not None and len(facts.comparison.estimates) > 1:
            figures["methods"] = _methods(facts.comparison)
        past = None if facts.assessment is None else facts.assessment.backtest
        if past is not None:
            size = WIDE, 0.9 + 0.4 * len(past.groups)
            title = "What adapting and calibrating gained on past groups; see the table."
            figures["history"] = FigureOf(
                _draw(past.plot, "history", size, title, legend_above=True),
                "What adapting and calibrating would have gained on each past group.",
            )
        if facts.confusion is not None:
            hard = facts.confusion
            display = ConfusionDisplay(
                hard.conditional, facts.estimate.classes, seen=hard.seen, decision="hard"
            )
            title = "Confusion matrix on validation; see the table of the classes most confused."
            figures["confusion"] = FigureOf(
                _draw(display.plot, "confusion", (WIDE, WIDE * 0.88), title),
                "Each column is a true class, each cell the share of its validation rows decided "
                "as the class of the row.",
            )
        if facts.reliability is not None:
            K = facts.estimate.classes.size
            reliable = ReliabilityDisplay.from_reliability(facts.reliability, K)
            title = "Share of right decisions by confidence on validation; see the table."
            figures["reliability"] = FigureOf(
                _draw(reliable.plot, "reliability", (WIDTH, WIDTH), title, legend_above=True),
                "On the diagonal, the classifier is right as often as it says; below it, it is too "
                "sure of itself. Grey: rows by confidence.",
            )
    return figures


def _methods(comparison: Comparison) -> FigureOf:
    estimates = comparison.estimates
    display = ComparisonDisplay(
        [estimate.priors for estimate in estimates.values()],
        list(estimates),
        comparison.classes,
        truth=comparison.truth,
    )
    # dots where there is room to tell them apart, else distances
    few = len(estimates) * comparison.classes.size <= 60
    kind: Literal["priors", "distance"] = "priors" if few else "distance"
    width, height = display.figsize(kind)
    size = (WIDTH, height) if few else (WIDE, height * min(WIDE / width, 1.0))
    caption = "Total variation distance between the priors of every two methods, in per cent."
    caption = "Priors of each class, by method." if few else caption
    if comparison.truth is not None:
        caption += " The truth is what the target’s labels say."
    title = "How far the priors of the compared methods are apart."
    return FigureOf(_draw(lambda ax: display.plot(ax, kind=kind), "methods", size, title), caption)


def _draw(
    plot: "Callable[[Axes], object]",
    prefix: str,
    size: tuple[float, float],
    title: str,
    *,
    legend_above: bool = False,
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
