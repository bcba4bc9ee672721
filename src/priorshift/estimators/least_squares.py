"""RLLS and GLS: the equations q = C p by least squares, held back where data say little.

RLLS penalises the ratio; GLS weighs the equations by their covariance and shrinks the priors by
their marginal likelihood.
"""

from typing import Literal

import numpy as np

from priorshift._typing import Vector
from priorshift._validation import check_choice, check_fraction, check_positive
from priorshift.estimators.base import Known, PriorEstimator
from priorshift.estimators.counts import SeenTarget, TargetCounts, Validation, ValidationCounts
from priorshift.estimators.inversion import from_ratio, judge_condition, label_sources
from priorshift.estimators.references import AZIZZADENESHELI, GUIDE
from priorshift.estimators.result import PriorEstimate
from priorshift.execution import Rows, single_threaded_blas
from priorshift.solvers import (
    Solution,
    evident_variance,
    regularised_ratio,
    shrunk_least_squares,
)
from priorshift.statistics import Decision, weighted_gram

N_ROUNDS = 2
"""The covariance depends on the priors: guessed at first, then taken at the first estimate."""

LEAST_SPREAD = 0.5
"""Share of equal chances in the directions that shrinkage allows for, so that all may move."""


class RLLS(PriorEstimator):
    r"""Regularised learning of the ratio (Azizzadenesheli et al., 2019).

    .. math:: \min_{\theta \ge -1}\ \|J\theta - (q - J1)\|_2 + \lambda\rho\,\|\theta\|_2,
        \qquad w = 1 + \gamma\theta

    with :math:`\rho = 3\,(2 \ln(2K/\delta) / (3 n) + \sqrt{2 \ln(2K/\delta) / n})` for n validation
    samples. Both norms are plain, not squared.

    Parameters
    ----------
    regularization : float, default=0.01
        lambda.
    delta : float, default=0.05
        Failure probability that rho allows for.
    gamma : float in [0, 1], default=1
        Trust in the estimated shift.
    decision : {"hard", "soft"}, default="hard"
        Confusion matrix to use.
    tol : float, default=1e-6
        Duality gap to reach.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> right_8_of_10 = np.eye(2)[np.repeat([0, 1, 0, 1], [8, 2, 2, 8])]
    >>> rlls = ps.RLLS().fit(right_8_of_10, np.repeat([0, 1], 10))
    >>> shift = rlls.estimate(np.eye(2)[[0, 0, 1]])
    >>> shift.ratio.round(3), shift.status
    (array([1.556, 0.444]), 'certified')
    """

    name = "rlls"
    summary = "fits the ratio by regularised least squares"
    reference = AZIZZADENESHELI
    raw_is = "ratio"
    gap_unit = ""

    def __init__(
        self,
        *,
        regularization: float = 0.01,
        delta: float = 0.05,
        gamma: float = 1.0,
        decision: Decision = "hard",
        tol: float = 1e-6,
    ) -> None:
        self.regularization, self.delta, self.gamma = regularization, delta, gamma
        self.decision, self.tol = decision, tol

    @property
    def wide(self) -> bool:
        """Whether no dense matrix of classes by classes is formed: it always is."""
        return False

    @property
    def _decision(self) -> Decision:
        check_choice(self.decision, ("hard", "soft"), "decision")
        return self.decision

    def _sources(self, counts: ValidationCounts | None, known: Known) -> tuple[Vector, str]:
        return label_sources(counts, known)

    def _solve(self, target: TargetCounts) -> PriorEstimate:
        gamma, tol = check_fraction(self.gamma, "gamma"), check_positive(self.tol, "tol")
        penalty = check_positive(self.regularization, "regularization") * self._deviation_bound()

        def solve(J: Vector, q: Vector, _: Vector) -> tuple[Vector, Solution]:
            solution = regularised_ratio(J, q, penalty, tol=tol)
            return 1 + gamma * (solution.value - 1), solution

        return from_ratio(self, target, solve)

    def _deviation_bound(self) -> float:
        """Return rho: how far J may be from the truth with probability 1 - delta."""
        delta = check_fraction(check_positive(self.delta, "delta"), "delta")
        log_term = 2 * np.log(2 * self.classes_.size / delta)
        n = self.confusion_.class_weights.sum()
        return float(3 * (log_term / (3 * n) + np.sqrt(log_term / n)))


