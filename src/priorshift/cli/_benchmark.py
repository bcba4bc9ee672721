"""priorshift benchmark."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from priorshift.cli._console import emit, note, progress
from priorshift.cli._errors import Command
from priorshift.cli._options import methods_option
from priorshift.evaluation.paper import (
    EXPERIMENTS,
    IMBALANCES,
    WITHOUT_DATA,
    StoredOutputs,
    run_experiment,
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
    help="An npz with train_logits, train_y, val_logits, val_y, test_logits, test_y; repeat it "
    "for several classifiers.",
)
@click.option(
    "--target-distribution",
    "targets",
    type=click.Choice((*IMBALANCES, "supplement")),
    multiple=True,
    default=("UNI",),
    show_default=True,
    help="Class distribution that the target is drawn by (may be repeated).",
)
@methods_option("A further method beside the paper's (may be repeated).")
@click.option("--quick", is_flag=True, help="Two seeds instead of ten, and fewer sizes.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("benchmark"),
    show_default=True,
    help="Folder for CSV, Markdown and figures.",
)
def benchmark(
    experiment: str,
    files: tuple[Path, ...],
    targets: tuple[str, ...],
    methods: tuple[str, ...],
    quick: bool,
    output: Path,
) -> None:
    """Run an experiment of the paper on stored outputs: a table printed, and files with figures."""
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
