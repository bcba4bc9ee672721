"""Train a classifier, perhaps a second one for new priors, and store what they say."""

import json
import platform
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from priorshift._typing import Indices
from priorshift._version import __version__
from priorshift.evaluation.paper import StoredOutputs
from priorshift.io import write_text
from priorshift.training._images import ImageData, Images
from priorshift.training._recipe import BATCH_SIZE, Plan
from priorshift.training._split import split
from priorshift.training._torch import require_torch

if TYPE_CHECKING:
    from priorshift.training._loop import Epoch, Watcher


@dataclass(frozen=True, eq=False)
class Parts:
    """Rows that a run trains, validates and tests on."""

    train: tuple[Images, Indices]
    val: tuple[Images, Indices]
    test: tuple[Images, Indices]


def draw(data: ImageData, plan: Plan) -> Parts:
    """Draw the training subset and validation of a plan; the test images are all of them."""
    rng = np.random.default_rng([plan.seed, data.n_classes])
    test = data.test, np.arange(data.test.y.size)
    if data.val is None:
        train, val = split(data.train.y, plan.source, rng, largest=plan.largest)
        return Parts((data.train, train), (data.train, val), test)
    if plan.source != "LT" or plan.largest is not None:
        raise ValueError(f"{data.name} comes long-tailed; it is LT, and taken whole.")
    every = np.arange(data.train.y.size), np.arange(data.val.y.size)
    return Parts((data.train, every[0]), (data.val, every[1]), test)


def train_classifier(
    data: ImageData,
    plan: Plan,
    folder: Path,
    *,
    retrain: str | None = None,
    initial_weights: Path | None = None,
    device: str = "cpu",
    watch: "Watcher" = lambda _: None,
) -> Path:
    """Train a classifier and store its logits in `folder/<plan.name>.npz`.

    Where it came from and how accurate it is stands in a JSON file beside it. A run that was
    interrupted goes on where it stopped, from `*.checkpoint.pt` in the same folder, which are
    removed in the end. A finished run is left as it is.

    Parameters
    ----------
    data : ImageData
    plan : Plan
        Its sampler must be None: see `retrain`.
    folder : Path
        Made if there is none.
    retrain : str, optional
        A class distribution. A second network is trained with a sampler that follows it, and its
        test outputs are stored as `retrained_logits`.
    initial_weights : Path, optional
        Weights to begin with, a PyTorch file of tensors; a last layer of another size is left out.
    device : str
        Of PyTorch: "cpu" or "cuda".
    watch : callable, optional
        Told of every batch.

    Returns
    -------
    Path
        Of the npz.
    """
    require_torch()
    if plan.sampler is not None:
        raise ValueError("the first network has no sampler; `retrain` trains one that has.")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{plan.name}.npz"
    if _is_finished(path, plan, retrain):
        return path
    parts = draw(data, plan)
    plans = [plan] if retrain is None else [plan, replace(plan, sampler=retrain)]
    checkpoints = [_checkpoint(path, each) for each in plans]
    trained = [
        _train(data, parts, each, checkpoint, initial_weights, device, watch)
        for each, checkpoint in zip(plans, checkpoints, strict=True)
    ]
    first = trained[0][0]
    outputs = StoredOutputs.of(
        path.stem,
        train=first["train"],
        val=first["val"],
        test=first["test"],
        retrained=None if retrain is None else trained[1][0]["test"],
    )
    outputs.save(path)
    record = _provenance(plan, parts, outputs, retrain, device, [found[1] for found in trained])
    write_text(path.with_suffix(".json"), json.dumps(record, indent=1) + "\n")
    for checkpoint in checkpoints:
        checkpoint.unlink()
    return path


def _is_finished(path: Path, plan: Plan, retrain: str | None) -> bool:
    """Tell whether this very run was stored already; another in its place is not overwritten."""
    record = path.with_suffix(".json")
    if not (path.exists() and record.exists()):
        return False
    stored = json.loads(record.read_text("utf-8"))
    asked = {"seed": plan.seed, "epochs": plan.n_epochs, "retrained_for": retrain}
    found = {name: stored.get(name) for name in asked}
    if found != asked:
        raise ValueError(
            f"{path} is of another run ({found}); remove it, or write into another folder."
        )
    return True


def _checkpoint(path: Path, plan: Plan) -> Path:
    name = path.stem if plan.sampler is None else f"{path.stem}-retrained-{plan.sampler}"
    return path.with_name(f"{name}.checkpoint.pt")


def _train(
    data: ImageData,
    parts: Parts,
    plan: Plan,
    checkpoint: Path,
    initial_weights: Path | None,
    device: str,
    watch: "Watcher",
) -> tuple[dict[str, Any], list["Epoch"]]:
    from priorshift.training._loop import Scale, predict_logits, train_network
    from priorshift.training._networks import make_network
    from priorshift.training._weights import load_weights

    torch = require_torch()
    images, rows = parts.train
    n_channels = images.pixels(rows[:1]).shape[-1]
    network = make_network(plan.recipe.network, data.n_classes, n_channels, plan.seed)
    if initial_weights is not None:
        load_weights(network, initial_weights)
    network.to(device)
    scale = Scale.of(images, rows, torch.device(device))
    history = train_network(network, images, rows, plan, scale, checkpoint=checkpoint, watch=watch)
    wanted = {"test": parts.test}
    if plan.sampler is None:
        wanted |= {"train": parts.train, "val": parts.val}
    outputs = {
        name: (predict_logits(network, *part, plan.recipe.size, scale), part[0].y[part[1]])
        for name, part in wanted.items()
    }
    return outputs, history


def _provenance(
    plan: Plan,
    parts: Parts,
    outputs: StoredOutputs,
    retrain: str | None,
    device: str,
    histories: list[list["Epoch"]],
) -> dict[str, Any]:
    images, rows = parts.train
    known = ("train", "val", "test") if retrain is None else ("train", "val", "test", "retrained")
    return {
        "dataset": plan.dataset,
        "source": plan.source,
        "seed": plan.seed,
        "train_counts": np.bincount(images.y[rows], minlength=outputs.n_classes).tolist(),
        "n_val": outputs.val.y.size,
        "n_test": outputs.test.y.size,
        "network": plan.recipe.network,
        "epochs": plan.n_epochs,
        "epochs_of_the_recipe": plan.recipe.n_epochs,
        "batch_size": BATCH_SIZE,
        "retrained_for": retrain,
        "accuracy": {name: _accuracy(outputs, name) for name in known},
        "history": [[asdict(epoch) for epoch in history] for history in histories],
        "device": device,
        "versions": {
            "priorshift": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": str(require_torch().__version__),
        },
    }


def _accuracy(outputs: StoredOutputs, name: str) -> float:
    part = getattr(outputs, name)
    return round(float((part.logits.argmax(axis=1) == part.y).mean()), 4)
