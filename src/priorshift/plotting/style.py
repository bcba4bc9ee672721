"""What all displays share: their look, their axes, names along lines and rows, matrices, time."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Indices, Vector
from priorshift.exceptions import require
from priorshift.text import movers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure, SubFigure
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
    require("a plot", "plot", "matplotlib")


def ink() -> str:
    """Return the text colour of the user's style, dark or light."""
    import matplotlib as mpl

    return str(mpl.rcParams["text.color"])


def write_title(ax: "Axes", *lines: str, pad: float = 6.0) -> None:
    """Write a title at the left, literally: a dollar sign in a name starts no formula."""
    ax.set_title("\n".join(lines), loc="left", fontsize="medium", pad=pad, parse_math=False)


def write_head(ax: "Axes", *lines: str) -> None:
    """Write a title, and between it and the axes the legend in one row, where it hides no data."""
    # a one-row legend is 20 points high
    write_title(ax, *lines, pad=20)
    if not ax.get_legend_handles_labels()[0]:
        return
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
    axis.set_major_formatter(lambda value, _: f"{100 * value:g}%")


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


class Display:
    """What every display is: numbers that can be drawn, and a memory of where they were.

    Attributes
    ----------
    ax_, figure_ : Axes and Figure
        What `plot` drew on.
    """

    ax_: "Axes"
    figure_: "Figure | SubFigure"

    @classmethod
    def _of(cls, result: Any, **others: Any) -> Self:
        """Return a display of what a result has by the same names, and of others."""
        names = [field.name for field in fields(cls) if field.name not in others]  # type: ignore[arg-type]
        return cls(**{name: getattr(result, name) for name in names}, **others)

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, list):
                setattr(self, name, np.asarray(value))

    def figsize(self) -> tuple[float, float]:
        """Return the inches a figure needs."""
        return WIDTH, 4.4

    def _axes(
        self, ax: "Axes | None", layout: Literal["constrained", "compressed"] = "constrained"
    ) -> "Axes":
        """Return the axes given, or those of a new pyplot figure; else pyplot is not touched."""
        require_matplotlib()
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(figsize=self.figsize(), layout=layout)[1]
        self.ax_, self.figure_ = ax, ax.figure
        return ax


def by(method: str | None) -> str:
    """Name the method in a title, if it has a name.

    Examples
    --------
    >>> by("SCM-L"), by(None)
    (' by SCM-L', '')
    """
    return "" if method is None else f" by {method}"


def times(ratio: float) -> str:
    """Show how many times as frequent a class became.

    Examples
    --------
    >>> times(0.0312), times(1.25), times(31.4), times(1e-9)
    ('×0.031', '×1.2', '×31', '<×0.01')
    """
    if ratio < 0.01:
        return "<×0.01"
    if ratio >= 10:
        return f"×{ratio:,.0f}"
    return f"×{ratio:.1f}" if ratio >= 0.95 else f"×{ratio:.2g}"


NAME_HEIGHT = 0.055
"""Of a name, as a share of the axes."""


def name_ends(ax: "Axes", names: Sequence[str], last: Any, ends: Vector) -> None:
    """Write names at the right, each with a thin line to the end of its own, of every series."""
    heights = spread(ends / ax.get_ylim()[1])
    for at, (name, end, height) in enumerate(zip(names, ends, heights, strict=True)):
        ax.annotate(
            name,
            (last, end),
            xytext=(1.04, height),
            textcoords=ax.transAxes,
            va="center",
            fontsize="small",
            annotation_clip=False,
            parse_math=False,
            arrowprops={
                "arrowstyle": "-",
                "color": series_style(at)["color"],
                "lw": 0.8,
                "shrinkA": 1,
                "shrinkB": 4,
                "relpos": (0, 0.5),
            },
        )


