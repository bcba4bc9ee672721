"""Predictions of models and calibrators, with one column a class."""

from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from priorshift._typing import Floats, Labels
from priorshift._validation import check_proba, in_class_order, some


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
    """Predict, and check that these are distributions; columns are in the order of `classes`."""
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
            f"{name} has shape {np.shape(y_proba)}; one column a class is needed: "
            f"{some(found.tolist())}."
        )
    values: Floats = in_class_order(check_proba(y_proba, name), found, name)
    if np.array_equal(found, classes):
        return values
    at = {label: column for column, label in enumerate(found.tolist())}
    return values[:, [at[label] for label in classes.tolist()]]
