"""Sums since each of a few past batches: all windows that matter, in little memory."""

from dataclasses import dataclass

import numpy as np

from priorshift._typing import Indices, Mask, Vector

LIFETIME = 4
"""A start s = r 2^k, r odd, is kept for 4 x 2^k batches."""


@dataclass(frozen=True)
class DyadicPools:
    r"""Sums of what batches bring, since :math:`O(\log t)` past batches.

    Every batch starts a pool, and most pools are soon dropped: the start
    :math:`s = r 2^k`, r odd, lives for :math:`4 \cdot 2^k` batches (Hazan and Seshadhri, 2007), and
    the start 0 for ever. So whatever the batch since which nothing changed, there is a pool that
    began not before it and holds a fair part of what came since.

    Attributes
    ----------
    starts : ndarray of shape (n_pools,)
        The first batch of each pool, in rising order.
    sums : ndarray of shape (n_pools, n_values)
    n_batches : int
        Batches seen.

    Examples
    --------
    >>> import numpy as np
    >>> pools = DyadicPools.empty(2)
    >>> for _ in range(20):
    ...     pools = pools.add(np.array([3.0, 1.0]))
    >>> pools.starts
    array([ 0,  4,  8, 12, 14, 16, 17, 18, 19])
    >>> pools.sums[2]
    array([36., 12.])
    """

    starts: Indices
    sums: Vector
    n_batches: int = 0

    @classmethod
    def empty(cls, n_values: int) -> "DyadicPools":
        """Return no pools yet."""
        return cls(np.zeros(0, dtype=np.intp), np.zeros((0, n_values)))

    @property
    def surviving(self) -> Mask:
        """Which pools take the next batch."""
        return _alive(self.starts, self.n_batches)

    def add(self, values: Vector) -> "DyadicPools":
        """Return the pools that survive, with the next batch, which begins a pool of its own."""
        keep = self.surviving
        return DyadicPools(
            np.append(self.starts[keep], self.n_batches),
            np.vstack([self.sums[keep] + values, values]),
            self.n_batches + 1,
        )


def _alive(starts: Indices, batch: int) -> Mask:
    largest_power = starts & -starts  # the 2^k in r 2^k
    return (starts == 0) | (batch < starts + LIFETIME * largest_power)
