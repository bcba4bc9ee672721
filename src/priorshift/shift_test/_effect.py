r"""How large the shift is: total variation between estimated target priors and the source's.

The estimate is the nearest mixture, :math:`\hat p = \operatorname{argmin}_{p \in \Delta} (q - C
p)^T \Sigma^{-1} (q - C p)`, where no direction counts as much surer than the noisiest: where
decisions hardly vary, :math:`\Sigma` is not known so well. Its error is drawn by estimating again
from noisy moments, and by the triangle inequality the distance itself is off by no more than the
error is long.
"""

import numpy as np

from priorshift._typing import Vector
from priorshift.shift_test._least_squares import nearest_mixtures
from priorshift.shift_test._noise import draw_noise
from priorshift.shift_test._samples import Samples
from priorshift.shift_test._statistic import Moments
from priorshift.solvers import simplex_least_squares
from priorshift.statistics import Decision

N_ERRORS = 199

MOST_SURE = 10.0
"""How much surer a direction may be than the noisiest one, as a ratio of standard deviations."""


def estimate_effect(
    samples: Samples,
    decision: Decision,
    moments: Moments,
    confidence_level: float,
    rng: np.random.Generator,
) -> tuple[Vector, float, tuple[float, float]]:
    """Return the estimated priors, their distance to those of the null, and its interval."""
    seen = samples.class_counts > 0
    sure = np.sqrt((moments.whitener**2).sum(axis=0))
    weights = moments.whitener * np.minimum(1.0, MOST_SURE * sure.min(initial=np.inf) / sure)
    A = weights.T @ moments.C[:, seen]
    found = simplex_least_squares(A, weights.T @ moments.q, tol=1e-6).value
    priors = np.zeros(seen.size)
    priors[seen] = found
    noise = draw_noise(samples, decision, priors, N_ERRORS, rng) @ weights
    again = nearest_mixtures(A, (A @ found)[:, None] + noise.T, found)
    errors = np.abs(again - found[:, None]).sum(axis=0) / 2
    length = float(np.quantile(errors, confidence_level))
    distance = float(np.abs(priors - moments.priors).sum() / 2)
    return priors, distance, (max(0.0, distance - length), min(1.0, distance + length))
