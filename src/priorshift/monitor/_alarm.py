r"""The alarm: raised when the evidence of a change suffices; you acknowledge it to end it.

You may look at the evidence after every batch.

**Scores that are standard normal as long as nothing changes.** Let T be the decisions of all rows
so far, those of validation and of this batch included. If nothing changed, rows are exchangeable:
which of them make up the batch is a random draw, so the number N of its n rows that are decided for
some class (or for a class of some group, among those of a larger group) is hypergeometric given T.
With F its distribution function and u uniform,

.. math:: Z = \Phi^{-1}\big(F(N - 1) + u\,(F(N) - F(N - 1))\big)

is exactly standard normal, and independent of the Z of all other batches (as in conformal
prediction: Vovk et al., 2003). No unknown frequency is left, however few rows validation has.

**Bets.** After a change the Z of the batches have means :math:`\theta \sqrt{n_t}`. With
:math:`S = \sum_t \sqrt{n_t} Z_t` and :math:`W = \sum_t n_t` since a start s, the bet on
:math:`\theta \sim N(0, \tau^2)`

.. math:: E_s = (1 + \tau^2 W)^{-1/2} \exp\frac{S^2}{2 (W + \tau^{-2})}

is a likelihood ratio, a martingale while nothing changes. Bets are averaged over some tau, and over
starts with stakes that sum to at most 1, so that a change after a quiet year is noticed too. By
Ville's inequality the average ever reaches 1/alpha with a probability of at most alpha.

**Classes.** A binary tree of the classes splits each count in K - 1 steps with independent Z: the
product of their bets is one bet on all classes. In addition, each class against the rest has its
own bet, which notices one class that moves among many. The first has half of alpha, the others
share the other half.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln, ndtri

from priorshift._typing import Indices, Vector
from priorshift.monitor._past import DyadicPools


@dataclass(frozen=True)
class Alarm:
    """A sequential test of whether the stream is still as it was at the start.

    Attributes
    ----------
    before : ndarray of shape (n_classes,)
        Hard decisions of all rows so far: those of the reference and of the stream since.
    threshold : float
        Log-evidence that raises the alarm: log(1 / level).
    seed : int
        Seed of the random numbers that break ties.
    run : int
        How many tests came before this one.
    pools : DyadicPools
        Sums of scores, and rows, since each start.
    since : ndarray of shape (n_classes,)
        Decisions of the batches after the one that raised the alarm: the next reference.
    log_e_value : float
        Evidence after the last batch.
    largest : float
        Largest evidence since the test began.
    """

    before: Vector
    threshold: float
    seed: int
    run: int
    pools: DyadicPools
    since: Vector
    log_e_value: float = 0.0
    largest: float = 0.0

    @classmethod
    def against(cls, reference: Vector, threshold: float, seed: int, run: int = 0) -> "Alarm":
        """Return a test that begins with the next batch."""
        K = reference.size
        pools = DyadicPools.empty(n_scores(K) + 1)
        return cls(reference, threshold, seed, run, pools, np.zeros(K))

    @property
    def standing(self) -> bool:
        """Whether the alarm stands."""
        return self.largest >= self.threshold

    @property
    def p_value(self) -> float:
        """The smallest level at which the alarm would have been raised by now."""
        return float(np.exp(-self.largest))

    def add(self, counts: Vector) -> "Alarm":
        """Return the test after the hard decisions of the next batch."""
        # every batch has its own generator, so that a number is all that a saved test needs
        rng = np.random.default_rng([self.seed, self.run, self.pools.n_batches])
        scores, rows = batch_scores(counts, self.before, rng), counts.sum()
        pools = self.pools.add(np.append(np.sqrt(rows) * scores, rows))
        sums = pools.sums[:, None, :-1]
        evidence = float(log_evidence(pools.starts, sums, pools.sums[:, -1], counts.size)[0])
        return replace(
            self,
            before=self.before + counts,
            pools=pools,
            since=self.since + counts if self.standing else self.since,
            log_e_value=evidence,
            largest=max(self.largest, evidence),
        )

    def acknowledge(self) -> "Alarm":
        """Start again from the batches since the alarm or, if there are none, from those to come.

        The batch that raised the alarm is left out, because raising it makes it unlike the others.
        """
        return Alarm.against(self.since, self.threshold, self.seed, self.run + 1)


# Evidence

VARIANCES = np.array([1.0, 0.1, 0.01, 0.001, 0.0001])
"""Squares of tau: from large shifts to those that need ten thousand rows to show."""


def n_scores(n_classes: int) -> int:
    """Return how many scores a batch has: of the tree, then of each class against the rest."""
    return _leaves(n_classes) - 1 + (n_classes if n_classes > 2 else 0)


def batch_scores(counts: Vector, before: Vector, rng: np.random.Generator) -> Vector:
    """Return the scores of a batch: independent standard normals while nothing changes.

    Parameters
    ----------
    counts : ndarray of shape (..., n_classes)
        Hard decisions of the batch.
    before : ndarray of shape (..., n_classes)
        Hard decisions of all rows before it, those of validation among them.
    rng : numpy.random.Generator
        Breaks ties.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> batch_scores(np.array([80, 20]), np.array([500, 500]), rng).round(1)
    array([5.9])
    """
    (drawn, draws), (of_kind, rows) = _split(counts), _split(counts + before)
    return normal_scores(drawn, of_kind, draws, rows, rng.random(drawn.shape))


def log_evidence(starts: Indices, sums: Vector, rows: Vector, n_classes: int) -> Vector:
    """Return the log of the largest bet, each divided by its share of alpha.

    Parameters
    ----------
    starts : ndarray of shape (n_starts,)
    sums : ndarray of shape (n_starts, n_streams, n_scores)
        S of every score since each start.
    rows : ndarray of shape (n_starts,)
        W since each start.
    n_classes : int

    Returns
    -------
    ndarray of shape (n_streams,)
    """
    stakes, n_tree = log_stakes(starts)[:, None], _leaves(n_classes) - 1
    together = np.logaddexp.reduce(_log_bets(sums[..., :n_tree], rows) + stakes)
    if n_classes == 2:  # one class against the rest is the whole tree
        return together
    each = sums[..., n_tree:]
    bets = _log_bets(each.reshape(starts.size, -1, 1), rows)
    apart = np.logaddexp.reduce(bets + stakes).reshape(each.shape[1:]).max(axis=-1)
    return np.maximum(together - np.log(2), apart - np.log(2 * n_classes))


def log_stakes(starts: Indices) -> Vector:
    r"""Return the log of the stake on each start.

    Half of the total is on 0, and on a later s

    .. math:: \frac{1}{2} \left(\frac{1}{\log_2(s + 1)} - \frac{1}{\log_2(s + 2)}\right),

    which sums to the other half over all s >= 1, and falls hardly faster than 1/s.

    Examples
    --------
    >>> import numpy as np
    >>> np.exp(log_stakes(np.array([0, 1, 2]))).round(3)
    array([0.5  , 0.185, 0.065])
    """
    later = np.maximum(starts, 1).astype(np.float64)
    share = 1 / np.log2(later + 1) - 1 / np.log2(later + 2)
    return np.where(starts == 0, 0.0, np.log(share)) - np.log(2)


def _log_bets(sums: Vector, rows: Vector) -> Vector:
    """Return log E of each start and bet, averaged over tau; scores on the last axis multiply.

    Parameters
    ----------
    sums : ndarray of shape (n_starts, n_bets, n_scores)
    rows : ndarray of shape (n_starts,)
    """
    W, variances = rows[:, None], VARIANCES[:, None, None]
    squares = (sums**2).sum(axis=-1)
    price = sums.shape[-1] * np.log1p(variances * W)
    logs = 0.5 * (squares / (W + 1 / variances) - price)
    return np.logaddexp.reduce(logs, axis=0) - np.log(VARIANCES.size)


def _leaves(n_classes: int) -> int:
    """Return the number of leaves of the tree: the next power of 2."""
    return int(1 << (n_classes - 1).bit_length())


def _split(counts: Vector) -> tuple[Vector, Vector]:
    """Return the counts of parts, and of the wholes that they are parts of.

    The parts are the left children of the tree's inner nodes, then each class, of more than two.
    """
    K = counts.shape[-1]
    levels = [np.concatenate([counts, np.zeros((*counts.shape[:-1], _leaves(K) - K))], axis=-1)]
    while levels[-1].shape[-1] > 1:  # from the leaves to the root
        levels.append(levels[-1][..., ::2] + levels[-1][..., 1::2])
    left, all_classes = [level[..., ::2] for level in levels[:-1]], levels[-1]
    parts = np.concatenate([*left, counts], axis=-1)
    wholes = np.concatenate([*levels[1:], np.broadcast_to(all_classes, counts.shape)], axis=-1)
    return parts[..., : n_scores(K)], wholes[..., : n_scores(K)]


REACH = 12
"""Standard deviations over which a tail is summed; beyond, it is below rounding."""

TOGETHER, MAX_TERMS = 512, 2**21
"""How many tails, and terms of them, are summed at once."""


def normal_scores(
    drawn: Vector, of_kind: Vector, draws: Vector, rows: Vector, uniform: Vector
) -> Vector:
    r"""Return :math:`\Phi^{-1}(F(N - 1) + u P(N))` for hypergeometric N.

    Parameters
    ----------
    drawn : ndarray of one shape
        N: how many of the draws are of the kind.
    of_kind, rows : ndarray of one shape
        How many of all rows are of the kind, and how many rows there are.
    draws : ndarray of one shape
        How many of the rows are drawn, without replacement.
    uniform : ndarray of one shape
        u, between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> one = np.ones(1)
    >>> normal_scores(5 * one, 50 * one, 10 * one, 100 * one, 0.5 * one).round(6) + 0
    array([0.])
    """
    # many of one kind are few of the other, so only lower tails need summing
    mean = draws * of_kind / np.maximum(rows, 1)
    flip = drawn > mean
    low = np.where(flip, draws - drawn, drawn)
    kind = np.where(flip, rows - of_kind, of_kind)
    ways = _log_choose(kind, low) + _log_choose(rows - kind, draws - low)
    chance = np.exp(ways - _log_choose(rows, draws))
    below = chance * _tail(low, kind, draws, rows)
    u = np.where(flip, 1 - uniform, uniform)
    # no tail is smaller, which keeps scores below 37
    scores = ndtri(np.clip(below + u * chance, 1e-300, 1 - 1e-16))
    return np.where(flip, -scores, scores)


def _log_choose(n: Vector, k: Vector) -> Vector:
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def _tail(drawn: Vector, of_kind: Vector, draws: Vector, rows: Vector) -> Vector:
    """Return P(less than N) / P(N) where N is not above its mean.

    Each term follows from the one above it: P(x - 1) / P(x) is a ratio of four numbers.
    """
    share = of_kind / np.maximum(rows, 1)
    needed = np.minimum(drawn, REACH * np.sqrt(draws * share * (1 - share)) + 2 * REACH).ravel()
    given = [values.reshape(-1, 1) for values in (drawn, of_kind, draws, rows)]
    order = np.argsort(needed, kind="stable")  # sum short tails together, or all would be long
    step = max(1, min(TOGETHER, MAX_TERMS // max(int(needed.max(initial=0)), 1)))
    tails = np.empty(needed.size)
    for at in range(0, needed.size, step):
        chosen = order[at : at + step]
        few, kind, n, all_rows = (values[chosen] for values in given)
        x = few - np.arange(int(needed[chosen[-1]]))
        ratio = x * (all_rows - kind - n + x) / ((kind - x + 1) * (n - x + 1))
        # 0 at the least possible N; below it, it must stay 0 instead of turning negative
        tails[chosen] = np.cumprod(np.maximum(ratio, 0.0), axis=1).sum(axis=1)
    return tails.reshape(drawn.shape)
