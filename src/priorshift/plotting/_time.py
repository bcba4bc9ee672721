"""An axis of time: dates, numbers or steps."""

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Indices, Mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_POINTS = 400
"""Steps that a line is drawn with."""

_ZONE = re.compile(r"(?<=\d)(?:Z|[+-]\d\d:\d\d)$")


def positions(time: tuple[Any, ...]) -> NDArray[Any]:
    """Return where steps lie along the axis: at their dates or numbers, else one by one.

    Examples
    --------
    >>> positions(("2026-01-05T00:00:00Z", "2026-02-01")).astype("datetime64[D]")
    array(['2026-01-05', '2026-02-01'], dtype='datetime64[D]')
    >>> positions(("spring", "summer", "autumn"))
    array([0, 1, 2])
    """
    dates = _dates(time)
    if dates is not None:
        return dates
    if all(isinstance(when, int | float) for when in time):
        return np.array(time, dtype=np.float64)
    return np.arange(len(time))


def thinned_steps(n_steps: int) -> Indices:
    """Return the steps to draw: all, or 400 at even distances with the first and the last."""
    return np.unique(np.linspace(0, n_steps - 1, min(n_steps, MAX_POINTS)).astype(np.intp))


def runs(flags: Mask) -> list[tuple[int, int]]:
    """Return first and last position of each run of True.

    Examples
    --------
    >>> runs(np.array([True, True, False, True]))
    [(0, 1), (3, 3)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(int), [0]])))
    return [(int(a), int(b) - 1) for a, b in edges.reshape(-1, 2)]


def label_time(ax: "Axes", time: tuple[Any, ...], *, numbered: bool) -> None:
    """Name the axis, with dates where there are such; steps that are only numbered have no time."""
    when = positions(time)
    if when.dtype.kind == "M":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator()  # type: ignore[no-untyped-call]
        ax.xaxis.set_major_locator(locator)
        concise = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
        ax.xaxis.set_major_formatter(concise)
        ax.set_xlabel("time")
        return
    if (when == when.round()).all():
        from matplotlib.ticker import MaxNLocator

        # there is no step 2.5
        whole = MaxNLocator(integer=True, steps=[1, 2, 5, 10], min_n_ticks=1)
        ax.xaxis.set_major_locator(whole)
    if when.size == 1:
        ax.set_xlim(when[0] - 0.5, when[0] + 0.5)
    ax.set_xlabel("step" if numbered or when.dtype.kind == "i" else "time")


def _dates(time: tuple[Any, ...]) -> NDArray[Any] | None:
    """Read times as dates, if all are such as ISO text; a time zone is left out."""
    if not all(isinstance(when, str) for when in time):
        return None
    try:
        dates = np.array([_ZONE.sub("", when) for when in time], dtype="datetime64[ms]")
    except ValueError:
        return None
    return None if np.isnat(dates).any() else dates
