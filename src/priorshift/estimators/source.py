"""The source's class balance, and whether validation's predictions contradict its labels."""

from dataclasses import dataclass

import numpy as np

from priorshift._typing import Floats, Indices, Labels, Vector

AGREES = 3.0
"""Standard errors within which a mean prediction agrees with priors that were given."""

CONTRADICTS = 4.0
"""Standard errors by which a mean prediction contradicts labels."""

NOTABLE, FACTOR = 0.05, 2.0
"""Least difference of a share, and least factor, that is worth a word."""


@dataclass(frozen=True)
class SourceBalance:
    """Label priors of the source, where they are from in words, and whether anyone told them."""

    priors: Vector
    words: str
    given: bool


def source_balance(
    y_proba: Floats,
    y: Indices,
    weight: Vector,
    source_priors: Vector | None,
    label_priors: Vector | None,
) -> SourceBalance:
    """Settle which class balance calibrated outputs stand for.

    Label priors if they are given. Source priors are what the classifier predicts on average: if
    that is what it predicts on validation, validation is drawn as the training set was, and its
    labels tell the balance; otherwise they are taken for label priors themselves.
    """
    if label_priors is not None:
        return SourceBalance(label_priors, "source_label_priors, as given", True)
    if source_priors is not None:
        mean, error = _mean(y_proba, weight)
        if (np.abs(mean - source_priors) > AGREES * error + 1e-6).any():
            return SourceBalance(source_priors, "source_priors, as given", True)
    K = y_proba.shape[1]
    counts = np.bincount(y, weight, K)
    added = np.full(K, 0.5)
    if source_priors is not None:
        added[source_priors == 0] = 0.0  # it was not in training, as they say
    priors = (counts + added) / (counts.sum() + added.sum())
    words = "class frequencies on validation"
    if source_priors is None:
        words += ", taken to be drawn as the training set was"
    else:
        words += " (its mean prediction agrees with source_priors)"
    return SourceBalance(priors, words, source_priors is not None)


@dataclass(frozen=True)
class Mismatch:
    """A class whose mean prediction contradicts its share of the labels."""

    column: int
    predicted: float
    labelled: float

    def say(self, classes: Labels) -> str:
        """Say it, with the likely cause."""
        name = classes[self.column]
        return (
            f"predictions on validation contradict its labels (class {name}: "
            f"{100 * self.predicted:.3g} % predicted on average, {100 * self.labelled:.3g} % of "
            "the labels), as after training with class weights or on undersampled data, or where "
            "outputs are far from calibrated"
        )


def mismatch_of(predicted: Vector, labelled: Vector, n: float) -> Mismatch | None:
    r"""Return the class whose mean prediction contradicts its labels most, if any does.

    Only for a validation set that is drawn as the training set was. The variance of
    :math:`f_k - [y = k]` is at most the mean of :math:`f_k + [y = k]`, so means alone will do.
    Classes that validation lacks are another matter, with a warning of its own.
    """
    predicted = np.where(labelled > 0, predicted, 0.0)
    predicted = predicted / (predicted.sum() or 1.0)
    apart = np.abs(predicted - labelled)
    error = np.sqrt((predicted + labelled) / max(n, 1.0))
    beyond = (apart > CONTRADICTS * error) & (apart > NOTABLE)
    beyond &= np.maximum(predicted, labelled) > FACTOR * np.minimum(predicted, labelled)
    if not beyond.any():
        return None
    k = int(np.argmax(np.where(beyond, apart, 0.0)))
    return Mismatch(k, float(predicted[k]), float(labelled[k]))


def _mean(y_proba: Floats, weight: Vector) -> tuple[Vector, Vector]:
    """Return the mean prediction and its standard error."""
    total = weight.sum()
    w = (weight / total).astype(y_proba.dtype)
    mean = (w @ y_proba).astype(np.float64)
    square = (w @ np.square(y_proba)).astype(np.float64)
    n = total**2 / float(weight @ weight)
    return mean, np.sqrt(np.maximum(square - mean**2, 0.0) / n)
