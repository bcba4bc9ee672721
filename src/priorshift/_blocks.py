"""Row blocks of bounded size, so that no pass over the data needs a copy of it."""

from collections.abc import Iterator

BLOCK_BYTES = 2**20
"""Float64 bytes of one block: large enough to amortise a call, small enough for the cache."""


def row_blocks(
    rows: int | slice, n_columns: int, block_bytes: int = BLOCK_BYTES
) -> Iterator[slice]:
    """Cut rows, all of them or a part, into slices of at most `block_bytes` of float64 each.

    Examples
    --------
    >>> list(row_blocks(5, 1, block_bytes=16))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    part = slice(0, rows) if isinstance(rows, int) else rows
    step = max(1, block_bytes // (8 * n_columns))
    for start in range(part.start, part.stop, step):
        yield slice(start, min(start + step, part.stop))
