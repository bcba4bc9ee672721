"""Checks of what a classifier is made of and fitted to."""

from typing import Any

from sklearn.utils import assert_all_finite, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from priorshift._typing import Labels
from priorshift._validation import as_array, read_labels
from priorshift.classifier._columns import name_of, unfrozen
from priorshift.estimators import PriorEstimator


def check_parts(estimator: Any, prior_estimator: Any, calibrator: Any) -> None:
    """Refuse parts that cannot do what is asked of them, before any work."""
    _check_estimator(estimator)
    if prior_estimator is not None and not isinstance(prior_estimator, PriorEstimator):
        raise ValueError(
            f"prior_estimator must be an instance such as EM(), or None; got {prior_estimator!r}. "
            "get_estimator makes one from its name."
        )
    if calibrator is not None:
        _check_calibrator(calibrator)


def _check_estimator(estimator: Any) -> None:
    given = unfrozen(estimator)
    if isinstance(given, type):
        raise ValueError(f"estimator must be an instance, {given.__name__}(); got the class.")
    try:
        estimator.predict_proba  # noqa: B018
    except AttributeError as error:  # which says why, for instance voting='hard'
        raise ValueError(
            f"estimator has no predict_proba ({name_of(estimator)}), and prior shift is corrected "
            "in probabilities. Give a classifier that has it; one with a decision_function alone "
            "can be wrapped in sklearn.calibration.CalibratedClassifierCV."
        ) from error
    if not hasattr(estimator, "get_params"):
        raise ValueError(
            f"estimator ({name_of(estimator)}) has no get_params, so no copies of it can be fitted "
            "to folds. If it is fitted already, use PriorAdaptedClassifier.from_fitted."
        )


def _check_calibrator(calibrator: Any) -> None:
    able = hasattr(calibrator, "fit") and hasattr(calibrator, "predict_proba")
    if isinstance(calibrator, type) or not able:
        raise ValueError(
            "calibrator must be an instance with fit(log_proba, y) and predict_proba(log_proba), "
            f"such as BCTS(), or None; got {calibrator!r}."
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
    labels = column_or_1d(as_array(y, "y"), warn=True)
    read = read_labels(labels)  # refuses missing labels, and text mixed with numbers
    if read.dtype.kind != "U":  # text stays as it came, for predictions come back like it
        labels = read
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    X, labels = indexable(X, labels)
    return X, labels
