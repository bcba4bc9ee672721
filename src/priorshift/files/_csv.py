"""CSV files: cells that are not predictions are kept as they are.

Python's csv module reads them. Large ones are read and written by PyArrow, where it is installed;
what PyArrow does not understand goes to the csv module, which also finds the errors.
"""

import csv
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import islice
from types import SimpleNamespace
from typing import Any, BinaryIO, TextIO
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Floats
from priorshift.border import LockFree
from priorshift.files import _base
from priorshift.files._base import Copy, Stored, order_of, require_distinct, stack
from priorshift.files._csv_arrow import GIVE_UP, read_text, to_csv, to_numbers, to_rows
from priorshift.text import csv_cells, is_safe_csv

Rows = list[list[str]]
TEXT_ROWS = 16_384
"""Rows in memory at once: text takes several times the memory of its numbers."""

LARGE_BYTES = 2**23
"""Size from which on a file is worth importing PyArrow."""

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
"""What may stand between cells, and what messages call it."""

MISSING = frozenset(("", "na", "n/a", "#n/a", "nan", "null", "none"))
"""Cells that hold nothing, as spreadsheets and other software write it."""

DECIMAL = re.compile(r"\s*[+-]?\d*([.,])\d+(?:[eE][+-]?\d+)?\s*")
"""A number with decimals. Where spreadsheets separate cells by semicolons, it has a comma."""


TELLS_SEPARATOR = re.compile(r"sep=.?\s*", re.IGNORECASE)
"""A first line that tells spreadsheets what separates cells."""


