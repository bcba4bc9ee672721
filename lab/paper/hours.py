"""How long the paper's classifiers train: measured on this machine, estimated for a GPU.

    python -m lab hours

A few batches of random pixels are trained, and a JPEG of 500 x 375 pixels is decoded, on one core;
hours are images x epochs x networks of that, over two cores that work on a network each. A GPU is
said to do 10^13 operations in a second, six for each multiplication of a prediction (two forwards,
four backwards), after eight cores have decoded the images: an estimate.
"""

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lab.paper.distributions import LONG_TAILS, source_counts
from lab.paper.images import ArrayImages, FileImages, centred, require_pillow
from lab.paper.training import RECIPES, Plan, require_torch
from lab.show import cpu_time, markdown, parse


class Trained(NamedTuple):
    """Networks that one row of a table needs: `n_networks` with the re-trained one, if any."""

    name: str
    dataset: str
    n_classes: int
    n_images: int
    n_networks: int
    n_epochs: int | None = None


def of_source(source: str, n_classes: int, largest: int) -> int:
    """Return the number of training images of a source distribution."""
    return int(source_counts(source, n_classes, largest).sum())


PLACES = 3068 - 50
"""Images of Places365's smallest class, without those held out."""

CLASSIFIERS = (
    Trained("CIFAR-100* LT", "cifar-100", 100, of_source("LT", 100, 450), 11),
    Trained("CIFAR-100* UNI", "cifar-100", 100, of_source("UNI", 100, 450), 11),
    Trained("CIFAR-100 D3", "cifar-100", 100, of_source("D3", 100, 450), 10),
    Trained("Places365-LT", "places365-lt", 365, LONG_TAILS["Places365-LT"][-1], 6),
    Trained("Places365 UNI", "places365", 365, of_source("UNI", 365, PLACES), 5),
    Trained("Places365 D3", "places365", 365, of_source("D3", 365, PLACES), 5),
    Trained("ImageNet-LT", "imagenet-lt", 1000, LONG_TAILS["ImageNet-LT"][-1], 6),
    Trained("WebVision 1.0", "list", 1000, 2_439_574, 1),
    Trained("PlantCLEF 2017", "list", 10_000, 281_457, 1, n_epochs=30),
)
"""What the paper trains. The counts of the last two are those of their publishers: WebVision's
list, and PlantCLEF's 256,287 images of the Encyclopedia of Life with 25,170 of its test."""


def main(arguments: list[str] | None = None) -> None:
    """Print the hours of every classifier."""
    parse(__doc__, arguments)
    require_torch().set_num_threads(1)
    decoding = seconds_to_decode()
    kinds: dict[str, tuple[float, float]] = {}
    rows = []
    for one in CLASSIFIERS:
        recipe = RECIPES[one.dataset]
        if recipe.network not in kinds:
            kinds[recipe.network] = seconds_to_train(one.dataset)
        training, operations = kinds[recipe.network]
        reading = decoding if one.dataset not in ("cifar-10", "cifar-100") else 0.0
        n_epochs = one.n_epochs or recipe.n_epochs
        shown = one.n_images * n_epochs * one.n_networks
        here = shown * (training + reading) / 2
        there = shown * (operations / 1e13 + reading / 8)
        count = [f"{one.n_images:,}", n_epochs, one.n_networks]
        rows.append([one.name, recipe.network, *count, hours(here), hours(there)])
    header = ["source", "network", "images", "epochs", "networks"]
    print(markdown([*header, "hours, 2 cores", "hours, GPU"], rows))
    print(f"\nOne core, milliseconds per image: decoding {1000 * decoding:.2f}", end="")
    for network, (seconds, operations) in kinds.items():
        print(f", {network} {1000 * seconds:.2f} ({operations / 1e9:.2f} 10^9 operations)", end="")
    print(".")


def seconds_to_decode(n: int = 64) -> float:
    """Return the seconds of a processor that reading one image takes."""
    waves = 127 * (1 + np.sin(np.add.outer(np.arange(375) / 9, np.arange(500) / 7)))
    noise = np.random.default_rng(0).normal(scale=8, size=(375, 500, 3))
    picture = np.clip(waves[..., None] + noise, 0, 255).astype(np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        require_pillow().fromarray(picture).save(Path(folder) / "a.jpg", quality=90)
        images = FileImages(Path(folder), ("a.jpg",) * n, np.zeros(n, np.intp), 256)
        return cpu_time(lambda: images.pixels(np.arange(n))) / n


def seconds_to_train(dataset: str) -> tuple[float, float]:
    """Return what training takes per image: seconds of a processor, and operations."""
    from lab.paper.networks import Scale, make_network, train_network

    recipe = RECIPES[dataset]
    n = 3 * (256 if recipe.size < 100 else 32)
    side = recipe.size + (32 if recipe.size > 100 else 0)
    rng = np.random.default_rng(0)
    images = ArrayImages(rng.integers(0, 256, (n, side, side, 3), np.uint8), np.arange(n) % 100)
    network, rows = make_network(recipe.network, 100, 3, 0), np.arange(n)
    scale = Scale.of(images, rows, "cpu")
    operations = 6 * multiplications(network, scale(centred(images.pixels(rows[:1]), recipe.size)))
    plan = Plan(dataset, n_epochs=1)
    train_network(network, images, rows[:32], plan, scale)  # what is done only once
    seconds = cpu_time(lambda: train_network(network, images, rows, plan, scale))
    return seconds / n, operations


def multiplications(network: Any, images: Any) -> int:
    """Count the multiplications of one prediction."""
    total = 0

    def count(layer: Any, _: Any, found: Any) -> None:
        nonlocal total
        total += found[0].numel() * layer.weight[0].numel()

    nn = require_torch().nn
    layers = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    handles = [layer.register_forward_hook(count) for layer in layers]
    network.eval()(images)
    for handle in handles:
        handle.remove()
    return total


def hours(seconds: float) -> str:
    """Show hours with two digits that mean something."""
    value = seconds / 3600
    return f"{value:.1f}" if value < 10 else f"{float(f'{value:.2g}'):,.0f}"
