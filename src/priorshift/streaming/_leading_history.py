r"""FLH-FTL: a running average that knows by itself how far back to look.

Follow the leading history (Hazan and Seshadhri, 2007) over learners that follow the leader, as Baby
et al. (2023) use it for label shift. One learner a start s plays the mean of all batches since s,
:math:`\bar q_s`, and is judged by its squared error on the next one, of :math:`n_t` rows and
decisions :math:`q_t`:

.. math:: w_s \leftarrow w_s \exp\left(-\frac{n_t \|q_t - \bar q_s\|^2}{2 v}\right)

with v the variance of one row, estimated from the differences of successive batches (large ones cut
short: a change is no noise). Then a learner that begins with this batch joins with the share
:math:`1 / (t + 1)`, and the weights are scaled to sum 1.

Their learners average the unbiased estimates :math:`C^{-1} q_t`. As C is fixed, averaging decisions
is the same; but judging decisions rather than priors keeps the noise of an ill-conditioned C out of
the weights, and lets any method turn the result into priors.
"""

from dataclasses import dataclass

import numpy as np

from priorshift._typing import Vector
from priorshift.streaming._pools import DyadicPools

FAINT = -700.0
"""Least log-weight: a learner of none could never return."""

JUMP = 4
"""Times the variance so far that one difference of batches counts at most: more is no noise."""

SMALLEST_VARIANCE = 1e-12
"""Of one row, so that batches that are all alike divide by something."""


@dataclass(frozen=True)
class LeadingHistory:
    """Learners with their weights.

    Attributes
    ----------
    pools : DyadicPools
        One learner a pool: it plays the pool's frequencies.
    log_weights : ndarray of shape (n_pools,)
        They sum to 1 as weights.
    squares : float
        Summed squared differences of successive batches, a row.
    last : ndarray of shape (n_classes,)
        The counts of the last batch.

    Examples
    --------
    >>> import numpy as np
    >>> history = LeadingHistory.empty(2)
    >>> for share in [0.5] * 40 + [0.9] * 5:
    ...     history = history.add(1000 * np.array([share, 1 - share]))
    >>> (history.pooled / history.pooled.sum()).round(2)
    array([0.9, 0.1])
    """

    pools: DyadicPools
    log_weights: Vector
    squares: float
    last: Vector

    @classmethod
    def empty(cls, n_classes: int) -> "LeadingHistory":
        """Return no learners yet."""
        return cls(DyadicPools.empty(n_classes), np.zeros(0), 0.0, np.zeros(n_classes))

    @property
    def weights(self) -> Vector:
        """Trust in each learner."""
        return np.exp(self.log_weights)

    @property
    def pooled(self) -> Vector:
        """The weighted mean of the learners, as counts of as many rows as they have on average."""
        if not self.pools.n_batches:
            return self.last
        weights, rows = self.weights, self.pools.sums.sum(axis=1)
        return (weights @ rows) * (weights @ self._plays)

    @property
    def _plays(self) -> Vector:
        """Decisions of each pool, as shares: one row a learner."""
        return self.pools.sums / self.pools.sums.sum(axis=1, keepdims=True)

    def add(self, counts: Vector) -> "LeadingHistory":
        """Judge the learners by the next batch, and let them learn it."""
        seen = self.pools.n_batches
        if not seen:
            return LeadingHistory(self.pools.add(counts), np.zeros(1), 0.0, counts)
        squares = self.squares + self._noise(counts)
        judged = self.log_weights - self._losses(counts, squares / seen)
        judged = np.maximum(judged - np.logaddexp.reduce(judged), FAINT)[self.pools.surviving]
        joined = np.append(judged + np.log(seen / (seen + 1)), -np.log(seen + 1))
        return LeadingHistory(
            self.pools.add(counts), joined - np.logaddexp.reduce(joined), squares, counts
        )

    def _noise(self, counts: Vector) -> float:
        """Return what this batch and the last say of the variance of a row, a jump cut short."""
        found, seen = _difference(self.last, counts), self.pools.n_batches
        return found if seen < 2 else min(found, JUMP * self.squares / (seen - 1))

    def _losses(self, counts: Vector, variance: float) -> Vector:
        rows = counts.sum()
        errors = ((self._plays - counts / rows) ** 2).sum(axis=1)
        return rows * errors / (2 * max(variance, SMALLEST_VARIANCE))


def _difference(one: Vector, other: Vector) -> float:
    """Return what two batches say of the variance of one row."""
    rows, more = one.sum(), other.sum()
    return float(((one / rows - other / more) ** 2).sum() / (1 / rows + 1 / more))
