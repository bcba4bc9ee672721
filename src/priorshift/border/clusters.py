"""Rows on a cluster: tables of Dask arrays and Spark frames (extras `dask`, `spark`).

Every pass runs where the rows are. A task folds the blocks of one chunk of a Dask array, or of one
partition of a Spark frame, and returns one result. Dask's workers add up those of many chunks;
Spark's come back as bytes in NumPy's format, so that the driver unpickles nothing.
"""

import gc
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from itertools import chain
from operator import itemgetter
from pathlib import Path
from tempfile import gettempdir
from typing import Any
from uuid import uuid4

import numpy as np

from priorshift._typing import Floats, are_numbers, float_type
from priorshift.border.rows import SUM_TOLERANCE, Blocks, Fold, Table, add, slices
from priorshift.border.threads import (
    memory_kept,
    n_threads,
    row_blocks,
    single_threaded_blas,
)

MOST_HELD = 2**30
"""Bytes up to which chunks are kept in this process, if there is no cluster to keep them."""

TASK_BYTES = 2**28
"""Bytes of chunks that one task goes through, so that few tasks suffice: it holds them at once."""

PARTITIONS = "partition int, path string, width int, n_rows long, fine boolean, error string"
RESULTS = "partition int, found binary, error string"
LOST = "lost"
"""What Spark's workers return of each partition, and the error of one whose file is not there."""

