"""Parquet and Arrow IPC files as tables: read in blocks, any number of times, and never whole."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Floats
from priorshift.border import Blocks, LockFree, Table, row_slices

BATCH_BYTES = 2**23
"""Float64 bytes that Parquet decodes at once: in smaller batches, calls cost more than decoding."""


@dataclass(frozen=True, eq=False)
class ColumnTable(Table):
    """Columns of a file that stores each one separately, in pieces of some rows.

    Attributes
    ----------
    path : Path
    dtype : numpy.dtype
    names : tuple of str
        Columns, in the order you want them.
    """

    path: Path
    dtype: np.dtype[Any]
    names: tuple[str, ...] = ()
    portable = True

    @property
    def piece_rows(self) -> list[int]:
        """Rows of each piece: a row group of Parquet, a record batch of Arrow."""
        raise NotImplementedError

    @LockFree
    def ends(self) -> list[int]:
        """The rows at which pieces begin and end."""
        return [0, *accumulate(self.piece_rows)]

    @LockFree
    def shape(self) -> tuple[int, int]:
        """Rows and classes."""
        return self.ends[-1], len(self.names)

    def parts(self, n_parts: int) -> list[slice]:
        """Cut between pieces, so that no piece is decoded twice."""
        wanted = np.linspace(0, self.shape[0], min(n_parts, len(self.ends) - 1) + 1)
        nearest = np.searchsorted(self.ends, wanted[1:-1])
        cuts = sorted({0, self.shape[0], *(self.ends[at] for at in nearest)})
        return [slice(*pair) for pair in pairwise(cuts)]


class ParquetRows(ColumnTable):
    """Rows of a Parquet file; a part of it is a run of row groups."""

    @LockFree
    def piece_rows(self) -> list[int]:
        """Rows of each row group."""
        import pyarrow.parquet as pq

        metadata = pq.read_metadata(self.path)
        return [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]

    def blocks(self, part: slice, n_rows: int) -> Blocks:
        """Yield blocks; each part opens the file, because readers are for one thread."""
        import pyarrow.parquet as pq

        groups = _pieces(self.ends, part)
        batch_rows = max(n_rows, BATCH_BYTES // (8 * self.shape[1]))
        start = self.ends[groups.start]
        # neither mapped nor buffered ahead: what is held of the file is small
        with pq.ParquetFile(self.path, buffer_size=2**20, pre_buffer=False) as file:
            for batch in file.iter_batches(
                batch_rows, row_groups=list(groups), columns=list(self.names), use_threads=False
            ):
                yield from _blocks(batch, self, start, part, n_rows)
                start += batch.num_rows


class ArrowRows(ColumnTable):
    """Rows of an Arrow IPC file, mapped: uncompressed columns are not even copied."""

    @LockFree
    def piece_rows(self) -> list[int]:
        """Rows of each record batch."""
        reader = self._reader(self.names[:1])
        return [reader.get_batch(at).num_rows for at in range(reader.num_record_batches)]

    def parts(self, n_parts: int) -> list[slice]:
        """Cut between record batches, or anywhere if they need no decoding."""
        few = len(self.piece_rows) < n_parts
        return Table.parts(self, n_parts) if few and self._is_mapped else super().parts(n_parts)

    def blocks(self, part: slice, n_rows: int) -> Blocks:
        """Yield blocks."""
        reader = self._reader(self.names)
        for at in _pieces(self.ends, part):
            yield from _blocks(reader.get_batch(at), self, self.ends[at], part, n_rows)

    @LockFree
    def _is_mapped(self) -> bool:
        """Whether numbers can be used in place, because columns are not compressed."""
        import pyarrow as pa

        with pa.memory_map(str(self.path)) as source:
            file = source.read_buffer()
        reader = pa.ipc.open_file(pa.BufferReader(file))
        if not reader.num_record_batches:
            return True
        numbers = reader.get_batch(0).column(self.names[0]).buffers()[1]
        return numbers is not None and 0 <= numbers.address - file.address < file.size

    def _reader(self, names: tuple[str, ...]) -> Any:
        """Open the file; other columns of a compressed file are not decoded."""
        import pyarrow as pa

        reader = pa.ipc.open_file(pa.memory_map(str(self.path)))
        if self._is_mapped:  # then choosing columns would copy them
            return reader
        wanted = [reader.schema.get_field_index(name) for name in names]
        options = pa.ipc.IpcReadOptions(included_fields=wanted)
        return pa.ipc.open_file(pa.memory_map(str(self.path)), options=options)


class StreamRows(ColumnTable):
    """Rows of an Arrow IPC stream, which can only be read from its beginning."""

    portable = False

    @LockFree
    def piece_rows(self) -> list[int]:
        """All rows: a stream is one piece, whose length is known at its end."""
        return [sum(batch.num_rows for batch in self._batches())]

    def blocks(self, part: slice, n_rows: int) -> Blocks:
        """Yield blocks."""
        start = 0
        for batch in self._batches():
            yield from _blocks(batch, self, start, part, n_rows)
            start += batch.num_rows

    def _batches(self) -> Iterator[Any]:
        import pyarrow as pa

        with pa.memory_map(str(self.path)) as source:
            yield from pa.ipc.open_stream(source)


def _pieces(ends: list[int], part: slice) -> range:
    """Return which pieces hold the rows of a part."""
    first = int(np.searchsorted(ends, part.start, side="right")) - 1
    return range(first, int(np.searchsorted(ends, part.stop)))


def _blocks(batch: Any, table: ColumnTable, start: int, part: slice, n_rows: int) -> Blocks:
    """Yield the rows of a part that a record batch has, each block in the same buffer."""
    batch.select(list(table.names)).validate()
    columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in table.names]
    first, end = max(part.start, start), min(part.stop, start + batch.num_rows)
    buffer = np.empty((len(columns), min(n_rows, max(end - first, 0))), table.dtype)
    for rows in row_slices(slice(first, end), n_rows):
        yield rows, stacked(columns, slice(rows.start - start, rows.stop - start), buffer)


def stacked(columns: list[NDArray[Any]], rows: slice, buffer: Floats) -> Floats:
    """Copy some rows into a buffer, column by column; return its transpose.

    To transpose in memory too would take four times as long, and products with a vector are just
    as fast without. A null is already NaN.
    """
    block = buffer[:, : rows.stop - rows.start]
    for at, column in enumerate(columns):
        block[at] = column[rows]
    return block.T
