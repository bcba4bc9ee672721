"""Predictions of the wrapped classifier: out of fold, calibrated, in the order of the classes."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import assert_all_finite, indexable
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, column_or_1d, has_fit_parameter

from priorshift._typing import Floats, Indices, Labels, Vector
from priorshift.border import (
    Predictions,
    as_array,
    check_proba,
    in_class_order,
    read_labels,
    some,
)
from priorshift.estimators import PriorEstimator
from priorshift.exceptions import PriorShiftWarning, warn_user


def unfrozen(model: Any) -> Any:
    """Return what was frozen, or a model that was not as it is."""
    return model.estimator if isinstance(model, FrozenEstimator) else model


def name_of(model: Any) -> str:
    """Name a model for a message, by what was frozen rather than that it was."""
    return type(unfrozen(model)).__name__


def classes_of(model: Any, y: Labels) -> Labels:
    """Read the names of a fitted model's columns, and check that labels are among them."""
    name = name_of(model)
    if not hasattr(model, "classes_"):
        raise ValueError(
            f"the frozen estimator ({name}) has no classes_, so the columns of its predict_proba "
            "have no names. Fit it first, or leave it unfrozen and it will be fitted here; a model "
            "of your own needs the attribute classes_."
        )
    classes = np.asarray(model.classes_)
    if classes.size < 2:
        raise ValueError(
            f"the frozen estimator ({name}) knows 1 class only ({some(classes.tolist())}); class "
            "priors need at least 2."
        )
    known = {*classes.tolist(), *map(str, classes.tolist())}  # a header is text, labels may not be
    strange = [k for k in np.unique(y).tolist() if k not in known and str(k) not in known]
    if strange:
        raise ValueError(
            f"y has classes that the frozen estimator ({name}) does not know: {some(strange)}; it "
            f"knows {some(classes.tolist())}. Leave out their rows, or train a model on them too."
        )
    return classes


def predict_proba(model: Any, X: Any, classes: Labels) -> Floats:
    """Predict and check the probabilities; columns are in the order of `classes`."""
    values: Floats = predictions_of(model, X, classes).values
    return values


def predictions_of(model: Any, X: Any, classes: Labels) -> Predictions:
    """Predict as `predict_proba` does; also return the frame, if the model returns one."""
    name = name_of(model)
    found = np.asarray(getattr(model, "classes_", classes))
    if set(found.tolist()) != set(classes.tolist()):
        raise ValueError(
            f"{name} has the classes {some(found.tolist())} where {some(classes.tolist())} are "
            "needed: it must be fitted to rows of every class. Calibrators such as BCTS are told "
            "the classes, and need no rows of each."
        )
    y_proba, name = model.predict_proba(X), f"predict_proba of {name}"
    if np.shape(y_proba)[1:] != classes.shape:
        raise ValueError(
            f"{name} has shape {np.shape(y_proba)}; one column per class is needed: "
            f"{some(found.tolist())}."
        )
    checked = check_proba(y_proba, name)
    values: Floats = in_class_order(checked, found, name)
    if not np.array_equal(found, classes):
        at = {label: column for column, label in enumerate(found.tolist())}
        values = values[:, [at[label] for label in classes.tolist()]]
    return replace(checked, values=values)


def check_parts(estimator: Any, prior_estimator: Any, calibrator: Any) -> None:
    """Reject unsuitable parts before any work."""
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
            "calibrator must be an instance with fit(y_proba, y) and predict_proba(y_proba), "
            f"such as BCTS(), or None; got {calibrator!r}."
        )
    if getattr(calibrator, "logits", False):
        raise ValueError(
            "calibrator has logits=True, but it will receive probabilities; leave out logits."
        )


def read_training(X: Any, y: Any, owner: str) -> tuple[Any, Labels]:
    """Check labels, and that there is one per row; leave the rows to the inner estimator."""
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


Fold = tuple[Indices, Indices]
"""Training and test rows; every row is a test row of one fold."""


def split(cv: Any, X: Any, y: Labels, params: Mapping[str, Any]) -> list[Fold]:
    """Cut rows into folds, and check that each is a test row once."""
    splitter = _splitter(cv, y, params)
    rows = np.arange(y.size)  # a splitter may give masks as well as indices
    with warnings.catch_warnings():
        # which classes are too rare for their folds is for require_classes to say
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        folds = [(rows[train], rows[test]) for train, test in splitter.split(X, y, **params)]
    if not folds:
        raise ValueError(
            "cv gives no folds; an iterator serves one fit only, so pass a list of (train, test)."
        )
    times = np.bincount(np.concatenate([test for _, test in folds]), minlength=y.size)
    bad = np.flatnonzero(times != 1)
    if bad.size:
        raise ValueError(
            f"cv must have every row among its test rows exactly once; row {bad[0]} is there "
            f"{times[bad[0]]} times ({bad.size} such rows). KFold and its kin do, "
            "ShuffleSplit and repeated folds do not."
        )
    return folds


