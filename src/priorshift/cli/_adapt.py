"""priorshift adapt, which goes on where a killed run ended."""

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shutil import copyfileobj
from typing import Any, NamedTuple, cast

import click
import numpy as np
from click.core import ParameterSource
from scipy.special import softmax

from priorshift._typing import Floats, Indices, Labels
from priorshift._version import __version__
from priorshift.adapt import cheapest
from priorshift.cli._console import busy, emit, note, on_terminal, progress, show_table
from priorshift.cli._documents import document, tell_doubts, threshold_in_words
from priorshift.cli._errors import command
from priorshift.cli._options import (
    Request,
    adapter_option,
    check_copy,
    data_options,
    goal_options,
    is_file,
    json_option,
    known_priors_option,
    method_option,
    output_option,
    overwrite_option,
    target_labels_option,
    target_suffix,
)
from priorshift.cli._task import Task, as_advised, open_task
from priorshift.estimators import PriorEstimate
from priorshift.files import Partial, atomic_file, remove_partial, resumable_file
from priorshift.text import is_safe_csv


def fingerprint(request: Request, method: str, decision_column: str | None = None) -> str:
    """Return a digest of all that decides what is written: options, files, versions."""
    named = {name: str(value) for name, value in asdict(request).items() if value is not None}
    known = {
        "method": method,
        "decision_column": decision_column,
        "safe_csv": is_safe_csv(),
        "options": named,
        "files": {name: _state(value) for name, value in named.items()},
        "versions": [__version__, np.__version__, _version("pyarrow")],
    }
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def _state(text: str) -> list[Any] | None:
    """Return where a file is, its size and when it changed, if a value names one."""
    try:
        path = Path(text).resolve(strict=True)
        state = path.stat()
    except OSError:
        return None
    return [str(path), state.st_size, state.st_mtime_ns]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


SHOWN_ROWS, SHOWN_CLASSES = 5, 8
"""Rows, and classes of them, that a terminal shows."""

RESUMABLE_BYTES = 2**27
"""Size of a target from which on adapting it can go on after the run was killed."""

TEXT = (".csv", ".tsv")
"""Formats that can go to stdout."""


@command(
    "adapt validation.csv target.csv --output adapted.csv",
)
@data_options(validation="EM, MAP, --known-priors and --adapter can do without.")
@target_labels_option
@goal_options
@method_option(target_labels=True)
@known_priors_option
@adapter_option
@output_option(
    "File for the adapted predictions, in the target's format [default: CSV to stdout; "
    "a terminal shows the first rows]."
)
@click.option(
    "--decision-column",
    metavar="NAME",
    help="Add a column of this name with the decision on each row: the likeliest class or, with "
    "--costs, the cheapest.",
)
@overwrite_option
@json_option
def adapt(
    method: str,
    output: Path | None,
    decision_column: str | None,
    overwrite: bool,
    as_json: bool,
    **named: Any,
) -> None:
    """Adapt predictions to estimated or known class priors; other columns are kept."""
    request = Request(**named)
    by_user = click.get_current_context().get_parameter_source("method")
    if request.adapter is not None and by_user is ParameterSource.COMMANDLINE:
        raise click.UsageError("--adapter says how to adapt; leave out --method.")
    more = request.costs or request.target_label_column or request.goal != "accuracy"
    if request.adapter is not None and more:
        raise click.UsageError(
            "--adapter says how to adapt; leave out --costs, --goal and --target-label-column."
        )
    if request.predicted_column is not None:
        raise click.UsageError(
            "decisions without probabilities cannot be adapted; use priorshift estimate for the "
            "class shares."
        )
    to_stdout = output is None or str(output) == "-"
    _check_usage(request, output, to_stdout, as_json, overwrite)
    only_head = output is None and on_terminal()
    with open_task(request) as task:
        with _destination(
            task, method, decision_column, output, to_stdout, hidden=only_head
        ) as partial:
            plan = _plan(task, method, partial)
            done = rewrite(task, plan, partial, decision_column)
        if only_head:
            show_head(done, task.classes)
    n_rows, n_changed = done.n_rows, done.n_changed
    summary = f"{n_changed} of {n_rows} decisions changed."
    note(summary if to_stdout else f"Wrote {output}: {summary}")
    if only_head:
        note("Nothing is written yet: name a file with --output, or write --output - for stdout.")
    if plan.sentence is not None:
        note(plan.sentence)
    if said := threshold_in_words(plan.shift, task.costs):
        note(said)
    if as_json:
        contents = {"output": str(output), "n_rows": n_rows, "n_changed": n_changed}
        emit(document("adapt", plan.verdict, **plan.shift.to_dict(), **contents))


