r"""A confusion matrix whose columns are shrunk towards what the classifier says of itself.

.. math:: C_k = \frac{n_k \hat C_k + s\, C^m_k}{n_k + s}, \qquad
    C^m_k = \frac{\sum_x \omega f_k(x)\, d(x)}{\sum_x \omega f_k(x)}

with decisions d (hard or soft) and weights :math:`\omega` that give validation the class balance of
the source. Were the classifier calibrated, :math:`C^m` would be the confusion matrix itself, from
all rows instead of those of one class. The strength s, in samples, is the one under which the
decisions of held-out rows are likeliest.
"""

from typing import Literal, Self

import numpy as np

from priorshift._blocks import row_blocks
from priorshift._typing import Floats, Labels, Mask, Vector
from priorshift._validation import check_choice, check_positive
from priorshift.adaptation import prior_ratio
from priorshift.calibration._likelihood import deal_folds
from priorshift.estimators._certify import certified
from priorshift.estimators._decisions import DecisionEstimator
from priorshift.estimators._evidence import Evidence, TargetCounts, Validation
from priorshift.estimators._kept_rows import (
    KeepsRows,
    RowEvidence,
    in_canonical_order,
    label_priors_of,
)
from priorshift.estimators._likelihood import _report_impossible
from priorshift.estimators._reading import Given
from priorshift.estimators._references import GUIDE
from priorshift.estimators._result import PriorEstimate
from priorshift.execution import single_threaded_blas
from priorshift.solvers import Mixture
from priorshift.statistics import Confusion, Decision

STRENGTHS = np.array([0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0])
"""What `shrinkage="cv"` chooses from, in samples a class."""

N_FOLDS = 5
GRAM_BYTES = 2**23
"""Blocks of rows whose products are summed: large enough for matrix products to be fast."""

EMPTY = 1e-12
"""What an impossible decision counts for when likelihoods are compared."""


class KeepsShrunkConfusion(KeepsRows, DecisionEstimator):
    """Base of the methods with `confusion_` as counted and `model_confusion_` beside it.

    A subclass has the parameter `shrinkage`; `shrinkage_` is the strength in use.
    """

    shrinkage: float | Literal["cv"]

    def _settle(
        self,
        classes: Labels,
        given: Given,
        evidence: Evidence | None,
        rows: Validation | None = None,
    ) -> Self:
        assert isinstance(evidence, RowEvidence)
        assert evidence.confusion is not None
        ordered = in_canonical_order(evidence.rows)
        weight = balanced_weight(ordered, label_priors_of(classes, given), evidence.confusion)
        strength = self._strength(ordered, weight)
        model = model_columns(ordered.y_proba, weight, self._hard)
        super()._settle(classes, given, evidence, rows)
        self.shrinkage_, self.model_confusion_ = strength, model
        return self

    @property
    def _hard(self) -> bool:
        return self._decision == "hard"

    def _strength(self, rows: Validation, weight: Vector) -> float:
        if isinstance(self.shrinkage, str):
            check_choice(self.shrinkage, ("cv",), "shrinkage")
            return best_strength(rows, weight, "hard" if self._hard else "soft")
        return check_positive(self.shrinkage, "shrinkage") if self.shrinkage else 0.0


