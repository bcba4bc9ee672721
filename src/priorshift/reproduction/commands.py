"""The commands `priorshift benchmark` and `priorshift train`."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.progress import Progress

from priorshift import available_estimators
from priorshift.cli import Command, emit, note, progress, show_table
from priorshift.reproduction.distributions import IMBALANCES
from priorshift.reproduction.experiments import EXPERIMENTS, WITHOUT_DATA, run_experiment
from priorshift.reproduction.images import load_images
from priorshift.reproduction.outputs import StoredOutputs
from priorshift.reproduction.training import RECIPES, Plan, require_torch, train_classifier

if TYPE_CHECKING:
    from priorshift.reproduction.networks import Step

AT_LEAST_ONE = click.IntRange(min=1)
SCORED = ("train", "val", "test", "retrained")


def _output_option(folder: str, what: str) -> Callable[[Any], Any]:
    """Add the folder to write into."""
    return click.option(
        "--output",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path(folder),
        show_default=True,
        help=what,
    )


@click.command(
    cls=Command,
    short_help="Run an experiment of the paper.",
    epilog="\b\nExample:\n  priorshift benchmark gaussian --output results",
)
@click.argument("experiment", type=click.Choice(tuple(EXPERIMENTS)))
@click.option(
    "--data",
    "files",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    multiple=True,
    help="An npz with train_logits, train_y, val_logits, val_y, test_logits, test_y; repeat the "
    "option for several classifiers.",
)
@click.option(
    "--target-distribution",
    "targets",
    type=click.Choice((*IMBALANCES, "supplement")),
    multiple=True,
    default=("UNI",),
    show_default=True,
    help="Class distribution of the target (may be repeated).",
)
@click.option(
    "--method",
    "methods",
    type=click.Choice(available_estimators()),
    multiple=True,
    help="A further method beside the paper's (may be repeated).",
)
@click.option("--quick", is_flag=True, help="Use two seeds instead of ten, and fewer sizes.")
@_output_option("benchmark", "Folder for CSV, Markdown and figures.")
def benchmark(
    experiment: str,
    files: tuple[Path, ...],
    targets: tuple[str, ...],
    methods: tuple[str, ...],
    quick: bool,
    output: Path,
) -> None:
    """Run an experiment of the paper on stored outputs; print its table and write its files."""
    if not files and experiment not in WITHOUT_DATA:
        raise click.UsageError(f"{experiment} needs --data.")
    outputs = [StoredOutputs.load(path) for path in files]
    with progress("Running") as bar:

        def followed(steps: Sequence[Any]) -> Iterable[Any]:
            return bar.track(steps, task_id=bar.task_ids[0], total=len(steps))

        text = run_experiment(
            experiment,
            outputs,
            output,
            targets=targets,
            quick=quick,
            methods=methods,
            progress=followed,
        )
    emit(f"{text}\n")
    note(f"written into {output}")


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
    help="Folder with the data set as downloaded; you need not unpack archives.",
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
    type=AT_LEAST_ONE,
    help="Training images of the most frequent class; 450 gives the counts of the paper's "
    "CIFAR-100.  [default: as many as there are]",
)
@click.option(
    "--retrain",
    type=click.Choice(tuple(IMBALANCES)),
    help="Also train a second network, with a sampler that follows this distribution: the column "
    "'re-trained' of table1.",
)
@click.option(
    "--label-noise",
    type=click.FloatRange(0, 0.5),
    default=0.0,
    show_default=True,
    help="Share of training images that get the label of a similar class, as web images have; "
    "validation and test labels stay right.",
)
@click.option(
    "--epochs", type=AT_LEAST_ONE, help="Epochs; scales the schedule.  [default: the paper's]"
)
@click.option(
    "--runs",
    type=AT_LEAST_ONE,
    default=1,
    show_default=True,
    help="Networks to train, one per seed; the paper has 10, or 5 for large images.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The first seed."
)
@click.option(
    "--initial-weights",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="PyTorch file of weights to start from.",
)
@click.option("--device", help="PyTorch device.  [default: cuda if available, else cpu]")
@_output_option("trained", "Folder; each run writes into seed-0, seed-1, ... in it.")
def train(dataset: str, folder: Path, runs: int, output: Path, **options: Any) -> None:
    """Train a network as the paper does (extra train), and store its outputs for benchmark."""
    torch = require_torch()
    device = options["device"] or ("cuda" if torch.cuda.is_available() else "cpu")
    n_epochs = options["epochs"] or RECIPES[dataset].n_epochs
    plans = [
        Plan(
            dataset,
            source=options["source"],
            seed=options["seed"] + at,
            n_epochs=n_epochs,
            largest=options["largest"],
            label_noise=options["label_noise"],
        )
        for at in range(runs)
    ]
    data = load_images(dataset, folder)
    n_networks = 1 if options["retrain"] is None else 2
    paths = []
    with progress("Training", total=runs * n_networks * n_epochs) as bar:
        for at, plan in enumerate(plans):
            path = train_classifier(
                data,
                plan,
                output / f"seed-{plan.seed}",
                retrain=options["retrain"],
                initial_weights=options["initial_weights"],
                device=device,
                watch=_watcher(bar, f"seed {plan.seed}", at * n_networks * n_epochs),
            )
            paths.append(path)
    _show(paths)


def _watcher(bar: Progress, name: str, before: int) -> Callable[["Step"], None]:
    """Show loss and accuracy in the bar, or one line per epoch where there is no terminal."""
    on_terminal = sys.stderr.isatty()

    def watch(step: "Step") -> None:
        earlier = step.n_epochs if step.retrained else 0
        text = (
            f"{step.what}, {name}, epoch {step.epoch}/{step.n_epochs}: loss {step.loss:.3f}, "
            f"accuracy {step.accuracy:.3f}"
        )
        completed = before + earlier + step.epoch - 1 + step.done / step.total
        bar.update(bar.task_ids[0], completed=completed, description=text)
        if not on_terminal and step.done == step.total:
            note(text)

    return watch


def _show(paths: list[Path]) -> None:
    rows = []
    for path in paths:
        accuracy = json.loads(path.with_suffix(".json").read_text("utf-8"))["accuracy"]
        rows.append([str(path), *(f"{accuracy[n]:.4f}" if n in accuracy else "" for n in SCORED)])
    show_table("Accuracy", ["outputs", *SCORED], rows)
