r"""Diagnose an estimate without labels of the target: expected accuracy, and what it rests on.

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

A method that says what it expects to gain, as Auto does, has no such optimism left, and its
standard errors tell the covariance: nothing is resampled.

Resampled priors are found from mean decisions: maximum likelihood on a resampled confusion matrix
and resampled target decisions, moved to the estimate. With many classes the delta method stands in
for it, which answers noise :math:`e = \Delta q - \Delta C\, \hat p` of target and validation with

.. math:: p^* - \hat p = S\, C^T D\, e, \qquad S^{-1} = C^T D C + \frac{1}{2M} \operatorname{diag}
    (\hat p)^{-2}, \quad D = \operatorname{diag}(C \hat p)^{-1},

on vectors that sum to 0. Where the estimate has standard errors, they set the size of the moves.

Confusable classes: for classes a and b the decisions differ by :math:`\Delta = E[f_a - f_b \mid a]
- E[f_a - f_b \mid b]`, which is 0 where the columns of C agree on them. A pair is confusable if
Delta is not significantly above 0, given how many samples of both there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve
from scipy.special import ndtri

from priorshift._results import Finding, FrozenArrays
from priorshift._typing import Floats, Indices, Vector
from priorshift.adapt import prior_ratio
from priorshift.border import Predictions, check_level, check_priors, row_blocks
from priorshift.counts import Confusion, reweighted_columns
from priorshift.estimators import PriorEstimate, get_estimator
from priorshift.evidence._actions import adapt_rows, share_covariance
from priorshift.evidence._samples import (
    Samples,
    draw_signed,
    float_blocks,
    group_size,
    read_samples,
)
from priorshift.intervals import stratified_weights
from priorshift.solvers import Mixtures, maximise, singular_range
from priorshift.words import Fact, fact, say

N_RESAMPLES = 40


@dataclass(frozen=True)
class Expected(FrozenArrays):
    """An expected share, cost or log loss with its interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(
        cls, value: float, error: float, level: float, bounds: tuple[float, float] | None = None
    ) -> Expected:
        """Return a value with its interval, from its standard error; bounds cut the interval."""
        reach = float(ndtri((1 + level) / 2)) * error
        low, high = bounds or (-np.inf, np.inf)
        return cls(value, max(low, value - reach), min(high, value + reach))

    def moved_to(self, value: float, bounds: tuple[float, float]) -> Expected:
        """Return another value with an interval as wide as this one; bounds cut both."""
        low, high = bounds
        value = min(high, max(low, value))
        reach = value - self.value
        return Expected(value, max(low, self.low + reach), min(high, self.high + reach))

    def to_dict(self) -> dict[str, float]:
        """Return plain Python values, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """Show the value, and the interval in parentheses."""
        return f"{self.value:.4g} ({self.low:.4g} to {self.high:.4g})"


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
    # half of a correction for optimism is in doubt
    noise += float(mean @ covariance @ mean) + (0.5 * optimism) ** 2
    return Expected.of(value, float(np.sqrt(noise)), confidence_level, bounds)


def seen_shares(samples: Samples, priors: Vector) -> Vector:
    """Return priors without classes that validation lacks."""
    shares = np.where(samples.class_counts > 0, priors, 0.0)
    if not shares.any():
        raise ValueError("validation has no sample of any class that the priors give a share.")
    return np.asarray(shares / shares.sum())


def resample(estimate: PriorEstimate, priors: Vector, samples: Samples) -> tuple[Vector, float]:
    """Draw priors that other validation and target sets might have led to.

    Returns their covariance, (K, K), and the optimism of a rule that adapts to them: by how much
    its plain expected accuracy is too high. `priors` are those of the estimate, 0 for classes that
    validation lacks.
    """
    rng, K, own = np.random.default_rng(0), priors.size, estimate.decision
    if not estimate.n_target:  # known from elsewhere: no target led to it
        return np.zeros((K, K)), 0.0
    if own is not None and own["goal"] == "accuracy" and estimate.standard_error is not None:
        return share_covariance(estimate), 0.0
    y_proba, y, y_proba_target = samples.y_proba_val, samples.y_val, samples.y_proba_target
    soft, size = samples.confusion, np.maximum(samples.class_counts, 1)
    seen = soft.seen
    weights = stratified_weights(y, K, rng, N_RESAMPLES)
    C, M, moves = soft.conditional[:, seen], samples.n_target, np.zeros((N_RESAMPLES, K))
    q = y_proba_target.mean(axis=0, dtype=np.float64)
    noise = np.zeros((N_RESAMPLES, K))
    for _, rows in float_blocks(y_proba_target):
        noise += draw_signed((rows - q) / M, N_RESAMPLES, group_size(M, K), rng)
    if K <= 50:  # with more, solving takes too long
        columns = (one[:, seen] for one in reweighted_columns(y_proba, y, list(weights)))
        stack, drawn_q = np.array([C, *columns]), np.maximum([q, *(q + noise)], 0.0)
        # a decision that no class leads to tells nothing, as one that every class leads to; the
        # inverse of the others can be squared
        stack = np.where(stack.max(axis=2, keepdims=True) > 1e-100, stack, 1.0)
        problems = Mixtures(stack, M * drawn_q)
        centre, *solved = maximise(problems, tol=1e-3).value  # nats: it is a resample
        moves[:, seen] = solved - centre
    else:
        noise -= (weights - 1) * (priors / size)[y] @ y_proba
        p = np.maximum(priors[seen], 0.5 / M)
        scaled = C * p  # in units of p, or rare classes spoil the solution
        weighted = scaled / np.maximum(scaled.sum(axis=1), 1e-300)[:, None]
        information = scaled.T @ weighted
        information[np.diag_indices_from(information)] += 0.5 / M
        answer = solve(information, np.column_stack([weighted.T @ noise.T, p]), assume_a="pos")
        answer, ones = p[:, None] * answer[:, :-1], p * answer[:, -1]
        moves[:, seen] = (answer - np.outer(ones, answer.sum(axis=0) / ones.sum())).T
    if estimate.standard_error is not None:  # moves have the size of its errors
        spread = moves.std(axis=0)
        stretch = np.divide(
            estimate.standard_error, spread, out=np.ones_like(spread), where=spread > 0
        )
        # errors of an unconstrained solution can be much larger than what is left of them on the
        # simplex
        moves *= stretch.clip(max=2.0)
    drawn = np.maximum(priors + moves, 0)
    drawn /= drawn.sum(axis=1, keepdims=True)
    optimism, adapted = np.empty(N_RESAMPLES), y_proba
    if estimate.calibrator is not None:
        adapted = estimate.calibrator.apply(y_proba)
    source = estimate.source_priors
    ratios = np.array([prior_ratio(p, source) for p in drawn]) ** estimate.strength
    # only classes that may become the likeliest at some of the ratios
    least, most = ratios.min(axis=0), ratios.max(axis=0)
    found = []
    for part in row_blocks(*adapted.shape):
        block = adapted[part]
        row, k = np.nonzero(block * most >= (block * least).max(axis=1, keepdims=True))
        found.append((row + part.start, k))
    row, k = (np.concatenate(one) for one in zip(*found, strict=True))
    values, first = adapted[row, k], np.flatnonzero(np.diff(row, prepend=-1))
    for b, (p, ratio, weight) in enumerate(zip(drawn, ratios, weights, strict=True)):
        scores = values * ratio[k]
        top = np.flatnonzero(scores == np.maximum.reduceat(scores, first)[row])
        decided = k[top[np.diff(row[top], prepend=-1) > 0]]  # of equal ones, the first
        right = (decided == y).astype(np.float64)
        seemingly = np.bincount(y, weight * right, K) / size
        really = np.bincount(y, right, K) / size
        optimism[b] = p @ seemingly - priors @ really
    return np.atleast_2d(np.cov(drawn.T)), float(optimism.mean())


FEW_ROWS = 30
"""Effective validation rows below which an estimate rests on little."""


@dataclass(frozen=True, repr=False)
class Diagnostics(Finding):
    """How far an estimate can be trusted; frozen and picklable, without sample rows.

    Attributes
    ----------
    method : str
        Name of the estimator.
    n_val, n_target : int
        Rows of validation and target.
    smallest_singular_value, condition_number : float
        Of the confusion matrix C: noise of the decisions is multiplied by up to one over the
        smallest singular value.
    effective_sample_size : float
        How many rows validation is worth when it is re-weighted to the estimated priors, 1 /
        sum(p_k^2 / n_k).
    confusable : tuple of (class, class)
        Pairs whose decisions validation cannot tell apart: only the sum of their priors is known.
    unseen_classes : tuple
        Classes that validation lacks.
    accuracy_before, accuracy_after, accuracy_gain : Expected
        On the target, without its labels: sum(p_k acc_k) with the accuracy of each class on
        validation, before and after adaptation, and their difference. The optimism of the
        estimate, which both sets the rule and scores it, is subtracted. Where the method itself
        says what it expects to gain, as Auto does, that is the gain, and `accuracy_after` is
        `accuracy_before` plus it.
    confidence_level : float
        Of the intervals.
    priors_exact : bool
        Whether the intervals take the priors as exact, because they rest on no target rows.
    """

    method: str
    n_val: int
    n_target: int
    smallest_singular_value: float
    condition_number: float
    effective_sample_size: float
    confusable: tuple[tuple[Any, Any], ...]
    unseen_classes: tuple[Any, ...]
    accuracy_before: Expected
    accuracy_after: Expected
    accuracy_gain: Expected
    confidence_level: float
    priors_exact: bool

    also = ("words",)

    @property
    def words(self) -> tuple[str, ...]:
        """What a person should know of the numbers; whether to adapt is for `assess` to say."""
        return tuple(map(say, self.facts()))

    @property
    def sentence(self) -> str:
        """The method, and what a person should know of the numbers."""
        return " ".join([f"The estimate is by {self.method}.", *self.words])

    def facts(self) -> Iterator[Fact]:
        """List what is odd about the numbers."""
        if self.priors_exact:
            yield fact("priors_exact")
        if not np.isfinite(self.condition_number):
            yield fact("singular")
        elif self.condition_number > 50:
            yield fact("ill_conditioned", number=self.condition_number)
        if self.effective_sample_size < FEW_ROWS:
            yield fact("few_effective", n=self.effective_sample_size, n_val=self.n_val)
        if self.confusable:
            yield fact("confusable", pairs=self.confusable)
        if self.unseen_classes:
            yield fact("left_out", classes=self.unseen_classes)


def confusable_pairs(
    y_proba: Floats, y: Indices, first: Confusion | None = None
) -> list[tuple[int, int]]:
    """Return pairs of class indices, the hardest to tell apart first; `first` is C if it is known.

    Examples
    --------
    >>> import numpy as np
    >>> y_proba = np.array([[0.5, 0.4, 0.1], [0.4, 0.5, 0.1]] * 4 + [[0.1, 0.1, 0.8]] * 4)
    >>> confusable_pairs(y_proba, np.repeat([0, 1, 2], 4))
    [(0, 1)]
    """
    first = first or Confusion.from_arrays(y_proba, y, decision="soft")
    C, n, values = first.conditional, first.class_weights, y_proba.astype(np.float64)
    of_truth = values[np.arange(y.size), y]
    second = Confusion.from_arrays(values**2, y, decision="soft").counts / np.maximum(n, 1)
    crossed = Confusion.from_arrays(y_proba, y, decision="soft", sample_weight=of_truth).counts
    crossed /= np.maximum(n, 1)  # E[f_j f_k | k]
    own_mean, own_square = np.diagonal(C), np.diagonal(second)
    # Var(f_k - f_j | k), entry [j, k]
    moment = own_square - 2 * crossed + second
    variance = np.maximum(moment - (own_mean - C) ** 2, 0.0)
    spread = variance / np.maximum(n - 1, 1)
    gap = (own_mean - C) + (own_mean - C).T
    noise, seen = np.sqrt(spread + spread.T), first.seen
    # a difference below a point is none, however sure
    close = (gap <= np.maximum(1.96 * noise, 0.01)) & seen & seen[:, None]
    a, b = np.nonzero(np.triu(close, 1))
    order = np.argsort(gap[a, b], kind="stable")
    return list(zip(a[order].tolist(), b[order].tolist(), strict=True))


def diagnose(
    y_proba_val: ArrayLike,
    y_val: ArrayLike,
    y_proba_target: ArrayLike,
    estimate: PriorEstimate,
    *,
    classes: ArrayLike | None = None,
    confidence_level: float = 0.95,
) -> Diagnostics:
    """Judge an estimate: conditioning, confusable classes, expected accuracy.

    Parameters
    ----------
    y_proba_val, y_val, y_proba_target
        As for `priorshift.detect_shift`.
    estimate : PriorEstimate
        What to judge. Its standard errors, if it has any, say how far resampled priors are from
        it; otherwise the mean decisions on validation and target do.
    classes : array-like of shape (n_classes,), optional
        Class names in the order of the columns; by default those of the estimate.
    confidence_level : float, default=0.95
        Of the intervals of expected accuracy.

    Examples
    --------
    >>> import priorshift as ps
    >>> from priorshift.evidence import diagnose
    >>> data = ps.datasets.load_fashion_lt()
    >>> *validation, target = data.y_proba_val, data.y_val, data.y_proba_target
    >>> shift = ps.SCML().fit(*validation, classes=data.classes).estimate(target)
    >>> diagnose(*validation, target, shift).accuracy_gain.low > 0
    True
    """
    confidence_level = check_level(confidence_level, "confidence_level")
    if not isinstance(estimate, PriorEstimate):
        raise ValueError(
            "estimate must be a PriorEstimate, as estimate() of an estimator returns; got "
            f"{type(estimate).__name__}."
        )
    names = estimate.classes if classes is None else classes
    samples = read_samples(y_proba_val, y_val, y_proba_target, names)
    if samples.classes.tolist() != estimate.classes.tolist():
        raise ValueError("classes must be those of the estimate, in its order.")
    seen, y = samples.class_counts > 0, samples.y_val
    priors = seen_shares(samples, estimate.priors)
    before = (samples.y_proba_val.argmax(axis=1) == y).astype(np.float64)
    adapted = adapt_rows(estimate, samples.y_proba_val)
    after = (adapted.argmax(axis=1) == y).astype(np.float64)
    covariance, optimism = resample(estimate, priors, samples)
    known = (priors, covariance, confidence_level)
    expected_before = expected_score(before, y, *known, (0.0, 1.0))
    expected_after = expected_score(after, y, *known, (0.0, 1.0), optimism)
    gain = expected_score(after - before, y, *known, (-1.0, 1.0), optimism)
    own = estimate.decision
    if own is not None and own["goal"] == "accuracy":
        own_gain = own["expected_gain"], own["expected_gain_se"]
        gain = Expected.of(*own_gain, confidence_level, (-1.0, 1.0))
        expected_after = expected_after.moved_to(expected_before.value + gain.value, (0.0, 1.0))
    largest, smallest = singular_range(samples.C[:, seen])
    pairs = confusable_pairs(samples.y_proba_val, y, samples.confusion)
    label = samples.classes.tolist()
    return Diagnostics(
        method=estimate.method,
        n_val=samples.n_val,
        n_target=samples.n_target,
        smallest_singular_value=smallest,
        condition_number=largest / smallest if smallest else np.inf,
        effective_sample_size=samples.effective_size(priors),
        confusable=tuple((label[a], label[b]) for a, b in pairs),
        unseen_classes=tuple(samples.classes[~seen].tolist()),
        accuracy_before=expected_before,
        accuracy_after=expected_after,
        accuracy_gain=gain,
        confidence_level=confidence_level,
        priors_exact=not estimate.n_target,
    )


def expected_accuracy(
    y_proba_val: ArrayLike,
    y_val: ArrayLike,
    y_proba_target: ArrayLike,
    priors: Any = None,
    *,
    classes: ArrayLike | None = None,
    confidence_level: float = 0.95,
) -> Expected:
    r"""Return the accuracy to expect on the target, without its labels.

    Under prior shift, accuracy on each class is the same on validation and target:

    .. math:: \text{accuracy} = \sum_k p_k\,\text{acc}_k

    To know what adapting does to it, adapt the predictions on validation and pass those.

    Parameters
    ----------
    y_proba_val, y_val, y_proba_target
        As for `priorshift.detect_shift`.
    priors : array-like of shape (n_classes,), mapping or PriorEstimate, optional
        The target's priors. By default Auto estimates them. The interval includes the noise of an
        estimate, and takes other priors as exact.
    classes : array-like of shape (n_classes,), optional
        Class names in the order of the columns.
    confidence_level : float, default=0.95
        Of the interval.

    Returns
    -------
    Expected
        `value`, `low` and `high`.

    Examples
    --------
    >>> import priorshift as ps
    >>> data = ps.datasets.load_fashion_lt()
    >>> rows = data.y_proba_val, data.y_val, data.y_proba_target
    >>> found = ps.expected_accuracy(*rows, classes=data.classes)
    >>> truth = (data.classes[data.y_proba_target.argmax(axis=1)] == data.y_target).mean()
    >>> bool(found.low < truth < found.high)
    True
    """
    confidence_level = check_level(confidence_level, "confidence_level")
    samples = read_samples(y_proba_val, y_val, y_proba_target, classes)
    names, y = samples.classes, samples.y_val
    if priors is None:
        fitted = get_estimator("auto").fit(samples.validation, samples.classes[y], classes=names)
        target = Predictions.from_checked(samples.y_proba_target)
        priors = fitted.estimate(target, confidence_level)
    estimate = priors if isinstance(priors, PriorEstimate) else None
    known = check_priors(priors if estimate is None else estimate.priors, names, "priors")
    shares, covariance = seen_shares(samples, known), np.zeros((names.size, names.size))
    if estimate is not None:
        covariance, _ = resample(estimate, shares, samples)
    right = (samples.y_proba_val.argmax(axis=1) == y).astype(np.float64)
    return expected_score(right, y, shares, covariance, confidence_level, (0.0, 1.0))
