r"""What a decision rule gains over no adaptation, judged without target labels.

Under prior shift a rule's accuracy on each class is the same on validation and target. With d_k the
difference to no adaptation on validation samples of class k, and p the target priors, the gain is

.. math:: G = \sum_k p_k d_k, \qquad \mathrm{Var}(G) = \sum_k p_k^2 \mathrm{Var}_k(d) / n_k.

The adapted posteriors themselves expect a gain M on the target. They are right only as far as the
model is, so M counts as known to within a share of the decisions that change; G and M are combined
by their precisions.
"""

from typing import NamedTuple

import numpy as np

from priorshift._blocks import row_blocks
from priorshift._typing import Floats, Indices, Vector

MODEL_DOUBT = 0.25
"""Standard error of the model's own expectation, as a share of the decisions that change."""

CHANGE_VARIANCE = 0.5
"""Variance of the difference a changed decision makes, where validation has too few to tell."""


class Gain(NamedTuple):
    """Expected gain in accuracy, its standard error, and the share of decisions that change."""

    mean: float
    standard_error: float
    changed: float


class Sample(NamedTuple):
    """Validation labels as column numbers, with weights."""

    y: Indices
    weight: Vector


class Decisions(NamedTuple):
    """A rule `argmax outputs * ratio`, on validation and on the target."""

    validation: Floats
    target: Floats
    ratio: Vector


def validated_gain(priors: Vector, rule: Decisions, other: Decisions, sample: Sample) -> Gain:
    """Return what a rule gains over another by validation alone, at these target priors."""
    y, weight = sample
    difference = _hits(rule.validation, rule.ratio, y) - _hits(other.validation, other.ratio, y)
    size = np.maximum(np.bincount(y, weight, priors.size), 1.0)
    mean = np.bincount(y, weight * difference, priors.size) / size
    spread = np.bincount(y, weight * difference**2, priors.size) / size - mean**2
    changed = _changed(rule, other)
    noise = np.maximum(spread, 0.0) + CHANGE_VARIANCE * changed
    return Gain(float(priors @ mean), float(np.sqrt((priors**2 * noise / size).sum())), changed)


def expected_gain(priors: Vector, rule: Decisions, other: Decisions, sample: Sample) -> Gain:
    """Combine what validation says with what the rule's own posteriors expect."""
    validated = validated_gain(priors, rule, other, sample)
    variance = max(validated.standard_error**2, 1e-12)
    doubt = max((MODEL_DOUBT * validated.changed) ** 2, 1e-12)
    precision = 1 / variance + 1 / doubt
    mean = (validated.mean / variance + _self_expected(rule, other) / doubt) / precision
    return Gain(mean, float(precision**-0.5), validated.changed)


def _hits(outputs: Floats, ratio: Vector, y: Indices) -> Vector:
    """Return 1 for each row that the rule decides rightly, else 0."""
    return np.concatenate(
        [(outputs[rows] * ratio).argmax(axis=1) == y[rows] for rows in row_blocks(*outputs.shape)]
    ).astype(np.float64)


def _changed(rule: Decisions, other: Decisions) -> float:
    """Return the share of target decisions in which two rules differ."""
    n_changed = sum(
        np.count_nonzero(
            (rule.target[rows] * rule.ratio).argmax(axis=1)
            != (other.target[rows] * other.ratio).argmax(axis=1)
        )
        for rows in row_blocks(*rule.target.shape)
    )
    return n_changed / rule.target.shape[0]


def _self_expected(rule: Decisions, other: Decisions) -> float:
    """Return the gain on the target that the rule's adapted posteriors expect."""
    gained = 0.0
    for rows in row_blocks(*rule.target.shape):
        adapted, at = rule.target[rows] * rule.ratio, np.arange(rows.stop - rows.start)
        old = (other.target[rows] * other.ratio).argmax(axis=1)
        total = np.maximum(adapted.sum(axis=1), np.finfo(np.float64).tiny)
        gained += float(((adapted.max(axis=1) - adapted[at, old]) / total).sum())
    return gained / rule.target.shape[0]
