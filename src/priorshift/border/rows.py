"""Tables: rows of predictions that are read block by block and never held as one array.

An array in memory needs no table. Everything else does: a file larger than memory, a sparse matrix,
the chunks of a cluster; `as_table` in `check.py` knows them all. Every pass over rows, of a table
or an array, is a `map_reduce`: it applies a kernel to blocks and adds up what the kernel returns.
What cannot be computed block by block uses a sample of rows in memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from priorshift._typing import Floats, Indices, Vector, float_type
from priorshift.border import threads
from priorshift.border.threads import BLOCK_BYTES, map_parts, row_blocks, row_parts

Block = Any
"""Some rows of a table: an ndarray, or anything that multiplies, sums and slices like one."""

Blocks = Iterator[tuple[slice, Block]]
"""Blocks, each with its rows as a slice; a block is valid only until the next one is read."""

Fold = Callable[[Blocks], Any]
"""Turns the blocks of one part into a result."""

SAMPLE_NUMBERS, SAMPLE_SEED, FEWEST_ROWS, PER_ROW = 10_000_000, 0, 1000, 10
"""Numbers of a sample, where its random numbers start, its fewest rows, and numbers that work on a
row takes beside those of its classes."""


SUM_TOLERANCE = 1e-3 + 1e-6
"""How far a row of probabilities, or a vector of priors, may sum from 1: 0.999 just may."""


class Table(ABC):
    """Rows of predictions, read in blocks, in order, as often as a solver needs them.

    Attributes
    ----------
    shape : tuple of int
        Rows and classes.
    dtype : numpy.dtype
        Type of the blocks: float32 or float64.
    names : tuple or None
        Names of the columns, if they have any.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    names: tuple[Any, ...] | None = None
    ndim = 2
    dear = False
    """Whether a pass costs much more than the work of a few classes: solvers make few of them."""
    distributions = False
    """Whether every row is known to be at least 0 and to sum to 1: no pass need check it."""
    sum_by: Callable[..., Any] | None = None
    """A quicker way to sum rows by label than by blocks, if there is one."""

    @property
    def size(self) -> int:
        """How many numbers a pass reads."""
        return self.shape[0] * self.shape[1]

    @abstractmethod
    def blocks(self, part: slice, n_rows: int) -> Blocks:
        """Yield the rows of a part in order, in blocks of at most about `n_rows`."""

    def parts(self, n_parts: int) -> list[slice]:
        """Cut the rows into parts that can be worked on separately; the same parts every time."""
        return row_parts(self.shape[0], min(n_parts, self.shape[0]))

    def map_parts(self, fold: Fold, n_parts: int, n_rows: int) -> list[Any]:
        """Fold the blocks of each part where the rows are; return the results in order."""
        return map_parts(lambda part: fold(self.blocks(part, n_rows)), self.parts(n_parts))

    def read(self, part: slice) -> Floats:
        """Read some consecutive rows into an array."""
        values = np.empty((part.stop - part.start, self.shape[1]), self.dtype)
        for rows, block in self.blocks(part, 2**14):
            values[rows.start - part.start : rows.stop - part.start] = block
        return values

    def columns(self, order: Sequence[int]) -> Table:
        """Return the columns in another order."""
        table = MappedTable(self, partial(_columns, list(order)), len(order))
        table.names = None if self.names is None else tuple(self.names[at] for at in order)
        return table

    def __array__(self, *_: Any, **__: Any) -> Any:
        """Refuse: a table exists because its rows do not fit in memory."""
        raise TypeError(f"a {type(self).__name__} is read in blocks; it is not made into an array")


