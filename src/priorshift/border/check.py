"""Read and check what you hand in: numbers, labels, predictions and parameters.

Predictions are rows that are distributions, or logits. They are checked once: `check_proba` and
`check_outputs` return `Predictions`, an object that carries the fact that its rows were checked.
Every function that takes predictions also takes it, and `check_proba` returns it at once. So a
surface that calls several functions on the same rows checks them first and passes on the object. It
is for use within a call: it stands for the rows as they were when they were checked.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from difflib import get_close_matches
from functools import partial
from numbers import Integral, Real
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse

from priorshift._typing import (
    NUMBERS,
    Floats,
    Indices,
    Labels,
    Mask,
    Vector,
    are_numbers,
    float_type,
)
from priorshift.border.clusters import DaskTable, is_dask_array, is_spark_frame
from priorshift.border.columns import HEAD_ROWS, Frame, among_others, class_columns, misspelt
from priorshift.border.rows import (
    SUM_TOLERANCE,
    ArrayTable,
    Block,
    Rows,
    Table,
    map_reduce,
    take_rows,
)
from priorshift.border.sparse import SparseTable, compressed
from priorshift.border.tensors import Tensor, is_tensor, to_numpy
from priorshift.exceptions import argument, missing
from priorshift.text import brief, some

PERCENT = 100.0

LEAST_WEIGHT, MOST_WEIGHT = 1e-100, 1e100
"""Sums of weights that can be squared without overflow or underflow."""

MOST_DRAWS = 10**6
"""Random draws of an interval or a test: more of them take hours and tell no more."""

LEAST_LEVEL = 1e-9
"""How near to 0 or 1 a level may be."""

SHOWN_ROWS = 64
"""Sparse rows that are made an array to explain what is wrong with them."""


def read_scores(
    values: Any,
    name: str,
    classes: Any = None,
    labels: Any = None,
    *,
    tables: bool = False,
    column: bool = False,
    passed: Literal["proba", "logits"] | None = None,
) -> "Predictions":
    """Read predictions, whatever their values: a matrix of two columns or more.

    If `tables` are allowed it may be read in blocks; a `column` may be that of a positive class.
    Of a frame, the columns of `classes` are read, or those that `labels` suggest; by default all.
    `passed` is the check that they are read for. What was read before stays as it is.
    """
    if isinstance(values, Predictions):
        return values
    plain = type(values) is np.ndarray and values.dtype in (np.float64, np.float32)
    if plain and values.ndim == 2 and values.shape[1] > 1 and values.size:
        return Predictions(values, passed=passed)
    table = as_table(values, name) if tables else None
    if table is not None:
        read = Predictions(table, table.names, passed=passed)
    else:
        read = from_frame(values, name, classes, labels)
        array = as_array(read.values, name)
        if column and array.ndim == 1 and array.size:
            first = array[:1].tolist()[0]
            text = isinstance(first, str | bytes)
            if text or array.dtype.kind in "iub":
                raise ValueError(
                    f"{name} is 1-D and holds {'text' if text else 'whole numbers'}, such as "
                    f"{brief(first)}: these look like labels. Pass decisions as y_pred= (in "
                    "assess, y_pred_val= and y_pred_target=), and probabilities of the positive "
                    "class as floats."
                )
        if array.dtype.kind not in NUMBERS:
            raise ValueError(
                f"{name} must hold numbers; got {array.dtype}. Drop the columns that are not "
                "scores and convert the others to floats; of a frame, classes= names the columns "
                "to read."
            )
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(float_type(array.dtype))
        read = replace(read, values=array, passed=passed)
    shape = read.values.shape
    if 0 in shape:
        raise ValueError(f"{name} is empty (shape {shape}); give at least one row.")
    if column and len(shape) == 1:
        return read
    if len(shape) != 2:
        raise ValueError(
            f"{name} must have shape (n_samples, n_classes); got {shape}. A single sample is a "
            "matrix of one row; logits z of a positive class are two columns, 0 and z."
        )
    if shape[1] < 2:
        raise ValueError(f"{name} has one column; pass a 1-D array or one column per class.")
    if read.names is not None:
        require_unique(list(read.names), f"the header of {name}")
    return read


def as_table(values: Any, name: str = "y_proba") -> Table | None:
    """Return predictions as a table, or None if they are a plain array, a list or a frame.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> as_table(csr_array([[0.7, 0.3]])).shape, as_table([[0.7, 0.3]])
    ((1, 2), None)
    """
    if isinstance(values, Table):
        return values
    if type(values) in (np.ndarray, list, tuple):
        return None
    if isinstance(values, np.memmap):  # it would have to be copied as a whole to be converted
        converted = are_numbers(values.dtype) and values.dtype != float_type(values.dtype)
        return ArrayTable(values) if converted and values.ndim == 2 else None
    if issparse(values):
        if values.ndim != 2 or not are_numbers(values.dtype):
            raise ValueError(
                f"{name} is a sparse array of shape {values.shape} and type {values.dtype}; it "
                "must hold numbers in two dimensions, one row per sample."
            )
        return SparseTable(compressed(values))
    if is_dask_array(values):
        return DaskTable(values)
    if is_spark_frame(values):  # only you know which of its columns are classes
        raise ValueError(f"{name} is a Spark frame; name its columns: SparkTable({name}, columns).")
    return None


def as_array(values: Any, name: str, dtype: Any = None) -> np.ndarray[Any, Any]:
    """Make an array of any input, or say why that is impossible or would misread it."""
    if type(values) not in (np.ndarray, list, tuple):
        if isinstance(values, Table):
            raise ValueError(
                f"{name} is read in blocks, but this needs all rows at once; pass an array, such "
                "as some of the rows by priorshift.border.take_rows."
            )
        if isinstance(values, np.ma.MaskedArray):
            raise ValueError(f"{name} is a masked array; fill or drop the masked entries first.")
        if hasattr(values, "tocsr"):
            raise ValueError(f"{name} is a sparse matrix; pass {name}.toarray().")
        values = to_numpy(values) if is_tensor(values) else values
    try:
        return np.asarray(values, dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(
            f"{name} cannot be read as an array ({error}); give entries of one kind, and lists of "
            "one length."
        ) from None


def from_frame(values: Any, name: str, classes: Any = None, labels: Any = None) -> "Predictions":
    """Unpack a pandas, polars or Arrow table or column, or a tensor; leave all else as it is.

    The columns of a table are those of `classes`, and are called by them.
    """
    if is_tensor(values):
        array = to_numpy(values)
        return Predictions(array, origin=Tensor(values, float_type(array.dtype)))
    native = as_native(values, name)
    if native is None:
        return Predictions(values)
    if not hasattr(native, "columns"):
        return Predictions(native.to_numpy(), origin=Frame(native))
    columns, known = tuple(native.columns), None
    if classes is not None:
        known = read_labels(classes, None, "classes")
    if not columns:
        raise ValueError(f"{name} is a frame without columns; give one column per class.")
    _require_one_level(columns, name)
    try:
        found = class_columns(columns, known, labels)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if found is None and known is not None:
        wanted = list(map(str, known.tolist()))
        if said := misspelt([column for column in columns if isinstance(column, str)], wanted):
            raise ValueError(
                f"the columns of {name} are not the classes ({some(wanted)}). {said} Rename it."
            )
    elif found is None and labels is not None:
        called = set(map(str, np.unique(labels).tolist()))
        numeric = [column for column, kind in native.schema.items() if kind.is_numeric()]
        others = columns
        if called <= set(map(str, numeric)):  # text and dates are no classes, nor are some numbers
            head = native[:HEAD_ROWS, [columns.index(column) for column in numeric]]
            others = tuple(among_others(numeric, called, _frame_values(head), SUM_TOLERANCE))
        found = {column: column for column in others}
    names, chosen = (columns, columns) if found is None else (tuple(found), tuple(found.values()))
    read = native if chosen == columns else native[:, [columns.index(each) for each in chosen]]
    named = not are_positions(names)
    return Predictions(_frame_values(read), names, origin=Frame(native, chosen), named=named)


def as_native(values: Any, name: str) -> Any:
    """Return a pandas, polars or Arrow table or column as narwhals has it; None for all else."""
    if isinstance(values, np.ndarray | list | tuple):
        return None
    _require_computed(values, name)
    try:
        import narwhals as nw
    except ImportError:
        if hasattr(values, "columns"):
            needed = missing(f"{name} is a frame, which", "narwhals", "tables")
            raise ValueError(str(needed)) from None
        return None
    try:
        native = nw.from_native(values, pass_through=True, allow_series=True)
    except ValueError as error:  # a header with duplicates
        raise ValueError(f"{name} cannot be read as a frame: {error}") from None
    if isinstance(native, nw.LazyFrame):
        raise ValueError(f"{name} is a lazy frame; collect it first, for example with .collect().")
    return native if isinstance(native, nw.DataFrame | nw.Series) else None


def _frame_values(frame: Any) -> np.ndarray[Any, Any]:
    """Return the rows of a narwhals frame; pandas hands out Arrow's numbers as objects."""
    values = frame.to_numpy()
    types = frame.schema.values()
    if values.dtype == object and all(each.is_float() or each.is_integer() for each in types):
        values = np.column_stack([column.to_numpy() for column in frame.iter_columns()])
    return np.asarray(values)


