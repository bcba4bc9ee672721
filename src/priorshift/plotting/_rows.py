"""Rows of names with shares along the axis below: the frame of several displays."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from priorshift._typing import Indices, Vector
from priorshift._validation import check_count
from priorshift.plotting.style import bare, ink, share_axis
from priorshift.text import movers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def farthest(distances: Vector, most: int, name: str = "max_classes") -> Indices:
    """Return the positions of the largest distances, at most `most` of them, in order.

    Examples
    --------
    >>> import numpy as np
    >>> farthest(np.array([0.1, 0.3, 0.0, 0.2]), 2)
    array([1, 3])
    """
    return np.sort(movers(distances, check_count(most, name)))


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
