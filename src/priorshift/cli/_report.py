"""priorshift report."""

import shlex
import warnings
from pathlib import Path
from typing import Any

import click

from priorshift.cli._compare import compare_on
from priorshift.cli._console import busy, emit, note
from priorshift.cli._documents import document, verdict_of
from priorshift.cli._errors import Command, in_options
from priorshift.cli._options import (
    Request,
    dask_option,
    data_options,
    html_option,
    interval_options,
    json_option,
    known_priors_option,
    method_option,
    title_option,
)
from priorshift.cli._task import Task, open_task
from priorshift.estimators import PriorEstimate
from priorshift.evaluation import Comparison
from priorshift.report import require_packages, write_report


@click.command(
    cls=Command,
    short_help="Write a self-contained HTML report.",
    epilog="\b\nExample:\n"
    "  priorshift report --validation validation.csv --target target.csv --output report.html",
)
@data_options(validation="EM, MAP and --known-priors can do without.")
@dask_option
@method_option()
@known_priors_option
@interval_options
@html_option("HTML file to write.", Path("report.html"))
@title_option
@json_option
def report(
    method: str,
    output: Path,
    title: str | None,
    as_json: bool,
    **named: Any,
) -> None:
    """Write a self-contained HTML report: priors, agreement, decisions, calibration."""
    require_packages()  # before any work is done
    command = command_line(click.get_current_context())
    with open_task(Request(**named)) as task:
        shift = report_on(task, method, output, command, title)
        found = task.assess(method)
    note(f"Wrote {output}.")
    if as_json:
        emit(document("report", verdict_of(found), **shift.to_dict(), report=str(output)))


def report_on(
    task: Task,
    method: str,
    output: Path,
    command: str,
    title: str | None = None,
    comparison: Comparison | None = None,
) -> PriorEstimate:
    """Estimate, compare, and write the report."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        with busy(f"Estimating by {method}"):
            shift = task.estimate(method)
    told = tuple(dict.fromkeys(str(warning.message) for warning in caught))
    for message in told:
        note(f"Warning: {in_options(message)}")
    if comparison is None and task.y_proba_val is not None:
        comparison = compare_on(task)
    with busy("Writing the report"):
        write_report(
            output,
            shift,
            y_proba_val=task.y_proba_val,
            y_val=task.y_val,
            y_proba_target=task.target_rows(),
            y_target=task.target_labels(),
            comparison=comparison,
            source_label_priors=task.source_label_priors,
            title=title,
            command=command,
            warnings=told,
        )
    return shift


def command_line(ctx: click.Context) -> str:
    """Return the command as it can be typed again."""
    words = ["priorshift", ctx.info_name or ""]
    for parameter in ctx.command.params:
        name = parameter.name or ""
        if ctx.get_parameter_source(name) != click.core.ParameterSource.COMMANDLINE:
            continue
        value = ctx.params.get(name)
        words.append(parameter.opts[0])
        if not getattr(parameter, "is_flag", False):
            words.append(str(value))
    return shlex.join(words)
