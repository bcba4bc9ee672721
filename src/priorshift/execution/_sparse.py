"""Tables with few scores per row: SciPy's sparse matrices, and lists of the best classes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from priorshift._blocks import row_slices
from priorshift._typing import Floats, Indices, Mask, Vector, are_numbers, float_type
from priorshift.execution._sparse_block import SparseBlock, with_data
from priorshift.execution._tables import Blocks, Done, Fold, Table, counted, slices, table_kind
from priorshift.execution._threads import SERIAL_WORK

DENSE_CLASSES = 2000
"""Up to this many classes, a matrix of classes by classes is small (32 MB) and made dense."""

SCORES_IN_BLOCK = 2**18
"""Scores of one block: larger blocks leave the cache, smaller ones need more calls."""

SCORES_SUMMED = 2**23
"""Scores that are summed by label at once, to keep their float64 copy small."""


@table_kind
class SparseTable(Table):
    """A table with few scores per row, in memory.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> table = SparseTable.of(csr_array([[0.7, 0.0, 0.3], [0.0, 1.0, 0.0]]))
    >>> table.shape, table.n_scores
    ((2, 3), 3)
    >>> table.argmax(axis=1)
    array([0, 1])
    """

    def __init__(self, whole: SparseBlock, names: tuple[Any, ...] | None = None) -> None:
        self.whole, self.names = whole, names
        self.shape, self.dtype = whole.shape, whole.dtype
        self.n_scores = int(whole.csr.nnz)

    @classmethod
    def recognises(cls, values: Any) -> bool:
        """Recognise SciPy's sparse matrices and arrays."""
        return issparse(values)

    @classmethod
    def of(cls, values: Any, name: str = "y_proba") -> "SparseTable":
        """Read a SciPy sparse matrix or array; what it does not list is 0."""
        if values.ndim != 2 or not are_numbers(values.dtype):
            raise ValueError(
                f"{name} is a sparse array of shape {values.shape} and type {values.dtype}; it "
                "must hold numbers in two dimensions, one row per sample."
            )
        return SparseTable(SparseBlock(compressed(values)))

    @property
    def exact(self) -> bool:
        """Whether what is not listed is 0."""
        return self.whole.base is None

    def blocks(self, part: slice, n_rows: int) -> Blocks:  # noqa: ARG002
        """Yield blocks of a bounded number of scores, however many classes there are."""
        return slices(self.whole, part, self._rows_of(SCORES_IN_BLOCK))

    def map_parts(self, fold: Fold, n_parts: int, n_rows: int, done: Done) -> list[Any]:
        """Fold in threads, unless there is too little work for them."""
        if self.n_scores >= SERIAL_WORK:
            return super().map_parts(fold, n_parts, n_rows, done)
        everything = slice(0, self.shape[0])
        return [fold(counted(self.blocks(everything, n_rows), done))]

    def columns(self, order: Sequence[int]) -> "SparseTable":
        """Return the columns in another order."""
        names = None if self.names is None else tuple(self.names[at] for at in order)
        return SparseTable(self.whole[:, list(order)], names)

    def __getitem__(self, rows: slice | Indices | Mask) -> SparseBlock:
        """Return some rows."""
        return self.whole[rows]

    def sum_by(self, label: Indices, n_labels: int, weight: Vector | None = None) -> SparseBlock:
        """Sum the rows of each label, some rows at a time: a matrix of labels by classes."""
        total = None
        for rows in row_slices(self.shape[0], self._rows_of(SCORES_SUMMED)):
            of_rows = None if weight is None else weight[rows]
            found = self.whole[rows].sum_by(label[rows], n_labels, of_rows)
            total = found if total is None else total + found
        assert total is not None
        return total

    def argmax(self, axis: int = 1) -> Indices:
        """Return the largest class of each row, the first among equals."""
        everything = slice(0, self.shape[0])
        found = [block.argmax(axis) for _, block in self.blocks(everything, 0)]
        return np.concatenate(found)

    def tocsr(self) -> Any:
        """Return a copy as a sparse matrix, in which everything not listed is 0."""
        if not self.exact:
            raise ValueError(
                "what these rows do not list is not 0 but spread, so no sparse matrix can hold "
                "them; use toarray() on some rows, or rest='drop'."
            )
        return self.whole.csr.copy()  # SciPy may sort it in place

    def toarray(self) -> Floats:
        """Return all of it as an array, if you have the memory."""
        return self.whole.toarray()

    def scaled(self, ratio: Vector) -> tuple["SparseTable", int]:
        """Multiply columns by a ratio and normalise rows.

        Rows that would lose all probability are kept; the second value counts them.
        """
        whole, csr = self.whole, self.whole.csr
        data = np.empty_like(csr.data)
        base = None if whole.base is None else np.empty_like(whole.base)
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
            trend = (whole._trend * ratio).astype(self.dtype)
            # rounding must not make a listed probability near 0 negative
            np.maximum(data, -np.repeat(base, np.diff(csr.indptr)) * trend[csr.indices], out=data)
        adapted, at = SparseBlock(with_data(csr, data), base, trend), np.concatenate(lost)
        if at.size:
            adapted = _replaced(adapted, whole[at], at)
        return self._like(adapted), at.size

    def _rows_of(self, n_scores: int) -> int:
        """Return about how many rows have so many scores."""
        return n_scores // max(1, self.n_scores // self.shape[0])

    def _like(self, whole: SparseBlock) -> "SparseTable":
        """Return another table of the same kind."""
        table = object.__new__(type(self))
        SparseTable.__init__(table, whole, self.names)
        return table


class DenseBlocks(Table):
    """A sparse table whose blocks are arrays of a few rows, for code that needs arrays."""

    def __init__(self, table: SparseTable) -> None:
        self.table = table
        self.shape, self.dtype, self.names = table.shape, table.dtype, table.names

    def blocks(self, part: slice, n_rows: int) -> Blocks:
        """Yield arrays of at most `n_rows`."""
        for rows, block in slices(self.table.whole, part, n_rows):
            yield rows, block.toarray()


def compressed(matrix: Any) -> Any:
    """Return compressed rows of float32 or float64 without duplicates; a copy only if needed."""
    csr = csr_array(matrix)
    csr = csr.astype(float_type(csr.dtype), copy=False)
    if not csr.has_canonical_format:
        csr = csr.copy()  # the user's matrix stays as it is
        csr.sum_duplicates()
    return csr


def _replaced(new: SparseBlock, kept: SparseBlock, at: Indices) -> SparseBlock:
    """Put rows back as they were, normalised; the rest that they spread is listed in full."""
    n, K = new.shape
    sums = np.asarray(kept.sum(axis=1))[:, None]
    rows = kept.csr if kept.base is None else csr_array(kept.toarray())
    rows = with_data(rows, rows.data / np.repeat(sums[:, 0], np.diff(rows.indptr)))
    counts = np.diff(new.csr.indptr)
    staying = np.ones(n, bool)
    staying[at] = False
    keep = np.repeat(staying, counts)
    counts[at] = np.diff(rows.indptr)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    of_row = np.repeat(staying, counts)
    data = np.empty(indptr[-1], new.dtype)
    indices = np.empty(indptr[-1], new.csr.indices.dtype)
    data[of_row], indices[of_row] = new.csr.data[keep], new.csr.indices[keep]
    data[~of_row], indices[~of_row] = rows.data, rows.indices
    base = new.base
    if base is not None:
        base = np.where(staying, base, 0.0)
    return SparseBlock(csr_array((data, indices, indptr), shape=(n, K)), base, new.trend)
