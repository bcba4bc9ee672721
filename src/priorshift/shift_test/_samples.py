"""What the tests look at: checked predictions of validation and target, in blocks of decisions."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from priorshift._blocks import row_blocks
from priorshift._typing import Floats, Indices, Labels, Vector
from priorshift._validation import (
    Predictions,
    check_proba,
    encode_labels,
    in_class_order,
    ordered,
    read_labels,
    settle_classes,
)
from priorshift.statistics import Confusion, Decision, DecisionCounts


@dataclass(frozen=True)
class Samples:
    """Clean predictions: validation with labels, the target without."""

    classes: Labels
    validation: Predictions
    y_val: Indices
    y_proba_target: Floats

    @property
    def y_proba_val(self) -> Floats:
        """Predictions of validation."""
        values: Floats = self.validation.values
        return values

    @property
    def class_counts(self) -> Indices:
        """Validation samples of each class."""
        return np.bincount(self.y_val, minlength=self.classes.size)

    @property
    def n_val(self) -> int:
        """Rows of validation."""
        return self.y_val.size

    @property
    def n_target(self) -> int:
        """Rows of the target."""
        return self.y_proba_target.shape[0]

    def counted(self, decision: Decision) -> Confusion:
        """Count validation's decisions by class, once for these checked predictions."""

        def count() -> Confusion:
            return Confusion.from_arrays(self.y_proba_val, self.y_val, decision=decision)

        key = ("confusion", decision)
        return self.validation.once(self.y_proba_val, key, (self.y_val, None), count)

    def confusion(self, decision: Decision) -> Vector:
        """Return C, a column of 0 for a class that validation lacks."""
        conditional: Vector = self.counted(decision).conditional
        return conditional

    def frequencies(self, decision: Decision) -> Vector:
        """Return q, the share of each decision in the target."""
        return DecisionCounts.from_arrays(self.y_proba_target, decision=decision).frequencies


def read_samples(
    y_proba_val: ArrayLike,
    y_val: ArrayLike,
    y_proba_target: ArrayLike,
    classes: ArrayLike | None = None,
) -> Samples:
    """Check predictions and labels; two rows of the target, and two of some class, are needed."""
    validation = check_proba(y_proba_val, "y_proba_val")
    labels = read_labels(y_val, validation.values.shape[0], "y_val")
    names = settle_classes(validation, labels, classes)
    target = in_class_order(check_proba(y_proba_target, "y_proba_target"), names, "y_proba_target")
    samples = Samples(
        names,
        ordered(validation, names, "y_proba_val"),
        encode_labels(labels, names, "y_val"),
        target,
    )
    if samples.n_target < 2:
        raise ValueError(
            f"y_proba_target has {samples.n_target} rows, which show no spread; give at least 2."
        )
    if samples.class_counts.max() < 2:
        raise ValueError(
            "validation has no class with 2 samples, so its noise cannot be known; give more."
        )
    return samples


def decision_blocks(y_proba: Floats, decision: Decision) -> Iterator[tuple[slice, Vector]]:
    """Yield blocks of decisions as float64 rows: the probabilities, or 1 for the argmax."""
    n, K = y_proba.shape
    for rows in row_blocks(n, K, 2**23):
        block = y_proba[rows]
        if decision == "soft":
            yield rows, block.astype(np.float64)
        else:
            chosen = np.zeros(block.shape)
            chosen[np.arange(block.shape[0]), block.argmax(axis=1)] = 1.0
            yield rows, chosen