def read_labels(values: Any, n_samples: int | None = None, name: str = "y") -> Labels:
    """Read labels as a vector, whatever holds them: one per row of predictions if there are any."""
    labels = values
    if type(values) is not np.ndarray:
        unpacked = from_frame(values, name).values
        # a list as objects first, or NumPy would turn ["a", nan] into the strings "a" and "nan"
        labels = as_array(unpacked, name, object if isinstance(unpacked, list | tuple) else None)
    if labels.ndim == 1 and labels.dtype.kind in "OTf":
        floats = labels.dtype.kind == "f"
        entries = [] if floats else labels.tolist()
        gone = np.isnan(labels) if floats else np.array([*map(is_missing, entries)], bool)
        if gone.any():
            raise ValueError(
                f"{name} has no label at position {gone.argmax()} ({gone.sum()} missing); drop "
                "these rows."
            )
        text = [isinstance(label, str) for label in entries]
        if any(text) and not all(text):
            at = text.index(False)
            raise ValueError(
                f"{name} mixes strings with other labels, such as {brief(labels[at])} at position "
                f"{at}; make them all of one kind."
            )
        labels = labels if floats else as_array(entries, name)
    if labels.ndim != 1:
        raise ValueError(f"{name} must be 1-D, one label per row; got shape {labels.shape}.")
    if not labels.size:
        raise ValueError(f"{name} is empty; give at least one label.")
    if labels.dtype.kind not in "iubfU":
        raise ValueError(
            f"{name} must hold numbers or strings, all of one kind; got {labels.dtype}."
        )
    if n_samples is not None and labels.size != n_samples:
        raise ValueError(
            f"{name} has {labels.size} labels but there are {n_samples} rows of predictions; give "
            "one label per row."
        )
    return labels


