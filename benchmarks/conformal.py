"""Coverage and size of prediction sets under prior shift, on real classifier outputs.

python -m benchmarks.conformal [--data FOLDER] [--level 0.9] [--score lac]

Fashion-MNIST comes with the library; logits of CIFAR networks are read from FOLDER where it has
them (cifar10lt_logits_4nets.npz, cifar100_logits_4nets.npz). CIFAR-10-LT has a validation set of
its own, and as a control one that is drawn with the same long tail from the test set: there classes
look in the target as they do in validation, as prior shift assumes.
"""

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import softmax

import priorshift as ps
from priorshift.conformal import ConformalSets

REPEATS = 10
N_TARGET = 4000


@dataclass(frozen=True)
class Task:
    """Validation and target of one classifier; labels are columns."""

    name: str
    y_proba_val: np.ndarray
    y_val: np.ndarray
    y_proba: np.ndarray
    y: np.ndarray
    source_priors: np.ndarray

    @property
    def true_priors(self) -> np.ndarray:
        """Shares of the classes in the target, which no method may see."""
        return np.bincount(self.y, minlength=self.source_priors.size) / self.y.size


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), metavar="FOLDER")
    parser.add_argument("--level", type=float, default=0.9)
    parser.add_argument("--score", default="lac", choices=("lac", "aps", "randomised-aps"))
    options = parser.parse_args()
    warnings.simplefilter("ignore", ps.PriorShiftWarning)
    print(f"\nScore {options.score}, confidence level {options.level:g}; worst: of all classes\n")
    print("| data | sets | coverage | worst repeat | worst class | mean size |")
    print("|---|---|---|---|---|---|")
    fashion_table(options.score, options.level)
    for name, repeats in (
        ("cifar10lt_logits_4nets.npz", cifar10_lt),
        ("cifar10lt_logits_4nets.npz", cifar10_lt_from_test),
        ("cifar100_logits_4nets.npz", cifar100_to_long_tail),
        ("cifar100_logits_4nets.npz", cifar100_few),
    ):
        if (options.data / name).exists():
            report(list(repeats(options.data / name)), options.score, options.level)
        else:
            print(f"| {name}: not in {options.data}, left out | | | | | |")
    print(
        "\nSets per class promise their level under any prior shift. Where they are clearly below,"
        "\nclasses look otherwise in the target than in validation, and no priors can mend that."
    )


def fashion_table(score: str, level: float) -> None:
    """Report on the data that comes with the library."""
    data = ps.datasets.load_fashion_lt()
    column = {name: k for k, name in enumerate(data.classes.tolist())}
    y_val, y = (np.array([column[c] for c in labels.tolist()]) for labels in labelled(data))
    task = Task(
        "Fashion-MNIST-LT",
        data.y_proba_val,
        y_val,
        data.y_proba_target,
        y,
        data.source_priors,
    )
    report([task], score, level)


def labelled(data: ps.datasets.ShiftedPredictions) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels of both sides."""
    return data.y_val, data.y_target


def read(path: Path, network: str, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities and labels."""
    with np.load(path) as z:
        logits, y = z[f"{network}__{part}_logits"], z[f"{network}__{part}_y"]
    return softmax(logits.astype(np.float64), axis=1), y.astype(int)


