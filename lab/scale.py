"""Files that are not loaded: time, private memory and passes, beside what people do by hand.

    python -m lab scale [--rows 2000000] [--peer-python .venv-peers/bin/python]

Every contender runs in a process of its own, on the same file in a warm cache. Private memory is
what the process holds itself; pages of a mapped file, which the system may drop, do not count.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np

from lab.show import head, parse, row

GAP = 0.01
BLOCK_ROWS = 100_000
MOST_STEPS = 1000
MOST_SECONDS = 60.0


def main(arguments: list[str] | None = None) -> None:
    """Run the contenders, or one of them as told by the process that compares them."""
    options = parse(
        __doc__, arguments, rows=2_000_000, peer_python=sys.executable, run={"nargs": 2}
    )
    if options.run:
        name, folder = options.run
        run_one(name, Path(folder))
        return
    with tempfile.TemporaryDirectory(prefix="priorshift-scale-") as folder:
        make_data(Path(folder), options.rows)
        compare(Path(folder), options.peer_python)


def compare(place: Path, peer_python: str) -> None:
    """Print a row per contender; the first reads the file."""
    target = np.load(place / "target.npy", mmap_mode="r")
    size = target.nbytes / 2**20
    title = f"{target.shape[0]:,} rows x {target.shape[1]} classes, {size:,.0f} MB of float32"
    columns = ("seconds", "x reading", "CPU s", "private MB", "share of file", "passes")
    head(title, "what", *columns, "gap", "L1 error")
    reading = 0.0
    for name in contenders():
        python = peer_python if name.startswith("QuaPy") else sys.executable
        words = [python, "-m", "lab", "scale", "--run", name, str(place)]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
        done = subprocess.run(words, capture_output=True, text=True, env=environment)
        if done.returncode:
            row(name, f"left out: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
            continue
        result = json.loads(done.stdout)
        reading = reading or result["seconds"]
        ratio = result["seconds"] / reading
        cells = [name, f"{result['seconds']:.2f}", f"{ratio:.1f}", f"{result['cpu']:.2f}"]
        cells += [f"{result['private']:.0f}", f"{result['private'] / size:.2f}"]
        cells.append(str(result["passes"]))
        cells += ["" if result[key] is None else f"{result[key]:.3g}" for key in ("gap", "error")]
        row(*cells)


def contenders() -> dict[str, Callable[[Path], tuple[np.ndarray | None, object]]]:
    """Return what is run, by name: from the folder to priors and passes."""
    return {
        "read the file once": read_once,
        "priorshift: one EM pass": one_pass,
        "priorshift EM, npy": lambda place: ours(place, "em", "npy"),
        "priorshift EM, arrow": lambda place: ours(place, "em", "arrow"),
        "priorshift EM, parquet": lambda place: ours(place, "em", "parquet"),
        "priorshift SCM-L, npy": lambda place: ours(place, "scm-l", "npy"),
        "numpy by hand, EM on all rows": by_hand,
        "numpy by hand, EM on blocks of a map": in_blocks,
        "numpy by hand, the same to our gap or a minute": partial(in_blocks, to_our_gap=True),
        "pandas and numpy, EM on a Parquet file": by_pandas,
        "QuaPy EMQ": quapy_emq,
        "QuaPy PACC": quapy_pacc,
    }


def run_one(name: str, place: Path) -> None:
    """Run a contender; print what it took and found as JSON."""
    call, truth = contenders()[name], np.load(place / "validation.npz")
    read_once(place)  # warms the cache
    for module in modules(name):
        import_module(module)
    most = Watch()
    start, busy = time.perf_counter(), time.process_time()
    priors, passes = call(place)
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    found = {"seconds": seconds, "cpu": busy, "private": most.end(), "passes": passes, "gap": None}
    found["error"] = None if priors is None else float(np.abs(priors - truth["target"]).sum())
    if priors is not None and "SCM" not in name and "PACC" not in name:
        found["gap"] = gap_of(place, priors, truth["source_priors"])
    print(json.dumps(found))


def modules(name: str) -> list[str]:
    """Return what a contender imports, which is not its time."""
    if name.startswith("priorshift"):
        # compare is built on all methods
        return ["priorshift.files", "priorshift.compare"] + ["pyarrow.parquet"] * (
            not name.endswith("npy")
        )
    if name.startswith("QuaPy"):
        return ["quapy.method.aggregative"]
    return ["pandas", "pyarrow.parquet"] if name.startswith("pandas") else []


class Watch:
    """Looks at this process's private memory every few milliseconds."""

    def __init__(self) -> None:
        self.most, self.ended = 0.0, threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def end(self) -> float:
        """Return the most it was, in MB."""
        self.ended.set()
        self.thread.join()
        return self.most

    def _look(self) -> None:
        while True:
            with Path("/proc/self/status").open() as status:
                kept = next(line for line in status if line.startswith("RssAnon"))
            self.most = max(self.most, int(kept.split()[1]) / 1024)
            if self.ended.wait(0.005):
                return


def read_once(place: Path) -> tuple[None, object]:
    """Read the bytes of the file."""
    buffer = bytearray(2**22)
    with (place / "target.npy").open("rb", buffering=0) as stream:
        while stream.readinto(buffer):
            pass
    return None, 1


def one_pass(place: Path) -> tuple[None, object]:
    """Take one first-order step: likelihood and gradient of all rows."""
    from priorshift.files import open_predictions
    from priorshift.solvers import Mixture

    rows = open_predictions(place / "target.npy").rows()
    K = rows.shape[1]
    Mixture(rows).evaluate(np.full(K, 1 / K), exact=False)
    return None, 1


