r"""Test the assumption itself: that only the priors changed, and p(x|y) did not.

Mean probabilities alone cannot tell, as :math:`q = C p` has as many unknowns as equations. *How
sure* the classifier is of its decisions can: for any function :math:`\varphi` of a row, prior shift
says

.. math:: E_{target}[\varphi] = \sum_k p_k E_k[\varphi],

with the priors p estimated from mean probabilities. The functions are Legendre polynomials of two
ranks within each decision: of the confidence, and of the runner-up's share of the rest. Averaged
over all decisions (4 numbers) they notice what changes every class alike, such as noise or blur,
also with many classes; the mean rank within each decision (one number per class) notices a change
of few classes. The statistic adds the mean squares of both.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from priorshift._typing import Indices, Vector
from priorshift.border import as_generator, check_level, check_resamples
from priorshift.evidence._deviations import ENTRIES, Deviations, Power, p_value, random_signs
from priorshift.evidence._results import AssumptionTest
from priorshift.evidence._samples import (
    MOST_DECIMALS,
    Samples,
    at_one_precision,
    read_samples,
    without_repeats,
)
from priorshift.solvers import nearest_mixtures

N_RESAMPLES = 199
MOST_ROWS = 50_000
MOST_ENTRIES = 2 * 10**7
"""Rows per side, and their features, beyond which a random part of the rows is tested."""

LEAST_ROWS = 5
"""Rows of a decision, on either side, for it to be compared by itself."""

LEAST_WORTH = 100.0
"""Effective validation rows below which there is no test."""

BORROWED = 10.0
"""Rows that the noise of a class borrows from the rows decided for it: see `_Noise`."""

NO_VARIANCE = 1e-14
"""Of a mean of features, which are of size 1: rounding alone."""

N_SOLVES = 2


def check_assumption(
    y_proba_val: ArrayLike,
    y_val: ArrayLike,
    y_proba_target: ArrayLike,
    classes: ArrayLike | None = None,
    *,
    alpha: float = 0.05,
    n_resamples: int = N_RESAMPLES,
    random_state: int | np.random.Generator | None = None,
) -> AssumptionTest:
    """Test whether a change of class priors alone explains the target.

    Where one side was rounded to fewer decimals, the other is rounded the same way. Repeated rows
    of a side that was drawn with replacement count once; the sentence mentions it.

    Parameters
    ----------
    y_proba_val, y_val, y_proba_target, classes, alpha, random_state
        As for `detect_shift`; validation may have any class balance.
    n_resamples : int, default=199
        Draws of the null distribution; each estimates the priors again.

    Examples
    --------
    >>> import priorshift as ps
    >>> from priorshift.evidence import check_assumption
    >>> data = ps.datasets.load_fashion_lt()
    >>> validation, other = (data.y_proba_val[:2500], data.y_val[:2500]), data.y_proba_val[2500:]
    >>> known = {"classes": data.classes, "random_state": 0}
    >>> check_assumption(*validation, other, **known).rejected
    False
    >>> check_assumption(*validation, other * 0.7 + 0.03, **known).rejected  # less sure of itself
    True
    """
    alpha = check_level(alpha)
    n_resamples = check_resamples(n_resamples, alpha)
    samples = read_samples(y_proba_val, y_val, y_proba_target, classes)
    return assumption_of(samples, alpha, n_resamples, as_generator(random_state))


def assumption_of(
    samples: Samples, alpha: float, n_resamples: int, rng: np.random.Generator
) -> AssumptionTest:
    """Run the test on clean samples."""
    rounded, notes = at_one_precision(samples)
    part, *repeated = without_repeats(_at_most(rounded, rng))
    found = _Comparison.of(part) if _enough(part) else None
    answer = None
    if found is not None and found.features.compared.size and found.worth >= LEAST_WORTH:
        answer = _Answer.of(found, alpha, n_resamples, rng)
    return AssumptionTest(
        statistic=0.0 if answer is None else answer.statistic,
        p_value=None if answer is None else answer.p_value,
        degrees_of_freedom=0 if answer is None else answer.n_directions,
        alpha=alpha,
        n_cells=0 if found is None else found.features.compared.size,
        n_val=samples.n_val,
        n_target=samples.n_target,
        n_resamples=n_resamples,
        classes=samples.classes,
        priors=np.bincount(samples.y_val, minlength=samples.classes.size) / samples.n_val
        if found is None
        else found.priors,
        detectable_effect=None if answer is None else answer.detectable_effect,
        n_repeated_val=repeated[0],
        n_repeated_target=repeated[1],
        notes=notes,
    )


def _at_most(samples: Samples, rng: np.random.Generator) -> Samples:
    """Return the samples, or a random part of sides that are too large."""
    most = max(1000, min(MOST_ROWS, MOST_ENTRIES // (2 * samples.classes.size + 4)))
    if max(samples.n_val, samples.n_target) <= most:
        return samples
    val, target = (
        np.sort(rng.permutation(size)[:most]) for size in (samples.n_val, samples.n_target)
    )
    return samples.rows(val, target)


def _enough(samples: Samples) -> bool:
    return samples.n_target >= 2 and samples.n_val >= 2 and int(samples.class_counts.max()) >= 2


@dataclass(frozen=True)
class Features:
    """Functions of rows that tell how sure the classifier is, for both sides together."""

    values: Vector
    """(n_rows, K + n_pooled + compared.size): probabilities, then the functions."""
    predicted: Indices
    n_pooled: int
    compared: Indices
    """Decisions that are compared one by one."""

    @classmethod
    def of(cls, samples: Samples) -> "Features":
        """Compute the functions, validation first."""
        rows = np.concatenate([samples.y_proba_val, samples.y_proba_target], dtype=np.float64)
        n, K = samples.n_val, rows.shape[1]
        predicted = rows.argmax(axis=1)
        ordered = np.partition(rows, K - 2, axis=1)
        top, second, rest = (
            ordered[:, -1].round(MOST_DECIMALS),
            ordered[:, -2],
            ordered[:, :-1].sum(axis=1),
        )
        # rounded, so that equal values are equal in every precision; nothing is left next to 1
        runner_up = np.divide(
            second, rest, out=np.ones_like(rest), where=(top < 1) & (rest > 0)
        ).round(MOST_DECIMALS)
        confidence = 2 * ranks(top, predicted) - 1
        pooled = [*_legendre(confidence), *_legendre(2 * ranks(runner_up, predicted) - 1)]
        fewest = np.minimum(
            *(np.bincount(side, minlength=K) for side in (predicted[:n], predicted[n:]))
        )
        compared = np.flatnonzero(fewest >= LEAST_ROWS)
        column = np.full(K, -1)
        column[compared] = np.arange(compared.size)
        by_decision = np.zeros((predicted.size, compared.size))
        at = np.flatnonzero(column[predicted] >= 0)
        by_decision[at, column[predicted[at]]] = pooled[0][at]
        values = np.column_stack([rows, *pooled, by_decision])
        return cls(values, predicted, len(pooled), compared)

    @property
    def percentile(self) -> Vector:
        """How the functions change if confidence rises by a unit of rank, in every decision."""
        shares = np.bincount(self.predicted, minlength=self.values.shape[1])[self.compared]
        others = np.zeros(self.n_pooled - 1)
        return 2 * np.sqrt(3) * np.concatenate([[1.0], others, shares / self.predicted.size])


def ranks(score: Vector, group: Indices) -> Vector:
    """Return ranks within groups, scaled to (0, 1); equal scores share their mean rank.

    Examples
    --------
    >>> ranks(np.array([0.3, 0.1, 0.3, 0.9]), np.array([0, 0, 0, 1]))
    array([0.66666667, 0.16666667, 0.66666667, 0.5       ])
    """
    order = np.lexsort((score, group))
    new_group = np.append(True, np.diff(group[order]) != 0)
    first = np.flatnonzero(new_group | np.append(True, np.diff(score[order]) != 0))
    tied = np.diff(np.append(first, order.size))
    start = np.flatnonzero(new_group)
    size = np.diff(np.append(start, order.size))
    of_group = np.cumsum(new_group)[first] - 1
    rank = (first - start[of_group] + tied / 2) / size[of_group]
    found = np.empty(order.size)
    found[order] = np.repeat(rank, tied)
    return found


def _legendre(t: Vector) -> tuple[Vector, Vector]:
    """Return the first two Legendre polynomials, of variance 1 under the uniform distribution."""
    return np.sqrt(3) * t, np.sqrt(5) * (3 * t**2 - 1) / 2


@dataclass(frozen=True)
class _Comparison:
    """Means of the features per class and in the target, and the priors between them."""

    samples: Samples
    features: Features
    by_class: Vector
    """(K, n_features): means on validation."""
    target: Vector
    """(n_features,): means in the target."""
    A: Vector
    whitener: Vector
    priors: Vector

    @classmethod
    def of(cls, samples: Samples) -> "_Comparison":
        """Estimate the priors from mean probabilities, weighted by their noise at the priors."""
        seen = samples.class_counts > 0
        priors = seen / np.count_nonzero(seen)
        for _ in range(N_SOLVES):
            deviations = Deviations.of(samples, "soft", priors)
            A = deviations.whitener.T @ deviations.C
            b = (deviations.whitener.T @ deviations.q)[:, None]
            found = nearest_mixtures(A[:, seen], b, priors[seen])[:, 0]
            priors = np.zeros(seen.size)
            priors[seen] = found
        features = Features.of(samples)
        n, total = samples.n_val, np.zeros((seen.size, features.values.shape[1]))
        np.add.at(total, samples.y_val, features.values[:n])
        by_class = total / np.maximum(samples.class_counts, 1)[:, None]
        target = features.values[n:].mean(axis=0)
        return cls(samples, features, by_class, target, A, deviations.whitener, priors)

    @property
    def worth(self) -> float:
        """Return how many rows of the target validation is worth."""
        return self.samples.effective_size(self.priors)

    def priors_of(self, means: Vector) -> Vector:
        """Estimate priors from rows of mean probabilities, (n, K)."""
        seen = self.samples.class_counts > 0
        found = np.zeros_like(means)
        b = self.whitener.T @ means.T
        found[:, seen] = nearest_mixtures(self.A[:, seen], b, self.priors[seen]).T
        return found

    @property
    def deviation(self) -> Vector:
        """Return how far the target's features are from the nearest mixture's."""
        K = self.priors.size
        return (self.target - self.priors @ self.by_class)[K:]


class _Noise:
    r"""Draws of the deviation where the assumption holds.

    The target's noise is that of rows of both sides, weighted to the estimated priors; that of
    validation is drawn per class, so that priors which are estimated again multiply it. A draw is
    a sum over centred rows with random signs. A class with few rows may show less spread than it
    has (15 rows that are all sure): `BORROWED` rows' worth of its covariance come from all rows
    that are decided for it.
    """

    def __init__(self, found: _Comparison) -> None:
        samples, X = found.samples, found.features.values
        n, M, size = samples.class_counts, samples.n_target, found.worth
        y, predicted = samples.y_val, found.features.predicted
        share = M / (M + size)
        of_class = found.priors / np.maximum(n, 1)
        weight = np.concatenate([(1 - share) * of_class[y], np.full(M, share / M)])
        self.found = found
        self.of_target = (X - weight @ X) * np.sqrt(weight / M)[:, None]
        borrowed = BORROWED / (np.maximum(n - 1, 0) + BORROWED)
        own = np.sqrt((1 - borrowed) / np.maximum(n * (n - 1), 1))
        self.own = (X[: y.size] - found.by_class[y]) * own[y, None]
        decided = np.bincount(predicted, minlength=n.size)
        mean = np.zeros((n.size, X.shape[1]))
        np.add.at(mean, predicted, X)
        mean /= np.maximum(decided, 1)[:, None]
        scale = np.sqrt(borrowed / np.maximum(n, 1) / np.maximum(decided - 1, 1))
        self.of_decision = (X - mean[predicted]) * scale[predicted, None]

    def draw(self, n_draws: int, rng: np.random.Generator) -> Vector:
        """Draw deviations, (n_draws, n_features - K)."""
        step = max(1, ENTRIES // self.of_target.shape[0])
        sizes = [min(step, n_draws - start) for start in range(0, n_draws, step)]
        return np.concatenate([self._draw(size, rng) for size in sizes])

    def _draw(self, n_draws: int, rng: np.random.Generator) -> Vector:
        found, n_rows = self.found, self.of_target.shape[0]
        y, predicted = found.samples.y_val, found.features.predicted
        K = found.priors.size
        means = found.priors @ found.by_class
        means = means + random_signs(n_draws, n_rows, rng) @ self.of_target
        own, borrowed = random_signs(n_draws, y.size, rng), random_signs(n_draws, n_rows, rng)

        def of_classes(priors: Vector, columns: slice) -> Vector:
            noise = (own * priors[:, y]) @ self.own[:, columns]
            noise += (borrowed * priors[:, predicted]) @ self.of_decision[:, columns]
            return noise

        priors = np.broadcast_to(found.priors, (n_draws, K))
        for _ in range(N_SOLVES):
            priors = found.priors_of(means[:, :K] - of_classes(priors, slice(K)))
        rest = slice(K, None)
        return means[:, rest] - priors @ found.by_class[:, rest] - of_classes(priors, rest)


@dataclass(frozen=True)
class _Answer:
    """The statistic among its draws."""

    statistic: float
    p_value: float
    n_directions: int
    detectable_effect: float | None

    @classmethod
    def of(
        cls, found: _Comparison, alpha: float, n_resamples: int, rng: np.random.Generator
    ) -> "_Answer | None":
        """Compare the deviation with draws; the scale comes from all of them alike."""
        drawn = _Noise(found).draw(n_resamples, rng)
        everything = np.vstack([found.deviation, drawn])
        centre, n = everything.mean(axis=0), found.features.n_pooled
        scale = _scales(everything - centre, n)
        if not scale.any():
            return None
        scaled = (everything - centre) @ scale
        squares = (scaled**2).sum(axis=1)
        power = Power(scaled[1:], (found.features.percentile @ scale)[None], alpha)
        return cls(
            statistic=float(squares[0]),
            p_value=p_value(squares[1:], float(squares[0])),
            n_directions=int(np.count_nonzero(scale.any(axis=0))),
            detectable_effect=power.detectable(most=0.5),
        )


def _scales(deviations: Vector, n_pooled: int) -> Vector:
    """Return the matrix that makes the statistic a sum of squares: whitened, then standardised."""
    n, d = deviations.shape
    scale = np.zeros((d, d))
    values, vectors = np.linalg.eigh(deviations[:, :n_pooled].T @ deviations[:, :n_pooled] / n)
    varies = values > max(NO_VARIANCE, 1e-8 * float(values[-1]))
    white = vectors[:, varies] / np.sqrt(values[varies] * max(1, np.count_nonzero(varies)))
    scale[:n_pooled, : white.shape[1]] = white
    variance = (deviations[:, n_pooled:] ** 2).mean(axis=0)
    varies = variance > max(NO_VARIANCE, 1e-8 * variance.max(initial=0.0))
    single = np.zeros(variance.size)
    single[varies] = 1 / np.sqrt(variance[varies] * max(1, np.count_nonzero(varies)))
    scale[np.arange(n_pooled, d), np.arange(n_pooled, d)] = single
    return scale
