"""What is kept of the batches of a target, so that they can be one target."""

from dataclasses import dataclass

import numpy as np

from priorshift._typing import Floats
from priorshift._validation import check_source_mass
from priorshift.estimators import PriorEstimate, PriorEstimator
from priorshift.statistics import DecisionCounts


@dataclass(frozen=True)
class Target:
    """Counts of decisions where the method rests on them, else all predictions, in float32."""

    counts: DecisionCounts | None
    batches: tuple[Floats, ...] = ()

    @classmethod
    def of(cls, y_proba: Floats, estimator: PriorEstimator) -> "Target":
        """Keep of a batch what the estimator needs."""
        check_source_mass(
            estimator.source_priors_,
            y_proba,
            estimator.classes_,
            origin=estimator.source_priors_from_,
        )
        if estimator.needs_rows:
            return cls(None, (y_proba.astype(np.float32),))
        decision = estimator.confusion_.decision
        return cls(DecisionCounts.from_arrays(y_proba, decision=decision))

    def __add__(self, other: "Target") -> "Target":
        if self.counts is None or other.counts is None:
            return Target(None, self.batches + other.batches)
        return Target(self.counts + other.counts)

    def estimate(self, estimator: PriorEstimator) -> PriorEstimate:
        """Estimate from all batches."""
        if self.counts is None:
            return estimator.estimate(np.concatenate(self.batches))
        return estimator.estimate_counts(self.counts)
