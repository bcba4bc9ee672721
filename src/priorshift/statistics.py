r"""Mergeable statistics of a classifier's outputs: all that confusion-matrix methods need.

Each is a sum over rows, so parts of the data can be counted apart, in any order and anywhere, and
added with `+`. Decisions are hard (argmax) or soft (the predicted probabilities themselves).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.sparse import csr_array

from priorshift._blocks import BLOCK_BYTES, row_blocks
from priorshift._typing import Floats, Indices, Mask, Vector
from priorshift._validation import check_choice, check_indices, check_matrix
from priorshift.execution import map_rows

Decision = Literal["hard", "soft"]


@dataclass(frozen=True)
class DecisionCounts:
    """How often each class was decided for: argmax counts, or summed probabilities.

    Attributes
    ----------
    counts : ndarray of shape (K,)
        Weight of the decisions for each class.
    decision : {"hard", "soft"}
    n_samples : int
        Rows counted.

    Examples
    --------
    >>> import numpy as np
    >>> y_proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]])
    >>> DecisionCounts.from_arrays(y_proba, decision="hard").counts
    array([2., 1.])
    >>> half = DecisionCounts.from_arrays(y_proba[:2], decision="soft")
    >>> (half + DecisionCounts.from_arrays(y_proba[2:], decision="soft")).counts
    array([1.8, 1.2])
    """

    counts: Vector
    decision: Decision
    n_samples: int

    @classmethod
    def from_arrays(
        cls, y_proba: Floats, *, decision: Decision, sample_weight: Vector | None = None
    ) -> "DecisionCounts":
        """Count the decisions of clean probabilities."""
        check_choice(decision, ("hard", "soft"), "decision")
        y_proba = check_matrix(y_proba)
        K = y_proba.shape[1]

        def kernel(part: slice) -> Vector:
            counts = np.zeros(K)
            for rows in row_blocks(part, K, min(BLOCK_BYTES, y_proba.size // 4)):
                weight = None if sample_weight is None else sample_weight[rows]
                counts += _count(y_proba[rows], decision, weight)
            return counts

        parts = map_rows(kernel, y_proba.shape[0], work=y_proba.size)
        return cls(np.sum(parts, axis=0), decision, y_proba.shape[0])

    @property
    def frequencies(self) -> Vector:
        """Share of each decision: q."""
        return self.counts / self.counts.sum()

    def __add__(self, other: "DecisionCounts") -> "DecisionCounts":
        _require_same_kind(self, other)
        return DecisionCounts(
            self.counts + other.counts, self.decision, self.n_samples + other.n_samples
        )


@dataclass(frozen=True)
class Confusion:
    r"""Decisions by true class: `counts[i, k]` is the weight of decisions i on samples of class k.

    The conditional matrix :math:`C_{ik} = P(\text{decision } i \mid \text{class } k)` does not
    change under prior shift; the joint one is :math:`J = C\,\mathrm{diag}(p)`.

    Attributes
    ----------
    counts : ndarray of shape (K, K)
    class_weights : ndarray of shape (K,)
        Weight of the samples of each class.
    decision : {"hard", "soft"}
    n_samples : int

    Examples
    --------
    >>> import numpy as np
    >>> y_proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.4, 0.6]])
    >>> confusion = Confusion.from_arrays(y_proba, np.array([0, 1, 1, 1]), decision="hard")
    >>> confusion.conditional.round(3)
    array([[1.   , 0.333],
           [0.   , 0.667]])
    >>> confusion.joint()
    array([[0.25, 0.25],
           [0.  , 0.5 ]])
    """

    counts: Vector
    class_weights: Vector
    decision: Decision
    n_samples: int

    @classmethod
    def from_arrays(
        cls,
        y_proba: Floats,
        y: Indices,
        *,
        decision: Decision,
        sample_weight: Vector | None = None,
    ) -> "Confusion":
        """Count clean probabilities by labels given as column indices."""
        check_choice(decision, ("hard", "soft"), "decision")
        y_proba = check_matrix(y_proba)
        y = check_indices(y, *y_proba.shape)
        K = y_proba.shape[1]
        if decision == "hard":
            cells = y_proba.argmax(axis=1) * K + y
            cell_weights = np.bincount(cells, weights=sample_weight, minlength=K * K)
            counts = cell_weights.reshape(K, K).astype(np.float64)
        else:
            counts = _sum_by_class(y_proba, y, sample_weight)
        weights = np.bincount(y, weights=sample_weight, minlength=K).astype(np.float64)
        return cls(counts, weights, decision, y_proba.shape[0])

    @property
    def seen(self) -> Mask:
        """Which classes have samples."""
        return self.class_weights > 0

    @property
    def class_frequencies(self) -> Vector:
        """Share of each class among the samples."""
        return self.class_weights / self.class_weights.sum()

    @property
    def conditional(self) -> Vector:
        """C: each column sums to 1; a class without samples has a column of 0."""
        return np.divide(
            self.counts, self.class_weights, out=np.zeros_like(self.counts), where=self.seen
        )

    def joint(self, priors: Vector | None = None) -> Vector:
        """Return J = C diag(priors), by default for the samples' own class balance."""
        return self.conditional * (self.class_frequencies if priors is None else priors)

    def __add__(self, other: "Confusion") -> "Confusion":
        _require_same_kind(self, other)
        return Confusion(
            self.counts + other.counts,
            self.class_weights + other.class_weights,
            self.decision,
            self.n_samples + other.n_samples,
        )


def _count(block: Floats, decision: Decision, weight: Vector | None) -> Vector:
    if decision == "hard":
        chosen = block.argmax(axis=1)
        return np.bincount(chosen, weights=weight, minlength=block.shape[1]).astype(np.float64)
    if weight is None:
        return block.sum(axis=0, dtype=np.float64)
    return weight @ block.astype(np.float64, copy=False)


def _sum_by_class(y_proba: Floats, y: Indices, weight: Vector | None) -> Vector:
    """Sum rows by label, as columns: a sparse matrix of labels does it without sorting rows."""
    K = y_proba.shape[1]
    sums = np.zeros((K, K))
    # blocks of at least K/2 rows, or adding K x K matrices would outweigh the work itself
    for rows in row_blocks(y.size, K, max(BLOCK_BYTES, 4 * K * K)):
        label = y[rows]
        data = np.ones(label.size) if weight is None else weight[rows]
        of_class = csr_array((data, label, np.arange(label.size + 1)), shape=(label.size, K))
        sums += of_class.T @ y_proba[rows].astype(np.float64, copy=False)
    return sums.T


def _require_same_kind(one: DecisionCounts | Confusion, other: DecisionCounts | Confusion) -> None:
    if one.decision != other.decision or one.counts.shape != other.counts.shape:
        raise ValueError(
            f"cannot add {one.decision} counts of {one.counts.shape[0]} classes to "
            f"{other.decision} counts of {other.counts.shape[0]} classes; count both alike."
        )
