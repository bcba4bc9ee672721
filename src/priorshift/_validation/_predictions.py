"""Predictions: rows that are distributions, or logits."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from priorshift._blocks import row_blocks
from priorshift._typing import Floats, Mask
from priorshift._validation._reading import SUM_TOLERANCE, read_numbers, require_unique


@dataclass(frozen=True)
class Predictions:
    """A checked matrix of predictions with what is known about its columns."""

    values: Floats
    names: tuple[Any, ...] | None = None
    binary: bool = False
    """Whether the input was 1-D: the probability of the positive class alone."""


def check_proba(y_proba: ArrayLike, name: str = "y_proba") -> Predictions:
    """Check a matrix of probabilities, or the 1-D probability of a positive class."""
    values, names = read_numbers(y_proba, name)
    if values.ndim == 1:
        _require_unit_interval(values, name)
        return Predictions(np.column_stack([1 - values, values]), binary=True)
    _require_matrix(values, names, name)
    _require_distributions(values, name)
    return Predictions(values, names)


def check_logits(logits: ArrayLike, name: str = "logits") -> Predictions:
    """Check a matrix of logits or log-probabilities, where -inf stands for probability 0."""
    values, names = read_numbers(logits, name)
    _require_matrix(values, names, name)
    # NaN and +inf survive into a row's maximum; a row of only -inf has no distribution
    bad = np.flatnonzero(~np.isfinite(values.max(axis=1)))
    if bad.size:
        raise ValueError(
            f"{name} has NaN, +inf, or nothing but -inf in row {bad[0]} ({bad.size} such rows); "
            "remove or repair these rows."
        )
    return Predictions(values, names)


def check_outputs(outputs: ArrayLike, *, from_proba: bool, name: str) -> Predictions:
    """Check classifier outputs that are probabilities or logits, as the caller says."""
    return check_proba(outputs, name) if from_proba else check_logits(outputs, name)


def _require_matrix(values: Floats, names: tuple[Any, ...] | None, name: str) -> None:
    if values.ndim != 2:
        raise ValueError(
            f"{name} must have shape (n_samples, n_classes); got {values.shape}. A single sample "
            "is a matrix of one row."
        )
    if values.shape[1] < 2:
        raise ValueError(f"{name} has one column; pass a 1-D array or one column a class.")
    if names is not None:
        require_unique(list(names), f"the header of {name}")


def _require_unit_interval(values: Floats, name: str) -> None:
    bad = np.flatnonzero(~((values >= 0) & (values <= 1)))
    if bad.size:
        raise ValueError(
            f"{name} is 1-D, so it must hold probabilities of the positive class in [0, 1]; got "
            f"{values[bad[0]]} at position {bad[0]}. Logits need their own argument."
        )


def _require_distributions(values: Floats, name: str) -> None:
    """Check every row in one pass: NaN and infinities spoil the sum, so only it is looked at."""
    ones = np.ones(values.shape[1], values.dtype)
    for rows in row_blocks(*values.shape):
        block = values[rows]
        with np.errstate(all="ignore"):
            fine = np.abs(block @ ones - 1) <= SUM_TOLERANCE
        if not fine.all() or block.min() < 0:
            _explain_bad_rows(block, fine, rows.start, values, name)


def _explain_bad_rows(block: Floats, fine: Mask, start: int, values: Floats, name: str) -> None:
    """Raise the error that names the first offence of a block."""
    offences = {
        "NaN": np.isnan(block),
        "an infinity": np.isinf(block),
        "a negative value": block < 0,
    }
    for what, where in offences.items():
        if where.any():
            row, column = (int(i) for i in np.argwhere(where)[0])
            remedy = "repair or drop such rows"
            if (values <= 0).all():
                remedy = "all values are <= 0, as in log-probabilities: pass np.exp of them"
            elif what == "a negative value":
                remedy = "logits and log-probabilities must be passed as such, or through a softmax"
            raise ValueError(
                f"{name} has {what} ({block[row, column]}) at row {start + row}, column {column}; "
                f"{remedy}."
            )
    row = int(np.argmin(fine))
    total = block[row].sum(dtype=np.float64)
    raise ValueError(
        f"row {start + row} of {name} sums to {total:.6g}, not 1 (tolerance {SUM_TOLERANCE}); "
        "if these are logits or scores, pass them through a softmax or divide rows by their sums."
    )


def check_matrix(y_proba: ArrayLike, name: str = "y_proba") -> Floats:
    """Check no more than that these are numbers in two dimensions: for sums over clean data."""
    values, names = read_numbers(y_proba, name)
    _require_matrix(values, names, name)
    return values
