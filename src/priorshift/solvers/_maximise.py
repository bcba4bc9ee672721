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
early are solved alone. Groups may share their rows, such as a confusion matrix, or each have their
own, such as posteriors (`maximise_by_group`).
"""

import math
from typing import overload

import numpy as np

from priorshift._typing import Floats, Indices, Vector
from priorshift.border import SparseTable, map_rows, single_threaded_blas
from priorshift.solvers._interior_point import (
    COARSE_GAP,
    LEAST_START,
    SHORTEN,
    TINY,
    Curvature,
    Curvatures,
    MatrixFree,
    Points,
    interior_point,
    interior_points,
    secant_terms,
)
from priorshift.solvers._mixture import Mixture, Mixtures, Point, factorise
from priorshift.solvers._solution import Solution, Solutions, Status

STATIONARY = 1e-10
"""L1 change of p at which EM for a problem that is not concave counts as stationary."""

FEW_CLASSES = 64
"""Up to here the whole Hessian is cheap, and vectors of length n are not small beside the data."""

ROWS_PER_CLASS = 20
MIN_ROWS = 4096
"""Rows of the Hessian's sample, the cheapest overall in measurements at K = 100 to 1000."""

MANY_CLASSES = 500
"""Above this, sparse rows are solved without a Hessian: three times as fast at K = 1000 and five
times at K = 2000, measured with 50 scores per row."""

LEAPS = 4
"""Extrapolations before Newton's steps; more gain little (measured at K = 10,000)."""

LEAST_SHARE = 0.1
"""Extrapolation leaves each class at least this share of what the EM step gives it."""

LEAST_LEFT = 0.01
"""Share of its prior that a class keeps in any one step."""

MARGIN = 0.01
"""Where EM only just reaches the tolerance, one Newton step follows to get well within it."""

CHUNK_BYTES = 2**21
"""Newton matrices of one chunk of groups: several copies of them fit into a cache (measured)."""

STACK_BYTES = 2**23
"""Rows stacked at once; a group with more goes to the solver of one problem."""

ALIKE = 1.25
"""Groups are stacked with others up to this many times their size: at most a fifth is padding."""

ROWS_FIRST, FEWER_ROWS, SHRINK = 2000, 8, 8
"""Rows a class of a sample that is solved first, if it has so many times fewer rows, and what its
steps must divide the gap by."""

MODEL_STEPS = 3
"""Newton's steps on a corrected sample: the first one is that of all rows."""

MOST_CORRECTED = 10
"""Where so many passes do not certify, EM may: classes that hardly mix (measured)."""

MOST_STEPS = 15
MOST_TRIES = 4
"""Two to four full steps are usually enough; if not, the interior point is safer."""

MOST_KEPT, CLASSES_PER_STEP = 5, 20
"""A new Hessian costs so many other steps at most, and one for so many classes (measured)."""


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
    K = problem.excess.shape[-1]
    p = np.full(K, 1 / K)
    if start is not None:  # off the boundary: a class at 0 could never come back
        p = np.maximum(start, LEAST_START / K)
        p /= p.sum()
    with single_threaded_blas():
        if isinstance(problem, Mixtures):
            return _maximise_stack(problem, p, tol, max_iter)
        n = problem.A.shape[0]
        if n == 0:
            pull = np.maximum(problem.excess, 0)
            return Solution(pull / pull.sum() if pull.any() else p, "direct")
        if (problem.excess < 0).any():
            return _fixed_point(problem, p, max_iter)
        # Newton's matrix is of all rows where it is cheap, or else of a sample
        n_rows = n if K <= FEW_CLASSES else min(n, max(ROWS_PER_CLASS * K, MIN_ROWS))
        wide = isinstance(problem.A, SparseTable) and problem.A.shape[1] > MANY_CLASSES
        if wide:
            point, n_iter = leap(problem, p, tol, max_iter, enough=tol)
        else:
            point, n_iter = _newton(problem, p, tol, max_iter, n_rows)
        if n_iter < max_iter and not (point.exact and point.gap <= tol):
            curvature = (MatrixFree if wide else Curvature)(problem, n_rows)
            point, more = interior_point(problem, point.p, tol, max_iter - n_iter, curvature)
            n_iter += more
        if not point.exact:  # out of iterations, yet the gap must be true
            point, n_iter = problem.at(point.p), n_iter + 1
        if n_rows == n:  # classes that the solution only approaches are 0, if that stays certified
            leaving = (point.p < 1 - point.gradient / problem.total) & (problem.excess == 0)
            if leaving.any() and not leaving.all():  # all, where the tolerance is loose
                p = np.where(leaving, 0.0, point.p)
                rounded = problem.at(p / p.sum())
                point = rounded if rounded.gap <= max(tol, point.gap) else point
            n_iter += 1
    mass = point.p.sum()
    objective = point.objective - problem.total * float(np.log(mass))  # f(cp) = f(p) + T log c
    return Solution.judged(point.p / mass, point.gap, tol, n_iter, objective)


