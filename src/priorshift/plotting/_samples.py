"""What the displays of labelled predictions read."""

from typing import NamedTuple

from numpy.typing import ArrayLike

from priorshift._typing import Floats, Indices, Labels
from priorshift.border import (
    check_proba,
    encode_labels,
    in_class_order,
    read_labels,
    settle_classes,
)


class LabelledPredictions(NamedTuple):
    """Predictions whose columns follow `classes`, and labels as column numbers."""

    y_proba: Floats
    y: Indices
    classes: Labels


def read_labelled(
    y_proba: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None
) -> LabelledPredictions:
    """Check predictions and labels; the classes are those given, a frame's header or the labels.

    Examples
    --------
    >>> y_proba, y, classes = read_labelled([[0.9, 0.1], [0.4, 0.6]], ["cat", "dog"])
    >>> y.tolist(), classes.tolist()
    ([0, 1], ['cat', 'dog'])
    """
    predictions = check_proba(y_proba)
    labels = read_labels(y, predictions.values.shape[0])
    names = settle_classes(predictions, labels, classes)
    return LabelledPredictions(
        in_class_order(predictions, names), encode_labels(labels, names), names
    )
