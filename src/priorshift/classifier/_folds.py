"""Out-of-fold predictions: each row is predicted by a model that was fitted without it."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params

from priorshift._typing import Floats, Indices, Labels, Vector
from priorshift._validation import some
from priorshift.classifier._columns import predict_proba
from priorshift.exceptions import PriorShiftWarning, warn_user

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
            f"({len(folds)}): what is known of its errors rests on those few.",
            PriorShiftWarning,
        )
    return classes


def _require_in_training(folds: list[Fold], codes: Indices, classes: Labels) -> None:
    """Refuse folds that train without a class: they would call it unpredictable."""
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
