"""What a pass costs on a cluster, measured on workers here, and a model of it for larger ones.

    python -m lab clusters

The model of one pass, fitted to the relative errors of all measurements, robustly:

    t = fixed + bytes / (workers * rate) + chunks * overhead

A chunk of Spark is a partition. The last table is what the model says of sizes nobody measured.
The first one is a whole EM beside one machine's.
"""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares, nnls

import priorshift as ps
from lab.show import duration, fastest, head, parse, row
from lab.worlds import simulate
from priorshift.border import DaskTable
from priorshift.solvers import Mixture

K = 100
ITEM_BYTES = 4
REPEATS = 20
BILLION = 10**9
CHUNK_BYTES = 128e6
ONE_THREAD = "one machine, one thread, npy"


@dataclass(frozen=True)
class Measurement:
    """The fastest pass of a few."""

    workers: int
    n_rows: int
    chunks: int
    seconds: float

    @property
    def size(self) -> float:
        """Bytes gone through."""
        return float(self.n_rows) * K * ITEM_BYTES


@dataclass(frozen=True)
class Model:
    """Seconds of a pass: fixed + bytes / (workers * rate) + chunks * overhead."""

    fixed: float
    rate: float
    overhead: float
    errors: tuple[float, float]
    """Of the model, relative: the median, and the largest."""

    @classmethod
    def fitted(cls, measured: list[Measurement]) -> "Model":
        """Fit relative errors, with no part below 0 and a loss that forgives outliers."""
        parts = np.array([[1, m.size / m.workers / 1e9, m.chunks / 1e3] for m in measured])
        relative = parts / np.array([m.seconds for m in measured])[:, None]
        start, _ = nnls(relative, np.ones(len(measured)))
        found = least_squares(
            lambda x: relative @ x - 1, start + 1e-6, bounds=(0, np.inf), loss="cauchy", f_scale=0.1
        ).x
        errors = np.abs(relative @ found - 1)
        rate, overhead = 1e9 / max(found[1], 1e-9), found[2] / 1e3
        return cls(found[0], rate, overhead, (float(np.median(errors)), float(errors.max())))

    def seconds(self, size: float, workers: int, chunks: float) -> float:
        """Foretell a pass."""
        return self.fixed + size / (workers * self.rate) + chunks * self.overhead


def main(arguments: list[str] | None = None) -> None:
    """Measure, fit, and print tables."""
    parse(__doc__, arguments)
    with_spark = shutil.which("java") is not None
    whole_estimates(3_000_000, with_spark=with_spark)
    passes = count_passes([40_000, 400_000])
    measured = measure_dask([250_000, 2_000_000])
    model = Model.fitted(measured)
    report("Dask", measured, model)
    if with_spark:
        on_spark = measure_spark([62_500, 250_000])
        report("Spark", on_spark, Model.fitted(on_spark))
    foretell(model, passes)


