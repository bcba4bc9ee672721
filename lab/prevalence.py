"""How often intervals of a prevalence cover the truth where error rates are known from few samples.

    python -m lab prevalence

A test has a sensitivity and a specificity, each measured on some known positives and negatives; n
people are tested. "CM-L" is `Confusion.from_rates` and `estimate_counts` of this library; "L-R" is
the interval of Lang and Reiczigel (Preventive Veterinary Medicine 113, 2014), equations 16 and 17.
The second table is of decisions: a judge with three verdicts, labels for few of them.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

import priorshift as ps
from lab.show import parse

LEVEL = 0.95
TRIALS = 2000
PREVALENCES = (0.0, 0.01, 0.05, 0.2, 0.5)
TESTED = (50, 1000)
JUDGE = np.array([[0.85, 0.10, 0.03], [0.12, 0.75, 0.12], [0.03, 0.15, 0.85]])


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


def prevalence_line(test: Test, n: int, p: float) -> str:
    """Measure how often the truth is inside, and how wide intervals are."""
    rng = np.random.default_rng(0)
    methods = (general, lang_reiczigel) if test.n_positive else (general,)
    inside, width = np.zeros(len(methods)), np.zeros(len(methods))
    known: dict[tuple[int, Test], list[tuple[float, float]]] = {}
    for _ in range(TRIALS):
        found = measured(test, rng)
        if found.sensitivity + found.specificity <= 1:
            continue
        chance = p * test.sensitivity + (1 - p) * (1 - test.specificity)
        positives = int(rng.binomial(n, chance))
        key = (positives, found)
        if key not in known:
            known[key] = [method(positives, n, found) for method in methods]
        bounds = np.array(known[key])
        inside += (bounds[:, 0] <= p) & (p <= bounds[:, 1])
        width += np.ptp(bounds, axis=1)
    sizes = f"({test.n_positive}, {test.n_negative})" if test.n_positive else "(exact)"
    cells = [
        f"{100 * i / TRIALS:6.1f} {w / TRIALS:6.3f}" for i, w in zip(inside, width, strict=True)
    ]
    return f"{test[0]}, {test[1]} {sizes:14} {n:6d}  {p:8.2f}   " + "   ".join(cells)


def judge_cells() -> None:
    """Print how often the shares of three verdicts are covered."""
    print("labels  verdicts   shares                   covered %            width")
    for n_val, n in ((100, 1000), (300, 10_000)):
        for truth in ((0.3, 0.4, 0.3), (0.1, 0.3, 0.6), (0.0, 0.1, 0.9)):
            rng, inside, width = np.random.default_rng(0), np.zeros(3), 0.0
            for _ in range(TRIALS):
                sizes = rng.multinomial(n_val, (0.3, 0.4, 0.3))
                V = rng.multinomial(sizes, JUDGE.T).T
                fitted = ps.CML().fit(confusion=ps.Confusion.from_counts(V))
                counts = rng.multinomial(n, JUDGE @ truth)
                low, high = fitted.estimate_counts(counts, LEVEL).interval.T
                inside += (low <= np.array(truth)) & (np.array(truth) <= high)
                width += float((high - low).mean()) / TRIALS
            shares = " ".join(f"{100 * share / TRIALS:5.1f}" for share in inside)
            print(f"{n_val:6d} {n:9d}   {truth!s:22} {shares}   {width:8.3f}", flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Print both tables."""
    parse(__doc__, arguments)
    print("Se, Sp (measured on)        n    prevalence   CM-L %  width    L-R %  width")
    for test, n, p in product(TESTS, TESTED, PREVALENCES):
        print(prevalence_line(test, n, p), flush=True)
    judge_cells()
