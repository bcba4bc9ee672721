"""Matplotlib figures as inline SVG that follows the page: its fonts, its colours, its ids."""

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

if TYPE_CHECKING:
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
