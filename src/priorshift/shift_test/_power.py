"""P-values, and what a test would have seen: its power, and the smallest departure it detects."""

import numpy as np

from priorshift._typing import Vector

WANTED_POWER = 0.8
N_HALVINGS = 20


class Power:
    r"""Power as a function of the size of a departure, from draws of whitened noise.

    A departure of size :math:`\tau` moves the whitened moments by :math:`\tau w` for one of the
    ways w, so that :math:`T = |e + \tau w|^2` over draws e and ways w.

    Parameters
    ----------
    noise : ndarray of shape (n_draws, n_directions)
    ways : ndarray of shape (n_ways, n_directions)
    alpha : float
    """

    def __init__(self, noise: Vector, ways: Vector, alpha: float) -> None:
        own = (noise**2).sum(axis=1)
        self.limit = critical_value(own, alpha)
        self.own = own[:, None]
        self.cross = 2 * noise @ ways.T
        self.square = (ways**2).sum(axis=1)

    def at(self, size: float) -> float:
        """Return how often a departure of this size is detected."""
        drawn = self.own + size * self.cross + size**2 * self.square
        return float((drawn > self.limit).mean())

    def detectable(self, most: float = 1.0) -> float | None:
        """Return the size that is detected 4 times out of 5, None if there is none up to `most`."""
        low, high = 0.0, most
        if not self.square.any() or self.at(high) < WANTED_POWER:
            return None
        for _ in range(N_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.at(middle) >= WANTED_POWER else (middle, high)
        return high


def critical_value(drawn: Vector, alpha: float) -> float:
    """Return the value beyond which the p-value is at most alpha; infinite with too few draws."""
    most_beyond = int(np.floor(alpha * (drawn.size + 1))) - 1
    if most_beyond < 0:
        return np.inf
    return float(np.sort(drawn)[drawn.size - 1 - most_beyond])


def p_value(drawn: Vector, observed: float) -> float:
    """Return the share of draws at least as large, the observed one among them."""
    return (1 + int(np.count_nonzero(drawn >= observed * (1 - 1e-9)))) / (drawn.size + 1)
