"""Dask arrays as tables: every pass runs where the chunks are (extra `dask`).

Sums must not depend on how an array is chunked. So rows are cut into the same blocks as those of an
array in memory, and the task of a chunk works on the blocks that begin in it: from the next chunk
it gets the few rows that its last block lacks. Each chunk returns one result; the results of many
chunks are added up on the workers.
"""

import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise, zip_longest
from typing import Any, Self

import numpy as np

from priorshift._typing import Floats, are_numbers, float_type
from priorshift.border.rows import Blocks, Done, Fold, Table, add, own, slices, table_kind
from priorshift.border.threads import single_threaded_blas

MOST_HELD = 2**30
"""Bytes up to which chunks are kept in this process, if there is no cluster to keep them."""

MERGED = 16
"""Results that one task adds up; up to this many chunks need no such task."""


@table_kind
class DaskTable(Table):
    """A Dask array, read chunk by chunk where the chunks are.

    `estimate` and `fit` wrap every Dask array in one. Wrap it yourself to use the same data with
    several methods: then it is computed, and kept, only once.

    Parameters
    ----------
    array : dask.array.Array of shape (n_samples, n_classes)
        Probabilities. Chunks of columns are joined; unknown numbers of rows are counted first,
        and those that the array claims are compared with what its chunks turn out to hold.
    persist : bool, optional
        Whether to compute the chunks once and keep them between passes. By default they are kept
        in the memory of a cluster's workers (which spill to disk when it is full), and in this
        process only up to 1 GiB: beyond that, every pass computes them again.

    Examples
    --------
    >>> import dask.array as da
    >>> import priorshift as ps
    >>> from priorshift.border import DaskTable
    >>> y_proba = da.from_array([[0.9, 0.1], [0.6, 0.4], [0.9, 0.1], [0.2, 0.8]], chunks=(2, 2))
    >>> table = DaskTable(y_proba)
    >>> ps.EM().fit(source_priors=[0.5, 0.5]).estimate(table).priors.round(3)
    array([0.898, 0.102])
    """

    def __init__(self, array: Any, *, persist: bool | None = None) -> None:
        self.dtype = _float_type(array)
        self._client = _client()
        if persist is None:
            # the size of unknown chunks is NaN, and so not known to be small
            persist = self._client is not None or array.nbytes <= MOST_HELD
        array = _in_whole_rows(array, persist)
        self.array = array.persist() if persist else _optimised(array)
        self.shape = array.shape
        self._starts = np.cumsum((0, *array.chunks[0])).tolist()
        self._held = persist

    @classmethod
    def recognises(cls, values: Any) -> bool:
        """Recognise Dask arrays, without importing Dask."""
        return is_dask_array(values)

    @classmethod
    def of(cls, values: Any, name: str = "y_proba") -> Self:  # noqa: ARG003
        """Wrap a Dask array."""
        return cls(values)

    def blocks(self, part: slice, n_rows: int) -> Blocks:
        """Fetch the rows of a part block by block."""
        for rows, block in slices(self.array, part, n_rows):
            yield rows, np.asarray(block.compute(), dtype=self.dtype)

    def map_parts(self, fold: Fold, n_parts: int, n_rows: int, done: Done) -> list[Any]:
        """Fold the blocks of each chunk where it is; return the results, in order."""
        cuts = Cuts(tuple(self.parts(n_parts)), n_rows)
        folding, shares = Folding(fold, cuts, self.dtype), list(cuts.shares(self._starts))
        if self._client is None:
            return _map_here(self.array, folding, shares, done)
        return _map_on_cluster(self._client, self.array, self._held, folding, shares, done)

    def __reduce__(self) -> Any:
        """Refuse: no worker should receive the table whose chunks it holds."""
        raise TypeError(
            "a DaskTable cannot be pickled: it stands for chunks on a cluster. Estimators that "
            "were fitted on one keep it; fit them on a NumPy array to pickle them."
        )


def is_dask_array(values: Any) -> bool:
    """Tell without importing Dask."""
    return type(values).__module__.startswith("dask.array")


def map_chunks(function: Callable[[Floats], Floats], array: Any) -> Any:
    """Return a lazy Dask array: a function of the rows of another.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> map_chunks(np.sqrt, da.from_array(np.array([[1.0, 4.0], [9.0, 16.0]]))).compute()
    array([[1., 2.],
           [3., 4.]])
    """
    dtype = _float_type(array)
    if array.ndim == 2:
        array = array.rechunk({1: -1})
    meta = np.empty((0,) * array.ndim, dtype)
    return array.map_blocks(_Chunkwise(function, dtype), dtype=dtype, meta=meta)


@dataclass(frozen=True)
class _Chunkwise:
    """Applies a function to a chunk that has rows."""

    function: Callable[[Floats], Floats]
    dtype: np.dtype[Any]

    def __call__(self, chunk: Floats) -> Floats:
        return self.function(chunk) if chunk.shape[0] else chunk.astype(self.dtype)


