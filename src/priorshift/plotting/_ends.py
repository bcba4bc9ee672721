"""Names beside the ends of lines, where a legend would send the eye to and fro."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from priorshift._typing import Vector
from priorshift.plotting.style import series_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
