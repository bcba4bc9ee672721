"""What estimators keep of validation, and what they count on the target."""

from dataclasses import dataclass

import numpy as np

from priorshift._typing import Floats, Indices, Mask, Vector
from priorshift.adaptation import prior_ratio
from priorshift.execution import multiply
from priorshift.solvers import Mixture, maximise
from priorshift.statistics import Confusion, Decision, DecisionCounts


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

    Samples of the other classes are set aside softly: a row counts by the chance, according to
    EM on the target, that its class was seen. `unseen_priors` are EM's priors of the rest.
    """

    counts: DecisionCounts
    seen: Mask
    unseen_priors: Vector

    @classmethod
    def of(cls, y_proba: Floats, confusion: Confusion, source_priors: Vector) -> "TargetCounts":
        """Count target decisions of the kind that `confusion` holds."""
        seen, unseen_priors, weight = confusion.seen, np.zeros_like(source_priors), None
        if not seen.all():
            scale = prior_ratio(np.ones_like(source_priors), source_priors)
            priors = maximise(Mixture.of(y_proba, scale=scale), tol=0.01).value
            unseen_priors = np.where(seen, 0.0, priors)
            of_seen, of_any = (
                multiply(y_proba, scale * part) for part in (priors - unseen_priors, priors)
            )
            weight = np.divide(of_seen, of_any, out=np.zeros_like(of_any), where=of_any > 0)
        counts = DecisionCounts.from_arrays(
            y_proba, decision=confusion.decision, sample_weight=weight
        )
        return cls(counts, seen, unseen_priors)

    def complete(self, seen_priors: Vector) -> Vector:
        """Join priors of the seen classes, which sum to 1, with those of the others."""
        priors = self.unseen_priors.copy()
        priors[self.seen] = (1 - priors.sum()) * seen_priors
        return priors


def _add(one: Confusion | None, other: Confusion | None) -> Confusion | None:
    return None if one is None or other is None else one + other
