r"""Newton's steps for very many classes: no matrix of classes by classes is ever formed.

The interior point's steps solve with :math:`H/T + \mathrm{diag}(z/p)`. Here :math:`H = B^T B`, and
row i of B is :math:`\sqrt{w_i} / (a_i \cdot p)` times :math:`a_i`: conjugate gradients need no more
than products with B and its transpose, which cost what the scores of the sampled rows do. Scaled to
a unit diagonal, few of them suffice where a class is confused with few others. They need not be
exact either: every point carries its own certificate, whatever led there.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from priorshift._typing import Vector
from priorshift.execution import SparseBlock
from priorshift.solvers._mixture import Curvature, Point

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
