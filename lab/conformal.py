"""Coverage and size of prediction sets under prior shift, on real classifier outputs.

    python -m lab conformal [--data data]

CIFAR-10 comes with the repository (our own network, trained on a long tail), and `make data` builds
the letters. CIFAR-10 is also validated on its training images, as nobody should: there classes look
otherwise than in the target, and no priors can mend that.
"""

import warnings
from collections.abc import Iterator

import numpy as np

import priorshift as ps
from lab.pools import POOLS, Pool, own_network, require_data, stored
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
    columns = ("data", "sets", "coverage", "worst repeat", "worst class", "mean size")
    head(f"Score lac, confidence level {LEVEL}; worst: of all classes", *columns)
    report("CIFAR-10-LT450, 20 a class", few(test))
    report("letter, 20 a class", few(letter))
    report("CIFAR-10-LT450, validated in training", few(test, train))


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
        priors = np.bincount(y[rows], minlength=K) / rows.size
        yield Task(*validation, *take(pool, rows), priors, source)


def report(name: str, tasks: Iterator[Task]) -> None:
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
    classes, source = {"classes": task.classes}, {"source_priors": task.source_priors}
    validation = task.y_proba_val, task.y_val
    scml = ps.SCML().fit(*validation, **source, **classes)
    auto = ps.Auto(random_state=0).fit(*validation, **source, **classes)

    def sets(**priors: object) -> np.ndarray:
        conformal = ps.ConformalSets("lac", per_class=not priors, random_state=0)
        return conformal.fit(*validation, **classes, **priors).predict_set(task.y_proba, LEVEL)

    yield "true priors, adapted scores", sets(target_priors=task.priors, **source)
    yield "SCM-L, adapted scores", sets(estimate=scml.estimate(task.y_proba))
    sure = scml.estimate(task.y_proba, confidence_level=0.95)
    yield "SCM-L with standard errors, adapted scores", sets(estimate=sure)
    yield "Auto, adapted scores", sets(estimate=auto.estimate(task.y_proba))
    yield "per class, no priors", sets()