def spread(heights: Vector) -> Vector:
    """Move heights, as shares of the axes, until no two are too close.

    Examples
    --------
    >>> spread(np.array([0.5, 0.1, 0.5])).round(3)
    array([0.5  , 0.1  , 0.555])
    """
    order = np.argsort(heights, kind="stable")
    step = NAME_HEIGHT * np.arange(order.size)
    # raise each to at least a step above the one below it, then shift all down if need be
    raised = np.maximum.accumulate(heights[order] - step) + step
    raised -= max(raised[-1] - 1.0, 0.0)
    placed = np.empty_like(raised)
    placed[order] = raised
    return placed


def farthest(distances: Vector, most: int) -> Indices:
    """Return the positions of the largest distances, at most `most` of them, in order.

    Examples
    --------
    >>> import numpy as np
    >>> farthest(np.array([0.1, 0.3, 0.0, 0.2]), 2)
    array([1, 3])
    """
    return np.sort(movers(distances, most))


def frame_rows(ax: "Axes", names: Sequence[str], xlabel: str, *, parted: bool = False) -> None:
    """Name the rows from top to bottom; those of several marks are parted by thin lines."""
    ax.set_yticks(np.arange(len(names)), list(names), parse_math=False)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlim(left=0.0)
    share_axis(ax.xaxis)
    ax.set_xlabel(xlabel)
    ax.grid(axis="x", alpha=0.3)
    ax.set_axisbelow(True)
    ax.tick_params(axis="y", length=0, pad=8)  # a marker at 0 needs room
    if parted:
        between = np.arange(1, len(names)) - 0.5
        ax.hlines(
            between, 0, 1, colors=ink(), lw=0.5, alpha=0.25, transform=ax.get_yaxis_transform()
        )
    bare(ax, "bottom")


def write_beside(ax: "Axes", texts: Sequence[str]) -> None:
    """Write a text at the right of each row."""
    for y, text in enumerate(texts):
        ax.annotate(
            text,
            (1, y),
            xycoords=ax.get_yaxis_transform(),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            annotation_clip=False,
            fontsize="small",
        )


MAX_POINTS = 400
"""Steps that a line is drawn with."""

_ZONE = re.compile(r"(?<=\d)(?:Z|[+-]\d\d:\d\d)$")


def positions(time: tuple[Any, ...]) -> NDArray[Any]:
    """Return where steps lie along the axis: at their dates or numbers, else one by one.

    Examples
    --------
    >>> positions(("2026-01-05T00:00:00Z", "2026-02-01")).astype("datetime64[D]")
    array(['2026-01-05', '2026-02-01'], dtype='datetime64[D]')
    >>> positions(("spring", "summer", "autumn"))
    array([0, 1, 2])
    """
    if all(isinstance(when, str) for when in time):
        with suppress(ValueError):  # dates as ISO text; a time zone is left out
            dates = np.array([_ZONE.sub("", when) for when in time], dtype="datetime64[ms]")
            if not np.isnat(dates).any():
                return dates
    if all(isinstance(when, int | float) for when in time):
        return np.array(time, dtype=np.float64)
    return np.arange(len(time))


def thinned_steps(n_steps: int) -> Indices:
    """Return the steps to draw: all, or 400 at even distances with the first and the last."""
    return np.unique(np.linspace(0, n_steps - 1, min(n_steps, MAX_POINTS)).astype(np.intp))


def label_time(ax: "Axes", time: tuple[Any, ...], *, numbered: bool) -> None:
    """Name the axis, with dates where there are such; steps that are only numbered have no time."""
    when = positions(time)
    if when.dtype.kind == "M":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator()  # type: ignore[no-untyped-call]
        ax.xaxis.set_major_locator(locator)
        concise = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
        ax.xaxis.set_major_formatter(concise)
        ax.set_xlabel("time")
        return
    if (when == when.round()).all():
        from matplotlib.ticker import MaxNLocator

        # there is no step 2.5
        whole = MaxNLocator(integer=True, steps=[1, 2, 5, 10], min_n_ticks=1)
        ax.xaxis.set_major_locator(whole)
    if when.size == 1:
        ax.set_xlim(when[0] - 0.5, when[0] + 0.5)
    ax.set_xlabel("step" if numbered or when.dtype.kind == "i" else "time")
