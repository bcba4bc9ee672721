r"""Many calibrators, averaged: what Auto adapts, and what each fold left out tells of it.

Candidates are the original outputs, a temperature, either of them brought from equal class
priors to the source's (as models need that were trained with class weights), and along a path of
ridges a bias per class and a matrix of slopes (a slope per class where classes are many). Each is
fitted to all rows and, five times, without a fold. With :math:`\ell_c` the nats of the labels out
of fold, candidate c has the weight

.. math:: w_c \propto \exp(-\ell_c).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from priorshift._typing import Floats, Indices, Mask, Vector
from priorshift.border import row_blocks, single_threaded_blas
from priorshift.calibration.crossfit import along_ridges, by_fold, out_of_fold
from priorshift.calibration.fitting import Penalty, fit_temperature
from priorshift.calibration.floors import FLOORS, best_floor, floored_likelihood, map_above
from priorshift.calibration.likelihood import Family, LabelLikelihood, ScoreMap, rebalance
from priorshift.calibration.maps import TINY, CalibrationAverage, CalibrationMap

RIDGES = (1e3, 1e2, 1e1, 1e0, 1e-1)
WEAK_RIDGES = RIDGES[2:]
"""Penalties on biases, and on slopes in units of the spread of log-probabilities; without a floor
only weak ones, as strong ones leave a temperature, which needs it."""

MATRIX_CLASSES = 40
VECTOR_CLASSES = 400
"""Most classes for which a matrix of slopes, or a slope per class, is fitted."""

BALANCED = 0.1
"""Source priors whose logarithms differ by no more count as equal."""

LEAST_WEIGHT = 0.005
"""A candidate of less weight is dropped."""

GTOL, MAX_ITER = 0.05, 50
"""Largest gradient, in square roots of nats, at which a fit ends, and its most iterations."""


class Candidate(NamedTuple):
    """A map fitted to all rows, the ones fitted without each fold, and its nats out of fold."""

    fitted: CalibrationMap
    folds: tuple[CalibrationMap, ...]
    nats: float


@dataclass(frozen=True)
class AveragedCalibration:
    """An average of maps with what it says of validation out of fold.

    Attributes
    ----------
    average : CalibrationAverage
    folds : tuple of CalibrationAverage
        The same maps fitted without each fold.
    order : ndarray of int
        Rows of validation in the order of `y_proba` here.
    y_proba : ndarray of shape (n_samples, n_classes)
        Validation, calibrated out of fold.
    excess : float
        Log loss of the original outputs above this average, out of fold, in nats.
    nats : dict
        Of each candidate out of fold, above the least.
    """

    average: CalibrationAverage
    folds: tuple[CalibrationAverage, ...]
    order: Indices
    y_proba: Floats
    excess: float
    nats: dict[str, float]


def average_calibration(
    y_proba: Floats,
    y: Indices,
    weight: Vector,
    label_priors: Vector,
    *,
    n_folds: int,
    random_state: int | np.random.Generator | None,
    groups: Indices | None = None,
) -> AveragedCalibration:
    """Fit all candidates and average them; outputs are then posteriors under `label_priors`.

    Rows of one of the `groups` are in the same fold.
    """
    order, folds = by_fold(y, n_folds, True, random_state, groups)
    y_proba, y, weight = y_proba[order], y[order], weight[order]
    weight, offset = rebalance(y, weight, label_priors)
    with single_threaded_blas():
        candidates = _all_candidates(y_proba, y, weight, offset, label_priors, folds)
        nats = np.array([candidate.nats for candidate in candidates])
        plain = np.array([c.fitted.name.endswith("none") for c in candidates])
        weights = _weights(nats, plain)
        kept = [(c, float(w)) for c, w in zip(candidates, weights, strict=True) if w > 0]
        shares = tuple(w for _, w in kept)
        average = CalibrationAverage(tuple(c.fitted for c, _ in kept), shares)
        without = tuple(
            CalibrationAverage(tuple(c.folds[f] for c, _ in kept), shares)
            for f in range(len(folds))
        )
        calibrated = np.empty(y_proba.shape, dtype=np.float32)
        for fold, one in zip(folds, without, strict=True):
            calibrated[fold] = one.apply(y_proba[fold])
        pairs = zip(
            label_losses(y_proba, y, offset), label_losses(calibrated, y, offset), strict=True
        )
        excess = sum(float(weight[rows] @ (raw - ours)) for (rows, raw), (_, ours) in pairs)
    return AveragedCalibration(
        average,
        without,
        order,
        calibrated,
        excess,
        dict(zip([c.fitted.name for c in candidates], (nats - nats.min()).tolist(), strict=True)),
    )


def _all_candidates(
    y_proba: Floats,
    y: Indices,
    weight: Vector,
    offset: Vector,
    label_priors: Vector,
    folds: Sequence[slice],
) -> list[Candidate]:
    """Fit candidates above the best floor for a temperature; matrices above none as well.

    A temperature needs the floor where a model says exactly 0; a matrix can put up with such
    zeros, and make use of how small the other probabilities are.
    """
    K = label_priors.size
    biases = {"": np.zeros(K)}
    balanced = np.log(np.maximum(K * label_priors, 1e-12))
    if np.ptp(balanced) > BALANCED:
        biases["balanced "] = balanced

    def settle(floors: Sequence[Vector]) -> _Setting:
        found = best_floor(y_proba, y, weight, offset, floors, list(biases.values()))
        likelihood = floored_likelihood(y_proba, y, weight, offset, found.floor, scale=found.slope)
        outside = [likelihood.on([r for r in folds if r is not fold] or [fold]) for fold in folds]
        return _Setting(likelihood, outside, found.slope, found.floor, biases)

    floors = [share * K * label_priors for share in FLOORS]
    families = list(_families(K))
    setting = settle(floors)
    candidates = list(_temperatures(setting, folds))
    candidates += _paths(setting, folds, families, RIDGES, candidates)
    if setting.floor.any() and "ms" in dict(families):
        del setting  # its likelihood is as large as validation, and so is the next one
        setting = settle(floors[:1])
        candidates += _paths(setting, folds, families[-1:], WEAK_RIDGES, candidates, ", no floor")
    return candidates


class _Setting(NamedTuple):
    """The likelihood in which slopes are about 1, the scale that made them so, and the floor.

    `outside` is the likelihood without each fold. `biases` take outputs to the source priors: from
    these, and from equal ones.
    """

    likelihood: LabelLikelihood
    outside: list[LabelLikelihood]
    scale: float
    floor: Vector
    biases: dict[str, Vector]

    def candidate(
        self, name: str, fitted: ScoreMap, without: Sequence[ScoreMap], nats: float
    ) -> Candidate:
        """Return maps of the outputs themselves."""
        above = [map_above(name, at, self.scale, self.floor) for at in (fitted, *without)]
        return Candidate(above[0], tuple(above[1:]), nats)

    def temperatures(self, bias: Vector) -> list[ScoreMap]:
        """Fit a temperature to all rows, and without each fold."""
        likelihoods = (self.likelihood, *self.outside)
        return [fit_temperature(one, bias=bias, prior=1.0, tol=1e-3).map for one in likelihoods]


def _temperatures(setting: _Setting, folds: Sequence[slice]) -> Iterator[Candidate]:
    """Keep the outputs unchanged, or fit a temperature, from either balance."""
    likelihood, K = setting.likelihood, setting.floor.size
    for name, bias in setting.biases.items():
        same = ScoreMap(np.full(K, 1 / setting.scale), bias)
        yield setting.candidate(f"{name}none", same, [same] * len(folds), likelihood.value(same))
        fitted, *without = setting.temperatures(bias)
        nats = out_of_fold(likelihood, without, folds)
        yield setting.candidate(f"{name}ts", fitted, without, nats)


def _paths(
    setting: _Setting,
    folds: Sequence[slice],
    families: Sequence[tuple[str, Family]],
    ridges: Sequence[float],
    others: Sequence[Candidate],
    suffix: str = "",
) -> Iterator[Candidate]:
    """Fit families along the ridges."""
    likelihood, K = setting.likelihood, setting.floor.size
    least = min(other.nats for other in others)
    spread = _spread(likelihood)
    penalties = [Penalty(ridge, ridge * spread, 1.0) for ridge in ridges]
    start, *starts = setting.temperatures(np.zeros(K))
    how = {"starts": starts, "gtol": GTOL, "ftol": 1e-6, "max_iter": MAX_ITER}
    for name, family in families:
        for found in along_ridges(likelihood, family, start, penalties, folds, least=least, **how):
            label = f"{name} {found.ridge:g}{suffix}"
            yield setting.candidate(label, found.fitted, found.folds, found.nats)
            least = min(least, found.nats)


def _families(n_classes: int) -> Iterator[tuple[str, Family]]:
    yield "bcts", Family("shared", bias=True)
    if n_classes == 2:
        return  # more slopes add little to two classes
    if n_classes <= MATRIX_CLASSES:
        yield "ms", Family("matrix", bias=True)
    elif n_classes <= VECTOR_CLASSES:
        yield "vs", Family("vector", bias=True)


def _spread(likelihood: LabelLikelihood) -> float:
    """Return the variance of log-probabilities within rows."""
    z = likelihood.z
    total = sum(float(z[:, rows].var(axis=0).sum()) for rows in row_blocks(*z.shape[::-1]))
    return max(total / z.shape[1], 1e-6)


def _weights(nats: Vector, plain: Mask) -> Vector:
    """Return weights of candidates; those without parameters have half of the prior weight."""
    log_prior = -np.log(np.where(plain, plain.sum(), (~plain).sum()))
    score = log_prior - nats
    weights = np.exp(score - score.max())
    weights /= weights.sum()
    weights[weights < LEAST_WEIGHT] = 0.0
    return weights / weights.sum()


def label_losses(
    y_proba: Floats, y: Indices, offset: Vector | None = None
) -> Iterator[tuple[slice, Vector]]:
    """Yield some rows at a time, and their labels' losses in nats.

    With an offset, of outputs brought to that balance.
    """
    balance = np.ones(y_proba.shape[1]) if offset is None else np.exp(np.maximum(offset, -700.0))
    for rows in row_blocks(*y_proba.shape):
        block = y_proba[rows] * balance
        of_label = block[np.arange(block.shape[0]), y[rows]]
        total = np.maximum(block.sum(axis=1), TINY)
        yield rows, np.log(total) - np.log(np.maximum(of_label, TINY))
