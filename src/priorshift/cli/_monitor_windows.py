"""From a folder or a table to windows, one after the other."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Floats, Indices
from priorshift._validation import some
from priorshift.cli._options import Request
from priorshift.cli._task import Task
from priorshift.io import SUFFIXES, open_predictions

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
        if path.is_file() and path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
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
            file = open_predictions(path, label_column=request.label_column, logits=request.logits)
            part = replace(task, files=(*task.files[:-1], file))
            yield Window(path.name, part.target_proba().values)
        return
    times = None if time_column is None else task.target.vector(time_column)
    if time_column is not None and times is None:
        raise ValueError(
            f"{task.target.where} has no column {time_column!r}; name the column of the times with "
            "--time-column."
        )
    where = f"column {time_column!r} of {task.target.where}"
    yield from cut(task.target_proba().values, times, every, where)


def cut(
    y_proba: Floats, times: NDArray[Any] | None, every: str | int | None, where: str
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
    """
    if times is None:
        if not isinstance(every, int):
            raise click.UsageError(
                "name the column of times with --time-column, or cut by rows: --every 1000."
            )
        yield from _by_rows(y_proba, np.arange(1, y_proba.shape[0] + 1), every)
        return
    values = _read_times(times, where)
    order = np.argsort(values, kind="stable")
    values, y_proba = values[order], y_proba[order]
    if isinstance(every, int):
        yield from _by_rows(y_proba, values, every)
        return
    labels = _periods(values, every, where)
    for rows in _runs(labels):
        yield Window(_plain(labels[rows.start]), y_proba[rows])


def _by_rows(y_proba: Floats, values: NDArray[Any], size: int) -> Iterator[Window]:
    for start in range(0, y_proba.shape[0], size):
        rows = slice(start, min(start + size, y_proba.shape[0]))
        yield Window(_plain(values[rows.stop - 1]), y_proba[rows])


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
