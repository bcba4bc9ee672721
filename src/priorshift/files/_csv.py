"""CSV files: cells that are not predictions are kept as they are.

Python's csv module reads them. Large ones (`LARGE_BYTES`) are read and written by PyArrow, where it
is installed; what it does not understand goes to the csv module, which also finds the errors.
"""

import codecs
import csv
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from io import BytesIO
from itertools import chain, islice
from types import SimpleNamespace
from typing import Any, BinaryIO, NamedTuple
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Floats, Vector
from priorshift.border import LockFree, map_parts
from priorshift.files import _base
from priorshift.files._base import Copy, PredictionFile, order_of, require_distinct
from priorshift.text import csv_cells, is_safe_csv

Rows = list[list[str]]
TEXT_ROWS = 16_384
"""Rows in memory at once: text takes several times the memory of its numbers."""

TOP_ROWS = 1000
"""First rows, which tell which columns are numbers."""

MARK = "\ufeff"
"""The byte order mark that spreadsheets begin a file with."""

LARGE_BYTES = 2**23
"""Size from which on a file is worth importing PyArrow."""

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
"""What may stand between cells, and what messages call it."""

MISSING = frozenset(("", "na", "n/a", "#n/a", "nan", "null", "none"))
"""Cells that hold nothing, as spreadsheets and other software write it."""

DECIMAL = re.compile(r"\s*[+-]?\d*([.,])\d+(?:[eE][+-]?\d+)?\s*")
"""A number with decimals. Where spreadsheets separate cells by semicolons, it has a comma."""

CHUNK_BYTES, CELL_BYTES = 2**20, 512
"""Bytes that are parsed at once: few fit the processor's cache, and a line must fit as well."""

GIVE_UP = (ImportError, UnicodeDecodeError, EOFError, zlib.error, OSError)
"""Errors after which the csv module reads on, or says what is wrong."""

TELLS_SEPARATOR = re.compile(r"sep=.?\s*", re.IGNORECASE)
"""A first line that tells spreadsheets what separates cells."""


class Style(NamedTuple):
    """How a file is written: spreadsheets begin theirs with a byte order mark, for one.

    `tells_separator` says whether the first line does, before the header.
    """

    compressed: bool
    marked: bool
    line_end: str
    delimiter: str
    tells_separator: bool


class Top(NamedTuple):
    """What the first rows tell: the header as it is written and as it is read, and more.

    `columns` are the cells of each column; `decimal_comma` says whether more numbers have one than
    a point, which they never have between commas.
    """

    first_line: list[str]
    header: list[str]
    columns: Sequence[Sequence[str]]
    decimal_comma: bool


