r"""EM and MAP by group: the rows of each group are its own mixture problem.

Rows are gathered by group, and groups of like size are stacked, padded with rows of weight 0, so
that Newton's steps run over many groups at once. A group too large to be worth a copy goes to the
solver of one problem; there can only be few of those.
"""

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from priorshift._blocks import row_blocks
from priorshift._typing import Floats, Indices, Labels, Vector
from priorshift.groups._counts import GroupCounts, count_groups
from priorshift.groups._methods import Found
from priorshift.groups._mixtures import Mixtures
from priorshift.groups._newton import Solutions, maximise_all
from priorshift.solvers import Mixture, maximise

STACK_BYTES = 2**23
"""Rows stacked at once; a group with more goes to the solver of one problem."""

ALIKE = 1.25
"""Groups are stacked with others up to so many times their size: at most a fifth is padding."""

COUNT_BYTES = 2**23


@dataclass(frozen=True)
class GroupedRows:
    """Target rows, with the number of each row's group.

    Attributes
    ----------
    y_proba : ndarray of shape (n, K)
    codes : ndarray of shape (n,)
    names : ndarray of shape (G,)
    weight : ndarray of shape (n,) or None
    scale : ndarray of shape (K,)
        1 / source priors, and 0 for a class that the source never had.
    """

    y_proba: Floats
    codes: Indices
    names: Labels
    weight: Vector | None
    scale: Vector

    def informative(self) -> Vector:
        """Return the weight of rows that some priors explain, by group."""
        possible = self.y_proba @ self.scale.astype(self.y_proba.dtype) > 0
        weight = possible if self.weight is None else possible * self.weight
        found = np.bincount(self.codes, weight, minlength=self.names.size)
        return found.astype(np.float64, copy=False)

    def problem(self, alpha: Vector) -> Mixture:
        """Return the problem of all rows together."""
        return Mixture.of(self.y_proba, scale=self.scale, weights=self.weight, alpha=alpha)

    def counts_under(self, priors: Vector) -> GroupCounts:
        """Count by group the posteriors that the rows have under priors above 0."""
        factor = self.scale * priors

        def counted(rows: slice) -> GroupCounts:
            block = self.y_proba[rows] * factor
            total = block.sum(axis=1, keepdims=True)
            block = np.divide(
                block, total, out=np.tile(priors, (block.shape[0], 1)), where=total > 0
            )
            weight = None if self.weight is None else self.weight[rows]
            return count_groups(
                block, self.names, self.codes[rows], "soft", weight, covariance=True
            )

        n, K = self.y_proba.shape
        return reduce(add, map(counted, row_blocks(n, K, COUNT_BYTES)))

    def solve(
        self, groups: Indices, excess: Vector, start: Vector, *, tol: float, max_iter: int
    ) -> Found:
        """Maximise the objective of some groups, all with `excess` as their hyper-prior."""
        order = np.argsort(self.codes, kind="stable")
        sizes = np.bincount(self.codes, minlength=self.names.size)
        first = np.cumsum(sizes) - sizes
        priors = np.empty((groups.size, self.scale.size))
        gap, n_iter = np.empty(groups.size), np.zeros(groups.size, dtype=np.intp)
        most = max(1, STACK_BYTES // (8 * self.scale.size))
        for part in _stacks(sizes[groups], most):
            chosen = groups[part]
            if sizes[chosen].max() > most:
                rows = order[first[chosen[0]] :][: sizes[chosen[0]]]
                solved = self._single(rows, excess, start, tol, max_iter)
            else:
                A, weights = self._stack(order, first[chosen], sizes[chosen])
                problem = Mixtures.of(A, weights, excess)
                solved = maximise_all(problem, start, tol=tol, max_iter=max_iter)
            priors[part], gap[part], n_iter[part] = solved.priors, solved.gap, solved.n_iter
        return Found.judged(priors, gap, tol, n_iter)

    def _stack(self, order: Indices, first: Indices, sizes: Indices) -> tuple[Vector, Vector]:
        """Return rows of groups as (g, m, K), divided by source priors, and their weights."""
        slots = np.arange(sizes.max())
        filled = slots < sizes[:, None]
        rows = order[first[:, None] + np.where(filled, slots, 0)]
        A = self.y_proba[rows].astype(np.float64, copy=False) * self.scale
        weights = np.ones(rows.shape) if self.weight is None else self.weight[rows]
        return A, weights * (filled & (A.sum(axis=2) > 0))

    def _single(
        self, rows: Indices, excess: Vector, start: Vector, tol: float, max_iter: int
    ) -> Solutions:
        weights = None if self.weight is None else self.weight[rows]
        problem = Mixture.of(
            self.y_proba[rows], scale=self.scale, weights=weights, alpha=1 + excess
        )
        solution = maximise(problem, tol=tol, max_iter=max_iter, start=start)
        gap = np.inf if solution.gap is None else solution.gap
        return Solutions(solution.value[None], np.array([gap]), np.array([solution.n_iter]))


def _stacks(sizes: Indices, most: int) -> list[Indices]:
    """Cut groups into stacks of like size with at most `most` rows, padding included.

    Examples
    --------
    >>> import numpy as np
    >>> [stack.tolist() for stack in _stacks(np.array([5, 100, 4, 5]), 12)]
    [[2, 0], [3], [1]]
    """
    order = np.argsort(sizes, kind="stable")
    ordered = sizes[order]
    stacks, at = [], 0
    while at < order.size:  # a stack at a time, not a group
        alike = int(np.searchsorted(ordered, ALIKE * ordered[at], side="right"))
        fits = ordered[at:alike] * np.arange(1, alike - at + 1) <= most
        size = max(1, int(np.count_nonzero(fits)))
        stacks.append(order[at : at + size])
        at += size
    return stacks
