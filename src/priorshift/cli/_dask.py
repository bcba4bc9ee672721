"""--dask: the workers of a Dask cluster read the target."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from priorshift._typing import Floats
from priorshift.border import DaskTable, Rows, Table
from priorshift.exceptions import missing
from priorshift.files import PredictionFile

CHUNK_BYTES = 2**27
"""Approximate bytes of a chunk: few tasks, yet many fit into a worker."""

CONNECT_SECONDS = 10


@contextmanager
def connect(address: str | None) -> Iterator[Any]:
    """Connect to a Dask scheduler and yield its client; None if there is no address."""
    if address is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError:
        raise click.UsageError(str(missing("--dask", "distributed", "dask"))) from None
    try:
        client = Client(address, timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise click.BadParameter(
            f"no Dask scheduler answers at {address} ({error}).", param_hint="'--dask'"
        ) from None
    with client:
        yield client


def cluster_rows(rows: Rows, file: PredictionFile, client: Any) -> DaskTable:
    """Return rows of a file as a table on a cluster; every worker must find the file at its path.

    Chunks are consecutive rows of an npy file, row groups of a Parquet file, or record batches of
    an Arrow file. They have about 128 MB, or less, so that every thread of the cluster gets one.
    """
    import dask.array as da
    from dask import delayed

    if not isinstance(rows, Table) or not rows.portable:
        raise ValueError(
            f"{file.where} cannot be read from the middle, as --dask has to; convert it to "
            "parquet, an Arrow file (no stream) or npy."
        )
    n, n_classes = rows.shape
    n_threads = sum(client.nthreads().values())
    n_chunks = max(n_threads, -(-n * n_classes * rows.dtype.itemsize // CHUNK_BYTES), 1)
    load = delayed(_Read(rows, file.path.resolve()), pure=False, traverse=False)
    chunks = [
        da.from_delayed(load(part), (part.stop - part.start, n_classes), rows.dtype)
        for part in rows.parts(n_chunks)
    ]
    return DaskTable(da.concatenate(chunks))


@dataclass(frozen=True)
class _Read:
    """Reads some rows of a file, on a worker."""

    table: Table
    path: Path

    def __call__(self, part: slice) -> Floats:
        try:
            return self.table.read(part)
        except FileNotFoundError:
            raise ValueError(
                f"a worker does not find {self.path}; with --dask every worker must find the "
                "file at this path, on a shared file system."
            ) from None
