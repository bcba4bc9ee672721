r"""How far to pool groups: by how far they lie apart beyond noise.

The mean decision :math:`q_g` of a group with :math:`n_g` rows varies with its rows and its priors,

.. math:: q_g \sim N\!\left(\mu,\ \Sigma / n_g + v\, C D C^T\right), \qquad
    D = \mathrm{diag}(d) - d d^T,

with the covariance :math:`\Sigma` of the rows as they are (summed probabilities are not counts) and
the spread :math:`v D` of Dirichlet priors around those of all rows, d, with a total of
:math:`\tau`, :math:`v = 1 / (1 + \tau)`. Validation's noise is the same for all groups and does not
separate them. The axes that make :math:`\Sigma` the identity and :math:`C D C^T` diagonal, s, turn
all groups into independent numbers :math:`\theta_{gj} \sim N(\mu_j, 1/n_g + v s_j)`: their
restricted likelihood gives v, and

.. math:: \rho_{gj} = \frac{n_g v s_j}{1 + n_g v s_j}, \qquad
    E[\theta_{gj} \mid \text{data}] = \mu_j + \rho_{gj} (\bar\theta_{gj} - \mu_j)

is how far each group keeps its own decisions. Directions in which the classifier hardly tells
classes apart have a small s and are pooled most.
"""

from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize_scalar

from priorshift._typing import Vector
from priorshift.border import single_threaded_blas
from priorshift.groups._counts import GroupCounts
from priorshift.solvers import invert

LOG_VARIANCES = np.linspace(-7, 1, 33)
"""The grid on which log10 v is searched; v = 0 is tried too, and the best interval is refined."""

Pooling = float | Literal["auto"] | None


@dataclass(frozen=True)
class Spread:
    r"""Mean decisions of groups along the axes of noise and signal.

    Attributes
    ----------
    mass : ndarray of shape (G,)
        Rows n_g.
    mean : ndarray of shape (K,)
        Mean decision of all rows.
    theta : ndarray of shape (G, J)
        Each group's mean decision less that mean, along the J = K - 1 axes.
    signal : ndarray of shape (J,)
        s, the spread of theta for v = 1 and without noise.
    axes : ndarray of shape (K, J)
        Decisions for a unit of each theta.
    to_priors : ndarray of shape (K, J)
        Priors for a unit of each theta.
    """

    mass: Vector
    mean: Vector
    theta: Vector
    signal: Vector
    axes: Vector
    to_priors: Vector

    @classmethod
    def of(cls, counts: GroupCounts, C: Vector, priors: Vector) -> "Spread":
        """Find the axes for counts that carry products, a confusion matrix, and the whole's p."""
        mass, sums = counts.mass, counts.counts
        N, K = mass.sum(), C.shape[1]
        mean = sums.sum(axis=0) / N
        q = np.tile(mean, (mass.size, 1))
        np.divide(sums, mass[:, None], out=q, where=mass[:, None] > 0)
        Sigma = within_covariance(counts)
        d = (N * priors + 1 / K) / (N + 1)  # one more row, of any class, as in Sigma
        with single_threaded_blas():
            signal = (C * d) @ C.T - np.outer(C @ d, C @ d)
            s, X = eigh(signal[:-1, :-1], Sigma[:-1, :-1])
            axes = Sigma[:-1, :-1] @ X
            axes = np.vstack([axes, -axes.sum(axis=0)])
            theta = (q - mean)[:, :-1] @ X
            to_priors = invert(C) @ axes
        return cls(mass, mean, theta, np.maximum(s, 0), axes, to_priors)

    def likeliest_variance(self) -> float:
        """Return the v that makes the groups' decisions most likely; 0 if they are all alike."""
        informative = self.mass > 0
        if np.count_nonzero(informative) < 2:
            return 0.0
        n, theta = self.mass[informative, None], self.theta[informative]

        def cost(log_v: float) -> float:
            return -_log_likelihood(n, theta, 10.0**log_v * self.signal)

        costs = np.array([cost(log_v) for log_v in LOG_VARIANCES])
        at = int(costs.argmin())
        step = LOG_VARIANCES[1] - LOG_VARIANCES[0]
        near = (LOG_VARIANCES[at] - step, LOG_VARIANCES[at] + step)
        found = minimize_scalar(cost, bounds=near, method="bounded", options={"xatol": 1e-3})
        nothing = -_log_likelihood(n, theta, np.zeros_like(self.signal))
        return float(10.0**found.x) if found.fun < nothing else 0.0

    def reliability(self, v: float) -> Vector:
        """Return rho, how far each group keeps its own along each axis: (G, J)."""
        strength = self.mass[:, None] * (v * self.signal)
        return strength / (1 + strength)

    def weights(self, v: float) -> Vector:
        """Return the share of the spread between priors that each group's own rows explain."""
        size = (self.to_priors**2).sum(axis=0) * self.signal
        return self.reliability(v) @ (size / size.sum()) if size.any() else np.zeros(self.mass.size)

    def centre(self, v: float) -> Vector:
        """Return mu along the axes: the mean of groups, weighted by how well each is known."""
        weight = self._precision(v)
        return (weight * self.theta).sum(axis=0) / weight.sum(axis=0)

    def decisions(self, theta: Vector) -> Vector:
        """Return mean decisions from their coordinates along the axes."""
        return self.mean + theta @ self.axes.T

    def pooled_decisions(self, v: float) -> Vector:
        """Return the expected mean decision of each group, given all of them: (G, K)."""
        centre = self.centre(v)
        return self.decisions(centre + self.reliability(v) * (self.theta - centre))

    def prior_variance(self, v: float) -> Vector:
        """Return the remaining variance of each group's priors, from the target's rows alone.

        It includes the noise of the centre. An infinite v means no pooling.
        """
        if np.isinf(v):
            left = np.ones_like(self.theta) / np.maximum(self.mass, 1e-300)[:, None]
        else:
            kept = self.reliability(v)
            left = v * self.signal / (1 + self.mass[:, None] * (v * self.signal))
            left += (1 - kept) ** 2 / self._precision(v).sum(axis=0)
        return left @ (self.to_priors**2).T

    def _precision(self, v: float) -> Vector:
        n = self.mass[:, None]
        return n / (1 + n * (v * self.signal))