def whole_estimates(n_rows: int, *, with_spark: bool, n_classes: int = 20) -> None:
    """Time the way from a file to rows that are kept, and EM on those, here and on two workers."""
    import dask.array as da
    import pyarrow as pa
    import pyarrow.parquet as pq
    from distributed import Client, LocalCluster, wait

    from priorshift.border import SparkTable

    task = simulate(n_classes, 10, n_rows)
    names = [f"c{k:02d}" for k in range(n_classes)]
    em = ps.EM().fit(source_priors=task.source_priors, classes=names)
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster),
    ):
        place, parts = Path(folder), np.array_split(task.y_proba, 4)
        np.save(place / "rows.npy", task.y_proba)
        for at, part in enumerate(parts):
            lists = pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), n_classes)
            table = pa.table({"p": lists.cast(pa.list_(pa.float32()))})
            for name, column in zip(names, part.T, strict=True):
                table = table.append_column(name, pa.array(np.ascontiguousarray(column)))
            pq.write_table(table, place / f"{at}.parquet", row_group_size=100_000)

        def chunk(block_info: Any = None) -> np.ndarray:
            start, stop = block_info[None]["array-location"][0]
            return np.load(place / "rows.npy", mmap_mode="r")[start:stop].copy()

        def on_dask() -> DaskTable:
            chunks = tuple(map(len, parts)), (n_classes,)
            table = DaskTable(da.map_blocks(chunk, chunks=chunks, dtype=np.float32))
            wait(table.array)
            return table

        read = lambda: np.load(place / "rows.npy")  # noqa: E731
        ways: dict[str, Callable[[], Any]] = {
            ONE_THREAD: read,
            "one machine, all threads, npy": read,
            "Dask, npy": on_dask,
        }
        if with_spark:
            spark = spark_session(2)
            frame = spark.read.parquet(f"{folder}/*.parquet")
            ways["Spark, Parquet, a column of arrays"] = lambda: SparkTable(frame, "p", cache=True)
            ways["Spark, Parquet, a column per class"] = lambda: SparkTable(
                frame, names, cache=True
            )
            ways["Spark, Parquet, handed over: `toPandas`"] = lambda: frame.select(names).toPandas()
        kept, solved = dict.fromkeys(ways, np.inf), dict.fromkeys(ways, np.inf)
        for _ in range(4):  # in turn, so that noise hits all alike
            for how, keep in ways.items():
                start = time.perf_counter()
                rows = keep()
                kept[how] = min(kept[how], time.perf_counter() - start)
                allowed = os.sched_getaffinity(0)
                if how == ONE_THREAD:
                    os.sched_setaffinity(0, {min(allowed)})
                solved[how] = min(solved[how], *fastest(1, lambda rows=rows: em.estimate(rows)))
                os.sched_setaffinity(0, allowed)
                if isinstance(rows, SparkTable):
                    rows.release()
                del rows
        if with_spark:
            spark.stop()
    title = (
        f"EM on {n_rows:,} rows of {n_classes} classes: rows read and kept once, then EM on them"
    )
    head(title, "how", "rows kept", "EM", "over one thread's")
    for how, seconds in solved.items():
        row(how, duration(kept[how]), duration(seconds), f"{seconds / solved[ONE_THREAD]:.1f}")


