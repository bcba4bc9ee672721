r"""Fit calibration maps: a temperature by Newton's method, the rest by L-BFGS from there.

The penalised likelihood of a map with slopes S and biases b is

.. math:: \ell(S, b) + \frac{\lambda_b}{2} |b|^2 + \frac{\lambda_S}{2} |S - \bar s I|^2
    + \frac{\gamma}{2} \log^2 \bar s, \qquad \bar s = \mathrm{tr}\, S / K,

so that a strong penalty leaves a temperature. L-BFGS works in coordinates in which the curvature
at its start is close to the identity; then every class and every ridge needs only a few passes.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh
from scipy.linalg.lapack import dtrtrs
from scipy.optimize import minimize

from priorshift._typing import Vector
from priorshift.calibration.likelihood import (
    LOG_SLOPES,
    TEMPERATURE,
    Family,
    LabelLikelihood,
    ScoreMap,
)

DENSE_PARAMETERS, MATRIX_PARAMETERS = 1000, 200
"""Up to this many parameters, or of a matrix, the Hessian is formed; beyond that only its diagonal
is used, or a product that is close to it."""

LARGEST_STEP = 2.0
"""Largest change of the logarithm of a temperature in one step."""

HOPELESS = 20.0
"""Nats behind the best, and rising, at which weaker ridges are no longer tried."""


@dataclass(frozen=True)
class Penalty:
    """Penalties on biases, on slopes that differ, and on a temperature away from 1."""

    bias: float = 0.0
    slope: float = 0.0
    temperature: float = 0.0

    def value_and_gradient(self, at: ScoreMap) -> tuple[float, ScoreMap]:
        """Return the penalty and its gradient."""
        n, uneven = at.bias.size, at.slope.copy()
        even = uneven if uneven.ndim == 1 else uneven.reshape(-1)[:: n + 1]  # the diagonal
        mean = max(float(even.sum()) / n, 1e-6)
        even -= mean
        value = self.bias * float(at.bias @ at.bias) + self.slope * float(np.vdot(uneven, uneven))
        uneven *= self.slope
        if self.temperature:
            value += self.temperature * np.log(mean) ** 2
            even += self.temperature * np.log(mean) / (mean * n)
        return value / 2, ScoreMap(uneven, self.bias * at.bias)


class FittedMap(NamedTuple):
    """A map, the iterations it took, what went wrong, and its penalised loss in nats."""

    map: ScoreMap
    n_iter: int
    trouble: str
    nats: float


class CrossFit(NamedTuple):
    """A map fitted to all rows under a penalty, for each fold the one without it, and its loss.

    `nats` is what the maps without each fold lose on it, all folds together.
    """

    penalty: Penalty
    fitted: FittedMap
    folds: tuple[ScoreMap, ...]
    nats: float


def fit_temperature(
    likelihood: LabelLikelihood,
    *,
    bias: Vector | None = None,
    prior: float = 0.0,
    start: float = 1.0,
    tol: float = 1e-6,
    max_iter: int = 1000,
) -> FittedMap:
    """Fit one slope for all classes, `exp(t)`, by Newton's method in t.

    `prior` is the precision of a normal prior on t: few labels that are all right would otherwise
    ask for a temperature of 0.
    """
    K = likelihood.offset.size
    bias = np.zeros(K) if bias is None else bias

    def evaluate(t: float) -> tuple[float, float, float]:
        slope = np.exp(t)
        value, first, second = likelihood.along_slope(ScoreMap(np.full(K, slope), bias))
        first *= slope
        second = slope**2 * second + max(first, 0.0)
        return value + prior * t * t / 2, first + prior * t, second + prior

    t, n_iter, trouble = float(np.log(start)), 0, ""
    value, first, second = evaluate(t)
    while n_iter < max_iter:
        n_iter += 1
        step = -first / max(second, 1e-12 * likelihood.total, 1e-300)
        if abs(first) <= tol * np.sqrt(likelihood.total * max(second, 1e-30)):
            break
        new = float(np.clip(t + np.clip(step, -LARGEST_STEP, LARGEST_STEP), *LOG_SLOPES))
        found = evaluate(new)
        while found[0] > value and abs(new - t) > 1e-10:
            new = (new + t) / 2
            found = evaluate(new)
        if found[0] > value or new == t:
            break
        moved, t = abs(new - t), new
        value, first, second = found
        if moved <= 1e-10:
            break
    else:
        trouble = _exhausted(n_iter)
    if t <= LOG_SLOPES[0]:
        trouble = "no finite temperature is best, as the outputs rank labels no better than chance"
    return FittedMap(ScoreMap(np.full(K, np.exp(t)), bias), n_iter, trouble, value)


class Objective:
    """The penalised likelihood of a family, in whitened coordinates."""

    def __init__(
        self, likelihood: LabelLikelihood, family: Family, penalty: Penalty, near: ScoreMap
    ) -> None:
        self.likelihood, self.family, self.penalty = likelihood, family, penalty
        self.seen, self.near = likelihood.seen, family.shaped(near)
        self.curvature: Any
        self.kind: type[DenseMetric | DiagonalMetric | KroneckerMetric]
        matrix = family.slope == "matrix"
        if family.parameters(self.near).size <= (MATRIX_PARAMETERS if matrix else DENSE_PARAMETERS):
            self.kind, self.curvature = DenseMetric, likelihood.curvature(self.near, family)
        elif matrix:
            self.kind, self.curvature = KroneckerMetric, likelihood.factors(near)
        else:
            self.kind, self.curvature = DiagonalMetric, likelihood.diagonal(near, family)
        self.metric = self.kind(self.curvature, family, self.seen.size, penalty)

    def on(
        self, likelihood: LabelLikelihood, penalty: Penalty | None = None, *, alone: bool = False
    ) -> "Objective":
        """Return the same objective on some of the rows, in the same coordinates.

        Classes that these rows lack stay free, unless the rows are to be taken alone.
        """
        other = copy(self)
        other.likelihood, other.penalty = likelihood, penalty or self.penalty
        other.seen = likelihood.seen if alone else self.seen
        return other

    def under(self, penalty: Penalty, at: ScoreMap) -> "Objective":
        """Return the same objective under another penalty, in coordinates that suit it.

        The Hessian of a matrix moves with it, so it is that of the last fit.
        """
        other = copy(self)
        if self.family.slope == "matrix" and self.kind is DenseMetric:
            other.curvature = self.likelihood.curvature(at, self.family)
        other.penalty = penalty
        other.metric = self.kind(other.curvature, self.family, self.seen.size, penalty)
        return other

    def pack(self, at: ScoreMap) -> Vector:
        """Return the coordinates of a map."""
        return self.metric.whiten(self.family.parameters(self.family.shaped(at)))

    def unpack(self, omega: Vector) -> ScoreMap:
        """Return the map at some coordinates; what validation never saw keeps its slope."""
        slope, bias = self.family.map(self.metric.restore(omega), self.seen.size)
        if self.family.slope != "shared":
            slope = np.where(self.seen, slope, self.near.slope)
        return ScoreMap(slope, self._centred(bias) if self.family.bias else bias)

    def __call__(self, omega: Vector) -> tuple[float, Vector]:
        """Return value and gradient."""
        at = self.unpack(omega)
        value, of = self.likelihood.value_and_gradient(at)
        extra, pull = self.penalty.value_and_gradient(at)
        slope = of.slope + pull.slope
        if self.family.slope != "shared":
            slope = slope * self.seen
        gradient = ScoreMap(slope, self._centred(of.bias + pull.bias))
        return value + extra, self.metric.whiten_gradient(self.family.gradient(gradient, at))

    def _centred(self, bias: Vector) -> Vector:
        """Project on what is identified: unseen classes stay at 0, the others sum to 0."""
        seen = self.seen
        return np.asarray((bias - bias @ seen / max(1, np.count_nonzero(seen))) * seen)


def fit_map(
    objective: Objective, start: ScoreMap, gtol: float, max_iter: int, ftol: float = 1e-15
) -> FittedMap:
    """Minimise the objective from `start`, never ending above it: every step goes down."""
    origin = objective.pack(start)
    options = {"gtol": gtol, "ftol": ftol, "maxiter": max_iter}
    found = minimize(objective, origin, jac=True, method="L-BFGS-B", options=options)
    trouble = ""
    short = np.abs(found.jac).max() > max(gtol, 1e-3 * np.sqrt(objective.likelihood.total))
    if found.status == 1 or (not found.success and short):
        trouble = _exhausted(int(found.nit))
    best = objective.unpack(found.x)
    if objective.family.slope == "shared" and np.log(best.slope[0]) <= LOG_SLOPES[0]:
        trouble = "no finite temperature is best, as the outputs rank labels no better than chance"
    return FittedMap(best, int(found.nit), trouble, float(found.fun))


def fit_path(
    likelihood: LabelLikelihood,
    family: Family,
    start: ScoreMap,
    penalties: Sequence[Penalty],
    folds: Sequence[slice] = (),
    starts: Sequence[ScoreMap] = (),
    *,
    gtol: float,
    ftol: float = 1e-15,
    max_iter: int = 1000,
    exact: bool = False,
    least: float = np.inf,
) -> Iterator[CrossFit]:
    """Cross-fit under each penalty, the strongest first, each from where the last one ended.

    Rows lie fold by fold. Fits without a fold have a path of their own, from `starts` or `start`:
    begun at the fit to all rows, and ended early, they would know the fold that they are judged by.
    But for matrices, two quasi-Newton steps away from the fit to all rows forget the fold well
    enough, unless the fit is to be `exact`, which leaves alone classes that only the fold has.

    The path ends where it has become hopeless; `least` is the loss of what there is already.
    """
    objective, before = Objective(likelihood, family, penalties[0], start), np.inf
    at, without = start, list(starts) or [start] * len(folds)
    others, own = list(likelihood.without(folds)), [likelihood.on([fold]) for fold in folds]
    for penalty in penalties:
        if penalty is not penalties[0]:
            objective = objective.under(penalty, at)
        fitted = fit_map(objective, at, gtol, max_iter, ftol)
        at = fitted.map
        if exact or family.slope == "matrix":
            for i, rows in enumerate(others):
                outside = objective.on(rows, alone=exact)
                without[i] = fit_map(outside, without[i], gtol, max_iter, ftol).map
        else:
            without = _without_folds(objective, at, own, others)
        nats = sum(rows.value(near) for rows, near in zip(own, without, strict=True))
        yield CrossFit(penalty, fitted, tuple(without), float(nats))
        least = min(least, nats)
        if nats > max(before, least + HOPELESS):
            return
        before = nats


def _without_folds(
    objective: Objective,
    at: ScoreMap,
    own: Sequence[LabelLikelihood],
    others: Sequence[LabelLikelihood],
) -> list[ScoreMap]:
    """Fit without each fold, by two quasi-Newton steps from the fit to all rows.

    The first follows the gradient of the fold alone; the second corrects it by what the gradient
    has become (one BFGS update).
    """
    omega, found = objective.pack(at), []
    gradients = [objective.on(fold, Penalty())(omega)[1] for fold in own]
    total = objective.on(objective.likelihood.on([]))(omega)[1] + sum(gradients)
    for gradient, rows in zip(gradients, others, strict=True):
        before = total - gradient if len(own) > 1 else total
        step = -before * (objective.likelihood.total / rows.total)
        after = objective.on(rows)(omega + step)[1]
        change = after - before
        length = float(step @ change)
        if length > 0:
            along = float(step @ after) / length
            turned = after - along * change
            step = step - turned + (float(change @ turned) / length - along) * step
        found.append(objective.unpack(omega + step))
    return found


class DenseMetric:
    """Coordinates in which the Hessian at the start is the identity.

    LAPACK is called directly: SciPy's checks of its input take longer than a small solve.
    """

    def __init__(self, curvature: Vector, family: Family, n_classes: int, penalty: Penalty) -> None:
        matrix = curvature.copy()
        n_slopes = matrix.shape[0] - n_classes * family.bias
        slopes, even = slice(0, n_slopes), np.ones(n_slopes)
        if family.slope == "matrix":
            even = np.eye(n_classes).ravel()
        mean = np.outer(even, even) / even.sum()
        if n_slopes > 1:
            matrix[slopes, slopes] += penalty.slope * (np.eye(n_slopes) - mean)
        matrix[slopes, slopes] += penalty.temperature / even.sum() * mean
        diagonal = np.arange(n_slopes, matrix.shape[0])
        matrix[diagonal, diagonal] += penalty.bias
        # it may be singular, up to rounding in float32
        unit = np.sqrt(np.maximum(matrix.diagonal(), 0.0) + 1e-7)
        scaled = matrix / np.outer(unit, unit)
        self.factor = np.asfortranarray(np.diag(unit))
        for jitter in (1e-7, 1e-5, 1e-3):
            try:
                factor = cholesky(scaled + jitter * np.eye(unit.size), lower=True)
            except LinAlgError:
                continue
            self.factor = np.asfortranarray(unit[:, None] * factor)
            break

    def whiten(self, theta: Vector) -> Vector:
        return self.factor.T @ theta

    def restore(self, omega: Vector) -> Vector:
        return np.asarray(dtrtrs(self.factor, omega, lower=1, trans=1)[0])

    def whiten_gradient(self, gradient: Vector) -> Vector:
        return np.asarray(dtrtrs(self.factor, gradient, lower=1)[0])


class DiagonalMetric:
    """Coordinates in units of the curvature of each parameter, or of slope and bias of a class.

    These are the slope and the height of the line `slope * z + bias` at a pivot, where their
    estimates are independent.
    """

    def __init__(
        self, curvature: tuple[Vector, Vector], family: Family, n_classes: int, penalty: Penalty
    ) -> None:
        diagonal, mixed = curvature[0].copy(), curvature[1]
        self.n_slopes = diagonal.size - n_classes * family.bias
        slopes, biases = diagonal[: self.n_slopes], diagonal[self.n_slopes :]
        slopes += penalty.slope + penalty.temperature / self.n_slopes**2
        biases += penalty.bias
        diagonal += 1e-7 * diagonal.mean() + 1e-7
        self.pivot = np.zeros(0)
        if biases.size == slopes.size:
            self.pivot = mixed / biases
            slopes -= (1 - 1e-7) * self.pivot * mixed
        self.unit = np.sqrt(diagonal)

    def whiten(self, theta: Vector) -> Vector:
        return self._moved(theta, 1.0) * self.unit

    def restore(self, omega: Vector) -> Vector:
        return self._moved(omega / self.unit, -1.0)

    def whiten_gradient(self, gradient: Vector) -> Vector:
        gradient = gradient.copy()
        if self.pivot.size:
            gradient[: self.n_slopes] -= self.pivot * gradient[self.n_slopes :]
        return gradient / self.unit

    def _moved(self, theta: Vector, sign: float) -> Vector:
        """Return biases as heights at the pivots, or back."""
        theta = theta.copy()
        if self.pivot.size:
            theta[self.n_slopes :] += sign * self.pivot * theta[: self.n_slopes]
        return theta


class KroneckerMetric:
    """Coordinates in which the product of mean covariances of labels and features is the identity.

    Features are scaled so that a penalty on slopes is one on the biases.
    """

    def __init__(
        self, factors: tuple[Vector, Vector], _: Family, n_classes: int, penalty: Penalty
    ) -> None:
        covariance, products = factors
        spread = np.sqrt(penalty.slope / penalty.bias) if penalty.slope and penalty.bias else 1.0
        self.scale = np.append(np.full(n_classes, spread), 1.0)[:, None]
        labels, self.of_labels = eigh(covariance)
        features, self.of_features = eigh(products / (self.scale * self.scale.T))
        curvature = np.outer(np.maximum(features, 0.0), np.maximum(labels, 0.0)) + penalty.bias
        self.root = np.sqrt(curvature + 1e-7 * curvature.mean() + 1e-7)

    def whiten(self, theta: Vector) -> Vector:
        scaled = theta.reshape(self.root.shape) * self.scale
        return np.ravel(self.root * (self.of_features.T @ scaled @ self.of_labels))

    def restore(self, omega: Vector) -> Vector:
        turned = omega.reshape(self.root.shape) / self.root
        return np.ravel(self.of_features @ turned @ self.of_labels.T / self.scale)

    def whiten_gradient(self, gradient: Vector) -> Vector:
        scaled = gradient.reshape(self.root.shape) / self.scale
        return np.ravel((self.of_features.T @ scaled @ self.of_labels) / self.root)


def _exhausted(n_iter: int) -> str:
    return (
        f"it stopped after {n_iter} iterations; raise max_iter, or choose a calibrator with fewer "
        "parameters, as this one may have no finite optimum on so few samples"
    )


__all__ = [
    "TEMPERATURE",
    "CrossFit",
    "FittedMap",
    "Objective",
    "Penalty",
    "fit_map",
    "fit_path",
    "fit_temperature",
]
