"""Coverage and size of prediction sets under prior shift, on real classifier outputs.

    python -m lab conformal [--data FOLDER] [--level 0.9] [--score lac]

Fashion-MNIST comes with the library; logits of CIFAR networks are read from FOLDER where it has
them (cifar10lt_logits_4nets.npz, cifar100_logits_4nets.npz). CIFAR-10-LT has a validation set of
its own, and as a control one that is drawn with the same long tail from the test set: there classes
look in the target as they do in validation, as prior shift assumes.
"""

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import priorshift as ps
from lab.pools import DATA, Pool, bundled, network
from lab.show import head, parse, row
from lab.worlds import Task, tail

REPEATS = 10
N_TARGET = 4000


def main(arguments: list[str] | None = None) -> None:
    """Print a table."""
    score = {"default": "lac", "choices": ("lac", "aps", "randomised-aps")}
    options = parse(__doc__, arguments, data=DATA, level=0.9, score=score)
    warnings.simplefilter("ignore", ps.PriorShiftWarning)
    title = f"Score {options.score}, confidence level {options.level:g}; worst: of all classes"
    columns = ("data", "sets", "coverage", "worst repeat", "worst class", "mean size")
    head(title, *columns)
    val, target, source = bundled()
    report("Fashion-MNIST-LT", [task_of(val, target, source)], options)
    for name, file, draw in (
        ("CIFAR-10-LT to balanced", "cifar10lt", cifar10_lt),
        ("the same, 300 of test as validation", "cifar10lt", cifar10_lt_from_test),
        ("CIFAR-100 to long tail", "cifar100", cifar100_to_long_tail),
        ("CIFAR-100, 20 a class", "cifar100", cifar100_few),
    ):
        if (options.data / f"{file}_logits_4nets.npz").exists():
            report(name, list(draw(options.data)), options)
        else:
            row(f"{name}: not in {options.data}, left out", *[""] * 5)
    print(
        "\nSets per class promise their level under any prior shift. Where they are clearly below,"
        "\nclasses look otherwise in the target than in validation, and no priors can mend that."
    )


def task_of(val: Pool, target: Pool, source: np.ndarray) -> Task:
    """Return a task whose priors are the shares of the target's labels."""
    priors = np.bincount(target[1], minlength=source.size) / target[1].size
    return Task(*val, *target, priors, source)


def take(pool: Pool, rows: np.ndarray) -> Pool:
    """Return some rows."""
    return pool[0][rows], pool[1][rows]


def cifar10_lt(data: Path) -> Iterator[Task]:
    """Long-tailed validation, balanced target; every repeat halves both at random."""
    pools = [network("cifar10lt", "resnet110", part, data) for part in ("val_lt", "test")]
    source = ps.priors_from_predictions(pools[0][0])
    for r in range(REPEATS):
        rng = np.random.default_rng(r)
        halves = [take(pool, rng.permutation(pool[1].size)[: pool[1].size // 2]) for pool in pools]
        yield task_of(*halves, source)


def cifar10_lt_from_test(data: Path) -> Iterator[Task]:
    """Both from the test set: 300 rows with the long tail as validation, half of the others."""
    y_proba_val, y_val = network("cifar10lt", "resnet110", "val_lt", data)
    source, counts = ps.priors_from_predictions(y_proba_val), np.bincount(y_val)
    pool = network("cifar10lt", "resnet110", "test", data)
    counts = counts / counts.sum() * 300
    yield from few(pool, counts, source, np.full(10, 0.1), pool[1].size // 2)


def cifar100_to_long_tail(data: Path) -> Iterator[Task]:
    """Balanced validation; targets drawn with a long tail over classes in random order."""
    val, test = (network("cifar100", "resnet50", part, data) for part in ("val", "test"))
    for r in range(REPEATS):
        target = np.random.default_rng(r).permutation(tail(100, 100.0))
        rows = ps.sample_indices(test[1], target, N_TARGET, random_state=r)
        yield task_of(val, take(test, rows), ps.priors_from_predictions(val[0]))


def cifar100_few(data: Path) -> Iterator[Task]:
    """Take 20 validation samples per class, and 1500 of the target."""
    pool = network("cifar100", "resnet50", "test", data)
    source = ps.priors_from_predictions(pool[0])
    yield from few(pool, np.full(100, 20), source, tail(100, 100.0), 1500)


def few(
    pool: Pool, counts: np.ndarray, source: np.ndarray, target: np.ndarray, n_target: int
) -> Iterator[Task]:
    """Split a pool anew for every repeat, with given counts of validation."""
    y = pool[1]
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
        yield task_of(take(pool, held), take(pool, rows), source)


def report(name: str, tasks: list[Task], options: object) -> None:
    """Print a row for every way to make sets, over all repeats."""
    found: dict[str, list[tuple[float, np.ndarray, float]]] = {}
    for task in tasks:
        for way, sets in ways(task, options.score, options.level):
            held, K = sets[np.arange(task.y.size), task.y], task.priors.size
            by_class = np.stack([np.bincount(task.y, held, K), np.bincount(task.y, minlength=K)])
            found.setdefault(way, []).append((held.mean(), by_class, sets.sum(axis=1).mean()))
    for way, results in found.items():
        covered, by_class, sizes = zip(*results, strict=True)
        held, counts = np.sum(by_class, axis=0)
        worst = (held / np.maximum(counts, 1))[counts > 0].min()
        cells = (np.mean(covered), min(covered), worst)
        row(name, way, *(f"{cell:.3f}" for cell in cells), f"{np.mean(sizes):.2f}")


def ways(task: Task, score: str, level: float) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the sets of every way to make them."""
    classes = {"classes": task.classes}
    validation, source = (task.y_proba_val, task.y_val), {"source_priors": task.source_priors}
    shares = ps.priors_from_labels(task.y_val, **classes)
    scml = ps.SCML().fit(*validation, **source, **classes)
    bcts = ps.BCTS(ridge=1.0).fit(*validation, **classes)
    auto = ps.Auto(random_state=0).fit(*validation, **source, **classes)
    estimates = {
        "EM": ps.EM().fit(**source).estimate(task.y_proba),
        "SCM-L": scml.estimate(task.y_proba),
        "Auto": auto.estimate(task.y_proba),
    }
    sure = scml.estimate(task.y_proba, confidence_level=0.95)
    calibrated = bcts.predict_proba(task.y_proba_val), bcts.predict_proba(task.y_proba)
    bcts_em = ps.EM().fit(source_priors=ps.priors_from_predictions(calibrated[0]))

    def sets(y_proba_val: np.ndarray, y_proba: np.ndarray, **priors: object) -> np.ndarray:
        conformal = ps.ConformalSets(score, per_class=not priors, random_state=0)
        conformal.fit(y_proba_val, task.y_val, **classes, **priors)
        return conformal.predict_set(y_proba, level)

    raw = (task.y_proba_val, task.y_proba)
    yield "not weighted", sets(*raw, target_priors=shares)
    yield "true priors, raw scores", sets(*raw, target_priors=task.priors)
    yield "true priors, adapted scores", sets(*raw, target_priors=task.priors, **source)
    for name, estimate in estimates.items():
        yield f"{name}, raw scores", sets(*raw, target_priors=estimate.priors)
        yield f"{name}, adapted scores", sets(*raw, estimate=estimate)
    yield "SCM-L with standard errors, adapted scores", sets(*raw, estimate=sure)
    yield "BCTS + EM, adapted scores", sets(*calibrated, estimate=bcts_em.estimate(calibrated[1]))
    yield "per class, no priors", sets(*raw)
