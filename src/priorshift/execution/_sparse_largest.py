"""The largest entry of each row of a sparse matrix with a rest of rank one."""

from typing import Any

import numpy as np

from priorshift._typing import Floats, Indices


def largest(csr: Any, base: Floats | None, trend: Floats | None) -> tuple[Indices, Floats]:
    """Return the largest column of each row of `csr + base[:, None] * trend`, and its value.

    Of equals it is the first. A rest without `trend` is the same all along a row.
    """
    n, K = csr.shape
    listed = np.diff(csr.indptr)
    slope, values = np.zeros(n, csr.dtype), csr.data
    if base is not None and trend is not None:  # else the rest changes no order in a row
        slope = base
        values = values + np.repeat(base, listed) * trend[csr.indices]
    trend = np.ones(K, csr.dtype) if base is None or trend is None else trend
    best = by_row(np.maximum, values, csr.indptr, np.full(n, -np.inf, values.dtype))
    at = np.full(n, K, dtype=np.intp)
    equal = np.flatnonzero(values == np.repeat(best, listed))
    np.minimum.at(at, np.searchsorted(csr.indptr, equal, side="right") - 1, csr.indices[equal])
    open_rows = np.flatnonzero(~(best > np.maximum(slope * trend.max(), slope * trend.min())))
    if open_rows.size:
        unlisted, value = _largest_unlisted(csr[open_rows], slope[open_rows], trend)
        mine, column = best[open_rows], at[open_rows]
        better = (value > mine) | ((value == mine) & (unlisted < column))
        best[open_rows] = np.where(better, value, mine)
        at[open_rows] = np.where(better, unlisted, column)
    at[at == K] = 0  # NaN alone
    return at, best if base is None or slope is base else best + base


def by_row(reduction: np.ufunc, values: Floats, indptr: Indices, empty: Floats) -> Floats:
    """Reduce the listed values of each row; rows without any keep what `empty` says."""
    listed = np.flatnonzero(np.diff(indptr))
    if listed.size:
        empty[listed] = reduction.reduceat(values, indptr[listed], dtype=empty.dtype)
    return empty


def _largest_unlisted(csr: Any, slope: Floats, trend: Floats) -> tuple[Indices, Floats]:
    """Return the best class that a row does not list; rows that list all get -inf."""
    n, K = csr.shape
    row = np.repeat(np.arange(n), np.diff(csr.indptr))
    found = np.full(n, K, dtype=np.intp)
    for sign in (1, 0, -1):  # a slope below 0 turns the order round, and at 0 all are equal
        of_sign = np.flatnonzero(np.sign(slope) == sign)
        if not of_sign.size:
            continue
        order = np.argsort(-sign * trend, kind="stable")
        rank = np.empty(K, dtype=np.intp)
        rank[order] = np.arange(K)
        found[of_sign] = _first_gap(rank[csr.indices], row, csr.indptr)[of_sign]
        inside = of_sign[found[of_sign] < K]
        found[inside] = order[found[inside]]
    full = found == K
    value = slope * trend[np.where(full, 0, found)]
    return found, np.where(full, -np.inf, value).astype(slope.dtype)


def _first_gap(rank: Indices, row: Indices, indptr: Indices) -> Indices:
    """Return for each row the smallest number that is not among its own."""
    order = np.lexsort((rank, row))
    place = np.arange(rank.size) - indptr[:-1][row]
    gap = np.diff(indptr).astype(np.intp)
    beyond = rank[order] > place
    np.minimum.at(gap, row[beyond], place[beyond])
    return gap
