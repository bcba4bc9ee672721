"""priorshift monitor."""

from pathlib import Path
from typing import Any

import click

from priorshift.cli._errors import SHIFTED, Command
from priorshift.cli._monitor_output import remembered, tell, write
from priorshift.cli._monitor_state import SETTINGS, begun, follow, held, opened
from priorshift.cli._monitor_windows import PERIODS, read_every, windows_of
from priorshift.cli._options import (
    OutputPath,
    Request,
    data_options,
    defaulted,
    fail_option,
    html_option,
    json_option,
    level_option,
    method_option,
    title_option,
)
from priorshift.cli._report import command_line
from priorshift.plotting.style import require_matplotlib
from priorshift.report._render import require_packages
from priorshift.streaming import ONLINE


@click.command(
    cls=Command,
    short_help="Follow the class priors over time, with alarms.",
    epilog="\b\nExample:\n"
    "  priorshift monitor --validation validation.csv --target target.csv --every 500 "
    "--output monitor.html",
)
@data_options(validation="Needed unless --state goes on.", folder=True)
@click.option(
    "--time-column", metavar="NAME", help="Column of a table that says when each row was."
)
@click.option(
    "--every",
    callback=read_every,
    metavar=f"[{'|'.join(PERIODS)}|ROWS]",
    help="How to cut a table: by a period of --time-column, by each value of it, or into so many "
    "rows [default: day for dates, else value].",
)
@method_option(lambda traits: traits.fit_is_counts, "scm-l", ", by a method of counts.")
@defaulted(
    "--online",
    click.Choice(ONLINE),
    ONLINE[0],
    "How to weigh the past: as far back as nothing changed, the last windows, or ever less.",
)
@defaulted(
    "--window",
    click.IntRange(min=1),
    10,
    "How many of the last windows --online window takes.",
)
@defaulted(
    "--half-life",
    click.FloatRange(min=0, min_open=True),
    5.0,
    "After how many windows --online exponential halves a weight.",
)
@level_option("--alarm-level", "Chance of a false alarm, over all time.")
@click.option(
    "--state",
    type=OutputPath(),
    help="Go on from this file if it exists, and save to it: only what is new is read.",
)
@click.option(
    "--acknowledge",
    is_flag=True,
    help="Before anything is read, accept the present as normal: an alarm that stands ends.",
)
@html_option("Write a report over time to this .html file.")
@click.option(
    "--plot",
    type=OutputPath(".png", ".svg", ".pdf"),
    help="Draw priors and alarms: .png, .svg or .pdf.",
)
@title_option
@fail_option("an alarm stands")
@json_option
def monitor(
    time_column: str | None,
    every: str | int | None,
    state: Path | None,
    acknowledge: bool,
    output: Path | None,
    plot: Path | None,
    title: str | None,
    fail_on_shift: bool,
    as_json: bool,
    **named: Any,
) -> None:
    """Follow class priors over time: of a folder, a window a file, or of a table with times."""
    command = command_line(click.get_current_context())
    settings = {name: named.pop(name) for name in SETTINGS}
    request = Request(**named)
    _check_usage(request, time_column, every)
    if output is not None:
        require_packages()
    if plot is not None:
        require_matplotlib()
    told: list[str] = []
    with held(state) as saved, remembered(told), opened(request, saved) as task:
        followed = begun(task, saved, settings)
        if acknowledge:
            followed.acknowledge()
        windows, done = windows_of(task, request, time_column, every), False
        try:
            for step in follow(followed, windows):
                tell(step, followed, as_json)
            done = True
        finally:  # what was told is kept, even if the next window is bad
            if state is not None and (done or followed.n_batches_):
                followed.save(state)
    write(followed, output, plot, command=command, title=title, warnings=told)
    if fail_on_shift and followed.alarm_:
        click.get_current_context().exit(SHIFTED)


def _check_usage(request: Request, time_column: str | None, every: str | int | None) -> None:
    if request.target.is_dir() and (time_column is not None or every is not None):
        raise click.UsageError(
            "in a folder every file is a window; --time-column and --every are for one file."
        )
    if not request.target.is_dir() and time_column is None and not isinstance(every, int):
        raise click.UsageError(
            f"{request.target} is one file: name its column of times with --time-column, or cut it "
            "by rows, such as --every 1000."
        )
