r"""estimate_groups: one estimate per group, in one pass over the rows.

Methods with a confusion matrix use only each group's counts of decisions. All groups are
solved together: likelihoods as one batch of mixture problems, inversions as one linear system with
as many right-hand sides as groups. EM and MAP work on the rows themselves (`_posteriors`).

Intervals are those of one target (`priorshift.intervals`): a row's votes :math:`C^{-1} d` have
the variance :math:`p_m (1 - p_m) + \sum_k p_k T_{km}`, with the spread :math:`T_{km}` of vote m
within class k on validation. A small group cannot show its own spread, so the one at its priors is
used. Pooling leaves less of it, as if the group had more rows; validation's noise stays.
"""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from priorshift._typing import Mask, Vector
from priorshift.border import (
    Predictions,
    as_decisions,
    check_proba,
    check_sample_weight,
    check_source_mass,
    column_of,
    in_class_order,
    is_array,
    some,
)
from priorshift.estimators import PriorEstimate, PriorEstimator
from priorshift.estimators.inputs import require_decisions
from priorshift.estimators.intervals import votes_of_validation
from priorshift.exceptions import argument
from priorshift.groups._counts import GroupCounts, count_groups, encode_groups, read_groups
from priorshift.groups._pooling import Pool, Pooling, check_pooling
from priorshift.groups._posteriors import GroupedRows, estimate_from_posteriors, require_concave
from priorshift.groups._result import GroupEstimates, solution_as_estimate
from priorshift.intervals import IntervalRequest, score_bounds
from priorshift.solvers import (
    Solutions,
)
from priorshift.text import brief


def estimate_groups(
    estimator: PriorEstimator,
    y_proba: Any = None,
    groups: ArrayLike | None = None,
    *,
    y_pred: ArrayLike | None = None,
    pooling: Pooling = "auto",
    confidence_level: float | None = None,
    sample_weight: ArrayLike | None = None,
) -> GroupEstimates:
    r"""Estimate the target priors of each group: site, week, device.

    Small groups are pooled towards the others as far as the marginal likelihood of all groups
    supports: groups that do not differ beyond noise get one estimate; large groups that do differ
    keep their own. See `priorshift.groups` for the formulas.

    Parameters
    ----------
    estimator : PriorEstimator
        Fitted: a method with a confusion matrix (CM, SCM, CM-L, SCM-L, CM-M, SCM-M, the shrunk
        SCM-L, BBSE, BBSE-S), EM, MAP, or Auto, which calibrates as for the whole target and then
        uses soft decisions. Any other method estimates each group by itself with ``pooling=None``.
    y_proba : array-like of shape (n_samples, n_classes) or GroupCounts
        Predicted probabilities on the target. Methods with a confusion matrix also accept data that
        are read in blocks (files, sparse matrices, Dask arrays), and counts of their decisions,
        which you can make in parts anywhere.
    groups : array-like of shape (n_samples,)
        Group of each row: text, numbers or dates. None if you pass counts.
    y_pred : array-like of shape (n_samples,), optional
        Decisions on the target instead of `y_proba`, for the methods of hard decisions.
    pooling : "auto", None or float, default="auto"
        "auto" pools by marginal likelihood; None estimates every group by itself; a number is how
        many rows the pooled priors count for in every group.
    confidence_level : float, optional
        For example 0.95, to give every prior an interval. Not for EM and MAP.
    sample_weight : array-like of shape (n_samples,), optional
        A row of weight 2 counts as two rows.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_val = np.repeat([0, 1], 50)
    >>> decisions = np.repeat([0, 1, 0, 1], [40, 10, 10, 40])
    >>> cm = ps.CML().fit(np.eye(2)[decisions], y_val)
    >>> target = np.eye(2)[np.repeat([0, 1, 0, 1, 0, 1], [700, 300, 600, 400, 2, 1])]
    >>> site = np.repeat(["north", "south", "west"], [1000, 1000, 3])
    >>> found = ps.estimate_groups(cm, target, site)
    >>> found.priors.round(2)
    array([[0.83, 0.17],
           [0.67, 0.33],
           [0.75, 0.25]])
    >>> found.weight.round(2)
    array([0.95, 0.95, 0.06])
    >>> found["north"].ratio.round(2)
    array([1.66, 0.34])
    """
    if not isinstance(estimator, PriorEstimator):
        raise TypeError(f"estimator must be a fitted PriorEstimator; got {brief(estimator)}.")
    check_is_fitted(estimator)
    pooling, request = check_pooling(pooling), IntervalRequest.of(confidence_level, 0, "asymptotic")
    if y_pred is not None:
        require_decisions(estimator, y_pred, y_proba)
        y_proba = as_decisions(y_pred, estimator.classes_)
    if isinstance(y_proba, GroupCounts):
        if groups is not None or sample_weight is not None:
            raise ValueError("counts hold their groups and weights; leave out the arguments.")
        if not estimator.counts_suffice:
            raise ValueError(
                f"{type(estimator).__name__} needs the rows of the target, which counts do not "
                "keep; pass y_proba and groups, or use a method such as SCM-L."
            )
        return _from_counts(estimator, y_proba, pooling, request)
    rows = _read(estimator, y_proba, groups, sample_weight)
    if _is_each_alone(estimator, rows, pooling, request):
        return _estimate_each(estimator, rows)
    if estimator.batch == "calibrated":
        return _from_calibrated(estimator, rows, pooling, request)
    if estimator.batch != "posteriors":
        return _from_decisions(estimator, rows, pooling, request)
    if request is not None:
        raise ValueError(
            f"{type(estimator).__name__} has no intervals by group; use a method with a confusion "
            f"matrix such as SCM-L, or leave out {argument('confidence_level')}."
        )
    return estimate_from_posteriors(estimator, rows, pooling)


