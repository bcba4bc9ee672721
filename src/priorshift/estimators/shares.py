r"""Class shares from calibrated posteriors, with their whole uncertainty.

The likelihood of the target's rows says what p is, as far as the posteriors are right. How far the
calibrator is from right shows when it is fitted without each of F folds: with p_f the estimate
that goes with fold f left out, the jackknife's covariance is

.. math:: J = \frac{F - 1}{F} \sum_f (p_f - \bar p)(p_f - \bar p)^T.

With :math:`\Omega` the covariance of the likelihood alone, rows count for
:math:`\eta = \exp \mathrm{mean}_k \log \frac{\Omega_{kk}}{\Omega_{kk} + J_{kk}}` each. The estimate
of the population is the posterior mean under Dirichlet distributions around the source priors and
the uniform ones, weighted by marginal likelihood. The estimate for these very rows is their mean
posterior there.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky
from scipy.linalg.lapack import dpotri
from scipy.special import ndtr, stdtrit

from priorshift._typing import Floats, Vector
from priorshift.estimators.data import posterior_problem
from priorshift.intervals import IntervalRequest, PriorInterval, Votes, score_bounds
from priorshift.solvers import Mixture, dirichlet_posterior, maximise

CONCENTRATIONS = (1.0, 10.0, 100.0)
"""Pseudo-counts per class of the Dirichlet priors; one of c counts 1 / c as much as one of 1."""

PSEUDO_COUNT = 0.5
"""Added to each class, so that no estimate lies on the boundary."""

TOL = 0.01


@dataclass(frozen=True)
class Shares:
    """Estimated shares.

    Attributes
    ----------
    priors : ndarray of shape (n_classes,)
    noise : ndarray of shape (n_classes, n_classes)
        Covariance given the calibrator: the target's noise and the choice of a prior.
    jackknife : ndarray of shape (n_classes, n_classes)
        Covariance that the calibrator's own noise adds.
    tempering : float
        What a row counts for.
    n_iter : int
        Passes over the target.
    converged : bool
    doubt : ndarray of shape (n_classes, n_classes) or 0
        Covariance that adapting must allow for where classes have few rows of validation.
    """

    priors: Vector
    noise: Vector
    jackknife: Vector
    tempering: float
    n_iter: int
    converged: bool
    doubt: Vector | float = 0.0


def estimate_shares(
    y_proba: Floats, source_priors: Vector, refits: Iterable[Floats] = ()
) -> Shares:
    """Estimate the shares of classes from posteriors under the source priors.

    `refits` are posteriors of the same rows, or some of them, by calibrators that were fitted
    without a fold each.
    """
    alpha = 1 + PSEUDO_COUNT
    problem = posterior_problem(y_proba, source_priors, alpha)
    first = maximise(problem, tol=TOL, start=source_priors)
    noise = _laplace(problem, first.value)
    n_iter, without = first.n_iter, []
    for refit in refits:
        again = posterior_problem(refit, source_priors, alpha)
        found = maximise(again, tol=TOL, start=first.value)
        without.append(found.value)
        n_iter += found.n_iter
    F, jackknife = len(without), np.zeros_like(noise)
    if F > 1:
        apart = np.array(without) - np.mean(without, axis=0)
        covariance = (F - 1) / F * apart.T @ apart
        # half of it in the shape of the noise: a few folds show a few directions only
        jackknife = (covariance + np.trace(covariance) / np.trace(noise) * noise) / 2
    own = noise.diagonal()
    tempering = float(np.exp(np.log(own / (own + jackknife.diagonal())).mean()))
    tempering = max(tempering, 1e-6)
    priors, between, passes, converged = _posterior(problem, first.value, source_priors, tempering)
    return Shares(
        _realised(problem, priors, tempering),
        noise + between,
        jackknife,
        tempering,
        n_iter + passes,
        converged,
    )


def share_interval(
    priors: Vector,
    shares: Shares,
    spread: Vector,
    votes: Votes | None,
    n_target: int,
    n_folds: int,
    request: IntervalRequest,
) -> PriorInterval:
    r"""Bound shares by their whole uncertainty.

    With z the normal quantile and t that of :math:`F - 1` degrees of freedom, as F folds tell no
    better, the squared half-width of class k is

    .. math:: z^2 (\Omega_{kk} + B_k) + 2 t^2 (J_{kk} + S_k)

    :math:`S` is the variance of shares over the maps that are averaged (`spread`). J and S are
    doubled, because a ridge that is chosen well leaves a squared bias as large as the variance.
    :math:`B_k = ((m_k - p_k)^2 - V_k)_+` is how far the moments of calibrated outputs, of variance
    V, contradict the estimate beyond their own noise; without `votes`, where a class has no labels,
    nothing contradicts it. The noise of the labels themselves, which :math:`\Omega` has in it, is
    taken at the bound, as in Wilson's interval.
    """
    n, z = n_target, request.z(priors.size)
    if n_folds < 2:  # nothing tells how wrong the calibrator is
        everything = np.ones_like(priors)
        return PriorInterval.around(priors, 0 * priors, everything, everything, "asymptotic")
    tail = stdtrit(n_folds - 1, ndtr(z))
    contradiction = np.zeros_like(priors)
    if votes is not None:
        contradiction = np.maximum((votes.raw - priors) ** 2 - votes.variance("population"), 0.0)
    calibration = 2 * (shares.jackknife.diagonal() + spread)
    labels = priors * (1 - priors) / n
    beyond = np.maximum(shares.noise.diagonal() - labels, 0.0) + contradiction
    slope = np.full(priors.size, 1 / n if request.estimand == "population" else 0.0)
    constant = beyond + (tail / z) ** 2 * calibration
    lower, upper = score_bounds(priors, z, constant, slope, -slope)
    error = np.sqrt(beyond + calibration + labels * (slope * n))
    return PriorInterval.around(priors, lower, upper, error, "asymptotic")


def _realised(problem: Mixture, priors: Vector, tempering: float) -> Vector:
    """Return the shares in these very rows, their mean posterior, as far as rows count.

    Few rows of many classes tell little of the population, and more of themselves.
    """
    _, slope = problem.evaluate(np.maximum(priors, 1e-300))
    realised = priors * slope
    if not realised.any():
        return priors  # no row is possible under the source priors: there is nothing to learn
    return priors + tempering * (realised / realised.sum() - priors)


def _laplace(problem: Mixture, p: Vector) -> Vector:
    """Return the inverse Hessian at the maximum, on the simplex."""
    p = np.maximum(p, 1e-12)
    units = np.outer(p, p)  # in units of p, or rare classes spoil the solution
    scaled = problem.hessian(p) * units
    scaled.flat[:: p.size + 1] += PSEUDO_COUNT
    # LAPACK's inverse takes half the time of solving for every column, and fills one triangle
    lower = np.tril(dpotri(cholesky(scaled, lower=True), lower=1)[0])
    covariance = (lower + np.tril(lower, -1).T) * units
    ones = covariance.sum(axis=1)
    ones /= np.sqrt(ones.sum())
    covariance -= np.outer(ones, ones)
    covariance.flat[:: p.size + 1] += 1e-16
    return covariance


def _posterior(
    problem: Mixture, start: Vector, source_priors: Vector, tempering: float
) -> tuple[Vector, Vector, int, bool]:
    """Average posterior means by marginal likelihood; return how they differ as well."""
    K = source_priors.size
    logs, means, n_iter, converged = [], [], 0, True
    for centre in (source_priors, np.full(K, 1 / K)):
        for concentration in CONCENTRATIONS:
            prior = np.maximum(concentration * K * centre, 1e-12)
            found = dirichlet_posterior(problem, prior, tempering=tempering, start=start)
            start, n_iter = found.alpha / found.alpha.sum(), n_iter + found.n_iter
            converged = converged and found.converged
            logs.append(found.log_marginal - np.log(concentration))
            means.append(start)
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    candidates = np.array(means)
    priors = weights @ candidates
    apart = candidates - priors
    return priors / priors.sum(), (apart.T * weights) @ apart, n_iter, converged
