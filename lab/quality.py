"""How much every method gains under simulated prior shift, on real classifier outputs.

    python -m lab quality [--part networks zoo zoo-plain rare small uci natural further held-out]
        [--methods auto,em,...] [--every N] [--data data] [--ablation] [--halves]

networks: the bundled outputs and our own networks. zoo: ordinary classifiers of tables. zoo-plain:
the same without source priors, as most people would call it. rare: a model trained on balanced
data, simulated. small: Auto where validation has few rows, simulated. uci: class shares by a
published protocol. natural: shifts that nobody simulated. `make data` builds what zoo, uci and
natural need. further, held-out: outputs that are no part of the project, only if asked for; they
are in `--data`, or else in ../shared/data. `--methods all` takes all; `--every` takes only every
n-th task, run and bag; `--ablation` takes Auto apart on the zoo instead. `--halves` chooses each
constant of its gate on one half of the classifiers, by a hash of their names, and of the runs of
small cells, and shows the other half.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

import priorshift as ps
from lab import pools
from lab.ablation import GATE, VARIANTS
from lab.natural import natural_shifts
from lab.rare import rare_events
from lab.shifts import ShiftTask, seeded
from lab.show import markdown, parse
from lab.small import TARGET_ROWS, outcome, small_cells
from lab.uci import published_protocol

FIXED = ("em", "map", "scm-l", "scm-m", "gls", "em-bcts")
"""The methods that Auto is measured against, unless others are named."""

LARGE = 1000
"""Targets of at least this many rows must not be harmed."""

REPEATS, CELL_RUNS, BAGS = 20, 100, 100
"""Runs of `rare`, of each cell of `small`, and bags of `uci`, over `--every`."""

PARTS = ("networks", "zoo", "zoo-plain", "rare", "small", "uci", "natural")
FURTHER = ("further", "held-out")


def main(arguments: list[str] | None = None) -> None:
    """Print the tables of every part."""
    options = parse(
        __doc__,
        arguments,
        part={"nargs": "+", "default": PARTS, "choices": PARTS + FURTHER},
        methods=str,
        every=1,
        data=Path,
        ablation=False,
        halves=False,
    )
    warnings.simplefilter("ignore", UserWarning)
    instead = [part for part in ("ablation", "halves") if getattr(options, part)]
    chosen = instead or options.part
    built, further = options.data or pools.POOLS, options.data or pools.DATA
    for part in chosen:
        if part in FURTHER:
            pools.require_data(part, further)
        elif part not in ("networks", "rare", "small"):
            pools.require_data(part, built, part if part in ("uci", "natural") else "zoo")
    for part in chosen:
        start = time.perf_counter()
        print(f"## {part}\n", flush=True)
        for text in run(part, further if part in FURTHER else built, options):
            print(f"{text}\n", flush=True)
        print(f"{time.perf_counter() - start:.0f} s\n", flush=True)


def run(part: str, data: Path, options: argparse.Namespace) -> Iterator[str]:
    """Yield the tables of one part."""
    methods, every = named(options.methods), options.every
    if part == "rare":
        yield rare_events(methods, max(1, REPEATS // every))
    elif part == "small":
        yield small_cells(max(1, CELL_RUNS // every))
    elif part == "uci":
        yield published_protocol(data / "uci", methods, max(1, BAGS // every))
    elif part == "natural":
        yield from natural_shifts(data / "natural", every)
    else:
        tasks = {
            "networks": pools.network_tasks,
            "further": partial(pools.further_tasks, data),
            "held-out": partial(pools.held_out_tasks, data),
        }.get(part, partial(pools.zoo_tasks, data))
        if part == "ablation":
            yield ablation(lambda: islice(tasks(), 0, None, every))
        elif part == "halves":
            yield halves(lambda: islice(tasks(), 0, None, every), max(1, CELL_RUNS // every))
        else:
            chosen = islice(tasks(), 0, None, every)
            yield from report(judge(chosen, methods, plain=part == "zoo-plain"), methods)


def named(methods: str | None) -> list[str]:
    """Return the methods that were asked for, without those that cannot run here."""
    if methods is None:
        return ["auto", *FIXED]
    names = ps.available_estimators() if methods == "all" else methods.split(",")
    return [name for name in names if name not in ("na", "em-labels")]


# Judging


class Score(NamedTuple):
    """Accuracy in points, log loss in nats, and the L1 error of the priors."""

    accuracy: float
    log_loss: float
    l1_error: float


class Judged(NamedTuple):
    """All methods on one task; a method that refused it counts as no adaptation."""

    family: str
    shift: str
    n_target: int
    before: Score
    after: dict[str, Score]
    promise: tuple[float, float] | None
    """The gain that Auto expected and its standard error, in points, where it adapts."""
    refused: dict[str, str]

    def gain(self, method: str) -> float:
        """Return the points of accuracy over no adaptation."""
        return self.after[method].accuracy - self.before.accuracy


def judge(tasks: Iterable[ShiftTask], methods: Iterable[str], *, plain: bool) -> list[Judged]:
    """Run methods on tasks; `plain` gives them validation and target, but no source priors.

    A method is fitted once for all the targets that share a validation set.
    """
    found, methods = [], list(methods)
    validation, fitted = None, {}
    for task in tasks:
        if validation != (validation := (task.family, task.y_val.size)):
            fitted = {}
        given = {"classes": task.given["classes"]} if plain else task.given
        before = score(task, task.y_proba_target, task.source_priors)
        truth = label_shares(task)
        ideal = ps.adapt_proba(task.y_proba_target, task.source_priors, truth)
        after, refused, promise = {"oracle": score(task, ideal, truth)}, {}, None
        for method in methods:
            try:
                if method not in fitted:
                    fitted[method] = seeded(method).fit(task.y_proba_val, task.y_val, **given)
                shift = fitted[method].estimate(task.y_proba_target)
            except ValueError as error:
                after[method], refused[method] = before, str(error)
                continue
            after[method] = score(task, shift.adapt(task.y_proba_target), shift.priors)
            if method == "auto" and shift.decision["adapt"]:
                keys = ("expected_gain", "expected_gain_se")
                promise = tuple(100 * shift.decision[key] for key in keys)
        size = task.y_target.size
        found.append(Judged(task.family, task.shift, size, before, after, promise, refused))
    return found


def label_shares(task: ShiftTask) -> np.ndarray:
    """Return the class shares of the target's labels."""
    return np.bincount(task.y_target, minlength=task.source_priors.size) / task.y_target.size