def cifar10_lt(path: Path) -> Iterator[Task]:
    """Long-tailed validation, balanced target; every repeat halves both at random."""
    (y_proba_val, y_val), (y_proba, y) = (
        read(path, "resnet110", part) for part in ("val_lt", "test")
    )
    source = ps.priors_from_predictions(y_proba_val)
    for r in range(REPEATS):
        rng = np.random.default_rng(r)
        val = rng.permutation(y_val.size)[: y_val.size // 2]
        rows = rng.permutation(y.size)[: y.size // 2]
        yield Task(
            "CIFAR-10-LT to balanced",
            y_proba_val[val],
            y_val[val],
            y_proba[rows],
            y[rows],
            source,
        )


def cifar10_lt_from_test(path: Path) -> Iterator[Task]:
    """Both from the test set: 300 rows with the long tail as validation, half of the others."""
    y_proba_val, y_val = read(path, "resnet110", "val_lt")
    source, counts = ps.priors_from_predictions(y_proba_val), np.bincount(y_val)
    y_proba, y = read(path, "resnet110", "test")
    yield from few("the same, 300 of test as validation", y_proba, y, counts / counts.sum() * 300,
                   source, np.full(10, 0.1), y.size // 2)  # fmt: skip


def cifar100_to_long_tail(path: Path) -> Iterator[Task]:
    """Balanced validation; targets drawn with a long tail over classes in random order."""
    (y_proba_val, y_val), (y_proba, y) = (read(path, "resnet50", part) for part in ("val", "test"))
    source = ps.priors_from_predictions(y_proba_val)
    for r in range(REPEATS):
        target = np.random.default_rng(r).permutation(long_tail(100))
        rows = ps.sample_indices(y, target, N_TARGET, random_state=r)
        yield Task("CIFAR-100 to long tail", y_proba_val, y_val, y_proba[rows], y[rows], source)


def cifar100_few(path: Path) -> Iterator[Task]:
    """Take 20 validation samples per class, and 1500 of the target."""
    y_proba, y = read(path, "resnet50", "test")
    source = ps.priors_from_predictions(y_proba)
    yield from few(
        "CIFAR-100, 20 a class", y_proba, y, np.full(100, 20), source, long_tail(100), 1500
    )


def few(
    name: str,
    y_proba: np.ndarray,
    y: np.ndarray,
    counts: np.ndarray,
    source: np.ndarray,
    target: np.ndarray,
    n_target: int,
) -> Iterator[Task]:
    """Split a pool anew for every repeat, with given counts of validation."""
    for r in range(REPEATS):
        rng = np.random.default_rng(r)
        order = rng.permutation(y.size)
        rank = np.empty(y.size, dtype=int)
        for k in range(counts.size):
            own = order[y[order] == k]
            rank[own] = np.arange(own.size)
        held = rank < counts.astype(int)[y]
        rest = np.flatnonzero(~held)
        shares = rng.permutation(target)
        rows = rest[ps.sample_indices(y[rest], shares, n_target, random_state=r)]
        yield Task(name, y_proba[held], y[held], y_proba[rows], y[rows], source)


def long_tail(K: int) -> np.ndarray:
    """Return shares from 100 to 1."""
    tail = 100.0 ** (-np.arange(K) / (K - 1))
    return tail / tail.sum()


def report(tasks: list[Task], score: str, level: float) -> None:
    """Print a row for every way to make sets, over all repeats."""
    found: dict[str, list[tuple[float, np.ndarray, float]]] = {}
    for task in tasks:
        for name, sets in ways(task, score, level):
            held = sets[np.arange(task.y.size), task.y]
            K = task.source_priors.size
            counts = np.bincount(task.y, minlength=K)
            by_class = np.bincount(task.y, held, K)
            found.setdefault(name, []).append(
                (held.mean(), np.stack([by_class, counts]), sets.sum(axis=1).mean())
            )
    for name, results in found.items():
        covered = [result[0] for result in results]
        held_by_class, counts = np.sum([result[1] for result in results], axis=0)
        worst_class = (held_by_class / np.maximum(counts, 1))[counts > 0].min()
        size = np.mean([result[2] for result in results])
        print(
            f"| {tasks[0].name} | {name} | {np.mean(covered):.3f} | {min(covered):.3f} | "
            f"{worst_class:.3f} | {size:.2f} |"
        )


def ways(task: Task, score: str, level: float) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the sets of every way to make them."""
    K = task.source_priors.size
    validation = (task.y_proba_val, task.y_val)
    shares = ps.priors_from_labels(task.y_val, classes=np.arange(K))
    em = ps.EM().fit(source_priors=task.source_priors)
    scml = ps.SCML().fit(*validation, source_priors=task.source_priors, classes=np.arange(K))
    bcts = ps.BCTS(ridge=1.0).fit(*validation, classes=np.arange(K))
    sure = scml.estimate(task.y_proba, confidence_level=0.95)
    auto = ps.Auto(random_state=0).fit(
        *validation, source_priors=task.source_priors, classes=np.arange(K)
    )
    estimates = {"EM": em.estimate(task.y_proba), "SCM-L": scml.estimate(task.y_proba)}
    estimates["Auto"] = auto.estimate(task.y_proba)
    calibrated = bcts.predict_proba(task.y_proba_val), bcts.predict_proba(task.y_proba)
    bcts_em = ps.EM().fit(source_priors=ps.priors_from_predictions(calibrated[0]))

    def sets(y_proba_val: np.ndarray, y_proba: np.ndarray, **priors: object) -> np.ndarray:
        conformal = ConformalSets(score, per_class=not priors, random_state=0)
        conformal.fit(y_proba_val, task.y_val, classes=np.arange(K), **priors)
        return conformal.predict_set(y_proba, level)

    raw = (task.y_proba_val, task.y_proba)
    yield "not weighted", sets(*raw, target_priors=shares)
    yield "true priors, raw scores", sets(*raw, target_priors=task.true_priors)
    known = {"target_priors": task.true_priors, "source_priors": task.source_priors}
    yield "true priors, adapted scores", sets(*raw, **known)
    for name, estimate in estimates.items():
        yield f"{name}, raw scores", sets(*raw, target_priors=estimate.priors)
        yield f"{name}, adapted scores", sets(*raw, estimate=estimate)
    yield "SCM-L with standard errors, adapted scores", sets(*raw, estimate=sure)
    yield "BCTS + EM, adapted scores", sets(*calibrated, estimate=bcts_em.estimate(calibrated[1]))
    yield "per class, no priors", sets(*raw)


if __name__ == "__main__":
    main()
