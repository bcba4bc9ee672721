"""Group labels, and GroupCounts: the decisions of each group, counted in parts that add."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from priorshift._typing import Indices, Labels, Vector
from priorshift.border import (
    BLOCK_BYTES,
    Block,
    Rows,
    check_choice,
    check_proba,
    check_sample_weight,
    map_reduce,
    read_labels,
    some,
)
from priorshift.counts import Decision, DecisionCounts

LARGEST_BLOCK_BYTES = 2**25
"""Every block adds to the sums of all groups: with many groups, blocks must be large."""

N_PARTS = 2
"""Every part that is being counted holds the sums of all groups: few parts, little memory."""

MOST_DENSE = 4
"""Whole numbers are counted instead of sorted if they span at most this many times the rows."""


@dataclass(frozen=True, eq=False, repr=False)
class GroupCounts:
    """Decisions counted by group, for any number of rows: argmax counts, or summed probabilities.

    You can count parts of the target separately, in any order and anywhere, and add them with `+`;
    a group may be in one part and not in another. The sum is that of one count over all rows.

    Attributes
    ----------
    groups : ndarray of shape (n_groups,)
        Group labels, sorted.
    decision : {"hard", "soft"}
    n_rows : ndarray of shape (n_groups,)
        Rows counted.
    mass : ndarray of shape (n_groups,)
        Weight of these rows: a row of weight 2 counts as two rows.
    counts : ndarray of shape (n_groups, n_classes)
        Weight of the decisions for each class.
    second : ndarray of shape (n_classes, n_classes) or None
        Sum over all rows of the products of their decisions; None if not requested.

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
    counts: Vector
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
            Predicted probabilities, columns in the order of the estimator's classes. Data that are
            read in blocks work too: files, sparse matrices, Dask arrays.
        groups : array-like of shape (n_samples,)
            Group of each row: text, numbers or dates.
        decision : {"hard", "soft"}
            The kind that the estimator's confusion matrix counts, `confusion_.decision`.
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight 2 counts as two rows.
        covariance : bool, default=True
            Whether to sum the products of decisions too, which pooling needs.
        """
        check_choice(decision, ("hard", "soft"), "decision")
        values = check_proba(y_proba, tables=True).values
        names, codes = encode_groups(read_groups(groups, values.shape[0]))
        weight = check_sample_weight(sample_weight, values.shape[0])
        return count_groups(values, names, codes, weight, decision, covariance=covariance)

    def total(self) -> DecisionCounts:
        """Return the counts of all groups together."""
        return DecisionCounts(self.counts.sum(axis=0), self.decision, int(self.n_rows.sum()))

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
            join(self.counts, other.counts),
            self.second + other.second if both else None,  # type: ignore[operator]
        )

    def __repr__(self) -> str:
        """Show the size."""
        return (
            f"GroupCounts({self.decision} decisions of {int(self.n_rows.sum())} rows, "
            f"{self.groups.size} groups, {self.counts.shape[1]} classes)"
        )


def count_groups(
    y_proba: Rows,
    names: Labels,
    codes: Indices,
    weight: Vector | None,
    decision: Decision,
    *,
    covariance: bool,
) -> GroupCounts:
    """Count clean rows by the numbers of their groups, in blocks, wherever the rows are."""
    K, G = y_proba.shape[1], names.size
    kernel = _CountByGroup(codes, G, decision, weight, covariance)
    size = min(max(BLOCK_BYTES, 8 * G * K), LARGEST_BLOCK_BYTES)
    counts, second = map_reduce(kernel, y_proba, block_bytes=size, n_parts=N_PARTS)
    if decision == "hard" and covariance:
        second = np.diag(counts.sum(axis=0))
    return GroupCounts(
        names,
        decision,
        np.bincount(codes, minlength=G),
        np.bincount(codes, weight, minlength=G).astype(np.float64),
        counts,
        second if covariance else None,
    )


@dataclass(frozen=True)
class _CountByGroup:
    """Count the decisions of a block by group, and sum their products: (G, K) and (K, K)."""

    codes: Indices
    n_groups: int
    decision: Decision
    weight: Vector | None
    covariance: bool

    def __call__(self, block: Block, rows: slice) -> tuple[Vector, Vector]:
        K, codes = block.shape[1], self.codes[rows]
        weight = None if self.weight is None else self.weight[rows]
        if self.decision == "hard":
            cells = codes * K + block.argmax(axis=1)
            counts = np.bincount(cells, weight, minlength=self.n_groups * K)
            return counts.reshape(-1, K).astype(np.float64), np.zeros((0, 0))
        dense = block if isinstance(block, np.ndarray) else block.toarray()  # no more than a block
        dense = dense.astype(np.float64, copy=False)
        weighted = dense if weight is None else dense * weight[:, None]
        # a product with a sparse matrix of codes sums by group without sorting
        ends = np.arange(codes.size + 1)
        members = csr_array((np.ones(codes.size), codes, ends), (codes.size, self.n_groups))
        return members.T @ weighted, dense.T @ weighted if self.covariance else np.zeros((0, 0))


def _require_alike(one: GroupCounts, other: GroupCounts) -> None:
    if one.decision != other.decision or one.counts.shape[1] != other.counts.shape[1]:
        raise ValueError(
            f"cannot add {one.decision} counts of {one.counts.shape[1]} classes to "
            f"{other.decision} counts of {other.counts.shape[1]} classes; count both the same way."
        )
    if (one.groups.dtype.kind == "U") != (other.groups.dtype.kind == "U"):
        raise ValueError(
            f"cannot add groups named {some(one.groups.tolist(), 3)} to groups named "
            f"{some(other.groups.tolist(), 3)}, of another kind; use text for both."
        )


def read_groups(groups: ArrayLike, n_samples: int | None = None) -> Labels:
    """Read group labels, one per row: text, numbers, or dates, which become text.

    Examples
    --------
    >>> import numpy as np
    >>> read_groups(np.array(["2024-01-01", "2024-01-08"], dtype="datetime64[ns]")).tolist()
    ['2024-01-01', '2024-01-08']
    """
    return read_labels(_without_dates(groups), n_samples, "groups")


def encode_groups(labels: Labels) -> tuple[Labels, Indices]:
    """Return the sorted groups, and the number of each row's group among them.

    Examples
    --------
    >>> import numpy as np
    >>> encode_groups(np.array([7, 3, 7]))
    (array([3, 7]), array([1, 0, 1]))
    """
    if labels.dtype.kind in "iu" and labels.size:
        low, high = int(labels.min()), int(labels.max())
        if high - low < MOST_DENSE * labels.size and high < 2**62 and low > -(2**62):
            offsets = labels.astype(np.intp) - low
            present = np.bincount(offsets) > 0
            number = np.cumsum(present) - 1
            return (np.flatnonzero(present) + low).astype(labels.dtype), number[offsets]
    names, codes = np.unique(labels, return_inverse=True)
    return names, codes.reshape(-1).astype(np.intp, copy=False)


def match_groups(labels: Labels, groups: Labels) -> Indices:
    """Return the position of each label among sorted groups; refuse a label that is not there."""
    if (labels.dtype.kind == "U") != (groups.dtype.kind == "U"):
        raise ValueError(
            f"the groups are {some(groups.tolist(), 3)} but you gave {some(labels[:3].tolist())}, "
            "of another kind; use the same names in both."
        )
    names, codes = encode_groups(labels)
    at = np.searchsorted(groups, names).clip(max=groups.size - 1)
    unknown = groups[at] != names
    if unknown.any():
        raise ValueError(
            f"there is no estimate for group {some(names[unknown].tolist())}; the groups are "
            f"{some(groups.tolist())}. Estimate them together with the others, or use `pooled`."
        )
    return at[codes]


def match_or_pool(labels: Labels, groups: Labels) -> Indices:
    """Return the position of each label among sorted groups; one past the last if unknown."""
    known = np.isin(labels, groups)
    codes = np.full(labels.size, groups.size, dtype=np.intp)
    if known.any():
        codes[known] = match_groups(labels[known], groups)
    return codes


def _without_dates(groups: Any) -> Any:
    """Turn dates and times into ISO 8601 text, as short as still tells them apart."""
    values = groups.to_numpy() if hasattr(groups, "to_numpy") else groups
    if not isinstance(values, np.ndarray) or values.dtype.kind != "M":
        return groups
    missing = np.flatnonzero(np.isnat(values))
    if missing.size:
        raise ValueError(
            f"groups has no label at position {missing[0]} ({missing.size} missing); drop these "
            "rows."
        )
    return np.datetime_as_string(values, unit="auto")
