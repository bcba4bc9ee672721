"""How often is each verdict of `assess` right? Simulated classifiers whose truth is known.

    python -m lab verdicts [--tasks 200] [--seed 0] [--method auto]

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


class Task(NamedTuple):
    """A simulated validation set and target."""

    y_proba_val: np.ndarray
    y_val: np.ndarray
    y_proba_target: np.ndarray
    y_target: np.ndarray
    labels: np.ndarray
    """Label shares of validation, as in training."""
    trained: np.ndarray
    """Class shares that the outputs stand for."""
    kind: str


def simulate(seed: int) -> Task:
    """Draw a task: Gaussian classes, posteriors of a model that is overconfident."""
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
    y_proba_val, y_val = _draw(rng, n_val, labels, means, trained, slope)
    y_proba, y = _draw(rng, n_target, target, means, trained, slope, moved=0.7 if moved else 0.0)
    return Task(y_proba_val, y_val, y_proba, y, labels, trained, "moved" if moved else shift)


def _draw(rng, n, shares, means, trained, slope, moved=0.0):  # type: ignore[no-untyped-def]
    y = rng.choice(shares.size, n, p=shares)
    y[: shares.size] = np.arange(shares.size)[: y.size]  # every class at least once
    x = means[y] + rng.normal(size=(n, means.shape[1])) * (1 + moved) + moved
    z = slope * (x @ means.T - 0.5 * (means**2).sum(axis=1)) + np.log(trained)
    return softmax(z), y


class Outcome(NamedTuple):
    """A verdict and what would have come of it, in points."""

    kind: str
    verdict: str
    gain: float
    oracle: float
    sentence: str


def judge(task: Task, method: str, *, assume: bool = False) -> Outcome:
    """Assess a task, and compare with the truth."""
    K = task.labels.size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ps.assess(
            task.y_proba_val,
            task.y_val,
            task.y_proba_target,
            classes=np.arange(K),
            method=method,
            assume_prior_shift=assume,
        )
    truth = np.bincount(task.y_target, minlength=K) / task.y_target.size
    rows = task.y_proba_target
    before = (rows.argmax(axis=1) == task.y_target).mean()
    after = (_adapted(task, found).argmax(axis=1) == task.y_target).mean()
    ideal = ((rows * truth / task.trained).argmax(axis=1) == task.y_target).mean()
    return Outcome(
        task.kind, found.verdict, 100 * (after - before), 100 * (ideal - before), found.sentence
    )


def _adapted(task: Task, found: ps.Assessment) -> np.ndarray:
    """Adapt the target, also where the verdict is not to: Auto without caution."""
    if found.verdict == "adapt":
        return found.adapt(task.y_proba_target)
    bold = ps.Auto(caution=1e-9).fit(
        task.y_proba_val, task.y_val, classes=np.arange(task.labels.size)
    )
    shift = bold.estimate(task.y_proba_target)
    return replace(shift, strength=1.0).adapt(task.y_proba_target)


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
    options = parse(
        __doc__, arguments, tasks=200, seed=0, method="auto", assume=False, verbose=False
    )
    first = options.seed * 1_000_000
    outcomes = []
    for seed in range(first, first + options.tasks):
        outcomes.append(judge(simulate(seed), options.method, assume=options.assume))
        if options.verbose:
            print(f"{seed} {outcomes[-1]}")
    print(f"{options.tasks} simulated tasks; gains in points of accuracy")
    print(table(outcomes))
