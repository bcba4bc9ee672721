"""Parquet and Arrow IPC (Feather) files, read and written by PyArrow.

Their rows are tables: read in blocks, any number of times, and never whole.
"""

import struct
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy as shallow_copy
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Floats, float_type
from priorshift._version import __version__
from priorshift.border import Blocks, LockFree, Table, row_blocks
from priorshift.exceptions import require
from priorshift.files import _base
from priorshift.files._base import ADAPTED, Copy, PredictionFile, order_of, require_distinct
from priorshift.text import brief

FILE_MARK = b"ARROW1"

BATCH_BYTES = 2**23
"""Float64 bytes that Parquet decodes at once: in smaller batches, calls cost more than decoding."""


@dataclass(frozen=True, eq=False)
class ColumnRows(Table):
    """Rows of a file that stores each column separately, in pieces of some rows.

    Attributes
    ----------
    file : ArrowTable
    dtype : numpy.dtype
    names : tuple of str
        Columns, in the order you want them.
    """

    file: "ArrowTable"
    dtype: np.dtype[Any]
    names: tuple[str, ...] = ()

    @LockFree
    def shape(self) -> tuple[int, int]:
        """Rows and classes."""
        return self.file.ends[-1], len(self.names)

    def parts(self, n_parts: int) -> list[slice]:
        """Cut between pieces, so that none is decoded twice; anywhere if they need no decoding."""
        ends = self.file.ends
        if len(ends) <= n_parts and self.file.is_mapped:
            return super().parts(n_parts)
        wanted = np.linspace(0, self.shape[0], min(n_parts, len(ends) - 1) + 1)
        nearest = np.searchsorted(ends, wanted[1:-1])
        cuts = sorted({0, self.shape[0], *(ends[at] for at in nearest)})
        return [slice(*pair) for pair in pairwise(cuts)]

    def blocks(self, part: slice, n_rows: int) -> Blocks:
        """Yield blocks: those of a record batch in the same buffer."""
        ends, decoded = self.file.ends, max(n_rows, BATCH_BYTES // (8 * self.shape[1]))
        first = int(np.searchsorted(ends, part.start, side="right")) - 1
        start, pieces = ends[first], range(first, int(np.searchsorted(ends, part.stop)))
        for batch in self.file.batches(self.names, pieces, decoded):
            columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in self.names]
            wanted = slice(max(part.start, start), min(part.stop, start + batch.num_rows))
            n = max(wanted.stop - wanted.start, 0)
            buffer = np.empty((len(columns), min(n_rows, n)), self.dtype)
            for rows in row_blocks(wanted, n_rows=n_rows):
                here = slice(rows.start - start, rows.stop - start)
                yield rows, stacked(columns, here, buffer)
            start += batch.num_rows


def stacked(columns: list[NDArray[Any]], rows: slice, buffer: Floats) -> Floats:
    """Copy some rows into a buffer, column by column; return its transpose.

    To transpose in memory too would take four times as long, and products with a vector are just
    as fast without. A null is already NaN.
    """
    block = buffer[:, : rows.stop - rows.start]
    for at, column in enumerate(columns):
        block[at] = column[rows]
    return block.T


