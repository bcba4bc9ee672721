r"""Calibrate above a floor under probabilities: models that say exactly 0 need it most.

`best_temperature` and `choose_calibration` (for `CalibratedEM`) fit one calibrator above the floor
of the likeliest temperature. `average_calibration` averages many for `Auto`, and says what each
fold left out tells of it.

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
from typing import Any, NamedTuple

import numpy as np

from priorshift._typing import Floats, Indices, Vector
from priorshift.border import row_blocks, single_threaded_blas
from priorshift.calibration.fitting import (
    HOPELESS,
    Objective,
    Penalty,
    fit_chosen,
    fit_map,
    fit_path,
    fit_temperature,
    ridges_of,
)
from priorshift.calibration.likelihood import Family, LabelLikelihood, ScoreMap, by_fold, rebalance
from priorshift.calibration.maps import TINY, CalibrationAverage, CalibrationMap, floored_log

FLOORS = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 3e-2)
"""Shares of the source priors that may be mixed into every row, times the number of classes."""

FLOOR_COST = 2.0
"""Nats by which a floor must raise the likelihood."""

FIT_CELLS = 5_000_000
"""A floor is chosen on a sample of rows with at most this many entries."""

FAMILIES = ("ts", "bcts", "vs")
"""Calibrators of which one can be chosen."""

FINAL_GTOL = 1e-3
"""Largest gradient, in square roots of nats, at which the fit of one calibrator ends."""

RIDGES = (1e2, 1e1, 1e0, 1e-1)
"""Penalties on biases, and on slopes in units of the spread of log-probabilities. The first is for
matrices alone."""

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


class Labelled(NamedTuple):
    """Outputs beside their labels, weights, and what rebalances scores; see `rebalance`."""

    y_proba: Floats
    y: Indices
    weight: Vector
    offset: Vector


def best_floor(
    rows: Labelled,
    relative: float | Vector = 1.0,
    shares: Sequence[float] = FLOORS,
    biases: Sequence[Vector] = (),
) -> tuple[float, Any]:
    """Return the slope and the floor of the likeliest temperature, with any of some fixed biases.

    Floors are shares of `relative`, from the least; one above 0 must be worth `FLOOR_COST`. The
    logarithm of the temperature has a standard normal prior, so that few correct labels lead to no
    extreme.
    """
    (n, K), offset = rows.y_proba.shape, rows.offset
    n_kept = max(1, FIT_CELLS // K)
    if n_kept < n:  # evenly spread
        kept = np.linspace(0, n - 1, n_kept).astype(np.intp)
        rows = Labelled(rows.y_proba[kept], rows.y[kept], rows.weight[kept], offset)
    biases = biases or (np.zeros(K),)
    slopes, best, chosen = [1.0] * len(biases), np.inf, (1.0, shares[0] * relative)
    for share in shares:
        likelihood = floored_likelihood(rows, share * relative)
        cost, least = FLOOR_COST * (share > 0), np.inf
        for i, bias in enumerate(biases):
            fitted = fit_temperature(likelihood, bias=bias, prior=1.0, start=slopes[i], tol=1e-3)
            slopes[i] = float(fitted.map.slope[0])
            least = min(least, fitted.nats + cost)
            if fitted.nats + cost < best:
                best, chosen = fitted.nats + cost, (slopes[i], share * relative)
        del likelihood  # before the next one, which is as large
        if least > best + HOPELESS:
            break
    return chosen


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
    slope, floor = best_floor(Labelled(y_proba, y, weight, offset))
    return CalibrationMap("ts", np.full(offset.size, slope), np.zeros(offset.size), floor)


def choose_calibration(
    y_proba: Floats,
    y: Indices,
    weight: Vector,
    label_priors: Vector | None,
    *,
    calibrator: Any,
    ridge: Any,
    n_folds: int,
    random_state: Any,
) -> tuple[CalibrationMap, float, Floats, str]:
    """Fit a calibrator of `FAMILIES` under the ridge of least loss out of fold.

    Return its map, the ridge, validation calibrated out of fold, and what went wrong. Calibrated
    outputs are posteriors under `label_priors`, or under validation's own balance.
    """
    K = y_proba.shape[1]
    order, folds = by_fold(y, n_folds, label_priors is not None, random_state)
    calibrated = np.empty_like(y_proba)
    y_proba, y, weight = y_proba[order], y[order], weight[order]
    offset, shares = np.zeros(K), np.bincount(y, weight, K) + 0.5
    if label_priors is not None:
        weight, offset = rebalance(y, weight, label_priors)
        shares = label_priors
    relative, biases = K / shares.sum() * shares, [np.zeros(K)]
    if calibrator != "ts":  # a bias that class weights ask for, which no floor should replace
        biases.append(np.log(np.maximum(relative, 1e-12)))
    with single_threaded_blas():
        rows = Labelled(y_proba, y, weight, offset)
        unit, floor = best_floor(rows, relative, biases=biases)
        likelihood = floored_likelihood(rows, floor, scale=unit, dtype=y_proba.dtype)
        fitted, best, without = fit_chosen(
            likelihood, calibrator, ridges_of(ridge), folds, gtol=FINAL_GTOL
        )
        for fold, at in zip(folds, without, strict=True):
            calibrated[order[fold]] = map_above(calibrator, at, unit, floor).apply(y_proba[fold])
    return map_above(calibrator, fitted.map, unit, floor), best, calibrated, fitted.trouble


def floored_likelihood(
    rows: Labelled, floor: float | Vector, *, scale: float = 1.0, dtype: Any = np.float32
) -> LabelLikelihood:
    """Return the likelihood of scaled log-probabilities above a floor."""
    z = np.empty(rows.y_proba.shape[::-1], dtype=dtype)
    for part in row_blocks(*rows.y_proba.shape):
        block = floored_log(rows.y_proba[part].astype(np.float64), floor).T
        block -= np.log(np.exp(block).sum(axis=0))
        z[:, part] = scale * block
    return LabelLikelihood(z, rows.y, rows.weight, rows.offset)


def map_above(name: str, at: ScoreMap, scale: float, floor: Vector) -> CalibrationMap:
    """Return a map that was fitted to scaled log-probabilities as one of the outputs themselves.

    Fits see normalised rows; a map only adds the floor, which raises the sum of every row equally.
    """
    slope, raised = scale * at.slope, float(np.log1p(floor.sum()))
    of_raised = slope if slope.ndim == 1 else slope.sum(axis=0)
    return CalibrationMap(name, slope, at.bias - raised * of_raised, floor)


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
        labelled = Labelled(y_proba, y, weight, offset)
        fitted = _all_candidates(labelled, label_priors, folds)
        names, maps, nats = map(np.array, zip(*fitted, strict=True))
        plain = np.char.endswith(names, "none")
        # those without parameters share what the others leave
        rest = (1 - FITTED * (~plain).sum()) / plain.sum()
        score = np.log(np.where(plain, rest, FITTED)) - nats
        weights = np.exp(score - score.max())
        weights /= weights.sum()
        weights[weights < LEAST_WEIGHT] = 0.0
        weights /= weights.sum()
        kept = np.flatnonzero(weights)
        shares = tuple(weights[kept].tolist())
        # of all rows, then without each fold
        averages = [CalibrationAverage(tuple(each), shares) for each in maps[kept].T]
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
    above = dict(zip(names.tolist(), (nats - nats.min()).tolist(), strict=True))
    return AveragedCalibration(averages[0], tuple(averages[1:]), order, calibrated, excess, above)


def _all_candidates(
    rows: Labelled, label_priors: Vector, folds: Sequence[slice]
) -> list[Candidate]:
    """Fit candidates above the best floor for a temperature; matrices above none if that is better.

    A temperature needs the floor where a model says exactly 0; a matrix can put up with such
    zeros, and make use of how small the other probabilities are.
    """
    K = label_priors.size
    relative, biases = K * label_priors, {"": np.zeros(K)}
    balanced = np.log(np.maximum(relative, 1e-12))
    if np.ptp(balanced) > BALANCED:
        biases["balanced "] = balanced

    def settle(shares: Sequence[float]) -> _Setting:
        scale, floor = best_floor(rows, relative, shares, list(biases.values()))
        likelihood = floored_likelihood(rows, floor, scale=scale)
        z, spread = likelihood.z, 0.0
        for columns in row_blocks(*z.shape[::-1]):
            spread += float(z[:, columns].var(axis=0).sum())
        start = fit_temperature(likelihood, prior=1.0, tol=1e-3).map
        return _Setting(likelihood, scale, floor, max(spread / rows.y.size, 1e-6), start)

    setting = settle(FLOORS)
    candidates: list[Candidate] = []
    paths: list[tuple[Family, Sequence[float], _Setting, str]] = [("bcts", RIDGES[1:], setting, "")]
    for name, bias in biases.items():
        same = ScoreMap(np.full(K, 1 / setting.scale), bias)
        above = map_above(f"{name}none", same, setting.scale, setting.floor)
        nats = setting.likelihood.value(same)
        candidates.append(Candidate(above.name, (above,) * (1 + len(folds)), nats))
    if 2 < K <= MATRIX_CLASSES:
        suffix, floored = "", setting
        if setting.floor.any():
            plain = settle(FLOORS[:1])
            if _matrix_nats(plain) < _matrix_nats(setting):
                floored, suffix = plain, ", no floor"
        paths.append(("ms", RIDGES, floored, suffix))
    least = np.inf
    for family, ridges, used, suffix in paths:
        for one in candidates:
            least = min(least, one.nats)
        path = fit_path(
            used.likelihood,
            family,
            used.start,
            ridges,
            folds,
            spread=used.spread,
            temperature=1.0,
            gtol=MATRIX_GTOL if family == "ms" else GTOL,
            ftol=MATRIX_FTOL if family == "ms" else FTOL,
            max_iter=MAX_ITER,
            least=least,
        )
        for found in path:
            label = f"{family} {found.penalty.bias:g}{suffix}"
            fits = (found.fitted.map, *found.folds)
            maps = tuple(map_above(label, at, used.scale, used.floor) for at in fits)
            candidates.append(Candidate(label, maps, found.nats))
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
    objective = Objective(setting.likelihood, "ms", penalty, setting.start)
    likelihood, start = setting.likelihood, setting.start
    return fit_map(objective, likelihood, start, MATRIX_GTOL, MAX_ITER, MATRIX_FTOL).nats