def score(task: ShiftTask, y_proba: np.ndarray, priors: np.ndarray) -> Score:
    """Score probabilities of the target, and priors, by the target's labels."""
    of_label = y_proba[np.arange(task.y_target.size), task.y_target]
    return Score(
        100 * float((y_proba.argmax(axis=1) == task.y_target).mean()),
        float(-np.log(np.maximum(of_label, 1e-12)).mean()),
        float(np.abs(priors - label_shares(task)).sum()),
    )


# Tables


def report(judged: list[Judged], methods: list[str]) -> Iterator[str]:
    """Yield all tables of some tasks."""
    yield by_family(judged, [*methods, "oracle"])
    yield summary(judged, methods)
    if any(one.promise for one in judged):
        yield kept_promises(judged)
    refused = [(method, why) for one in judged for method, why in one.refused.items()]
    lines = []
    for method in dict.fromkeys(method for method, _ in refused):
        reasons = [why for other, why in refused if other == method]
        lines.append(f"- {method} refused {len(reasons)} tasks, the first: {reasons[0]}")
    if lines:
        yield "\n".join(lines)


def by_family(judged: list[Judged], methods: list[str]) -> str:
    """Return mean gains, a row per classifier."""
    rows = []
    for family in dict.fromkeys(one.family for one in judged):
        members = [one for one in judged if one.family == family]
        means = [np.mean([one.gain(method) for one in members]) for method in methods]
        rows.append([family, *(f"{mean:+.2f}" for mean in means)])
    title = "**Mean gain in accuracy over no adaptation, points, by family**"
    return f"{title}\n\n{markdown(['family', *methods], rows)}"


COLUMNS = {
    "gain": "+.2f",
    "regret to the best fixed": ".2f",
    "worst task": "+.2f",
    f"worst, n >= {LARGE}": "+.2f",
    "no shift": "+.2f",
    "change of log loss": "+.3f",
    "L1 error of priors": ".3f",
}
"""What is said of a method on all tasks, and how."""


