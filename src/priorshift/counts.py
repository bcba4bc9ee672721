r"""Statistics of a classifier's outputs that you can merge: all that confusion-matrix methods need.

Each is a sum over rows, so you can count parts of the data separately, in any order and on any
machine, and add the results with `+`. Decisions are hard (argmax) or soft (the probabilities).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.sparse import coo_array, csr_array

from priorshift._typing import Floats, Indices, Labels, Mask, Vector
from priorshift.border import (
    BLOCK_BYTES,
    DENSE_CLASSES,
    Block,
    Rows,
    SparseTable,
    as_array,
    check_choice,
    check_classes,
    check_count,
    check_number,
    check_numbers,
    check_square,
    map_reduce,
    read_labels,
    read_scores,
    sum_by,
)

Decision = Literal["hard", "soft"]


RowWeight = Vector | Callable[[Block], Vector] | None
"""A weight per row: an array, a function of blocks, or 1."""


GRAM_BYTES = 2**23
"""Blocks of rows whose products are summed: large enough for matrix products to be fast."""

MANY_CELLS = 2**18
"""Cells of the confusion matrices that are counted in one pass under different weights."""

EXACT = 1e12
"""Number of samples that represents exactly known rates: their noise is then negligible."""

GEMM_SPEED_UP = 16
"""A product of matrices takes far less time per multiplication than one with a vector."""


@dataclass(frozen=True)
class DecisionCounts:
    """Count the decisions for each class: argmax counts, or summed probabilities.

    Attributes
    ----------
    counts : ndarray of shape (K,)
        Weight of the decisions for each class.
    decision : {"hard", "soft"}
    n_samples : int
        Number of rows counted.

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

    def __post_init__(self) -> None:
        check_choice(self.decision, ("hard", "soft"), "decision")
        check_count(self.n_samples, "n_samples", least=0)
        counts = as_array(self.counts, "counts")
        counts = check_numbers(counts, ((counts.size,),), "counts", "one per class", least=0)
        object.__setattr__(self, "counts", counts)

    @classmethod
    def from_arrays(
        cls, y_proba: Rows, *, decision: Decision, sample_weight: RowWeight = None
    ) -> DecisionCounts:
        """Count the decisions of clean probabilities."""
        y_proba = read_scores(y_proba, "y_proba", tables=True).values
        # not in smaller blocks than 64 KiB, however few rows there are
        counts = map_reduce(
            partial(_count, decision, sample_weight),
            y_proba,
            block_bytes=min(BLOCK_BYTES, max(2**16, y_proba.size // 4)),
        )
        return cls(counts, decision, y_proba.shape[0])

    @classmethod
    def from_decisions(
        cls, decided: Indices, n_classes: int, sample_weight: Vector | None = None
    ) -> DecisionCounts:
        """Count decisions that are given as column numbers, without any probabilities.

        Examples
        --------
        >>> import numpy as np
        >>> DecisionCounts.from_decisions(np.array([0, 2, 0]), 3).counts
        array([2., 0., 1.])
        """
        counts = np.bincount(decided, weights=sample_weight, minlength=n_classes)
        return cls(counts.astype(np.float64), "hard", decided.size)

    @property
    def frequencies(self) -> Vector:
        """Share of each decision: q."""
        total = self.counts.sum()
        if total <= 0:
            raise ValueError(
                "counts are all 0, so no decision has a share; count rows that have probabilities."
            )
        return self.counts / total

    def __add__(self, other: DecisionCounts) -> DecisionCounts:
        _require_same_kind(self, other)
        return DecisionCounts(
            self.counts + other.counts, self.decision, self.n_samples + other.n_samples
        )


@dataclass(frozen=True)
class Confusion:
    r"""Count decisions by true class: `counts[i, k]` for decision i on samples of class k.

    The conditional matrix :math:`C_{ik} = P(\text{decision } i \mid \text{class } k)` does not
    change under prior shift; the joint one is :math:`J = C\,\mathrm{diag}(p)`.

    Attributes
    ----------
    counts : ndarray of shape (K, K)
        Weight of decisions i for samples of class k; a `SparseTable` for sparse predictions of very
        many classes.
    class_weights : ndarray of shape (K,)
        Weight of the samples of each class.
    decision : {"hard", "soft"}
    n_samples : int
    squares : ndarray of shape (K,) or None
        Sum of the squared weights of each class: a column is worth `class_weights**2 / squares`
        samples. None if all weights are equal; 0 if the rates are known exactly.
    classes : ndarray of shape (K,) or None
        Class names, if known.

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

    counts: Any
    class_weights: Vector
    decision: Decision
    n_samples: int
    squares: Vector | None = None
    classes: Labels | None = None

    def __post_init__(self) -> None:
        check_choice(self.decision, ("hard", "soft"), "decision")
        if not np.isfinite(self.counts.sum()):
            raise ValueError("counts must be finite; repair or drop the rows of y_proba with NaN.")

    @classmethod
    def from_arrays(
        cls,
        y_proba: Rows,
        y: Indices,
        *,
        decision: Decision,
        sample_weight: Vector | None = None,
    ) -> Confusion:
        """Count clean probabilities by labels given as column indices."""
        y_proba = read_scores(y_proba, "y_proba", tables=True).values
        n, K = y_proba.shape
        y = read_labels(y, n)
        if y.dtype.kind not in "iu":
            raise ValueError(f"y must hold column numbers 0..{K - 1}; got {y.dtype}.")
        bad = np.flatnonzero((y < 0) | (y >= K))
        if bad.size:
            raise ValueError(
                f"y must hold column numbers 0..{K - 1}; got {y[bad[0]]} at position {bad[0]} "
                f"({bad.size} such labels)."
            )
        y = y.astype(np.intp, copy=False)
        if decision == "hard":
            decided = np.concatenate(map_reduce(_decisions, y_proba))
            sparse = K > DENSE_CLASSES and isinstance(y_proba, SparseTable)
            counts = _cells(decided, y, K, sample_weight, sparse=sparse)
        else:
            counts = sum_by(y_proba, y, K, sample_weight).T
        return cls._of_labels(counts, y, decision, sample_weight)

    @classmethod
    def _of_labels(
        cls, counts: Any, y: Indices, decision: Decision, weight: Vector | None
    ) -> Confusion:
        """Add the weight of each class to counts of labelled samples."""
        of_class = partial(np.bincount, y, minlength=counts.shape[1])
        squares = None if weight is None else of_class(weights=weight**2).astype(np.float64)
        weights = of_class(weights=weight).astype(np.float64)
        return cls(counts, weights, decision, y.size, squares)

    @classmethod
    def from_decisions(
        cls, decided: Indices, y: Indices, n_classes: int, sample_weight: Vector | None = None
    ) -> Confusion:
        """Count decisions by labels, both given as column numbers, without any probabilities.

        With very many classes, the counts stay sparse.

        Examples
        --------
        >>> import numpy as np
        >>> Confusion.from_decisions(np.array([0, 1, 1]), np.array([0, 0, 1]), 2).counts
        array([[1., 0.],
               [1., 1.]])
        """
        sparse = n_classes > DENSE_CLASSES
        counts = _cells(decided, y, n_classes, sample_weight, sparse=sparse)
        return cls._of_labels(counts, y, "hard", sample_weight)

    @classmethod
    def from_counts(cls, matrix: Any, classes: Any = None) -> Confusion:
        """Use a confusion matrix that you have: rows are decisions, columns true classes.

        This is the transpose of scikit-learn's matrix:
        ``from_counts(confusion_matrix(y, y_pred).T)``.

        Parameters
        ----------
        matrix : array-like of shape (n_classes, n_classes)
            `matrix[i, k]` is the number of samples of class k that were classified as i.
        classes : array-like of shape (n_classes,), optional
            Names of the classes; by default 0..n_classes-1.

        Examples
        --------
        >>> import priorshift as ps
        >>> study = ps.Confusion.from_counts([[95, 10], [5, 90]], classes=["healthy", "sick"])
        >>> study.conditional
        array([[0.95, 0.1 ],
               [0.05, 0.9 ]])
        >>> ps.CML().fit(confusion=study).estimate_counts([880, 120]).priors.round(3)
        array([0.918, 0.082])
        """
        counts = check_square(matrix, "matrix")
        if counts.max() <= 1:
            raise ValueError(
                f"matrix looks like rates, not counts: its largest entry is {counts.max():.4g}. "
                "Give how many samples were counted; for known rates of two classes use "
                "Confusion.from_rates."
            )
        names = None if classes is None else check_classes(classes, counts.shape[0])
        return cls(counts, counts.sum(axis=0), "hard", round(counts.sum()), None, names)

    @classmethod
    def from_rates(
        cls,
        *,
        sensitivity: float,
        specificity: float,
        n_positive: int | None = None,
        n_negative: int | None = None,
        classes: Any = None,
    ) -> Confusion:
        """Use the known error rates of a test for two classes, negative and positive.

        Parameters
        ----------
        sensitivity : float
            Share of positives that test positive.
        specificity : float
            Share of negatives that test negative.
        n_positive, n_negative : int, optional
            Numbers of known positives and negatives that the rates were measured on. Intervals then
            include the uncertainty of the rates. By default, the rates are treated as exact.
        classes : array-like of shape (2,), optional
            Names of the negative and the positive class; by default 0 and 1.

        Examples
        --------
        >>> import priorshift as ps
        >>> test = ps.Confusion.from_rates(sensitivity=0.9, specificity=0.95)
        >>> test.conditional
        array([[0.95, 0.1 ],
               [0.05, 0.9 ]])
        >>> test.exact
        True
        """
        shares = {"specificity": specificity, "sensitivity": sensitivity}
        right = np.array([check_number(rate, name, 1) for name, rate in shares.items()])
        if right.sum() <= 1:
            raise ValueError(
                f"sensitivity ({sensitivity}) and specificity ({specificity}) sum to "
                f"{right.sum():.4g}: such a test tells nothing about the classes, or the opposite. "
                "They must sum to more than 1; are they given as shares, and not swapped?"
            )
        given = {"n_negative": n_negative, "n_positive": n_positive}
        sizes = [0 if n is None else check_count(n, name) for name, n in given.items()]
        weights = np.array([float(n or 1) for n in sizes])
        rates = np.array([[right[0], 1 - right[1]], [1 - right[0], right[1]]])
        names = None if classes is None else check_classes(classes, 2)
        squares = np.array(sizes, dtype=np.float64)
        return cls(rates * weights, weights, "hard", sum(sizes), squares, names)

    @property
    def seen(self) -> Mask:
        """Which classes have samples."""
        return self.class_weights > 0

    @property
    def class_frequencies(self) -> Vector:
        """Share of each class among the samples."""
        return self.class_weights / self.class_weights.sum()

    @property
    def conditional(self) -> Any:
        """C: each column sums to 1; a class without samples has a column of 0."""
        return self.counts / np.where(self.seen, self.class_weights, 1.0)

    @property
    def sizes(self) -> Vector:
        """How many samples each column is worth: infinitely many where its rates are exact."""
        return np.divide(
            self.class_weights**2,
            self._squares,
            out=np.where(self.seen, np.inf, 0.0),
            where=self._squares > 0,
        )

    @property
    def exact(self) -> bool:
        """Whether the rates are known exactly, and add no noise."""
        return self.squares is not None and not self.squares.any()

    def in_samples(self) -> Vector:
        """Return decisions by class, in as many samples as the columns are worth."""
        sizes = np.minimum(self.sizes, EXACT)
        scale = np.divide(sizes, self.class_weights, out=np.zeros_like(sizes), where=self.seen)
        scaled: Vector = self.counts * scale
        return scaled

    @property
    def _squares(self) -> Vector:
        """Sums of squared weights, where all are equal as well."""
        if self.squares is not None:
            return self.squares
        return self.class_weights * (self.class_weights.sum() / max(self.n_samples, 1))

    def joint(self, priors: Vector | None = None) -> Any:
        """Return J = C diag(priors), by default at the class balance of the samples."""
        return self.conditional * (self.class_frequencies if priors is None else priors)

    def __add__(self, other: Confusion) -> Confusion:
        _require_same_kind(self, other)
        even = self.squares is None and other.squares is None
        return Confusion(
            self.counts + other.counts,
            self.class_weights + other.class_weights,
            self.decision,
            self.n_samples + other.n_samples,
            None if even else self._squares + other._squares,
            self.classes,
        )


def reweighted_columns(y_proba: Floats, y: Indices, weights: Sequence[Vector]) -> Iterator[Vector]:
    """Yield C of soft decisions for each weighting of the rows, many of them in one pass.

    Examples
    --------
    >>> import numpy as np
    >>> y_proba = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
    >>> weights = [np.array([1.0, 1.0, 1.0]), np.array([2.0, 0.0, 1.0])]
    >>> [C.round(2).tolist() for C in reweighted_columns(y_proba, np.array([0, 0, 1]), weights)]
    [[[0.7, 0.2], [0.3, 0.8]], [[0.9, 0.2], [0.1, 0.8]]]
    """
    n, K = y_proba.shape
    at_once = max(1, MANY_CELLS // K**2)
    for first in range(0, len(weights), at_once):
        some = np.column_stack(weights[first : first + at_once])
        sums = sum_by(y_proba, y, K, some).reshape(-1, K, K)
        for counts, weight in zip(sums, some.T, strict=True):
            size: Vector = np.bincount(y, weights=weight, minlength=K).astype(np.float64)
            yield Confusion(counts.T, size, "soft", n).conditional


def shrunk_columns(confusion: Confusion, model: Vector, strength: float) -> Vector:
    r"""Return columns :math:`(n_k \hat C_k + s\, C^m_k) / (n_k + s)`, 0 where there is neither.

    Parameters
    ----------
    confusion : Confusion
        Counts of n samples per class.
    model : ndarray of shape (K, K)
        :math:`C^m`, such as `model_columns` returns.
    strength : float
        s, in samples.

    Examples
    --------
    >>> import numpy as np
    >>> counted = Confusion(np.array([[6.0, 0.0], [2.0, 0.0]]), np.array([8.0, 0.0]), "hard", 8)
    >>> shrunk_columns(counted, np.array([[0.5, 0.1], [0.5, 0.9]]), 8.0)
    array([[0.625, 0.1  ],
           [0.375, 0.9  ]])
    """
    total = confusion.class_weights + strength
    mixed = confusion.counts + strength * model
    return np.divide(mixed, total, out=np.zeros_like(mixed), where=total > 0)


def model_columns(y_proba: Floats, weight: Vector, decision: Decision) -> Vector:
    r"""Return the confusion matrix that the classifier predicts for itself, without labels.

    .. math:: C^m_k = \frac{\sum_i w_i f_k(x_i)\, d(x_i)}{\sum_i w_i f_k(x_i)}

    with decisions d. A class that is never predicted is treated as always recognised.

    Examples
    --------
    >>> import numpy as np
    >>> model_columns(np.array([[0.9, 0.1], [0.3, 0.7]]), np.ones(2), "hard").round(3)
    array([[0.75 , 0.125],
           [0.25 , 0.875]])
    """
    if decision == "hard":
        decided = y_proba.argmax(axis=1)
        by_decision = Confusion.from_arrays(y_proba, decided, decision="soft", sample_weight=weight)
        sums = by_decision.counts.T
    else:
        sums = weighted_gram(y_proba, weight)
    mass = sums.sum(axis=0)
    return np.divide(sums, mass, out=np.eye(mass.size), where=mass > 0)


def weighted_gram(
    y_proba: Rows, weight: RowWeight, centre: Vector | float = 0.0, y: Indices | None = None
) -> Vector:
    r"""Return :math:`\sum_i w_i (f_i - c)(f_i - c)^T`.

    Parameters
    ----------
    y_proba : ndarray or Table of shape (n, K)
    weight : ndarray of shape (n,), callable or None
    centre : ndarray of shape (K,), or of shape (K, K) with a column per label y, or 0
    y : ndarray of shape (n,), optional

    Examples
    --------
    >>> import numpy as np
    >>> weighted_gram(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([1.0, 2.0]))
    array([[1.5, 0.5],
           [0.5, 0.5]])
    """
    K = y_proba.shape[1]
    work, block_bytes = y_proba.size * K / GEMM_SPEED_UP, max(GRAM_BYTES, 4 * K * K)
    kernel = partial(_gram, weight, centre, y)
    gram: Vector = map_reduce(kernel, y_proba, work=work, block_bytes=block_bytes, n_parts=2)
    return gram


def weight_of(weight: RowWeight, block: Block, rows: slice) -> Vector | None:
    """Return the weights of a block's rows, None for 1."""
    if callable(weight):
        return weight(block)
    return None if weight is None else weight[rows]


def _count(decision: Decision, weights: RowWeight, block: Block, rows: slice) -> Vector:
    """Count the decisions of a block."""
    weight = weight_of(weights, block, rows)
    if decision == "hard":
        chosen = block.argmax(axis=1)
        return np.bincount(chosen, weights=weight, minlength=block.shape[1]).astype(np.float64)
    if isinstance(block, np.ndarray):  # rows are added one by one, whatever their order is
        block = np.ascontiguousarray(block)
    if weight is None:
        return block.sum(axis=0, dtype=np.float64)
    return weight @ block.astype(np.float64, copy=False)


def _gram(
    weights: RowWeight, centre: Vector | float, y: Indices | None, block: Block, rows: slice
) -> Vector:
    weight = weight_of(weights, block, rows)
    if y is not None and isinstance(centre, np.ndarray):
        centre = centre.T[y[rows]]
    away = (block - centre).astype(np.float64, copy=False)
    if weight is not None:
        away = away * np.sqrt(weight)[:, None]
    return away.T @ away  # of one array with itself: half the work


def _cells(
    decided: Indices, y: Indices, n_classes: int, weight: Vector | None, *, sparse: bool
) -> Any:
    """Count decisions by label."""
    K = n_classes
    if sparse:
        ones = np.ones(y.size) if weight is None else weight
        return SparseTable(csr_array(coo_array((ones, (decided, y)), shape=(K, K))))
    cells = np.bincount(decided * K + y, weights=weight, minlength=K * K)
    return cells.reshape(K, K).astype(np.float64)


def _decisions(block: Block, rows: slice) -> list[Any]:  # noqa: ARG001
    return [block.argmax(axis=1)]


def _require_same_kind(one: DecisionCounts | Confusion, other: DecisionCounts | Confusion) -> None:
    if one.decision != other.decision or one.counts.shape != other.counts.shape:
        raise ValueError(
            f"cannot add {one.decision} counts of {one.counts.shape[0]} classes to "
            f"{other.decision} counts of {other.counts.shape[0]} classes; count both "
            "in the same way."
        )
