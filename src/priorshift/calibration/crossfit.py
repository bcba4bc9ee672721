"""Cross-fitting: one calibrator with the floor and the ridge of least loss out of fold.

Each fold is calibrated by a map that did not see it.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from priorshift._typing import Floats, Indices, Vector
from priorshift.border import check_choice, check_positive, single_threaded_blas
from priorshift.calibration.fitting import Objective, Penalty, fit_map, fit_path, fit_temperature
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

HOPELESS = 20.0
"""Nats behind the best, and rising, at which weaker ridges are no longer tried."""

FAMILIES = {
    "ts": TEMPERATURE,
    "bcts": Family("shared", bias=True),
    "vs": Family("vector", bias=True),
}

FINAL_GTOL, MAX_STEPS = 1e-3, 1000
"""The same for the final calibrator, and its most steps."""


class CrossFit(NamedTuple):
    """A map fitted to all rows under a ridge, for each fold the one without it, and its loss.

    `nats` is what the maps without each fold lose on it, all folds together.
    """

    ridge: float
    fitted: ScoreMap
    folds: tuple[ScoreMap, ...]
    nats: float


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


def out_of_fold(
    likelihood: LabelLikelihood, without: Sequence[ScoreMap], folds: Sequence[slice]
) -> float:
    """Return the nats of all labels, each by the map that did not see its fold."""
    pairs = zip(folds, without, strict=True)
    return float(sum(likelihood.on([fold]).value(at) for fold, at in pairs))


def along_ridges(
    likelihood: LabelLikelihood,
    family: Family,
    start: ScoreMap,
    penalties: Sequence[Penalty],
    folds: Sequence[slice],
    *,
    least: float = np.inf,
    **how: Any,
) -> Iterator[CrossFit]:
    """Cross-fit under each penalty, the strongest first, until it has become hopeless.

    Rows lie fold by fold. `least` is the loss of what there is already; `how` is of `fit_path`.
    """
    before = np.inf
    for path in fit_path(likelihood, family, start, penalties, folds, **how):
        nats = out_of_fold(likelihood, path.folds, folds)
        yield CrossFit(path.penalty.bias, path.fitted.map, path.folds, nats)
        least = min(least, nats)
        if nats > max(before, least + HOPELESS):
            return
        before = nats


def cross_fit(
    likelihood: LabelLikelihood,
    family: Family,
    start: ScoreMap,
    ridges: Sequence[float],
    folds: Sequence[slice],
    *,
    max_iter: int = 1000,
) -> CrossFit:
    """Choose the ridge of least loss out of fold, of equals the strongest.

    `start` is the best temperature, which has no ridge to choose.
    """
    if family == TEMPERATURE:
        others, slope = likelihood.without(folds), float(start.slope[0])
        without = [fit_temperature(other, start=slope).map for other in others]
        return CrossFit(0.0, start, tuple(without), out_of_fold(likelihood, without, folds))
    penalties = [Penalty(ridge) for ridge in ridges]
    found = along_ridges(
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
            found = fit_map(objective, chosen.fitted, FINAL_GTOL, MAX_STEPS)
        for fold, at in zip(folds, chosen.folds, strict=True):
            without = map_above(calibrator, at, unit, floor)
            calibrated[order[fold]] = without.apply(y_proba[order[fold]])
    fitted = map_above(calibrator, found.map, unit, floor)
    return ChosenCalibration(fitted, chosen.ridge, calibrated, found.trouble)


def _floored(
    y_proba: Floats, y: Indices, weight: Vector, label_priors: Vector | None, family: Family
) -> tuple[LabelLikelihood, float, Vector]:
    """Choose the floor, which models that predict exactly 0 need.

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
    if family.bias:  # models trained with class weights need a bias, which no floor should replace
        biases.append(np.log(np.maximum(relative, 1e-12)))
    found = best_floor(y_proba, y, weight, offset, floors, biases)
    likelihood = floored_likelihood(
        y_proba, y, weight, offset, found.floor, scale=found.slope, dtype=y_proba.dtype
    )
    return likelihood, found.slope, found.floor
