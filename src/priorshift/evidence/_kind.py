r"""Prior or covariate shift? The share of what changed that a change of class balance explains.

This is what `assess` judges the kind of shift by; `check_assumption` (`_assumption.py`) is the test
of prior shift alone, with a p-value.

Predictions are counted in bins of decision and confidence. H is the distribution over bins of each
class on validation, t that of the target, and :math:`\pi` the class balance that counts as before.
The distance from the target to validation at class balance p, freed of sampling noise, is

.. math:: d(p) = \sum_b \frac{(t_b - (Hp)_b)^2 - v_b(p)}{(Hp)_b + t_b}

with v the sampling variance of both sides. With :math:`p^*` the balance of least distance, whose
residuals have the variance that is left after fitting K - 1 shares,

.. math:: \mathrm{explained} = 1 - d(p^*) / d(\pi).

1 means that a new class balance explains all that changed in the predictions, as under prior shift;
0 that it explains nothing. It is a size, not a p-value: large samples reject every assumption. It
is None where nothing changed measurably. By Cauchy and Schwarz, :math:`\sqrt{d(p^*)/2}` bounds the
share of the target that looks like no mixture of validation's classes.
"""

from itertools import permutations

import numpy as np
from scipy.special import ndtri

from priorshift._typing import Floats, Indices, Vector
from priorshift.evidence._samples import ranks
from priorshift.solvers import simplex_least_squares
from priorshift.verdict import Kind

MOST_ROWS = 50_000
"""Rows of either side that are looked at."""


