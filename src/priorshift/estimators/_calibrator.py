"""Fit a calibrator and its floor on validation, with maps that did not see a fold."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from priorshift._typing import Indices, Vector
from priorshift.calibration import _rebalanced
from priorshift.estimators._evidence import Validation
from priorshift.estimators._kept_rows import _weight_of
from priorshift.estimators._outputs import _best_floor
from priorshift.recalibration import Recalibration
from priorshift.solvers._softmax import (
    TEMPERATURE,
    Family,
    FittedMap,
    LabelLikelihood,
    PenalisedLikelihood,
    ScoreMap,
    best_temperature,
    fit_map,
)

STEP_TOL, MAX_STEPS = 1e-6, 1000
"""Of the calibrator's own optimisation, as the calibrators have them by default."""

CV_TOL = 1e-5
"""Of the same for folds."""

FAMILIES: dict[str, Callable[[int], Family]] = {
    "ts": lambda K: TEMPERATURE,  # noqa: ARG005
    "bcts": lambda K: Family(n_slopes=1, n_biases=K),
    "vs": lambda K: Family(n_slopes=K, n_biases=K),
}


def floor_of(rows: Validation, label_priors: Vector | None) -> float:
    """Return what is added to probabilities: a model that says exactly 0 needs it."""
    assert rows.y is not None
    weight, K = _weight_of(rows), rows.y_proba.shape[1]
    drawn = np.bincount(rows.y, weight, K) / weight.sum()
    return _best_floor(
        rows.y_proba, rows.y, weight, drawn if label_priors is None else label_priors
    )


def likelihood_of(rows: Validation, label_priors: Vector | None, floor: float) -> LabelLikelihood:
    """Return the likelihood of the validation labels, as the calibrators have it."""
    assert rows.y is not None
    weight = _weight_of(rows)
    offset = np.zeros(rows.y_proba.shape[1])
    if label_priors is not None:
        weight, offset = _rebalanced(rows.y, weight, label_priors, "offset")
    ones = np.ones_like(offset)
    z = Recalibration("log", ones, np.zeros_like(ones), floor).scores(rows.y_proba)
    return LabelLikelihood(z, rows.y, weight, offset, label_priors is not None)


def cross_validate(
    likelihood: LabelLikelihood, family: Family, folds: Indices, ridges: tuple[float, ...]
) -> tuple[float, dict[int, ScoreMap]]:
    """Return the ridge of least loss out of fold, and for each fold the map of the others.

    From the strongest ridge on, each fit starts where the last one ended; a loss that has risen
    twice ends the search.
    """
    weight, folds_used = likelihood.weight, np.unique(folds).tolist()
    inside = {fold: replace(likelihood, weight=weight * (folds == fold)) for fold in folds_used}
    others = {fold: replace(likelihood, weight=weight * (folds != fold)) for fold in folds_used}
    others = {fold: one if one.weight.any() else likelihood for fold, one in others.items()}
    at = {fold: best_temperature(one, CV_TOL, MAX_STEPS).map for fold, one in others.items()}
    chosen, least, risen = (ridges[0], at), np.inf, 0
    for ridge in ridges if family != TEMPERATURE else ():
        at = {fold: _refit(one, family, at[fold], ridge) for fold, one in others.items()}
        loss = sum(
            one.total * one.value_and_gradient(at[fold])[0] for fold, one in inside.items()
        ) if len(ridges) > 1 else 0.0  # fmt: skip
        if loss < least:
            chosen, least, risen = (ridge, at), loss, 0
        elif (risen := risen + 1) == 2:
            break
    return chosen


def _refit(likelihood: LabelLikelihood, family: Family, at: ScoreMap, ridge: float) -> ScoreMap:
    objective = PenalisedLikelihood(likelihood, family, at, ridge)
    return fit_map(objective, at, CV_TOL, MAX_STEPS).map


def fit(likelihood: LabelLikelihood, family: Family, ridge: float) -> FittedMap:
    """Fit the best temperature and, from there, the rest."""
    found = best_temperature(likelihood, STEP_TOL, MAX_STEPS)
    if family == TEMPERATURE:
        return found
    objective = PenalisedLikelihood(likelihood, family, found.map, ridge)
    return fit_map(objective, found.map, STEP_TOL, MAX_STEPS)
