"""How good adapted predictions and estimated priors are, where the truth is known."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import accuracy_score

from priorshift._frozen import refuse_nan
from priorshift._typing import Floats, Indices, Labels, Vector
from priorshift._validation import (
    check_priors,
    check_proba,
    encode_labels,
    in_class_order,
    read_labels,
)


@dataclass(frozen=True)
class Scores:
    """Quality of adapted predictions and of the priors they were adapted to.

    Attributes
    ----------
    accuracy : float
        Share of right decisions.
    balanced_accuracy : float
        Mean recall of the classes that the target has.
    log_loss : float
        Mean of -log(probability of the true class), in nats; probabilities below the smallest
        step of float64 count as that step, as in scikit-learn.
    l1_error : float
        Sum over classes of `abs(estimated - true prior)`; 0 is perfect and 2 the worst.
    """

    accuracy: float
    balanced_accuracy: float
    log_loss: float
    l1_error: float

    def __post_init__(self) -> None:
        refuse_nan(self)


def score(y_proba: ArrayLike, y: ArrayLike, priors: Any, *, classes: ArrayLike) -> Scores:
    r"""Score adapted predictions and estimated priors against labels.

    Parameters
    ----------
    y_proba : array-like of shape (n_samples, n_classes)
        Adapted probabilities.
    y : array-like of shape (n_samples,)
        The target's labels.
    priors : array-like of shape (n_classes,) or mapping
        The priors that were estimated for the target.
    classes : array-like of shape (n_classes,)
        Class names in the order of the columns.

    Returns
    -------
    Scores

    Examples
    --------
    >>> from priorshift.evaluation import score
    >>> score([[0.8, 0.2], [0.4, 0.6]], [0, 1], [0.6, 0.4], classes=[0, 1])
    Scores(accuracy=1.0, balanced_accuracy=1.0, log_loss=0.366..., l1_error=0.199...)
    """
    names = read_labels(classes, name="classes")
    values = in_class_order(check_proba(y_proba), names)
    index = encode_labels(read_labels(y, values.shape[0]), names)
    return score_rows(values, index, check_priors(priors, names, "priors"))


def score_rows(values: Floats, index: Indices, priors: Vector) -> Scores:
    """Score clean rows against true column numbers."""
    n_classes = priors.size
    decided = values.argmax(axis=1)
    counts = np.bincount(index, minlength=n_classes)
    hits = np.bincount(index[decided == index], minlength=n_classes)
    present = counts > 0
    of_truth = values[np.arange(index.size), index].astype(np.float64)
    return Scores(
        accuracy=float(accuracy_score(index, decided)),
        balanced_accuracy=float((hits[present] / counts[present]).mean()),
        log_loss=float(-np.log(of_truth.clip(min=np.finfo(np.float64).eps)).mean()),
        l1_error=float(np.abs(priors - counts / index.size).sum()),
    )


def true_priors(labels: Labels, classes: Labels) -> Vector:
    """Return the label frequencies in the order of `classes`."""
    counts = np.bincount(encode_labels(labels, classes, "y_target"), minlength=classes.size)
    return counts / counts.sum()
