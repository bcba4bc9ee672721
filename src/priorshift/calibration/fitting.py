r"""Fit calibration maps: a temperature by Newton's method, the rest by L-BFGS from there.

The penalised likelihood of a map with slopes S and biases b is

.. math:: \ell(S, b) + \frac{\lambda_b}{2} |b|^2 + \frac{\lambda_S}{2} |S - \bar s I|^2
    + \frac{\gamma}{2} \log^2 \bar s, \qquad \bar s = \mathrm{tr}\, S / K,

so that a strong penalty leaves a temperature. L-BFGS works in coordinates in which the curvature
at its start is close to the identity; then every class and every ridge needs only a few passes.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh
from scipy.linalg.lapack import dtrtri
from scipy.optimize import minimize
from scipy.sparse import diags_array
from scipy.sparse.linalg import LinearOperator

from priorshift._typing import Vector
from priorshift.border import check_choice, check_number
from priorshift.calibration.likelihood import LOG_SLOPES, Family, LabelLikelihood, ScoreMap

DENSE_PARAMETERS, MATRIX_PARAMETERS = 1000, 200
"""Up to this many parameters, or of a matrix, the Hessian is formed; beyond that only its diagonal
is used, or a product that is close to it."""

LARGEST_STEP = 2.0
"""Largest change of the logarithm of a temperature in one step."""

HOPELESS = 20.0
"""Nats behind the best at which higher floors, and weaker ridges, are no longer tried."""

RIDGE_GRID = (1e6, 1e5, 1e4, 1e3, 1e2, 1e1, 1e0, 1e-1, 1e-2)
"""What `ridge="cv"` chooses from: from hardly any bias to hardly any penalty."""

CV_GTOL = 0.01
"""Largest gradient, in square roots of nats, at which a fit ends whose ridge is to be chosen."""

NO_TEMPERATURE = (
    "no finite temperature is best, as the outputs rank labels no better than chance; check that "
    "rows and labels are in the same order"
)
EXHAUSTED = (
    "it stopped after {} iterations; raise max_iter, or choose a calibrator with fewer "
    "parameters, as this one may have no finite optimum on so few samples"
)
"""What may go wrong with a fit."""


class Penalty(NamedTuple):
    """Penalties on biases, on slopes that differ, and on a temperature away from 1."""

    bias: float = 0.0
    slope: float = 0.0
    temperature: float = 0.0


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

    t = new = float(np.log(start))
    value, n_iter, trouble = np.inf, 0, ""
    while True:
        slope = np.exp(new)
        found, first, second = likelihood.along_slope(ScoreMap(np.full(K, slope), bias))
        found += prior * new * new / 2
        if found > value and abs(new - t) > 1e-10:  # too far
            new = (new + t) / 2
            continue
        if n_iter and (found > value or new == t):
            break
        moved, t, value = abs(new - t), new, found
        if n_iter and moved <= 1e-10:
            break
        if n_iter == max_iter:
            trouble = EXHAUSTED.format(n_iter)
            break
        n_iter += 1
        # from derivatives in the slope to those in t
        first *= slope
        second = slope**2 * second + max(first, 0.0) + prior
        first += prior * t
        if abs(first) <= tol * np.sqrt(likelihood.total * max(second, 1e-30)):
            break
        step = -first / max(second, 1e-12 * likelihood.total, 1e-300)
        new = float(np.clip(t + np.clip(step, -LARGEST_STEP, LARGEST_STEP), *LOG_SLOPES))
    if t <= LOG_SLOPES[0]:
        trouble = NO_TEMPERATURE
    return FittedMap(ScoreMap(np.full(K, np.exp(t)), bias), n_iter, trouble, value)


class Objective:
    """The penalised likelihood of a family, in steps away from a map.

    Steps are taken in coordinates in which the curvature is close to the identity: `metric @ step`
    is what they change in the parameters. `curvature` is that of another objective, if it will do.
    """

    def __init__(
        self,
        likelihood: LabelLikelihood,
        family: Family,
        penalty: Penalty,
        near: ScoreMap,
        curvature: Any = None,
    ) -> None:
        self.family, self.penalty, self.seen = family, penalty, likelihood.seen
        K, self.curvature = self.seen.size, curvature
        self.n_slopes = {"bcts": 1, "vs": K, "ms": K * K}[family]
        if family == "ms" and self.n_slopes + K > MATRIX_PARAMETERS:
            self.curvature = curvature or likelihood.factors(near)
            self.metric: Any = kronecker_metric(self.curvature, penalty)
        elif family == "ms":  # whose Hessian moves with it: none that is given will do
            hessian = likelihood.curvature_of_matrix(near)
            self.metric = dense_metric(hessian, np.eye(K).ravel(), penalty)
        elif self.n_slopes + K > DENSE_PARAMETERS:
            self.curvature = curvature or likelihood.diagonal(near, family)
            self.metric = diagonal_metric(self.curvature, self.n_slopes, penalty)
        else:
            self.curvature = curvature or (likelihood.curvature(near, family),)
            self.metric = dense_metric(self.curvature[0], np.ones(self.n_slopes), penalty)
        self.transposed = self.metric.T

    def parameters(self, of: ScoreMap) -> Vector:
        """Return the free numbers of a map; a temperature is one of a matrix too."""
        slope = of.slope
        if self.family == "bcts":
            slope = np.log(slope[:1])
        elif self.family == "ms" and slope.ndim == 1:
            slope = np.diag(slope)
        return np.concatenate([slope.ravel(), of.bias])

    def map_at(self, omega: Vector, origin: Vector) -> ScoreMap:
        """Return the map that is a step away from the parameters at the origin."""
        theta, K = origin + self._identified(self.metric @ omega), self.seen.size
        slope, bias = theta[: self.n_slopes], theta[self.n_slopes :]
        if self.family == "bcts":
            slope = np.full(K, np.exp(np.clip(slope[0], *LOG_SLOPES)))
        elif self.family == "ms":
            slope = slope.reshape(K, K)
        return ScoreMap(slope, bias)

    def __call__(
        self, omega: Vector, origin: Vector, likelihood: LabelLikelihood
    ) -> tuple[float, Vector]:
        """Return value and gradient after a step away from the parameters at the origin."""
        at, penalty = self.map_at(omega, origin), self.penalty
        value, of = likelihood.value_and_gradient(at)
        n, uneven = at.bias.size, at.slope.copy()
        even = uneven if uneven.ndim == 1 else uneven.reshape(-1)[:: n + 1]  # the diagonal
        mean = max(float(even.sum()) / n, 1e-6)
        even -= mean
        extra = penalty.bias * float(at.bias @ at.bias)
        extra += penalty.slope * float(np.vdot(uneven, uneven))
        uneven *= penalty.slope
        if penalty.temperature:
            extra += penalty.temperature * np.log(mean) ** 2
            even += penalty.temperature * np.log(mean) / (mean * n)
        gradient = (of.slope + uneven).ravel()
        if self.family == "bcts":  # its parameter is a logarithm
            gradient = gradient.sum(keepdims=True) * at.slope[0]
        gradient = np.concatenate([gradient, of.bias + penalty.bias * at.bias])
        return value + extra / 2, self.transposed @ self._identified(gradient)

    def _identified(self, step: Vector) -> Vector:
        """Project on what is identified, in place.

        Unseen classes keep slopes and biases; of the others, steps in the biases sum to 0.
        """
        seen, slopes, bias = self.seen, step[: self.n_slopes], step[self.n_slopes :]
        if self.family != "bcts":
            of_class = slopes.reshape(-1, seen.size)
            of_class *= seen
        bias -= bias @ seen / max(1, int(seen.sum()))
        bias *= seen
        return step


def fit_map(
    objective: Objective,
    likelihood: LabelLikelihood,
    start: ScoreMap,
    gtol: float,
    max_iter: int,
    ftol: float = 1e-15,
) -> FittedMap:
    """Minimise the objective from `start`, never ending above it: every step goes down."""
    origin = objective.parameters(start)
    found = minimize(
        objective,
        np.zeros(origin.size),
        (origin, likelihood),
        jac=True,
        method="L-BFGS-B",
        options={"gtol": gtol, "ftol": ftol, "maxiter": max_iter},
    )
    trouble = ""
    short = np.abs(found.jac).max() > max(gtol, 1e-3 * np.sqrt(likelihood.total))
    if found.status == 1 or (not found.success and short):
        trouble = EXHAUSTED.format(found.nit)
    best = objective.map_at(found.x, origin)
    if objective.family == "bcts" and np.log(best.slope[0]) <= LOG_SLOPES[0]:
        trouble = NO_TEMPERATURE
    return FittedMap(best, int(found.nit), trouble, float(found.fun))


def fit_path(
    likelihood: LabelLikelihood,
    family: Family,
    start: ScoreMap,
    ridges: Sequence[float],
    folds: Sequence[slice] = (),
    *,
    spread: float = 0.0,
    temperature: float = 0.0,
    gtol: float,
    ftol: float = 1e-15,
    max_iter: int = 1000,
    exact: bool = False,
    least: float = np.inf,
) -> Iterator[CrossFit]:
    """Cross-fit under each ridge, the strongest first, each from where the last one ended.

    A ridge is the penalty on biases, and `spread` times it the one on slopes.
    Rows lie fold by fold. Fits without a fold have a path of their own, from `start`, or from a
    temperature of their own if they are of a matrix: begun at the fit to all rows, and ended early,
    they would know the fold that they are judged by. But for matrices, two quasi-Newton steps away
    from the fit to all rows forget the fold well enough, unless the fit is to be `exact`, which
    leaves alone classes that only the fold has.

    The path ends where it has become hopeless; `least` is the loss of what there is already.
    """
    matrix, at, before = family == "ms", start, np.inf
    without = [start] * len(folds)
    own: list[LabelLikelihood] = []
    others: list[LabelLikelihood] = []
    for i, fold in enumerate(folds):
        own.append(likelihood.on([fold]))
        others.append(likelihood.without(fold))
        if matrix:
            near = float(start.slope[0])
            alone = fit_temperature(others[i], prior=temperature, start=near, tol=1e-3).map
            without[i] = alone._replace(slope=np.where(likelihood.seen, alone.slope, start.slope))
    curvature = None
    for ridge in ridges:
        penalty = Penalty(ridge, ridge * spread, temperature)
        objective = Objective(likelihood, family, penalty, at, curvature)
        curvature = objective.curvature
        fitted = fit_map(objective, likelihood, at, gtol, max_iter, ftol)
        at = fitted.map
        if exact or matrix:
            outside = copy(objective)
            for i, rows in enumerate(others):
                outside.seen = rows.seen if exact else objective.seen
                without[i] = fit_map(outside, rows, without[i], gtol, max_iter, ftol).map
        else:
            without = _without_folds(objective, likelihood, at, own, others)
        nats = 0.0
        for rows, near_by in zip(own, without, strict=True):
            nats += rows.value(near_by)
        yield CrossFit(penalty, fitted, tuple(without), nats)
        least = min(least, nats)
        if nats > max(before, least + HOPELESS):
            return
        before = nats


def _without_folds(
    objective: Objective,
    likelihood: LabelLikelihood,
    at: ScoreMap,
    own: Sequence[LabelLikelihood],
    others: Sequence[LabelLikelihood],
) -> list[ScoreMap]:
    """Fit without each fold, by two quasi-Newton steps from the fit to all rows.

    The first follows the gradient of the fold alone; the second corrects it by what the gradient
    has become (one BFGS update).
    """
    origin = objective.parameters(at)
    nowhere = np.zeros(origin.size)
    found: list[ScoreMap] = []
    gradients: list[Vector] = []
    _, total = objective(nowhere, origin, likelihood.on([]))
    pull = total.copy()  # of the penalty alone
    for fold in own:
        gradients.append(objective(nowhere, origin, fold)[1] - pull)
        total += gradients[-1]
    for gradient, rows in zip(gradients, others, strict=True):
        before = total - gradient if len(own) > 1 else total
        step = -before * (likelihood.total / rows.total)
        after = objective(step, origin, rows)[1]
        change = after - before
        length = float(step @ change)
        if length > 0:
            along = float(step @ after) / length
            turned = after - along * change
            step = step - turned + (float(change @ turned) / length - along) * step
        found.append(objective.map_at(step, origin))
    return found


def ridges_of(ridge: Any) -> tuple[float, ...]:
    """Return the penalties on biases to choose from, the strongest first.

    `ridge` is a number, "cv" for all of `RIDGE_GRID`, or None for none.
    """
    if not ridge:
        return (0.0,)
    if not isinstance(ridge, str):
        return (check_number(ridge, "ridge"),)
    check_choice(ridge, ("cv",), "ridge")
    return RIDGE_GRID


def fit_chosen(
    likelihood: LabelLikelihood,
    family: Literal["ts", "bcts", "vs"],
    ridges: Sequence[float],
    folds: Sequence[slice],
    *,
    gtol: float,
    start: float = 1.0,
    tol: float = 1e-6,
    max_iter: int = 1000,
) -> tuple[FittedMap, float, Sequence[ScoreMap]]:
    """Fit a temperature, and from there a family under the ridge of least loss out of fold.

    Of equal ridges it is the strongest, and without folds the first. Return it after the fit, and
    then the maps that were fitted without each fold.
    """
    fitted = fit_temperature(likelihood, start=start, tol=tol, max_iter=max_iter)
    at, penalty = fitted.map, Penalty(ridges[0])
    without: list[ScoreMap] = []
    if family == "ts":  # which has no ridge to choose
        for fold in folds:
            near = float(at.slope[0])
            without.append(fit_temperature(likelihood.without(fold), start=near).map)
        return fitted, 0.0, without
    if folds:
        path = fit_path(
            likelihood, family, at, ridges, folds, gtol=CV_GTOL, max_iter=max_iter, exact=True
        )
        chosen = min(path, key=lambda one: one.nats)
        penalty, at, without = chosen.penalty, chosen.fitted.map, list(chosen.folds)
    objective = Objective(likelihood, family, penalty, fitted.map)
    final = fit_map(objective, likelihood, at, gtol, max_iter)
    return final._replace(n_iter=fitted.n_iter + final.n_iter), penalty.bias, without


def dense_metric(curvature: Vector, even: Vector, penalty: Penalty) -> Vector:
    """Return coordinates in which the Hessian and its penalty are the identity.

    `even` is 1 for the slopes of which the penalty keeps the mean, and 0 for those between classes.
    """
    matrix, size, n_slopes = curvature.copy(), curvature.shape[0], even.size
    slopes, mean = slice(0, n_slopes), np.outer(even, even) / even.sum()
    if n_slopes > 1:
        matrix[slopes, slopes] += penalty.slope * (np.eye(n_slopes) - mean)
    matrix[slopes, slopes] += penalty.temperature / even.sum() * mean
    biases = np.arange(n_slopes, size)
    matrix[biases, biases] += penalty.bias
    # it may be singular, up to rounding in float32
    unit = np.sqrt(np.maximum(matrix.diagonal(), 0.0) + 1e-7)
    scaled = matrix / np.outer(unit, unit)
    for jitter in (1e-7, 1e-5, 1e-3):
        try:
            factor = cholesky(scaled + jitter * np.eye(size), lower=True)
        except LinAlgError:
            continue
        return np.asarray(dtrtri(unit[:, None] * factor, lower=1)[0]).T
    return np.diag(1 / unit)


def diagonal_metric(curvature: tuple[Vector, Vector], n_slopes: int, penalty: Penalty) -> Any:
    """Return coordinates in units of the curvature of each parameter, or of a class.

    Where each class has a slope and a bias, these are the slope and the height of the line
    `slope * z + bias` at a pivot, where their estimates are independent.
    """
    diagonal, mixed = curvature[0].copy(), curvature[1]
    slopes, biases = diagonal[:n_slopes], diagonal[n_slopes:]
    slopes += penalty.slope + penalty.temperature / n_slopes**2
    biases += penalty.bias
    diagonal += 1e-7 * diagonal.mean() + 1e-7
    if n_slopes == 1:
        return diags_array(1 / np.sqrt(diagonal))
    pivot = mixed / biases
    slopes -= (1 - 1e-7) * pivot * mixed
    unit = 1 / np.sqrt(diagonal)
    return diags_array([unit, -pivot * unit[:n_slopes]], offsets=[0, -n_slopes])


def kronecker_metric(factors: tuple[Vector, Vector], penalty: Penalty) -> LinearOperator:
    """Return coordinates for the product of mean covariances of labels and features.

    Features are scaled so that a penalty on slopes is one on the biases.
    """
    covariance, products = factors
    spread = np.sqrt(penalty.slope / penalty.bias) if penalty.slope and penalty.bias else 1.0
    scale = np.append(np.full(covariance.shape[0], spread), 1.0)[:, None]
    labels, of_labels = eigh(covariance)
    features, of_features = eigh(products / (scale * scale.T))
    curvature = np.outer(np.maximum(features, 0.0), np.maximum(labels, 0.0)) + penalty.bias
    root = np.sqrt(curvature + 1e-7 * curvature.mean() + 1e-7)

    def restore(omega: Vector) -> Vector:
        turned = of_features @ (omega.reshape(root.shape) / root) @ of_labels.T
        return np.ravel(turned / scale)

    def whiten(gradient: Vector) -> Vector:
        scaled = gradient.reshape(root.shape) / scale
        return np.ravel(of_features.T @ scaled @ of_labels / root)

    return LinearOperator((root.size, root.size), restore, whiten, dtype=float)
