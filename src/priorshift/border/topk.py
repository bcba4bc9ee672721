"""Predictions that list only the best classes of each row."""

from numbers import Integral
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array, issparse

from priorshift._typing import are_numbers, float_type
from priorshift.border.rows import SUM_TOLERANCE
from priorshift.border.sparse import SparseTable, compressed
from priorshift.border.threads import row_blocks
from priorshift.text import brief

Rest = Literal["spread", "drop"]
"""What happens to the probability that a row does not list."""


class TopK(SparseTable):
    r"""Predictions given as the ids and scores of the k best classes of each row.

    What a row lacks to 1 is the probability of the classes that it does not list. You say what to
    do with it: `rest="spread"` gives each of them an equal share; `rest="drop"` gives them nothing
    and divides the scores by their sum. Neither makes a matrix of rows by classes.

    Parameters
    ----------
    ids : array-like of shape (n_samples, k)
        Columns of the listed classes, integers 0..n_classes-1, each at most once per row.
    scores : array-like of shape (n_samples, k)
        Their probabilities; rows sum to at most 1.
    n_classes : int
        Number of all classes.
    rest : {"spread", "drop"}
        What happens to the remaining probability.

    Examples
    --------
    >>> import priorshift as ps
    >>> best = ps.TopK([[0, 2], [1, 3]], [[0.6, 0.2], [0.9, 0.1]], 4, rest="spread")
    >>> best.toarray()
    array([[0.6, 0.1, 0.2, 0.1],
           [0. , 0.9, 0. , 0.1]])
    >>> best = ps.TopK([[0, 2], [1, 3]], [[0.6, 0.2], [0.9, 0.1]], 4, rest="drop")
    >>> best.toarray()
    array([[0.75, 0.  , 0.25, 0.  ],
           [0.  , 0.9 , 0.  , 0.1 ]])
    >>> ps.EM().fit(source_priors=[0.25] * 4).estimate(best).priors.round(2)
    array([0.5, 0.5, 0. , 0. ])
    """

    def __init__(self, ids: Any, scores: Any, n_classes: int, *, rest: Rest) -> None:
        try:
            indices, values = np.asarray(ids), np.asarray(scores)
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"ids and scores cannot be read as arrays ({error}); give lists of one length."
            ) from None
        if indices.ndim != 2 or indices.shape != values.shape or 0 in indices.shape:
            raise ValueError(
                f"ids and scores must have one shape (n_samples, k); got {indices.shape} and "
                f"{values.shape}."
            )
        if indices.dtype.kind not in "iu":
            raise ValueError(f"ids must be integers, the columns of classes; got {indices.dtype}.")
        if not are_numbers(values.dtype):
            raise ValueError(f"scores must be probabilities; got {values.dtype}.")
        if not isinstance(n_classes, Integral) or not 1 <= n_classes < 2**63:
            raise ValueError(
                "n_classes must be a whole number: all classes, listed or not; got "
                f"{brief(n_classes)}."
            )
        n, k = indices.shape
        for rows in row_blocks(n, n_rows=2**20 // k):  # some at a time: the check sorts a copy
            part = indices[rows]
            outside = (part < 0) | (part >= n_classes)
            if outside.any():
                row, at = np.argwhere(outside)[0]
                raise ValueError(
                    f"ids must be 0..{n_classes - 1}, the columns of {n_classes} classes; got "
                    f"{part[row, at]} in row {rows.start + row}."
                )
            ordered = np.sort(part, axis=1)
            twice = ordered[:, 1:] == ordered[:, :-1]
            if twice.any():
                row, at = np.argwhere(twice)[0]
                raise ValueError(
                    f"row {rows.start + row} of ids lists class {ordered[row, at]} twice; list "
                    "each class once, with its whole probability."
                )
        scores = values.astype(float_type(values.dtype), copy=False).ravel()
        small = indices.astype(np.int32 if n_classes < 2**31 else np.int64, copy=False)
        parts = scores, small.ravel(), np.arange(n + 1, dtype=np.int64) * k
        table = _with_rest(csr_array(parts, shape=(n, n_classes)), rest)
        super().__init__(table.csr, table.base)

    @classmethod
    def from_csr(cls, matrix: Any, *, rest: Rest) -> "TopK":
        """Read the listed scores from a scipy sparse matrix; rows may list any number of classes.

        A stored score of 0 counts as listed: its class gets no share of the rest.

        Examples
        --------
        >>> import priorshift as ps
        >>> from scipy.sparse import csr_array
        >>> ps.TopK.from_csr(csr_array([[0.6, 0.0, 0.0]]), rest="spread").toarray()
        array([[0.6, 0.2, 0.2]])
        """
        if not issparse(matrix):
            raise ValueError(
                f"from_csr takes a scipy sparse matrix; got {type(matrix).__name__}. For ids and "
                "scores use TopK(ids, scores, n_classes, rest=...)."
            )
        table, rows = cls.__new__(cls), _with_rest(compressed(matrix), rest)
        SparseTable.__init__(table, rows.csr, rows.base)
        return table


def _with_rest(csr: Any, rest: Rest) -> SparseTable:
    """Spread what rows lack to 1 over the classes they do not list, or drop it."""
    if rest not in ("spread", "drop"):
        raise ValueError(
            f"rest must be 'spread' (over the classes that a row does not list) or 'drop'; got "
            f"{rest!r}."
        )
    n, K = csr.shape
    block = SparseTable(csr)
    if csr.nnz and not csr.data.min() >= 0:
        at = int(np.argmin(csr.data >= 0))
        row = int(np.searchsorted(csr.indptr, at, side="right")) - 1
        raise ValueError(
            f"scores must be probabilities, at least 0; got {csr.data[at]} in row {row}. Logits "
            "must pass through a softmax over all classes first."
        )
    listed, sums = np.diff(csr.indptr), np.asarray(block.sum(axis=1))
    above = np.flatnonzero(~(sums <= 1 + SUM_TOLERANCE))
    if above.size:
        raise ValueError(
            f"the scores of row {above[0]} sum to {sums[above[0]]:.6g}, more than 1 ({above.size} "
            "such rows); scores must be probabilities over all classes, listed or not."
        )
    if rest == "drop":
        empty = np.flatnonzero(sums < np.finfo(sums.dtype).tiny)  # 1 / sum must be a number
        if empty.size:
            raise ValueError(
                f"row {empty[0]} lists no probability at all ({empty.size} such rows), so nothing "
                "is left when the rest is dropped; use rest='spread', or leave such rows out."
            )
        return block * (1 / sums).astype(csr.dtype)[:, None]
    short = np.flatnonzero((listed == K) & (sums < 1 - SUM_TOLERANCE))
    if short.size:
        raise ValueError(
            f"row {short[0]} lists every class, yet its scores sum to {sums[short[0]]:.6g}: there "
            "is no class to spread the rest over. Divide scores by their sum, or use rest='drop'."
        )
    share = np.maximum(1 - sums, 0) / np.maximum(K - listed, 1)
    share = share.astype(csr.dtype)
    data = csr.data - np.repeat(share, listed)
    return SparseTable(csr_array((data, csr.indices, csr.indptr), shape=(n, K)), share)
