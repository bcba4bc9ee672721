"""What every file of predictions can do, whatever its format."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Floats, Labels
from priorshift._validation import some
from priorshift.execution import Rows
from priorshift.io._resume import START, Mark, Save

Rewrite = Callable[[Floats], Floats]
"""Turns the predictions of a block of rows into new ones."""

Advance = Callable[[int], None]
"""Hears how many rows were done."""

BLOCK_ROWS = 65_536
"""Rows in memory at once, where a file can be read in parts."""

LARGEST_WHOLE = 2.0**53
"""Up to which float64 holds every whole number."""


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
        What messages call the file, where that is not its path.
    """

    path: Path
    label_column: str
    kind: Literal["proba", "logits"] = "proba"
    title: str = ""

    @property
    def where(self) -> str:
        """What messages call the file."""
        return self.title or str(self.path)

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...] | None:
        """What may be class columns: a table's numeric columns, an npz's classes, or None."""

    @property
    @abstractmethod
    def is_table(self) -> bool:
        """Whether columns have names of their own, among which class columns must be found."""

    @abstractmethod
    def values(self, names: Sequence[str] | None) -> Floats:
        """Read the predictions, columns in the order of `names`, or as they are for None."""

    def rows(self, names: Sequence[str] | None = None) -> Rows:
        """Return the predictions for estimators: a table that is read in blocks, never whole.

        So it is for npy, Arrow and Parquet, however large. What cannot be read from the middle,
        npz and CSV, is read into memory as an array.

        Parameters
        ----------
        names : sequence of str, optional
            Columns in the order wanted, by default all that may be classes, as in the file.

        Returns
        -------
        Table or ndarray of shape (n_samples, n_classes)
        """
        return self.values(names)

    @abstractmethod
    def labels(self) -> NDArray[Any] | None:
        """Read the labels, if there are any."""

    @abstractmethod
    def vector(self, name: str) -> NDArray[Any] | None:
        """Read a column or array by name, if there is one."""

    @abstractmethod
    def n_rows(self) -> int | None:
        """Return the number of rows, if that is known without reading them."""

    @property
    def resumable(self) -> bool:
        """Whether `rewrite` can go on with what an earlier one has begun."""
        return True

    @abstractmethod
    def rewrite(
        self,
        output: Path,
        names: Sequence[str] | None,
        function: Rewrite,
        advance: Advance,
        begin: Mark = START,
        save: Save | None = None,
    ) -> None:
        """Write a copy with new predictions, block by block; all else is kept.

        Given `save`, it hears after every block how far `output` is good; handed to `begin` of a
        later call, with that very file, the work goes on there. The file comes out the same.
        """


def apply(
    function: Rewrite, values: Floats, start: int, advance: Advance, where: str
) -> NDArray[np.floating[Any]]:
    """Apply `function` to a block of rows, and say which file was at fault."""
    try:
        changed = function(values)
    except ValueError as error:
        counted = f" (Row 0 of this block is row {start} of the file.)" if start else ""
        raise ValueError(f"{where}: {error}{counted}") from None
    advance(values.shape[0])
    return changed


def order_of(wanted: Sequence[str], present: Sequence[str], where: str) -> list[int]:
    """Find columns by name."""
    at = {name: i for i, name in enumerate(present)}
    missing = [name for name in wanted if name not in at]
    if missing:
        raise ValueError(f"{where} has no column {some(missing)}; it has {some(present, 40)}.")
    return [at[name] for name in wanted]


def require_distinct(names: Sequence[str], where: str) -> None:
    """Refuse names that occur twice."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(f"{where} names {some(repeated)} twice; rename one of the two.")


def as_text(labels: NDArray[Any]) -> Labels:
    """Turn labels into text, whole numbers without a point: 2.0 is the class "2"."""
    if labels.dtype.kind == "f" and are_whole(labels):
        labels = labels.astype(np.int64)
    if labels.dtype.kind == "S":
        return np.char.decode(labels, "utf-8")
    return labels.astype(str)


def are_whole(numbers: NDArray[np.floating[Any]]) -> bool:
    """Tell whether floats are whole numbers, none too large to be told from the next."""
    return bool(np.all(numbers == np.round(numbers)) and np.all(np.abs(numbers) <= LARGEST_WHOLE))


def row_starts(n_rows: int, begin: int = 0) -> Iterator[slice]:
    """Cut rows into blocks."""
    for start in range(begin, n_rows, BLOCK_ROWS):
        yield slice(start, min(start + BLOCK_ROWS, n_rows))
