"""Coverage and width of intervals from a few target labels, where a judge's errors drifted.

    python -m lab labels

A judge decides between two classes. It was validated on 1,000 rows with sensitivity 90 % and
specificity 95 %; on the target it has drifted. The target has 2,000 rows, 200 of them labelled, and
a share of 30 %, 5 % or 2 %. Labels that were drawn with unequal chances, four times as often where
the judge says yes, count with their weight.
"""

from collections.abc import Iterator

import numpy as np

import priorshift as ps
from lab.show import head, parse, row

VALIDATED, DRIFTED = (0.95, 0.90), (0.85, 0.95)
"""Specificity and sensitivity."""

N_VAL, N_TARGET, N_LABELS = 1000, 2000, 200
SHARES = (0.30, 0.05, 0.02)


def main(arguments: list[str] | None = None) -> None:
    """Print one table."""
    parse(__doc__, arguments)
    columns = (f"share {share:.0%}" for share in SHARES)
    head("Coverage of 95 % intervals, and mean width in points", "method", "errors", *columns)
    for errors, rates in (("as validated", VALIDATED), ("drifted", DRIFTED)):
        tallies: dict[str, list[str]] = {}
        for share in SHARES:
            found = list(trials(share, rates, 2000))
            for name in found[0]:
                bounds = np.array([trial[name] for trial in found])
                covered = np.mean((bounds[:, 0] <= share) & (share <= bounds[:, 1]))
                width = 100 * np.ptp(bounds, axis=1).mean()
                tallies.setdefault(name, []).append(f"{covered:.1%} ({width:.1f})")
        for name, cells in tallies.items():
            row(name, errors, *cells)


def trials(share: float, rates: tuple[float, float], n: int) -> Iterator[dict[str, np.ndarray]]:
    """Yield the intervals of the share by every method, trial by trial."""
    rng = np.random.default_rng(round(1000 * share))
    for _ in range(n):
        y_val, decided_val = judged(rng, N_VAL, 0.5, VALIDATED)
        y, decided = judged(rng, N_TARGET, share, rates)
        y_proba = np.eye(2)[decided]
        equal = np.full(N_TARGET, N_LABELS / N_TARGET)
        favoured = np.where(decided == 1, 4.0, 1.0)
        favoured *= N_LABELS / favoured.sum()
        ppi, alone = (ps.PPI(weight=weight).fit(classes=[0, 1]) for weight in (None, 0.0))
        some, chosen = (np.where(rng.random(N_TARGET) < p, y, -1) for p in (equal, favoured))
        cml = ps.CML().fit(np.eye(2)[decided_val], y_val)
        yield {
            "CM-L, no labels": cml.estimate(y_proba, 0.95).interval[1],
            "labels alone": alone.estimate(y_proba, 0.95, y_target=some).interval[1],
            "PPI": ppi.estimate(y_proba, 0.95, y_target=some).interval[1],
            "PPI, unequal chances": ppi.estimate(
                y_proba, 0.95, y_target=chosen, sample_weight=1 / favoured
            ).interval[1],
        }


def judged(
    rng: np.random.Generator, n: int, share: float, rates: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Return true classes, and what the judge says."""
    y = (rng.random(n) < share).astype(int)
    right = rng.random(n) < np.asarray(rates)[y]
    return y, np.where(right, y, 1 - y)
