"""What all displays share: colours, the ink of the user's style, title and legend."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.legend import Legend

BLUE, VERMILLION, GREEN, PURPLE, GREY = "#1F86C7", "#D55E00", "#009E73", "#CC79A7", "#7F7F7F"
"""Of Okabe and Ito's colours, which the colour-blind tell apart, those that keep a contrast of at
least 3 to 1 with white and with black (the blue made lighter for it); and a grey that does."""

SERIES_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, GREY)
SERIES_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p", "d")
"""As many as have no divisor in common with the colours, so that a pair recurs after 60 series."""

WIDTH = 7.4
"""Inches of a new figure."""


def require_matplotlib() -> None:
    """Name the extra to install where Matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError("plots need Matplotlib: pip install 'priorshift[plot]'") from None


def ink() -> str:
    """Return the colour of text in the user's style, dark or light."""
    import matplotlib as mpl

    return str(mpl.rcParams["text.color"])


LEGEND_POINTS = 20.0
"""Height that a legend of one row takes above the axes."""


def write_title(ax: "Axes", *lines: str, pad: float = 6.0) -> None:
    """Write at the left, and as it is: a dollar in a name is no formula."""
    ax.set_title("\n".join(lines), loc="left", fontsize="medium", pad=pad, parse_math=False)


def write_head(ax: "Axes", *lines: str) -> None:
    """Write title and legend, which stands in one row between them and the axes: no data there."""
    write_title(ax, *lines, pad=LEGEND_POINTS)
    legend = ax.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=5,
        frameon=False,
        fontsize="small",
        borderaxespad=0.2,
        borderpad=0.2,
        handlelength=1.6,
        columnspacing=1.4,
    )
    literally(legend)


def literally(legend: "Legend") -> None:
    """Write the names in a legend as they are."""
    for text in legend.get_texts():
        text.set_parse_math(False)


def share_axis(axis: "Axis") -> None:
    """Write shares along an axis in per cent, with no more digits than they need."""
    axis.set_major_formatter(_share)


def _share(value: float, _: float) -> str:
    return f"{100 * value:g}%"


def series_style(index: int) -> dict[str, Any]:
    """Return a colour and a marker that differ from those of other series, both of them."""
    return {
        "color": SERIES_COLOURS[index % len(SERIES_COLOURS)],
        "marker": SERIES_MARKERS[index % len(SERIES_MARKERS)],
    }


def bare(ax: "Axes", *keep: str) -> None:
    """Hide the frame but for the sides named."""
    for side, spine in ax.spines.items():
        spine.set_visible(side in keep)
