"""priorshift monitor."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from priorshift._typing import Labels
from priorshift.assessment import Verdicts
from priorshift.border import Predictions
from priorshift.cli import _options as options
from priorshift.cli._console import document, emit, note, say
from priorshift.cli._console import tell as tell_line
from priorshift.cli._data import (
    CONFIDENCE_LEVEL,
    Data,
    find_classes,
    open_data,
    open_file,
    with_bounds,
)
from priorshift.cli._errors import SHIFTED, command, told_warnings
from priorshift.cli._read import read_cells
from priorshift.cli._report import command_line
from priorshift.files import SUFFIXES, atomic_file, locked, refuse_link, suffix_of
from priorshift.monitor import PERIODS, MonitorStep, PriorMonitor, cut_windows, describe
from priorshift.plotting import MonitorDisplay
from priorshift.plotting.style import require_matplotlib
from priorshift.report import require_packages, write_monitor_report
from priorshift.text import movers, percent, plural
from priorshift.verdict import Verdict

Window = tuple[Any, Predictions, Labels | None]


def read_every(
    ctx: click.Context,  # noqa: ARG001
    param: click.Parameter,  # noqa: ARG001
    value: str | None,
) -> str | int | None:
    """Read --every: a period, or a number of rows."""
    if value is None or value in PERIODS:
        return value
    if value.isdecimal() and int(value) > 0:
        return int(value)
    raise click.BadParameter(f"{value!r} is neither one of {', '.join(PERIODS)} nor rows.")


def by_number(name: str) -> list[str | int]:
    """Return what sorts names as people do: week9 before week10, dates as they are.

    Examples
    --------
    >>> sorted(["week10", "week9", "week1"], key=by_number)
    ['week1', 'week9', 'week10']
    """
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


def files_of(folder: Path) -> list[Path]:
    """Return the files of predictions in a folder, in the order of their names."""
    named = (path for path in folder.glob("[!.]*") if suffix_of(path) in SUFFIXES)
    files = sorted(filter(Path.is_file, named), key=lambda path: by_number(path.name))
    if not files:
        raise ValueError(
            f"{folder} has no file of predictions; their names end with {', '.join(SUFFIXES)}."
        )
    return files


def windows_of(
    data: Data, folder: Path | None, time_column: str | None, every: str | int | None
) -> Iterator[Window]:
    """Yield the windows of a folder or a table: its time, predictions, and labels if it has any."""
    data = replace(data, in_memory=True)
    if folder is not None:
        for path in files_of(folder):
            file = open_file(path, data.request)
            if data.request.predicted_column is None:
                (file,), _ = find_classes([file], data.classes.tolist(), data.request)
            part = replace(data, target=file)
            yield path.name, part.rows, part.target_labels
        return
    times = None
    if time_column is not None:
        times = read_cells(data.target, time_column, "--time-column")
    y_proba, y = data.rows, data.target_labels
    where = f"column {time_column!r} of {data.target.where}"
    for time, rows in cut_windows(y_proba.shape[0] if times is None else times, every, where):
        yield time, y_proba.take(rows), None if y is None else y[rows]


@contextmanager
def held(state: Path | None) -> Iterator[PriorMonitor | None]:
    """Load a state, if there is one, and keep other runs from it until this one has saved.

    Of two runs that both begin with the same state, the last to save would undo what the other saw
    or acknowledged.
    """
    if state is None:
        yield None
        return
    refuse_link(state)
    lock = state.with_name(f".{state.name}.lock")
    with locked(lock, f"another run is using {state}; wait for it, or name another --state."):
        yield PriorMonitor.load(state) if state.exists() else None


def begun(data: Data, saved: PriorMonitor | None, method: str) -> PriorMonitor:
    """Begin a monitor, or go on with a saved one, which the options must not contradict."""
    if saved is None:
        monitor = PriorMonitor(data.suitable(method), random_state=0)
        given = {name: data.given[name] for name in ("source_priors", "classes")}
        return monitor.fit(*data.validation("monitoring"), **given)
    if saved.classes_.astype(str).tolist() != data.classes.tolist():
        raise ValueError(
            "the classes of --state are not those of the files; give the --state of these, or "
            "begin a new one."
        )
    if options.was_typed("method") and method != saved.estimator_.name:
        raise click.UsageError(
            f"--method is {method} but --state was begun with {saved.estimator_.name}; leave the "
            "option out, or begin a new state."
        )
    return saved


def follow(
    followed: PriorMonitor, windows: Iterator[Window], verdicts: Verdicts | None
) -> Iterator[tuple[MonitorStep, Verdict | None]]:
    """Update with each window that is new, and judge it; a saved monitor knows how far it came."""
    times = followed.history.time
    last, skipped = (times[-1] if times else None), 0
    for time, y_proba, y in windows:
        named = isinstance(time, str)  # names and numbers do not compare
        if last is not None and named == isinstance(last, str):
            seen = by_number(str(time)) <= by_number(str(last)) if named else time <= last
            if seen:
                skipped += 1
                continue
        step, verdict = followed.update(y_proba.values, time=time, adapt=False), None
        if verdicts is not None:
            estimate = step.estimate
            with suppress(ValueError):  # standard errors, where the method has any
                bounds = followed.estimator_.estimate(y_proba, CONFIDENCE_LEVEL, 0)
                estimate = with_bounds(estimate, bounds)
            verdict = verdicts.on(estimate, y_proba, y)
        yield step, verdict
    if skipped:
        note(
            f"Left out {plural(skipped, 'window')} up to {last}, to which --state has gone on; to "
            "follow one that came late, begin a new state."
        )


COLUMNS = (
    "Per window: time, rows, shift (distance from the source priors), alarm, verdict (whether to "
    "adapt the window), and the class that moved most, with its share followed over the windows "
    "so far, and (own) in this window alone."
)


def tell(step: MonitorStep, verdict: Verdict | None, followed: PriorMonitor, as_json: bool) -> None:
    """Print a window as a line: JSON, or for a person."""
    distance = step.estimate.total_variation
    if as_json:
        more = {"method": step.estimate.method, "online": followed.online}
        more["total_variation"] = distance
        emit(document("monitor", verdict, indent=None, **step.to_dict(), **more))
        return
    k = movers(step.priors - followed.source_priors_, 1)[0]
    tell_line(
        f"{step.time!s:<12} {step.n_samples:>7,} rows  shift {percent(distance):>6}  "
        f"{describe(step):<20} {verdict or '-':<7} "
        f"{followed.classes_[k]} {percent(step.priors[k])} (own {percent(step.own_priors[k])})"
    )


def conclusion(followed: PriorMonitor, when: Any, verdict: Verdict | None) -> str:
    """Say what all windows show, and the verdict on the last; `when` an alarm was raised."""
    windows = plural(len(followed.history), "window")
    since = "" if when is None else f", raised at {when}"
    if followed.alarm_:
        said = f"An alarm stands{since}: the class priors have changed."
    elif when is not None:
        said = f"No alarm stands after {windows}: the last one{since}, was acknowledged."
    else:
        said = f"No alarm in {windows}: no change of the class priors is shown."
    return said if verdict is None else f"{said} Verdict on the last window: {verdict}."


def raised_at(followed: PriorMonitor) -> Any:
    """Return the time of the last window that raised an alarm, None if none did."""
    raised = np.flatnonzero(followed.history.raised)
    return followed.history.time[raised[-1]] if raised.size else None


@command("monitor validation.csv target.csv --every 500 --output monitor.html")
@options.data_options(validation="Needed unless --state goes on.", folder=True)
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
@options.method_option(lambda traits: traits.fit_is_counts, "scm-l", ", by a method of counts.")
@click.option(
    "--state",
    type=options.OutputPath(),
    help="Go on from this file if it exists, and save to it: only what is new is read.",
)
@click.option(
    "--acknowledge",
    is_flag=True,
    help="Before anything is read, accept the present as normal: an alarm that stands ends.",
)
@options.output_option("Write a report over time to this .html file.", ".html", ".htm")
@click.option(
    "--plot",
    type=options.OutputPath(".png", ".svg", ".pdf"),
    help="Draw priors and alarms: .png, .svg or .pdf.",
)
@options.fail_option("an alarm stands")
@options.json_option
def monitor(
    time_column: str | None,
    every: str | int | None,
    method: str,
    state: Path | None,
    acknowledge: bool,
    output: Path | None,
    plot: Path | None,
    fail_on_shift: bool,
    as_json: bool,
    **named: Any,
) -> None:
    """Follow class priors over time: of a folder, a window a file, or of a table with times."""
    command = command_line(click.get_current_context())
    request = options.request_of(**named, not_classes=() if time_column is None else (time_column,))
    folder = request.target if request.target.is_dir() else None
    if folder is not None and (time_column is not None or every is not None):
        raise click.UsageError(
            "in a folder every file is a window; --time-column and --every are for one file."
        )
    if folder is None and time_column is None and not isinstance(every, int):
        raise click.UsageError(
            f"{request.target} is one file: name its column of times with --time-column, or cut it "
            "by rows, such as --every 1000."
        )
    if output is not None:
        require_packages()
    if plot is not None:
        require_matplotlib()
    with ExitStack() as stack:
        saved, told = stack.enter_context(held(state)), stack.enter_context(told_warnings())
        if saved is None and request.validation is None:
            raise click.UsageError("monitoring needs --validation, or a --state to go on from.")
        if folder is not None:
            request = replace(request, target=files_of(folder)[0])
        if saved is not None:
            request = replace(request, known_classes=tuple(map(str, saved.classes_.tolist())))
        data = open_data(request)
        followed = begun(data, saved, method)
        if acknowledge and followed.alarm_:
            note(
                f"The alarm raised at {raised_at(followed)} is acknowledged: from now on, what "
                "came since is normal."
            )
            followed.acknowledge()
        elif acknowledge:  # the evidence so far is kept, or no alarm could ever be raised
            note("There is no alarm to acknowledge.")
        windows, verdicts = windows_of(data, folder, time_column, every), data.verdicts()
        verdict: Verdict | None = None
        n_new, done = 0, False
        try:
            for step, verdict in follow(followed, windows, verdicts):
                if not n_new and not as_json:
                    note(COLUMNS)
                tell(step, verdict, followed, as_json)
                n_new += 1
            done = True
        finally:  # what was told is kept, even if the next window is bad
            if state is not None and (done or followed.n_batches_):
                followed.save(state)
    if verdicts is not None and not verdicts.budget:
        note("The last windows have no verdict: it would take too long.")
    when = raised_at(followed)
    if as_json and not n_new:
        state_now = {"alarm": followed.alarm_, "raised_at": when, "windows": followed.n_batches_}
        emit(document("monitor", None, indent=None, **state_now))
    elif len(followed.history) and not as_json:
        say(conclusion(followed, when, verdict))
    if not len(followed.history):
        note("There was nothing to follow.")
        output = plot = None
    if output is not None:
        write_monitor_report(output, followed, command=command, warnings=told)
        note(f"Wrote {output}.")
    if plot is not None:
        from matplotlib.figure import Figure  # without pyplot

        display = MonitorDisplay.of_history(followed)
        figure = Figure(figsize=display.figsize(), layout="constrained")
        display.plot(figure.subplots())
        with atomic_file(plot) as stream:
            figure.savefig(stream, dpi=150, format=plot.suffix[1:] or "png")
        note(f"Wrote {plot}.")
    if fail_on_shift and followed.alarm_:
        click.get_current_context().exit(SHIFTED)