class CsvFile(Stored):
    """A table of text with a header; commas, semicolons or tabs separate its cells."""

    @LockFree
    def header(self) -> list[str]:
        """Names of the columns, without blanks around them; empty ones may have none."""
        names = [normalize("NFC", name.strip()) for name in self._first_line]
        require_distinct(list(filter(None, names)), f"the header of {self.where}")
        return names

    @LockFree
    def numeric(self) -> tuple[str, ...]:
        """Columns of numbers."""
        sample = zip(self.header, self._sample, strict=True)
        found = [name for name, cells in sample if self._are_numbers(cells, percent=True)]
        require_distinct(found, f"the header of {self.where}")
        return tuple(found)

    @LockFree
    def delimiter(self) -> str:
        """What separates cells: whatever cuts the header into most of them, commas first."""
        with self._text() as stream:
            line = next(filter(str.strip, self._lines(stream)), "")
        found = {mark: len(next(csv.reader([line], delimiter=mark), ())) for mark in DELIMITERS}
        return max(found, key=lambda mark: found[mark])

    @LockFree
    def decimal_comma(self) -> bool:
        """Whether more numbers have a decimal comma than a point; never between commas."""
        if self.delimiter == ",":
            return False
        marks = [
            found[1] for cells in self._sample for found in map(DECIMAL.fullmatch, cells) if found
        ]
        return 2 * marks.count(",") > len(marks)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Say what separates cells and decimals, unless it is as usual."""
        if self.delimiter == ",":
            return ()
        decimals = ", and decimals have a comma" if self.decimal_comma else ""
        name = DELIMITERS[self.delimiter]
        return (f"{self.where} is read with {name} between its cells{decimals}.",)

    def values(self, names: Sequence[str] | None) -> Floats:
        """Read the predictions."""
        columns = self._order(names)
        blocks = (self._numbers(block, columns) for block in self._parts(columns))
        return stack(blocks, len(columns))

    def head(self, n_rows: int, names: Sequence[str] | None) -> Floats:
        """Read the first rows."""
        columns = self._order(names)
        rows = next(self._blocks(n_rows), [])
        return self._numbers(rows, columns) if rows else np.empty((0, len(columns)))

    def _order(self, names: Sequence[str] | None) -> list[int]:
        return order_of(self.numeric if names is None else names, self.header, self.where)

    def vector(self, name: str) -> NDArray[Any] | None:
        """Read a column, as text."""
        if name not in self.header:
            return None
        at = self.header.index(name)
        cells: list[str] = []
        for block in self._parts([at], keep=True):
            row, rows = (at, block) if isinstance(block, list) else (0, to_rows(block))
            cells += [normalize("NFC", cells[row].strip()) for cells in rows]
        return np.array(cells, dtype=str)

    def pieces(self, copy: Copy, begin: int) -> Iterator[tuple[int, Any]]:
        """Yield lines, with the line ends of the file."""
        columns = self._order(copy.names)
        line_end, start = self._conventions[1], 0
        for block in self._parts(None, keep=True):
            if start >= begin:
                numbers = self._numbers(block, columns)
                new, cells = copy.change(numbers, start)
                piece, more = None, None if copy.added is None else cells
                if not isinstance(block, list) and not is_safe_csv():
                    conventions = self.delimiter, self.decimal_comma, line_end
                    piece = to_csv(block, columns, numbers, new, more, *conventions)
                if piece is None:
                    rows = block if isinstance(block, list) else to_rows(block)
                    self._put(rows, columns, numbers, new)
                    if more is not None:
                        rows = [[*row, cell] for row, cell in zip(rows, more, strict=True)]
                    piece = self._lines_of(rows).encode()
                yield len(block), piece
            start += len(block)

    def join(self, copy: Copy, pieces: Iterator[Any], stream: BinaryIO) -> None:
        """Write the header and all lines, compressed and with a byte order mark as the file is."""
        header = self._lines_of(
            [[*self._first_line, *([] if copy.added is None else [copy.added])]]
        )
        # without name and time, so that the same predictions make the same bytes
        packed = gzip.GzipFile("", "wb", fileobj=stream, mtime=0) if self._compressed else None
        with packed or nullcontext(stream) as output:
            output.write(header.encode(self._conventions[0]))
            for piece in pieces:
                output.write(piece)

    def _lines_of(self, rows: Rows) -> str:
        """Return rows as lines of CSV."""
        lines: list[str] = []
        writer = csv.writer(SimpleNamespace(write=lines.append), delimiter=self.delimiter)
        writer.writerows(map(csv_cells, rows))
        # the writer must use its own line end to quote cells correctly
        return "".join(line.removesuffix("\r\n") + self._conventions[1] for line in lines)

    @LockFree
    def _first_line(self) -> list[str]:
        with self._open() as reader:
            cells = next(filter(None, reader), None)
        if not cells:
            raise ValueError(f"{self.where} is empty; a CSV file begins with a header.")
        return cells

    @LockFree
    def _sample(self) -> list[Sequence[str]]:
        """The cells of each column in the first rows; of a table without rows, numbers."""
        rows = next(self._blocks(1000), [])
        return list(zip(*rows, strict=True)) if rows else [("0",)] * len(self.header)

    @LockFree
    def _compressed(self) -> bool:
        """Whether the file begins as gzip does, whatever its name."""
        with self.path.open("rb") as stream:
            return stream.read(2) == b"\x1f\x8b"

    @LockFree
    def _tells_separator(self) -> bool:
        with self._text() as stream:
            return TELLS_SEPARATOR.fullmatch(stream.readline(8)) is not None

    @LockFree
    def _conventions(self) -> tuple[str, str]:
        """Encoding and line end."""
        with gzip.open(self.path) if self._compressed else self.path.open("rb") as stream:
            line = stream.readline(_base.LONGEST_LINE)
        # utf-8-sig: spreadsheets begin their files with a byte order mark
        encoding = "utf-8-sig" if line.startswith(b"\xef\xbb\xbf") else "utf-8"
        return encoding, "\r\n" if line.endswith(b"\r\n") else "\n"

    @contextmanager
    def _text(self) -> Iterator[TextIO]:
        """Open the file as text; errors name it."""
        try:
            if self._compressed:
                with gzip.open(self.path, "rt", encoding="utf-8-sig", newline="") as stream:
                    yield stream
            else:
                with self.path.open(encoding="utf-8-sig", newline="") as stream:
                    yield stream
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{self.where} is not UTF-8 text ({error}); save it as UTF-8. If a spreadsheet "
                f"wrote it as Windows-1252: iconv -f WINDOWS-1252 -t UTF-8 {self.where} > NEW.csv"
            ) from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{self.where} cannot be read: {error}; write it again.") from None

    @contextmanager
    def _open(self) -> Iterator[Iterator[list[str]]]:
        delimiter = self.delimiter
        with self._text() as stream:
            try:
                yield csv.reader(self._lines(stream), delimiter=delimiter)
            except csv.Error as error:
                raise ValueError(f"{self.where} cannot be read as CSV: {error}.") from None

    def _lines(self, stream: TextIO) -> Iterator[str]:
        """Yield lines, of a length and in a number that a file of this size may have."""
        if self._tells_separator:
            stream.readline()
            yield "\n"
        if not self.bounded:
            yield from stream
            return
        longest, stored, n_read = _base.LONGEST_LINE, self.path.stat().st_size, 0
        while line := stream.readline(longest + 1):
            if len(line) > longest:
                raise ValueError(
                    f"{self.where} has a line of more than {longest:,} characters, too long for "
                    f"a row of predictions; {_base.ANY_SIZE}."
                )
            n_read += len(line)
            if self._compressed:
                self.require_bounded(n_read, stored)
            yield line

    def _blocks(self, n_rows: int) -> Iterator[Rows]:
        """Yield blocks of rows, without empty lines."""
        width, rows = len(self.header), self._numbered_rows()
        while block := list(islice(rows, n_rows)):
            for line, row in block:
                if len(row) != width:
                    raise ValueError(
                        f"{self.where}: line {line} has {len(row)} cells but the header has "
                        f"{width}; give every column a cell, and quote cells with "
                        f"{DELIMITERS[self.delimiter]}."
                    )
            yield [row for _, row in block]

    def _parts(self, columns: list[int] | None, *, keep: bool = False) -> Iterator[Any]:
        """Yield blocks of as many rows each: lists of all cells, or tables of some columns.

        Missing cells are null in tables, unless all text is to be kept.
        """
        n_blocks, n_read, stored = 0, 0, self.path.stat().st_size
        n_rows = min(TEXT_ROWS, _base.BLOCK_ROWS)

        def advance(n_bytes: int) -> None:
            nonlocal n_read
            n_read += n_bytes
            if self._compressed:
                self.require_bounded(n_read, stored)

        plain = not (self._tells_separator or any("\n" in name for name in self._first_line))
        if stored >= LARGE_BYTES and plain:
            spellings = (str.lower, str.upper, str.title)  # the csv module knows all others
            missing = [] if keep else [how(cell) for cell in MISSING for how in spellings]
            about = len(self.header), columns, self.delimiter, missing, n_rows, advance
            with (
                suppress(*GIVE_UP),
                gzip.open(self.path) if self._compressed else self.path.open("rb") as stream,
            ):
                for table in read_text(stream, *about):
                    yield table
                    n_blocks += 1
                return
        yield from islice(self._blocks(n_rows), n_blocks, None)

    def _numbers(self, block: Any, columns: list[int]) -> Floats:
        """Turn cells into numbers; those that are missing are NaN."""
        if isinstance(block, list):
            cells = [[row[at] for at in columns] for row in block]
        else:
            block = block.select([str(at) for at in columns])
            if (found := to_numbers(block, self.decimal_comma)) is not None:
                return found
            cells = to_rows(block)
        if self.decimal_comma:
            cells = [list(map(_pointed, row)) for row in cells]
        try:
            return np.array(cells, dtype=np.float64)
        except ValueError:
            pass
        try:
            filled = [["nan" if _is_missing(cell) else cell for cell in row] for row in cells]
            return np.array(filled, dtype=np.float64)
        except ValueError:
            raise ValueError(self._not_numbers(columns)) from None

    def _not_numbers(self, columns: list[int]) -> str:
        """Say how many cells hold no number, and where the first ones are."""
        found = [
            (line, f"line {line}, column {self.header[at]!r} holds {row[at]!r}")
            for line, row in self._numbered_rows()
            for at in columns
            if at < len(row) and not (_is_missing(row[at]) or self._are_numbers([row[at]]))
        ]
        n_rows = len({line for line, _ in found})
        more = f" ({len(found)} such cells in {n_rows} rows)" if len(found) > 1 else ""
        said = "; ".join(where for _, where in found[:3])
        if any(where.endswith("%'") for _, where in found):
            return (
                f"{self.where}: cells carry percent signs{more}: {said}; write shares from 0 to 1, "
                "0.85 instead of 85%."
            )
        return f"{self.where}: {said}, not a number{more}; repair them, or drop these rows."

    def place(self, row: int) -> str:
        """Name the line of a row, as an editor counts them."""
        line, _ = next(islice(self._numbered_rows(), row, None))
        return f"line {line}"

    def _numbered_rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield rows with the number of the line on which each begins."""
        with self._open() as reader:
            next(filter(None, reader))
            begin = reader.line_num + 1  # type: ignore[attr-defined]
            for row in reader:
                if row:
                    yield begin, row
                begin = reader.line_num + 1  # type: ignore[attr-defined]

    def _put(self, rows: Rows, columns: list[int], before: Floats, after: Floats) -> None:
        """Replace the cells of numbers that changed; others stay as they were written."""
        mark = "," if self.decimal_comma else "."
        for row, old, new in zip(rows, before.tolist(), after.tolist(), strict=True):
            for at, was, number in zip(columns, old, new, strict=True):
                if number != was and number == number:
                    row[at] = repr(number).replace(".", mark)

    def _are_numbers(self, cells: Sequence[str], *, percent: bool = False) -> bool:
        """Tell whether cells are numbers, some perhaps missing, or all with a sign of percent."""
        filled = [cell for cell in cells if not _is_missing(cell)]
        if percent and all(cell.rstrip().endswith("%") for cell in filled):
            filled = [cell.rstrip()[:-1] for cell in filled]
        if self.decimal_comma:
            filled = list(map(_pointed, filled))
        return bool(filled) and all(map(_is_number, filled))


def _pointed(cell: str) -> str:
    """Return a number with a decimal point."""
    return cell.replace(",", ".")


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in MISSING


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
