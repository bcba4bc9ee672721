r"""Newton's method for the mixture problem: primal-dual interior point with a certificate.

The constraint sum p = 1 goes into the objective: `min -f(p)/T + sum p, p >= 0` has the same
solution, since f(cp) = f(p) + T log c. With duals z of p >= 0, a Newton step solves

.. math:: (H/T + \mathrm{diag}(z/p))\, dp = \ell/T - 1 + (e_k/T + \mu)/p, \qquad p_k z_k = e_k/T +
    \mu, \quad \mu \to 0,

by Mehrotra's predictor and corrector on one factorisation. One problem, or as many as there are
groups, take the same steps: arrays have a first axis for problems, and a problem whose gap is small
enough takes no more of them. Here l and H are the likelihood's
gradient and Hessian; the hyper-prior e = alpha - 1 acts as a barrier that stays. H is exact where
that is cheap; otherwise it starts from a sample of rows and BFGS updates correct it.

For very many classes no matrix of classes by classes is ever formed. There :math:`H = B^T B`, and
row i of B is :math:`\sqrt{w_i} / (a_i \cdot p)` times :math:`a_i`: conjugate gradients need no more
than products with B and its transpose, which cost what the scores of the sampled rows do. Scaled to
a unit diagonal, few of them suffice where a class is confused with few others. They need not be
exact either: every point carries its own certificate, whatever led there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from priorshift._typing import Indices, Mask, Vector
from priorshift.solvers._mixture import Mixture, Mixtures, Point, Solver, factorise

LEAST_START = 1e-3
"""Each class starts from this share of equal priors at least: one near 0 blocks steps."""

COARSE_GAP = 0.1
"""Gap in nats up to which passes in float32 make progress; below it they add up in float64."""

SHORTEN = 0.3
CENTRE = 0.3
MAX_TRIES = 5
TINY = 1e-300
PATIENCE, GIVE_UP = 8, 30
"""Evaluations without halving the gap after which precision or sample size grow, or it ends."""

RIDGE = 1e-15
"""Added to a unit diagonal against rounding."""


class Alone:
    """One problem as a stack of its own."""

    def __init__(self, problem: Mixture) -> None:
        self.problem = problem
        self.total, self.excess = np.array([problem.total]), problem.excess[None]

    def take(self, groups: Indices) -> "Alone":  # noqa: ARG002
        """Return it."""
        return self

    def evaluate(self, p: Vector, *, exact: bool = True) -> tuple[Vector, Vector]:
        """Return the likelihood part of f and of its gradient."""
        likelihood, slope = self.problem.evaluate(p[0], exact=exact)
        return np.array([likelihood]), slope[None]


Stack = Alone | Mixtures
"""G problems with K unknowns each, solved together: a first axis for problems."""


@dataclass
class Points:
    """One point per problem, p > 0 and not yet scaled onto the simplex, with derivatives there."""

    p: Vector
    z: Vector
    likelihood: Vector
    slope: Vector
    gradient: Vector
    gap: Vector

    @classmethod
    def at(cls, stack: Stack, p: Vector, z: Vector, *, exact: bool = True) -> "Points":
        """Evaluate; the gap is that of p / sum p, as g(cp) = g(p) / c."""
        likelihood, slope = stack.evaluate(p, exact=exact)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            used = stack.excess != 0
            gradient = slope + np.divide(stack.excess, p, out=np.zeros_like(p), where=used)
            gap = (gradient * p.sum(axis=1)[:, None]).max(axis=1) - stack.total
        return cls(p, z, likelihood, slope, gradient, np.where(np.isnan(gap), np.inf, gap))

    def take(self, groups: Indices) -> "Points":
        """Return the points of some problems."""
        return Points(*(of[groups] for of in vars(self).values()))

    def put(self, groups: Indices, others: "Points") -> None:
        """Replace the points of some problems."""
        for name, of in vars(self).items():
            of[groups] = getattr(others, name)


def interior_point(
    problem: Mixture, start: Vector, tol: float, max_iter: int, curvature: "Curvature"
) -> tuple[Point, int]:
    """Solve one problem for alpha >= 1; return the best point and the number of evaluations."""
    exact = curvature.exact or problem.A.dtype == np.float64
    p = np.maximum(start, LEAST_START / start.size)[None]
    found, n_iter, exact = interior_points(
        Alone(problem), p / p.sum(), tol, max_iter, curvature, exact=exact
    )
    p, _, likelihood, slope, gradient, gap = (of[0] for of in vars(found).values())
    objective = float(likelihood + problem.excess @ np.log(np.maximum(p, TINY)))
    return Point(p, objective, slope, gradient, float(gap), exact), int(n_iter[0])


def interior_points(
    stack: Stack, start: Vector, tol: float, max_iter: int, curvature: Any, *, exact: bool = True
) -> tuple[Points, Indices, bool]:
    """Solve all problems of a stack from points above 0.

    Every problem steps until its gap is at most `tol` or its evaluations are used up. Returned are
    the best points, the evaluations per problem, and whether they were exact: points are evaluated
    in the precision of the data at first, if `exact` is False.
    """
    points, T = Points.at(stack, start, np.zeros_like(start), exact=exact), stack.total[:, None]
    mu = np.maximum(points.gap, tol)[:, None] / T / start.shape[1]
    points.z = np.maximum(1 - points.slope / T, (stack.excess / T + mu) / start)
    every = np.arange(start.shape[0])
    best, n_iter, waited, rounds = points.take(every), np.ones_like(every), np.zeros_like(every), 0
    while True:
        going = ((points.gap > tol) | (not exact)) & (n_iter < max_iter)
        if curvature.exact:
            going &= waited <= GIVE_UP  # rounding leaves no room for progress
        active = every[going]
        if not active.size:
            return best, n_iter, exact
        stalled = waited[active] > PATIENCE
        if not exact and (stalled.any() or points.gap.max() <= max(tol, COARSE_GAP)):
            exact, points = True, Points.at(stack, points.p, points.z)
            best, n_iter, waited = points.take(every), n_iter + 1, np.zeros_like(every)
            continue
        if stalled.any() and not curvature.exact:
            curvature.n_rows *= 2
            waited, rounds = np.zeros_like(every), 0
        part = stack.take(active)
        here = points if active.size == every.size else points.take(active)
        if curvature.exact or rounds < 2:
            curvature.refresh(here.p, here.slope, part)
        rounds += 1
        # a step is shortened until it helps. The corrector may point uphill: where its step fails,
        # a plain one follows that cannot. Correctors may also go in circles, which plain steps
        # cannot: they must lower the barrier objective
        at, corrected = np.arange(active.size), ~stalled
        for attempt in range(MAX_TRIES):
            if attempt < 2:
                T = part.total[:, None]
                solve = curvature.solver(here.z / here.p, at)
                use = corrected[at, None] if attempt == 0 else False
                pull, target = here.slope / T - 1, part.excess / T
                dp, dz, mu = direction(here.p, here.z, pull, target, solve, use)
                length, dual_length = reach(here.p, dp), reach(here.z, dz)
            p, z = here.p + length * dp, here.z + dual_length * dz
            new = Points.at(part, p, z, exact=exact)
            if not curvature.exact:
                curvature.learn((p - here.p)[0], (here.slope - new.slope)[0])
            n_iter[active[at]] += 1
            waited[active[at]] += 1
            good = (new.gap < here.gap) & corrected[at]
            if not good.all():
                good |= merit(part, new, mu) <= merit(part, here, mu)
            if good.all() and at.size == every.size:
                points = new
                break
            points.put(active[at[good]], new.take(np.flatnonzero(good)))
            if good.all():
                break
            bad = np.flatnonzero(~good)
            at, part, here = at[bad], part.take(bad), here.take(bad)
            dp, dz, mu = dp[bad], dz[bad], mu[bad]
            length, dual_length = SHORTEN * length[bad], SHORTEN * dual_length[bad]
        gap = points.gap[active]
        waited[active[gap < 0.5 * best.gap[active]]] = 0
        better = active[gap < best.gap[active]]
        best.put(better, points.take(better))


def merit(stack: Stack, points: Points, mu: Vector) -> Vector:
    """Return the barrier objective that a step at this mu should lower."""
    p = points.p
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.log(np.maximum(p, TINY))
        objective = points.likelihood + (stack.excess * log).sum(axis=1)
        return -objective / stack.total + p.sum(axis=1) - mu[:, 0] * log.sum(axis=1)


def direction(
    p: Vector,
    z: Vector,
    pull: Vector,
    target: Vector,
    solve: Solver,
    corrected: bool | Mask,
) -> tuple[Vector, Vector, Vector]:
    """Solve the Newton system twice: once straight ahead, once centred by how far that got.

    Without the correction, solve it once: the merit function at the mu returned falls that way.
    The last axis is that of classes; a first axis holds problems that are solved together.

    Parameters
    ----------
    p, z : ndarray of shape (..., K)
        The point and its duals.
    pull : ndarray of shape (..., K)
        l / T - 1.
    target : ndarray of shape (..., K)
        e / T, what p z should become.
    solve : callable
        Returns x with (H/T + diag(z/p)) x = b.
    corrected : bool, or ndarray of bool of shape (..., 1)

    Returns
    -------
    dp, dz : ndarray of shape (..., K)
    mu : ndarray of shape (..., 1)
    """

    def newton(aim: Vector) -> tuple[Vector, Vector]:
        dp = solve(pull + aim / p)
        return dp, aim / p - z - z / p * dp

    mu = np.maximum(np.abs(p * z - target).mean(axis=-1, keepdims=True), TINY)
    if not np.any(corrected):
        return *newton(target + CENTRE * mu), CENTRE * mu
    dp, dz = newton(target)
    ahead = (p + reach(p, dp, 1.0) * dp) * (z + reach(z, dz, 1.0) * dz)
    left = np.abs(ahead - target).mean(axis=-1, keepdims=True) / mu
    centred = np.where(corrected, np.minimum(left, 1.0) ** 3, CENTRE) * mu
    return *newton(target + centred - np.where(corrected, dp * dz, 0.0)), centred


def reach(v: Vector, dv: Vector, fraction: float = 0.99) -> Vector:
    """Return the largest step in (0, 1] that keeps `v + step * dv` above 0 by a fraction.

    One step for all of the last axis: shape (..., 1).
    """
    with np.errstate(over="ignore"):  # so slow that it never gets there
        room = np.divide(-v, dv, out=np.full_like(v, np.inf), where=dv < 0)
    return np.minimum(1.0, fraction * room.min(axis=-1, keepdims=True))


ACCURACY = 0.03
MOST_PRODUCTS = 100
"""Conjugate gradients end at this share of the residual, or after so many products."""


def secant_terms(step: Vector, change: Vector, predicted: Vector) -> list[tuple[Vector, float]]:
    """Return the v and c of the terms v v^T / c that BFGS adds to H.

    Along a step the gradient fell by `change`, where H said that it would fall by `predicted`.
    There are no terms where it hardly fell: H would not stay positive definite.
    """
    expected, seen = float(step @ predicted), float(step @ change)
    if seen > 1e-8 * expected > 0:
        return [(change, seen), (predicted, -expected)]
    return []


class Curvature:
    """The likelihood's Hessian over T: exact, or sampled and then learnt from gradients."""

    def __init__(self, problem: Mixture, n_rows: int) -> None:
        self.problem, self.n_rows = problem, n_rows

    @property
    def exact(self) -> bool:
        """Whether every Hessian is computed afresh from all rows."""
        return self.n_rows >= self.problem.A.shape[0]

    def refresh(self, p: Vector, slope: Vector, part: Any) -> None:  # noqa: ARG002
        """Compute the Hessian at a point with this gradient, from all rows or a sample of them."""
        self.H: Any = None  # make room for the new one
        self.H = self.problem.hessian(p[0], self.n_rows, slope[0])
        self.H /= self.problem.total

    def learn(self, step: Vector, change: Vector) -> None:
        """Correct H along a step by which the gradient fell so far (BFGS)."""
        change = change / self.problem.total
        for vector, divisor in secant_terms(step, change, self.H @ step):
            self.H += np.outer(vector, vector / divisor)

    def solver(self, diagonal: Vector, todo: Indices) -> Solver:  # noqa: ARG002
        """Return what solves (H + diag(diagonal)) x = b; the first axis of b has length 1."""
        solve = factorise(self.H, diagonal[0])
        return lambda b: solve(b[0])[None]


