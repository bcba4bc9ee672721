"""Calibration of a classifier by any calibrator of log-probabilities, cross-fitted."""

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from priorshift._typing import Floats, Indices, Labels, Vector
from priorshift.calibration import TINY
from priorshift.classifier._columns import predict_proba
from priorshift.classifier._folds import Fold
from priorshift.exceptions import PriorShiftWarning, warn_user


def calibrate(calibrator: Any, y_proba: Floats, classes: Labels) -> Floats:
    """Calibrate by a fitted calibrator; None leaves predictions as they are."""
    if calibrator is None:
        return y_proba
    return predict_proba(calibrator, _log(y_proba), classes)


def cross_calibrate(
    calibrator: Any,
    y_proba: Floats,
    y: Labels,
    folds: Iterable[Fold],
    *,
    classes: Labels,
    source_priors: Any,
    weight: Vector | None,
) -> tuple[Any, Floats]:
    """Return a calibrator fitted on all rows, and predictions by ones fitted without each."""
    more = _fit_parameters(calibrator, classes, source_priors, weight)
    log_proba = _log(y_proba)

    def fit(rows: Indices) -> Any:
        weights = {} if weight is None else {"sample_weight": weight[rows]}
        return clone(calibrator).fit(log_proba[rows], y[rows], **more, **weights)

    calibrated = np.empty(y_proba.shape)
    with warnings.catch_warnings():
        # of classes that a fold lacks; of those that all rows lack, the fit on all of them warns
        warnings.simplefilter("ignore", PriorShiftWarning)
        for train, test in folds:
            calibrated[test] = predict_proba(fit(train), log_proba[test], classes)
    return fit(np.arange(y.size)), calibrated


def _fit_parameters(
    calibrator: Any, classes: Labels, source_priors: Any, weight: Vector | None
) -> dict[str, Any]:
    """Settle what the calibrator is told beyond data and weights, by what it can take."""
    name = type(calibrator).__name__
    if weight is not None and not has_fit_parameter(calibrator, "sample_weight"):
        raise ValueError(
            f"{name}.fit takes no sample_weight; use a calibrator that does, or no weights."
        )
    known = {"classes": classes}
    if source_priors is not None:
        known["source_label_priors"] = source_priors
        if not has_fit_parameter(calibrator, "source_label_priors"):
            warn_user(
                f"{name}.fit takes no source_label_priors, so it calibrates to the balance of y; "
                "if source_priors differ from that, adapted predictions are wrong by the ratio of "
                "the two.",
                PriorShiftWarning,
            )
    return {key: value for key, value in known.items() if has_fit_parameter(calibrator, key)}


def _log(y_proba: Floats) -> Vector:
    """Return logarithms that are finite everywhere, as calibrators want them."""
    return np.log(np.maximum(y_proba, TINY, dtype=np.float64))
