"""RLLS, GLS and ELSA: the equations q = C p by weighted or regularised least squares.

RLLS penalises the ratio. GLS weights the equations by their covariance and shrinks the priors by
their marginal likelihood. ELSA weights the rows of validation and target by what each can tell.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np

from priorshift._typing import Floats, Mask, Vector
from priorshift.border import (
    Block,
    Rows,
    check_choice,
    check_count,
    check_number,
    map_reduce,
    multiply,
    single_threaded_blas,
    times,
)
from priorshift.counts import Confusion, Decision, weighted_gram
from priorshift.estimators.base import PriorEstimator
from priorshift.estimators.data import Target, Validation
from priorshift.estimators.inversion import BBSE, warn_of_clipping
from priorshift.estimators.references import AZIZZADENESHELI, GUIDE, TIAN
from priorshift.estimators.result import PriorEstimate
from priorshift.exceptions import ConvergenceWarning, PriorShiftWarning, warn_user
from priorshift.solvers import (
    Solution,
    Status,
    clip_to_simplex,
    evident_variance,
    invert,
    regularised_ratio,
    shrunk_least_squares,
    simplex_least_squares,
    solve_linear,
)


class RLLS(BBSE):
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
    solver = "certified"
    _batch = None

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

    def _solve_ratio(self, J: Vector, q: Vector, *_: Any) -> tuple[Vector, Solution]:
        gamma, tol = check_number(self.gamma, "gamma", 1), check_number(self.tol, "tol")
        strength = check_number(self.regularization, "regularization")
        delta = check_number(check_number(self.delta, "delta"), "delta", 1)
        # rho: how far J may be from the truth with probability 1 - delta
        log_term, confusion = 2 * np.log(2 * self.classes_.size / delta), self.confusion_
        n = confusion.in_samples().sum() if confusion.exact else confusion.class_weights.sum()
        rho = float(3 * (log_term / (3 * n) + np.sqrt(log_term / n)))
        solution = regularised_ratio(J, q, strength * rho, tol=tol)
        return 1 + gamma * (solution.value - 1), solution


class GLS(PriorEstimator):
    r"""Generalised least squares of the soft moments q = C p, shrunk towards the source priors.

    The mean prediction q and the soft confusion matrix C are both estimates; to first order

    .. math:: q - C p \sim N(0, \Sigma), \qquad
        \Sigma = \mathrm{Cov}_{\text{target}}(f) / M + \sum_k p_k^2 S_k / n_k + I / (K M^2)

    with the covariance :math:`S_k` of predictions within class k on validation; the last term
    allows for one more target sample, as chance may show none of a class. There are as many
    equations as unknowns, so inside the simplex the weights alone would change nothing against SCM;
    they say how much to believe the equations. The priors are modelled as drawn around the source
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
    decision = "soft"
    _keeps_rows = True
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
        tol = check_number(self.tol, "tol")
        target = self._seen_target(y_proba, self.name)
        if target.empty:
            return self._only_unseen(target)
        C = self.confusion_.conditional[:, target.seen]
        q = target.counts.frequencies
        known = self._evidence.best_labels  # label priors of the source, as far as they are known
        guess = (self.confusion_.class_frequencies if known is None else known)[target.seen]
        guess = guess / guess.sum() if guess.any() else np.full(guess.size, 1 / guess.size)
        spread = 0.5 / guess.size + 0.5 * guess  # half of equal chances, so that all may move
        # Cov(f) / M over rows of seen classes. A class that happens not to occur would seem to be
        # without noise, so one sample more is added, of any class with the same chance
        size = target.size
        of_target = weighted_gram(target.y_proba, target.weight, q) / size / max(size - 1, 1.0)
        of_target += (np.eye(q.size) - 1 / q.size) / (q.size * size**2)
        solution = Solution(guess, "direct")
        # the covariance depends on the priors: guessed at first, then taken at the first estimate
        for _ in range(2):
            priors = np.zeros(self.classes_.size)
            priors[target.seen] = solution.value
            Sigma = of_target + validation_covariance(
                self._labelled_rows(), self.confusion_.conditional, priors
            )
            if isinstance(self.shrinkage, str):
                check_choice(self.shrinkage, ("evidence",), "shrinkage")
                variance = evident_variance(C, q, Sigma, guess, spread)
            else:
                strength = check_number(self.shrinkage, "shrinkage") if self.shrinkage else 0.0
                variance = 1 / strength if strength else np.inf
            solution = shrunk_least_squares(C, q, Sigma, guess, spread, variance, tol=tol)
        if solution.status == "not_converged":
            self._warn_of_gap(solution)
        with single_threaded_blas():
            condition = self._condition(C, target.seen)
        return self._result(
            target.complete(solution.value),
            solution,
            target,
            **condition,
            strength=0.0 if variance == 0 and target.seen.all() else 1.0,
        )


