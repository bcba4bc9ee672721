r"""Expected accuracy on the target without its labels.

Under prior shift the accuracy of each class is the same on validation and target, for any rule:

.. math:: \text{accuracy} = \sum_k p_k\,\text{acc}_k

with variance :math:`\sum_k p_k^2 \operatorname{Var}_k / n_k + \text{acc}^T \operatorname{Cov}(p)\,
\text{acc}`. What is subtracted for priors that were estimated from the same data, and their
covariance, come from `_resampling`.
"""

import numpy as np
from scipy.stats import norm

from priorshift._typing import Indices, Vector
from priorshift.diagnostics._result import Expected

DOUBT = 0.5
"""How uncertain a correction for optimism is, as a share of it."""


def expected_score(
    scores: Vector,
    y: Indices,
    priors: Vector,
    covariance: Vector,
    confidence_level: float,
    bounds: tuple[float, float],
    optimism: float = 0.0,
) -> Expected:
    """Return the expected mean of a score of validation rows, at other priors.

    Parameters
    ----------
    scores : ndarray of shape (n_val,)
        1 for a right decision and 0 for a wrong one, or a difference of two such.
    y : ndarray of shape (n_val,)
        Labels as indices.
    priors : ndarray of shape (n_classes,)
        Target priors, 0 for classes without samples.
    covariance : ndarray of shape (n_classes, n_classes)
        Of the priors; 0 where they are exact.
    confidence_level : float
    bounds : tuple of float
        Least and largest value of a score.
    optimism : float, default=0
        What to subtract.

    Examples
    --------
    >>> import numpy as np
    >>> right, y = np.array([1.0, 1.0, 0.0, 1.0]), np.array([0, 0, 1, 1])
    >>> exact = np.zeros((2, 2))
    >>> round(expected_score(right, y, np.array([0.2, 0.8]), exact, 0.95, (0, 1)).value, 3)
    0.6
    """
    K = priors.size
    n = np.bincount(y, minlength=K)
    mean = np.bincount(y, weights=scores, minlength=K) / np.maximum(n, 1)
    squares = np.bincount(y, weights=scores**2, minlength=K)
    # two samples more, at either bound, so that a class that was always right is not certain
    low, high = bounds
    smooth = (n * mean + low + high) / (n + 2)
    variance = (squares + low**2 + high**2) / (n + 2) - smooth**2
    value = float(np.clip(priors @ mean - optimism, low, high))
    noise = float((priors**2 * variance / np.maximum(n, 1)).sum())
    noise += float(mean @ covariance @ mean) + (DOUBT * optimism) ** 2
    reach = float(norm.ppf((1 + confidence_level) / 2) * np.sqrt(noise))
    return Expected(value, max(low, value - reach), min(high, value + reach))
