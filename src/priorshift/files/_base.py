"""What every file of predictions can do, whatever its format."""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Floats
from priorshift.border import Rows, head, some
from priorshift.files._resume import Mark, Partial

Rewrite = Callable[[Floats], Floats]
"""Turns the predictions of a block of rows into new ones."""

Advance = Callable[[int], None]
"""Called with the number of rows that were done."""

Added = tuple[str, Callable[[], list[str]]]
"""Name of a column that a copy has beside those of its file, and what gives its next cells."""

BLOCK_ROWS = 65_536
"""Rows in memory at once, where a file can be read in parts."""

PANDAS_INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+(_level_\d+)?")
"""Names that pandas gives an index without a name: in Parquet, and when it reads CSV again."""

LONGEST_LINE = 2**24
"""Characters of a line of text: enough for the scores of half a million classes."""

MOST_EXPANDED, MOST_TIMES = 2**30, 100
"""Bytes that a compressed file may expand to, or times its own size if that is more."""

ADAPTED = "priorshift.adapted"
"""Key of the metadata, or name of the array, that marks a file as adapted."""

ANY_SIZE = "if you trust it, read it with bounded=False (in a command, --any-size)"


@dataclass(frozen=True)
class PredictionFile(ABC):
    """A file of predictions, read on demand.

    Attributes
    ----------
    path : Path
    label_column : str
        Column, or key of an npz, that holds labels.
    kind : {"proba", "logits"}
        What the predictions are.
    title : str
        What messages call the file, if not by its path.
    ignored : tuple of str
        Columns that are not classes, even if they hold numbers: a group, a time.
    bounded : bool
        Whether to refuse a file that expands to far more than its size, as only a hostile one does.
    """

    path: Path
    label_column: str
    kind: Literal["proba", "logits"] = "proba"
    title: str = ""
    ignored: tuple[str, ...] = ()
    bounded: bool = True

    def require_bounded(self, n_bytes: int, stored: int) -> None:
        """Refuse contents that are too large for what is stored."""
        if self.bounded and n_bytes > max(MOST_EXPANDED, MOST_TIMES * stored):
            raise ValueError(
                f"{self.where} expands from {stored:,} bytes to {n_bytes:,} or more, as files do "
                f"that are made to fill a memory; {ANY_SIZE}."
            )

    @property
    def where(self) -> str:
        """What messages call the file."""
        return self.title or str(self.path)

    @property
    @abstractmethod
    def header(self) -> Sequence[str]:
        """Names of all columns, or of all arrays of an npz."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...] | None:
        """The possible class columns: a table's numeric columns, an npz's classes, or None."""

    @property
    def single(self) -> bool:
        """Whether there is one column of predictions only: the probability of a positive class."""
        return self.names is not None and len(self.names) == 1

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was assumed in order to read the file, one sentence each."""
        return ()

    @property
    def adapted(self) -> str | None:
        """Which version of priorshift adapted the predictions, if the file says so."""
        return None

    def is_index(self, name: str) -> bool:
        """Tell whether a column is a row index, as pandas writes and reads it without a name."""
        return not name or PANDAS_INDEX.fullmatch(name) is not None

    def may_be_class(self, name: str) -> bool:
        """Tell whether a column of numbers may be a class: not the label, an index, a group."""
        return name not in (self.label_column, *self.ignored) and not self.is_index(name)

    @property
    @abstractmethod
    def is_table(self) -> bool:
        """Whether columns have names, among which the class columns must be found."""

    @abstractmethod
    def values(self, names: Sequence[str] | None) -> Floats:
        """Read the predictions, columns in the order of `names`, or as stored for None."""

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
        return self.values(names)

    def stored_names(self, names: Sequence[str] | None) -> Sequence[str] | None:
        """Return what the file itself calls the columns of some classes; None without names."""
        return names if self.is_table else None

    def head(self, n_rows: int, names: Sequence[str] | None = None) -> Floats:
        """Read the predictions of the first rows only."""
        return head(self.rows(names), n_rows)

    def labels(self) -> NDArray[Any] | None:
        """Read the labels, if there are any."""
        return self.vector(self.label_column)

    @abstractmethod
    def vector(self, name: str) -> NDArray[Any] | None:
        """Read a column or array by name, if there is one."""

    @abstractmethod
    def n_rows(self) -> int | None:
        """Return the number of rows, if that is known without reading them."""

    def place(self, row: int) -> str:
        """Name a row as a reader of the file finds it."""
        return f"row {row}"

    @property
    def resumable(self) -> bool:
        """Whether `rewrite` can continue what an earlier run began."""
        return True

    def rewrite(
        self,
        output: BinaryIO | Partial,
        names: Sequence[str] | None,
        function: Rewrite,
        advance: Advance,
        keep: Callable[[], dict[str, Any]] = dict,
        added: Added | None = None,
    ) -> None:
        """Write a copy with new predictions, block by block; everything else is kept.

        A partial file is continued where an earlier run ended, and keeps with every mark what
        `keep` returns. The finished file is the same either way. `added` is the name of a further
        column, and a function that returns its cells in the block that `function` had last.
        """
        if added is not None and added[0] in self.header:
            raise ValueError(
                f"{self.where} has a column {added[0]!r} already; choose another name."
            )
        partial = output if isinstance(output, Partial) else Partial(output)
        self._rewrite(Copy(self.where, partial, names, function, advance, keep, added))

    @abstractmethod
    def _rewrite(self, copy: "Copy") -> None:
        """Write a copy in the format of the file."""


@dataclass(frozen=True)
class Copy:
    """A copy of a file that is being written with new predictions: see `PredictionFile.rewrite`."""

    where: str
    partial: Partial
    names: Sequence[str] | None
    function: Rewrite
    advance: Advance
    keep: Callable[[], dict[str, Any]]
    added: Added | None = None

    @property
    def stream(self) -> BinaryIO:
        """Where to write."""
        return self.partial.stream

    @property
    def begin(self) -> Mark:
        """How far an earlier run came."""
        return self.partial.begin

    def is_done(self, start: int, n_rows: int) -> bool:
        """Tell whether an earlier run wrote the rows from `start`; then count them as done."""
        done = start < self.begin.rows
        if done:
            self.advance(n_rows)
        return done

    def changed(self, values: Floats, start: int) -> Floats:
        """Return the new predictions of a block; name the file in errors."""
        try:
            new = self.function(values)
        except ValueError as error:
            counted = f" (Row 0 of this block is row {start} of the file.)" if start else ""
            raise ValueError(f"{self.where}: {error}{counted}") from None
        self.advance(values.shape[0])
        return new

    def written(self, n_rows: int, parts: tuple[tuple[int, int], ...] = ()) -> None:
        """Record that the first `n_rows` are written."""
        self.partial.save(lambda: Mark(n_rows, self.stream.tell(), parts), self.keep)


def stack(blocks: Iterable[Floats], n_columns: int) -> Floats:
    """Join blocks of rows, which are not held beside the result: it grows in place."""
    found: Floats = np.empty((0, n_columns))
    for block in blocks:
        n = len(found)
        found = found if n else found.astype(block.dtype)
        found.resize((n + len(block), n_columns), refcheck=False)
        found[n:] = block
    return found


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
