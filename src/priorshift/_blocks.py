"""The one place where rows are cut into slices, so that no pass over data needs a copy of them."""

from collections.abc import Iterator
from itertools import pairwise

BLOCK_BYTES = 2**20
"""Float64 bytes of one block: large enough to amortise a call, small enough for the cache."""


def row_slices(rows: int | slice, n_rows: int) -> Iterator[slice]:
    """Cut rows, all of them or a part, into slices of at most `n_rows` each.

    Examples
    --------
    >>> list(row_slices(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    part = slice(0, rows) if isinstance(rows, int) else rows
    step = max(1, n_rows)
    for start in range(part.start, part.stop, step):
        yield slice(start, min(start + step, part.stop))


def row_blocks(
    rows: int | slice, n_columns: int, block_bytes: int = BLOCK_BYTES
) -> Iterator[slice]:
    """Cut rows, all of them or a part, into slices of at most `block_bytes` of float64 each.

    Examples
    --------
    >>> list(row_blocks(5, 1, block_bytes=16))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return row_slices(rows, block_bytes // (8 * n_columns))


def row_parts(n_rows: int, n_parts: int) -> list[slice]:
    """Cut all rows into a given number of consecutive slices, equal up to rounding.

    Examples
    --------
    >>> row_parts(5, 2)
    [slice(0, 2, None), slice(2, 5, None)]
    """
    ends = [n_rows * part // n_parts for part in range(n_parts + 1)]
    return [slice(*pair) for pair in pairwise(ends)]
