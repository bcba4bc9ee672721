"""Images with labels, in memory or in files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Indices

Pixels = NDArray[np.uint8]
"""Images as (n, height, width, channels)."""


class Images(Protocol):
    """What training asks of images."""

    @property
    def y(self) -> Indices:
        """Labels, 0 to K - 1."""

    def pixels(self, rows: Indices) -> Pixels:
        """Return some of the images."""


@dataclass(frozen=True, eq=False)
class ArrayImages:
    """Images in memory.

    Examples
    --------
    >>> import numpy as np
    >>> images = ArrayImages(np.zeros((3, 28, 28, 1), np.uint8), np.array([0, 1, 1]))
    >>> images.pixels(np.array([2, 0])).shape
    (2, 28, 28, 1)
    """

    values: Pixels
    y: Indices

    def pixels(self, rows: Indices) -> Pixels:
        """Return some of the images."""
        return self.values[rows]


@dataclass(frozen=True, eq=False)
class FileImages:
    """Images in files, read when they are asked for: squares of `size` about their middle.

    The shorter side is scaled to `size` first. It needs Pillow.
    """

    folder: Path
    paths: tuple[str, ...]
    y: Indices
    size: int

    def pixels(self, rows: Indices) -> Pixels:
        """Read some of the images."""
        return np.stack([self._read(self.folder / self.paths[row]) for row in rows])

    def _read(self, path: Path) -> Pixels:
        pillow = require_pillow()
        with pillow.open(path) as image:
            image.draft("RGB", (self.size, self.size))  # JPEG decodes at a fraction of its size
            colour = image.convert("RGB")
        scale = self.size / min(colour.size)
        width, height = (max(self.size, round(scale * side)) for side in colour.size)
        scaled = np.asarray(colour.resize((width, height), pillow.Resampling.BILINEAR))
        top, left = (height - self.size) // 2, (width - self.size) // 2
        return scaled[top : top + self.size, left : left + self.size]


@dataclass(frozen=True, eq=False)
class ImageData:
    """A data set: its training and test images, and a validation set if it comes with one.

    Attributes
    ----------
    name : str
    n_classes : int
    train, test : Images
    val : Images or None
        Without one, validation is held out of the training images.
    """

    name: str
    n_classes: int
    train: Images
    test: Images
    val: Images | None = None


def require_pillow() -> Any:
    """Import Pillow, or say how to get it."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            "image files are read with Pillow, which is missing: pip install pillow"
        ) from error
    return Image
