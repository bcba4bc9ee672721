"""priorshift monitor."""

import json
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Floats, Indices, Labels
from priorshift.assessment import Verdicts
from priorshift.border import Predictions, some
from priorshift.cli._console import emit, note, say, stdout
from priorshift.cli._console import tell as tell_line
from priorshift.cli._documents import document
from priorshift.cli._errors import SHIFTED, command
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
from priorshift.cli._task import CONFIDENCE_LEVEL, Task, open_like, open_task, with_bounds
from priorshift.estimators import get_estimator
from priorshift.files import SUFFIXES, atomic_file, locked, refuse_link, suffix_of
from priorshift.monitor import ONLINE, MonitorStep, PriorMonitor, describe
from priorshift.plotting import MonitorDisplay
from priorshift.plotting.style import require_matplotlib
from priorshift.report import require_packages, write_monitor_report
from priorshift.text import movers
from priorshift.verdict import Verdict

CALENDAR = {"hour": "h", "day": "D", "month": "M"}
PERIODS = (*CALENDAR, "week", "value")
"""What --every can be, beside a number of rows."""

_ZONE = re.compile(r"(?<=\d)(?:Z|[+-]\d\d:?\d\d)$")
_EPOCH_MONDAY = np.datetime64("1970-01-05", "D")


@dataclass(frozen=True)
class Window:
    """A batch of rows with the time it stands for."""

    time: str | int | float
    y_proba: Floats
    y: Labels | None = None
    """Labels, if the file has them."""


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


def files_of(folder: Path) -> list[Path]:
    """Return the files of predictions in a folder, in the order of their names."""
    files = sorted(
        path
        for path in folder.iterdir()
        if path.is_file() and suffix_of(path) in SUFFIXES and not path.name.startswith(".")
    )
    if not files:
        raise ValueError(
            f"{folder} has no file of predictions; their names end with {', '.join(SUFFIXES)}."
        )
    return files


def windows_of(
    task: Task, request: Request, time_column: str | None, every: str | int | None
) -> Iterator[Window]:
    """Yield the windows of a folder or a table, each read when its turn comes."""
    if request.target.is_dir():
        for path in files_of(request.target):
            part = replace(task, files=(*task.files[:-1], open_like(path, task)))
            yield Window(path.name, part.target_proba().values, part.target_labels())
        return
    times = None if time_column is None else task.target.vector(time_column)
    if time_column is not None and times is None:
        raise ValueError(
            f"{task.target.where} has no column {time_column!r}; name the column of the times with "
            "--time-column."
        )
    where = f"column {time_column!r} of {task.target.where}"
    yield from cut(task.target_proba().values, times, every, where, task.target_labels())


def cut(
    y_proba: Floats,
    times: NDArray[Any] | None,
    every: str | int | None,
    where: str,
    y: Labels | None = None,
) -> Iterator[Window]:
    """Cut rows into windows.

    Parameters
    ----------
    y_proba : ndarray of shape (n_rows, n_classes)
    times : ndarray of shape (n_rows,) or None
        A column of dates, numbers or text. Rows are sorted by it, if there is one.
    every : str, int or None
        A period, or rows of a window; by default days for dates, and else each value by itself.
    where : str
        What messages call the file.
    y : ndarray of shape (n_rows,), optional
        Labels of the rows.
    """
    if times is None:
        if not isinstance(every, int):
            raise click.UsageError(
                "name the column of times with --time-column, or cut by rows: --every 1000."
            )
        numbers = np.arange(1, y_proba.shape[0] + 1)
        yield from _windows(y_proba, y, numbers, _of_size(numbers.size, every))
        return
    values = _read_times(times, where)
    order = np.argsort(values, kind="stable")
    values, y_proba, y = values[order], y_proba[order], None if y is None else y[order]
    if isinstance(every, int):
        yield from _windows(y_proba, y, values, _of_size(values.size, every))
        return
    periods = _periods(values, every, where)
    yield from _windows(y_proba, y, periods, _runs(periods))


def _windows(
    y_proba: Floats, y: Labels | None, times: NDArray[Any], parts: Iterable[slice]
) -> Iterator[Window]:
    """Yield one window per part, named by its last time."""
    for rows in parts:
        labels = None if y is None else y[rows]
        yield Window(_plain(times[rows.stop - 1]), y_proba[rows], labels)


