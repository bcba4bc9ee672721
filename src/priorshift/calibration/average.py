r"""Many calibrators, averaged: what Auto adapts, and what each fold left out tells of it.

Candidates are the original outputs, the same brought from equal class priors to the source's (as
models need that were trained with class weights), and along a path of ridges a temperature with a
bias per class, and a matrix of slopes. Each is fitted to all rows and, five times, without a fold.
With :math:`\ell_c` the nats of the labels out of fold, and :math:`\pi_c` a prior weight, candidate
c has the weight

.. math:: w_c \propto \pi_c \exp(-\ell_c).

Each of them paid on one half of the pools of the quality tables or on both; a temperature alone, a
slope per class and stronger ridges paid on neither (`python -m lab quality --ablation` takes
today's away one by one). Prior weights were chosen on every other pool, in the order of names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from priorshift._typing import Floats, Indices, Vector
from priorshift.border import row_blocks, single_threaded_blas
from priorshift.calibration.fitting import Objective, Penalty, fit_map, fit_path, fit_temperature
from priorshift.calibration.floors import FLOORS, best_floor, floored_likelihood, map_above
from priorshift.calibration.likelihood import (
    Family,
    LabelLikelihood,
    ScoreMap,
    by_fold,
    rebalance,
)
from priorshift.calibration.maps import TINY, CalibrationAverage, CalibrationMap

RIDGES = (1e2, 1e1, 1e0, 1e-1)
"""Penalties on biases, and on slopes in units of the spread of log-probabilities. The first is for
matrices alone."""

BIASES, MATRIX = Family("shared", bias=True), Family("matrix", bias=True)

MATRIX_CLASSES = 40
"""Most classes for which a matrix of slopes is fitted."""

BALANCED = 0.1
"""Source priors whose logarithms differ by no more count as equal."""

FITTED = 1 / 14
"""Prior weight of each candidate that has parameters; those without share the rest."""

LEAST_WEIGHT = 0.005
"""A candidate of less weight is dropped."""

GTOL, FTOL = 0.05, 1e-6
MATRIX_GTOL, MATRIX_FTOL = 0.1, 1e-4
MAX_ITER = 50
"""Largest gradient, in square roots of nats, and relative step down at which a fit ends, and its
most iterations. What is left of a matrix then is far below the noise of its nats out of fold."""


class Candidate(NamedTuple):
    """A map fitted to all rows, then the ones fitted without each fold, and nats out of fold."""

    name: str
    maps: tuple[CalibrationMap, ...]
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
        fitted = _all_candidates(y_proba, y, weight, offset, label_priors, folds)
        names, maps, losses = zip(*fitted, strict=True)
        nats, plain = np.array(losses), np.char.endswith(names, "none")
        # those without parameters share what the others leave
        rest = (1 - FITTED * (~plain).sum()) / plain.sum()
        score = np.log(np.where(plain, rest, FITTED)) - nats
        weights = np.exp(score - score.max())
        weights /= weights.sum()
        weights[weights < LEAST_WEIGHT] = 0.0
        weights /= weights.sum()
        kept = np.flatnonzero(weights)
        shares, averages = tuple(weights[kept].tolist()), list[CalibrationAverage]()
        for each in zip(*(maps[at] for at in kept), strict=True):
            averages.append(CalibrationAverage(each, shares))
        calibrated = np.empty(y_proba.shape, dtype=np.float32)
        for fold, without in zip(folds, averages[1:], strict=True):
            calibrated[fold] = without.apply(y_proba[fold])
        excess, balance = 0.0, np.exp(np.maximum(offset, -700.0))
        for rows in row_blocks(*y_proba.shape):
            for of, sign in ((y_proba, 1), (calibrated, -1)):
                block = of[rows] * balance
                of_label = np.maximum(block[np.arange(block.shape[0]), y[rows]], TINY)
                total = np.maximum(block.sum(axis=1), TINY)
                excess += sign * float(weight[rows] @ (np.log(total) - np.log(of_label)))
    above = dict(zip(names, (nats - nats.min()).tolist(), strict=True))
    return AveragedCalibration(averages[0], tuple(averages[1:]), order, calibrated, excess, above)


def _all_candidates(
    y_proba: Floats,
    y: Indices,
    weight: Vector,
    offset: Vector,
    label_priors: Vector,
    folds: Sequence[slice],
) -> list[Candidate]:
    """Fit candidates above the best floor for a temperature; matrices above none if that is better.

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
        z, spread = likelihood.z, 0.0
        for columns in row_blocks(*z.shape[::-1]):
            spread += float(z[:, columns].var(axis=0).sum())
        start = fit_temperature(likelihood, prior=1.0, tol=1e-3).map
        return _Setting(likelihood, found.slope, found.floor, max(spread / y.size, 1e-6), start)

    floors = [share * K * label_priors for share in FLOORS]
    setting = settle(floors)
    candidates: list[Candidate] = []
    paths: list[tuple[str, Family, Sequence[float], _Setting, str]] = [
        ("bcts", BIASES, RIDGES[1:], setting, "")
    ]
    for name, bias in biases.items():
        same = ScoreMap(np.full(K, 1 / setting.scale), bias)
        above = map_above(f"{name}none", same, setting.scale, setting.floor)
        nats = setting.likelihood.value(same)
        candidates.append(Candidate(above.name, (above,) * (1 + len(folds)), nats))
    if 2 < K <= MATRIX_CLASSES:
        suffix, floored = "", setting
        if setting.floor.any():
            plain = settle(floors[:1])
            if _matrix_nats(plain) < _matrix_nats(setting):
                floored, suffix = plain, ", no floor"
        paths.append(("ms", MATRIX, RIDGES, floored, suffix))
    least = np.inf
    for name, family, ridges, setting, suffix in paths:
        for one in candidates:
            least = min(least, one.nats)
        path = fit_path(
            setting.likelihood,
            family,
            setting.start,
            [Penalty(ridge, ridge * setting.spread, 1.0) for ridge in ridges],
            folds,
            gtol=MATRIX_GTOL if family == MATRIX else GTOL,
            ftol=MATRIX_FTOL if family == MATRIX else FTOL,
            max_iter=MAX_ITER,
            least=least,
        )
        for found in path:
            label, maps = f"{name} {found.penalty.bias:g}{suffix}", list[CalibrationMap]()
            for at in (found.fitted.map, *found.folds):
                maps.append(map_above(label, at, setting.scale, setting.floor))
            candidates.append(Candidate(label, tuple(maps), found.nats))
    return candidates


class _Setting(NamedTuple):
    """The likelihood in which slopes are about 1, the scale that made them so, and the floor.

    `spread` is the variance of log-probabilities within rows, `start` the best temperature.
    """

    likelihood: LabelLikelihood
    scale: float
    floor: Vector
    spread: float
    start: ScoreMap


def _matrix_nats(setting: _Setting) -> float:
    """Return the penalised loss of a matrix on the rows that it is fitted to.

    Both floors leave as many parameters, so it tells which one suits a matrix.
    """
    penalty = Penalty(RIDGES[-1], RIDGES[-1] * setting.spread, 1.0)
    objective = Objective(setting.likelihood, MATRIX, penalty, setting.start)
    likelihood, start = setting.likelihood, setting.start
    return fit_map(objective, likelihood, start, MATRIX_GTOL, MAX_ITER, MATRIX_FTOL).nats
