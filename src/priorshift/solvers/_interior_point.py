r"""Newton's method for the mixture problem: primal-dual interior point with a certificate.

The constraint sum p = 1 goes into the objective: `min -f(p)/T + sum p, p >= 0` has the same
solution, since f(cp) = f(p) + T log c. With duals z of p >= 0, a Newton step solves

.. math:: (H/T + \mathrm{diag}(z/p))\, dp = \ell/T - 1 + (e_k/T + \mu)/p, \qquad p_k z_k = e_k/T +
    \mu, \quad \mu \to 0,

by Mehrotra's predictor and corrector on one factorisation. Here l and H are the likelihood's
gradient and Hessian; the hyper-prior e = alpha - 1 acts as a barrier that stays. H is exact where
that is cheap; otherwise it starts from a sample of rows and BFGS updates correct it.

For very many classes no matrix of classes by classes is ever formed. There :math:`H = B^T B`, and
row i of B is :math:`\sqrt{w_i} / (a_i \cdot p)` times :math:`a_i`: conjugate gradients need no more
than products with B and its transpose, which cost what the scores of the sampled rows do. Scaled to
a unit diagonal, few of them suffice where a class is confused with few others. They need not be
exact either: every point carries its own certificate, whatever led there.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from priorshift._typing import Mask, Vector
from priorshift.border import SparseBlock
from priorshift.solvers._mixture import Curvature, Mixture, Point, inside, merit

COARSE_GAP = 0.1
"""Gap in nats up to which passes in float32 make progress; below it they add up in float64."""

TO_BOUNDARY = 0.99
SHORTEN = 0.3
CENTRE = 0.3
MAX_TRIES = 5
TINY = 1e-300
PATIENCE = 8
GIVE_UP = 30
"""Evaluations without halving the gap after which precision or sample size grow, or it ends."""


def interior_point(
    problem: Mixture,
    start: Vector,
    tol: float,
    max_iter: int,
    curvature: Curvature | None = None,
) -> tuple[Point, int]:
    """Solve for alpha >= 1; return the best point and the number of evaluations."""
    curvature = Curvature(problem) if curvature is None else curvature
    point = Point.at(problem, inside(start), exact=curvature.exact)
    n_iter, best, waited, rounds = 1, point, 0, 0
    target = problem.excess / problem.total
    mu = max(point.gap, tol) / problem.total / start.size
    z = np.maximum(1 - point.likelihood_gradient / problem.total, (target + mu) / point.p)
    while n_iter < max_iter and not (point.exact and point.gap <= tol):
        stalled = waited > PATIENCE
        if not point.exact and (stalled or point.gap <= max(tol, COARSE_GAP)):
            best = point = Point.at(problem, point.p, exact=True)
            n_iter, waited = n_iter + 1, 0
            continue
        if stalled and not curvature.exact:
            curvature.n_rows *= 2
            waited, rounds = 0, 0
        if curvature.exact or rounds < 2:
            curvature.refresh(point)
        rounds += 1
        # correctors may go in circles, which plain steps cannot
        point, z, tries = _step(problem, curvature, point, z, corrected=not stalled)
        n_iter += tries
        waited = 0 if point.gap < 0.5 * best.gap else waited + tries
        best = min(best, point, key=lambda at: at.gap)
        if waited > GIVE_UP and curvature.exact:
            break  # rounding leaves no room for progress
    return best, n_iter


def _step(
    problem: Mixture, curvature: Curvature, point: Point, z: Vector, *, corrected: bool
) -> tuple[Point, Vector, int]:
    """Take one step, shortened until it helps; return the new point, duals and evaluations.

    The corrector may point uphill: where its step fails, a plain one follows that cannot.
    """
    for tries in range(1, MAX_TRIES + 1):
        if tries <= 2:
            dp, dz, mu = _direction(
                problem, curvature, point, z, corrected=corrected and tries == 1
            )
            length, dual_length = reach(point.p, dp), reach(z, dz)
        new = Point.at(problem, point.p + length * dp, exact=point.exact)
        curvature.learn(point, new)
        if new.gap < point.gap or merit(problem, new, mu) <= merit(problem, point, mu):
            return new, z + dual_length * dz, tries
        length, dual_length = SHORTEN * length, SHORTEN * dual_length
    return point, z, tries


def _direction(
    problem: Mixture, curvature: Curvature, point: Point, z: Vector, *, corrected: bool
) -> tuple[Vector, Vector, float]:
    """Return the Newton step in p and z, and the mu that it aims at."""
    p, T = point.p, problem.total
    pull, target = point.likelihood_gradient / T - 1, problem.excess / T
    dp, dz, mu = direction(p, z, pull, target, curvature.solver(z / p), corrected)
    return dp, dz, float(mu[0])


def direction(
    p: Vector,
    z: Vector,
    pull: Vector,
    target: Vector,
    solve: Callable[[Vector], Vector],
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


def reach(v: Vector, dv: Vector, fraction: float = TO_BOUNDARY) -> Vector:
    """Return the largest step in (0, 1] that keeps `v + step * dv` above 0 by a fraction.

    One step for all of the last axis: shape (..., 1).
    """
    with np.errstate(over="ignore"):  # so slow that it never gets there
        room = np.divide(-v, dv, out=np.full_like(v, np.inf), where=dv < 0)
    return np.minimum(1.0, fraction * room.min(axis=-1, keepdims=True))


MANY_CLASSES = 500
"""Above this, sparse rows are solved without a Hessian: three times as fast at K = 1000 and five
times at K = 2000, measured with 50 scores per row."""

ACCURACY = 0.03
MOST_PRODUCTS = 100
"""Conjugate gradients end at this share of the residual, or after so many products."""


@dataclass
class Operator:
    """H / T as a product: sampled rows, and the corrections learned from gradients.

    Attributes
    ----------
    rows : SparseBlock of shape (m, K)
        B, of float32 or float64.
    diagonal : ndarray of shape (K,)
        Of H / T.
    total : float
        T.
    learnt : list of (ndarray, float)
        Vectors v and factors c of the corrections c v v^T.
    """

    rows: SparseBlock
    diagonal: Vector
    total: float
    learnt: list[tuple[Vector, float]] = field(default_factory=list)

    def __matmul__(self, x: Vector) -> Vector:
        product = (self.rows @ x.astype(self.rows.dtype)) @ self.rows
        product = product.astype(np.float64) / self.total
        for vector, factor in self.learnt:
            product += factor * float(vector @ x) * vector
        return product

    def correct(self, vector: Vector, divisor: float) -> None:
        """Add vector vector^T / divisor."""
        factor = 1 / divisor
        self.learnt.append((vector, factor))
        self.diagonal = np.maximum(self.diagonal + factor * vector**2, 1e-3 * self.diagonal)


class MatrixFreeCurvature(Curvature):
    """The likelihood's Hessian over T for very many classes, as products with rows."""

    def refresh(self, point: Point) -> None:
        """Compute the rows of the Hessian at a point, all of them or a sample."""
        self.H = None  # make room for the new one
        rows = self.problem.hessian_rows(point.p, self.sampled, point.likelihood_gradient)
        total = self.problem.total
        self.H = Operator(rows, rows.squares() / total, total)

    def _correct(self, vector: Vector, divisor: float) -> None:
        self.H.correct(vector, divisor)

    def solver(self, diagonal: Vector) -> Callable[[Vector], Vector]:
        """Return a function that approximately solves (H/T + diag(diagonal)) x = b."""
        operator: Operator = self.H
        scale = 1 / np.sqrt(operator.diagonal + diagonal)

        def product(x: Vector) -> Vector:
            x = scale * x
            return scale * (operator @ x + diagonal * x)

        return lambda b: scale * conjugate_gradients(product, scale * b)


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