class CsvFile(PredictionFile):
    """A table of text with a header; commas, semicolons or tabs separate its cells."""

    @property
    def header(self) -> list[str]:
        """Names of the columns, without blanks around them; empty ones may have none."""
        return self._top.header

    @LockFree
    def numeric(self) -> tuple[str, ...]:
        """Columns of numbers."""
        top = self._top
        found = [
            name
            for name, cells in zip(top.header, top.columns, strict=True)
            if _are_numbers(cells, top.decimal_comma, percent=True)
        ]
        require_distinct(found, f"the header of {self.where}")
        return tuple(found)

    @property
    def separators(self) -> tuple[str, str]:  # type: ignore[override]
        """What stands between cells, and before decimals."""
        return self._style.delimiter, "," if self._top.decimal_comma else "."

    @property
    def remarks(self) -> tuple[str, ...]:  # type: ignore[override]
        """Say what separates cells and decimals, unless it is as usual."""
        delimiter, mark = self.separators
        if delimiter == ",":
            return ()
        decimals = ", and decimals have a comma" if mark == "," else ""
        return (f"{self.where} is read with {DELIMITERS[delimiter]} between its cells{decimals}.",)

    def read(self, names: Sequence[str] | None) -> Floats:
        """Read the predictions; what was read grows in place, not beside its parts."""
        columns = order_of(names or self.numeric, self.header, self.where)
        found: Floats = np.empty((0, len(columns)))
        for block in self._parts(columns):
            n = len(found)
            found.resize((n + len(block), len(columns)), refcheck=False)
            found[n:] = self._numbers(block, columns)
        return found

    def read_head(self, n_rows: int, names: Sequence[str] | None) -> Floats:
        """Read the first rows."""
        columns = order_of(names or self.numeric, self.header, self.where)
        rows = list(islice(self._rows(), 1, n_rows + 1))
        return self._numbers(rows, columns) if rows else np.empty((0, len(columns)))

    def read_vector(self, name: str) -> NDArray[Any] | None:
        """Read a column, as text."""
        if name not in self.header:
            return None
        at = self.header.index(name)
        cells: list[str] = []
        for block in self._parts([at], keep=True):
            row, rows = (at, block) if isinstance(block, list) else (0, to_rows(block))
            cells += [normalize("NFC", cells[row].strip()) for cells in rows]
        return np.array(cells, dtype=str)

    def place_of(self, row: int) -> str:
        """Name the line of a row, as an editor counts them."""
        begins: list[int] = []
        next(islice(self._rows(begins), 1 + row, None))
        return f"line {begins[-1]}"

    def pieces(self, copy: Copy, begin: int) -> Iterator[tuple[int, Any]]:
        """Yield lines, with the line ends of the file."""
        columns = order_of(copy.names or self.numeric, self.header, self.where)
        mark, start = self.separators[1], 0
        for block in self._parts(None, keep=True):
            if start >= begin:
                numbers = self._numbers(block, columns)
                new, cells = copy.change(numbers, start)
                piece, more = None, None if copy.added is None else cells
                if not isinstance(block, list) and not is_safe_csv():
                    form = *self.separators, self._style.line_end
                    piece = to_csv(block, columns, numbers, new, more, *form)
                if piece is None:
                    rows = block if isinstance(block, list) else to_rows(block)
                    for row, old, given in zip(rows, numbers.tolist(), new.tolist(), strict=True):
                        for at, was, number in zip(columns, old, given, strict=True):
                            if number != was and number == number:  # others stay as written
                                row[at] = repr(number).replace(".", mark)
                    if more is not None:
                        rows = [[*row, cell] for row, cell in zip(rows, more, strict=True)]
                    piece = self._lines_of(rows)
                yield len(block), piece
            start += len(block)

    def join(self, copy: Copy, pieces: Iterator[Any], stream: BinaryIO) -> None:
        """Write the header and all lines, compressed and with a byte order mark as the file is."""
        # without name and time, so that the same predictions make the same bytes
        packed = self._style.compressed and gzip.GzipFile("", "wb", fileobj=stream, mtime=0)
        with packed or nullcontext(stream) as output:
            output.write(codecs.BOM_UTF8 if self._style.marked else b"")
            further = [] if copy.added is None else [copy.added]
            for piece in chain([self._lines_of([[*self._top.first_line, *further]])], pieces):
                output.write(piece)

    def _lines_of(self, rows: Rows) -> bytes:
        """Return rows as lines of CSV."""
        lines: list[str] = []
        writer = csv.writer(SimpleNamespace(write=lines.append), delimiter=self.separators[0])
        writer.writerows(map(csv_cells, rows))
        # the writer must use its own line end to quote cells correctly
        end = self._style.line_end
        return "".join(line.removesuffix("\r\n") + end for line in lines).encode()

    @LockFree
    def _style(self) -> Style:
        """How the file is written; most cells of the header tell what separates them."""
        with self.path.open("rb") as stream:
            compressed = stream.read(2) == b"\x1f\x8b"  # whatever its name
        lines = self._lines(compressed)
        first = next(lines, "")
        marked, first = first.startswith(MARK), first.removeprefix(MARK)
        told = TELLS_SEPARATOR.fullmatch(first) is not None
        line = next(filter(str.strip, lines if told else chain([first], lines)), "")
        cells = {mark: len(next(csv.reader([line], delimiter=mark), ())) for mark in DELIMITERS}
        line_end = "\r\n" if first.endswith("\r\n") else "\n"
        return Style(compressed, marked, line_end, max(cells, key=cells.__getitem__), told)

    @LockFree
    def _top(self) -> Top:
        """What the header and the first rows tell."""
        rows = list(islice(self._rows(), 1 + TOP_ROWS))
        if not rows:
            raise ValueError(f"{self.where} is empty; a CSV file begins with a header.")
        header = [normalize("NFC", name.strip()) for name in rows[0]]
        require_distinct(list(filter(None, header)), f"the header of {self.where}")
        # without rows, all may be numbers
        columns = list(zip(*rows[1:], strict=True)) or [("0",)] * len(header)
        comma = self._style.delimiter != ","
        if comma:
            found = [DECIMAL.fullmatch(cell) for cells in columns for cell in cells]
            marks = [decimal[1] for decimal in found if decimal]
            comma = 2 * marks.count(",") > len(marks)
        return Top(rows[0], header, columns, comma)

    def _lines(self, compressed: bool) -> Iterator[str]:
        """Yield lines, of a length and in a number that a file of this size may have."""
        longest, stored, n_read = _base.LONGEST_LINE, self.path.stat().st_size, 0
        opened = gzip.open if compressed else open
        try:
            with opened(self.path, "rt", encoding="utf-8", newline="") as stream:
                while line := stream.readline(longest + 1 if self.bounded else -1):
                    if self.bounded and len(line) > longest:
                        raise ValueError(
                            f"{self.where} has a line of more than {longest:,} characters, too "
                            f"long for a row of predictions; {_base.ANY_SIZE}."
                        )
                    n_read += len(line)
                    if compressed:
                        self.require_bounded(n_read, stored)
                    yield line
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{self.where} is not UTF-8 text ({error}); save it as UTF-8. If a spreadsheet "
                f"wrote it as Windows-1252: iconv -f WINDOWS-1252 -t UTF-8 {self.where} > NEW.csv"
            ) from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{self.where} cannot be read: {error}; write it again.") from None

    def _rows(self, begins: list[int] | None = None) -> Iterator[list[str]]:
        """Yield the header and all rows; add the line on which each begins to a list."""
        style, begin, width = self._style, 1, 0
        lines = self._lines(style.compressed)
        first = next(lines, "").removeprefix(MARK)
        lines = chain(["\n" if style.tells_separator else first], lines)
        reader = csv.reader(lines, delimiter=style.delimiter)
        try:
            for row in reader:
                if row:
                    width = width or len(row)
                    if len(row) != width:
                        raise ValueError(
                            f"{self.where}: line {begin} has {len(row)} cells but the header has "
                            f"{width}; give every column a cell, and quote cells with "
                            f"{DELIMITERS[style.delimiter]}."
                        )
                    if begins is not None:
                        begins.append(begin)
                    yield row
                begin = reader.line_num + 1
        except csv.Error as error:
            raise ValueError(f"{self.where} cannot be read as CSV: {error}.") from None

    def _parts(self, columns: list[int] | None, *, keep: bool = False) -> Iterator[Any]:
        """Yield blocks of as many rows each: lists of all cells, or tables of some columns.

        Missing cells are null in tables, unless all text is to be kept.
        """
        done, n_rows = 0, min(TEXT_ROWS, _base.BLOCK_ROWS)
        plain = not self._style.tells_separator and "\n" not in "".join(self._top.first_line)
        if plain and self.path.stat().st_size >= LARGE_BYTES:
            with suppress(*GIVE_UP):
                for table in self._tables(columns, n_rows, keep=keep):
                    yield table
                    done += len(table)
                return
        rows = islice(self._rows(), 1 + done, None)
        while block := list(islice(rows, n_rows)):
            yield block

    def _tables(self, columns: list[int] | None, n_rows: int, *, keep: bool) -> Iterator[Any]:
        """Yield tables that PyArrow reads, of `n_rows` each and with text in all their cells."""
        import pyarrow as pa
        from pyarrow import csv as arrow

        names = [str(at) for at in range(len(self.header))]
        chosen = names if columns is None else [names[at] for at in columns]
        spellings = (str.lower, str.upper, str.title)  # the csv module knows all others
        missing = [] if keep else [how(cell) for cell in MISSING for how in spellings]
        block_size = max(CHUNK_BYTES, CELL_BYTES * len(names))
        with gzip.open(self.path) if self._style.compressed else self.path.open("rb") as stream:
            try:
                reader = arrow.open_csv(
                    _Checked(stream, self),
                    arrow.ReadOptions(column_names=names, skip_rows=1, block_size=block_size),
                    arrow.ParseOptions(delimiter=self._style.delimiter, newlines_in_values=True),
                    arrow.ConvertOptions(
                        column_types=dict.fromkeys(chosen, pa.string()),
                        include_columns=chosen,
                        null_values=missing,
                        strings_can_be_null=bool(missing),
                        quoted_strings_can_be_null=True,
                    ),
                )
                left = pa.Table.from_batches([], reader.schema)
                for batch in reader:
                    left = pa.concat_tables([left, pa.Table.from_batches([batch])])
                    while left.num_rows >= n_rows:
                        yield left.slice(0, n_rows).combine_chunks()
                        left = left.slice(n_rows)
                if left.num_rows:
                    yield left.combine_chunks()
                del left
                pa.default_memory_pool().release_unused()  # or it keeps half of what numbers take
            except pa.ArrowException as error:
                raise OSError(str(error)) from None

    def _numbers(self, block: Any, columns: list[int]) -> Floats:
        """Turn cells into numbers; those that are missing are NaN."""
        if isinstance(block, list):
            cells = [[row[at] for at in columns] for row in block]
        else:
            block = block.select([str(at) for at in columns])
            if (found := to_numbers(block, self._top.decimal_comma)) is not None:
                return found
            cells = to_rows(block)
        if self._top.decimal_comma:
            cells = [[cell.replace(",", ".") for cell in row] for row in cells]
        with suppress(ValueError):
            return np.array(cells, dtype=np.float64)
        filled = [["nan" if _is_missing(cell) else cell for cell in row] for row in cells]
        with suppress(ValueError):
            return np.array(filled, dtype=np.float64)
        begins: list[int] = []
        wrong = [
            (begins[-1], f"line {begins[-1]}, column {self.header[at]!r} holds {row[at]!r}")
            for row in islice(self._rows(begins), 1, None)
            for at in columns
            if not _is_missing(row[at]) and not _are_numbers([row[at]], self._top.decimal_comma)
        ]
        n_rows = len({line for line, _ in wrong})
        more = f" ({len(wrong)} such cells in {n_rows} rows)" if len(wrong) > 1 else ""
        said = "; ".join(place for _, place in wrong[:3])
        remedy = "repair them, or drop these rows."
        if any(place.endswith("%'") for _, place in wrong):
            remedy = "write shares from 0 to 1, 0.85 instead of 85%."
        raise ValueError(f"{self.where}: {said}, not a number{more}; {remedy}")


