"""priorshift monitor."""

import csv
import io
import json
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from priorshift.cli._console import emit, note, stdout
from priorshift.cli._documents import document
from priorshift.cli._errors import Command
from priorshift.cli._monitor_windows import PERIODS, Window, cut, files_of, read_every
from priorshift.cli._options import OutputPath, Request, data_options, json_option
from priorshift.cli._report import command_line
from priorshift.cli._shift import SHIFTED
from priorshift.cli._task import Task, open_task
from priorshift.estimators import available_estimators, get_estimator
from priorshift.io import atomic_path, open_predictions
from priorshift.plotting._monitor import MonitorDisplay
from priorshift.report._monitor import write_monitor_report
from priorshift.streaming import MonitorStep, PriorMonitor
from priorshift.streaming._past import ONLINE
from priorshift.streaming._saved_estimator import SAVED
from priorshift.streaming._step import describe

METHOD = "scm-l"
NAMED = 2
"""Classes that a line names: those that moved most."""

TARGET = click.Path(exists=True, path_type=Path, allow_dash=True)


@click.command(
    cls=Command,
    short_help="Follow the class priors over time, with alarms.",
    epilog="\b\nExample:\n"
    "  priorshift monitor --validation validation.csv --target target.csv --every 500 "
    "--output monitor.html",
)
@data_options
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
@click.option(
    "--method",
    type=click.Choice([name for name in available_estimators() if name in SAVED]),
    default=METHOD,
    show_default=True,
    help="How to estimate the priors: a method that needs no more than counts.",
)
@click.option(
    "--online",
    type=click.Choice(ONLINE),
    default=ONLINE[0],
    show_default=True,
    help="How to weigh the past: as far back as nothing changed, the last windows, or ever less.",
)
@click.option(
    "--window",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="How many of the last windows --online window takes.",
)
@click.option(
    "--half-life",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="After how many windows --online exponential halves a weight.",
)
@click.option(
    "--alarm-level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="Chance of a false alarm, over all time.",
)
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
@click.option("--output", type=OutputPath(), help="Write a report over time to this .html file.")
@click.option("--plot", type=OutputPath(), help="Draw priors and alarms: .png, .svg or .pdf.")
@click.option("--title", help="Heading of the report.")
@click.option(
    "--fail-on-shift", is_flag=True, help=f"End with exit code {SHIFTED} if an alarm stands."
)
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
    settings = {name: named.pop(name) for name in _SETTINGS}
    request = Request(**named)
    _check_usage(request, time_column, every, output)
    saved = PriorMonitor.load(state) if state is not None and state.exists() else None
    told: list[str] = []
    with _remembered(told), _opened(request, saved) as task:
        followed = _begin(task, settings) if saved is None else _resumed(saved, task, settings)
        if acknowledge:
            followed.acknowledge()
        windows = _windows(task, request, time_column, every)
        try:
            for step in _follow(followed, windows):
                _tell(step, followed, as_json)
        finally:
            if state is not None:  # what was told is kept, even if the next window is bad
                followed.save(state)
    _write(followed, output, plot, command=command, title=title, warnings=told)
    if fail_on_shift and followed.alarm_:
        click.get_current_context().exit(SHIFTED)


_SETTINGS = ("method", "online", "window", "half_life", "alarm_level")

_TARGET_OPTION = next(option for option in monitor.params if option.name == "target")
_TARGET_OPTION.type = TARGET
_TARGET_OPTION.help = "Unlabelled predictions: a folder of files, or one file."


@contextmanager
def _remembered(told: list[str]) -> Iterator[None]:
    """Keep what is warned of for the report, beside telling it."""
    with warnings.catch_warnings():
        tell = warnings.showwarning

        def remember(message: Warning | str, *more: Any, **named: Any) -> None:
            told.append(str(message))
            tell(message, *more, **named)

        warnings.showwarning = remember
        yield


def _check_usage(
    request: Request, time_column: str | None, every: str | int | None, output: Path | None
) -> None:
    if request.target.is_dir() and (time_column is not None or every is not None):
        raise click.UsageError(
            "in a folder every file is a window; --time-column and --every are for one file."
        )
    if not request.target.is_dir() and time_column is None and not isinstance(every, int):
        raise click.UsageError(
            f"{request.target} is one file: name its column of times with --time-column, or cut it "
            "by rows, such as --every 1000."
        )
    if output is not None and output.suffix.lower() not in (".html", ".htm"):
        raise click.BadParameter(f"{output} must end with .html.", param_hint="'--output'")


