"""Speed and memory of the core, as ratios to reference implementations in the same run.

    python -m lab speed [--tables assess start]

Without `--tables`, all of them.
"""

import re
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import priorshift as ps
from lab.peers import libraries, plain_em
from lab.pools import normalised
from lab.show import cpu_time, duration, fastest, head, parse, peak, row
from lab.worlds import Task, simulate
from priorshift.solvers import Mixture, maximise, project_simplex

SIZES = {10: (2000, 10_000), 100: (5000, 10_000), 365: (7300, 36_500), 1000: (20_000, 50_000)}
ASSESS_SIZES = {
    2: (1000, 5000),
    10: (2000, 10_000),
    100: (5000, 10_000),
    365: (7300, 10_000),
    1000: (8000, 3000),
}
"""Rows of validation and target that a verdict is timed on."""

LARGE_SIZES = {10: (2000, 1_000_000), 2000: (16_000, 3000), 3000: (24_000, 3000)}

SMALL_CLASSES = (2, 5, 10, 26, 100)
SMALL_ROWS = (500, 1000, 2000, 5000)
N_BAGS = 3
AUTO_CLASSES, AUTO_ROWS = (2, 10, 100, 365), 20_000
FILE_ROWS, FILE_CLASSES = 3_000_000, 20
REPEATS = 5
GAP = 0.01
REFERENCE_RATES = (1e-3, 1e-4, 1e-5, 1e-6)
MOST_SECONDS = 8.0
KINDS = {"uniform": {}, "sparse": {"target": "sparse"}, "weak classifier": {"strength": 0.4}}
"""Targets that EM is timed on."""


def main(arguments: list[str] | None = None) -> None:
    """Run every comparison and print tables."""
    options = parse(__doc__, arguments, tables=tuple(TABLES))
    warnings.simplefilter("ignore", ps.PriorShiftWarning)
    for table in options.tables:
        TABLES[table]()


@cache
def task_of(K: int) -> Task:
    """Return the task of this many classes that several tables rest on."""
    return simulate(K, *SIZES[K])


def assess_table() -> None:
    """CPU time of a whole assessment beside Auto's fit and estimate, on outputs too sure."""
    title = "`assess` beside Auto: CPU time, and the whole verdict over fit and estimate"
    columns = ("fit", "estimate", "with interval", "assess", "assess / (fit + estimate)")
    head(title, "K", "validation + target", *columns)
    for K, sizes in ASSESS_SIZES.items():
        task = simulate(K, *sizes)
        val, target, names = too_sure(task.y_proba_val), too_sure(task.y_proba), task.classes
        fitted = ps.Auto().fit(val, task.y_val, classes=names)
        calls = [
            partial(ps.Auto().fit, val, task.y_val, classes=names),
            partial(fitted.estimate, target),
            partial(fitted.estimate, target, 0.95),
            partial(ps.assess, val, task.y_val, target, classes=names),
        ]
        seconds = np.array([[cpu_time(call) for call in calls] for _ in range(3 if K < 365 else 1)])
        fit, estimate, bounded, whole = np.median(seconds, axis=0)
        times = map(duration, (fit, estimate, bounded, whole))
        row(K, " + ".join(f"{n:,}" for n in sizes), *times, f"{whole / (fit + estimate):.2f}")


def large_table() -> None:
    """CPU time of one assessment of very many rows or classes."""
    head("`assess` on many rows or classes: CPU time", "K", "validation + target", "assess")
    for K, sizes in LARGE_SIZES.items():
        task = simulate(K, *sizes)
        val, target = too_sure(task.y_proba_val), too_sure(task.y_proba)
        seconds = cpu_time(partial(ps.assess, val, task.y_val, target, classes=task.classes))
        row(K, " + ".join(f"{n:,}" for n in sizes), duration(seconds))


