r"""Fit calibration maps: a temperature by Newton's method, the rest by L-BFGS from there.

The penalised likelihood of a map with slopes S and biases b is

.. math:: \ell(S, b) + \frac{\lambda_b}{2} |b|^2 + \frac{\lambda_S}{2} |S - \bar s I|^2
    + \frac{\gamma}{2} \log^2 \bar s, \qquad \bar s = \mathrm{tr}\, S / K,

so that a strong penalty leaves a temperature. L-BFGS works in coordinates in which the curvature
at its start is close to the identity; then every class and every ridge needs only a few passes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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


class FittedPath(NamedTuple):
    """A map, and for each fold the one that was fitted without it."""

    penalty: Penalty
    fitted: FittedMap
    folds: tuple[ScoreMap, ...]


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

    metric: "DenseMetric | DiagonalMetric | KroneckerMetric"

    def __init__(
        self, likelihood: LabelLikelihood, family: Family, penalty: Penalty, near: ScoreMap
    ) -> None:
        self.likelihood, self.family, self.penalty = likelihood, family, penalty
        self.seen, self.near = likelihood.seen, _shaped(near, family)
        self.all_seen = bool(self.seen.all())
        most = MATRIX_PARAMETERS if family.slope == "matrix" else DENSE_PARAMETERS
        if family.parameters(self.near).size <= most:
            self.metric = DenseMetric.of(likelihood, family, penalty, self.near)
        elif family.slope == "matrix":
            self.metric = KroneckerMetric.of(likelihood, penalty, near)
        else:
            self.metric = DiagonalMetric.of(likelihood, family, penalty, near)

    def on(self, likelihood: LabelLikelihood) -> "Objective":
        """Return the same objective on some of the rows, in the same coordinates."""
        other = object.__new__(Objective)
        other.__dict__.update(self.__dict__, likelihood=likelihood)
        return other

    def outside(self, folds: Sequence[slice], alone: bool = False) -> Iterator["Objective"]:
        """Return for each fold the same objective on the others.

        Classes that only the fold has stay free, unless the others are to be taken alone.
        """
        for likelihood in self.likelihood.without(folds):
            other = self.on(likelihood)
            if alone:
                other.seen = other.likelihood.seen
                other.all_seen = bool(other.seen.all())
            yield other

    def with_penalty(self, penalty: Penalty, at: ScoreMap) -> "Objective":
        """Return the same objective under another penalty, in coordinates that suit it.

        The Hessian of a matrix moves with it, so it is that of the last fit.
        """
        if self.family.slope == "matrix" and isinstance(self.metric, DenseMetric):
            metric: Any = DenseMetric.of(self.likelihood, self.family, penalty, at)
        else:
            metric = self.metric.with_penalty(penalty)
        other = object.__new__(Objective)
        other.__dict__.update(self.__dict__, penalty=penalty, metric=metric)
        return other

    def pack(self, at: ScoreMap) -> Vector:
        """Return the coordinates of a map."""
        return self.metric.whiten(self.family.parameters(_shaped(at, self.family)))

    def unpack(self, omega: Vector) -> ScoreMap:
        """Return the map at some coordinates."""
        slope, bias = self.family.map(self.metric.restore(omega), self.seen.size)
        if self.family.slope != "shared" and not self.all_seen:
            slope = np.where(self.seen, slope, self.near.slope)
        return ScoreMap(slope, self._centred(bias) if self.family.bias else bias)

    def __call__(self, omega: Vector) -> tuple[float, Vector]:
        """Return value and gradient."""
        at = self.unpack(omega)
        value, (slope, bias) = self.likelihood.value_and_gradient(at)
        extra, pull = self.penalty.value_and_gradient(at)
        return value + extra, self._whitened(ScoreMap(slope + pull.slope, bias + pull.bias), at)

    def likelihood_gradient(self, omega: Vector) -> Vector:
        """Return the gradient of the likelihood alone."""
        at = self.unpack(omega)
        return self._whitened(self.likelihood.value_and_gradient(at)[1], at)

    def penalty_gradient(self, omega: Vector) -> Vector:
        """Return the gradient of the penalty alone."""
        at = self.unpack(omega)
        return self._whitened(self.penalty.value_and_gradient(at)[1], at)

    def _whitened(self, gradient: ScoreMap, at: ScoreMap) -> Vector:
        slope = gradient.slope
        if self.family.slope != "shared" and not self.all_seen:
            slope = slope * self.seen  # what validation never saw keeps its slope
        projected = ScoreMap(slope, self._centred(gradient.bias))
        return self.metric.whiten_gradient(self.family.gradient(projected, at))

    def _centred(self, bias: Vector) -> Vector:
        """Project on what is identified: unseen classes stay at 0, the others sum to 0."""
        if self.all_seen:
            return bias - bias.sum() / bias.size
        seen = self.seen
        return np.asarray((bias - bias @ seen / max(1, seen.sum())) * seen)


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
) -> Iterator[FittedPath]:
    """Fit for each penalty, the strongest first, each from where the last one ended.

    Rows lie fold by fold. Fits without a fold have a path of their own, from `starts` or `start`:
    begun at the fit to all rows, and ended early, they would know the fold that they are judged by.
    But for matrices, two quasi-Newton steps away from the fit to all rows forget the fold well
    enough, unless the fit is to be `exact`, which leaves alone classes that only the fold has.
    """
    objective, at, without = None, start, list(starts) or [start] * len(folds)
    for penalty in penalties:
        objective = (
            Objective(likelihood, family, penalty, start)
            if objective is None
            else objective.with_penalty(penalty, at)
        )
        fitted = fit_map(objective, at, gtol, max_iter, ftol)
        at = fitted.map
        if exact or family.slope == "matrix":
            others = zip(objective.outside(folds, alone=exact), without, strict=True)
            without = [fit_map(other, near, gtol, max_iter, ftol).map for other, near in others]
        else:
            without = list(_without_folds(objective, at, folds))
        yield FittedPath(penalty, fitted, tuple(without))


def _without_folds(
    objective: Objective, at: ScoreMap, folds: Sequence[slice]
) -> Iterator[ScoreMap]:
    """Fit without each fold, by two quasi-Newton steps from the fit to all rows.

    The first follows the gradient of the fold alone; the second corrects it by what the gradient
    has become (one BFGS update).
    """
    omega = objective.pack(at)
    own = [objective.on(objective.likelihood.on([fold])) for fold in folds]
    gradients = [each.likelihood_gradient(omega) for each in own]
    total = objective.penalty_gradient(omega) + sum(gradients)
    for gradient, outside in zip(gradients, objective.outside(folds), strict=True):
        before = total - gradient if len(folds) > 1 else total
        step = -before * (objective.likelihood.total / outside.likelihood.total)
        _, after = outside(omega + step)
        change = after - before
        length = float(step @ change)
        if length > 0:
            along = float(step @ after) / length
            turned = after - along * change
            step = step - turned + (float(change @ turned) / length - along) * step
        yield objective.unpack(omega + step)


@dataclass(frozen=True)
class DenseMetric:
    """Coordinates in which the Hessian at the start is the identity.

    LAPACK is called directly: SciPy's checks of its input take longer than a small solve.
    """

    curvature: Vector
    family: Family
    n_classes: int
    factor: Vector

    @classmethod
    def of(
        cls, likelihood: LabelLikelihood, family: Family, penalty: Penalty, near: ScoreMap
    ) -> "DenseMetric":
        curvature = likelihood.curvature(near, family)
        return cls(curvature, family, near.bias.size, curvature).with_penalty(penalty)

    def with_penalty(self, penalty: Penalty) -> "DenseMetric":
        K, matrix = self.n_classes, self.curvature.copy()
        n_slopes = matrix.shape[0] - K * self.family.bias
        slopes, even = slice(0, n_slopes), np.ones(n_slopes)
        if self.family.slope == "matrix":
            even = np.eye(K).ravel()
        mean = np.outer(even, even) / even.sum()
        if n_slopes > 1:
            matrix[slopes, slopes] += penalty.slope * (np.eye(n_slopes) - mean)
        matrix[slopes, slopes] += penalty.temperature / even.sum() * mean
        diagonal = np.arange(n_slopes, matrix.shape[0])
        matrix[diagonal, diagonal] += penalty.bias
        return replace(self, factor=_root(matrix))

    def whiten(self, theta: Vector) -> Vector:
        return self.factor.T @ theta

    def restore(self, omega: Vector) -> Vector:
        return np.asarray(dtrtrs(self.factor, omega, lower=1, trans=1)[0])

    def whiten_gradient(self, gradient: Vector) -> Vector:
        return np.asarray(dtrtrs(self.factor, gradient, lower=1)[0])


@dataclass(frozen=True)
class DiagonalMetric:
    """Coordinates in units of the curvature of each parameter, or of slope and bias of a class.

    These are the slope and the height of the line `slope * z + bias` at a pivot, where their
    estimates are independent.
    """

    curvature: Vector
    mixed: Vector
    n_slopes: int
    pivot: Vector
    unit: Vector

    @classmethod
    def of(
        cls, likelihood: LabelLikelihood, family: Family, penalty: Penalty, near: ScoreMap
    ) -> "DiagonalMetric":
        curvature, mixed = likelihood.diagonal(near, family)
        n_slopes = curvature.size - mixed.size * family.bias
        if n_slopes == 1 or not family.bias:
            mixed = np.zeros(0)
        return cls(curvature, mixed, n_slopes, mixed, curvature).with_penalty(penalty)

    def with_penalty(self, penalty: Penalty) -> "DiagonalMetric":
        diagonal = self.curvature.copy()
        slopes, biases = diagonal[: self.n_slopes], diagonal[self.n_slopes :]
        slopes += penalty.slope + penalty.temperature / self.n_slopes**2
        biases += penalty.bias
        diagonal += 1e-7 * diagonal.mean() + 1e-7
        pivot = np.zeros(0)
        if self.mixed.size:
            pivot = self.mixed / biases
            slopes -= (1 - 1e-7) * pivot * self.mixed
        return replace(self, pivot=pivot, unit=np.sqrt(diagonal))

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


@dataclass(frozen=True)
class KroneckerMetric:
    """Coordinates in which the product of mean covariances of labels and features is the identity.

    Features are scaled so that a penalty on slopes is one on the biases.
    """

    covariance: tuple[Vector, Vector]
    products: tuple[Vector, Vector]
    scale: Vector
    root: Vector

    @classmethod
    def of(cls, likelihood: LabelLikelihood, penalty: Penalty, near: ScoreMap) -> "KroneckerMetric":
        covariance, products = likelihood.factors(near)
        spread = np.sqrt(penalty.slope / penalty.bias) if penalty.slope and penalty.bias else 1.0
        scale = np.append(np.full(near.bias.size, spread), 1.0)
        products = products / np.outer(scale, scale)
        empty = np.zeros((0, 0))
        metric = cls(_eigen(covariance), _eigen(products), scale, empty)
        return metric.with_penalty(penalty)

    def with_penalty(self, penalty: Penalty) -> "KroneckerMetric":
        curvature = np.outer(self.products[0], self.covariance[0]) + penalty.bias
        return replace(self, root=np.sqrt(curvature + 1e-7 * curvature.mean() + 1e-7))

    def whiten(self, theta: Vector) -> Vector:
        scaled = theta.reshape(self.scale.size, -1) * self.scale[:, None]
        return np.ravel(self.root * (self.products[1].T @ scaled @ self.covariance[1]))

    def restore(self, omega: Vector) -> Vector:
        turned = omega.reshape(self.root.shape) / self.root
        return np.ravel(self.products[1] @ turned @ self.covariance[1].T / self.scale[:, None])

    def whiten_gradient(self, gradient: Vector) -> Vector:
        scaled = gradient.reshape(self.scale.size, -1) / self.scale[:, None]
        return np.ravel((self.products[1].T @ scaled @ self.covariance[1]) / self.root)


def _root(matrix: Vector) -> Vector:
    """Return the Cholesky factor of a matrix that may be singular, up to rounding in float32."""
    unit = np.sqrt(np.maximum(matrix.diagonal(), 0.0) + 1e-7)
    scaled = matrix / np.outer(unit, unit)
    for jitter in (1e-7, 1e-5, 1e-3):
        try:
            factor = cholesky(scaled + jitter * np.eye(unit.size), lower=True)
        except LinAlgError:
            continue
        return np.asfortranarray(unit[:, None] * factor)
    return np.asfortranarray(np.diag(unit))


def _eigen(matrix: Vector) -> tuple[Vector, Vector]:
    values, vectors = eigh(matrix)
    return np.maximum(values, 0.0), vectors


def _shaped(at: ScoreMap, family: Family) -> ScoreMap:
    """Return a map with the slopes of a family: a temperature is a matrix too."""
    if family.slope == "matrix" and at.slope.ndim == 1:
        return at._replace(slope=np.diag(at.slope))
    return at


def _exhausted(n_iter: int) -> str:
    return (
        f"it stopped after {n_iter} iterations; raise max_iter, or choose a calibrator with fewer "
        "parameters, as this one may have no finite optimum on so few samples"
    )


__all__ = [
    "TEMPERATURE",
    "FittedMap",
    "FittedPath",
    "Objective",
    "Penalty",
    "fit_map",
    "fit_path",
    "fit_temperature",
]
