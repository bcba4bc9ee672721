"""Tables: rows of predictions that are read block by block and never held as one array.

An array in memory needs no table. Everything else does: a file larger than memory, a sparse matrix,
the chunks of a cluster. Every pass over a table is a `map_reduce`. Kinds of tables register
themselves with `table_kind`, so that `as_table` recognises what they can read.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np

from priorshift._blocks import row_parts, row_slices
from priorshift._typing import Floats, are_numbers, float_type
from priorshift.execution._threads import map_parts

Block = Any
"""Some rows of a table: an ndarray, or what multiplies, sums and slices as one."""

Blocks = Iterator[tuple[slice, Block]]
"""Blocks, each with its rows as a slice; a block is valid only until the next one is read."""

Fold = Callable[[Blocks], Any]
"""Turns the blocks of one part into a result."""

Done = Callable[[int], None]
"""Called in this process with how many more rows are done."""

READ_ROWS = 2**14
"""Rows that are copied at once when a part of a table is read into an array."""


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
    portable : bool
        Whether a pickled copy is small and can read any rows on another machine that has the file.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    names: tuple[Any, ...] | None = None
    portable = False
    ndim = 2

    @classmethod
    def recognises(cls, values: Any) -> bool:  # noqa: ARG003
        """Tell whether a registered kind of table reads such values."""
        return False

    @classmethod
    def of(cls, values: Any, name: str = "y_proba") -> "Table":
        """Make a table of values that it recognises; errors call them `name`."""
        raise NotImplementedError

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

    def map_parts(self, fold: Fold, n_parts: int, n_rows: int, done: Done) -> list[Any]:
        """Fold the blocks of each part where the rows are; return the results in order."""

        def of_part(part: slice) -> Any:
            return fold(counted(self.blocks(part, n_rows), done))

        return map_parts(of_part, self.parts(n_parts))

    def read(self, part: slice) -> Floats:
        """Read some consecutive rows into an array."""
        values = np.empty((part.stop - part.start, self.shape[1]), self.dtype)
        for rows, block in self.blocks(part, READ_ROWS):
            values[rows.start - part.start : rows.stop - part.start] = block
        return values

    def columns(self, order: Sequence[int]) -> "Table":
        """Return the columns in another order."""
        names = None if self.names is None else tuple(self.names[at] for at in order)
        shape = (self.shape[0], len(order))
        return MappedTable(self, _Columns(tuple(order)), shape, self.dtype, names)

    def map(self, function: Callable[[Floats], Floats]) -> "Table":
        """Return a table of the same shape; a function is applied to its blocks."""
        return MappedTable(self, function, self.shape, self.dtype, self.names)

    def __array__(self, *_: Any, **__: Any) -> Any:
        """Refuse: a table exists so that nobody needs all of it at once."""
        raise TypeError(f"a {type(self).__name__} is read in blocks; it is not made into an array")


@dataclass(frozen=True, eq=False)
class MappedTable(Table):
    """A table that applies a function to the blocks of another when they are read."""

    table: Table
    function: Callable[[Floats], Floats]
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    names: tuple[Any, ...] | None

    @property
    def portable(self) -> bool:  # type: ignore[override]
        """Whether the other table is: functions are small."""
        return self.table.portable

    def blocks(self, part: slice, n_rows: int) -> Blocks:
        """Yield the function of each block of the other table."""
        return _through(self.function, self.table.blocks(part, n_rows))

    def parts(self, n_parts: int) -> list[slice]:
        """Cut as the other table is cut."""
        return self.table.parts(n_parts)

    def map_parts(self, fold: Fold, n_parts: int, n_rows: int, done: Done) -> list[Any]:
        """Work where the rows of the other table are."""
        return self.table.map_parts(_FoldThrough(self.function, fold), n_parts, n_rows, done)


Kind = TypeVar("Kind", bound=type[Table])
_KINDS: list[type[Table]] = []


def table_kind(kind: Kind) -> Kind:
    """Register a class of tables, as a decorator: `as_table` asks it what it recognises."""
    _KINDS.append(kind)
    return kind


def as_table(values: Any, name: str = "y_proba") -> Table | None:
    """Return predictions as a table, or None if they are a plain array, a list or a frame.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> as_table(csr_array([[0.7, 0.3]])).shape, as_table([[0.7, 0.3]])
    ((1, 2), None)
    """
    if isinstance(values, Table):
        return values
    for kind in _KINDS:
        if kind.recognises(values):
            return kind.of(values, name)
    return None


@table_kind
class ArrayTable(Table):
    """An array as a table, such as a memory map whose numbers must be converted block by block.

    Examples
    --------
    >>> import numpy as np
    >>> table = ArrayTable(np.array([[1, 0], [0, 1], [1, 0]], dtype=np.float16))
    >>> [block.tolist() for _, block in table.blocks(slice(0, 3), 2)]
    [[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0]]]
    """

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape = array.shape
        self.dtype = float_type(array.dtype)

    @classmethod
    def recognises(cls, values: Any) -> bool:
        """Recognise memory maps whose conversion at once would be a copy of everything."""
        if not isinstance(values, np.memmap) or values.ndim != 2:
            return False
        return are_numbers(values.dtype) and values.dtype != float_type(values.dtype)

    @classmethod
    def of(cls, values: Any, name: str = "y_proba") -> Self:  # noqa: ARG003
        """Wrap a memory map."""
        return cls(values)

    def blocks(self, part: slice, n_rows: int) -> Blocks:
        """Yield slices, converted."""
        for rows, block in slices(self.array, part, n_rows):
            yield rows, np.asarray(block, dtype=self.dtype)


def slices(array: Any, part: slice, n_rows: int) -> Blocks:
    """Yield the rows of a part of an array as slices."""
    for rows in row_slices(part, n_rows):
        yield rows, array[rows]


@dataclass(frozen=True)
class _Columns:
    order: tuple[int, ...]

    def __call__(self, block: Block) -> Block:
        return block[:, list(self.order)]


@dataclass(frozen=True)
class _FoldThrough:
    """A fold that applies a function to blocks first; a class, because workers unpickle it."""

    function: Callable[[Floats], Floats]
    fold: Fold

    def __call__(self, blocks: Blocks) -> Any:
        return self.fold(_through(self.function, blocks))


def counted(blocks: Blocks, done: Done) -> Blocks:
    """Yield blocks, and call `done` after each with its number of rows."""
    for rows, block in blocks:
        yield rows, block
        done(rows.stop - rows.start)


def _through(function: Callable[[Floats], Floats], blocks: Blocks) -> Blocks:
    for rows, block in blocks:
        yield rows, function(block)
