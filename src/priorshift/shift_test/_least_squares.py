r"""Many least-squares problems on the simplex at once, by accelerated projected gradient steps.

Enough for resampling, where thousands of estimates need three digits; `solvers` has the certified
way for one.
"""

from collections.abc import Callable

import numpy as np

from priorshift._typing import Vector
from priorshift.solvers import project_simplex

MAX_STEPS = 500
SMALL_CHANGE = 1e-6


def nearest_mixtures(A: Vector, B: Vector, start: Vector) -> Vector:
    r"""Solve :math:`\min_{p \in \Delta} \|A p - b\|^2` for every column b.

    Examples
    --------
    >>> import numpy as np
    >>> A = np.array([[0.8, 0.2], [0.2, 0.8]])
    >>> nearest_mixtures(A, np.array([[0.5, 1.0], [0.5, 0.0]]), np.array([0.5, 0.5])).round(3)
    array([[0.5, 1. ],
           [0.5, 0. ]])
    """
    G, H = A.T @ A, A.T @ B
    step = 1 / max(float(np.linalg.eigvalsh(G)[-1]), np.finfo(np.float64).tiny)
    return _descend(lambda p: G @ p - H, np.full(B.shape[1], step), start)


def nearest_mixtures_each(A: Vector, B: Vector, start: Vector) -> Vector:
    r"""Solve :math:`\min_{p \in \Delta} \|A_i p - b_i\|^2` for matrices (n, m, K), B (n, m).

    Returns the solutions as columns, (K, n).
    """
    G = A.transpose(0, 2, 1) @ A
    H = (B[:, None, :] @ A)[:, 0, :].T
    # A is not negative, so that no eigenvalue of G is above its largest sum of a row
    step = 1 / np.maximum(G.sum(axis=2).max(axis=1), np.finfo(np.float64).tiny)
    return _descend(lambda p: (G @ p.T[:, :, None])[:, :, 0].T - H, step, start)


def _descend(slope: Callable[[Vector], Vector], step: Vector, start: Vector) -> Vector:
    """Take Nesterov's steps from one start, a column a problem."""
    p = np.repeat(start[:, None], step.size, axis=1)
    ahead, momentum = p, 1.0
    for _ in range(MAX_STEPS):
        new = project_simplex(ahead - step * slope(ahead))
        change = new - p
        if np.abs(change).max() < SMALL_CHANGE:
            return new
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        uphill = ((ahead - new) * change).sum(axis=0) > 0  # momentum that has gone too far
        ahead = new + np.where(uphill, 0.0, (momentum - 1) / following) * change
        p, momentum = new, following
    return p
