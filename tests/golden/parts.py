"""What is frozen, in parts that can be drawn anew one by one.

Each part is a function from `quick` to a dict of tasks, each a dict of plain numbers and words.
"""

import json
import math
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from click.testing import CliRunner

import priorshift as ps
from priorshift.cli import main as command
from tests.golden.files import COMMANDS, write_files
from tests.golden.tasks import QUICK, TASKS, Data, Task, bundled, draw, has, in_form

NEVER_AT_MANY_CLASSES = {"joint": 30, "cm-l": 30, "gls": 300, "rlls": 300}
"""Methods whose solvers are for few classes, and how many we ask them for.

The likelihood of CM-L is so flat for many that its maximum moves with the last digits.
"""

WHOLE = 12
"""Longer vectors are stored as so many weighted sums: they agree if the vectors do."""


def methods() -> list[str]:
    """Name the methods that are told what to do; Auto has a part of its own."""
    names = ps.available_estimators(target_labels=True)
    return [name for name in names if name not in ("na", "auto")]


def fixed(quick: bool) -> dict:
    """Priors, intervals and status of every method but Auto on every task."""
    return {
        task.name: {
            name: found for name in methods() if (found := ask(name, task, data)) is not None
        }
        for task, data in drawn(quick)
    }


def fixed_on_dask() -> dict:
    """Ask methods for priors with Dask arrays, which must agree with those of "as array"."""
    task = next(task for task in TASKS if task.name == "as array")
    data, on_dask = draw(task), replace(task, form="dask", interval=None)
    found = {name: ask(name, on_dask, data) for name in methods()}
    return {name: each for name, each in found.items() if each and "refused" not in each}


def auto(quick: bool) -> dict:
    """Priors, intervals, status and decision of Auto on every task."""
    return {
        task.name: found
        for task, data in drawn(quick)
        if task.K <= 300 and task.interval in (None, "auto") and task.solver == "certified"
        if (found := ask("auto", task, data)) is not None
    }


def drawn(quick: bool) -> Iterator[tuple[Task, Data]]:
    """Yield the tasks with their data."""
    for task in TASKS:
        if (task.name in QUICK or not quick) and has(task.form):
            yield task, draw(task)


