r"""Groups by EM and MAP: the rows of each group are its own mixture problem.

Pooled groups maximise their likelihood under a Dirichlet distribution around the pooled priors with
a total of 1 / v - 1. The v is found from the posteriors :math:`r` under the priors of all rows,
whose means follow from the priors as those of decisions do: :math:`E_g[r] = R\, p_g` with
:math:`R_{km} = E[r_k r_m] / p_m`.
"""

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from priorshift._typing import Floats, Indices, Labels, Vector
from priorshift.border import check_choice, check_count, check_positive, row_blocks
from priorshift.estimators import PriorEstimate, PriorEstimator
from priorshift.groups._counts import GroupCounts, count_groups
from priorshift.groups._pooling import Pool, Pooling
from priorshift.groups._result import GroupEstimates, solution_as_estimate
from priorshift.solvers import Mixture, Solutions, maximise, maximise_by_group

COUNT_BYTES = 2**23
"""Posteriors that are formed at once to be counted."""


@dataclass(frozen=True)
class GroupedRows:
    """Target rows, with the number of each row's group.

    Attributes
    ----------
    y_proba : ndarray of shape (n, K)
    codes : ndarray of shape (n,)
    names : ndarray of shape (G,)
    weight : ndarray of shape (n,) or None
    scale : ndarray of shape (K,)
        1 / source priors, and 0 for a class with a source prior of 0.
    """

    y_proba: Floats
    codes: Indices
    names: Labels
    weight: Vector | None
    scale: Vector

    def informative(self) -> Vector:
        """Return the weight of rows that some priors explain, by group."""
        possible = self.y_proba @ self.scale.astype(self.y_proba.dtype) > 0
        weight = possible if self.weight is None else possible * self.weight
        found = np.bincount(self.codes, weight, minlength=self.names.size)
        return found.astype(np.float64, copy=False)

    def counts_under(self, priors: Vector) -> GroupCounts:
        """Count by group the posteriors that the rows have under priors above 0."""
        factor = self.scale * priors

        def counted(rows: slice) -> GroupCounts:
            block = self.y_proba[rows] * factor
            total = block.sum(axis=1, keepdims=True)
            block = np.divide(
                block, total, out=np.tile(priors, (block.shape[0], 1)), where=total > 0
            )
            weight = None if self.weight is None else self.weight[rows]
            return count_groups(
                block, self.names, self.codes[rows], "soft", weight, covariance=True
            )

        n, K = self.y_proba.shape
        return reduce(add, map(counted, row_blocks(n, K, COUNT_BYTES)))


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
    alpha = estimator._hyper_prior
    require_concave(alpha)
    whole = _whole(estimator, rows, alpha, budget)
    informative = rows.informative() > 0
    pool, pooled, excess = Pool(np.inf), whole, alpha - 1
    if pooling is not None and pooling != 0:
        pool, pooled, excess = _pool(rows, whole, pooling)
    solved = None
    if not pool.complete:
        solved = maximise_by_group(
            rows.y_proba,
            rows.codes,
            np.flatnonzero(informative),
            scale=rows.scale,
            weights=rows.weight,
            excess=excess,
            start=pooled.priors,
            **budget,
        )
    return GroupEstimates.of(
        rows.names,
        np.bincount(rows.codes, minlength=rows.names.size),
        solved,
        informative,
        pool,
        whole,
        pooled,
    )


def require_concave(alpha: Vector) -> None:
    """Refuse a hyper-prior under which nothing can be certified."""
    if (alpha < 1).any():
        raise ValueError("groups need alpha of at least 1: below 1, nothing can be certified.")


def _whole(
    estimator: PriorEstimator, rows: GroupedRows, alpha: Vector, budget: dict[str, Any]
) -> PriorEstimate:
    """Estimate the priors of all rows together, with their weights."""
    problem = Mixture.of(rows.y_proba, scale=rows.scale, weights=rows.weight, alpha=alpha)
    solution = maximise(problem, start=estimator.source_priors_, **budget)
    estimator._warn_if_short(solution)
    return estimator._result(solution.value, solution, rows.y_proba.shape[0])


def _pool(
    rows: GroupedRows, whole: PriorEstimate, pooling: Pooling
) -> tuple[Pool, PriorEstimate, Vector]:
    """Choose how far to pool, towards which priors, and the hyper-prior that does so."""
    n, K = rows.y_proba.shape
    around = (n * whole.priors + 1 / K) / (n + 1)  # every class might occur in one more row
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
    pooled = solution_as_estimate(whole, Solutions.direct(centre[None] / centre.sum()))
    return pool, pooled, pool.strength * pooled.priors
