"""Shifts that nobody simulated: what assess does on real data cut by time, place or group."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import priorshift as ps
from lab.shifts import ShiftTask
from lab.show import markdown
from lab.sources import CAUSED

METHODS = ("auto", "em", "scm-l", "map", "em-bcts")
HISTORY_ROWS = 2000
NATURAL = "natural"


class Target(NamedTuple):
    """A target with its labels, and the labelled rows before it: validation, or a history."""

    name: str
    y_proba_val: np.ndarray
    y_val: np.ndarray
    groups: np.ndarray | None
    y_proba: np.ndarray
    y: np.ndarray


def targets(folder: Path, *, history: bool = False) -> Iterator[Target]:
    """Yield every target; with `history` the first half of a set is labelled, beside validation."""
    for file in sorted(folder.glob("*.npz")):
        stored = np.load(file)

        def read(key: str, stored: Any = stored) -> tuple[np.ndarray, np.ndarray]:
            values = stored[f"{key}proba"].astype(float)
            return values / values.sum(axis=1, keepdims=True), stored[f"{key}y"].astype(int)

        keys = [key[:-5] for key in stored.files if key.startswith("target:") and "proba" in key]
        parts = [read("val_")]
        if history:
            half = len(keys) // 2
            parts += [tuple(one[:HISTORY_ROWS] for one in read(key)) for key in keys[:half]]
            keys = keys[half:]
        groups = np.repeat(np.arange(len(parts)), [y.size for _, y in parts])
        val = np.vstack([P for P, _ in parts]), np.concatenate([y for _, y in parts])
        for key in keys:
            yield Target(file.stem, *val, groups if history else None, *read(key))


def natural_tasks(folder: Path) -> Iterator[ShiftTask]:
    """Yield every target as simulated shifts are kept; validation's balance is the source's."""
    for at, target in enumerate(targets(folder)):
        K = target.y_proba.shape[1]
        labels = np.bincount(target.y_val, minlength=K) / target.y_val.size
        data = target.y_proba_val, target.y_val, target.y_proba, target.y
        source = target.y_proba_val.mean(axis=0)
        yield ShiftTask(target.name, f"{NATURAL} {at}", *data, source, labels)


class Done(NamedTuple):
    """What was done to a target: points gained, whether decisions changed, shares and bounds."""

    gain: float
    changed: bool
    off: float
    held: float
    score: float


def measure(target: Target, adapted: Any, shares: Any, interval: Any = None) -> Done:
    """Compare with the truth; without an interval, nothing is said of bounds."""
    y, K = target.y, target.y_proba.shape[1]
    truth, decided = np.bincount(y, minlength=K) / y.size, np.asarray(adapted).argmax(axis=1)
    raw = target.y_proba.argmax(axis=1)
    gain = 100 * float((decided == y).mean() - (raw == y).mean())
    changed, off = bool((decided != raw).any()), float(np.abs(shares - truth).sum())
    if interval is None:
        return Done(gain, changed, off, np.nan, np.nan)
    low, high = interval.T
    outside = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
    score = float((high - low + 40 * outside).mean())
    return Done(gain, changed, off, float((outside == 0).mean()), score)


def assessed(target: Target, labels: int = 0) -> Done:
    """Do what assess says, after labelling as many rows as it asks for."""
    options: Any = {"classes": range(target.y_proba.shape[1]), "random_state": 0}
    data = target.y_proba_val, target.y_val, target.y_proba
    found = ps.assess(*data, groups_val=target.groups, **options)
    if labels:
        known = np.full(target.y.size, None, dtype=object)
        rows = found.rows_to_label(target.y_proba, n=labels, random_state=0)
        known[rows] = target.y[rows]
        found = ps.assess(*data, groups_val=target.groups, y_target=known, **options)
    shares = found.shares_to_report
    return measure(target, found.adapt(target.y_proba), shares.priors, shares.interval)


def estimated(target: Target, method: str) -> Done:
    """Adapt by one method, whatever it assumes."""
    fitted = ps.get_estimator(method).fit(
        target.y_proba_val, target.y_val, classes=range(target.y_proba.shape[1])
    )
    shift = fitted.estimate(target.y_proba)
    return measure(target, shift.adapt(target.y_proba), shift.priors)


def known(target: Target) -> Done:
    """Adapt calibrated outputs to the true shares."""
    K = target.y_proba.shape[1]
    mean = ps.CalibratedMean().fit(target.y_proba_val, target.y_val, classes=range(K))
    shift, truth = mean.estimate(target.y_proba), np.bincount(target.y, minlength=K)
    adapted = ps.adapt_proba(shift.adapt(target.y_proba), shift.source_priors, truth / truth.sum())
    return measure(target, adapted, truth / truth.sum())


def nothing(target: Target) -> Done:
    """Leave everything as it was."""
    shares = np.bincount(target.y_val, minlength=target.y_proba.shape[1]) / target.y_val.size
    return measure(target, target.y_proba, shares)


def natural_shifts(folder: Path, every: int) -> Iterator[str]:
    """Yield a table per kind of set: harm, missed chances, what was earned, shares and bounds."""
    ways: dict[str, Callable[[Target], Done]] = {
        "assess": assessed,
        "assess, 40 labels": lambda target: assessed(target, 40),
        **{name: lambda target, name=name: estimated(target, name) for name in METHODS},
        "calibrating": lambda target: estimated(target, "mean"),
        "nothing": nothing,
        "true shares": known,
    }
    yield "Validation alone, or with 40 labels of the target:"
    yield from _tables(list(targets(folder))[::every], ways)
    yield "With half of each set as labelled history:"
    history = list(targets(folder, history=True))[::every]
    yield from _tables(history, {"assess, history": assessed})


def _tables(cases: list[Target], ways: dict[str, Callable[[Target], Done]]) -> Iterator[str]:
    found = {name: [way(case) for case in cases] for name, way in ways.items()}
    best = np.array(
        [max(0.0, *(estimated(case, name).gain for name in ("mean", "em-bcts"))) for case in cases]
    )
    caused = np.array([case.name.split("-")[0] in CAUSED for case in cases])
    kinds = {"all": caused | True, "the class causes what is seen": caused}
    for kind, part in (kinds | {"features cause the class": ~caused}).items():
        yield f"{kind}: {part.sum()} targets"
        rows = [[name, *_row(done, best, part)] for name, done in found.items()]
        header = ["", "harmful", "missed", "earned", "worst", "L1", "bounds hold", "score"]
        yield markdown(header, rows)


def _row(done: list[Done], best: np.ndarray, part: np.ndarray) -> list[str]:
    gain, changed = np.array([one.gain for one in done])[part], np.array([o.changed for o in done])
    best, changed = best[part], changed[part]
    harmful = (gain[changed] < -0.5).mean() if changed.any() else 0.0
    missed = (gain < best / 3)[best > 1].mean() if (best > 1).any() else 0.0
    off, held, score = np.mean([one[2:] for one in done], axis=0, where=part[:, None])
    return [
        f"{harmful:.0%}",
        f"{missed:.0%}",
        f"{gain.sum() / max(best.sum(), 1e-9):.0%}",
        f"{gain.min():+.1f}",
        f"{off:.3f}",
        "-" if np.isnan(held) else f"{held:.0%}",
        "-" if np.isnan(score) else f"{score:.2f}",
    ]
