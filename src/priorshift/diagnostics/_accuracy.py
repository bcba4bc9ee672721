r"""Expected accuracy on the target without its labels.

Under prior shift the accuracy of each class is the same on validation and target, for any rule:

.. math:: \text{accuracy} = \sum_k p_k\,\text{acc}_k

with variance :math:`\sum_k p_k^2 \operatorname{Var}_k / n_k + \sum_k \text{se}(p_k)^2
(\text{acc}_k - \overline{\text{acc}})^2`.
"""

import numpy as np
from scipy.stats import norm

from priorshift._typing import Indices, Vector
from priorshift.diagnostics._result import Expected


def expected_score(
    scores: Vector,
    y: Indices,
    priors: Vector,
    standard_error: Vector | None,
    confidence_level: float,
    bounds: tuple[float, float],
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
    standard_error : ndarray of shape (n_classes,) or None
        Of the priors.
    confidence_level : float
    bounds : tuple of float
        Least and largest value of a score.

    Examples
    --------
    >>> import numpy as np
    >>> right, y = np.array([1.0, 1.0, 0.0, 1.0]), np.array([0, 0, 1, 1])
    >>> round(expected_score(right, y, np.array([0.2, 0.8]), None, 0.95, (0, 1)).value, 3)
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
    value = float(priors @ mean)
    noise = float((priors**2 * variance / np.maximum(n, 1)).sum())
    if standard_error is not None:
        noise += float((standard_error**2 * np.where(n > 0, mean - value, 0.0) ** 2).sum())
    reach = float(norm.ppf((1 + confidence_level) / 2) * np.sqrt(noise))
    return Expected(value, max(low, value - reach), min(high, value + reach))
