"""The request for an interval, the interval that answers it, and bounds of any estimate.

The bootstrap resamples statistics in threads, with the same draws for any number of them.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from scipy.special import ndtri

from priorshift._typing import Indices, Vector
from priorshift.border import (
    MOST_DRAWS,
    SERIAL_WORK,
    as_generator,
    check_choice,
    check_count,
    check_level,
    map_rows,
)

IntervalMethod = Literal["auto", "asymptotic", "bootstrap", "bayesian"]
IntervalKind = Literal[
    "asymptotic", "likelihood ratio", "bootstrap", "bayesian", "prediction-powered", "readings"
]
Estimand = Literal["population", "sample"]

INTERVAL_METHODS: tuple[IntervalMethod, ...] = get_args(IntervalMethod)

Replicate = Callable[[np.random.Generator], Vector]
"""Draws resampling weights from its own generator, and returns the estimate under them."""


@dataclass
class IntervalRequest:
    """The interval that `estimate` was asked for, checked."""

    confidence_level: float  # nominal coverage, inside (0, 1)
    rng: Any = None  # for resamples and posterior draws: what `random_state` accepts
    method: IntervalMethod = "auto"
    n_resamples: int = 300  # of a bootstrap, or draws kept of a posterior
    simultaneous: bool = False  # whether the level holds for all classes together
    estimand: Estimand = "population"  # or "sample": the share in these very rows

    def __post_init__(self) -> None:
        self.confidence_level = check_level(self.confidence_level, "confidence_level")
        check_choice(self.method, INTERVAL_METHODS, "interval_method")
        check_choice(self.estimand, get_args(Estimand), "estimand")
        check_choice(self.simultaneous, (True, False), "simultaneous")
        if self.method == "bootstrap" and self.estimand == "sample":
            raise ValueError(
                "a bootstrap resamples the target, so it describes only the population; for "
                "estimand='sample' use interval_method='asymptotic' or 'bayesian'."
            )
        self.rng = as_generator(self.rng)
        # quantiles in the tails of fewer than 20 draws are meaningless
        self.n_resamples = check_count(self.n_resamples, "n_resamples", 20, MOST_DRAWS)

    def level(self, n_classes: int) -> float:
        r"""Return the level that each class needs: :math:`\gamma^{1/K}` (Šidák) if simultaneous.

        Two classes are one event: where the interval of one covers, so does that of the other.
        """
        events = n_classes if self.simultaneous and n_classes > 2 else 1
        return self.confidence_level ** (1 / events)

    def z(self, n_classes: int) -> float:
        """Return the normal quantile of the level that each class needs."""
        return float(ndtri(0.5 + 0.5 * self.level(n_classes)))


@dataclass(frozen=True)
class PriorInterval:
    """Bounds of each prior, and how they were found."""

    interval: Vector  # lower and upper bounds, inside [0, 1], of shape (K, 2)
    standard_error: Vector  # of the estimate before it is constrained to the simplex
    method: IntervalKind
    caution: str | None = None  # why the bounds may cover less often than they say; what to do

    @classmethod
    def around(
        cls,
        priors: Vector,
        lower: Vector,
        upper: Vector,
        standard_error: Vector,
        method: IntervalKind,
    ) -> "PriorInterval":
        """Clip bounds into [0, 1] and let them hold the estimate itself.

        No prior is outside [0, 1], so clipping costs no coverage.
        """
        bounds = np.clip(np.column_stack([lower, upper]), 0.0, 1.0)
        inside = np.clip(priors, 0.0, 1.0)
        bounds[:, 0] = np.minimum(bounds[:, 0], inside)
        bounds[:, 1] = np.maximum(bounds[:, 1], inside)
        return cls(bounds, standard_error, method)

    def narrower(self, other: "PriorInterval", priors: Vector) -> "PriorInterval":
        """Return for each class the narrower of two intervals, by the method of this one.

        One that was stretched to hold the estimate contradicts it, and bounds nothing.
        """
        theirs = np.ptp(other.interval, axis=1) < np.ptp(self.interval, axis=1)
        low, high = other.interval.T
        theirs &= ((low < priors) | (low <= 0)) & ((priors < high) | (high >= 1))
        return PriorInterval(
            np.where(theirs[:, None], other.interval, self.interval),
            np.where(theirs, other.standard_error, self.standard_error),
            self.method,
        )


def score_bounds(centre: Vector, z: float, constant: Vector, slope: Vector, curve: Vector) -> Any:
    r"""Solve :math:`(\hat p - p)^2 = z^2 (a + b p + c p^2)` for both bounds.

    A variance that may change with p gives Wilson's interval where the classes are known,
    :math:`a = 0, b = 1/M, c = -1/M`, and :math:`\hat p \pm z \sqrt a` where it does not change.

    Examples
    --------
    Wilson's interval of 0 in 10:

    >>> import numpy as np
    >>> none, m = np.zeros(1), np.full(1, 0.1)
    >>> [bound.round(4).tolist() for bound in score_bounds(none, 1.96, none, m, -m)]
    [[0.0], [0.2775]]
    """
    lead = 1 - z**2 * curve
    half = centre + 0.5 * z**2 * slope
    root = np.sqrt(np.maximum(half**2 - lead * (centre**2 - z**2 * constant), 0))
    return (half - root) / lead, (half + root) / lead


def wilson_bounds(priors: Vector, n: Any, z: float) -> Any:
    """Return Wilson's bounds of shares among n labelled rows: no classifier can do better."""
    ones = np.ones_like(priors) / n
    return score_bounds(priors, z, np.zeros_like(priors), ones, -ones)


# Resampling


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
    replicate: Replicate, centre: Vector, priors: Vector, n_target: float, request: IntervalRequest
) -> PriorInterval:
    r"""Bound each prior by the spread of resampled estimates about the estimate itself.

    The interval is symmetric, :math:`\hat p \pm` a quantile of :math:`|p^* - \hat p|`: percentiles
    of :math:`p^*` would count a bias twice. It is never inside Wilson's interval of as many
    labelled rows, which no classifier can beat; a resample never finds a class that is not there.

    Every resample has its own seed, so the interval depends neither on the number of threads nor on
    how they share the work.

    Parameters
    ----------
    replicate : callable
        Draws one resample with the generator that it is given, and estimates from it.
    centre : ndarray of shape (K,)
        The same estimate without resampling.
    priors : ndarray of shape (K,)
        The estimate that the interval must contain.
    n_target : float
        Rows of the target.
    request : IntervalRequest
    """
    seeds = request.rng.integers(2**63, size=request.n_resamples)

    def kernel(part: slice) -> list[Vector]:
        return [replicate(np.random.default_rng(seed)) for seed in seeds[part]]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of single resamples: their estimate is noise
        parts = map_rows(kernel, request.n_resamples, work=SERIAL_WORK)
    off = np.abs(np.array([draw for part in parts for draw in part]) - centre)
    error = np.quantile(off, 0.6827, axis=0)  # one standard deviation of a normal error
    if request.simultaneous:
        unit = np.maximum(error, np.finfo(np.float64).tiny)
        width = np.quantile((off / unit).max(axis=1), request.confidence_level) * error
    else:
        width = np.quantile(off, request.confidence_level, axis=0)
    least = wilson_bounds(np.clip(centre, 0, 1), n_target, request.z(priors.size))
    lower, upper = np.minimum(centre - width, least[0]), np.maximum(centre + width, least[1])
    return PriorInterval.around(priors, lower, upper, error, "bootstrap")