def _opened(request: Request, saved: PriorMonitor | None) -> AbstractContextManager[Task]:
    """Open validation and the target, or the first file of a folder."""
    if saved is None and request.validation is None:
        raise click.UsageError("monitoring needs --validation, or a --state to go on from.")
    changes: dict[str, Any] = {}
    if request.target.is_dir():
        changes["target"] = files_of(request.target)[0]
    if saved is not None and request.class_columns is None:
        changes["class_columns"] = _as_csv(saved.classes_.tolist())
    return open_task(replace(request, **changes))


def _begin(task: Task, settings: dict[str, Any]) -> PriorMonitor:
    options = dict(settings)
    estimator = get_estimator(options.pop("method"))
    begun = PriorMonitor(estimator, random_state=0, **options)
    assert task.y_proba_val is not None
    assert task.y_val is not None
    return begun.fit(task.y_proba_val, task.y_val, **task.given)


def _resumed(saved: PriorMonitor, task: Task, settings: dict[str, Any]) -> PriorMonitor:
    """Refuse options that a saved monitor contradicts."""
    if saved.classes_.astype(str).tolist() != task.classes.tolist():
        raise ValueError(
            "the classes of --state are not those of the files; give the --state of these, or "
            "begin a new one."
        )
    ctx = click.get_current_context()
    for name in _SETTINGS:
        given = ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE
        kept = saved.estimator_.name if name == "method" else getattr(saved, name)
        if given and settings[name] != kept:
            option = name.replace("_", "-")
            raise click.UsageError(
                f"--{option} is {settings[name]} but --state was begun with {kept}; leave the "
                "option out, or begin a new state."
            )
    return saved


def _windows(
    task: Task, request: Request, time_column: str | None, every: str | int | None
) -> Iterator[Window]:
    """Yield the windows of a folder or a table, each read when its turn comes."""
    if request.target.is_dir():
        for path in files_of(request.target):
            file = open_predictions(path, label_column=request.label_column, logits=request.logits)
            part = replace(task, files=(*task.files[:-1], file))
            yield Window(path.name, part.target_proba())
        return
    times = None if time_column is None else task.target.vector(time_column)
    if time_column is not None and times is None:
        raise ValueError(f"{task.target.where} has no column {time_column!r}.")
    where = f"column {time_column!r} of {task.target.where}"
    yield from cut(task.target_proba(), times, every, where)


def _follow(followed: PriorMonitor, windows: Iterator[Window]) -> Iterator[MonitorStep]:
    """Update with each window that is new; a saved monitor knows how far it came."""
    times = followed.history.time
    last, skipped = (times[-1] if times else None), 0
    for window in windows:
        if last is not None and _is_before(window.time, last):
            skipped += 1
            continue
        yield followed.update(window.y_proba, time=window.time, adapt=False)
    if skipped:
        note(f"Left out {skipped} windows up to {last}, which --state has seen.")


def _is_before(time: Any, last: Any) -> bool:
    """Tell whether a window is not new: names and dates sort as text, numbers as numbers."""
    if isinstance(time, str) != isinstance(last, str):
        return False
    return bool(time <= last)


def _tell(step: MonitorStep, followed: PriorMonitor, as_json: bool) -> None:
    change = step.priors - followed.source_priors_
    distance = 0.5 * float(np.abs(change).sum())
    if as_json:
        more = {"method": step.estimate.method, "online": followed.online}
        text = document("monitor", **step.to_dict(), **more, total_variation=distance)
        emit(json.dumps(json.loads(text), ensure_ascii=False) + "\n")
        return
    most = np.argsort(-np.abs(change), kind="stable")[:NAMED]
    moved = ", ".join(f"{followed.classes_[k]} {100 * step.priors[k]:.1f} %" for k in most)
    stdout().print(
        f"{step.time!s:<24} {step.n_samples:>8,} rows  shift {100 * distance:5.1f} %  "
        f"{describe(step):<24} {moved}",
        soft_wrap=True,
    )


def _write(followed: PriorMonitor, output: Path | None, plot: Path | None, **about: Any) -> None:
    if not len(followed.history):
        note("There was nothing to follow.")
        return
    if output is not None:
        write_monitor_report(output, followed, **about)
        note(f"Wrote {output}.")
    if plot is not None:
        draw(followed, plot)
        note(f"Wrote {plot}.")


def draw(followed: PriorMonitor, path: Path) -> None:
    """Write the plot of priors over time, without pyplot."""
    from priorshift.plotting._style import require_matplotlib

    require_matplotlib()
    from matplotlib.figure import Figure

    display = MonitorDisplay.of_history(followed)
    figure = Figure(figsize=display.figsize(), layout="constrained")
    display.plot(figure.subplots())
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150)


def _as_csv(names: list[Any]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="").writerow(names)
    return stream.getvalue()
