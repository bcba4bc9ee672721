"""Coverage and width of Auto's intervals, beside moments alone and beside EM's.

python -m benchmarks.auto_intervals [--simulated 200] [--real 40] [--data ../shared/data]

Validation has 10 rows per class, or a third of the pool. Simulated outputs are exactly calibrated,
too sure (a temperature), or biased (a temperature and a factor per class), and source priors are
given; real ones are whatever they are, and nothing is given. "moments alone" are the intervals that
Auto had before: those of calibrated outputs' confusion matrix. A width is the mean over classes,
and then the mean over replicates, and their median.
"""

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

import priorshift as ps
from benchmarks.coverage import LEVEL, POOLS, resplit
from benchmarks.judging import markdown
from benchmarks.simulation import Task, simulate
from priorshift.uncertainty import IntervalRequest

PER_CLASS = 10
N_TARGET = 2000
MOST_CLASSES = 20
ZOO = ("kr-vs-k_nat_hgb", "nursery_lt_nb", "optdigits_lt_nb", "page-blocks_nat_mlp")
ZOO += ("penbased_lt_mlp", "satimage_nat_rf", "splice_nat_nb", "twonorm_lt_lr")
KINDS = {"calibrated": (1.0, 0.0), "too sure": (1.6, 0.0), "biased": (1.3, 0.7)}
"""Simulated outputs: the power they are raised to, and the spread of a factor per class."""


class Cell(NamedTuple):
    """Tasks of one kind, and whether methods are given the source priors."""

    name: str
    n_classes: int
    tasks: Iterator[Task]
    given: bool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulated", type=int, default=200, help="replicates per cell, or 0")
    parser.add_argument("--real", type=int, default=40, help="replicates per cell, or 0")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    print(f"Coverage in % of {LEVEL:.0%} intervals (standard error), mean and median width.\n")
    header = ["outputs", "K", "Auto", "moments alone", "EM", "Auto's width / EM's"]
    print(markdown(header, []), flush=True)
    for cell in [*simulated_cells(options.simulated), *real_cells(options)]:
        print("| " + " | ".join(row(cell)) + " |", flush=True)
    if not options.data.is_dir():
        print(f"\nReal outputs: left out, there is no folder {options.data}; give --data.")


def row(cell: Cell) -> list[str]:
    """Measure one cell."""
    found = np.array([measured(task, cell.given) for task in cell.tasks])
    covered, widths = found[:, :, 0], found[:, :, 1]
    mean, median = widths.mean(axis=0), np.median(widths, axis=0)
    error = covered.std(axis=0) / np.sqrt(len(found))
    cells = [
        f"{100 * c:.1f} ({100 * e:.1f}), {w:.3f}, {typical:.3f}"
        for c, e, w, typical in zip(covered.mean(axis=0), error, mean, median, strict=True)
    ]
    ratios = f"{mean[0] / mean[2]:.1f}, {median[0] / median[2]:.1f}"
    return [cell.name, str(cell.n_classes), *cells, ratios]


def measured(task: Task, given: bool) -> list[tuple[float, float]]:
    """Return which share of classes Auto, moments alone and EM cover, and how widely."""
    classes = np.arange(task.source_priors.size)
    known = {"source_priors": task.source_priors} if given else {}
    auto = ps.Auto(random_state=0).fit(task.y_proba_val, task.y_val, classes=classes, **known)
    shift = auto.estimate(task.y_proba, LEVEL, 0)
    request = IntervalRequest(LEVEL, np.random.default_rng(0))
    calibrated = auto._calibration.average.apply(task.y_proba)
    moments = auto._votes(calibrated).interval(shift.priors, request)
    em = ps.EM().fit(task.y_proba_val, task.y_val, classes=classes, **known)
    bounds = shift.interval, moments.interval, em.estimate(task.y_proba, LEVEL, 0).interval
    return [covering(one, task.target_priors) for one in bounds]


def covering(interval: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    inside = (interval[:, 0] <= truth) & (truth <= interval[:, 1])
    return float(inside.mean()), float(np.ptp(interval, axis=1).mean())


def simulated_cells(replicates: int) -> Iterator[Cell]:
    for K in (2, 3, 10) if replicates else ():
        for kind in KINDS:
            name = f"simulated, {kind}, {PER_CLASS} rows per class"
            yield Cell(name, K, simulated_tasks(K, kind, replicates), True)


def simulated_tasks(K: int, kind: str, replicates: int) -> Iterator[Task]:
    for seed in range(replicates):
        yield distorted(simulated(K, seed), *KINDS[kind], seed)


def simulated(K: int, seed: int) -> Task:
    """Draw classifiers of varying strength, and targets as `benchmarks.coverage` does."""
    target, strength = "uniform" if seed % 4 == 3 else "sparse", (1.0, 1.5, 2.5)[seed % 3]
    n_val = K * PER_CLASS
    return simulate(K, n_val, N_TARGET, target=target, strength=strength, seed=seed)


def distorted(task: Task, power: float, spread: float, seed: int) -> Task:
    """Raise outputs to a power, and multiply each class by a factor."""
    draw = np.random.default_rng(seed).normal(size=task.source_priors.size)

    def distort(y_proba: np.ndarray) -> np.ndarray:
        y_proba = y_proba.astype(np.float64) ** power * np.exp(spread * draw)
        return y_proba / y_proba.sum(axis=1, keepdims=True)

    return replace(task, y_proba_val=distort(task.y_proba_val), y_proba=distort(task.y_proba))


def real_cells(options: argparse.Namespace) -> Iterator[Cell]:
    if not options.data.is_dir() or not options.real:
        return
    pools = {name: read(options.data) for name, (read, K) in POOLS.items() if K <= MOST_CLASSES}
    pools |= {name: zoo(options.data, name) for name in ZOO}
    for name, (y_proba, y) in pools.items():
        K = y_proba.shape[1]
        for per_class in (PER_CLASS, None):
            few = "a third of the pool" if per_class is None else f"{per_class} rows per class"
            yield Cell(f"{name}, {few}", K, resplit(y_proba, y, options.real, per_class), False)


def zoo(data: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Read all held-out rows of an ordinary classifier."""
    with np.load(data / "zoo" / f"{name}.npz") as z:
        y_proba = np.concatenate([z["val_proba"], z["test_proba"]]).astype(np.float64)
        y = np.concatenate([z["val_y"], z["test_y"]])
    return y_proba / y_proba.sum(axis=1, keepdims=True), y


if __name__ == "__main__":
    main()
