"""Many groups at once, beside a loop over groups and beside pandas with NumPy, in one run.

    python -m lab groups [--groups 10000] [--rows 1000000] [--classes 20] [--loop 300]

A loop is timed on a sample of `--loop` groups and scaled up to all of them.
"""

import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd

import priorshift as ps
from lab.show import fastest, head, parse, peak, row
from lab.worlds import class_means, draw, tail

EM_STEPS = 100
"""Of the plain EM by hand; it has no certificate, so it is given what people give it."""

METHODS = ("scm-l", "cm-l", "scm", "em")


def main(arguments: list[str] | None = None) -> None:
    """Print time, peak memory and error as tables."""
    options = parse(__doc__, arguments, groups=10_000, rows=1_000_000, classes=20, loop=300)
    warnings.simplefilter("ignore", ps.PriorShiftWarning)
    warnings.simplefilter("ignore", ps.ConvergenceWarning)
    world = World(options.groups, options.rows, options.classes)
    size = world.y_proba.nbytes / 2**20
    print(
        f"{options.groups:,} groups, {options.rows:,} rows, {options.classes} classes "
        f"(float32, {size:.0f} MB); priors of groups from a Dirichlet with a total of 20."
    )
    speed_table(world, min(options.loop, options.groups))
    quality_table(world)


class World:
    """A target whose groups have priors of their own, and sizes from 1 to some hundreds."""

    def __init__(self, n_groups: int, n_rows: int, n_classes: int) -> None:
        rng = np.random.default_rng(0)
        means, self.source = class_means(n_classes, rng), tail(n_classes, 100.0)
        self.y_val = rng.integers(n_classes, size=200 * n_classes)
        self.y_proba_val = draw(means, self.source, self.y_val, rng)
        self.truth = rng.dirichlet(20 * rng.dirichlet(np.full(n_classes, 3.0)), n_groups)
        share = rng.dirichlet(np.full(n_groups, 1.0))
        self.groups = rng.choice(n_groups, n_rows, p=share)
        self.groups[:n_groups] = np.arange(n_groups)  # none is empty
        cumulated = self.truth.cumsum(axis=1)[self.groups]
        y = np.minimum((rng.random((n_rows, 1)) > cumulated).sum(axis=1), n_classes - 1)
        self.y_proba = draw(means, self.source, y, rng)

    def fit(self, method: str) -> ps.PriorEstimator:
        """Fit a method on validation."""
        return ps.get_estimator(method).fit(self.y_proba_val, self.y_val, source_priors=self.source)

    def estimate(self, estimator: ps.PriorEstimator, pooling: object) -> ps.GroupEstimates:
        """Estimate all groups at once."""
        return ps.estimate_groups(estimator, self.y_proba, self.groups, pooling=pooling)


def speed_table(world: World, n_loop: int) -> None:
    """Time all groups at once, a loop of our own estimator, and pandas with NumPy."""
    G = world.truth.shape[0]
    some = np.random.default_rng(1).choice(G, n_loop, replace=False)

    def scaled(call: Callable[[], object]) -> float:
        return fastest(2, call)[0] * G / n_loop

    columns = ("all at once", "peak memory / input", "certified", "loop", "ratio")
    head("Time and memory", "method", "pooling", *columns)
    for method in METHODS:
        estimator = world.fit(method)
        loop = scaled(lambda e=estimator: by_loop(e, world, some))
        for pooling in (None, "auto"):
            call = lambda e=estimator, p=pooling: world.estimate(e, p)  # noqa: E731
            (seconds,), found = fastest(2, call), call()
            share = peak(call) / world.y_proba.nbytes
            proved = (found.status != "not_converged").mean()
            times = (f"{loop:.1f} s", f"{loop / seconds:.1f}")
            row(
                method,
                pooling or "none",
                f"{seconds:.2f} s",
                f"{share:.2f}",
                f"{proved:.2%}",
                *times,
            )
    seconds = scaled(lambda: by_pandas(world, some))
    (ours,) = fastest(2, lambda: world.estimate(world.fit("em"), None))
    print(
        f"\npandas groupby + {EM_STEPS} steps of EM in NumPy: {seconds:.1f} s, "
        f"{seconds / ours:.1f} times our certified EM of all groups."
    )

    def count() -> ps.GroupCounts:
        return ps.GroupCounts.from_arrays(world.y_proba, world.groups, decision="soft")

    frame = pd.DataFrame(world.y_proba)
    counted, grouped = fastest(2, count, lambda: frame.groupby(world.groups).sum())
    kept = sum(array.nbytes for array in vars(count()).values() if hasattr(array, "nbytes"))
    print(
        f"Counting alone, checks and products of decisions included: {counted:.2f} s, "
        f"{counted / grouped:.1f} times a bare pandas groupby sum in float32 ({grouped:.2f} s). "
        f"What is kept: {kept / 2**20:.1f} MB."
    )


def quality_table(world: World) -> None:
    """Compare the error of groups' priors, pooled and not."""
    columns = ("each group alone", "one estimate for all", "pooled", "pooling (truth: 20)")
    head("Root mean squared error of a group's priors (L2)", "method", *columns)
    for method in METHODS:
        estimator = world.fit(method)
        alone, pooled = (world.estimate(estimator, pooling) for pooling in (None, "auto"))
        errors = (
            np.sqrt(((priors - world.truth) ** 2).sum(axis=1).mean())
            for priors in (alone.priors, alone.whole.priors, pooled.priors)
        )
        row(method, *(f"{error:.3f}" for error in errors), f"{pooled.pooling:.1f}")


def by_loop(estimator: ps.PriorEstimator, world: World, some: np.ndarray) -> None:
    """Estimate some groups one by one, as one would without this module."""
    order = np.argsort(world.groups, kind="stable")
    ends = np.searchsorted(world.groups[order], np.arange(world.truth.shape[0] + 1))
    for g in some:
        estimator.estimate(world.y_proba[order[ends[g] : ends[g + 1]]])


def by_pandas(world: World, some: np.ndarray) -> None:
    """Group a frame and run the textbook EM on each of some groups."""
    chosen = np.isin(world.groups, some)
    for _, rows in pd.DataFrame(world.y_proba[chosen]).groupby(world.groups[chosen]):
        values, p = rows.to_numpy(), world.source
        for _ in range(EM_STEPS):
            posterior = values * (p / world.source)
            p = (posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0)
