"""priorshift backtest."""

from pathlib import Path
from typing import Any

import click

from priorshift.adapt import Goal
from priorshift.cli import _options as options
from priorshift.cli._console import busy, hand_out, say, show_table
from priorshift.cli._data import open_data, read_group_column
from priorshift.cli._errors import command
from priorshift.evidence import backtest as test_the_past
from priorshift.text import csv_table


@command(
    "backtest target.csv --group-column part",
    ("backtest target.csv --group-column part --goal log_loss",),
)
@click.argument("history", type=options.INPUT)
@click.option(
    "--group-column",
    required=True,
    metavar="NAME",
    help="Column of the month, site or other group of each row. Numbers and dates are taken in "
    "order: each group is predicted from earlier ones only.",
)
@options.column_options
@options.goal_options
@options.method_option(lambda method: method.needs_probabilities)
@options.answer_options
def backtest(
    history: Path,
    group_column: str,
    method: str,
    output: Path | None,
    as_json: bool,
    **named: Any,
) -> None:
    """Say what adapting would have gained on labelled groups of the past."""
    request = options.request_of(
        target=history, validation=history, not_classes=(group_column,), **named
    )
    with open_data(request) as data, busy("Going through the past"):
        found = test_the_past(
            *data.validation("a backtest"),
            read_group_column(data.files[0], group_column, "--group-column"),
            classes=data.classes,
            method=method,
            random_state=0,
            **data.aim,
        )
    columns = found.columns()
    table = csv_table(list(columns), zip(*columns.values(), strict=True))

    def show() -> None:
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

    hand_out(found.to_dict(), table, show, output, as_json)
