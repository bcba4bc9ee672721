"""The certified solver: EM steps while they promise to end soon, Newton steps when they do not."""

import numpy as np

from priorshift._typing import Vector
from priorshift.execution import SparseTable, single_threaded_blas
from priorshift.solvers._accelerated import MANY_CLASSES, matrix_free
from priorshift.solvers._interior_point import COARSE_GAP, Curvature, Point, inside, interior_point
from priorshift.solvers._mixture import Mixture
from priorshift.solvers._newton import newton
from priorshift.solvers._solution import Solution, Status

EM_TRIAL = 5
"""EM steps before their rate of convergence is judged."""

STATIONARY = 1e-10
"""L1 change of p at which EM for a problem that is not concave has come to rest."""


def maximise(
    problem: Mixture, *, tol: float, max_iter: int = 1000, start: Vector | None = None
) -> Solution:
    """Maximise the mixture objective over the simplex.

    For alpha >= 1 the result is "certified" when its duality gap, computed in float64, is at most
    `tol` nats. For alpha < 1 the problem is not concave: a fixed point of EM is "stationary", and
    there is no gap. Without any row the answer is the hyper-prior's, or else the start.
    """
    p = np.full(problem.n_classes, 1 / problem.n_classes) if start is None else inside(start)
    if problem.A.shape[0] == 0:
        pull = np.maximum(problem.excess, 0)
        return Solution(pull / pull.sum() if pull.any() else p, "direct")
    with single_threaded_blas():
        return _maximise(problem, p, tol, max_iter)


def _maximise(problem: Mixture, p: Vector, tol: float, max_iter: int) -> Solution:
    if (problem.excess < 0).any():
        return _fixed_point(problem, p, max_iter)
    exact = Curvature(problem).exact
    if isinstance(problem.A, SparseTable) and problem.n_classes > MANY_CLASSES:
        point, n_iter = matrix_free(problem, p, tol, max_iter)
    else:  # Newton's matrix may cost a few passes, or many
        begin = newton if exact else _try_em
        point, n_iter = begin(problem, p, tol, max_iter)
        if point.gap > tol and n_iter < max_iter:
            point, more = interior_point(problem, point.p, tol, max_iter - n_iter)
            n_iter += more
    if not point.exact:  # out of iterations, yet the gap must be true
        point, n_iter = Point.at(problem, point.p, exact=True), n_iter + 1
    if exact:
        point, n_iter = _vertex(problem, point, tol), n_iter + 1
    p = point.p / point.p.sum()
    return Solution.judged(p, point.gap, tol, n_iter, _on_simplex(problem, point))


def _try_em(problem: Mixture, p: Vector, tol: float, max_iter: int) -> tuple[Point, int]:
    """Take EM steps p <- p g / T while they pay."""
    budget = 15 + problem.n_classes / 40  # what Newton's steps cost instead, in measured passes
    point, n_iter, previous = Point.at(problem, p, exact=False), 1, np.inf
    while n_iter < max_iter and not (point.exact and point.gap <= tol):
        if n_iter > EM_TRIAL and _steps_to_go(point.gap, previous, tol) > budget:
            break
        previous = point.gap
        exact = point.exact or point.gap <= max(tol, COARSE_GAP)
        p = point.p * point.gradient / problem.total if point.gap > tol else point.p
        point, n_iter = Point.at(problem, p, exact=exact), n_iter + 1
    return point, n_iter


def _steps_to_go(gap: float, previous: float, tol: float) -> float:
    """Predict the steps until `gap` is `tol` if it goes on shrinking by the same factor."""
    if gap <= tol:
        return 0.0
    if gap >= previous:
        return np.inf
    return float(np.log(tol / gap) / np.log(gap / previous))


def _vertex(problem: Mixture, point: Point, tol: float) -> Point:
    """Set to exactly 0 the classes the interior point only approaches, if that stays certified."""
    slack = 1 - point.gradient / problem.total
    leaving = (point.p < slack) & (problem.excess == 0)
    if not leaving.any():
        return point
    p = np.where(leaving, 0.0, point.p)
    rounded = Point.at(problem, p / p.sum(), exact=True)
    return rounded if rounded.gap <= max(tol, point.gap) else point


def _on_simplex(problem: Mixture, point: Point) -> float:
    """Return f at the point scaled onto the simplex, without another pass."""
    mass = problem.total - problem.excess.sum()
    scaled = point.likelihood - mass * np.log(point.p.sum())
    return problem.objective(point.p / point.p.sum(), float(scaled))


def _fixed_point(problem: Mixture, p: Vector, max_iter: int) -> Solution:
    """Run EM for alpha < 1: a class whose expected count falls below 1 - alpha leaves for good."""
    status: Status = "not_converged"
    likelihood, n_iter = -np.inf, 0
    while n_iter < max_iter:
        likelihood, slope = problem.evaluate(p)
        n_iter += 1
        new = _shrink(p, p * slope, problem.excess)
        change, stay = float(np.abs(new - p).sum()), new > 0
        if not stay[p > 0].all():  # rows that only the classes that left explain go with them
            problem = Mixture.of(
                problem.A,
                scale=np.where(stay, problem.scale, 0.0),
                weights=problem.weights,
                alpha=1 + problem.excess,
            )
        p = new
        if change <= STATIONARY:
            status = "stationary"
            break
    return Solution(p, status, None, n_iter, problem.objective(p, likelihood))


def _shrink(p: Vector, counts: Vector, excess: Vector) -> Vector:
    """Take the M-step for alpha < 1, where a class needs a count above 1 - alpha.

    Of those with less only the smaller half leaves at once, and never all: others may inherit.
    """
    alive = p > 0
    new = np.where(alive, counts + excess, 0.0)
    doomed = np.flatnonzero(alive & (new <= 0))
    new[doomed] = counts[doomed]
    n_leaving = min((doomed.size + 1) // 2, np.count_nonzero(alive) - 1)
    new[doomed[np.argsort(counts[doomed])[:n_leaving]]] = 0.0
    return new / new.sum()
