"""Cut rows into slices and work on them in our own threads, while BLAS runs on one thread each.

Rows are cut here and nowhere else, so that no pass over data needs a copy of them.

NumPy and SciPy may each bring a BLAS with its own pool of spinning threads; side by side they slow
each other down many times over, most of all on a busy machine. So parallel work is split by rows,
and every BLAS call inside it runs on one thread.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from ctypes import CDLL
from functools import cache, cached_property
from itertools import pairwise
from threading import RLock, local
from typing import Any, ClassVar, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from priorshift._typing import Floats, Vector

Part = TypeVar("Part")
Result = TypeVar("Result")

BLOCK_BYTES = 2**20
"""Float64 bytes of one block: large enough to amortise a call, small enough for the cache."""

N_PARTS = 8
"""Rows are always cut into this many parts, so that sums do not depend on the number of threads."""

SERIAL_WORK = 2**22
"""Multiplications below which starting threads costs more than it saves."""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, MMAP_BYTES, KEPT_BYTES = -1, -3, 2**17, 2**25
"""Parameters of glibc's `mallopt`, the threshold it starts with, and what a pass may keep."""


class LockFree(cached_property[Result]):
    """A property that is computed once per object, without a lock.

    Until Python 3.12, `functools.cached_property` holds one lock for all objects of a class. A
    child that is forked while another thread holds it waits forever. Here two threads may both
    compute a value, which is the same.

    Examples
    --------
    >>> class Squared:
    ...     def __init__(self, x):
    ...         self.x = x
    ...
    ...     @LockFree
    ...     def value(self):
    ...         print("computed")
    ...         return self.x**2
    >>> three = Squared(3)
    >>> three.value, three.value
    computed
    (9, 9)
    """

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        """Return the stored value, or compute and store it."""
        if instance is None or self.attrname is None:
            return super().__get__(instance, owner)
        stored = vars(instance)
        if self.attrname not in stored:
            stored[self.attrname] = self.func(instance)
        return stored[self.attrname]


