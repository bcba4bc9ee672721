"""How often intervals of a prevalence cover the truth where error rates are known from few samples.

    python -m lab prevalence

A test has a sensitivity and a specificity, each measured on some known positives and negatives; n
people are tested. "CM-L" is `Confusion.from_rates` and `estimate_counts` of this library; "L-R" is
the interval of Lang and Reiczigel (Preventive Veterinary Medicine 113, 2014), equations 16 and 17.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

import priorshift as ps
from lab.show import head, parse, row

LEVEL = 0.95
TRIALS = 2000
PREVALENCES = (0.0, 0.01, 0.05, 0.2, 0.5)
TESTED = (50, 1000)


class Test(NamedTuple):
    """Rates of a test, and the samples that they are measured on; 0 samples: known exactly."""

    sensitivity: float
    specificity: float
    n_positive: int
    n_negative: int


TESTS = (
    Test(0.9, 0.95, 0, 0),
    Test(0.9, 0.95, 30, 30),
    Test(0.9, 0.95, 100, 200),
)


def lang_reiczigel(positives: int, n: int, test: Test, level: float = LEVEL) -> tuple[float, float]:
    """Return the interval of Lang and Reiczigel (2014)."""
    z = float(ndtri((1 + level) / 2))
    size = np.array([test.n_positive, test.n_negative])
    found = np.array([test.sensitivity, test.specificity])
    right, size = (size * found + 1) / (size + 2), size + 2
    share = (positives + z**2 / 2) / (n + z**2)
    slope = right.sum() - 1
    p = (share + right[1] - 1) / slope
    weight, noise = np.array([p, 1 - p]), right * (1 - right) / size
    shift = 2 * z**2 * (weight[0] * noise[0] - weight[1] * noise[1])
    half = z * np.sqrt(share * (1 - share) / (n + z**2) + (weight**2 * noise).sum()) / slope
    return max(0.0, float(p + shift - half)), min(1.0, float(p + shift + half))


def measured(test: Test, rng: np.random.Generator) -> Test:
    """Measure the rates of a test."""
    if not test.n_positive:
        return test
    right = rng.binomial([test.n_positive, test.n_negative], test[:2])
    return Test(right[0] / test.n_positive, right[1] / test.n_negative, *test[2:])


def general(positives: int, n: int, test: Test) -> tuple[float, float]:
    """Return the interval of this library."""
    known = ps.Confusion.from_rates(
        sensitivity=test.sensitivity,
        specificity=test.specificity,
        n_positive=test.n_positive or None,
        n_negative=test.n_negative or None,
    )
    shift = ps.CML().fit(confusion=known).estimate_counts([n - positives, positives], LEVEL)
    low, high = shift.interval[1]
    return float(low), float(high)


def main(arguments: list[str] | None = None) -> None:
    """Print how often the truth is inside, and how wide intervals are."""
    parse(__doc__, arguments)
    columns = ("rates measured on", "tested", "prevalence")
    methods = {"covered by CM-L": general, "by Lang and Reiczigel": lang_reiczigel}
    head(f"{TRIALS} trials a row", *columns, *(c for name in methods for c in (name, "width")))
    for test, n, p in product(TESTS, TESTED, PREVALENCES):
        rng = np.random.default_rng(0)
        known: dict[tuple[int, Test], np.ndarray] = {}
        inside, width = np.zeros((2, len(methods)))
        for _ in range(TRIALS):
            found = measured(test, rng)
            if found.sensitivity + found.specificity <= 1:
                continue
            chance = p * test.sensitivity + (1 - p) * (1 - test.specificity)
            key = int(rng.binomial(n, chance)), found
            if key not in known:
                known[key] = np.array([method(key[0], n, found) for method in methods.values()])
            low, high = known[key].T
            inside += (low <= p) & (p <= high)
            width += high - low
        cells = [
            (f"{i / TRIALS:.1%}", f"{w / TRIALS:.3f}") for i, w in zip(inside, width, strict=True)
        ]
        sizes = f"{test.n_positive} positives, {test.n_negative} negatives"
        if not test.n_positive:  # theirs is of rates that were measured
            sizes, cells[1] = "exact", ("", "")
        row(sizes, n, p, *(cell for pair in cells for cell in pair))
