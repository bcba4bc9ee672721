"""Calibrated outputs, with what adapting them takes: out-of-fold rows and source priors."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar

from priorshift._typing import Floats, Indices, Vector
from priorshift.execution import single_threaded_blas
from priorshift.recalibration import TINY, Recalibration
from priorshift.solvers._softmax import (
    TEMPERATURE,
    Family,
    LabelLikelihood,
    PenalisedLikelihood,
    ScoreMap,
    deal_folds,
    fit_map,
)
from priorshift.statistics import Confusion

FLOORS = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 3e-2)
"""What may be added to every probability: models that say exactly 0 need it most."""

FIT_CELLS = 5_000_000
"""Calibrators are fitted to a sample of rows with at most this many entries."""

BIAS_CELLS = 1_000_000
"""Calibrators with parameters a class are tried up to this many entries."""

RIDGES = (1e3, 1e2, 1e1, 1e0)
"""Penalties on the biases to choose from by likelihood out of fold, the strongest first."""

SURELY = 2.0
"""Standard errors by which parameters a class must raise the likelihood out of fold."""

LOG_SLOPES = (-6.0, 6.0)
"""Where the logarithm of 1 / temperature is looked for."""

TOL, MAX_ITER = 1e-4, 100


@dataclass(frozen=True)
class Outputs:
    """A classifier's outputs after one calibrator.

    Attributes
    ----------
    calibrator : Recalibration or None
        None leaves outputs as they came.
    y_proba : ndarray of shape (n_samples, n_classes)
        Validation, calibrated out of fold.
    source_priors : ndarray of shape (n_classes,)
        Mean of these at the source's label priors: the denominator of the ratio.
    noise : float
        Trace of the covariance of `source_priors`, from validation's size.
    losses : ndarray of shape (n_samples,)
        Negative log-likelihood of each validation label, its balance corrected to the source's.
    """

    calibrator: Recalibration | None
    y_proba: Floats
    source_priors: Vector
    noise: float
    losses: Vector

    @property
    def name(self) -> str:
        """The calibrator's name."""
        return "none" if self.calibrator is None else self.calibrator.name

    def apply(self, y_proba: Floats) -> Floats:
        """Calibrate further outputs."""
        return y_proba if self.calibrator is None else self.calibrator.apply(y_proba)

    def is_better(self, other: "Outputs", weight: Vector, by: float = 0.0) -> bool:
        """Tell whether its likelihood out of fold is higher, by so many standard errors."""
        gain = other.losses - self.losses
        mean = np.average(gain, weights=weight)
        spread = np.average((gain - mean) ** 2, weights=weight)
        return bool(mean > by * np.sqrt(spread / weight.sum()))


def calibrated_outputs(
    y_proba: Floats,
    y: Indices,
    weight: Vector,
    label_priors: Vector,
    *,
    source_priors: Vector | None,
    n_folds: int,
    random_state: int | np.random.Generator | None,
) -> list[Outputs]:
    """Calibrate by a temperature, a bias and a scale a class, as far as each surely helps.

    The first are outputs as they came or after a temperature, whichever is likelier out of fold.
    The others have more parameters and a likelihood that is surely higher, and are tried up to
    `BIAS_CELLS` only. `source_priors` are those of the outputs as they came, if they are known.
    """
    K = label_priors.size
    folds = deal_folds(y, n_folds, True, random_state)
    floor = _best_floor(y_proba, y, weight, label_priors)
    z = Recalibration("log", np.ones(K), np.zeros(K), floor).scores(y_proba)
    likelihood = _likelihood(z, y, weight, label_priors)
    simplest = _as_they_came(y_proba, likelihood, label_priors, source_priors)
    scaled = _outputs("ts", TEMPERATURE, floor, likelihood, folds, label_priors)
    if scaled.is_better(simplest, likelihood.weight):
        simplest = scaled
    if y_proba.size > BIAS_CELLS or not likelihood.seen.all():
        return [simplest]
    further = {"bcts": Family(1, K), "vs": Family(K, K)}
    tried = [
        _outputs(name, family, floor, likelihood, folds, label_priors)
        for name, family in further.items()
    ]
    weight = likelihood.weight
    return [simplest, *(o for o in tried if o.is_better(simplest, weight, by=SURELY))]


def _as_they_came(
    y_proba: Floats,
    likelihood: LabelLikelihood,
    label_priors: Vector,
    source_priors: Vector | None,
) -> Outputs:
    mean, noise = _source_priors(y_proba, likelihood, label_priors)
    losses = _losses(y_proba, likelihood)
    if source_priors is not None:
        mean, noise = source_priors, 0.0
    return Outputs(None, y_proba, mean, noise, losses)


def _best_floor(y_proba: Floats, y: Indices, weight: Vector, label_priors: Vector) -> float:
    """Return the floor of the best likelihood after temperature scaling, the least of equals."""
    rows = _sample(y.size, label_priors.size)
    losses = []
    ones, zeros = np.ones(label_priors.size), np.zeros(label_priors.size)
    for floor in FLOORS:
        z = Recalibration("log", ones, zeros, floor).scores(y_proba[rows])
        likelihood = _likelihood(z, y[rows], weight[rows], label_priors)
        losses.append(likelihood.value_and_gradient(_temperature(likelihood))[0])
    return FLOORS[int(np.argmin(losses))]