def explain_by_priors(
    y_proba_val: Floats,
    y_val: Indices,
    y_proba_target: Floats,
    before: Vector,
    confidence_level: float = 0.95,
) -> Kind:
    """Measure how much of the change in predictions a change of class balance explains.

    Parameters
    ----------
    y_proba_val, y_val : ndarray of shape (n_val, K) and (n_val,)
        Validation, labels as indices.
    y_proba_target : ndarray of shape (n_target, K)
    before : ndarray of shape (K,)
        The class balance that counts as unchanged.
    confidence_level : float, default=0.95
        Of the interval.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=4000)
    >>> score = 1 / (1 + np.exp(-rng.normal(2 * y - 1)))
    >>> P = np.column_stack([1 - score, score])
    >>> target = np.concatenate([P[y == 0][:300], P[y == 1][:1500]])
    >>> explain_by_priors(P, y, target, np.full(2, 0.5)).explained > 0.95
    True
    """
    step = -(-len(y_val) // MOST_ROWS)
    y_proba_val, y_val = y_proba_val[::step], y_val[::step]
    y_proba_target = y_proba_target[:: -(-len(y_proba_target) // MOST_ROWS)]
    in_val, in_target, n_bins = _bin(y_proba_val, y_proba_target)
    K, n = before.size, in_target.size
    size = np.bincount(y_val, minlength=K)
    counts = np.bincount(in_val * K + y_val, minlength=n_bins * K).reshape(n_bins, K)
    H = counts / np.maximum(size, 1)
    t = np.bincount(in_target, minlength=n_bins) / n
    seen = size > 0

    def distance(p: Vector, free: Vector | None = None) -> tuple[float, Vector, Vector]:
        """Return d(p), the residual, and its noise less what fitting shares of H leaves of it."""
        root = 1 / np.sqrt(np.maximum(H @ p + t, 1e-12))
        # the covariance of t - Hp is multinomial, of the target and of each class
        scaled = H * (p / np.sqrt(np.maximum(size, 1)))
        noise = np.diag(t / n + H @ (p**2 / np.maximum(size, 1)))
        noise = (noise - np.outer(t, t) / n - scaled @ scaled.T) * np.outer(root, root)
        if free is not None and free.shape[1] > 1:
            # shares sum to 1: K - 1 directions are fitted, and leave no residual
            directions = root[:, None] * (free[:, 1:] - free[:, :1])
            basis, strength, _ = np.linalg.svd(directions, full_matrices=False)
            basis = basis[:, strength > 1e-9 * max(float(strength.max(initial=0.0)), 1e-300)]
            left = np.eye(root.size) - basis @ basis.T
            noise = left @ noise @ left
        residual = root * (t - H @ p)
        return float(residual @ residual - np.trace(noise)), residual, noise

    start = np.where(seen, before, 0.0)
    start = start / start.sum() if start.any() else seen / seen.sum()
    fitted = start
    for _ in range(4):  # bins are weighted anew each time
        root = 1 / np.sqrt(np.maximum(H @ fitted + t, 1e-12))[:, None]
        fitted = np.zeros(K)
        fitted[seen] = simplex_least_squares(root * H[:, seen], root[:, 0] * t, tol=1e-9).value
    first, residual, noise = distance(start)
    last, residual_left, noise_left = distance(fitted, H[:, fitted > 1e-6])
    unexplained = float(np.sqrt(max(last, 0.0) / 2))
    null_error = np.sqrt(2 * np.sum(noise**2))  # where the true residual is 0
    if first <= 2 * null_error:  # no measurable change
        return Kind(unexplained=unexplained)
    ratio = last / first
    # of last - ratio * first, whose residuals share their noise: it is beside them, and squared
    beside = noise_left @ residual_left - ratio * noise @ residual
    variance = 4 * float((residual_left - ratio * residual) @ beside)
    variance += 2 * float(np.sum((noise_left - ratio * noise) ** 2))
    reach = float(ndtri((1 + confidence_level) / 2)) * np.sqrt(max(variance, 0.0)) / first
    low, value, high = np.clip([1 - ratio - reach, 1 - ratio, 1 - ratio + reach], 0.0, 1.0)
    return Kind(float(value), float(low), float(high), unexplained=unexplained)


def find_order(
    y_proba_val: Floats, y_val: Indices, y_proba_target: Floats, before: Vector, unexplained: float
) -> tuple[tuple[int, ...], float] | None:
    """Return an order of the target's columns that explains it far better, if there is one.

    Far better leaves at most half as much `unexplained` as the columns in their order do. Then
    `y_proba_target[:, order]` has each class in its own column. Nothing is tried beyond 4 classes,
    or where less than a tenth is unexplained.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.choice(2, 4000, p=[0.9, 0.1])
    >>> score = 1 / (1 + np.exp(2 - rng.normal(2 * y)))
    >>> P = np.column_stack([1 - score, score])
    >>> order, left = find_order(P, y, P[:, ::-1], np.array([0.9, 0.1]), 0.6)
    >>> order, round(left, 2)
    ((1, 0), 0.0)
    """
    K = before.size
    if unexplained < 0.1 or K > 4:
        return None
    best: tuple[tuple[int, ...], float] | None = None
    for order in list(permutations(range(K)))[1:]:
        target = y_proba_target[:, order]
        left = explain_by_priors(y_proba_val, y_val, target, before).unexplained
        if left <= unexplained / 2 and (best is None or left < best[1]):
            best = order, left
    return best


def _bin(y_proba_val: Floats, y_proba_target: Floats) -> tuple[Indices, Indices, int]:
    """Bin both sides by decision and confidence, at quantiles of both together.

    Two classes are binned by the score alone, into 20 bins; otherwise each decision gets 5, but of
    many classes about 500 in all. A bin should have 50 rows of both sides together.
    """
    K = y_proba_val.shape[1]
    both = np.concatenate([y_proba_val, y_proba_target])
    if K == 2:
        decided, score, most = np.zeros(len(both), np.intp), both[:, 1], 20
    else:
        decided, score = both.argmax(axis=1), both.max(axis=1)
        most = min(max(500 // K, 2), 5)  # one would fit any target
    count = np.bincount(decided)
    n_bins = np.clip(count // 50, 1, most)
    offset = np.cumsum(n_bins) - n_bins
    lower, _ = ranks(score, decided)  # ties share a bin
    binned = offset[decided] + lower * n_bins[decided] // count[decided]
    used, binned = np.unique(binned, return_inverse=True)
    n_val = len(y_proba_val)
    return binned[:n_val], binned[n_val:], used.size
