"""Some rows of a table in memory, for what cannot be computed block by block."""

from dataclasses import dataclass

import numpy as np

from priorshift._typing import Floats, Indices
from priorshift.execution._reduce import Rows, map_reduce
from priorshift.execution._tables import Block, Table

SAMPLE_NUMBERS = 10_000_000
"""Rows times classes of a sample."""
FEWEST_ROWS = 1000
SAMPLE_SEED = 0


def take_rows(table: Table, index: Indices) -> Floats:
    """Return some rows of a table, given by their numbers in ascending order."""
    found = map_reduce(_Take(index), table)
    return np.concatenate(found) if found else np.empty((0, table.shape[1]), table.dtype)


def sample_rows(data: Rows, n_rows: int, random_state: int = 0) -> Floats:
    """Return all rows of a small table or array, otherwise about `n_rows` drawn at random.

    Rows drawn twice count once: a permutation of all rows would need memory of its own.
    """
    n = data.shape[0]
    if n_rows >= n:
        return take_rows(data, np.arange(n)) if isinstance(data, Table) else data
    index = np.unique(np.random.default_rng(random_state).integers(n, size=n_rows))
    return take_rows(data, index) if isinstance(data, Table) else data[index]


def sample_in_memory(table: Table) -> Floats:
    """Return all rows of a small table, otherwise a random sample of them, the same every time.

    Examples
    --------
    >>> import numpy as np
    >>> from priorshift.execution import ArrayTable
    >>> sample_in_memory(ArrayTable(np.ones((5, 2)))).shape
    (5, 2)
    """
    return sample_rows(table, max(FEWEST_ROWS, SAMPLE_NUMBERS // table.shape[1]), SAMPLE_SEED)


def sample_sentence(what: str, n_rows: int, n_all: int) -> str:
    """Say what was computed on a sample; return an empty text if it was on all rows."""
    if n_rows == n_all:
        return ""
    return (
        f"{what} {n_rows:,} of the target's {n_all:,} rows, drawn at random (seed {SAMPLE_SEED})."
    )


@dataclass(frozen=True)
class _Take:
    index: Indices

    def __call__(self, block: Block, rows: slice) -> list[Floats]:
        first, end = np.searchsorted(self.index, [rows.start, rows.stop])
        at = self.index[first:end] - rows.start
        return [np.array(block[at])] if at.size else []
