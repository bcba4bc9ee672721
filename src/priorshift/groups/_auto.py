"""Groups by Auto: its calibration and its decision on the whole, then soft decisions by group."""

from dataclasses import replace

import numpy as np

from priorshift._typing import Floats, Indices, Labels, Vector
from priorshift.estimators import SCML, Auto
from priorshift.estimators._auto import calibration_of
from priorshift.groups._counts import count_groups
from priorshift.groups._decisions import by_itself, estimate_each, estimate_from_counts
from priorshift.groups._pooling import Pooling
from priorshift.groups._result import GroupEstimates
from priorshift.uncertainty import IntervalRequest


def estimate_by_auto(
    auto: Auto,
    values: Floats,
    names: Labels,
    codes: Indices,
    weight: Vector | None,
    pooling: Pooling,
    request: IntervalRequest | None,
) -> GroupEstimates:
    """Estimate groups by SCM-L on the outputs that Auto calibrates for the whole target.

    Where groups do not differ beyond noise, all of them get Auto's own estimate, and predictions
    are left alone if Auto leaves them alone. Where they do, each is adapted to its own priors:
    Auto's caution is about the whole, and pooling is that of the groups.
    """
    if weight is not None:
        raise ValueError("Auto takes no sample_weight; use SCM-L.")
    whole = auto.estimate(values)
    calibration, source_priors = calibration_of(auto)
    _, labels, of_validation = auto._rows()
    soft = SCML().fit(
        calibration.y_proba,
        auto.classes_[labels[calibration.order]],
        source_priors=source_priors,
        classes=auto.classes_,
        sample_weight=of_validation[calibration.order],
    )
    calibrated = calibration.average.apply(values)
    if by_itself(soft, calibrated, None, pooling, request):
        found = estimate_each(soft, calibrated, names, codes)
    else:
        counts = count_groups(calibrated, names, codes, "soft", None, covariance=True)
        found = estimate_from_counts(soft, counts, pooling, request)
    if np.isinf(found.pooling):
        priors = np.tile(whole.priors, (names.size, 1))
        return replace(
            found,
            priors=priors,
            whole=whole,
            pooled=whole,
            status=np.full(names.size, whole.status),
            gap=np.full(names.size, np.inf),
        )
    pooled = replace(
        found.pooled,
        method=whole.method,
        source_priors_from=whole.source_priors_from,
        calibrator=calibration.average,
        decision=whole.decision,
    )
    return replace(found, whole=whole, pooled=pooled)
