r"""Many mixture problems at once, each solved to its own certificate.

.. math:: \max_{p_g \in \Delta}\ \sum_i w_{gi} \log(a_{gi} \cdot p_g) + \sum_k e_{gk} \log p_{gk},
    \qquad T_g = \sum_i w_{gi} + \sum_k e_{gk}

It is the problem of `Mixture` with a first axis for groups, and the interior point of
`_interior_point` with one batch of K x K systems per step. A group leaves the batch when its
duality gap, :math:`\max_k g_k - T_g` in nats, is small enough. The few groups that rounding stops
early go to the solver of one problem.
"""

from dataclasses import dataclass, fields

import numpy as np

from priorshift._typing import Floats, Indices, Mask, Vector
from priorshift.border import map_rows, single_threaded_blas
from priorshift.solvers._certified import maximise
from priorshift.solvers._interior_point import (
    MAX_TRIES,
    PATIENCE,
    SHORTEN,
    TINY,
    direction,
    reach,
)
from priorshift.solvers._mixture import Mixture, inside
from priorshift.solvers._solution import Solutions

OUTER_CLASSES = 64
"""Up to this many classes, all products of a shared matrix's columns are kept: the Hessians of all
groups are one matrix product then."""

CHUNK_BYTES = 2**21
"""Newton matrices of one chunk of groups: several copies of them fit into a cache (measured)."""

MAX_STEPS = 60

RIDGE, STRONGER = 1e-15, 100.0
"""Added to a unit diagonal against rounding, and by what factor it grows where a step failed."""

STACK_BYTES = 2**23
"""Rows stacked at once; a group with more goes to the solver of one problem."""

ALIKE = 1.25
"""Groups are stacked with others up to this many times their size: at most a fifth is padding."""


@dataclass(frozen=True)
class Mixtures:
    """The data of G problems with K unknowns each."""

    A: Vector  # rows a_i, (m, K) for all groups or (G, m, K); no row with a weight is all 0
    weights: Vector  # (G, m)
    excess: Vector  # alpha - 1 of the Dirichlet hyper-prior, at least 0, (G, K)
    outer: Vector | None = None

    @classmethod
    def of(cls, A: Vector, weights: Vector, excess: Vector | float = 0.0) -> "Mixtures":
        """Build the problems."""
        K = A.shape[-1]
        outer = None
        if A.ndim == 2 and K <= OUTER_CLASSES:
            outer = (A[:, :, None] * A[:, None, :]).reshape(A.shape[0], K * K)
        return cls(A, weights, np.broadcast_to(excess, (weights.shape[0], K)), outer)

    @property
    def total(self) -> Vector:
        """T, the weight of all rows and of the hyper-prior, by group."""
        return self.weights.sum(axis=1) + self.excess.sum(axis=1)

    def take(self, groups: Indices) -> "Mixtures":
        """Return the problems of some groups."""
        A = self.A if self.A.ndim == 2 else self.A[groups]
        return Mixtures(A, self.weights[groups], self.excess[groups], self.outer)

    def single(self, group: int) -> Mixture:
        """Return the problem of one group, for the solvers of one problem."""
        A = self.A if self.A.ndim == 2 else self.A[group]
        return Mixture.of(A, weights=self.weights[group], alpha=1 + self.excess[group])

    def evaluate(self, p: Vector) -> tuple[Vector, Vector]:
        """Return the likelihood part of f, shape (G,), and of its gradient, shape (G, K)."""
        u, used = self._mix(p), self.weights > 0
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            log = np.log(u, out=np.zeros_like(u), where=used)
            over = np.divide(self.weights, u, out=np.zeros_like(u), where=used)
            slope = self._back(over)  # NaN where a row's mixture is 0: no gap certifies that
        return np.einsum("gm,gm->g", self.weights, log), slope

    def hessian(self, p: Vector) -> Vector:
        r"""Return :math:`A^T \mathrm{diag}(w/(Ap)^2) A` of each group: (G, K, K)."""
        G, K = p.shape
        u = self._mix(p)
        curvature = np.divide(self.weights, u**2, out=np.zeros_like(u), where=self.weights > 0)
        if self.outer is not None:
            return (curvature @ self.outer).reshape(G, K, K)
        return np.swapaxes(self.A, -1, -2) @ (self.A * curvature[:, :, None])

    def over(self, p: Vector) -> Vector:
        """Return the hyper-prior's gradient (alpha - 1) / p, and 0 where alpha is 1."""
        with np.errstate(divide="ignore"):
            return np.divide(self.excess, p, out=np.zeros_like(p), where=self.excess != 0)

    def objective(self, p: Vector, likelihood: Vector) -> Vector:
        """Add the hyper-prior's part to the likelihood: f(p)."""
        with np.errstate(divide="ignore"):
            log = np.log(p, out=np.zeros_like(p), where=self.excess != 0)
        return likelihood + np.einsum("gk,gk->g", self.excess, log)

    def _mix(self, p: Vector) -> Vector:
        if self.A.ndim == 2:
            return p @ self.A.T
        return (self.A @ p[:, :, None])[:, :, 0]

    def _back(self, v: Vector) -> Vector:
        if self.A.ndim == 2:
            return v @ self.A
        return (v[:, None, :] @ self.A)[:, 0]