class MappedTable(Table):
    """A table that applies a function to the blocks of another when they are read."""

    def __init__(self, table: Table, function: Callable[[Floats], Floats], n_columns: int) -> None:
        self.table, self.function = table, function
        self.shape, self.dtype = (table.shape[0], n_columns), table.dtype
        self.dear = table.dear

    def blocks(self, part: slice, n_rows: int) -> Blocks:
        """Yield the function of each block of the other table."""
        for rows, block in self.table.blocks(part, n_rows):
            yield rows, self.function(block)

    def parts(self, n_parts: int) -> list[slice]:
        """Cut as the other table is cut."""
        return self.table.parts(n_parts)

    def map_parts(self, fold: Fold, n_parts: int, n_rows: int) -> list[Any]:
        """Work where the rows of the other table are."""
        return self.table.map_parts(partial(_fold_through, self.function, fold), n_parts, n_rows)


class ArrayTable(Table):
    """An array or a sparse table as a table whose blocks are arrays: converted when they are read.

    Examples
    --------
    >>> import numpy as np
    >>> table = ArrayTable(np.array([[1, 0], [0, 1], [1, 0]], dtype=np.float16))
    >>> [block.tolist() for _, block in table.blocks(slice(0, 3), 2)]
    [[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0]]]
    """

    def __init__(self, array: Any) -> None:
        self.array, self.names = array, getattr(array, "names", None)
        self.shape, self.dtype = array.shape, float_type(array.dtype)

    def blocks(self, part: slice, n_rows: int) -> Blocks:
        """Yield slices, converted."""
        for rows, block in slices(self.array, part, n_rows):
            values = block if isinstance(block, np.ndarray) else block.toarray()
            yield rows, np.asarray(values, dtype=self.dtype)


def slices(array: Any, part: slice, n_rows: int) -> Blocks:
    """Yield the rows of a part of an array as slices."""
    for rows in row_blocks(part, n_rows=n_rows):
        yield rows, array[rows]


def _columns(order: list[int], block: Block) -> Block:
    return block[:, order]


def _fold_through(function: Callable[[Floats], Floats], fold: Fold, blocks: Blocks) -> Any:
    """Apply a function to blocks, then fold them."""
    return fold((rows, function(block)) for rows, block in blocks)


Rows = Floats | Table
"""Predictions for estimators and solvers: an array or a table."""

Kernel = Callable[[Block, slice], Any]
"""A function of a block and its rows. Returns numbers, arrays, lists, or a tuple of these."""


def map_reduce(
    kernel: Kernel,
    data: Rows,
    *,
    work: float | None = None,
    block_bytes: int = BLOCK_BYTES,
    n_parts: int = threads.N_PARTS,
    exact: bool = False,
) -> Any:
    """Apply a kernel to blocks of rows and add up the results, arrays in float64.

    Threads work on an array or a table on this machine; the workers of a cluster on the chunks they
    hold. The cuts, and so the sums, do not depend on the number of threads; on a cluster, which
    worker holds which chunk may change their last digits. Lists are joined in the order of
    the rows. A kernel must not keep its block; for a cluster it must be picklable and small.

    Parameters
    ----------
    kernel : callable
        Called with a block and its rows as a slice.
    data : ndarray or Table
    work : float, optional
        Roughly the total number of multiplications, by default one per number; small work is
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
    little = (data.size if work is None else work) < threads.SERIAL_WORK
    if little and n <= n_rows and isinstance(data, np.ndarray):  # one block needs no folding
        block = data.astype(np.float64, copy=False) if exact else data
        return add(None, kernel(block, slice(0, n)))
    fold = partial(_fold, kernel, exact)
    if isinstance(data, Table):
        results = data.map_parts(fold, 1 if little else n_parts, n_rows)
    elif little:
        return fold(slices(data, slice(0, n), n_rows))
    else:
        parts = row_parts(n, n_parts)
        results = threads.map_parts(lambda part: fold(slices(data, part, n_rows)), parts)
    return reduce(add, [found for found in results if found is not None])


def _fold(kernel: Kernel, exact: bool, blocks: Blocks) -> Any:
    """Add up a kernel's results over the blocks of one part."""
    total = None
    for rows, block in blocks:
        if exact:
            block = block.astype(np.float64, copy=False)
        total = add(total, kernel(block, rows))
    return total


