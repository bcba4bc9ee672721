"""priorshift report."""

import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Any

import click

from priorshift.assessment import following
from priorshift.cli import _options as options
from priorshift.cli._adapt import adapt
from priorshift.cli._answers import compare_on
from priorshift.cli._console import busy, document, emit, note, tell_doubts
from priorshift.cli._data import open_data, with_bounds
from priorshift.cli._errors import command, told_warnings
from priorshift.report import require_packages, write_report


@command("report validation.csv target.csv --output report.html")
@options.data_options(validation="EM, MAP and --known-priors can do without.")
@options.evidence_options
@options.goal_options
@options.method_option(target_labels=True)
@options.known_priors_option
@options.interval_options
@options.output_option("HTML file to write.", ".html", ".htm", default=Path("report.html"))
@options.json_option
def report(method: str, output: Path, as_json: bool, **named: Any) -> None:
    """Write a self-contained HTML report: the verdict, what changed, and what to do next."""
    require_packages()  # before any work is done
    ctx = click.get_current_context()
    data = open_data(options.request_of(**named))
    with told_warnings() as told:
        with busy("Assessing"):
            shift, found = data.estimate(method)
        tell_doubts(found)
        if found is not None:
            shift = following(shift, found.action)
            if shift.interval is None:
                shift = with_bounds(shift, found.estimate)
    comparison = None if data.labelled is None else compare_on(data)
    labels, (y_proba_val, y_val) = data.target_labels, data.labelled or (None, None)
    known = {parameter.name for parameter in adapt.params} - {"output", "as_json"}
    with busy("Writing the report"):
        write_report(
            output,
            shift,
            assessment=found,
            y_proba_val=y_proba_val,
            y_val=y_val,
            y_proba_target=data.rows,
            y_target=None if labels is None or None in labels else labels,
            comparison=comparison,
            title=f"Class balance in {Path(data.target.where).name}",
            command=command_line(ctx),
            options=shlex.join(_typed_words(ctx, known)),
            warnings=told,
        )
    note(f"Wrote {output}.")
    if as_json:
        verdict = None if found is None else found.verdict
        emit(document("report", verdict, **shift.to_dict(), report=str(output)))


def command_line(ctx: click.Context) -> str:
    """Return the command as it can be typed again."""
    names = {parameter.name for parameter in ctx.command.params}
    return shlex.join(["priorshift", ctx.info_name or "", *_typed_words(ctx, names)])


def _typed_words(ctx: click.Context, names: Collection[str | None]) -> list[str]:
    """Return the options of these names that were typed."""
    words: list[str] = []
    for parameter in ctx.command.params:
        name = parameter.name or ""
        if name not in names or not options.was_typed(name):
            continue
        if isinstance(parameter, click.Argument):
            words += map(str, ctx.params[name])
            continue
        words.append(parameter.opts[0])
        if not getattr(parameter, "is_flag", False):
            words.append(str(ctx.params.get(name)))
    return words
