r"""Linear systems, and the condition number that says what their solution is worth.

Very many classes are solved without a dense matrix. A confusion matrix S in which few classes share
cells is factorised as it is (SuperLU), and a rest that is spread evenly, :math:`S + b\,t^T`, needs
one more solution (Sherman and Morrison). Where the matrix is singular, or so full that its factors
would not be sparse, LSMR (Fong and Saunders, 2011) finds the pseudo-inverse's solution by products.
"""

import warnings
from functools import singledispatch
from typing import Any

import numpy as np
from scipy.linalg.lapack import dgecon, dgetrf
from scipy.sparse.linalg import LinearOperator, lsmr, onenormest, splu

from priorshift._typing import Mask, Vector
from priorshift.border import SparseBlock
from priorshift.exceptions import ConvergenceWarning, warn_user
from priorshift.solvers._mixture import Solver

MOST_SCORES = 200
"""Cells of a class, on average, up to which factors stay sparse."""

ACCURACY = 1e-14
MOST_STEPS = 2000
"""LSMR ends at this relative residual, or after so many steps."""

RESIDUAL = 1e-9
"""Relative residual of a factorisation that is no longer to be trusted."""

MOVED = 1e-6
"""Entry of a unit vector above which it is no rounding error."""

LARGEST_CONDITION = 1e13
"""Beyond it, a matrix counts as singular."""


@singledispatch
def condition_number(M: Any) -> float:
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
    values = np.linalg.svd(M, compute_uv=False)
    full = M.shape[0] >= M.shape[1] and values[-1] > _cutoff(M) * values[0]
    return float(values[0]), float(values[-1]) if full else 0.0


@singledispatch
def solve_linear(M: Any, q: Vector) -> Vector:
    """Return `M^-1 q`, by the pseudo-inverse where M is singular or not square.

    Examples
    --------
    >>> import numpy as np
    >>> solve_linear(np.array([[0.8, 0.2], [0.2, 0.8]]), np.array([1.0, 0.0]))
    array([ 1.33333333, -0.33333333])
    """
    if M.shape[0] == M.shape[1] and np.isfinite(condition_number(M)):
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


@singledispatch
def is_singular(M: Any) -> bool:
    """Tell whether some columns of M are mixtures of others, at the price of one factorisation.

    Examples
    --------
    >>> import numpy as np
    >>> is_singular(np.array([[0.8, 0.2], [0.2, 0.8]])), is_singular(np.full((2, 2), 0.5))
    (False, True)
    """
    if M.shape[0] == M.shape[1]:
        factors, _, failed = dgetrf(M)
        inverse_condition, _ = dgecon(factors, float(np.abs(M).sum(axis=0).max()))
        if not failed and inverse_condition > 10 * M.shape[0] * _cutoff(M):  # far from it
            return False
    return bool(np.isinf(condition_number(M)))


@is_singular.register
def _(M: SparseBlock) -> bool:
    """Tell what empty rows tell: fewer rows than columns."""
    return int(np.count_nonzero(M.squares())) < M.shape[1]


@singledispatch
def undetermined(M: Any) -> Mask:
    """Tell which unknowns of `M x = q` may change while q stays: those that its null space moves.

    Examples
    --------
    >>> import numpy as np
    >>> undetermined(np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]))
    array([ True,  True, False])
    """
    _, values, rows = np.linalg.svd(M)
    rank = np.count_nonzero(values > _cutoff(M) * values[0])
    moved: Mask = np.abs(rows[rank:]).max(axis=0, initial=0.0) > MOVED
    return moved


def _cutoff(M: Vector) -> float:
    """Relative size up to which a singular value is rounding error."""
    return max(M.shape) * float(np.finfo(np.float64).eps)


@undetermined.register
def _(M: SparseBlock) -> Mask:
    """Name none: it would take a dense decomposition."""
    return np.zeros(M.shape[1], dtype=bool)


@solve_linear.register
def solve_sparse(M: SparseBlock, q: Vector) -> Vector:
    """Return the solution of `M x = q`, that of least squares where M is singular or not square.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from priorshift.border import SparseBlock
    >>> M = SparseBlock(csr_array([[0.8, 0.2], [0.2, 0.8]]))
    >>> solve_sparse(M, np.array([1.0, 0.0])).round(9)
    array([ 1.33333333, -0.33333333])
    """
    M = M.astype(np.float64, copy=False)
    if np.isfinite(sparse_condition(M)):
        solve = _factorised(M)
        if solve is not None:
            x = solve(q)
            x += solve(q - M @ x)  # once more for what rounding left
            if np.linalg.norm(q - M @ x) <= RESIDUAL * np.linalg.norm(q):
                return x
    x, stopped, n_iter, *_ = _lsmr(M, q)
    if stopped == 7:
        warn_user(
            f"the equations of {M.shape[1]} classes are not solved after {n_iter} steps, which go "
            "no further: the confusion matrix hardly tells some classes apart. Methods that "
            "maximise a likelihood need no inverse.",
            ConvergenceWarning,
        )
    return x


@condition_number.register
def sparse_condition(M: SparseBlock) -> float:
    """Estimate the condition number in the 1-norm, infinite where M is singular.

    For matrices too full to be factorised it is that of least squares, seen from below.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from priorshift.border import SparseBlock
    >>> round(sparse_condition(SparseBlock(csr_array([[0.8, 0.2], [0.2, 0.8]]))), 3)
    1.667
    """
    M = M.astype(np.float64, copy=False)
    if M.shape[0] < M.shape[1] or not (M.squares().all() and M.T.squares().all()):
        return np.inf
    if M.shape[0] > M.shape[1] or M.csr.nnz > MOST_SCORES * M.shape[1]:
        drawn = np.random.default_rng(0).standard_normal(M.shape[0])
        condition = float(_lsmr(M, drawn)[6])
    else:
        solve, across = _factorised(M), _factorised(M.T)
        if solve is None or across is None:
            return np.inf
        inverse = _operator(M.shape, solve, across)
        itself = _operator(M.shape, M.__matmul__, M.T.__matmul__)
        condition = float(onenormest(inverse)) * float(onenormest(itself))
    return condition if condition < LARGEST_CONDITION else np.inf


def _operator(shape: tuple[int, ...], matvec: Solver, rmatvec: Solver) -> LinearOperator:
    return LinearOperator(shape, matvec=matvec, rmatvec=rmatvec, dtype=np.dtype(np.float64))


def _factorised(M: SparseBlock) -> Solver | None:
    """Return what solves with M, or None where it is singular, not square or too full."""
    if M.shape[0] != M.shape[1] or M.csr.nnz > MOST_SCORES * M.shape[1]:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            factors = splu(M.csr.tocsc())
    except (RuntimeError, Warning):  # SuperLU's word for a singular matrix
        return None
    if M.base is None:
        return factors.solve
    of_base = factors.solve(M.base)
    trend = M._trend
    divisor = 1 + float(trend @ of_base)
    if not np.isfinite(of_base).all() or abs(divisor) < 1 / LARGEST_CONDITION:
        return None

    def with_rest(b: Vector) -> Vector:
        x = factors.solve(b.ravel())
        return x - of_base * (float(trend @ x) / divisor)

    return with_rest


def _lsmr(M: SparseBlock, q: Vector) -> tuple[Vector, int, int, float, float, float, float]:
    # the transpose in compressed rows, whose products are the faster ones
    operator = _operator(M.shape, M.__matmul__, M.T.__matmul__)
    return lsmr(operator, q, atol=ACCURACY, btol=ACCURACY, conlim=0, maxiter=MOST_STEPS)
