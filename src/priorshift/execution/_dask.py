"""Dask arrays as tables: every pass runs where the chunks are (extra `dask`)."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from priorshift._typing import Floats
from priorshift.execution._dask_tasks import Cuts, Folding, map_here, map_on_cluster
from priorshift.execution._tables import TABLE_MAKERS, Blocks, Done, Fold, Table, slices

MOST_HELD = 2**30
"""Bytes up to which chunks are kept in this process, where there is no cluster to keep them."""


class DaskTable(Table):
    """A Dask array, gone through chunk by chunk where the chunks are.

    `estimate` and `fit` make one of every Dask array they are given. Make it yourself to go through
    the same data with several methods: then it is computed, and held, only once.

    Parameters
    ----------
    array : dask.array.Array of shape (n_samples, n_classes)
        Probabilities. Chunks of columns are joined; unknown numbers of rows are counted first,
        and those that the array claims are compared with what its chunks turn out to hold.
    persist : bool, optional
        Whether to compute the chunks once and to keep them between passes. By default they are kept
        in the memory of a cluster's workers (which spill to disk when it is full), and in this
        process only up to 1 GiB: beyond that, every pass computes them anew.

    Examples
    --------
    >>> import dask.array as da
    >>> import priorshift as ps
    >>> from priorshift.execution import DaskTable
    >>> y_proba = da.from_array([[0.9, 0.1], [0.6, 0.4], [0.9, 0.1], [0.2, 0.8]], chunks=(2, 2))
    >>> table = DaskTable(y_proba)
    >>> ps.EM().fit(source_priors=[0.5, 0.5]).estimate(table).priors.round(3)
    array([0.898, 0.102])
    """

    def __init__(self, array: Any, *, persist: bool | None = None) -> None:
        self.dtype = _float_type(array)
        self._client = _client()
        if persist is None:
            # the size of unknown chunks is NaN, and so not known to be small
            persist = self._client is not None or array.nbytes <= MOST_HELD
        array = _in_whole_rows(array, persist)
        self.array = array.persist() if persist else _optimised(array)
        self.shape = array.shape
        self._starts = np.cumsum((0, *array.chunks[0])).tolist()
        self._held = persist

    def blocks(self, part: slice, n_rows: int) -> Blocks:
        """Fetch the rows of a part block by block."""
        for rows, block in slices(self.array, part, n_rows):
            yield rows, np.asarray(block.compute(), dtype=self.dtype)

    def map_parts(self, fold: Fold, n_parts: int, n_rows: int, done: Done) -> list[Any]:
        """Fold the blocks of each chunk where it is; return the results, in order."""
        cuts = Cuts(tuple(self.parts(n_parts)), n_rows)
        folding, shares = Folding(fold, cuts, self.dtype), list(cuts.shares(self._starts))
        if self._client is None:
            return map_here(self.array, folding, shares, done)
        return map_on_cluster(self._client, self.array, self._held, folding, shares, done)

    def __reduce__(self) -> Any:
        """Refuse: no worker is to receive the table whose chunks it holds."""
        raise TypeError(
            "a DaskTable is not pickled: it stands for chunks on a cluster. Estimators that were "
            "fitted on one keep it; fit them on a NumPy array to pickle them."
        )


def _table_of(values: Any, _: str) -> DaskTable | None:
    return DaskTable(values) if is_dask_array(values) else None


TABLE_MAKERS["dask"] = _table_of


def is_dask_array(values: Any) -> bool:
    """Tell without importing Dask."""
    return type(values).__module__.startswith("dask.array")


def map_chunks(function: Callable[[Floats], Floats], array: Any) -> Any:
    """Return the Dask array of a function of its rows, to be computed when it is asked for.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> map_chunks(np.sqrt, da.from_array(np.array([[1.0, 4.0], [9.0, 16.0]]))).compute()
    array([[1., 2.],
           [3., 4.]])
    """
    dtype = _float_type(array)
    if array.ndim == 2:
        array = array.rechunk({1: -1})
    meta = np.empty((0,) * array.ndim, dtype)
    return array.map_blocks(_Chunkwise(function, dtype), dtype=dtype, meta=meta)


@dataclass(frozen=True)
class _Chunkwise:
    """Applies a function to a chunk that has rows."""

    function: Callable[[Floats], Floats]
    dtype: np.dtype[Any]

    def __call__(self, chunk: Floats) -> Floats:
        return self.function(chunk) if chunk.shape[0] else chunk.astype(self.dtype)


def _client() -> Any:
    """Return the client of a cluster that Dask computes on, if there is one."""
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


def _float_type(array: Any) -> np.dtype[Any]:
    """Return the type of blocks, as of arrays in memory; refuse what holds no numbers."""
    if array.dtype.kind not in "fiub":
        raise ValueError(f"the Dask array must hold numbers; it holds {array.dtype}.")
    if not isinstance(array._meta, np.ndarray) or isinstance(array._meta, np.ma.MaskedArray):
        raise ValueError(
            "the chunks of the Dask array must be plain NumPy arrays; they are of "
            f"{type(array._meta).__name__}. Convert them with map_blocks."
        )
    narrow = array.dtype.kind == "f" and array.dtype.itemsize <= 4
    return np.dtype(np.float32 if narrow else np.float64)


def _optimised(array: Any) -> Any:
    """Make a pass over chunks that are not kept as short as Dask can."""
    import dask

    return dask.optimize(array)[0]


def _in_whole_rows(array: Any, persist: bool) -> Any:
    """Count unknown rows, check those that are claimed, and join chunks of columns."""
    if array.ndim != 2:
        raise ValueError(
            f"the Dask array must have shape (n_samples, n_classes); it has {array.ndim} "
            "dimensions. The probability p of a positive class is dask.array.stack([1 - p, p], "
            "axis=1)."
        )
    if np.isnan(array.shape).any():
        array = (array.persist() if persist else array).copy()
        array.compute_chunk_sizes()  # changes it in place: the caller's own must stay
    array = _counted(array)
    return array if array.numblocks[1] == 1 else array.rechunk({1: -1})


def _counted(array: Any) -> Any:
    """Let every chunk be refused, once it is computed, that is not of the shape the array says.

    Dask itself believes what `from_delayed` and `map_blocks` were told. Sums over other rows than
    those would be wrong, and the certificates made from them.
    """
    return array.map_blocks(_as_claimed, dtype=array.dtype, meta=array._meta)


def _as_claimed(chunk: Any, block_info: Any = None) -> Any:
    rows, columns = block_info[0]["array-location"]
    claimed = (rows[1] - rows[0], columns[1] - columns[0])
    if np.shape(chunk) != claimed:
        raise ValueError(
            f"the Dask array says that rows {rows[0]} to {rows[1] - 1} are a chunk of shape "
            f"{claimed}; its shape is {np.shape(chunk)}. Give the chunks their true shapes where "
            "the array is made (from_delayed, map_blocks), or call compute_chunk_sizes()."
        )
    return chunk
