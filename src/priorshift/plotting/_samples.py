"""What the displays of labelled predictions read."""

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from priorshift._typing import Floats, Indices, Labels
from priorshift.border import (
    check_proba,
    encode_labels,
    in_class_order,
    read_labels,
    settle_classes,
)
from priorshift.exceptions import warn_user


class LabelledPredictions(NamedTuple):
    """Predictions whose columns follow `classes`, and labels as column numbers."""

    y_proba: Floats
    y: Indices
    classes: Labels


def labels_first(make: Callable[..., Any]) -> Callable[..., Any]:
    """Let `make(cls, y, y_proba, ...)` also be called in its former order, with a warning.

    Predictions have two axes and labels one, so the order shows. Two arrays of one axis are
    rejected unless they are passed by name.
    """

    @wraps(make)
    def from_predictions(cls: type, *arrays: Any, **named: Any) -> Any:
        if len(arrays) == 1 and "y" in named:
            arrays = (arrays[0], named.pop("y"))
        if len(arrays) != 2:
            return make(cls, *arrays, **named)
        first, second = (_n_axes(array) for array in arrays)
        if first == second == 1:
            raise ValueError(
                "two arrays of one axis may be meant in either order; name them: y=labels, "
                "y_proba=probabilities."
            )
        if first == 2 and second == 1:
            warn_user(
                f"{cls.__name__}.from_predictions takes labels first, as scikit-learn does: "
                "from_predictions(y, y_proba). The former order will be removed in priorshift 0.3.",
                FutureWarning,
            )
            arrays = arrays[::-1]
        return make(cls, *arrays, **named)

    return from_predictions


def _n_axes(array: Any) -> int:
    shape = getattr(array, "shape", None)
    return len(shape) if isinstance(shape, tuple) else np.ndim(array)


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