class ShrunkSCML(KeepsShrunkConfusion):
    r"""SCM-L with a confusion matrix shrunk towards the classifier's own account of it.

    .. math:: C_k = \frac{n_k \hat C_k + s\, C^m_k}{n_k + s}, \qquad
        C^m_k = \frac{\sum_x \omega f_k(x) f(x)}{\sum_x \omega f_k(x)}

    where validation has few samples :math:`n_k` of a class, its column is mostly noise; the model's
    own column is free of it and, to the extent that the classifier is calibrated, right. Weights
    :math:`\omega` give validation the class balance of the source.

    Parameters
    ----------
    shrinkage : float or "cv", default="cv"
        s, in samples a class; 0 is SCM-L. "cv" takes the one under which the decisions of held-out
        validation rows are likeliest.
    tol : float, default=1e-6
        Duality gap in nats to reach.
    max_iter : int, default=1000
        Most steps.

    Attributes
    ----------
    confusion_ : Confusion
        As counted.
    model_confusion_ : ndarray of shape (n_classes, n_classes)
        The model's columns.
    shrinkage_ : float
        The strength in use.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_val = np.array([0, 0, 1, 1])
    >>> y_proba_val = np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.2, 0.8]])
    >>> y_proba = np.array([[0.8, 0.2], [0.8, 0.2], [0.2, 0.8]])
    >>> ps.ShrunkSCML(shrinkage=2).fit(y_proba_val, y_val).estimate(y_proba).priors.round(3)
    array([0.704, 0.296])
    """

    name = "scm-l-shrunk"
    summary = (
        "maximises the likelihood of soft decisions under a confusion matrix shrunk towards the "
        "classifier’s own account of it"
    )
    reference = GUIDE
    batch = "likelihood"

    def __init__(
        self,
        *,
        shrinkage: float | Literal["cv"] = "cv",
        tol: float = 1e-6,
        max_iter: int = 1000,
    ) -> None:
        self.shrinkage, self.tol, self.max_iter = shrinkage, tol, max_iter

    @property
    def _decision(self) -> Decision:
        return "soft"

    @property
    def _columns(self) -> Vector:
        return shrunk(
            self.confusion_.counts,
            self.confusion_.class_weights,
            self.model_confusion_,
            self.shrinkage_,
        )

    def _solve(self, target: TargetCounts) -> PriorEstimate:
        problem = Mixture.of(self._columns[:, target.seen], weights=target.counts.counts)
        _report_impossible(problem, float(target.counts.counts.sum()))
        source = self.source_priors_[target.seen]
        solution = certified(self, problem, source / source.sum())
        return self._result_of(target, target.complete(solution.value), solution)


def shrunk(counts: Vector, class_weights: Vector, model: Vector, strength: float) -> Vector:
    """Return columns of decision counts and model, mixed by samples and strength."""
    total = class_weights + strength
    mixed = counts + strength * model
    return np.divide(mixed, total, out=np.zeros_like(mixed), where=total > 0)


def model_columns(y_proba: Floats, weight: Vector, hard: bool) -> Vector:
    """Return C^m: the mean decision under each class, as the classifier itself sees it."""
    K = y_proba.shape[1]
    if hard:
        decided = y_proba.argmax(axis=1)
        sums = Confusion.from_arrays(
            y_proba, decided, decision="soft", sample_weight=weight
        ).counts.T
    else:
        sums = np.zeros((K, K))
        with single_threaded_blas():
            for rows in row_blocks(y_proba.shape[0], K, GRAM_BYTES):
                block = y_proba[rows].astype(np.float64, copy=False)
                sums += block.T @ (block * weight[rows, None])
    mass = sums.sum(axis=0)
    return np.divide(sums, mass, out=np.eye(K), where=mass > 0)


def balanced_weight(rows: Validation, label_priors: Vector | None, confusion: Confusion) -> Vector:
    """Return row weights that give validation the class balance of the source, if it is known."""
    assert rows.y is not None
    weight = np.ones(rows.y.size) if rows.sample_weight is None else rows.sample_weight
    if label_priors is None:
        return weight
    return weight * prior_ratio(label_priors, confusion.class_frequencies)[rows.y]


def best_strength(rows: Validation, weight: Vector, decision: Decision) -> float:
    """Return the strength under which held-out decisions are likeliest."""
    assert rows.y is not None
    folds = deal_folds(rows.y, N_FOLDS, True, 0)
    likelihoods = np.zeros(STRENGTHS.size)
    for fold in np.unique(folds):
        kept = _counted(rows, folds != fold, decision)
        held = _counted(rows, folds == fold, decision)
        model = model_columns(rows.y_proba, weight * (folds != fold), decision == "hard")
        # a class of which nothing is kept says nothing about the strength
        of_kept = held.counts * kept.seen
        for i, strength in enumerate(STRENGTHS):
            C = shrunk(kept.counts, kept.class_weights, model, strength)
            likelihoods[i] += float((of_kept * np.log(np.maximum(C, EMPTY))).sum())
    return float(STRENGTHS[np.argmax(likelihoods)])


def _counted(rows: Validation, part: Mask, decision: Decision) -> Confusion:
    assert rows.y is not None
    weight = part.astype(np.float64)
    if rows.sample_weight is not None:
        weight *= rows.sample_weight
    return Confusion.from_arrays(rows.y_proba, rows.y, decision=decision, sample_weight=weight)
