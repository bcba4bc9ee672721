"""Which methods take sparse predictions as they are, and how far the others go."""

from typing import Any

from priorshift.execution import DENSE_CLASSES, DenseBlocks, Rows, SparseTable

WIDE = (
    *("na", "em", "map", "mapls"),
    *("cm", "scm", "cm-l", "scm-l", "cm-m", "scm-m", "bbse", "bbse-s"),
)
"""Methods that form no matrix of classes by classes from sparse predictions of many classes."""

MOST_CELLS = 2**25
"""Numbers of a validation set that is made an array for the methods that need it row by row."""


def as_taken(estimator: Any, values: Rows, *, kept: bool = False) -> Any:
    """Return predictions as a method can take them, or say which methods can.

    Beyond `DENSE_CLASSES` only some methods do. Up to there, the others read sparse rows as
    arrays, a few at a time; validation rows that are kept must be few.
    """
    if not isinstance(values, SparseTable):
        return values
    (n, K), name = values.shape, type(estimator).__name__
    wide = estimator.name in WIDE and not getattr(estimator, "constrained", False)
    if K > DENSE_CLASSES and not wide:
        how = "the constrained form of " if estimator.name in WIDE else ""
        raise ValueError(
            f"{how}{name} needs matrices of classes by classes, which sparse predictions of {K} "
            f"classes are too many for (at most {DENSE_CLASSES}); use one of {', '.join(WIDE)}."
        )
    if kept and n * K > MOST_CELLS:
        raise ValueError(
            f"{name} needs validation row by row, as an array of {n} x {K} numbers; give fewer "
            f"rows, at most {MOST_CELLS // K}, or use one of {', '.join(WIDE)}."
        )
    takes_sparse = wide or estimator.name in ("rlls", "bbse", "bbse-s")
    return values if takes_sparse else DenseBlocks(values)


def require_few_classes(estimator: Any, values: Rows) -> Any:
    """Return predictions as intervals can take them: they need matrices of classes by classes."""
    if not isinstance(values, SparseTable):
        return values
    if values.shape[1] > DENSE_CLASSES:
        raise ValueError(
            f"an interval of {type(estimator).__name__} needs matrices of classes by classes, "
            f"which sparse predictions of {values.shape[1]} classes are too many for (at most "
            f"{DENSE_CLASSES}); leave out confidence_level."
        )
    return DenseBlocks(values)
