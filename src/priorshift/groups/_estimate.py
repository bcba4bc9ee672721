"""estimate_groups: one estimate a group, in one pass over the rows."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from priorshift._typing import Indices, Labels, Vector
from priorshift._validation import (
    check_proba,
    check_sample_weight,
    check_source_mass,
    in_class_order,
)
from priorshift.adaptation import prior_ratio
from priorshift.estimators import EM, MAP, Auto, PriorEstimator
from priorshift.groups._auto import estimate_by_auto
from priorshift.groups._counts import GroupCounts, count_groups
from priorshift.groups._decisions import by_itself, estimate_each, estimate_from_counts
from priorshift.groups._labels import encode_groups, read_groups
from priorshift.groups._likelihoods import estimate_from_posteriors
from priorshift.groups._methods import method_of
from priorshift.groups._pooling import Pooling, check_pooling
from priorshift.groups._posteriors import GroupedRows
from priorshift.groups._result import GroupEstimates
from priorshift.uncertainty import IntervalRequest


def estimate_groups(
    estimator: PriorEstimator,
    y_proba: Any,
    groups: ArrayLike | None = None,
    *,
    pooling: Pooling = "auto",
    confidence_level: float | None = None,
    sample_weight: ArrayLike | None = None,
) -> GroupEstimates:
    r"""Estimate the target priors of each group: site, week, device.

    Small groups are pooled towards the others as far as the marginal likelihood of all groups
    supports: groups that do not differ beyond noise get one estimate, large groups that do keep
    their own. See `priorshift.groups` for the formulas.

    Parameters
    ----------
    estimator : PriorEstimator
        Fitted: a method with a confusion matrix (CM, SCM, CM-L, SCM-L, CM-M, SCM-M, the shrunk
        SCM-L, BBSE, BBSE-S), EM, MAP, or Auto, which calibrates as it does for the whole target
        and then goes by soft decisions.
    y_proba : array-like of shape (n_samples, n_classes) or GroupCounts
        Predicted probabilities on the target. For methods with a confusion matrix also what is
        read in blocks (files, sparse matrices, Dask arrays), or counts of their decisions, which
        may have been made in parts anywhere.
    groups : array-like of shape (n_samples,)
        Group of each row: text, numbers or dates. None with counts.
    pooling : "auto", None or float, default="auto"
        "auto" by marginal likelihood; None leaves every group to itself; a number is how many rows
        the pooled priors count for in every group.
    confidence_level : float, optional
        Such as 0.95: give every prior an interval. Not for EM and MAP.
    sample_weight : array-like of shape (n_samples,), optional
        A row of weight 2 counts as two rows.

    Returns
    -------
    GroupEstimates

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
    check_is_fitted(estimator)
    pooling, request = check_pooling(pooling), _request(confidence_level)
    if isinstance(y_proba, GroupCounts):
        if groups is not None or sample_weight is not None:
            raise ValueError("counts know their groups and weights; leave out the arguments.")
        if isinstance(estimator, EM | MAP | Auto):
            raise ValueError(
                f"{type(estimator).__name__} needs the rows of the target, which counts do not "
                "keep; give y_proba and groups, or use a method such as SCM-L."
            )
        return estimate_from_counts(estimator, y_proba, pooling, request)
    values, names, codes, weight = _read(estimator, y_proba, groups, sample_weight)
    if type(estimator) in (EM, MAP):
        if request is not None:
            raise ValueError(
                f"{type(estimator).__name__} has no intervals by group; use a method with a "
                "confusion matrix such as SCM-L, or leave out confidence_level."
            )
        scale = prior_ratio(np.ones(values.shape[1]), estimator.source_priors_)
        return estimate_from_posteriors(
            estimator, GroupedRows(values, codes, names, weight, scale), pooling
        )
    if isinstance(estimator, Auto):
        return estimate_by_auto(estimator, values, names, codes, weight, pooling, request)
    if by_itself(estimator, values, weight, pooling, request):
        return estimate_each(estimator, values, names, codes)
    method_of(estimator)  # refuse before the work
    counts = count_groups(
        values,
        names,
        codes,
        estimator.confusion_.decision,
        weight,
        covariance=pooling is not None and pooling != 0,
    )
    return estimate_from_counts(estimator, counts, pooling, request)


def _read(
    estimator: PriorEstimator, y_proba: Any, groups: Any, sample_weight: Any
) -> tuple[Any, Labels, Indices, Vector | None]:
    """Check rows; return probabilities in class order, groups, their numbers, and weights.

    Methods with a confusion matrix read files and sparse matrices block by block.
    """
    if groups is None:
        raise ValueError("groups is missing; give the group of each row.")
    in_memory = isinstance(estimator, EM | MAP | Auto)
    values = in_class_order(check_proba(y_proba, tables=not in_memory), estimator.classes_)
    check_source_mass(
        estimator._denominator,
        values,
        estimator.classes_,
        origin=estimator.source_priors_from_,
    )
    names, codes = encode_groups(read_groups(groups, values.shape[0]))
    return values, names, codes, check_sample_weight(sample_weight, values.shape[0])


def _request(confidence_level: float | None) -> IntervalRequest | None:
    if confidence_level is None:
        return None
    return IntervalRequest.of(confidence_level, 0, "asymptotic", 300, False, "population")
