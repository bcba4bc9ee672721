"""GroupCounts: what estimates by group need of the target, mergeable and small."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from priorshift._blocks import BLOCK_BYTES
from priorshift._typing import Indices, Labels, Vector
from priorshift._validation import check_choice, check_proba, check_sample_weight, some
from priorshift.execution import Block, Rows, map_reduce
from priorshift.groups._exact import rough, split, sum_by_group
from priorshift.groups._labels import encode_groups, read_groups
from priorshift.statistics import Decision, DecisionCounts

LARGEST_BLOCK_BYTES = 2**25
"""Sums of all groups are added a block: with many groups a block must be large to be worth it."""

N_PARTS = 2
"""Every part in the making holds the sums of all groups: few parts, little memory."""


@dataclass(frozen=True, eq=False, repr=False)
class GroupCounts:
    """Decisions counted by group, for any number of rows: argmax counts, or summed probabilities.

    Parts of the target may be counted apart, in any order and anywhere, and added with `+`; groups
    may be in one part and not in another. Without weights the sum is that of one count over all
    rows to the last bit, up to 134 million rows. With weights it is so to rounding.

    Attributes
    ----------
    groups : ndarray of shape (n_groups,)
        Group labels, sorted.
    decision : {"hard", "soft"}
    n_rows : ndarray of shape (n_groups,)
        Rows counted.
    mass : ndarray of shape (n_groups,)
        Weight of these rows: a row of weight 2 counts as two rows.
    sums, rests : ndarray of shape (n_groups, n_classes)
        `counts` in two parts that add up exactly.
    second : ndarray of shape (n_classes, n_classes) or None
        Sum over all rows of the products of their decisions; None if it was not asked for.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]])
    >>> monday = ps.GroupCounts.from_arrays(y_proba, ["north", "south", "north"], decision="hard")
    >>> tuesday = ps.GroupCounts.from_arrays(y_proba[:1], ["east"], decision="hard")
    >>> week = monday + tuesday
    >>> week.groups, week.counts
    (array(['east', 'north', 'south'], dtype='<U5'), array([[1., 0.],
           [1., 1.],
           [1., 0.]]))
    """

    groups: Labels
    decision: Decision
    n_rows: Indices
    mass: Vector
    sums: Vector
    rests: Vector
    second: Vector | None

    @classmethod
    def from_arrays(
        cls,
        y_proba: Any,
        groups: ArrayLike,
        *,
        decision: Decision,
        sample_weight: ArrayLike | None = None,
        covariance: bool = True,
    ) -> "GroupCounts":
        """Count decisions by group.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples, n_classes)
            Predicted probabilities, columns in the order of the estimator's classes; also what
            is read in blocks, such as files, sparse matrices and Dask arrays.
        groups : array-like of shape (n_samples,)
            Group of each row: text, numbers or dates.
        decision : {"hard", "soft"}
            Of the kind that the estimator's confusion matrix holds, `confusion_.decision`.
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight 2 counts as two rows.
        covariance : bool, default=True
            Whether to sum products of decisions as well, which pooling needs.
        """
        check_choice(decision, ("hard", "soft"), "decision")
        values = check_proba(y_proba, tables=True).values
        names, codes = encode_groups(read_groups(groups, values.shape[0]))
        weight = check_sample_weight(sample_weight, values.shape[0])
        return count_groups(values, names, codes, decision, weight, covariance=covariance)

    @property
    def counts(self) -> Vector:
        """Weight of the decisions for each class, by group: (n_groups, n_classes)."""
        return self.sums + self.rests

    def total(self) -> DecisionCounts:
        """Return the counts of all groups together."""
        counts = self.sums.sum(axis=0) + self.rests.sum(axis=0)
        return DecisionCounts(counts, self.decision, int(self.n_rows.sum()))

    def __add__(self, other: "GroupCounts") -> "GroupCounts":
        _require_alike(self, other)
        names, at = np.unique(np.concatenate([self.groups, other.groups]), return_inverse=True)
        mine, theirs = np.split(at.reshape(-1), [self.groups.size])

        def join(one: Any, two: Any) -> Any:
            joined = np.zeros((names.size, *one.shape[1:]), one.dtype)
            joined[mine] += one  # each group once: indices do not repeat
            joined[theirs] += two
            return joined

        both = self.second is not None and other.second is not None
        return GroupCounts(
            names,
            self.decision,
            join(self.n_rows, other.n_rows),
            join(self.mass, other.mass),
            join(self.sums, other.sums),
            join(self.rests, other.rests),
            self.second + other.second if both else None,  # type: ignore[operator]
        )

    def __repr__(self) -> str:
        """Show the size."""
        return (
            f"GroupCounts({self.decision} decisions of {int(self.n_rows.sum())} rows, "
            f"{self.groups.size} groups, {self.sums.shape[1]} classes)"
        )


def count_groups(
    y_proba: Rows,
    names: Labels,
    codes: Indices,
    decision: Decision,
    weight: Vector | None,
    *,
    covariance: bool,
) -> GroupCounts:
    """Count clean rows by the numbers of their groups, in blocks, wherever the rows are."""
    K, G = y_proba.shape[1], names.size
    kernel = _CountByGroup(codes, G, decision, weight, covariance)
    size = min(max(BLOCK_BYTES, 8 * G * K), LARGEST_BLOCK_BYTES)
    sums, second = map_reduce(kernel, y_proba, block_bytes=size, n_parts=N_PARTS)
    if decision == "hard" and covariance:
        second = np.diag(sums[:, :K].sum(axis=0))
    return GroupCounts(
        names,
        decision,
        np.bincount(codes, minlength=G),
        np.bincount(codes, weight, minlength=G).astype(np.float64),
        sums[:, :K],
        sums[:, K:],
        second if covariance else None,
    )


@dataclass(frozen=True)
class _CountByGroup:
    """Count the decisions of a block by group, and sum their products: (G, 2 K) and (K, K)."""

    codes: Indices
    n_groups: int
    decision: Decision
    weight: Vector | None
    covariance: bool

    def __call__(self, block: Block, rows: slice) -> tuple[Vector, Vector]:
        K, codes = block.shape[1], self.codes[rows]
        weight = None if self.weight is None else self.weight[rows]
        if self.decision == "hard":
            cells = codes * (2 * K) + block.argmax(axis=1)
            counts = np.bincount(cells, weight, minlength=self.n_groups * 2 * K)
            return counts.reshape(-1, 2 * K).astype(np.float64), np.zeros((0, 0))
        dense = block if isinstance(block, np.ndarray) else block.toarray()  # no more than a block
        dense = dense.astype(np.float64, copy=False)
        weighted = dense if weight is None else dense * weight[:, None]
        sums = sum_by_group(split(weighted), codes, self.n_groups)
        if not self.covariance:
            return sums, np.zeros((0, 0))
        near = rough(dense)
        return sums, near.T @ (near if weight is None else near * weight[:, None])


def _require_alike(one: GroupCounts, other: GroupCounts) -> None:
    if one.decision != other.decision or one.sums.shape[1] != other.sums.shape[1]:
        raise ValueError(
            f"cannot add {one.decision} counts of {one.sums.shape[1]} classes to {other.decision} "
            f"counts of {other.sums.shape[1]} classes; count both alike."
        )
    if (one.groups.dtype.kind == "U") != (other.groups.dtype.kind == "U"):
        raise ValueError(
            f"cannot add groups named {some(one.groups.tolist(), 3)} to groups named "
            f"{some(other.groups.tolist(), 3)}, which are of another kind; use text for both."
        )