def _are_numbers(cells: Sequence[str], decimal_comma: bool, *, percent: bool = False) -> bool:
    """Tell whether cells are numbers, some perhaps missing, or all with a sign of percent."""
    filled = [cell for cell in cells if not _is_missing(cell)]
    if percent and all(cell.rstrip().endswith("%") for cell in filled):
        filled = [cell.rstrip()[:-1] for cell in filled]
    if decimal_comma:
        filled = [cell.replace(",", ".") for cell in filled]
    with suppress(ValueError):
        return np.array(filled, dtype=np.float64).size > 0
    return False


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in MISSING


# Large files by PyArrow, as tables of text whose columns are called by their number. Where it does
# not do exactly what the csv module would, these give up: with an error of `GIVE_UP`, or None.


class _Checked:
    """The bytes of a file, which must be UTF-8 and not too many for its size."""

    closed = False

    def __init__(self, stream: Any, file: CsvFile) -> None:
        self.stream, self.file, self.n_read = stream, file, 0
        self.decode = codecs.getincrementaldecoder("utf-8")().decode

    def read(self, size: int = -1) -> bytes:
        """Read some bytes."""
        found = self.stream.read(size)
        self.decode(found, final=not found)
        self.n_read += len(found)
        if self.file._style.compressed:
            self.file.require_bounded(self.n_read, self.file.path.stat().st_size)
        return found

    def close(self) -> None:
        """Leave the stream to whoever opened it."""