class ArrowTable(PredictionFile):
    """A table that comes in record batches."""

    @property
    @abstractmethod
    def schema(self) -> Any:
        """Names and types of the columns."""

    @property
    @abstractmethod
    def ends(self) -> list[int]:
        """The rows at which pieces begin and end: row groups of Parquet, record batches."""

    is_mapped: bool = False
    """Whether numbers can be used in place, because columns are not compressed."""

    @abstractmethod
    def batches(
        self, names: Sequence[str] | None, pieces: range | None, n_rows: int
    ) -> Iterator[Any]:
        """Yield record batches of some columns and pieces, None for all, of about `n_rows`."""

    @property
    def header(self) -> list[str]:
        """Names of all columns."""
        return list(self.schema.names)

    @property
    def numeric(self) -> tuple[str, ...]:
        """The columns of numbers."""
        return tuple(field.name for field in self.schema if _is_numeric(field.type))

    @property
    def adapted(self) -> str | None:  # type: ignore[override]
        """Which version of priorshift wrote the mark into the metadata, if there is one."""
        mark = (self.schema.metadata or {}).get(ADAPTED.encode())
        return None if mark is None else str(mark, "utf-8", "replace")

    def read(self, names: Sequence[str] | None) -> ColumnRows:
        """Return the predictions as a table that decodes a few rows at a time."""
        wanted, there = self._wanted(names), shallow_copy(self)
        _ = there.ends  # read them now, so that a broken file is refused here
        vars(there).update(path=self.path.resolve())
        return ColumnRows(there, _float_type(self.schema, wanted), tuple(wanted))

    def count_rows(self) -> int:
        """Return the number of rows, which the file stores."""
        return self.ends[-1]

    def read_vector(self, name: str) -> NDArray[Any] | None:
        """Read a column."""
        if name not in self.schema.names:
            return None
        parts = [batch.column(name).to_pylist() for batch in self._batches([name])]
        return np.array([value for part in parts for value in part], dtype=object)

    def pieces(self, copy: Copy, begin: int) -> Iterator[tuple[int, Any]]:
        """Yield each record batch as a stream of its own."""
        import pyarrow as pa

        wanted, schema, start = self._wanted(copy.names), self._written(copy), 0
        dtype = _float_type(self.schema, wanted)
        for batch in self._batches(None):
            if start >= begin:
                columns = {name: batch.column(name) for name in batch.schema.names}
                numbers = [columns[name].to_numpy(zero_copy_only=False) for name in wanted]
                buffer = np.empty((len(wanted), batch.num_rows), dtype)
                block = stacked(numbers, slice(0, batch.num_rows), buffer)
                new, cells = copy.change(np.ascontiguousarray(block), start)
                for name, column in zip(wanted, new.T, strict=True):
                    kind = schema.field(name).type
                    columns[name] = pa.array(column.astype(kind.to_pandas_dtype()), type=kind)
                more = [] if copy.added is None else [pa.array(cells)]
                piece = pa.BufferOutputStream()
                with pa.ipc.new_stream(piece, schema) as writer:
                    writer.write_batch(pa.record_batch([*columns.values(), *more], schema=schema))
                yield batch.num_rows, piece.getvalue()
            start += batch.num_rows

    def join(self, copy: Copy, pieces: Iterator[Any], stream: BinaryIO) -> None:
        """Write the record batches of all pieces."""
        import pyarrow as pa

        with self._new(stream, self._written(copy)) as writer:
            for piece in pieces:
                for batch in pa.ipc.open_stream(piece):
                    writer.write_batch(batch)

    def _written(self, copy: Copy) -> Any:
        """Return the schema of a copy: integer columns of predictions become floats."""
        import pyarrow as pa

        schema = self.schema
        for name in self._wanted(copy.names):
            at = schema.get_field_index(name)
            if not pa.types.is_floating(schema.field(at).type):
                schema = schema.set(at, schema.field(at).with_type(pa.float64()))
        mark = {ADAPTED.encode(): __version__.encode()}
        schema = schema.with_metadata({**(schema.metadata or {}), **mark})
        return schema if copy.added is None else schema.append(pa.field(copy.added, pa.string()))

    def _wanted(self, names: Sequence[str] | None) -> list[str]:
        wanted = list(self.numeric if names is None else names)
        order_of(wanted, self.schema.names, self.where)
        for name in wanted:
            kind = self.schema.field(name).type
            if not _is_numeric(kind):
                raise ValueError(
                    f"column {brief(name)} of {self.where} holds {kind}, not numbers; name the "
                    "columns of predictions, or store it as numbers."
                )
        return wanted

    @abstractmethod
    def _new(self, output: BinaryIO, schema: Any) -> Any:
        """Return a writer of such a file, to use as a context."""

    def _batches(self, names: list[str] | None) -> Iterator[Any]:
        """Yield record batches that are neither empty nor too large."""
        import pyarrow as pa

        for batch in self.batches(names, None, _base.BLOCK_ROWS):
            for rows in row_blocks(batch.num_rows, n_rows=_base.BLOCK_ROWS):
                yield batch.slice(rows.start, rows.stop - rows.start)
        pa.default_memory_pool().release_unused()  # else it keeps what was decoded


