"""Kernels over rows, run in threads while BLAS's own threads are held back."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import numpy as np

from priorshift._typing import Floats, Vector
from priorshift.execution._blas import n_threads, single_threaded_blas

Part = TypeVar("Part")
Result = TypeVar("Result")

N_PARTS = 8
"""Rows are always cut into as many parts, so that sums do not depend on the number of threads."""

SERIAL_WORK = 2**22
"""Multiplications below which starting threads costs more than it saves."""


def map_rows(
    kernel: Callable[[slice], Result], n_rows: int, *, work: float, n_parts: int = N_PARTS
) -> list[Result]:
    """Apply a kernel to consecutive parts of the rows; return the results in order.

    `work` is about how many multiplications all of it takes: little work is not split.

    Examples
    --------
    >>> map_rows(lambda rows: rows.stop - rows.start, 10, work=30)
    [10]
    >>> map_rows(lambda rows: rows.stop - rows.start, 10, work=1e9, n_parts=3)
    [3, 3, 4]
    """
    if work < SERIAL_WORK:
        return [kernel(slice(0, n_rows))]
    return map_parts(kernel, cut(n_rows, n_parts))


def map_parts(kernel: Callable[[Part], Result], parts: list[Part]) -> list[Result]:
    """Apply a kernel to each part, in threads; return the results in order."""
    with single_threaded_blas(), ThreadPoolExecutor(min(n_threads(), len(parts))) as pool:
        return list(pool.map(kernel, parts))


def cut(n_rows: int, n_parts: int) -> list[slice]:
    """Cut rows into consecutive parts of equal size, but for rounding."""
    ends = [n_rows * part // n_parts for part in range(n_parts + 1)]
    return [slice(*pair) for pair in pairwise(ends)]


def multiply(A: Floats, x: Vector) -> Vector:
    """Return `A @ x` in the precision of A, by parts of the rows, as float64."""
    factor = x.astype(A.dtype)

    def product(rows: slice) -> Floats:
        # BLAS may compute in lanes beyond a short row, and raise the flag for what stands there
        with np.errstate(invalid="ignore"):
            return A[rows] @ factor

    parts = map_rows(product, A.shape[0], work=A.size)
    return np.concatenate(parts).astype(np.float64, copy=False)
