"""How much accuracy every method gains under simulated prior shift, on real classifier outputs.

python -m benchmarks.quality [--methods auto,em,...] [--every N] [--family NAME]

Without ../shared/data only the bundled data are used, and the table says so.
"""

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.special import softmax

import priorshift as ps
from priorshift.datasets import load_fashion_lt
from priorshift.evaluation import ShiftTask, shifted_tasks

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
LARGE = 1000
"""Targets of at least this many rows must not be harmed."""


def main() -> None:
    options = parse()
    warnings.simplefilter("ignore", UserWarning)
    methods = options.methods.split(",") if options.methods else ps.available_estimators()
    methods = [method for method in methods if method != "na"]
    tasks = [t for t in all_tasks() if options.family in (None, t.family)][:: options.every]
    start = time.perf_counter()
    gains = np.array([[gain(task, method) for method in [*methods, "oracle"]] for task in tasks])
    if not DATA.is_dir():
        print("../shared/data is absent: only the bundled Fashion-MNIST outputs were used.\n")
    show("family", [task.family for task in tasks], gains, methods)
    show("shift", [task.shift for task in tasks], gains, methods)
    show("target rows", [str(task.y_target.size) for task in tasks], gains, methods)
    summarise(tasks, gains[:, :-1], methods)
    print(f"\n{len(tasks)} tasks, {time.perf_counter() - start:.0f} s")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", help="comma-separated, by default all")
    parser.add_argument("--every", type=int, default=1, help="only every n-th task")
    parser.add_argument("--family", help="only one classifier")
    return parser.parse_args()


def gain(task: ShiftTask, method: str) -> float:
    """Return the gain in accuracy over no adaptation, in points; NaN where a method refuses."""
    before = task.y_proba_target.argmax(axis=1)
    try:
        if method == "oracle":
            truth = np.bincount(task.y_target, minlength=task.source_priors.size)
            priors = truth / truth.sum()
            after = ps.adapt_proba(task.y_proba_target, task.source_priors, priors)
        else:
            estimator = ps.get_estimator(method).fit(task.y_proba_val, task.y_val, **task.given)
            after = estimator.adapt(task.y_proba_target)
    except ValueError:
        return np.nan
    hits = (after.argmax(axis=1) == task.y_target).mean() - (before == task.y_target).mean()
    return 100 * float(hits)


def show(what: str, groups: list[str], gains: np.ndarray, methods: list[str]) -> None:
    names = [*methods, "oracle"]
    print(f"**Mean gain in accuracy over no adaptation, points, by {what}**\n")
    print(f"| {what} | " + " | ".join(names) + " |")
    print("|---" * (len(names) + 1) + "|")
    for group in dict.fromkeys(groups):
        rows = gains[[g == group for g in groups]]
        print(f"| {group} | " + " | ".join(f"{x:+.2f}" for x in np.nanmean(rows, axis=0)) + " |")
    print()


def summarise(tasks: list[ShiftTask], gains: np.ndarray, methods: list[str]) -> None:
    """Print gain, regret to the best fixed method of each task, harm, and harm under no shift."""
    fixed = [m != "auto" for m in methods]
    best = np.nanmax(gains[:, fixed], axis=1, initial=0.0) if any(fixed) else np.zeros(len(gains))
    large = np.array([task.y_target.size >= LARGE for task in tasks])
    none = np.array([task.shift == "none" for task in tasks])
    print("**All tasks**\n")
    print("| method | gain | regret to the best fixed | worst | worst, large targets | no shift |")
    print("|---|---|---|---|---|---|")
    for method, column in zip(methods, gains.T, strict=True):
        cells = (
            np.nanmean(column),
            np.nanmean(best - column),
            np.nanmin(column),
            np.nanmin(column[large]) if large.any() else np.nan,
            np.nanmean(column[none]) if none.any() else np.nan,
        )
        print(f"| {method} | " + " | ".join(f"{x:+.2f}" for x in cells) + " |")


def all_tasks() -> Iterator[ShiftTask]:
    data = load_fashion_lt()
    index = {name: k for k, name in enumerate(data.classes)}
    y_val, y = (np.array([index[label] for label in part]) for part in (data.y_val, data.y_target))
    yield from shifted_tasks("fashion_lt", (data.y_proba_val, y_val), (data.y_proba_target, y))
    if DATA.is_dir():
        for family, train, validation, pool in shared_outputs():
            yield from shifted_tasks(family, validation, pool, train=train)


def shared_outputs() -> Iterator[tuple]:
    """Yield family, training outputs or None, validation and pool of the shared data."""
    z = np.load(DATA / "cifar100_logits_4nets.npz")
    for net in ("resnet50", "densenet121"):
        parts = [(_proba(z[f"{net}__{p}_logits"]), z[f"{net}__{p}_y"]) for p in ("val", "test")]
        yield f"cifar100 {net}", None, *parts
    z = np.load(DATA / "cifar100lt_if100_logits.npz")
    for net in ("ce_baseline", "ride_ce_expert_0"):
        y_proba, y = _proba(z[f"{net}__pool_logits"]), z["pool_y"]
        held = np.zeros(y.size, dtype=bool)
        rng = np.random.default_rng(0)
        for k in range(100):
            rows = np.flatnonzero(y == k)
            held[rng.choice(rows, min(rows.size // 2, 20), replace=False)] = True
        train = _proba(z[f"{net}__train_logits"]), z["train_y"]
        yield f"cifar100lt {net}", train, (y_proba[held], y[held]), (y_proba[~held], y[~held])
    z = np.load(DATA / "cifar10lt_logits_4nets.npz")
    for net in ("resnet110", "densenet40"):
        parts = [(_proba(z[f"{net}__{p}_logits"]), z[f"{net}__{p}_y"]) for p in ("val_lt", "test")]
        yield f"cifar10lt {net}", None, *parts
    z = np.load(DATA / "plankton121.npz")
    parts = [(_proba(z[f"{p}_logits"]), z["y"][z[f"{p}_idx"]]) for p in ("train", "val", "test")]
    yield "plankton", *parts
    z = np.load(DATA / "mnist_probs_pycalib.npz")
    for model in ("AdaBoost", "random_forest"):
        y_proba, y = _normalised(z[f"{model}__probs"]), z["y"]
        yield f"mnist {model}", None, (y_proba[:2000], y[:2000]), (y_proba[2000:], y[2000:])
    z = np.load(DATA / "label_errors_cv_probs.npz")
    y_proba, y = _normalised(z["20news__cv_probs"]), z["20news__y"]
    rows = np.random.default_rng(0).permutation(y.size)
    y_proba, y = y_proba[rows], y[rows]
    yield "20news", None, (y_proba[:2000], y[:2000]), (y_proba[2000:], y[2000:])


def _proba(logits: np.ndarray) -> np.ndarray:
    return softmax(logits.astype(np.float64), axis=1)


def _normalised(proba: np.ndarray) -> np.ndarray:
    proba = proba.astype(np.float64)
    return proba / proba.sum(axis=1, keepdims=True)


if __name__ == "__main__":
    main()
