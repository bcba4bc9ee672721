"""Do intervals, tests and diagnostics keep what they promise? One table, promise by promise.

    python -m lab coverage [--items 3 4] [--simulated 200] [--real 40] [--data data]

Every row is mean ± standard error over its replicates. No constant of tests and intervals was
chosen on these real outputs, but Auto's were. `--real 0` leaves them out. Progress goes to stderr.
"""

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import priorshift as ps
from lab.pools import POOLS, Pool, require_data, unseen_pools
from lab.show import head, parse, row
from lab.worlds import Resplit, Simulated, Task, moved, softmax, tail

LEVEL = 0.95
N_RESAMPLES = 99
TOO_SURE = 3.0

Values = dict[str, Any]
"""By quantity: a number, one per class, a pair (the ratio of means counts), or None: no answer."""


# What is measured in one replicate ----------------------------------------------------------------


def covers(interval: np.ndarray, priors: np.ndarray) -> np.ndarray:
    """Tell in % which shares are inside, the commonest class first."""
    inside = (interval[:, 0] <= priors + 1e-12) & (priors - 1e-12 <= interval[:, 1])
    return 100.0 * inside[np.argsort(-priors, kind="stable")]


def width(shift: ps.PriorEstimate) -> float:
    """Return the mean width of the intervals."""
    return float(np.diff(shift.interval).mean())


def error_of(priors: np.ndarray, task: Task) -> float:
    """Return the L1 distance from the true priors."""
    return float(np.abs(priors - task.priors).sum())


def said(words: str, run: Callable[[], Any]) -> tuple[Any, bool]:
    """Run, and tell whether a warning had these words."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = run()
    return result, any(words in str(one.message) for one in caught)


def ask(test: Callable[..., Any], task: Task, rows: np.ndarray, seed: int) -> Any:
    """Run a test of some target rows beside validation."""
    known = {"classes": task.classes, "n_resamples": N_RESAMPLES, "random_state": seed}
    return test(task.y_proba_val, task.y_val, rows, **known)


assumption = partial(ask, ps.check_assumption)
"""Test whether a change of priors alone explains some target rows."""


def rejects(found: ps.AssumptionTest) -> float | None:
    """Return 100 where the test rejects, None where it declines to answer."""
    return None if found.p_value is None else 100.0 * found.rejected


def files(task: Task, seed: int) -> Values:
    """Round the target as a CSV does, and draw its rows with replacement."""
    rng = np.random.default_rng([seed, 13])
    n = task.y.size
    again = assumption(task, task.y_proba[rng.integers(0, n, n)], seed)
    drawn = ps.sample_indices(task.y, task.priors, n // 4, random_state=seed)
    return {
        "rejects as it is, %": rejects(assumption(task, task.y_proba, seed)),
        "rejects rounded to 4 decimals, %": rejects(assumption(task, task.y_proba.round(4), seed)),
        "rejects repeated rows, %": rejects(again),
        "names repeated rows, %": 100.0 * ("repeated rows" in again.sentence),
        "distinct rows of sample_indices, %": 100.0 * np.unique(drawn).size / drawn.size,
    }


def effect(task: Task, seed: int) -> Values:
    """Measure the effect size where nothing shifted, and where the shift is 0.2."""
    test = ask(ps.detect_shift, task, task.y_proba, seed)
    low, high = test.effect_interval
    if not np.allclose(task.priors, np.bincount(task.y_val) / task.y_val.size, atol=0.01):
        return {"its interval holds a shift of 0.2, %": 100.0 * (low <= 0.2 <= high)}
    return {
        "effect size without a shift": test.effect_size,
        "its interval excludes 0, %": 100.0 * (low > 0),
        "shift test rejects, %": 100.0 * test.rejected,
    }


def few_rows(task: Task, seed: int) -> Values:
    """Measure CM-L's intervals."""
    inside = covers(task.fit("cm-l").estimate(task.y_proba, LEVEL, seed).interval, task.priors)
    return {
        "commonest class covered, %": inside[0],
        "all classes covered, %": inside.mean(),
        "class covered least, %": inside,
    }


def auto(task: Task, seed: int) -> Values:
    """Measure Auto's intervals beside EM's."""
    given = task.source_priors is not None
    shift = task.fit("auto", given=given).estimate(task.y_proba, LEVEL, seed)
    em = task.fit("em", given=given).estimate(task.y_proba, LEVEL, seed)
    return {
        "Auto covers, %": covers(shift.interval, task.priors).mean(),
        "EM covers, %": covers(em.interval, task.priors).mean(),
        "Auto's width / EM's": (width(shift), width(em)),
    }