def _splitter(cv: Any, y: Labels, params: Mapping[str, Any]) -> Any:
    """Make a splitter of `cv`, or say what it lacks."""
    # heavy: priorshift itself needs none of it
    from sklearn.model_selection import StratifiedKFold, check_cv

    splitter = check_cv(cv, y, classifier=True)
    wants_groups = get_routing_for_object(splitter).consumes("split", ["groups"])
    if wants_groups and "groups" not in params:
        raise ValueError(
            f"cv ({type(splitter).__name__}) needs groups, which reach it by metadata routing "
            "alone: call sklearn.set_config(enable_metadata_routing=True), then "
            "fit(X, y, groups=...)."
        )
    most = np.unique(y, return_counts=True)[1].max()
    if isinstance(splitter, StratifiedKFold) and splitter.n_splits > most:
        raise ValueError(
            f"cv asks for {splitter.n_splits} folds, but no class has more than {most} samples; "
            "use fewer folds, or give more rows."
        )
    return splitter


def require_classes(y: Labels, folds: list[Fold], weight: Vector | None, *, warn: bool) -> Labels:
    """Return the classes: two at least, and each known to every fold; warn of rare ones."""
    classes, codes = np.unique(y, return_inverse=True)
    weighty = classes[np.bincount(codes, weight) > 0].tolist()
    if len(weighty) < 2:
        raise ValueError(
            f"y has 1 class only ({some(weighty)}), apart from rows of weight 0; class priors "
            "need at least 2."
        )
    _require_in_training(folds, codes, classes)
    few = np.bincount(codes) < len(folds)
    if warn and few.any():
        warn_user(
            f"class {some(classes[few].tolist())} has fewer samples than there are folds "
            f"({len(folds)}): its errors are estimated from those few.",
            PriorShiftWarning,
        )
    return classes


def _require_in_training(folds: list[Fold], codes: Indices, classes: Labels) -> None:
    """Reject folds that train without a class, because they cannot predict it."""
    for number, (train, _) in enumerate(folds):
        absent = np.bincount(codes[train], minlength=classes.size) == 0
        if absent.any():
            raise ValueError(
                f"fold {number} of cv trains without class {some(classes[absent].tolist())}, so no "
                "out-of-fold prediction can know it. A class needs 2 samples at least, in "
                "different folds: drop or merge rare classes, or use stratified folds."
            )


def predict_out_of_fold(
    estimator: Any,
    X: Any,
    y: Labels,
    folds: list[Fold],
    classes: Labels,
    fit_params: Mapping[str, Any],
    n_jobs: int | None,
) -> Floats:
    """Predict each row by a clone that was fitted without it.

    Not by `cross_val_predict`, which replaces labels by numbers: a `class_weight` by name would
    fail.
    """
    parts = Parallel(n_jobs=n_jobs)(
        delayed(_fit_and_predict)(clone(estimator), X, y, fold, classes, fit_params)
        for fold in folds
    )
    y_proba = np.empty((y.size, classes.size), np.result_type(*parts))
    y_proba[np.concatenate([test for _, test in folds])] = np.concatenate(parts)
    return y_proba


def _fit_and_predict(
    estimator: Any, X: Any, y: Labels, fold: Fold, classes: Labels, fit_params: Mapping[str, Any]
) -> Floats:
    train, test = fold
    X_train, y_train = _safe_split(estimator, X, y, train)
    X_test, _ = _safe_split(estimator, X, None, test, train)
    estimator.fit(X_train, y_train, **_check_method_params(X, fit_params, train))
    return predict_proba(estimator, X_test, classes)


def calibrate(calibrator: Any, y_proba: Floats, classes: Labels) -> Floats:
    """Apply a fitted calibrator; None leaves predictions unchanged."""
    if calibrator is None:
        return y_proba
    return predict_proba(calibrator, y_proba, classes)


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

    def fit(rows: Indices) -> Any:
        weights = {} if weight is None else {"sample_weight": weight[rows]}
        return clone(calibrator).fit(y_proba[rows], y[rows], **more, **weights)

    calibrated = np.empty(y_proba.shape)
    with warnings.catch_warnings():
        # of classes that a fold lacks; of those that all rows lack, the fit on all of them warns
        warnings.simplefilter("ignore", PriorShiftWarning)
        for train, test in folds:
            calibrated[test] = predict_proba(fit(train), y_proba[test], classes)
    return fit(np.arange(y.size)), calibrated


def _fit_parameters(
    calibrator: Any, classes: Labels, source_priors: Any, weight: Vector | None
) -> dict[str, Any]:
    """Choose the arguments of the calibrator besides data and weights, by its signature."""
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
