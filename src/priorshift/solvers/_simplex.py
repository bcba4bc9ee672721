"""Map points onto the probability simplex: to the nearest point, or by clipping."""

import numpy as np

from priorshift._typing import Vector


def project_simplex(v: Vector) -> Vector:
    r"""Project onto the simplex, to the nearest point, column by column.

    .. math:: \operatorname*{argmin}_p \|p - v\|_2 \quad\text{s.t.}\quad p \ge 0,\ 1^T p = 1

    which is :math:`p = \max(v - \theta, 0)` with the :math:`\theta` that makes p sum to 1
    (Held, Wolfe and Crowder, 1974; Wang and Carreira-Perpinan, 2013).

    Parameters
    ----------
    v : ndarray of shape (K,) or (K, n_vectors)
        One vector, or several as columns.

    Returns
    -------
    ndarray of the same shape

    Examples
    --------
    >>> import numpy as np
    >>> project_simplex(np.array([0.8, 0.6, -1.0]))
    array([0.6, 0.4, 0. ])
    """
    v = v - v.max(axis=0)  # a shift of v changes nothing but rounding
    descending = -np.sort(-v, axis=0)
    excess = np.cumsum(descending, axis=0) - 1
    rank = np.arange(1, v.shape[0] + 1).reshape(-1, *[1] * (v.ndim - 1))
    n_positive = np.count_nonzero(descending * rank > excess, axis=0)
    theta = (
        np.take_along_axis(excess, np.atleast_1d(n_positive)[None] - 1, axis=0)
        if (v.ndim > 1)
        else excess[n_positive - 1]
    )
    return np.maximum(v - theta / n_positive, 0)


def clip_to_simplex(raw: Vector) -> Vector:
    """Set negative entries to 0 and scale to sum 1, by row; a row without any left is uniform."""
    clipped = np.maximum(raw, 0)
    clipped[clipped.max(axis=-1) < np.finfo(np.float64).tiny] = 1.0  # subnormal sums divide badly
    return np.asarray(clipped / clipped.sum(axis=-1, keepdims=True))