def refuted(task: Task, seed: int) -> Values:
    """Measure EM's intervals, and whether the result says that calibration is refuted."""
    em = task.fit("em", given=task.source_priors is not None)
    shift, told = said(
        "refutes that outputs are calibrated", lambda: em.estimate(task.y_proba, LEVEL, seed)
    )
    inside = covers(shift.interval, task.priors).mean()
    return {
        "EM covers, %": inside,
        "says that calibration is refuted, %": 100.0 * told,
        "EM covers where it says nothing, %": None if told else inside,
    }


def together(task: Task, seed: int) -> Values:
    """Measure simultaneous intervals of SCM-L."""
    scml = task.fit("scm-l")
    each = scml.estimate(task.y_proba, LEVEL, seed)
    every = scml.estimate(task.y_proba, LEVEL, seed, simultaneous=True)
    return {
        "all classes covered at once, %": covers(every.interval, task.priors).min(),
        "width, simultaneous / each": (width(every), width(each)),
    }


def expected_accuracy(task: Task, seed: int) -> Values:  # noqa: ARG001
    """Measure by how much `diagnose` is too optimistic after SCM-L."""
    shift = task.fit("scm-l").estimate(task.y_proba, LEVEL)
    told = ps.diagnose(
        task.y_proba_val, task.y_val, task.y_proba, shift, classes=task.classes
    ).accuracy_after
    after = (shift.adapt(task.y_proba).argmax(axis=1) == task.y).mean()
    return {
        "expected accuracy too high, points": 100 * (told.value - after),
        "its interval covers, %": 100.0 * (told.low <= after <= told.high),
    }


def some_labels(task: Task, seed: int) -> Values:
    """Measure errors with 20 % of the target labelled."""
    known = np.random.default_rng(seed).random(task.y.size) < 0.2
    labels = np.where(known, task.y, -1)
    partly = task.fit("em-labels").estimate(task.y_proba, y_target=labels, unlabelled=-1)
    return {
        "EM with 20 % labels, L1": error_of(partly.priors, task),
        "SCM-L without labels, L1": error_of(task.fit("scm-l").estimate(task.y_proba).priors, task),
    }


def costs(task: Task, seed: int) -> Values:
    """Measure what Auto saves where errors on the rarest class cost ten times as much."""
    prices = 1.0 - np.eye(task.classes.size)
    prices[task.priors.argmin()] *= 10
    auto = ps.Auto(costs=prices, random_state=seed)
    shift = auto.fit(task.y_proba_val, task.y_val, classes=task.classes).estimate(task.y_proba)
    rows = (task.y_proba, replace(shift, strength=1.0).adapt(task.y_proba))
    before, after, followed = (
        prices[task.y, ps.decide(p, prices)] for p in (*rows, shift.adapt(task.y_proba))
    )
    promised, error = (shift.decision[f"expected_gain{end}"] for end in ("", "_se"))
    saved = before - after
    return {
        "saving per row, promised / kept": (promised, saved.mean()),
        "promise kept within 1.96 standard errors, %": 100.0
        * (abs(promised - saved.mean()) <= 1.96 * error),
        "cost by Auto's advice / as it is": (followed.mean(), before.mean()),
        "Auto's advice costs more than as it is, %": 100.0 * (followed.mean() > before.mean()),
    }


def labelled(task: Task, seed: int) -> Values:
    """Measure intervals with a tenth of the target labelled."""
    known = np.random.default_rng(seed).random(task.y.size) < 0.1
    given = {"y_target": np.where(known, task.y, -1)}
    em = task.fit("em-labels").estimate(task.y_proba, LEVEL, seed, **given, n_resamples=N_RESAMPLES)
    ppi = task.fit("ppi").estimate(task.y_proba, LEVEL, **given)
    return {
        "EM with labels covers, %": covers(em.interval, task.priors).mean(),
        "PPI covers, %": covers(ppi.interval, task.priors).mean(),
        "width, EM with labels / PPI": (width(em), width(ppi)),
    }


def elsa(task: Task, seed: int) -> Values:  # noqa: ARG001
    """Measure ELSA's error, and whether it warns where it is far off."""
    fitted = task.fit("elsa")
    shift, told = said("too small for elsa", lambda: fitted.estimate(task.y_proba))
    error = error_of(shift.priors, task)
    return {
        "ELSA, L1": error,
        "ELSA off by > 0.6, %": 100.0 * (error > 0.6),
        "ELSA off by > 0.6 and silent, %": 100.0 * (error > 0.6 and not told),
    }