def _read(estimator: PriorEstimator, y_proba: Any, groups: Any, sample_weight: Any) -> GroupedRows:
    """Check rows, groups and weights; methods with a confusion matrix read rows in blocks."""
    if groups is None:
        raise ValueError("groups is missing; pass the group of each row.")
    y_proba, groups = column_of(y_proba, groups, "groups")
    read = check_proba(y_proba, tables=estimator.counts_suffice, classes=estimator.classes_)
    values = in_class_order(read, estimator.classes_)
    if read.decided is None and not estimator._decisions_only:
        check_source_mass(
            estimator._denominator,
            values,
            estimator.classes_,
            origin=estimator.source_priors_from_,
        )
    names, codes = encode_groups(read_groups(groups, values.shape[0]))
    return GroupedRows(values, names, codes, check_sample_weight(sample_weight, values.shape[0]))


def _from_calibrated(
    estimator: PriorEstimator, rows: GroupedRows, pooling: Pooling, request: IntervalRequest | None
) -> GroupEstimates:
    """Estimate groups by soft decisions of outputs calibrated for the whole target.

    If groups do not differ beyond noise, all of them get the method's own estimate, and predictions
    stay as they are if it leaves them alone. If they do, each is adapted to its own priors: the
    method's caution is about the whole target, and pooling plays its part for groups.
    """
    if rows.weight is not None:
        raise ValueError(f"{type(estimator).__name__} takes no sample_weight; use SCM-L.")
    whole = estimator.estimate(Predictions.from_checked(rows.y_proba))
    soft, calibrator = estimator._soft_decisions()
    rows = rows._replace(y_proba=calibrator.apply(rows.y_proba))
    if _is_each_alone(soft, rows, pooling, request):
        found = _estimate_each(soft, rows)
    else:
        found = _from_decisions(soft, rows, pooling, request)
    if np.isinf(found.pooling):
        G = rows.names.size
        return replace(
            found,
            priors=np.tile(whole.priors, (G, 1)),
            whole=whole,
            pooled=whole,
            status=np.full(G, whole.status),
            gap=np.full(G, np.inf),
        )
    pooled = replace(
        found.pooled,
        method=whole.method,
        source_priors_from=whole.source_priors_from,
        calibrator=calibrator,
        decision=whole.decision,
    )
    return replace(found, whole=whole, pooled=pooled)


def _from_decisions(
    estimator: PriorEstimator, rows: GroupedRows, pooling: Pooling, request: IntervalRequest | None
) -> GroupEstimates:
    """Estimate groups by a method with a confusion matrix."""
    _require_batch(estimator)  # before the work
    counts = count_groups(*rows, estimator.confusion_.decision, covariance=bool(pooling))
    return _from_counts(estimator, counts, pooling, request)


def _from_counts(
    estimator: PriorEstimator,
    counts: GroupCounts,
    pooling: Pooling,
    request: IntervalRequest | None,
) -> GroupEstimates:
    """Estimate the priors of groups from counts of their decisions."""
    _require_batch(estimator)
    decision, K = estimator.confusion_.decision, estimator.classes_.size
    if counts.decision != decision or counts.counts.shape[1] != K:
        raise ValueError(
            f"{type(estimator).__name__} needs counts of {decision} decisions on {K} classes; got "
            f"{counts.decision} decisions on {counts.counts.shape[1]}. Count with "
            f"GroupCounts.from_arrays(y_proba, groups, decision={decision!r})."
        )
    if not counts.mass.any():
        raise ValueError("no group has a row of weight above 0; there is nothing to estimate from.")
    whole = estimator.estimate_counts(counts.total())
    pool = Pool.of(pooling, counts, estimator._columns, whole.priors)
    informative = estimator._informative(counts.counts)
    pooled, solved = _around(pool, estimator, counts, whole, informative)
    found = GroupEstimates.of(
        counts.groups, counts.n_rows, solved, informative, pool, whole, pooled
    )
    if request is None:
        return found
    interval, error = _intervals(estimator, found.priors, counts.mass, pool, request)
    return replace(
        found,
        interval=interval,
        standard_error=error,
        confidence_level=request.confidence_level,
    )


def _is_each_alone(
    estimator: PriorEstimator, rows: GroupedRows, pooling: Pooling, request: IntervalRequest | None
) -> bool:
    """Whether to estimate every group as a target of its own, because no batch can solve for it."""
    plain = rows.weight is None and request is None and is_array(rows.y_proba)
    by_counts = estimator.counts_suffice and estimator.confusion_.seen.all()
    in_batch = estimator.batch is not None and (by_counts or not estimator.counts_suffice)
    return not in_batch and plain and not pooling


