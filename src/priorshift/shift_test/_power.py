r"""What the test would have seen: its power, and the smallest shift that it detects.

A shift of size :math:`\tau` makes a random half of the classes more common, all by one factor, at
the expense of the others: :math:`p_k = p^N_k (1 + s\,(\epsilon_k - \bar\epsilon))` with random
signs :math:`\epsilon_k`, s such that the total variation distance is :math:`\tau`.
"""

import numpy as np

from priorshift._typing import Vector
from priorshift.shift_test._statistic import Moments

N_DIRECTIONS = 64
WANTED_POWER = 0.8
N_HALVINGS = 20


class Power:
    """Power as a function of the size of a shift, from draws of whitened noise."""

    def __init__(
        self,
        moments: Moments,
        column_noise: Vector,
        noise: Vector,
        alpha: float,
        rng: np.random.Generator,
    ) -> None:
        self.limit = critical_value((noise**2).sum(axis=1), alpha)
        way = directions(moments.priors, rng)
        seen = way @ moments.C.T @ moments.whitener
        # the noise of C makes any shift look larger than it is: take that away
        square = (seen**2).sum(axis=1)
        self.square = np.maximum(square - way**2 @ column_noise, 0.0)
        shrink = np.sqrt(
            np.divide(self.square, square, out=np.zeros_like(square), where=square > 0)
        )
        self.own = (noise**2).sum(axis=1)[:, None]
        self.cross = 2 * noise @ (seen * shrink[:, None]).T

    def at(self, size: float) -> float:
        """Return how often a shift of this size is detected."""
        drawn = self.own + size * self.cross + size**2 * self.square
        return float((drawn > self.limit).mean())

    def detectable(self) -> float | None:
        """Return the size that is detected 4 times out of 5, None if there is none."""
        low, high = 0.0, 1.0
        if not self.square.any() or self.at(high) < WANTED_POWER:
            return None
        for _ in range(N_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.at(middle) >= WANTED_POWER else (middle, high)
        return high


def directions(priors: Vector, rng: np.random.Generator) -> Vector:
    """Draw directions of total variation 1 that keep the sum, (N_DIRECTIONS, K)."""
    signs = np.where(rng.random((N_DIRECTIONS, priors.size)) < 0.5, -1.0, 1.0)
    ways = priors * (signs - signs @ priors[:, None])
    # where all signs are alike: the likeliest class against the others
    most = int(np.argmax(priors))
    against = priors * (np.where(np.arange(priors.size) == most, 1.0, -1.0))
    against -= priors * against.sum()
    size = np.abs(ways).sum(axis=1, keepdims=True) / 2
    ways = np.where(size > 1e-9, ways, against)
    size = np.abs(ways).sum(axis=1, keepdims=True) / 2
    return np.divide(ways, size, out=np.zeros_like(ways), where=size > 1e-9)


def critical_value(drawn: Vector, alpha: float) -> float:
    """Return the value beyond which the p-value is at most alpha; infinite with too few draws."""
    most_beyond = int(np.floor(alpha * (drawn.size + 1))) - 1
    if most_beyond < 0:
        return np.inf
    return float(np.sort(drawn)[drawn.size - 1 - most_beyond])


def p_value(drawn: Vector, observed: float) -> float:
    """Return the share of draws at least as large, the observed one among them."""
    return (1 + int(np.count_nonzero(drawn >= observed * (1 - 1e-9)))) / (drawn.size + 1)
