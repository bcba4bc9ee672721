"""priorshift adapt."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj
from typing import Any

import click
import numpy as np

from priorshift._typing import Floats
from priorshift.cli._console import busy, emit, note, progress
from priorshift.cli._documents import document
from priorshift.cli._errors import Command
from priorshift.cli._options import (
    Request,
    data_options,
    json_option,
    known_priors_option,
    method_option,
    output_option,
)
from priorshift.cli._task import Task, open_task
from priorshift.estimators import PriorEstimate
from priorshift.io import atomic_path


@click.command(
    cls=Command,
    short_help="Adapt predictions to estimated or known priors.",
    epilog="\b\nExample:\n"
    "  priorshift adapt --validation validation.csv --target target.csv --output adapted.csv",
)
@data_options
@method_option
@known_priors_option
@output_option("File for the adapted predictions, in the target's format [default: CSV to stdout].")
@json_option
def adapt(method: str, output: Path | None, as_json: bool, **named: Any) -> None:
    """Adapt predictions to estimated or known class priors; other columns are kept."""
    request = Request(**named)
    to_stdout = output is None or str(output) == "-"
    _check_usage(request.target, output, to_stdout, as_json)
    with open_task(request) as task:
        with busy("Estimating"):
            shift = task.estimate(method)
        with _destination(output, to_stdout) as path:
            n_rows, n_changed = rewrite(task, shift, path)
    summary = f"{n_changed} of {n_rows} decisions changed."
    note(summary if to_stdout else f"Wrote {output}: {summary}")
    if as_json:
        contents = {"output": str(output), "n_rows": n_rows, "n_changed": n_changed}
        emit(document("adapt", **shift.to_dict(), **contents))


def rewrite(task: Task, shift: PriorEstimate, path: Path) -> tuple[int, int]:
    """Adapt the target block by block; count its rows, and the decisions that changed."""
    from_logits = task.target.kind == "logits"
    n_rows = n_changed = 0

    def adapted(block: Floats) -> Floats:
        nonlocal n_rows, n_changed
        changed = shift.adapt(block, from_logits=from_logits)
        n_rows += block.shape[0]
        n_changed += int(np.count_nonzero(changed.argmax(axis=1) != block.argmax(axis=1)))
        return changed

    with progress("Adapting", shift.n_target or task.target.n_rows()) as bar:
        task.target.rewrite(
            path, task.columns, adapted, lambda rows: bar.advance(bar.task_ids[0], rows)
        )
    return n_rows, n_changed


def _check_usage(target: Path, output: Path | None, to_stdout: bool, as_json: bool) -> None:
    suffix = ".csv" if str(target) == "-" else target.suffix.lower()
    if to_stdout and (as_json or suffix != ".csv"):
        why = "--json takes stdout" if as_json else f"{suffix} is not text"
        raise click.UsageError(f"name a file with --output: {why}.")
    # a pipe or a device may have any name
    is_file = output is not None and (not output.exists() or output.is_file())
    if output is not None and not to_stdout and is_file and output.suffix.lower() != suffix:
        raise click.BadParameter(
            f"{output} must end with {suffix}, as the target does.", param_hint="'--output'"
        )


@contextmanager
def _destination(output: Path | None, to_stdout: bool) -> Iterator[Path]:
    """Yield where to write: a temporary file that becomes the output, or goes to stdout."""
    if output is not None and not to_stdout:
        with atomic_path(output) as path:
            yield path
        return
    with tempfile.TemporaryDirectory(prefix="priorshift-") as folder:
        path = Path(folder) / "adapted.csv"
        yield path
        with path.open("rb") as stream:
            copyfileobj(stream, sys.stdout.buffer)
        sys.stdout.flush()
