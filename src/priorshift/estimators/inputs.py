"""From what you pass to records: one for validation, however it is given, and one for the target.

Probabilities with labels, decisions with labels, and a confusion matrix all become the same
`Evidence`, counts that add. What a method can read follows from its class attributes.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from priorshift._typing import Indices
from priorshift.border import (
    DENSE_CLASSES,
    DenseBlocks,
    Predictions,
    Rows,
    check_choice,
    check_classes,
    check_counts,
    check_proba,
    check_sample_weight,
    check_source_mass,
    in_class_order,
    is_named,
    is_sparse,
    ordered,
    read_decisions,
    read_labelled,
    settle_classes,
    warn_if_adapted,
    warn_of_missing_names,
    whole,
)
from priorshift.counts import Confusion, DecisionCounts
from priorshift.estimators.data import Evidence, Given, Validation, ValidationCounts
from priorshift.exceptions import argument

if TYPE_CHECKING:
    from priorshift.estimators.base import PriorEstimator

MOST_CELLS = 2**25
"""Numbers of a sparse validation set that is made an array, for methods that keep its rows."""


def read_evidence(
    method: "PriorEstimator",
    given: Given,
    y_proba: Any = None,
    y: Any = None,
    *,
    y_pred: Any = None,
    confusion: Any = None,
    classes: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> Evidence:
    """Check what validation is given as; count it."""
    check_choice(method.decision, ("hard", "soft", None), "decision")
    if confusion is not None:
        beside = {"y_proba": y_proba, "y": y, "y_pred": y_pred, "sample_weight": sample_weight}
        if more := [name for name, value in beside.items() if value is not None]:
            raise ValueError(
                f"confusion= takes the place of a validation set; leave out {', '.join(more)}."
            )
        if not isinstance(confusion, Confusion):
            raise ValueError(
                "confusion must be a Confusion, as Confusion.from_counts(matrix) or "
                f"Confusion.from_rates(...) return; got {type(confusion).__name__}."
            )
        require_decisions(method, None, None)
        if confusion.decision != "hard":
            raise ValueError(
                "confusion counts soft decisions, whose spread it does not tell; give one of hard "
                "decisions, as Confusion.from_counts does."
            )
        K = confusion.class_weights.size
        require_room(method, K)
        named = confusion.classes if classes is None else classes
        names = np.arange(K) if named is None else check_classes(named, K)
        counts = ValidationCounts.of_decisions(confusion)
        return Evidence(names, given.checked(names), counts, source_known=given.any)
    if y_pred is not None or are_decisions(y_proba):
        require_decisions(method, y_pred, y_proba)
        if y is None:
            raise ValueError(
                f"{type(method).__name__} needs validation labels: fit(y_pred=..., y=...)."
            )
        if y_pred is None:
            names, _, truth = read_labelled(y_proba, y, classes, tables=True)
            decided = y_proba.decided
        else:
            names, decided, found = read_decisions(y_pred, y, classes)
            assert found is not None
            truth = found
        require_room(method, names.size)
        weight = check_sample_weight(sample_weight, truth.size)
        counted = Confusion.from_decisions(decided, truth, names.size, weight)
        counts = ValidationCounts.of_decisions(counted)
        return Evidence(names, given.checked(names), counts)
    if y_proba is None:
        names = method._classes_without_rows(given.source_priors, classes)
        return Evidence(names, given.checked(names), None)
    labels: Indices | None = None
    if y is not None:
        names, predictions, labels = read_labelled(y_proba, y, classes, tables=True)
    elif method.decision is not None:
        raise ValueError(f"{type(method).__name__} needs validation labels: fit(y_proba, y).")
    elif given.needs_soft:
        raise ValueError(
            f"{argument('source_label_priors')} without {argument('source_priors')} need "
            "validation labels y: the mean prediction of each class is weighted by them."
        )
    else:
        predictions = check_proba(y_proba, tables=True, classes=classes)
        names = settle_classes(predictions, classes=classes)
        predictions = ordered(predictions, names)
    values = _as_taken(method, predictions.values, kept=method._keeps_rows)
    if method._keeps_rows:
        values = whole(values)
    weight = check_sample_weight(sample_weight, predictions.shape[0])
    checked = predictions if values is predictions.values else None
    rows = Validation(values, labels, weight, checked)
    counts = ValidationCounts.of(rows, decision=method.decision, needs_soft=given.needs_soft)
    return Evidence(names, given.checked(names), counts, rows, is_named(predictions))


def read_target(method: "PriorEstimator", y_proba: Any) -> Any:
    """Check predictions on the target; return them in class order, as the method takes them."""
    classes = method.classes_
    warn_if_adapted(y_proba)
    predictions = check_proba(y_proba, tables=True, classes=classes)
    if method._evidence.named:
        warn_of_missing_names(y_proba, classes, "y_proba")
    values = _as_taken(method, in_class_order(predictions, classes))
    source = method._denominator
    if not (source is None or method._decisions_only or are_decisions(y_proba)):
        check_source_mass(source, values, classes, origin=method.source_priors_from_)
    return values


def count_decisions(method: "PriorEstimator", y_pred: Any, y_proba: Any) -> DecisionCounts:
    """Count the decisions of the target, given as such or by their probabilities."""
    require_decisions(method, y_pred, y_proba)
    classes = method.classes_
    if y_pred is not None:
        _, decided, _ = read_decisions(y_pred, classes=classes)
        return DecisionCounts.from_decisions(decided, classes.size)
    rows = ordered(check_proba(y_proba, tables=True, classes=classes), classes)
    if rows.decided is not None:
        return DecisionCounts.from_decisions(rows.decided, classes.size)
    return DecisionCounts.from_arrays(rows.values, decision="hard")


def read_counts(method: "PriorEstimator", counts: Any) -> DecisionCounts:
    """Read a plain vector as numbers of hard decisions, for the methods that compare these."""
    if isinstance(counts, DecisionCounts):
        return counts
    if method.needs_probabilities:
        raise ValueError(
            "counts must be DecisionCounts, as DecisionCounts.from_arrays(y_proba, "
            f"decision=...) returns; got {type(counts).__name__}."
        )
    values = check_counts(counts)
    if (values % 1).any():
        raise ValueError(
            "counts must be whole numbers, how often each class was decided for; got "
            f"{values}. Multiply shares by the number of rows."
        )
    return DecisionCounts(values.astype(np.float64), "hard", int(values.sum()))


def uses_labels(method: "PriorEstimator", y_target: Any, sample_weight: Any) -> bool:
    """Tell whether to look at labels of the target; refuse those that the method cannot use."""
    if y_target is None and sample_weight is not None:
        raise ValueError("sample_weight is that of labelled rows; pass y_target= beside it.")
    if y_target is None or method.target_labels != "unused":
        return y_target is not None or method.target_labels == "required"
    from priorshift.estimators.registry import label_methods

    raise ValueError(
        f"{type(method).__name__} does not use labels of the target; leave out "
        f"{argument('y_target')}, or use one of {', '.join(label_methods())}."
    )


def require_decisions(method: "PriorEstimator", y_pred: Any, y_proba: Any) -> None:
    """Refuse decisions where they do not suffice, or where probabilities are given as well."""
    if y_pred is not None and y_proba is not None:
        raise ValueError("y_proba and y_pred are two ways to give the same; pass one of them.")
    if method.needs_probabilities:
        from priorshift.estimators.registry import decision_methods

        raise ValueError(
            f"{type(method).__name__} needs predicted probabilities (y_proba); decisions "
            f"(y_pred) suffice for {', '.join(decision_methods())}."
        )


def require_room(method: "PriorEstimator", K: int) -> None:
    """Refuse very many classes where dense matrices of classes by classes are needed."""
    if K > DENSE_CLASSES and not method._wide:
        raise ValueError(
            f"{method!r} needs dense matrices of classes by classes, and {K} classes are too "
            f"many for that (sparse predictions may have at most {DENSE_CLASSES}); use a "
            "method that needs none, such as SCM-L or EM."
        )


def are_decisions(y_proba: Any) -> bool:
    """Tell whether rows that were checked before stand for decisions without probabilities."""
    return isinstance(y_proba, Predictions) and y_proba.decided is not None


def _as_taken(method: "PriorEstimator", values: Rows, *, kept: bool = False) -> Any:
    """Return predictions in the form that the method can use, or say which methods can.

    Beyond `DENSE_CLASSES` classes only wide methods can. Up to there, a method that does not take
    sparse rows reads them as arrays, a few at a time; rows that it keeps must be few.
    """
    if not is_sparse(values):
        return values
    n, K = values.shape
    require_room(method, K)
    if kept and n * K > MOST_CELLS:
        raise ValueError(
            f"{type(method).__name__} needs validation row by row, as an array of {n} x {K} "
            f"numbers; give at most {MOST_CELLS // K} rows, or use a method that counts them, "
            "such as SCM-L."
        )
    return values if method._takes_sparse else DenseBlocks(values)
