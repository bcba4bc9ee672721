"""--dask: the target read by the workers of a Dask cluster."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from priorshift._typing import Floats
from priorshift._validation import check_logits
from priorshift.adaptation import reweight
from priorshift.execution import Table
from priorshift.execution._dask import DaskTable, map_chunks
from priorshift.execution._local import cut
from priorshift.io import PredictionFile
from priorshift.io._arrow_rows import ColumnTable, StreamRows
from priorshift.io._numpy import NpyFile

CHUNK_BYTES = 2**27
"""Bytes of a chunk, about: few tasks, yet many fit into a worker."""

READ_ROWS = 2**14
CONNECT_SECONDS = 10


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Connect to a Dask scheduler for a while, and yield its client; None where none is named."""
    if address is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError:
        raise click.UsageError("--dask needs Dask: pip install 'priorshift[dask]'.") from None
    try:
        client = Client(address, timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise click.BadParameter(
            f"no Dask scheduler answers at {address} ({error}).", param_hint="'--dask'"
        ) from None
    with client:
        yield client


def cluster_rows(file: PredictionFile, names: Sequence[str] | None, client: Any) -> DaskTable:
    """Return a file's probabilities as a table on a cluster; its workers read the file.

    Logits go through a softmax there.
    """
    rows = dask_rows(file, names, client)
    if file.kind == "logits":
        rows = map_chunks(_Softmax(file.where), rows)
    return DaskTable(rows)


def dask_rows(file: PredictionFile, names: Sequence[str] | None, client: Any) -> Any:
    """Return a file's predictions as a Dask array; every worker must see the file by its path.

    Chunks are runs of rows of an npy, of row groups of a Parquet file, or of record batches of an
    Arrow file: of about 128 MB, or fewer, so that every thread of the cluster gets one.
    """
    import dask.array as da
    from dask import delayed

    if isinstance(file, NpyFile):
        table: Table = file.rows(names)  # type: ignore[assignment]
        read: Any = _MappedRows(file.path.resolve(), table.dtype)
    else:
        found = file.rows(names)
        if not isinstance(found, ColumnTable) or isinstance(found, StreamRows):
            raise ValueError(
                f"{file.where} cannot be read from the middle, as --dask has to; convert it to "
                "parquet, an Arrow file (no stream) or npy."
            )
        table, read = found, _ColumnRows(replace(found, path=found.path.resolve()))
    n, n_classes = table.shape
    n_threads = sum(client.nthreads().values())
    n_chunks = max(n_threads, -(-n * n_classes * table.dtype.itemsize // CHUNK_BYTES), 1)
    parts = cut(n, min(n_chunks, n)) if isinstance(file, NpyFile) else table.parts(n_chunks)
    load = delayed(read, pure=False, traverse=False)
    return da.concatenate(
        [
            da.from_delayed(load(part), (part.stop - part.start, n_classes), table.dtype)
            for part in parts
        ]
    )


@dataclass(frozen=True)
class _MappedRows:
    """Reads some rows of an npy file, on a worker."""

    path: Path
    dtype: np.dtype[Any]

    def __call__(self, part: slice) -> Floats:
        with _at_hand(self.path):
            mapped = np.load(self.path, mmap_mode="r", allow_pickle=False)
        return np.array(mapped[part], dtype=self.dtype)


@dataclass(frozen=True)
class _ColumnRows:
    """Reads some rows of a Parquet or Arrow file, on a worker."""

    table: ColumnTable

    def __call__(self, part: slice) -> Floats:
        values = np.empty((part.stop - part.start, self.table.shape[1]), self.table.dtype)
        with _at_hand(self.table.path):
            for rows, block in self.table.blocks(part, READ_ROWS):
                values[rows.start - part.start : rows.stop - part.start] = block
        return values


@dataclass(frozen=True)
class _Softmax:
    """Turns a chunk of logits into probabilities."""

    where: str

    def __call__(self, logits: Floats) -> Floats:
        checked = check_logits(logits, name=self.where).values
        return reweight(checked, np.ones(checked.shape[1]), from_logits=True)


@contextmanager
def _at_hand(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise ValueError(
            f"a worker does not find {path}; with --dask every worker must see the file by this "
            "path, on a shared file system."
        ) from None
