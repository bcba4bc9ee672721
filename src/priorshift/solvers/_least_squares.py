r"""Least squares with a covariance, shrunk towards a guess by marginal likelihood.

Equations :math:`q = C p + e` with :math:`e \sim N(0, \Sigma)`, and p around a guess :math:`p_0`
with covariance :math:`\tau^2 D`, where :math:`D = \mathrm{diag}(d) - d d^T` is that of a draw of
one class with chances d. Both sides sum to 1, so one coordinate is dropped: which one makes no
difference.
"""

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from priorshift._typing import Vector
from priorshift.execution import single_threaded_blas
from priorshift.solvers._cone import quadratic_programme
from priorshift.solvers._solution import Solution

VARIANCES = np.logspace(-8, 4, 241)
"""Where the variance tau^2 of the priors around their guess is looked for; 0 is tried too."""

RIDGE = 1e-10
"""Added to a covariance, relative to its size: outputs without any noise have none."""


def evident_variance(C: Vector, q: Vector, Sigma: Vector, guess: Vector, spread: Vector) -> float:
    r"""Return the :math:`\tau^2` that makes q most likely.

    .. math:: q - C p_0 \sim N(0, \Sigma + \tau^2 C D C^T)
    """
    D = np.diag(spread) - np.outer(spread, spread)
    with single_threaded_blas():
        scale, axes = eigh((C @ D @ C.T)[:-1, :-1], _regular(Sigma[:-1, :-1]))
        along = (q - C @ guess)[:-1] @ axes
    variances = np.concatenate([[0.0], VARIANCES])
    total = 1 + variances[:, None] * np.maximum(scale, 0)
    likelihood = -0.5 * (np.log(total) + along**2 / total).sum(axis=1)
    return float(variances[np.argmax(likelihood)])


def shrunk_least_squares(
    C: Vector,
    q: Vector,
    Sigma: Vector,
    guess: Vector,
    spread: Vector,
    variance: float,
    *,
    tol: float,
) -> Solution:
    r"""Solve for the most likely priors on the simplex, given all covariances.

    .. math:: \min_{p \in \Delta}\ \tfrac12 (q - Cp)^T \Sigma^{-1} (q - Cp)
        + \tfrac1{2\tau^2} \sum_k (p_k - p_{0,k})^2 / d_k

    The gap is in nats. An infinite variance leaves the guess out; 0 returns it.
    """
    if variance == 0:
        return Solution(guess, "direct")
    with single_threaded_blas():
        factor = cho_factor(_regular(Sigma[:-1, :-1]))
        weighted = cho_solve(factor, C[:-1])
        pull = 0.0 if np.isinf(variance) else 1 / (variance * spread)
        G = C[:-1].T @ weighted + np.diag(pull * np.ones_like(guess))
        h = weighted.T @ q[:-1] + pull * guess
        # noise differs by orders of magnitude between classes; one that is always taken for
        # the last class, which is left out of C, has a column of 0
        size = np.diagonal(G)
        unit = 1 / np.sqrt(np.where(size > 0, size, max(float(size.max()), 1.0)))
        x, n_iter = quadratic_programme(G * np.outer(unit, unit), h * unit, total=unit)
        p = x * unit
    p /= p.sum()
    slope = G @ p - h
    gap = float(slope @ p - slope.min())
    residual, away = (q - C @ p)[:-1], p - guess
    cost = 0.5 * float(residual @ cho_solve(factor, residual) + away @ (pull * away))
    return Solution.judged(p, gap, tol, n_iter, -cost)


def _regular(Sigma: Vector) -> Vector:
    """Add a little to the diagonal, so that what never varies does not weigh infinitely."""
    size = float(np.trace(Sigma)) / Sigma.shape[0]
    return Sigma + (RIDGE * size + np.finfo(np.float64).tiny ** 0.25) * np.eye(Sigma.shape[0])
