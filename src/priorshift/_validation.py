"""Checks at the border: the only place where inputs are judged and class order is settled.

Everything behind it works on clean arrays: probabilities as a float32 or float64 matrix
`(n_samples, n_classes)` in the order of `classes`, labels as indices into `classes`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from priorshift._blocks import row_blocks
from priorshift._typing import Floats, Indices, Labels, Mask, Vector

SUM_TOLERANCE = 1e-3
"""How far a row of probabilities, or a vector of priors, may sum from 1."""

NEGLIGIBLE_MASS = 1e-6
"""A predicted probability up to this is no evidence against a source prior of 0."""


@dataclass(frozen=True)
class Predictions:
    """A checked matrix of predictions with what is known about its columns."""

    values: Floats
    names: tuple[Any, ...] | None = None
    binary: bool = False
    """Whether the input was 1-D: the probability of the positive class alone."""


def check_proba(y_proba: ArrayLike, name: str = "y_proba") -> Predictions:
    """Check a matrix of probabilities, or the 1-D probability of a positive class."""
    values, names = _read(y_proba, name)
    if values.ndim == 1:
        _require_unit_interval(values, name)
        return Predictions(np.column_stack([1 - values, values]), binary=True)
    _require_matrix(values, names, name)
    _require_distributions(values, name)
    return Predictions(values, names)


def check_logits(logits: ArrayLike, name: str = "logits") -> Predictions:
    """Check a matrix of logits or log-probabilities, where -inf stands for probability 0."""
    values, names = _read(logits, name)
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


def settle_classes(
    predictions: Predictions,
    labels: Labels | None = None,
    classes: ArrayLike | None = None,
    positive_class: Any = None,
) -> Labels:
    """Name the columns: from `classes`, else a frame's header, else the labels.

    Without `classes` or a header, the sorted labels name the columns if there are exactly K of
    them; else integer labels stand for columns 0..K-1.
    """
    n_columns = predictions.values.shape[1]
    if positive_class is not None:
        return _binary_classes(predictions, labels, classes, positive_class)
    if classes is not None:
        return check_classes(classes, n_columns)
    text = labels is not None and labels.dtype.kind == "U"
    if predictions.names is not None and not (text and _are_positions(predictions.names)):
        return np.asarray(predictions.names)
    if labels is None:
        return np.arange(n_columns)
    found = np.unique(labels)
    if predictions.binary and not set(found.tolist()) <= {0, 1} and found.tolist() != [-1, 1]:
        raise ValueError(
            "y_proba is 1-D and the labels do not say which class it is the probability of; pass "
            "positive_class=, or classes=[negative, positive]."
        )
    if found.size == n_columns:
        return found
    if found.dtype.kind in "iub" and found.size and found[0] >= 0 and found[-1] < n_columns:
        return np.arange(n_columns)
    raise ValueError(
        f"y has {found.size} distinct labels but y_proba has {n_columns} columns, so the columns "
        "cannot be named; pass classes= in the order of the columns."
    )


def check_classes(classes: ArrayLike, n_columns: int) -> Labels:
    """Check the names of the columns: as many as columns, each once."""
    named = _as_labels(classes, "classes")
    if named.size != n_columns:
        raise ValueError(
            f"classes has {named.size} entries but y_proba has {n_columns} columns; name every "
            "column once, in order."
        )
    _require_unique(named.tolist(), "classes")
    return named


def classes_of_priors(priors: Any, classes: ArrayLike | None = None) -> Labels:
    """Name the classes where there are priors alone: by `classes`, else by sorted keys."""
    priors = _as_mapping(priors)
    if not isinstance(priors, Mapping) and np.ndim(priors) != 1:
        raise ValueError(
            f"source_priors must be a vector or a mapping, one a class; got {priors!r}."
        )
    if classes is None:
        classes = np.unique(list(priors)) if isinstance(priors, Mapping) else np.arange(len(priors))
    return check_classes(classes, len(priors))


def classes_of_labels(labels: Labels, classes: ArrayLike | None = None) -> Labels:
    """Name the classes where there are labels alone: by `classes`, else sorted."""
    if classes is None:
        return np.unique(labels)
    named = read_labels(classes, name="classes")
    _require_unique(named.tolist(), "classes")
    return named


def in_class_order(predictions: Predictions, classes: Labels, name: str = "y_proba") -> Floats:
    """Return the columns in the order of `classes`, matched by name where names exist."""
    values, names = predictions.values, predictions.names
    if values.shape[1] != classes.size:
        raise ValueError(
            f"{name} has {values.shape[1]} columns but there are {classes.size} classes "
            f"({_some(classes.tolist())}); give one column a class."
        )
    if names is None or list(names) == classes.tolist():
        return values
    at = {str(column): i for i, column in enumerate(names)}
    if set(at) != {str(label) for label in classes.tolist()}:
        if _are_positions(names):
            return values
        raise ValueError(
            f"the columns of {name} ({_some(names)}) are not the classes "
            f"({_some(classes.tolist())}); rename them, or pass a plain array whose columns are in "
            "class order."
        )
    order = [at[str(label)] for label in classes.tolist()]
    return values if order == list(range(len(order))) else values[:, order]


def read_labels(y: ArrayLike, n_samples: int | None = None, name: str = "y") -> Labels:
    """Read labels as a 1-D array, one a row of the predictions where there are any."""
    labels = _as_labels(y, name)
    if labels.size == 0:
        raise ValueError(f"{name} is empty; give at least one label.")
    if n_samples is not None and labels.size != n_samples:
        raise ValueError(
            f"{name} has {labels.size} labels but there are {n_samples} rows of predictions; give "
            "one label a row."
        )
    return labels


def encode_labels(labels: Labels, classes: Labels, name: str = "y") -> Indices:
    """Turn labels into indices of `classes`."""
    if classes.dtype.kind == "U" and labels.dtype.kind in "iub":
        labels = labels.astype(str)  # a table's header is text even where its labels are numbers
    if (classes.dtype.kind == "U") != (labels.dtype.kind == "U"):
        raise ValueError(
            f"{name} and classes are of different kinds ({name}: {_some(labels[:3].tolist())}; "
            f"classes: {_some(classes.tolist())}); use the same names in both."
        )
    order = np.argsort(classes)
    nearest = np.searchsorted(classes, labels, sorter=order).clip(max=classes.size - 1)
    indices = order[nearest]
    unknown = np.flatnonzero(classes[indices] != labels)
    if unknown.size:
        raise ValueError(
            f"{name} has a label outside classes: {labels[unknown[0]].item()!r} at position "
            f"{unknown[0]} ({unknown.size} such labels); classes are {_some(classes.tolist())}. "
            "Pass classes= with every label, in the order of the columns."
        )
    return indices.astype(np.intp, copy=False)


def check_priors(priors: Any, classes: Labels, name: str) -> Vector:
    """Check class priors: an array in class order, or a mapping from class to prior.

    A pandas Series counts as a mapping, because `value_counts` sorts by frequency.
    """
    priors = _as_mapping(priors)
    if isinstance(priors, Mapping):
        priors = _from_mapping(priors, classes, name)
    values = np.asarray(priors)
    if values.dtype.kind not in "fiu" or values.ndim != 1 or values.size != classes.size:
        raise ValueError(
            f"{name} must be {classes.size} numbers, one a class ({_some(classes.tolist())}); got "
            f"an array of shape {values.shape} and type {values.dtype}."
        )
    values = values.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(values) | (values < 0))
    if bad.size:
        raise ValueError(
            f"{name} must be finite and at least 0; got {values[bad[0]]} for class "
            f"{classes[bad[0]].item()!r} (position {bad[0]})."
        )
    total = values.sum()
    if abs(total - 1) > SUM_TOLERANCE:
        raise ValueError(
            f"{name} must sum to 1 (tolerance {SUM_TOLERANCE}) but sums to {total:.6g}; if these "
            "are counts, divide them by their sum."
        )
    return values / total


def check_source_mass(
    source_priors: Vector, outputs: Floats, classes: Labels, *, from_logits: bool = False
) -> None:
    """Refuse a source prior of 0 for a class that the classifier does predict."""
    absent = np.flatnonzero(source_priors == 0)
    if not absent.size:
        return
    largest = _largest_mass(outputs, absent, from_logits)
    if largest.max() > NEGLIGIBLE_MASS:
        at = int(np.argmax(largest))
        k = absent[at]
        raise ValueError(
            f"source_priors is 0 for class {classes[k].item()!r} (position {k}), yet y_proba "
            f"gives it up to {largest[at]:.3g}; a classifier cannot predict a class it was never "
            "trained on. Give the class its share of the training data."
        )


def check_sample_weight(sample_weight: ArrayLike | None, n_samples: int) -> Vector | None:
    """Check weights: one a row, finite, not negative, not all 0."""
    if sample_weight is None:
        return None
    values, _ = _read(sample_weight, "sample_weight")
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
        raise ValueError("sample_weight is 0 everywhere; leave out rows rather than all of them.")
    return values.astype(np.float64, copy=False)


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


def check_alpha(alpha: Any, n_classes: int) -> Vector:
    """Check the parameters of a Dirichlet hyper-prior: one number, or one a class, above 0."""
    values = np.asarray(alpha)
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
        raise ValueError(f"{name} must be one of {_some(choices)}; got {value!r}.")


def _read(values: Any, name: str) -> tuple[Floats, tuple[Any, ...] | None]:
    """Read numbers from an array, a list, or an eager frame (then with its header)."""
    values, names = _from_frame(values, name)
    _require_plain(values, name)
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} cannot be read as an array: {error}") from None
    if array.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} must hold numbers; got {array.dtype}. Drop the columns that are not scores."
        )
    if array.size == 0:
        raise ValueError(f"{name} is empty (shape {array.shape}); give at least one row.")
    if array.dtype.kind != "f":
        array = array.astype(np.float64)
    elif array.dtype.itemsize != 8:
        array = array.astype(np.float32 if array.dtype.itemsize <= 4 else np.float64, copy=False)
    return array, names


def _from_frame(values: Any, name: str) -> tuple[Any, tuple[Any, ...] | None]:
    """Unpack a pandas, polars or Arrow table or column; hand back anything else unchanged."""
    if isinstance(values, np.ndarray | list | tuple):
        return values, None
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
        return native.to_numpy(), tuple(native.columns)
    if isinstance(native, nw.Series):
        return native.to_numpy(), None
    return values, None


def _as_labels(values: Any, name: str) -> Labels:
    unpacked, _ = _from_frame(values, name)
    _require_plain(unpacked, name)
    # a list as objects first, or NumPy would make the strings "a" and "nan" of ["a", nan]
    labels = np.asarray(unpacked, dtype=object if isinstance(unpacked, list | tuple) else None)
    if labels.ndim != 1:
        raise ValueError(f"{name} must be 1-D, one label a row; got shape {labels.shape}.")
    if labels.dtype.kind in "OT":
        _require_no_missing(labels, name)
        _require_one_kind(labels, name)
        labels = np.asarray(labels.tolist())
    if labels.dtype.kind not in "iubfU":
        raise ValueError(
            f"{name} must hold numbers or strings, all of one kind; got {labels.dtype}."
        )
    if labels.dtype.kind == "f":
        _require_no_missing(labels, name)
    return labels


def _require_no_missing(labels: Labels, name: str) -> None:
    missing = [i for i, label in enumerate(labels.tolist()) if _is_missing(label)]
    if missing:
        raise ValueError(
            f"{name} has no label at position {missing[0]} ({len(missing)} missing); drop these "
            "rows."
        )


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas' NA is neither equal to itself nor not
        return True


def _require_one_kind(labels: Labels, name: str) -> None:
    text = np.asarray([isinstance(label, str) for label in labels.tolist()], dtype=bool)
    if text.any() and not text.all():
        at = int(np.argmin(text))
        raise ValueError(
            f"{name} mixes strings with other labels, such as {labels[at]!r} at position {at}; "
            "make them all of one kind."
        )


def _binary_classes(
    predictions: Predictions, labels: Labels | None, classes: Any, positive_class: Any
) -> Labels:
    """Order two classes as [negative, positive]."""
    if not predictions.binary:
        raise ValueError("positive_class is for 1-D y_proba; name matrix columns with classes=.")
    known = labels if classes is None else check_classes(classes, 2)
    others = [] if known is None else [c for c in np.unique(known).tolist() if c != positive_class]
    if len(others) != 1:
        raise ValueError(
            f"positive_class={positive_class!r} leaves {len(others)} other classes "
            f"({_some(others)}) where one is needed; pass classes=[negative, positive]."
        )
    return np.asarray([others[0], positive_class])


def _as_mapping(priors: Any) -> Any:
    """Turn a pandas Series into a mapping from its index; hand back anything else."""
    if hasattr(priors, "to_dict") and hasattr(priors, "index"):
        return priors.to_dict()
    return priors


def _are_positions(names: tuple[Any, ...]) -> bool:
    """Tell whether a header is the 0..K-1 that pandas gives columns without names."""
    return list(map(repr, names)) == list(map(repr, range(len(names))))


def _from_mapping(priors: Mapping[Any, Any], classes: Labels, name: str) -> list[Any]:
    by_name = {str(label): value for label, value in priors.items()}
    wanted = [str(label) for label in classes.tolist()]
    if set(by_name) != set(wanted):
        raise ValueError(
            f"{name} names the classes {_some(list(priors))} but the classes are "
            f"{_some(classes.tolist())}; give each class its prior."
        )
    return [by_name[label] for label in wanted]


def _require_plain(values: Any, name: str) -> None:
    """Refuse arrays that `np.asarray` would misread without a word."""
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError(f"{name} is a masked array; fill or drop the masked entries first.")
    if hasattr(values, "tocsr"):
        raise ValueError(f"{name} is a sparse matrix; pass {name}.toarray().")


def _largest_mass(outputs: Floats, columns: Indices, from_logits: bool) -> Vector:
    """Return the largest probability in each of the columns, in blocks."""
    largest = np.zeros(columns.size)
    for rows in row_blocks(*outputs.shape):
        block = outputs[rows]
        if from_logits:
            block = softmax(block.astype(np.float64), axis=1)
        np.maximum(largest, block[:, columns].max(axis=0), out=largest)
    return largest


def _require_matrix(values: Floats, names: tuple[Any, ...] | None, name: str) -> None:
    if values.ndim != 2:
        raise ValueError(
            f"{name} must have shape (n_samples, n_classes); got {values.shape}. A single sample "
            "is a matrix of one row."
        )
    if values.shape[1] < 2:
        raise ValueError(f"{name} has one column; pass a 1-D array or one column a class.")
    if names is not None:
        _require_unique(list(names), f"the header of {name}")


def _require_unique(names: list[Any], what: str) -> None:
    seen: set[str] = set()
    for label in names:
        if str(label) in seen:
            raise ValueError(f"{what} names {label!r} twice; every class needs its own name.")
        seen.add(str(label))


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


def _some(values: Any, most: int = 10) -> str:
    """Show a few of many values."""
    values = list(values)
    shown = ", ".join(repr(value) for value in values[:most])
    return shown + (f", ... ({len(values)} in all)" if len(values) > most else "")