NUMBERS = frozenset({"float", "double", "byte", "short", "integer", "long"})


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

    dear = True

    def __init__(self, array: Any, *, persist: bool | None = None) -> None:
        self.dtype = _dask_type(array)
        if persist is None:
            # the size of unknown chunks is NaN, and so not known to be small
            persist = _client() is not None or array.nbytes <= MOST_HELD
        array = _in_whole_rows(array, persist)
        # not kept, a pass over chunks is made as short as Dask can
        self.array = array.persist() if persist else import_module("dask").optimize(array)[0]
        self.shape = array.shape
        self._starts = np.cumsum((0, *array.chunks[0])).tolist()
        self._persisted, self._shared_among = persist, dict[str | None, int]()
        self._shares: list[tuple[str | None, list[int]]] = []

    def blocks(self, part: slice, n_rows: int) -> Blocks:
        """Fetch the rows of a part block by block."""
        for rows, block in slices(self.array, part, n_rows):
            yield rows, np.asarray(block.compute(), dtype=self.dtype)

    def map_parts(self, fold: Fold, n_parts: int, n_rows: int) -> list[Any]:  # noqa: ARG002
        """Fold chunks where they are; a task adds up the results of those that a worker holds."""
        import dask

        # a task of its own: it is sent once per worker, not once per task
        folding = dask.delayed(
            partial(_fold_chunks, fold, n_rows, self.dtype), pure=False, traverse=False
        )
        chunks = self.array.to_delayed(optimize_graph=False).ravel()
        tasks = []
        for worker, numbers in self._tasks():
            here = {"workers": [worker], "allow_other_workers": True} if worker else {}
            with dask.annotate(**here):
                tasks.append(folding([(self._starts[at], chunks[at]) for at in numbers]))
        found = [result for results in dask.compute(*tasks) for result in results]
        return [result for _, result in sorted(found, key=itemgetter(0))]

    def _tasks(self) -> list[tuple[str | None, list[int]]]:
        """Return tasks, as the chunks of each and who holds them: a few for every thread."""
        client, keys = _client(), [key for (key,) in self.array.__dask_keys__()]
        threads = {None: n_threads()} if client is None else client.nthreads()
        if threads == self._shared_among:
            return self._shares
        holders: dict[str | None, list[int]] = {None: list(range(len(keys)))}
        if client is not None and self._persisted:
            from distributed import wait

            wait(self.array)
            holders, held = {}, client.who_has(self.array)
            for at, key in enumerate(keys):
                holders.setdefault(next(iter(held[key]), None), []).append(at)
        self._shares, n_bytes = [], np.diff(self._starts) * self.shape[1] * self.dtype.itemsize
        for worker, numbers in holders.items():
            size = n_bytes[numbers].sum()
            n_tasks = max(threads.get(worker, sum(threads.values())), -(-size // TASK_BYTES))
            parts = np.array_split(numbers, min(n_tasks, len(numbers)))
            self._shares += [(worker, part.tolist()) for part in parts]
        self._shared_among = threads
        return self._shares

    def __reduce__(self) -> Any:
        """Refuse: no worker should receive the table whose chunks it holds."""
        raise TypeError(
            "a DaskTable cannot be pickled: it stands for chunks on a cluster. Estimators that "
            "were fitted on one keep it; fit them on a NumPy array to pickle them."
        )


def is_dask_array(values: Any) -> bool:
    """Tell without importing Dask."""
    return type(values).__module__.startswith("dask.array")


def is_spark_frame(values: Any) -> bool:
    """Tell without importing Spark."""
    kind = type(values)
    return kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")


def apply_to(function: Callable[[Any], Any], array: Any) -> Any:
    """Return a function of rows; of a Dask array a lazy one, made of its chunks when computed.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> apply_to(np.sqrt, da.from_array(np.array([[1.0, 4.0], [9.0, 16.0]]))).compute()
    array([[1., 2.],
           [3., 4.]])
    """
    if not is_dask_array(array):
        return function(array)
    dtype = _dask_type(array)
    if array.ndim == 2:
        array = array.rechunk({1: -1})
    meta = np.empty((0,) * array.ndim, dtype)
    return array.map_blocks(partial(_apply, function, dtype), dtype=dtype, meta=meta)


def _apply(function: Callable[[Floats], Floats], dtype: np.dtype[Any], chunk: Floats) -> Floats:
    return function(chunk) if chunk.shape[0] else chunk.astype(dtype)


def _client() -> Any:
    """Return the client of a cluster that Dask computes on, if there is one."""
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


def _dask_type(array: Any) -> np.dtype[Any]:
    """Return the type of blocks; refuse an array that does not hold numbers."""
    if not are_numbers(array.dtype):
        raise ValueError(f"the Dask array must hold numbers; it holds {array.dtype}.")
    if not isinstance(array._meta, np.ndarray) or isinstance(array._meta, np.ma.MaskedArray):
        raise ValueError(
            "the chunks of the Dask array must be plain NumPy arrays; they are of "
            f"{type(array._meta).__name__}. Convert them with map_blocks."
        )
    return float_type(array.dtype)


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
    array = array.map_blocks(_as_claimed, dtype=array.dtype, meta=array._meta)
    return array if array.numblocks[1] == 1 else array.rechunk({1: -1})


def _as_claimed(chunk: Any, block_info: Any = None) -> Any:
    """Refuse a chunk, once it is computed, whose shape is not what the array says.

    Dask itself trusts the shapes given to `from_delayed` and `map_blocks`. Sums over other rows
    would be wrong, and so would the certificates made from them.
    """
    rows, columns = block_info[0]["array-location"]
    claimed = (rows[1] - rows[0], columns[1] - columns[0])
    if np.shape(chunk) != claimed:
        raise ValueError(
            f"the Dask array says that rows {rows[0]} to {rows[1] - 1} are a chunk of shape "
            f"{claimed}; its shape is {np.shape(chunk)}. Give the chunks their true shapes where "
            "the array is made (from_delayed, map_blocks), or call compute_chunk_sizes()."
        )
    return chunk


def _fold_chunks(
    fold: Fold, n_rows: int, dtype: np.dtype[Any], chunks: list[tuple[int, Floats]]
) -> list[tuple[int, Any]]:
    """Fold chunks, given with their first rows; return the sum of the results, with the first row.

    Results with lists are returned one by one, since lists are joined in the order of all rows.
    """
    results: list[tuple[int, Any]] = []
    with single_threaded_blas(), memory_kept():
        for start, chunk in chunks:
            blocks = (
                (slice(start + rows.start, start + rows.stop), np.asarray(chunk[rows], dtype))
                for rows in row_blocks(chunk.shape[0], n_rows=n_rows)
            )
            result = fold(blocks)
            if result is None:  # no rows
                continue
            if results and not _holds_list(result):
                results[0] = results[0][0], add(results[0][1], result)
            else:
                results.append((start, result))
    return results


def _holds_list(result: Any) -> bool:
    return isinstance(result, list) or (isinstance(result, tuple) and any(map(_holds_list, result)))


# Spark


class SparkTable(Table):
    """A Spark frame, read partition by partition where the partitions are.

    Making one counts the rows. They are numbered in the order of the partitions, so the frame must
    give the same rows in the same partitions every time: a cached frame, or one read from files.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
    columns : sequence of str, or str
        Columns with the probability of each class, named after the classes. Or one column that
        holds all of them as an array, as `pyspark.ml.functions.vector_to_array` makes it, in the
        order of the classes.
    cache : bool, default=False
        Whether Spark keeps the rows between passes, as arrays, until you call `release`. Otherwise
        every pass computes the columns again and turns them into arrays, which takes longer.

    Examples
    --------
    The session is yours::

        frame = spark.read.parquet("predictions.parquet")
        table = SparkTable(frame, ["cat", "dog", "fox"], cache=True)
        shift = ps.EM().fit(source_priors={"cat": 0.2, "dog": 0.5, "fox": 0.3}).estimate(table)
        table.release()
    """

    dear = True

    def __init__(self, frame: Any, columns: Sequence[str] | str, *, cache: bool = False) -> None:
        chosen = [columns] if isinstance(columns, str) else list(columns)
        missing = [name for name in chosen if name not in frame.columns]
        if missing or not chosen:
            raise ValueError(f"the frame has no column {missing}; it has {frame.columns}.")
        selected = frame.select(*(f"`{name.replace('`', '``')}`" for name in chosen))
        self.dtype = _spark_type(selected.schema, as_array=isinstance(columns, str))
        # mapInArrow cannot resolve names with points
        self._rows = selected.toDF(*(f"c{at}" for at in range(len(chosen))))
        self.frame, self._cached, self._few_tasks = self._rows, cache, cache
        partitions = _collect(self._count())
        widths = sorted({row.width for row in partitions})
        if len(widths) > 1:
            raise ValueError(_ragged(widths))
        self._n_rows = {row.partition: row.n_rows for row in partitions}
        self.shape = (sum(self._n_rows.values()), widths[0] if widths else 0)
        self.names = None if isinstance(columns, str) else tuple(chosen)
        # what is kept cannot change
        self.distributions = cache and bool(partitions) and all(row.fine for row in partitions)

    def blocks(self, part: slice, n_rows: int) -> Blocks:  # noqa: ARG002
        """Refuse: rows are worked on where they are."""
        raise TypeError("a SparkTable is read by map_reduce; its blocks are not fetched.")

    def map_parts(self, fold: Fold, n_parts: int, n_rows: int) -> list[Any]:  # noqa: ARG002
        """Fold the blocks of each partition where it is; return the results, in order."""
        extents, first = {}, 0
        for partition, n in self._n_rows.items():
            extents[partition] = first, n
            first += n
        task = partial(_fold_partitions, fold, extents, n_rows, self.dtype)
        try:
            found = _collect(self._in_few_tasks().mapInArrow(task, RESULTS))
        except FileNotFoundError:
            self._few_tasks = False  # their partitions may be kept on several machines
            try:
                found = _collect(self.frame.mapInArrow(task, RESULTS))
            except FileNotFoundError:  # nobody kept these rows where Spark ran the task: do it anew
                self.frame.unpersist()
                self._count()
                found = _collect(self.frame.mapInArrow(task, RESULTS))
        if [row.partition for row in found] != list(extents):
            raise ValueError(_changed("partitions"))
        return [unpack(bytes(row.found)) for row in found]

    def release(self) -> None:
        """Drop the rows that Spark keeps."""
        if self._cached:
            self.frame.mapInArrow(_delete_rows, "deleted int").collect()
            self.frame.unpersist()

    def _count(self) -> Any:
        """Return a frame of the partitions; if rows are to be kept, it is the one to pass over.

        It is small and cached: Spark runs a task where its partition is, and so the file.
        """
        counted = self._rows.mapInArrow(partial(_count_rows, self.dtype, self._cached), PARTITIONS)
        if self._cached:
            self.frame = counted = counted.cache()
        return counted

    def _in_few_tasks(self) -> Any:
        """Return the frame; if rows are kept, a task goes through the files of many partitions.

        A task takes Spark 40 ms, whatever it does. A session without a context does not tell how
        many run at once.
        """
        context = getattr(self.frame.sparkSession, "sparkContext", None)
        if not self._few_tasks or context is None:
            return self.frame
        n_bytes = self.shape[0] * self.shape[1] * self.dtype.itemsize
        return self.frame.coalesce(max(context.defaultParallelism, -(-n_bytes // TASK_BYTES)))

    def __reduce__(self) -> Any:
        """Refuse: it belongs to a Spark session."""
        raise TypeError("a SparkTable cannot be pickled: it belongs to a Spark session.")


def _collect(frame: Any) -> list[Any]:
    """Collect rows in the order of their partitions; raise the first error among them."""
    rows = sorted(frame.collect(), key=lambda row: row.partition)
    for row in rows:
        if row.error is not None:
            raise FileNotFoundError if row.error == LOST else ValueError(row.error)
    return rows


def _count_rows(dtype: np.dtype[Any], keep: bool, batches: Iterator[Any]) -> Iterator[Any]:
    """Count and check the rows of a partition; keep them in a file, which Spark deletes."""
    from pyspark import TaskContext

    path, width, n_rows, fine, error = None, 0, 0, True, None
    if keep:
        place = os.environ.get("SPARK_LOCAL_DIRS", gettempdir()).split(",")[0]
        path = str(Path(place) / f"priorshift-{uuid4().hex}")
    try:
        with Path(path or os.devnull).open("wb") as file:
            for matrix in _matrices(batches, dtype):
                if n_rows and matrix.shape[1] != width:
                    raise ValueError(_ragged([width, matrix.shape[1]]))
                n_rows, width = n_rows + matrix.shape[0], matrix.shape[1]
                if keep:
                    with np.errstate(all="ignore"):
                        off = np.abs(matrix @ np.ones(matrix.shape[1], matrix.dtype) - 1)
                        fine &= bool((off <= SUM_TOLERANCE).all() and matrix.min(initial=0) >= 0)
                    file.write(np.ascontiguousarray(matrix).data)
    except ValueError as raised:  # Spark would wrap the message into its own traceback
        error = str(raised)
    if n_rows or error:
        partition = TaskContext.get().partitionId()
        yield _record(PARTITIONS, partition, path, width, n_rows, fine, error)


def _delete_rows(batches: Iterator[Any]) -> Iterator[Any]:
    """Delete the files of a partition."""
    for batch in batches:
        for path in batch.column("path").to_pylist():
            Path(path).unlink(missing_ok=True)
    yield from ()


def _fold_partitions(
    fold: Fold,
    extents: Mapping[int, tuple[int, int]],
    n_rows: int,
    dtype: np.dtype[Any],
    batches: Iterator[Any],
) -> Iterator[Any]:
    """Fold the rows of each partition of a task; `extents` has its first row and length."""
    _leave_alone_what_is_imported()
    for partition, matrices in _partitions(batches, dtype):
        first, expected = extents.get(partition, (0, 0))
        found, error = None, None
        try:
            with single_threaded_blas():
                result = fold(_numbered(_of_size(matrices, n_rows), first, expected))
            if result is None:
                continue
            found = pack(result)
        except FileNotFoundError:
            error = LOST
        except ValueError as raised:  # as above
            error = str(raised)
        yield _record(RESULTS, partition, found, error)


def _partitions(
    batches: Iterator[Any], dtype: np.dtype[Any]
) -> Iterator[tuple[int, Iterator[Floats]]]:
    """Yield the numbers and rows of partitions: those whose files a task reads, or its own."""
    from pyspark import TaskContext

    first = next(batches, None)
    if first is None:
        return
    batches = chain([first], batches)
    if "path" not in first.schema.names:
        yield TaskContext.get().partitionId(), _matrices(batches, dtype)
        return
    for batch in batches:
        for row in batch.to_pylist():
            yield row["partition"], _kept(row["path"], dtype, (row["n_rows"], row["width"]))


def _kept(path: str, dtype: np.dtype[Any], shape: tuple[int, int]) -> Iterator[Floats]:
    yield np.memmap(path, dtype, "r", shape=shape)


def _numbered(matrices: Iterator[Floats], first: int, expected: int) -> Blocks:
    """Yield blocks with the numbers of their rows; refuse more or fewer than were counted."""
    row = first
    for block in matrices:
        yield slice(row, row + block.shape[0]), block
        row += block.shape[0]
    if row - first != expected:
        raise ValueError(_changed("rows"))


@cache
def _leave_alone_what_is_imported() -> None:
    """Keep garbage collection short, which Spark's workers run after every task: 65 ms each."""
    gc.freeze()


def _record(schema: str, *values: Any) -> Any:
    """Return values as an Arrow batch of one row."""
    import pyarrow as pa

    kinds = {"int": pa.int32(), "long": pa.int64(), "boolean": pa.bool_()}
    kinds |= {"string": pa.string(), "binary": pa.binary()}
    names, types = zip(*(column.split() for column in schema.split(", ")), strict=True)
    columns = [pa.array([value], kinds[kind]) for value, kind in zip(values, types, strict=True)]
    return pa.record_batch(columns, names=list(names))


def _matrices(batches: Iterator[Any], dtype: np.dtype[Any]) -> Iterator[Floats]:
    """Yield the rows of Arrow batches: in a column of arrays, or a column each."""
    for batch in batches:
        first = batch.column(0)
        if hasattr(first, "flatten") and hasattr(first.type, "value_type"):
            lengths = np.unique(first.value_lengths().to_numpy(zero_copy_only=False))
            if lengths.size > 1 or np.isnan(lengths).any():
                raise ValueError(_ragged(lengths.tolist()))
            values = first.flatten().to_numpy(zero_copy_only=False).astype(dtype, copy=False)
            yield values.reshape(batch.num_rows, -1)
        else:
            values = np.empty((batch.num_rows, batch.num_columns), dtype)
            for at, column in enumerate(batch.columns):
                values[:, at] = column.to_numpy(zero_copy_only=False)  # a null becomes NaN
            yield values


def _of_size(matrices: Iterator[Floats], n_rows: int) -> Iterator[Floats]:
    """Cut consecutive matrices into blocks of `n_rows` rows."""
    held: list[Floats] = []
    missing = n_rows
    for matrix in matrices:
        while matrix.shape[0] >= missing:
            yield np.concatenate([*held, matrix[:missing]]) if held else matrix[:missing]
            matrix, held, missing = matrix[missing:], [], n_rows
        if matrix.shape[0]:
            held.append(matrix)
            missing -= matrix.shape[0]
    if held:
        yield np.concatenate(held)


def _spark_type(schema: Any, *, as_array: bool) -> np.dtype[Any]:
    """Return the type of blocks; refuse columns that do not hold numbers."""
    kinds = []
    for field in schema:
        kind = field.dataType
        if (kind.typeName() == "array") != as_array:
            what = "an array" if as_array else "numbers"
            raise ValueError(
                f"column {field.name!r} must hold {what}; it holds {kind.simpleString()}. Give one "
                "array column by its name, or a list of columns of numbers."
            )
        kinds.append((kind.elementType if as_array else kind).typeName())
        if kinds[-1] not in NUMBERS:
            raise ValueError(
                f"column {field.name!r} holds {kind.simpleString()}; cast it to float or double."
            )
    return float_type(*("f4" if kind == "float" else "f8" for kind in kinds))


def _ragged(lengths: Sequence[Any]) -> str:
    return (
        f"the arrays of the column have different lengths ({lengths}); give one number per class."
    )


def _changed(what: str) -> str:
    return (
        f"the frame gave other {what} than when they were counted; it must give the same every "
        "time: cache it (cache=True), or write it to files and read those."
    )


def pack(result: Any) -> bytes:
    """Turn what a fold returns into bytes: numbers, arrays, lists and tuples of them.

    Examples
    --------
    >>> unpack(pack((1.5, [np.arange(3), np.arange(2)])))
    (np.float64(1.5), [array([0, 1, 2]), array([0, 1])])
    """
    leaves: list[Any] = []
    buffer = io.BytesIO()
    tree = json.dumps(_flatten(result, leaves))
    if any(np.asarray(leaf).dtype.hasobject for leaf in leaves):  # NumPy would pickle them
        raise ValueError("a fold must return numbers, and arrays, lists or tuples of numbers.")
    np.savez(buffer, *leaves, tree=tree)
    return buffer.getvalue()


def unpack(data: bytes) -> Any:
    """Turn bytes back into what a fold returned."""
    with np.load(io.BytesIO(data), allow_pickle=False) as found:
        leaves = (found[f"arr_{at}"] for at in range(len(found.files) - 1))
        return _unflatten(json.loads(str(found["tree"])), leaves)


def _flatten(result: Any, leaves: list[Any]) -> Any:
    """Collect the arrays; return the rest: [kind, parts], or null in place of an array."""
    if isinstance(result, tuple | list):
        return [type(result).__name__, [_flatten(part, leaves) for part in result]]
    leaves.append(np.asarray(result))
    return None


def _unflatten(tree: Any, leaves: Iterator[Any]) -> Any:
    if tree is None:
        return next(leaves)[()]
    kind, parts = tree
    found = [_unflatten(part, leaves) for part in parts]
    return tuple(found) if kind == "tuple" else found
