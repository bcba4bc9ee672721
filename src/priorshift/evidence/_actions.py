"""What can be done to predictions: nothing, calibrate, adapt in full; on validation and target."""

from typing import Any

import numpy as np

from priorshift._typing import Floats, Indices, Vector
from priorshift.adapt import prior_ratio, reweight
from priorshift.border import Predictions
from priorshift.estimators import Auto, CalibratedMean, PriorEstimate, PriorEstimator
from priorshift.evidence._promises import Shares, Target, Validation


def fit_mean(fitted: PriorEstimator, y_proba: Any, y: Any, **given: Any) -> CalibratedMean:
    """Return the calibrated mean, by the calibration that Auto has fitted, or by its own.

    With `groups`, folds go by group, and the calibration is fitted anew.
    """
    if isinstance(fitted, Auto) and given.get("groups") is None:
        return CalibratedMean.beside(fitted)
    return CalibratedMean(random_state=0).fit(y_proba, y, classes=fitted.classes_, **given)


def ungated(estimate: PriorEstimate) -> PriorEstimate:
    """Return an estimate that adapts in full, whatever its method decided."""
    return estimate if estimate.strength > 0 else estimate.with_action("adapt")


def act_on_target(estimate: PriorEstimate, mean: PriorEstimate, y_proba: Floats) -> Target:
    """Return the target's predictions as they came, calibrated, and adapted in full."""
    rows = Predictions.from_checked(y_proba)
    calibrated = mean.adapt(rows)
    if estimate.decision is None:
        return Target(y_proba, calibrated, ungated(estimate).adapt(rows))
    ratio = prior_ratio(estimate.priors, estimate.source_priors)  # Auto has calibrated alike
    return Target(y_proba, calibrated, reweight(calibrated, ratio))


def act_on_validation(
    estimate: PriorEstimate,
    mean: CalibratedMean,
    y_proba: Floats,
    y: Indices,
    groups: Indices | None,
) -> Validation:
    """Return the same of validation, calibrated out of fold."""
    calibrated = mean.out_of_fold()
    if estimate.decision is None:
        adapted = ungated(estimate).adapt(Predictions.from_checked(y_proba))
    else:
        adapted = reweight(calibrated, prior_ratio(estimate.priors, estimate.source_priors))
    return Validation(y_proba, calibrated, adapted, y, groups)


def shares_by_reading(estimate: PriorEstimate, mean: PriorEstimate) -> Shares:
    """Return shares before, by the mean and by the estimate, with the estimate's covariance.

    Standard errors alone do not tell it: errors are taken to be as independent as shares that sum
    to 1 can be.
    """
    error = estimate.standard_error
    variance = np.zeros_like(estimate.priors) if error is None else error**2
    covariance: Vector = np.diag(variance)
    if (total := float(variance.sum())) > 0:
        covariance = covariance - np.outer(variance, variance) / total
        covariance *= total / max(float(np.trace(covariance)), 1e-300)
    assert mean.source_priors is not None
    return Shares(mean.source_priors, mean.priors, estimate.priors, covariance)
