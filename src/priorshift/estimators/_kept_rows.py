"""KeepsRows: what the methods share that need validation row by row, not only its sums."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from priorshift._typing import Floats, Labels, Mask, Vector
from priorshift._validation import check_priors, some
from priorshift.adaptation import prior_ratio
from priorshift.estimators._base import PriorEstimator
from priorshift.estimators._certify import posterior_problem
from priorshift.estimators._evidence import EM_TOL, Evidence, Validation
from priorshift.exceptions import PriorShiftWarning, warn_user
from priorshift.execution import multiply
from priorshift.solvers import maximise
from priorshift.statistics import DecisionCounts


@dataclass(frozen=True)
class RowEvidence(Evidence):
    """Statistics of a validation set together with its rows."""

    rows: Validation

    def __add__(self, other: Evidence) -> "RowEvidence":
        assert isinstance(other, RowEvidence)
        total = super().__add__(other)
        rows = _join(self.rows, other.rows)
        return RowEvidence(total.predicted, total.confusion, total.soft, rows)


class KeepsRows(PriorEstimator):
    """Base of the methods that keep validation rows, also those that come in batches."""

    def _count(self, rows: Validation, given: tuple[Any, Any]) -> RowEvidence:
        sums = super()._count(rows, given)
        return RowEvidence(sums.predicted, sums.confusion, sums.soft, rows)

    def _settle(
        self,
        classes: Labels,
        given: tuple[Any, Any],
        evidence: Evidence | None,
        rows: Validation | None = None,  # noqa: ARG002
    ) -> Self:
        assert isinstance(evidence, RowEvidence)
        return super()._settle(classes, given, evidence, evidence.rows)

    def _validation_rows(self) -> Validation:
        """Return all validation rows."""
        assert self._validation is not None
        return self._validation


@dataclass(frozen=True)
class SeenTarget:
    """Target rows, each with the chance that its class is one that validation saw.

    Attributes
    ----------
    y_proba : ndarray of shape (n, K)
    weight : ndarray of shape (n,) or None
        Chance of a seen class; None is 1 for all.
    seen : ndarray of shape (K,)
    unseen_priors : ndarray of shape (K,)
        What the other classes get.
    """

    y_proba: Floats
    weight: Vector | None
    seen: Mask
    unseen_priors: Vector

    @classmethod
    def of(cls, estimator: PriorEstimator, y_proba: Floats) -> "SeenTarget":
        """Set aside, softly and with a warning, the classes that validation lacks.

        As for `TargetCounts`: EM says what share they have if source priors are known, else
        their predictions count as they are.
        """
        seen = estimator.confusion_.seen
        if seen.all():
            return cls(y_proba, None, seen, np.zeros(seen.size))
        known = any(given is not None for given in estimator._given)
        _warn_of_unseen(estimator, seen, known)
        if known:
            source = estimator.source_priors_
            priors = maximise(posterior_problem(y_proba, source), tol=EM_TOL).value
            factor = prior_ratio(priors, source)
        else:
            priors = DecisionCounts.from_arrays(y_proba, decision="soft").frequencies
            factor = np.ones(seen.size)
        of_unseen, of_any = (
            multiply(y_proba, np.where(seen, 0.0, factor)),
            multiply(y_proba, factor),
        )
        weight = 1 - np.divide(of_unseen, of_any, out=np.zeros_like(of_any), where=of_any > 0)
        return cls(y_proba, weight, seen, np.where(seen, 0.0, priors))

    @property
    def size(self) -> float:
        """How many rows there are of classes that were seen."""
        return self.y_proba.shape[0] if self.weight is None else float(self.weight.sum())

    @property
    def empty(self) -> bool:
        """Whether all of the target belongs to classes that validation never saw."""
        return self.size <= 1e-9 * self.y_proba.shape[0]

    def complete(self, seen_priors: Vector) -> Vector:
        """Join priors of the seen classes, which sum to 1, with those of the others."""
        priors = self.unseen_priors.copy()
        priors[self.seen] = (1 - priors.sum()) * seen_priors
        return priors


def label_priors_of(classes: Labels, given: tuple[Any, Any]) -> Vector | None:
    """Return the label priors of the training set as far as they are known, else None."""
    source_priors, label_priors = given
    if label_priors is not None:
        return check_priors(label_priors, classes, "source_label_priors")
    return None if source_priors is None else check_priors(source_priors, classes, "source_priors")


def in_canonical_order(rows: Validation) -> Validation:
    """Sort rows by what does not depend on the order of rows or classes, so that folds do not."""
    y_proba, y, weight = rows
    assert y is not None
    order = np.lexsort((y_proba.max(axis=1), y_proba[np.arange(y.size), y]))
    return Validation(y_proba[order], y[order], None if weight is None else weight[order])


def _join(one: Validation, other: Validation) -> Validation:
    """Put the rows of two batches together."""
    assert one.y is not None
    assert other.y is not None
    weight = None
    if one.sample_weight is not None or other.sample_weight is not None:
        weight = np.concatenate([_weight_of(one), _weight_of(other)])
    return Validation(
        np.concatenate([one.y_proba, other.y_proba]), np.concatenate([one.y, other.y]), weight
    )


def _weight_of(rows: Validation) -> Vector:
    if rows.sample_weight is not None:
        return rows.sample_weight
    return np.ones(rows.y_proba.shape[0])


def _warn_of_unseen(estimator: PriorEstimator, seen: Mask, known: bool) -> None:
    how = (
        "EM estimates it from the predictions alone"
        if known
        else "and without source_priors nothing can: its mean prediction is taken. Give "
        "source_priors"
    )
    warn_user(
        f"validation has no sample of class {some(estimator.classes_[~seen].tolist())}: "
        f"{estimator.name} cannot identify its prior, {how}.",
        PriorShiftWarning,
    )
