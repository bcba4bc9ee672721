"""Coverage of the intervals by prevalence band, on simulated and on real classifiers.

python -m benchmarks.coverage [--quick] [--classes 10 100] [--methods scm-l em]
    [--intervals asymptotic] [--pools plankton 20news] [--per-class 10] [--data ../shared/data]

Simulated classifiers are calibrated, as EM needs; real ones are not. On real outputs every
replicate splits the pool anew, without replacement, into validation and target.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

import priorshift as ps
from benchmarks.simulation import Task, simulate

BANDS = {"rare, < 1 %": (0.0, 0.01), "medium": (0.01, 0.05), "common, > 5 %": (0.05, 1.01)}
SIZES = {10: (1000, 2000), 100: (5000, 4000)}
METHODS = {
    "cm": ("asymptotic",),
    "scm": ("asymptotic",),
    "cm-l": ("asymptotic", "bayesian"),
    "scm-l": ("asymptotic", "bootstrap"),
    "scm-m": ("asymptotic", "bayesian"),
    "bbse": ("asymptotic",),
    "em": ("asymptotic", "bootstrap"),
    "map": ("asymptotic",),
}
LEVEL = 0.95

Pool = tuple[np.ndarray, np.ndarray]


@dataclass
class Tally:
    """Covered and all intervals, and their widths, by band."""

    hits: np.ndarray = field(default_factory=lambda: np.zeros(3))
    trials: np.ndarray = field(default_factory=lambda: np.zeros(3))
    widths: np.ndarray = field(default_factory=lambda: np.zeros(3))
    seconds: float = 0.0

    def add(self, interval: np.ndarray, truth: np.ndarray) -> None:
        """Count one replicate."""
        inside = (interval[:, 0] <= truth) & (truth <= interval[:, 1])
        for i, (low, high) in enumerate(BANDS.values()):
            of_band = (truth >= low) & (truth < high)
            self.hits[i] += inside[of_band].sum()
            self.trials[i] += of_band.sum()
            self.widths[i] += (interval[of_band, 1] - interval[of_band, 0]).sum()


def main() -> None:
    """Print one Markdown table a kind of classifier."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the replicates")
    parser.add_argument("--classes", type=int, nargs="*", choices=SIZES, default=list(SIZES))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--intervals", nargs="+", default=["asymptotic", "bootstrap", "bayesian"])
    parser.add_argument("--replicates", type=int, help="at K = 10; a tenth at K = 100")
    parser.add_argument("--pools", nargs="*", help="real outputs whose name has one of these")
    parser.add_argument("--per-class", type=int, help="validation samples per class")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    options = parser.parse_args()
    warnings.simplefilter("ignore", ps.PriorShiftWarning)
    pairs = [(m, how) for m in options.methods for how in METHODS[m] if how in options.intervals]
    replicates = options.replicates or (40 if options.quick else 400)
    print(f"Coverage in % of {LEVEL:.0%} intervals, and mean width in brackets.\n")
    print("|", " | ".join(("classifier", "K", "method", "interval", *BANDS, "s")), "|")
    print("|---" * (5 + len(BANDS)) + "|")
    for K in options.classes:
        n = replicates if K == 10 else max(replicates // 10, 2)
        measure("simulated", K, simulated(K, n, options.per_class), pairs)
    if not options.data.is_dir():
        print(f"\nReal outputs: left out, there is no folder {options.data}; give --data.")
        return
    for name, (read, K) in POOLS.items():
        if options.pools is None or any(part in name for part in options.pools):
            n = replicates if K <= 20 else max(replicates // 10, 2)
            measure(name, K, resplit(*read(options.data), n, options.per_class), pairs)


def measure(name: str, K: int, tasks: Iterator[Task], pairs: list[tuple[str, str]]) -> None:
    """Tally all methods on the same tasks, and print their rows."""
    tallies = {pair: Tally() for pair in pairs}
    for seed, task in enumerate(tasks):
        for (method, how), tally in tallies.items():
            estimator = ps.get_estimator(method)
            source = task.source_priors if name == "simulated" else None
            estimator.fit(task.y_proba_val, task.y_val, source_priors=source)
            start = time.perf_counter()
            shift = estimator.estimate(
                task.y_proba, LEVEL, seed, interval_method=how, n_resamples=200
            )
            tally.seconds += time.perf_counter() - start
            tally.add(shift.interval, task.target_priors)
    for (method, how), tally in tallies.items():
        cells = [
            f"{100 * hits / n:.1f} ({width / n:.4f})" if n else "-"
            for hits, width, n in zip(tally.hits, tally.widths, tally.trials, strict=True)
        ]
        print("|", " | ".join((name, str(K), method, how, *cells)), end=" | ")
        print(f"{tally.seconds / (seed + 1):.2f} |", flush=True)


def simulated(K: int, n: int, per_class: int | None = None) -> Iterator[Task]:
    """Yield Gaussian classifiers of varying strength, targets Dirichlet(0.3) or uniform."""
    n_val, n_target = SIZES[K]
    for seed in range(n):
        target = "uniform" if seed % 4 == 3 else "sparse"
        strength = (1.0, 1.5, 2.5)[seed % 3]
        n_drawn = K * per_class if per_class else n_val
        yield simulate(K, n_drawn, n_target, target=target, strength=strength, seed=seed)


def cifar100(data: Path, net: str) -> Pool:
    """Read predictions and labels of all held-out samples of a network."""
    z = np.load(data / "cifar100_logits_4nets.npz")
    logits = [z[f"{net}__{part}_logits"] for part in ("val", "test")]
    y = [z[f"{net}__{part}_y"] for part in ("val", "test")]
    return softmax(np.concatenate(logits)), np.concatenate(y)


def logits_of(data: Path, file: str, logits: str, y: str) -> Pool:
    """Read one set of logits and its labels."""
    z = np.load(data / file)
    return softmax(z[logits]), z[y]


def probs_of(data: Path, file: str, probs: str, y: str) -> Pool:
    """Read one set of probabilities and its labels."""
    z = np.load(data / file)
    y_proba = z[probs].astype(np.float64)
    return y_proba / y_proba.sum(axis=1, keepdims=True), z[y]


POOLS: dict[str, tuple[Callable[[Path], Pool], int]] = {
    "CIFAR-10-LT resnet110": (
        partial(
            logits_of,
            file="cifar10lt_logits_4nets.npz",
            logits="resnet110__test_logits",
            y="resnet110__test_y",
        ),
        10,
    ),
    **{
        f"MNIST {model}": (
            partial(probs_of, file="mnist_probs_pycalib.npz", probs=f"{model}__probs", y="y"),
            10,
        )
        for model in ("random_forest", "AdaBoost")
    },
    **{
        f"CIFAR-100 {net}": (partial(cifar100, net=net), 100) for net in ("resnet50", "densenet121")
    },
    "20news": (
        partial(
            probs_of, file="label_errors_cv_probs.npz", probs="20news__cv_probs", y="20news__y"
        ),
        20,
    ),
    "banking77": (
        partial(logits_of, file="banking77.npz", logits="train_oof_logits", y="train_y"),
        77,
    ),
    "plankton121": (partial(logits_of, file="plankton121.npz", logits="oof_logits", y="y"), 121),
    "clinc150": (
        partial(logits_of, file="clinc150.npz", logits="train_oof_logits", y="train_y"),
        150,
    ),
}
"""Held-out predictions of real classifiers, and how many classes they know."""


def resplit(
    y_proba: np.ndarray, y: np.ndarray, n: int, per_class: int | None = None
) -> Iterator[Task]:
    """Yield splits of a pool: a third of each class as validation, a target from the rest.

    The target is long-tailed where the pool is balanced; else shares of the pool, each times a
    factor of its own.
    """
    y, K = y.astype(int), y_proba.shape[1]
    sizes = np.bincount(y, minlength=K)
    n_held = np.full(K, per_class) if per_class else np.maximum(sizes // 3, 2)
    n_held = np.minimum(n_held, sizes // 2)
    tail = 100.0 ** (-np.arange(K) / (K - 1))
    balanced = sizes.max() < 2 * sizes.min()
    for seed in range(n):
        rng = np.random.default_rng([seed, K])
        rows = rng.permutation(y.size)
        of_class = [rows[y[rows] == k] for k in range(K)]
        held = np.concatenate([of_class[k][: n_held[k]] for k in range(K)])
        rest = [of_class[k][n_held[k] :] for k in range(K)]
        left = sizes - n_held
        priors = rng.permutation(tail) if balanced else left * np.exp(rng.normal(0, 0.7, K))
        priors /= priors.sum()
        # as many rows as no class runs short of
        wanted = rng.multinomial(int(0.8 * (left / priors).min()), priors)
        drawn = np.concatenate([rest[k][: wanted[k]] for k in range(K)])
        uniform = np.full(K, 1 / K)
        yield Task(y_proba[held], y[held], y_proba[drawn], y[drawn], uniform, priors)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Turn logits into probabilities."""
    z = logits.astype(np.float64)
    z -= z.max(axis=1, keepdims=True)
    np.exp(z, out=z)
    return z / z.sum(axis=1, keepdims=True)


if __name__ == "__main__":
    main()
