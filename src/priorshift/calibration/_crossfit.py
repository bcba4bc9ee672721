"""Cross-fitting: the ridge of least loss out of fold, with maps that did not see a fold."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from priorshift._typing import Indices
from priorshift.calibration._fit import Penalty, fit_path, fit_temperature
from priorshift.calibration._likelihood import (
    TEMPERATURE,
    Family,
    LabelLikelihood,
    ScoreMap,
    deal_folds,
)

RIDGE_GRID = (1e6, 1e5, 1e4, 1e3, 1e2, 1e1, 1e0, 1e-1, 1e-2)
"""What `ridge="cv"` chooses from: from hardly any bias to hardly any penalty."""

GTOL = 0.01
"""Largest gradient, in square roots of nats, at which a fit ends."""

HOPELESS = 20.0
"""Nats behind the best, and rising, at which weaker ridges are no longer tried."""


class CrossFit(NamedTuple):
    """The ridge of least loss, its map on all rows, and for each fold the one without it."""

    ridge: float
    fitted: ScoreMap
    folds: tuple[ScoreMap, ...]


def by_fold(
    y: Indices, n_folds: int, stratified: bool, random_state: Any
) -> tuple[Indices, tuple[slice, ...]]:
    """Return rows ordered fold by fold, and where each fold lies."""
    folds = deal_folds(y, min(n_folds, y.size), stratified, random_state)
    order = np.argsort(folds, kind="stable")
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
    """Fit along the ridges, the strongest first; of equals the strongest is taken.

    `start` is the best temperature. Rows lie fold by fold.
    """
    inside = [likelihood.on([fold]) for fold in folds]
    best, least, before = CrossFit(0.0, start, ()), np.inf, np.inf
    for found in _candidates(likelihood, family, start, ridges, folds, max_iter):
        nats = sum(one.value(at) for one, at in zip(inside, found.folds, strict=True))
        if nats < least or not best.folds:
            best, least = found, nats
        if nats > max(before, least + HOPELESS):
            break
        before = nats
    return best


def _candidates(
    likelihood: LabelLikelihood,
    family: Family,
    start: ScoreMap,
    ridges: Sequence[float],
    folds: Sequence[slice],
    max_iter: int,
) -> Iterator[CrossFit]:
    if family == TEMPERATURE:
        others = [[rows for rows in folds if rows is not fold] or [fold] for fold in folds]
        slope = float(start.slope[0])
        without = (fit_temperature(likelihood.on(rows), start=slope).map for rows in others)
        yield CrossFit(0.0, start, tuple(without))
        return
    penalties = [Penalty(ridge) for ridge in ridges]
    for path in fit_path(
        likelihood, family, start, penalties, folds, gtol=GTOL, max_iter=max_iter, exact=True
    ):
        yield CrossFit(path.penalty.bias, path.fitted.map, path.folds)
