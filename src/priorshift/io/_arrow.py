"""Parquet and Arrow IPC (Feather) tables, by pyarrow."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Floats
from priorshift.execution import Rows
from priorshift.io import _base
from priorshift.io._arrow_rows import ArrowRows, ColumnTable, ParquetRows, StreamRows, stacked
from priorshift.io._arrow_writers import BatchWriter, GroupWriter, Write
from priorshift.io._base import (
    Advance,
    PredictionFile,
    Rewrite,
    apply,
    order_of,
    require_distinct,
)
from priorshift.io._resume import START, Mark, Save

FILE_MARK = b"ARROW1"
PANDAS_INDEX = "__index_level_"
"""Where pandas keeps a row index."""


@dataclass(frozen=True)
class ArrowTable(PredictionFile):
    """A table that comes in record batches."""

    is_table = True

    @cached_property
    def schema(self) -> Any:
        """Names and types of the columns."""
        with self._open() as (schema, _, _):
            require_distinct(schema.names, f"the header of {self.where}")
            return schema

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The numeric columns, except the label and a row index."""
        return tuple(
            field.name
            for field in self.schema
            if field.name not in ("", self.label_column)
            and not field.name.startswith(PANDAS_INDEX)
            and _is_numeric(field.type)
        )

    def values(self, names: Sequence[str] | None) -> Floats:
        """Read the predictions."""
        wanted = self._wanted(names)
        blocks = [_matrix(batch, wanted) for batch in self._batches(wanted)]
        return np.concatenate(blocks) if blocks else np.empty((0, len(wanted)))

    def rows(self, names: Sequence[str] | None = None) -> Rows:
        """Return the predictions as a table that decodes a few rows at a time."""
        wanted = self._wanted(names)
        with readable(self.where):
            table = self._table(self.path, _float_type(self.schema, wanted), tuple(wanted))
            _ = table.shape  # found now, so that a broken file is named
            return table

    def labels(self) -> NDArray[Any] | None:
        """Read the labels."""
        return self.vector(self.label_column)

    def vector(self, name: str) -> NDArray[Any] | None:
        """Read a column."""
        if name not in self.schema.names:
            return None
        with readable(self.where):
            parts = [batch.column(name).to_pylist() for batch in self._batches([name])]
        return np.array([value for part in parts for value in part], dtype=object)

    def n_rows(self) -> int | None:
        """Return the number of rows, if the file tells."""
        with self._open() as (_, n_rows, _):
            return n_rows

    def rewrite(
        self,
        output: Path,
        names: Sequence[str] | None,
        function: Rewrite,
        advance: Advance,
        begin: Mark = START,
        save: Save | None = None,
    ) -> None:
        """Write a copy with new predictions; integer columns of predictions become floats."""
        import pyarrow as pa

        wanted, schema = self._wanted(names), self.schema
        for name in wanted:
            at = schema.get_field_index(name)
            if not pa.types.is_floating(schema.field(at).type):
                schema = schema.set(at, schema.field(at).with_type(pa.float64()))
        start = 0
        with self._writer(output, schema, begin, save) as write:
            for batch in self._batches(None):
                if start < begin.rows:
                    start += batch.num_rows
                    advance(batch.num_rows)
                    continue
                changed = apply(function, _matrix(batch, wanted), start, advance, self.where)
                columns = {name: batch.column(name) for name in batch.schema.names}
                for name, column in zip(wanted, changed.T, strict=True):
                    kind = schema.field(name).type
                    columns[name] = pa.array(column.astype(kind.to_pandas_dtype()), type=kind)
                start += batch.num_rows
                write(pa.record_batch(list(columns.values()), schema=schema), start)

    def _wanted(self, names: Sequence[str] | None) -> list[str]:
        wanted = list(names or self.names)
        order_of(wanted, self.schema.names, self.where)
        for name in wanted:
            kind = self.schema.field(name).type
            if not _is_numeric(kind):
                raise ValueError(
                    f"column {name!r} of {self.where} holds {kind}, not numbers; name the columns "
                    "of predictions, or store it as numbers."
                )
        return wanted

    @property
    @abstractmethod
    def _table(self) -> type[ColumnTable]:
        """How such a file is read in blocks."""

    @abstractmethod
    @contextmanager
    def _open(self) -> Iterator[tuple[Any, int | None, Callable[[list[str] | None], Any]]]:
        """Yield schema, number of rows, and a function from columns to record batches."""

    @abstractmethod
    @contextmanager
    def _writer(self, output: Path, schema: Any, begin: Mark, save: Save | None) -> Iterator[Write]:
        """Yield a function that writes a record batch, after those that are written already."""

    def _batches(self, columns: list[str] | None) -> Iterator[Any]:
        """Yield record batches that are not empty, and none too large."""
        with self._open() as (_, _, batches):
            for batch in batches(columns):
                for rows in _base.row_starts(batch.num_rows):
                    yield batch.slice(rows.start, rows.stop - rows.start)


