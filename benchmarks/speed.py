"""Speed and memory of the core, as ratios to reference implementations in the same run.

python -m benchmarks.speed [--quick] [--classes 10 100 365 1000]
"""

import argparse
import subprocess
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import numpy as np

import priorshift as ps
from benchmarks.peers import peers
from benchmarks.simulation import Task, simulate
from priorshift.solvers import Mixture, maximise, project_simplex

SIZES = {10: (2000, 10_000), 100: (5000, 10_000), 365: (7300, 36_500), 1000: (20_000, 50_000)}
SMALL_CLASSES = (2, 5, 10, 26, 100)
SMALL_ROWS = (500, 1000, 2000, 5000)
N_BAGS = 3
AUTO_SIZES = {2: 20_000, 10: 20_000, 100: 20_000, 365: 18_250}
GAP = 0.01
REFERENCE_RATES = (1e-3, 1e-4, 1e-5, 1e-6)
MOST_SECONDS = 8.0

Uncertified = Callable[[np.ndarray, np.ndarray], object]
"""Takes source priors and predictions."""


def main() -> None:
    """Run every comparison and print Markdown tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="K = 10 and 100 only, one repeat")
    parser.add_argument("--classes", type=int, nargs="+", choices=SIZES, default=list(SIZES))
    options = parser.parse_args()
    classes = [10, 100] if options.quick else options.classes
    repeats = 1 if options.quick else 5
    warnings.simplefilter("ignore", ps.PriorShiftWarning)
    tasks = {K: simulate(K, *SIZES[K]) for K in classes}
    confusion_table(tasks, repeats)
    em_table(classes, repeats)
    small_table([K for K in SMALL_CLASSES if not options.quick or K <= 10], 3 * repeats)
    auto_table([2, 10, 100] if options.quick else list(AUTO_SIZES), repeats)
    memory_table(tasks)
    peer_table(tasks)
    import_time(3 if options.quick else 7)


def confusion_table(tasks: dict[int, Task], repeats: int) -> None:
    """Certified CM-L and SCM-L beside 1000 steps of projected gradient ascent."""
    header("CM-L and SCM-L: certified, beside 1000 reference-style gradient steps")
    columns = ("K", "method", "1000 steps", "certified", "ratio", "gap", "log-likelihood gained")
    table(*columns, "fit + estimate")
    for K, task in tasks.items():
        for estimator in (ps.CML(), ps.SCML()):
            row(K, *confusion_row(task, estimator, repeats))


def confusion_row(task: Task, estimator: ps.CML | ps.SCML, repeats: int) -> list[str]:
    """Time one method; the reference's likelihood is that of its best learning rate."""
    source = task.source_priors
    confusion = estimator.fit(task.y_proba_val, task.y_val, source_priors=source).confusion_
    counts = ps.DecisionCounts.from_arrays(task.y_proba, decision=confusion.decision).counts
    problem = Mixture.of(confusion.conditional, weights=counts)
    reference, ours, whole = fastest(
        repeats,
        lambda: reference_ascent(problem, source, REFERENCE_RATES[0]),
        lambda: maximise(problem, tol=1e-6),
        lambda: estimator.fit(task.y_proba_val, task.y_val).estimate(task.y_proba),
    )
    solution = maximise(problem, tol=1e-6)
    ends = [reference_ascent(problem, source, rate) for rate in REFERENCE_RATES]
    gained = solution.objective - max(problem.evaluate(p)[0] for p in ends)
    ratio, gap = f"{ours / reference:.2f}", f"{solution.gap:.0e}"
    return [estimator.name, ms(reference), ms(ours), ratio, gap, f"{gained:+.2f}", ms(whole)]


def em_table(classes: list[int], repeats: int) -> None:
    """Certified EM in units of one bare pass over the data, and beside the usual EM."""
    header("EM: certified to 0.01 nats, in bare passes (`A @ p` and `v @ A`), beside the usual EM")
    columns = ("K", "target", "accuracy", "bare pass", "certified", "in passes", "gap")
    table(*columns, "usual EM to the same gap", "usual / certified")
    for K in classes:
        row(K, "uniform", *em_row(simulate(K, *SIZES[K]), repeats))
        row(K, "sparse", *em_row(simulate(K, *SIZES[K], target="sparse"), repeats))
        row(K, "uniform, weak classifier", *em_row(simulate(K, *SIZES[K], strength=0.4), repeats))


