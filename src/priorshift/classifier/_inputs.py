"""Checks of what a classifier is made of and fitted to."""

from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from priorshift._typing import Labels
from priorshift.estimators import PriorEstimator


def check_parts(estimator: Any, prior_estimator: Any, calibrator: Any) -> None:
    """Refuse parts that cannot do what is asked of them, before any work."""
    if not hasattr(estimator, "predict_proba"):
        raise ValueError(
            f"estimator has no predict_proba ({type(estimator).__name__}), and prior shift is "
            "corrected in probabilities; wrap it in sklearn.calibration.CalibratedClassifierCV."
        )
    if prior_estimator is not None and not isinstance(prior_estimator, PriorEstimator):
        raise ValueError(
            f"prior_estimator must be an instance such as EM(), or None; got {prior_estimator!r}. "
            "get_estimator makes one from its name."
        )
    if getattr(calibrator, "from_proba", False):
        raise ValueError(
            "calibrator has from_proba=True, but it will receive log-probabilities; leave "
            "from_proba at False."
        )


def read_training(X: Any, y: Any, owner: str) -> tuple[Any, Labels]:
    """Check labels, and that there is one a row; leave the rows to the inner estimator."""
    if y is None:
        raise ValueError(f"{owner} requires y to be passed, but the target y is None.")
    labels = column_or_1d(np.asarray(y), warn=True)
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    X, labels = indexable(X, labels)
    return X, labels
