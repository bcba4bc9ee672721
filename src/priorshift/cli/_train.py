"""priorshift train."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.progress import Progress

from priorshift.cli._console import note, progress, show_table
from priorshift.cli._errors import Command
from priorshift.evaluation.paper import IMBALANCES
from priorshift.training import RECIPES, Plan, load_images, require_torch, train_classifier

if TYPE_CHECKING:
    from priorshift.training._loop import Step

SCORED = ("train", "val", "test", "retrained")


@click.command(
    cls=Command,
    short_help="Train a classifier of the paper.",
    epilog="\b\nExample:\n"
    "  priorshift train --dataset fashion-mnist --data /usr/share/datasets/fashion-mnist",
)
@click.option("--dataset", type=click.Choice(tuple(RECIPES)), required=True, help="What to learn.")
@click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    required=True,
    help="Folder of the data set as it was fetched; archives need not be unpacked.",
)
@click.option(
    "--source",
    type=click.Choice(tuple(IMBALANCES)),
    default="LT",
    show_default=True,
    help="Class distribution of the training images.",
)
@click.option(
    "--largest",
    type=click.IntRange(min=1),
    help="Training images of the most frequent class; 450 makes the counts of the paper's "
    "CIFAR-100.  [default: as many as there are]",
)
@click.option(
    "--retrain",
    type=click.Choice(tuple(IMBALANCES)),
    help="Train a second network as well, with a sampler that follows this distribution: the "
    "column 're-trained' of table1.",
)
@click.option(
    "--epochs",
    type=click.IntRange(min=1),
    help="The schedule is scaled to them.  [default: the paper's]",
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Networks with a seed each, from --seed on; the paper has 10, of large images 5.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The first.")
@click.option(
    "--initial-weights",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="PyTorch file of weights to begin with.",
)
@click.option("--device", help="Of PyTorch.  [default: cuda if there is one, else cpu]")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("trained"),
    show_default=True,
    help="Folder; each run writes into seed-0, seed-1, ... in it.",
)
def train(
    dataset: str,
    folder: Path,
    source: str,
    largest: int | None,
    retrain: str | None,
    epochs: int | None,
    runs: int,
    seed: int,
    initial_weights: Path | None,
    device: str | None,
    output: Path,
) -> None:
    """Train a network as the paper does (extra torch), and store its outputs for benchmark."""
    torch = require_torch()
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    n_epochs = epochs or RECIPES[dataset].n_epochs
    plans = [Plan(dataset, source, None, seed + at, n_epochs, largest) for at in range(runs)]
    data = load_images(dataset, folder)
    n_networks = 1 if retrain is None else 2
    paths = []
    with progress("Training", total=runs * n_networks * n_epochs) as bar:
        for at, plan in enumerate(plans):
            where = output / f"seed-{plan.seed}"
            tell = _teller(bar, f"seed {plan.seed}", at * n_networks * n_epochs, retrain)
            paths.append(
                train_classifier(
                    data,
                    plan,
                    where,
                    retrain=retrain,
                    initial_weights=initial_weights,
                    device=device,
                    watch=tell,
                )
            )
    _show(paths)


def _teller(bar: Progress, name: str, before: int, retrain: str | None) -> Callable[["Step"], None]:
    """Show loss and accuracy in the bar, or a line an epoch where there is no terminal."""
    shown = sys.stderr.isatty()

    def tell(step: "Step") -> None:
        second = step.n_epochs if retrain is not None and step.retrained else 0
        told = (
            f"{step.what}, {name}, epoch {step.epoch}/{step.n_epochs}: loss {step.loss:.3f}, "
            f"accuracy {step.accuracy:.3f}"
        )
        whole = before + second + step.epoch - 1 + step.done / step.total
        bar.update(bar.task_ids[0], completed=whole, description=told)
        if not shown and step.done == step.total:
            note(told)

    return tell


def _show(paths: list[Path]) -> None:
    rows = []
    for path in paths:
        accuracy = json.loads(path.with_suffix(".json").read_text("utf-8"))["accuracy"]
        rows.append([str(path), *(f"{accuracy[n]:.4f}" if n in accuracy else "" for n in SCORED)])
    show_table("Accuracy", ["outputs", *SCORED], rows)
