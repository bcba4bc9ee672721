"""Bins of confidence, and how sure one can be of a share."""

from typing import Literal

import numpy as np
from scipy.special import ndtri

from priorshift._typing import Indices, Vector

Strategy = Literal["quantile", "uniform"]

STRATEGIES: dict[Strategy, str] = {"quantile": "equal count", "uniform": "equal width"}


def assign_bins(confidence: Vector, n_bins: int, strategy: Strategy) -> Indices:
    """Return the bin of each sample; equal confidences are never parted.

    Examples
    --------
    >>> import numpy as np
    >>> assign_bins(np.array([0.5, 0.9, 0.9, 0.9]), 2, "quantile")
    array([0, 1, 1, 1])
    """
    inner = np.linspace(0, 1, n_bins + 1)[1:-1]
    edges = inner if strategy == "uniform" else np.unique(np.quantile(confidence, inner))
    return np.searchsorted(edges, confidence, side="right")


def wilson_interval(share: Vector, n_samples: Vector, level: float) -> Vector:
    r"""Return bounds of a binomial share, sound for few samples and for shares of 0 and 1.

    .. math:: \frac{p + z^2 / 2n \pm z \sqrt{p (1 - p) / n + z^2 / 4 n^2}}{1 + z^2 / n}

    Examples
    --------
    >>> import numpy as np
    >>> wilson_interval(np.array([1.0]), np.array([4.0]), 0.95).round(2)
    array([[0.51, 1.  ]])
    """
    z2 = float(ndtri(0.5 + level / 2)) ** 2 / n_samples
    middle = share + z2 / 2
    half = np.sqrt(z2 * (share * (1 - share) + z2 / 4))
    bounds = np.column_stack([middle - half, middle + half]) / (1 + z2[:, None])
    return bounds.clip(0, 1)