def validation_covariance(rows: Validation, conditional: Vector, priors: Vector) -> Vector:
    r"""Return the covariance of :math:`\hat C p`, :math:`\sum_k p_k^2 S_k / n_k`.

    No S_k is formed: every row counts by :math:`p_y^2 / (n_y (n_y - 1))`. Of a class with
    one sample, that sample's distance from nothing is unknown: it counts as the average class does.
    """
    y, weight = rows.y, rows.weight
    n = np.bincount(y, weight, priors.size)
    several = n > 1
    factor = np.zeros_like(n)
    factor[several] = priors[several] ** 2 / (n[several] * (n[several] - 1))
    alone = (n > 0) & ~several
    if several.any():
        noise = (priors[alone] ** 2 / n[alone]).sum()
        factor[several] += noise / (n[several] - 1).sum()
    return weighted_gram(rows.y_proba, weight * factor[y], conditional, y)


class ELSA(PriorEstimator):
    r"""Efficient label-shift adaptation by estimating equations (Tian et al., 2023).

    With n validation samples of label frequencies p and m target samples, the ratio
    :math:`w_k = P_k / p_k` solves

    .. math:: \frac1n \sum_i b_w(x_i)\, w_{y_i} = \frac1m \sum_j b_w(x_j), \quad p \cdot w = 1,
        \qquad b_w(x) = \frac{f(x) - p}{\sum_k w_k^2 f_k(x) / \pi + \sum_k w_k f_k(x) / (1 - \pi)}

    with :math:`\pi = n / (n + m)`. The denominator makes the equations efficient where outputs are
    calibrated; where they are not, the equations still hold. They are linear in w for given row
    weights, which are renewed in rounds from equal ones. Where the solution of few validation rows
    is far from feasible, w is the feasible ratio that comes nearest to solving the equations.

    Parameters
    ----------
    tol : float, default=1e-4
        Change of the priors, in L1, at which the rounds end.
    max_iter : int, default=10
        Largest number of rounds.

    References
    ----------
    Tian, Zhang, Zhao: ELSA: Efficient Label Shift Adaptation through the Lens of Semiparametric
    Models. ICML 2023.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_val = np.array([0, 0, 1, 1])
    >>> y_proba_val = np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.2, 0.8]])
    >>> y_proba = np.array([[0.8, 0.2], [0.8, 0.2], [0.2, 0.8]])
    >>> shift = ps.ELSA().fit(y_proba_val, y_val).estimate(y_proba)
    >>> shift.priors.round(2), shift.status
    (array([0.67, 0.33]), 'stationary')
    """

    name = "elsa"
    decision = "soft"
    _keeps_rows = True
    summary = "matches moments of validation and target, rows weighted by what they tell"
    reference = TIAN

    def __init__(self, *, tol: float = 1e-4, max_iter: int = 10) -> None:
        self.tol, self.max_iter = tol, max_iter

    def _estimate(self, y_proba: Rows) -> PriorEstimate:
        tol, max_iter = check_number(self.tol, "tol"), check_count(self.max_iter, "max_iter")
        target = self._seen_target(y_proba, self.name)
        if target.empty:
            return self._only_unseen(target)
        with single_threaded_blas():
            rows = self._labelled_rows()
            priors, raw, matrix, error, change, n_iter = solve_in_rounds(
                rows, target, tol, max_iter
            )
            condition = self._condition(matrix, target.seen)
        warn_of_clipping(self, raw, target)
        if _is_infeasible(raw) or error > 0.2:  # next to nothing is known
            warn_user(
                "validation is too small for elsa: its priors may be far off (one has a standard "
                f"error of {min(error, 1.0):.2g} before they are made feasible). Add validation "
                "rows, or use SCM-L or Auto.",
                PriorShiftWarning,
            )
        if change > tol:
            warn_user(
                f"elsa has not settled after {n_iter} rounds: the last one moved the priors by "
                f"{change:.2g} in L1; raise max_iter or tol.",
                ConvergenceWarning,
            )
        status: Status = "stationary" if change <= tol else "not_converged"
        return self._result(
            target.complete(priors),
            Solution(priors, status, None, n_iter),
            target,
            raw=target.complete(raw),
            **condition,
        )


