r"""The certified solver: EM steps while they converge fast, Newton steps when they do not.

EM stops where :math:`p_k z_k = e_k/T` with :math:`z = 1 - \ell/T`, for the likelihood's gradient l
and the hyper-prior's e = alpha - 1. A Newton step for these equations solves

.. math:: (H/T + \mathrm{diag}(z/p))\, dp = e/(Tp) - z.

It is the likelihood's own Newton step for classes that stay, and moves those that leave directly
towards 0. Every class is kept above 0 on its own, so that classes that leave do not shorten the
step of the others. Extrapolated EM steps come first: they are cheap, and end where no barrier is
needed.

EM's steps are extrapolated in pairs (SQUAREM, Varadhan and Roland, 2008), never to a lower
likelihood. Where Newton's matrix is too large or its steps do not help, the interior point of
`_interior_point` takes over; for very many classes it forms no matrix. Many problems at once take
its steps from the start, with one batch of K x K systems per step; the few that rounding stops
early are solved alone.
"""

from collections.abc import Callable
from dataclasses import fields
from typing import overload

import numpy as np

from priorshift._typing import Indices, Vector
from priorshift.border import is_sparse, map_rows, single_threaded_blas
from priorshift.solvers._interior_point import (
    COARSE_GAP,
    MANY_CLASSES,
    SHORTEN,
    TINY,
    MatrixFreeCurvature,
    Points,
    interior_point,
    interior_points,
    pull_of_prior,
)
from priorshift.solvers._mixture import Curvature, Mixture, Mixtures, Point, factorise, inside
from priorshift.solvers._solution import Solution, Solutions, Status

EM_TRIAL = 5
"""EM steps before their rate of convergence is measured."""

STATIONARY = 1e-10
"""L1 change of p at which EM for a problem that is not concave counts as stationary."""

LEAPS = 5
"""Extrapolations before Newton's steps; more gain little (measured at K = 10,000)."""

LEAST_SHARE = 0.1
"""Extrapolation leaves each class at least this share of what the EM step gives it."""

LEAST_LEFT = 0.01
"""Share of its prior that a class keeps in any one step."""

SMALLEST = 1e-290
"""A smaller share counts as this where something is divided by it."""

MARGIN = 0.01
"""Where EM only just reaches the tolerance, one Newton step follows to get well within it."""

CHUNK_BYTES = 2**21
"""Newton matrices of one chunk of groups: several copies of them fit into a cache (measured)."""

RIDGE = 1e-15
"""Added to a unit diagonal against rounding."""

MOST_STEPS = 15
MOST_TRIES = 4
"""Two to four full steps are usually enough; if not, the interior point is safer."""


@overload
def maximise(
    problem: Mixture, *, tol: float, max_iter: int = ..., start: Vector | None = ...
) -> Solution: ...
@overload
def maximise(
    problem: Mixtures, *, tol: float, max_iter: int = ..., start: Vector | None = ...
) -> Solutions: ...
def maximise(
    problem: Mixture | Mixtures,
    *,
    tol: float,
    max_iter: int = 1000,
    start: Vector | None = None,
) -> Solution | Solutions:
    """Maximise the mixture objective over the simplex, or those of many problems at once.

    For alpha >= 1 the result is "certified" when its duality gap, computed in float64, is at most
    `tol` nats. For alpha < 1 the problem is not concave: a fixed point of EM is "stationary", and
    there is no gap. Without rows, the answer is the mode of the hyper-prior, or else the start.
    Of many problems, every T must be above 0 and every alpha at least 1; the start is one for all.
    """
    p = np.full(problem.n_classes, 1 / problem.n_classes) if start is None else inside(start)
    if isinstance(problem, Mixtures):
        return _maximise_stack(problem, p, tol, max_iter)
    if problem.A.shape[0] == 0:
        pull = np.maximum(problem.excess, 0)
        return Solution(pull / pull.sum() if pull.any() else p, "direct")
    with single_threaded_blas():
        return _maximise(problem, p, tol, max_iter)


def _maximise(problem: Mixture, p: Vector, tol: float, max_iter: int) -> Solution:
    if (problem.excess < 0).any():
        return _fixed_point(problem, p, max_iter)
    exact = Curvature(problem).exact
    if is_sparse(problem.A) and problem.n_classes > MANY_CLASSES:
        point, n_iter = matrix_free(problem, p, tol, max_iter)
    else:  # Newton's matrix may cost a few passes, or many
        begin = _newton if exact else _try_em
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
    """Take EM steps p <- p g / T while they are worth their cost."""
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
    """Predict the steps until `gap` is `tol` if it keeps shrinking by the same factor."""
    if gap <= tol:
        return 0.0
    if gap >= previous:
        return np.inf
    return float(np.log(tol / gap) / np.log(gap / previous))


