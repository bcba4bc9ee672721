r"""Expected accuracy on the target without its labels, and by how much estimates overstate it.

Under prior shift the accuracy of each class is the same on validation and target, for any rule:

.. math:: \text{accuracy} = \sum_k p_k\,\text{acc}_k

with variance :math:`\sum_k p_k^2 \operatorname{Var}_k / n_k + \text{acc}^T \operatorname{Cov}(p)\,
\text{acc}`.

The estimate :math:`\hat p` makes the rule and then scores it, so the plain expectation
:math:`\hat p \cdot \mathrm{acc}(\hat p)` is too high: a class whose share was overestimated is both
favoured by the rule and counted too often. Resamples of validation and target show by how much
(Efron's optimism): with :math:`p^*_b` the priors and :math:`\mathrm{acc}^*_b` the accuracy per
class of resample b,

.. math:: \mathrm{optimism} = \operatorname{mean}_b\,[p^*_b \cdot \mathrm{acc}^*_b(p^*_b)
    - \hat p \cdot \mathrm{acc}(p^*_b)].

Resampled priors are found from mean decisions: maximum likelihood on a resampled confusion matrix
and resampled target decisions, moved to the estimate. With many classes the delta method stands in
for it, which answers noise :math:`e = \Delta q - \Delta C\, \hat p` of target and validation with

.. math:: p^* - \hat p = S\, C^T D\, e, \qquad S^{-1} = C^T D C + \frac{1}{2M} \operatorname{diag}
    (\hat p)^{-2}, \quad D = \operatorname{diag}(C \hat p)^{-1},

on vectors that sum to 0. Where the estimate has standard errors, they set the size of the moves.
"""

from dataclasses import asdict, dataclass
from html import escape

import numpy as np
from scipy.linalg import solve
from scipy.special import ndtri

from priorshift._results import refuse_nan
from priorshift._typing import Floats, Indices, Vector
from priorshift.adapt import prior_ratio
from priorshift.border import row_blocks
from priorshift.counts import Confusion, reweighted_columns
from priorshift.estimators import PriorEstimate
from priorshift.evidence._deviations import draw_mean_noise
from priorshift.intervals import stratified_weights
from priorshift.solvers import Mixtures, maximise
from priorshift.text import number, percent

DOUBT = 0.5
"""How uncertain a correction for optimism is, as a share of it."""

LEAST_RATE = 1e-100
"""Rates of decisions whose inverse can be squared."""

N_RESAMPLES = 40
LARGEST_STRETCH = 2.0
"""How much standard errors may stretch the resampled moves: those of an unconstrained solution can
be much larger than what is left of them on the simplex."""

MOST_SOLVED = 50
"""Classes up to which resampled priors are solved for."""

SOLVED = 1e-3
"""Gap in nats of a resample."""


@dataclass(frozen=True)
class Expected:
    """An expected share with its interval."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        refuse_nan(self)

    @classmethod
    def of(
        cls, value: float, error: float, level: float, bounds: tuple[float, float] | None = None
    ) -> "Expected":
        """Return a value with its interval, from its standard error; bounds cut the interval."""
        reach = float(ndtri((1 + level) / 2)) * error
        low, high = bounds or (-np.inf, np.inf)
        return cls(value, max(low, value - reach), min(high, value + reach))

    def error(self, level: float) -> float:
        """Return the standard error, from an interval of this level that may be cut at its ends."""
        reach = max(self.high - self.value, self.value - self.low)
        return max(reach / float(ndtri((1 + level) / 2)), 1e-6)

    def moved_to(self, value: float, bounds: tuple[float, float]) -> "Expected":
        """Return another value with an interval as wide as this one; bounds cut both."""
        low, high = bounds
        value = min(high, max(low, value))
        reach = value - self.value
        return type(self)(value, max(low, self.low + reach), min(high, self.high + reach))

    def to_dict(self) -> dict[str, float]:
        """Return plain Python values, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """Show it in per cent."""
        return f"{percent(self.value)} ({percent(self.low)} to {percent(self.high)})"

    def _repr_html_(self) -> str:
        return f"<div><strong>Expected</strong> {escape(str(self))}</div>"


class ExpectedNumber(Expected):
    """An expected number that is no share, such as a cost or a log loss, with its interval."""

    def __str__(self) -> str:
        """Show it as a number."""
        return f"{number(self.value)} ({number(self.low)} to {number(self.high)})"


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
    return Expected.of(value, float(np.sqrt(noise)), confidence_level, bounds)


@dataclass(frozen=True)
class Resampled:
    """What resamples show about a rule that adapts to an estimate.

    Attributes
    ----------
    priors : ndarray of shape (n_resamples, K)
        Priors that other validation and target sets might have led to.
    optimism : float
        By how much the plain expected accuracy of the rule is too high.
    """

    priors: Vector
    optimism: float

    @property
    def covariance(self) -> Vector:
        """Of the priors, (K, K)."""
        return np.atleast_2d(np.cov(self.priors.T, bias=False))


