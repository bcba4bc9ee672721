r"""The supplement's experiments: C, inconsistent estimates; D, two Gaussians; E, convergence.

And one that it lacks: how much hangs on learning rates, halving and thresholds.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from lab.paper import trials
from lab.paper.distributions import Indices, Vector
from lab.paper.outputs import StoredOutputs
from lab.paper.tables import by_setting, heading
from lab.paper.trials import COLUMNS, SHARE, SOLVERS, Setting, Solver, Trial, estimator_of
from lab.show import markdown, told
from priorshift import Confusion, DecisionCounts, PriorEstimator
from priorshift.solvers import project_simplex

# C: estimates that do not fit together make priors and ratios negative

INVERTED = {"cm": "priors", "scm": "priors", "bbse": "ratio", "bbse-s": "ratio"}
"""Methods that invert a confusion matrix, and what their unconstrained solution is."""


class Inconsistency(NamedTuple):
    r"""How far the unconstrained solution of a method is outside the simplex, in one trial.

    A target row x is adapted to :math:`f_k(x) w_k / \sum_j f_j(x) w_j`. The released code keeps
    negative ratios w. The sum is then below 0 wherever most of the probability is on classes with a
    negative ratio. Dividing by it turns all signs, and the row is decided for the class with the
    most negative value.

    Attributes
    ----------
    source, target : str
    calibrated : bool
    solver, method : str
    seed : int
    negative : float
        Share of classes below 0.
    clipped : float
        Total size of the negative priors, where all priors sum to 1.
    turned : float
        Share of target rows whose adapted values would have a negative sum.
    """

    source: str
    target: str
    calibrated: bool
    solver: str
    method: str
    seed: int
    negative: float
    clipped: float
    turned: float


def example() -> Vector:
    r"""Return the ratio of the supplement's example, which is negative for the second class.

    .. math:: C = \begin{pmatrix} 0.4 & 0.1 \\ 0.1 & 0.4 \end{pmatrix}, \quad q = (1, 0), \quad
        w = C^{-1} q = (8/3, -2/3).

    Examples
    --------
    >>> example().round(3)
    array([ 2.667, -0.667])
    """
    return np.linalg.solve(np.array([[0.4, 0.1], [0.1, 0.4]]), np.array([1.0, 0.0]))


def run_inconsistent(
    outputs: Sequence[StoredOutputs],
    *,
    targets: Sequence[str | Path] = ("UNI",),
    n_seeds: int = 10,
    share: float = SHARE,
) -> list[Inconsistency]:
    """Count the negative entries of CM, SCM, BBSE and BBSE-S on stored outputs, per column."""
    found: list[Inconsistency] = []
    for setting in told(trials.draws(outputs, targets, n_seeds, share)):
        where = setting.outputs.name, setting.target_name, setting.calibrated
        for solver in SOLVERS:
            trial = setting.draw(solver)
            for method, what in INVERTED.items():
                shift = trial.estimated(estimator_of(method, solver))
                raw = shift.priors if shift.raw is None else shift.raw
                source = shift.source_priors if what == "ratio" else trial.mean_prediction
                priors = raw * source if what == "ratio" else raw
                ratio = raw if what == "ratio" else trials.prior_ratio(raw, source)
                figures = (
                    float((raw < 0).mean()),
                    -float(np.minimum(priors, 0.0).sum()),
                    float((trial.y_proba_target @ ratio < 0).mean()),
                )
                found.append(Inconsistency(*where, solver, method, setting.seed, *figures))
    return found


def inconsistency_as_markdown(found: Sequence[Inconsistency]) -> str:
    """Return means per setting and column: classes below 0, their mass, and turned rows."""
    rows = [
        [
            f"{source} -> {target}",
            "yes" if calibrated else "no",
            COLUMNS.get(solver, solver),
            *(_inconsistency_cell(by_method[method]) for method in INVERTED),
        ]
        for (source, target, calibrated, solver), by_method in by_setting(found).items()
    ]
    return markdown(["source -> target", "BCTS", "column", *map(heading, INVERTED)], rows)


def _inconsistency_cell(runs: Sequence[Inconsistency]) -> str:
    negative, mass, turned = (
        np.mean(figure) for figure in zip(*(one[-3:] for one in runs), strict=True)
    )
    return (
        f"{100 * negative:.1f} % of classes, mass {mass:.3f}, {100 * turned:.1f} % of rows turned"
    )


# D: confusion matrices of two Gaussian classes, where the truth is known

MEANS, DEVIATION = np.array([-2.0, 2.0]), 2.0
GAUSSIAN_SIZES = (5, 10, 20, 50, 100, 200, 500, 1000)
SHOWN_SIZE = 50
"""Validation samples behind the matrices that are shown."""


@dataclass(frozen=True)
class Logistic:
    r"""A classifier `1 / (1 + exp(-(a x + b)))` of two Gaussian classes with equal priors.

    .. math:: x \mid Y=0 \sim N(-2, 2^2), \quad x \mid Y=1 \sim N(2, 2^2)

    The posterior has a = 1 and b = 0.
    """

    name: str
    a: float
    b: float = 0.0

    def predict_proba(self, x: Vector) -> Vector:
        """Return the probabilities of both classes."""
        positive = 1 / (1 + np.exp(-(self.a * x + self.b)))
        return np.column_stack([1 - positive, positive])

    @property
    def threshold(self) -> float:
        """Where the decision changes, t."""
        return -self.b / self.a

    def true_confusion(self) -> Vector:
        r"""Return the true confusion matrix, :math:`C_{1|j} = P(x > t \mid Y=j)`."""
        below = ndtr((self.threshold - MEANS) / DEVIATION)
        return np.array([below, 1 - below])


class ConfusionStudy(NamedTuple):
    """How far estimated confusion matrices are from the true one, for "hard" and "soft" decisions.

    Attributes
    ----------
    classifier : Logistic
    distances : dict
        Mean sum of absolute differences for each of `GAUSSIAN_SIZES` validation samples.
    estimated : dict
        Matrix from `SHOWN_SIZE` samples.
    """

    classifier: Logistic
    distances: dict[str, Vector]
    estimated: dict[str, Vector]


def classifiers() -> tuple[Logistic, Logistic, Logistic]:
    """Return the supplement's three: trained on four samples, overconfident, calibrated."""
    x, y = _draw_gaussian(4, np.random.default_rng(0))
    fitted = LogisticRegression().fit(x[:, None], y)
    trained = Logistic("trained on 4 samples", fitted.coef_.item(), fitted.intercept_.item())
    return trained, Logistic("overconfident", 2.0), Logistic("calibrated", 1.0)