class MatrixFree(Curvature):
    """The same for very many classes: products with sampled rows B, and what gradients taught."""

    def refresh(self, p: Vector, slope: Vector, part: Any) -> None:  # noqa: ARG002
        """Compute the rows of the Hessian at a point, all of them or a sample."""
        self.rows: Any = None  # make room for the new ones
        self.rows = self.problem.hessian_rows(p[0], self.n_rows, slope[0])
        self.diagonal = self.rows.squares() / self.problem.total
        self.learnt: list[tuple[Vector, float]] = []

    def product(self, x: Vector) -> Vector:
        """Return H x, with the corrections c v v^T."""
        product = (self.rows @ x.astype(self.rows.dtype)) @ self.rows
        product = product.astype(np.float64) / self.problem.total
        for vector, factor in self.learnt:
            product += factor * float(vector @ x) * vector
        return product

    def learn(self, step: Vector, change: Vector) -> None:
        """Remember the same corrections as vectors."""
        change = change / self.problem.total
        for vector, divisor in secant_terms(step, change, self.product(step)):
            self.learnt.append((vector, 1 / divisor))
            more = self.diagonal + vector**2 / divisor
            self.diagonal = np.maximum(more, 1e-3 * self.diagonal)

    def solver(self, diagonal: Vector, todo: Indices) -> Solver:  # noqa: ARG002
        """Return a function that approximately solves (H + diag(diagonal)) x = b."""
        scale = 1 / np.sqrt(self.diagonal + diagonal[0])

        def scaled(x: Vector) -> Vector:
            x = scale * x
            return scale * (self.product(x) + diagonal[0] * x)

        return lambda b: (scale * conjugate_gradients(scaled, scale * b[0]))[None]


