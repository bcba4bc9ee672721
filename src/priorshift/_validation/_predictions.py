"""Predictions: rows that are distributions, or logits. They are checked once.

`check_proba` and `check_logits` return `Predictions`. That object carries the fact that its rows
were checked: every function that takes predictions also takes it, and `check_proba` returns it at
once. So a surface that calls several functions on the same rows checks them first and passes on the
object. It is for use within a call: it stands for the rows as they were when they were checked.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import numpy as np
from scipy.sparse import issparse

from priorshift._typing import Floats, Mask
from priorshift._validation._reading import (
    SUM_TOLERANCE,
    read_numbers,
    require_plain,
    require_unique,
)
from priorshift.execution import (
    Block,
    Rows,
    SparseTable,
    Table,
    TensorTable,
    as_table,
    has_array_api,
    is_tensor,
    map_reduce,
    to_numpy,
)

SHOWN_ROWS = 64
"""Sparse rows that are made an array to explain what is wrong with them."""

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
        The check that the rows passed; None if nobody checked them.
    """

    values: Any
    names: tuple[Any, ...] | None = None
    binary: bool = False
    passed: Literal["proba", "logits"] | None = None
    _made: dict[Any, tuple[tuple[Any, ...], Any]] = field(
        default_factory=dict, init=False, repr=False
    )

    @classmethod
    def from_checked(cls, values: Rows) -> "Predictions":
        """Wrap rows that were made or taken from checked ones, and so need no check."""
        return cls(values, passed="proba")

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
        if known is None or not all(map(_same, known[0], arguments)):
            known = self._made[key] = arguments, make()
        result: Result = known[1]
        return result


def check_proba(
    y_proba: Any, name: str = "y_proba", *, tables: bool = False, tensors: bool = False
) -> Predictions:
    """Check a matrix of probabilities, or the 1-D probability of a positive class, once.

    With `tables`, predictions that are read in blocks pass as well: files, sparse matrices, Dask
    arrays. With `tensors`, arrays of other libraries stay on their device; otherwise, and where the
    extra `array-api` is missing and a table would do, they become NumPy arrays.
    """
    if isinstance(y_proba, Predictions):
        if y_proba.passed == "proba":
            if not tables:
                require_plain(y_proba.values, name)
            return y_proba
        y_proba = y_proba.values
    if tensors and _is_tensor(y_proba) and (not tables or has_array_api()):
        return _check_tensor(y_proba, name)
    table = _read_table(y_proba, name) if tables else None
    if table is not None:
        _require_matrix(table, table.names, name)
        _require_distributions(table, name)
        return Predictions(table, table.names, passed="proba")
    values, names = read_numbers(y_proba, name)
    if values.ndim == 1:
        _require_unit_interval(values, name)
        both = np.column_stack([1 - values, values])
        return Predictions(both, binary=True, passed="proba")
    _require_matrix(values, names, name)
    _require_distributions(values, name)
    return Predictions(values, names, passed="proba")


def check_logits(logits: Any, name: str = "logits", *, tensors: bool = False) -> Predictions:
    """Check a matrix of logits or log-probabilities, where -inf stands for probability 0."""
    if tensors and _is_tensor(logits):
        return _check_tensor(logits, name, from_logits=True)
    if isinstance(logits, Predictions) and logits.passed == "logits":
        return logits
    values, names = read_numbers(logits, name)
    _require_matrix(values, names, name)
    # NaN and +inf survive into a row's maximum; a row of only -inf has no distribution
    bad = np.flatnonzero(~np.isfinite(values.max(axis=1)))
    if bad.size:
        raise ValueError(
            f"{name} has NaN, +inf, or nothing but -inf in row {bad[0]} ({bad.size} such rows); "
            "remove or repair these rows."
        )
    return Predictions(values, names, passed="logits")


def check_outputs(
    outputs: Any, *, from_proba: bool, name: str, sparse: bool = False, tensors: bool = False
) -> Predictions:
    """Check classifier outputs that are probabilities or logits, as the caller says.

    With `sparse`, probabilities may be a sparse matrix or table as well; with `tensors`, outputs
    may be tensors.
    """
    if not from_proba:
        return check_logits(outputs, name, tensors=tensors)
    values = outputs.values if isinstance(outputs, Predictions) else outputs
    sparse = sparse and (issparse(values) or isinstance(values, SparseTable))
    return check_proba(outputs, name, tables=sparse, tensors=tensors)


def _check_tensor(tensor: Any, name: str, *, from_logits: bool = False) -> Predictions:
    """Check a tensor on its device; what is wrong with it, a copy in memory explains."""
    passed: Literal["proba", "logits"] = "logits" if from_logits else "proba"
    wide = tensor.ndim == 2 and tensor.shape[1] >= 2
    if 0 not in tensor.shape and (wide or (tensor.ndim == 1 and not from_logits)):
        binary = not wide
        table = TensorTable(_both(tensor) if binary else tensor)
        if _is_clean(table, from_logits):
            return Predictions(table, binary=binary, passed=passed)
    checked = check_outputs(to_numpy(tensor), from_proba=not from_logits, name=name)
    return replace(checked, values=TensorTable(_both(tensor) if checked.binary else tensor))


