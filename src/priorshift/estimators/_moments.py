"""GLS: the equations of SCM, weighted by their covariance and shrunk by evidence."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from priorshift._typing import Indices, Vector
from priorshift._validation import check_choice, check_positive
from priorshift.estimators._evidence import SeenTarget, Validation
from priorshift.estimators._inversion import _judge_condition
from priorshift.estimators._kept_rows import KeepsRows, label_priors_of
from priorshift.estimators._references import GUIDE
from priorshift.estimators._result import PriorEstimate
from priorshift.estimators._shrunk import GRAM_BYTES
from priorshift.execution import Block, Rows, map_reduce, single_threaded_blas
from priorshift.solvers import Solution
from priorshift.solvers._moments import evident_variance, shrunk_moments
from priorshift.statistics import Decision, DecisionCounts, RowWeight, weight_of

GEMM_SPEED_UP = 16
"""A product of matrices takes far less time a multiplication than one with a vector."""

N_ROUNDS = 2
"""The covariance depends on the priors: guessed at first, then taken at the first estimate."""

LEAST_SPREAD = 0.5
"""Share of equal chances in the directions that shrinkage allows for, so that all may move."""


class GLS(KeepsRows):
    r"""Generalised least squares of the soft moments q = C p, shrunk towards the source priors.

    The mean prediction q and the soft confusion matrix C are both estimates; to first order

    .. math:: q - C p \sim N(0, \Sigma), \qquad
        \Sigma = \mathrm{Cov}_{\text{target}}(f) / M + \sum_k p_k^2 S_k / n_k + I / (K M^2)

    with the covariance :math:`S_k` of predictions within class k on validation; the last term
    allows for one more target sample, as chance may show none of a class. There are as many
    equations as unknowns, so inside the simplex the weights alone would change nothing against SCM;
    they say how much to believe the equations. The priors are taken as drawn around the source
    priors :math:`p_0` with covariance :math:`\tau^2 (\mathrm{diag}(d) - d d^T)`, d half-way between
    :math:`p_0` and equal priors, :math:`\tau^2` is what makes q likeliest, and

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
    summary = (
        "inverts the confusion matrix of soft decisions by weighted least squares, shrunk towards "
        "the source priors as far as the evidence supports"
    )
    reference = GUIDE

    def __init__(
        self, *, shrinkage: float | Literal["evidence"] = "evidence", tol: float = 1e-4
    ) -> None:
        self.shrinkage, self.tol = shrinkage, tol

    @property
    def _decision(self) -> Decision:
        return "soft"

    def _estimate(self, y_proba: Rows) -> PriorEstimate:
        tol = check_positive(self.tol, "tol")
        target = self._seen_target(y_proba)
        unseen = tuple(self.classes_[~target.seen].tolist())
        if target.empty:
            only_unseen = Solution(target.unseen_priors / target.unseen_priors.sum(), "direct")
            return self._result(
                only_unseen.value, only_unseen, y_proba.shape[0], unseen_classes=unseen
            )
        C = self.confusion_.conditional[:, target.seen]
        q = DecisionCounts.from_arrays(
            y_proba, decision="soft", sample_weight=target.weight
        ).frequencies
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
            solution = shrunk_moments(C, q, Sigma, guess, spread, variance, tol=tol)
        self._warn_if_short(solution)
        with single_threaded_blas():
            condition = _judge_condition(self, C)
        return self._result(
            target.complete(solution.value),
            solution,
            y_proba.shape[0],
            condition_number=condition,
            unseen_classes=unseen,
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
        known = label_priors_of(self.classes_, self._given)
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
    second = _weighted_gram(target.y_proba, target.weight, mean) / size
    return second / max(size - 1, 1.0) + (np.eye(K) - 1 / K) / (K * size**2)


def validation_covariance(rows: Validation, conditional: Vector, priors: Vector) -> Vector:
    r"""Return the covariance of :math:`\hat C p`, :math:`\sum_k p_k^2 S_k / n_k`.

    It needs no S_k of its own: every row counts by :math:`p_y^2 / (n_y (n_y - 1))`. Of a class with
    one sample, that sample's distance from nothing is unknown: it counts as the average class does.
    """
    y, weight = rows.y, rows.sample_weight
    assert y is not None
    weight = np.ones(y.size) if weight is None else weight
    n = np.bincount(y, weight, priors.size)
    several = n > 1
    factor = np.zeros_like(n)
    factor[several] = priors[several] ** 2 / (n[several] * (n[several] - 1))
    alone = (n > 0) & ~several
    if several.any():
        noise = (priors[alone] ** 2 / n[alone]).sum()
        factor[several] += noise / (n[several] - 1).sum()
    return _weighted_gram(rows.y_proba, weight * factor[y], conditional, y)


def _weighted_gram(
    y_proba: Rows, weight: RowWeight, centre: Vector, y: Indices | None = None
) -> Vector:
    """Return sum_i w_i (f_i - c)(f_i - c)^T, with one centre or that of each label, in blocks."""
    K = y_proba.shape[1]
    work, block_bytes = y_proba.size * K / GEMM_SPEED_UP, max(GRAM_BYTES, 4 * K * K)
    gram: Vector = map_reduce(
        _Gram(weight, centre, y), y_proba, work=work, block_bytes=block_bytes, n_parts=2
    )
    return gram


@dataclass(frozen=True)
class _Gram:
    weight: RowWeight
    centre: Vector
    y: Indices | None

    def __call__(self, block: Block, rows: slice) -> Vector:
        weight = weight_of(self.weight, block, rows)
        away = block - (self.centre if self.y is None else self.centre.T[self.y[rows]])
        return away.T @ (away if weight is None else away * weight[:, None])