def run_gaussian(n_trials: int = 50) -> Iterator[ConfusionStudy]:
    """Compare hard and soft confusion matrices with the truth, for each of the classifiers."""
    for classifier in classifiers():
        truth = classifier.true_confusion()
        distances = {kind: np.zeros(len(GAUSSIAN_SIZES)) for kind in ("hard", "soft")}
        for at, size in enumerate(GAUSSIAN_SIZES):
            rng = np.random.default_rng([0, size])
            for _ in range(n_trials):
                for kind, matrix in _estimated_confusion(classifier, size, rng).items():
                    distances[kind][at] += np.abs(matrix - truth).sum() / n_trials
        shown = _estimated_confusion(classifier, SHOWN_SIZE, np.random.default_rng(0))
        yield ConfusionStudy(classifier, distances, shown)


def _estimated_confusion(
    classifier: Logistic, size: int, rng: np.random.Generator
) -> dict[str, Vector]:
    x, y = _draw_gaussian(size, rng)
    y_proba, kinds = classifier.predict_proba(x), ("hard", "soft")
    return {k: Confusion.from_arrays(y_proba, y, decision=k).conditional for k in kinds}


def _draw_gaussian(n: int, rng: np.random.Generator) -> tuple[Vector, Indices]:
    """Draw samples with at least one of each class."""
    y = np.concatenate([[0, 1], rng.integers(0, 2, n - 2)]).astype(np.intp)
    return rng.normal(MEANS[y], DEVIATION), y


# E: accuracy over time while methods converge, and how long each takes

TIMED_METHODS = (
    *("cm", "scm", "bbse", "bbse-s", "em", "cm-l", "scm-l"),
    *("map", "cm-m", "scm-m", "rlls"),
)
ITERATIONS = (1, 2, 3, 5, 8, 12, 20, 40, 80, 150, 300, 1000)
"""Steps after which a method is stopped and measured."""


class Stage(NamedTuple):
    """What a method has reached when it is stopped after some steps; the time is the median."""

    method: str
    solver: Solver
    n_iter: int
    seconds: float
    accuracy: float
    gap: float | None


def run_convergence(
    setting: Setting,
    *,
    methods: Sequence[str] = TIMED_METHODS,
    iterations: Sequence[int] = ITERATIONS,
    n_repeats: int = 5,
) -> tuple[list[Stage], list[Stage]]:
    """Stop every method after more and more steps, and run each to its end."""
    trial = setting.draw()
    stages: list[Stage] = []
    ends: list[Stage] = []
    for method in told(methods):
        for solver in trials.solvers_of(method):
            estimator = estimator_of(method, solver)
            ends.append(_timed(trial, estimator, method, solver, n_repeats))
            if "max_iter" not in estimator.get_params():  # nothing converges: there is one stage
                stages.append(ends[-1])
                continue
            for n_iter in iterations:
                stopped = clone(estimator).set_params(max_iter=n_iter)
                stages.append(_timed(trial, stopped, method, solver, 1))
                if stages[-1].n_iter < n_iter:
                    break
    return stages, ends


