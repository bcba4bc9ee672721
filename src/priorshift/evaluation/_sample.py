"""Rows of a table drawn at random, for what cannot be done block by block."""

from priorshift import execution
from priorshift._typing import Floats
from priorshift.execution import Table

SAMPLE_NUMBERS = 10_000_000
"""Rows times classes of a sample."""
FEWEST_ROWS = 1000
SEED = 0


def sample_rows(table: Table) -> Floats:
    """Return all rows of a small table, else a sample of them: the same one every time.

    Examples
    --------
    >>> import numpy as np
    >>> from priorshift.execution import ArrayTable
    >>> sample_rows(ArrayTable(np.ones((5, 2)))).shape
    (5, 2)
    """
    size = max(FEWEST_ROWS, SAMPLE_NUMBERS // table.shape[1])
    return execution.sample_rows(table, size, SEED)


def sample_sentence(what: str, n_rows: int, n_all: int) -> str:
    """Say what was done on a sample, or nothing if it was on all rows."""
    if n_rows == n_all:
        return ""
    return f"{what} {n_rows:,} of the target's {n_all:,} rows, drawn at random (seed {SEED})."