def em_row(task: Task, repeats: int) -> list[str]:
    """Time certified EM, a bare pass, and the usual EM to the same gap."""
    A = task.y_proba
    p, v = np.full(A.shape[1], 1 / A.shape[1], A.dtype), np.ones(A.shape[0], A.dtype)
    em = ps.EM().fit(source_priors=task.source_priors)
    bare, ours = fastest(repeats, lambda: (A @ p, v @ A), lambda: em.estimate(A))
    usual, steps, gap = usual_em(task)
    more, still = ("", "") if gap <= GAP else ("> ", f", gap still {gap:.2g}")
    return [
        f"{task.accuracy:.2f}",
        ms(bare),
        ms(ours),
        f"{ours / bare:.0f}",
        f"{em.estimate(A).gap:.4f}",
        f"{ms(usual)}, {steps} steps{still}",
        f"{more}{usual / ours:.1f}",
    ]


def small_table(classes: list[int], repeats: int) -> None:
    """Certified EM on bags of a few rows, as people loop over, beside EM without a certificate."""
    name, peer = uncertified_em()
    header(f"EM on small targets: CPU time of a certified `estimate` over that of {name}")
    table("K", "target", *(f"{n} rows" for n in SMALL_ROWS))
    kinds = {"uniform": {}, "sparse": {"target": "sparse"}, "weak classifier": {"strength": 0.4}}
    for K in classes:
        for kind, how in kinds.items():
            tasks = [simulate(K, 10, N_BAGS * n, **how) for n in SMALL_ROWS]
            row(K, kind, *(small_cell(task, peer, repeats) for task in tasks))


def small_cell(task: Task, peer: Uncertified, repeats: int) -> str:
    """Time bags in turn, in double precision as scikit-learn's classifiers predict."""
    proba = task.y_proba.astype(np.float64)
    bags = np.split(proba / proba.sum(axis=1, keepdims=True), N_BAGS)
    em = ps.EM().fit(source_priors=task.source_priors)
    calls = [partial(em.estimate, bag) for bag in bags]
    calls += [partial(peer, task.source_priors, bag) for bag in bags]
    assert all(call().status == "certified" for call in calls[:N_BAGS])
    seconds = np.median([[cpu_time(call) for call in calls] for _ in range(repeats)], axis=0)
    ours, theirs = seconds[:N_BAGS].mean(), seconds[N_BAGS:].mean()
    return f"{ours / theirs:.2f} ({ms(ours)})"


def uncertified_em() -> tuple[str, Uncertified]:
    """Return QuaPy's EMQ where it is installed, else its loop written out."""
    if find_spec("quapy"):
        from quapy.method.aggregative import EMQ

        return "QuaPy's EMQ", EMQ.EM
    return "EMQ's loop written out (QuaPy is not installed)", emq_loop


def emq_loop(source_priors: np.ndarray, y_proba: np.ndarray) -> np.ndarray:
    """Run EM until priors change by less than 1e-4 on average, as QuaPy does."""
    priors = source_priors
    for step in range(1000):
        posterior = priors / source_priors * y_proba
        posterior /= posterior.sum(axis=1, keepdims=True)
        before, priors = priors, posterior.mean(axis=0)
        if step > 10 and np.abs(priors - before).mean() < 1e-4:
            break
    return priors


def cpu_time(call: Callable[[], object]) -> float:
    """Return the CPU time of a call in seconds."""
    start = time.process_time()
    call()
    return time.process_time() - start


def auto_table(classes: list[int], repeats: int) -> None:
    """Time of `Auto.fit` in softmax passes and beside the usual BCTS, and memory of Auto."""
    name, _ = usual_bcts()
    header("Auto on outputs that are too sure (float32): `fit` in softmax passes over validation")
    passes = ("in passes", "in passes of exp and normalise alone")
    table("K", "validation", "softmax", "fit", *passes, name, "fit / BCTS", "extra memory")
    for K in classes:
        row(K, *auto_row(simulate(K, AUTO_SIZES[K], 1), repeats), f"{auto_memory(K):.2f}")
    print(
        "\nExtra memory: peak of fit and estimate over 3 times validation (outputs and labels) "
        "plus half of the target."
    )


def auto_row(task: Task, repeats: int) -> list[str]:
    """Time Auto's fit, one pass and BCTS in turn."""
    val, (_, bcts) = too_sure(task.y_proba_val), usual_bcts()
    z = np.log(np.maximum(val, 1e-30))
    softmax, bare, ours, usual = median(
        repeats,
        lambda: normalised_exp(z - z.max(axis=1, keepdims=True)),
        lambda: normalised_exp(z),
        lambda: fit_auto(val, task),
        lambda: bcts(val, task.y_val),
    )
    in_passes = f"{ours / softmax:.0f}", f"{ours / bare:.0f}"
    size = f"{val.shape[0]} rows"
    return [size, ms(softmax), ms(ours), *in_passes, ms(usual), f"{ours / usual:.2f}"]


