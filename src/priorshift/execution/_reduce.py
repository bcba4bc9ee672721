"""One pass over rows, wherever they are: apply a kernel to blocks, and add up what it returns."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

from priorshift._blocks import BLOCK_BYTES
from priorshift._typing import Floats, Indices, Vector
from priorshift.execution import _threads
from priorshift.execution._tables import Block, Blocks, Table, slices

Rows = Floats | Table
"""Predictions as estimators and solvers take them: an array, or a table."""

Kernel = Callable[[Block, slice], Any]
"""Takes a block and which rows it is. Returns numbers, arrays, lists, or a tuple of these."""

Watcher = Callable[[int, int], None]
"""Hears of every pass over a table, as it goes on: of how many rows in all, how many more."""

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

    An array, or a table on this machine, is gone through in threads; the chunks of a cluster where
    they are. The cuts, and so the sums, do not depend on how many threads or workers there are.
    Lists are joined, in the order of the rows. A kernel must not hold on to its block; for a
    cluster it has to be picklable, with nothing large in it.

    Parameters
    ----------
    kernel : callable
        Takes a block and its rows as a slice.
    data : ndarray or Table
    work : float, optional
        About how many multiplications all of it takes, by default one a number: little work is
        not split.
    block_bytes : int
        Float64 bytes of a block.
    n_parts : int
        Into how many parts an array is cut.
    exact : bool, default=False
        Whether to hand blocks over as float64.

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
        done = _unheard if watcher is None else partial(watcher, n)
        return _total(data.map_parts(_Fold(kernel, exact), n_parts, n_rows, done))
    if little and n <= n_rows:  # one block needs no folding
        return _own(kernel(data.astype(np.float64, copy=False) if exact else data, slice(0, n)))
    fold = _Fold(kernel, exact)
    if little:
        return fold(slices(data, slice(0, n), n_rows))
    parts = _threads.cut(n, n_parts)
    return _total(_threads.map_parts(lambda part: fold(slices(data, part, n_rows)), parts))


def take_rows(table: Table, index: Indices) -> Floats:
    """Return a few rows of a table, given by their numbers in ascending order."""
    found = map_reduce(_Take(index), table)
    return np.concatenate(found) if found else np.empty((0, table.shape[1]), table.dtype)


def sample_rows(data: Rows, n_rows: int, random_state: int = 0) -> Floats:
    """Return all rows of a small table or array, else about `n_rows`, drawn at random.

    Rows that are drawn twice count once: an order of all rows would take memory of its own.
    """
    n = data.shape[0]
    if n_rows >= n:
        return take_rows(data, np.arange(n)) if isinstance(data, Table) else data
    index = np.unique(np.random.default_rng(random_state).integers(n, size=n_rows))
    return take_rows(data, index) if isinstance(data, Table) else data[index]


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Let a function hear of the progress of every pass over a table meanwhile.

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
            total = _own(found) if total is None else _add(total, found)
        return total

    def _precise(self, blocks: Blocks) -> Blocks:
        """Convert to float64 where asked, through one reused buffer."""
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


@dataclass(frozen=True)
class _Take:
    index: Indices

    def __call__(self, block: Block, rows: slice) -> list[Floats]:
        first, end = np.searchsorted(self.index, [rows.start, rows.stop])
        at = self.index[first:end] - rows.start
        return [np.array(block[at])] if at.size else []


def _unheard(done: int) -> None:
    """Nobody watches."""


def _total(results: list[Any]) -> Any:
    return reduce(_add, [found for found in results if found is not None])


def _own(found: Any) -> Any:
    """Return a result that may be added to in place."""
    if isinstance(found, tuple):
        return tuple(map(_own, found))
    if isinstance(found, np.ndarray) and found.dtype.kind == "f":
        return np.array(found, dtype=np.float64)
    return found


def _add(total: Any, found: Any) -> Any:
    if isinstance(total, tuple):
        return tuple(_add(one, other) for one, other in zip(total, found, strict=True))
    if isinstance(total, np.ndarray) and total.dtype == np.float64:
        total += found
        return total
    return total + found
