"""Scores: how badly each class fits a row of probabilities."""

from typing import Literal

import numpy as np

from priorshift._blocks import row_blocks
from priorshift._typing import Floats, Indices, Mask, Vector
from priorshift.adaptation import RandomState

Score = Literal["lac", "aps", "randomised-aps"]
SCORES = ("lac", "aps", "randomised-aps")


def score_labels(values: Floats, y: Indices, score: Score, random_state: RandomState) -> Vector:
    """Return the score of every row for its own class."""
    parts = _random_parts(values.shape[0], score, random_state, stream=0)
    scores = np.empty(values.shape[0])
    for rows in row_blocks(*values.shape):
        block = _score(values[rows], score, parts[rows])
        scores[rows] = np.take_along_axis(block, y[rows, None], axis=1)[:, 0]
    return scores


def within(values: Floats, thresholds: Vector, score: Score, random_state: RandomState) -> Mask:
    """Tell for every row which classes score no worse than their thresholds."""
    parts = _random_parts(values.shape[0], score, random_state, stream=1)
    sets = np.empty(values.shape, dtype=np.bool_)
    for rows in row_blocks(*values.shape):
        np.less_equal(_score(values[rows], score, parts[rows]), thresholds, out=sets[rows])
    return sets


def _score(block: Floats, score: Score, parts: Vector) -> Vector:
    if score == "lac":  # not 1 - p: that would make ties of small probabilities
        return -block.astype(np.float64)
    return _cumulated(block.astype(np.float64), parts[:, None])


def _cumulated(block: Vector, parts: Vector) -> Vector:
    """Return the probability of all likelier classes, and a part of that of the equally likely.

    Classes of equal probability have equal scores, so the order of classes does not matter.
    """
    order = np.argsort(-block, axis=1, kind="stable")
    ordered = np.take_along_axis(block, order, axis=1)
    sums = np.minimum(np.cumsum(ordered, axis=1), 1.0)
    sums[:, -1] = 1.0  # whatever rounding says: ties at 1 must be ties
    last = np.ones(block.shape, dtype=np.bool_)
    last[:, :-1] = ordered[:, :-1] > ordered[:, 1:]
    upto = np.minimum.accumulate(np.where(last, sums, np.inf)[:, ::-1], axis=1)[:, ::-1]
    above = np.maximum.accumulate(np.where(last, sums, 0.0), axis=1)[:, :-1]
    above = np.pad(above, ((0, 0), (1, 0)))
    scores = np.empty_like(block)
    np.put_along_axis(scores, order, np.where(parts == 1, upto, above + parts * (upto - above)), 1)
    return scores


def _random_parts(n: int, score: Score, random_state: RandomState, stream: int) -> Vector:
    """Draw a part a row, or 1; validation and target must not share their draws."""
    if score != "randomised-aps":
        return np.ones(n)
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state).random(n)
    return np.random.default_rng([random_state, stream]).random(n)