def ask(name: str, task: Task, data: Data) -> dict | None:
    """Fit and estimate; None if the method is not for such a task, which is no result."""
    if NEVER_AT_MANY_CLASSES.get(name, math.inf) < task.K:
        return None
    estimator = ps.get_estimator(name, **({"random_state": 0} if name == "auto" else {}))
    takes_solver = "solver" in estimator.get_params()
    if task.solver != "certified" and not takes_solver:
        return None
    if takes_solver:
        estimator.set_params(solver=task.solver)
    source = {"source_priors": data.source_priors} if task.known_source else {}
    options = {} if task.interval is None else {"confidence_level": 0.9}
    if options and task.form != "groups":
        options |= {"interval_method": task.interval, "n_resamples": 20}
    labels = {"y_target": np.where(np.arange(task.n_target) % 5 == 0, data.y.astype(object), None)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if task.form == "decisions":
                estimator.fit(y_pred=data.y_proba_val.argmax(axis=1), y=data.y_val)
                target = {"y_pred": data.y_proba.argmax(axis=1)}
            else:
                classes = [str(k) for k in range(task.K)] if is_frame(task.form) else range(task.K)
                y_val = data.y_val.astype(str) if is_frame(task.form) else data.y_val
                y_proba_val = in_form(data.y_proba_val, task.form)
                estimator.fit(y_proba_val, y_val, classes=list(classes), **source)
                target = {"y_proba": in_form(data.y_proba, task.form)}
            if task.form == "groups":
                groups = np.arange(task.n_target) % 7 // 2
                found = ps.estimate_groups(estimator, groups=groups, **target, **options)
                return group_numbers(found)
            if name == "ppi":
                if is_frame(task.form):
                    labels["y_target"] = [None if y is None else str(y) for y in labels["y_target"]]
                target |= labels
            return numbers(estimator.estimate(**target, **options, random_state=0))
        except (ValueError, TypeError) as error:
            return {"refused": type(error).__name__}


def is_frame(form: str) -> bool:
    """Tell whether predictions have names, which labels must then have too."""
    return form in ("pandas", "polars", "arrow")


def numbers(found: ps.PriorEstimate) -> dict:
    """Return what must not change of an estimate."""
    stored = {"priors": shortened(found.priors), "status": found.status}
    if found.interval is not None:
        stored["interval"] = shortened(found.interval)
    if found.decision is not None:
        stored |= {key: found.decision[key] for key in ("adapt", "expected_gain")}
    return stored


def group_numbers(found: ps.GroupEstimates) -> dict:
    """Return what must not change of the estimates of groups."""
    stored = {"priors": shortened(found.priors), "status": sorted(set(found.status.tolist()))}
    stored["weight"] = shortened(found.weight)
    if found.interval is not None:
        stored["interval"] = shortened(found.interval)
    return stored


def shortened(values: np.ndarray) -> list[float]:
    """Return a vector with 13 digits, or weighted sums of a long one."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    if flat.size > WHOLE:
        at = np.arange(flat.size)
        flat = np.array([flat @ np.cos(at * turn) for turn in range(WHOLE)])
    return [float(f"{value:.13g}") for value in flat]


# assess


def assess(quick: bool) -> dict:
    """`assess` as JSON: each number of it, and each word that is a name."""
    stored = {}
    for task in TASKS:
        if task.interval != "auto" or task.solver != "certified" or task.K > 100:
            continue
        if (quick and task.name not in QUICK) or not has(task.form):
            continue
        stored[task.name] = assessed(draw(task), task)
    if not quick:
        stored["bundled"] = assessed(bundled(), None)
    return stored


def assessed(data: Data, task: Task | None) -> dict:
    """Assess one task; a refusal is a result too."""
    form = task.form if task else "array"
    named = is_frame(form)
    K = data.y_proba.shape[1]
    options = {"classes": [str(k) if named else k for k in range(K)], "random_state": 0}
    if task is None or task.known_source:
        options["source_priors"] = data.source_priors
    y_val = data.y_val.astype(str) if named else data.y_val
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if form == "decisions":
            decisions = {
                "y_pred_val": data.y_proba_val.argmax(axis=1),
                "y_pred_target": data.y_proba.argmax(axis=1),
            }
            found = ps.assess(y_val=y_val, **decisions, **options)
        else:
            val, target = in_form(data.y_proba_val, form), in_form(data.y_proba, form)
            found = ps.assess(val, y_val, target, **options)
        return flat(found.to_dict())


UNSTABLE = re.compile(
    r"(calibration\.|calibrator|n_iter|gap$|objective|version|created|seconds|time|condition_number"
    r"|calibration_weights|raw_weight|output$)"
)
"""Paths of a document that are no result: how a solver went, when, and with what."""


def flat(document, path: str = "") -> dict:
    """Return a document's numbers and names by their paths; sentences may improve."""
    if isinstance(document, dict):
        items = list(document.items())
    elif isinstance(document, list | tuple):
        if document and all(isinstance(value, int | float) for value in document):
            return {path: shortened(document)}
        items = list(enumerate(document))
    elif isinstance(document, np.ndarray):
        return flat(document.tolist(), path)
    else:
        if isinstance(document, float | np.floating):
            document = float(f"{document:.13g}")
        elif isinstance(document, np.generic):
            document = document.item()
        is_sentence = isinstance(document, str) and (" " in document or "\n" in document)
        return {} if is_sentence else {path: document}
    if len(items) > WHOLE and all(isinstance(value, int | float) for _, value in items):
        return {path: shortened([value for _, value in items])}
    merged: dict = {}
    for key, value in items:
        where = f"{path}.{key}" if path else str(key)
        if not UNSTABLE.search(where):
            merged |= flat(value, where)
    return merged


# the command line


def commands(quick: bool) -> dict:
    """Every command on ten files, with a method that is told what to do."""
    return transcripts(quick, judged=False)


def judgements(quick: bool) -> dict:
    """Every command that runs Auto or `assess` on the same files."""
    return transcripts(quick, judged=True)


def transcripts(quick: bool, *, judged: bool) -> dict:
    """Run commands in a folder of their own; text is kept to be read, JSON to be compared."""
    stored = {}
    with TemporaryDirectory() as folder, chdir(folder):
        write_files(Path())
        for number, (line, judges) in enumerate(COMMANDS):
            if judges == judged and not (quick and number % 4):
                stored[line] = run(line)
    return stored


def run(line: str) -> dict:
    """Run one command in this process."""
    before = dict(os.environ)
    os.environ |= {"NO_COLOR": "1", "COLUMNS": "100"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ended = CliRunner().invoke(command, line.split())
    finally:
        os.environ.clear()
        os.environ.update(before)
    stored: dict = {"exit": ended.exit_code, "messages": ended.stderr[:600]}
    try:
        lines = ended.stdout.splitlines() if line.startswith("monitor") else [ended.stdout]
        stored |= flat([json.loads(each) for each in lines])
    except ValueError:
        stored["text"] = ended.stdout[:1500]
    for written in Path().glob("out.*"):
        stored["file"] = shortened(np.concatenate(columns_of(written)))
        written.unlink()
    return stored


def columns_of(path: Path) -> list[np.ndarray]:
    """Read what `adapt` wrote: the columns that are numbers."""
    import pandas as pd

    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return [arrays[name].ravel() for name in sorted(arrays) if arrays[name].ndim == 2]
    table = (pd.read_csv if path.suffix == ".csv" else pd.read_parquet)(path)
    return [values.to_numpy() for _, values in table.select_dtypes("number").items()]


WORDS = ("text", "messages")
"""What is kept to be read, and not compared."""

PARTS = {
    "fixed": fixed,
    "auto": auto,
    "assess": assess,
    "commands": commands,
    "judgements": judgements,
}


def differences(old, new, path: str = "", tolerance: float = 1e-9) -> Iterator[str]:
    """Yield what differs between stored and found, in words."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old:
            where = f"{path} / {key}" if path else key
            if key in WORDS:
                continue
            if key not in new:
                yield f"{where}: was {old[key]}, and is gone"
            else:
                yield from differences(old[key], new[key], where, tolerance)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (was, now) in enumerate(zip(old, new, strict=True)):
            yield from differences(was, now, f"{path}[{number}]", tolerance)
    elif is_real(old) and is_real(new):
        if not math.isclose(old, new, rel_tol=tolerance, abs_tol=tolerance):
            yield f"{path}: was {old}, is {new}"
    elif old != new:
        yield f"{path}: was {old}, is {new}"


def is_real(value) -> bool:
    """Tell numbers from truth values, which must be equal."""
    return isinstance(value, int | float) and not isinstance(value, bool)