def confusion_table() -> None:
    """Certified CM-L and SCM-L beside 1000 steps of projected gradient ascent."""
    columns = ("1000 steps", "certified", "ratio", "gap", "log-likelihood gained", "fit + estimate")
    title = "CM-L and SCM-L: certified, beside 1000 reference-style gradient steps"
    head(title, "K", "method", *columns)
    for K in SIZES:
        task = task_of(K)
        for estimator in (ps.CML(), ps.SCML()):
            source = task.source_priors
            confusion = estimator.fit(task.y_proba_val, task.y_val, source_priors=source).confusion_
            counts = ps.DecisionCounts.from_arrays(task.y_proba, decision=confusion.decision).counts
            problem = Mixture(confusion.conditional, weights=counts)
            reference, ours, whole = fastest(
                REPEATS,
                partial(reference_ascent, confusion.conditional, counts, source, 1e-3),
                partial(maximise, problem, tol=1e-6),
                lambda e=estimator, t=task: e.fit(t.y_proba_val, t.y_val).estimate(t.y_proba),
            )
            solution = maximise(problem, tol=1e-6)
            # the reference's likelihood is that of its best learning rate
            ends = [
                reference_ascent(confusion.conditional, counts, source, rate)
                for rate in REFERENCE_RATES
            ]
            gained = solution.objective - max(problem.evaluate(p)[0] for p in ends)
            cells = (f"{ours / reference:.2f}", f"{solution.gap:.0e}", f"{gained:+.2f}")
            times = duration(reference), duration(ours)
            row(K, estimator.name, *times, *cells, duration(whole))


def em_table() -> None:
    """Certified EM in units of one bare pass over the data, and beside the usual EM."""
    title = "EM: certified to 0.01 nats, in bare passes (`A @ p` and `v @ A`), beside the usual EM"
    columns = ("K", "target", "accuracy", "bare pass", "certified", "in passes", "gap")
    head(title, *columns, "usual EM to the same gap", "usual / certified")
    for K in SIZES:
        for kind, how in KINDS.items():
            task = simulate(K, *SIZES[K], **how)
            A = task.y_proba
            p, v = np.full(A.shape[1], 1 / A.shape[1], A.dtype), np.ones(A.shape[0], A.dtype)
            em = ps.EM().fit(source_priors=task.source_priors)
            bare, ours = fastest(
                REPEATS, lambda A=A, p=p, v=v: (A @ p, v @ A), partial(em.estimate, A)
            )
            usual, steps, gap = usual_em(task)
            more, still = ("", "") if gap <= GAP else ("> ", f", gap still {gap:.2g}")
            row(
                K,
                kind if "weak" not in kind else f"uniform, {kind}",
                f"{(A.argmax(axis=1) == task.y).mean():.2f}",
                *map(duration, (bare, ours)),
                f"{ours / bare:.0f}",
                f"{em.estimate(A).gap:.4f}",
                f"{duration(usual)}, {steps} steps{still}",
                f"{more}{usual / ours:.1f}",
            )


def small_table() -> None:
    """Certified EM on bags of a few rows, as people loop over, beside EM without a certificate.

    Bags are timed in turn, in double precision as scikit-learn's classifiers predict.
    """
    name = "EMQ's loop written out (QuaPy is not installed)"
    peer = lambda source, rows: plain_em(rows, source, least=11)  # noqa: E731
    if find_spec("quapy"):
        from quapy.method.aggregative import EMQ

        name, peer = "QuaPy's EMQ", EMQ.EM
    title = f"EM on small targets: CPU time of a certified `estimate` over that of {name}"
    head(title, "K", "target", *(f"{n} rows" for n in SMALL_ROWS))
    for K in SMALL_CLASSES:
        for kind, how in KINDS.items():
            cells = []
            for n in SMALL_ROWS:
                task = simulate(K, 10, N_BAGS * n, **how)
                bags = np.split(normalised(task.y_proba), N_BAGS)
                em = ps.EM().fit(source_priors=task.source_priors)
                calls = [partial(em.estimate, bag) for bag in bags]
                assert all(call().status == "certified" for call in calls)
                calls += [partial(peer, task.source_priors, bag) for bag in bags]
                seconds = [[cpu_time(call) for call in calls] for _ in range(3 * REPEATS)]
                ours, theirs = np.median(seconds, axis=0).reshape(2, N_BAGS).mean(axis=1)
                cells.append(f"{ours / theirs:.2f} ({duration(ours)})")
            row(K, kind, *cells)


