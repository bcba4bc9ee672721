"""What every stored file can do, whatever its format."""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Floats
from priorshift.border import Rows, head, some


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
class Stored(ABC):
    """A file as it is stored, read on demand: one class per format.

    Attributes
    ----------
    path : Path
    title : str
        What messages call the file, if not by its path.
    logits : bool
        Whether its predictions are logits.
    bounded : bool
        Whether to refuse a file that expands to far more than its size, as only a hostile one does.
    """

    path: Path
    title: str = ""
    logits: bool = False
    bounded: bool = True

    is_table = True
    """Whether columns have names, among which the class columns must be found."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was assumed in order to read the file, one sentence each."""
        return ()

    @property
    def adapted(self) -> str | None:
        """Which version of priorshift adapted the predictions, if the file says so."""
        return None

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
    def numeric(self) -> tuple[str, ...] | None:
        """A table's columns of numbers, an npz's classes, or None."""

    @property
    def single(self) -> bool:
        """Whether an array of predictions is one column."""
        return False

    @abstractmethod
    def values(self, names: Sequence[str] | None) -> Floats:
        """Read the predictions, columns in the order of `names`, or as stored for None."""

    def rows(self, names: Sequence[str] | None) -> Rows:
        """Return the predictions, as a table that is read in blocks if the format allows."""
        return self.values(names)

    def head(self, n_rows: int, names: Sequence[str] | None) -> Floats:
        """Read the predictions of the first rows only."""
        return head(self.rows(names), n_rows)

    @abstractmethod
    def vector(self, name: str) -> NDArray[Any] | None:
        """Read a column or array by name, if there is one."""

    def n_rows(self) -> int | None:
        """Return the number of rows, if that is known without reading them."""
        return None

    def place(self, row: int) -> str:
        """Name a row as a reader of the file finds it."""
        return f"row {row}"

    @abstractmethod
    def pieces(self, copy: Copy, begin: int) -> Iterator[tuple[int, Any]]:
        """Yield rows and bytes of each piece of a copy, from row `begin` on."""

    @abstractmethod
    def join(self, copy: Copy, pieces: Iterator[Any], stream: BinaryIO) -> None:
        """Write the copy that these pieces make up; everything else is as in this file."""

    def require_bounded(self, n_bytes: int, stored: int) -> None:
        """Refuse contents that are too large for what is stored."""
        if self.bounded and n_bytes > max(MOST_EXPANDED, MOST_TIMES * stored):
            raise ValueError(
                f"{self.where} expands from {stored:,} bytes to {n_bytes:,} or more, as files do "
                f"that are made to fill a memory; {ANY_SIZE}."
            )


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
