"""Spark frames as tables: every pass is one `mapInArrow` (extra `spark`).

A task folds the blocks of its partition and returns one row: the partition's number, and the result
as bytes in NumPy's format, so that the driver unpickles nothing. Blocks end where partitions do.
"""

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from priorshift._typing import Floats, float_type
from priorshift.border.rows import Blocks, Done, Fold, Table, table_kind
from priorshift.border.threads import single_threaded_blas

RESULT = "partition int, found binary, error string"
"""What a pass returns: one row per partition."""

NUMBERS = frozenset({"float", "double", "byte", "short", "integer", "long"})
COUNTED_ROWS = 2**16


@table_kind
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
        Whether Spark keeps these columns between passes, until you call `release`. Otherwise every
        pass computes them again.

    Examples
    --------
    The session is yours::

        frame = spark.read.parquet("predictions.parquet")
        table = SparkTable(frame, ["cat", "dog", "fox"], cache=True)
        shift = ps.EM().fit(source_priors={"cat": 0.2, "dog": 0.5, "fox": 0.3}).estimate(table)
        table.release()
    """

    def __init__(self, frame: Any, columns: Sequence[str] | str, *, cache: bool = False) -> None:
        chosen = [columns] if isinstance(columns, str) else list(columns)
        missing = [name for name in chosen if name not in frame.columns]
        if missing or not chosen:
            raise ValueError(f"the frame has no column {missing}; it has {frame.columns}.")
        selected = frame.select(*(f"`{name.replace('`', '``')}`" for name in chosen))
        self.dtype = _float_type(selected.schema, as_array=isinstance(columns, str))
        # mapInArrow cannot resolve names with points
        self.frame = selected.toDF(*(f"c{at}" for at in range(len(chosen))))
        if cache:
            self.frame = self.frame.cache()
        self._n_rows: Mapping[int, int] = {}
        extents = self._run(_Pass(_extent, None, COUNTED_ROWS, self.dtype))
        self._n_rows = {partition: int(n_rows) for partition, (n_rows, _) in extents}
        widths = sorted({int(width) for _, (_, width) in extents})
        if len(widths) > 1:
            raise ValueError(_ragged(widths))
        self.shape = (sum(self._n_rows.values()), widths[0] if widths else 0)
        self.names = None if isinstance(columns, str) else tuple(chosen)

    @classmethod
    def recognises(cls, values: Any) -> bool:
        """Recognise Spark frames, without importing Spark."""
        return is_spark_frame(values)

    @classmethod
    def of(cls, values: Any, name: str = "y_proba") -> NoReturn:  # noqa: ARG003
        """Refuse a frame: only you know which of its columns are classes."""
        raise ValueError(f"{name} is a Spark frame; name its columns: SparkTable({name}, columns).")

    def blocks(self, part: slice, n_rows: int) -> Blocks:  # noqa: ARG002
        """Refuse: rows are worked on where they are."""
        raise TypeError("a SparkTable is read by map_reduce; its blocks are not fetched.")

    def map_parts(self, fold: Fold, n_parts: int, n_rows: int, done: Done) -> list[Any]:  # noqa: ARG002
        """Fold the blocks of each partition where it is; return the results, in order."""
        found = self._run(_Pass(fold, _extents(self._n_rows), n_rows, self.dtype))
        for partition, _ in found:
            done(self._n_rows[partition])
        return [result for _, result in found]

    def release(self) -> None:
        """Let Spark drop the columns that it keeps."""
        self.frame.unpersist()

    def _run(self, task: "_Pass") -> list[tuple[int, Any]]:
        rows = sorted(self.frame.mapInArrow(task, RESULT).collect(), key=lambda row: row.partition)
        for row in rows:
            if row.error is not None:
                raise ValueError(row.error)
        if self._n_rows and [row.partition for row in rows] != sorted(self._n_rows):
            raise ValueError(_changed("partitions"))
        return [(row.partition, unpack(bytes(row.found))) for row in rows]

    def __reduce__(self) -> Any:
        """Refuse: it belongs to a Spark session."""
        raise TypeError("a SparkTable cannot be pickled: it belongs to a Spark session.")


def is_spark_frame(values: Any) -> bool:
    """Recognise a Spark frame without importing Spark."""
    kind = type(values)
    return kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")


@dataclass(frozen=True)
class _Pass:
    """Folds the Arrow batches of one partition; `extents` maps it to its first row and length."""

    fold: Fold
    extents: Mapping[int, tuple[int, int]] | None
    n_rows: int
    dtype: np.dtype[Any]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        partition = TaskContext.get().partitionId()
        found, error = None, None
        try:  # Spark would wrap the message into its own traceback
            with single_threaded_blas():
                result = self.fold(self._blocks(batches, partition))
            if result is None:
                return
            found = pack(result)
        except ValueError as raised:
            error = str(raised)
        columns = [
            pa.array([partition], pa.int32()),
            pa.array([found], pa.binary()),
            pa.array([error], pa.string()),
        ]
        yield pa.record_batch(columns, names=["partition", "found", "error"])

    def _blocks(self, batches: Iterator[Any], partition: int) -> Blocks:
        first, expected = (0, None) if self.extents is None else self.extents.get(partition, (0, 0))
        row = first
        for block in _of_size(map(self._matrix, batches), self.n_rows):
            rows = slice(row, row + block.shape[0])
            yield rows, block
            row = rows.stop
        if expected is not None and row - first != expected:
            raise ValueError(_changed("rows"))

    def _matrix(self, batch: Any) -> Floats:
        """Copy a batch's columns, or its one column of arrays, into a matrix."""
        first = batch.column(0)
        if hasattr(first, "flatten") and hasattr(first.type, "value_type"):
            lengths = np.unique(first.value_lengths().to_numpy(zero_copy_only=False))
            if lengths.size > 1 or np.isnan(lengths).any():
                raise ValueError(_ragged(lengths.tolist()))
            values = first.flatten().to_numpy(zero_copy_only=False).astype(self.dtype, copy=False)
            return values.reshape(batch.num_rows, -1)
        values = np.empty((batch.num_rows, batch.num_columns), self.dtype)
        for at, column in enumerate(batch.columns):
            values[:, at] = column.to_numpy(zero_copy_only=False)  # a null becomes NaN
        return values