def matrix_free(problem: Mixture, start: Vector, tol: float, max_iter: int) -> tuple[Point, int]:
    """Solve for very many classes; return the best point and the number of evaluations."""
    point, n_iter = leap(problem, start, tol, max_iter)
    if n_iter >= max_iter or (point.exact and point.gap <= tol):
        return point, n_iter
    curvature = MatrixFreeCurvature(problem)
    found, more = interior_point(problem, point.p, tol, max_iter - n_iter, curvature)
    return found, n_iter + more


def leap(problem: Mixture, start: Vector, tol: float, max_iter: int) -> tuple[Point, int]:
    """Take EM steps, extrapolated in pairs; return the last point and the evaluations."""
    point, n_iter = Point.at(problem, start, exact=False), 1
    for _ in range(LEAPS):
        if n_iter + 3 > max_iter or point.gap <= tol:
            break
        middle = Point.at(problem, em_step(problem, point), exact=False)
        end = em_step(problem, middle)
        ahead = Point.at(problem, extrapolate(point.p, middle.p, end), exact=False)
        n_iter += 2
        if not _value(problem, ahead) >= _value(problem, middle):
            ahead, n_iter = Point.at(problem, end, exact=False), n_iter + 1
        point = ahead
    return point, n_iter


def em_step(problem: Mixture, point: Point) -> Vector:
    """Return p g / T, which never lowers f, with classes kept that it would set to 0."""
    new = point.p * point.gradient / problem.total
    if new.all():
        return new
    new = held(point.p, new)
    return new / new.sum()


def held(p: Vector, new: Vector) -> Vector:
    """Keep every class above 0 in a step from p: it could never come back."""
    return np.maximum(new, LEAST_LEFT * p)


def _value(problem: Mixture, point: Point) -> float:
    return problem.objective(point.p, point.likelihood)


def extrapolate(first: Vector, second: Vector, third: Vector) -> Vector:
    """Guess where three steps in a row lead to (SQUAREM); columns of a matrix sum to 1 again.

    Nothing falls to less than `LEAST_SHARE` of the third step, and what is 0 stays 0.
    """
    step, bend = second - first, third - 2 * second + first
    turn = float(np.linalg.norm(bend))
    length = max(float(np.linalg.norm(step)) / turn, 1.0) if turn > 0 else 1.0
    ahead = np.maximum(first + 2 * length * step + length**2 * bend, LEAST_SHARE * third)
    total = ahead.sum(axis=0)
    return np.divide(ahead, total, out=np.zeros_like(ahead), where=total > 0)


def _newton(problem: Mixture, start: Vector, tol: float, max_iter: int) -> tuple[Point, int]:
    """Solve for alpha >= 1 if that is easy; return the best point and the number of evaluations."""
    point, n_iter = leap(problem, inside(start), tol, max_iter)
    if not point.exact and n_iter < max_iter:
        point, n_iter = Point.at(problem, point.p, exact=True), n_iter + 1
    best, curvature = point, Curvature(problem)
    enough = MARGIN * tol
    for _ in range(MOST_STEPS):
        if n_iter >= max_iter or point.gap <= enough:
            break
        enough = tol
        before = point
        point, tries = _step(problem, curvature, point)
        n_iter += tries
        if point is before:  # no step helps
            break
        best = min(best, point, key=lambda at: at.gap)
    return best, n_iter


def _step(problem: Mixture, curvature: Curvature, point: Point) -> tuple[Point, int]:
    """Take one step, shortened until it helps; return the new point and the evaluations."""
    z = 1 - point.likelihood_gradient / problem.total
    curvature.refresh(point.p, point.likelihood_gradient)
    solve = factorise(curvature.H, np.maximum(z, TINY) / np.maximum(point.p, SMALLEST))
    step = solve(point.gradient / problem.total - 1)
    for tries in range(1, MOST_TRIES + 1):
        new = Point.at(problem, held(point.p, point.p + step), exact=True)
        if new.gap < point.gap or _cost(problem, new) < _cost(problem, point):
            return new, tries
        step = SHORTEN * step
    return point, MOST_TRIES