def read_groups(groups: Any, n_samples: int | None = None, name: str = "groups") -> Labels:
    """Read group labels, one per row: text, numbers, or dates, which become text.

    Examples
    --------
    >>> import numpy as np
    >>> read_groups(np.array(["2024-01-01", "2024-01-08"], dtype="datetime64[ns]")).tolist()
    ['2024-01-01', '2024-01-08']
    """
    values = groups.to_numpy() if hasattr(groups, "to_numpy") else groups
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    if kind == "M":
        absent = np.isnat(values)
        # as short as still tells them apart
        groups = np.datetime_as_string(values, unit="auto").astype(object)
        groups[absent] = None
    elif kind == "O" or isinstance(values, list | tuple):
        groups = [str(one) if isinstance(one, date) else one for one in values]
    return read_labels(groups, n_samples, name)


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
            f"{name} is labelled on several levels (a pandas MultiIndex), such as "
            f"{brief(several[0])}; keep the level with the names of the classes: "
            "get_level_values(-1) of its columns, or of its index."
        )


def is_missing(label: Any) -> bool:
    """Tell whether a label is None, NaN or another library's missing value."""
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas' NA is neither equal to itself nor not
        return True
    except ValueError:  # an array, which is not a label, but not missing either
        return False


def require_unique(names: list[Any], what: str) -> None:
    """Refuse names of classes that occur twice, as text too."""
    seen: set[str] = set()
    for label in names:
        if str(label) in seen:
            raise ValueError(f"{what} names {brief(label)} twice; every class needs its own name.")
        seen.add(str(label))


