"""Read numbers and labels from arrays, lists, frames and columns; check parameters."""

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from priorshift._extras import missing
from priorshift._frames import Frame
from priorshift._typing import NUMBERS, Labels, Vector, float_type
from priorshift.execution import Table

SUM_TOLERANCE = 1e-3
"""How far a row of probabilities, or a vector of priors, may sum from 1."""


LEAST_WEIGHT, MOST_WEIGHT = 1e-100, 1e100
"""Sums of weights that can be squared without overflow or underflow."""


Choose = Callable[[Sequence[Any]], dict[Any, Any] | None]
"""Tells which columns of a frame to read, by class and in their order; None for all of them."""


class Numbers(NamedTuple):
    """Numbers, the names of their columns if they have any, and the frame they are from."""

    values: Any
    names: tuple[Any, ...] | None = None
    frame: Frame | None = None


def read_numbers(values: Any, name: str, choose: Choose | None = None) -> Numbers:
    """Read numbers from an array, a list, or an eager frame.

    Of a frame, `choose` tells which columns to read; by default all.
    """
    values, names, frame = from_frame(values, name, choose)
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
    return Numbers(array, names, frame)


def as_array(values: Any, name: str, dtype: Any = None) -> np.ndarray[Any, Any]:
    """Make an array of any input, or say why that is impossible."""
    try:
        return np.asarray(values, dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(
            f"{name} cannot be read as an array ({error}); give entries of one kind, and lists of "
            "one length."
        ) from None


def from_frame(values: Any, name: str, choose: Choose | None = None) -> Numbers:
    """Unpack a pandas, polars or Arrow table or column; return anything else unchanged."""
    if isinstance(values, np.ndarray | list | tuple):
        return Numbers(values)
    _require_computed(values, name)
    try:
        import narwhals as nw
    except ImportError:
        if hasattr(values, "columns"):
            needed = missing(f"{name} is a frame, which", "narwhals", "tables")
            raise ValueError(str(needed)) from None
        return Numbers(values)
    try:
        native = nw.from_native(values, pass_through=True, allow_series=True)
    except ValueError as error:  # a header with duplicates
        raise ValueError(f"{name} cannot be read as a frame: {error}") from None
    if isinstance(native, nw.LazyFrame):
        raise ValueError(f"{name} is a lazy frame; collect it first, for example with .collect().")
    if isinstance(native, nw.DataFrame):
        return _read_frame(native, name, choose)
    if isinstance(native, nw.Series):
        return Numbers(native.to_numpy(), None, Frame(native))
    return Numbers(values)


def _read_frame(frame: Any, name: str, choose: Choose | None) -> Numbers:
    """Read the columns of a narwhals frame that are chosen, called by their classes."""
    columns = tuple(frame.columns)
    if not columns:
        raise ValueError(f"{name} is a frame without columns; give one column per class.")
    _require_one_level(columns, name)
    try:
        found = None if choose is None else choose(columns)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    names, chosen = (columns, columns) if found is None else (tuple(found), tuple(found.values()))
    read = frame if chosen == columns else frame[:, [columns.index(each) for each in chosen]]
    return Numbers(_frame_values(read), names, Frame(frame, chosen))


def _frame_values(frame: Any) -> np.ndarray[Any, Any]:
    """Return the rows of a narwhals frame; pandas hands out Arrow's numbers as objects."""
    values = frame.to_numpy()
    types = frame.schema.values()
    if values.dtype == object and all(each.is_float() or each.is_integer() for each in types):
        values = np.column_stack([column.to_numpy() for column in frame.iter_columns()])
    return np.asarray(values)


def as_labels(values: Any, name: str) -> Labels:
    unpacked = from_frame(values, name).values
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
    values = read_numbers(sample_weight, "sample_weight").values
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