class ParquetFile(ArrowTable):
    """A Parquet file, read by row groups."""

    _table = ParquetRows

    @contextmanager
    def _open(self) -> Iterator[tuple[Any, int | None, Callable[[list[str] | None], Any]]]:
        with readable(self.where):
            import pyarrow.parquet as pq

            # mapped and not buffered ahead, or what was read would pile up
            with pq.ParquetFile(self.path, memory_map=True, pre_buffer=False) as file:
                yield (
                    file.schema_arrow,
                    file.metadata.num_rows,
                    lambda columns: file.iter_batches(_base.BLOCK_ROWS, columns=columns),
                )

    @cached_property
    def compression(self) -> str:
        """How the first column is compressed."""
        import pyarrow.parquet as pq

        metadata = pq.read_metadata(self.path)
        if not metadata.num_row_groups:
            return "snappy"
        codec = str(metadata.row_group(0).column(0).compression).lower()
        return "none" if codec == "uncompressed" else codec

    @contextmanager
    def _writer(self, output: Path, schema: Any, begin: Mark, save: Save | None) -> Iterator[Write]:
        with GroupWriter(output, schema, self.compression, begin, save) as writer:
            yield writer.write


class ArrowFile(ArrowTable):
    """An Arrow IPC file (Feather version 2) or stream."""

    @property
    def _table(self) -> type[ColumnTable]:
        return StreamRows if self.is_stream else ArrowRows

    @contextmanager
    def _open(self) -> Iterator[tuple[Any, int | None, Callable[[list[str] | None], Any]]]:
        with readable(self.where) as pa, pa.memory_map(str(self.path)) as source:
            if self.is_stream:
                stream = pa.ipc.open_stream(source)
                yield stream.schema, None, lambda columns: _chosen(iter(stream), columns)
            else:
                reader = pa.ipc.open_file(source)
                batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
                yield reader.schema, None, lambda columns: _chosen(batches, columns)

    @cached_property
    def is_stream(self) -> bool:
        """Whether the mark of files is missing at the beginning."""
        with self.path.open("rb") as stream:
            return stream.read(len(FILE_MARK)) != FILE_MARK

    @contextmanager
    def _writer(self, output: Path, schema: Any, begin: Mark, save: Save | None) -> Iterator[Write]:
        with BatchWriter(output, schema, self.is_stream, begin, save) as writer:
            yield writer.write


@contextmanager
def readable(where: str) -> Iterator[Any]:
    """Yield pyarrow; say which file could not be read, and why, or that pyarrow is missing."""
    try:
        import pyarrow as pa
    except ImportError:
        raise ImportError(f"{where} needs pyarrow: pip install 'priorshift[tables]'") from None
    try:
        yield pa
    except (pa.lib.ArrowException, OSError, UnicodeDecodeError) as error:  # text may be damaged
        raise ValueError(f"{where} cannot be read: {error}; write it anew.") from None


def _is_numeric(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind))


def _chosen(batches: Iterator[Any], columns: list[str] | None) -> Iterator[Any]:
    for batch in batches:
        yield batch if columns is None else batch.select(columns)


def _matrix(batch: Any, names: list[str]) -> Floats:
    """Copy columns into a matrix whose rows are contiguous."""
    columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in names]
    buffer = np.empty((len(names), batch.num_rows), _float_type(batch.schema, names))
    return np.ascontiguousarray(stacked(columns, slice(0, batch.num_rows), buffer))


def _float_type(schema: Any, names: list[str]) -> np.dtype[Any]:
    """Return float32 where all columns are that or half of it, else float64."""
    import pyarrow as pa

    narrow = all(schema.field(name).type in (pa.float16(), pa.float32()) for name in names)
    return np.dtype(np.float32 if narrow else np.float64)
