r"""EM, MAP, CM-L, SCM-L, CM-M and SCM-M: one concave problem with six kinds of data.

.. math:: \max_{p \in \Delta}\ \sum_i w_i \log(a_i \cdot p) + \sum_k (\alpha_k - 1) \log p_k

======  =======================================  ==================  =====
method  rows a_i                                 weights w_i         alpha
======  =======================================  ==================  =====
EM      posterior / source priors, one a sample  1                   1
MAP     posterior / source priors, one a sample  1                   3
CM-L    rows of the hard confusion matrix        decision counts     1
SCM-L   rows of the soft confusion matrix        summed posteriors   1
CM-M    rows of the hard confusion matrix        decision counts     3
SCM-M   rows of the soft confusion matrix        summed posteriors   3
======  =======================================  ==================  =====
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from priorshift._typing import Vector
from priorshift._validation import check_alpha, check_choice, check_count, check_positive
from priorshift.adaptation import prior_ratio
from priorshift.estimators._base import PriorEstimator
from priorshift.estimators._decisions import DecisionEstimator
from priorshift.estimators._evidence import TargetCounts
from priorshift.estimators._references import GUIDE, SAERENS, SULC
from priorshift.estimators._result import PriorEstimate
from priorshift.exceptions import PriorShiftWarning, warn_user
from priorshift.execution import Rows
from priorshift.solvers import (
    L2_THRESHOLD,
    Mixture,
    Solution,
    expectation_maximisation,
    gradient_ascent,
    maximise,
)
from priorshift.statistics import Decision

Solver = Callable[[Mixture, Vector], Solution]
"""Takes a problem and a start, the source priors."""


class EM(PriorEstimator):
    """Maximum likelihood from the posteriors (Saerens et al., 2002), solved to a certificate.

    Needs calibrated predictions and source priors; no validation labels.

    Parameters
    ----------
    tol : float, default=0.01
        Duality gap in nats to reach: at most 0.14 standard errors in any direction.
    max_iter : int, default=1000
        Most passes over the target.
    solver : {"certified", "paper", "gradient"}, default="certified"
        "paper" is plain EM that stops when two iterates differ by < 0.001 in l2; "gradient" is
        projected gradient ascent on the same likelihood, with the same stop.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.9, 0.1], [0.2, 0.8]])
    >>> shift = ps.EM().fit(source_priors=[0.5, 0.5]).estimate(y_proba)
    >>> shift.priors.round(3), shift.status
    (array([0.898, 0.102]), 'certified')
    """

    name = "em"
    summary = "maximises the likelihood of the predicted probabilities"
    reference = SAERENS
    takes_sparse = True
    trusts_outputs = True
    batch = "posteriors"

    def __init__(
        self, *, tol: float = 0.01, max_iter: int = 1000, solver: str = "certified"
    ) -> None:
        self.tol, self.max_iter, self.solver = tol, max_iter, solver

    def _estimate(self, y_proba: Rows) -> PriorEstimate:
        other = gradient_ascent if self.solver == "gradient" else expectation_maximisation
        choices = ("certified", "paper", "gradient")
        solve = _solver_of(self, other, choices, threshold=L2_THRESHOLD)
        return _from_posteriors(self, y_proba, 1.0, solve)


class MAP(PriorEstimator):
    """Maximum a posteriori from the posteriors (Sulc and Matas, 2019): EM with a hyper-prior.

    Parameters
    ----------
    alpha : float or array-like of shape (n_classes,), default=3.0
        Dirichlet hyper-prior; above 1 favours dense priors, below 1 sparse ones (then the result
        is only "stationary").
    tol : float, default=0.01
        Duality gap in nats to reach.
    max_iter : int, default=1000
        Most passes over the target.
    solver : {"certified", "paper"}, default="certified"
        "paper" is projected gradient ascent with the best learning rate of a grid, stopped when
        two iterates differ by < 0.001 in l2.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.9, 0.1], [0.2, 0.8]])
    >>> ps.MAP(alpha=3).fit(source_priors=[0.5, 0.5]).estimate(y_proba).priors.round(3)
    array([0.605, 0.395])
    """

    name = "map"
    summary = "maximises the posterior of the predicted probabilities under a hyper-prior"
    reference = SULC
    takes_sparse = True
    trusts_outputs = True
    batch = "posteriors"

    def __init__(
        self,
        *,
        alpha: float | ArrayLike = 3.0,
        tol: float = 0.01,
        max_iter: int = 1000,
        solver: str = "certified",
    ) -> None:
        self.alpha, self.tol, self.max_iter, self.solver = alpha, tol, max_iter, solver

    def _estimate(self, y_proba: Rows) -> PriorEstimate:
        solve = _solver_of(self, gradient_ascent, threshold=L2_THRESHOLD)
        return _from_posteriors(self, y_proba, self.alpha, solve)


class CML(DecisionEstimator):
    """Maximum likelihood of the hard decisions: the paper's CM-L.

    Parameters
    ----------
    tol : float, default=1e-6
        Duality gap in nats to reach.
    max_iter : int, default=1000
        Most steps.
    solver : {"certified", "paper"}, default="certified"
        "paper" is 1000 steps of projected gradient ascent with the best learning rate of a grid.

    Examples
    --------
    The paper's example, where inverting the confusion matrix would give (4/3, -1/3):

    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_val = np.repeat([0, 1], 10)
    >>> decisions = np.repeat([0, 1, 0, 1], [8, 2, 2, 8])
    >>> ps.CML().fit(np.eye(2)[decisions], y_val).estimate(np.array([[1.0, 0.0]])).priors
    array([1., 0.])
    """

    name = "cm-l"
    summary = "maximises the likelihood of hard decisions under the confusion matrix"
    reference = GUIDE
    batch = "likelihood"

    def __init__(
        self, *, tol: float = 1e-6, max_iter: int = 1000, solver: str = "certified"
    ) -> None:
        self.tol, self.max_iter, self.solver = tol, max_iter, solver

    @property
    def _decision(self) -> Decision:
        return "hard"

    def _solve(self, target: TargetCounts) -> PriorEstimate:
        return _from_decisions(self, target, 1.0, _solver_of(self, gradient_ascent))


class SCML(DecisionEstimator):
    """Maximum likelihood of the soft decisions: the paper's SCM-L.

    Parameters
    ----------
    tol : float, default=1e-6
        Duality gap in nats to reach. Summed posteriors are not counts: the gap is that of the
        optimisation, and says nothing of sampling noise.
    max_iter : int, default=1000
        Most steps.
    solver : {"certified", "paper"}, default="certified"
        "paper" is 1000 steps of projected gradient ascent with the best learning rate of a grid.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_val = np.array([0, 0, 1, 1])
    >>> y_proba_val = np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.2, 0.8]])
    >>> y_proba = np.array([[0.8, 0.2], [0.8, 0.2], [0.2, 0.8]])
    >>> ps.SCML().fit(y_proba_val, y_val).estimate(y_proba).priors.round(3)
    array([0.667, 0.333])
    """

    name = "scm-l"
    summary = "maximises the likelihood of soft decisions under the confusion matrix"
    reference = GUIDE
    batch = "likelihood"

    def __init__(
        self, *, tol: float = 1e-6, max_iter: int = 1000, solver: str = "certified"
    ) -> None:
        self.tol, self.max_iter, self.solver = tol, max_iter, solver

    @property
    def _decision(self) -> Decision:
        return "soft"

    def _solve(self, target: TargetCounts) -> PriorEstimate:
        return _from_decisions(self, target, 1.0, _solver_of(self, gradient_ascent))


class CMM(DecisionEstimator):
    """Maximum a posteriori of the hard decisions: the paper's CM-M.

    Parameters
    ----------
    alpha : float or array-like of shape (n_classes,), default=3.0
        Dirichlet hyper-prior.
    tol : float, default=1e-6
        Duality gap in nats to reach.
    max_iter : int, default=1000
        Most steps.
    solver : {"certified", "paper"}, default="certified"
        "paper" is 1000 steps of projected gradient ascent with the best learning rate of a grid.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> perfect = np.eye(2)
    >>> ps.CMM(alpha=3).fit(perfect, [0, 1]).estimate(perfect[[0, 0, 0, 1]]).priors.round(3)
    array([0.625, 0.375])
    """

    name = "cm-m"
    summary = (
        "maximises the posterior of hard decisions under the confusion matrix and a hyper-prior"
    )
    reference = GUIDE
    batch = "likelihood"

    def __init__(
        self,
        *,
        alpha: float | ArrayLike = 3.0,
        tol: float = 1e-6,
        max_iter: int = 1000,
        solver: str = "certified",
    ) -> None:
        self.alpha, self.tol, self.max_iter, self.solver = alpha, tol, max_iter, solver

    @property
    def _decision(self) -> Decision:
        return "hard"

    def _solve(self, target: TargetCounts) -> PriorEstimate:
        return _from_decisions(self, target, self.alpha, _solver_of(self, gradient_ascent))


class SCMM(DecisionEstimator):
    """Maximum a posteriori of the soft decisions: the paper's SCM-M.

    Parameters
    ----------
    alpha : float or array-like of shape (n_classes,), default=3.0
        Dirichlet hyper-prior.
    tol : float, default=1e-6
        Duality gap in nats to reach.
    max_iter : int, default=1000
        Most steps.
    solver : {"certified", "paper"}, default="certified"
        "paper" is 1000 steps of projected gradient ascent with the best learning rate of a grid.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> perfect = np.eye(2)
    >>> ps.SCMM(alpha=3).fit(perfect, [0, 1]).estimate(perfect[[0, 0, 0, 1]]).priors.round(3)
    array([0.625, 0.375])
    """

    name = "scm-m"
    summary = (
        "maximises the posterior of soft decisions under the confusion matrix and a hyper-prior"
    )
    reference = GUIDE
    batch = "likelihood"

    def __init__(
        self,
        *,
        alpha: float | ArrayLike = 3.0,
        tol: float = 1e-6,
        max_iter: int = 1000,
        solver: str = "certified",
    ) -> None:
        self.alpha, self.tol, self.max_iter, self.solver = alpha, tol, max_iter, solver

    @property
    def _decision(self) -> Decision:
        return "soft"

    def _solve(self, target: TargetCounts) -> PriorEstimate:
        return _from_decisions(self, target, self.alpha, _solver_of(self, gradient_ascent))


def _from_posteriors(
    estimator: PriorEstimator, y_proba: Rows, alpha: float | ArrayLike, solve: Solver
) -> PriorEstimate:
    """Solve with one row a target sample: posterior / source priors."""
    source = estimator.source_priors_
    problem = Mixture.of(
        y_proba,
        scale=prior_ratio(np.ones_like(source), source),
        alpha=check_alpha(alpha, source.size),
    )
    solution = solve(problem, source)
    return estimator._result(solution.value, solution, y_proba.shape[0])


def _from_decisions(
    estimator: DecisionEstimator, target: TargetCounts, alpha: float | ArrayLike, solve: Solver
) -> PriorEstimate:
    """Solve with one row a decision: the confusion matrix, weighted by target decisions."""
    alpha = check_alpha(alpha, estimator.classes_.size)
    problem = Mixture.of(
        estimator._columns[:, target.seen],
        weights=target.counts.counts,
        alpha=alpha[target.seen],
    )
    _report_impossible(problem, float(target.counts.counts.sum()))
    source = estimator.source_priors_[target.seen]
    solution = solve(problem, source / source.sum())
    return estimator._result_of(target, target.complete(solution.value), solution)


def _solver_of(
    estimator: "EM | MAP | CML | SCML | CMM | SCMM",
    other: Callable[..., Solution],
    choices: tuple[str, ...] = ("certified", "paper"),
    **options: Any,
) -> Solver:
    """Return the solver an estimator asks for: certified, or the other with its options."""
    check_choice(estimator.solver, choices, "solver")
    tol = check_positive(estimator.tol, "tol")
    max_iter = check_count(estimator.max_iter, "max_iter")

    def certified(problem: Mixture, start: Vector) -> Solution:
        solution = maximise(problem, tol=tol, max_iter=max_iter, start=start)
        estimator._warn_if_short(solution)
        return solution

    def reproduced(problem: Mixture, start: Vector) -> Solution:
        start = np.maximum(start, np.finfo(np.float64).tiny)  # at 0, no step would ever leave it
        return other(problem, start, tol=tol, n_steps=max_iter, **options)

    return certified if estimator.solver == "certified" else reproduced


def _report_impossible(problem: Mixture, total: float) -> None:
    """Warn of target decisions that validation never saw from any class, or refuse if all are."""
    if problem.A.shape[0] == 0:
        raise ValueError(
            "none of the target's decisions ever occurs on validation, so nothing can be learnt "
            "from them; use a larger validation set, or EM, which needs no confusion matrix."
        )
    if problem.impossible > 1e-9 * total:
        warn_user(
            f"{problem.impossible / total:.2%} of the target's decisions are for classes that "
            "validation was never taken for; they are left out of the likelihood.",
            PriorShiftWarning,
        )
