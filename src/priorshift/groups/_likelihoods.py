"""Groups by EM and MAP: rows in, one estimate a group out."""

from typing import Any

import numpy as np

from priorshift._typing import Vector
from priorshift._validation import check_alpha, check_choice, check_count, check_positive
from priorshift.estimators import PriorEstimate, PriorEstimator
from priorshift.groups._decisions import all_alike, as_estimate, complete, warn_of_the_rest
from priorshift.groups._methods import Found, require_concave
from priorshift.groups._pooling import Pool, Pooling
from priorshift.groups._posteriors import GroupedRows
from priorshift.groups._result import GroupEstimates
from priorshift.solvers import Solution, maximise


def estimate_from_posteriors(
    estimator: PriorEstimator, rows: GroupedRows, pooling: Pooling
) -> GroupEstimates:
    r"""Estimate the priors of groups from the posteriors of their rows.

    Pooled groups maximise their likelihood under a Dirichlet distribution around the pooled priors
    with a total of 1 / v - 1. The v is found from the posteriors :math:`r` under the priors of the
    whole, whose means are moments like any others: :math:`E_g[r] = R\, p_g` with
    :math:`R_{km} = E[r_k r_m] / p_m`.
    """
    params: Any = estimator
    check_choice(params.solver, ("certified",), "solver, for groups,")
    tol, max_iter = check_positive(params.tol, "tol"), check_count(params.max_iter, "max_iter")
    alpha = check_alpha(getattr(params, "alpha", 1.0), rows.scale.size)
    require_concave(alpha)
    whole = _whole(estimator, rows, alpha, tol, max_iter)
    informative = rows.informative() > 0
    pool, pooled, excess = Pool(np.inf), whole, alpha - 1
    if pooling is not None and pooling != 0:
        pool, pooled, excess = _pool(rows, whole, pooling)
    if pool.complete:
        found = all_alike(whole, informative.size)
    else:
        chosen = np.flatnonzero(informative)
        solved = rows.solve(chosen, excess, pooled.priors, tol=tol, max_iter=max_iter)
        found = complete(pooled, solved, informative)
    warn_of_the_rest(estimator.name, rows.names, found, informative)
    return GroupEstimates(
        groups=rows.names,
        n=np.bincount(rows.codes, minlength=rows.names.size),
        priors=found.priors,
        weight=np.where(informative, pool.weights(informative.size), 0.0),
        pooling=pool.strength,
        whole=whole,
        pooled=pooled,
        status=found.status,
        gap=found.gap,
        n_iter=found.n_iter,
    )


def _whole(
    estimator: PriorEstimator, rows: GroupedRows, alpha: Vector, tol: float, max_iter: int
) -> PriorEstimate:
    """Estimate the priors of all rows together, weights included."""
    solution: Solution = maximise(
        rows.problem(alpha), tol=tol, max_iter=max_iter, start=estimator.source_priors_
    )
    estimator._warn_if_short(solution)
    return estimator._result(solution.value, solution, rows.y_proba.shape[0])


def _pool(
    rows: GroupedRows, whole: PriorEstimate, pooling: Pooling
) -> tuple[Pool, PriorEstimate, Vector]:
    """Settle how far to pool, towards what, and the hyper-prior that says so."""
    n, K = rows.y_proba.shape
    around = (n * whole.priors + 1 / K) / (n + 1)  # every class might show up in one more row
    counts = rows.counts_under(around)
    assert counts.second is not None
    R = counts.second / counts.mass.sum() / around
    lost = R.sum(axis=0) <= 0  # no row gives the class any probability: as if always recognised
    R[lost, lost] = 1.0
    R /= R.sum(axis=0)
    pool = Pool.of(pooling, counts, R, around)
    if pool.complete or pool.spread is None:
        return pool, whole, np.zeros(K)
    step = pool.spread.to_priors @ pool.spread.centre(pool.variance)
    centre = np.maximum(whole.priors + step, 0)
    pooled = as_estimate(whole, Found.direct(centre[None] / centre.sum()))
    return pool, pooled, pool.strength * pooled.priors
