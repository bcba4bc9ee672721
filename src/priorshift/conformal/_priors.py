r"""Target priors as sets use them: as adapted to, as weights, and allowing for their noise.

An estimate that is 0 by chance is the worst case: its class is scored as impossible, so that sets
miss it, and it has no weight, so that nobody counts the misses. The mean of all priors that the
noise allows has no such zeros. Per class it is that of a normal distribution above 0,

.. math:: \bar p_k \propto \hat p_k + s_k\, \frac{\varphi(\hat p_k / s_k)}{\Phi(\hat p_k / s_k)}

with the standard error :math:`s_k`: a prior of many standard errors stays as it is.
"""

from dataclasses import replace

import numpy as np
from scipy.stats import norm

from priorshift._typing import Floats, Indices, Labels, Vector
from priorshift._validation import check_source_mass
from priorshift.adaptation import prior_ratio, reweight
from priorshift.estimators import PriorEstimate


def allow_for_noise(estimate: PriorEstimate) -> PriorEstimate:
    """Return the estimate with the mean of the priors that its standard errors allow.

    Examples
    --------
    >>> import numpy as np
    >>> mean_above_zero(np.array([0.0, 0.1, 0.9]), np.array([0.05, 0.01, 0.05])).round(3)
    array([0.038, 0.096, 0.865])
    """
    if estimate.standard_error is None:
        return estimate
    return replace(estimate, priors=mean_above_zero(estimate.priors, estimate.standard_error))


def mean_above_zero(priors: Vector, standard_error: Vector) -> Vector:
    """Return the mean of each prior among those above 0, normalised; 0 if known to be 0."""
    noisy = standard_error > 0
    apart = np.divide(priors, standard_error, out=np.zeros_like(priors), where=noisy)
    mean = priors + np.where(noisy, standard_error * norm.pdf(apart) / norm.cdf(apart), 0.0)
    return np.asarray(mean / mean.sum())


def adapt_scored(
    values: Floats,
    classes: Labels,
    target_priors: Vector | None,
    source_priors: Vector | None,
    estimate: PriorEstimate | None,
) -> Floats:
    """Return the probabilities to be scored, from clean ones in class order."""
    if estimate is not None:
        return estimate.adapt(values)
    if source_priors is None or target_priors is None:
        return values
    check_source_mass(source_priors, values, classes)
    return reweight(values, prior_ratio(target_priors, source_priors))


def class_weights(target_priors: Vector, y: Indices, weight: Vector) -> Vector:
    """Return target prior / share of validation, and 0 for a class that validation lacks."""
    share = np.bincount(y, weight, target_priors.size) / weight.sum()
    weights = np.divide(target_priors, share, out=np.zeros(share.size), where=share > 0)
    if not weights.any():
        raise ValueError(
            "target_priors are 0 for every class of y_val, so none of its samples can stand for "
            "the target; validate on classes that the target has."
        )
    return weights