def resample(
    estimate: PriorEstimate,
    priors: Vector,
    y_proba: Floats,
    y: Indices,
    y_proba_target: Floats,
    soft: Confusion | None = None,
) -> Resampled:
    """Draw priors and the optimism of adapting to them.

    Parameters
    ----------
    estimate : PriorEstimate
    priors : ndarray of shape (K,)
        Of the estimate, 0 for classes that validation lacks.
    y_proba, y : ndarray of shape (n, K) and (n,)
        Validation.
    y_proba_target : ndarray of shape (m, K)
    soft : Confusion, optional
        Of validation, if it is counted already.
    """
    rng, K = np.random.default_rng(0), priors.size
    if not estimate.n_target:  # known from elsewhere: no target led to it
        return Resampled(np.tile(priors, (2, 1)), 0.0)
    soft = soft or Confusion.from_arrays(y_proba, y, decision="soft")
    size, seen = np.maximum(np.bincount(y, minlength=K), 1), soft.seen
    weights = stratified_weights(y, K, rng, N_RESAMPLES)
    noise = draw_mean_noise(y_proba_target, N_RESAMPLES, rng)
    C, M, moves = soft.conditional[:, seen], len(y_proba_target), np.zeros((N_RESAMPLES, K))
    if K <= MOST_SOLVED:
        q = y_proba_target.mean(axis=0, dtype=np.float64)
        columns = (one[:, seen] for one in reweighted_columns(y_proba, y, list(weights)))
        stack, drawn_q = np.array([C, *columns]), np.maximum([q, *(q + noise)], 0.0)
        # a decision that no class leads to tells nothing, as one that every class leads to
        stack = np.where(stack.max(axis=2, keepdims=True) > LEAST_RATE, stack, 1.0)
        problems = Mixtures.of(stack, M * drawn_q)
        centre, *solved = maximise(problems, tol=SOLVED).value
        moves[:, seen] = solved - centre
    else:
        noise -= (weights - 1) * (priors / size)[y] @ y_proba
        moves[:, seen] = _answer(C, priors[seen], noise, M)
    if estimate.standard_error is not None:  # moves have the size of its errors
        spread = moves.std(axis=0)
        stretch = np.divide(
            estimate.standard_error, spread, out=np.ones_like(spread), where=spread > 0
        )
        moves *= stretch.clip(max=LARGEST_STRETCH)
    drawn = np.maximum(priors + moves, 0)
    drawn /= drawn.sum(axis=1, keepdims=True)
    optimism, adapted = np.empty(N_RESAMPLES), y_proba
    if estimate.calibrator is not None:
        adapted = estimate.calibrator.apply(y_proba)
    source = estimate.source_priors
    ratios = np.array([prior_ratio(p, source) for p in drawn]) ** estimate.strength
    row, k = _contenders(adapted, ratios.min(axis=0), ratios.max(axis=0))
    values, first = adapted[row, k], np.flatnonzero(np.diff(row, prepend=-1))
    for b, (p, ratio, weight) in enumerate(zip(drawn, ratios, weights, strict=True)):
        scores = values * ratio[k]
        top = np.flatnonzero(scores == np.maximum.reduceat(scores, first)[row])
        decided = k[top[np.diff(row[top], prepend=-1) > 0]]  # of equal ones, the first
        right = (decided == y).astype(np.float64)
        seemingly = np.bincount(y, weight * right, K) / size
        really = np.bincount(y, right, K) / size
        optimism[b] = p @ seemingly - priors @ really
    return Resampled(drawn, float(optimism.mean()))


def _contenders(y_proba: Floats, least: Vector, most: Vector) -> tuple[Indices, Indices]:
    """Return rows and classes that may become the likeliest where ratios have these bounds."""
    rows, classes = [], []
    for part in row_blocks(*y_proba.shape):
        block = y_proba[part]
        row, k = np.nonzero(block * most >= (block * least).max(axis=1, keepdims=True))
        rows.append(row + part.start)
        classes.append(k)
    return np.concatenate(rows), np.concatenate(classes)


def _answer(C: Vector, priors: Vector, noise: Vector, n_target: int) -> Vector:
    """Return how the likeliest priors move with each row of noise of q - C p."""
    p = np.maximum(priors, 0.5 / n_target)
    scaled = C * p  # in units of p, or rare classes spoil the solution
    weighted = scaled / np.maximum(scaled.sum(axis=1), 1e-300)[:, None]
    information = scaled.T @ weighted
    information[np.diag_indices_from(information)] += 0.5 / n_target
    moves = solve(information, np.column_stack([weighted.T @ noise.T, p]), assume_a="pos")
    moves *= p[:, None]
    moves, ones = moves[:, :-1], moves[:, -1]
    return np.asarray((moves - np.outer(ones, moves.sum(axis=0) / ones.sum())).T)
