"""One calibrator above a floor under probabilities: models that say exactly 0 need it most.

The floor is that of the likeliest temperature, the ridge that of least loss out of fold, and each
fold is calibrated by a map that did not see it.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from priorshift._typing import Floats, Indices, Vector
from priorshift.border import row_blocks, single_threaded_blas
from priorshift.calibration.fitting import Objective, cross_fit, fit_map, fit_temperature
from priorshift.calibration.likelihood import (
    TEMPERATURE,
    Family,
    LabelLikelihood,
    ScoreMap,
    by_fold,
    rebalance,
)
from priorshift.calibration.maps import CalibrationMap, floored_log

FLOORS = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 3e-2)
"""Shares of the source priors that may be mixed into every row, times the number of classes."""

FLOOR_COST = 2.0
"""Nats by which a floor must raise the likelihood."""

FIT_CELLS = 5_000_000
"""A floor is chosen on a sample of rows with at most this many entries."""

FAMILIES = {
    "ts": TEMPERATURE,
    "bcts": Family("shared", bias=True),
    "vs": Family("vector", bias=True),
}

FINAL_GTOL, MAX_STEPS = 1e-3, 1000
"""Largest gradient, in square roots of nats, at which the final fit ends, and its most steps."""

HOPELESS = 20.0
"""Nats behind the best at which higher floors are no longer tried."""


class Floored(NamedTuple):
    """A floor with its best temperature: penalised nats, slope of all classes, bias, floor."""

    nats: float
    slope: float
    bias: Vector
    floor: Any


def best_floor(
    y_proba: Floats,
    y: Indices,
    weight: Vector,
    offset: Vector,
    floors: Iterable[float | Vector],
    biases: Sequence[Vector] = (),
) -> Floored:
    """Choose the floor by the likelihood after a temperature, with any of some fixed biases.

    Floors are given from the least; one above 0 must be worth `FLOOR_COST`. The logarithm of the
    temperature has a standard normal prior, so that few correct labels lead to no extreme.
    """
    biases = biases or (np.zeros(offset.size),)
    rows, n = slice(None), y_proba.shape[0]
    n_kept = max(1, FIT_CELLS // y_proba.shape[1])
    if n_kept < n:  # evenly spread
        rows = np.linspace(0, n - 1, n_kept).astype(np.intp)  # type: ignore[assignment]
    slopes, best = [1.0] * len(biases), None
    for floor in floors:
        likelihood = floored_likelihood(y_proba[rows], y[rows], weight[rows], offset, floor)
        cost, least = FLOOR_COST * bool(np.any(floor)), np.inf
        for i, bias in enumerate(biases):
            fitted = fit_temperature(likelihood, bias=bias, prior=1.0, start=slopes[i], tol=1e-3)
            slopes[i] = float(fitted.map.slope[0])
            nats = fitted.nats + cost
            least = min(least, nats)
            if best is None or nats < best.nats:
                best = Floored(nats, slopes[i], bias, floor)
        del likelihood  # before the next one, which is as large
        assert best is not None
        if least > best.nats + HOPELESS:
            break
    assert best is not None
    return best


def best_temperature(
    y_proba: Floats, y: Indices, weight: Vector, source_label_priors: Vector | None = None
) -> CalibrationMap:
    """Return the temperature, above the best floor, that maximises the likelihood of the labels.

    A quick fit of one number, for uses that need no better; safe with few rows and with outputs
    of exactly 0. Pass `source_label_priors` where validation's class balance is not the source's.

    Examples
    --------
    >>> import numpy as np
    >>> from priorshift.calibration import best_temperature
    >>> too_sure = np.repeat([[0.99, 0.01], [0.01, 0.99]], 50, axis=0)
    >>> y = np.repeat([0, 1, 1, 0], [40, 10, 40, 10])
    >>> best_temperature(too_sure, y, np.ones(100)).apply(too_sure[:1]).round(1)
    array([[0.8, 0.2]])
    """
    offset = np.zeros(y_proba.shape[1])
    if source_label_priors is not None:
        weight, offset = rebalance(y, weight, source_label_priors)
    found = best_floor(y_proba, y, weight, offset, FLOORS)
    return CalibrationMap(
        "ts", np.full(offset.size, found.slope), np.zeros(offset.size), found.floor
    )


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
        fitted, ridge, without = fit_temperature(likelihood), 0.0, list[ScoreMap]()
        if family != TEMPERATURE:  # which has no ridge to choose
            chosen = cross_fit(likelihood, family, fitted.map, ridges, folds)
            ridge, without = chosen.penalty.bias, list(chosen.folds)
            objective = Objective(likelihood, family, chosen.penalty, fitted.map)
            fitted = fit_map(objective, likelihood, chosen.fitted.map, FINAL_GTOL, MAX_STEPS)
        for i, fold in enumerate(folds):
            if family == TEMPERATURE:
                near = float(fitted.map.slope[0])
                without.append(fit_temperature(likelihood.without(fold), start=near).map)
            one = map_above(calibrator, without[i], unit, floor)
            calibrated[order[fold]] = one.apply(y_proba[fold])
    return ChosenCalibration(
        map_above(calibrator, fitted.map, unit, floor), ridge, calibrated, fitted.trouble
    )


def floored_likelihood(
    y_proba: Floats,
    y: Indices,
    weight: Vector,
    offset: Vector,
    floor: float | Vector,
    *,
    scale: float = 1.0,
    dtype: Any = np.float32,
) -> LabelLikelihood:
    """Return the likelihood of scaled log-probabilities above a floor."""
    z = np.empty(y_proba.shape[::-1], dtype=dtype)
    for rows in row_blocks(*y_proba.shape):
        block = floored_log(y_proba[rows].astype(np.float64), floor).T
        block -= np.log(np.exp(block).sum(axis=0))
        z[:, rows] = scale * block
    return LabelLikelihood(z, y, weight, offset)


def map_above(name: str, at: ScoreMap, scale: float, floor: Vector) -> CalibrationMap:
    """Return a map that was fitted to scaled log-probabilities as one of the outputs themselves.

    Fits see normalised rows; a map only adds the floor, which raises the sum of every row equally.
    """
    slope, raised = scale * at.slope, float(np.log1p(floor.sum()))
    of_raised = slope if slope.ndim == 1 else slope.sum(axis=0)
    return CalibrationMap(name, slope, at.bias - raised * of_raised, floor)
