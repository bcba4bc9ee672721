"""ShiftedPredictions: what a bundled data set consists of."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Vector

Names = NDArray[np.str_]


@dataclass(frozen=True, eq=False, repr=False)
class ShiftedPredictions:
    """Predictions of one classifier on a labelled validation set and on a shifted target.

    The arrays are read-only; `array.copy()` gives one to write to.

    Attributes
    ----------
    name : str
        What to call the data set.
    description : str
        Where images, model and samples come from, and under which licence.
    classes : ndarray of str, shape (n_classes,)
        Class names in the order of the columns.
    y_proba_val : ndarray of shape (n_val, n_classes)
        Predicted probabilities on validation, balanced as the training set was.
    y_val : ndarray of str, shape (n_val,)
        Validation labels.
    y_proba_target : ndarray of shape (n_target, n_classes)
        Predicted probabilities on the target, balanced otherwise.
    y_target : ndarray of str, shape (n_target,)
        Target labels, to score with: no method may see them.
    source_priors : ndarray of shape (n_classes,)
        The classifier's mean prediction on its training set.

    Examples
    --------
    >>> from priorshift.datasets import load_fashion_lt
    >>> load_fashion_lt()
    ShiftedPredictions('fashion_lt', n_classes=10, n_val=3723, n_target=5085)
    """

    name: str
    description: str
    classes: Names
    y_proba_val: Vector
    y_val: Names
    y_proba_target: Vector
    y_target: Names
    source_priors: Vector

    def __post_init__(self) -> None:
        for name, value in list(vars(self).items()):
            if isinstance(value, np.ndarray):
                view = value.view()  # so that the caller's own array stays writable
                view.setflags(write=False)
                object.__setattr__(self, name, view)

    def __repr__(self) -> str:
        return (
            f"ShiftedPredictions({self.name!r}, n_classes={self.classes.size}, "
            f"n_val={self.y_val.size}, n_target={self.y_target.size})"
        )
