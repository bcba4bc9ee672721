"""Train a classifier as the paper does, and store its outputs: recipes, plans and runs."""

import json
import platform
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lab.paper.distributions import IMBALANCES, OWN, Indices, require_known, split
from lab.paper.images import ImageData, Images, with_label_noise
from lab.paper.outputs import StoredOutputs
from priorshift import __version__
from priorshift.files import write_text

if TYPE_CHECKING:
    from lab.paper.networks import Epoch, Watcher

BATCH_SIZE = 256
MOMENTUM = 0.9
WEIGHT_DECAY = 1e-4


@dataclass(frozen=True)
class Recipe:
    """How the paper trains a data set: network, schedule and augmentation.

    Attributes
    ----------
    network : {"small", "resnet-32", "resnet-18"}
    n_epochs : int
        Epochs in the paper; another number scales the schedule.
    learning_rate : float
        Initial learning rate.
    decay_every : int
        The learning rate falls to a tenth after this many of the paper's epochs.
    size : int
        Side of the images that the network sees.
    padding : int
        Black pixels added on each side before a random square is cut out.

    Examples
    --------
    >>> recipe = RECIPES["cifar-100"]
    >>> [round(recipe.rate(epoch, 200), 4) for epoch in (0, 79, 80, 160)]
    [0.1, 0.1, 0.01, 0.001]
    >>> [round(recipe.rate(epoch, 10), 4) for epoch in (0, 3, 4, 8)]
    [0.1, 0.1, 0.01, 0.001]
    """

    network: str
    n_epochs: int
    learning_rate: float
    decay_every: int
    size: int
    padding: int

    def rate(self, epoch: int, n_epochs: int) -> float:
        """Return the learning rate of one of `n_epochs` epochs."""
        return self.learning_rate * 0.1 ** (epoch * self.n_epochs // (n_epochs * self.decay_every))


RECIPES = {
    "fashion-mnist": Recipe("small", 30, 0.1, 12, 28, 2),  # ours: not in the paper
    "cifar-10": Recipe("resnet-32", 200, 0.1, 80, 32, 4),
    "cifar-100": Recipe("resnet-32", 200, 0.1, 80, 32, 4),
    "places365": Recipe("resnet-18", 30, 0.01, 10, 224, 0),
    "places365-lt": Recipe("resnet-18", 30, 0.01, 10, 224, 0),
    "imagenet-lt": Recipe("resnet-18", 90, 0.1, 30, 224, 0),
    "list": Recipe("resnet-18", 90, 0.1, 30, 224, 0),  # as ImageNet
}
"""How each data set is trained (the paper's supplement A)."""


@dataclass(frozen=True)
class Plan:
    """One network to train.

    Attributes
    ----------
    dataset : str
        One of `RECIPES`.
    source : str
        Class distribution of the training images.
    sampler : str or None
        Class distribution that batches follow, drawn with replacement. None uses every image once
        per epoch.
    seed : int
        Seed of the subset, the initial weights, the batches and their augmentation.
    n_epochs : int
    largest : int or None
        Training images of the most frequent class; None means as many as there are.
    label_noise : float
        Share of wrong training labels, a mean over classes: see `with_label_noise`. Validation and
        test labels stay right.
    learning_rate : float or None
        At the start; None means the recipe's.
    """

    dataset: str
    source: str = "LT"
    sampler: str | None = None
    seed: int = 0
    n_epochs: int = 1
    largest: int | None = None
    label_noise: float = 0.0
    learning_rate: float | None = None

    def __post_init__(self) -> None:
        require_known(self.dataset, RECIPES, "dataset")
        require_known(self.source, (*IMBALANCES, OWN), "source")
        if self.sampler is not None:
            require_known(self.sampler, IMBALANCES, "sampler")
        if self.n_epochs < 1:
            raise ValueError(f"n_epochs must be at least 1; got {self.n_epochs!r}.")
        if not 0 <= self.label_noise <= 0.5:
            raise ValueError(f"label_noise must be from 0 to 0.5; got {self.label_noise!r}.")
        if self.learning_rate is not None and not 0 < self.learning_rate < np.inf:
            raise ValueError(f"learning_rate must be above 0; got {self.learning_rate!r}.")

    @property
    def recipe(self) -> Recipe:
        """How the paper trains this data set."""
        recipe = RECIPES[self.dataset]
        rate = self.learning_rate
        return recipe if rate is None else replace(recipe, learning_rate=rate)

    @property
    def name(self) -> str:
        """Name of its files: data set and source, then `largest` and percent of noise if any."""
        noise = f"-noise{100 * self.label_noise:g}" if self.label_noise else ""
        return f"{self.dataset}-{self.source}{self.largest or ''}{noise}"


class Parts(NamedTuple):
    """Images and rows that a run trains, validates and tests on."""

    train: tuple[Images, Indices]
    val: tuple[Images, Indices]
    test: tuple[Images, Indices]


def draw(data: ImageData, plan: Plan) -> Parts:
    """Draw the training and validation rows of a plan; the test rows are all test images."""
    rng = np.random.default_rng([plan.seed, data.n_classes])
    images, held = data.train, data.train if data.val is None else data.val
    if data.val is None:
        train, val = split(images.y, plan.source, rng, largest=plan.largest)
    else:
        whole = OWN if data.name == "list" else "LT"
        if plan.source != whole or plan.largest is not None:
            raise ValueError(
                f"{data.name} comes with a validation list and is used whole: leave out `largest`, "
                f"and source must be {whole!r}."
            )
        train, val = np.arange(images.y.size), np.arange(held.y.size)
    if plan.label_noise:
        rng = np.random.default_rng([plan.seed, data.n_classes, 1])  # rows stay as without noise
        images = with_label_noise(images, train, plan.label_noise, rng)
    return Parts((images, train), (held, val), (data.test, np.arange(data.test.y.size)))


def train_classifier(
    data: ImageData,
    plan: Plan,
    folder: Path,
    *,
    retrain: str | None = None,
    initial_weights: Path | None = None,
    device: str = "cpu",
    watch: "Watcher" = lambda *_: None,
) -> Path:
    """Train a classifier and store its logits in `folder/<plan.name>.npz`.

    A JSON file beside it says how it was made and how accurate it is. An interrupted run continues
    from the files `*.checkpoint.pt` in the same folder, which are removed at the end. A finished
    run is left as it is.

    Parameters
    ----------
    data : ImageData
    plan : Plan
        Its sampler must be None: see `retrain`.
    folder : Path
        Where to write; created if necessary.
    retrain : str, optional
        A class distribution. Train a second network with a sampler that follows it, and store its
        test outputs as `retrained_logits`.
    initial_weights : Path, optional
        Weights to start from, a PyTorch file of tensors; a last layer of another size is ignored.
    device : str
        PyTorch's name of the device, such as "cpu" or "cuda".
    watch : callable, optional
        Called with the plan and an `Epoch` after every epoch.

    Returns
    -------
    Path
        Path of the npz.
    """
    require_torch()
    if plan.sampler is not None:
        raise ValueError("the first network has no sampler; use `retrain` to train one that has.")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{plan.name}.npz"
    if _is_finished(path, plan, retrain):
        return path
    parts = draw(data, plan)
    plans = [plan] if retrain is None else [plan, replace(plan, sampler=retrain)]
    checkpoints = [
        path.with_name(f"{path.stem}{name}.checkpoint.pt")
        for name in ("", f"-retrained-{retrain}")[: len(plans)]
    ]
    trained = [
        _train(data, parts, each, checkpoint, initial_weights, device, watch)
        for each, checkpoint in zip(plans, checkpoints, strict=True)
    ]
    (first, _), *twin = trained
    retrained = twin[0][0]["test"] if twin else None
    outputs = StoredOutputs.of(path.stem, **first, retrained=retrained)
    outputs.save(path)
    histories = [history for _, history in trained]
    record = _provenance(data, plan, parts, outputs, retrain, device, histories)
    write_text(path.with_suffix(".json"), json.dumps(record, indent=1) + "\n")
    for checkpoint in checkpoints:
        checkpoint.unlink()
    return path


def _is_finished(path: Path, plan: Plan, retrain: str | None) -> bool:
    """Tell whether this run is already stored; refuse to overwrite another one."""
    record = path.with_suffix(".json")
    if not (path.exists() and record.exists()):
        return False
    stored = json.loads(record.read_text("utf-8"))
    asked = {
        "seed": plan.seed,
        "epochs": plan.n_epochs,
        "learning_rate": plan.learning_rate,
        "retrained_for": retrain,
    }
    found = {name: stored.get(name) for name in asked}
    if found != asked:
        raise ValueError(
            f"{path} belongs to another run ({found}); remove it, or write into another folder."
        )
    return True


def _train(
    data: ImageData,
    parts: Parts,
    plan: Plan,
    checkpoint: Path,
    initial_weights: Path | None,
    device: str,
    watch: "Watcher",
) -> tuple[dict[str, Any], list["Epoch"]]:
    from lab.paper import networks

    images, rows = parts.train
    n_channels = images.pixels(rows[:1]).shape[-1]
    network = networks.make_network(plan.recipe.network, data.n_classes, n_channels, plan.seed)
    if initial_weights is not None:
        networks.load_weights(network, initial_weights)
    network.to(device)
    scale = networks.Scale.of(images, rows, device)
    history = networks.train_network(
        network, images, rows, plan, scale, checkpoint=checkpoint, watch=watch
    )
    outputs = {}
    for name, (of_part, wanted) in parts._asdict().items():
        if name == "test" or plan.sampler is None:
            logits = networks.predict_logits(network, of_part, wanted, plan.recipe.size, scale)
            outputs[name] = logits, of_part.y[wanted]
    return outputs, history


def _provenance(
    data: ImageData,
    plan: Plan,
    parts: Parts,
    outputs: StoredOutputs,
    retrain: str | None,
    device: str,
    histories: list[list["Epoch"]],
) -> dict[str, Any]:
    images, rows = parts.train
    known = {name: getattr(outputs, name) for name in ("train", "val", "test", "retrained")}
    accuracy = {
        name: round(float((part.logits.argmax(axis=1) == part.y).mean()), 4)
        for name, part in known.items()
        if part is not None
    }
    return {
        "dataset": plan.dataset,
        "source": plan.source,
        "seed": plan.seed,
        "train_counts": np.bincount(images.y[rows], minlength=outputs.n_classes).tolist(),
        "label_noise": plan.label_noise,
        "wrong_labels": round(float((images.y[rows] != data.train.y[rows]).mean()), 4),
        "n_val": outputs.val.y.size,
        "n_test": outputs.test.y.size,
        "network": plan.recipe.network,
        "epochs": plan.n_epochs,
        "epochs_of_the_recipe": plan.recipe.n_epochs,
        "batch_size": BATCH_SIZE,
        "learning_rate": plan.learning_rate,
        "retrained_for": retrain,
        "accuracy": accuracy,
        "history": [[asdict(epoch) for epoch in history] for history in histories],
        "device": device,
        "versions": {
            "priorshift": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": str(require_torch().__version__),
        },
    }


def require_torch() -> Any:
    """Import PyTorch, or say how to install it."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "training needs PyTorch, which is missing: pip install torch pillow"
        ) from error
    return torch
