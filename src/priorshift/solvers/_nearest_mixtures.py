r"""Many least-squares problems on the simplex at once, by accelerated projected gradient steps.

.. math:: \min_{p \in \Delta} \|A p - b\|^2 \quad\text{for every column } b \text{ of } B

Resampling needs thousands of such estimates to the precision of their noise; for one certified
solution use `simplex_least_squares`. Steps are taken in :math:`u_k = p_k \sqrt{G_{kk}}`,
G = A^T A: in p itself, a class that is almost never predicted would make every step too short.
Squared distances are in units of noise, so each problem stops when its duality gap is smaller than
noise can show.
"""

import numpy as np

from priorshift._typing import Vector

MAX_STEPS = 300
SMALL_GAP = 0.01
"""Of half the squared distance: no direction is off by more than 0.14 standard deviations."""

ROUNDING = 1e-10
"""Length of a column, in standard errors, that is rounding alone."""


def nearest_mixtures(A: Vector, B: Vector, start: Vector) -> Vector:
    r"""Solve :math:`\min_{p \in \Delta} \|A p - b\|^2` for every column b.

    Parameters
    ----------
    A : ndarray of shape (m, K)
    B : ndarray of shape (m, n)
        One problem per column.
    start : ndarray of shape (K,)
        Where all of them start, a point of the simplex.

    Returns
    -------
    ndarray of shape (K, n)

    Examples
    --------
    >>> import numpy as np
    >>> A = 100 * np.array([[0.8, 0.2], [0.2, 0.8]])
    >>> nearest_mixtures(A, 100 * np.array([[0.5, 1.0], [0.5, 0.0]]), np.full(2, 0.5)).round(3)
    array([[0.5, 1. ],
           [0.5, 0. ]])
    """
    G, H = A.T @ A, A.T @ B
    squares = np.diagonal(G)
    # columns become equally long; those that are rounding alone stay as they are
    scale = 1 / np.sqrt(np.where(squares > ROUNDING**2, squares, 1.0))[:, None]
    G, H = scale * G * scale.T, scale * H
    step = 1 / max(float(np.linalg.eigvalsh(G)[-1]), ROUNDING**2)
    return _descend(G, H, scale, step, start)


def _descend(G: Vector, H: Vector, scale: Vector, step: float, start: Vector) -> Vector:
    """Take Nesterov's steps in u = p / scale; problems that are solved drop out."""
    solved, left = np.empty(H.shape), np.arange(H.shape[1])
    u = ahead = np.broadcast_to(start[:, None] / scale, H.shape)
    momentum = np.ones(left.size)
    for _ in range(MAX_STEPS):
        down = G @ ahead - H
        new = _project(ahead - step * down, scale)
        gap = (down * ahead).sum(axis=0) - (down / scale).min(axis=0)
        change = new - u
        # restart momentum that overshoots (O'Donoghue and Candes, 2015)
        momentum[((ahead - new) * change).sum(axis=0) > 0] = 1.0
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = new + (momentum - 1) / following * change
        u, momentum = new, following
        if 2 * np.count_nonzero(more := gap >= SMALL_GAP) <= left.size:
            solved[:, left[~more]] = (scale * u)[:, ~more]
            if not more.any():
                return solved
            u, ahead, H = (one[:, more] for one in (u, ahead, H))
            left, momentum = left[more], momentum[more]
    solved[:, left] = scale * u
    return solved


def _project(v: Vector, scale: Vector) -> Vector:
    r"""Return the nearest u >= 0 with :math:`\sum_k scale_k u_k = 1`, column by column.

    It is max(v - theta scale, 0). Theta starts at the value for all classes and rises while
    classes that would be negative drop out (Michelot, 1986).
    """
    square = np.broadcast_to(scale**2, v.shape)
    scaled, kept = scale * v, np.ones(v.shape)
    while True:
        total, mass = (np.einsum("kn,kn->n", one, kept) for one in (scaled, square))
        theta = (total - 1) / mass
        positive = (scaled > theta * square) & (kept > 0)
        if np.array_equal(positive, kept):
            return np.maximum(v - theta * scale, 0.0)
        kept = positive.astype(np.float64)