def as_mapping(priors: Any, name: str = "source_priors") -> Any:
    """Turn a pandas Series into a mapping from its index; return anything else unchanged."""
    if isinstance(priors, np.ndarray | list | tuple):
        return priors
    _require_computed(priors, name)
    if hasattr(getattr(priors, "index", None), "levels"):
        _require_one_level(priors.index, name)
    if hasattr(priors, "to_dict") and hasattr(priors, "index"):
        return priors.to_dict()
    return priors


def check_sample_weight(sample_weight: ArrayLike | None, n_samples: int) -> Vector | None:
    """Check weights: one per row, finite, not negative, not all 0."""
    if sample_weight is None:
        return None
    given = as_array(from_frame(sample_weight, "sample_weight").values, "sample_weight")
    if given.dtype.kind == "b":
        given = given.astype(np.float64)
    weights = check_numbers(given, ((n_samples,),), "sample_weight", "a weight per row", least=0)
    if not weights.any():
        raise ValueError("sample_weight is zero everywhere; leave out rows, but not all of them.")
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not LEAST_WEIGHT <= total <= MOST_WEIGHT:
        raise ValueError(
            f"sample_weight sums to {total:.3g}, too far from 1 to be multiplied and divided; "
            "divide the weights by their mean."
        )
    return weights


def check_number(value: Any, name: str, most: float = np.inf) -> float:
    """Check a finite number above 0; if there is a `most`, one from 0 to it."""
    try:
        number = float(value) if isinstance(value, Real) else np.nan
    except OverflowError:  # a whole number that is too large for a float
        number = np.inf
    if most < np.inf:
        if not 0 <= number <= most:
            raise ValueError(f"{name} must be a number in [0, {most:g}]; got {brief(value)}.")
    elif not 0 < number < np.inf:
        raise ValueError(f"{name} must be a finite number above 0; got {brief(value)}.")
    return number


def check_numbers(
    values: Any,
    shapes: tuple[tuple[int, ...], ...],
    name: str,
    meaning: str = "",
    *,
    least: float = -np.inf,
) -> Vector:
    """Check numbers: finite, of one of these shapes, not rescaled.

    Booleans and strings are refused, also within lists, as JSON schemas refuse them. `meaning`
    tells in an error what the numbers are.

    Examples
    --------
    >>> check_numbers([1, 0.5], ((2,), (2, 2)), "slope")
    array([1. , 0.5])
    """
    array = as_array(values, name)
    mixed = False  # with booleans, which NumPy would turn into numbers
    if isinstance(values, list | tuple | bool | np.bool_):
        mixed = any(isinstance(one, bool | np.bool_) for one in np.asarray(values, object).flat)
    if array.dtype.kind not in "fiu" or array.shape not in shapes or mixed:
        wanted = " or ".join(" x ".join(map(str, shape)) or "one number" for shape in shapes)
        raise ValueError(
            f"{name} must hold numbers ({wanted}{meaning and f': {meaning}'}); got an array of "
            f"shape {array.shape} and type {array.dtype}."
        )
    array = array.astype(np.float64, copy=False)
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
        raise ValueError(f"{what} must be an object with {', '.join(names)}; got {brief(found)}.")
    for title, keys in (
        ("lacks", set(names) - set(found)),
        ("has the unknown", set(found) - set(names)),
    ):
        if keys:
            raise ValueError(
                f"{what} {title} {', '.join(sorted(map(repr, keys)))}; its keys must be "
                f"{', '.join(names)}."
            )


def as_float(number: Any) -> float:
    """Return a number as a float; whole numbers that are too large for one are infinite."""
    try:
        return float(number)
    except OverflowError:
        return np.inf if number > 0 else -np.inf


def check_count(value: int, name: str, least: int = 1, most: int = 2**63 - 1) -> int:
    """Check a whole number of at least `least`, and at most `most`."""
    if not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; got {brief(value)}.")
    if value > most:
        raise ValueError(f"{name} must be at most {most}; got {brief(value)}.")
    return int(value)


def check_level(level: float, name: str = "alpha") -> float:
    """Check a level: above 0 and below 1, and so far from both that quantiles are numbers."""
    if not LEAST_LEVEL <= check_number(level, name, 1) <= 1 - LEAST_LEVEL:
        raise ValueError(
            f"{name} must be above 0 and below 1, by at least {LEAST_LEVEL:g}; got {brief(level)}."
        )
    return float(level)