def to_numbers(table: Any, decimal_comma: bool) -> Floats | None:
    """Turn cells into numbers, null into NaN; return None where a cell is none."""
    import pyarrow as pa
    from pyarrow import compute

    found = np.empty((table.num_columns, table.num_rows))
    try:
        for row, text in zip(found, table.columns, strict=True):
            if decimal_comma:
                text = compute.replace_substring(text, ",", ".")
            row[:] = compute.cast(text, pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        return None
    return np.ascontiguousarray(found.T)


def to_csv(
    table: Any,
    columns: Sequence[int],
    before: Floats,
    after: Floats,
    added: Sequence[str] | None,
    delimiter: str,
    mark: str,
    line_end: str,
) -> bytes | None:
    """Return a table as CSV with new numbers where they changed; None where cells need quotes."""
    import pyarrow as pa
    from pyarrow import compute
    from pyarrow import csv as arrow

    def cells(column: tuple[int, Vector, Vector]) -> Any:
        at, old, new = column
        text = compute.cast(pa.array(new), pa.string())
        same = (new == old) | np.isnan(new)
        whole = ~same & (new == np.floor(new)) & (np.abs(new) < 1e16)
        if whole.any():  # 1.0, not 1, as Python writes it
            text = compute.if_else(
                pa.array(whole), compute.binary_join_element_wise(text, ".0", ""), text
            )
        if mark == ",":
            text = compute.replace_substring(text, ".", mark)
        return compute.if_else(pa.array(same), table.column(str(at)), text) if same.any() else text

    by_column = (np.ascontiguousarray(numbers.T) for numbers in (before, after))
    found = map_parts(cells, list(zip(columns, *by_column, strict=True)))
    for at, text in zip(columns, found, strict=True):
        table = table.set_column(at, str(at), text)
    if added is not None:
        table = table.append_column("added", pa.array(added, pa.string()))
    output = BytesIO()
    options = arrow.WriteOptions(include_header=False, delimiter=delimiter, quoting_style="none")
    try:
        arrow.write_csv(table, output, options)
    except pa.ArrowInvalid:
        return None
    lines = output.getvalue()
    return lines if line_end == "\n" else lines.replace(b"\n", line_end.encode())


def to_rows(table: Any) -> list[list[str]]:
    """Return the cells of all columns as lists of text, "" for null."""
    lists = ([cell or "" for cell in column.to_pylist()] for column in table.columns)
    return [list(row) for row in zip(*lists, strict=True)]
