r"""What adapting gains over no adaptation, judged without target labels.

Under prior shift a rule's accuracy on each class is the same on validation and target. With d_k the
difference to no adaptation on validation samples of class k, out of fold, and p the target priors,
the gain is

.. math:: G = \sum_k p_k d_k.

Few samples of a class say little, so 20 more join them as the target's own posteriors expect them.
The variance has three parts: that of the differences, that of the priors given the calibrator, and
the jackknife's over calibrators that were fitted without each fold, with the priors each leads to.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from priorshift._blocks import row_blocks
from priorshift._typing import Floats, Indices, Vector
from priorshift.adaptation import prior_ratio
from priorshift.calibration import Calibration

MODEL_SAMPLES = 20.0
"""Samples of each class that the model's own expectation counts for."""


class Gain(NamedTuple):
    """Expected gain in accuracy, its standard error, and the share of decisions that change."""

    mean: float
    standard_error: float
    changed: float

    @property
    def interval(self) -> tuple[float, float]:
        """Bounds at 95 %."""
        reach = 1.96 * self.standard_error
        return self.mean - reach, self.mean + reach


class Sample(NamedTuple):
    """Validation: outputs calibrated out of fold, decisions without adaptation, labels, weights."""

    y_proba: Floats
    decisions: Indices
    y: Indices
    weight: Vector


class Target(NamedTuple):
    """The target: outputs as they came, and calibrated."""

    y_proba: Floats
    calibrated: Floats


class Refit(NamedTuple):
    """A calibration that was fitted without a fold, and the priors it leads to."""

    calibration: Calibration
    priors: Vector


def expected_gain(
    priors: Vector,
    noise: Vector,
    source_priors: Vector,
    sample: Sample,
    target: Target,
    refits: Sequence[Refit] = (),
) -> Gain:
    """Return what adapting to `priors` gains; `noise` is their covariance given the calibrator."""
    ratio = prior_ratio(priors, source_priors)
    K, (y_proba, before, y, weight) = priors.size, sample
    after = decide(y_proba, ratio)
    difference = np.subtract(after == y, before == y, dtype=np.int8)
    size = np.bincount(y, weight, K)
    model = _modelled(target, ratio)
    n = size + MODEL_SAMPLES
    d = (np.bincount(y, weight * difference, K) + MODEL_SAMPLES * model.mean) / n
    square = (np.bincount(y, weight * difference**2, K) + MODEL_SAMPLES * model.square) / n
    variance = float((priors**2 * np.maximum(square - d**2, 0.0) / n).sum())
    variance += float(d @ noise @ d)
    variance += _variance_of_refits(refits, source_priors, target, model)
    return Gain(float(priors @ d), float(np.sqrt(variance)), model.changed)


def decide(y_proba: Floats, ratio: Vector) -> Indices:
    """Return the class that each row is decided for after adapting."""
    factor = ratio.astype(y_proba.dtype)
    decisions: Any = np.empty(y_proba.shape[0], np.int32)
    for rows in row_blocks(*y_proba.shape):
        decisions[rows] = (y_proba[rows] * factor).argmax(axis=1)
    return decisions


class _Modelled(NamedTuple):
    """What posteriors of the target expect of each class, and where decisions change."""

    mean: Vector
    square: Vector
    changed: float
    rows: Indices
    new: Indices
    old: Indices


def _modelled(target: Target, ratio: Vector) -> _Modelled:
    n, K = target.calibrated.shape
    old = decide(target.y_proba, np.ones(K))
    new = decide(target.calibrated, ratio)
    gained, lost, mass = np.zeros((3, K))
    for block in row_blocks(n, K):
        adapted = _adapted(target.calibrated[block], ratio)
        mass += adapted.sum(axis=0)
        at = np.flatnonzero(new[block] != old[block])
        gained += np.bincount(new[block][at], adapted[at, new[block][at]], K)
        lost += np.bincount(old[block][at], adapted[at, old[block][at]], K)
    changed = np.flatnonzero(new != old)
    mass = np.maximum(mass, 1e-12)
    return _Modelled(
        (gained - lost) / mass,
        (gained + lost) / mass,
        changed.size / n,
        changed,
        new[changed],
        old[changed],
    )


def _variance_of_refits(
    refits: Sequence[Refit], source_priors: Vector, target: Target, model: _Modelled
) -> float:
    """Return the variance of the model's expectation of the gain, from fits without each fold."""
    F, (n, K) = len(refits), target.y_proba.shape
    if F < 2 or not model.rows.size:
        return 0.0
    gains = np.zeros(F)
    for part in row_blocks(model.rows.size, K):
        changed, new, old = target.y_proba[model.rows[part]], model.new[part], model.old[part]
        at = np.arange(new.size)
        for f, (calibration, priors) in enumerate(refits):
            adapted = _adapted(calibration.apply(changed), prior_ratio(priors, source_priors))
            gains[f] += (adapted[at, new] - adapted[at, old]).sum() / n
    apart = gains - gains.mean()
    return float((F - 1) / F * (apart**2).sum())


def _adapted(y_proba: Any, ratio: Vector) -> Vector:
    adapted = y_proba * ratio
    total = np.maximum(adapted.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return np.asarray(adapted / total)
