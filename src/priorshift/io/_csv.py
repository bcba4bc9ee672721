"""CSV files, read by Python's csv module: cells that are not predictions are kept as they are."""

import csv
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Floats
from priorshift.io import _base
from priorshift.io._base import Copy, PredictionFile, order_of, require_distinct
from priorshift.io._resume import Mark

Rows = list[list[str]]
SAMPLE_ROWS = 1000
"""Rows read to decide whether a column is numeric."""


@dataclass(frozen=True)
class CsvFile(PredictionFile):
    """A comma-separated table with a header."""

    is_table = True

    @cached_property
    def header(self) -> list[str]:
        """Names of the columns, without blanks around them."""
        names = [name.strip() for name in self._first_line]
        if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
            raise ValueError(
                f"{self.where} has one column, {names[0]!r}; put commas between cells, and "
                "points in numbers."
            )
        require_distinct(names, f"the header of {self.where}")
        return names

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Columns of numbers, except the label and an unnamed row index."""
        rows = next(self._blocks(SAMPLE_ROWS), [])
        columns = zip(*rows, strict=True) if rows else [("0",)] * len(self.header)
        return tuple(
            name
            for name, cells in zip(self.header, columns, strict=True)
            if name not in ("", self.label_column) and _are_numbers(cells)
        )

    def values(self, names: Sequence[str] | None) -> Floats:
        """Read the predictions."""
        columns = order_of(names or self.names, self.header, self.where)
        blocks, start = [], 0
        for rows in self._blocks(_base.BLOCK_ROWS):
            blocks.append(self._numbers(rows, columns, start))
            start += len(rows)
        return np.concatenate(blocks) if blocks else np.empty((0, len(columns)))

    def vector(self, name: str) -> NDArray[Any] | None:
        """Read a column, as text."""
        if name not in self.header:
            return None
        at = self.header.index(name)
        cells = [row[at].strip() for rows in self._blocks(_base.BLOCK_ROWS) for row in rows]
        return np.array(cells, dtype=str)

    def n_rows(self) -> None:
        """Return None: lines would have to be counted."""
        return

    def _rewrite(self, copy: Copy) -> None:
        """Write a copy with new predictions; byte order mark and line ends stay as they were."""
        columns = order_of(copy.names or self.names, self.header, self.where)
        encoding, line_end = self._conventions()
        start = 0
        with _continued(copy.output, encoding, copy.begin) as stream:
            writer = csv.writer(_LineEnds(stream, line_end))
            if not copy.begin.rows:
                writer.writerow(self._first_line)
            for rows in self._blocks(_base.BLOCK_ROWS):
                if not copy.is_done(start, len(rows)):
                    changed = copy.changed(self._numbers(rows, columns, start), start)
                    _put(rows, columns, changed)
                    writer.writerows(rows)
                    copy.written(start + len(rows), partial(_flushed, stream))
                start += len(rows)

    @cached_property
    def _first_line(self) -> list[str]:
        with self._open() as reader:
            cells = next(reader, None)
        if not cells:
            raise ValueError(f"{self.where} is empty; a CSV file begins with a header.")
        return cells

    def _conventions(self) -> tuple[str, str]:
        """Return encoding and line end."""
        with self.path.open("rb") as stream:
            line = stream.readline()
        # utf-8-sig: spreadsheets begin their files with a byte order mark
        encoding = "utf-8-sig" if line.startswith(b"\xef\xbb\xbf") else "utf-8"
        return encoding, "\r\n" if line.endswith(b"\r\n") else "\n"

    @contextmanager
    def _open(self) -> Iterator[Iterator[list[str]]]:
        with self.path.open(encoding="utf-8-sig", newline="") as stream:
            try:
                yield csv.reader(stream)
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{self.where} is not UTF-8 text ({error}); save it as UTF-8."
                ) from None
            except csv.Error as error:
                raise ValueError(f"{self.where} cannot be read as CSV: {error}.") from None

    def _blocks(self, n_rows: int) -> Iterator[Rows]:
        """Yield blocks of rows, without empty lines."""
        width, done = len(self.header), 0
        with self._open() as reader:
            next(reader)
            lines = filter(None, reader)
            while rows := list(islice(lines, n_rows)):
                for i, row in enumerate(rows):
                    if len(row) != width:
                        raise ValueError(
                            f"{self.where}: row {done + i} has {len(row)} cells but the header has "
                            f"{width}; give every column a cell, and quote cells with commas."
                        )
                yield rows
                done += len(rows)

    def _numbers(self, rows: Rows, columns: list[int], start: int) -> Floats:
        """Turn cells into numbers."""
        try:
            return np.array([[row[at] for at in columns] for row in rows], dtype=np.float64)
        except ValueError:
            i, at = next(
                (i, at) for i, row in enumerate(rows) for at in columns if not _is_number(row[at])
            )
            raise ValueError(
                f"{self.where}: row {start + i}, column {self.header[at]!r} holds "
                f"{rows[i][at]!r}, not a number; repair it, or drop the row."
            ) from None


@contextmanager
def _continued(output: Path, encoding: str, begin: Mark) -> Iterator[TextIO]:
    """Open a file to write from the beginning, or to continue after the rows that are done."""
    if not begin.rows:
        with output.open("w", encoding=encoding, newline="") as stream:
            yield stream
        return
    os.truncate(output, begin.n_bytes)
    with output.open("a", encoding="utf-8", newline="") as stream:  # the byte order mark is there
        yield stream


def _flushed(stream: Any) -> int:
    """Return how many bytes the file has, everything written included."""
    stream.flush()
    return int(stream.buffer.tell())


def _put(rows: Rows, columns: list[int], numbers: Floats) -> None:
    """Replace the cells of some columns by numbers."""
    for row, new in zip(rows, numbers.tolist(), strict=True):
        for at, number in zip(columns, new, strict=True):
            row[at] = number


class _LineEnds:
    """Writes another line end than csv.writer, which must use its own to quote cells correctly."""

    def __init__(self, stream: TextIO, line_end: str) -> None:
        self.stream, self.line_end = stream, line_end

    def write(self, line: str) -> int:
        return self.stream.write(line.removesuffix("\r\n") + self.line_end)


def _are_numbers(cells: Sequence[str]) -> bool:
    """Tell whether cells are numbers, some of them perhaps missing."""
    filled = [cell for cell in cells if cell.strip()]
    return bool(filled) and all(map(_is_number, filled))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
