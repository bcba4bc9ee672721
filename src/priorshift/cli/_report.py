"""priorshift report."""

import shlex
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

import click

from priorshift.assessment import Assessment, following
from priorshift.cli._adapt import adapt
from priorshift.cli._compare import compare_on
from priorshift.cli._console import busy, emit, note
from priorshift.cli._documents import document, verdict_of
from priorshift.cli._errors import command
from priorshift.cli._options import (
    Request,
    dask_option,
    data_options,
    goal_options,
    html_option,
    interval_options,
    json_option,
    known_priors_option,
    method_option,
    target_labels_option,
    title_option,
)
from priorshift.cli._task import Task, open_task, with_bounds
from priorshift.compare import Comparison
from priorshift.estimators import PriorEstimate
from priorshift.report import require_packages, write_report


@command(
    "report validation.csv target.csv --output report.html",
)
@data_options(validation="EM, MAP and --known-priors can do without.")
@dask_option
@target_labels_option
@goal_options
@method_option(target_labels=True)
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
    """Write a self-contained HTML report: the verdict, what changed, and what to do next."""
    require_packages()  # before any work is done
    command = command_line(click.get_current_context())
    with open_task(Request(**named)) as task:
        with busy("Assessing"):
            found = task.assess(method)
        options = data_options_line(click.get_current_context())
        shift = report_on(
            task, method, output, found=found, command=command, title=title, options=options
        )
    note(f"Wrote {output}.")
    if as_json:
        emit(document("report", verdict_of(found), **shift.to_dict(), report=str(output)))


def report_on(
    task: Task,
    method: str,
    output: Path,
    *,
    found: Assessment | None,
    command: str,
    title: str | None = None,
    comparison: Comparison | None = None,
    options: str | None = None,
) -> PriorEstimate:
    """Compare, and write the report of an assessment or, without one, of an estimate."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        with busy(f"Estimating by {method}"):
            shift = _reported(task, method, found)
    told = [] if found is None else list(found.warnings)
    told = list(dict.fromkeys([*told, *(str(warning.message) for warning in caught)]))
    for message in told:
        note(f"Warning: {message}")
    if comparison is None and task.y_proba_val is not None:
        comparison = compare_on(task)
    with busy("Writing the report"):
        write_report(
            output,
            shift,
            assessment=found,
            y_proba_val=task.y_proba_val,
            y_val=task.y_val,
            y_proba_target=task.target_rows(),
            y_target=task.all_target_labels(),
            comparison=comparison,
            title=title or f"Class balance in {Path(task.target.where).name}",
            command=command,
            options=options,
            warnings=told,
        )
    return shift


def _reported(task: Task, method: str, found: Assessment | None) -> PriorEstimate:
    """Return the assessment's estimate; one of all rows, or as asked for, where it is another."""
    if found is None:
        return task.estimate(method)
    sampled = found.rows_looked_at < found.n_target
    if not sampled and not task.request.interval:
        return found.estimate
    shift = following(task.estimate(method), found.action)
    return shift if shift.interval is not None else with_bounds(shift, found.estimate)


NOT_DATA = ("output", "title", "as_json")
"""Options of the report that name no data."""


def data_options_line(ctx: click.Context) -> str:
    """Return the options that name the data and the method, as they can be typed again."""
    known = {parameter.name for parameter in adapt.params} - set(NOT_DATA)
    return shlex.join(_words(ctx, known))


def command_line(ctx: click.Context) -> str:
    """Return the command as it can be typed again."""
    names = {parameter.name for parameter in ctx.command.params}
    return shlex.join(["priorshift", ctx.info_name or "", *_words(ctx, names)])


def _words(ctx: click.Context, names: Collection[str]) -> list[str]:
    """Return the options of these names that were typed."""
    words: list[str] = []
    for parameter in ctx.command.params:
        name = parameter.name or ""
        if name not in names:
            continue
        if ctx.get_parameter_source(name) != click.core.ParameterSource.COMMANDLINE:
            continue
        if isinstance(parameter, click.Argument):
            words += map(str, ctx.params[name])
            continue
        words.append(parameter.opts[0])
        if not getattr(parameter, "is_flag", False):
            words.append(str(ctx.params.get(name)))
    return words
