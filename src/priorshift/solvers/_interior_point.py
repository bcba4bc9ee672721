r"""Newton's method for the mixture problem: primal-dual interior point with a certificate.

The constraint sum p = 1 goes into the objective: `min -f(p)/T + sum p, p >= 0` has the same
solution, since f(cp) = f(p) + T log c. With duals z of p >= 0, a Newton step solves

.. math:: (H/T + \mathrm{diag}(z/p))\, dp = g/T - 1 + \mu/p, \qquad p_k z_k = \mu \to 0,

by Mehrotra's predictor and corrector on one factorisation. H is exact where that is cheap; else
it starts from a sample of rows and learns from every full gradient by BFGS updates.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from priorshift._typing import Vector
from priorshift.solvers._mixture import Mixture

ROWS_PER_CLASS = 16
MIN_ROWS = 4096
"""Rows of the Hessian's sample, the cheapest overall in measurements at K = 100 to 1000."""

COARSE_GAP = 0.1
"""Gap in nats up to which passes in float32 make progress; below it they add up in float64."""

TO_BOUNDARY = 0.99
SHORTEN = 0.3
MAX_REJECTIONS = 4
PATIENCE = 6
RIDGES = (0.0, 1e-14, 1e-12, 1e-9, 1e-6, 1e-3, 1.0, 1e6)
"""Tried in turn, relative to the diagonal, where rounding makes Newton's matrix indefinite."""


@dataclass(frozen=True)
class Point:
    """p > 0, not yet scaled onto the simplex, with f's derivatives and certificate there."""

    p: Vector
    likelihood: float
    likelihood_gradient: Vector
    gradient: Vector
    gap: float

    @classmethod
    def at(cls, problem: Mixture, p: Vector, *, exact: bool) -> "Point":
        """Evaluate the problem at p; the gap is that of p / sum p, as g(cp) = g(p) / c."""
        likelihood, slope = problem.evaluate(p, exact=exact)
        gradient = problem.gradient(p, slope)
        return cls(p, likelihood, slope, gradient, problem.gap(gradient * p.sum()))


class Curvature:
    """The likelihood's Hessian over T: exact, or sampled and then learnt from gradients."""

    def __init__(self, problem: Mixture) -> None:
        self.problem = problem
        self.n_rows = max(ROWS_PER_CLASS * problem.n_classes, MIN_ROWS)
        self.H: Vector | None = None

    @property
    def exact(self) -> bool:
        """Whether every Hessian is computed afresh from all rows."""
        return self.n_rows >= self.problem.A.shape[0]

    def refresh(self, p: Vector) -> None:
        """Compute the Hessian at p from rows."""
        self.H = self.problem.hessian(p, self.n_rows) / self.problem.total

    def learn(self, before: Point, after: Point) -> None:
        """Correct H along the step between two points (BFGS)."""
        if self.exact or self.H is None:
            return
        step = after.p - before.p
        change = (before.likelihood_gradient - after.likelihood_gradient) / self.problem.total
        predicted = self.H @ step
        expected, seen = step @ predicted, step @ change
        if seen > 1e-8 * expected:
            self.H += np.outer(change, change / seen)
            self.H -= np.outer(predicted, predicted / expected)


def interior_point(problem: Mixture, start: Vector, tol: float, max_iter: int) -> tuple[Point, int]:
    """Solve for alpha >= 1; return the last point and the number of evaluations.

    The point's gap is computed in float64 whenever it is at most `tol`.
    """
    curvature = Curvature(problem)
    exact = problem.A.dtype == np.float64 or curvature.exact
    # a class at 0 could never come back, and one barely above it would block every step
    start = np.maximum(start, 1e-3 / start.size)
    point = Point.at(problem, start / start.sum(), exact=exact)
    n_iter, best, waited, rounds = 1, np.inf, 0, 0
    mu = max(point.gap, tol) / problem.total / start.size
    z = np.maximum(1 - point.gradient / problem.total, mu / point.p)
    while n_iter < max_iter:
        if not exact and point.gap <= max(tol, COARSE_GAP):
            exact, point, n_iter = True, Point.at(problem, point.p, exact=True), n_iter + 1
        if point.gap <= tol:
            break
        waited = 0 if point.gap < 0.5 * best else waited + 1
        best = min(best, point.gap)
        if waited > PATIENCE and not curvature.exact:
            curvature.n_rows *= 2
            waited, rounds = 0, 0
        if curvature.exact or rounds < 2:
            curvature.refresh(point.p)
        rounds += 1
        point, z, tries = _step(problem, curvature, point, z, exact)
        n_iter += tries
        if tries > MAX_REJECTIONS:
            waited += PATIENCE
    return point, n_iter


def _step(
    problem: Mixture, curvature: Curvature, point: Point, z: Vector, exact: bool
) -> tuple[Point, Vector, int]:
    """Take one step, shortened until it helps; return the new point, duals and evaluations."""
    dp, dz, mu = _direction(problem, curvature, point, z)
    length, dual_length = reach(point.p, dp), reach(z, dz)
    for tries in range(1, MAX_REJECTIONS + 2):
        new = Point.at(problem, point.p + length * dp, exact=exact)
        curvature.learn(point, new)
        if new.gap < point.gap or _merit(problem, new, mu) < _merit(problem, point, mu):
            return new, z + dual_length * dz, tries
        length, dual_length = SHORTEN * length, SHORTEN * dual_length
    return point, z, tries


def _direction(
    problem: Mixture, curvature: Curvature, point: Point, z: Vector
) -> tuple[Vector, Vector, float]:
    """Solve the Newton system twice: once straight ahead, once centred by how far that got."""
    p, T = point.p, problem.total
    assert curvature.H is not None
    system = curvature.H.copy()
    system.flat[:: p.size + 1] += z / p + problem.excess / (T * p**2)
    solve = factorise(system)
    mu, pull = float(p @ z) / p.size, point.gradient / T - 1

    dp = solve(pull)
    dz = -z - z / p * dp
    ahead = (p + reach(p, dp, 1.0) * dp) @ (z + reach(z, dz, 1.0) * dz) / p.size
    centred = float((ahead / mu) ** 3 * mu)
    push = (centred - dp * dz) / p
    dp = solve(pull + push)
    return dp, push - z - z / p * dp, centred


def factorise(system: Vector) -> Callable[[Vector], Vector]:
    """Factorise a matrix that is positive definite but for rounding; return its solver.

    Scaled to a unit diagonal, because p and z differ by many orders of magnitude near a solution.
    """
    scale = 1 / np.sqrt(np.diagonal(system))
    system *= scale[:, None]
    system *= scale
    for ridge in RIDGES:
        system.flat[:: scale.size + 1] = 1 + ridge
        try:
            factor = cho_factor(system, lower=True, check_finite=False)
        except LinAlgError:
            continue
        return lambda b: scale * cho_solve(factor, scale * b, check_finite=False)
    raise AssertionError("unreachable: a unit diagonal plus K is diagonally dominant")


def reach(v: Vector, dv: Vector, fraction: float = TO_BOUNDARY) -> float:
    """Return the largest step in (0, 1] that keeps `v + step * dv` above 0 by a fraction."""
    shrinking = dv < 0
    return min(1.0, fraction * float((-v[shrinking] / dv[shrinking]).min(initial=np.inf)))


def _merit(problem: Mixture, point: Point, mu: float) -> float:
    """Return the barrier objective that a step at this mu should lower."""
    objective = problem.objective(point.p, point.likelihood)
    return float(-objective / problem.total + point.p.sum() - mu * np.log(point.p).sum())