class ParquetFile(ArrowTable):
    """A Parquet file, read by row groups."""

    @LockFree
    def schema(self) -> Any:
        """Names and types of the columns."""
        with self._open() as file:
            # a column of one value takes few bytes, however many rows there are
            n_bytes = 8 * file.metadata.num_rows * file.metadata.num_columns
            self.require_bounded(n_bytes, self.path.stat().st_size)
            require_distinct(file.schema_arrow.names, f"the header of {self.where}")
            return file.schema_arrow

    @LockFree
    def ends(self) -> list[int]:
        """The rows at which row groups begin and end."""
        with self._open() as file:
            groups = (file.metadata.row_group(at) for at in range(file.metadata.num_row_groups))
            return [0, *accumulate(group.num_rows for group in groups)]

    def batches(
        self, names: Sequence[str] | None, pieces: range | None, n_rows: int
    ) -> Iterator[Any]:
        """Yield record batches; each part opens the file, because readers are for one thread."""
        columns, groups = names and list(names), None if pieces is None else list(pieces)
        with self._open() as file:
            yield from file.iter_batches(
                n_rows, row_groups=groups, columns=columns, use_threads=groups is None
            )

    @contextmanager
    def _open(self) -> Iterator[Any]:
        with readable(self.where):
            import pyarrow.parquet as pq

            # neither mapped nor buffered ahead, or memory would fill with what was read
            with pq.ParquetFile(self.path, buffer_size=2**20, pre_buffer=False) as file:
                yield file

    def _new(self, output: BinaryIO, schema: Any) -> Any:
        """Return a writer of one row group per record batch, compressed as the first column is."""
        import pyarrow.parquet as pq

        metadata, codec = pq.read_metadata(self.path), "snappy"
        if metadata.num_row_groups:
            codec = str(metadata.row_group(0).column(0).compression).lower()
        compression = "none" if codec == "uncompressed" else codec
        return pq.ParquetWriter(output, schema, compression=compression)


class ArrowFile(ArrowTable):
    """An Arrow IPC file (Feather version 2), mapped: uncompressed columns are not even copied."""

    @LockFree
    def schema(self) -> Any:
        """Names and types of the columns."""
        with readable(self.where) as pa, pa.memory_map(str(self.path)) as source:
            file = memoryview(source.read_buffer())
            if file[: len(FILE_MARK)] != FILE_MARK:
                raise pa.ArrowInvalid("it is no Arrow file (a stream must be written as a file)")
            self.require_bounded(_expanded(file), len(file))
            source.seek(0)
            schema = pa.ipc.open_file(source).schema
            require_distinct(schema.names, f"the header of {self.where}")
            return schema

    @LockFree
    def ends(self) -> list[int]:
        """The rows at which record batches begin and end."""
        with self._open(self.schema.names[:1]) as reader:
            batches = (reader.get_batch(at) for at in range(reader.num_record_batches))
            return [0, *accumulate(batch.num_rows for batch in batches)]

    @LockFree
    def is_mapped(self) -> bool:
        """Whether numbers can be used in place, because columns are not compressed."""
        import pyarrow as pa

        with pa.memory_map(str(self.path)) as source:
            file = source.read_buffer()
        reader = pa.ipc.open_file(pa.BufferReader(file))
        if not reader.num_record_batches or not self.numeric:
            return True
        numbers = reader.get_batch(0).column(self.numeric[0]).buffers()[1]
        return numbers is not None and 0 <= numbers.address - file.address < file.size

    def batches(
        self,
        names: Sequence[str] | None,
        pieces: range | None,
        n_rows: int,  # noqa: ARG002
    ) -> Iterator[Any]:
        """Yield record batches as they are."""
        with self._open(names) as reader:
            for at in range(reader.num_record_batches) if pieces is None else pieces:
                batch = reader.get_batch(at)
                chosen = batch if names is None else batch.select(list(names))
                chosen.validate(full=True)  # a damaged index or length would crash the process
                yield chosen

    @contextmanager
    def _open(self, names: Sequence[str] | None = None) -> Iterator[Any]:
        """Open the file; other columns of a compressed file are not decoded."""
        with readable(self.where) as pa, pa.memory_map(str(self.path)) as source:
            options = None
            if names is not None and not self.is_mapped:  # else choosing columns would copy them
                wanted = [self.schema.get_field_index(name) for name in names]
                options = pa.ipc.IpcReadOptions(included_fields=wanted)
            yield pa.ipc.open_file(source, options=options)

    def _new(self, output: BinaryIO, schema: Any) -> Any:
        import pyarrow as pa

        return pa.ipc.new_file(output, schema)


