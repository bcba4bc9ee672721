"""A sample of a table's rows, for what cannot be computed block by block."""

from priorshift._typing import Floats
from priorshift.execution._reduce import sample_rows
from priorshift.execution._tables import Table

SAMPLE_NUMBERS = 10_000_000
"""Rows times classes of a sample."""
FEWEST_ROWS = 1000
SAMPLE_SEED = 0


def sample_in_memory(table: Table) -> Floats:
    """Return all rows of a small table, else a random sample of them, the same every time.

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