def as_generator(random_state: Any) -> np.random.Generator:
    """Return NumPy's generator for a random state."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            "random_state must be None, a whole number of at least 0 or a generator of NumPy; got "
            f"{brief(random_state)}."
        ) from None


def check_resamples(n_resamples: int, alpha: float) -> int:
    """Check that there are enough draws for a p-value as small as the level."""
    least = int(np.ceil(1 / alpha - 1e-9)) - 1
    return check_count(n_resamples, argument("n_resamples"), least, max(least, MOST_DRAWS))


def check_square(matrix: Any, name: str) -> Vector:
    """Check numbers of decisions by true class, or their shares: finite and at least 0."""
    matrix = from_frame(matrix, name).values
    K = max((2, *as_array(matrix, name).shape[:1]))
    meaning = "a row per decision and a column per true class"
    return check_numbers(matrix, ((K, K),), name, meaning, least=0)


def check_choice(value: Any, choices: tuple[Any, ...], name: str) -> None:
    """Check that a parameter is one of its named choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {some(choices)}; got {brief(value)}.")


Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of rows, and what is known about them.

    Attributes
    ----------
    values : ndarray or Table of shape (n_samples, n_classes)
    names : tuple or None
        Names of the columns, if they have any.
    binary : bool
        Whether the input was 1-D: the probability of the positive class alone.
    passed : {"proba", "logits"} or None
        The check that the rows passed; None if they were not checked.
    origin : Frame, Tensor or None
        The caller's frame or tensor that they were read from: see `like_input`.
    decided : ndarray of shape (n_samples,) or None
        Column of each row's 1, if the rows stand for decisions without probabilities.
    named : bool
        Whether they are from a frame with names, rather than numbers, for its columns.
    """

    values: Any
    names: tuple[Any, ...] | None = None
    binary: bool = False
    passed: Literal["proba", "logits"] | None = None
    origin: Frame | Tensor | None = None
    decided: Indices | None = None
    named: bool = False
    _made: dict[Any, tuple[tuple[Any, ...], Any]] = field(
        default_factory=dict, init=False, repr=False
    )

    @classmethod
    def from_checked(cls, values: Rows) -> "Predictions":
        """Wrap rows that were made or taken from checked ones, and so need no check."""
        return cls(values, passed="proba")

    @classmethod
    def from_decisions(cls, decided: Indices, n_classes: int) -> "Predictions":
        """Wrap decisions as rows with one 1 each; many rows are made block by block.

        Examples
        --------
        >>> import numpy as np
        >>> Predictions.from_decisions(np.array([1, 0]), 3).values
        array([[0., 1., 0.],
               [1., 0., 0.]], dtype=float32)
        """
        n = decided.size
        ones = np.ones(n, np.float32), decided, np.arange(n + 1)
        rows = SparseTable(csr_array(ones, shape=(n, n_classes)))
        few = n * n_classes <= 2**24
        values = rows.toarray() if few else ArrayTable(rows)
        return cls(values, passed="proba", decided=decided)

    def take(self, rows: Indices) -> "Predictions":
        """Return some rows, in memory, as what they are; an array itself if they are all of it."""
        everything = rows.size == self.shape[0] and bool((np.diff(rows) > 0).all())
        if everything and not isinstance(self.values, Table):
            return self
        if self.decided is not None:
            return Predictions.from_decisions(self.decided[rows], self.shape[1])
        return replace(self, values=take_rows(self.values, rows))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and classes."""
        shape: tuple[int, int] = self.values.shape
        return shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        """Return the values, for code that knows arrays only; a table refuses."""
        values = np.asarray(self.values, dtype)
        return values.copy() if copy else values

    def once(
        self, rows: Rows, key: Any, arguments: tuple[Any, ...], make: Callable[[], Result]
    ) -> Result:
        """Return `make()`, or what it returned before for equal arguments.

        It must depend on nothing but `rows`, `key` and `arguments`: arrays, compared by value, or
        None. Only what depends on these very predictions is kept, not on rows made from them.

        Examples
        --------
        >>> checked = check_proba([[0.9, 0.1]])
        >>> for _ in range(2):
        ...     checked.once(checked.values, "sum", (), lambda: print("summed"))
        summed
        """
        if rows is not self.values:
            return make()
        known = self._made.get(key)
        if known is None or not all(map(np.array_equal, known[0], arguments)):
            known = self._made[key] = arguments, make()
        result: Result = known[1]
        return result


