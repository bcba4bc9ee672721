r"""Newton's method for many mixture problems at once, each to its own certificate.

The primal-dual interior point of `priorshift.solvers`, step by step for all groups together: the
relaxed problem :math:`\min -f(p)/T + \sum p,\ p \ge 0` with duals z, Mehrotra's predictor and
corrector, one batch of K x K systems a step. A group leaves the batch when it is certified. The
few that rounding stops short go to the solver of one problem.
"""

from dataclasses import dataclass, fields

import numpy as np

from priorshift._typing import Indices, Mask, Vector
from priorshift.execution import map_rows, single_threaded_blas
from priorshift.groups._mixtures import Mixtures
from priorshift.solvers import maximise

CHUNK_BYTES = 2**21
"""Newton matrices of one chunk of groups: several copies of them fit into a cache (measured)."""

TO_BOUNDARY, SHORTEN, CENTRE = 0.99, 0.3, 0.3
LEAST_START = 1e-3
TINY = 1e-300
MAX_TRIES = 5
MAX_STEPS = 60
PATIENCE = 8
"""Steps that do not halve a group's gap, after which it starts afresh with plain steps."""

RIDGE, STRONGER = 1e-15, 100.0
"""Added to a unit diagonal against rounding, and by what factor it grows where a step failed."""


@dataclass(frozen=True)
class Solutions:
    """What was found for each group.

    Attributes
    ----------
    priors : ndarray of shape (G, K)
    gap : ndarray of shape (G,)
        Bound on how far the objective is below its maximum, in nats.
    n_iter : ndarray of shape (G,)
        Evaluations of the gradient.
    """

    priors: Vector
    gap: Vector
    n_iter: Indices


@dataclass
class Points:
    """One point a group, p > 0 and not yet scaled onto the simplex, with derivatives there."""

    p: Vector
    z: Vector
    likelihood: Vector
    slope: Vector
    gap: Vector

    @classmethod
    def at(cls, problem: Mixtures, p: Vector, z: Vector) -> "Points":
        """Evaluate; the gap is that of p / sum p, as g(cp) = g(p) / c."""
        likelihood, slope = problem.evaluate(p)
        with np.errstate(invalid="ignore", over="ignore"):
            gap = ((slope + problem.over(p)) * p.sum(axis=1)[:, None]).max(axis=1) - problem.total
        return cls(p, z, likelihood, slope, np.where(np.isnan(gap), np.inf, gap))

    def take(self, groups: Indices) -> "Points":
        """Return the points of some groups."""
        return Points(*(getattr(self, field.name)[groups] for field in fields(self)))

    def put(self, groups: Indices, others: "Points") -> None:
        """Replace the points of some groups."""
        for field in fields(self):
            getattr(self, field.name)[groups] = getattr(others, field.name)


