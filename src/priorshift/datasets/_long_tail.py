"""Draw long-tailed parts from a data set."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Indices


def long_tail_counts(order: Sequence[int], n_most: int, imbalance: float) -> Indices:
    r"""Count samples of each class so that they fall exponentially along `order`.

    .. math:: n_{order(j)} = \operatorname{round}(n_{most} \, r^{-j / (K - 1)})

    Parameters
    ----------
    order : sequence of int
        Positions of the K classes from the most to the least frequent.
    n_most : int
        Samples of the most frequent class.
    imbalance : float
        How many times as many it has as the rarest, r.

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
    """Draw disjoint parts of a data set with given class counts, without replacement.

    Parameters
    ----------
    y : ndarray of int, shape (n_samples,)
        Labels 0 to K - 1.
    counts : sequence of ndarrays of shape (n_classes,)
        Samples of each class in each part.
    rng : numpy.random.Generator

    Returns
    -------
    list of ndarrays
        Row numbers of each part, in random order.

    Examples
    --------
    >>> import numpy as np
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
            f"class {short[0]} has {available[short[0]]} samples, but {ends[-1][short[0]]} are "
            "asked for; lower the counts, or use the whole data set."
        )
    shuffled = rng.permutation(y.size)
    by_class = shuffled[np.argsort(y[shuffled], kind="stable")]
    rank = np.arange(y.size) - (np.cumsum(available) - available)[y[by_class]]
    part = (rank >= ends[:, y[by_class]]).sum(axis=0)
    return [rng.permutation(by_class[part == number]) for number in range(len(counts))]