@dataclass
class _Points:
    """One point per group, p > 0 and not yet scaled onto the simplex, with derivatives there."""

    p: Vector
    z: Vector
    likelihood: Vector
    slope: Vector
    gap: Vector

    @classmethod
    def at(cls, problem: Mixtures, p: Vector, z: Vector) -> "_Points":
        """Evaluate; the gap is that of p / sum p, as g(cp) = g(p) / c."""
        likelihood, slope = problem.evaluate(p)
        with np.errstate(invalid="ignore", over="ignore"):
            gap = ((slope + problem.over(p)) * p.sum(axis=1)[:, None]).max(axis=1) - problem.total
        return cls(p, z, likelihood, slope, np.where(np.isnan(gap), np.inf, gap))

    @classmethod
    def started(cls, problem: Mixtures, p: Vector, tol: float) -> "_Points":
        """Return points with duals as far from 0 as the gap is."""
        points, T = cls.at(problem, p, np.zeros_like(p)), problem.total[:, None]
        mu = np.maximum(points.gap, tol)[:, None] / T / p.shape[1]
        points.z = np.maximum(1 - points.slope / T, (problem.excess / T + mu) / p)
        return points

    def take(self, groups: Indices) -> "_Points":
        """Return the points of some groups."""
        return _Points(*(getattr(self, field.name)[groups] for field in fields(self)))

    def put(self, groups: Indices, others: "_Points") -> None:
        """Replace the points of some groups."""
        for field in fields(self):
            getattr(self, field.name)[groups] = getattr(others, field.name)


def maximise_all(problem: Mixtures, start: Vector, *, tol: float, max_iter: int) -> Solutions:
    """Maximise the objective of every group over the simplex, in chunks of bounded memory.

    `start` is one point for all groups. Every T must be above 0, every excess at least 0.
    """
    G, K = problem.weights.shape[0], problem.excess.shape[1]
    first = inside(start)

    def kernel(part: slice) -> Solutions:
        return _solve(problem.take(np.arange(part.start, part.stop)), first, tol, max_iter)

    n_parts = -(-G // max(1, CHUNK_BYTES // (8 * K * K)))
    if n_parts == 1:
        with single_threaded_blas():
            return kernel(slice(0, G))
    parts = map_rows(kernel, G, work=np.inf, n_parts=n_parts)
    joined = (np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Solutions))
    return Solutions(*joined)