def spark_session(workers: int) -> Any:
    """Start Spark on this machine."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{workers}]")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "3g",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def count_passes(sizes: list[int]) -> dict[str, int]:
    """Count how often methods go through the target, the check of its rows included."""
    import dask.array as da

    passes: dict[str, int] = {}
    title = f"Passes over the target (simulated, K = {K}), and what they send"
    sent = ("function to a worker, at most", "result of a chunk, at most")
    head(title, "rows", "method", "passes", *sent)
    for n_rows in sizes:
        task = simulate(K, 5000, n_rows)
        target = da.from_array(task.y_proba, chunks=(n_rows // 4, K))
        for method in ("scm-l", "rlls", "em", "map"):
            table = Counting(target)
            estimator = ps.get_estimator(method).fit(task.y_proba_val, task.y_val)
            estimator.estimate(table)
            passes[method] = table.passes
            sizes_sent = (f"{size / 1000:.1f} kB" for size in (table.sent, table.fetched))
            row(n_rows, method, table.passes, *sizes_sent)
    return passes


class Counting(DaskTable):
    """Counts passes, and the bytes of kernels and results."""

    def __init__(self, array: Any) -> None:
        super().__init__(array)
        self.passes, self.sent, self.fetched = 0, 0, 0

    def map_parts(self, fold: Any, n_parts: int, n_rows: int) -> list[Any]:
        import cloudpickle

        found = super().map_parts(fold, n_parts, n_rows)
        self.passes += 1
        self.sent = max(self.sent, len(cloudpickle.dumps(fold)))
        self.fetched = max(self.fetched, *(len(cloudpickle.dumps(one)) for one in found))
        return found


def measure_dask(sizes: list[int]) -> list[Measurement]:
    """Time passes on clusters of one and two processes, in few and in more chunks."""
    from distributed import Client, LocalCluster

    found = []
    for workers in (1, 2):
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0"
            ) as cluster,
            Client(cluster),
        ):
            found += [dask_pass(workers, n_rows, chunks) for n_rows in sizes for chunks in (8, 64)]
    return found


def dask_pass(workers: int, n_rows: int, chunks: int) -> Measurement:
    """Time one pass over chunks that the workers made and keep."""
    import dask.array as da

    empty = da.empty((n_rows, K), chunks=(-(-n_rows // chunks), K), dtype=np.float32)
    table = DaskTable(empty.map_blocks(posteriors, dtype=np.float32))
    return Measurement(workers, n_rows, chunks, timed(table, REPEATS))


def posteriors(block: Any) -> Any:
    """Make rows that sum to 1, on a worker."""
    rows = np.random.default_rng(0).random(block.shape, dtype=np.float32) ** 8
    return rows / rows.sum(axis=1, keepdims=True)


def measure_spark(sizes: list[int]) -> list[Measurement]:
    """Time passes over cached partitions of array columns in local mode."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from priorshift.border import SparkTable

    found = []
    for workers in (1, 2):
        spark = spark_session(workers)
        for n_rows in sizes:
            for chunks in (2, 8):
                with tempfile.TemporaryDirectory() as folder:
                    for at in range(chunks):
                        part = posteriors(np.empty((n_rows // chunks, K), np.float32))
                        lists = pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), K)
                        lists = lists.cast(pa.list_(pa.float32()))
                        pq.write_table(pa.table({"p": lists}), Path(folder) / f"{at}.parquet")
                    frame = spark.read.parquet(folder).repartition(chunks)
                    table = SparkTable(frame, "p", cache=True)
                    seconds = timed(table, REPEATS // 5)
                    found.append(Measurement(workers, n_rows, len(table._n_rows), seconds))
                    table.release()
        spark.stop()
    return found


def timed(table: Any, repeats: int) -> float:
    """Time one evaluation of EM's likelihood and gradient, after one that warms up."""
    problem, p = Mixture(table), np.full(K, 1 / K)
    problem.evaluate(p, exact=False)
    return fastest(repeats, lambda: problem.evaluate(p, exact=False))[0]


def report(engine: str, measured: list[Measurement], model: Model) -> None:
    """Print measurements beside the model's."""
    title = f"{engine}: one EM pass over chunks kept by workers (K = {K}, float32)"
    head(title, "workers", "rows", "bytes", "chunks", "measured", "model")
    for m in measured:
        told = model.seconds(m.size, m.workers, m.chunks)
        size = f"{m.size / 1e6:.0f} MB"
        row(m.workers, m.n_rows, size, m.chunks, duration(m.seconds), duration(told))
    print(
        f"\nModel: {duration(model.fixed)} a pass, {model.rate / 1e9:.2f} GB/s a worker, "
        f"{duration(model.overhead)} a chunk; relative error {model.errors[0]:.0%} in the median, "
        f"{model.errors[1]:.0%} at most."
    )


def foretell(model: Model, passes: dict[str, int]) -> None:
    """Print what the model says of a billion rows."""
    size = BILLION * K * ITEM_BYTES
    chunks = size / CHUNK_BYTES
    print(
        f"\n{size / 1e9:.0f} GB a pass, read by the workers that keep them, in {chunks:.0f} chunks "
        f"of {CHUNK_BYTES / 1e6:.0f} MB."
    )
    title = f"Extrapolation by Dask's model: {BILLION:.0e} rows, K = {K}, float32, kept in memory"
    counts = (f"{method}: {n} passes" for method, n in passes.items())
    head(title, "workers", "memory of each", "one pass", *counts)
    for workers in (8, 32, 128, 512):
        one = model.seconds(size, workers, chunks)
        minutes = (f"{n * one / 60:.1f} min" for n in passes.values())
        row(workers, f"{size / workers / 1e9:.1f} GB", f"{one:.1f} s", *minutes)
