"""How often is each verdict of `assess` right? Simulated classifiers whose truth is known.

    python -m lab verdicts [--tasks 200]

Tasks differ in the number of classes, rows of validation and target, how well the classifier tells
classes apart, how overconfident it is, how it was trained (as nature has it, or balanced), and in
the shift: none, mild or strong. In every fifth task something else changed as well: features of the
target are moved or noisier, so that the assumption of prior shift is wrong.

"adapt" is right if accuracy did not fall by more than half a point. "leave" is right if adapting
would have gained less than 2 points. "unclear" is neither: the table says what adapting would have
done. Gains are those of adapting, whatever the verdict.
"""

import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np

import priorshift as ps
from lab.show import markdown, parse
from lab.worlds import softmax


class Outcome(NamedTuple):
    """A verdict on a kind of task, and the points that adapting would gain."""

    kind: str
    verdict: str
    gain: float


def outcome(seed: int) -> Outcome:
    """Draw Gaussian classes and an overconfident model of them, assess it, and see what adapts.

    Where the verdict is not to adapt, Auto without caution does.
    """
    rng = np.random.default_rng([seed, 20261117])
    K = int(rng.choice([2, 3, 5, 10]))
    means = rng.normal(size=(K, max(2, K // 2))) * rng.uniform(1.0, 2.2)
    n_val, n_target = int(rng.choice([200, 1000, 4000])), int(rng.choice([150, 800, 4000]))
    labels = rng.dirichlet(np.full(K, 3.0))
    shift = str(rng.choice(["none", "mild", "strong"]))
    away = rng.dirichlet(np.full(K, 1.0))
    share = {"none": 0.0, "mild": 0.3, "strong": 0.9}[shift]
    target = (1 - share) * labels + share * away
    trained = np.full(K, 1 / K) if rng.random() < 0.25 else labels
    slope = float(rng.choice([1.0, 1.5, 2.5]))
    moved = seed % 5 == 4

    def draw(n: int, shares: np.ndarray, moved: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        y = rng.choice(K, n, p=shares)
        y[:K] = np.arange(K)[: y.size]  # every class at least once
        x = means[y] + rng.normal(size=(n, means.shape[1])) * (1 + moved) + moved
        return softmax(slope * (x @ means.T - 0.5 * (means**2).sum(axis=1)) + np.log(trained)), y

    validation, (y_proba, y) = draw(n_val, labels), draw(n_target, target, 0.7 * moved)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ps.assess(*validation, y_proba, classes=np.arange(K))
    if found.verdict == "adapt":
        adapted = found.adapt(y_proba)
    else:
        bold = ps.Auto(caution=1e-9).fit(*validation, classes=np.arange(K)).estimate(y_proba)
        adapted = replace(bold, strength=1.0).adapt(y_proba)
    after, before = ((rows.argmax(axis=1) == y).mean() for rows in (adapted, y_proba))
    return Outcome("moved" if moved else shift, found.verdict, 100 * (after - before))


def right(one: Outcome) -> bool:
    """Tell whether a verdict was right."""
    return one.gain >= -0.5 if one.verdict == "adapt" else one.gain < 2.0


def table(outcomes: list[Outcome]) -> str:
    """Return a table: verdicts by kind of task."""
    rows = []
    for kind in ("all", "none", "mild", "strong", "moved"):
        for verdict in ("adapt", "leave", "unclear"):
            some = [o for o in outcomes if kind in ("all", o.kind) and o.verdict == verdict]
            if some:
                gains = np.array([o.gain for o in some])
                share = "-" if verdict == "unclear" else f"{np.mean([right(o) for o in some]):.0%}"
                said = (f"{gain:+.1f}" for gain in (gains.mean(), gains.min(), gains.max()))
                rows.append([kind, verdict, len(some), share, *said])
    return markdown(["tasks", "verdict", "times", "right", "mean gain", "least", "most"], rows)


def main(arguments: list[str] | None = None) -> None:
    """Judge tasks and print the table."""
    options = parse(__doc__, arguments, tasks=200)
    outcomes = [outcome(seed) for seed in range(options.tasks)]
    print(f"{options.tasks} simulated tasks; gains in points of accuracy")
    print(table(outcomes))
