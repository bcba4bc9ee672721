"""Class priors, given as vectors or by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from priorshift._typing import Indices, Labels, Vector, are_numbers
from priorshift._validation._reading import SUM_TOLERANCE, as_array, as_mapping, some
from priorshift.execution import Block, Rows, SparseTable, map_reduce

NO_PRIOR = 1e-30
"""A prior up to this counts as 0: dividing by it would be meaningless."""

LEAST_BESIDE_REST = 1e-10
"""Smallest source prior for rows that spread a rest: listed scores are stored as differences."""

NEGLIGIBLE_MASS = 1e-6
"""A predicted probability up to this does not contradict a source prior of 0."""


def check_priors(priors: Any, classes: Labels, name: str) -> Vector:
    """Check class priors: an array in class order, or a mapping from class to prior.

    A pandas Series counts as a mapping, because `value_counts` sorts by frequency.
    """
    priors = as_mapping(priors, name)
    if isinstance(priors, Mapping):
        priors = _from_mapping(priors, classes, name)
    values = as_array(priors, name)
    if not are_numbers(values.dtype) or values.ndim != 1 or values.size != classes.size:
        alone = values.ndim == 0 and are_numbers(values.dtype)
        hint = (
            " A single number goes with 1-D probabilities of the positive class." if alone else ""
        )
        raise ValueError(
            f"{name} must be {classes.size} numbers, one per class ({some(classes.tolist())}); got "
            f"an array of shape {values.shape} and type {values.dtype}.{hint}"
        )
    values = values.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(values) | (values < 0))
    if bad.size:
        raise ValueError(
            f"{name} must be finite and at least 0; got {values[bad[0]]} for class "
            f"{classes[bad[0]].item()!r} (position {bad[0]})."
        )
    total = values.sum()
    if abs(total - 1) > SUM_TOLERANCE:
        raise ValueError(
            f"{name} must sum to 1 (tolerance {SUM_TOLERANCE}) but sums to {total:.6g}; if these "
            "are counts, divide them by their sum."
        )
    values[values <= NO_PRIOR] = 0
    return values / values.sum()


def check_source_mass(
    source_priors: Vector,
    outputs: Rows,
    classes: Labels,
    *,
    from_logits: bool = False,
    origin: str = "given",
) -> None:
    """Refuse a source prior of 0 for a class that the classifier predicts.

    `origin` says in words where the source priors come from, if they were not given.
    """
    if isinstance(outputs, SparseTable) and not outputs.exact:
        _require_room_for_rest(source_priors, classes)
    absent = np.flatnonzero(source_priors <= NO_PRIOR)
    if not absent.size:
        return
    largest = _largest_mass(outputs, absent, from_logits)
    if largest.max() > NEGLIGIBLE_MASS:
        at = int(np.argmax(largest))
        k = absent[at]
        where = f"class {classes[k].item()!r} (position {k}), yet y_proba gives it up to"
        if origin == "given":
            raise ValueError(
                f"source_priors is 0 for {where} {largest[at]:.3g}; a classifier cannot predict a "
                "class it was never trained on. Give the class its share of the training data."
            )
        raise ValueError(
            f"the source prior ({origin}) is 0 for {where} {largest[at]:.3g}: validation does not "
            "show how often the classifier predicts it where it was trained. Pass source_priors= "
            "with the class's share of the training data, or validate on rows for which the "
            "classifier predicts the class."
        )


def _require_room_for_rest(source_priors: Vector, classes: Labels) -> None:
    """Refuse source priors that rounding would lose in what sparse rows spread."""
    tiny = np.flatnonzero((source_priors > NO_PRIOR) & (source_priors < LEAST_BESIDE_REST))
    if tiny.size:
        raise ValueError(
            f"source_priors is {source_priors[tiny[0]]:.3g} for class "
            f"{classes[tiny[0]].item()!r} (position {tiny[0]}), which rounding loses in what rows "
            "of a TopK spread over the classes that they do not list; pass an array (toarray()), "
            f"rest='drop', or at least {LEAST_BESIDE_REST:g}."
        )


def _from_mapping(priors: Mapping[Any, Any], classes: Labels, name: str) -> list[Any]:
    by_name = {str(label): value for label, value in priors.items()}
    wanted = [str(label) for label in classes.tolist()]
    if set(by_name) != set(wanted):
        raise ValueError(
            f"{name} names the classes {some(list(priors))} but the classes are "
            f"{some(classes.tolist())}; give each class its prior."
        )
    return [by_name[label] for label in wanted]


def _largest_mass(outputs: Rows, columns: Indices, from_logits: bool) -> Vector:
    """Return the largest probability in each of the columns, in one pass."""
    found = map_reduce(_LargestMass(columns, from_logits), outputs)
    return np.max(found, axis=0)


@dataclass(frozen=True)
class _LargestMass:
    """Returns the largest probability of some columns in a block."""

    columns: Indices
    from_logits: bool

    def __call__(self, block: Block, rows: slice) -> list[Vector]:  # noqa: ARG002
        if self.from_logits:
            block = softmax(block.astype(np.float64), axis=1)
        block = block[:, self.columns]
        largest = block.max(axis=0)
        return [largest if isinstance(largest, np.ndarray) else largest.toarray().ravel()]
