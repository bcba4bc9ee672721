"""Passes over rows: in threads on this machine, block by block; on a cluster, chunk by chunk."""

from priorshift.execution._dask import DaskTable, is_dask_array, map_chunks
from priorshift.execution._reduce import Rows, Watcher, map_reduce, watched
from priorshift.execution._sample import (
    SAMPLE_SEED,
    sample_in_memory,
    sample_rows,
    sample_sentence,
    take_rows,
)
from priorshift.execution._spark import SparkTable, is_spark_frame
from priorshift.execution._sparse import DENSE_CLASSES, DenseBlocks, SparseTable
from priorshift.execution._sparse_block import SparseBlock
from priorshift.execution._tables import (
    ArrayTable,
    Block,
    Blocks,
    Done,
    Fold,
    MappedTable,
    Table,
    as_table,
    slices,
    table_kind,
)
from priorshift.execution._tensors import (
    TensorTable,
    array_api,
    has_array_api,
    is_tensor,
    softmax_of,
    to_numpy,
)
from priorshift.execution._threads import (
    N_PARTS,
    SERIAL_WORK,
    map_parts,
    map_rows,
    multiply,
    n_threads,
    single_threaded_blas,
    times,
)
from priorshift.execution._topk import TopK

__all__ = [
    "DENSE_CLASSES",
    "N_PARTS",
    "SAMPLE_SEED",
    "SERIAL_WORK",
    "ArrayTable",
    "Block",
    "Blocks",
    "DaskTable",
    "DenseBlocks",
    "Done",
    "Fold",
    "MappedTable",
    "Rows",
    "SparkTable",
    "SparseBlock",
    "SparseTable",
    "Table",
    "TensorTable",
    "TopK",
    "Watcher",
    "array_api",
    "as_table",
    "has_array_api",
    "is_dask_array",
    "is_spark_frame",
    "is_tensor",
    "map_chunks",
    "map_parts",
    "map_reduce",
    "map_rows",
    "multiply",
    "n_threads",
    "sample_in_memory",
    "sample_rows",
    "sample_sentence",
    "single_threaded_blas",
    "slices",
    "softmax_of",
    "table_kind",
    "take_rows",
    "times",
    "to_numpy",
    "watched",
]
