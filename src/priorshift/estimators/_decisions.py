"""DecisionEstimator: what the methods share that see no more of the target than its decisions."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from priorshift._typing import Vector
from priorshift._validation import check_source_mass, some
from priorshift.estimators._base import PriorEstimator
from priorshift.estimators._evidence import TargetCounts
from priorshift.estimators._result import PriorEstimate
from priorshift.execution import Rows
from priorshift.solvers import Solution
from priorshift.statistics import DecisionCounts


class DecisionEstimator(PriorEstimator):
    """Base of the methods that compare target decisions with a confusion matrix.

    A subclass says which decisions (`_decision`), and turns their counts into a `PriorEstimate` in
    `_solve`, where at least one class was seen on validation.
    """

    takes_sparse = True
    counts_suffice = True
    fit_is_counts = True

    @property
    def _columns(self) -> Vector:
        """The confusion matrix in use: how each class (column) is decided."""
        return self.confusion_.conditional

    @property
    def needs_rows(self) -> bool:
        """Whether validation lacks a class, whose share shows in rows of the target alone."""
        check_is_fitted(self)
        return not self.confusion_.seen.all()

    def _solve(self, target: TargetCounts) -> PriorEstimate:
        raise NotImplementedError

    def _estimate(self, y_proba: Rows) -> PriorEstimate:
        target = self._count_target(y_proba)
        if not target.empty:
            return self._solve(target)
        only_unseen = Solution(target.unseen_priors / target.unseen_priors.sum(), "direct")
        return self._result_of(target, only_unseen.value, only_unseen)

    def _estimate_counts(self, counts: DecisionCounts) -> PriorEstimate:
        seen = self.confusion_.seen
        if not seen.all():
            raise ValueError(
                f"validation has no sample of class {some(self.classes_[~seen].tolist())}, whose "
                "share shows in rows of the target alone, not in counts; use estimate(y_proba)."
            )
        decision, values = self.confusion_.decision, counts.counts
        if counts.decision != decision or values.shape != seen.shape:
            raise ValueError(
                f"{type(self).__name__} needs counts of {decision} decisions on {seen.size} "
                f"classes; got {counts.decision} decisions of shape {values.shape}. Count with "
                f"DecisionCounts.from_arrays(y_proba, decision={decision!r})."
            )
        if not values.any() or not counts.n_samples:
            raise ValueError("counts are 0 for every class, or of no rows; count at least one row.")
        check_source_mass(
            self.source_priors_,
            counts.frequencies[None],
            self.classes_,
            origin=self.source_priors_from_,
        )
        return self._solve(TargetCounts(counts, seen, np.zeros(seen.size)))

    def _count_target(self, y_proba: Rows) -> TargetCounts:
        """Count target decisions; name the classes that validation lacks, with a warning."""
        source = self._source_of_unseen(self.confusion_.seen, "a confusion matrix")
        return TargetCounts.of(y_proba, self.confusion_, source)

    def _result_of(
        self, target: TargetCounts, priors: Vector, solution: Solution, **more: Any
    ) -> PriorEstimate:
        """Wrap the priors of all classes, and say which of them validation lacks."""
        unseen = tuple(self.classes_[~target.seen].tolist())
        n_target = target.counts.n_samples
        return self._result(priors, solution, n_target, unseen_classes=unseen, **more)