def are_positions(names: tuple[Any, ...]) -> bool:
    """Tell whether a header is the 0..K-1 that pandas gives columns without names."""
    return list(map(repr, names)) == list(map(repr, range(len(names))))


def check_proba(
    y_proba: Any,
    name: str = "y_proba",
    *,
    tables: bool = False,
    classes: Any = None,
    labels: Labels | None = None,
) -> Predictions:
    """Check a matrix of probabilities, or the 1-D probability of a positive class, once.

    With `tables`, predictions that are read in blocks pass as well: files, sparse matrices, Dask
    arrays. Of a frame, the columns of `classes` are read, or those that `labels` suggest: by name,
    or by a common prefix or suffix.
    """
    if isinstance(y_proba, Predictions):
        if y_proba.passed == "proba":
            if not tables:
                as_array(y_proba.values, name)  # refuses a table
            return y_proba
        y_proba = y_proba.values
    read = read_scores(y_proba, name, classes, labels, tables=tables, column=True, passed="proba")
    values = read.values
    if values.ndim == 1:
        bad = np.flatnonzero(~((values >= 0) & (values <= 1)))
        if bad.size:
            raise ValueError(
                f"{name} is 1-D, so it must hold probabilities of the positive class in [0, 1]; "
                f"got {values[bad[0]]} at position {bad[0]}. Logits need a sigmoid first, or "
                "from_logits=True where that is an option (as two columns, 0 and z)."
            )
        both = np.column_stack([1 - values, values])
        return replace(read, values=both, binary=True)
    if not getattr(values, "distributions", False):
        map_reduce(partial(_check_distributions, name), values)
    return read


def check_outputs(
    outputs: Any,
    *,
    from_proba: bool,
    name: str = "y_proba",
    sparse: bool = False,
    classes: Any = None,
) -> Predictions:
    """Check classifier outputs that are probabilities or logits, as the caller says.

    With `sparse`, probabilities may be a sparse matrix or table as well. Logits may be
    log-probabilities, where -inf stands for probability 0.
    """
    values = outputs.values if isinstance(outputs, Predictions) else outputs
    if from_proba:
        tables = sparse and (isinstance(values, SparseTable) or issparse(values))
        return check_proba(outputs, name, tables=tables, classes=classes)
    if isinstance(outputs, Predictions) and outputs.passed == "logits":
        return outputs
    read = read_scores(values, name, classes)
    # NaN and +inf survive into a row's maximum; a row of only -inf has no distribution
    bad = np.flatnonzero(~np.isfinite(read.values.max(axis=1)))
    if bad.size:
        raise ValueError(
            f"{name} has NaN, +inf, or nothing but -inf in row {bad[0]} ({bad.size} such rows); "
            "remove or repair these rows."
        )
    return replace(read, passed="logits")


def _check_distributions(name: str, block: Block, rows: slice) -> int:
    """Raise an error that names the first fault of a block.

    NaN and infinities spoil a row's sum, so the sum is enough to find them.
    """
    with np.errstate(all="ignore"):
        fine = np.abs(block @ np.ones(block.shape[1], block.dtype) - 1) <= SUM_TOLERANCE
        if not fine.all() or block.min() < 0:
            _explain_bad_rows(block, fine, rows.start, name)
    return 0


