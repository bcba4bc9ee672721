"""How much every method gains under simulated prior shift, on real classifier outputs.

python -m benchmarks.quality [--part tasks zoo zoo-plain rare uci] [--methods auto,em,...]
    [--every N] [--family NAME] [--ablation]

tasks: deep networks and others on the bundled and the shared outputs. zoo: ordinary classifiers of
tables; zoo-plain: the same without source priors, as most people would call it. rare: a model
trained on balanced data, simulated. uci: class shares by a published protocol. `--ablation` takes
Auto apart on the zoo instead. Without ../shared/data only the bundled outputs and `rare` remain,
and the output says so.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from scipy.special import softmax

import priorshift as ps
from benchmarks.ablation import ablation
from benchmarks.judging import FIXED, judge, report
from benchmarks.rare import rare_events
from benchmarks.uci import published_protocol
from priorshift.datasets import load_fashion_lt
from priorshift.evaluation import ShiftTask, shifted_tasks

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
REPEATS = 20
BAGS = 100
"""Runs of `rare` and bags of `uci`, over `--every`."""

Tasks = Callable[[], Iterator[ShiftTask]]


def main() -> None:
    options = parse()
    warnings.simplefilter("ignore", UserWarning)
    parts = ["ablation"] if options.ablation else options.part
    for part in parts:
        start = time.perf_counter()
        print(f"## {part}\n", flush=True)
        for text in run(part, options):
            print(f"{text}\n", flush=True)
        print(f"{time.perf_counter() - start:.0f} s\n", flush=True)


PARTS = ("tasks", "zoo", "zoo-plain", "rare", "uci")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", nargs="+", default=PARTS, choices=PARTS, help="by default all")
    parser.add_argument("--methods", help='comma-separated, or "all"; by default the usual ones')
    parser.add_argument("--every", type=int, default=1, help="only every n-th task, run and bag")
    parser.add_argument("--family", help="only one classifier")
    parser.add_argument("--ablation", action="store_true", help="take Auto apart, on the zoo")
    return parser.parse_args(arguments)


def run(part: str, options: argparse.Namespace) -> Iterator[str]:
    """Yield the tables of one part."""
    methods = named(options.methods)
    if part == "rare":
        yield rare_events(methods, max(1, REPEATS // options.every))
    elif part == "uci":
        if (DATA / "uci").is_dir():
            yield published_protocol(DATA / "uci", methods, max(1, BAGS // options.every))
        else:
            yield "../shared/data/uci is absent: nothing was measured."
    else:
        yield from on_tasks(part, methods, options)


def named(methods: str | None) -> list[str]:
    if methods is None:
        return ["auto", *FIXED]
    names = ps.available_estimators() if methods == "all" else methods.split(",")
    return [name for name in names if name not in ("na", "em-labels")]


def on_tasks(part: str, methods: list[str], options: argparse.Namespace) -> Iterator[str]:
    if part == "tasks":
        if not DATA.is_dir():
            yield "../shared/data is absent: only the bundled Fashion-MNIST outputs were used."
        tasks: Tasks = partial(chosen, all_tasks, options)
    elif (DATA / "zoo").is_dir():
        tasks = partial(chosen, zoo_tasks, options)
    else:
        yield "../shared/data/zoo is absent: nothing was measured."
        return
    if part == "ablation":
        yield ablation(tasks)
    else:
        yield from report(judge(tasks(), methods, plain=part == "zoo-plain"), methods)


def chosen(tasks: Tasks, options: argparse.Namespace) -> Iterator[ShiftTask]:
    """Yield every n-th task of the families that are wanted."""
    wanted = (task for task in tasks() if options.family in (None, task.family))
    return islice(wanted, 0, None, options.every)


def zoo_tasks() -> Iterator[ShiftTask]:
    """Yield shifts of ordinary classifiers of tables."""
    for file in sorted((DATA / "zoo").glob("*.npz")):
        with np.load(file) as z:
            train, val, test = (
                (_normalised(z[f"{part}_proba"]), z[f"{part}_y"].astype(int))
                for part in ("train", "val", "test")
            )
        yield from shifted_tasks(file.stem, val, test, train=train)


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
