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

from priorshift.plotting import ComparisonDisplay, ConfusionDisplay, ReliabilityDisplay
from priorshift.report._facts import Facts
from priorshift.text import short_percent, shorten

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


MAX_SHARES = 12
"""Classes that the picture shows one by one; of more, the top movers and the rest together."""

TOP_MOVERS = 10

LONGEST_NAME = 28
"""Characters; of a longer name the middle is left out, as names differ at either end."""

WIDEST = 2.0
"""How far beyond the largest share the scale goes, to hold intervals; wider ones are cut."""

MARGINS = 1.0, 98.0
"""Where the scale of the picture begins and ends, in per cent of its width."""


@dataclass(frozen=True)
class Share:
    """A row of the picture: a class's share before and now, at positions in per cent."""

    name: str
    text: str
    """The shares in words, for those who do not see the picture too."""
    interval: str
    truth: str
    x_before: float
    x_now: float
    x_interval: tuple[float, float] | None
    x_truth: float | None
    x_decided: float | None = None
    """Of decisions as counted, where there are no probabilities."""

    @property
    def kind(self) -> str:
        """Whether the share grew, shrank or stayed."""
        if abs(self.x_now - self.x_before) < 0.5:
            return "same"
        return "grew" if self.x_now > self.x_before else "shrank"


@dataclass(frozen=True)
class Picture:
    """The class shares before and now, on one scale; the rest has a scale of its own."""

    rows: tuple[Share, ...]
    rest: Share | None
    largest: str
    """Share at the right end of the scale."""
    level: str
    has_truth: bool
    has_decided: bool = False


def picture(facts: Facts, names: tuple[str, ...]) -> Picture:
    """Place the classes that moved most on a common scale."""
    estimate, K = facts.shown, len(names)
    truth = None if facts.truth is None else facts.truth.priors
    shown = facts.shift.by_size[: K if K <= MAX_SHARES else TOP_MOVERS]
    columns = [estimate.source_priors, estimate.priors]
    columns += [part for part in (truth, facts.decided) if part is not None]
    largest = max(float(column[shown].max()) for column in columns)
    if estimate.interval is not None:  # one class of which nothing is known must not hide the rest
        upper = float(estimate.interval[shown, 1].max())
        largest = max(largest, min(upper, WIDEST * largest))
    largest = _scale(largest)
    rows = tuple(
        _share(
            shorten(names[k], LONGEST_NAME),
            float(estimate.source_priors[k]),
            float(estimate.priors[k]),
            None if estimate.interval is None else tuple(estimate.interval[k].tolist()),
            None if truth is None else float(truth[k]),
            largest,
            None if facts.decided is None else float(facts.decided[k]),
        )
        for k in shown
    )
    rest = None
    if shown.size < K:
        others = np.delete(np.arange(K), shown)
        rest = _share(
            f"the other {others.size:,} classes",
            float(estimate.source_priors[others].sum()),
            float(estimate.priors[others].sum()),
            None,
            None if truth is None else float(truth[others].sum()),
            1.0,
            None if facts.decided is None else float(facts.decided[others].sum()),
        )
    level = ""
    if estimate.interval is not None and estimate.confidence_level is not None:
        level = f"{100 * estimate.confidence_level:g}%"
    scale = f"{100 * largest:g}%"
    return Picture(rows, rest, scale, level, truth is not None, facts.decided is not None)


def _scale(largest: float) -> float:
    """Return the round share at which a scale ends that holds the largest.

    Examples
    --------
    >>> _scale(0.23), _scale(0.95), _scale(0.0031)
    (0.25, 1.0, 0.004)
    """
    largest = max(largest, 1e-4)
    size = 10.0 ** np.floor(np.log10(largest))
    step = float(size * next(s for s in (0.1, 0.2, 0.5, 1.0, 2.0) if largest / (s * size) <= 5))
    return float(f"{np.ceil(largest / step - 1e-9) * step:.6g}")


def _at(share: float, largest: float) -> float:
    first, last = MARGINS
    return round(first + (last - first) * min(share / largest, 1.0), 2)


def _share(
    name: str,
    before: float,
    now: float,
    interval: tuple[float, ...] | None,
    truth: float | None,
    largest: float,
    decided: float | None = None,
) -> Share:
    said = ""
    if interval is not None:
        low, high = interval
        said = f"{short_percent(low).removesuffix('%')} to {short_percent(high)}"
    return Share(
        name,
        f"{short_percent(before)} → {short_percent(now)}",
        said,
        "" if truth is None else short_percent(truth),
        _at(before, largest),
        _at(now, largest),
        None if interval is None else (_at(interval[0], largest), _at(interval[1], largest)),
        None if truth is None else _at(truth, largest),
        None if decided is None else _at(decided, largest),
    )


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
    figures: dict[str, FigureOf] = {}
    with report_style():
        if facts.comparison is not None and len(facts.comparison.estimates) > 1:
            figures["methods"] = _methods(facts)
        if facts.mistakes is not None:
            figures["confusion"] = _confusion(facts)
        if facts.reliability is not None:
            figures["reliability"] = _reliability(facts)
    return figures


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
        "On the diagonal, the classifier is right as often as it says; below it, it is too sure of "
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
