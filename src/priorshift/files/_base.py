"""A file of predictions, read on demand: what all formats share, and what each must do.

A file is seen as it is meant: its columns by class, one column as two classes, rows that sum to 1.
"""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy as shallow_copy
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Floats, Mask, float_type
from priorshift.border import Rows, Table, divided_by_sums, map_blocks, some, take_rows
from priorshift.files._resume import Partial


class Copy(NamedTuple):
    """What a copy of a file is to have: new numbers in some columns, and perhaps a further column.

    `change` turns the numbers of a block, which begins at some row, into new ones, and returns the
    cells of the added column, too.
    """

    names: Sequence[str] | None
    change: Callable[[Floats, int], tuple[Floats, list[str]]]
    added: str | None


BLOCK_ROWS = 65_536
"""Rows in memory at once, where a file can be read in parts."""

PANDAS_INDEX = re.compile(r"(__index_level_\d+__|Unnamed: \d+(_level_\d+)?)?")
"""Names that pandas gives an index without a name: in Parquet, when it reads CSV, and none."""

LONGEST_LINE = 2**24
"""Characters of a line of text: enough for the scores of half a million classes."""

MOST_EXPANDED, MOST_TIMES = 2**30, 100
"""Bytes that a compressed file may expand to, or times its own size if that is more."""

ADAPTED = "priorshift.adapted"
"""Key of the metadata, or name of the array, that marks a file as adapted."""

ANY_SIZE = "if you trust it, read it with bounded=False (in a command, --any-size)"