def leap(
    problem: Mixture, start: Vector, tol: float, max_iter: int, *, enough: float
) -> tuple[Point, int]:
    """Take EM steps, extrapolated in pairs; return the last point and the evaluations.

    Between a pair it ends only with a gap of at most `enough`.
    """
    point, n_iter, left, soon = problem.at(start, exact=False), 1, LEAPS, True
    few = min(MOST_KEPT, problem.n_classes // CLASSES_PER_STEP)
    while n_iter + 3 <= max_iter and point.gap > tol and (left > 0 or soon):
        middle = problem.at(em_step(problem, point), exact=False)
        n_iter += 1
        if middle.gap <= enough:
            return middle, n_iter
        end = em_step(problem, middle)
        ahead = problem.at(extrapolate(point.p, middle.p, end), exact=False)
        n_iter += 1
        if not ahead.objective >= middle.objective:
            ahead, n_iter = problem.at(end, exact=False), n_iter + 1
        soon = ahead.gap < point.gap and ahead.gap * (ahead.gap / point.gap) ** few <= tol
        point, left = ahead, left - 1
    return point, n_iter


def em_step(problem: Mixture, point: Point) -> Vector:
    """Return p g / T, which never lowers f, with classes kept that it would set to 0."""
    new = point.p * point.gradient / problem.total
    if new.all():
        return new
    new = np.maximum(new, LEAST_LEFT * point.p)  # a class at 0 could never come back
    return new / new.sum()


def extrapolate(first: Vector, second: Vector, third: Vector) -> Vector:
    """Guess where three steps in a row lead to (SQUAREM); columns of a matrix sum to 1 again.

    Nothing falls to less than `LEAST_SHARE` of the third step, and what is 0 stays 0.
    """
    step, bend = second - first, third - 2 * second + first
    turn = math.sqrt(np.vdot(bend, bend))
    length = max(math.sqrt(np.vdot(step, step)) / turn, 1.0) if turn > 0 else 1.0
    ahead = np.maximum(first + 2 * length * step + length**2 * bend, LEAST_SHARE * third)
    total = ahead.sum(axis=0)
    return np.divide(ahead, total, out=ahead, where=total > 0)


def _solve_sample(problem: Mixture, start: Vector, tol: float, max_iter: int) -> tuple[Point, int]:
    """Solve a sample of very many rows, and step from there by its Hessian while that is quick.

    Passes over all rows are then for gradients alone, and a few of them certify. It is slow where
    the sample misses the rows of a class that hardly mixes with others; EM is quick there.
    """
    sample = problem.thinned(problem.A.shape[0] // (ROWS_FIRST * problem.n_classes))
    p = maximise(sample, tol=tol, max_iter=max_iter, start=start).value
    p = np.maximum(p, LEAST_START / p.size)
    p /= p.sum()
    if getattr(problem.A, "dear", False) and problem.n_classes <= FEW_CLASSES:
        return _correct_sample(problem, sample, p, tol, max_iter)
    point, n_iter = problem.at(p), 2
    for rows in (sample, problem):
        previous = np.inf
        while tol < point.gap < previous / SHRINK and n_iter < max_iter:
            H, previous = rows.hessian(point.p), point.gap
            H /= rows.total
            p = np.maximum(point.p + _newton_step(problem, H, point), LEAST_LEFT * point.p)
            point, n_iter = problem.at(p), n_iter + 1
    return point, n_iter


def _correct_sample(
    problem: Mixture, sample: Mixture, p: Vector, tol: float, max_iter: int
) -> tuple[Point, int]:
    """Solve a sample with all rows' gradient and Hessian at the last point, until that certifies.

    Only the third derivatives are the sample's, so three passes over all rows usually suffice, and
    two Hessians. Where a model misleads, plain Newton steps follow.
    """
    (point, H), n_iter, share = problem.curved_at(p), 2, problem.total / sample.total
    fresh, steps = True, MODEL_STEPS
    while tol < point.gap < np.inf and n_iter < min(max_iter, MOST_CORRECTED):
        previous, near = point.gap, sample.at(point.p)
        pull = point.slope - share * near.slope
        if fresh:
            lacking = H - share * sample.hessian(near.p)
        for _ in range(steps):
            slope = share * near.slope + pull - lacking @ (near.p - point.p)
            here = near._replace(slope=slope, gradient=slope + problem.excess / near.p)
            model = share * sample.hessian(near.p) + lacking
            step = _newton_step(problem, model / problem.total, here)
            near = sample.at(np.maximum(near.p + step, LEAST_LEFT * near.p))
        fresh = n_iter == 2 or steps == 1
        if fresh:
            point, H = problem.curved_at(near.p)
        else:
            point = problem.at(near.p)
        n_iter += 1
        if point.gap > max(tol, previous / SHRINK):
            steps = 1
            if not fresh and n_iter < max_iter:
                (point, H), fresh, n_iter = problem.curved_at(point.p), True, n_iter + 1
    return point, n_iter


def _newton_step(problem: Mixture, H: Vector, point: Point) -> Vector:
    """Return Newton's step at a point for the likelihood's Hessian over T."""
    z = np.maximum(1 - point.slope / problem.total, TINY)
    solve = factorise(H, z / np.maximum(point.p, 1e-290))
    return solve(point.gradient / problem.total - 1)


def _newton(
    problem: Mixture, start: Vector, tol: float, max_iter: int, n_rows: int
) -> tuple[Point, int]:
    """Solve for alpha >= 1 if that is easy; return the best point and the number of evaluations.

    A Hessian is kept for the next step where that converges. One from a sample of rows is renewed
    once; then gradients correct it.
    """
    n_iter = 0
    if problem.A.shape[0] >= FEWER_ROWS * ROWS_FIRST * problem.n_classes and max_iter > 2:
        point, n_iter = _solve_sample(problem, start, tol, max_iter)
        if point.gap <= tol or n_iter >= max_iter:
            return point, n_iter
    exact, kept, n_fresh = n_rows >= problem.A.shape[0], False, 0
    enough = MARGIN * tol if exact else tol
    point, more = leap(problem, start, tol, max_iter - n_iter, enough=enough)
    best, n_iter, T = point, n_iter + more, problem.total
    few = min(MOST_KEPT, problem.n_classes // CLASSES_PER_STEP)
    for _ in range(MOST_STEPS):
        if not point.exact and point.gap <= max(tol, COARSE_GAP) and n_iter < max_iter:
            best = point = problem.at(point.p)
            n_iter += 1
        if n_iter >= max_iter or (point.exact and point.gap <= enough):
            break
        enough = tol
        if not kept:
            H = np.empty(0)  # make room for the new one
            H = problem.hessian(point.p, n_rows, point.slope)
            H /= T
            n_fresh += 1
        step = _newton_step(problem, H, point)
        for shortened in range(1 if kept else MOST_TRIES):  # until it helps
            p = np.maximum(point.p + SHORTEN**shortened * step, LEAST_LEFT * point.p)
            new, n_iter = problem.at(p, exact=point.exact), n_iter + 1
            # -f/T + sum p has its minimum over p >= 0 on the simplex
            fell = new.p.sum() - new.objective / T < point.p.sum() - point.objective / T
            if fell or new.gap < point.gap:
                break
        else:
            if kept and exact:
                kept = False
                continue
            break
        kept = new.gap < point.gap and new.gap * (new.gap / point.gap) ** few <= tol
        before, point = point, new
        best = point if point.gap < best.gap else best
        if not exact:
            if shortened:
                break
            step, change = point.p - before.p, (before.slope - point.slope) / T
            for vector, divisor in secant_terms(step, change, H @ step):
                H += np.outer(vector, vector / divisor)
            kept |= n_fresh > 1
    return best, n_iter


def _maximise_stack(problem: Mixtures, start: Vector, tol: float, max_iter: int) -> Solutions:
    """Step all groups together, in chunks; those that rounding stops short are solved alone."""
    G, K = problem.weights.shape[0], problem.excess.shape[1]
    if (n_parts := -(-G // max(1, CHUNK_BYTES // (8 * K * K)))) > 1:

        def kernel(part: slice) -> Solutions:
            chunk = problem.take(np.arange(part.start, part.stop))
            return _maximise_stack(chunk, start, tol, max_iter)

        parts = [vars(part) for part in map_rows(kernel, G, work=np.inf, n_parts=n_parts)]
        return Solutions(**{of: np.concatenate([part[of] for part in parts]) for of in parts[0]})
    p = np.tile(start, (G, 1))
    best, n_iter, _ = interior_points(problem, p, tol, max_iter, Curvatures())
    for g in np.flatnonzero(best.gap > tol).tolist():
        left = max_iter - int(n_iter[g])
        if left > 0:
            solution = maximise(problem.single(g), tol=tol, max_iter=left, start=start)
            n_iter[g] += solution.n_iter
            one = problem.take(np.array([g]))
            found = Points.at(one, np.maximum(solution.value, 0)[None], best.z[[g]])
            if found.gap[0] < best.gap[g]:
                best.put(np.array([g]), found)
    # classes that an interior point only approaches are 0, if that stays certified
    leaving = best.p < 1 - best.gradient / problem.total[:, None]
    p = np.where(leaving & (problem.excess == 0), 0.0, best.p)
    rounded = Points.at(problem, p / p.sum(axis=1, keepdims=True), best.z)
    keep = np.flatnonzero(rounded.gap <= np.maximum(tol, best.gap))
    best.put(keep, rounded.take(keep))
    value = best.p / best.p.sum(axis=1, keepdims=True)
    return Solutions.judged(value, np.maximum(best.gap, 0), tol, n_iter + 1)


def _fixed_point(problem: Mixture, p: Vector, max_iter: int) -> Solution:
    """Run EM for alpha < 1: a class whose expected count falls below 1 - alpha is dropped."""
    n_iter, change = 0, np.inf
    while n_iter < max_iter and change > STATIONARY:
        n_iter += 1
        point = problem.at(p)
        # a class needs a count above 1 - alpha; of those with less only the smaller half leaves in
        # one step, and never all of them: what they lose may save the others
        counts, alive = p * point.slope, p > 0
        new = np.where(alive, counts + problem.excess, 0.0)
        doomed = np.flatnonzero(alive & (new <= 0))
        new[doomed] = counts[doomed]
        n_leaving = min((doomed.size + 1) // 2, np.count_nonzero(alive) - 1)
        new[doomed[np.argsort(counts[doomed])[:n_leaving]]] = 0.0
        new /= new.sum()
        change, stay = float(np.abs(new - p).sum()), new > 0
        if not stay[p > 0].all():  # rows that only the classes that left explain go with them
            scale, alpha = np.where(stay, problem.scale, 0.0), 1 + problem.excess
            problem = Mixture(problem.A, scale=scale, weights=problem.weights, alpha=alpha)
        p = new
    status: Status = "stationary" if change <= STATIONARY else "not_converged"
    return Solution(p, status, None, n_iter, point.objective)


def maximise_by_group(
    A: Floats,
    codes: Indices,
    groups: Indices,
    *,
    scale: Vector,
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
        if slots.size > most:  # then it is the only group of its stack
            problem = Mixture(A[rows[0]], scale=scale, alpha=1 + excess)
            alone = maximise(problem, tol=tol, max_iter=max_iter, start=start)
            value[part], n_iter[part] = alone.value, alone.n_iter
            gap[part] = np.inf if alone.gap is None else alone.gap
            continue
        stack = A[rows].astype(np.float64, copy=False) * scale
        used = (filled & (stack.sum(axis=2) > 0)).astype(np.float64)
        problems = Mixtures(stack, used, excess)
        solved = maximise(problems, tol=tol, max_iter=max_iter, start=start)
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
