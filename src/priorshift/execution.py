"""Kernels over rows, run in threads while BLAS's own threads are held back.

NumPy and SciPy may each carry a BLAS with its own pool of spinning threads; side by side they
slow each other down many times over, the more so on a busy machine. So parallel work is split
here, by rows, and each BLAS call inside runs on one thread.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from priorshift._typing import Floats, Vector

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
    ends = [n_rows * part // n_parts for part in range(n_parts + 1)]
    parts = [slice(*pair) for pair in pairwise(ends)]
    with single_threaded_blas(), ThreadPoolExecutor(min(n_threads(), n_parts)) as pool:
        return list(pool.map(kernel, parts))


def multiply(A: Floats, x: Vector) -> Vector:
    """Return `A @ x` in the precision of A, by parts of the rows, as float64."""
    factor = x.astype(A.dtype)
    parts = map_rows(lambda rows: A[rows] @ factor, A.shape[0], work=A.size)
    return np.concatenate(parts).astype(np.float64, copy=False)


def n_threads() -> int:
    """Return how many CPUs this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


class _BlasLimit:
    """Count who needs single-threaded BLAS, so that nested and concurrent users restore it once."""

    def __init__(self) -> None:
        self.lock, self.users = Lock(), 0
        self.limit: Any = None

    def enter(self) -> None:
        with self.lock:
            self.users += 1
            if self.users == 1:
                self.limit = _controller().limit(limits=1, user_api="blas")
                _hand_back_control()

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                self.limit.restore_original_limits()
                _hand_back_control()


_BLAS_LIMIT = _BlasLimit()


@cache
def _controller() -> Any:
    return ThreadpoolController()


def _hand_back_control() -> None:
    """Allow any thread to restore the limits, not only the one that set them.

    Since version 3.8 threadpoolctl lets no other thread change OpenBLAS until a `with` ends.
    """
    with _controller().limit():  # changes nothing
        pass


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold every BLAS at one thread; safe to nest and to enter from several threads."""
    _BLAS_LIMIT.enter()
    try:
        yield
    finally:
        _BLAS_LIMIT.leave()
