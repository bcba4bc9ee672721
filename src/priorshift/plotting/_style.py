"""What all displays share: axes to draw on, colours, and the ink of the user's style."""

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, VERMILLION, GREEN, PURPLE, GREY = "#1F86C7", "#D55E00", "#009E73", "#CC79A7", "#7F7F7F"
"""Of Okabe and Ito's colours, which the colour-blind tell apart, those that keep a contrast of at
least 3 to 1 with white and with black (the blue made lighter for it); and a grey that does."""

SERIES_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, GREY)
SERIES_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p", "d")
"""As many as have no divisor in common with the colours, so that a pair recurs after 60 series."""

WIDTH = 7.4
"""Inches of a new figure."""


def axes_for(
    ax: "Axes | None",
    figsize: tuple[float, float],
    layout: Literal["constrained", "compressed"] = "constrained",
) -> "Axes":
    """Return the axes given, or those of a new pyplot figure; pyplot is not touched otherwise."""
    require_matplotlib()
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=figsize, layout=layout)[1]


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


def write_title(ax: "Axes", *lines: str, above_legend: bool = False) -> None:
    """Write at the left, and as it is: a dollar in a name is no formula."""
    pad = LEGEND_POINTS if above_legend else 6.0
    ax.set_title("\n".join(lines), loc="left", fontsize="medium", pad=pad, parse_math=False)


def legend_above(ax: "Axes") -> None:
    """Write the legend in one row between axes and title, where it covers no data."""
    ax.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=4,
        frameon=False,
        fontsize="small",
        borderaxespad=0.2,
        borderpad=0.2,
        handlelength=1.6,
        columnspacing=1.4,
    )


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