def auto_table() -> None:
    """CPU time of `Auto.fit` in softmax passes and beside the usual BCTS, and memory of Auto."""
    name, bcts = usual_bcts()
    title = "Auto on outputs that are too sure: CPU time of `fit` in softmax passes over validation"
    passes = ("in passes", "in passes of exp and normalise alone")
    columns = ("softmax", "fit", *passes, name, "fit / BCTS", "extra memory")
    head(title, "K", "validation", *columns)
    sizes = [(K, n) for K in AUTO_CLASSES for n in (ASSESS_SIZES[K][0], AUTO_ROWS)]
    for K, n_val in sizes:
        task = simulate(K, n_val, 1)
        val = too_sure(task.y_proba_val)
        z = np.log(np.maximum(val, 1e-30))
        calls = (
            lambda z=z: normalised_exp(z - z.max(axis=1, keepdims=True)),
            partial(normalised_exp, z),
            partial(fit_auto, val, task),
            partial(bcts, val, task.y_val),
        )
        seconds = [[cpu_time(call) for call in calls] for _ in range(REPEATS)]
        softmax, bare, ours, usual = np.median(seconds, axis=0)
        in_passes = (f"{ours / softmax:.0f}", f"{ours / bare:.0f}")
        times = duration(softmax), duration(ours), *in_passes, duration(usual)
        memory = f"{auto_memory(K):.2f}" if n_val == AUTO_ROWS else ""
        row(K, f"{n_val} rows", *times, f"{ours / usual:.2f}", memory)
    print(
        "\nExtra memory: peak of fit and estimate over 3 times validation (outputs and labels) "
        "plus half of the target."
    )


