"""Many mixture problems whose rows are their own, such as the posteriors of groups."""

import numpy as np

from priorshift._typing import Floats, Indices, Vector
from priorshift.solvers._certified import maximise
from priorshift.solvers._mixture import Mixture, Mixtures
from priorshift.solvers._solution import Solutions

STACK_BYTES = 2**23
"""Rows stacked at once; a group with more goes to the solver of one problem."""

ALIKE = 1.25
"""Groups are stacked with others up to this many times their size: at most a fifth is padding."""


def maximise_by_group(
    A: Floats,
    codes: Indices,
    groups: Indices,
    *,
    scale: Vector,
    weights: Vector | None,
    excess: Vector,
    start: Vector,
    tol: float,
    max_iter: int,
) -> Solutions:
    """Maximise the objectives of groups whose rows are their own, such as posteriors.

    Groups of similar size are stacked, padded with rows of weight 0, so that Newton's steps run
    over many groups at once. A group too large to copy goes to the solver of one
    problem; there can only be few of those.

    Parameters
    ----------
    A : ndarray of shape (n, K)
        Rows of all groups.
    codes : ndarray of shape (n,)
        Number of each row's group.
    groups : ndarray of shape (g,)
        Numbers of the groups to solve for; each has a row that some priors explain.
    scale : ndarray of shape (K,)
        Factor of each column of A.
    weights : ndarray of shape (n,) or None
    excess : ndarray of shape (K,)
        alpha - 1 of the hyper-prior of every group, at least 0.
    start : ndarray of shape (K,)
    """
    order, sizes = np.argsort(codes, kind="stable"), np.bincount(codes)
    first = np.cumsum(sizes) - sizes
    value, gap = np.empty((groups.size, scale.size)), np.empty(groups.size)
    n_iter = np.zeros(groups.size, dtype=np.intp)
    most = max(1, STACK_BYTES // (8 * scale.size))
    for part in _stacks(sizes[groups], most):
        chosen = groups[part]
        slots = np.arange(sizes[chosen].max())
        filled = slots < sizes[chosen, None]
        rows = order[first[chosen, None] + np.where(filled, slots, 0)]
        weight = None if weights is None else weights[rows]
        if slots.size > most:  # then it is the only group of its stack
            own = None if weight is None else weight[0]
            problem = Mixture.of(A[rows[0]], scale=scale, weights=own, alpha=1 + excess)
            alone = maximise(problem, tol=tol, max_iter=max_iter, start=start)
            value[part], n_iter[part] = alone.value, alone.n_iter
            gap[part] = np.inf if alone.gap is None else alone.gap
            continue
        stack = A[rows].astype(np.float64, copy=False) * scale
        used = (filled & (stack.sum(axis=2) > 0)).astype(np.float64)
        problems = Mixtures.of(stack, used if weight is None else weight * used, excess)
        solved = maximise(problems, tol=tol, max_iter=max_iter, start=start)
        value[part], gap[part], n_iter[part] = solved.value, solved.gap, solved.n_iter
    return Solutions.judged(value, gap, tol, n_iter)


def _stacks(sizes: Indices, most: int) -> list[Indices]:
    """Cut groups into stacks of similar size with at most `most` rows, padding included.

    Examples
    --------
    >>> import numpy as np
    >>> [stack.tolist() for stack in _stacks(np.array([5, 100, 4, 5]), 12)]
    [[2, 0], [3], [1]]
    """
    order = np.argsort(sizes, kind="stable")
    ordered = sizes[order]
    stacks, at = [], 0
    while at < order.size:  # one stack at a time, not one group
        alike = int(np.searchsorted(ordered, ALIKE * ordered[at], side="right"))
        fits = ordered[at:alike] * np.arange(1, alike - at + 1) <= most
        size = max(1, int(np.count_nonzero(fits)))
        stacks.append(order[at : at + size])
        at += size
    return stacks
