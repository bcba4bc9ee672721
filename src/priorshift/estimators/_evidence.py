"""What estimators keep of validation, and what they count on the target."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from priorshift._typing import Floats, Indices, Mask, Vector
from priorshift.adaptation import prior_ratio
from priorshift.execution import multiply
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

    def __add__(self, other: "Evidence") -> "Evidence":
        return Evidence(
            self.predicted + other.predicted,
            _add(self.confusion, other.confusion),
            _add(self.soft, other.soft),
        )


@dataclass(frozen=True)
class TargetCounts:
    """Target decisions on samples of the classes that validation saw.

    Samples of the other classes are set aside softly: a row counts by the chance that its class
    was seen. `unseen_priors` are what is set aside.
    """

    counts: DecisionCounts
    seen: Mask
    unseen_priors: Vector

    @classmethod
    def of(
        cls, y_proba: Floats, confusion: Confusion, source_priors: Vector | None
    ) -> "TargetCounts":
        """Count target decisions of the kind that `confusion` holds.

        With source priors, EM on the target says what share the unseen classes have. Without
        them nothing can: validation lacks a class, so its mean prediction is not the classifier's
        own prior, and dividing by it would blow the class up. Then predictions count as they are.
        """
        seen, weight = confusion.seen, None
        unseen_priors = np.zeros(seen.size)
        if not seen.all():
            scale, priors = np.ones(seen.size), np.ones(seen.size)
            if source_priors is not None:
                scale = prior_ratio(scale, source_priors)
                priors = maximise(Mixture.of(y_proba, scale=scale), tol=EM_TOL).value
            of_unseen = multiply(y_proba, np.where(seen, 0.0, scale * priors))
            of_any = multiply(y_proba, scale * priors)
            weight = 1 - np.divide(of_unseen, of_any, out=np.zeros_like(of_any), where=of_any > 0)
            if source_priors is None:
                priors = DecisionCounts.from_arrays(y_proba, decision="soft").frequencies
            unseen_priors = np.where(seen, 0.0, priors)
        counts = DecisionCounts.from_arrays(
            y_proba, decision=confusion.decision, sample_weight=weight
        )
        return cls(counts, seen, unseen_priors)

    @property
    def empty(self) -> bool:
        """Whether all of the target belongs to classes that validation never saw."""
        return bool(self.counts.counts.sum() <= 1e-9 * self.counts.n_samples)

    def complete(self, seen_priors: Vector) -> Vector:
        """Join priors of the seen classes, which sum to 1, with those of the others."""
        priors = self.unseen_priors.copy()
        priors[self.seen] = (1 - priors.sum()) * seen_priors
        return priors


def _add(one: Confusion | None, other: Confusion | None) -> Confusion | None:
    return None if one is None or other is None else one + other
