"""One pass over rows, wherever they are: apply a kernel to blocks and add up what it returns."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

from priorshift._blocks import BLOCK_BYTES, row_parts
from priorshift._typing import Floats, Vector
from priorshift.execution import _threads
from priorshift.execution._tables import Block, Blocks, Table, slices

Rows = Floats | Table
"""Predictions for estimators and solvers: an array or a table."""

Kernel = Callable[[Block, slice], Any]
"""A function of a block and its rows. Returns numbers, arrays, lists, or a tuple of these."""

Watcher = Callable[[int, int], None]
"""Called during every pass over a table with the rows in all, and how many more are done."""

_WATCHER: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


def map_reduce(
    kernel: Kernel,
    data: Rows,
    *,
    work: float | None = None,
    block_bytes: int = BLOCK_BYTES,
    n_parts: int = _threads.N_PARTS,
    exact: bool = False,
) -> Any:
    """Apply a kernel to blocks of rows and add up the results, arrays in float64.

    Threads work on an array or a table on this machine; the workers of a cluster on the chunks they
    hold. The cuts, and so the sums, do not depend on the number of threads or workers. Lists are
    joined in the order of the rows. A kernel must not keep its block; for a cluster it must be
    picklable and small.

    Parameters
    ----------
    kernel : callable
        Called with a block and its rows as a slice.
    data : ndarray or Table
    work : float, optional
        Roughly the number of multiplications in all, by default one per number: little work is
        not split.
    block_bytes : int
        Float64 bytes of a block.
    n_parts : int
        Number of parts that an array is cut into.
    exact : bool, default=False
        Whether to convert blocks to float64.

    Examples
    --------
    >>> import numpy as np
    >>> map_reduce(lambda block, rows: block.sum(axis=0), np.ones((5, 2), np.float32))
    array([5., 5.])
    """
    n, K = data.shape
    n_rows = max(1, block_bytes // (8 * K))
    little = (data.size if work is None else work) < _threads.SERIAL_WORK
    if isinstance(data, Table):
        n_parts = 1 if little else n_parts
        watcher = _WATCHER.get()
        done = _unwatched if watcher is None else partial(watcher, n)
        return _total(data.map_parts(_Fold(kernel, exact), n_parts, n_rows, done))
    if little and n <= n_rows:  # one block needs no folding
        return own(kernel(data.astype(np.float64, copy=False) if exact else data, slice(0, n)))
    fold = _Fold(kernel, exact)
    if little:
        return fold(slices(data, slice(0, n), n_rows))
    parts = row_parts(n, n_parts)
    return _total(_threads.map_parts(lambda part: fold(slices(data, part, n_rows)), parts))


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Call a function with the progress of every pass over a table inside this context.

    Examples
    --------
    >>> import numpy as np
    >>> from priorshift.execution import ArrayTable, map_reduce, watched
    >>> table = ArrayTable(np.ones((5, 2)))
    >>> with watched(lambda n_rows, done: print(f"{done} more of {n_rows}")):
    ...     map_reduce(lambda block, rows: block.sum(), table, n_parts=1)
    5 more of 5
    np.float64(10.0)
    """
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)


@dataclass(frozen=True)
class _Fold:
    """Adds up a kernel's results over the blocks of one part."""

    kernel: Kernel
    exact: bool

    def __call__(self, blocks: Blocks) -> Any:
        total = None
        for rows, block in self._precise(blocks):
            found = self.kernel(block, rows)
            total = own(found) if total is None else add(total, found)
        return total

    def _precise(self, blocks: Blocks) -> Blocks:
        """Convert to float64 if `exact`, in one buffer that is used again."""
        buffer: Vector = np.empty((0, 0))
        for rows, block in blocks:
            if not self.exact or block.dtype == np.float64:
                yield rows, block
            elif isinstance(block, np.ndarray):
                if buffer.shape[0] < block.shape[0]:
                    buffer = np.empty_like(block, dtype=np.float64)  # in the block's own order
                np.copyto(buffer[: block.shape[0]], block)
                yield rows, buffer[: block.shape[0]]
            else:
                yield rows, block.astype(np.float64)


def _unwatched(done: int) -> None:
    """Nobody watches."""


def _total(results: list[Any]) -> Any:
    return reduce(add, [found for found in results if found is not None])


def own(found: Any) -> Any:
    """Return a copy of a result that may be changed in place."""
    if isinstance(found, tuple):
        return tuple(map(own, found))
    if isinstance(found, np.ndarray) and found.dtype.kind == "f":
        return np.array(found, dtype=np.float64)
    return found


def add(total: Any, found: Any) -> Any:
    """Add a result to a total that may be changed in place."""
    if isinstance(total, tuple):
        return tuple(add(one, other) for one, other in zip(total, found, strict=True))
    if isinstance(total, np.ndarray) and total.dtype == np.float64:
        total += found
        return total
    return total + found
