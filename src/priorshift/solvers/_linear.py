"""Linear systems with the condition number that says what their solution is worth."""

import numpy as np

from priorshift._typing import Vector
from priorshift.execution import SparseBlock
from priorshift.solvers._sparse_linear import solve_sparse, sparse_condition


def condition_number(M: Vector | SparseBlock) -> float:
    """Return the ratio of the largest to the smallest singular value, infinite when singular.

    Examples
    --------
    >>> import numpy as np
    >>> round(condition_number(np.array([[0.8, 0.2], [0.2, 0.8]])), 3)
    1.667
    """
    if isinstance(M, SparseBlock):
        return sparse_condition(M)
    values = np.linalg.svd(M, compute_uv=False)
    smallest = float(values[-1]) if M.shape[0] >= M.shape[1] else 0.0
    return float(values[0]) / smallest if smallest > _cutoff(M) * values[0] else np.inf


def solve_linear(M: Vector | SparseBlock, q: Vector) -> Vector:
    """Return `M^-1 q`, by the pseudo-inverse where M is singular or not square.

    Examples
    --------
    >>> import numpy as np
    >>> solve_linear(np.array([[0.8, 0.2], [0.2, 0.8]]), np.array([1.0, 0.0]))
    array([ 1.33333333, -0.33333333])
    """
    if isinstance(M, SparseBlock):
        return solve_sparse(M, q)
    if M.shape[0] == M.shape[1] and np.isfinite(condition_number(M)):
        solution = np.linalg.solve(M, q)
    else:
        solution = np.linalg.lstsq(M, q, rcond=_cutoff(M))[0]
    return solution.astype(np.float64, copy=False)


def invert(C: Vector) -> Vector:
    """Return C^-1, or its pseudo-inverse where C is singular.

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


def _cutoff(M: Vector) -> float:
    """Relative size up to which a singular value is rounding error."""
    return max(M.shape) * float(np.finfo(np.float64).eps)
