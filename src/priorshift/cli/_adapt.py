"""priorshift adapt, which goes on where a killed run ended."""

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from shutil import copyfileobj
from typing import Any

import click
import numpy as np
from scipy.special import softmax

from priorshift._typing import Floats, Labels
from priorshift._version import __version__
from priorshift.adapt import cheapest
from priorshift.assessment import following, threshold_facts
from priorshift.cli import _console as console
from priorshift.cli import _options as options
from priorshift.cli._data import Data, open_data
from priorshift.cli._errors import command
from priorshift.estimators import PriorEstimate
from priorshift.files import Partial, atomic_file, is_device, remove_partial, resumable_file
from priorshift.text import is_safe_csv
from priorshift.words import say

OVERRULED = "Predictions are adapted all the same, as you named {method}; auto follows the verdict."
"""Of a verdict that a method does not follow."""

RESUMABLE_BYTES = 2**27
"""Size of a target from which on adapting it can go on after the run was killed."""


@command("adapt validation.csv target.csv --output adapted.csv")
@options.data_options(validation="EM, MAP, --known-priors and --adapter can do without.")
@options.evidence_options
@options.goal_options
@options.method_option(target_labels=True)
@options.known_priors_option
@click.option(
    "--adapter",
    type=options.EXISTING,
    help="Apply this adapter, as estimate --save-adapter or Adapter.to_json writes it, instead of "
    "estimating: needs no validation.",
)
@options.output_option(
    "File for the adapted predictions, in the target's format [default: CSV to stdout]."
)
@options.safe_option
@click.option(
    "--decision-column",
    metavar="NAME",
    help="Add a column of this name with the decision on each row: the likeliest class or, with "
    "--costs, the cheapest.",
)
@options.overwrite_option
@options.json_option
def adapt(
    method: str,
    output: Path | None,
    decision_column: str | None,
    overwrite: bool,
    as_json: bool,
    **named: Any,
) -> None:
    """Adapt predictions to estimated or known class priors; other columns are kept."""
    request = options.request_of(**named)
    file = None if output is None or str(output) == "-" else output
    if request.adapter is not None:
        settled = (
            "labels known_priors source_priors source_label_priors method costs goal "
            "target_label_column target_labels history_column"
        )
        given = ["validation"] if request.validation is not None else []
        given += filter(options.was_typed, settled.split())
        if given:
            what = given[0].replace("_", "-")
            raise click.UsageError(f"--adapter says how to adapt; leave out --{what}.")
    if request.predicted_column is not None:
        raise click.UsageError(
            "decisions without probabilities cannot be adapted; use priorshift estimate for the "
            "class shares."
        )
    suffix = options.target_suffix(request.target)
    if file is None and (as_json or suffix not in (".csv", ".tsv")):
        why = "--json takes stdout" if as_json else f"{suffix} is not text"
        raise click.UsageError(f"name a file with --output: {why}.")
    if file is not None:
        options.check_copy(request, file, "--output", overwrite=overwrite)
    data, verdict, sentence = open_data(request), None, None
    with _destination(data, method, decision_column, file) as partial:
        if partial.kept is None:
            with console.busy("Estimating"):
                shift, found = data.estimate(method)
            if found is not None:
                console.tell_doubts(found)
                verdict, sentence = found.verdict, found.sentence
                if shift.decision is not None:  # a method that decides by itself
                    shift = following(shift, found.action)
                if shift.action == "adapt" != found.action:
                    sentence = f"{sentence} {OVERRULED.format(method=method)}"
        else:
            console.note(f"Going on after row {partial.rows:,}, where an earlier run ended.")
            verdict, sentence = partial.kept["verdict"], partial.kept["sentence"]
            shift = PriorEstimate.from_dict(partial.kept["shift"])
        keep: dict[str, Any] = {}
        if partial.store is not None:  # for the run that goes on, if this one is killed
            keep = {"shift": shift.to_dict(), "verdict": verdict, "sentence": sentence}
        n_rows, n_changed = write_copy(data, partial, shift.adapt, keep, decision_column)
    summary = f"{n_changed:,} of {n_rows:,} decisions changed."
    if shift.action == "none" and n_rows:
        summary = f"all {n_rows:,} rows are as they were."
    console.note(summary if file is None else f"Wrote {file}: {summary}")
    if sentence is not None:
        console.note(sentence)
    if shift.action == "calibrate":
        sure = request.adapter is not None or request.assume_prior_shift
        remedy = "" if sure else "; --assume-prior-shift adapts to the target's"
        console.note(f"The class shares behind the probabilities are still validation's{remedy}.")
    for known in threshold_facts(shift, data.aim["costs"]):
        console.note(say(known))
    if as_json:
        contents: dict[str, Any] = {"output": str(output), "n_rows": n_rows, "n_changed": n_changed}
        console.emit(console.document("adapt", verdict, **shift.to_dict(), **contents))