def within_covariance(counts: GroupCounts) -> Vector:
    """Return the covariance of rows' decisions about their group's mean, one more row included.

    Groups of few rows say little about it, so as many rows as there are classes count by their
    distance from the mean of all rows instead.
    """
    assert counts.second is not None
    mass, sums = counts.mass, counts.counts
    N, K = mass.sum(), sums.shape[1]
    present = mass > 0
    mean = sums.sum(axis=0) / N
    total = counts.second / N - np.outer(mean, mean)
    scaled = sums[present] / np.sqrt(mass[present, None])
    freedom = max(N - np.count_nonzero(present), 0.0)
    with single_threaded_blas():
        within = counts.second - scaled.T @ scaled if freedom else np.zeros((K, K))
    covariance = (within + K * total) / (freedom + K)
    covariance -= covariance.mean(axis=0)  # decisions sum to 1, except for rounding
    covariance -= covariance.mean(axis=1, keepdims=True)
    # a class that never occurs would seem to have no noise, or less than none in float32
    with single_threaded_blas():
        below = max(-float(np.linalg.eigvalsh(covariance)[0]), 0.0)
    least = 1 / (K * N) + 1e-10 * np.trace(covariance) / K + 2 * below
    return covariance + (np.eye(K) - 1 / K) * least


def _log_likelihood(n: Vector, theta: Vector, variance: Vector) -> float:
    """Return the restricted log-likelihood of theta ~ N(mu, 1/n + variance), mu left out."""
    weight = n / (1 + n * variance)
    total = weight.sum(axis=0)
    away = theta - (weight * theta).sum(axis=0) / total
    spread = np.einsum("gj,gj,gj->", weight, away, away)
    return 0.5 * float(np.log(weight).sum() - np.log(total).sum() - spread)


@dataclass(frozen=True)
class Pool:
    """How far groups are pooled: the variance v of their priors, and the decisions behind it.

    `spread` is None if groups are not pooled; then v is infinite.
    """

    variance: float
    spread: Spread | None = None

    @classmethod
    def of(cls, pooling: Pooling, counts: GroupCounts, C: Vector, priors: Vector) -> "Pool":
        """Choose v by marginal likelihood, or as requested."""
        if pooling is None or pooling == 0:
            return cls(np.inf)
        if counts.second is None:
            raise ValueError(
                "pooling needs the products of decisions; count with covariance=True, or pass "
                "pooling=None."
            )
        spread = Spread.of(counts, C, priors)
        variance = spread.likeliest_variance() if pooling == "auto" else 1 / (1 + pooling)
        return cls(variance, spread)

    @property
    def strength(self) -> float:
        """Rows that the pooled priors count for: the total of a Dirichlet, v = 1 / (1 + total)."""
        return np.inf if self.variance == 0 else max(1 / self.variance - 1, 0.0)

    @property
    def complete(self) -> bool:
        """Whether groups do not differ at all."""
        return self.variance == 0

    def weights(self, n_groups: int) -> Vector:
        """Return how far each group keeps its own estimate."""
        return np.ones(n_groups) if self.spread is None else self.spread.weights(self.variance)


def check_pooling(pooling: Any) -> Pooling:
    """Check the argument `pooling`."""
    if pooling is None or (isinstance(pooling, str) and pooling == "auto"):
        return pooling  # type: ignore[return-value]
    number = isinstance(pooling, Real) and not isinstance(pooling, bool)
    if not number or not float(pooling) >= 0:
        raise ValueError(
            "pooling must be 'auto', None, or a number of rows, at least 0, that the pooled "
            f"priors count for; got {pooling!r}."
        )
    return float(pooling)
