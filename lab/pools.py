"""Outputs of real classifiers, and the shifts drawn from them.

`make data` builds most of them; `lab/outputs` has those of our own networks. The others, in
`../shared/data`, are no part of the project. A command says what it lacks where a folder is absent.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lab.shifts import ShiftTask, shifted_tasks
from lab.worlds import softmax
from priorshift.datasets import load_fashion_lt

REPOSITORY = Path(__file__).resolve().parents[1]
POOLS = REPOSITORY / "data"
"""What `make data` builds."""

DATA = REPOSITORY.parent / "shared" / "data"
"""Further outputs, for the tables of docs/further.md."""

Pool = tuple[np.ndarray, np.ndarray]
"""Probabilities and labels, which are column numbers."""

OUTPUTS = Path(__file__).with_name("outputs")
TEXTS = ("clinc150", "banking77")


def require_data(what: str, folder: Path, *parts: str) -> None:
    """End the command with a sentence where outputs are absent: of a folder, or of some parts."""
    needed = [folder / part for part in parts] or [folder]
    absent = next((place for place in needed if not any(place.glob("*.npz"))), None)
    if absent is not None:
        remedy = (
            "`make data` builds it" if POOLS in (absent, *absent.parents) else "name it by --data"
        )
        sys.exit(f"{what} needs stored outputs, and there are none in {absent}: {remedy}.")


def network(folder: Path, file: str, net: str, part: str) -> Pool:
    """Return what a network says of a part of its images."""
    with np.load(folder / f"{file}_logits_4nets.npz") as z:
        y = z[f"{net}__{part}_y"].astype(int)
        return softmax(z[f"{net}__{part}_logits"].astype(np.float64)), y


def stored(path: Path, part: str) -> Pool:
    """Return the probabilities of a part, rescaled to sum to 1, and its labels."""
    with np.load(path) as z:
        return normalised(z[f"{part}_proba"]), z[f"{part}_y"].astype(int)


def mnist(folder: Path, model: str) -> Pool:
    """Return what a model of digits says."""
    with np.load(folder / "mnist_probs_pycalib.npz") as z:
        return normalised(z[f"{model}__probs"]), z["y"].astype(int)


def own_network(name: str, part: str) -> Pool:
    """Return what a network that we trained says of a part of its images."""
    with np.load(OUTPUTS / f"{name}.npz") as z:
        return softmax(z[f"{part}_logits"].astype(np.float64)), z[f"{part}_y"].astype(int)


def bundled() -> tuple[Pool, Pool, np.ndarray]:
    """Return validation, target and source priors of the data that come with the library."""
    data = load_fashion_lt()
    column = {name: k for k, name in enumerate(data.classes.tolist())}
    y_val, y = (
        np.array([column[name] for name in labels.tolist()])
        for labels in (data.y_val, data.y_target)
    )
    return (data.y_proba_val, y_val), (data.y_proba_target, y), data.source_priors


def normalised(proba: np.ndarray) -> np.ndarray:
    """Rescale what was stored with few digits."""
    proba = proba.astype(np.float64)
    return proba / proba.sum(axis=1, keepdims=True)


def network_tasks() -> Iterator[ShiftTask]:
    """Yield shifts of the bundled outputs, and of one network of each kind that we trained."""
    val, target, _ = bundled()
    yield from shifted_tasks("fashion_lt", val, target)
    for file in sorted(OUTPUTS.glob("*-0.npz")):
        train, val, test = (own_network(file.stem, part) for part in ("train", "val", "test"))
        yield from shifted_tasks(file.stem.removesuffix("-0"), val, test, train=train)


def zoo_tasks(folder: Path = POOLS) -> Iterator[ShiftTask]:
    """Yield shifts of ordinary classifiers of tables."""
    for file in sorted((folder / "zoo").glob("*.npz")):
        train, val, test = (stored(file, part) for part in ("train", "val", "test"))
        yield from shifted_tasks(file.stem, val, test, train=train)


def further_tasks(folder: Path) -> Iterator[ShiftTask]:
    """Yield the shifts that defaults were first chosen on."""
    for family, train, validation, pool in shared_outputs(folder):
        yield from shifted_tasks(family, validation, pool, train=train)


def held_out_tasks(folder: Path) -> Iterator[ShiftTask]:
    """Yield shifts of classifiers looked at last: after that, only final choices were made."""
    for name in TEXTS:
        with np.load(folder / f"{name}.npz") as z:
            part = {
                key.removesuffix("_logits"): softmax(z[key].astype(np.float64))
                for key in z
                if "logits" in key
            }
            train, test = (part["train_oof"], z["train_y"]), (part["test"], z["test_y"])
            val = (part["val"], z["val_y"]) if "val" in part else train
        yield from shifted_tasks(name, val, test, train=train)
    for file, net, val in (
        ("cifar100", "wide_resnet", "val"),
        ("cifar10lt", "wideresnet28", "val_lt"),
    ):
        yield from shifted_tasks(
            f"{file} {net}", *(network(folder, file, net, p) for p in (val, "test"))
        )
    yield from shifted_tasks("mnist XGBoost", *cut(mnist(folder, "XGBoost")))


def cut(pool: Pool) -> tuple[Pool, Pool]:
    """Take the first 2000 rows as validation."""
    return tuple((pool[0][rows], pool[1][rows]) for rows in (slice(2000), slice(2000, None)))


def shared_outputs(folder: Path) -> Iterator[tuple]:
    """Yield family, training outputs or None, validation and pool of the shared data."""
    for file, nets, val in (
        ("cifar100", ("resnet50", "densenet121"), "val"),
        ("cifar10lt", ("resnet110", "densenet40"), "val_lt"),
    ):
        for net in nets:
            yield (
                f"{file} {net}",
                None,
                *(network(folder, file, net, part) for part in (val, "test")),
            )
        if file == "cifar100":
            yield from _cifar100lt(folder)
    with np.load(folder / "plankton121.npz") as z:
        parts = [
            (softmax(z[f"{p}_logits"].astype(np.float64)), z["y"][z[f"{p}_idx"]])
            for p in ("train", "val", "test")
        ]
    yield "plankton", *parts
    for model in ("AdaBoost", "random_forest"):
        yield f"mnist {model}", None, *cut(mnist(folder, model))
    with np.load(folder / "label_errors_cv_probs.npz") as z:
        y_proba, y = normalised(z["20news__cv_probs"]), z["20news__y"]
    rows = np.random.default_rng(0).permutation(y.size)
    yield "20news", None, *cut((y_proba[rows], y[rows]))


def _cifar100lt(folder: Path) -> Iterator[tuple]:
    """Yield two networks; up to 20 rows of every class validate."""
    with np.load(folder / "cifar100lt_if100_logits.npz") as z:
        y = z["pool_y"]
        for net in ("ce_baseline", "ride_ce_expert_0"):
            y_proba = softmax(z[f"{net}__pool_logits"].astype(np.float64))
            held = np.zeros(y.size, dtype=bool)
            rng = np.random.default_rng(0)
            for k in range(100):
                rows = np.flatnonzero(y == k)
                held[rng.choice(rows, min(rows.size // 2, 20), replace=False)] = True
            train = softmax(z[f"{net}__train_logits"].astype(np.float64)), z["train_y"]
            yield f"cifar100lt {net}", train, (y_proba[held], y[held]), (y_proba[~held], y[~held])


ZOO = {
    "ring, naive Bayes": "zoo/ring_lt_nb.npz",
    "satimage, random forest": "zoo/satimage_nat_rf.npz",
    "optdigits, naive Bayes": "zoo/optdigits_lt_nb.npz",
    "letter": "uci/letter.npz",
}


def unseen_pools(folder: Path) -> dict[str, Pool]:
    """Return the real outputs that no constant of a promise was chosen on, by name."""
    found = {}
    for name, file in ZOO.items():
        kept = ("val",) if file.startswith("uci") else ("val", "test")  # there another model tests
        parts = zip(*(stored(folder / file, part) for part in kept), strict=True)
        found[name] = tuple(map(np.concatenate, parts))
    return found | {"CIFAR-10-LT450": own_network("cifar-10-LT450-0", "test")}
