"""Cross-fitting: one calibrator with the floor and the ridge of least loss out of fold.

Each fold is calibrated by a map that did not see it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from priorshift._typing import Floats, Indices, Vector
from priorshift.border import check_choice, check_positive, single_threaded_blas
from priorshift.calibration.fitting import (
    CrossFit,
    Objective,
    Penalty,
    fit_map,
    fit_path,
    fit_temperature,
)
from priorshift.calibration.floors import FLOORS, best_floor, floored_likelihood, map_above
from priorshift.calibration.likelihood import (
    TEMPERATURE,
    Family,
    LabelLikelihood,
    ScoreMap,
    deal_folds,
    rebalance,
)
from priorshift.calibration.maps import CalibrationMap

RIDGE_GRID = (1e6, 1e5, 1e4, 1e3, 1e2, 1e1, 1e0, 1e-1, 1e-2)
"""What `ridge="cv"` chooses from: from hardly any bias to hardly any penalty."""

GTOL = 0.01
"""Largest gradient, in square roots of nats, at which a fit ends."""

FAMILIES = {
    "ts": TEMPERATURE,
    "bcts": Family("shared", bias=True),
    "vs": Family("vector", bias=True),
}

FINAL_GTOL, MAX_STEPS = 1e-3, 1000
"""The same for the final calibrator, and its most steps."""


def ridges_of(ridge: Any) -> tuple[float, ...]:
    """Return the penalties on biases to choose from, the strongest first.

    `ridge` is a number, "cv" for all of `RIDGE_GRID`, or None for none.
    """
    if not ridge:
        return (0.0,)
    if not isinstance(ridge, str):
        return (check_positive(ridge, "ridge"),)
    check_choice(ridge, ("cv",), "ridge")
    return RIDGE_GRID


def by_fold(
    y: Indices, n_folds: int, stratified: bool, random_state: Any, groups: Indices | None = None
) -> tuple[Indices, tuple[slice, ...]]:
    """Return rows ordered fold by fold, and where each fold lies.

    Rows of one group stay together: the largest groups first, each to the smallest fold.
    """
    folds = deal_folds(y, min(n_folds, y.size), stratified, random_state)
    if groups is not None and groups.max(initial=0) > 0:
        size = np.bincount(groups)
        filled, fold_of = np.zeros(min(n_folds, size.size)), np.zeros(size.size, np.intp)
        for group in np.argsort(-size, kind="stable"):
            fold_of[group] = filled.argmin()
            filled[fold_of[group]] += size[group]
        folds = fold_of[groups]
    order = np.argsort(folds, kind="stable").astype(np.min_scalar_type(y.size))  # it is kept
    ends = np.cumsum(np.bincount(folds)).tolist()
    return order, tuple(slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True))


def cross_fit(
    likelihood: LabelLikelihood,
    family: Family,
    start: ScoreMap,
    ridges: Sequence[float],
    folds: Sequence[slice],
    *,
    max_iter: int = 1000,
) -> CrossFit:
    """Choose the ridge of least loss out of fold, of equals the strongest."""
    penalties = [Penalty(ridge) for ridge in ridges]
    found = fit_path(
        likelihood, family, start, penalties, folds, gtol=GTOL, max_iter=max_iter, exact=True
    )
    return min(found, key=lambda one: one.nats)


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

    Calibrated outputs are posteriors under `label_priors`, or under validation's own balance.
    """
    family, K = FAMILIES[calibrator], y_proba.shape[1]
    order, folds = by_fold(y, n_folds, label_priors is not None, random_state)
    calibrated = np.empty_like(y_proba)
    y_proba, y, weight = y_proba[order], y[order], weight[order]
    offset, shares = np.zeros(K), np.bincount(y, weight, K) + 0.5
    if label_priors is not None:
        weight, offset = rebalance(y, weight, label_priors)
        shares = label_priors
    relative = K / shares.sum() * shares
    biases = [np.zeros(K)]
    if family.bias:  # models trained with class weights need a bias, which no floor should replace
        biases.append(np.log(np.maximum(relative, 1e-12)))
    with single_threaded_blas():
        found = best_floor(
            y_proba, y, weight, offset, [share * relative for share in FLOORS], biases
        )
        unit, floor = found.slope, found.floor
        likelihood = floored_likelihood(
            y_proba, y, weight, offset, floor, scale=unit, dtype=y_proba.dtype
        )
        fitted, ridge = fit_temperature(likelihood), 0.0
        if family == TEMPERATURE:  # which has no ridge to choose
            near = float(fitted.map.slope[0])
            without = [fit_temperature(rows, start=near).map for rows in likelihood.without(folds)]
        else:
            chosen = cross_fit(likelihood, family, fitted.map, ridges, folds)
            ridge, without = chosen.penalty.bias, list(chosen.folds)
            objective = Objective(likelihood, family, chosen.penalty, fitted.map)
            fitted = fit_map(objective, chosen.fitted.map, FINAL_GTOL, MAX_STEPS)
        for fold, at in zip(folds, without, strict=True):
            one = map_above(calibrator, at, unit, floor)
            calibrated[order[fold]] = one.apply(y_proba[fold])
    return ChosenCalibration(
        map_above(calibrator, fitted.map, unit, floor), ridge, calibrated, fitted.trouble
    )
