"""Supplementary E: accuracy over time while methods converge, and how long each takes."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from sklearn.base import clone

from priorshift.estimators import PriorEstimator
from priorshift.evaluation.paper._result import heading
from priorshift.evaluation.paper._tables import (
    SOLVERS,
    Setting,
    Solver,
    estimator_of,
    has_paper_solver,
)
from priorshift.evaluation.paper._trial import Trial
from priorshift.exceptions import ConvergenceWarning, PriorShiftWarning

METHODS = ("cm", "scm", "bbse", "bbse-s", "em", "cm-l", "scm-l", "map", "cm-m", "scm-m", "rlls")
ITERATIONS = (1, 2, 3, 5, 8, 12, 20, 40, 80, 150, 300, 1000)
"""Steps after which a method is stopped and looked at."""


@dataclass(frozen=True)
class Stage:
    """Where a method stands when it is stopped after some steps."""

    method: str
    solver: Solver
    n_iter: int
    seconds: float
    accuracy: float
    gap: float | None


@dataclass(frozen=True)
class RunTime:
    """The median time of estimating, statistics of validation not included."""

    method: str
    solver: Solver
    seconds: float
    accuracy: float


def run_convergence(
    setting: Setting,
    *,
    methods: Sequence[str] = METHODS,
    iterations: Sequence[int] = ITERATIONS,
    n_repeats: int = 5,
    progress: Callable[[Sequence[str]], Sequence[str]] = lambda names: names,
) -> tuple[list[Stage], list[RunTime]]:
    """Stop every method after more and more steps, and time all of them to their end."""
    trial = setting.draw()
    stages: list[Stage] = []
    times: list[RunTime] = []
    for method in progress(methods):
        for solver in SOLVERS:
            estimator = estimator_of(method, solver)
            if solver == "paper" and not has_paper_solver(estimator):
                continue
            if "max_iter" in estimator.get_params():
                stages += _stages(trial, estimator, method, solver, iterations)
            seconds, accuracy, _, _ = _timed(trial, estimator, n_repeats)
            times.append(RunTime(method, solver, seconds, accuracy))
    return stages, times


def run_times_as_markdown(times: Sequence[RunTime]) -> str:
    """Return the run times as a table."""
    lines = ["| method | solver | seconds | accuracy |", "|---|---|---|---|"]
    lines += [
        f"| {heading(t.method)} | {t.solver} | {t.seconds:.4f} | {t.accuracy:.2f} |" for t in times
    ]
    return "\n".join(lines)


def _stages(
    trial: Trial,
    estimator: PriorEstimator,
    method: str,
    solver: Solver,
    iterations: Sequence[int],
) -> list[Stage]:
    found: list[Stage] = []
    for n_iter in iterations:
        stopped = clone(estimator).set_params(max_iter=n_iter)
        seconds, accuracy, used, gap = _timed(trial, stopped, 1)
        found.append(Stage(method, solver, used, seconds, accuracy, gap))
        if used < n_iter:
            break
    return found


def _timed(
    trial: Trial, estimator: PriorEstimator, n_repeats: int
) -> tuple[float, float, int, float | None]:
    """Return the median time of estimating, the accuracy, the steps and the gap."""
    with warnings.catch_warnings():
        for category in (PriorShiftWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        shift, seconds = trial.estimated(estimator), []
        for _ in range(n_repeats):
            start = time.perf_counter()
            estimator.estimate(trial.y_proba_target)
            seconds.append(time.perf_counter() - start)
        accuracy = trial.accuracy(shift.adapt(trial.y_proba_target))
    return median(seconds), accuracy, shift.n_iter, shift.gap