def _estimate_each(estimator: PriorEstimator, rows: GroupedRows) -> GroupEstimates:
    """Estimate every group by itself, as a target of its own.

    This is slow. It is the only way for a method without a batch solver, or if validation lacks a
    class: counts do not determine its share.
    """
    whole = estimator._estimate(rows.y_proba)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the estimate on all rows has warned already
        alone = []
        for g, group in enumerate(rows.names):
            try:
                alone.append(estimator._estimate(rows.y_proba[rows.codes == g]))
            except ValueError as error:
                raise ValueError(f"group {group.item()!r}: {error}") from error
    solved = Solutions(
        np.array([one.priors for one in alone]),
        np.array([one.status for one in alone]),
        np.array([np.inf if one.gap is None else one.gap for one in alone]),
        np.array([one.n_iter for one in alone], dtype=np.intp),
    )
    G = rows.names.size
    n = np.bincount(rows.codes, minlength=G)
    every = np.ones(G, dtype=bool)
    return GroupEstimates.of(rows.names, n, solved, every, Pool(np.inf), whole, whole)


def _around(
    pool: Pool,
    estimator: PriorEstimator,
    counts: GroupCounts,
    whole: PriorEstimate,
    informative: Mask,
) -> tuple[PriorEstimate, Solutions | None]:
    """Find the pooled priors, and those of the groups around them; None if all are alike.

    With pooling, a method's own hyper-prior acts on each group as it does on all rows: pooling is
    what protects small groups.
    """
    if pool.complete:
        return whole, None
    if pool.spread is None:
        return whole, estimator._priors_of_groups(counts.counts[informative])
    has_prior = (estimator._hyper_prior != 1).any()
    mass = np.full(informative.size, counts.mass.sum()) if has_prior else counts.mass
    centre = pool.spread.decisions(pool.spread.centre(pool.variance))[None]
    middle = estimator._priors_of_groups(_positive(centre) * counts.mass.sum())
    pooled = solution_as_estimate(whole, middle)
    decisions = _positive(pool.spread.pooled_decisions(pool.variance)[informative])
    return pooled, estimator._priors_of_groups(decisions * mass[informative, None])


def _positive(decisions: Vector) -> Vector:
    """Return mean decisions with 0 in place of what pooling pulled below 0."""
    decisions = np.maximum(decisions, 0)
    return decisions / decisions.sum(axis=1, keepdims=True)


def _intervals(
    estimator: PriorEstimator, priors: Vector, mass: Vector, pool: Pool, request: IntervalRequest
) -> tuple[Vector, Vector]:
    """Return the intervals, shape (G, K, 2), and standard errors, shape (G, K)."""
    votes = votes_of_validation(estimator)
    within, own = votes.within, np.diagonal(votes.within)
    # how many rows each prior is known by: those of the group, and what pooling adds
    n = np.tile(mass[:, None], (1, priors.shape[1]))
    if pool.spread is not None:
        alone = (pool.spread.to_priors**2).sum(axis=1)
        left = pool.spread.prior_variance(pool.variance)
        n = np.divide(alone, left, out=np.full_like(left, mass.sum()), where=left > 0)
    n = np.maximum(n, 1e-9)  # a group without rows has bounds of 0 and 1
    by_others = (priors @ within - priors * own) / n
    by_validation = (priors**2 / votes.n_validation) @ within
    error = np.sqrt((priors * (1 - priors) + priors * own) / n + by_others + by_validation)
    z = request.z(priors.shape[1])
    lower, upper = score_bounds(priors, z, by_others + by_validation, (1 + own) / n, -1 / n)
    lower = np.minimum(lower, 0.5 * (lower + priors - z * error))
    bounds = np.stack([np.minimum(lower, priors), np.maximum(upper, priors)], axis=-1)
    return np.clip(bounds, 0.0, 1.0), error


def _require_batch(estimator: PriorEstimator) -> None:
    """Refuse a fitted method that cannot solve for the counts of many groups."""
    if estimator.batch != "counts":
        raise ValueError(
            f"{estimator!r} cannot pool groups, nor use weights, intervals or counts for them; use "
            "a method such as SCM-L, CM-L, SCM, BBSE, EM, MAP or Auto, or pass pooling=None and "
            "rows in memory to estimate each group by itself."
        )
    seen = estimator.confusion_.seen
    if not seen.all():
        raise ValueError(
            f"validation has no sample of class {some(estimator.classes_[~seen].tolist())}, so a "
            "confusion matrix cannot tell its share in a group, nor how far to pool; add samples, "
            "pass rows in memory with pooling=None and no weights or confidence_level, which "
            f"estimates each group by itself, or use EM or MAP with {argument('source_priors')}."
        )
    if getattr(estimator, "solver", "certified") != "certified":
        raise ValueError("groups are solved to a certificate; use solver='certified'.")
    require_concave(estimator._hyper_prior)
