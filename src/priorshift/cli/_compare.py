"""priorshift compare."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from priorshift.cli import _console as console
from priorshift.cli import _options as options
from priorshift.cli._data import Data, open_data
from priorshift.cli._errors import command
from priorshift.compare import Comparison
from priorshift.compare import compare as compare_methods
from priorshift.estimators import decision_methods


@command("compare validation.csv target.csv")
@options.data_options(validation="Required.")
@options.target_labels_option
@options.goal_options
@click.option(
    "--method",
    "methods",
    type=options.MethodChoice(target_labels=True),
    multiple=True,
    help="Only these methods (may be repeated) [default: all].",
)
@options.answer_options
def compare(methods: tuple[str, ...], output: Path | None, as_json: bool, **named: Any) -> None:
    """Run every method on the same data, and score them where the target has labels."""
    with open_data(options.request_of(**named)) as data:
        comparison = compare_on(data, methods or None)
        with console.busy("Assessing"):
            found = data.assess(options.DEFAULT_METHOD)
    columns = comparison.columns()
    table = console.csv_like(data.target, list(columns), zip(*columns.values(), strict=True))

    def show() -> None:
        console.show_comparison(comparison, "Methods compared")
        console.show_verdict(found)

    console.hand_out(comparison.to_dict(), table, show, output, as_json, found)
    told: dict[str, list[str]] = {}
    for result in comparison.results:
        for message in result.warnings:
            told.setdefault(message, []).append(result.method)
    for message, by in told.items():
        console.note(f"Warning by {', '.join(by)}: {message}")


def compare_on(data: Data, methods: Sequence[str] | None = None) -> Comparison:
    """Run methods, with a progress bar."""
    y_proba_val, y_val = data.validation("comparing methods")
    labels = data.target_labels
    if methods is None and data.request.predicted_column is not None:
        methods = decision_methods(target_labels=labels is not None)
    with console.progress("Estimating") as bar:
        return compare_methods(
            y_proba_val,
            y_val,
            data.rows,
            labels,
            methods=methods,
            progress=lambda names: bar.track(names, task_id=bar.task_ids[0], total=len(names)),
            **data.aim,
            **data.given,
        )
