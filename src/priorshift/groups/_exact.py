r"""Sums by group that do not depend on how rows are cut, ordered or merged.

Floating-point sums change in their last digits with the order of what is added. Here every number
is split into a multiple of :math:`2^{-26}` and a rest that is a multiple of :math:`2^{-53}`. Sums
of either are exact in float64, in any order, up to 134 million rows a group; what the split drops
is at most :math:`2^{-54}` a row.
"""

import numpy as np
from scipy.sparse import csr_array

from priorshift._typing import Indices, Vector

COARSE = 1.5 * 2.0**26
FINE = 0.75
"""Adding and subtracting these rounds to multiples of 2^-26 and of 2^-53."""

ROUGH = 1.5 * 2.0**39
"""The same for multiples of 2^-13: enough for a covariance, and exact when squared and summed."""


def split(values: Vector) -> Vector:
    """Return the multiples of 2^-26 and the rests, side by side: (n, K) becomes (n, 2 K).

    Examples
    --------
    >>> import numpy as np
    >>> float(split(np.array([[0.1, 0.7]])).sum()) == 0.1 + 0.7
    True
    """
    K = values.shape[1]
    parts = np.empty((values.shape[0], 2 * K))
    high, low = parts[:, :K], parts[:, K:]
    np.add(values, COARSE, out=high)
    high -= COARSE
    np.subtract(values, high, out=low)
    low += FINE
    low -= FINE
    return parts


def sum_by_group(parts: Vector, codes: Indices, n_groups: int) -> Vector:
    """Sum rows by group: a sparse matrix of codes does it without sorting rows."""
    ends = np.arange(codes.size + 1)
    members = csr_array((np.ones(codes.size), codes, ends), shape=(codes.size, n_groups))
    return members.T @ parts


def rough(values: Vector) -> Vector:
    """Round to multiples of 2^-13."""
    return (values + ROUGH) - ROUGH
