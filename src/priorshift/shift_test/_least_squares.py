r"""Many least-squares problems on the simplex at once, by accelerated projected gradient steps.

Enough for resampling, where thousands of estimates are needed; `solvers` has the certified way for
one. Steps are taken in :math:`u_k = p_k \sqrt{G_{kk}}`, G = A^T A: in p itself, a class that is
almost never predicted would make every step too short to get anywhere. Squared distances are in
units of noise, so all stop where the duality gap promises an error that noise hides.
"""

import numpy as np

from priorshift._typing import Vector

MAX_STEPS = 300
SMALL_GAP = 0.01
"""Of half the squared distance: no direction is off by more than 0.14 standard deviations."""

N_POWERS = 5
ROUNDING = 1e-10
"""Length of a column, in standard errors, that is rounding alone."""

TINY = float(np.finfo(np.float64).tiny)


def nearest_mixtures(A: Vector, B: Vector, start: Vector) -> Vector:
    r"""Solve :math:`\min_{p \in \Delta} \|A p - b\|^2` for every column b.

    Examples
    --------
    >>> import numpy as np
    >>> A = 100 * np.array([[0.8, 0.2], [0.2, 0.8]])
    >>> nearest_mixtures(A, 100 * np.array([[0.5, 1.0], [0.5, 0.0]]), np.full(2, 0.5)).round(3)
    array([[0.5, 1. ],
           [0.5, 0. ]])
    """
    G, H = A.T @ A, A.T @ B
    scale = _scales(np.diagonal(G))[:, None]
    G, H = scale * G * scale.T, scale * H
    step = np.full(B.shape[1], 1 / max(float(np.linalg.eigvalsh(G)[-1]), ROUNDING**2))
    return _descend(G, H, scale, step, start)


def nearest_mixtures_each(A: Vector, B: Vector, start: Vector) -> Vector:
    r"""Solve :math:`\min_{p \in \Delta} \|A_i p - b_i\|^2` for A >= 0 of (n, m, K), B of (n, m).

    Returns the solutions as columns, (K, n).
    """
    scale = _scales(np.einsum("nmk,nmk->nk", A, A))
    A = A * scale[:, None, :]
    G = A.transpose(0, 2, 1) @ A
    H = (B[:, None, :] @ A)[:, 0, :].T
    step = 1 / np.maximum(_largest_eigenvalues(G), ROUNDING**2)
    return _descend(G, H, scale.T, step, start)


def _scales(squares: Vector) -> Vector:
    """Return what makes columns equally long; those of no length but rounding stay."""
    return 1 / np.sqrt(np.where(squares > ROUNDING**2, squares, 1.0))


def _largest_eigenvalues(G: Vector) -> Vector:
    """Bound the largest eigenvalues of matrices without negative entries, from above.

    By Collatz and Wielandt, for any x > 0 none is above the largest (G x)_k / x_k.
    """
    x = np.ones(G.shape[:2])
    for _ in range(N_POWERS):
        image = (G @ x[:, :, None])[:, :, 0]
        bound = (image / x).max(axis=1)
        x = np.maximum(image / np.maximum(bound, TINY)[:, None], 1e-100)
    return bound


def _descend(G: Vector, H: Vector, scale: Vector, step: Vector, start: Vector) -> Vector:
    """Take Nesterov's steps in u = p / scale from one start, a column a problem.

    G is one matrix, or one for every problem. Problems that are solved drop out.
    """
    scale = np.broadcast_to(scale, (start.size, step.size))
    solved, left = np.empty(scale.shape), np.arange(step.size)
    u = ahead = start[:, None] / scale
    momentum = np.ones(step.size)
    for _ in range(MAX_STEPS):
        image = G @ ahead if G.ndim == 2 else (G @ ahead.T[:, :, None])[:, :, 0].T
        down = image - H
        new = _project(ahead - step * down, scale)
        gap = (down * ahead).sum(axis=0) - (down / scale).min(axis=0)
        change = new - u
        # momentum that has gone too far starts anew (O'Donoghue and Candes, 2015)
        momentum[((ahead - new) * change).sum(axis=0) > 0] = 1.0
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = new + (momentum - 1) / following * change
        u, momentum = new, following
        if 2 * np.count_nonzero(more := gap >= SMALL_GAP) <= left.size:
            solved[:, left[~more]] = (scale * u)[:, ~more]
            if not more.any():
                return solved
            u, ahead, scale, H = (one[:, more] for one in (u, ahead, scale, H))
            G = G if G.ndim == 2 else G[more]
            left, step, momentum = left[more], step[more], momentum[more]
    solved[:, left] = scale * u
    return solved


def _project(v: Vector, scale: Vector) -> Vector:
    r"""Return the nearest u >= 0 with :math:`\sum_k scale_k u_k = 1`, column by column.

    It is max(v - theta scale, 0). Theta rises from that of all classes, leaving out those that end
    up negative, until none does (Michelot, 1986).
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