# How large a compressed file is, told without decompressing it: PyArrow does not say


def _expanded(file: memoryview) -> int:
    """Return the bytes of all compressed buffers, each of which begins with its length.

    The footer says where messages are: dictionaries, then record batches.
    """
    total, end = 0, len(file) - len(FILE_MARK) - 4
    footer = _follow(file, end - _read("<i", file, end))
    for number in (2, 3):
        blocks = _field(file, footer, number)
        first = _follow(file, blocks) if blocks else 0
        for block in range(_read("<I", file, first) if blocks else 0):
            place, size = struct.unpack_from("<qi", file, first + 4 + 24 * block)
            message = _follow(file, place + (8 if _read("<i", file, place) == -1 else 4))
            batch = _follow(file, _field(file, message, 2))
            if number == 2:
                batch = _follow(file, _field(file, batch, 1))
            if not _field(file, batch, 3):  # it is not compressed
                continue
            buffers = _follow(file, _field(file, batch, 2))
            for at in range(_read("<I", file, buffers)):
                start, stored = struct.unpack_from("<qq", file, buffers + 4 + 16 * at)
                if stored:
                    total += max(_read("<q", file, place + size + start), 0)  # -1: as it is
    return total


def _read(kind: str, file: memoryview, at: int) -> int:
    return int(struct.unpack_from(kind, file, at)[0])


def _follow(file: memoryview, at: int) -> int:
    return at + _read("<I", file, at)


def _field(file: memoryview, table: int, number: int) -> int:
    """Return where a field of a FlatBuffers table is, 0 if it is absent."""
    fields = table - _read("<i", file, table)
    at = 4 + 2 * number
    offset = _read("<H", file, fields + at) if at < _read("<H", file, fields) else 0
    return table + offset if offset else 0


@contextmanager
def readable(where: str) -> Iterator[Any]:
    """Yield pyarrow; errors name the file and the reason, or say that pyarrow is missing."""
    require(where, "tables", "pyarrow")
    import pyarrow as pa

    try:
        yield pa
    # text may be damaged, and so may its length
    except (
        pa.lib.ArrowException, OSError, UnicodeDecodeError, SystemError, struct.error
    ) as error:  # fmt: skip
        raise ValueError(f"{where} cannot be read: {error}; write it again.") from None


def _is_numeric(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind))


def _float_type(schema: Any, names: list[str]) -> np.dtype[Any]:
    """Return the type of a matrix of some columns."""
    import pyarrow as pa

    kinds = [schema.field(name).type for name in names]
    is_decimal = pa.types.is_decimal
    return float_type(*("f8" if is_decimal(kind) else kind.to_pandas_dtype() for kind in kinds))