def _of_size(n_rows: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def _read_times(times: NDArray[Any], where: str) -> NDArray[Any]:
    """Turn a column into dates if it holds such, else into numbers, else into text."""
    cells = times.tolist()
    missing = [i for i, cell in enumerate(cells) if _is_missing(cell)]
    if missing:
        raise ValueError(
            f"{where} has no time at row {missing[0]} ({len(missing)} missing); drop these rows."
        )
    if all(isinstance(cell, datetime | date) for cell in cells):
        return np.array([_naive(cell) for cell in cells], dtype="datetime64[s]")
    if all(isinstance(cell, int | float) for cell in cells):
        return times.astype(np.float64)
    text = [str(cell) for cell in cells]
    for read in (_dates, _numbers):
        try:
            return read(text)
        except ValueError:
            continue
    return np.array(text)


def _numbers(text: list[str]) -> NDArray[Any]:
    return np.array(text, dtype=np.float64)


def _dates(text: list[str]) -> NDArray[Any]:
    """Read ISO dates; a number alone is none, though NumPy would take it for a year."""
    if any(cell.lstrip("-").isdecimal() for cell in text):
        raise ValueError("numbers")
    zoned = [_naive(datetime.fromisoformat(c)) if _ZONE.search(c) else c for c in text]
    dates = np.array(zoned, dtype="datetime64[s]")
    if np.isnat(dates).any():
        raise ValueError("no date")
    return dates


def _naive(when: date) -> date:
    """Return a time in UTC, without its zone."""
    if isinstance(when, datetime) and when.tzinfo is not None:
        return when.astimezone(UTC).replace(tzinfo=None)
    return when


def _periods(values: NDArray[Any], every: str | None, where: str) -> NDArray[Any]:
    """Name the period that each time lies in."""
    are_dates = values.dtype.kind == "M"
    if every is None:
        every = "day" if are_dates else "value"
    if every == "value":
        return values
    if not are_dates:
        raise ValueError(
            f"--every {every} needs dates, such as 2026-05-01 or 2026-05-01T12:30; {where} has "
            f"{some(values[:3].tolist())}. Use --every value, or a number of rows."
        )
    if every == "week":  # named by its Monday
        days = (values.astype("datetime64[D]") - _EPOCH_MONDAY).astype(np.int64)
        return _EPOCH_MONDAY + 7 * (days // 7)
    return values.astype(f"datetime64[{CALENDAR[every]}]")


def _runs(labels: NDArray[Any]) -> Iterator[slice]:
    edges: Indices = np.flatnonzero(labels[1:] != labels[:-1]) + 1
    starts = [0, *edges.tolist()]
    for start, stop in zip(starts, [*edges.tolist(), labels.size], strict=True):
        yield slice(start, stop)


def _plain(label: Any) -> str | int | float:
    if isinstance(label, np.datetime64):
        return str(label)
    value = label.item()
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_missing(cell: Any) -> bool:
    return cell is None or cell == "" or cell != cell  # NaN is not itself


SETTINGS = ("method", "online", "window", "half_life", "alarm_level")
"""Options that a state keeps."""


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


def opened(request: Request, saved: PriorMonitor | None) -> AbstractContextManager[Task]:
    """Open validation and the target, or the first file of a folder."""
    if saved is None and request.validation is None:
        raise click.UsageError("monitoring needs --validation, or a --state to go on from.")
    changes: dict[str, Any] = {}
    if request.target.is_dir():
        changes["target"] = files_of(request.target)[0]
    if saved is not None:
        changes["known_classes"] = tuple(saved.classes_.astype(str).tolist())
    return open_task(replace(request, **changes))


def begun(task: Task, saved: PriorMonitor | None, settings: dict[str, Any]) -> PriorMonitor:
    """Begin a monitor, or go on with a saved one."""
    return _begin(task, settings) if saved is None else _resumed(saved, task, settings)


def follow(
    followed: PriorMonitor, windows: Iterator[Window], verdicts: Verdicts | None
) -> Iterator[tuple[MonitorStep, Verdict | None]]:
    """Update with each window that is new, and judge it; a saved monitor knows how far it came."""
    times = followed.history.time
    last, skipped = (times[-1] if times else None), 0
    for window in windows:
        if last is not None and _is_before(window.time, last):
            skipped += 1
            continue
        step = followed.update(window.y_proba, time=window.time, adapt=False)
        yield step, _judged(followed, step, window, verdicts)
    if skipped:
        note(f"Left out {skipped} windows up to {last}, which --state has seen.")


def _judged(
    followed: PriorMonitor, step: MonitorStep, window: Window, verdicts: Verdicts | None
) -> Verdict | None:
    """Weigh the present estimate on the rows of a window, with standard errors where it has any."""
    if verdicts is None:
        return None
    estimate, rows = step.estimate, Predictions.from_checked(window.y_proba)
    with suppress(ValueError):
        bounds = followed.estimator_.estimate(rows, CONFIDENCE_LEVEL, 0)
        estimate = with_bounds(estimate, bounds)
    return verdicts.on(estimate, rows, window.y)


def _begin(task: Task, settings: dict[str, Any]) -> PriorMonitor:
    options = dict(settings)
    estimator = get_estimator(task.suitable(options.pop("method")))
    monitor = PriorMonitor(estimator, random_state=0, **options)
    assert task.y_proba_val is not None
    assert task.y_val is not None
    return monitor.fit(task.y_proba_val, task.y_val, **task.given)


def _resumed(saved: PriorMonitor, task: Task, settings: dict[str, Any]) -> PriorMonitor:
    """Refuse options that a saved monitor contradicts."""
    if saved.classes_.astype(str).tolist() != task.classes.tolist():
        raise ValueError(
            "the classes of --state are not those of the files; give the --state of these, or "
            "begin a new one."
        )
    ctx = click.get_current_context()
    for name in SETTINGS:
        given = ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE
        kept = saved.estimator_.name if name == "method" else getattr(saved, name)
        if given and settings[name] != kept:
            option = name.replace("_", "-")
            raise click.UsageError(
                f"--{option} is {settings[name]} but --state was begun with {kept}; leave the "
                "option out, or begin a new state."
            )
    return saved


def _is_before(time: Any, last: Any) -> bool:
    """Tell whether a window is not new: names and dates sort as text, numbers as numbers."""
    if isinstance(time, str) != isinstance(last, str):
        return False
    return bool(time <= last)


COLUMNS = (
    "Per window: time, rows, shift (distance from the source priors), alarm, verdict (whether to "
    "adapt the window), and the shares of the classes that moved most."
)

NAMED = 2
"""Classes that a line names: those that moved most; one where the terminal is narrow."""


@contextmanager
def remembered(told: list[str]) -> Iterator[None]:
    """Keep what is warned of for the report, beside telling it."""
    with warnings.catch_warnings():
        tell = warnings.showwarning

        def remember(message: Warning | str, *more: Any, **named: Any) -> None:
            told.append(str(message))
            tell(message, *more, **named)

        warnings.showwarning = remember
        yield


def tell(step: MonitorStep, verdict: Verdict | None, followed: PriorMonitor, as_json: bool) -> None:
    """Print a window: JSON, or a line with its time, rows, shift, alarm, and what moved most."""
    change, distance = step.priors - followed.source_priors_, step.estimate.total_variation
    if as_json:
        more = {"method": step.estimate.method, "online": followed.online}
        text = document("monitor", verdict, **step.to_dict(), **more, total_variation=distance)
        emit(json.dumps(json.loads(text), ensure_ascii=False) + "\n")
        return
    line = (
        f"{step.time!s:<12} {step.n_samples:>7,} rows  shift {100 * distance:4.1f} %  "
        f"{describe(step):<20} {verdict or '-':<7} "
    )
    most = movers(change, NAMED)
    moved = [f"{followed.classes_[k]} {100 * step.priors[k]:.1f} %" for k in most]
    if len(line) + len(", ".join(moved)) > stdout().width:
        line, moved = " ".join(line.split()) + "  ", moved[:1]
    tell_line(line + ", ".join(moved))


def conclusion(followed: PriorMonitor, verdict: Verdict | None) -> str:
    """Say what all windows show, and the verdict on the last."""
    history = followed.history
    n_windows = len(history)
    said = f"No alarm in {n_windows} windows: no change of the class priors is shown."
    if n_windows == 1:
        said = "No alarm in 1 window: no change of the class priors is shown."
    if followed.alarm_:
        raised = np.flatnonzero(history.raised)
        since = f", raised at {history.time[raised[-1]]}" if raised.size else ""
        said = f"An alarm stands{since}: the class priors have changed."
    return said if verdict is None else f"{said} Verdict on the last window: {verdict}."


def write(followed: PriorMonitor, output: Path | None, plot: Path | None, **about: Any) -> None:
    """Write the report and the plot that were asked for."""
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
    from matplotlib.figure import Figure

    display = MonitorDisplay.of_history(followed)
    figure = Figure(figsize=display.figsize(), layout="constrained")
    display.plot(figure.subplots())
    with atomic_file(path) as stream:
        figure.savefig(stream, dpi=150, format=path.suffix[1:] or "png")


@command(
    "monitor --validation validation.csv --target target.csv --every 500 --output monitor.html",
    "Follow the class priors over time, with alarms.",
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
    ignored = () if time_column is None else (time_column,)
    request = Request(**named, not_classes=ignored)
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
            verdicts = task.verdicts()
            verdict: Verdict | None = None
            for number, (step, verdict) in enumerate(follow(followed, windows, verdicts)):
                if not number and not as_json:
                    note(COLUMNS)
                tell(step, verdict, followed, as_json)
            done = True
        finally:  # what was told is kept, even if the next window is bad
            if state is not None and (done or followed.n_batches_):
                followed.save(state)
    if verdicts is not None and not verdicts.budget:
        note("The last windows have no verdict: it would take too long.")
    if len(followed.history) and not as_json:
        say(conclusion(followed, verdict))
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