class Plan(NamedTuple):
    """What to adapt to, and the verdict on it, if there is a validation set to judge by."""

    shift: PriorEstimate
    verdict: str | None = None
    sentence: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return plain values, for a run that goes on after this one was killed."""
        return {**self._asdict(), "shift": self.shift.to_dict()}


class Done(NamedTuple):
    """How many rows were adapted, how many decisions changed, and the first rows of both kinds."""

    n_rows: int
    n_changed: int
    before: Floats | None
    after: Floats | None


def rewrite(task: Task, plan: Plan, partial: Partial, decision_column: str | None = None) -> Done:
    """Adapt the target block by block; count its rows, and the decisions that changed."""
    shift, from_logits, costs = plan.shift, task.target.kind == "logits", task.costs
    n_rows, n_changed = partial.begin.rows, 0
    head: tuple[Floats | None, Floats | None] = None, None
    decided: Indices = np.zeros(0, dtype=np.intp)
    if partial.kept is not None:
        n_changed = partial.kept["n_changed"]

    def adapted(block: Floats) -> Floats:
        nonlocal n_rows, n_changed, head, decided
        changed = shift.adapt(block, from_logits=from_logits)
        if head[0] is None:
            head = block[:SHOWN_ROWS].copy(), changed[:SHOWN_ROWS].copy()
        n_rows += block.shape[0]
        before = softmax(block, axis=1) if from_logits and costs is not None else block
        decided = cheapest(changed, costs)
        n_changed += int(np.count_nonzero(cheapest(before, costs) != decided))
        return changed

    def decisions() -> list[str]:
        return cast("list[str]", task.classes[decided].tolist())

    with progress("Adapting", task.n_target) as bar:
        task.target.rewrite(
            partial,
            task.columns,
            adapted,
            lambda rows: bar.advance(bar.task_ids[0], rows),
            lambda: {"plan": plan.as_json(), "n_changed": n_changed},
            None if decision_column is None else (decision_column, decisions),
        )
    return Done(n_rows, n_changed, *head)


def show_head(done: Done, classes: Labels) -> None:
    """Print the first rows as they are after adapting, and the decisions that changed."""
    if done.before is None or done.after is None:
        return
    names = [str(name) for name in classes.tolist()]
    decided = zip(
        done.before.argmax(axis=1).tolist(), done.after.argmax(axis=1).tolist(), strict=True
    )
    said = [names[k] if k == was else f"{names[k]} (was {names[was]})" for was, k in decided]
    cells = [
        [str(row), decision, *(f"{p:.4f}" for p in numbers[:SHOWN_CLASSES])]
        for row, (decision, numbers) in enumerate(zip(said, done.after.tolist(), strict=True))
    ]
    title = f"The first {len(cells)} of {done.n_rows:,} rows, adapted"
    if len(names) > SHOWN_CLASSES:
        title += f"; {SHOWN_CLASSES} of {len(names)} classes"
    show_table(title, ["row", "decision", *names[:SHOWN_CLASSES]], cells, n_left=2)


def _plan(task: Task, method: str, partial: Partial) -> Plan:
    """Estimate and assess, or continue with what the earlier run found."""
    if partial.kept is not None:
        note(f"Going on after row {partial.begin.rows:,}, where an earlier run ended.")
        kept = partial.kept["plan"]
        return Plan(**{**kept, "shift": PriorEstimate.from_dict(kept["shift"])})
    with busy("Estimating"):
        shift, found = task.estimate(method), task.assess(method)
    if found is None:
        return Plan(shift)
    tell_doubts(found)
    return Plan(as_advised(shift, found), found.verdict, found.sentence)


def _check_usage(
    request: Request, output: Path | None, to_stdout: bool, as_json: bool, overwrite: bool
) -> None:
    suffix = target_suffix(request.target)
    if to_stdout and (as_json or suffix not in TEXT):
        why = "--json takes stdout" if as_json else f"{suffix} is not text"
        raise click.UsageError(f"name a file with --output: {why}.")
    if output is None or to_stdout:
        return
    check_copy(request, output, "--output", overwrite=overwrite)


@contextmanager
def _destination(
    task: Task,
    method: str,
    decision_column: str | None,
    output: Path | None,
    to_stdout: bool,
    *,
    hidden: bool = False,
) -> Iterator[Partial]:
    """Yield where to write: a temporary file that becomes the output, or goes to stdout.

    With `hidden` it goes nowhere: a terminal shows the first rows only.
    """
    if output is None or to_stdout:
        with tempfile.TemporaryFile() as stream:
            yield Partial(stream)
            if not hidden:
                stream.seek(0)
                copyfileobj(stream, sys.stdout.buffer)
                sys.stdout.flush()
    elif _can_resume(task, output):
        with resumable_file(output, fingerprint(task.request, method, decision_column)) as partial:
            yield partial
    else:
        with atomic_file(output) as stream:
            yield Partial(stream)
        if is_file(output):
            remove_partial(output)


def _can_resume(task: Task, output: Path) -> bool:
    """Tell whether it is worth it, and can be done: not for stdin, pipes and devices."""
    large = task.target.path.stat().st_size >= RESUMABLE_BYTES
    return large and is_file(output) and task.target.resumable and task.request.stdin is None
