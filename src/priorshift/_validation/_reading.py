"""Read numbers and labels from arrays, lists, frames and columns; check parameters."""

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from priorshift._typing import NUMBERS, Floats, Labels, Vector, float_type
from priorshift.execution import Table, is_tensor, to_numpy

SUM_TOLERANCE = 1e-3
"""How far a row of probabilities, or a vector of priors, may sum from 1."""


LEAST_WEIGHT, MOST_WEIGHT = 1e-100, 1e100
"""Sums of weights that can be squared without overflow or underflow."""


def read_numbers(values: Any, name: str) -> tuple[Floats, tuple[Any, ...] | None]:
    """Read numbers from an array, a list, or an eager frame (then with its header)."""
    values, names = from_frame(values, name)
    require_plain(values, name)
    array = as_array(values, name)
    if array.dtype.kind not in NUMBERS:
        raise ValueError(
            f"{name} must hold numbers; got {array.dtype}. Drop the columns that are not scores, "
            "and convert the others to floats."
        )
    if array.size == 0:
        raise ValueError(f"{name} is empty (shape {array.shape}); give at least one row.")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(float_type(array.dtype))
    return array, names


def as_array(values: Any, name: str, dtype: Any = None) -> np.ndarray[Any, Any]:
    """Make an array of any input, or say why that is impossible."""
    if type(values) is not np.ndarray and hasattr(values, "dtype") and is_tensor(values):
        values = to_numpy(values)
    try:
        return np.asarray(values, dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(
            f"{name} cannot be read as an array ({error}); give entries of one kind, and lists of "
            "one length."
        ) from None


def from_frame(values: Any, name: str) -> tuple[Any, tuple[Any, ...] | None]:
    """Unpack a pandas, polars or Arrow table or column; return anything else unchanged."""
    if isinstance(values, np.ndarray | list | tuple):
        return values, None
    _require_computed(values, name)
    try:
        import narwhals as nw
    except ImportError:
        if hasattr(values, "columns"):
            raise ValueError(
                f"{name} is a frame, which needs narwhals: pip install 'priorshift[tables]'."
            ) from None
        return values, None
    try:
        native = nw.from_native(values, pass_through=True, allow_series=True)
    except ValueError as error:  # a header with duplicates
        raise ValueError(f"{name} cannot be read as a frame: {error}") from None
    if isinstance(native, nw.LazyFrame):
        raise ValueError(f"{name} is a lazy frame; collect it first, for example with .collect().")
    if isinstance(native, nw.DataFrame):
        if not native.columns:
            raise ValueError(f"{name} is a frame without columns; give one column per class.")
        _require_one_level(native.columns, name)
        return _frame_values(native), tuple(native.columns)
    if isinstance(native, nw.Series):
        return native.to_numpy(), None
    return values, None


def _frame_values(frame: Any) -> np.ndarray[Any, Any]:
    """Return the rows of a narwhals frame; pandas hands out Arrow's numbers as objects."""
    values = frame.to_numpy()
    types = frame.schema.values()
    if values.dtype == object and all(each.is_float() or each.is_integer() for each in types):
        values = np.column_stack([column.to_numpy() for column in frame.iter_columns()])
    return np.asarray(values)


def as_labels(values: Any, name: str) -> Labels:
    unpacked, _ = from_frame(values, name)
    require_plain(unpacked, name)
    # a list as objects first, or NumPy would turn ["a", nan] into the strings "a" and "nan"
    labels = as_array(unpacked, name, object if isinstance(unpacked, list | tuple) else None)
    _require_vector(labels, name)
    if labels.dtype.kind in "OT":
        _require_no_missing(labels, name)
        _require_one_kind(labels, name)
        labels = as_array(labels.tolist(), name)
        _require_vector(labels, name)
    if labels.dtype.kind not in "iubfU":
        raise ValueError(
            f"{name} must hold numbers or strings, all of one kind; got {labels.dtype}."
        )
    if labels.dtype.kind == "f":
        _require_no_missing(labels, name)
    return labels


def require_plain(values: Any, name: str) -> None:
    """Refuse arrays that `np.asarray` would silently misread."""
    if isinstance(values, Table):
        raise ValueError(
            f"{name} is read in blocks, but this needs all rows at once; pass an array, such as "
            "some of the rows by priorshift.execution.take_rows."
        )
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError(f"{name} is a masked array; fill or drop the masked entries first.")
    if hasattr(values, "tocsr"):
        raise ValueError(f"{name} is a sparse matrix; pass {name}.toarray().")


def _require_computed(values: Any, name: str) -> None:
    """Refuse what Dask computes later: it claims to have every attribute."""
    if type(values).__module__ == "dask.delayed":
        raise ValueError(
            f"{name} is a Delayed of Dask; compute it first with {name}.compute(), or make a Dask "
            "array of it with dask.array.from_delayed."
        )


def _require_one_level(columns: Any, name: str) -> None:
    """Refuse the header of a pandas MultiIndex: a class has one name."""
    several = [column for column in columns if isinstance(column, tuple)]
    if several:
        raise ValueError(
            f"{name} is labelled on several levels (a pandas MultiIndex), such as {several[0]!r}; "
            "keep the level with the names of the classes: get_level_values(-1) of its columns, or "
            "of its index."
        )


def _require_vector(labels: Labels, name: str) -> None:
    if labels.ndim != 1:
        raise ValueError(f"{name} must be 1-D, one label per row; got shape {labels.shape}.")


def _require_no_missing(labels: Labels, name: str) -> None:
    missing = [i for i, label in enumerate(labels.tolist()) if is_missing(label)]
    if missing:
        raise ValueError(
            f"{name} has no label at position {missing[0]} ({len(missing)} missing); drop these "
            "rows."
        )


def is_missing(label: Any) -> bool:
    """Tell whether a label is None, NaN or another library's missing value."""
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas' NA is neither equal to itself nor not
        return True
    except ValueError:  # an array, which is not a label, but not missing either
        return False


def _require_one_kind(labels: Labels, name: str) -> None:
    text = np.asarray([isinstance(label, str) for label in labels.tolist()], dtype=bool)
    if text.any() and not text.all():
        at = int(np.argmin(text))
        raise ValueError(
            f"{name} mixes strings with other labels, such as {labels[at]!r} at position {at}; "
            "make them all of one kind."
        )


def require_unique(names: list[Any], what: str) -> None:
    seen: set[str] = set()
    for label in names:
        if str(label) in seen:
            raise ValueError(f"{what} names {label!r} twice; every class needs its own name.")
        seen.add(str(label))


def as_mapping(priors: Any, name: str = "source_priors") -> Any:
    """Turn a pandas Series into a mapping from its index; return anything else unchanged."""
    _require_computed(priors, name)
    if hasattr(getattr(priors, "index", None), "levels"):
        _require_one_level(priors.index, name)
    if hasattr(priors, "to_dict") and hasattr(priors, "index"):
        return priors.to_dict()
    return priors


def some(values: Any, most: int = 10) -> str:
    """Show a few of many values."""
    values = list(values)
    shown = ", ".join(repr(value) for value in values[:most])
    return shown + (f", ... ({len(values)} in all)" if len(values) > most else "")


def check_sample_weight(sample_weight: ArrayLike | None, n_samples: int) -> Vector | None:
    """Check weights: one per row, finite, not negative, not all 0."""
    if sample_weight is None:
        return None
    values, _ = read_numbers(sample_weight, "sample_weight")
    if values.shape != (n_samples,):
        raise ValueError(
            f"sample_weight has shape {values.shape} but there are {n_samples} rows; give one "
            "weight per row."
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


def check_numbers(
    values: Any, shapes: tuple[tuple[int, ...], ...], name: str, *, least: float = -np.inf
) -> Vector:
    """Check numbers that describe a formula: finite, of one of these shapes, not rescaled.

    Booleans and strings are refused, also within lists, as JSON schemas refuse them.

    Examples
    --------
    >>> check_numbers([1, 0.5], ((2,), (2, 2)), "slope")
    array([1. , 0.5])
    """
    array = as_array(values, name)
    wanted = " or ".join(" x ".join(map(str, shape)) or "one number" for shape in shapes)
    if array.dtype.kind not in "fiu" or array.shape not in shapes or _has_bool(values):
        raise ValueError(
            f"{name} must hold numbers ({wanted}); got an array of shape {array.shape} and type "
            f"{array.dtype}."
        )
    array = array.astype(np.float64)
    good = np.isfinite(array) & (array >= least)
    if not good.all():
        at = tuple(np.argwhere(~good)[0].tolist())
        bound = "" if least == -np.inf else f" and at least {least:g}"
        where = f" at position {at[0] if len(at) == 1 else at}" if at else ""
        raise ValueError(f"{name} must be finite{bound}; got {array[at]}{where}.")
    return array


def require_keys(found: Any, names: tuple[str, ...], what: str) -> None:
    """Refuse a mapping that lacks a key, or has one that is unknown."""
    if not isinstance(found, Mapping):
        raise ValueError(f"{what} must be an object with {', '.join(names)}; got {found!r}.")
    for title, keys in (
        ("lacks", set(names) - set(found)),
        ("has the unknown", set(found) - set(names)),
    ):
        if keys:
            raise ValueError(f"{what} {title} {', '.join(sorted(map(repr, keys)))}.")


def _has_bool(values: Any) -> bool:
    """Tell whether lists hold booleans, which NumPy would turn into numbers."""
    if isinstance(values, list | tuple):
        return any(map(_has_bool, values))
    return isinstance(values, bool | np.bool_)


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
    """Check the parameters of a Dirichlet hyper-prior: one number, or one per class, above 0."""
    values = as_array(alpha, "alpha")
    if values.dtype.kind not in NUMBERS or values.shape not in ((), (n_classes,)):
        raise ValueError(
            f"alpha must be one number or {n_classes}, one per class; got shape {values.shape} and "
            f"type {values.dtype}."
        )
    if not (np.isfinite(values) & (values > 0)).all():
        raise ValueError(f"alpha must be finite and above 0; got {alpha!r}.")
    return np.broadcast_to(values.astype(np.float64), (n_classes,))


def check_choice(value: Any, choices: tuple[Any, ...], name: str) -> None:
    """Check that a parameter is one of its named choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {some(choices)}; got {value!r}.")