def _of_size(matrices: Iterator[Floats], n_rows: int) -> Iterator[Floats]:
    """Cut consecutive matrices into blocks of `n_rows` rows."""
    held: list[Floats] = []
    missing = n_rows
    for matrix in matrices:
        while matrix.shape[0] >= missing:
            yield np.concatenate([*held, matrix[:missing]])
            matrix, held, missing = matrix[missing:], [], n_rows
        if matrix.shape[0]:
            held.append(matrix)
            missing -= matrix.shape[0]
    if held:
        yield np.concatenate(held)


def _extent(blocks: Blocks) -> Any:
    """Count rows and columns; None if there are no rows."""
    n_rows, width = 0, 0
    for rows, block in blocks:
        n_rows, width = n_rows + rows.stop - rows.start, block.shape[1]
    return (n_rows, width) if n_rows else None


def _extents(n_rows: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """Return the first row and the number of rows of each partition."""
    ends = np.cumsum([n_rows[partition] for partition in sorted(n_rows)]).tolist()
    return {
        partition: (end - n_rows[partition], n_rows[partition])
        for partition, end in zip(sorted(n_rows), ends, strict=True)
    }


def _float_type(schema: Any, *, as_array: bool) -> np.dtype[Any]:
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
    tree = json.dumps(_flatten(result, leaves))
    buffer = io.BytesIO()
    for array in (np.array(tree), *leaves):
        np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def unpack(data: bytes) -> Any:
    """Turn bytes back into what a fold returned."""
    buffer = io.BytesIO(data)
    tree = json.loads(str(_read(buffer)))
    return _unflatten(tree, lambda: _read(buffer))


def _flatten(result: Any, leaves: list[Any]) -> Any:
    """Collect the arrays; return the rest: [kind, parts], or null in place of an array."""
    if isinstance(result, tuple | list):
        return [type(result).__name__, [_flatten(part, leaves) for part in result]]
    leaves.append(np.asarray(result))
    return None


def _unflatten(tree: Any, next_leaf: Callable[[], Any]) -> Any:
    if tree is None:
        leaf = next_leaf()
        return leaf[()] if leaf.ndim == 0 else leaf
    kind, parts = tree
    found = [_unflatten(part, next_leaf) for part in parts]
    return tuple(found) if kind == "tuple" else found


def _read(buffer: io.BytesIO) -> Any:
    return np.lib.format.read_array(buffer, allow_pickle=False)