def run_times_as_markdown(ends: Sequence[Stage]) -> str:
    """Return the run times as a table: seconds, and accuracy, in each column."""
    found = {(s.method, s.solver): f"{s.seconds:.4f} s, {s.accuracy:.2f} %" for s in ends}
    rows = [
        [heading(method), *(found.get((method, s), "as certified") for s in SOLVERS)]
        for method in dict.fromkeys(s.method for s in ends)
    ]
    return markdown(["method", *(COLUMNS.get(s, s) for s in SOLVERS)], rows)


def _timed(
    trial: Trial, estimator: PriorEstimator, method: str, solver: Solver, n_repeats: int
) -> Stage:
    """Fit, then time estimating."""
    shift, seconds = trial.estimated(estimator), []
    with trials.without_warnings():
        for _ in range(n_repeats):
            start = time.perf_counter()
            estimator.estimate(trial.y_proba_target)
            seconds.append(time.perf_counter() - start)
    reached = median(seconds), trial.adapted_by(shift), shift.gap
    return Stage(method, solver, shift.n_iter, *reached)


# What the text leaves open: learning rate, halving and threshold

RATES = (*(digit * 10.0**e for e in range(-5, 0) for digit in (1, 2, 5)), 1.0)
"""A grid of steps 1, 2, 5 for the learning rate, of the gradient divided by the number of rows."""

DECADES = RATES[::3]
HALVED_EVERY, N_STEPS, LEAST_PRIOR = 50, 1000, 1e-8

THRESHOLDS = {
    **dict.fromkeys(("cm-l", "scm-l", "scm-m"), (0.0,)),
    "map": (1e-3, 1e-4, 1e-5, 0.0),
    "em": (1e-2, 1e-3, 1e-4, 1e-5, 1e-6),
}
"""Lengths of a step, in l2, at which a method stops; 0 stops after 1000 steps alone."""


class Sensitivity(NamedTuple):
    """What a method reaches with a learning rate, halved every 50 steps or not, and a threshold.

    EM has no learning rate. `certified` and `l1_certified` are accuracy and L1 error of the
    certified maximum of the same likelihood, in the same trial.
    """

    source: str
    target: str
    method: str
    seed: int
    learning_rate: float | None
    halved: bool
    threshold: float
    objective: float
    accuracy: float
    l1_error: float
    certified: float
    l1_certified: float
    network: str = "0"


@dataclass(frozen=True, eq=False)
class _Likelihood:
    """Rows A, weights w and alpha - 1 of the problem that a method maximises."""

    A: Vector
    w: Vector
    excess: float

    @classmethod
    def of(cls, method: str, trial: Trial, estimator: PriorEstimator) -> "_Likelihood":
        excess = float(estimator.get_params().get("alpha", 1.0)) - 1
        if method in ("em", "map"):
            ratio = trials.prior_ratio(np.ones_like(trial.mean_prediction), trial.mean_prediction)
            return cls(trial.y_proba_target * ratio, np.ones(trial.y_target.size), excess)
        confusion = estimator.confusion_
        counts = DecisionCounts.from_arrays(trial.y_proba_target, decision=confusion.decision)
        return cls(confusion.conditional, counts.counts, excess)

    def objective(self, P: Vector) -> Vector:
        """Return the objective of every column."""
        likelihood = self.w @ np.log(np.maximum(self.A @ P, np.finfo(float).tiny))
        return likelihood + self.excess * np.log(np.maximum(P, LEAST_PRIOR)).sum(axis=0)

    def mean_gradient(self, P: Vector) -> Vector:
        """Return the gradient of every column, divided by the number of rows."""
        U = self.A @ P
        slope = self.A.T @ np.divide(self.w[:, None], U, out=np.zeros_like(U), where=U > 0)
        return (slope + self.excess / np.maximum(P, LEAST_PRIOR)) / self.w.sum()