def row_blocks(
    rows: int | slice,
    n_columns: int = 1,
    block_bytes: int = BLOCK_BYTES,
    *,
    n_rows: int | None = None,
) -> Iterator[slice]:
    """Cut rows, all of them or a part, into slices of at most `n_rows` each.

    By default, these are as many as have `block_bytes` of float64.

    Examples
    --------
    >>> list(row_blocks(5, n_rows=2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    >>> list(row_blocks(3, 1, block_bytes=16))
    [slice(0, 2, None), slice(2, 3, None)]
    """
    part = slice(0, rows) if isinstance(rows, int) else rows
    step = max(1, block_bytes // (8 * n_columns) if n_rows is None else n_rows)
    for start in range(part.start, part.stop, step):
        yield slice(start, min(start + step, part.stop))


def row_parts(n_rows: int, n_parts: int) -> list[slice]:
    """Cut all rows into a given number of consecutive slices, equal up to rounding.

    Examples
    --------
    >>> row_parts(5, 2)
    [slice(0, 2, None), slice(2, 5, None)]
    """
    ends = [n_rows * part // n_parts for part in range(n_parts + 1)]
    return [slice(*pair) for pair in pairwise(ends)]


def map_rows(
    kernel: Callable[[slice], Result], n_rows: int, *, work: float, n_parts: int = N_PARTS
) -> list[Result]:
    """Apply a kernel to consecutive parts of the rows; return the results in order.

    `work` is roughly the total number of multiplications; small work is not split.

    Examples
    --------
    >>> map_rows(lambda rows: rows.stop - rows.start, 10, work=30)
    [10]
    >>> map_rows(lambda rows: rows.stop - rows.start, 10, work=1e9, n_parts=3)
    [3, 3, 4]
    """
    if work < SERIAL_WORK:
        return [kernel(slice(0, n_rows))]
    return map_parts(kernel, row_parts(n_rows, n_parts))


def map_parts(kernel: Callable[[Part], Result], parts: list[Part]) -> list[Result]:
    """Apply a kernel to each part, in threads; return the results in order."""
    with single_threaded_blas(), ThreadPoolExecutor(min(n_threads(), len(parts))) as pool:
        return list(pool.map(kernel, parts))


def times(block: Any, x: Floats) -> Any:
    """Return `block @ x` in the precision of the block.

    In float32, NumPy's warning of invalid values is switched off: for five columns, OpenBLAS 0.3.31
    on AVX-512 also multiplies stack memory that it never wrote. The product is right, but what
    happens to lie there may raise the floating-point flag.
    """
    if block.dtype == np.float64:
        return block @ x
    with np.errstate(invalid="ignore"):
        return block @ x.astype(block.dtype, copy=False)


def multiply(A: Floats, x: Vector) -> Vector:
    """Return `A @ x` in the precision of A, by parts of the rows, as float64."""
    if A.size < SERIAL_WORK:
        product: Vector = times(A, x).astype(np.float64, copy=False)
        return product
    factor = x.astype(A.dtype)
    parts = map_rows(lambda rows: times(A[rows], factor), A.shape[0], work=A.size)
    return np.concatenate(parts).astype(np.float64, copy=False)


@contextmanager
def memory_kept() -> Iterator[None]:
    """Let freed memory be used again in a process that was told to give it back at once.

    Dask starts its workers so (`MALLOC_TRIM_THRESHOLD_`). Then every temporary array of every block
    is cleared and mapped anew by the system, which takes twice the time of the work itself.
    """
    trim = os.environ.get("MALLOC_TRIM_THRESHOLD_", "")
    mallopt = getattr(CDLL(None), "mallopt", None) if trim.isdigit() else None
    if mallopt is None:
        yield
        return
    try:
        mallopt(M_MMAP_THRESHOLD, KEPT_BYTES)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        yield
    finally:
        mallopt(M_MMAP_THRESHOLD, MMAP_BYTES)
        mallopt(M_TRIM_THRESHOLD, int(trim))


def n_threads() -> int:
    """Return how many CPUs this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


class _Own(local):
    """How many of the users belong to this thread."""

    users = 0


class _Limit:
    """The users of BLAS on one thread, and what is limited: the last of them restores it.

    A process may be forked at any time. The child has only the thread that forked: nobody would
    release the locks of the others there, or restore their limits.
    """

    lock, own = RLock(), _Own()
    users = 0
    limited: ClassVar[list[tuple[Any, int]]] = []

    @classmethod
    def after_fork_in_child(cls) -> None:
        """Forget the users that the child does not have."""
        cls.lock = RLock()
        others, cls.users = cls.users - cls.own.users, cls.own.users
        if others and not cls.users and cls.limited:
            cls.set_threads()

    @classmethod
    def set_threads(cls, n_threads: int | None = None) -> None:
        """Set the threads of what is limited, or those that it had.

        Since version 3.8 threadpoolctl lets no other thread change OpenBLAS until a `with` ends:
        the one at the end changes nothing, and lets any thread restore the limits.
        """
        for blas, before in cls.limited:
            blas.set_num_threads(n_threads or before)
        with _controller().limit():
            pass


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit every BLAS to one thread; safe to nest and to enter from several threads."""
    with _Limit.lock:
        _Limit.users, _Limit.own.users = _Limit.users + 1, _Limit.own.users + 1
        if _Limit.users == 1:
            # one that runs on one thread anyway is skipped: for few rows even this costs time
            _Limit.limited = []
            for blas in _all_blas():
                if (n := blas.num_threads) != 1:
                    _Limit.limited.append((blas, n))
            if _Limit.limited:
                _Limit.set_threads(1)
    try:
        yield
    finally:
        with _Limit.lock:
            _Limit.users, _Limit.own.users = _Limit.users - 1, _Limit.own.users - 1
            if _Limit.users == 0 and _Limit.limited:
                _Limit.set_threads()


if hasattr(os, "register_at_fork"):  # not on Windows
    # a fork waits until no other thread changes limits; a child has a lock of its own
    os.register_at_fork(
        before=lambda: _Limit.lock.acquire(),
        after_in_parent=lambda: _Limit.lock.release(),
        after_in_child=_Limit.after_fork_in_child,
    )


@cache
def _controller() -> Any:
    return ThreadpoolController()


@cache
def _all_blas() -> list[Any]:
    return [library for library in _controller().lib_controllers if library.user_api == "blas"]
