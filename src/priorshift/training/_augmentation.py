"""Crops and mirror images, on bytes."""

import numpy as np

from priorshift.training._images import Pixels


def augmented(pixels: Pixels, padding: int, size: int, rng: np.random.Generator) -> Pixels:
    """Pad with black, cut out a square of `size` at random, and mirror every other image.

    Parameters
    ----------
    pixels : ndarray of uint8, shape (n, height, width, channels)
    padding : int
        Black pixels added on each side.
    size : int
        Side of the square.
    rng : numpy.random.Generator

    Examples
    --------
    >>> import numpy as np
    >>> images = np.full((5, 32, 32, 3), 255, np.uint8)
    >>> augmented(images, 4, 32, np.random.default_rng(0)).shape
    (5, 32, 32, 3)
    """
    n = len(pixels)
    padded = np.pad(pixels, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    top, left = (rng.integers(0, side - size + 1, n)[:, None] for side in padded.shape[1:3])
    mirrored = rng.random((n, 1)) < 0.5
    at = np.arange(size)
    columns = left + np.where(mirrored, at[::-1], at)
    return padded[np.arange(n)[:, None, None], (top + at)[:, :, None], columns[:, None, :]]


def centred(pixels: Pixels, size: int) -> Pixels:
    """Cut out the square of `size` in the middle."""
    top, left = ((side - size) // 2 for side in pixels.shape[1:3])
    return pixels[:, top : top + size, left : left + size]
