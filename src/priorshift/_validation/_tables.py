"""Recognise predictions that are read in blocks: tables, memory maps, and what others make."""

from typing import Any

import numpy as np
from scipy.sparse import issparse

from priorshift.execution import (
    ArrayTable,
    DaskTable,
    SparseTable,
    Table,
    is_dask_array,
    is_spark_frame,
)


def read_table(values: Any, name: str) -> Table | None:
    """Return predictions as a table, or None where they are a plain array, a list or a frame."""
    if isinstance(values, Table):
        table: Table | None = values
    elif issparse(values):
        table = _sparse(values, name)
    elif is_dask_array(values):
        table = DaskTable(values)
    elif is_spark_frame(values):
        raise ValueError(f"{name} is a Spark frame; name its columns: SparkTable({name}, columns).")
    elif isinstance(values, np.memmap) and values.dtype not in (np.float32, np.float64):
        table = _converted(values, name)
    else:
        return None
    if table is not None and 0 in table.shape:
        raise ValueError(f"{name} is empty (shape {table.shape}); give at least one row.")
    return table


def _sparse(values: Any, name: str) -> Table:
    """Read a sparse matrix: what it does not list is 0."""
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} is a sparse array of shape {values.shape} and type {values.dtype}; it must "
            "hold numbers in two dimensions, one row a sample."
        )
    return SparseTable.of(values)


def _converted(values: Any, name: str) -> Table | None:
    """Read numbers of another kind block by block: a conversion of all would be a copy."""
    if values.dtype.kind not in "fiu" or values.ndim != 2:
        return None
    if values.dtype.itemsize > 8:
        raise ValueError(f"{name} holds {values.dtype}; store it as float32 or float64.")
    return ArrayTable(values)