def maximise_all(problem: Mixtures, start: Vector, *, tol: float, max_iter: int) -> Solutions:
    """Maximise every group's objective over the simplex, in chunks of bounded memory.

    `start` is one point for all. Every T must be above 0, every excess at least 0.
    """
    G, K = problem.weights.shape[0], problem.excess.shape[1]
    first = np.maximum(start, LEAST_START / K)
    first = first / first.sum()

    def kernel(part: slice) -> Solutions:
        return _solve(problem.take(np.arange(part.start, part.stop)), first, tol, max_iter)

    size = max(1, CHUNK_BYTES // (8 * K * K))
    n_parts = -(-G // size)
    if n_parts == 1:
        with single_threaded_blas():
            return kernel(slice(0, G))
    parts = map_rows(kernel, G, work=np.inf, n_parts=n_parts)
    joined = (np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Solutions))
    return Solutions(*joined)


def _solve(problem: Mixtures, start: Vector, tol: float, max_iter: int) -> Solutions:
    p = np.tile(start, (problem.weights.shape[0], 1))
    best, n_iter = _interior_point(problem, p, tol, max_iter)
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
    return Solutions(
        best.p / best.p.sum(axis=1, keepdims=True), np.maximum(best.gap, 0), n_iter + 1
    )


def _interior_point(
    problem: Mixtures, p: Vector, tol: float, max_iter: int
) -> tuple[Points, Indices]:
    """Step all groups until each is certified or its steps are used up."""
    points = _started(problem, p, tol)
    n_iter = np.ones(p.shape[0], dtype=np.intp)
    ridge, best, waited = np.full(n_iter.size, RIDGE), points.gap.copy(), np.zeros_like(n_iter)
    plain = np.zeros(n_iter.size, dtype=bool)
    active = np.arange(n_iter.size)
    for _ in range(MAX_STEPS):
        going = (points.gap[active] > tol) & (n_iter[active] < max_iter) & (ridge[active] < 1)
        active = active[going]
        if not active.size:
            break
        new, tries, failed = _step(
            problem.take(active), points.take(active), ridge[active], plain[active]
        )
        points.put(active, new)
        n_iter[active] += tries
        ridge[active[failed]] *= STRONGER
        halved = new.gap < 0.5 * best[active]
        waited[active] = np.where(halved, 0, waited[active] + 1)
        best[active] = np.minimum(best[active], new.gap)
        stalled = active[(waited[active] > PATIENCE) & ~plain[active]]
        if stalled.size:
            points.put(stalled, _started(problem.take(stalled), p[stalled], tol))
            plain[stalled], waited[stalled] = True, 0
    return points, n_iter


def _started(problem: Mixtures, p: Vector, tol: float) -> Points:
    """Return points with duals as far from 0 as the gap is."""
    points, T = Points.at(problem, p, np.zeros_like(p)), problem.total[:, None]
    mu = np.maximum(points.gap, tol)[:, None] / T / p.shape[1]
    points.z = np.maximum(1 - points.slope / T, (problem.excess / T + mu) / p)
    return points


def _step(
    problem: Mixtures, points: Points, ridge: Vector, plain: Mask
) -> tuple[Points, Indices, Indices]:
    """Take one step a group, shortened until it helps; return points, evaluations, failures.

    The corrector may point uphill: where its step fails, a plain one follows that cannot. Groups
    that went in circles take plain steps only.
    """
    G = ridge.size
    tries, todo = np.zeros(G, dtype=np.intp), np.arange(G)
    result = points.take(todo)
    H = problem.hessian(points.p) / problem.total[:, None, None]
    part, here, matrix = problem, points, H
    for attempt in range(MAX_TRIES):
        if attempt < 2:
            corrected = ~plain[todo] if attempt == 0 else np.zeros(todo.size, dtype=bool)
            dp, dz, mu = _direction(part, here, matrix, ridge[todo], corrected)
            length, dual_length = reach(here.p, dp), reach(here.z, dz)
        new = Points.at(part, here.p + length * dp, here.z + dual_length * dz)
        tries[todo] += 1
        good = (new.gap < here.gap) & ~plain[todo]
        good |= _merit(part, new, mu) <= _merit(part, here, mu)
        result.put(todo[good], new.take(np.flatnonzero(good)))
        bad = np.flatnonzero(~good)
        todo = todo[bad]
        if not todo.size:
            break
        part, here, matrix = part.take(bad), here.take(bad), matrix[bad]
        dp, dz, mu = dp[bad], dz[bad], mu[bad]
        length, dual_length = SHORTEN * length[bad], SHORTEN * dual_length[bad]
    return result, tries, todo


def _direction(
    problem: Mixtures, points: Points, H: Vector, ridge: Vector, corrected: Mask
) -> tuple[Vector, Vector, Vector]:
    """Solve the Newton systems twice: once straight ahead, once centred by how far that got.

    Without the correction, once: the merit function at the mu returned falls that way.
    """
    p, z, T = points.p, points.z, problem.total[:, None]
    target, pull = problem.excess / T, points.slope / T - 1
    diagonal = np.einsum("gkk->gk", H)
    scale = 1 / np.sqrt(diagonal + z / p)
    system = H * scale[:, :, None] * scale[:, None, :]
    np.einsum("gkk->gk", system)[:] = 1 + ridge[:, None]

    def newton(aim: Vector) -> tuple[Vector, Vector]:
        right = scale * (pull + aim / p)
        dp = scale * np.linalg.solve(system, right[:, :, None])[:, :, 0]
        return dp, aim / p - z - z / p * dp

    mu = np.maximum(np.abs(p * z - target).mean(axis=1, keepdims=True), TINY)
    if not corrected.any():
        return *newton(target + CENTRE * mu), CENTRE * mu
    dp, dz = newton(target)
    ahead = (p + reach(p, dp, 1.0) * dp) * (z + reach(z, dz, 1.0) * dz)
    far = np.abs(ahead - target).mean(axis=1, keepdims=True) / mu
    yes = corrected[:, None]
    centred = np.where(yes, np.minimum(far, 1.0) ** 3, CENTRE) * mu
    return *newton(target + centred - np.where(yes, dp * dz, 0.0)), centred


def reach(v: Vector, dv: Vector, fraction: float = TO_BOUNDARY) -> Vector:
    """Return, by group, the largest step in (0, 1] that keeps `v + step dv` above 0."""
    room = np.divide(-v, dv, out=np.full_like(v, np.inf), where=dv < 0)
    return np.minimum(1.0, fraction * room.min(axis=1, keepdims=True))


def _merit(problem: Mixtures, points: Points, mu: Vector) -> Vector:
    """Return the barrier objective that a step at this mu should lower."""
    p = points.p
    value = -problem.objective(p, points.likelihood) / problem.total + p.sum(axis=1)
    return value - mu[:, 0] * np.log(np.maximum(p, TINY)).sum(axis=1)


def _vertices(problem: Mixtures, points: Points, tol: float) -> Points:
    """Set to exactly 0 the classes an interior point only approaches, if that stays certified."""
    gradient = points.slope + problem.over(points.p)
    slack = 1 - gradient / problem.total[:, None]
    p = np.where((points.p < slack) & (problem.excess == 0), 0.0, points.p)
    p /= p.sum(axis=1, keepdims=True)
    rounded = Points.at(problem, p, points.z)
    keep = np.flatnonzero(rounded.gap <= np.maximum(tol, points.gap))
    points.put(keep, rounded.take(keep))
    return points
