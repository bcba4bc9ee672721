"""A file as it is meant: its columns by class, one column as two classes, rows that sum to 1."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal, Self

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Floats, Mask, float_type
from priorshift.border import Rows, divided_by_sums, map_blocks
from priorshift.files._base import PANDAS_INDEX, Copy, Stored, order_of
from priorshift.files._resume import Partial


@dataclass(frozen=True)
class PredictionFile:
    """A file of predictions, read on demand.

    Attributes
    ----------
    stored : Stored
        The file as it is.
    label_column : str
        Column, or key of an npz, that holds labels.
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
    """

    stored: Stored
    label_column: str
    ignored: tuple[str, ...] = ()
    columns: Mapping[str, str] | None = None
    binary: tuple[str, str] | None = None
    renormalise: bool = False
    kept: Mask | None = None

    def meant(
        self,
        columns: Mapping[str, str] | None = None,
        *,
        binary: tuple[str, str] | None = None,
        renormalise: bool = False,
    ) -> Self:
        """Return the file with its columns called by their classes."""
        if columns is not None and dict(columns) == {name: name for name in self.names or ()}:
            columns = None
        return replace(self, columns=columns, binary=binary, renormalise=renormalise)

    def without(self, rows: Mask) -> Self:
        """Return the file without some of its rows."""
        return replace(self, kept=~rows) if rows.any() else self

    @property
    def path(self) -> Path:
        """The file's path."""
        return self.stored.path

    @property
    def where(self) -> str:
        """What messages call the file."""
        return self.stored.where

    @property
    def kind(self) -> Literal["proba", "logits"]:
        """What the predictions are."""
        return "logits" if self.stored.logits else "proba"

    @property
    def is_table(self) -> bool:
        """Whether columns have names, among which the class columns must be found."""
        return self.stored.is_table

    @property
    def header(self) -> Sequence[str]:
        """Names of all columns, or of all arrays of an npz, as the file has them."""
        return self.stored.header

    @property
    def names(self) -> tuple[str, ...] | None:
        """The classes or, as long as they are not known, the columns that may be classes."""
        if self.binary is not None or self.columns is not None:
            return self.binary or tuple(self.columns or ())
        names = self.stored.numeric
        if names is None or not self.is_table:
            return names
        others = (self.label_column, *self.ignored)
        return tuple(name for name in names if name not in others and not self.is_index(name))

    @property
    def single(self) -> bool:
        """Whether there is one column of predictions only: the probability of a positive class."""
        one = len(self.names or ()) == 1 if self.is_table else self.stored.single
        return self.binary is None and one

    def is_index(self, name: str) -> bool:
        """Tell whether a column is a row index, as pandas writes and reads it without a name."""
        return not name or PANDAS_INDEX.fullmatch(name) is not None

    def values(self, names: Sequence[str] | None = None) -> Floats:
        """Read the predictions, one column per class in the order of `names`."""
        values = self._function(names)(self.stored.values(self.stored_names(names)))
        return values if self.kept is None else values[self.kept]

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
        if self.kept is not None:
            return self.values(names)
        rows, function = self.stored.rows(self.stored_names(names)), self._function(names)
        if function.changes_nothing:
            return rows
        return map_blocks(function, rows, rows.shape[1] if self.binary is None else 2)

    def head(self, n_rows: int, names: Sequence[str] | None = None) -> Floats:
        """Read the predictions of the first rows only."""
        if self.kept is not None:
            return self.values(names)[:n_rows]
        return self._function(names)(self.stored.head(n_rows, self.stored_names(names)))

    def labels(self) -> NDArray[Any] | None:
        """Read the labels, if there are any."""
        return self.vector(self.label_column)

    def vector(self, name: str) -> NDArray[Any] | None:
        """Read a column or array by its name in the file, if there is one."""
        found = self.stored.vector(name)
        if found is None or self.kept is None or found.shape != self.kept.shape:
            return found
        return found[self.kept]

    def n_rows(self) -> int | None:
        """Return the number of rows, if that is known without reading them."""
        return self.stored.n_rows() if self.kept is None else int(np.count_nonzero(self.kept))

    def place(self, row: int) -> str:
        """Name a row as a reader of the file finds it."""
        return self.stored.place(row if self.kept is None else int(np.flatnonzero(self.kept)[row]))

    def stored_names(self, names: Sequence[str] | None) -> Sequence[str] | None:
        """Return what the file itself calls the columns of some classes; of two, the positive."""
        if self.columns is None:
            return names or self.names if self.is_table and self.binary is None else names
        wanted = self.binary[1:] if self.binary is not None else names or self.columns
        order_of(list(wanted), list(self.columns), self.where)
        return [self.columns[name] for name in wanted]

    def rewrite(
        self,
        output: BinaryIO | Partial,
        names: Sequence[str] | None,
        function: Callable[[Floats], Floats],
        advance: Callable[[int], None],
        keep: Callable[[], dict[str, Any]] = dict,
        added: tuple[str, Callable[[], list[str]]] | None = None,
    ) -> None:
        """Write a copy with new predictions, block by block; everything else is kept.

        A partial file is continued where an earlier run ended, and keeps with every piece what
        `keep` returns. The finished file is the same either way. `added` is the name of a further
        column, and a function that returns its cells in the block that `function` had last.
        """
        name = None if added is None else added[0]
        if name is not None and name in self.header:
            raise ValueError(f"{self.where} has a column {name!r} already; choose another name.")
        partial = output if isinstance(output, Partial) else Partial(output)
        meant = self._function(names)

        def change(block: Floats, start: int) -> tuple[Floats, list[str]]:
            there: Any = slice(None)
            if self.kept is not None:  # rows without predictions stay as they are
                there = ~np.isnan(block).any(axis=1)
            new, cells = block, np.full(len(block), "", dtype=object)
            if len(given := block[there]):
                try:
                    new = meant.back(function(meant(given)))
                except ValueError as error:
                    counted = f" (Row 0 of this block is row {start} of the file.)" if start else ""
                    raise ValueError(f"{self.where}: {error}{counted}") from None
                cells[there] = "" if added is None else added[1]()
                if self.kept is not None:
                    some_new, new = new, block.copy()
                    new[there] = some_new
            advance(len(block))
            return new, cells.tolist()

        def make(begin: int) -> Any:
            if begin:
                advance(begin)
            return self.stored.pieces(copy, begin)

        copy = Copy(self.stored_names(names), change, name)
        self.stored.join(copy, partial.pieces(make, keep), partial.stream)

    def _function(self, names: Sequence[str] | None) -> "Meant":
        """Return what to do to a block of the file's rows."""
        if self.binary is None:
            return Meant(renormalise=self.renormalise)
        at = order_of(self.binary[1:], names or self.binary, self.where)[0]
        return Meant(at, logits=self.stored.logits)


@dataclass(frozen=True)
class Meant:
    """Turns stored rows into predictions of every class; a class, because workers unpickle it."""

    at: int | None = None
    """Which of two columns the only one is."""
    logits: bool = False
    renormalise: bool = False

    @property
    def changes_nothing(self) -> bool:
        """Whether rows are predictions of every class as they are."""
        return self.at is None and not self.renormalise

    def __call__(self, block: Floats) -> Floats:
        """Return one column per class: probabilities or logits, as they were."""
        if self.changes_nothing:
            return block
        block = np.asarray(block, float_type(block.dtype))
        if self.at is not None:
            other = np.zeros_like(block) if self.logits else 1 - block
            return np.hstack([block, other] if self.at == 0 else [other, block])
        return divided_by_sums(block)

    def back(self, block: Floats) -> Floats:
        """Return the columns that are stored."""
        return block if self.at is None else block[:, [self.at]]
