"""Tables: rows of predictions that are read block by block and never held as one array.

An array in memory needs none of this. A table is what else predictions come in: a file larger than
memory, a sparse matrix, the chunks of a cluster. Every pass over one is a `map_reduce`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from priorshift._typing import Floats
from priorshift.execution._threads import cut, map_parts

Block = Any
"""Some rows of a table: an ndarray, or what multiplies, sums and slices as one."""

Blocks = Iterator[tuple[slice, Block]]
"""Blocks with the rows they are; a block is only good until the next one is asked for."""

Fold = Callable[[Blocks], Any]
"""Turns the blocks of one part into a result."""

Done = Callable[[int], None]
"""Hears how many more rows were gone through, in this process."""


class Table(ABC):
    """Rows of predictions, read in blocks; in order, as often as a solver asks.

    Attributes
    ----------
    shape : tuple of int
        Rows and classes.
    dtype : numpy.dtype
        Of the blocks: float32 or float64.
    names : tuple or None
        Names of the columns, where they have any.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    names: tuple[Any, ...] | None = None
    ndim = 2

    @property
    def size(self) -> int:
        """How many numbers there are to go through."""
        return self.shape[0] * self.shape[1]

    @abstractmethod
    def blocks(self, part: slice, n_rows: int) -> Blocks:
        """Yield the rows of a part in order, in blocks of at most about `n_rows`."""

    def parts(self, n_parts: int) -> list[slice]:
        """Cut the rows into what may be worked on apart; the same cuts every time."""
        return cut(self.shape[0], min(n_parts, self.shape[0]))

    def map_parts(self, fold: Fold, n_parts: int, n_rows: int, done: Done) -> list[Any]:
        """Fold the blocks of each part, here or wherever the rows are; results in order."""

        def of_part(part: slice) -> Any:
            return fold(_counted(self.blocks(part, n_rows), done))

        return map_parts(of_part, self.parts(n_parts))

    def columns(self, order: Sequence[int]) -> "Table":
        """Return the columns in another order."""
        names = None if self.names is None else tuple(self.names[at] for at in order)
        shape = (self.shape[0], len(order))
        return MappedTable(self, _Columns(tuple(order)), shape, self.dtype, names)

    def map(self, function: Callable[[Floats], Floats]) -> "Table":
        """Return a table of the same shape whose blocks go through a function."""
        return MappedTable(self, function, self.shape, self.dtype, self.names)

    def __array__(self, *_: Any, **__: Any) -> Any:
        """Refuse: a table is there so that nobody needs all of it at once."""
        raise TypeError(f"a {type(self).__name__} is read in blocks, and not made into an array")


TABLE_MAKERS: dict[str, Callable[[Any, str], Table | None]] = {}
"""What makes tables of other libraries' data, by the name of the library: each adds its own. It
takes the data and the name of the argument; None where the data are nothing to read in blocks."""


@dataclass(frozen=True, eq=False)
class MappedTable(Table):
    """A table whose blocks go through a function when they are read."""

    table: Table
    function: Callable[[Floats], Floats]
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    names: tuple[Any, ...] | None

    def blocks(self, part: slice, n_rows: int) -> Blocks:
        """Yield blocks of the table beneath, each through the function."""
        return _through(self.function, self.table.blocks(part, n_rows))

    def parts(self, n_parts: int) -> list[slice]:
        """Cut as the table beneath is cut."""
        return self.table.parts(n_parts)

    def map_parts(self, fold: Fold, n_parts: int, n_rows: int, done: Done) -> list[Any]:
        """Work where the table beneath does."""
        return self.table.map_parts(_FoldThrough(self.function, fold), n_parts, n_rows, done)


@dataclass(frozen=True, eq=False)
class ArrayTable(Table):
    """An array as a table, such as a memory map whose numbers must be converted block by block.

    Examples
    --------
    >>> import numpy as np
    >>> table = ArrayTable(np.array([[1, 0], [0, 1], [1, 0]], dtype=np.float16))
    >>> [block.tolist() for _, block in table.blocks(slice(0, 3), 2)]
    [[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0]]]
    """

    array: Any

    @cached_property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Rows and classes."""
        return self.array.shape

    @cached_property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        """Float32 for half precision, else float64."""
        return np.dtype(np.float32 if self.array.dtype.itemsize <= 4 else np.float64)

    def blocks(self, part: slice, n_rows: int) -> Blocks:
        """Yield slices, converted."""
        for rows, block in slices(self.array, part, n_rows):
            yield rows, np.asarray(block, dtype=self.dtype)


def slices(array: Any, part: slice, n_rows: int) -> Blocks:
    """Yield the rows of a part of an array as slices."""
    for start in range(part.start, part.stop, max(n_rows, 1)):
        rows = slice(start, min(start + max(n_rows, 1), part.stop))
        yield rows, array[rows]


@dataclass(frozen=True)
class _Columns:
    order: tuple[int, ...]

    def __call__(self, block: Block) -> Block:
        return block[:, list(self.order)]


@dataclass(frozen=True)
class _FoldThrough:
    """A fold of blocks that go through a function first; a class, since workers unpickle it."""

    function: Callable[[Floats], Floats]
    fold: Fold

    def __call__(self, blocks: Blocks) -> Any:
        return self.fold(_through(self.function, blocks))


def _counted(blocks: Blocks, done: Done) -> Blocks:
    for rows, block in blocks:
        yield rows, block
        done(rows.stop - rows.start)


def _through(function: Callable[[Floats], Floats], blocks: Blocks) -> Blocks:
    for rows, block in blocks:
        yield rows, function(block)
