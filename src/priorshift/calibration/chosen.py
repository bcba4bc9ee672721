"""One calibrator: its floor and its ridge chosen, and validation calibrated out of fold."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from priorshift._typing import Floats, Indices, Vector
from priorshift.calibration.crossfit import by_fold, cross_fit
from priorshift.calibration.fitting import Objective, Penalty, fit_map, fit_temperature
from priorshift.calibration.floors import FLOORS, best_floor, floored_likelihood, map_above
from priorshift.calibration.likelihood import TEMPERATURE, Family, LabelLikelihood, rebalance
from priorshift.calibration.maps import CalibrationMap
from priorshift.execution import single_threaded_blas

FAMILIES = {
    "ts": TEMPERATURE,
    "bcts": Family("shared", bias=True),
    "vs": Family("vector", bias=True),
}

GTOL, MAX_STEPS = 1e-3, 1000
"""Largest gradient of the likelihood, in square roots of nats, and most steps."""


class ChosenCalibration(NamedTuple):
    """A fitted map, its ridge, validation calibrated out of fold, and what went wrong."""

    map: CalibrationMap
    ridge: float
    y_proba: Floats
    trouble: str


def choose_calibration(
    y_proba: Floats,
    y: Indices,
    weight: Vector,
    label_priors: Vector | None,
    *,
    calibrator: str,
    ridges: Sequence[float],
    n_folds: int,
    random_state: Any,
) -> ChosenCalibration:
    """Fit a calibrator of `FAMILIES` under the ridge of least loss out of fold.

    Calibrated outputs stand for `label_priors`, or for validation's own balance.
    """
    family = FAMILIES[calibrator]
    order, folds = by_fold(y, n_folds, label_priors is not None, random_state)
    calibrated = np.empty_like(y_proba)
    with single_threaded_blas():
        likelihood, unit, floor = _floored(
            y_proba[order], y[order], weight[order], label_priors, family
        )
        found = fit_temperature(likelihood)
        chosen = cross_fit(likelihood, family, found.map, ridges, folds)
        if family != TEMPERATURE:
            objective = Objective(likelihood, family, Penalty(chosen.ridge), found.map)
            found = fit_map(objective, chosen.fitted, GTOL, MAX_STEPS)
        for fold, at in zip(folds, chosen.folds, strict=True):
            without = map_above(calibrator, at, unit, floor)
            calibrated[order[fold]] = without.apply(y_proba[order[fold]])
    fitted = map_above(calibrator, found.map, unit, floor)
    return ChosenCalibration(fitted, chosen.ridge, calibrated, found.trouble)


def _floored(
    y_proba: Floats, y: Indices, weight: Vector, label_priors: Vector | None, family: Family
) -> tuple[LabelLikelihood, float, Vector]:
    """Choose the floor, which a model needs that says exactly 0.

    Return the likelihood in units in which slopes are about 1, the unit, and the floor.
    """
    offset = np.zeros(y_proba.shape[1])
    shares = np.bincount(y, weight, offset.size) + 0.5
    if label_priors is not None:
        weight, offset = rebalance(y, weight, label_priors)
        shares = label_priors
    relative = offset.size / shares.sum() * shares
    floors = [share * relative for share in FLOORS]
    biases = [np.zeros(offset.size)]
    if family.bias:  # which a model needs that was trained balanced: no floor is to make up for it
        biases.append(np.log(np.maximum(relative, 1e-12)))
    found = best_floor(y_proba, y, weight, offset, floors, biases)
    likelihood = floored_likelihood(
        y_proba, y, weight, offset, found.floor, scale=found.slope, dtype=y_proba.dtype
    )
    return likelihood, found.slope, found.floor
