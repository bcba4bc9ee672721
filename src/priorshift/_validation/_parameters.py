"""Parameters of estimators, and sample weights."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from priorshift._typing import Vector
from priorshift._validation._reading import as_array, read_numbers, some

LEAST_WEIGHT, MOST_WEIGHT = 1e-100, 1e100
"""Sums of weights whose squares are numbers still."""


def check_sample_weight(sample_weight: ArrayLike | None, n_samples: int) -> Vector | None:
    """Check weights: one a row, finite, not negative, not all 0."""
    if sample_weight is None:
        return None
    values, _ = read_numbers(sample_weight, "sample_weight")
    if values.shape != (n_samples,):
        raise ValueError(
            f"sample_weight has shape {values.shape} but there are {n_samples} rows; give one "
            "weight a row."
        )
    bad = np.flatnonzero(~np.isfinite(values) | (values < 0))
    if bad.size:
        raise ValueError(
            f"sample_weight must be finite and at least 0; got {values[bad[0]]} at position "
            f"{bad[0]}."
        )
    if not values.any():
        raise ValueError("sample_weight is zero everywhere; leave out rows, but not all of them.")
    weights: Vector = values.astype(np.float64, copy=False)
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not LEAST_WEIGHT <= total <= MOST_WEIGHT:
        raise ValueError(
            f"sample_weight sums to {total:.3g}, too far from 1 to be multiplied and divided; "
            "divide the weights by their mean."
        )
    return weights


def check_fraction(value: float, name: str) -> float:
    """Check a number in [0, 1]."""
    if not isinstance(value, Real) or not 0 <= value <= 1:
        raise ValueError(f"{name} must be a number in [0, 1]; got {value!r}.")
    return float(value)


def check_positive(value: float, name: str) -> float:
    """Check a finite number above 0."""
    if not isinstance(value, Real) or not 0 < value < np.inf:
        raise ValueError(f"{name} must be a finite number above 0; got {value!r}.")
    return float(value)


def check_count(value: int, name: str, least: int = 1) -> int:
    """Check a whole number of at least `least`."""
    if not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}.")
    return int(value)


def check_level(level: float, name: str = "alpha") -> float:
    """Check a level: above 0 and below 1."""
    if not 0 < check_fraction(level, name) < 1:
        raise ValueError(f"{name} must be above 0 and below 1; got {level!r}.")
    return float(level)


def check_resamples(n_resamples: int, alpha: float) -> int:
    """Check that there are enough draws for a p-value as small as the level."""
    return check_count(n_resamples, "n_resamples", least=int(np.ceil(1 / alpha - 1e-9)) - 1)


def check_alpha(alpha: Any, n_classes: int) -> Vector:
    """Check the parameters of a Dirichlet hyper-prior: one number, or one a class, above 0."""
    values = as_array(alpha, "alpha")
    if values.dtype.kind not in "fiu" or values.shape not in ((), (n_classes,)):
        raise ValueError(
            f"alpha must be one number or {n_classes}, one a class; got shape {values.shape} and "
            f"type {values.dtype}."
        )
    if not (np.isfinite(values) & (values > 0)).all():
        raise ValueError(f"alpha must be finite and above 0; got {alpha!r}.")
    return np.broadcast_to(values.astype(np.float64), (n_classes,))


def check_choice(value: Any, choices: tuple[Any, ...], name: str) -> None:
    """Check that a parameter is one of its named choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {some(choices)}; got {value!r}.")
