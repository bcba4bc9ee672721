"""What estimators keep of validation, and what they count on the target."""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Floats, Indices, Mask, Vector
from priorshift.adaptation import prior_ratio
from priorshift.execution import Block, Rows, map_reduce
from priorshift.solvers import Mixture, maximise
from priorshift.statistics import Confusion, Decision, DecisionCounts

EM_TOL = 0.01
"""Gap in nats of the EM that estimates unseen classes: that of the EM estimator itself."""


class Validation(NamedTuple):
    """The rows of a validation set, clean and in class order; intervals and Auto need them."""

    y_proba: Floats
    y: Indices | None
    sample_weight: Vector | None


@dataclass(frozen=True)
class Evidence:
    """Statistics of a validation set, mergeable with `+`; None for what is not needed."""

    predicted: DecisionCounts
    confusion: Confusion | None
    soft: Confusion | None

    @classmethod
    def of(
        cls,
        y_proba: Floats,
        y: Indices | None,
        weight: Vector | None,
        *,
        decision: Decision | None,
        needs_soft: bool,
    ) -> "Evidence":
        """Count validation predictions: all together, by decision, and softly if need be."""
        predicted = DecisionCounts.from_arrays(y_proba, decision="soft", sample_weight=weight)
        confusion = soft = None
        if y is not None and decision is not None:
            confusion = Confusion.from_arrays(y_proba, y, decision=decision, sample_weight=weight)
        if y is not None and needs_soft:
            soft = confusion
            if decision != "soft":
                soft = Confusion.from_arrays(y_proba, y, decision="soft", sample_weight=weight)
        return cls(predicted, confusion, soft)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the kind and number of rows of each part, and its arrays; see `from_arrays`."""
        named = {field.name: getattr(self, field.name) for field in fields(Evidence)}
        parts = {name: part for name, part in named.items() if part is not None}
        arrays = {f"{name}.counts": part.counts for name, part in parts.items()}
        arrays |= {
            f"{name}.class_weights": part.class_weights
            for name, part in parts.items()
            if isinstance(part, Confusion)
        }
        return {name: [part.decision, part.n_samples] for name, part in parts.items()}, arrays

    @classmethod
    def from_arrays(cls, described: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> "Evidence":
        """Put the parts together again."""
        parts: dict[str, Any] = {field.name: None for field in fields(Evidence)}
        for name, (decision, n_samples) in described.items():
            counts, weights = arrays[f"{name}.counts"], arrays.get(f"{name}.class_weights")
            parts[name] = (
                DecisionCounts(counts, decision, n_samples)
                if weights is None
                else Confusion(counts, weights, decision, n_samples)
            )
        return cls(**parts)

    def __add__(self, other: "Evidence") -> "Evidence":
        return Evidence(
            self.predicted + other.predicted,
            _add(self.confusion, other.confusion),
            _add(self.soft, other.soft),
        )


@dataclass(frozen=True)
class SeenChance:
    """The chance of rows that their class is one that validation saw, at the target's priors."""

    unseen: Vector
    all_classes: Vector

    def __call__(self, block: Block) -> Vector:
        of_unseen = (block @ self.unseen.astype(block.dtype)).astype(np.float64)
        of_any = (block @ self.all_classes.astype(block.dtype)).astype(np.float64)
        return 1 - np.divide(of_unseen, of_any, out=np.zeros_like(of_any), where=of_any > 0)


@dataclass(frozen=True)
class SeenTarget:
    """Target rows, each with the chance that its class is one that validation saw.

    Samples of the other classes are set aside softly: a row counts by that chance.

    Attributes
    ----------
    y_proba : ndarray or Table of shape (n, K)
    weight : SeenChance or None
        None is 1 for all.
    seen : ndarray of shape (K,)
    unseen_priors : ndarray of shape (K,)
        What the other classes get.
    """

    y_proba: Rows
    weight: SeenChance | None
    seen: Mask
    unseen_priors: Vector

    @classmethod
    def of(cls, y_proba: Rows, seen: Mask, source_priors: Vector | None) -> "SeenTarget":
        """Set aside the classes that validation lacks.

        With source priors, EM on the target says what share they have. Without them nothing can:
        validation lacks a class, so its mean prediction is not the classifier's own prior, and
        dividing by it would blow the class up. Then predictions count as they are.
        """
        if seen.all():
            return cls(y_proba, None, seen, np.zeros(seen.size))
        if source_priors is not None:
            scale = prior_ratio(np.ones(seen.size), source_priors)
            priors = maximise(Mixture.of(y_proba, scale=scale), tol=EM_TOL).value
            factor = scale * priors
        else:
            priors = DecisionCounts.from_arrays(y_proba, decision="soft").frequencies
            factor = np.ones(seen.size)
        weight = SeenChance(np.where(seen, 0.0, factor), factor)
        return cls(y_proba, weight, seen, np.where(seen, 0.0, priors))

    @cached_property
    def size(self) -> float:
        """How many rows there are of classes that were seen."""
        if self.weight is None:
            return self.y_proba.shape[0]
        return float(map_reduce(_WeightSum(self.weight), self.y_proba))

    @property
    def empty(self) -> bool:
        """Whether all of the target belongs to classes that validation never saw."""
        return self.size <= 1e-9 * self.y_proba.shape[0]

    def complete(self, seen_priors: Vector) -> Vector:
        """Join priors of the seen classes, which sum to 1, with those of the others."""
        return _complete(seen_priors, self.seen, self.unseen_priors)


@dataclass(frozen=True)
class TargetCounts:
    """Target decisions on samples of the classes that validation saw.

    `unseen_priors` are what is set aside: see `SeenTarget`.
    """

    counts: DecisionCounts
    seen: Mask
    unseen_priors: Vector

    @classmethod
    def of(
        cls, y_proba: Rows, confusion: Confusion, source_priors: Vector | None
    ) -> "TargetCounts":
        """Count target decisions of the kind that `confusion` holds."""
        target = SeenTarget.of(y_proba, confusion.seen, source_priors)
        counts = DecisionCounts.from_arrays(
            y_proba, decision=confusion.decision, sample_weight=target.weight
        )
        return cls(counts, target.seen, target.unseen_priors)

    @property
    def empty(self) -> bool:
        """Whether all of the target belongs to classes that validation never saw."""
        return bool(self.counts.counts.sum() <= 1e-9 * self.counts.n_samples)

    def complete(self, seen_priors: Vector) -> Vector:
        """Join priors of the seen classes, which sum to 1, with those of the others."""
        return _complete(seen_priors, self.seen, self.unseen_priors)


@dataclass(frozen=True)
class _WeightSum:
    weight: SeenChance

    def __call__(self, block: Block, rows: slice) -> float:  # noqa: ARG002
        return float(self.weight(block).sum())


def _complete(seen_priors: Vector, seen: Mask, unseen_priors: Vector) -> Vector:
    priors = unseen_priors.copy()
    priors[seen] = (1 - priors.sum()) * seen_priors
    return priors


def _add(one: Confusion | None, other: Confusion | None) -> Confusion | None:
    return None if one is None or other is None else one + other