def auto_memory(K: int) -> float:
    """Return the peak of fit and estimate, in 3 times validation plus half of the target."""
    n_val = max(AUTO_SIZES[K], 1_000_000 // K)  # or blocks of rows outweigh the rows
    task = simulate(K, n_val, 5 * n_val)
    val, target = too_sure(task.y_proba_val), too_sure(task.y_proba)
    fit_auto(val[:500], task).estimate(target[:500])  # what is imported late is not counted
    most = peak(lambda: fit_auto(val, task).estimate(target))
    return most / (3 * (val.nbytes + task.y_val.nbytes) + target.nbytes / 2)


def fit_auto(val: np.ndarray, task: Task) -> ps.Auto:
    """Fit Auto to some of a task's validation rows."""
    priors = task.source_priors
    y_val, classes = task.y_val[: len(val)], np.arange(priors.size)
    return ps.Auto().fit(val, y_val, source_label_priors=priors, classes=classes)


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


def memory_table(tasks: dict[int, Task]) -> None:
    """Extra peak memory of estimate, as a share of the input matrix."""
    header("Extra peak memory of `estimate`, as a share of the input (float32)")
    names = [name for name in ps.available_estimators() if name != "na"]
    table("K", "input", *names)
    for K, task in tasks.items():
        size = f"{task.y_proba.nbytes / 2**20:.1f} MB"
        row(K, size, *(f"{memory_share(task, name):.2f}" for name in names))


def memory_share(task: Task, name: str) -> float:
    """Return the peak of one estimate over the size of its input."""
    estimator = ps.get_estimator(name)
    estimator.fit(task.y_proba_val, task.y_val, source_priors=task.source_priors)
    return peak(lambda: estimator.estimate(task.y_proba)) / task.y_proba.nbytes


def peer_table(tasks: dict[int, Task]) -> None:
    """Time, memory and error beside peers, where they are installed."""
    header("Peers on the same data (`make bench-peers` installs them)")
    table("K", "method", "time", "peak memory / input", "L1 error", "log-likelihood below our EM")
    for K, task in tasks.items():
        problem = Mixture.of(task.y_proba, scale=1 / task.source_priors)
        best = problem.evaluate(our_priors(task, "em"))[0]
        ours = [(f"priorshift {n}", partial(our_priors, task, n)) for n in ("em", "scm", "scm-l")]
        for name, call in [*ours, *peers(task)]:
            (seconds,) = fastest(2, call)
            priors = np.asarray(call(), np.float64)
            error = np.abs(priors - task.target_priors).sum()
            below = best - problem.evaluate(np.maximum(priors, 1e-12))[0]
            share = peak(call) / task.y_proba.nbytes
            shown = f"{below:.2f}" if "em" in name.lower() else ""
            row(K, name, ms(seconds), f"{share:.2f}", f"{error:.3f}", shown)


def our_priors(task: Task, name: str) -> np.ndarray:
    """Fit and estimate by one of our methods."""
    estimator = ps.get_estimator(name)
    estimator.fit(task.y_proba_val, task.y_val, source_priors=task.source_priors)
    return estimator.estimate(task.y_proba).priors


def import_time(repeats: int) -> None:
    """Time of importing all of priorshift beside that of scikit-learn's base module."""
    header("Import")
    ours, base = fastest(
        repeats,
        lambda: subprocess.run([sys.executable, "-c", "from priorshift import EM"], check=True),
        lambda: subprocess.run([sys.executable, "-c", "import sklearn.base"], check=True),
    )
    print(f"`import priorshift` takes {ours / base:.2f} times `import sklearn.base` ({ms(base)}).")


def reference_ascent(problem: Mixture, start: np.ndarray, rate: float) -> np.ndarray:
    """Take 1000 plain projected gradient steps, as the paper's reference code does."""
    A, weights, p = problem.A, problem.weights, start
    assert weights is not None
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


def fastest(repeats: int, *calls: Callable[[], object]) -> list[float]:
    """Time calls in turn, so that noise hits all alike; return the fastest of each."""
    best = [np.inf] * len(calls)
    for _ in range(repeats):
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def median(repeats: int, *calls: Callable[[], object]) -> list[float]:
    """Time calls in turn, so that noise hits all alike; return the median of each."""
    seconds = np.array([fastest(1, *calls) for _ in range(repeats)])
    return np.median(seconds, axis=0).tolist()


def peak(call: Callable[[], object]) -> int:
    """Return the most memory that a call holds at once, in bytes."""
    tracemalloc.start()
    call()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def header(title: str) -> None:
    """Print a title."""
    print(f"\n### {title}\n", flush=True)


def table(*columns: str) -> None:
    """Print the head of a Markdown table."""
    row(*columns)
    row(*["---"] * len(columns))


def row(*cells: object) -> None:
    """Print a row of a Markdown table."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def ms(seconds: float) -> str:
    """Show a time."""
    return f"{1000 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


if __name__ == "__main__":
    main()
