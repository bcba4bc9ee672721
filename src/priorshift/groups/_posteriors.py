r"""Groups by EM and MAP: the rows of each group are its own mixture problem.

Pooled groups maximise their likelihood under a Dirichlet distribution around the pooled priors with
a total of 1 / v - 1. The v is found from the posteriors :math:`r` under the priors of all rows,
whose means follow from the priors as those of decisions do: :math:`E_g[r] = R\, p_g` with
:math:`R_{km} = E[r_k r_m] / p_m`.
"""

from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from priorshift._typing import Indices, Labels, Vector
from priorshift.adapt import prior_ratio
from priorshift.border import check_choice, check_count, check_positive, row_blocks
from priorshift.estimators import PriorEstimate, PriorEstimator
from priorshift.groups._counts import GroupCounts, count_groups
from priorshift.groups._pooling import Pool, Pooling
from priorshift.groups._result import GroupEstimates, solution_as_estimate
from priorshift.solvers import Mixture, Solutions, maximise, maximise_by_group

COUNT_BYTES = 2**23
"""Posteriors that are formed at once to be counted."""


class GroupedRows(NamedTuple):
    """Clean target rows in class order, with the number of each row's group."""

    y_proba: Any
    names: Labels
    codes: Indices
    weight: Vector | None


def estimate_from_posteriors(
    estimator: PriorEstimator, rows: GroupedRows, pooling: Pooling
) -> GroupEstimates:
    """Estimate the priors of groups from the posteriors of their rows."""
    params: Any = estimator
    check_choice(params.solver, ("certified",), "solver, for groups,")
    budget: dict[str, Any] = {
        "tol": check_positive(params.tol, "tol"),
        "max_iter": check_count(params.max_iter, "max_iter"),
    }
    alpha, source = estimator._hyper_prior, estimator.source_priors_
    require_concave(alpha)
    y_proba, names, codes, weight = rows
    scale = prior_ratio(np.ones_like(source), source)
    problem = Mixture.of(y_proba, scale=scale, weights=weight, alpha=alpha)
    solution = maximise(problem, start=source, **budget)
    estimator._warn_if_short(solution)
    whole = estimator._result(solution.value, solution, y_proba.shape[0])
    possible = y_proba @ scale.astype(y_proba.dtype) > 0  # some priors explain these rows
    told = np.bincount(codes, possible if weight is None else possible * weight, names.size)
    informative = told > 0
    pool, pooled, excess = Pool(np.inf), whole, alpha - 1
    if pooling:
        pool, pooled, excess = _pool(rows, scale, whole, pooling)
    solved = None
    if not pool.complete:
        solved = maximise_by_group(
            y_proba,
            codes,
            np.flatnonzero(informative),
            scale=scale,
            weights=weight,
            excess=excess,
            start=pooled.priors,
            **budget,
        )
    n = np.bincount(codes, minlength=names.size)
    return GroupEstimates.of(names, n, solved, informative, pool, whole, pooled)


def require_concave(alpha: Vector) -> None:
    """Refuse a hyper-prior under which nothing can be certified."""
    if (alpha < 1).any():
        raise ValueError("groups need alpha of at least 1: below 1, nothing can be certified.")


def _pool(
    rows: GroupedRows, scale: Vector, whole: PriorEstimate, pooling: Pooling
) -> tuple[Pool, PriorEstimate, Vector]:
    """Choose how far to pool, towards which priors, and the hyper-prior that does so."""
    n, K = rows.y_proba.shape
    around = (n * whole.priors + 1 / K) / (n + 1)  # every class might occur in one more row
    counts = reduce(
        add,
        (_count_posteriors(rows, scale, around, part) for part in row_blocks(n, K, COUNT_BYTES)),
    )
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
    pooled = solution_as_estimate(whole, Solutions.direct(centre[None] / centre.sum()))
    return pool, pooled, pool.strength * pooled.priors


def _count_posteriors(rows: GroupedRows, scale: Vector, priors: Vector, part: slice) -> GroupCounts:
    """Count by group the posteriors that some rows have under priors above 0."""
    block = rows.y_proba[part] * (scale * priors)
    total = block.sum(axis=1, keepdims=True)
    block = np.divide(block, total, out=np.tile(priors, (block.shape[0], 1)), where=total > 0)
    weight = None if rows.weight is None else rows.weight[part]
    return count_groups(block, rows.names, rows.codes[part], weight, "soft", covariance=True)