def add(total: Any, found: Any) -> Any:
    """Add a result to a total that may be changed in place; None is that of no results yet."""
    if isinstance(found, tuple):
        totals = (None,) * len(found) if total is None else total
        return tuple(map(add, totals, found))
    if total is None:
        floats = isinstance(found, np.ndarray) and found.dtype.kind == "f"
        return np.array(found, dtype=np.float64) if floats else found
    if isinstance(total, np.ndarray) and total.dtype == np.float64:
        total += found
        return total
    return total + found


def sum_by(rows: Rows, label: Indices, n_labels: int, weight: Vector | None = None) -> Any:
    """Sum the rows of each label, into one row per label.

    With B weights per row, a matrix (n, B), it returns that many such sums, below each other.

    Examples
    --------
    >>> import numpy as np
    >>> sum_by(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([1, 1]), 2)
    array([[0. , 0. ],
           [1.5, 0.5]])
    """
    if isinstance(rows, Table) and rows.sum_by is not None:
        return rows.sum_by(label, n_labels, weight)
    # blocks of at least K/2 rows, or adding matrices would outweigh the work itself
    size = max(BLOCK_BYTES, 4 * n_labels * rows.shape[1])
    kernel = partial(_sum_block, label, n_labels, weight)
    return map_reduce(kernel, rows, block_bytes=size, n_parts=2)


def _sum_block(
    labels: Indices, n_labels: int, weight: Vector | None, block: Block, rows: slice
) -> Vector:
    """Sum the rows of a block by label: a sparse matrix of labels does it without sorting them."""
    label = labels[rows, None]
    data = (np.ones(label.shape) if weight is None else weight[rows]).reshape(label.size, -1)
    B = data.shape[1]
    at, start = label + n_labels * np.arange(B), np.arange(0, data.size + 1, B)
    of_label = csr_array((data.ravel(), at.ravel(), start), (label.size, B * n_labels))
    return of_label.T @ block.astype(np.float64, copy=False)


def take_rows(rows: Rows, index: Indices | None = None) -> Floats:
    """Return rows as one array: all, or some by their numbers, in ascending order for a table."""
    if not isinstance(rows, Table):
        return rows if index is None else rows[index]
    found = map_reduce(partial(_take, np.arange(rows.shape[0]) if index is None else index), rows)
    return np.concatenate(found) if found else np.empty((0, rows.shape[1]), rows.dtype)


def map_blocks(function: Callable[[Floats], Floats], rows: Rows, n_columns: int) -> Rows:
    """Apply a function to rows: at once to an array, to the blocks of a table as they are read."""
    if not isinstance(rows, Table):
        return function(rows)
    return MappedTable(rows, function, n_columns)


def draw_rows(n_rows: int, n_classes: int, most: int | None = None) -> Indices:
    """Return the numbers of all rows, or of about `most` drawn at random, always the same.

    By default, they are the rows of a target that judgements rest on: whoever asks, so that all
    that is said of a target is of the same rows. Rows drawn twice count once: a permutation of all
    rows would need too much memory.

    Examples
    --------
    >>> draw_rows(5, 2)
    array([0, 1, 2, 3, 4])
    """
    if most is None:
        most = max(FEWEST_ROWS, SAMPLE_NUMBERS // (n_classes + PER_ROW))
    if most >= n_rows:
        return np.arange(n_rows)
    return np.unique(np.random.default_rng(SAMPLE_SEED).integers(n_rows, size=most))


def sample_rows(data: Rows, most: int | None = None) -> Floats:
    """Return all rows, or a random sample of them, as an array: see `draw_rows`."""
    index = draw_rows(data.shape[0], data.shape[1], most)
    return take_rows(data, None if index.size == data.shape[0] else index)


def _take(index: Indices, block: Block, rows: slice) -> list[Floats]:
    first, end = np.searchsorted(index, [rows.start, rows.stop])
    at = index[first:end] - rows.start
    if not at.size:
        return []
    return [np.array(block[at]) if isinstance(block, np.ndarray) else block[at].toarray()]
