"""Hypergeometric counts as standard normal scores, exact far into the tails."""

import numpy as np
from scipy.special import gammaln, ndtri

from priorshift._typing import Vector

REACH = 12
"""Standard deviations over which a tail is summed; beyond them it is below rounding."""

TOGETHER, MAX_TERMS = 512, 2**21
"""Tails, and terms of them, summed at once."""

LEAST = 1e-300
"""Smallest probability of a tail: a score of at most 37."""


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
    # many of a kind are few of the other kind, so only lower tails need to be summed
    mean = draws * of_kind / np.maximum(rows, 1)
    flip = drawn > mean
    low = np.where(flip, draws - drawn, drawn)
    kind = np.where(flip, rows - of_kind, of_kind)
    chance = np.exp(_log_chance(low, kind, draws, rows))
    below = chance * _tail(low, kind, draws, rows)
    u = np.where(flip, 1 - uniform, uniform)
    scores = ndtri(np.clip(below + u * chance, LEAST, 1 - 1e-16))
    return np.where(flip, -scores, scores)


def _log_chance(drawn: Vector, of_kind: Vector, draws: Vector, rows: Vector) -> Vector:
    """Return the log-probability of N."""
    return (
        _log_choose(of_kind, drawn)
        + _log_choose(rows - of_kind, draws - drawn)
        - _log_choose(rows, draws)
    )


def _log_choose(n: Vector, k: Vector) -> Vector:
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def _tail(drawn: Vector, of_kind: Vector, draws: Vector, rows: Vector) -> Vector:
    """Return P(less than N) / P(N) where N is not above its mean.

    Each term follows from the one above it: P(x - 1) / P(x) is a ratio of four numbers.
    """
    share = of_kind / np.maximum(rows, 1)
    needed = np.minimum(drawn, REACH * np.sqrt(draws * share * (1 - share)) + 2 * REACH).ravel()
    given = [values.reshape(-1, 1) for values in (drawn, of_kind, draws, rows)]
    order = np.argsort(needed, kind="stable")  # short tails together, or all would be long
    step = max(1, min(TOGETHER, MAX_TERMS // max(int(needed.max(initial=0)), 1)))
    tails = np.empty(needed.size)
    for at in range(0, needed.size, step):
        chosen = order[at : at + step]
        tails[chosen] = _summed(int(needed[chosen[-1]]), *(values[chosen] for values in given))
    return tails.reshape(drawn.shape)


def _summed(n_terms: int, drawn: Vector, of_kind: Vector, draws: Vector, rows: Vector) -> Vector:
    x = drawn - np.arange(n_terms)
    ratio = x * (rows - of_kind - draws + x) / ((of_kind - x + 1) * (draws - x + 1))
    # at 0 and at the least possible N the ratio is 0, and stays so: it must not come back negative
    return np.cumprod(np.maximum(ratio, 0.0), axis=1).sum(axis=1)
