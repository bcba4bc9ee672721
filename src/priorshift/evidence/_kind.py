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
    H = np.bincount(in_val * K + y_val, minlength=n_bins * K).reshape(n_bins, K) / np.maximum(
        size, 1
    )
    t = np.bincount(in_target, minlength=n_bins) / n
    seen = size > 0

    def noise(p: Vector) -> Vector:
        """Return the covariance of t - Hp: multinomial, of the target and of each class."""
        scaled = H * (p / np.sqrt(np.maximum(size, 1)))
        covariance = np.diag(t / n + H @ (p**2 / np.maximum(size, 1)))
        return np.asarray(covariance - np.outer(t, t) / n - scaled @ scaled.T)

    start = np.where(seen, before, 0.0)
    start = start / start.sum() if start.any() else seen / seen.sum()
    fitted = start
    for _ in range(4):  # bins are weighted anew each time
        root = 1 / np.sqrt(np.maximum(H @ fitted + t, 1e-12))[:, None]
        fitted = np.zeros(K)
        fitted[seen] = simplex_least_squares(root * H[:, seen], root[:, 0] * t, tol=1e-9).value
    first = _Distance(t - H @ start, noise(start), H @ start + t)
    free = H[:, fitted > 1e-6]
    last = _Distance(t - H @ fitted, noise(fitted), H @ fitted + t, free)
    unexplained = float(np.sqrt(max(last.value, 0.0) / 2))
    null_error = np.sqrt(2 * np.sum(first.noise**2))  # where the true residual is 0
    if first.value <= 2 * null_error:  # no measurable change
        return Kind(unexplained=unexplained)
    ratio = last.value / first.value
    variance = last.covariance(last) - 2 * ratio * first.covariance(last)
    variance += ratio**2 * first.covariance(first)
    reach = float(ndtri((1 + confidence_level) / 2)) * np.sqrt(max(variance, 0.0)) / first.value
    low, value, high = np.clip([1 - ratio - reach, 1 - ratio, 1 - ratio + reach], 0.0, 1.0)
    return Kind(float(value), float(low), float(high), unexplained=unexplained)


def find_order(
    y_proba_val: Floats,
    y_val: Indices,
    y_proba_target: Floats,
    before: Vector,
    unexplained: float,
) -> tuple[Indices, float] | None:
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
    >>> order.tolist(), round(left, 2)
    ([1, 0], 0.0)
    """
    K = before.size
    if unexplained < 0.1 or K > 4:
        return None
    orders = [np.array(order) for order in permutations(range(K))][1:]
    left = [
        explain_by_priors(y_proba_val, y_val, y_proba_target[:, order], before).unexplained
        for order in orders
    ]
    best = int(np.argmin(left)) if left else 0
    return (orders[best], left[best]) if left and left[best] <= unexplained / 2 else None


class _Distance:
    """A distance free of noise, and what its own noise is made of, in units of the weights."""

    def __init__(
        self, residual: Vector, noise: Vector, total: Vector, fitted: Vector | None = None
    ) -> None:
        root = 1 / np.sqrt(np.maximum(total, 1e-12))
        scaled = noise * np.outer(root, root)
        if fitted is not None and fitted.shape[1] > 1:
            # shares sum to 1: K - 1 directions are fitted, and leave no residual
            directions = root[:, None] * (fitted[:, 1:] - fitted[:, :1])
            basis, strength, _ = np.linalg.svd(directions, full_matrices=False)
            basis = basis[:, strength > 1e-9 * max(float(strength.max(initial=0.0)), 1e-300)]
            left = np.eye(root.size) - basis @ basis.T
            scaled = left @ scaled @ left
        self.residual, self.noise = root * residual, scaled
        self.value = float(self.residual @ self.residual - np.trace(scaled))

    def covariance(self, other: "_Distance") -> float:
        """Return that of two distances whose residuals share their noise.

        It is of the residual's noise, squared and beside the residual.
        """
        both = 4 * self.residual @ ((self.noise + other.noise) / 2) @ other.residual
        return float(both + 2 * np.sum(self.noise * other.noise))


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
    order = np.lexsort((score, decided))
    count = np.bincount(decided, minlength=K if K > 2 else 1)
    n_bins = np.clip(count // 50, 1, most)
    first = np.concatenate([[0], np.cumsum(count)[:-1]])
    offset = np.concatenate([[0], np.cumsum(n_bins)[:-1]])
    at = decided[order]
    rank = np.arange(order.size) - first[at]
    # ties share a bin: the rank of the first of them
    fresh = np.concatenate([[True], (np.diff(at) != 0) | (np.diff(score[order]) != 0)])
    rank = rank[np.maximum.accumulate(np.where(fresh, np.arange(order.size), 0))]
    binned = np.empty(order.size, np.intp)
    binned[order] = offset[at] + rank * n_bins[at] // count[at]
    used, binned = np.unique(binned, return_inverse=True)
    n_val = len(y_proba_val)
    return binned[:n_val], binned[n_val:], used.size


def amplification(estimate: Vector, mean: Vector, before: Vector) -> float:
    r"""Return how much further prior shift moves the shares than the calibrated mean does.

    :math:`TV(p, \pi) / TV(m, \pi)`: a weak classifier amplifies a small drift many times.
    """
    moved, little = np.abs(estimate - before).sum(), np.abs(mean - before).sum()
    return float(moved / little) if little > 0 else (np.inf if moved > 0 else 1.0)
