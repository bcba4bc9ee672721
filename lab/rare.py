"""Rare events: a model trained on balanced data meets data as they are.

Its outputs are exact posteriors at equal class priors, so nothing is wrong but the balance, and
validation's labels (1 % positive) contradict its mean prediction. Methods are told nothing else.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from lab.shifts import seeded
from lab.show import markdown

TRAINED, NATURAL = 0.5, 0.01
APART = 2.0
"""Standard deviations between the two classes."""

VALIDATION_ROWS = (300, 2000)
TARGET_SHARES = (0.01, 0.05, 0.5)
TARGET_ROWS = 1000


class Outcome(NamedTuple):
    """The estimated share of positives, the gain in points, and that of the true priors."""

    share: float
    gain: float
    oracle: float


def rare_events(methods: list[str], repeats: int) -> str:
    """Return two tables, of gains and of shares: a row per method, a column per setting."""
    settings = [(n_val, share) for n_val in VALIDATION_ROWS for share in TARGET_SHARES]
    gains, shares = [], []
    for method in methods:
        found = [list(outcomes(method, *setting, repeats)) for setting in settings]
        gains.append([method, *map(mean_and_worst, found)])
        shares.append([method, *(f"{np.mean([o.share for o in runs]):.3f}" for runs in found)])
    ideal = [f"{np.mean([o.oracle for o in runs]):+.2f}" for runs in found]
    header = [f"{n_val} rows, {share:.0%}" for n_val, share in settings]
    return (
        f"**Trained on 50:50, 1 % positives in validation: gain in accuracy, points, mean of "
        f"{repeats} runs (worst), by validation's rows and the target's share**\n\n"
        f"{markdown(['method', *header], [*gains, ['true priors', *ideal]])}\n\n"
        f"**The same: mean estimated share**\n\n{markdown(['method', *header], shares)}"
    )


def mean_and_worst(runs: list[Outcome]) -> str:
    gains = [one.gain for one in runs]
    return f"{np.mean(gains):+.2f} ({min(gains):+.2f})"


def outcomes(method: str, n_val: int, share: float, repeats: int) -> Iterator[Outcome]:
    for seed in range(repeats):
        rng = np.random.default_rng([seed, n_val, int(1000 * share)])
        y_val = np.zeros(0, bool)
        while not y_val.any():
            validation, y_val = sample(rng, n_val, NATURAL)
        target, y = sample(rng, TARGET_ROWS, share)
        yield outcome(method, (validation, y_val.astype(int)), (target, y.astype(int)), share)


def sample(rng: np.random.Generator, n: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows with the posteriors of a model that was trained on balanced data."""
    positive = rng.random(n) < share
    x = rng.normal(APART * positive, 1.0)
    p = expit(APART * (x - APART / 2) + np.log(TRAINED / (1 - TRAINED)))
    return np.column_stack([1 - p, p]), positive


def outcome(method: str, validation: tuple, target: tuple, share: float) -> Outcome:
    y_proba, y = target
    shift = seeded(method).fit(*validation, classes=[0, 1]).estimate(y_proba)
    before, after, ideal = (
        100 * (proba.argmax(axis=1) == y).mean()
        for proba in (y_proba, shift.adapt(y_proba), y_proba * [1 - share, share])
    )
    return Outcome(float(shift.priors[1]), after - before, ideal - before)
