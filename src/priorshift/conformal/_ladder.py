"""Quantiles of weighted scores, one a class, with a new sample of that class at infinity."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from priorshift._typing import Indices, Vector

ROUNDING = 1e-9
"""What a sum of weights may be short of a level by rounding, so that it costs no rank."""


@dataclass(frozen=True, eq=False)
class Ladder:
    """Weighted scores in ascending order, group after group, each group of total weight 1."""

    scores: Vector
    steps: Vector
    """Cumulated weight."""
    before: Vector
    """Cumulated weight before the group of each class."""
    one: Vector
    """Weight that a new sample of each class would have; infinite if validation lacks it."""

    @classmethod
    def of_target(cls, scores: Vector, y: Indices, weight: Vector, priors: Vector) -> Self:
        """Put all classes into one group, each with its target prior as weight."""
        counts = np.bincount(y, weight, priors.size)
        # a class that validation lacks is in every set, so it needs no share of the weight
        share = priors / priors[counts > 0].sum()
        one = np.zeros(priors.size)
        with np.errstate(divide="ignore"):
            np.divide(share, counts, out=one, where=share > 0)
        order = np.argsort(scores, kind="stable")
        steps = np.cumsum((weight * one[y])[order])
        return cls(scores[order], steps, np.zeros(priors.size), one)

    @classmethod
    def of_classes(cls, scores: Vector, y: Indices, weight: Vector, n_classes: int) -> Self:
        """Make every class a group of its own."""
        counts = np.bincount(y, weight, n_classes)
        seen = (counts > 0).astype(np.float64)
        with np.errstate(divide="ignore"):
            one = 1 / counts
        order = np.lexsort((scores, y))
        steps = np.cumsum((weight * one[y])[order])
        return cls(scores[order], steps, np.cumsum(seen) - seen, one)

    def quantiles(self, level: float) -> Vector:
        """Return for each class the quantile with a new sample of it added at infinity."""
        reach = level * (1 + self.one)
        within = reach <= 1 + ROUNDING
        at = np.searchsorted(self.steps, self.before + np.where(within, reach, 0.0) - ROUNDING)
        return np.where(within, self.scores[np.minimum(at, self.scores.size - 1)], np.inf)