def noisy(task: Task, seed: int) -> Values:
    """Add noise of standard deviation 1 to the target's logits."""
    noise = np.random.default_rng([seed, 3]).standard_normal(task.y_proba.shape)
    rows = softmax(np.log(np.maximum(task.y_proba, 1e-30)) + noise)
    return {"notices noise in the logits, %": rejects(assumption(task, rows, seed))}


# The items ----------------------------------------------------------------------------------------


class Item(NamedTuple):
    """A promise: how to measure it, and on what."""

    title: str
    measure: Callable[[Task, int], Values]
    simulated: tuple[Simulated, ...]
    real: Callable[[dict[str, Pool]], list[Resplit]]


def some(per_class: int, *words: str, **options: Any) -> Callable[[dict[str, Pool]], list[Resplit]]:
    """Return how to split the pools whose names begin with any of these words; else all."""

    def split(pools: dict[str, Pool]) -> list[Resplit]:
        return [
            Resplit(name, pool, per_class, **options)
            for name, pool in pools.items()
            if not words or name.startswith(words)
        ]

    return split


def effects(pools: dict[str, Pool]) -> list[Resplit]:
    """Return splits of the letters, with and without a shift."""
    return [
        Resplit(f"letter, {n} rows", pools["letter"], 30, shift, n)
        for shift in ("none", "moved")
        for n in (50, 500)
    ]


UNIFORM_26 = np.full(26, 1 / 26)

ITEMS = {
    1: Item(
        "check_assumption: files, 100 rows per class",
        files,
        (
            Simulated("calibrated", 3, 0.85, tail(3, 10), 100),
            Simulated("too sure", 10, 0.85, tail(10, 10), 100, slope=TOO_SURE),
        ),
        some(100, "satimage", "optdigits", "letter", "CIFAR"),
    ),
    2: Item(
        "detect_shift: effect size, 30 rows per class",
        effect,
        tuple(
            Simulated(f"calibrated, {n} rows", 26, 0.77, priors, 30, n)
            for priors in (UNIFORM_26, moved(UNIFORM_26))
            for n in (50, 500)
        ),
        effects,
    ),
    3: Item(
        "CM-L's intervals, 10 rows per class",
        few_rows,
        (
            Simulated("calibrated, 97:3", 2, 0.85, np.array([0.97, 0.03]), 10),
            Simulated("calibrated, long tail", 10, 0.85, tail(10, 100), 10),
            Simulated("too sure, long tail", 30, 0.9, tail(30, 1000), 10, slope=TOO_SURE),
        ),
        some(10),
    ),
    4: Item(
        "Auto's intervals, 10 rows per class",
        auto,
        (
            Simulated("calibrated", 2, 0.85, np.array([0.8, 0.2]), 10),
            Simulated("calibrated", 10, 0.85, tail(10, 100), 10),
            Simulated("too sure", 10, 0.85, tail(10, 100), 10, slope=TOO_SURE),
            Simulated("biased", 10, 0.85, tail(10, 100), 10, bias=0.7),
        ),
        some(10),
    ),
    5: Item(
        "EM's intervals, 30 rows per class",
        refuted,
        (
            Simulated("calibrated", 10, 0.85, tail(10, 100), 30),
            Simulated("too sure", 10, 0.85, tail(10, 100), 30, slope=TOO_SURE),
            Simulated("not sure enough", 10, 0.85, tail(10, 100), 30, slope=0.5),
        ),
        some(30),
    ),
    6: Item(
        "simultaneous=True, 100 rows per class",
        together,
        (
            Simulated("calibrated", 2, 0.85, np.array([0.7, 0.3]), 100),
            Simulated("calibrated", 3, 0.85, np.array([0.6, 0.3, 0.1]), 100),
        ),
        some(100, "ring"),
    ),
    7: Item(
        "diagnose after SCM-L, 20 rows per class",
        expected_accuracy,
        (
            Simulated("calibrated", 10, 0.85, tail(10, 100), 20),
            Simulated("too sure", 10, 0.7, tail(10, 100), 20, slope=TOO_SURE),
            Simulated("calibrated, no shift", 30, 0.7, np.full(30, 1 / 30), 20),
        ),
        some(20),
    ),
    8: Item(
        "SemiSupervisedEM, 20 rows per class",
        some_labels,
        (
            Simulated("calibrated", 10, 0.85, tail(10, 100), 20, 500),
            Simulated("too sure", 10, 0.85, tail(10, 100), 20, 500, TOO_SURE),
        ),
        some(20),
    ),
    9: Item(
        "ELSA, 5 rows per class, no shift",
        elsa,
        (
            Simulated("weak", 3, 0.6, np.full(3, 1 / 3), 5),
            Simulated("calibrated", 10, 0.7, np.full(10, 0.1), 5),
        ),
        some(5, "ring", "satimage", "optdigits", "CIFAR", shift="none"),
    ),
    10: Item(
        "check_assumption: power, 50 rows per class",
        noisy,
        (
            Simulated("85 % accurate", 10, 0.85, tail(10, 10), 50),
            Simulated("60 % accurate", 10, 0.6, tail(10, 10), 50),
            Simulated("60 % accurate", 26, 0.6, tail(26, 10), 50),
            Simulated("60 % accurate", 60, 0.6, tail(60, 10), 50),
        ),
        some(50, "optdigits", "letter", "CIFAR"),
    ),
    11: Item(
        "costs: what Auto says adapting saves, 100 rows per class",
        costs,
        (
            Simulated("calibrated, 95:5", 2, 0.85, np.array([0.95, 0.05]), 100),
            Simulated("calibrated, long tail", 10, 0.85, tail(10, 100), 100),
            Simulated("too sure, long tail", 10, 0.85, tail(10, 100), 100, slope=TOO_SURE),
        ),
        some(100, "satimage", "optdigits"),
    ),
    12: Item(
        "intervals with a tenth of the target labelled, 100 rows per class",
        labelled,
        (
            Simulated("calibrated, 80:20", 2, 0.85, np.array([0.8, 0.2]), 100),
            Simulated("calibrated, long tail", 5, 0.85, tail(5, 10), 100),
            Simulated("too sure, long tail", 5, 0.85, tail(5, 10), 100, slope=TOO_SURE),
        ),
        some(100, "satimage", "optdigits"),
    ),
}  # fmt: skip


