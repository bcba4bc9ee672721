"""Predictions of models and calibrators, with one column a class."""

from typing import Any

import numpy as np

from priorshift._typing import Floats, Labels
from priorshift._validation import some


def classes_of(model: Any) -> Labels:
    """Read the names of a fitted model's columns."""
    if not hasattr(model, "classes_"):
        raise ValueError(
            "the frozen estimator has no classes_, so the columns of its predict_proba have no "
            "names: is it fitted? A model of your own needs the attribute classes_."
        )
    return np.asarray(model.classes_)


def predict_proba(model: Any, X: Any, classes: Labels) -> Floats:
    """Predict, and check that the columns are the classes, in their order."""
    name = type(model).__name__
    found = np.asarray(getattr(model, "classes_", classes))
    if not np.array_equal(found, classes):
        raise ValueError(
            f"{name} has the classes {some(found.tolist())} where {some(classes.tolist())} are "
            "needed; its columns would be taken for others."
        )
    y_proba = np.asarray(model.predict_proba(X))
    if y_proba.ndim != 2 or y_proba.shape[1] != classes.size:
        raise ValueError(
            f"predict_proba of {name} has shape {y_proba.shape}; one column a class is needed: "
            f"{some(classes.tolist())}."
        )
    return y_proba
