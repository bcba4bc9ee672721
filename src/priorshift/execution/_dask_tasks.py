"""What one pass over a Dask array does: tasks on blocks that begin in chunks.

Sums must not depend on how an array is chunked. So the rows are cut into the very blocks that an
array in memory is cut into, and a chunk's task works on the blocks that begin in it: of the next
chunk it gets the few rows that its last block lacks. What comes back is one result a chunk, and of
many chunks their sums, made on the workers.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise, zip_longest
from typing import Any

import numpy as np

from priorshift._typing import Floats
from priorshift.execution import _reduce
from priorshift.execution._tables import Blocks, Done, Fold
from priorshift.execution._threads import single_threaded_blas

MERGED = 16
"""Results that one task adds up; so many chunks need no such task."""


@dataclass(frozen=True)
class Share:
    """What one task does: fold the blocks that begin in a chunk.

    `rows` may go beyond the chunk, by `lacking` rows, which the chunks `behind` it have.
    """

    rows: slice
    start: int
    chunk: int
    behind: tuple[int, ...]
    lacking: int

    @property
    def n_rows(self) -> int:
        """How many rows it folds."""
        return self.rows.stop - self.rows.start


@dataclass(frozen=True)
class Cuts:
    """Where blocks begin: every `n_rows` rows, and anew in every part."""

    parts: tuple[slice, ...]
    n_rows: int

    def next_start(self, row: int) -> int:
        """Return where the first block begins that begins at a row or after it."""
        at = bisect_right(self.parts, row, key=lambda part: part.start) - 1
        part = self.parts[at]
        steps = -(-(row - part.start) // self.n_rows)
        return min(part.start + steps * self.n_rows, part.stop)

    def blocks(self, rows: slice) -> Iterator[slice]:
        """Yield the blocks that begin among some rows."""
        start = rows.start
        while start < rows.stop:
            part = self.parts[bisect_right(self.parts, start, key=lambda part: part.start) - 1]
            stop = min(start + self.n_rows, part.stop)
            yield slice(start, stop)
            start = stop

    def shares(self, starts: list[int]) -> Iterator[Share]:
        """Yield what every task does, where chunks begin, and the last one ends, at these rows."""
        for at, (start, stop) in enumerate(pairwise(starts)):
            rows = slice(self.next_start(start), self.next_start(stop))
            if rows.start == rows.stop:
                continue  # no block begins in this chunk
            behind = at + 1
            while starts[behind] < rows.stop:
                behind += 1
            yield Share(rows, start, at, tuple(range(at + 1, behind)), max(0, rows.stop - stop))


@dataclass(frozen=True)
class Folding:
    """Folds the blocks that begin in a chunk; `tail` are the rows that it lacks, if any."""

    fold: Fold
    cuts: Cuts
    dtype: np.dtype[Any]

    def __call__(self, rows: slice, start: int, chunk: Floats, tail: Floats | None) -> Any:
        with single_threaded_blas():
            return self.fold(self._blocks(rows, start, chunk, tail))

    def _blocks(self, rows: slice, start: int, chunk: Floats, tail: Floats | None) -> Blocks:
        for block in self.cuts.blocks(rows):
            values = chunk[block.start - start : block.stop - start]
            if tail is not None and block.stop > start + chunk.shape[0]:
                values = np.concatenate([values, tail])  # the last block, and the only such
            yield block, np.asarray(values, dtype=self.dtype)


def map_on_cluster(
    client: Any, array: Any, held: bool, folding: Folding, shares: list[Share], done: Done
) -> list[Any]:
    """Fold on a cluster's workers; many results are added up there, in order.

    Where the array is not `held`, chunks are made for this pass, and go as soon as they are folded.
    """
    leaves = _submit(client, array if held else array.persist(), folding, shares)
    rows_of = {leaf.key: share.n_rows for leaf, share in zip(leaves, shares, strict=True)}
    results = leaves
    while len(results) > MERGED:
        groups = [results[at : at + MERGED] for at in range(0, len(results), MERGED)]
        results = client.map(_add_up, *_columns(groups), pure=False)
    _follow(leaves, rows_of, done)
    return client.gather(results)


def _submit(client: Any, array: Any, folding: Folding, shares: list[Share]) -> list[Any]:
    """Send the tasks, and keep no more than their results."""
    from distributed import futures_of

    by_key = {future.key: future for future in futures_of(array)}
    chunks = [by_key[row[0]] for row in array.__dask_keys__()]
    tails: list[Any] = [None] * len(shares)
    short = [at for at, share in enumerate(shares) if share.lacking]
    if short:
        behind = [[chunks[at] for at in shares[at].behind] for at in short]
        lacking = [shares[at].lacking for at in short]
        made = client.map(_tail, lacking, *_columns(behind), pure=False)
        for at, tail in zip(short, made, strict=True):
            tails[at] = tail
    # the folding is a task of its own: it travels once a worker, not once a chunk, and can be
    # made again if that worker is lost
    shared = client.submit(_itself, folding, pure=False)
    return client.map(
        _call,
        [share.rows for share in shares],
        [share.start for share in shares],
        [chunks[share.chunk] for share in shares],
        tails,
        folding=shared,
        pure=False,
    )


def _follow(leaves: list[Any], rows_of: dict[Any, int], done: Done) -> None:
    """Wait for all tasks; raise what a kernel raised."""
    from distributed import as_completed

    for leaf in as_completed(leaves):
        if leaf.status == "error":
            leaf.result()
        done(rows_of[leaf.key])


def map_here(array: Any, folding: Folding, shares: list[Share], done: Done) -> list[Any]:
    """Fold by Dask's scheduler in this process."""
    from dask.base import get_scheduler
    from dask.callbacks import Callback

    chunks = [row[0] for row in array.__dask_keys__()]
    graph, rows_of = dict(array.__dask_graph__()), {}
    for share in shares:
        leaf, tail = ("priorshift-fold", share.chunk), None
        if share.lacking:
            tail = ("priorshift-tail", share.chunk)
            graph[tail] = (_tail, share.lacking, *(chunks[at] for at in share.behind))
        graph[leaf] = (folding, share.rows, share.start, chunks[share.chunk], tail)
        rows_of[leaf] = share.n_rows

    def heard(key: Any, *_: Any) -> None:
        if key in rows_of:
            done(rows_of[key])

    get = get_scheduler(collections=[array]) or array.__dask_scheduler__
    with Callback(posttask=heard):
        return list(get(graph, list(rows_of)))


def _call(rows: slice, start: int, chunk: Floats, tail: Floats | None, *, folding: Folding) -> Any:
    return folding(rows, start, chunk, tail)


def _itself(folding: Folding) -> Folding:
    return folding


def _tail(lacking: int, *chunks: Floats | None) -> Floats:
    """Copy the first rows of some chunks, where these are: no worker is to fetch all of them."""
    return np.concatenate([chunk[:lacking] for chunk in chunks if chunk is not None])[:lacking]


def _add_up(*results: Any) -> Any:
    """Add up results without touching them: a worker may need them again after a failure."""
    first, *others = (found for found in results if found is not None)
    return reduce(_reduce._add, others, _reduce._own(first))


def _columns(rows: list[list[Any]]) -> list[tuple[Any, ...]]:
    """Transpose lists of different lengths; what is missing is None."""
    return list(zip_longest(*rows))
