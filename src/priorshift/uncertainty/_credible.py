"""Credible intervals from draws of a posterior."""

import numpy as np

from priorshift._typing import Vector
from priorshift.uncertainty._interval import IntervalRequest, PriorInterval

AT_ZERO = 0.01
"""A shortest interval that leaves out fewer of the lowest draws than this starts at 0."""


def credible_interval(draws: Vector, priors: Vector, request: IntervalRequest) -> PriorInterval:
    """Return the shortest interval that holds the draws of each prior at the asked level.

    The shortest, because a posterior that piles up at 0 should have 0 inside. Simultaneous: that
    share of the draws is inside the intervals of all classes at once.

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
    lower, upper = _shortest(np.sort(draws, axis=0), level)
    return PriorInterval.around(priors, lower, upper, draws.std(axis=0), "bayesian", draws)


def _shortest(ordered: Vector, level: float) -> tuple[Vector, Vector]:
    """Return the shortest intervals that hold a share of sorted draws, a column each."""
    n = ordered.shape[0]
    held = min(max(int(np.ceil(level * n)), 1), n)
    start = np.argmin(ordered[held - 1 :] - ordered[: n - held + 1], axis=0)
    lower = np.take_along_axis(ordered, start[None], axis=0)[0]
    upper = np.take_along_axis(ordered, start[None] + held - 1, axis=0)[0]
    return np.where(start <= AT_ZERO * n, 0.0, lower), upper


def _joint_level(draws: Vector, level: float) -> float:
    """Find the level of each class at which enough draws are inside all intervals."""
    ordered = np.sort(draws, axis=0)
    low, high = level, 1.0
    for _ in range(12):
        middle = 0.5 * (low + high)
        lower, upper = _shortest(ordered, middle)
        inside = ((draws >= lower) & (draws <= upper)).all(axis=1).mean()
        low, high = (low, middle) if inside >= level else (middle, high)
    return high