@contextmanager
def _destination(
    data: Data, method: str, decision_column: str | None, file: Path | None
) -> Iterator[Partial]:
    """Yield where to write: a temporary file that becomes the output, or goes to stdout."""
    large = data.target.path.stat().st_size >= RESUMABLE_BYTES
    if file is None:
        with tempfile.TemporaryFile() as stream:
            yield Partial(stream)
            stream.seek(0)
            copyfileobj(stream, sys.stdout.buffer)
            sys.stdout.flush()
    elif large and not is_device(file) and data.request.stdin is None:
        with resumable_file(file, fingerprint(data.request, method, decision_column)) as partial:
            yield partial
    else:
        with atomic_file(file) as stream:
            yield Partial(stream)
        if not is_device(file):
            remove_partial(file)


def fingerprint(request: options.Request, method: str, decision_column: str | None = None) -> str:
    """Return a digest of all that decides what is written: options, files, versions."""
    named = {name: str(value) for name, value in asdict(request).items() if value is not None}
    files = {}
    for name, value in named.items():
        with suppress(OSError):  # it names no file
            state = Path(value).resolve(strict=True).stat()
            files[name] = [state.st_ino, state.st_size, state.st_mtime_ns]
    pyarrow = version("pyarrow") if find_spec("pyarrow") else None
    decided = [method, decision_column, is_safe_csv(), __version__, np.__version__, pyarrow]
    return hashlib.sha256(json.dumps([decided, named, files]).encode()).hexdigest()


def write_copy(
    data: Data,
    partial: Partial,
    adapt: Callable[..., Floats],
    keep: dict[str, Any],
    decision_column: str | None = None,
    groups: Labels | None = None,
) -> tuple[int, int]:
    """Write the target with new predictions, block by block; count its rows, and what changed.

    `adapt` gets a block and, if there are `groups`, those of its rows; `keep` are plain values for
    a run that goes on after this one.
    """
    from_logits, costs = data.target.kind == "logits", data.aim["costs"]
    done = partial.kept or {"n_rows": 0, "n_changed": 0}
    n_rows, n_changed = done["n_rows"], done["n_changed"]

    def adapt_block(block: Floats) -> Floats:
        nonlocal n_rows, n_changed
        known = () if groups is None else (groups[n_rows : n_rows + len(block)],)
        adapted = adapt(block, *known, from_logits=from_logits)
        n_rows += len(block)
        bar.update(bar.task_ids[0], completed=n_rows)
        before = softmax(block, axis=1) if from_logits and costs is not None else block
        n_changed += int(np.count_nonzero(cheapest(before, costs) != cheapest(adapted, costs)))
        return adapted

    added = None
    if decision_column is not None:
        added = decision_column, lambda new: data.classes[cheapest(new, costs)].tolist()
    # how many, if that is known without reading the target once more
    total = data.rows.shape[0] if "rows" in vars(data) else data.target.n_rows()
    with console.progress("Adapting", total) as bar:
        data.target.rewrite(
            partial,
            data.columns,
            adapt_block,
            lambda: {**keep, "n_rows": n_rows, "n_changed": n_changed},
            added,
        )
    return n_rows, n_changed
