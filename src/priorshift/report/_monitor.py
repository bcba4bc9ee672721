"""A report over time: what a monitor has seen, as one page."""

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from priorshift.estimators import Reference
from priorshift.io import write_text
from priorshift.report._content import about_report
from priorshift.report._data import as_json
from priorshift.report._methods import description, references
from priorshift.report._monitor_content import (
    WAYS,
    headline,
    key_numbers,
    level_in_words,
    monitor_data,
    sentences,
    source_and_present_table,
    steps_table,
)
from priorshift.report._monitor_figures import draw_monitor_figures
from priorshift.report._render import _environment, _policy, _source, require_packages
from priorshift.streaming import MonitorHistory, PriorMonitor
from priorshift.text import count, plural, shown_names, shown_text

TITLE = "Class priors over time"
BABY = Reference(
    "Baby et al., NeurIPS 2023 (online label shift)", "https://arxiv.org/abs/2305.19570"
)
CONFORMAL = Reference(
    "Volkhonskiy et al., COPA 2017 (conformal martingales for change points)",
    "https://arxiv.org/abs/1706.03415",
)
RAMDAS = Reference(
    "Ramdas et al., Statistical Science 2023 (e-processes)", "https://arxiv.org/abs/2210.01948"
)


def render_monitor_report(
    monitor: PriorMonitor | MonitorHistory,
    *,
    title: str | None = None,
    command: str | None = None,
    warnings: Sequence[str] = (),
    created: datetime | None = None,
) -> str:
    """Render what a monitor has seen as one self-contained HTML page.

    Parameters
    ----------
    monitor : PriorMonitor or MonitorHistory
        With at least one step.
    title : str, optional
        Heading of the page.
    command : str, optional
        What was run, for whoever wants to run it again.
    warnings : sequence of str, default=()
        What was warned of on the way.
    created : datetime, optional
        Date of the report, by default now. All else depends on the arguments alone.

    Returns
    -------
    str
        HTML.

    Examples
    --------
    >>> import numpy as np
    >>> from priorshift.report import render_monitor_report
    >>> from priorshift.streaming import PriorMonitor
    >>> y_proba, y = np.tile([[0.9, 0.1], [0.2, 0.8]], (50, 1)), np.tile(["cat", "dog"], 50)
    >>> monitor = PriorMonitor().fit(y_proba, y)
    >>> step = monitor.update(y_proba[:40], time="2026-05-01")
    >>> "<h1>Cats and dogs</h1>" in render_monitor_report(monitor, title="Cats and dogs")
    True
    """
    require_packages()
    history = monitor.history if isinstance(monitor, PriorMonitor) else monitor
    if not len(history):
        raise ValueError("there is no step to report on; call update(y_proba) first.")
    about = about_report(title or TITLE, command, None, created)
    names = shown_names(history.classes)
    told = tuple(dict.fromkeys(shown_text(str(warning)) for warning in warnings))
    environment = _environment()
    css, script = (_source(environment, f"report.{kind}") for kind in ("css", "js"))
    return environment.get_template("monitor.html.j2").render(
        about=about,
        history=history,
        describe=description(history.method),
        headline=headline(history),
        sentences=sentences(history, names),
        numbers=key_numbers(history),
        tables={
            "steps": steps_table(history, names),
            "priors": source_and_present_table(history, names),
        },
        figures=draw_monitor_figures(history),
        warnings=told,
        references=_references(history),
        way=WAYS[history.online],
        level=level_in_words(history),
        count=count,
        plural=plural,
        json=as_json(monitor_data(history, told, **about)),
        css=css,
        script=script,
        policy=_policy(css, script),
    )


def write_monitor_report(
    path: str | os.PathLike[str], monitor: PriorMonitor | MonitorHistory, **given: Any
) -> Path:
    """Write a report over time to a file, whole or not at all.

    Parameters
    ----------
    path : path-like
        Where to write the page.
    monitor : PriorMonitor or MonitorHistory
        With at least one step.
    **given
        As for `render_monitor_report`.

    Returns
    -------
    Path
        The file written.
    """
    return write_text(path, render_monitor_report(monitor, **given))


def _references(history: MonitorHistory) -> list[Reference]:
    online = [BABY] if history.online == "flh-ftl" else []
    return [*references(history.method, calibration=False), *online, CONFORMAL, RAMDAS]
