"""Spark frames as tables: every pass is one `mapInArrow` (extra `spark`).

A task folds the blocks of its partition and gives back one row: the partition's number, and the
result as NumPy's own bytes, so that the driver unpickles nothing. Blocks end where partitions do.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from priorshift._typing import Floats
from priorshift.execution._packing import pack, unpack
from priorshift.execution._tables import TABLE_MAKERS, Blocks, Done, Fold, Table
from priorshift.execution._threads import single_threaded_blas

RESULT = "partition int, found binary, error string"
"""What a pass gives back, one row a partition."""

NUMBERS = frozenset({"float", "double", "byte", "short", "integer", "long"})
COUNTED_ROWS = 2**16


class SparkTable(Table):
    """A Spark frame, gone through partition by partition where the partitions are.

    Making one counts the rows. They are numbered in the order of the partitions, so the frame has
    to give the same rows in the same partitions every time: read from files, or cached, it does.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
    columns : sequence of str, or str
        Columns with the probability of each class; their names are those of the classes. Or one
        column with all of them as an array, such as `pyspark.ml.functions.vector_to_array` makes,
        in the order of the classes.
    cache : bool, default=False
        Whether Spark is to keep these columns between passes, until `release` is called. Without
        it every pass computes them anew.

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

    def blocks(self, part: slice, n_rows: int) -> Blocks:  # noqa: ARG002
        """Refuse: rows are worked on where they are."""
        raise TypeError("a SparkTable is gone through by map_reduce; its blocks are not fetched.")

    def map_parts(self, fold: Fold, n_parts: int, n_rows: int, done: Done) -> list[Any]:  # noqa: ARG002
        """Fold the blocks of each partition where it is; return the results, in order."""
        found = self._run(_Pass(fold, _extents(self._n_rows), n_rows, self.dtype))
        for partition, _ in found:
            done(self._n_rows[partition])
        return [result for _, result in found]

    def release(self) -> None:
        """Let Spark forget the columns that it kept."""
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
        """Refuse: it stands for rows of a session."""
        raise TypeError("a SparkTable is not pickled: it belongs to a Spark session.")


def _table_of(values: Any, name: str) -> None:
    """Refuse a frame: which of its columns are probabilities, only you know."""
    if is_spark_frame(values):
        raise ValueError(f"{name} is a Spark frame; name its columns: SparkTable({name}, columns).")


TABLE_MAKERS["pyspark"] = _table_of


def is_spark_frame(values: Any) -> bool:
    """Tell without importing Spark."""
    kind = type(values)
    return kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")


@dataclass(frozen=True)
class _Pass:
    """Folds the Arrow batches of one partition; `extents` are its first row and how many it has."""

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
    """Cut matrices that come one after the other into blocks of so many rows."""
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
    """Count rows and columns; None where there are no rows."""
    n_rows, width = 0, 0
    for rows, block in blocks:
        n_rows, width = n_rows + rows.stop - rows.start, block.shape[1]
    return (n_rows, width) if n_rows else None


def _extents(n_rows: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """Return the first row of each partition, and how many it has."""
    ends = np.cumsum([n_rows[partition] for partition in sorted(n_rows)]).tolist()
    return {
        partition: (end - n_rows[partition], n_rows[partition])
        for partition, end in zip(sorted(n_rows), ends, strict=True)
    }


def _float_type(schema: Any, *, as_array: bool) -> np.dtype[Any]:
    """Return float32 where all columns are of it, else float64; refuse what holds no numbers."""
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
    return np.dtype(np.float32 if set(kinds) == {"float"} else np.float64)


def _ragged(lengths: Sequence[Any]) -> str:
    return f"the arrays of the column have different lengths ({lengths}); give one number a class."


def _changed(what: str) -> str:
    return (
        f"the frame gave other {what} than when they were counted; it must give the same every "
        "time: cache it (cache=True), or write it to files and read these."
    )
