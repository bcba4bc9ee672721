"""Judge methods on simulated shifts: what they gain, where they harm, and what Auto promised."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import priorshift as ps
from priorshift.compare import ShiftTask
from priorshift.estimators import PriorEstimate, PriorEstimator

FIXED = ("em", "map", "scm-l", "scm-m", "gls", "em-bcts")
"""The methods that Auto is measured against, unless others are named."""

LARGE = 1000
"""Targets of at least this many rows must not be harmed."""


class Score(NamedTuple):
    """Accuracy in points, log loss in nats, and the L1 error of the priors."""

    accuracy: float
    log_loss: float
    l1_error: float


class Promise(NamedTuple):
    """The gain that Auto expected and its standard error, in points."""

    gain: float
    standard_error: float


@dataclass(frozen=True)
class Judged:
    """All methods on one task; a method that refused it counts as no adaptation."""

    family: str
    shift: str
    n_target: int
    before: Score
    after: dict[str, Score]
    promise: Promise | None
    refused: dict[str, str]

    def gain(self, method: str) -> float:
        """Return the points of accuracy over no adaptation."""
        return self.after[method].accuracy - self.before.accuracy


class Fits:
    """Methods fitted to validation: once, for all the targets that share it."""

    def __init__(self, *, plain: bool) -> None:
        self.plain = plain
        self._validation: tuple[str, int] | None = None
        self._fitted: dict[str, PriorEstimator] = {}

    def fitted(self, method: str, task: ShiftTask) -> PriorEstimator:
        """Return the method fitted to the task's validation."""
        validation = task.family, task.y_val.size
        if validation != self._validation:
            self._validation, self._fitted = validation, {}
        if method not in self._fitted:
            given = {"classes": task.given["classes"]} if self.plain else task.given
            self._fitted[method] = make(method).fit(task.y_proba_val, task.y_val, **given)
        return self._fitted[method]


def make(method: str) -> PriorEstimator:
    return ps.get_estimator(method, **({"random_state": 0} if method == "auto" else {}))


def judge(tasks: Iterable[ShiftTask], methods: Iterable[str], *, plain: bool) -> list[Judged]:
    """Run methods on tasks; `plain` gives them validation and target, but no source priors."""
    fits = Fits(plain=plain)
    return [_judged(task, list(methods), fits) for task in tasks]


def _judged(task: ShiftTask, methods: list[str], fits: Fits) -> Judged:
    before = score(task, task.y_proba_target, task.source_priors)
    truth = label_shares(task)
    ideal = ps.adapt_proba(task.y_proba_target, task.source_priors, truth)
    after, refused, promise = {"oracle": score(task, ideal, truth)}, {}, None
    for method in methods:
        try:
            shift = fits.fitted(method, task).estimate(task.y_proba_target)
        except ValueError as error:
            after[method], refused[method] = before, str(error)
            continue
        after[method] = score(task, shift.adapt(task.y_proba_target), shift.priors)
        if method == "auto":
            promise = promised(shift)
    return Judged(task.family, task.shift, task.y_target.size, before, after, promise, refused)


def label_shares(task: ShiftTask) -> np.ndarray:
    return np.bincount(task.y_target, minlength=task.source_priors.size) / task.y_target.size


def score(task: ShiftTask, y_proba: np.ndarray, priors: np.ndarray) -> Score:
    """Score probabilities of the target, and priors, by the target's labels."""
    of_label = y_proba[np.arange(task.y_target.size), task.y_target]
    return Score(
        100 * float((y_proba.argmax(axis=1) == task.y_target).mean()),
        float(-np.log(np.maximum(of_label, 1e-12)).mean()),
        float(np.abs(priors - label_shares(task)).sum()),
    )


def promised(shift: PriorEstimate) -> Promise | None:
    """Return what Auto expects of adapting, where it adapts."""
    decision: Any = shift.decision
    if not decision["adapt"]:
        return None
    return Promise(100 * decision["expected_gain"], 100 * decision["expected_gain_se"])


