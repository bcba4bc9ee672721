r"""A Bayesian answer to the one convex problem: the posterior of p under a Dirichlet prior.

With :math:`p \sim \mathrm{Dir}(\alpha)` and rows of likelihood :math:`a_i \cdot p`, the best
:math:`\mathrm{Dir}(\hat\alpha)` in Kullback-Leibler divergence is a fixed point of

.. math:: \hat\alpha_k = \alpha_k + \eta \sum_i \frac{e_k a_{ik}}{a_i \cdot e}, \qquad
    e_k = \exp(\psi(\hat\alpha_k) - \psi(\textstyle\sum_j \hat\alpha_j))

which is an EM step with `e` in place of p. It maximises a bound on the log marginal likelihood,

.. math:: \eta \sum_i \log(a_i \cdot e)
    - \mathrm{KL}(\mathrm{Dir}(\hat\alpha), \mathrm{Dir}(\alpha)).

A tempering :math:`\eta < 1` counts every row as less than one observation.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from priorshift._typing import Vector
from priorshift.border import single_threaded_blas
from priorshift.solvers._mixture import Mixture

LEAST = 1e-30
"""Of exp E[log p]: float32 can still hold it."""


class DirichletPosterior(NamedTuple):
    """What is known about p after seeing the rows."""

    alpha: Vector
    log_marginal: float  # a lower bound on the log marginal likelihood of the rows
    n_iter: int
    converged: bool


def dirichlet_posterior(
    problem: Mixture,
    alpha: Vector,
    *,
    tempering: float = 1.0,
    start: Vector | None = None,
    tol: float = 1e-3,
    max_iter: int = 60,
) -> DirichletPosterior:
    """Approximate the posterior; stop when a step moves less than `tol` of the mass.

    It is that of the rows under `alpha`: the problem's own hyper-prior plays no part.
    """
    mass = tempering * (problem.total - float(problem.excess.sum()))
    p = np.full(alpha.size, 1 / alpha.size) if start is None else start
    counts, n_iter, moved = mass * p, 0, np.inf
    with single_threaded_blas():
        while moved > tol and n_iter < max_iter:
            posterior = alpha + counts
            mean_log = digamma(posterior) - digamma(posterior.sum())
            # not 0, or a row that only such a class explains would divide by it
            e = np.maximum(np.exp(mean_log), LEAST)
            _, slope = problem.evaluate(e, exact=False)
            new = tempering * e * slope
            moved = float(np.abs(new - counts).sum() / mass) if mass > 0 else 0.0
            counts, n_iter = new, n_iter + 1
        posterior = alpha + counts
        mean_log = digamma(posterior) - digamma(posterior.sum())
        likelihood, _ = problem.evaluate(np.exp(mean_log))
    divergence = gammaln(posterior.sum()) - gammaln(posterior).sum()
    divergence -= gammaln(alpha.sum()) - gammaln(alpha).sum()
    log_marginal = tempering * likelihood - float(divergence + counts @ mean_log)
    return DirichletPosterior(posterior, log_marginal, n_iter + 1, moved <= tol)
