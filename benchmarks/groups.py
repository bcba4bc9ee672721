"""Many groups at once, beside a loop over groups and beside pandas with NumPy, in one run.

python -m benchmarks.groups [--groups 10000] [--rows 1000000] [--classes 20] [--loop 300]

A loop is timed on a sample of groups and scaled up to all of them.
"""

import argparse
import time
import tracemalloc
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd

import priorshift as ps
from benchmarks.simulation import _draw
from priorshift.groups import GroupCounts, estimate_groups

EM_STEPS = 100
"""Of the plain EM by hand; it has no certificate, so it is given what people give it."""

METHODS = ("scm-l", "cm-l", "scm", "em")


def main() -> None:
    """Print time, peak memory and error as Markdown tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--loop", type=int, default=300, help="groups that loops are timed on")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ps.PriorShiftWarning)
    warnings.simplefilter("ignore", ps.ConvergenceWarning)
    world = World(options.groups, options.rows, options.classes)
    size = world.y_proba.nbytes / 2**20
    print(
        f"{options.groups:,} groups, {options.rows:,} rows, {options.classes} classes "
        f"(float32, {size:.0f} MB); priors of groups from a Dirichlet with a total of 20.\n"
    )
    speed_table(world, options.loop)
    quality_table(world)


class World:
    """A target whose groups have priors of their own, and sizes from 1 to some hundreds."""

    def __init__(self, n_groups: int, n_rows: int, n_classes: int) -> None:
        rng = np.random.default_rng(0)
        dim = round(np.sqrt(4 * n_classes))
        means = 1.6 * rng.standard_normal((n_classes, dim)) / dim**0.25
        self.source = 100.0 ** (-np.arange(n_classes) / (n_classes - 1))
        self.source /= self.source.sum()
        uniform = np.full(n_classes, 1 / n_classes)
        self.y_proba_val, self.y_val = _draw(means, self.source, uniform, 200 * n_classes, rng)
        self.truth = rng.dirichlet(20 * rng.dirichlet(np.full(n_classes, 3.0)), n_groups)
        share = rng.dirichlet(np.full(n_groups, 1.0))
        self.groups = rng.choice(n_groups, n_rows, p=share)
        self.groups[:n_groups] = np.arange(n_groups)  # none is empty
        cumulated = self.truth.cumsum(axis=1)[self.groups]
        y = np.minimum((rng.random((n_rows, 1)) > cumulated).sum(axis=1), n_classes - 1)
        self.y_proba = posteriors(means, self.source, y, rng)

    def fit(self, method: str) -> ps.PriorEstimator:
        """Fit a method on validation."""
        return ps.get_estimator(method).fit(self.y_proba_val, self.y_val, source_priors=self.source)


def posteriors(
    means: np.ndarray, source: np.ndarray, y: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the exact posteriors of rows of the given classes, as float32."""
    proba = np.empty((y.size, source.size), np.float32)
    bias = np.log(source) - 0.5 * (means**2).sum(axis=1)
    for rows in np.array_split(np.arange(y.size), 1 + y.size // 50_000):
        z = (means[y[rows]] + rng.standard_normal((rows.size, means.shape[1]))) @ means.T + bias
        z = np.exp(z - z.max(axis=1, keepdims=True))
        proba[rows] = z / z.sum(axis=1, keepdims=True)
    return proba


def speed_table(world: World, n_loop: int) -> None:
    """Time all groups at once, a loop of our own estimator, and pandas with NumPy."""
    G = world.truth.shape[0]
    print("### Time and memory\n")
    head = ("method", "pooling", "all at once", "peak memory / input", "certified", "loop", "ratio")
    table(*head)
    for method in METHODS:
        estimator = world.fit(method)
        loop = scaled(lambda e=estimator: by_loop(e, world, n_loop), min(n_loop, G), G)
        for pooling in (None, "auto"):
            call = lambda e=estimator, p=pooling: estimate_groups(  # noqa: E731
                e, world.y_proba, world.groups, pooling=p
            )
            seconds, found = timed(call)
            share = peak(call) / world.y_proba.nbytes
            proved = (found.status != "not_converged").mean()
            row(
                method,
                pooling or "none",
                f"{seconds:.2f} s",
                f"{share:.2f}",
                f"{proved:.2%}",
                f"{loop:.1f} s",
                f"{loop / seconds:.1f}",
            )
    seconds = scaled(lambda: by_pandas(world, n_loop), min(n_loop, G), G)
    ours, _ = timed(
        lambda: estimate_groups(world.fit("em"), world.y_proba, world.groups, pooling=None)
    )
    print(
        f"\npandas groupby + {EM_STEPS} steps of EM in NumPy: {seconds:.1f} s, "
        f"{seconds / ours:.1f} times our certified EM of all groups."
    )
    counted, counts = timed(
        lambda: GroupCounts.from_arrays(world.y_proba, world.groups, decision="soft")
    )
    grouped, _ = timed(lambda: pd.DataFrame(world.y_proba).groupby(world.groups).sum())
    kept = sum(array.nbytes for array in vars(counts).values() if hasattr(array, "nbytes"))
    print(
        f"Counting alone, checks and products of decisions included: {counted:.2f} s, "
        f"{counted / grouped:.1f} times a bare pandas groupby sum in float32 ({grouped:.2f} s). "
        f"What is kept: {kept / 2**20:.1f} MB."
    )


def quality_table(world: World) -> None:
    """Compare the error of groups' priors, pooled and not."""
    print("\n### Root mean squared error of a group's priors (L2)\n")
    table("method", "each group alone", "one estimate for all", "pooled", "pooling (truth: 20)")
    for method in METHODS:
        estimator = world.fit(method)
        alone = estimate_groups(estimator, world.y_proba, world.groups, pooling=None)
        pooled = estimate_groups(estimator, world.y_proba, world.groups)
        errors = (
            np.sqrt(((priors - world.truth) ** 2).sum(axis=1).mean())
            for priors in (alone.priors, alone.whole.priors, pooled.priors)
        )
        row(method, *(f"{error:.3f}" for error in errors), f"{pooled.pooling:.1f}")


def by_loop(estimator: ps.PriorEstimator, world: World, n_loop: int) -> None:
    """Estimate some groups one by one, as one would without this module."""
    order = np.argsort(world.groups, kind="stable")
    ends = np.searchsorted(world.groups[order], np.arange(world.truth.shape[0] + 1))
    for g in sample(world, n_loop):
        estimator.estimate(world.y_proba[order[ends[g] : ends[g + 1]]])


def by_pandas(world: World, n_loop: int) -> None:
    """Group a frame and run the textbook EM on each of some groups."""
    chosen = np.isin(world.groups, sample(world, n_loop))
    frame = pd.DataFrame(world.y_proba[chosen])
    for _, rows in frame.groupby(world.groups[chosen]):
        values, p = rows.to_numpy(), world.source
        for _ in range(EM_STEPS):
            posterior = values * (p / world.source)
            p = (posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0)


def sample(world: World, n_loop: int) -> np.ndarray:
    """Choose groups to time a loop on."""
    G = world.truth.shape[0]
    return np.random.default_rng(1).choice(G, min(n_loop, G), replace=False)


def scaled(call: Callable[[], object], n_timed: int, n_groups: int) -> float:
    """Return the seconds that a loop over all groups would take."""
    return timed(call)[0] * n_groups / n_timed


def timed(call: Callable[[], object]) -> tuple[float, object]:
    """Return the seconds of the faster of two calls, and the result."""
    best = np.inf
    for _ in range(2):
        start = time.perf_counter()
        result = call()
        best = min(best, time.perf_counter() - start)
    return best, result


def peak(call: Callable[[], object]) -> int:
    """Return the most memory that a call holds at once, in bytes."""
    tracemalloc.start()
    call()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def table(*columns: str) -> None:
    """Print the head of a Markdown table."""
    row(*columns)
    row(*["---"] * len(columns))


def row(*cells: object) -> None:
    """Print a row of a Markdown table."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
