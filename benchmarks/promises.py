"""What intervals, diagnostics and two estimators promise, measured where it is hardest to keep.

python -m benchmarks.promises [--parts few calibration ...] [--pools reported] [--before SRC]

Each part is one promise. Simulated classifiers have Gaussian classes, so their outputs are
calibrated; "too sure" multiplies their logits by 3. Real outputs are split anew in every
replicate, without replacement: some rows per class validate, the target is drawn from the rest.
Constants were chosen on every other pool ("chosen"); the table shows the others ("reported").
With `--before SRC`, the same table is printed for the sources in another folder, side by side.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import ndtri

import priorshift as ps

LEVEL = 0.95
TOO_SURE = 3.0
LARGEST_TARGET = 2000

Pool = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Task:
    """Validation and target of one replicate."""

    y_proba_val: np.ndarray
    y_val: np.ndarray
    y_proba: np.ndarray
    y: np.ndarray
    priors: np.ndarray
    source_priors: np.ndarray | None = None

    def fit(self, method: str, *, given: bool = True) -> ps.PriorEstimator:
        """Fit a method, with source priors where they are known and asked for."""
        known = {"source_priors": self.source_priors} if given else {}
        K = self.y_proba_val.shape[1]
        return ps.get_estimator(method).fit(
            self.y_proba_val, self.y_val, classes=np.arange(K), **known
        )


# worlds ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """Gaussian classes of equal source priors, of a given accuracy."""

    means: np.ndarray

    @classmethod
    def of(cls, K: int, accuracy: float) -> "World":
        """Scale random means until the classifier is that accurate."""
        if K == 2:
            return cls(np.array([[1.0], [-1.0]]) * ndtri(accuracy))
        rng = np.random.default_rng(1)
        means = rng.standard_normal((K, max(2, round(np.sqrt(4 * K)))))
        low, high = 0.1, 8.0
        for _ in range(25):
            middle = 0.5 * (low + high)
            y_proba, y = cls(middle * means).draw(np.full(K, 400), np.random.default_rng(2))
            right = (y_proba.argmax(axis=1) == y).mean()
            low, high = (middle, high) if right < accuracy else (low, middle)
        return cls(middle * means)

    def draw(self, counts: np.ndarray, rng: np.random.Generator, slope: float = 1.0) -> Pool:
        """Draw rows; a slope above 1 makes the classifier too sure."""
        y = np.repeat(np.arange(counts.size), counts)
        x = self.means[y] + rng.standard_normal((y.size, self.means.shape[1]))
        z = slope * (x @ self.means.T - 0.5 * (self.means**2).sum(axis=1))
        z -= z.max(axis=1, keepdims=True)
        np.exp(z, out=z)
        return z / z.sum(axis=1, keepdims=True), y


@dataclass(frozen=True)
class Simulated:
    """Replicates of one simulated classifier."""

    name: str
    K: int
    accuracy: float
    priors: np.ndarray
    per_class: int
    n_target: int = LARGEST_TARGET
    slope: float = 1.0

    def tasks(self, n: int) -> Iterator[Task]:
        """Yield replicates."""
        world, uniform = World.of(self.K, self.accuracy), np.full(self.K, 1 / self.K)
        for seed in range(n):
            rng = np.random.default_rng([seed, self.K, 7])
            val = world.draw(np.full(self.K, self.per_class), rng, self.slope)
            drawn = rng.multinomial(self.n_target, self.priors)
            yield Task(*val, *world.draw(drawn, rng, self.slope), self.priors, uniform)


@dataclass(frozen=True)
class Resplit:
    """Replicates of real outputs."""

    name: str
    pool: Pool
    per_class: int
    shift: str = "tail"

    def tasks(self, n: int) -> Iterator[Task]:
        """Yield replicates: the target is long-tailed, or as the pool is ("none")."""
        y_proba, y = self.pool
        K = y_proba.shape[1]
        sizes = np.bincount(y, minlength=K)
        held = np.minimum(self.per_class, sizes // 2)
        tail = 30.0 ** (-np.arange(K) / (K - 1))
        for seed in range(n):
            rng = np.random.default_rng([seed, K, y.size])
            rows = rng.permutation(y.size)
            rows = rows[np.argsort(y[rows], kind="stable")]
            rank = np.arange(y.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            validates = rank < held[y[rows]]
            left = sizes - held
            priors = left.astype(float) if self.shift == "none" else rng.permutation(tail)
            priors /= priors.sum()
            # as many rows as no class runs short of
            most = min(LARGEST_TARGET, int(0.8 * (left / priors).min()))
            wanted = np.minimum(rng.multinomial(most, priors), left)
            drawn = ~validates & (rank < (held + wanted)[y[rows]])
            parts = [(y_proba[rows[part]], y[rows[part]]) for part in (validates, drawn)]
            yield Task(*parts[0], *parts[1], priors)


def tail(K: int, imbalance: float) -> np.ndarray:
    """Return exponentially falling priors."""
    shares = imbalance ** (-np.arange(K) / (K - 1))
    return shares / shares.sum()


def pools(data: Path) -> dict[str, Pool]:
    """Read held-out outputs of real classifiers, by name."""
    found = {}
    for file in sorted((data / "zoo").glob("*.npz")):
        with np.load(file) as z:
            parts = [(z[f"{part}_proba"], z[f"{part}_y"]) for part in ("val", "test")]
        found[file.stem] = tuple(np.concatenate(part) for part in zip(*parts, strict=True))
    for name in ("abalone", "digits", "letter", "satellite", "wine-quality"):
        if (file := data / "uci" / f"{name}.npz").exists():
            with np.load(file) as z:
                found[f"uci {name}"] = z["val_proba"], z["val_y"]
    with np.load(data / "cifar10lt_logits_4nets.npz") as z:
        for net in ("densenet40", "resnet110", "wideresnet28"):
            found[f"cifar10lt {net}"] = softmax(z[f"{net}__test_logits"]), z[f"{net}__test_y"]
    with np.load(data / "mnist_probs_pycalib.npz") as z:
        for model in ("AdaBoost", "XGBoost", "random_forest"):
            found[f"mnist {model}"] = z[f"{model}__probs"], z["y"]
    with np.load(data / "plankton121.npz") as z:
        found["plankton121"] = softmax(z["oof_logits"]), z["y"]
    with np.load(data / "clinc150.npz") as z:
        found["clinc150"] = softmax(z["train_oof_logits"]), z["train_y"]
    return {name: cleaned(*pool) for name, pool in found.items()}


def cleaned(y_proba: np.ndarray, y: np.ndarray) -> Pool:
    """Return float64 rows that add up to 1."""
    y_proba = y_proba.astype(np.float64)
    return y_proba / y_proba.sum(axis=1, keepdims=True), y.astype(int)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Turn logits into probabilities."""
    z = logits.astype(np.float64)
    z -= z.max(axis=1, keepdims=True)
    np.exp(z, out=z)
    return z / z.sum(axis=1, keepdims=True)


