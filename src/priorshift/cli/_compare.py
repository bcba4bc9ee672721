"""priorshift compare."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from priorshift.cli._console import busy, progress
from priorshift.cli._documents import (
    check_suffix,
    comparison_as_csv,
    document,
    hand_out,
    show_comparison,
    show_verdict,
    tell_warnings,
    verdict_of,
)
from priorshift.cli._errors import command
from priorshift.cli._options import (
    DEFAULT_METHOD,
    Request,
    dask_option,
    data_options,
    goal_options,
    json_option,
    methods_option,
    output_option,
    target_labels_option,
)
from priorshift.cli._task import Task, open_task
from priorshift.compare import Comparison
from priorshift.compare import compare as compare_methods
from priorshift.estimators import decision_methods


@command(
    "compare validation.csv target.csv",
)
@data_options(validation="Required.")
@dask_option
@target_labels_option
@goal_options
@methods_option("Only these methods (may be repeated) [default: all].")
@output_option("Write a .json or .csv file instead of printing.")
@json_option
def compare(methods: tuple[str, ...], output: Path | None, as_json: bool, **named: Any) -> None:
    """Run every method on the same data, and score them where the target has labels."""
    check_suffix(output, as_json)
    with open_task(Request(**named)) as task:
        comparison = compare_on(task, methods or None)
        with busy("Assessing"):
            found = task.assess(DEFAULT_METHOD)
    text = {
        ".json": document("compare", verdict_of(found), **comparison.to_dict()),
        ".csv": comparison_as_csv(comparison, task.target),
    }

    def show() -> None:
        show_comparison(comparison, "Methods compared")
        show_verdict(found)

    hand_out(text, output, as_json, show)
    tell_warnings(comparison)


def compare_on(task: Task, methods: Sequence[str] | None = None) -> Comparison:
    """Run methods on a task, with a progress bar."""
    if task.y_proba_val is None or task.y_val is None:
        raise click.UsageError("comparing methods needs --validation.")
    if methods is None and task.request.predicted_column is not None:
        methods = decision_methods(target_labels=task.target_labels() is not None)
    with progress("Estimating") as bar:

        def followed(names: Sequence[str]) -> Iterable[str]:
            return bar.track(names, task_id=bar.task_ids[0], total=len(names))

        return compare_methods(
            task.y_proba_val,
            task.y_val,
            task.target_rows(),
            task.target_labels(),
            methods=methods,
            progress=followed,
            **task.aim,
            **task.given,
        )
