"""Labels of a target of which only some rows are labelled."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Indices, Labels, Mask
from priorshift._validation._classes import encode_labels, read_labels
from priorshift._validation._reading import as_array, is_missing

MISSING_NUMBER = -1


def known_labels(
    y_target: Any, classes: Labels, n_samples: int, unlabelled: Any = None
) -> tuple[Indices, Indices]:
    """Return which rows have a label, and these labels as positions in `classes`.

    None and NaN stand for an unknown label, and so does -1 unless it is a class; `unlabelled`
    names something else that does.

    Examples
    --------
    >>> import numpy as np
    >>> from priorshift._validation import known_labels
    >>> known_labels([None, "b", "a"], np.array(["a", "b"]), 3)
    (array([1, 2]), array([1, 0]))
    >>> known_labels([-1, 1, 0], np.array([0, 1]), 3)
    (array([1, 2]), array([1, 0]))
    """
    nothing = np.zeros(0, dtype=np.intp)
    if y_target is None:
        return nothing, nothing
    labels = _as_objects(y_target)
    if labels.shape != (n_samples,):
        raise ValueError(
            f"y_target has shape {labels.shape} but there are {n_samples} rows of predictions; "
            "give one entry per row, and None where the label is unknown."
        )
    rows = np.flatnonzero(_is_known(labels, classes, unlabelled))
    if not rows.size:
        return nothing, nothing
    known = read_labels(labels[rows], name="the labelled part of y_target")
    if known.dtype.kind == "f" and classes.dtype.kind in "iu" and (known % 1 == 0).all():
        known = known.astype(np.int64)  # a column with NaN holds its whole numbers as floats
    return rows, encode_labels(known, classes, "the labelled part of y_target")


def _is_known(labels: NDArray[np.object_], classes: Labels, unlabelled: Any) -> Mask:
    if unlabelled is not None:
        return np.fromiter((label != unlabelled for label in labels), bool, labels.size)
    known = ~np.fromiter((is_missing(label) for label in labels), bool, labels.size)
    if classes.dtype.kind in "iuf" and MISSING_NUMBER not in classes.tolist():
        known &= np.fromiter((_differs(label) for label in labels), bool, labels.size)
    return known


def _differs(label: Any) -> bool:
    return isinstance(label, str) or is_missing(label) or label != MISSING_NUMBER


def _as_objects(y_target: Any) -> NDArray[np.object_]:
    """Return labels as Python objects, so that None and NaN survive beside strings."""
    values = y_target.to_numpy() if hasattr(y_target, "to_numpy") else y_target
    return as_array(values, "y_target", object)
