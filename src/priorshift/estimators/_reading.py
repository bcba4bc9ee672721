"""Reading validation: from what a user gives to class names and clean rows."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from priorshift._typing import Labels
from priorshift._validation import (
    check_proba,
    check_sample_weight,
    classes_of_priors,
    encode_labels,
    in_class_order,
    read_labels,
    settle_classes,
)
from priorshift.estimators._evidence import Validation
from priorshift.estimators._wide import as_taken
from priorshift.execution import Table, take_rows

Given = tuple[Any, Any]
"""`source_priors` and `source_label_priors` as they were given."""


def needs_soft(given: Given) -> bool:
    """Tell whether the source priors come from validation, re-weighted to label priors."""
    return given[0] is None and given[1] is not None


def classes_without_rows(estimator: Any, source_priors: Any, classes: ArrayLike | None) -> Labels:
    """Name the classes where there is no validation set, only source priors."""
    name = type(estimator).__name__
    if estimator._decision is not None:
        raise ValueError(f"{name} needs a validation set: fit(y_proba, y).")
    if source_priors is None:
        raise ValueError(
            f"{name} needs source priors, or predictions to take them from: "
            "fit(source_priors=...) or fit(y_proba)."
        )
    return classes_of_priors(source_priors, classes)


def read_rows(
    estimator: Any,
    y_proba: ArrayLike,
    y: ArrayLike | None,
    classes: ArrayLike | None,
    sample_weight: ArrayLike | None,
    given: Given,
    positive_class: Any = None,
) -> tuple[Labels, Validation]:
    """Check a batch of validation data; return its classes and its clean rows."""
    if y is None and estimator._decision is not None:
        raise ValueError(f"{type(estimator).__name__} needs validation labels: fit(y_proba, y).")
    if y is None and needs_soft(given):
        raise ValueError(
            "source_label_priors without source_priors need validation labels y: the mean "
            "prediction of each class is weighted by them."
        )
    predictions = check_proba(y_proba, tables=True)
    n_samples = predictions.values.shape[0]
    labels = None if y is None else read_labels(y, n_samples)
    names = settle_classes(predictions, labels, classes, positive_class)
    kept = estimator.keeps_rows
    values = as_taken(estimator, in_class_order(predictions, names), kept=kept)
    if kept and isinstance(values, Table):
        values = take_rows(values, np.arange(n_samples))
    rows = Validation(
        values,
        None if labels is None else encode_labels(labels, names),
        check_sample_weight(sample_weight, n_samples),
    )
    return names, rows
