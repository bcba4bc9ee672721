"""Groups by methods with a confusion matrix: counts in, one estimate a group out."""

import warnings
from dataclasses import replace
from typing import Any, cast

import numpy as np

from priorshift._typing import Floats, Indices, Labels, Mask, Vector
from priorshift._validation import some
from priorshift.estimators import PriorEstimate, PriorEstimator
from priorshift.exceptions import ConvergenceWarning, PriorShiftWarning, warn_user
from priorshift.execution import Rows, Table
from priorshift.groups._counts import GroupCounts
from priorshift.groups._intervals import group_intervals
from priorshift.groups._methods import Found, Inversion, Likelihood, Method, method_of
from priorshift.groups._pooling import Pool, Pooling
from priorshift.groups._result import GroupEstimates
from priorshift.solvers import Status
from priorshift.uncertainty import IntervalRequest


def estimate_from_counts(
    estimator: PriorEstimator,
    counts: GroupCounts,
    pooling: Pooling,
    request: IntervalRequest | None,
) -> GroupEstimates:
    """Estimate the priors of groups from counts of their decisions."""
    method = method_of(estimator)
    _require_fitting(estimator, counts)
    whole = estimator.estimate_counts(counts.total())
    pool = Pool.of(pooling, counts, method.confusion, whole.priors)
    informative = method.informative(counts.counts) > 0
    pooled, found = _solve(method, counts, pool, whole, informative)
    warn_of_the_rest(estimator.name, counts.groups, found, informative)
    interval = error = None
    if request is not None:
        interval, error = group_intervals(estimator, found.priors, counts.mass, pool, request)
    return GroupEstimates(
        groups=counts.groups,
        n=counts.n_rows,
        priors=found.priors,
        weight=np.where(informative, pool.weights(counts.groups.size), 0.0),
        pooling=pool.strength,
        whole=whole,
        pooled=pooled,
        status=found.status,
        gap=found.gap,
        n_iter=found.n_iter,
        interval=interval,
        standard_error=error,
        confidence_level=None if request is None else request.confidence_level,
    )


def by_itself(
    estimator: PriorEstimator,
    y_proba: Rows,
    weight: Vector | None,
    pooling: Pooling,
    request: IntervalRequest | None,
) -> bool:
    """Whether validation lacks a class, and every group is to be a target of its own."""
    plain = weight is None and request is None and not isinstance(y_proba, Table)
    able = isinstance(estimator, (*Likelihood, *Inversion)) and not estimator.confusion_.seen.all()
    return able and plain and (pooling is None or pooling == 0)


def estimate_each(
    estimator: PriorEstimator, y_proba: Floats, groups: Labels, codes: Indices
) -> GroupEstimates:
    """Estimate every group by itself, as a target of its own.

    It is slow, and all that is left where validation lacks a class, whose share no counts tell.
    """
    whole = estimator._estimate(y_proba)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is said of the whole need not be said again
        rows = (y_proba[codes == g] for g in range(groups.size))
        alone = [_estimate_one(estimator, *each) for each in zip(rows, groups, strict=True)]
    found = Found(
        np.array([one.priors for one in alone]),
        np.array([one.status for one in alone]),
        np.array([np.inf if one.gap is None else one.gap for one in alone]),
        np.array([one.n_iter for one in alone], dtype=np.intp),
    )
    warn_of_the_rest(estimator.name, groups, found, np.ones(groups.size, dtype=bool))
    return GroupEstimates(
        groups=groups,
        n=np.bincount(codes, minlength=groups.size),
        priors=found.priors,
        weight=np.ones(groups.size),
        pooling=0.0,
        whole=whole,
        pooled=whole,
        status=found.status,
        gap=found.gap,
        n_iter=found.n_iter,
    )


def _estimate_one(estimator: PriorEstimator, y_proba: Floats, group: Any) -> PriorEstimate:
    try:
        return estimator._estimate(y_proba)
    except ValueError as error:
        raise ValueError(f"group {group.item()!r}: {error}") from error


