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

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from priorshift._typing import Floats, Vector
from priorshift._validation import check_alpha, check_choice, check_count, check_positive
from priorshift.adaptation import prior_ratio
from priorshift.estimators._base import PriorEstimator
from priorshift.estimators._evidence import TargetCounts
from priorshift.estimators._result import PriorEstimate
from priorshift.exceptions import PriorShiftWarning
from priorshift.solvers import (
    L2_THRESHOLD,
    Mixture,
    Solution,
    expectation_maximisation,
    gradient_ascent,
    maximise,
)
from priorshift.statistics import Decision


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

    def __init__(
        self, *, tol: float = 0.01, max_iter: int = 1000, solver: str = "certified"
    ) -> None:
        self.tol, self.max_iter, self.solver = tol, max_iter, solver

    def _estimate(self, y_proba: Floats) -> PriorEstimate:
        check_choice(self.solver, ("certified", "paper", "gradient"), "solver")
        return _from_posteriors(self, y_proba, alpha=1.0)


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

    def __init__(
        self,
        *,
        alpha: float | ArrayLike = 3.0,
        tol: float = 0.01,
        max_iter: int = 1000,
        solver: str = "certified",
    ) -> None:
        self.alpha, self.tol, self.max_iter, self.solver = alpha, tol, max_iter, solver

    def _estimate(self, y_proba: Floats) -> PriorEstimate:
        check_choice(self.solver, ("certified", "paper"), "solver")
        return _from_posteriors(self, y_proba, alpha=self.alpha)


class CML(PriorEstimator):
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

    def __init__(
        self, *, tol: float = 1e-6, max_iter: int = 1000, solver: str = "certified"
    ) -> None:
        self.tol, self.max_iter, self.solver = tol, max_iter, solver

    @property
    def _decision(self) -> Decision:
        return "hard"

    def _estimate(self, y_proba: Floats) -> PriorEstimate:
        return _from_decisions(self, y_proba, alpha=1.0)


class SCML(PriorEstimator):
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

    def __init__(
        self, *, tol: float = 1e-6, max_iter: int = 1000, solver: str = "certified"
    ) -> None:
        self.tol, self.max_iter, self.solver = tol, max_iter, solver

    @property
    def _decision(self) -> Decision:
        return "soft"

    def _estimate(self, y_proba: Floats) -> PriorEstimate:
        return _from_decisions(self, y_proba, alpha=1.0)


class CMM(PriorEstimator):
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

    def _estimate(self, y_proba: Floats) -> PriorEstimate:
        return _from_decisions(self, y_proba, alpha=self.alpha)


class SCMM(PriorEstimator):
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

    def _estimate(self, y_proba: Floats) -> PriorEstimate:
        return _from_decisions(self, y_proba, alpha=self.alpha)


def _from_posteriors(estimator: Any, y_proba: Floats, alpha: float | ArrayLike) -> PriorEstimate:
    """Solve with one row a target sample: posterior / source priors."""
    source = estimator.source_priors_
    problem = Mixture.of(
        y_proba,
        scale=prior_ratio(np.ones_like(source), source),
        alpha=check_alpha(alpha, source.size),
    )
    solution = _solve(estimator, problem, source, threshold=L2_THRESHOLD)
    return estimator._result(solution.value, solution, y_proba.shape[0])


def _from_decisions(estimator: Any, y_proba: Floats, alpha: float | ArrayLike) -> PriorEstimate:
    """Solve with one row a decision: the confusion matrix, weighted by target decisions."""
    check_choice(estimator.solver, ("certified", "paper"), "solver")
    confusion, source = estimator.confusion_, estimator.source_priors_
    alpha = check_alpha(alpha, source.size)
    target = TargetCounts.of(y_proba, confusion, source)
    unseen = estimator._warn_of_unseen(target.seen)
    problem = Mixture.of(
        confusion.conditional[:, target.seen],
        weights=target.counts.counts,
        alpha=alpha[target.seen],
    )
    _report_impossible(problem, target.counts.counts.sum())
    start = source[target.seen] / source[target.seen].sum()
    solution = _solve(estimator, problem, start, threshold=0.0)
    return estimator._result(
        target.complete(solution.value), solution, y_proba.shape[0], unseen_classes=unseen
    )


def _solve(estimator: Any, problem: Mixture, start: Vector, threshold: float) -> Solution:
    """Run the solver that the estimator asks for."""
    tol = check_positive(estimator.tol, "tol")
    max_iter = check_count(estimator.max_iter, "max_iter")
    start = 0.9 * start + 0.1 / start.size  # no class may start at 0: it could never leave it
    if estimator.solver == "certified":
        return maximise(problem, tol=tol, max_iter=max_iter, start=start)
    if estimator.solver == "paper" and estimator.name == "em":
        return expectation_maximisation(problem, start, tol=tol, n_steps=max_iter)
    return gradient_ascent(problem, start, tol=tol, n_steps=max_iter, threshold=threshold)


def _report_impossible(problem: Mixture, total: float) -> None:
    """Warn of target decisions that validation never saw from any class, or refuse if all are."""
    if problem.A.shape[0] == 0:
        raise ValueError(
            "none of the target's decisions ever occurs on validation, so nothing can be learnt "
            "from them; use a larger validation set, or EM, which needs no confusion matrix."
        )
    if problem.impossible > 1e-9 * total:
        warnings.warn(
            f"{problem.impossible / total:.2%} of the target's decisions are for classes that "
            "validation was never taken for; they are left out of the likelihood.",
            PriorShiftWarning,
            stacklevel=5,
        )
