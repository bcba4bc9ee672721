"""priorshift assess."""

from pathlib import Path
from typing import Any, cast

import click

from priorshift.assessment import Assessment
from priorshift.cli import _options as options
from priorshift.cli._console import busy, note, say
from priorshift.cli._data import Data, open_data
from priorshift.cli._documents import (
    check_suffix,
    csv_like,
    document,
    hand_out,
    priors_as_csv,
    show_priors,
    tell_doubts,
)
from priorshift.cli._errors import command
from priorshift.files import write_text
from priorshift.words import TO_REPORT


@command(
    "assess validation.csv target.csv",
    (
        "assess validation.csv target.csv --goal log_loss",
        "assess validation.csv target.csv --rows-to-label todo.csv",
        "assess validation.csv target.csv --target-labels todo.csv",
    ),
)
@options.data_options(validation="Required.")
@options.target_labels_option
@click.option(
    "--target-labels",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Labels of some target rows: the file that --rows-to-label wrote, with the column label "
    "filled in.",
)
@click.option(
    "--history-column",
    metavar="NAME",
    help="Column of validation with the month, site or other group of each row: the verdict then "
    "rests on what would have helped in these groups.",
)
@options.assume_option
@click.option(
    "--rows-to-label",
    type=options.OutputPath(".csv"),
    help="Also write the rows whose labels would tell most, with an empty column label to fill in.",
)
@click.option(
    "--n-labels",
    type=click.IntRange(min=1),
    default=40,
    show_default=True,
    help="How many rows --rows-to-label asks for.",
)
@options.goal_options
@options.method_option(target_labels=True)
@options.confidence_option
@options.output_option("Write a .json or .csv file instead of printing.")
@options.json_option
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
    history = named["history_column"]
    request = options.Request(**named, not_classes=() if history is None else (history,))
    with open_data(request) as data, busy("Assessing"):
        data.validation("an assessment")
        found = cast("Assessment", data.assess(method))
        if rows_to_label is not None:
            _write_rows(data, found, n_labels, rows_to_label)
    shift = found.estimate
    contents = {**found.to_dict(), "priors": shift.to_dict()["priors"]}
    table = priors_as_csv(found.shares_to_report, data.target)
    text = {".json": document("assess", **contents), ".csv": table}

    def show() -> None:
        say(found.sentence)
        for reason in found.reasons:
            say(f"- {reason}")
        show_priors(found.shares_to_report, found.n_target, TO_REPORT)

    hand_out(text, output, as_json, show)
    tell_doubts(found)


def _write_rows(data: Data, found: Assessment, n: int, path: Path) -> None:
    """Write rows to label: their numbers from 1, the target's columns, and an empty label."""
    rows = found.rows_to_label(data.rows, n=n, random_state=0)
    columns = {"row": (rows + 1).tolist()}
    for name in data.target.header:
        cells = data.target.vector(name)
        # an npz also has arrays that are no columns
        if name != "label" and cells is not None and cells.shape == (data.rows.shape[0],):
            columns[name] = cells[rows].tolist()
    columns["label"] = [""] * rows.size
    rows_of = zip(*columns.values(), strict=True)
    write_text(path, csv_like(data.target, list(columns), rows_of))
    note(
        f"Wrote {rows.size} rows to label to {path}. Fill in the column label, and run the same "
        f"command with --target-labels {path}. Its column row counts the target's rows from 1."
    )