def _solve(
    method: Method, counts: GroupCounts, pool: Pool, whole: PriorEstimate, informative: Mask
) -> tuple[PriorEstimate, Found]:
    """Solve for the pooled priors, and for the groups around them.

    With pooling, a method's own hyper-prior acts on each group as it does on the whole: pooling is
    what takes care of groups that are small.
    """
    if pool.complete:
        return whole, all_alike(whole, informative.size)
    if pool.spread is None:
        return whole, complete(whole, method.solve(counts.counts[informative]), informative)
    mass = np.full(informative.size, counts.mass.sum()) if method.has_prior else counts.mass
    centre = pool.spread.moments(pool.spread.centre(pool.variance))[None]
    pooled = as_estimate(whole, method.solve(_positive(centre) * counts.mass.sum()))
    moments = _positive(pool.spread.pooled_moments(pool.variance)[informative])
    return pooled, complete(pooled, method.solve(moments * mass[informative, None]), informative)


def _positive(moments: Vector) -> Vector:
    """Return mean decisions without what pooling took below 0."""
    moments = np.maximum(moments, 0)
    return moments / moments.sum(axis=1, keepdims=True)


def all_alike(whole: PriorEstimate, n_groups: int) -> Found:
    """Give every group the priors of the whole, and what is promised of them."""
    gap = np.inf if whole.gap is None else whole.gap
    return Found(
        np.tile(whole.priors, (n_groups, 1)),
        np.full(n_groups, whole.status),
        np.full(n_groups, gap),
        np.full(n_groups, whole.n_iter, dtype=np.intp),
    )


def complete(pooled: PriorEstimate, found: Found, informative: Mask) -> Found:
    """Give the groups of which nothing is known the pooled priors."""
    every = Found.direct(np.tile(pooled.priors, (informative.size, 1)))
    every.priors[informative], every.gap[informative] = found.priors, found.gap
    every.n_iter[informative] = found.n_iter
    status = every.status.astype("U16")
    status[informative] = found.status
    return replace(every, status=status)


def as_estimate(whole: PriorEstimate, found: Found) -> PriorEstimate:
    """Return the only one of what was found as an estimate like that of the whole."""
    gap = float(found.gap[0])
    return replace(
        whole,
        priors=found.priors[0],
        status=cast("Status", str(found.status[0])),
        gap=None if np.isinf(gap) else gap,
        n_iter=int(found.n_iter[0]),
        objective=None,
        raw=None,
    )


def warn_of_the_rest(name: str, groups: Any, found: Found, informative: Mask) -> None:
    """Warn once of groups without information, and once of those that are not certified."""
    if not informative.all():
        empty = groups[~informative].tolist()
        warn_user(
            f"{len(empty)} groups have no row to learn from and get the pooled priors: "
            f"{some(empty)}.",
            PriorShiftWarning,
        )
    short = found.status == "not_converged"
    if short.any():
        warn_user(
            f"{name} is not certified in {np.count_nonzero(short)} of {groups.size} groups "
            f"({some(groups[short].tolist())}), by a gap of up to {found.gap[short].max():.3g}; "
            "raise max_iter or tol.",
            ConvergenceWarning,
        )


def _require_fitting(estimator: PriorEstimator, counts: GroupCounts) -> None:
    decision, K = estimator.confusion_.decision, estimator.classes_.size
    if counts.decision != decision or counts.sums.shape[1] != K:
        raise ValueError(
            f"{type(estimator).__name__} needs counts of {decision} decisions on {K} classes; got "
            f"{counts.decision} decisions on {counts.sums.shape[1]}. Count with "
            f"GroupCounts.from_arrays(y_proba, groups, decision={decision!r})."
        )
    if not counts.mass.any():
        raise ValueError("no group has a row of weight above 0; there is nothing to estimate from.")
