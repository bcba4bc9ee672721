"""--dask: the workers of a Dask cluster read the target."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from priorshift._typing import Floats
from priorshift.adapt import reweight
from priorshift.border import DaskTable, Table, apply_to, check_logits
from priorshift.exceptions import missing
from priorshift.files import PredictionFile

CHUNK_BYTES = 2**27
"""Approximate bytes of a chunk: few tasks, yet many fit into a worker."""

CONNECT_SECONDS = 10


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
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


def cluster_rows(file: PredictionFile, names: Sequence[str] | None, client: Any) -> DaskTable:
    """Return a file's probabilities as a table on a cluster; its workers read the file.

    Logits go through a softmax there.
    """
    rows = dask_rows(file, names, client)
    if file.kind == "logits":
        rows = apply_to(_Softmax(file.where), rows)
    return DaskTable(rows)


def dask_rows(file: PredictionFile, names: Sequence[str] | None, client: Any) -> Any:
    """Return a file's predictions as a Dask array; every worker must find the file at its path.

    Chunks are consecutive rows of an npy file, row groups of a Parquet file, or record batches of
    an Arrow file. They have about 128 MB, or less, so that every thread of the cluster gets one.
    """
    import dask.array as da
    from dask import delayed

    table = file.rows(names)
    if not isinstance(table, Table) or not table.portable:
        raise ValueError(
            f"{file.where} cannot be read from the middle, as --dask has to; convert it to "
            "parquet, an Arrow file (no stream) or npy."
        )
    n, n_classes = table.shape
    n_threads = sum(client.nthreads().values())
    n_chunks = max(n_threads, -(-n * n_classes * table.dtype.itemsize // CHUNK_BYTES), 1)
    load = delayed(_Read(table, file.path.resolve()), pure=False, traverse=False)
    return da.concatenate(
        [
            da.from_delayed(load(part), (part.stop - part.start, n_classes), table.dtype)
            for part in table.parts(n_chunks)
        ]
    )


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


@dataclass(frozen=True)
class _Softmax:
    """Turns a chunk of logits into probabilities."""

    where: str

    def __call__(self, logits: Floats) -> Floats:
        checked = check_logits(logits, name=self.where).values
        return reweight(checked, np.ones(checked.shape[1]), from_logits=True)
