"""What monitor hands out: a line a window, and at the end a report and a plot."""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from priorshift.cli._console import emit, note, stdout
from priorshift.cli._documents import document
from priorshift.io import atomic_path
from priorshift.plotting._monitor import MonitorDisplay
from priorshift.report._monitor import write_monitor_report
from priorshift.streaming import MonitorStep, PriorMonitor, describe
from priorshift.text import movers

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


def tell(step: MonitorStep, followed: PriorMonitor, as_json: bool) -> None:
    """Print a window: JSON, or a line with its time, rows, shift, alarm, and what moved most."""
    change = step.priors - followed.source_priors_
    distance = 0.5 * float(np.abs(change).sum())
    if as_json:
        more = {"method": step.estimate.method, "online": followed.online}
        text = document("monitor", None, **step.to_dict(), **more, total_variation=distance)
        emit(json.dumps(json.loads(text), ensure_ascii=False) + "\n")
        return
    console = stdout()
    line = (
        f"{step.time!s:<12} {step.n_samples:>7,} rows  shift {100 * distance:4.1f} %  "
        f"{describe(step):<20} "
    )
    most = movers(change, NAMED)
    moved = [f"{followed.classes_[k]} {100 * step.priors[k]:.1f} %" for k in most]
    if len(line) + len(", ".join(moved)) > console.width:
        moved = moved[:1]
    console.print(line + ", ".join(moved), soft_wrap=True)


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
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150)
