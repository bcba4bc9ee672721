"""Parquet and Arrow IPC (Feather) files, read and written by PyArrow."""

import struct
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Floats, float_type
from priorshift._version import __version__
from priorshift.border import LockFree, Rows, row_slices
from priorshift.exceptions import missing
from priorshift.files import _base
from priorshift.files._arrow_rows import ArrowRows, ColumnTable, ParquetRows, StreamRows, stacked
from priorshift.files._base import ADAPTED, Copy, Stored, order_of, require_distinct, stack
from priorshift.text import brief

Opened = tuple[Any, int | None, Callable[[list[str] | None], Any]]
"""Schema, number of rows if known, and a function from columns to record batches."""

FILE_MARK = b"ARROW1"


class ArrowTable(Stored):
    """A table that comes in record batches."""

    @LockFree
    def schema(self) -> Any:
        """Names and types of the columns."""
        with self._open() as (schema, _, _):
            require_distinct(schema.names, f"the header of {self.where}")
            return schema

    @property
    def header(self) -> list[str]:
        """Names of all columns."""
        return list(self.schema.names)

    @property
    def numeric(self) -> tuple[str, ...]:
        """The columns of numbers."""
        return tuple(field.name for field in self.schema if _is_numeric(field.type))

    @property
    def adapted(self) -> str | None:
        """Which version of priorshift wrote the mark into the metadata, if there is one."""
        mark = (self.schema.metadata or {}).get(ADAPTED.encode())
        return None if mark is None else str(mark, "utf-8", "replace")

    def values(self, names: Sequence[str] | None) -> Floats:
        """Read the predictions."""
        wanted = self._wanted(names)
        return stack((_matrix(batch, wanted) for batch in self._batches(wanted)), len(wanted))

    def rows(self, names: Sequence[str] | None) -> Rows:
        """Return the predictions as a table that decodes a few rows at a time."""
        wanted = self._wanted(names)
        with readable(self.where):
            table = self._table(
                self.path.resolve(), _float_type(self.schema, wanted), tuple(wanted)
            )
            _ = table.shape  # read it now, so that the error of a broken file names it
            return table

    def vector(self, name: str) -> NDArray[Any] | None:
        """Read a column."""
        if name not in self.schema.names:
            return None
        with readable(self.where):
            parts = [batch.column(name).to_pylist() for batch in self._batches([name])]
        return np.array([value for part in parts for value in part], dtype=object)

    def n_rows(self) -> int | None:
        """Return the number of rows, if the file stores it."""
        with self._open() as (_, n_rows, _):
            return n_rows

    def pieces(self, copy: Copy, begin: int) -> Iterator[tuple[int, Any]]:
        """Yield each record batch as a stream of its own."""
        import pyarrow as pa

        wanted, schema, start = self._wanted(copy.names), self._written(copy), 0
        for batch in self._batches(None):
            if start >= begin:
                new, cells = copy.change(_matrix(batch, wanted), start)
                columns = {name: batch.column(name) for name in batch.schema.names}
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

    @property
    @abstractmethod
    def _table(self) -> type[ColumnTable]:
        """How such a file is read in blocks."""

    @abstractmethod
    @contextmanager
    def _open(self) -> Iterator[Opened]:
        """Open the file."""

    @abstractmethod
    def _new(self, output: BinaryIO, schema: Any) -> Any:
        """Return a writer of such a file, to use as a context."""

    def _batches(self, columns: list[str] | None) -> Iterator[Any]:
        """Yield record batches that are neither empty nor too large."""
        import pyarrow as pa

        with self._open() as (_, _, batches):
            for batch in batches(columns):
                for rows in row_slices(batch.num_rows, _base.BLOCK_ROWS):
                    yield batch.slice(rows.start, rows.stop - rows.start)
        pa.default_memory_pool().release_unused()  # else it keeps what was decoded


class ParquetFile(ArrowTable):
    """A Parquet file, read by row groups."""

    _table = ParquetRows

    @contextmanager
    def _open(self) -> Iterator[Opened]:
        with readable(self.where):
            import pyarrow.parquet as pq

            # neither mapped nor buffered ahead, or memory would fill with what was read
            with pq.ParquetFile(self.path, buffer_size=2**20, pre_buffer=False) as file:
                # a column of one value takes few bytes, however many rows there are
                n_bytes = 8 * file.metadata.num_rows * file.metadata.num_columns
                self.require_bounded(n_bytes, self.path.stat().st_size)
                yield (
                    file.schema_arrow,
                    file.metadata.num_rows,
                    lambda columns: file.iter_batches(_base.BLOCK_ROWS, columns=columns),
                )

    @LockFree
    def compression(self) -> str:
        """How the first column is compressed."""
        import pyarrow.parquet as pq

        metadata = pq.read_metadata(self.path)
        if not metadata.num_row_groups:
            return "snappy"
        codec = str(metadata.row_group(0).column(0).compression).lower()
        return "none" if codec == "uncompressed" else codec

    def _new(self, output: BinaryIO, schema: Any) -> Any:
        """Return a writer of one row group per record batch."""
        import pyarrow.parquet as pq

        return pq.ParquetWriter(output, schema, compression=self.compression)