def _cost(problem: Mixture, point: Point) -> float:
    """Return -f/T + sum p, whose minimum over p >= 0 is on the simplex."""
    return float(point.p.sum() - _value(problem, point) / problem.total)


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


def _maximise_stack(problem: Mixtures, first: Vector, tol: float, max_iter: int) -> Solutions:
    """Maximise the objective of every group, in chunks of bounded memory."""
    G, K = problem.weights.shape[0], problem.excess.shape[1]

    def kernel(part: slice) -> Solutions:
        chunk = problem.take(np.arange(part.start, part.stop))
        return _maximise_chunk(chunk, first, tol, max_iter)

    n_parts = -(-G // max(1, CHUNK_BYTES // (8 * K * K)))
    if n_parts == 1:
        with single_threaded_blas():
            return kernel(slice(0, G))
    parts = map_rows(kernel, G, work=np.inf, n_parts=n_parts)
    joined = (np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Solutions))
    return Solutions(*joined)


def _maximise_chunk(problem: Mixtures, start: Vector, tol: float, max_iter: int) -> Solutions:
    """Step all groups together; those that rounding stops short are solved alone."""
    p = np.tile(start, (problem.weights.shape[0], 1))
    best, n_iter, _ = interior_points(problem, p, tol, max_iter, _Curvatures())
    for g in np.flatnonzero(best.gap > tol).tolist():
        left = max_iter - int(n_iter[g])
        if left > 0:
            solution = maximise(problem.single(g), tol=tol, max_iter=left, start=start)
            n_iter[g] += solution.n_iter
            one = problem.take(np.array([g]))
            found = Points.at(one, np.maximum(solution.value, 0)[None], best.z[[g]])
            if found.gap[0] < best.gap[g]:
                best.put(np.array([g]), found)
    best = _vertices(problem, best, tol)
    value = best.p / best.p.sum(axis=1, keepdims=True)
    return Solutions.judged(value, np.maximum(best.gap, 0), tol, n_iter + 1)


def _vertices(problem: Mixtures, points: Points, tol: float) -> Points:
    """Set to exactly 0 the classes an interior point only approaches, if that stays certified."""
    gradient = points.slope + pull_of_prior(problem, points.p)
    slack = 1 - gradient / problem.total[:, None]
    p = np.where((points.p < slack) & (problem.excess == 0), 0.0, points.p)
    p /= p.sum(axis=1, keepdims=True)
    rounded = Points.at(problem, p, points.z)
    keep = np.flatnonzero(rounded.gap <= np.maximum(tol, points.gap))
    points.put(keep, rounded.take(keep))
    return points


class _Curvatures:
    """The Hessians of a stack over T, in one batch."""

    exact = True

    def refresh(self, p: Vector, slope: Vector, part: Mixtures) -> None:  # noqa: ARG002
        """Compute the Hessians of the problems that take a step."""
        self.H = part.hessian(p) / part.total[:, None, None]

    def learn(self, step: Vector, change: Vector) -> None:
        """Learn nothing: all Hessians are computed afresh."""

    def solver(self, diagonal: Vector, todo: Indices) -> Callable[[Vector], Vector]:
        """Return what solves (H + diag(diagonal)) x = b of some of these problems."""
        H = self.H if todo.size == self.H.shape[0] else self.H[todo]
        scale = 1 / np.sqrt(np.einsum("gkk->gk", H) + diagonal)
        system = H * scale[:, :, None] * scale[:, None, :]
        np.einsum("gkk->gk", system)[:] = 1 + RIDGE
        return lambda b: scale * np.linalg.solve(system, (scale * b)[:, :, None])[:, :, 0]


def _fixed_point(problem: Mixture, p: Vector, max_iter: int) -> Solution:
    """Run EM for alpha < 1: a class whose expected count falls below 1 - alpha is dropped."""
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

    Only the smaller half of those with less leaves in one step, and never all of them: what they
    lose may save the others.
    """
    alive = p > 0
    new = np.where(alive, counts + excess, 0.0)
    doomed = np.flatnonzero(alive & (new <= 0))
    new[doomed] = counts[doomed]
    n_leaving = min((doomed.size + 1) // 2, np.count_nonzero(alive) - 1)
    new[doomed[np.argsort(counts[doomed])[:n_leaving]]] = 0.0
    return new / new.sum()
