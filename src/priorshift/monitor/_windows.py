"""Cut rows into windows: by the calendar, by each value, or into so many rows."""

import re
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from priorshift._typing import Indices
from priorshift.border import is_missing, some

CALENDAR = {"hour": "h", "day": "D", "month": "M"}
PERIODS = (*CALENDAR, "week", "value")
"""What `every` can be, beside a number of rows."""

_ZONE = re.compile(r"(?<=\d)(?:Z|[+-]\d\d:?\d\d)$")
_DOTTED = re.compile(r"(\d\d?)\.(\d\d?)\.(\d{4})(?=$|[ T])")
_SLASHED = re.compile(r"\d\d?/\d\d?/\d{4}(?=$|[ T])")
_EPOCH_MONDAY = np.datetime64("1970-01-05", "D")


def cut_windows(
    times: ArrayLike | int, every: str | int | None = None, name: str = "times"
) -> list[tuple[str | int | float, Indices]]:
    """Sort rows by time, and cut them into windows.

    Parameters
    ----------
    times : array-like of shape (n_rows,), or int
        When each row was: dates, numbers or text. An int is the number of rows, which are then in
        order already.
    every : {"hour", "day", "week", "month", "value"} or int, optional
        A period of the calendar, each value by itself, or rows of a window; by default days for
        dates, and each value for all else.
    name : str
        What errors call the times.

    Returns
    -------
    list of (time, rows)
        The last time of each window, or its period, and the positions of its rows.

    Examples
    --------
    >>> from priorshift.monitor import cut_windows
    >>> cut_windows(["2026-05-02", "2026-05-01", "2026-05-02"])
    [('2026-05-01', array([1])), ('2026-05-02', array([0, 2]))]
    >>> [time for time, _ in cut_windows(5, every=2)]
    [2, 4, 5]
    """
    labels: NDArray[Any]
    if isinstance(times, int):
        rows, labels = np.arange(times), np.arange(1, times + 1)
    else:
        values = _read(np.asarray(times), name)
        rows = np.argsort(values, kind="stable")
        labels = values[rows]
    if isinstance(every, int):
        edges = np.arange(every, rows.size, every)
    else:
        are_dates = labels.dtype.kind == "M"
        every = every or ("day" if are_dates else "value")
        if every != "value" and not are_dates:
            raise ValueError(
                f"{every} needs dates, such as 2026-05-01 or 2026-05-01T12:30; {name} has "
                f"{some(labels[:3].tolist())}. Cut by value, or by a number of rows."
            )
        if every == "week":  # named by its Monday
            days = (labels.astype("datetime64[D]") - _EPOCH_MONDAY).astype(np.int64)
            labels = _EPOCH_MONDAY + 7 * (days // 7)
        elif every != "value":
            labels = labels.astype(f"datetime64[{CALENDAR[every]}]")
        edges = np.flatnonzero(labels[1:] != labels[:-1]) + 1
    if not rows.size:
        return []
    last = labels[np.append(edges, rows.size) - 1]
    ends = (last.astype(str) if last.dtype.kind == "M" else last).tolist()
    ends = [int(end) if isinstance(end, float) and end.is_integer() else end for end in ends]
    return list(zip(ends, np.split(rows, edges), strict=True))


def _read(times: NDArray[Any], name: str) -> NDArray[Any]:
    """Turn times into dates if they are such, else into numbers, else into text."""
    cells = times.tolist()
    empty = [i for i, cell in enumerate(cells) if is_missing(cell) or cell == ""]
    if empty:
        raise ValueError(
            f"{name} has no time at row {empty[0]} ({len(empty)} missing); drop these rows."
        )
    if all(isinstance(cell, datetime | date) for cell in cells):
        return np.array([_naive(cell) for cell in cells], dtype="datetime64[s]")
    if all(isinstance(cell, int | float) for cell in cells):
        return times.astype(np.float64)
    text = [str(cell) for cell in cells]
    if all(map(_DOTTED.match, text)):  # the day comes first wherever dots are written
        text = [_DOTTED.sub(r"\3-\2-\1", re.sub(r"\b(\d)\.", r"0\1.", cell)) for cell in text]
    elif all(map(_SLASHED.match, text)):
        raise ValueError(
            f"{name} has dates such as {text[0]}, and nothing says whether the day or the month "
            "comes first; write them as 2026-05-01."
        )
    try:
        # a number alone is no date, though NumPy would take it for a year
        if not any(cell.lstrip("-").isdecimal() for cell in text):
            zoned = [_naive(datetime.fromisoformat(c)) if _ZONE.search(c) else c for c in text]
            dates = np.array(zoned, dtype="datetime64[s]")
            if not np.isnat(dates).any():
                return dates
    except ValueError:
        pass
    try:
        return np.array(text, dtype=np.float64)
    except ValueError:
        return np.array(text)


def _naive(when: date) -> date:
    """Return a time in UTC, without its zone."""
    if isinstance(when, datetime) and when.tzinfo is not None:
        return when.astimezone(UTC).replace(tzinfo=None)
    return when
