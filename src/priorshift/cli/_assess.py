"""priorshift assess."""

from pathlib import Path
from typing import Any

import click

from priorshift.assessment import Assessment
from priorshift.cli._console import busy, note, say
from priorshift.cli._documents import (
    check_suffix,
    document,
    hand_out,
    priors_as_csv,
    show_priors,
    tell_doubts,
    threshold_in_words,
)
from priorshift.cli._errors import command
from priorshift.cli._options import (
    OutputPath,
    Request,
    confidence_option,
    data_options,
    goal_options,
    json_option,
    kind_options,
    method_option,
    output_option,
    target_labels_option,
)
from priorshift.cli._task import Task, open_task
from priorshift.files import write_text
from priorshift.text import csv_table


@command(
    "assess validation.csv target.csv",
    (
        "assess validation.csv target.csv --goal log_loss",
        "assess validation.csv target.csv --rows-to-label todo.csv",
        "assess validation.csv target.csv --target-labels todo.csv",
    ),
)
@data_options(validation="Required.")
@target_labels_option
@kind_options
@click.option(
    "--rows-to-label",
    type=OutputPath(".csv"),
    help="Also write the rows whose labels would tell most, with an empty column label to fill in.",
)
@click.option(
    "--n-labels",
    type=click.IntRange(min=1),
    default=40,
    show_default=True,
    help="How many rows --rows-to-label asks for.",
)
@goal_options
@method_option(target_labels=True)
@confidence_option
@output_option("Write a .json or .csv file instead of printing.")
@json_option
def assess(
    method: str,
    rows_to_label: Path | None,
    n_labels: int,
    output: Path | None,
    as_json: bool,
    **named: Any,
) -> None:
    """Estimate the class priors, test for a shift, and say whether to adapt: start here."""
    check_suffix(output, as_json)
    history = named.get("history_column")
    request = Request(**named, not_classes=() if history is None else (history,))
    with open_task(request) as task, busy("Assessing"):
        found = task.assess(method)
        if found is None:
            raise click.UsageError("an assessment needs --validation.")
        if rows_to_label is not None:
            _write_rows(task, found, n_labels, rows_to_label)
    contents = {**found.to_dict(), "priors": found.estimate.to_dict()["priors"]}
    text = {
        ".json": document("assess", **contents),
        ".csv": priors_as_csv(found.estimate, task.target),
    }
    hand_out(text, output, as_json, lambda: show_assessment(found))
    tell_doubts(found)


def show_assessment(found: Assessment) -> None:
    """Print the verdict, the reasons and the priors."""
    say(found.sentence)
    for reason in found.reasons:
        say(f"- {reason}")
    if said := threshold_in_words(found.estimate, found.costs):
        say(f"- {said}")
    show_priors(found.estimate)


def _write_rows(task: Task, found: Assessment, n: int, path: Path) -> None:
    """Write rows to label: their numbers from 1, the target's columns, and an empty label."""
    rows = found.rows_to_label(task.target_rows(), n=n, random_state=0)
    names = [name for name in task.target.header if name != "label"]
    columns = [(rows + 1).tolist()]
    for name in names:
        cells = task.target.vector(name)
        columns.append([""] * rows.size if cells is None else cells[rows].tolist())
    lines = zip(*columns, [""] * rows.size, strict=True)
    write_text(path, csv_table(["row", *names, "label"], lines))
    note(
        f"Wrote {rows.size} rows to label to {path}. Fill in the column label, and run the same "
        f"command with --target-labels {path}."
    )
