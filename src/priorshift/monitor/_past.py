r"""The past of a stream of batches, weighted in three ways at once.

**Follow the leading history** (Hazan and Seshadhri, 2007) over learners that follow the leader, as
Baby et al. (2023) use it for label shift: a running average that finds out by itself how far back
to look. One learner per start s predicts the mean of all batches since s, :math:`\bar q_s`, and is
judged by its squared error on the next one, of :math:`n_t` rows and decisions :math:`q_t`:

.. math:: w_s \leftarrow w_s \exp\left(-\frac{n_t \|q_t - \bar q_s\|^2}{2 v}\right)

with v the variance of one row, estimated from the differences of successive batches (large ones are
cut: a change is not noise). Then a learner that begins with this batch joins with the share
:math:`1 / (t + 1)`, and the weights are scaled to sum to 1.

Their learners average the unbiased estimates :math:`C^{-1} q_t`. As C is fixed, averaging decisions
is the same; but judging decisions instead of priors keeps the noise of an ill-conditioned C out of
the weights, and lets any method turn the result into priors.

**A window** of the last batches, and **an average with a half-life**, are the two plain ways.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from priorshift._typing import Indices, Mask, Vector

Online = Literal["flh-ftl", "window", "exponential"]
ONLINE: tuple[Online, ...] = ("flh-ftl", "window", "exponential")


@dataclass(frozen=True)
class DyadicPools:
    r"""Sums over the batches since each of :math:`O(\log t)` past batches.

    Every batch starts a pool, and most pools are soon dropped: the start
    :math:`s = r 2^k`, r odd, lives for :math:`4 \cdot 2^k` batches (Hazan and Seshadhri, 2007), and
    the start 0 forever. So whichever batch the last change was at, some pool began no earlier and
    holds a good part of what came since.

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
        """Which pools go on with the next batch."""
        largest_power = self.starts & -self.starts  # the 2^k in r 2^k
        return (self.starts == 0) | (self.n_batches < self.starts + 4 * largest_power)

    def add(self, values: Vector) -> "DyadicPools":
        """Return the surviving pools with the next batch added, which also begins its own pool."""
        keep = self.surviving
        return DyadicPools(
            np.append(self.starts[keep], self.n_batches),
            np.vstack([self.sums[keep] + values, values]),
            self.n_batches + 1,
        )


@dataclass(frozen=True)
class Past:
    r"""What each of the three ways keeps of the batches so far; all three are small.

    Attributes
    ----------
    pools : DyadicPools
        One learner per pool: it predicts the pool's frequencies.
    log_weights : ndarray of shape (n_pools,)
        Of each learner; the weights sum to 1.
    squares : float
        Sum of the variances of one row that each pair of successive batches suggests.
    recent : ndarray of shape (n_kept, n_classes)
        Decisions of each batch in the window, the oldest first.
    fading : ndarray of shape (n_classes,)
        Decisions of all batches, with weights that halve every `half_life`:
        :math:`\sum_s 2^{-(t - s) / h} N_s`.

    Examples
    --------
    >>> import numpy as np
    >>> past = Past.empty(2)
    >>> for share in [0.5] * 40 + [0.9] * 5:
    ...     past = past.add(100 * np.array([share, 1 - share]), window=10, half_life=5.0)
    >>> for online in ONLINE:
    ...     print(online, (past.pooled(online) / past.pooled(online).sum()).round(2))
    flh-ftl [0.9 0.1]
    window [0.7 0.3]
    exponential [0.7 0.3]
    """

    pools: DyadicPools
    log_weights: Vector
    squares: float
    recent: Vector
    fading: Vector

    @classmethod
    def empty(cls, n_classes: int) -> "Past":
        """Return a past without batches."""
        none = np.zeros((0, n_classes))
        return cls(DyadicPools.empty(n_classes), np.zeros(0), 0.0, none, np.zeros(n_classes))

    def add(self, counts: Vector, *, window: int, half_life: float) -> "Past":
        """Return the past with the next batch, by which the learners are judged first."""
        seen, rows, squares, log_weights = self.pools.n_batches, counts.sum(), 0.0, np.zeros(1)
        if seen:
            # the variance of one row that this batch and the last suggest, jumps cut short
            before = self.recent[-1] / self.recent[-1].sum()
            apart = ((before - counts / rows) ** 2).sum()
            noise = float(apart / (1 / self.recent[-1].sum() + 1 / rows))
            squares = noise if seen < 2 else min(noise, 4 * self.squares / (seen - 1))
            squares += self.squares
            errors = ((self._shares - counts / rows) ** 2).sum(axis=1)
            losses = rows * errors / (2 * max(squares / seen, 1e-12))  # batches may be all alike
            judged = self.log_weights - losses
            # a learner with no weight at all could never return
            judged = np.maximum(judged - np.logaddexp.reduce(judged), -700.0)[self.pools.surviving]
            log_weights = np.append(judged + np.log(seen / (seen + 1)), -np.log(seen + 1))
            log_weights -= np.logaddexp.reduce(log_weights)
        return Past(
            self.pools.add(counts),
            log_weights,
            squares,
            np.vstack([self.recent, counts])[-window:],
            2.0 ** (-1 / half_life) * self.fading + counts,
        )

    @property
    def _shares(self) -> Vector:
        """The decisions of each pool as shares, one row per learner."""
        return self.pools.sums / self.pools.sums.sum(axis=1, keepdims=True)

    def pooled(self, online: Online) -> Vector:
        """Return the weighted counts of decisions; of learners, as many rows as they average."""
        if online == "flh-ftl":
            weights, rows = np.exp(self.log_weights), self.pools.sums.sum(axis=1)
            return (weights @ rows) * (weights @ self._shares)
        return self.recent.sum(axis=0) if online == "window" else self.fading
