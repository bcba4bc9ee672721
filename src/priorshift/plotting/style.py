"""The look that all displays share: colours, markers, titles, legends and axes."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.legend import Legend

BLUE, VERMILLION, GREEN, PURPLE, GREY = "#1F86C7", "#D55E00", "#009E73", "#CC79A7", "#7F7F7F"
"""Colours of Okabe and Ito that colour-blind readers can tell apart and whose contrast with white
and with black is at least 3 to 1 (the blue is lighter than theirs for that), and such a grey."""

SERIES_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, GREY)
SERIES_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p", "d")
"""Their number shares no divisor with that of the colours: a pair recurs only after 60 series."""

WIDTH = 7.4
"""Width of a new figure, in inches."""


def require_matplotlib() -> None:
    """Raise an error that names the extra to install if Matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError("plots need Matplotlib: pip install 'priorshift[plot]'") from None


def ink() -> str:
    """Return the text colour of the user's style, dark or light."""
    import matplotlib as mpl

    return str(mpl.rcParams["text.color"])


LEGEND_POINTS = 20.0
"""Height of a one-row legend above the axes."""


def write_title(ax: "Axes", *lines: str, pad: float = 6.0) -> None:
    """Write a title at the left, literally: a dollar sign in a name starts no formula."""
    ax.set_title("\n".join(lines), loc="left", fontsize="medium", pad=pad, parse_math=False)


def write_head(ax: "Axes", *lines: str) -> None:
    """Write a title, and between it and the axes the legend in one row, where it hides no data."""
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
    """Write the names in a legend literally."""
    for text in legend.get_texts():
        text.set_parse_math(False)


def share_axis(axis: "Axis") -> None:
    """Write shares along an axis in percent, with no more digits than necessary."""
    axis.set_major_formatter(_share)


def _share(value: float, _: float) -> str:
    return f"{100 * value:g}%"


def series_style(index: int) -> dict[str, Any]:
    """Return the colour and marker of the series with a given number.

    Examples
    --------
    >>> series_style(0)
    {'color': '#1F86C7', 'marker': 'o'}
    """
    return {
        "color": SERIES_COLOURS[index % len(SERIES_COLOURS)],
        "marker": SERIES_MARKERS[index % len(SERIES_MARKERS)],
    }


def bare(ax: "Axes", *keep: str) -> None:
    """Hide the frame of the axes except for the sides to keep, such as "left"."""
    for side, spine in ax.spines.items():
        spine.set_visible(side in keep)