def _explain_bad_rows(block: Block, fine: Mask, start: int, name: str) -> None:
    if not isinstance(block, np.ndarray):  # the first few sparse rows with a fault among them
        for at in range(0, block.shape[0], SHOWN_ROWS):
            part, good = block[at : at + SHOWN_ROWS], fine[at : at + SHOWN_ROWS]
            if not good.all() or part.min() < 0:
                break
        block, fine, start = part.toarray(), good, start + at
    faults = {
        "NaN": np.isnan(block),
        "an infinity": np.isinf(block),
        "a negative value": block < 0,
    }
    for what, where in faults.items():
        if where.any():
            row, column = (int(i) for i in np.argwhere(where)[0])
            remedy = "repair or drop such rows"
            pair = block[row] if block.shape[1] == 2 else None
            if pair is not None and pair.max() > 2 and abs(pair.sum() - 1) < SUM_TOLERANCE:
                raise ValueError(
                    f"{name} has a probability above 1 ({pair.max():.6g}) at row {start + row}; if "
                    "these are percent, divide them by 100."
                )
            if (block <= 0).all():
                remedy = argument("from_logits", "pass np.exp of them")
                remedy = f"all values are <= 0, as in log-probabilities: {remedy}"
            elif what == "a negative value":
                remedy = "logits and log-probabilities must be passed as such, or through a softmax"
            raise ValueError(
                f"{name} has {what} ({block[row, column]}) at row {start + row}, column {column}; "
                f"{remedy}."
            )
    row = int(np.argmin(fine))
    total = block[row].sum(dtype=np.float64)
    remedy = (
        "if these are logits or scores, pass them through a softmax or divide rows by their sums"
    )
    again = argument("renormalise", "pass priorshift.renormalise of them")
    far = rounding(block.shape[1])
    if abs(total - PERCENT) <= PERCENT * far:
        remedy = f"if these are percent, {again}"
    elif total > 0 and abs(total - 1) <= far:
        remedy = f"if they were rounded, {again}"
    raise ValueError(
        f"row {start + row} of {name} sums to {total:.6g}, not 1 (tolerance {SUM_TOLERANCE:.1g}); "
        f"{remedy}."
    )


def rounding(n_classes: int) -> float:
    """Return how far rows of probabilities with 2 decimals may sum from 1."""
    return max(0.02, 0.005 * n_classes)


def divided_by_sums(rows: Floats) -> Floats:
    """Divide rows by their sums; rows that are wrong in another way stay as they are."""
    with np.errstate(invalid="ignore", over="ignore"):
        sums = rows.sum(axis=1, keepdims=True, dtype=np.float64)
        fine = np.isfinite(sums) & (sums > 0) & (rows.min(axis=1, keepdims=True) >= 0)
        return np.where(fine, rows / np.where(fine, sums, 1), rows).astype(rows.dtype)


def check_rounded(y_proba: Any, name: str = "y_proba", classes: Any = None) -> Predictions:
    """Check rows that sum to 1, or as percent to 100, up to rounding; divide them by their sums."""
    read = read_scores(y_proba, name, classes)
    values = read.values
    rows = divided_by_sums(values)
    map_reduce(partial(_check_distributions, name), rows)
    with np.errstate(all="ignore"):  # a sum that overflows is refused as well
        sums = values.sum(axis=1, dtype=np.float64)
    whole = PERCENT if np.median(sums) > PERCENT / 2 else 1.0
    bad = np.flatnonzero(np.abs(sums - whole) > whole * rounding(values.shape[1]))
    if bad.size:
        raise ValueError(
            f"row {bad[0]} of {name} sums to {sums[bad[0]]:.6g}, too far from {whole:g} for "
            f"rounding ({bad.size} such rows); if a column is no class, name the others with "
            "classes=, and if these are logits or scores, use a softmax."
        )
    return replace(read, values=rows, passed="proba")


def column_of(frame: Any, column: Any, name: str = "y", of: str = "y_proba") -> tuple[Any, Any]:
    """Look up what is given as the name of a column; return the frame without it, and its values.

    Anything but text is returned as it is.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"cat": [0.9], "dog": [0.1], "species": ["cat"]})
    >>> predictions, y = column_of(frame, "species")
    >>> list(predictions), list(y)
    (['cat', 'dog'], ['cat'])
    """
    if not isinstance(column, str):
        return frame, column
    native = as_native(frame, of)
    if native is None or not hasattr(native, "columns"):
        raise ValueError(
            f"{name} is the text {brief(column)}; it can name a column only if {of} is a frame "
            "with this column (pandas, polars or Arrow). Otherwise pass one entry per row."
        )
    if column not in native.columns:
        close = get_close_matches(column, list(map(str, native.columns)), 1)
        hint = f" Did you mean {brief(close[0])}?" if close else ""
        raise ValueError(
            f"{name} is {brief(column)}, but {of} has no such column; it has "
            f"{some(native.columns)}.{hint}"
        )
    return native.drop(column).to_native(), native[column].to_native()