class Curvatures:
    """The Hessians of a stack over T, in one batch."""

    exact = True

    def refresh(self, p: Vector, slope: Vector, part: Mixtures) -> None:  # noqa: ARG002
        """Compute the Hessians of the problems that take a step."""
        self.H = part.hessian(p) / part.total[:, None, None]

    def solver(self, diagonal: Vector, todo: Indices) -> Solver:
        """Return what solves (H + diag(diagonal)) x = b of some of these problems."""
        H = self.H if todo.size == self.H.shape[0] else self.H[todo]
        scale = 1 / np.sqrt(np.einsum("gkk->gk", H) + diagonal)
        system = H * scale[:, :, None] * scale[:, None, :]
        np.einsum("gkk->gk", system)[:] = 1 + RIDGE
        return lambda b: scale * np.linalg.solve(system, (scale * b)[:, :, None])[:, :, 0]


def conjugate_gradients(
    product: Callable[[Vector], Vector],
    b: Vector,
    *,
    accuracy: float = ACCURACY,
    most: int = MOST_PRODUCTS,
) -> Vector:
    """Solve M x = b for a positive definite M that is known by its products.

    Examples
    --------
    >>> import numpy as np
    >>> M = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> conjugate_gradients(lambda x: M @ x, np.array([3.0, 4.0]), accuracy=1e-12).round(9)
    array([1., 1.])
    """
    x, residual = np.zeros_like(b), b.copy()
    direction, length = residual.copy(), float(b @ b)
    enough = accuracy**2 * length
    for _ in range(most):
        if length <= enough:
            break
        image = product(direction)
        curvature = float(direction @ image)
        if curvature <= 0:  # rounding, or corrections that contradict each other
            break
        x += length / curvature * direction
        residual -= length / curvature * image
        longer = float(residual @ residual)
        direction = residual + longer / length * direction
        length = longer
    return x if x.any() else b
