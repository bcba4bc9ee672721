"""A matrix as an image: one artist, however many cells."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Vector
from priorshift.plotting.style import share_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

COLOURS = "cividis"
"""Reads alike with and without colour vision, and on light and dark pages."""


def draw_heatmap(ax: "Axes", values: Vector, *, largest: float, label: str) -> "AxesImage":
    """Draw shares with a colour bar; NaN is left blank. The square root spreads small ones."""
    from matplotlib.colors import PowerNorm

    image = ax.imshow(
        np.ma.masked_invalid(values),
        cmap=COLOURS,
        norm=PowerNorm(0.5, vmin=0.0, vmax=largest),
        interpolation="none",
        aspect="equal",
    )
    bar = ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.03, label=label)
    share_axis(bar.ax.yaxis)
    bar.outline.set_visible(False)
    return image


def write_cells(ax: "Axes", image: "AxesImage", texts: NDArray[Any], fontsize: float) -> None:
    """Write into each cell in whichever end of the colour map stands out more; skip empty texts."""
    values = np.ma.filled(np.ma.asarray(image.get_array(), dtype=np.float64), 0.0)
    ends = np.array([image.cmap(0.0), image.cmap(1.0)])
    brightness = _luminance(image.to_rgba(values))[..., None] + 0.05
    of_ends = _luminance(ends) + 0.05
    contrast = np.maximum(brightness, of_ends) / np.minimum(brightness, of_ends)
    best = contrast.argmax(axis=-1)
    for (row, column), text in np.ndenumerate(texts):
        if text:
            colour = tuple(ends[best[row, column]])
            ax.text(column, row, text, ha="center", va="center", fontsize=fontsize, color=colour)


def _luminance(rgba: Vector) -> Vector:
    """Return the relative luminance that contrast is defined by (WCAG), of sRGB colours."""
    rgb = rgba[..., :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])
