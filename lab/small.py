"""Small cells: validation of 60 to 2,000 rows, targets of 100 and 500, classifiers somewhat wrong.

Classes are normal clouds. The classifier knows them up to noise in its weights, a temperature and
biases, all drawn anew in each run, and so are the class balances. Methods are told nothing else.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

import priorshift as ps
from lab.show import markdown

CLASSES, VALIDATION_ROWS, TARGET_ROWS = (2, 5, 10), (60, 100, 200, 2000), (100, 500)
LOST = -1.0
"""Points below which a run has lost."""

FRESH = 5000
"""Further rows of a target, with labels, by which the oracle knows what adapting gains there."""


class Outcome(NamedTuple):
    """The gain in points; what was promised and its error where predictions were adapted.

    `ideal` is the gain of an oracle, which adapts in full where that gains on further rows of the
    target; None where it leaves predictions alone.
    """

    gain: float
    promised: float | None
    error: float
    ideal: float | None


def small_cells(repeats: int) -> str:
    """Return a table of what Auto gains, loses and promises: a row per cell."""
    rows, everything = [], []
    for classes in CLASSES:
        for n_val in VALIDATION_ROWS:
            cell = [
                outcome(classes, n_val, n_target, run)
                for n_target in TARGET_ROWS
                for run in range(repeats)
            ]
            rows.append([f"{classes}, {n_val:,}", *shown(cell)])
            everything += cell
    header = ["classes, validation rows", "gain", "1 % quantile", "worst", "adapted"]
    header += ["lost more than 1 point, of adapted", "promise within 1.96 errors"]
    header += ["an oracle lost more than 1 point, of adapted"]
    return (
        f"**Auto where validation is small: points of accuracy, {2 * repeats} runs per row**\n\n"
        f"{markdown(header, [*rows, ['all', *shown(everything)]])}"
    )


def shown(cell: list[Outcome]) -> list[str]:
    gains = np.array([one.gain for one in cell])
    adapted = [one for one in cell if one.promised is not None]
    ideal = [one.ideal for one in cell if one.ideal is not None]
    lost, unlucky = (
        f"{np.mean(np.array(some) < LOST):.0%}" if some else "-"
        for some in ([one.gain for one in adapted], ideal)
    )
    kept = [abs(one.gain - one.promised) < 1.96 * one.error for one in adapted]
    return [
        f"{gains.mean():+.2f}",
        f"{np.quantile(gains, 0.01):+.1f}",
        f"{gains.min():+.1f}",
        f"{len(adapted) / len(cell):.0%}",
        lost,
        f"{np.mean(kept):.2f}" if kept else "-",
        unlucky,
    ]


def outcome(classes: int, n_val: int, n_target: int, run: int) -> Outcome:
    """Draw a classifier, validation and target; adapt by Auto."""
    rng = np.random.default_rng([classes, n_val, n_target, run])
    size = max(2, classes // 2)
    centres = rng.normal(size=(classes, size))
    distances = np.sqrt(((centres[:, None] - centres) ** 2).sum(axis=-1))
    centres *= rng.uniform(1, 3) / np.sqrt((distances[np.triu_indices(classes, 1)] ** 2).mean())
    source = rng.dirichlet(np.full(classes, rng.choice([1.0, 5.0, 50.0])))
    source = (source + 0.3 / classes) / 1.3
    shifted = (
        source,
        rng.dirichlet(np.ones(classes)),
        rng.dirichlet(np.full(classes, 5.0)),
        np.sort(source)[::-1][source.argsort().argsort()],  # rare classes become frequent
    )
    target = shifted[rng.integers(4)]
    sharpness, bias = np.exp(rng.normal(0, 0.5)), rng.normal(0, rng.choice([0, 0.3, 1]), classes)
    weights = centres * np.exp(rng.normal(0, 0.3, size=centres.shape))

    def draw(n: int, priors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        y = rng.choice(classes, n, p=priors)
        x = centres[y] + rng.normal(size=(n, size))
        scores = x @ weights.T - (weights * centres).sum(axis=1) / 2 + np.log(source) + bias
        return softmax(sharpness * scores, axis=1), y

    (y_proba_val, y_val), (y_proba, y) = draw(n_val, source), draw(n_target, target)
    shift = (
        ps.Auto(random_state=0).fit(y_proba_val, y_val, classes=range(classes)).estimate(y_proba)
    )

    def gained(estimate: ps.PriorEstimate, y_proba: np.ndarray, y: np.ndarray) -> float:
        after, before = (
            np.count_nonzero(proba.argmax(axis=1) == y)
            for proba in (estimate.adapt(y_proba), y_proba)
        )
        return 100 * (after - before) / y.size  # exact where just a point is lost

    decided, full = shift.decision, replace(shift.with_action("adapt"), strength=1.0)
    promised = 100 * decided["expected_gain"] if decided["adapt"] else None
    ideal = gained(full, y_proba, y) if gained(full, *draw(FRESH, target)) > 0 else None
    return Outcome(gained(shift, y_proba, y), promised, 100 * decided["expected_gain_se"], ideal)
