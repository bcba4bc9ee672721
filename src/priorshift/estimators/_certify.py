"""The posterior problem and its certified solution, for the estimators that build on EM."""

from typing import Any

import numpy as np

from priorshift._typing import Vector
from priorshift._validation import check_count, check_positive
from priorshift.adaptation import prior_ratio
from priorshift.estimators._base import PriorEstimator
from priorshift.execution import Rows
from priorshift.solvers import Mixture, Solution, maximise


def posterior_problem(y_proba: Rows, source_priors: Vector, alpha: float | Vector = 1.0) -> Mixture:
    """Build the mixture problem with one row a target sample: posterior / source priors."""
    scale = prior_ratio(np.ones_like(source_priors), source_priors)
    return Mixture.of(y_proba, scale=scale, alpha=alpha)


def certified(estimator: PriorEstimator, problem: Mixture, start: Vector) -> Solution:
    """Maximise within the estimator's own `tol` and `max_iter`; warn if that did not do."""
    params: Any = estimator
    tol = check_positive(params.tol, "tol")
    max_iter = check_count(params.max_iter, "max_iter")
    solution = maximise(problem, tol=tol, max_iter=max_iter, start=start)
    estimator._warn_if_short(solution)
    return solution