def figures(judged: list[Judged], method: str, fixed: Iterable[str]) -> dict[str, float]:
    """Summarise a method; regret is to the best of `fixed`, or to leaving alone, task by task."""
    gains = np.array([one.gain(method) for one in judged])
    best = [max([0.0, *(one.gain(other) for other in fixed)]) for one in judged]
    large = gains[[one.n_target >= LARGE for one in judged]]
    none = gains[[one.shift == "none" for one in judged]]
    values = (
        gains.mean(),
        (best - gains).mean(),
        gains.min(),
        large.min() if large.size else np.nan,
        none.mean() if none.size else np.nan,
        np.mean([one.after[method].log_loss - one.before.log_loss for one in judged]),
        np.mean([one.after[method].l1_error for one in judged]),
    )
    return dict(zip(COLUMNS, map(float, values), strict=True))


def shown(found: dict[str, float], names: Iterable[str] = COLUMNS) -> list[str]:
    """Return some of the figures as text."""
    return [f"{found[name]:{COLUMNS[name]}}" for name in names]


def summary(judged: list[Judged], methods: list[str]) -> str:
    """Return a row per method over all tasks."""
    fixed = [method for method in methods if method != "auto"]
    rows = [[method, *shown(figures(judged, method, fixed))] for method in methods]
    return f"**All {len(judged)} tasks**\n\n{markdown(['method', *COLUMNS], rows)}"


def kept_promises(judged: list[Judged]) -> str:
    """Say how the gain that Auto expected compares with the one that came, where it adapted."""
    found = [(one.gain("auto"), *one.promise) for one in judged if one.promise]
    realised, expected, error = np.array(found).T
    z = (realised - expected) / error
    return (
        f"Auto adapted {len(found)} of {len(judged)} tasks. Realised minus expected gain: "
        f"{(realised - expected).mean():+.2f} points on average, within 1.96 standard errors in "
        f"{(np.abs(z) < 1.96).mean():.0%} of them (root mean square {np.sqrt((z**2).mean()):.2f})."
    )


def ablation(tasks: Callable[[], Iterator[ShiftTask]]) -> str:
    """Return a table: one row per variant of Auto, with source priors given and without."""
    what = ("gain", f"worst, n >= {LARGE}", "L1 error of priors")
    header = ["variant", *(f"{given}: {name}" for given in ("given", "plain") for name in what)]
    rows: list[list[Any]] = []
    for name, change in VARIANTS.items():
        with change:
            both = [judge(tasks(), ["auto"], plain=plain) for plain in (False, True)]
        rows.append([name, *(c for found in both for c in shown(figures(found, "auto", ()), what))])
    return f"**Auto with a part taken away**\n\n{markdown(header, rows)}"


def halves(tasks: Callable[[], Iterator[ShiftTask]], repeats: int) -> str:
    """Return a table: constants of the gate, chosen on one half, and what the other half says.

    A value is best whose mean over the zoo with source priors, the zoo without, and small cells is
    highest, with points that are lost counted six times.
    """
    rows = []
    for constant, values in GATE.items():
        found = {}
        for value, change in values.items():
            with change:
                found[value] = list(gains_by_half(tasks, repeats))
        score = {
            value: [np.mean([(g + 5 * np.minimum(g, 0)).mean() for g in half]) for half in both]
            for value, both in found.items()
        }
        best = max(score, key=lambda value: score[value][0])
        for value, (_, other) in found.items():
            said = [f"{x:.2f}" for x in score[value]]
            rows.append([constant, f"**{value}**" if value == best else value, *said])
            rows[-1] += [f"{g.mean():+.2f}, {np.quantile(g, 0.01):+.1f}" for g in other]
    header = ["constant", "value", "first half: score", "other half: score"]
    header += [f"other half, {name}: gain, 1 % quantile" for name in ("given", "plain", "small")]
    return f"**Constants of the gate; bold: best on the first half**\n\n{markdown(header, rows)}"


def gains_by_half(
    tasks: Callable[[], Iterator[ShiftTask]], repeats: int
) -> Iterator[list[np.ndarray]]:
    """Yield, for each half, Auto's gains on the zoo, without source priors, and in small cells."""
    judged = [judge(tasks(), ["auto"], plain=plain) for plain in (False, True)]
    cells = [(K, n_val) for K in (2, 5, 10) for n_val in (60, 100, 200)]
    for half in (0, 1):
        gains = [
            np.array([one.gain("auto") for one in found if crc32(one.family.encode()) % 2 == half])
            for found in judged
        ]
        small = [
            outcome(*cell, n_target, run).gain
            for cell in cells
            for n_target in TARGET_ROWS
            for run in range(half, repeats, 2)
        ]
        yield [*gains, np.array(small)]