def ours(place: Path, method: str, suffix: str) -> tuple[np.ndarray, object]:
    """Estimate from a file that is read in blocks."""
    import priorshift as ps
    from priorshift.files import open_predictions

    validation = np.load(place / "validation.npz")
    rows = open_predictions(place / f"target.{suffix}").rows()
    classes = [f"c{k}" for k in range(rows.shape[1])]
    est = ps.get_estimator(method).fit(
        validation["y_proba"],
        np.array(classes)[validation["y"]],
        source_priors=validation["source_priors"],
        classes=classes,
    )
    shift = est.estimate(rows)
    return shift.priors, shift.n_iter if method == "em" else "1"


def by_hand(place: Path) -> tuple[np.ndarray, object]:
    """Load everything and run the textbook EM with its n x K temporaries."""
    target = np.load(place / "target.npy")
    return textbook(target, place, len(target))


def by_pandas(place: Path) -> tuple[np.ndarray, object]:
    """Load a table with pandas and do the same."""
    import pandas as pd

    target = pd.read_parquet(place / "target.parquet").to_numpy()
    return textbook(target, place, len(target))


def in_blocks(place: Path, *, to_our_gap: bool = False) -> tuple[np.ndarray, object]:
    """Run the same EM on blocks of a memory map."""
    target = np.load(place / "target.npy", mmap_mode="r")
    return textbook(target, place, BLOCK_ROWS, to_our_gap=to_our_gap)


def textbook(
    target: np.ndarray, place: Path, block_rows: int, *, to_our_gap: bool = False
) -> tuple[np.ndarray, object]:
    """Run EM until priors move by less than 1e-4 on average, or for a minute to our gap."""
    source = np.load(place / "validation.npz")["source_priors"]
    p, n, steps, end = source, target.shape[0], 0, time.perf_counter() + MOST_SECONDS
    while steps < MOST_STEPS:
        new = np.zeros_like(p)
        for start in range(0, n, block_rows):
            posterior = target[start : start + block_rows] * (p / source).astype(np.float32)
            posterior /= posterior.sum(axis=1, keepdims=True)
            new += posterior.sum(axis=0, dtype=np.float64)
        new /= n
        moved, gap = np.abs(new - p).mean(), n * (new / p).max() - n
        p, steps = new, steps + 1
        if (gap <= GAP or time.perf_counter() > end) if to_our_gap else moved < 1e-4:
            break
    return p, steps


def quapy_emq(place: Path) -> tuple[np.ndarray, object]:
    """Run QuaPy's EMQ on everything in memory."""
    from quapy.method.aggregative import EMQ

    source = np.load(place / "validation.npz")["source_priors"]
    return np.asarray(EMQ.EM(source, np.load(place / "target.npy"))[0], np.float64), "?"


def quapy_pacc(place: Path) -> tuple[np.ndarray, object]:
    """Run QuaPy's PACC, which is our SCM, on everything in memory."""
    from quapy.method.aggregative import PACC

    from lab.peers import Precomputed

    validation, target = np.load(place / "validation.npz"), np.load(place / "target.npy")
    classifier = Precomputed(target.shape[1]).fit()
    pacc = PACC(classifier, fit_classifier=False, val_split=None, solver="exact-cc")
    found = pacc.fit(validation["y_proba"], validation["y"]).predict(target)
    return np.asarray(found, np.float64), 1


def gap_of(place: Path, priors: np.ndarray, source: np.ndarray) -> float:
    """Bound how far the likelihood is from its maximum, in nats, whoever found the priors."""
    target, kept, slope = np.load(place / "target.npy", mmap_mode="r"), np.maximum(priors, 1e-12), 0
    weights = kept / kept.sum() / source
    for start in range(0, len(target), BLOCK_ROWS):
        block = target[start : start + BLOCK_ROWS].astype(np.float64)
        slope = slope + (1 / (block @ weights)) @ block
    return float((slope / source).max() - len(target))


def make_data(place: Path, n_rows: int, n_classes: int = 100) -> None:
    """Write validation and target; the target block by block, in three formats."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from lab.worlds import class_means, draw, tail

    rng = np.random.default_rng(0)
    means, source = class_means(n_classes, rng), tail(n_classes, 100.0)
    target = rng.dirichlet(np.full(n_classes, 2.0))
    y = rng.integers(n_classes, size=50 * n_classes)
    y_proba = draw(means, source, y, rng)
    np.savez(place / "validation.npz", y_proba=y_proba, y=y, source_priors=source, target=target)
    array = np.lib.format.open_memmap(
        place / "target.npy", mode="w+", dtype=np.float32, shape=(n_rows, n_classes)
    )
    schema = pa.schema([(f"c{k}", pa.float32()) for k in range(n_classes)])
    with (
        pq.ParquetWriter(place / "target.parquet", schema, use_dictionary=False) as parquet,
        pa.ipc.new_file(str(place / "target.arrow"), schema) as arrow,
    ):
        for start in range(0, n_rows, BLOCK_ROWS):
            y = rng.choice(n_classes, min(BLOCK_ROWS, n_rows - start), p=target)
            block = draw(means, source, y, rng)
            array[start : start + len(block)] = block
            columns = [pa.array(np.ascontiguousarray(column)) for column in block.T]
            for file in (parquet, arrow):
                file.write_batch(pa.record_batch(columns, schema=schema))
    array.flush()