def auto_memory(K: int) -> float:
    """Return the peak of fit and estimate, in 3 times validation plus half of the target."""
    n_val = max(AUTO_ROWS, 1_000_000 // K)  # or blocks of rows outweigh the rows
    task = simulate(K, n_val, 5 * n_val)
    val, target = too_sure(task.y_proba_val), too_sure(task.y_proba)
    fit_auto(val[:500], task).estimate(target[:500])  # what is imported late is not counted
    most = peak(lambda: fit_auto(val, task).estimate(target))
    return most / (3 * (val.nbytes + task.y_val.nbytes) + target.nbytes / 2)


def fit_auto(val: np.ndarray, task: Task) -> ps.Auto:
    """Fit Auto to some of a task's validation rows."""
    given = {"source_label_priors": task.source_priors, "classes": task.classes}
    return ps.Auto().fit(val, task.y_val[: len(val)], **given)


def normalised_exp(z: np.ndarray) -> np.ndarray:
    """Exponentiate and normalise rows."""
    proba = np.exp(z)
    proba /= proba.sum(axis=1, keepdims=True)
    return proba


def too_sure(y_proba: np.ndarray) -> np.ndarray:
    """Return outputs as sure as those of many networks."""
    sharp = y_proba**1.5
    return sharp / sharp.sum(axis=1, keepdims=True)


def usual_bcts() -> tuple[str, Callable[[np.ndarray, np.ndarray], object]]:
    """Return the BCTS of its authors where it is installed, else ours."""
    if not find_spec("abstention"):
        ours = ps.BCTS()
        return "our BCTS", lambda y_proba, y: ours.fit(y_proba, y, classes=range(y_proba.shape[1]))
    from abstention.calibration import TempScaling

    def theirs(y_proba: np.ndarray, y: np.ndarray) -> object:
        logits = np.log(np.maximum(y_proba, 1e-30, dtype=np.float64))
        return TempScaling(bias_positions="all")(logits, np.eye(y_proba.shape[1])[y])

    return "abstention's BCTS", theirs


def memory_table() -> None:
    """Extra peak memory of estimate, as a share of the input matrix."""
    names = [name for name in ps.available_estimators() if name != "na"]
    title = "Extra peak memory of `estimate`, as a share of the input (float32)"
    head(title, "K", "input", *names)
    for K in SIZES:
        task = task_of(K)
        size = task.y_proba.nbytes
        fitted = (task.fit(name, given=True) for name in names)
        shares = (peak(partial(each.estimate, task.y_proba)) / size for each in fitted)
        row(K, f"{size / 2**20:.1f} MB", *(f"{share:.2f}" for share in shares))


def peer_table() -> None:
    """Time, memory and error beside peers, where they are installed."""
    columns = ("time", "peak memory / input", "L1 error", "log-likelihood below our EM")
    head("Peers on the same data (`make bench-peers` installs them)", "K", "method", *columns)
    for K in SIZES:
        task = task_of(K)
        target = SimpleNamespace(**vars(task), y_proba_target=task.y_proba)  # as peers call it
        problem = Mixture(task.y_proba, scale=1 / task.source_priors)

        def ours(name: str, task: Task = task) -> np.ndarray:
            return task.fit(name, given=True).estimate(task.y_proba).priors

        best = problem.evaluate(ours("em"))[0]
        calls = {f"priorshift {name}": partial(ours, name) for name in ("em", "scm", "scm-l")}
        for who, name, estimate, most in libraries():
            if most >= K or (name == "GPACC" and K <= 100):  # its general solver takes minutes
                calls[f"{who.split()[0]} {name}"] = partial(estimate, target)
        for name, call in calls.items():
            (seconds,) = fastest(2, call)
            priors = np.asarray(call(), np.float64)
            error = np.abs(priors - task.priors).sum()
            below = best - problem.evaluate(np.maximum(priors, 1e-12))[0]
            share = peak(call) / task.y_proba.nbytes
            shown = f"{below:.2f}" if "em" in name.lower() else ""
            row(K, name, duration(seconds), f"{share:.2f}", f"{error:.3f}", shown)


def start_table() -> None:
    """Time of starting: the library, help, and a command on 1,000 rows, beside scikit-learn's."""
    names = ["cat", "dog", "owl"]
    task = simulate(3, 1000, 1000)
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for part, y_proba, y in (("a", task.y_proba_val, task.y_val), ("b", task.y_proba, task.y)):
            files.append(str(Path(folder) / f"{part}.csv"))
            lines = [",".join([*names, "label"])]
            lines += [
                ",".join([*(f"{cell:.6f}" for cell in cells), names[label]])
                for cells, label in zip(normalised(y_proba).tolist(), y, strict=True)
            ]
            Path(files[-1]).write_text("\n".join(lines))
        words = {
            "`import sklearn.linear_model`": ["-c", "import sklearn.linear_model"],
            "`from priorshift import EM`": ["-c", "from priorshift import EM"],
            "`priorshift --help`": ["-m", "priorshift", "--help"],
            "`priorshift assess` on 1,000 + 1,000 rows": ["-m", "priorshift", "assess", *files],
        }
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        calls = [
            partial(subprocess.run, [sys.executable, *each], **quiet) for each in words.values()
        ]
        seconds = fastest(7, *calls)
    head("Start-up, beside scikit-learn's own", "what", "time", "ratio")
    for what, one in zip(words, seconds, strict=True):
        row(what, duration(one), f"{one / seconds[0]:.2f}")


def files_table() -> None:
    """Time and memory of commands on large files, each a process of its own."""
    if not find_spec("pyarrow"):
        print("\nFiles are left out: PyArrow is not installed.", file=sys.stderr)
        return
    import pyarrow as pa
    from pyarrow import csv, parquet

    task = simulate(FILE_CLASSES, 5000, FILE_ROWS)
    names = [f"c{k:02d}" for k in range(FILE_CLASSES)]

    def table(y_proba: np.ndarray) -> pa.Table:
        y_proba = normalised(y_proba).round(7)
        y_proba /= y_proba.sum(axis=1, keepdims=True)
        return pa.table(dict(zip(names, np.ascontiguousarray(y_proba.T).round(9), strict=True)))

    title = f"Commands on {FILE_ROWS:,} rows of {FILE_CLASSES} classes"
    head(title, "what", "time", "CPU time", "peak memory")
    with tempfile.TemporaryDirectory() as folder:
        labels = pa.array([names[k] for k in task.y_val])
        csv.write_csv(table(task.y_proba_val).append_column("label", labels), f"{folder}/val.csv")
        rows = table(task.y_proba)
        csv.write_csv(rows, f"{folder}/target.csv")
        parquet.write_table(rows, f"{folder}/target.parquet", row_group_size=100_000)
        del rows
        em = ["--validation", "val.csv", "--method", "em", "--target"]
        to_file = ["--assume-prior-shift", "--output"]
        for what, words in {
            "`estimate --method em`, CSV": ["estimate", *em, "target.csv"],
            "`estimate --method em`, Parquet": ["estimate", *em, "target.parquet"],
            "`adapt --method em`, CSV to CSV": ["adapt", *em, "target.csv", *to_file, "new.csv"],
            "`adapt --method em`, Parquet to Parquet": [
                *("adapt", *em, "target.parquet", *to_file, "new.parquet")
            ],
        }.items():
            start, before = time.perf_counter(), children_time()
            command = subprocess.Popen(
                [sys.executable, "-m", "priorshift", *words],
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            most = 0
            while command.poll() is None:
                status = Path(f"/proc/{command.pid}/status").read_text(encoding="utf-8")
                most = max(most, *map(int, re.findall(r"VmHWM:\s+(\d+)", status)), 0)
                time.sleep(0.02)
            assert not command.returncode, words
            seconds = time.perf_counter() - start, children_time() - before
            row(what, *map(duration, seconds), f"{most // 1024:,} MB")


def children_time() -> float:
    """Return the CPU time of the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def reference_ascent(
    A: np.ndarray, weights: np.ndarray, start: np.ndarray, rate: float
) -> np.ndarray:
    """Take 1000 plain projected gradient steps, as the paper's reference code does."""
    p = start
    for _ in range(1000):
        slope = A.T @ (weights / np.maximum(A @ p, 1e-12))
        p = project_simplex(p + rate * slope / weights.sum())
    return np.maximum(p, 1e-12)


def usual_em(task: Task) -> tuple[float, int, float]:
    """Run the textbook EM with its n x K temporaries; return seconds, steps and the gap."""
    p, n = task.source_priors, len(task.y_proba)
    start, steps, gap = time.perf_counter(), 0, np.inf
    while gap > GAP and time.perf_counter() - start < MOST_SECONDS:
        posterior = task.y_proba * (p / task.source_priors)
        posterior /= posterior.sum(axis=1, keepdims=True)
        new = posterior.mean(axis=0)
        gap = float((n * new[p > 0] / p[p > 0]).max() - n)  # a vanished class has no say in it
        p, steps = new, steps + 1
    return time.perf_counter() - start, steps, gap


TABLES: dict[str, Callable[[], None]] = {
    "assess": assess_table,
    "large": large_table,
    "confusion": confusion_table,
    "em": em_table,
    "small": small_table,
    "auto": auto_table,
    "memory": memory_table,
    "peers": peer_table,
    "start": start_table,
    "files": files_table,
}