def solve_in_rounds(
    rows: Validation, target: Target, tol: float, max_iter: int
) -> tuple[Vector, Vector, Vector, float, float, int]:
    """Solve the estimating equations for the ratio, each round with the row weights of the last.

    Returns the priors, among the classes that validation saw; those before they were made feasible;
    the matrix; the largest standard error of a raw prior, from the noise of validation; the last
    change; and the number of rounds.
    """
    seen, m = target.seen, target.size
    weight, y = rows.weight * seen[rows.y], (np.cumsum(seen) - 1)[rows.y]
    source, n = _among(rows.y_proba, seen), weight.sum()
    p = np.bincount(rows.y, rows.weight, seen.size)[seen]
    p = p / p.sum()

    def equations() -> Vector:
        """Return each validation row's equation, b(x), weights 1 on average: (n, K)."""
        by_row = weight if noise is None else weight / multiply(source, noise)
        by_row = by_row * (by_row.size / by_row.sum())
        return by_row[:, None] * (source - p)

    priors, change, n_iter, w = p, np.inf, 0, np.ones_like(p)
    noise: Vector | None = None  # the variance of a row's equation, as a linear function of the row
    while n_iter < max_iter and change > tol:
        # the equations as a square system, rows weighted by 1 / (f . noise). They sum to 0 on both
        # sides, so adding p . w = 1 to each makes them determine w, whatever the order of classes.
        # Weights are scaled to 1 on average in the target
        kernel = partial(_target_moments, noise, target.weight, seen)
        summed, total = map_reduce(kernel, target.y_proba)
        by_row = weight * (m / total)
        if noise is not None:
            by_row = by_row / multiply(source, noise)
        by_class = Confusion.from_arrays(source, y, decision="soft", sample_weight=by_row)
        of_classes = by_class.counts - np.outer(p, by_class.class_weights)
        matrix, moments = of_classes / n + p, summed / total - p + 1
        raw, last = solve_linear(matrix, moments) * p, priors
        priors = clip_to_simplex(raw)
        if _is_infeasible(raw):
            # make noise equal in all directions; nothing is known along (1, ..., 1) but p . w = 1
            b = equations()
            spread = b.T @ b / len(b)
            spread += float(np.trace(spread)) * (1 + 0.01 * np.eye(p.size))
            whiten = np.linalg.cholesky(np.linalg.inv(spread)).T
            C, q = whiten @ matrix / p, whiten @ moments
            priors = simplex_least_squares(C, q, tol=1e-9).value
        change = float(np.abs(priors - last).sum()) if n_iter else np.inf
        n_iter += 1
        # from the fourth round on only half way to the new ratio, so as not to alternate
        w += (1.0 if n_iter <= 3 else 0.5) * (priors / p - w)
        # a ratio counts as at least 1/4 here, or single rows of classes that were clipped to 0
        # would decide everything; the equations hold for any weights
        least, share = np.maximum(w, 0.25), n / (n + m)
        noise = least**2 / share + least / (1 - share)
    b = equations() * np.maximum(priors / p, 1.0)[y, None]
    # noise within classes: their sizes are what they are
    size = np.maximum(np.bincount(y, minlength=p.size), 1)
    means = np.zeros((p.size, p.size))
    np.add.at(means, y, b)
    b -= (means / size[:, None])[y]
    b *= np.sqrt(size / np.maximum(size - 1, 1))[y, None]
    effect = b @ (invert(matrix).T * p) / len(b)
    error = float(np.sqrt((effect**2).sum(axis=0).max()))
    return priors, raw, matrix, error, change, n_iter


def _is_infeasible(raw: Vector) -> bool:
    # a few negative priors are clipped; beyond a sum of 0.1 the solution of few rows explodes (to
    # 12.5 and -12 where 0.06 and 0.92 were true), and what is left after clipping is arbitrary
    return bool(np.minimum(raw, 0).sum() < -0.1)


def _target_moments(
    noise: Vector | None,
    chance: Callable[[Block], Vector] | None,
    seen: Mask,
    block: Block,
    _: slice,
) -> tuple[Vector, float]:
    """Return the sum of a block's rows, each weighted by 1 / (f . noise), and of the weights."""
    weight = np.ones(block.shape[0]) if chance is None else chance(block)
    block = _among(block, seen)
    if noise is not None:
        weight = weight / times(block, noise)
    return weight @ block.astype(np.float64, copy=False), float(weight.sum())


def _among(y_proba: Floats, seen: Mask) -> Floats:
    """Return predictions among the classes that were seen; equal ones where there is no mass."""
    if seen.all():
        return y_proba
    among = y_proba[:, seen]
    mass = among.sum(axis=1, keepdims=True)
    flat = np.full_like(among, 1 / among.shape[1])
    return np.divide(among, mass, out=flat, where=mass > 0)