# The table ----------------------------------------------------------------------------------------


def summary(values: list[Any]) -> tuple[float, float]:
    """Return the mean and its standard error; of classes the least, of pairs the ratio of means."""
    kept = np.array([value for value in values if value is not None], dtype=float)
    if kept.size == 0:
        return np.nan, np.nan
    if kept.ndim == 2 and isinstance(values[0], tuple):
        mean = kept[:, 0].mean() / kept[:, 1].mean()
        kept = mean + (kept[:, 0] - mean * kept[:, 1]) / kept[:, 1].mean()
    elif kept.ndim == 2:
        kept = kept[:, np.argmin(kept.mean(axis=0))]
    return kept.mean(), kept.std(ddof=min(1, kept.size - 1)) / np.sqrt(kept.size)


def shown(quantity: str, values: list[Any]) -> str:
    """Return mean ± standard error, and of how many where some replicates have no value."""
    mean, error = summary(values)
    if np.isnan(mean):
        return "-"
    digits = 1 if "%" in quantity.split(",")[-1] or "points" in quantity else 3
    digits = 2 if " / " in quantity else digits
    n = sum(value is not None for value in values)
    of = "" if n == len(values) else f" ({n} runs)"
    return f"{mean:.{digits}f} ± {error:.{digits}f}{of}"


def main(arguments: list[str] | None = None) -> None:
    """Print the table, row by row."""
    options = parse(__doc__, arguments, items=tuple(ITEMS), simulated=200, real=40, data=POOLS)
    warnings.simplefilter("ignore", UserWarning)
    if options.real:
        require_data("coverage without --real 0", options.data, "zoo", "uci")
    pools = unseen_pools(options.data) if options.real else {}
    columns = ("item", "promise", "classifier", "K", "runs", "measured", "value")
    head("Promises", *columns)
    for number in options.items:
        title, measure, simulated, real = ITEMS[number]
        for cell in (*simulated, *(real(pools) if pools else ())):
            start = time.perf_counter()
            is_simulated = isinstance(cell, Simulated)
            n = options.simulated if is_simulated else options.real
            found: dict[str, list[Any]] = {}
            for seed, task in enumerate(cell.tasks(n)):
                for quantity, value in measure(task, seed).items():
                    found.setdefault(quantity, []).append(value)
            name = f"simulated, {cell.name}" if is_simulated else cell.name
            for quantity, values in found.items():
                row(number, title, name, cell.K, n, quantity, shown(quantity, values))
            seconds = time.perf_counter() - start
            print(f"item {number}, {cell.name}, K = {cell.K}: {seconds:.0f} s", file=sys.stderr)