def _outputs(
    name: str,
    family: Family,
    floor: float,
    likelihood: LabelLikelihood,
    folds: Indices,
    label_priors: Vector,
) -> Outputs:
    """Fit to all rows for later use, and out of fold for honest statistics."""
    ridges = RIDGES if family.n_biases else (0.0,)
    calibrated = np.empty((len(ridges), *likelihood.z.shape))
    with single_threaded_blas():
        for fold in np.unique(folds):
            held = folds == fold
            path = _path(_rows(likelihood, np.flatnonzero(~held)), family, ridges)
            for one, fitted in zip(calibrated, path, strict=True):
                one[held] = _softmax(likelihood.z[held] * fitted.slope + fitted.bias)
        losses = np.array([_losses(one, likelihood) for one in calibrated])
        best = int(np.argmin(losses @ likelihood.weight))
        full = _path(likelihood, family, ridges[: best + 1])[-1]
    slope = np.broadcast_to(full.slope, label_priors.shape).copy()
    source, noise = _source_priors(calibrated[best], likelihood, label_priors)
    calibrator = Recalibration(name, slope, full.bias, floor)
    return Outputs(calibrator, calibrated[best], source, noise, losses[best])


def _path(likelihood: LabelLikelihood, family: Family, ridges: tuple[float, ...]) -> list[ScoreMap]:
    """Fit for each ridge, from the strongest on, each from where the last one ended."""
    at = _temperature(_rows(likelihood, _sample(*likelihood.z.shape)))
    if family == TEMPERATURE:
        return [at]
    path = []
    for ridge in ridges:
        objective = PenalisedLikelihood(likelihood, family, at, ridge)
        at = fit_map(objective, at, TOL, MAX_ITER).map
        path.append(at)
    return path


def _temperature(likelihood: LabelLikelihood) -> ScoreMap:
    """Fit a temperature T under a standard normal prior on log T.

    Few labels that are all right would otherwise ask for a temperature of 0.
    """
    zeros = np.zeros_like(likelihood.offset)

    def loss(log_slope: float) -> float:
        at = ScoreMap(zeros + np.exp(log_slope), zeros)
        return likelihood.value_and_gradient(at)[0] + log_slope**2 / (2 * likelihood.total)

    found = minimize_scalar(loss, bounds=LOG_SLOPES, method="bounded", options={"xatol": TOL})
    return ScoreMap(zeros + np.exp(found.x), zeros)


def _losses(calibrated: Floats, likelihood: LabelLikelihood) -> Vector:
    """Return each label's loss under outputs that are brought to validation's balance."""
    balance = np.exp(np.maximum(likelihood.offset, -700.0))
    of_label = calibrated[np.arange(likelihood.y.size), likelihood.y] * balance[likelihood.y]
    total = calibrated @ balance
    return -np.log(np.maximum(of_label, TINY) / np.maximum(total, TINY))


def _source_priors(
    calibrated: Floats, likelihood: LabelLikelihood, label_priors: Vector
) -> tuple[Vector, float]:
    r"""Return :math:`\sum_k p^N_k \bar f_k` and the trace of its covariance."""
    confusion = Confusion.from_arrays(
        calibrated, likelihood.y, decision="soft", sample_weight=likelihood.weight
    )
    unseen = np.where(confusion.seen, 0.0, label_priors)  # counts as always recognised
    mean = confusion.conditional @ label_priors + unseen
    size = np.maximum(confusion.class_weights, 1.0)
    squares = np.einsum("ij,ij->i", calibrated, calibrated)
    second = np.bincount(likelihood.y, likelihood.weight * squares, label_priors.size) / size
    spread = np.maximum(second - (confusion.conditional**2).sum(axis=0), 0.0)
    spread *= size / np.maximum(size - 1, 1.0)
    return mean / mean.sum(), float((label_priors**2 * spread / size).sum())


def _likelihood(z: Vector, y: Indices, weight: Vector, label_priors: Vector) -> LabelLikelihood:
    """Return the likelihood of labels whose balance is corrected to the source's."""
    frequencies = np.bincount(y, weight, label_priors.size) / weight.sum()
    shared = (frequencies > 0) & (label_priors > 0)
    offset = np.full(label_priors.size, -1e300)
    offset[shared] = np.log(frequencies[shared] / label_priors[shared])
    return LabelLikelihood(z, y, weight * shared[y], offset, corrected=True)


def _rows(likelihood: LabelLikelihood, rows: Indices) -> LabelLikelihood:
    return replace(
        likelihood, z=likelihood.z[rows], y=likelihood.y[rows], weight=likelihood.weight[rows]
    )


def _sample(n_rows: int, n_columns: int) -> Indices:
    """Return evenly spread rows, all of them if they are few enough."""
    n_kept = min(n_rows, max(1, FIT_CELLS // n_columns))
    return np.linspace(0, n_rows - 1, n_kept).astype(np.intp)


def _softmax(scores: Vector) -> Vector:
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores
