"""Sparse predictions as a method can take them."""

from typing import Any

from priorshift.execution import DENSE_CLASSES, DenseBlocks, Rows, SparseTable

OTHERS = "a method that forms none, such as SCM-L or EM"

MOST_CELLS = 2**25
"""Numbers of a validation set that is made an array for the methods that need it row by row."""


def as_taken(estimator: Any, values: Rows, *, kept: bool = False) -> Any:
    """Return predictions as a method can take them, or say which methods can.

    Beyond `DENSE_CLASSES` classes only `wide` methods can. Up to there, those without
    `takes_sparse` read sparse rows as arrays, a few at a time; validation rows that are kept must
    be few.
    """
    if not isinstance(values, SparseTable):
        return values
    (n, K), name = values.shape, type(estimator).__name__
    if K > DENSE_CLASSES and not estimator.wide:
        raise ValueError(
            f"{estimator!r} needs matrices of classes by classes, which sparse predictions of "
            f"{K} classes are too many for (at most {DENSE_CLASSES}); use {OTHERS}."
        )
    if kept and n * K > MOST_CELLS:
        raise ValueError(
            f"{name} needs validation row by row, as an array of {n} x {K} numbers; give fewer "
            f"rows, at most {MOST_CELLS // K}, or use a method that counts them, such as SCM-L."
        )
    return values if estimator.takes_sparse else DenseBlocks(values)


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