def _client() -> Any:
    """Return the client of a cluster that Dask computes on, if there is one."""
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


def _float_type(array: Any) -> np.dtype[Any]:
    """Return the type of blocks; refuse an array that does not hold numbers."""
    if not are_numbers(array.dtype):
        raise ValueError(f"the Dask array must hold numbers; it holds {array.dtype}.")
    if not isinstance(array._meta, np.ndarray) or isinstance(array._meta, np.ma.MaskedArray):
        raise ValueError(
            "the chunks of the Dask array must be plain NumPy arrays; they are of "
            f"{type(array._meta).__name__}. Convert them with map_blocks."
        )
    return float_type(array.dtype)


def _optimised(array: Any) -> Any:
    """Make a pass over chunks that are not kept as short as Dask can."""
    import dask

    return dask.optimize(array)[0]


def _in_whole_rows(array: Any, persist: bool) -> Any:
    """Count unknown rows, check those that are claimed, and join chunks of columns."""
    if array.ndim != 2:
        raise ValueError(
            f"the Dask array must have shape (n_samples, n_classes); it has {array.ndim} "
            "dimensions. The probability p of a positive class is dask.array.stack([1 - p, p], "
            "axis=1)."
        )
    if np.isnan(array.shape).any():
        array = (array.persist() if persist else array).copy()
        array.compute_chunk_sizes()  # changes it in place, which must not happen to the caller's
    array = _counted(array)
    return array if array.numblocks[1] == 1 else array.rechunk({1: -1})


def _counted(array: Any) -> Any:
    """Refuse every chunk, once it is computed, whose shape is not what the array says.

    Dask itself trusts the shapes given to `from_delayed` and `map_blocks`. Sums over other rows
    would be wrong, and so would the certificates made from them.
    """
    return array.map_blocks(_as_claimed, dtype=array.dtype, meta=array._meta)


def _as_claimed(chunk: Any, block_info: Any = None) -> Any:
    rows, columns = block_info[0]["array-location"]
    claimed = (rows[1] - rows[0], columns[1] - columns[0])
    if np.shape(chunk) != claimed:
        raise ValueError(
            f"the Dask array says that rows {rows[0]} to {rows[1] - 1} are a chunk of shape "
            f"{claimed}; its shape is {np.shape(chunk)}. Give the chunks their true shapes where "
            "the array is made (from_delayed, map_blocks), or call compute_chunk_sizes()."
        )
    return chunk


@dataclass(frozen=True)
class Share:
    """What one task does: fold the blocks that begin in a chunk.

    `rows` may extend beyond the chunk by `lacking` rows, which are in the chunks `behind` it.
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
    """Where blocks begin: at every `n_rows` rows of each part."""

    parts: tuple[slice, ...]
    n_rows: int

    def next_start(self, row: int) -> int:
        """Return the first row, from a given one, at which a block begins."""
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
        """Yield the work of every task; `starts` are the first rows of chunks, and the end."""
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
    """Folds the blocks that begin in a chunk; `tail` holds the rows that it lacks, if any."""

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


def _map_on_cluster(
    client: Any, array: Any, held: bool, folding: Folding, shares: list[Share], done: Done
) -> list[Any]:
    """Fold on a cluster's workers; many results are added up there, in order.

    If the array is not `held`, chunks are made for this pass and dropped once they are folded.
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
    """Send the tasks, and keep only their results."""
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
    # the folding is a task of its own: it is sent once per worker, not once per chunk, and can be
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


def _map_here(array: Any, folding: Folding, shares: list[Share], done: Done) -> list[Any]:
    """Fold with Dask's scheduler in this process."""
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

    def finished(key: Any, *_: Any) -> None:
        if key in rows_of:
            done(rows_of[key])

    get = get_scheduler(collections=[array]) or array.__dask_scheduler__
    with Callback(posttask=finished):
        return list(get(graph, list(rows_of)))


def _call(rows: slice, start: int, chunk: Floats, tail: Floats | None, *, folding: Folding) -> Any:
    return folding(rows, start, chunk, tail)


def _itself(folding: Folding) -> Folding:
    return folding


def _tail(lacking: int, *chunks: Floats | None) -> Floats:
    """Copy the first rows of some chunks, where they are: no worker should fetch all of them."""
    return np.concatenate([chunk[:lacking] for chunk in chunks if chunk is not None])[:lacking]


def _add_up(*results: Any) -> Any:
    """Add up results without touching them: a worker may need them again after a failure."""
    first, *others = (found for found in results if found is not None)
    return reduce(add, others, own(first))


def _columns(rows: list[list[Any]]) -> list[tuple[Any, ...]]:
    """Transpose lists of different lengths; what is missing is None."""
    return list(zip_longest(*rows))
