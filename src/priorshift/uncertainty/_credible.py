"""Credible intervals from draws of a posterior."""

import numpy as np

from priorshift._typing import Vector
from priorshift.uncertainty._interval import IntervalRequest, PriorInterval

SLICE = 0.1
"""Of the interval from 0: where draws are counted to compare its ends."""


def credible_interval(draws: Vector, priors: Vector, request: IntervalRequest) -> PriorInterval:
    r"""Return the interval that holds each prior with the asked probability.

    It leaves out as much below as above, unless the posterior piles up at 0; then it is
    :math:`[0, b]`. It is not the shortest interval, because the shortest of few draws holds less
    of the posterior than of the draws; for the same reason the j-th of n draws stands for a
    probability of :math:`j / (n + 1)`.

    Simultaneous: that share of the draws is inside the intervals of all classes at once.

    Examples
    --------
    >>> import numpy as np
    >>> draws = np.random.default_rng(0).dirichlet([30.0, 10.0], 4000)
    >>> request = IntervalRequest(0.9, np.random.default_rng(0))
    >>> credible_interval(draws, np.array([0.75, 0.25]), request).interval.round(1)
    array([[0.6, 0.9],
           [0.1, 0.4]])
    """
    level = request.confidence_level
    if request.simultaneous:
        level = _joint_level(draws, level)
    lower, upper = _bounds(draws, level)
    return PriorInterval.around(priors, lower, upper, draws.std(axis=0), "bayesian", draws)


def _bounds(draws: Vector, level: float) -> tuple[Vector, Vector]:
    """Return the bounds of each column; from 0 where draws are denser at 0 than at b."""
    tail = (1 - level) / 2
    lower, upper, most = np.quantile(draws, [tail, 1 - tail, level], axis=0, method="weibull")
    at_zero = (draws <= SLICE * most).sum(axis=0)
    at_most = ((draws > (1 - SLICE) * most) & (draws <= most)).sum(axis=0)
    from_zero = at_zero >= at_most
    return np.where(from_zero, 0.0, lower), np.where(from_zero, most, upper)


def _joint_level(draws: Vector, level: float) -> float:
    """Find the level of each class at which enough draws are inside all intervals."""
    low, high = level, 1.0
    for _ in range(12):
        middle = 0.5 * (low + high)
        lower, upper = _bounds(draws, middle)
        inside = ((draws >= lower) & (draws <= upper)).all(axis=1).mean()
        low, high = (low, middle) if inside >= level else (middle, high)
    return high
