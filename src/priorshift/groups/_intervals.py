r"""Intervals of groups' priors, from the noise of their rows and of validation.

As for one target (`priorshift.uncertainty`): a row's votes :math:`C^{-1} d` have the variance
:math:`p_m (1 - p_m) + \sum_k p_k T_{km}`, with the spread :math:`T_{km}` of vote m within class k
on validation. A small group cannot show its own spread, so this one is taken at its priors. Pooling
leaves less of it, as if the group had more rows; validation's noise is left as it is.
"""

import numpy as np

from priorshift._typing import Vector
from priorshift.estimators import PriorEstimator
from priorshift.estimators._intervals import _validation_of
from priorshift.groups._pooling import Pool
from priorshift.uncertainty import IntervalRequest, Votes, score_bounds

LEAST_ROWS = 1e-9
"""Rows of a group that has none: its bounds become 0 and 1."""


def group_intervals(
    estimator: PriorEstimator, priors: Vector, mass: Vector, pool: Pool, request: IntervalRequest
) -> tuple[Vector, Vector]:
    """Return the intervals, shape (G, K, 2), and standard errors, shape (G, K)."""
    rows, y = _validation_of(estimator)
    # no row of the target is needed for what validation says
    votes = Votes.of(estimator.confusion_, rows.y_proba[:1], rows.y_proba, y, rows.sample_weight)
    within, own = votes.within, np.diagonal(votes.within)
    n = np.maximum(effective_rows(mass, priors.shape[1], pool), LEAST_ROWS)
    by_others = (priors @ within - priors * own) / n
    by_validation = (priors**2 / votes.n_validation) @ within
    error = np.sqrt((priors * (1 - priors) + priors * own) / n + by_others + by_validation)
    z = request.z(priors.shape[1])
    lower, upper = score_bounds(priors, z, by_others + by_validation, (1 + own) / n, -1 / n)
    lower = np.minimum(lower, 0.5 * (lower + priors - z * error))
    bounds = np.stack([np.minimum(lower, priors), np.maximum(upper, priors)], axis=-1)
    return np.clip(bounds, 0.0, 1.0), error


def effective_rows(mass: Vector, n_classes: int, pool: Pool) -> Vector:
    """Return how many rows each prior is known by: those of the group, and what pooling adds."""
    if pool.spread is None:
        return np.tile(mass[:, None], (1, n_classes))
    alone = (pool.spread.to_priors**2).sum(axis=1)
    left = pool.spread.prior_variance(pool.variance)
    return np.divide(alone, left, out=np.full_like(left, mass.sum()), where=left > 0)
