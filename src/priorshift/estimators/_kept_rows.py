"""KeepsRows: what the methods share that need validation row by row, not only its sums."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from priorshift._typing import Labels, Vector
from priorshift._validation import check_priors
from priorshift.estimators._base import PriorEstimator
from priorshift.estimators._evidence import Evidence, SeenTarget, Validation
from priorshift.estimators._reading import Given
from priorshift.execution import Rows


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

    keeps_rows = True
    takes_sparse = False
    fit_is_counts = False

    def _count(self, rows: Validation, given: Given) -> RowEvidence:
        sums = super()._count(rows, given)
        return RowEvidence(sums.predicted, sums.confusion, sums.soft, rows)

    def _settle(
        self,
        classes: Labels,
        given: Given,
        evidence: Evidence | None,
        rows: Validation | None = None,  # noqa: ARG002
    ) -> Self:
        assert isinstance(evidence, RowEvidence)
        return super()._settle(classes, given, evidence, evidence.rows)

    def _seen_target(self, y_proba: Rows) -> SeenTarget:
        """Set aside, softly and with a warning, the classes that validation lacks."""
        seen = self.confusion_.seen
        return SeenTarget.of(y_proba, seen, self._source_of_unseen(seen, self.name))

    def _validation_rows(self) -> Validation:
        """Return all validation rows."""
        assert self._validation is not None
        return self._validation


def label_priors_of(classes: Labels, given: Given) -> Vector | None:
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
        weight = np.concatenate([weight_of(one), weight_of(other)])
    return Validation(
        np.concatenate([one.y_proba, other.y_proba]), np.concatenate([one.y, other.y]), weight
    )


def weight_of(rows: Validation) -> Vector:
    """Return the weight of each row, 1 where none was given."""
    if rows.sample_weight is not None:
        return rows.sample_weight
    return np.ones(rows.y_proba.shape[0])
