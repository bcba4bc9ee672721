r"""The mixture problem for very many classes: no matrix of classes by classes is ever formed.

Where K is large, EM's first steps do most of the work, and its last ones never end. So a few EM
steps come first, each two of them extrapolated (SQUAREM, Varadhan and Roland, 2008; never to a
lower likelihood), and then the interior point, whose steps solve with
:math:`H/T + \mathrm{diag}(z/p)`. Here :math:`H = B^T B`, and row i of B is :math:`\sqrt{w_i} / (a_i
\cdot p)` times :math:`a_i`: conjugate gradients need no more than products with B and its
transpose, which cost what the scores of the sampled rows do. Scaled to a unit diagonal, few of them
suffice where a class is confused with few others. They need not be exact either: every point
carries its own certificate, whatever led there.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from priorshift._typing import Vector
from priorshift.execution import SparseBlock
from priorshift.solvers._interior_point import Curvature, Point, interior_point
from priorshift.solvers._mixture import Mixture

MANY_CLASSES = 500
"""From here on, sparse rows are solved without a Hessian: at K = 1000 three times as fast, at
K = 2000 five times, measured with 50 scores a row."""

LEAPS = 5
"""Extrapolations before Newton's steps; more gain little (measured at K = 10,000)."""

LEAST_SHARE = 0.1
"""No class falls to less of what an EM step gives it by extrapolation."""

LEAST_LEFT = 0.01
"""Share of its prior that a class keeps in any one step."""

ACCURACY = 0.03
MOST_PRODUCTS = 100
"""Conjugate gradients end at this share of the residual, or after so many products."""


def matrix_free(problem: Mixture, start: Vector, tol: float, max_iter: int) -> tuple[Point, int]:
    """Solve for alpha >= 1; return the best point and the number of evaluations."""
    point, n_iter = leap(problem, start, tol, max_iter)
    if n_iter >= max_iter or (point.exact and point.gap <= tol):
        return point, n_iter
    curvature = MatrixFreeCurvature(problem)
    found, more = interior_point(problem, point.p, tol, max_iter - n_iter, curvature)
    return found, n_iter + more


def leap(problem: Mixture, start: Vector, tol: float, max_iter: int) -> tuple[Point, int]:
    """Take EM steps, each two of them extrapolated; return the last point and the evaluations."""
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
    """Return p g / T, which is never a worse point, but for classes that it would end at once."""
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


@dataclass
class Operator:
    """H / T as a product: sampled rows, and what gradients have taught since.

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

    def correct(self, vector: Vector, factor: float) -> None:
        """Add factor * vector vector^T."""
        self.learnt.append((vector, factor))
        self.diagonal = np.maximum(self.diagonal + factor * vector**2, 1e-3 * self.diagonal)


class MatrixFreeCurvature(Curvature):
    """The likelihood's Hessian over T for very many classes, as products with rows."""

    def __init__(self, problem: Mixture) -> None:
        super().__init__(problem)
        self.operator: Operator | None = None

    def refresh(self, point: Point) -> None:
        """Take the rows of the Hessian at a point, all of them or a sample."""
        self.operator = None  # make room for the new one
        n_rows = None if self.exact else self.n_rows
        rows = self.problem.hessian_rows(point.p, n_rows, point.likelihood_gradient)
        total = self.problem.total
        self.operator = Operator(rows, rows.squares() / total, total)

    def learn(self, before: Point, after: Point) -> None:
        """Correct H along the step between two points (BFGS)."""
        if self.exact or self.operator is None:
            return
        step = after.p - before.p
        change = (before.likelihood_gradient - after.likelihood_gradient) / self.problem.total
        predicted = self.operator @ step
        expected, seen = float(step @ predicted), float(step @ change)
        if seen > 1e-8 * expected > 0:
            self.operator.correct(change, 1 / seen)
            self.operator.correct(predicted, -1 / expected)

    def solver(self, diagonal: Vector) -> Callable[[Vector], Vector]:
        """Return what solves (H/T + diag(diagonal)) x = b, about."""
        assert self.operator is not None
        operator = self.operator
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
