"""Coverage and size of prediction sets under prior shift, on real classifier outputs.

    python -m lab conformal [--data data]

Fashion-MNIST comes with the library, CIFAR-10 with the repository (our own network, trained on a
long tail), and `make data` builds the letters. CIFAR-10 is also validated on its training images,
as nobody should: there classes look otherwise than in the target, and no priors can mend that.
"""

import warnings
from collections.abc import Iterator

import numpy as np

import priorshift as ps
from lab.pools import POOLS, Pool, bundled, own_network, require_data, stored
from lab.shifts import rank_in_class
from lab.show import head, parse, row
from lab.worlds import Task, tail

REPEATS = 10
LEVEL = 0.9
PER_CLASS, N_TARGET = 20, 1500


def main(arguments: list[str] | None = None) -> None:
    """Print a table."""
    options = parse(__doc__, arguments, data=POOLS)
    warnings.simplefilter("ignore", ps.PriorShiftWarning)
    require_data("conformal", options.data, "uci")
    letter = stored(options.data / "uci" / "letter.npz", "val")
    train, test = (own_network("cifar-10-LT450-0", part) for part in ("train", "test"))
    val, target, source = bundled()
    columns = ("data", "sets", "coverage", "worst repeat", "worst class", "mean size")
    head(f"Score lac, confidence level {LEVEL}; worst: of all classes", *columns)
    report("Fashion-MNIST-LT", [task_of(val, target, source)])
    report("CIFAR-10-LT450, 20 a class", list(few(test)))
    report("the same, validated in training", list(few(test, train)))
    report("letter, 20 a class", list(few(letter)))
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


def few(pool: Pool, val: Pool | None = None) -> Iterator[Task]:
    """Hold out some rows of each class to validate, draw a long-tailed target from the others."""
    y, K = pool[1], pool[0].shape[1]
    for r in range(REPEATS):
        rng = np.random.default_rng(r)
        held = rank_in_class(y, rng) < PER_CLASS
        rest = np.flatnonzero(~held)
        shares = rng.permutation(tail(K, 100.0))
        rows = rest[ps.sample_indices(y[rest], shares, N_TARGET, random_state=r)]
        validation = take(pool, held) if val is None else val
        source = ps.priors_from_predictions(pool[0] if val is None else val[0])
        yield task_of(validation, take(pool, rows), source)


def report(name: str, tasks: list[Task]) -> None:
    """Print a row for every way to make sets, over all repeats."""
    found: dict[str, list[tuple[float, np.ndarray, float]]] = {}
    for task in tasks:
        for way, sets in ways(task):
            held, K = sets[np.arange(task.y.size), task.y], task.priors.size
            by_class = np.stack([np.bincount(task.y, held, K), np.bincount(task.y, minlength=K)])
            found.setdefault(way, []).append((held.mean(), by_class, sets.sum(axis=1).mean()))
    for way, results in found.items():
        covered, by_class, sizes = zip(*results, strict=True)
        held, counts = np.sum(by_class, axis=0)
        worst = (held / np.maximum(counts, 1))[counts > 0].min()
        cells = (np.mean(covered), min(covered), worst)
        row(name, way, *(f"{cell:.3f}" for cell in cells), f"{np.mean(sizes):.2f}")


def ways(task: Task) -> Iterator[tuple[str, np.ndarray]]:
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
        conformal = ps.ConformalSets("lac", per_class=not priors, random_state=0)
        conformal.fit(y_proba_val, task.y_val, **classes, **priors)
        return conformal.predict_set(y_proba, LEVEL)

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