def run_sensitivity(
    outputs: Sequence[StoredOutputs],
    *,
    target: str | Path = "UNI",
    n_seeds: int = 10,
    share: float = SHARE,
) -> list[Sensitivity]:
    """Vary what the paper's text leaves open, without calibration.

    Projected gradient ascent from the source priors with every learning rate of `RATES`, halved
    every 50 steps or not, stopped at every threshold; EM at every threshold. In the gradient of
    the hyper-prior a prior counts as at least 1e-8, so that every learning rate has a result.
    """
    found: list[Sensitivity] = []
    for setting in told(trials.draws(outputs, [target], n_seeds, share, calibrated=(False,))):
        trial = setting.draw()
        for method in THRESHOLDS:
            where = setting.outputs.name, setting.target_name, method, setting.seed
            estimator = estimator_of(method, "certified")
            shift = trial.estimated(estimator)
            best = trial.adapted_by(shift), float(np.abs(shift.priors - trial.truth).sum())
            problem = _Likelihood.of(method, trial, estimator)
            for halved, threshold, rates, P in _variants(method, problem, trial.mean_prediction):
                for rate, p, objective in zip(rates, P.T, problem.objective(P), strict=True):
                    error = float(np.abs(p - trial.truth).sum())
                    reached = float(objective), trial.adapted(p), error
                    how = rate, halved, threshold
                    found.append(Sensitivity(*where, *how, *reached, *best, setting.network))
    return found


def _variants(
    method: str, problem: _Likelihood, start: Vector
) -> Iterator[tuple[bool, float, Sequence[float | None], Vector]]:
    """Yield whether rates are halved, the threshold, the rates, and where each ends (columns)."""
    if method == "em":
        P = start[:, None]
        for threshold, found in _until(lambda P, _: P * problem.mean_gradient(P), P, method):
            yield False, threshold, (None,), found
        return
    rates = np.array(RATES)
    for halved in (True, False):

        def step(P: Vector, at: int, halved: bool = halved) -> Vector:
            rate = rates / 2 ** (at // HALVED_EVERY) if halved else rates
            return project_simplex(P + rate * problem.mean_gradient(P))

        P = np.repeat(start[:, None], rates.size, axis=1)
        for threshold, found in _until(step, P, method):
            yield halved, threshold, RATES, found


def _until(
    step: Callable[[Vector, int], Vector], P: Vector, method: str
) -> Iterator[tuple[float, Vector]]:
    """Yield where every column is when its step falls below each threshold, or at the end."""
    reached = {threshold: P.copy() for threshold in THRESHOLDS[method]}
    moving = {threshold: np.ones(P.shape[1], bool) for threshold in reached}
    for at in range(N_STEPS):
        new = step(P, at)
        length = np.linalg.norm(new - P, axis=0)
        P = new
        for threshold, on in moving.items():
            reached[threshold][:, on] = P[:, on]
            on &= length >= threshold
        if not any(on.any() for on in moving.values()) or not length.any():
            break
    yield from reached.items()


def sensitivity_as_markdown(found: Sequence[Sensitivity]) -> str:
    """Return accuracy less that of the certified maximum, and the L1 error, per learning rate.

    The last two columns take in every trial the learning rate of the best objective, as the
    paper's text does, from the decades and from the whole grid.
    """
    variants: dict[tuple[str, str, bool, float], list[Sensitivity]] = {}
    for one in found:
        where = f"{one.source} -> {one.target}"
        variants.setdefault((where, one.method, one.halved, one.threshold), []).append(one)
    header = ["source -> target", "method", "halved", "threshold", "certified, L1"]
    header += [*(f"{rate:g}" for rate in DECADES), "best of decades, or EM", "best of 1-2-5"]
    rows = []
    for (where, method, halved, threshold), runs in variants.items():
        by_rate = "" if method == "em" else "yes" if halved else "no"
        how = [where, heading(method), by_rate, f"{threshold:g}" if threshold else "none"]
        rows.append([*how, *_rate_cells(runs)])
    return markdown(header, rows)


def _rate_cells(found: Sequence[Sensitivity]) -> list[str]:
    certified = np.mean([one.certified for one in found])
    error = np.mean([one.l1_certified for one in found])
    cells = [f"{certified:.2f}, {error:.3f}"]
    if found[0].learning_rate is None:  # EM has one result, and no rates to choose from
        return [*cells, *[""] * len(DECADES), _difference_cell(found), ""]
    by_rate = ([one for one in found if one.learning_rate == rate] for rate in DECADES)
    cells += map(_difference_cell, by_rate)
    return [*cells, *(_difference_cell(_best_of(found, grid)) for grid in (DECADES, RATES))]


def _best_of(found: Sequence[Sensitivity], grid: Sequence[float]) -> list[Sensitivity]:
    best: dict[int, Sensitivity] = {}
    for one in found:
        if one.learning_rate in grid:
            rival = best.setdefault(one.seed, one)
            best[one.seed] = one if one.objective > rival.objective else rival
    return list(best.values())


def _difference_cell(found: Sequence[Sensitivity]) -> str:
    gain = np.mean([one.accuracy - one.certified for one in found])
    return f"{gain:+.2f}, {np.mean([one.l1_error for one in found]):.3f}"