@dataclass(frozen=True)
class PredictionFile(ABC):
    """A file of predictions, read on demand: a subclass per format.

    Attributes
    ----------
    path : Path
    where : str
        What messages call the file.
    label_column : str
        Column, or key of an npz, that holds labels.
    kind : {"proba", "logits"}
        What the predictions are.
    bounded : bool
        Whether to refuse a file that expands to far more than its size, as only a hostile one does.
    ignored : tuple of str
        Columns that are not classes, even if they hold numbers: a group, a time.
    columns : mapping from class to column, or None
        None leaves the columns as the file has them.
    binary : pair of str or None
        The negative and the positive class, if the only column holds the probability of the latter.
    renormalise : bool
        Whether rows are divided by their sums.
    kept : ndarray of bool, of shape (n_rows of the file,), or None
        Rows that are not left out; a copy with new predictions has all of them.
    is_table : bool
        Whether columns have names, among which the class columns must be found.
    separators : pair of str
        What stands between cells of text, and before decimals.
    remarks : tuple of str
        What was assumed in order to read the file, one sentence each.
    adapted : str or None
        Which version of priorshift adapted the predictions, if the file says so.
    """

    path: Path
    where: str
    label_column: str
    kind: Literal["proba", "logits"] = "proba"
    bounded: bool = True
    ignored: tuple[str, ...] = ()
    columns: Mapping[str, str] | None = None
    binary: tuple[str, str] | None = None
    renormalise: bool = False
    kept: Mask | None = None

    is_table: ClassVar[bool] = True
    separators: ClassVar[tuple[str, str]] = (",", ".")
    remarks: ClassVar[tuple[str, ...]] = ()
    adapted: ClassVar[str | None] = None

    # What a format does: columns are called as in the file

    @property
    @abstractmethod
    def header(self) -> Sequence[str]:
        """Names of all columns, or of all arrays of an npz, as the file has them."""

    @property
    @abstractmethod
    def numeric(self) -> tuple[str, ...] | None:
        """A table's columns of numbers, an npz's classes, or None."""

    @abstractmethod
    def read(self, names: Sequence[str] | None) -> Rows:
        """Return the predictions as they are stored, as a table if the format allows."""

    def read_head(self, n_rows: int, names: Sequence[str] | None) -> Floats:
        """Read the predictions of the first rows only, as they are stored."""
        rows = self.read(names)
        if isinstance(rows, Table):
            return rows.read(slice(0, min(n_rows, rows.shape[0])))
        return rows[:n_rows]

    @abstractmethod
    def read_vector(self, name: str) -> NDArray[Any] | None:
        """Read a column or array by name, if there is one."""

    def count_rows(self) -> int | None:
        """Return the number of rows of the file, if that is known without reading them."""
        return None

    def place_of(self, row: int) -> str:
        """Name a row of the file as its reader finds it."""
        return f"row {row}"

    @abstractmethod
    def pieces(self, copy: Copy, begin: int) -> Iterator[tuple[int, Any]]:
        """Yield rows and bytes of each piece of a copy, from row `begin` on."""

    @abstractmethod
    def join(self, copy: Copy, pieces: Iterator[Any], stream: BinaryIO) -> None:
        """Write the copy that these pieces make up; everything else is as in this file."""

    # What all formats do: columns are called by their classes

    def meant(
        self,
        columns: Mapping[str, str] | None = None,
        *,
        binary: tuple[str, str] | None = None,
        renormalise: bool = False,
    ) -> Self:
        """Return the file with its columns called by their classes."""
        meant = shallow_copy(self)  # what was read of it is not read again
        vars(meant).update(columns=columns, binary=binary, renormalise=renormalise)
        return meant

    def without(self, rows: Mask) -> Self:
        """Return the file without some of its rows."""
        rest = shallow_copy(self)
        vars(rest).update(kept=~rows if rows.any() else None)
        return rest

    @property
    def names(self) -> tuple[str, ...] | None:
        """The classes or, as long as they are not known, the columns that may be classes."""
        if self.binary is not None or self.columns is not None:
            return self.binary or tuple(self.columns or ())
        names = self.numeric
        if names is None or not self.is_table:
            return names
        others = (self.label_column, *self.ignored)
        return tuple(n for n in names if n not in others and not PANDAS_INDEX.fullmatch(n))

    @property
    def single(self) -> bool:
        """Whether there is one column of predictions only: the probability of a positive class."""
        columns = self.names or () if self.is_table else range(self.read(None).shape[1])
        return self.binary is None and len(columns) == 1

    def rows(self, names: Sequence[str] | None = None) -> Rows:
        """Return the predictions for estimators: as a table read in blocks, if the format allows.

        npy, Arrow and Parquet files of any size are tables. npz and CSV cannot be read from the
        middle, so they are read into memory as an array.

        Parameters
        ----------
        names : sequence of str, optional
            Columns in the order you want them, by default all possible classes, as stored.

        Returns
        -------
        Table or ndarray of shape (n_samples, n_classes)
        """
        stored, spread = self.as_stored(names)
        rows = self.read(stored)
        if spread is not None:
            rows = map_blocks(spread, rows, rows.shape[1] if self.binary is None else 2)
        return rows if self.kept is None else take_rows(rows)[self.kept]

    def values(self, names: Sequence[str] | None = None) -> Floats:
        """Read the predictions into memory, one column per class in the order of `names`."""
        rows = self.rows(names)
        return rows.read(slice(0, rows.shape[0])) if isinstance(rows, Table) else rows

    def head(self, n_rows: int, names: Sequence[str] | None = None) -> Floats:
        """Read the predictions of the first rows only."""
        if self.kept is not None:
            return self.values(names)[:n_rows]
        stored, spread = self.as_stored(names)
        rows = self.read_head(n_rows, stored)
        return rows if spread is None else spread(rows)

    def vector(self, name: str) -> NDArray[Any] | None:
        """Read a column or array by its name in the file, if there is one."""
        found = self.read_vector(name)
        if found is None or self.kept is None or found.shape != self.kept.shape:
            return found
        return found[self.kept]

    def n_rows(self) -> int | None:
        """Return the number of rows, if that is known without reading them."""
        return self.count_rows() if self.kept is None else int(np.count_nonzero(self.kept))

    def place(self, row: int) -> str:
        """Name a row as a reader of the file finds it."""
        at = row if self.kept is None else int(np.flatnonzero(self.kept)[row])
        return self.place_of(at)

    def as_stored(
        self, names: Sequence[str] | None
    ) -> tuple[Sequence[str] | None, Callable[[Floats], Floats] | None]:
        """Return what the file itself calls the columns of some classes; of two, the positive.

        And what turns stored rows into predictions of every class; None if they are that.
        """
        spread = _divided if self.renormalise else None
        if self.binary is not None:
            at = order_of(self.binary[1:], names or self.binary, self.where)[0]
            spread = partial(_two_columns, at, self.kind)
        if self.columns is None:
            return names or self.names if self.is_table and self.binary is None else names, spread
        wanted = self.binary[1:] if self.binary is not None else names or self.columns
        order_of(list(wanted), list(self.columns), self.where)
        return [self.columns[name] for name in wanted], spread

    def rewrite(
        self,
        output: BinaryIO | Partial,
        names: Sequence[str] | None,
        function: Callable[[Floats], Floats],
        keep: Callable[[], dict[str, Any]] = dict,
        added: tuple[str, Callable[[Floats], list[str]]] | None = None,
    ) -> None:
        """Write a copy with new predictions, block by block; everything else is kept.

        A partial file is continued where an earlier run ended, and keeps with every piece what
        `keep` returns. The finished file is the same either way. `added` is the name of a further
        column, and a function from new predictions to its cells.
        """
        column, cells_of = added or (None, None)
        if column is not None and column in self.header:
            raise ValueError(f"{self.where} has a column {column!r} already; choose another name.")
        goal = output if isinstance(output, Partial) else Partial(output)
        stored, spread = self.as_stored(names)

        def change(block: Floats, start: int) -> tuple[Floats, list[str]]:
            there: Any = slice(None)
            if self.kept is not None:  # rows without predictions stay as they are
                there = ~np.isnan(block).any(axis=1)
            cells = np.full(len(block), "", dtype=object)
            if not len(given := block[there]):
                return block, cells.tolist()
            try:
                adapted = function(given if spread is None else spread(given))
            except ValueError as error:
                counted = f" (Row 0 of this block is row {start} of the file.)" if start else ""
                raise ValueError(f"{self.where}: {error}{counted}") from None
            if cells_of is not None:
                cells[there] = cells_of(adapted)
            if self.binary is not None:  # the only column is that of the positive class
                adapted = adapted[:, [(names or self.binary).index(self.binary[1])]]
            if self.kept is not None:
                some_new, adapted = adapted, block.copy()
                adapted[there] = some_new
            return adapted, cells.tolist()

        copy = Copy(stored, change, column)
        pieces = goal.pieces(partial(self.pieces, copy), keep)
        self.join(copy, pieces, goal.stream)

    def require_bounded(self, n_bytes: int, stored: int) -> None:
        """Refuse contents that are too large for what is stored."""
        if self.bounded and n_bytes > max(MOST_EXPANDED, MOST_TIMES * stored):
            raise ValueError(
                f"{self.where} expands from {stored:,} bytes to {n_bytes:,} or more, as files do "
                f"that are made to fill a memory; {ANY_SIZE}."
            )


def _two_columns(at: int, kind: str, block: Floats) -> Floats:
    """Turn the column of the positive class, the first or the second, into two."""
    block = np.asarray(block, float_type(block.dtype))
    other = np.zeros_like(block) if kind == "logits" else 1 - block
    return np.hstack([block, other] if at == 0 else [other, block])


def _divided(block: Floats) -> Floats:
    return divided_by_sums(np.asarray(block, float_type(block.dtype)))


def order_of(wanted: Sequence[str], present: Sequence[str], where: str) -> list[int]:
    """Find columns by name."""
    at = {name: i for i, name in enumerate(present)}
    missing = [name for name in wanted if name not in at]
    if missing:
        close = get_close_matches(missing[0], present, 1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(
            f"{where} has no column {some(missing)}; it has {some(present, 40)}.{hint}"
        )
    return [at[name] for name in wanted]


def require_distinct(names: Sequence[str], where: str) -> None:
    """Refuse names that occur twice."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(f"{where} names {some(repeated)} twice; rename one of the two.")
