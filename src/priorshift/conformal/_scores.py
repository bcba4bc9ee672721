"""Scores of how badly each class fits a row, and their weighted quantiles on validation."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from priorshift._blocks import row_blocks
from priorshift._typing import Floats, Indices, Mask, Vector
from priorshift.adaptation import RandomState

Score = Literal["lac", "aps", "randomised-aps"]
SCORES = ("lac", "aps", "randomised-aps")


def score_labels(values: Floats, y: Indices, score: Score, random_state: RandomState) -> Vector:
    """Return the score of each row for its own class."""
    parts = _random_parts(values.shape[0], score, random_state, stream=0)
    scores = np.empty(values.shape[0])
    for rows in row_blocks(*values.shape):
        block = _score(values[rows], score, parts[rows])
        scores[rows] = np.take_along_axis(block, y[rows, None], axis=1)[:, 0]
    return scores


def within(values: Floats, thresholds: Vector, score: Score, random_state: RandomState) -> Mask:
    """Return for each row which classes score no worse than their thresholds."""
    parts = _random_parts(values.shape[0], score, random_state, stream=1)
    sets = np.empty(values.shape, dtype=np.bool_)
    for rows in row_blocks(*values.shape):
        np.less_equal(_score(values[rows], score, parts[rows]), thresholds, out=sets[rows])
    return sets


def _score(block: Floats, score: Score, parts: Vector) -> Vector:
    if score == "lac":  # not 1 - p, which would tie small probabilities
        return -block.astype(np.float64)
    return _cumulated(block.astype(np.float64), parts[:, None])


def _cumulated(block: Vector, parts: Vector) -> Vector:
    """Return the probability of all likelier classes, plus a part of that of equally likely ones.

    Classes of equal probability have equal scores, so the order of classes does not matter.
    """
    order = np.argsort(-block, axis=1, kind="stable")
    ordered = np.take_along_axis(block, order, axis=1)
    sums = np.minimum(np.cumsum(ordered, axis=1), 1.0)
    sums[:, -1] = 1.0  # despite rounding: ties at 1 must be ties
    last = np.ones(block.shape, dtype=np.bool_)
    last[:, :-1] = ordered[:, :-1] > ordered[:, 1:]
    upto = np.minimum.accumulate(np.where(last, sums, np.inf)[:, ::-1], axis=1)[:, ::-1]
    above = np.maximum.accumulate(np.where(last, sums, 0.0), axis=1)[:, :-1]
    above = np.pad(above, ((0, 0), (1, 0)))
    scores = np.empty_like(block)
    np.put_along_axis(scores, order, np.where(parts == 1, upto, above + parts * (upto - above)), 1)
    return scores


def _random_parts(n: int, score: Score, random_state: RandomState, stream: int) -> Vector:
    """Draw one part per row, or 1; validation and target must not share their draws."""
    if score != "randomised-aps":
        return np.ones(n)
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state).random(n)
    return np.random.default_rng([random_state, stream]).random(n)


ROUNDING = 1e-9
"""How far a sum of weights may be below a level by rounding without losing a rank."""


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
        """Put all classes into one group, each with its target prior as total weight."""
        counts = np.bincount(y, weight, priors.size)
        # a class that validation lacks is in every set and needs no share of the weight
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
        """Return the quantile per class, with a new sample of the class added at infinity."""
        reach = level * (1 + self.one)
        within = reach <= 1 + ROUNDING
        at = np.searchsorted(self.steps, self.before + np.where(within, reach, 0.0) - ROUNDING)
        return np.where(within, self.scores[np.minimum(at, self.scores.size - 1)], np.inf)
