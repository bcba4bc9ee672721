"""Large CSV files by PyArrow, as tables of text whose columns are called by their number.

Every function gives up, with an error of `GIVE_UP` or with None, where PyArrow does not do exactly
what Python's csv module would; then that one goes on.
"""

import codecs
import zlib
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from typing import Any

import numpy as np

from priorshift._typing import Floats, Vector
from priorshift.border import map_parts

CHUNK_BYTES, CELL_BYTES = 2**20, 512
"""Bytes that are parsed at once: few fit the processor's cache, and a line must fit as well."""

GIVE_UP = (ImportError, UnicodeDecodeError, EOFError, zlib.error, OSError)
"""Errors after which the csv module reads on, or says what is wrong."""


class _Checked:
    """A stream that must be UTF-8, and tells how much of it was read."""

    closed = False

    def __init__(self, stream: Any, advance: Callable[[int], None]) -> None:
        self.stream, self.advance = stream, advance
        self.decode = codecs.getincrementaldecoder("utf-8")().decode

    def read(self, size: int = -1) -> bytes:
        """Read some bytes."""
        found = self.stream.read(size)
        self.decode(found, final=not found)
        self.advance(len(found))
        return found

    def close(self) -> None:
        """Leave the stream to whoever opened it."""


def read_text(
    stream: Any,
    n_columns: int,
    columns: Sequence[int] | None,
    delimiter: str,
    missing: Sequence[str],
    n_rows: int,
    advance: Callable[[int], None],
) -> Iterator[Any]:
    """Yield tables of `n_rows` each, of some columns or of all; cells like `missing` are null."""
    import pyarrow as pa
    from pyarrow import csv

    names = [str(at) for at in range(n_columns)]
    chosen = names if columns is None else [names[at] for at in columns]
    block_size = max(CHUNK_BYTES, CELL_BYTES * n_columns)
    try:
        reader = csv.open_csv(
            _Checked(stream, advance),
            csv.ReadOptions(column_names=names, skip_rows=1, block_size=block_size),
            csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            csv.ConvertOptions(
                column_types=dict.fromkeys(chosen, pa.string()),
                include_columns=chosen,
                null_values=list(missing),
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
    decimal_comma: bool,
    line_end: str,
) -> bytes | None:
    """Return a table as CSV with new numbers where they changed; None where cells need quotes."""
    import pyarrow as pa
    from pyarrow import compute, csv

    def cells(column: tuple[int, Vector, Vector]) -> Any:
        at, old, new = column
        text = compute.cast(pa.array(new), pa.string())
        same = (new == old) | np.isnan(new)
        whole = ~same & (new == np.floor(new)) & (np.abs(new) < 1e16)
        if whole.any():  # 1.0, not 1, as Python writes it
            text = compute.if_else(
                pa.array(whole), compute.binary_join_element_wise(text, ".0", ""), text
            )
        if decimal_comma:
            text = compute.replace_substring(text, ".", ",")
        return compute.if_else(pa.array(same), table.column(str(at)), text) if same.any() else text

    by_column = (np.ascontiguousarray(numbers.T) for numbers in (before, after))
    found = map_parts(cells, list(zip(columns, *by_column, strict=True)))
    for at, text in zip(columns, found, strict=True):
        table = table.set_column(at, str(at), text)
    if added is not None:
        table = table.append_column("added", pa.array(added, pa.string()))
    output = BytesIO()
    options = csv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style="none")
    try:
        csv.write_csv(table, output, options)
    except pa.ArrowInvalid:
        return None
    lines = output.getvalue()
    return lines if line_end == "\n" else lines.replace(b"\n", line_end.encode())


def to_rows(table: Any) -> list[list[str]]:
    """Return the cells of all columns as lists of text, "" for null."""
    lists = ([cell or "" for cell in column.to_pylist()] for column in table.columns)
    return [list(row) for row in zip(*lists, strict=True)]
