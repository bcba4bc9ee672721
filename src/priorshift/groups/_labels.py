"""Group labels: which row belongs to which site, week or device."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from priorshift._typing import Indices, Labels
from priorshift._validation import read_labels, some

MOST_DENSE = 4
"""Whole numbers are counted instead of sorted if they span at most this many times the rows."""


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
            return _encode_dense(labels.astype(np.intp) - low, low, labels.dtype)
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


def _encode_dense(offsets: Indices, low: int, dtype: Any) -> tuple[Labels, Indices]:
    present = np.bincount(offsets) > 0
    number = np.cumsum(present) - 1
    return (np.flatnonzero(present) + low).astype(dtype), number[offsets]


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
