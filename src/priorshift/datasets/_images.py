"""Fashion-MNIST's image files, and long-tailed samples of any labelled images."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Indices

Bytes = NDArray[np.uint8]


def read_fashion_mnist(folder: Path, part: str) -> tuple[Bytes, Bytes]:
    """Read the images and labels of Fashion-MNIST from a folder.

    Parameters
    ----------
    folder : Path
        Folder with the four files as downloaded, or as Debian's package `dataset-fashion-mnist`
        installs them.
    part : {"train", "t10k"}
        The 60,000 training images or the 10,000 test images.

    Returns
    -------
    pixels : ndarray of uint8, shape (n, 28, 28)
    labels : ndarray of uint8, shape (n,)
    """
    try:
        pixels = read_idx(folder / f"{part}-images-idx3-ubyte.gz")
        labels = read_idx(folder / f"{part}-labels-idx1-ubyte.gz")
    except FileNotFoundError as error:
        raise ValueError(
            f"{error.filename} is missing: install Debian's package dataset-fashion-mnist (its "
            "folder is /usr/share/datasets/fashion-mnist), or name the folder that holds "
            "Fashion-MNIST's four files."
        ) from error
    if len(pixels) != len(labels):
        raise ValueError(f"{folder} has {len(pixels)} {part} images, but {len(labels)} labels.")
    return pixels, labels


def read_idx(path: Path) -> Bytes:
    """Read a gzipped IDX file of bytes, the format of the MNIST family.

    The header is two zero bytes, the type (8: unsigned bytes), the number of dimensions, and each
    dimension as a big-endian 32-bit integer.
    """
    content = gzip.decompress(path.read_bytes())
    if content[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is not an IDX file of unsigned bytes; download it again.")
    n_dimensions = content[3]
    shape = np.frombuffer(content, dtype=">u4", count=n_dimensions, offset=4)
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * n_dimensions).reshape(shape)


def long_tail_counts(order: Sequence[int], n_most: int, imbalance: float) -> Indices:
    r"""Return sample counts per class that fall exponentially along `order`.

    .. math:: n_{order(j)} = \operatorname{round}(n_{most} \, r^{-j / (K - 1)})

    Parameters
    ----------
    order : sequence of int
        The K classes from the most to the least frequent.
    n_most : int
        Samples of the most frequent class.
    imbalance : float
        Samples of the most frequent class over those of the rarest, r.

    Returns
    -------
    ndarray of shape (n_classes,)

    Examples
    --------
    >>> long_tail_counts([1, 0, 2], 100, 4.0)
    array([ 50, 100,  25])
    """
    counts = np.empty(len(order), dtype=np.intp)
    counts[list(order)] = np.rint(n_most * imbalance ** -np.linspace(0.0, 1.0, len(order)))
    return counts


def draw_parts(
    y: NDArray[Any], counts: Sequence[Indices], rng: np.random.Generator
) -> list[Indices]:
    """Draw disjoint parts of a labelled data set with given class counts, without replacement.

    Parameters
    ----------
    y : ndarray of int, shape (n_samples,)
        Labels 0 to K - 1.
    counts : sequence of ndarrays of shape (n_classes,)
        Samples per class in each part.
    rng : numpy.random.Generator

    Returns
    -------
    list of ndarrays
        Row numbers of each part, in random order.

    Examples
    --------
    >>> import numpy as np
    >>> from priorshift.datasets import draw_parts
    >>> y = np.repeat([0, 1], 5)
    >>> counts = np.array([3, 1]), np.array([2, 2])
    >>> first, second = draw_parts(y, counts, np.random.default_rng(0))
    >>> np.bincount(y[first]), np.bincount(y[second]), np.intersect1d(first, second).size
    (array([3, 1]), array([2, 2]), 0)
    """
    ends = np.cumsum(counts, axis=0)
    available = np.bincount(y, minlength=ends.shape[1])
    short = np.flatnonzero(ends[-1] > available)
    if short.size:
        raise ValueError(
            f"class {short[0]} has {available[short[0]]} samples, but counts asks for "
            f"{ends[-1][short[0]]}; lower the counts, or use a larger data set."
        )
    shuffled = rng.permutation(y.size)
    by_class = shuffled[np.argsort(y[shuffled], kind="stable")]
    rank = np.arange(y.size) - (np.cumsum(available) - available)[y[by_class]]
    part = (rank >= ends[:, y[by_class]]).sum(axis=0)
    return [rng.permutation(by_class[part == number]) for number in range(len(counts))]