def maximise_by_group(
    A: Floats,
    codes: Indices,
    groups: Indices,
    *,
    scale: Vector,
    weights: Vector | None,
    excess: Vector,
    start: Vector,
    tol: float,
    max_iter: int,
) -> Solutions:
    """Maximise the objectives of groups whose rows are their own, such as posteriors.

    Groups of similar size are stacked, padded with rows of weight 0, so that Newton's steps run
    over many groups at once. A group too large to copy goes to the solver of one
    problem; there can only be few of those.

    Parameters
    ----------
    A : ndarray of shape (n, K)
        Rows of all groups.
    codes : ndarray of shape (n,)
        Number of each row's group.
    groups : ndarray of shape (g,)
        Numbers of the groups to solve for; each has a row that some priors explain.
    scale : ndarray of shape (K,)
        Factor of each column of A.
    weights : ndarray of shape (n,) or None
    excess : ndarray of shape (K,)
        alpha - 1 of the hyper-prior of every group, at least 0.
    start : ndarray of shape (K,)
    """
    order, sizes = np.argsort(codes, kind="stable"), np.bincount(codes)
    first = np.cumsum(sizes) - sizes
    value, gap = np.empty((groups.size, scale.size)), np.empty(groups.size)
    n_iter = np.zeros(groups.size, dtype=np.intp)
    most = max(1, STACK_BYTES // (8 * scale.size))
    for part in _stacks(sizes[groups], most):
        chosen = groups[part]
        slots = np.arange(sizes[chosen].max())
        filled = slots < sizes[chosen, None]
        rows = order[first[chosen, None] + np.where(filled, slots, 0)]
        weight = None if weights is None else weights[rows]
        if slots.size > most:  # then it is the only group of its stack
            own = None if weight is None else weight[0]
            problem = Mixture.of(A[rows[0]], scale=scale, weights=own, alpha=1 + excess)
            alone = maximise(problem, tol=tol, max_iter=max_iter, start=start)
            value[part], n_iter[part] = alone.value, alone.n_iter
            gap[part] = np.inf if alone.gap is None else alone.gap
            continue
        stack = A[rows].astype(np.float64, copy=False) * scale
        used = (filled & (stack.sum(axis=2) > 0)).astype(np.float64)
        problems = Mixtures.of(stack, used if weight is None else weight * used, excess)
        solved = maximise_all(problems, start, tol=tol, max_iter=max_iter)
        value[part], gap[part], n_iter[part] = solved.value, solved.gap, solved.n_iter
    return Solutions.judged(value, gap, tol, n_iter)


def _stacks(sizes: Indices, most: int) -> list[Indices]:
    """Cut groups into stacks of similar size with at most `most` rows, padding included.

    Examples
    --------
    >>> import numpy as np
    >>> [stack.tolist() for stack in _stacks(np.array([5, 100, 4, 5]), 12)]
    [[2, 0], [3], [1]]
    """
    order = np.argsort(sizes, kind="stable")
    ordered = sizes[order]
    stacks, at = [], 0
    while at < order.size:  # one stack at a time, not one group
        alike = int(np.searchsorted(ordered, ALIKE * ordered[at], side="right"))
        fits = ordered[at:alike] * np.arange(1, alike - at + 1) <= most
        size = max(1, int(np.count_nonzero(fits)))
        stacks.append(order[at : at + size])
        at += size
    return stacks


def _solve(problem: Mixtures, start: Vector, tol: float, max_iter: int) -> Solutions:
    p = np.tile(start, (problem.weights.shape[0], 1))
    best, n_iter = _interior_points(problem, p, tol, max_iter)
    for g in np.flatnonzero(best.gap > tol).tolist():
        left = max_iter - int(n_iter[g])
        if left > 0:
            solution = maximise(problem.single(g), tol=tol, max_iter=left, start=start)
            n_iter[g] += solution.n_iter
            one = problem.take(np.array([g]))
            found = _Points.at(one, np.maximum(solution.value, 0)[None], best.z[[g]])
            if found.gap[0] < best.gap[g]:
                best.put(np.array([g]), found)
    best = _vertices(problem, best, tol)
    value = best.p / best.p.sum(axis=1, keepdims=True)
    return Solutions.judged(value, np.maximum(best.gap, 0), tol, n_iter + 1)


def _interior_points(
    problem: Mixtures, p: Vector, tol: float, max_iter: int
) -> tuple[_Points, Indices]:
    """Step all groups until each is certified or its steps are used up.

    A group whose gap has not halved for a while restarts with plain steps.
    """
    points = _Points.started(problem, p, tol)
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
            points.put(stalled, _Points.started(problem.take(stalled), p[stalled], tol))
            plain[stalled], waited[stalled] = True, 0
    return points, n_iter


def _step(
    problem: Mixtures, points: _Points, ridge: Vector, plain: Mask
) -> tuple[_Points, Indices, Indices]:
    """Take one step per group, shortened until it helps; return points, evaluations, failures.

    The corrector may point uphill: where its step fails, a plain one follows that cannot. Groups
    that went in circles use plain steps only.
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
        new = _Points.at(part, here.p + length * dp, here.z + dual_length * dz)
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
    problem: Mixtures, points: _Points, H: Vector, ridge: Vector, corrected: Mask
) -> tuple[Vector, Vector, Vector]:
    """Return the Newton steps in p and z, and the mu that they aim at."""
    p, z, T = points.p, points.z, problem.total[:, None]
    scale = 1 / np.sqrt(np.einsum("gkk->gk", H) + z / p)
    system = H * scale[:, :, None] * scale[:, None, :]
    np.einsum("gkk->gk", system)[:] = 1 + ridge[:, None]

    def solve(b: Vector) -> Vector:
        return scale * np.linalg.solve(system, (scale * b)[:, :, None])[:, :, 0]

    pull, target = points.slope / T - 1, problem.excess / T
    return direction(p, z, pull, target, solve, corrected[:, None])


def _merit(problem: Mixtures, points: _Points, mu: Vector) -> Vector:
    """Return the barrier objective that a step at this mu should lower."""
    p = points.p
    value = -problem.objective(p, points.likelihood) / problem.total + p.sum(axis=1)
    return value - mu[:, 0] * np.log(np.maximum(p, TINY)).sum(axis=1)


def _vertices(problem: Mixtures, points: _Points, tol: float) -> _Points:
    """Set to exactly 0 the classes an interior point only approaches, if that stays certified."""
    gradient = points.slope + problem.over(points.p)
    slack = 1 - gradient / problem.total[:, None]
    p = np.where((points.p < slack) & (problem.excess == 0), 0.0, points.p)
    p /= p.sum(axis=1, keepdims=True)
    rounded = _Points.at(problem, p, points.z)
    keep = np.flatnonzero(rounded.gap <= np.maximum(tol, points.gap))
    points.put(keep, rounded.take(keep))
    return points
