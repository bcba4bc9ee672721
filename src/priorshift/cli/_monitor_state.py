"""Where a monitor begins: at validation, or where --state left off."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from priorshift.cli._classes import as_option
from priorshift.cli._console import note
from priorshift.cli._monitor_windows import Window, files_of
from priorshift.cli._options import Request
from priorshift.cli._task import Task, open_task
from priorshift.estimators import get_estimator
from priorshift.io import locked
from priorshift.streaming import MonitorStep, PriorMonitor

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
    goal = state.resolve()
    lock = goal.with_name(f".{goal.name}.lock")
    with locked(lock, f"another run is using {state}; wait for it, or name another --state."):
        yield PriorMonitor.load(state) if state.exists() else None


def opened(request: Request, saved: PriorMonitor | None) -> AbstractContextManager[Task]:
    """Open validation and the target, or the first file of a folder."""
    if saved is None and request.validation is None:
        raise click.UsageError("monitoring needs --validation, or a --state to go on from.")
    changes: dict[str, Any] = {}
    if request.target.is_dir():
        changes["target"] = files_of(request.target)[0]
    if saved is not None and request.class_columns is None:
        changes["class_columns"] = as_option(saved.classes_.tolist())
    return open_task(replace(request, **changes))


def begun(task: Task, saved: PriorMonitor | None, settings: dict[str, Any]) -> PriorMonitor:
    """Begin a monitor, or go on with a saved one."""
    return _begin(task, settings) if saved is None else _resumed(saved, task, settings)


def follow(followed: PriorMonitor, windows: Iterator[Window]) -> Iterator[MonitorStep]:
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


def _begin(task: Task, settings: dict[str, Any]) -> PriorMonitor:
    options = dict(settings)
    estimator = get_estimator(options.pop("method"))
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