# Tables


def report(judged: list[Judged], methods: list[str]) -> Iterator[str]:
    """Yield all tables of some tasks."""
    yield by_group("family", judged, methods, lambda one: one.family)
    yield by_group("shift", judged, methods, lambda one: one.shift)
    yield by_group("target rows", judged, methods, lambda one: str(one.n_target))
    yield summary(judged, methods)
    if any(one.promise for one in judged):
        yield kept_promises(judged)
    if refusals := say_refusals(judged):
        yield refusals


def markdown(header: list[str], rows: Iterable[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def by_group(
    what: str, judged: list[Judged], methods: list[str], group: Callable[[Judged], str]
) -> str:
    names = [*methods, "oracle"]
    rows = []
    for name in dict.fromkeys(map(group, judged)):
        members = [one for one in judged if group(one) == name]
        means = [np.mean([one.gain(method) for one in members]) for method in names]
        rows.append([name, *(f"{mean:+.2f}" for mean in means)])
    title = f"**Mean gain in accuracy over no adaptation, points, by {what}**"
    return f"{title}\n\n{markdown([what, *names], rows)}"


class Figures(NamedTuple):
    """What is said of a method on all tasks."""

    gain: float
    regret: float
    worst: float
    worst_large: float
    no_shift: float
    log_loss: float
    l1_error: float


def figures(judged: list[Judged], method: str, fixed: Iterable[str]) -> Figures:
    """Summarise a method; regret is to the best of `fixed`, or to leaving alone, task by task."""
    gains = np.array([one.gain(method) for one in judged])
    best = [max([0.0, *(one.gain(other) for other in fixed)]) for one in judged]
    large = [one.n_target >= LARGE for one in judged]
    none = [one.shift == "none" for one in judged]
    return Figures(
        float(gains.mean()),
        float((best - gains).mean()),
        float(gains.min()),
        float(gains[large].min()) if any(large) else np.nan,
        float(gains[none].mean()) if any(none) else np.nan,
        float(np.mean([one.after[method].log_loss - one.before.log_loss for one in judged])),
        float(np.mean([one.after[method].l1_error for one in judged])),
    )


FORMATS = ("{:+.2f}", "{:.2f}", "{:+.2f}", "{:+.2f}", "{:+.2f}", "{:+.3f}", "{:.3f}")


def summary(judged: list[Judged], methods: list[str]) -> str:
    fixed = [method for method in methods if method != "auto"]
    header = [
        *("method", "gain", "regret to the best fixed", "worst task"),
        *(f"worst, n >= {LARGE}", "no shift", "change of log loss", "L1 error of priors"),
    ]
    rows = []
    for method in methods:
        values = figures(judged, method, fixed)
        rows.append([method, *(f.format(v) for f, v in zip(FORMATS, values, strict=True))])
    return f"**All {len(judged)} tasks**\n\n{markdown(header, rows)}"


def kept_promises(judged: list[Judged]) -> str:
    """Say how the gain that Auto expected compares with the one that came, where it adapted.

    A point is added to the standard error: the realised gain is itself measured on few rows.
    """
    found = [(one.gain("auto"), *one.promise) for one in judged if one.promise]
    realised, expected, error = np.array(found).T
    z = (realised - expected) / np.hypot(error, 1.0)
    return (
        f"Auto adapted {len(found)} of {len(judged)} tasks. Realised minus expected gain: "
        f"{(realised - expected).mean():+.2f} points on average, within 1.96 standard errors in "
        f"{(np.abs(z) < 1.96).mean():.0%} of them (root mean square {np.sqrt((z**2).mean()):.2f})."
    )


def say_refusals(judged: list[Judged]) -> str:
    lines = []
    for method in dict.fromkeys(m for one in judged for m in one.refused):
        reasons = [one.refused[method] for one in judged if method in one.refused]
        lines.append(f"- {method} refused {len(reasons)} tasks, the first: {reasons[0]}")
    return "\n".join(lines)
