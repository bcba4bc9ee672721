"""priorshift assess."""

from pathlib import Path
from typing import Any, cast

import click

from priorshift.assessment import Assessment
from priorshift.cli import _options as options
from priorshift.cli._console import busy, csv_like, hand_out, note, priors_as_csv, say, show_priors
from priorshift.cli._data import Data, open_data
from priorshift.cli._errors import command
from priorshift.files import write_text


@command(
    "assess validation.csv target.csv",
    (
        "assess validation.csv target.csv --goal log_loss",
        "assess validation.csv target.csv --rows-to-label todo.csv",
        "assess validation.csv target.csv --target-labels todo.csv",
    ),
)
@options.data_options(validation="Required.")
@options.evidence_options
@click.option(
    "--rows-to-label",
    type=options.OutputPath(".csv"),
    help="Also write 40 rows whose labels would tell most, with an empty column label to fill in.",
)
@options.goal_options
@options.method_option(target_labels=True)
@options.confidence_option
@options.answer_options
def assess(
    method: str, rows_to_label: Path | None, output: Path | None, as_json: bool, **named: Any
) -> None:
    """Estimate the class priors, test for a shift, and say whether to adapt: start here."""
    with open_data(options.request_of(**named)) as data, busy("Assessing"):
        data.validation("an assessment")
        found = cast("Assessment", data.assess(method))
        if rows_to_label is not None:
            _write_rows(data, found, rows_to_label)
    contents = {**found.to_dict(), "priors": found.shares_to_report.to_dict()["priors"]}
    table = priors_as_csv(found.shares_to_report, data.target)

    def show() -> None:
        say(found.sentence)
        for reason in found.reasons:
            say(f"- {reason}")
        show_priors(found.shares_to_report, found.n_target, found.shares_title)

    hand_out(contents, table, show, output, as_json, found)


def _write_rows(data: Data, found: Assessment, path: Path) -> None:
    """Write rows to label: their numbers from 1, the target's columns, and an empty label."""
    rows = found.rows_to_label(data.rows, random_state=0)
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
