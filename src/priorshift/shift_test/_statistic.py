r"""The statistic: how far decisions are from what the source priors foretell.

.. math:: T = d^T \Sigma^{-1} d, \quad d = q - C p^N, \quad
    \Sigma = \operatorname{Cov}(f) \left(\frac1M + \frac1{n_e}\right),
    \quad \frac1{n_e} = \sum_k \frac{(p^N_k)^2}{n_k}

Cov(f) is that of a row drawn under the null hypothesis, estimated from validation and target
together: so few samples of a class cannot make T large by chance, as the within-class covariances
would. Of its variances none counts as less than K / (M + n_e) of the largest: decisions that
hardly ever occur vary by more than they show, and with the inverse of what they show the test
rejected 12 % instead of 5 % (121 classes of plankton, 10 samples a class). What T is compared with
does hold the full noise of both sides (see `_noise`).
"""

from dataclasses import dataclass

import numpy as np

from priorshift._typing import Vector
from priorshift.shift_test._noise import effective_size, mixture_covariance
from priorshift.shift_test._samples import Samples
from priorshift.statistics import Decision

ROUNDING = 1e-10
"""Relative size up to which a variance is 0: such directions are left out."""


@dataclass(frozen=True)
class Moments:
    """The moments of one null hypothesis, and the matrix W that whitens them: T = |W^T d|^2."""

    C: Vector
    q: Vector
    priors: Vector
    whitener: Vector

    @classmethod
    def of(cls, samples: Samples, decision: Decision, priors: Vector) -> "Moments":
        """Compute the moments at the priors of the null hypothesis."""
        size = 1 / samples.n_target + 1 / effective_size(samples, priors)
        covariance = mixture_covariance(samples, decision, priors) * size
        worth = samples.n_target + effective_size(samples, priors)
        whitener = whiten(covariance, samples.n_val + samples.n_target, priors.size / worth)
        return cls(samples.confusion(decision), samples.frequencies(decision), priors, whitener)

    @property
    def deviation(self) -> Vector:
        """Return d = q - C p."""
        return self.q - self.C @ self.priors

    @property
    def statistic(self) -> float:
        """Return T."""
        return float(((self.deviation @ self.whitener) ** 2).sum())


def whiten(covariance: Vector, n_rows: int, least: float = 0.0) -> Vector:
    """Return W with W W^T = covariance^-1 where there is variance.

    Variances below `least` times the largest are raised to it.

    Some of the covariance is replaced by its diagonal, on vectors that sum to 0 and with the same
    trace, the more the fewer rows it is estimated from: K / (K + n_rows). With two classes that
    changes nothing.
    """
    K = covariance.shape[0]
    centre = np.eye(K) - 1 / K
    plain = K / (K - 1) * (centre * np.diag(covariance)) @ centre
    share = K / (K + n_rows)
    values, vectors = np.linalg.eigh((1 - share) * covariance + share * plain)
    varies = values > ROUNDING * max(float(values[-1]), np.finfo(np.float64).tiny)
    return vectors[:, varies] / np.sqrt(np.maximum(values[varies], least * values[-1]))