def real(options: argparse.Namespace, per_class: int, shift: str = "tail") -> list[Resplit]:
    """Return every other pool."""
    if not options.data.is_dir():
        return []
    found = list(pools(options.data).items())
    first = {"chosen": 0, "reported": 1}[options.pools]
    return [Resplit(name, pool, per_class, shift) for name, pool in found[first::2]]


# promises ----------------------------------------------------------------------------------------

Row = dict[str, list[float]]
"""By column, one value per replicate."""

Measure = Callable[[Task, int], dict[str, float]]


def held(interval: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Tell which shares are inside their interval."""
    return (interval[:, 0] <= truth + 1e-12) & (truth - 1e-12 <= interval[:, 1])


def few_rows(task: Task, seed: int) -> dict[str, float]:
    """Measure coverage of the commonest class and of all classes, ten validation rows each."""
    found = {}
    for method in ("cm-l", "scm-l"):
        estimator = task.fit(method, given=False)
        shift = estimator.estimate(task.y_proba, LEVEL, seed, interval_method="asymptotic")
        inside = held(shift.interval, task.priors)
        found[f"{method} commonest"] = 100 * float(inside[np.argmax(task.priors)])
        found[f"{method} all"] = 100 * float(inside.mean())
        found[f"{method} width"] = float(np.diff(shift.interval).mean())
    return found


def expected_accuracy(task: Task, seed: int) -> dict[str, float]:  # noqa: ARG001
    """Measure by how many points `diagnose` is too optimistic after SCM-L, and its coverage."""
    classes = np.arange(task.y_proba_val.shape[1])
    found = {}
    for name, level in (("", None), ("level given, ", LEVEL)):
        shift = task.fit("scm-l", given=False).estimate(task.y_proba, level)
        told = ps.diagnose(task.y_proba_val, task.y_val, task.y_proba, shift, classes=classes)
        after = (shift.adapt(task.y_proba).argmax(axis=1) == task.y).mean()
        before = (task.y_proba.argmax(axis=1) == task.y).mean()
        found[f"{name}points too high"] = 100 * float(told.accuracy_after.value - after)
        inside = told.accuracy_after.low <= after <= told.accuracy_after.high
        found[f"{name}covers"] = 100 * float(inside)
        gain = told.accuracy_gain
        found[f"{name}gain covers"] = 100 * float(gain.low <= after - before <= gain.high)
    return found


@dataclass(frozen=True)
class Part:
    """A promise: its title, how to measure it, and on what."""

    title: str
    measure: Measure
    simulated: tuple[Simulated, ...]
    real: Callable[[argparse.Namespace], list[Resplit]]


PARTS: dict[str, Part] = {
    "few": Part(
        "Intervals in % with 10 validation rows per class: share that cover, mean width",
        few_rows,
        (
            Simulated("2 classes, 97:3", 2, 0.85, np.array([0.97, 0.03]), 10),
            Simulated("10 classes, long tail", 10, 0.85, tail(10, 100), 10),
            Simulated("10 classes, long tail, weak", 10, 0.6, tail(10, 100), 10),
            Simulated("10 classes, too sure", 10, 0.85, tail(10, 100), 10, slope=TOO_SURE),
            Simulated("30 classes, too sure", 30, 0.9, tail(30, 1000), 10, slope=TOO_SURE),
        ),
        lambda options: real(options, 10),
    ),
    "diagnose": Part(
        "Expected accuracy after SCM-L: points too high, and coverage in %",
        expected_accuracy,
        (
            Simulated("10 classes, long tail", 10, 0.85, tail(10, 100), 20),
            Simulated("10 classes, weak", 10, 0.6, tail(10, 10), 20),
            Simulated("10 classes, too sure", 10, 0.7, tail(10, 100), 20, slope=TOO_SURE),
            Simulated("30 classes, no shift", 30, 0.7, np.full(30, 1 / 30), 20),
        ),
        lambda options: real(options, 20),
    ),
}


# tables ------------------------------------------------------------------------------------------


def measured(part: Part, options: argparse.Namespace) -> dict[str, Row]:
    """Measure all replicates of a part, by world."""
    found: dict[str, Row] = {}
    worlds = [(world, options.simulated) for world in part.simulated]
    worlds += [(world, options.real) for world in part.real(options)]
    for world, n in worlds:
        start, row = time.perf_counter(), {}
        for seed, task in enumerate(world.tasks(n)):
            for name, value in part.measure(task, seed).items():
                row.setdefault(name, []).append(value)
        found[world.name] = row
        print(f"{world.name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return found


def cell(values: list[float]) -> str:
    """Return mean and standard error."""
    kept = np.array([value for value in values if value is not None])
    if not kept.size:
        return "-"
    digits = 1 if np.abs(kept).max() > 1.5 else 3
    error = kept.std(ddof=1) / np.sqrt(kept.size) if kept.size > 1 else 0.0
    return f"{kept.mean():.{digits}f} ± {error:.{digits}f}"


def table(now: dict[str, Row], before: dict[str, Row] | None) -> str:
    """Return a Markdown table: a row per world, before and after in each cell."""
    columns = list(dict.fromkeys(name for row in now.values() for name in row))
    lines = [
        " | ".join(["", "classifier", *columns, ""]).strip(),
        "|---" * (1 + len(columns)) + "|",
    ]
    for world, row in now.items():
        cells = []
        for name in columns:
            then = f"{cell(before[world].get(name, []))} → " if before else ""
            cells.append(then + cell(row.get(name, [])))
        lines.append(" | ".join(["", world, *cells, ""]).strip())
    return "\n".join(lines)


def before_of(options: argparse.Namespace, part: str) -> dict[str, Row]:
    """Measure the sources of another folder, in a process of their own."""
    command = [sys.executable, __file__, "--json", "--parts", part, "--pools", options.pools]
    command += ["--simulated", str(options.simulated), "--real", str(options.real)]
    command += ["--data", str(options.data)]
    environment = os.environ | {"PYTHONPATH": str(options.before)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    found: dict[str, Row] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print one Markdown table per promise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--pools", choices=("chosen", "reported"), default="reported")
    parser.add_argument("--simulated", type=int, default=200, help="simulated replicates")
    parser.add_argument("--real", type=int, default=40, help="replicates per pool")
    parser.add_argument("--before", type=Path, help="the src folder of another version")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in options.parts:
        part, start = PARTS[name], time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            now = measured(part, options)
        if options.json:
            print(json.dumps(now))
            return
        before = before_of(options, name) if options.before else None
        how = ", before → now" if before else ""
        print(f"\n## {part.title}{how}\n\n{table(now, before)}")
        print(f"\n{time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