class GLS(PriorEstimator):
    r"""Generalised least squares of the soft moments q = C p, shrunk towards the source priors.

    The mean prediction q and the soft confusion matrix C are both estimates; to first order

    .. math:: q - C p \sim N(0, \Sigma), \qquad
        \Sigma = \mathrm{Cov}_{\text{target}}(f) / M + \sum_k p_k^2 S_k / n_k + I / (K M^2)

    with the covariance :math:`S_k` of predictions within class k on validation; the last term
    allows for one more target sample, as chance may show none of a class. There are as many
    equations as unknowns, so inside the simplex the weights alone would change nothing against SCM;
    they say how much to believe the equations. The priors are taken as drawn around the source
    priors :math:`p_0` with covariance :math:`\tau^2 (\mathrm{diag}(d) - d d^T)`, d half-way between
    :math:`p_0` and equal priors, :math:`\tau^2` makes q most likely, and

    .. math:: \min_{p \in \Delta}\ (q - Cp)^T \Sigma^{-1} (q - Cp)
        + \tau^{-2} \sum_k (p_k - p_{0,k})^2 / d_k

    is solved to a certificate, given :math:`\Sigma` and :math:`\tau^2`. For :math:`p_0` it takes
    `source_label_priors`, else `source_priors`, else the label frequencies of validation. Without
    evidence of a shift :math:`\tau^2` is 0: the answer is :math:`p_0`, and the result's `strength`
    is 0, so that predictions are left alone.

    Parameters
    ----------
    shrinkage : float or "evidence", default="evidence"
        :math:`1 / \tau^2`; 0 is none.
    tol : float, default=1e-4
        Duality gap in nats to reach.

    Examples
    --------
    Two samples say too little to leave the source priors:

    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_val = np.array([0, 0, 1, 1])
    >>> y_proba_val = np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.4, 0.6]])
    >>> gls = ps.GLS().fit(y_proba_val, y_val)
    >>> gls.estimate([[0.8, 0.2], [0.4, 0.6]]).priors
    array([0.5, 0.5])
    >>> gls.estimate([[0.8, 0.2]] * 90 + [[0.4, 0.6]] * 10).priors.round(2)
    array([0.84, 0.16])
    """

    name = "gls"
    _decision = "soft"
    keeps_rows = True
    summary = (
        "inverts the confusion matrix of soft decisions by weighted least squares, shrunk towards "
        "the source priors as far as the evidence supports"
    )
    reference = GUIDE

    def __init__(
        self, *, shrinkage: float | Literal["evidence"] = "evidence", tol: float = 1e-4
    ) -> None:
        self.shrinkage, self.tol = shrinkage, tol

    def _estimate(self, y_proba: Rows) -> PriorEstimate:
        tol = check_positive(self.tol, "tol")
        target = self._seen_target(y_proba, self.name)
        if target.empty:
            return self._only_unseen(target, y_proba.shape[0])
        C = self.confusion_.conditional[:, target.seen]
        q = target.count("soft").counts.frequencies
        guess = _normalised(self._guess()[target.seen])
        spread = LEAST_SPREAD / guess.size + (1 - LEAST_SPREAD) * guess
        of_target = target_covariance(target, q)
        solution = Solution(guess, "direct")
        for _ in range(N_ROUNDS):
            priors = np.zeros(self.classes_.size)
            priors[target.seen] = solution.value
            Sigma = of_target + validation_covariance(
                self._validation_rows(), self.confusion_.conditional, priors
            )
            variance = self._variance(C, q, Sigma, guess, spread)
            solution = shrunk_least_squares(C, q, Sigma, guess, spread, variance, tol=tol)
        self._warn_if_short(solution)
        with single_threaded_blas():
            condition = judge_condition(self, C)
        return self._result(
            target.complete(solution.value),
            solution,
            y_proba.shape[0],
            condition_number=condition,
            unseen_classes=self._unseen(target),
            strength=0.0 if variance == 0 and target.seen.all() else 1.0,
        )

    def _variance(
        self, C: Vector, q: Vector, Sigma: Vector, guess: Vector, spread: Vector
    ) -> float:
        if isinstance(self.shrinkage, str):
            check_choice(self.shrinkage, ("evidence",), "shrinkage")
            return evident_variance(C, q, Sigma, guess, spread)
        return 1 / check_positive(self.shrinkage, "shrinkage") if self.shrinkage else np.inf

    def _guess(self) -> Vector:
        """Return the label priors of the source as far as they are known."""
        known = self._given.label_priors(self.classes_)
        return self.confusion_.class_frequencies if known is None else known


def _normalised(priors: Vector) -> Vector:
    """Scale to sum 1; equal priors where nothing is left."""
    return priors / priors.sum() if priors.any() else np.full(priors.size, 1 / priors.size)


def target_covariance(target: SeenTarget, mean: Vector) -> Vector:
    """Return the covariance of the mean prediction, Cov(f) / M, over rows of seen classes.

    A class that happens not to occur would seem to be without noise. So the covariance of one
    sample more, of any class with the same chance, is added.
    """
    K, size = mean.size, target.size
    second = weighted_gram(target.y_proba, target.weight, mean) / size
    return second / max(size - 1, 1.0) + (np.eye(K) - 1 / K) / (K * size**2)


def validation_covariance(rows: Validation, conditional: Vector, priors: Vector) -> Vector:
    r"""Return the covariance of :math:`\hat C p`, :math:`\sum_k p_k^2 S_k / n_k`.

    It needs no S_k of its own: every row counts by :math:`p_y^2 / (n_y (n_y - 1))`. Of a class with
    one sample, that sample's distance from nothing is unknown: it counts as the average class does.
    """
    y, weight = rows.labels, rows.weight
    n = np.bincount(y, weight, priors.size)
    several = n > 1
    factor = np.zeros_like(n)
    factor[several] = priors[several] ** 2 / (n[several] * (n[several] - 1))
    alone = (n > 0) & ~several
    if several.any():
        noise = (priors[alone] ** 2 / n[alone]).sum()
        factor[several] += noise / (n[several] - 1).sum()
    return weighted_gram(rows.y_proba, weight * factor[y], conditional, y)
