"""The same rows through every way an adapter can travel: difference to NumPy, and time.

    python -m lab exports [--rows 200000]

The adapter is Auto's on the bundled long-tailed Fashion-MNIST outputs: an average of calibration
maps of 10 classes, and a ratio per class. 5,000 rows, among them zeros and ones, go through each
way; the largest difference is to NumPy in float64. The time is the processor's, on one thread, the
best of three rounds over all ways, on these rows repeated to many; Spark's is the clock's, as it
runs in a process of its own.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import priorshift as ps
from lab.show import head, parse, row

N_ROWS = 5_000
RUNS = 3

Way = tuple[str, Callable[[np.ndarray], Callable[[], Any]], Callable[[Any], np.ndarray]]
"""A name, what prepares rows and returns a run, and what reads its result."""


def made() -> tuple[ps.Adapter, np.ndarray]:
    """Return Auto's adapter and the rows to adapt."""
    data = ps.datasets.load_fashion_lt()
    auto = ps.Auto().fit(data.y_proba_val, data.y_val, classes=data.classes)
    shift = auto.estimate(data.y_proba_target)
    y_proba = np.asarray(data.y_proba_target, np.float64)
    rows = y_proba[np.arange(N_ROWS) % len(y_proba)]
    rows[:100] = np.eye(rows.shape[1])[np.arange(100) % rows.shape[1]]
    return shift.adapter, rows


def table_of(rows: np.ndarray) -> pa.Table:
    return pa.table({f"c{k}": rows[:, k] for k in range(rows.shape[1])})


def of_columns(found: Any) -> np.ndarray:
    return np.column_stack([column.to_numpy() for column in found.columns])


def ways(adapter: ps.Adapter, with_spark: bool) -> Iterator[Way]:
    """Yield every way; rows are handed over as each of them takes rows."""
    again = ps.Adapter.from_json(adapter.to_json())
    yield "NumPy, float64", lambda rows: lambda: adapter(rows), np.asarray
    yield "NumPy, float32", lambda rows: _on(adapter, rows.astype(np.float32)), np.asarray
    yield "JSON round trip, float64", lambda rows: lambda: again(rows), np.asarray

    import torch

    torch.set_num_threads(1)
    module = adapter.to_torch()
    for dtype in (torch.float64, torch.float32):
        yield (
            f"PyTorch module, {str(dtype).removeprefix('torch.')}",
            lambda rows, dtype=dtype: _on(module, torch.tensor(rows, dtype=dtype)),
            lambda found: found.numpy(),
        )

    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    for precision in ("float64", "float32"):
        model = adapter.to_onnx(precision=precision).SerializeToString()
        session = onnxruntime.InferenceSession(model, options)
        yield (
            f"ONNX Runtime, computes in {precision}",
            lambda rows, session=session: _on(
                lambda given: session.run(["adapted"], {"y_proba": given})[0],
                rows.astype(np.float32),
            ),
            np.asarray,
        )

    import duckdb

    connection = duckdb.connect(config={"threads": 1})
    columns = [f"c{k}" for k in range(adapter.classes.size)]

    def in_duckdb(rows: np.ndarray) -> Callable[[], Any]:
        connection.register("given", table_of(rows))
        connection.execute("CREATE OR REPLACE TABLE rows AS SELECT * FROM given")
        statement = adapter.to_sql("rows", columns, "duckdb")
        return lambda: connection.sql(statement).to_arrow_table()

    yield "SQL in DuckDB", in_duckdb, of_columns
    if with_spark:
        yield "SQL in Spark (local, 1 thread)", _in_spark(adapter, columns), of_columns


def _on(function: Callable[[Any], Any], given: Any) -> Callable[[], Any]:
    return lambda: function(given)


def _in_spark(adapter: ps.Adapter, columns: list[str]) -> Callable[[np.ndarray], Any]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")

    def prepare(rows: np.ndarray) -> Callable[[], Any]:
        frame = spark.createDataFrame(table_of(rows)).cache()
        frame.count()
        frame.createOrReplaceTempView("rows")
        statement = adapter.to_sql("rows", columns, "spark")
        if len(rows) == N_ROWS:
            return lambda: spark.sql(statement).toArrow()
        sink = spark.sql(statement).write.format("noop").mode("overwrite")
        return sink.save

    return prepare


def main(arguments: list[str] | None = None) -> None:
    """Send the same rows through every way, and print a table."""
    options = parse(__doc__, arguments, rows=200_000)
    adapter, rows = made()
    maps = adapter.calibration.maps if adapter.calibration else ()
    print(f"{len(maps)} maps: {', '.join(one.name for one in maps)}")
    print(f"zeros: {(rows == 0).mean():.1%} of the numbers")
    many = np.tile(rows, (-(-options.rows // len(rows)), 1))[: options.rows]
    wanted = adapter(rows)
    with_spark = shutil.which("java") is not None
    found, runs, best = {}, {}, {}
    for name, prepare, read in ways(adapter, with_spark):
        found[name] = np.abs(read(prepare(rows)()) - wanted).max()
        runs[name], best[name] = prepare(many), np.inf
    for _ in range(RUNS):
        for name, run in runs.items():
            clock = time.perf_counter if "Spark" in name else time.process_time
            begin = clock()
            run()
            best[name] = min(best[name], (clock() - begin) / len(many) * 1e6)
    head("Every way an adapter travels", "way", "largest difference", "seconds per million rows")
    for name, seconds in best.items():
        row(name, f"{found[name]:.1e}", f"{seconds:.2f}")
