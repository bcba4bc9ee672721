"""The simulated shifts that methods are measured on, from the bundled and the shared outputs."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.special import softmax

from priorshift.compare import ShiftTask, shifted_tasks
from priorshift.datasets import load_fashion_lt

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
TEXTS = ("clinc150", "banking77")
HELD_OUT = (*TEXTS, "cifar100 wide_resnet", "cifar10lt wideresnet28", "mnist XGBoost")
"""Classifiers looked at last: only the final choices for Auto were made after seeing them."""


def all_tasks() -> Iterator[ShiftTask]:
    data = load_fashion_lt()
    index = {name: k for k, name in enumerate(data.classes)}
    y_val, y = (np.array([index[label] for label in part]) for part in (data.y_val, data.y_target))
    yield from shifted_tasks("fashion_lt", (data.y_proba_val, y_val), (data.y_proba_target, y))
    if DATA.is_dir():
        for family, train, validation, pool in shared_outputs():
            yield from shifted_tasks(family, validation, pool, train=train)


def zoo_tasks() -> Iterator[ShiftTask]:
    """Yield shifts of ordinary classifiers of tables."""
    for file in sorted((DATA / "zoo").glob("*.npz")):
        with np.load(file) as z:
            train, val, test = (
                (_normalised(z[f"{part}_proba"]), z[f"{part}_y"].astype(int))
                for part in ("train", "val", "test")
            )
        yield from shifted_tasks(file.stem, val, test, train=train)


def held_out_tasks() -> Iterator[ShiftTask]:
    """Yield shifts of the classifiers that are held out."""
    if not DATA.is_dir():
        return
    for name in TEXTS:
        with np.load(DATA / f"{name}.npz") as z:
            part = {key.removesuffix("_logits"): _proba(z[key]) for key in z if "logits" in key}
            train, test = (part["train_oof"], z["train_y"]), (part["test"], z["test_y"])
            val = (part["val"], z["val_y"]) if "val" in part else train
        yield from shifted_tasks(name, val, test, train=train)
    for file, net, val in (
        ("cifar100", "wide_resnet", "val"),
        ("cifar10lt", "wideresnet28", "val_lt"),
    ):
        with np.load(DATA / f"{file}_logits_4nets.npz") as z:
            parts = [(_proba(z[f"{net}__{p}_logits"]), z[f"{net}__{p}_y"]) for p in (val, "test")]
        yield from shifted_tasks(f"{file} {net}", *parts)
    with np.load(DATA / "mnist_probs_pycalib.npz") as z:
        y_proba, y = _normalised(z["XGBoost__probs"]), z["y"]
    yield from shifted_tasks(
        "mnist XGBoost", (y_proba[:2000], y[:2000]), (y_proba[2000:], y[2000:])
    )


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