def _both(tensor: Any) -> Any:
    """Return the columns of both classes from that of the positive one."""
    column = TensorTable(tensor[:, None])
    return column.xp.concat([1 - column.array, column.array], axis=1)


def _is_clean(table: TensorTable, from_logits: bool) -> bool:
    """Tell whether all rows are distributions, or logits of one."""
    xp = table.xp
    for block in table.on_device():
        if from_logits:
            fine = xp.isfinite(xp.max(block, axis=1))
        else:
            sums = xp.sum(block, axis=1)
            fine = (xp.abs(sums - 1) <= SUM_TOLERANCE) & (xp.min(block, axis=1) >= 0)
        if not bool(xp.all(fine)):
            return False
    return True


def _is_tensor(values: Any) -> bool:
    """Tell, at once for what most callers pass."""
    return type(values) not in (np.ndarray, list, tuple) and is_tensor(values)


def _read_table(values: Any, name: str) -> Table | None:
    """Return predictions as a table that has rows, or None if they are not read in blocks."""
    if type(values) in (np.ndarray, list, tuple):
        return None
    table = as_table(values, name)
    if table is not None and 0 in table.shape:
        raise ValueError(f"{name} is empty (shape {table.shape}); give at least one row.")
    return table


def _require_matrix(values: Rows, names: tuple[Any, ...] | None, name: str) -> None:
    if values.ndim != 2:
        raise ValueError(
            f"{name} must have shape (n_samples, n_classes); got {values.shape}. A single sample "
            "is a matrix of one row; logits z of a positive class are two columns, 0 and z."
        )
    if values.shape[1] < 2:
        raise ValueError(f"{name} has one column; pass a 1-D array or one column per class.")
    if names is not None:
        require_unique(list(names), f"the header of {name}")


def _require_unit_interval(values: Floats, name: str) -> None:
    bad = np.flatnonzero(~((values >= 0) & (values <= 1)))
    if bad.size:
        raise ValueError(
            f"{name} is 1-D, so it must hold probabilities of the positive class in [0, 1]; got "
            f"{values[bad[0]]} at position {bad[0]}. Logits need a sigmoid first, or "
            "from_logits=True where that is an option (as two columns, 0 and z)."
        )


def _require_distributions(values: Rows, name: str) -> None:
    """Check every row in one pass: NaN and infinities spoil the sum, so the sum is enough."""
    map_reduce(_Distributions(name), values)


@dataclass(frozen=True)
class _Distributions:
    """Raises an error that names the first fault of a block."""

    name: str

    def __call__(self, block: Block, rows: slice) -> int:
        ones = np.ones(block.shape[1], block.dtype)
        with np.errstate(all="ignore"):
            fine = np.abs(block @ ones - 1) <= SUM_TOLERANCE
        if not fine.all() or block.min() < 0:
            _explain_bad_rows(block, fine, rows.start, self.name)
        return 0


def _explain_bad_rows(block: Block, fine: Mask, start: int, name: str) -> None:
    if not isinstance(block, np.ndarray):
        block, fine, start = _few_bad_rows(block, fine, start)
    faults = {
        "NaN": np.isnan(block),
        "an infinity": np.isinf(block),
        "a negative value": block < 0,
    }
    for what, where in faults.items():
        if where.any():
            row, column = (int(i) for i in np.argwhere(where)[0])
            remedy = "repair or drop such rows"
            if (block <= 0).all():
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


def _few_bad_rows(block: Block, fine: Mask, start: int) -> tuple[Floats, Mask, int]:
    """Return as an array the first few rows of a sparse block that have a fault among them."""
    for at in range(0, block.shape[0], SHOWN_ROWS):
        part, good = block[at : at + SHOWN_ROWS], fine[at : at + SHOWN_ROWS]
        if not good.all() or part.min() < 0:
            break
    return part.toarray(), good, start + at


def check_matrix(y_proba: Any, name: str = "y_proba") -> Any:
    """Check only that these are numbers in two dimensions: for sums over clean data."""
    if isinstance(y_proba, Predictions):
        return y_proba.values
    table = _read_table(y_proba, name)
    if table is not None:
        _require_matrix(table, table.names, name)
        return table
    values, names = read_numbers(y_proba, name)
    _require_matrix(values, names, name)
    return values


def _same(one: Any, other: Any) -> bool:
    """Compare arrays by value; None equals only itself."""
    if one is None or other is None:
        return one is other
    return one is other or np.array_equal(one, other)
