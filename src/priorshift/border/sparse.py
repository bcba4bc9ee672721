r"""Tables with few scores per row: a sparse matrix plus, if needed, a rest of rank one.

.. math:: A = S + b\,t^T

with S in compressed rows. Classifiers with many classes often return only the k best scores of a
row; the remaining probability is spread over the other classes, :math:`b_i` each, with t = 1. A
product with A is a product with S and a sum, so nothing is ever made dense. Scaled columns,
selected rows and columns, and sums by label have the same form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from priorshift._typing import Floats, Indices, Vector, float_type
from priorshift.border.rows import ArrayTable, Blocks, Fold, Rows, Table, slices
from priorshift.border.threads import SERIAL_WORK, row_blocks

DENSE_CLASSES = 2000
"""Up to this many classes, a matrix of classes by classes is small (32 MB) and made dense."""

SCORES_IN_BLOCK = 2**18
"""Scores of one block: larger blocks leave the cache, smaller ones need more calls."""


class SparseTable(Table):
    """Rows with few scores each, `S + base[:, None] * trend`: a table, and an array to multiply.

    Parameters
    ----------
    csr : scipy.sparse.csr_array of shape (n, K)
        S, float32 or float64, without duplicates.
    base : ndarray of shape (n,) or None
        b, what each row adds to all of its classes; None is 0.
    trend : ndarray of shape (K,) or None
        t, in what proportion; None is 1 for all.
    names : tuple or None

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> rows = SparseTable(csr_array([[0.7, 0.0, 0.0], [0.0, 0.4, 0.0]]), np.array([0.1, 0.2]))
    >>> rows.toarray()
    array([[0.8, 0.1, 0.1],
           [0.2, 0.6, 0.2]])
    >>> rows @ np.array([1.0, 0.0, 0.0]), np.ones(2) @ rows
    (array([0.8, 0.2]), array([1. , 0.7, 0.3]))
    >>> rows.argmax(axis=1)
    array([0, 1])
    """

    # makes NumPy leave `ndarray @ rows` to `__rmatmul__`
    __array_ufunc__ = None

    def __init__(
        self,
        csr: Any,
        base: Floats | None = None,
        trend: Floats | None = None,
        names: tuple[Any, ...] | None = None,
    ) -> None:
        self.csr, self.base, self.trend, self.names = csr, base, trend, names
        self.shape, self.dtype = csr.shape, csr.dtype

    def blocks(self, part: slice, n_rows: int) -> Blocks:  # noqa: ARG002
        """Yield blocks of a bounded number of scores, however many classes there are."""
        return slices(self, part, self._rows_of(SCORES_IN_BLOCK))

    def map_parts(self, fold: Fold, n_parts: int, n_rows: int) -> list[Any]:
        """Fold in threads, unless there is too little work for them."""
        if self.csr.nnz >= SERIAL_WORK:
            return super().map_parts(fold, n_parts, n_rows)
        return [fold(self.blocks(slice(0, self.shape[0]), n_rows))]

    def read(self, part: slice) -> Floats:
        """Read some consecutive rows into an array."""
        return self[part].toarray()

    def columns(self, order: Sequence[int]) -> SparseTable:
        """Return the columns in another order."""
        rows = self[:, list(order)]
        rows.names = None if self.names is None else tuple(self.names[at] for at in order)
        return rows

    @property
    def T(self) -> SparseTable:  # noqa: N802
        """Return the transpose."""
        return SparseTable(
            self.csr.T.tocsr(), None if self.base is None else self._trend, self.base
        )

    @property
    def _trend(self) -> Floats:
        return np.ones(self.shape[1], self.dtype) if self.trend is None else self.trend

    def __matmul__(self, x: Any) -> Any:
        if isinstance(x, SparseTable):  # an array: for few classes only
            product = (self.csr @ x.csr).toarray()
            if x.base is not None:
                product += np.outer(self.csr @ x.base, x._trend)
            if self.base is not None:
                product += np.outer(self.base, self._trend @ x)
            return product
        product = self.csr @ x
        if self.base is None:
            return product
        rest = x.sum(axis=0) if self.trend is None else self.trend @ x
        return product + (self.base * rest if x.ndim == 1 else np.outer(self.base, rest))

    def __rmatmul__(self, x: Any) -> Any:
        product = self.csr.T @ x if x.ndim == 1 else (self.csr.T @ x.T).T
        if self.base is None:
            return product
        rest = x @ self.base
        return product + (rest * self._trend if x.ndim == 1 else np.outer(rest, self._trend))

    def __mul__(self, factor: Floats) -> SparseTable:
        """Scale columns by a vector, or rows by a column vector."""
        csr, base, trend = self.csr, self.base, self.trend
        if factor.ndim == 2:
            of_entry = np.repeat(factor[:, 0], np.diff(csr.indptr))
            base = None if base is None else base * factor[:, 0]
        else:
            of_entry = factor[csr.indices]
            trend = None if base is None else self._trend * factor
        return SparseTable(with_data(csr, csr.data * of_entry), base, trend)

    def __truediv__(self, factor: Floats) -> SparseTable:
        """Divide columns by a vector."""
        return self * (1 / factor)

    def __add__(self, other: SparseTable) -> SparseTable:
        """Add a block with the same kind of rest: sums or counts of more rows."""
        csr = csr_array(self.csr + other.csr)
        if self.base is None or other.base is None:
            assert self.base is None
            assert other.base is None
            return SparseTable(csr)
        if np.array_equal(self._trend, other._trend):
            return SparseTable(csr, self.base + other.base, self.trend)
        assert np.array_equal(self.base, other.base)
        return SparseTable(csr, self.base, self._trend + other._trend)

    def __getitem__(self, key: Any) -> SparseTable:
        """Return some rows, or some columns of them; consecutive rows do not copy their scores."""
        rows, columns = key if isinstance(key, tuple) else (key, None)
        csr, trend = self.csr, self.trend
        base = None if self.base is None else self.base[rows]
        start, stop, step = rows.indices(self.shape[0]) if isinstance(rows, slice) else (0, 0, 0)
        if step == 1:
            stop = max(start, stop)
            first, end = csr.indptr[start], csr.indptr[stop]
            listed = csr.data[first:end], csr.indices[first:end]
            parts = (*listed, csr.indptr[start : stop + 1] - first)
            csr = csr_array(parts, shape=(stop - start, self.shape[1]))
        else:
            csr = csr_array(csr[rows])
        if columns is not None:
            columns = np.asarray(columns)
            if columns.dtype == np.bool_:
                columns = np.flatnonzero(columns)
            csr = csr_array(csr[:, columns])
            trend = None if trend is None else trend[columns]
        return SparseTable(csr, base, trend)

    def astype(self, dtype: Any, copy: bool = True) -> SparseTable:
        """Convert."""
        base = None if self.base is None else self.base.astype(dtype, copy=copy)
        trend = None if self.trend is None else self.trend.astype(dtype, copy=copy)
        return SparseTable(with_data(self.csr, self.csr.data.astype(dtype, copy=copy)), base, trend)

    def sum(self, axis: int | None = None, dtype: Any = np.float64) -> Any:
        """Sum all, columns (`axis=0`) or rows (`axis=1`), in float64."""
        csr, K = self.csr, self.shape[1]
        if axis == 1:
            listed = _by_row(np.add, csr.data, csr.indptr, np.zeros(self.shape[0], dtype))
            return (
                listed if self.base is None else listed + self.base * self._trend.sum(dtype=dtype)
            )
        listed = np.bincount(csr.indices, weights=csr.data, minlength=K).astype(dtype, copy=False)
        if self.base is not None:
            listed = listed + self.base.sum(dtype=dtype) * self._trend
        return listed.sum() if axis is None else listed

    def squares(self) -> Vector:
        """Return the sum of squares of each column, in float64."""
        csr, K = self.csr, self.shape[1]
        data = csr.data.astype(np.float64)
        listed = np.bincount(csr.indices, weights=data**2, minlength=K).astype(np.float64)
        if self.base is None:
            return listed
        base, trend = self.base.astype(np.float64), self._trend
        return listed + 2 * trend * (csr.T @ base) + trend**2 * float(base @ base)

    def sum_by(self, label: Indices, n_labels: int, weight: Vector | None = None) -> Any:
        """Sum the rows of each label, some rows at a time: labels by classes, an array if few."""
        weight = np.ones(label.size) if weight is None else np.asarray(weight, np.float64)
        total = None
        # so many scores that their float64 copy is small
        for rows in row_blocks(self.shape[0], n_rows=self._rows_of(2**23)):
            n, part = rows.stop - rows.start, self[rows].astype(np.float64, copy=False)
            marks = weight[rows], label[rows], np.arange(n + 1)
            # the transpose as compressed rows, in which sums of long sparse rows are fastest
            of_label = csr_array(marks, shape=(n, n_labels)).T.tocsr()
            base = None if part.base is None else of_label @ part.base
            found = SparseTable(csr_array(of_label @ part.csr), base, self.trend)
            total = found if total is None else total + found
        assert total is not None
        return total if self.shape[1] > DENSE_CLASSES else total.toarray()

    def argmax(self, axis: int = 1) -> Indices:
        """Return the largest column of each row, the first of equals, some rows at a time."""
        assert axis == 1
        blocks = self.blocks(slice(0, self.shape[0]), 0)
        return np.concatenate([_largest(part.csr, part.base, part.trend)[0] for _, part in blocks])

    def max(self, axis: int) -> Floats:
        """Return the largest value of each column (`axis=0`) or row (`axis=1`)."""
        block = self if axis == 1 else self.T
        return _largest(block.csr, block.base, block.trend)[1]

    def min(self) -> float:
        """Return the smallest value, at most 0: what is not listed is 0 or a share of the rest."""
        values = self.csr.data
        if self.base is not None:
            values = values + np.repeat(self.base, np.diff(self.csr.indptr)) * (
                1 if self.trend is None else self.trend[self.csr.indices]
            )
        return float(values.min(initial=0.0))

    def toarray(self) -> Floats:
        """Return all of it as an array, if you have the memory."""
        dense = self.csr.toarray()
        return dense if self.base is None else dense + np.outer(self.base, self._trend)

    def tocsr(self) -> Any:
        """Return a copy as a sparse matrix, in which everything not listed is 0."""
        if self.base is not None:
            raise ValueError(
                "what these rows do not list is not 0 but spread, so no sparse matrix can hold "
                "them; use toarray() on some rows, or rest='drop'."
            )
        return self.csr.copy()  # SciPy may sort it in place

    def scaled(self, ratio: Vector) -> tuple[Any, int]:
        """Multiply columns by a ratio and normalise rows; a sparse matrix again where one can be.

        Rows that would lose all probability are kept; the second value counts them.
        """
        csr, data = self.csr, np.empty_like(self.csr.data)
        base = None if self.base is None else np.empty_like(self.base)
        lost = []
        for rows, block in self.blocks(slice(0, self.shape[0]), 0):
            new = block.astype(np.float64, copy=False) * ratio
            sums = np.asarray(new.sum(axis=1))
            nothing = np.flatnonzero(sums < np.finfo(np.float64).tiny)  # 1 / sum must be a number
            lost.append(nothing + rows.start)
            sums[nothing] = 1.0
            new = new * (1 / sums)[:, None]
            data[csr.indptr[rows.start] : csr.indptr[rows.stop]] = new.csr.data
            if base is not None:
                base[rows] = new.base
        trend = None
        if base is not None:
            trend = (self._trend * ratio).astype(self.dtype)
            # rounding must not make a listed probability near 0 negative
            np.maximum(data, -np.repeat(base, np.diff(csr.indptr)) * trend[csr.indices], out=data)
        at, scores = np.concatenate(lost), with_data(csr, data)
        if at.size:  # put back as they were, normalised; a rest that they spread is listed in full
            n, kept = self.shape[0], self[at].astype(np.float64)
            kept = kept * (1 / kept.sum(axis=1))[:, None]
            listed = kept.csr if kept.base is None else csr_array(kept.toarray())
            data[np.repeat(np.isin(np.arange(n), at), np.diff(csr.indptr))] = 0
            place = csr_array((np.ones(at.size), (at, np.arange(at.size))), shape=(n, at.size))
            scores = csr_array(scores + place @ listed).astype(self.dtype)
            if base is not None:
                base[at] = 0
        table = object.__new__(type(self))  # of the same kind
        SparseTable.__init__(table, scores, base, trend, self.names)
        return table.tocsr() if base is None else table, at.size

    def _rows_of(self, n_scores: int) -> int:
        """Return about how many rows have so many scores."""
        return n_scores // max(1, self.csr.nnz // max(1, self.shape[0]))


def with_data(csr: Any, data: Floats) -> Any:
    """Return a matrix with the same listed entries and other values."""
    return csr_array((data, csr.indices, csr.indptr), shape=csr.shape)


def _largest(csr: Any, base: Floats | None, trend: Floats | None) -> tuple[Indices, Floats]:
    """Return the largest column of each row of `csr + base[:, None] * trend`, and its value.

    The rest is at least 0. Among equals it is the first, unless all are 0. A rest without `trend`
    is the same in all columns.
    """
    n, K = csr.shape
    listed = np.diff(csr.indptr)
    slope, values = np.zeros(n, csr.dtype), csr.data
    if base is not None and trend is not None:  # otherwise the rest changes no order in a row
        slope = base
        values = values + np.repeat(base, listed) * trend[csr.indices]
    trend = np.ones(K, csr.dtype) if base is None or trend is None else trend
    best = _by_row(np.maximum, values, csr.indptr, np.full(n, -np.inf, values.dtype))
    at = np.full(n, K, dtype=np.intp)
    equal = np.flatnonzero(values == np.repeat(best, listed))
    np.minimum.at(at, np.searchsorted(csr.indptr, equal, side="right") - 1, csr.indices[equal])
    open_rows = np.flatnonzero(~(best > slope * trend.max()))
    if open_rows.size:
        unlisted, value = _largest_unlisted(csr[open_rows], slope[open_rows], trend)
        mine, column = best[open_rows], at[open_rows]
        better = (value > mine) | ((value == mine) & (unlisted < column))
        best[open_rows] = np.where(better, value, mine)
        at[open_rows] = np.where(better, unlisted, column)
    at[at == K] = 0  # NaN alone
    return at, best if base is None or slope is base else best + base


def _by_row(reduction: np.ufunc, values: Floats, indptr: Indices, empty: Floats) -> Floats:
    """Reduce the listed values of each row; rows without any keep their value of `empty`."""
    listed = np.flatnonzero(np.diff(indptr))
    if listed.size:
        empty[listed] = reduction.reduceat(values, indptr[listed], dtype=empty.dtype)
    return empty


def _largest_unlisted(csr: Any, slope: Floats, trend: Floats) -> tuple[Indices, Floats]:
    """Return the best class that a row does not list; rows that list all get -inf."""
    n, K = csr.shape
    listed = np.diff(csr.indptr).astype(np.intp)
    row, gap = np.repeat(np.arange(n), listed), listed.copy()
    order = np.argsort(-trend, kind="stable")
    rank = np.empty(K, dtype=np.intp)
    rank[order] = np.arange(K)
    # the smallest rank that a row does not have
    ranks, place = rank[csr.indices], np.arange(row.size) - csr.indptr[:-1][row]
    beyond = ranks[np.lexsort((ranks, row))] > place
    np.minimum.at(gap, row[beyond], place[beyond])
    found = np.append(order, K)[gap]
    value = slope * trend[np.where(gap == K, 0, found)]
    return found, np.where(gap == K, -np.inf, value).astype(slope.dtype)


def dense(rows: Rows) -> Rows:
    """Return rows whose blocks are arrays."""
    return ArrayTable(rows) if isinstance(rows, SparseTable) else rows


def compressed(matrix: Any) -> Any:
    """Return compressed rows of float32 or float64 without duplicates; a copy only if needed."""
    csr = csr_array(matrix)
    csr = csr.astype(float_type(csr.dtype), copy=False)
    if not csr.has_canonical_format:
        csr = csr.copy()  # the user's matrix stays as it is
        csr.sum_duplicates()
    return csr
