"""Writers of Parquet and Arrow IPC that can go on with a file that was not finished."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, Self

from priorshift.io._parquet_join import MARK, joined_footer, take_apart
from priorshift.io._resume import Mark, Save, set_aside

Write = Callable[[Any, int], None]
"""Writes a record batch, given how many rows there are now."""

ARROW_HEAD = 8
"""Bytes before the stream within an Arrow IPC file."""


class GroupWriter:
    """Writes a Parquet file by row groups, one a record batch.

    Each is encoded in memory, and its pages appended. What the footer will say of them is kept in
    a file beside it meanwhile: without a footer, a Parquet file cannot be read or continued.
    """

    def __init__(
        self, path: Path, schema: Any, compression: str, begin: Mark, save: Save | None
    ) -> None:
        self.path, self.schema, self.compression, self.save = path, schema, compression, save
        self.begin = begin
        self.notes_path = path.with_name(f"{path.name}.footers")
        self.footers: list[bytes] = []
        self.begins: list[int] = []

    def __enter__(self) -> Self:
        if self.begin.rows:
            self._read_notes()
        mode = "r+b" if self.begin.rows else "wb"
        self.file = self.path.open(mode)
        # who saves nothing needs no notes that outlive the process
        self.notes: IO[bytes] = self.notes_path.open(mode) if self.save else BytesIO()
        if self.begin.rows:
            self.file.truncate(self.begin.n_bytes)
            self.file.seek(0, 2)
            self.notes.truncate(sum(16 + len(footer) for footer in self.footers))
            self.notes.seek(0, 2)
        else:
            self.file.write(MARK)
        return self

    def write(self, batch: Any, n_rows: int) -> None:
        """Append a row group."""
        self._append(batch)
        self.file.flush()
        self.notes.flush()
        if self.save is not None:
            self.save(Mark(n_rows, self.file.tell()))

    def __exit__(self, kind: Any, *_: Any) -> None:
        with self.file, self.notes:
            if kind is None:
                if not self.footers:
                    self._append(None)
                self.file.write(joined_footer(self.footers, self.begins))
        if kind is None:
            self.notes_path.unlink(missing_ok=True)

    def _append(self, batch: Any) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, self.schema, compression=self.compression) as writer:
            if batch is not None:
                writer.write_batch(batch)
        piece = take_apart(sink.getvalue())
        begin = self.file.tell()
        self.file.write(piece.pages)
        self.notes.write(begin.to_bytes(8, "little") + len(piece.footer).to_bytes(8, "little"))
        self.notes.write(piece.footer)
        self.footers.append(piece.footer)
        self.begins.append(begin)

    def _read_notes(self) -> None:
        """Read what is known of the row groups that lie before the mark."""
        data, at = self.notes_path.read_bytes(), 0
        while at < len(data):
            begin, length = (
                int.from_bytes(data[i:j], "little") for i, j in pairwise((at, at + 8, at + 16))
            )
            if begin >= self.begin.n_bytes:
                return
            self.begins.append(begin)
            self.footers.append(data[at + 16 : at + 16 + length])
            at += 16 + length


class BatchWriter:
    """Writes an Arrow IPC file or stream; to go on, finished batches are copied as they are."""

    def __init__(
        self, path: Path, schema: Any, is_stream: bool, begin: Mark, save: Save | None
    ) -> None:
        self.path, self.schema, self.is_stream, self.save = path, schema, is_stream, save
        self.begin = begin
        self.old = set_aside(path)

    def __enter__(self) -> Self:
        import pyarrow as pa

        if self.begin.rows:
            self.path.replace(self.old)
        with ExitStack() as stack:
            new = pa.ipc.new_stream if self.is_stream else pa.ipc.new_file
            self.sink = stack.enter_context(pa.OSFile(str(self.path), "wb"))
            self.writer = stack.enter_context(new(self.sink, self.schema))
            for batch in self._finished():
                self.writer.write_batch(batch)
            self.stack = stack.pop_all()
        self.old.unlink(missing_ok=True)
        return self

    def write(self, batch: Any, n_rows: int) -> None:
        """Append a record batch."""
        self.writer.write_batch(batch)
        if self.save is not None:
            self.save(Mark(n_rows, self.sink.tell()))

    def __exit__(self, *raised: Any) -> None:
        self.stack.__exit__(*raised)

    def _finished(self) -> Iterator[Any]:
        """Yield the batches before the mark; a file is a stream between a head and a footer."""
        import pyarrow as pa

        if not self.begin.rows:
            return
        with pa.memory_map(str(self.old)) as source:
            source.seek(0 if self.is_stream else ARROW_HEAD)
            reader, n_rows = pa.ipc.open_stream(source), 0
            while n_rows < self.begin.rows:
                batch = reader.read_next_batch()
                n_rows += batch.num_rows
                yield batch
