"""The convex problem behind calibration: softmax regression on scores `slope * z + bias`.

Over labelled rows of weights `w_i` it minimises the penalised likelihood

    sum_i w_i [logsumexp_k(s_ik) - s_iy] + ridge/2 ||bias||^2
    s_ik = slope_k z_ik + bias_k + offset_k

by L-BFGS-B with an analytic gradient, from the identity to the best temperature to the rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from priorshift._blocks import row_blocks
from priorshift._typing import Indices, Mask, Vector

RIDGE_GRID = (1e6, 1e5, 1e4, 1e3, 1e2, 1e1, 1e0, 1e-1, 1e-2)
"""What `ridge="cv"` chooses from: from hardly any bias to hardly any penalty."""

LEAST_SLOPE = 1e-6
"""Where a temperature on its way to infinity is stopped."""


class ScoreMap(NamedTuple):
    """Scores `slope * z + bias`, or a gradient in them: two numbers a class."""

    slope: Vector
    bias: Vector


class Family(NamedTuple):
    """The maps of one calibrator: 1 slope for all classes or K, 0 biases or K."""

    n_slopes: int
    n_biases: int

    def parameters(self, of: ScoreMap) -> Vector:
        return np.concatenate([of.slope[: self.n_slopes], of.bias[: self.n_biases]])

    def map(self, theta: Vector, n_classes: int) -> ScoreMap:
        slope, bias = theta[: self.n_slopes], theta[self.n_slopes :]
        return ScoreMap(
            np.broadcast_to(slope, n_classes), bias if bias.size else np.zeros(n_classes)
        )

    def gradient(self, of: ScoreMap) -> Vector:
        """Return the gradient in the parameters: the transpose of `map`."""
        slope = of.slope.sum(keepdims=True) if self.n_slopes == 1 else of.slope
        return np.concatenate([slope, of.bias[: self.n_biases]])


TEMPERATURE = Family(n_slopes=1, n_biases=0)


@dataclass(frozen=True)
class LabelLikelihood:
    """The mean negative log-likelihood of labels `y`, a convex function of the map."""

    z: Vector
    y: Indices
    weight: Vector
    offset: Vector
    corrected: bool
    """Whether the class balance is corrected for, so that label frequencies are no evidence."""

    @cached_property
    def total(self) -> float:
        return float(self.weight.sum()) or 1.0

    @cached_property
    def seen(self) -> Mask:
        return np.bincount(self.y, self.weight, self.offset.size) > 0

    def value_and_gradient(self, at: ScoreMap) -> tuple[float, ScoreMap]:
        value, slope, bias = 0.0, np.zeros_like(self.offset), np.zeros_like(self.offset)
        for rows, weight, losses, residuals in self._blocks(at):
            value += float(weight @ losses)
            residuals[np.arange(weight.size), self.y[rows]] -= 1
            bias += weight @ residuals
            residuals *= self.z[rows]
            slope += weight @ residuals
        return value, ScoreMap(slope, bias)

    def moments(self, at: ScoreMap, shared: bool) -> Vector:
        """Return `sum_i w_i p_ik (1 - p_ik) z_ik^m` for m = 0, 1, 2: the Hessian's diagonal.

        A shared slope sees only differences within a row, so there `z` is centred.
        """
        moments = np.zeros((3, self.offset.size))
        for rows, weight, _, proba in self._blocks(at):
            z = self.z[rows]
            if shared:
                z = z - np.einsum("ij,ij->i", proba, z)[:, None]
            proba *= 1 - proba
            for moment in moments:
                moment += weight @ proba
                proba *= z
        return moments

    def _blocks(self, at: ScoreMap) -> Iterator[tuple[slice, Vector, Vector, Vector]]:
        """Pass over the rows: weights that sum to 1, losses, probabilities (yours to overwrite)."""
        for rows in row_blocks(*self.z.shape):
            scores = at.slope * self.z[rows]
            scores += at.bias + self.offset
            scores -= scores.max(axis=1, keepdims=True)
            labelled = scores[np.arange(scores.shape[0]), self.y[rows]]
            np.exp(scores, out=scores)
            mass = scores.sum(axis=1)
            scores /= mass[:, None]
            yield rows, self.weight[rows] / self.total, np.log(mass) - labelled, scores


class PenalisedLikelihood:
    """The penalised likelihood, in coordinates that suit a quasi-Newton method.

    They are a slope and the height of the line `slope * z + bias` at a pivot, where the class is in
    doubt and both are known about independently, in units of their curvature at `near`. So rare
    and frequent classes converge alike: a gradient of `tol` leaves about `tol^2 / 2` to gain.
    """

    def __init__(
        self, likelihood: LabelLikelihood, family: Family, near: ScoreMap, ridge: float
    ) -> None:
        self.likelihood, self.family, self.penalty = likelihood, family, ridge / likelihood.total
        flat, mixed, steep = likelihood.moments(near, shared=family.n_slopes == 1)
        flat += self.penalty
        self.pivot = np.zeros_like(flat)
        if family.n_biases:
            np.divide(mixed, flat, out=self.pivot, where=flat > 0)
        curvature = ScoreMap(slope=steep - self.pivot * mixed, bias=flat)
        self.unit: Vector = np.sqrt(family.gradient(curvature).clip(1e-14))

    def pack(self, at: ScoreMap) -> Vector:
        heights = at.bias + at.slope * self.pivot
        return self.family.parameters(ScoreMap(at.slope, heights)) * self.unit

    def unpack(self, theta: Vector) -> ScoreMap:
        slope, heights = self.family.map(theta / self.unit, self.pivot.size)
        return ScoreMap(slope, self._centred(heights - slope * self.pivot))

    def __call__(self, theta: Vector) -> tuple[float, Vector]:
        at = self.unpack(theta)
        value, gradient = self.likelihood.value_and_gradient(at)
        value += self.penalty / 2 * float(at.bias @ at.bias)
        bias = self._centred(gradient.bias) + self.penalty * at.bias
        slope = gradient.slope - self.pivot * bias
        if self.family.n_slopes > 1:
            slope = slope * self.likelihood.seen
        return value, self.family.gradient(ScoreMap(slope, bias)) / self.unit

    def bounds(self) -> Vector:
        """Return lower and upper bounds: a shared slope is 1 / T and must stay above 0."""
        bounds = np.tile([-np.inf, np.inf], (self.unit.size, 1))
        if self.family.n_slopes == 1:
            bounds[0, 0] = LEAST_SLOPE * min(1.0, self.unit[0])
        return bounds

    def _centred(self, bias: Vector) -> Vector:
        """Project on what is identified: unseen classes stay at 0, the others sum to 0."""
        seen = self.likelihood.seen
        return np.asarray((bias - bias @ seen / max(1, seen.sum())) * seen)


class FittedMap(NamedTuple):
    map: ScoreMap
    n_iter: int
    trouble: str


def fit_map(
    objective: PenalisedLikelihood, start: ScoreMap, tol: float, max_iter: int
) -> FittedMap:
    """Minimise the objective, never ending above `start`."""
    origin, bounds = objective.pack(start), objective.bounds()
    options = {"gtol": tol, "ftol": 1e-15, "maxiter": max_iter}
    found = minimize(objective, origin, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    trouble = ""
    if found.status == 1 or (not found.success and np.abs(found.jac).max() > tol**0.5):
        trouble = (
            f"it stopped after {found.nit} iterations; raise max_iter, or choose a calibrator with "
            "fewer parameters, as this one may have no finite optimum on so few samples"
        )
    elif found.x[0] <= bounds[0, 0]:
        trouble = "no finite temperature is best, as the outputs rank labels no better than chance"
    best = objective.unpack(found.x) if found.fun <= objective(origin)[0] else start
    return FittedMap(best, int(found.nit), trouble)


def best_temperature(likelihood: LabelLikelihood, tol: float, max_iter: int) -> FittedMap:
    zeros = np.zeros_like(likelihood.offset)
    identity, flat = ScoreMap(zeros + 1, zeros), ScoreMap(zeros, zeros)
    # outputs that are too sure have no curvature at the identity, so it is taken at slope 0
    objective = PenalisedLikelihood(likelihood, TEMPERATURE, flat, ridge=0.0)
    return fit_map(objective, identity, tol, max_iter)


def best_ridge(likelihood: LabelLikelihood, family: Family, folds: Indices, max_iter: int) -> float:
    """Return the ridge of least cross-validated loss, the strongest of equals."""
    losses, tol = np.zeros(len(RIDGE_GRID)), 1e-5
    for fold in np.unique(folds):
        train = replace(likelihood, weight=likelihood.weight * (folds != fold))
        test = replace(likelihood, weight=likelihood.weight * (folds == fold))
        at = best_temperature(train, tol, max_iter).map
        for i, ridge in enumerate(RIDGE_GRID):
            at = fit_map(PenalisedLikelihood(train, family, at, ridge), at, tol, max_iter).map
            losses[i] += test.total * test.value_and_gradient(at)[0]
    return RIDGE_GRID[int(np.argmin(losses))]


def deal_folds(y: Indices, n_folds: int, stratified: bool, random_state: Any) -> Indices:
    """Deal shuffled rows to folds in turn, class by class if stratified."""
    order = np.random.default_rng(random_state or 0).permutation(y.size)
    if stratified:  # classes in order of appearance, so their order in `classes` does not matter
        _, first, group = np.unique(y[order], return_index=True, return_inverse=True)
        order = order[np.argsort(first[group], kind="stable")]
    folds = np.empty(y.size, dtype=np.intp)
    folds[order] = np.arange(y.size) % n_folds
    return folds
