"""priorshift backtest."""

from pathlib import Path
from typing import Any

import click

from priorshift.adapt import Goal
from priorshift.cli._console import busy, say, show_table
from priorshift.cli._documents import check_suffix, document, hand_out
from priorshift.cli._errors import command
from priorshift.cli._options import (
    INPUT,
    Request,
    column_options,
    goal_options,
    json_option,
    method_option,
    output_option,
)
from priorshift.cli._task import open_task, read_group_column
from priorshift.evidence import Backtest
from priorshift.evidence import backtest as test_the_past
from priorshift.text import csv_table


def _with_columns(wrapped: Any) -> Any:
    for option in reversed(column_options):
        wrapped = option(wrapped)
    return wrapped


@command(
    "backtest target.csv --group-column part",
    ("backtest target.csv --group-column part --goal log_loss",),
)
@click.argument("history", type=INPUT)
@click.option(
    "--group-column",
    required=True,
    metavar="NAME",
    help="Column of the month, site or other group of each row. Numbers and dates are taken in "
    "order: each group is predicted from earlier ones only.",
)
@click.option(
    "--ordered/--unordered",
    "ordered",
    default=None,
    help="Whether groups have an order [default: numbers and dates have].",
)
@_with_columns
@goal_options
@method_option(lambda method: method.needs_probabilities)
@output_option("Write a .json or .csv file instead of printing.")
@json_option
def backtest(
    history: Path,
    group_column: str,
    ordered: bool | None,
    method: str,
    output: Path | None,
    as_json: bool,
    **named: Any,
) -> None:
    """Say what adapting would have gained on labelled groups of the past."""
    check_suffix(output, as_json)
    request = Request(history, validation=history, not_classes=(group_column,), **named)
    with open_task(request) as task, busy("Going through the past"):
        assert task.y_proba_val is not None
        assert task.y_val is not None
        found = test_the_past(
            task.y_proba_val,
            task.y_val,
            read_group_column(task.files[0], group_column, "--group-column"),
            classes=task.classes,
            method=method,
            **task.aim,
            ordered=ordered,
            random_state=0,
        )
    columns = found.columns()
    text = {
        ".json": document("backtest", **found.to_dict()),
        ".csv": csv_table(list(columns), zip(*columns.values(), strict=True)),
    }
    hand_out(text, output, as_json, lambda: _show(found))


def _show(found: Backtest) -> None:
    """Print the sentence and a line per group."""
    say(found.sentence)
    factor = 100 if Goal(found.goal).in_points else 1
    header = ("group", "rows", "adapting", "calibrating", "prior shift", "mean", "unchanged")
    rows = [
        (
            group.name,
            f"{group.n:,}",
            f"{factor * group.gains['adapt']:+.1f}",
            f"{factor * group.gains['calibrate']:+.1f}",
            *(f"{100 * off:.1f}" for off in group.off),
        )
        for group in found.groups
    ]
    show_table("What would have been gained, and points by which shares were off", header, rows)
