r"""Pairs of classes that validation cannot tell apart.

For classes a and b the decisions differ by :math:`\Delta = E[f_a - f_b \mid a] - E[f_a - f_b \mid
b]`, which is 0 where the columns of C agree on them. A pair is confusable if Delta is not
significantly above 0, given how many samples of both there are.
"""

import numpy as np

from priorshift._typing import Floats, Indices, Mask, Vector
from priorshift.statistics import Confusion

Z = 1.96
LEAST_GAP = 0.01
"""A difference below a point is none, however sure."""


def confusable_pairs(
    y_proba: Floats, y: Indices, first: Confusion | None = None
) -> list[tuple[int, int]]:
    """Return pairs of class indices, the least told apart first; `first` is C if it is known.

    Examples
    --------
    >>> import numpy as np
    >>> y_proba = np.array([[0.5, 0.4, 0.1], [0.4, 0.5, 0.1]] * 4 + [[0.1, 0.1, 0.8]] * 4)
    >>> confusable_pairs(y_proba, np.repeat([0, 1, 2], 4))
    [(0, 1)]
    """
    first = first or Confusion.from_arrays(y_proba, y, decision="soft")
    C = first.conditional
    second = _means(y_proba.astype(np.float64) ** 2, y)
    own = y_proba[np.arange(y.size), y].astype(np.float64)
    crossed = _means(y_proba, y, own)  # E[f_j f_k | k]
    own_mean, own_square = np.diagonal(C), np.diagonal(second)
    n = first.class_weights
    # Var(f_k - f_j | k), entry [j, k]
    moment = own_square - 2 * crossed + second
    variance = np.maximum(moment - (own_mean - C) ** 2, 0.0)
    spread = variance / np.maximum(n - 1, 1)
    gap = (own_mean - C) + (own_mean - C).T
    noise = np.sqrt(spread + spread.T)
    return _ordered(gap, noise, first.seen)


def _means(values: Floats, y: Indices, weight: Vector | None = None) -> Vector:
    """Return the mean of weighted rows by class, as columns."""
    sums = Confusion.from_arrays(values, y, decision="soft", sample_weight=weight).counts
    return sums / np.maximum(np.bincount(y, minlength=values.shape[1]), 1)


def _ordered(gap: Vector, noise: Vector, seen: Mask) -> list[tuple[int, int]]:
    close = (gap <= np.maximum(Z * noise, LEAST_GAP)) & seen & seen[:, None]
    a, b = np.nonzero(np.triu(close, 1))
    order = np.argsort(gap[a, b], kind="stable")
    return list(zip(a[order].tolist(), b[order].tolist(), strict=True))