class ArrowFile(ArrowTable):
    """An Arrow IPC file (Feather version 2) or stream."""

    @property
    def _table(self) -> type[ColumnTable]:
        return StreamRows if self.is_stream else ArrowRows

    @contextmanager
    def _open(self) -> Iterator[Opened]:
        with readable(self.where) as pa, pa.memory_map(str(self.path)) as source:
            file = memoryview(source.read_buffer())
            source.seek(0)
            self.require_bounded(_expanded(file, self.is_stream), len(file))
            if self.is_stream:
                stream = pa.ipc.open_stream(source)
                yield stream.schema, None, lambda columns: _chosen(iter(stream), columns)
            else:
                reader = pa.ipc.open_file(source)
                batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
                yield reader.schema, None, lambda columns: _chosen(batches, columns)

    @LockFree
    def is_stream(self) -> bool:
        """Whether the mark of files is missing at the beginning."""
        with self.path.open("rb") as stream:
            return stream.read(len(FILE_MARK)) != FILE_MARK

    def _new(self, output: BinaryIO, schema: Any) -> Any:
        """Return a writer of what this file is, a file or a stream."""
        import pyarrow as pa

        return (pa.ipc.new_stream if self.is_stream else pa.ipc.new_file)(output, schema)


# How large a compressed file is, told without decompressing it: PyArrow does not say


def _expanded(file: memoryview, is_stream: bool) -> int:
    """Return the bytes of all compressed buffers, each of which begins with its length."""
    total = 0
    for message, body in _messages(file, is_stream):
        batch = _follow(file, _field(file, message, 2))
        kind = _read("<B", file, _field(file, message, 1))
        if kind == 2:  # of a dictionary
            batch = _follow(file, _field(file, batch, 1))
        if kind not in (2, 3) or not _field(file, batch, 3):
            continue
        buffers = _follow(file, _field(file, batch, 2))
        for at in range(_read("<I", file, buffers)):
            start, stored = struct.unpack_from("<qq", file, buffers + 4 + 16 * at)
            if stored:
                total += max(_read("<q", file, body + start), 0)  # -1 for one that is not
    return total


def _messages(file: memoryview, is_stream: bool) -> Iterator[tuple[int, int]]:
    """Yield where each message and its body begin: one after the other, or as the footer says."""

    def at_place(at: int) -> tuple[int, int]:
        head = 8 if _read("<i", file, at) == -1 else 4
        return at + head, _read("<i", file, at + head - 4)

    if is_stream:
        body, end = 0, 0
        while end + 8 <= len(file):
            start, size = at_place(end)
            if size <= 0:
                return
            message, body = _follow(file, start), start + size
            yield message, body
            length = _field(file, message, 3)
            end = body + (max(_read("<q", file, length), 0) if length else 0)
        return
    end = len(file) - len(FILE_MARK) - 4
    footer = _follow(file, end - _read("<i", file, end))
    for number in (2, 3):  # dictionaries, record batches
        blocks = _field(file, footer, number)
        first = _follow(file, blocks) if blocks else 0
        for at in range(_read("<I", file, first) if blocks else 0):
            place, size = struct.unpack_from("<qi", file, first + 4 + 24 * at)
            yield _follow(file, at_place(place)[0]), place + size


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
    try:
        import pyarrow as pa
    except ImportError:
        raise missing(where, "pyarrow", "tables") from None
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


def _chosen(batches: Iterator[Any], columns: list[str] | None) -> Iterator[Any]:
    for batch in batches:
        chosen = batch if columns is None else batch.select(columns)
        chosen.validate(full=True)  # a damaged index or length would crash the process
        yield chosen


def _matrix(batch: Any, names: list[str]) -> Floats:
    """Copy columns into a matrix whose rows are contiguous."""
    columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in names]
    buffer = np.empty((len(names), batch.num_rows), _float_type(batch.schema, names))
    return np.ascontiguousarray(stacked(columns, slice(0, batch.num_rows), buffer))


def _float_type(schema: Any, names: list[str]) -> np.dtype[Any]:
    """Return the type of a matrix of some columns."""
    import pyarrow as pa

    kinds = [schema.field(name).type for name in names]
    is_decimal = pa.types.is_decimal
    return float_type(*("f8" if is_decimal(kind) else kind.to_pandas_dtype() for kind in kinds))
