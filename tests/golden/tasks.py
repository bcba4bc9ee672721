"""Tasks whose results are frozen: data that anyone can draw again, in every form they come in."""

from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from scipy.sparse import csr_array

import priorshift as ps


@dataclass(frozen=True)
class Data:
    """Predictions on validation and target, with labels as column numbers."""

    y_proba_val: np.ndarray
    y_val: np.ndarray
    y_proba: np.ndarray
    y: np.ndarray
    source_priors: np.ndarray


@dataclass(frozen=True)
class Task:
    """How data are drawn, in which form methods get them, and how methods are asked.

    `sharpness` multiplies the logits of exact posteriors: not 1, outputs are miscalibrated.
    `shift` is the concentration of the target's Dirichlet; None leaves the priors alone.
    """

    name: str
    K: int
    n_val: int = 400
    n_target: int = 500
    spread: float = 1.5
    sharpness: float = 1.0
    shift: float | None = 1.0
    form: str = "array"
    solver: str = "certified"
    interval: str | None = "auto"
    seed: int = 0
    known_source: bool = False
    unseen: bool = False


QUICK = {
    *("K=2", "K=3", "too sure, K=3", "strong shift, K=3", "little validation, K=5"),
    *("as array", "as sparse", "as topk", "as pandas", "as decisions", "as groups"),
    *("known source priors", "an unseen class", "solver released", "interval bayesian"),
}
"""Tasks that every run of the tests can afford."""

FORMS = ("array", "float32", "sparse", "topk", "pandas", "polars", "arrow", "decisions", "groups")
"""What methods are given; "dask" must give what "array" gives, where Dask is installed."""

INTERVALS = dict.fromkeys(("array", "float32", "pandas", "polars", "arrow", "decisions"), "auto")
"""Forms that most methods give intervals for."""

TASKS = [
    # sizes, with and without calibration, and without a shift
    *(Task(f"K={K}", K) for K in (2, 3, 5, 10, 30)),
    *(Task(f"K={K}", K, 3 * K, 4 * K, spread=2.5) for K in (100, 300)),
    Task("K=1000", 1000, 3000, 3000, spread=3.0, interval=None),
    *(Task(f"too sure, K={K}", K, sharpness=2.0, seed=1) for K in (2, 3, 10, 30)),
    *(Task(f"too unsure, K={K}", K, sharpness=0.5, seed=2) for K in (2, 5, 10)),
    *(Task(f"no shift, K={K}", K, shift=None, seed=3) for K in (2, 3, 10, 100)),
    *(Task(f"strong shift, K={K}", K, shift=0.2, seed=4) for K in (2, 3, 10, 30)),
    *(Task(f"few rows, K={K}", K, 40 * K, 25, seed=5) for K in (2, 3, 10)),
    *(Task(f"little validation, K={K}", K, 8 * K, 800, seed=6) for K in (2, 5, 10)),
    *(Task(f"hard to tell apart, K={K}", K, spread=0.4, seed=7) for K in (2, 5, 10)),
    # forms
    *(Task(f"as {form}", 3, form=form, interval=INTERVALS.get(form), seed=8) for form in FORMS),
    Task("as sparse, K=100", 100, 1500, 1500, spread=3.0, form="sparse", interval=None, seed=9),
    Task("as topk, K=1000", 1000, 3000, 3000, spread=3.0, form="topk", interval=None, seed=9),
    Task("as decisions, K=30", 30, 1500, 900, form="decisions", seed=9),
    Task("as groups, K=10", 10, 800, 1500, form="groups", seed=9),
    # what users say of their data
    Task("known source priors", 4, known_source=True, seed=10),
    Task("an unseen class", 4, known_source=True, unseen=True, interval=None, seed=11),
    # how methods are asked
    *(Task(f"solver {solver}", 4, solver=solver, seed=12) for solver in ("paper", "released")),
    *(Task(f"interval {kind}", 3, interval=kind, seed=13) for kind in ("bootstrap", "bayesian")),
]


def draw(task: Task) -> Data:
    """Draw from Gaussian classes, whose posterior under the source priors is exact."""
    rng = np.random.default_rng([task.seed, task.K])
    means = task.spread * rng.standard_normal((task.K, 6 if task.K > 5 else 3))
    source = 0.4 / task.K + 0.6 * rng.dirichlet(np.ones(task.K))
    target = source if task.shift is None else rng.dirichlet(np.full(task.K, task.shift))
    target = 0.1 / task.K + 0.9 * target

    def sample(y: np.ndarray) -> np.ndarray:
        x = means[y] + rng.standard_normal((y.size, means.shape[1]))
        z = x @ means.T - 0.5 * (means**2).sum(axis=1) + np.log(source)
        z *= task.sharpness
        proba = np.exp(z - z.max(axis=1, keepdims=True))
        return proba / proba.sum(axis=1, keepdims=True)

    once = np.arange(task.K)  # every class is seen, so that all methods can be asked
    y_val = np.concatenate([once, rng.choice(task.K, task.n_val - task.K, p=source)])
    if task.unseen:
        y_val = y_val[y_val != task.K - 1]
    y = rng.choice(task.K, task.n_target, p=target)
    return Data(sample(y_val), y_val, sample(y), y, source)


def bundled() -> Data:
    """Return the set that comes with priorshift, without its names."""
    data = ps.datasets.load_fashion_lt()
    number = {name: k for k, name in enumerate(data.classes.tolist())}
    y_val, y = ([number[name] for name in names.tolist()] for names in (data.y_val, data.y_target))
    return Data(
        data.y_proba_val, np.array(y_val), data.y_proba_target, np.array(y), data.source_priors
    )


def in_form(y_proba: np.ndarray, form: str):
    """Return predictions as a user may have them."""
    columns = {str(k): y_proba[:, k] for k in range(y_proba.shape[1])}
    if form == "pandas":
        import pandas as pd

        return pd.DataFrame(columns)
    if form == "polars":
        import polars as pl

        return pl.DataFrame(columns)
    if form == "arrow":
        import pyarrow as pa

        return pa.table(columns)
    if form == "dask":
        import dask.array as da

        return da.from_array(y_proba, chunks=(max(1, len(y_proba) // 3), y_proba.shape[1]))
    if form == "float32":
        return y_proba.astype(np.float32)
    if form == "sparse":
        kept = np.where(y_proba < 1e-4, 0, y_proba)
        return csr_array(kept / kept.sum(axis=1, keepdims=True))
    if form == "topk":
        best = np.argsort(-y_proba, axis=1)[:, : min(5, y_proba.shape[1] - 1)]
        return ps.TopK(
            best, np.take_along_axis(y_proba, best, 1), n_classes=y_proba.shape[1], rest="spread"
        )
    return y_proba


def has(form: str) -> bool:
    """Tell whether the package that a form needs is installed."""
    package = {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow", "dask": "dask.array"}
    return form not in package or find_spec(package[form].split(".")[0]) is not None
