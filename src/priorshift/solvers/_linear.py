"""Linear systems, what their solution is worth, and the way from there to the simplex."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg.lapack import dgecon, dgetrf, dgetrs

from priorshift._typing import Mask, Vector
from priorshift.border import SparseTable

DOMINANT_CLASSES, DOMINANT_STEPS = 200, 8
"""From so many classes on, so many products with a vector are tried before a factorisation."""

MANY_CLASSES = 500
"""Size from which on a factorisation and a few products are faster than all singular values."""


def condition_number(M: Vector) -> float:
    """Return the ratio of the largest to the smallest singular value, infinite when singular.

    Examples
    --------
    >>> import numpy as np
    >>> round(condition_number(np.array([[0.8, 0.2], [0.2, 0.8]])), 3)
    1.667
    """
    largest, smallest = singular_range(M)
    return largest / smallest if smallest else np.inf


def singular_range(M: Vector) -> tuple[float, float]:
    """Return the largest and the smallest singular value, 0 if that is rounding error.

    Examples
    --------
    >>> import numpy as np
    >>> [round(one, 3) for one in singular_range(np.array([[0.8, 0.2], [0.2, 0.8]]))]
    [1.0, 0.6]
    """
    if M.shape[0] > M.shape[1] > MANY_CLASSES:
        M = np.asarray(np.linalg.qr(M, mode="r"))  # has the same singular values
    if len(M) > MANY_CLASSES and (factors := _regular_factors(M)) is not None:
        from scipy.sparse.linalg import LinearOperator, eigsh

        def norm(product: Callable[[Vector], Vector]) -> float:
            operator = LinearOperator(M.shape, product, dtype=np.float64)
            (value,) = eigsh(operator, 1, v0=np.ones(len(M)), tol=1e-10, return_eigenvectors=False)
            return float(np.sqrt(value))

        inverse = norm(lambda x: dgetrs(*factors, dgetrs(*factors, x, trans=1)[0])[0])
        return norm(lambda x: M.T @ (M @ x)), 1 / inverse
    values = np.linalg.svd(M, compute_uv=False)
    full = M.shape[0] >= M.shape[1] and values[-1] > _cutoff(M) * values[0]
    return float(values[0]), float(values[-1]) if full else 0.0


def solve_linear(M: Vector, q: Vector, *, regular: bool | None = None) -> Vector:
    """Return `M^-1 q`, by the pseudo-inverse where M is singular or not square.

    Who knows its condition number says whether it is `regular`, which else costs most of the time.

    Examples
    --------
    >>> import numpy as np
    >>> solve_linear(np.array([[0.8, 0.2], [0.2, 0.8]]), np.array([1.0, 0.0]))
    array([ 1.33333333, -0.33333333])
    """
    if regular is None:
        regular = np.isfinite(condition_number(M))
    if M.shape[0] == M.shape[1] and regular:
        solution = np.linalg.solve(M, q)
    else:
        solution = np.linalg.lstsq(M, q, rcond=_cutoff(M))[0]
    return solution.astype(np.float64, copy=False)


def invert(C: Vector) -> Vector:
    """Return C^-1, or its pseudo-inverse where C is singular or not square.

    Examples
    --------
    >>> import numpy as np
    >>> invert(np.array([[0.8, 0.2], [0.2, 0.8]])).round(3)
    array([[ 1.333, -0.333],
           [-0.333,  1.333]])
    """
    limit = _cutoff(C)
    try:
        inverse = np.linalg.inv(C).astype(np.float64, copy=False)
        with np.errstate(over="ignore"):  # an infinite norm is too large as well
            if np.linalg.norm(C) * np.linalg.norm(inverse) * limit < 1:
                return inverse
    except np.linalg.LinAlgError:
        pass
    return np.linalg.pinv(C, rcond=limit).astype(np.float64, copy=False)


def is_singular(M: Any) -> bool:
    """Tell whether some columns of M are mixtures of others, at the price of one factorisation.

    It costs less where the classifier is mostly right.
    Of a `SparseTable`, empty rows tell: fewer rows than columns.

    Examples
    --------
    >>> import numpy as np
    >>> is_singular(np.array([[0.8, 0.2], [0.2, 0.8]])), is_singular(np.full((2, 2), 0.5))
    (False, True)
    """
    if isinstance(M, SparseTable):
        return int(np.count_nonzero(M.T.squares())) < M.shape[1]
    if _is_dominant(M) or _regular_factors(M) is not None:
        return False
    return bool(np.isinf(condition_number(M)))


def _is_dominant(M: Vector) -> bool:
    r"""Tell whether the diagonal outweighs every row under some weights: M is regular then.

    With :math:`r_i = |m_{ii}| x_i - \sum_{j \ne i} |m_{ij}| x_j > 0` for an x > 0, no entry of
    :math:`M^{-1}` exceeds :math:`\max x / \min r`. Steps x <- |D^{-1} (M - D)| x find such weights.
    """
    if M.shape[0] != M.shape[1] or len(M) < DOMINANT_CLASSES:
        return False
    M = np.abs(M)
    diagonal, x = M.diagonal(), np.ones(len(M))
    if not diagonal.all():
        return False
    norm = float(M.sum(axis=1).max())
    for _ in range(DOMINANT_STEPS):
        others = M @ x - diagonal * x
        if float((diagonal * x - others).min()) > 10 * len(M) * _cutoff(M) * norm * float(x.max()):
            return True
        x = others / diagonal
        x = np.maximum(x, 1e-3 * x.max())
    return False


def _regular_factors(M: Vector) -> tuple[Vector, Vector] | None:
    """Return the LU factors and pivots of a square matrix that is far from singular, else None."""
    if M.shape[0] != M.shape[1]:
        return None
    norm = float(np.abs(M).sum(axis=0).max())  # first: its copy goes before the factors come
    factors, pivots, failed = dgetrf(M)
    inverse_condition, _ = dgecon(factors, norm)
    far = not failed and inverse_condition > 10 * M.shape[0] * _cutoff(M)
    return (factors, pivots) if far else None


def undetermined(M: Any) -> Mask:
    """Tell which unknowns of `M x = q` may change while q stays: those that its null space moves.

    Of a `SparseTable` none is named: it would take a dense decomposition.

    Examples
    --------
    >>> import numpy as np
    >>> undetermined(np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]))
    array([ True,  True, False])
    """
    if isinstance(M, SparseTable):
        return np.zeros(M.shape[1], dtype=bool)
    _, values, rows = np.linalg.svd(M)
    rank = np.count_nonzero(values > _cutoff(M) * values[0])
    moved: Mask = np.abs(rows[rank:]).max(axis=0, initial=0.0) > 1e-6  # more than rounding
    return moved


def _cutoff(M: Vector) -> float:
    """Relative size up to which a singular value is rounding error."""
    return max(M.shape) * float(np.finfo(np.float64).eps)


def project_simplex(v: Vector) -> Vector:
    r"""Project onto the simplex, to the nearest point, column by column.

    .. math:: \operatorname*{argmin}_p \|p - v\|_2 \quad\text{s.t.}\quad p \ge 0,\ 1^T p = 1

    which is :math:`p = \max(v - \theta, 0)` with the :math:`\theta` that makes p sum to 1
    (Held, Wolfe and Crowder, 1974; Wang and Carreira-Perpinan, 2013).

    Parameters
    ----------
    v : ndarray of shape (K,) or (K, n_vectors)
        One vector, or several as columns.

    Returns
    -------
    ndarray of the same shape

    Examples
    --------
    >>> import numpy as np
    >>> project_simplex(np.array([0.8, 0.6, -1.0]))
    array([0.6, 0.4, 0. ])
    """
    v = v - v.max(axis=0)  # a shift of v changes nothing but rounding
    descending = -np.sort(-v, axis=0)
    excess = np.cumsum(descending, axis=0) - 1
    rank = np.arange(1, v.shape[0] + 1).reshape(-1, *[1] * (v.ndim - 1))
    n_positive = np.count_nonzero(descending * rank > excess, axis=0)
    theta = (
        np.take_along_axis(excess, np.atleast_1d(n_positive)[None] - 1, axis=0)
        if (v.ndim > 1)
        else excess[n_positive - 1]
    )
    return np.maximum(v - theta / n_positive, 0)


def clip_to_simplex(raw: Vector) -> Vector:
    """Set negative entries to 0 and scale to sum 1, by row; a row without any left is uniform."""
    clipped = np.maximum(raw, 0)
    clipped[clipped.max(axis=-1) < np.finfo(np.float64).tiny] = 1.0  # subnormal sums divide badly
    return np.asarray(clipped / clipped.sum(axis=-1, keepdims=True))
