"""Bootstrap: estimates from resampled statistics, in threads, the same for any number of them."""

import warnings
from collections.abc import Callable

import numpy as np

from priorshift._typing import Indices, Vector
from priorshift.border import SERIAL_WORK, map_rows
from priorshift.intervals._interval import IntervalRequest, PriorInterval, wilson_bounds

ONE_SIGMA = 0.6827

Replicate = Callable[[np.random.Generator], Vector]
"""Draws resampling weights from its own generator, and returns the estimate under them."""


def bootstrap_draws(replicate: Replicate, n_resamples: int, rng: np.random.Generator) -> Vector:
    """Return estimates of as many resamples, (n_resamples, K).

    Every resample has its own seed, so the draws depend neither on the number of threads nor
    on how they share the work. Warnings of single resamples are dropped: their estimate is noise.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> bootstrap_draws(lambda rng: rng.random(2), 50, rng).shape
    (50, 2)
    """
    seeds = rng.integers(2**63, size=n_resamples)

    def kernel(part: slice) -> list[Vector]:
        return [replicate(np.random.default_rng(seed)) for seed in seeds[part]]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = map_rows(kernel, n_resamples, work=SERIAL_WORK)
    return np.array([draw for part in parts for draw in part])


def poisson_weights(n: int, rng: np.random.Generator) -> Vector:
    """Return how often each of n rows is drawn, independently, once on average; not all 0."""
    weights = rng.poisson(1.0, n).astype(np.float64)
    return weights if weights.any() else np.ones(n)


def stratified_weights(
    y: Indices, n_classes: int, rng: np.random.Generator, n_draws: int = 1
) -> Vector:
    """Return how often each row is drawn when every class keeps its number of rows.

    Several draws are (n_draws, n_rows).
    """
    order = np.argsort(y, kind="stable")
    sizes = np.bincount(y, minlength=n_classes)
    ends = np.cumsum(sizes)
    label = y[order]
    drawn = (rng.random((n_draws, y.size)) * sizes[label]).astype(np.intp)
    drawn += (ends - sizes)[label] + y.size * np.arange(n_draws)[:, None]
    weights = np.empty((n_draws, y.size))
    weights[:, order] = np.bincount(drawn.ravel(), minlength=weights.size).reshape(weights.shape)
    return weights if n_draws > 1 else weights[0]


def bootstrap_interval(
    draws: Vector, centre: Vector, priors: Vector, n_target: float, request: IntervalRequest
) -> PriorInterval:
    r"""Bound each prior by the spread of resampled estimates about the estimate itself.

    The interval is symmetric, :math:`\hat p \pm` a quantile of :math:`|p^* - \hat p|`: percentiles
    of :math:`p^*` would count a bias twice. It is never inside Wilson's interval of as many
    labelled rows, which no classifier can beat; a resample never finds a class that is not there.

    Parameters
    ----------
    draws : ndarray of shape (n_resamples, K)
    centre : ndarray of shape (K,)
        The same estimate without resampling.
    priors : ndarray of shape (K,)
        The estimate that the interval must contain.
    n_target : float
        Rows of the target.
    request : IntervalRequest
    """
    off = np.abs(draws - centre)
    error = np.quantile(off, ONE_SIGMA, axis=0)
    if request.simultaneous:
        unit = np.maximum(error, np.finfo(np.float64).tiny)
        width = np.quantile((off / unit).max(axis=1), request.confidence_level) * error
    else:
        width = np.quantile(off, request.confidence_level, axis=0)
    least = wilson_bounds(np.clip(centre, 0, 1), n_target, request.z(priors.size))
    lower, upper = np.minimum(centre - width, least[0]), np.maximum(centre + width, least[1])
    return PriorInterval.around(priors, lower, upper, error, "bootstrap", draws)
