"""A file as it is meant: its columns by class, one column as two classes, rows that sum to 1."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Floats, Mask, float_type
from priorshift.border import Rows, divided_by_sums, map_blocks
from priorshift.files._base import Copy, PredictionFile, order_of


@dataclass(frozen=True)
class FileView(PredictionFile):
    """A file read in another way; what a view does not say of itself is what the file says."""

    file: PredictionFile = None  # type: ignore[assignment]

    @classmethod
    def around(cls, file: PredictionFile, *about: Any) -> PredictionFile:
        """Return a view of a file."""
        common = (file.path, file.label_column, file.kind, file.title, file.ignored, file.bounded)
        return cls(*common, file, *about)

    @property
    def is_table(self) -> bool:
        """Whether columns have names."""
        return self.file.is_table

    @property
    def header(self) -> Sequence[str]:
        """Names of all columns, as the file has them."""
        return self.file.header

    @property
    def names(self) -> tuple[str, ...] | None:
        """The classes."""
        return self.file.names

    @property
    def single(self) -> bool:
        """Whether there is one column of predictions only."""
        return self.file.single

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was assumed in order to read the file."""
        return self.file.remarks

    @property
    def delimiter(self) -> str:
        """What separates the cells of CSV."""
        return getattr(self.file, "delimiter", ",")

    @property
    def decimal_comma(self) -> bool:
        """Whether the numbers of CSV have a decimal comma."""
        return getattr(self.file, "decimal_comma", False)

    @property
    def adapted(self) -> str | None:
        """Which version of priorshift adapted the predictions."""
        return self.file.adapted

    @property
    def resumable(self) -> bool:
        """Whether `rewrite` can continue what an earlier run began."""
        return self.file.resumable

    def stored_names(self, names: Sequence[str] | None) -> Sequence[str] | None:
        """Return what the file itself calls the columns of some classes."""
        return self.file.stored_names(names)

    def labels(self) -> NDArray[Any] | None:
        """Read the labels."""
        return self.file.labels()

    def vector(self, name: str) -> NDArray[Any] | None:
        """Read a column by its name in the file."""
        return self.file.vector(name)

    def n_rows(self) -> int | None:
        """Return the number of rows, if that is known without reading them."""
        return self.file.n_rows()

    def place(self, row: int) -> str:
        """Name a row as a reader of the file finds it."""
        return self.file.place(row)


@dataclass(frozen=True)
class ClassView(FileView):
    """A file whose columns are called by their classes.

    Everything else (labels, other columns, how it is written) is that of the file.

    Attributes
    ----------
    file : PredictionFile
    columns : mapping from class to column, or None
        None leaves the columns as the file has them.
    binary : pair of str or None
        The negative and the positive class, if the only column holds the probability of the latter.
    renormalise : bool
        Whether rows are divided by their sums.
    """

    columns: Mapping[str, str] | None = None
    binary: tuple[str, str] | None = None
    renormalise: bool = False

    @classmethod
    def of(
        cls,
        file: PredictionFile,
        columns: Mapping[str, str] | None = None,
        *,
        binary: tuple[str, str] | None = None,
        renormalise: bool = False,
    ) -> PredictionFile:
        """Return a file as it is meant: itself, if that changes nothing."""
        if columns is not None and dict(columns) == {name: name for name in file.names or ()}:
            columns = None
        if columns is None and binary is None and not renormalise:
            return file
        return cls.around(file, columns, binary, renormalise)

    @property
    def names(self) -> tuple[str, ...] | None:
        """The classes."""
        if self.binary is not None:
            return self.binary
        return self.file.names if self.columns is None else tuple(self.columns)

    @property
    def single(self) -> bool:
        """Whether there is still a class missing."""
        return self.binary is None and self.file.single

    def values(self, names: Sequence[str] | None) -> Floats:
        """Read the predictions, one column per class."""
        return self._function(names)(self.file.values(self.stored_names(names)))

    def rows(self, names: Sequence[str] | None = None) -> Rows:
        """Return the predictions as the file does, in blocks where it can."""
        rows, function = self.file.rows(self.stored_names(names)), self._function(names)
        if function.changes_nothing:
            return rows
        return map_blocks(function, rows, rows.shape[1] if self.binary is None else 2)

    def head(self, n_rows: int, names: Sequence[str] | None = None) -> Floats:
        """Read the predictions of the first rows only."""
        return self._function(names)(self.file.head(n_rows, self.stored_names(names)))

    def _rewrite(self, copy: Copy) -> None:
        around = _Around(self._function(copy.names), copy.function)
        self.file._rewrite(replace(copy, names=self.stored_names(copy.names), function=around))

    def _function(self, names: Sequence[str] | None) -> "Meant":
        """Return what to do to a block of the file's rows."""
        if self.binary is None:
            return Meant(renormalise=self.renormalise)
        at = order_of(self.binary[1:], names or self.binary, self.where)[0]
        return Meant(at, logits=self.kind == "logits")

    def stored_names(self, names: Sequence[str] | None) -> Sequence[str] | None:
        """Return what the file itself calls the columns of some classes; of two, the positive."""
        if self.columns is None:
            return None if self.binary is not None else names
        wanted = self.binary[1:] if self.binary is not None else names or self.columns
        order_of(list(wanted), list(self.columns), self.where)
        return [self.columns[name] for name in wanted]


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


@dataclass(frozen=True)
class _Around:
    """Rewrites stored rows by a function of predictions of every class."""

    meant: Meant
    function: Callable[[Floats], Floats]

    def __call__(self, block: Floats) -> Floats:
        return self.meant.back(self.function(self.meant(block)))


@dataclass(frozen=True)
class KeptRows(FileView):
    """A file without some of its rows, in memory; a copy with new predictions has all of them.

    Attributes
    ----------
    file : PredictionFile
    kept : ndarray of bool, of shape (n_rows of the file,)
    """

    kept: Mask = None  # type: ignore[assignment]

    @classmethod
    def of(cls, file: PredictionFile, kept: Mask) -> PredictionFile:
        """Return a file without the rows that are not kept: itself, if all are."""
        if kept.all():
            return file
        return cls.around(file, kept)

    def values(self, names: Sequence[str] | None) -> Floats:
        """Read the predictions of the rows that are kept."""
        return self.file.values(names)[self.kept]

    def vector(self, name: str) -> NDArray[Any] | None:
        """Read the cells of a column in the rows that are kept."""
        found = self.file.vector(name)
        return found[self.kept] if found is not None and found.shape == self.kept.shape else found

    def labels(self) -> NDArray[Any] | None:
        """Read the labels of the rows that are kept."""
        found = self.file.labels()
        return None if found is None else found[self.kept]

    def n_rows(self) -> int:
        """Return the number of rows that are kept."""
        return int(np.count_nonzero(self.kept))

    def place(self, row: int) -> str:
        """Name a row as a reader of the file finds it."""
        return self.file.place(int(np.flatnonzero(self.kept)[row]))

    def _rewrite(self, copy: Copy) -> None:
        """Give new predictions to rows that have some; leave all else as it is."""
        whole: list[bool] = []

        def changed(block: Floats) -> Floats:
            there: Mask = ~np.isnan(block).any(axis=1)  # type: ignore[assignment]
            new = block.copy()
            whole[:] = there.tolist()
            if any(whole):
                new[there] = copy.function(block[there])
            return new

        def cells() -> list[str]:
            given = iter(copy.added[1]() if copy.added is not None and any(whole) else ())
            return [next(given) if there else "" for there in whole]

        added = None if copy.added is None else (copy.added[0], cells)
        self.file._rewrite(replace(copy, function=changed, added=added))
