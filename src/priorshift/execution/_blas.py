"""BLAS's own threads, held back while rows are worked on in threads of ours.

NumPy and SciPy may each carry a BLAS with its own pool of spinning threads; side by side they
slow each other down many times over, the more so on a busy machine. So parallel work is split
by rows, and each BLAS call inside runs on one thread.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController


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
