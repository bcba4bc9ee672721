r"""Test whether the target's class priors are those of the source, and how far apart they are.

The distance between estimated and source priors is too large by construction: noise makes it
positive even without a shift. So it is compared with what the same estimator finds where the true
distance is known: priors between the source's and the estimated ones are taken as true, deviations
are drawn with their noise and estimated from again. The bias of their median is
subtracted, and inverting their quantiles gives the interval. Its lower end assumes that only the
classes moved that clearly did; its upper end assumes that all did, because noise adds most to a
shift of few classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from priorshift._results import Finding
from priorshift._typing import Vector
from priorshift.adapt import total_variation
from priorshift.border import as_generator, check_level, check_priors, check_resamples
from priorshift.evidence._assumption import N_RESAMPLES, AssumptionTest, assumption_of
from priorshift.evidence._samples import (
    SIDES,
    Power,
    Samples,
    at_one_precision,
    draw_noise,
    draw_permutations,
    float_blocks,
    p_value,
    read_samples,
    whiten_deviations,
    without_repeats,
)
from priorshift.exceptions import PriorShiftWarning, argument, warn_user
from priorshift.solvers import nearest_mixtures, simplex_least_squares
from priorshift.words import Fact, fact, say

ALTERNATIVE = 0.1
"""The smallest shift of practical interest, as a total variation distance: power is for it."""


@dataclass(frozen=True, eq=False, repr=False)
class ShiftTest(Finding):
    """Whether the target's priors differ from the source's; frozen and picklable.

    Attributes
    ----------
    statistic : float
        T, how far the target's decisions are from what the source priors predict.
    p_value : float
        How often T is as large where there is no shift.
    degrees_of_freedom : int
        Directions in which decisions vary, at most K - 1.
    alpha : float
        Level of the test.
    effect_size : float or None
        Total variation distance between target priors and source label priors: the share of
        samples whose class would have to change. It is debiased: `priors`, which hold noise, are
        farther from the source than the target's true priors are. None in an assessment, where
        the estimate says how far the priors moved.
    effect_interval : tuple of float or None
        Of the effect size, at confidence 1 - alpha. It contains 0 unless the test rejects; it may
        contain 0 even then.
    power : float
        How often a shift of size `alternative` is detected with these sample sizes.
    alternative : float
        The smallest shift of practical interest.
    detectable_effect : float or None
        Size of a shift that is detected 4 times out of 5; None if there is none.
    method : {"permutation", "bootstrap"}
        Where the null distribution comes from.
    n_val, n_target, n_resamples, classes, notes
        As in `AssumptionTest`.
    source_label_priors : ndarray of shape (n_classes,)
        The null hypothesis.
    priors : ndarray of shape (n_classes,) or None
        Estimated target priors, noisy where classes are hard to tell apart.
    assumption : AssumptionTest or None
        Whether a change of priors alone explains the target, if you asked for it.
    """

    statistic: float
    p_value: float
    degrees_of_freedom: int
    alpha: float
    effect_size: float | None
    effect_interval: tuple[float, float] | None
    power: float
    alternative: float
    detectable_effect: float | None
    method: str
    n_val: int
    n_target: int
    n_resamples: int
    classes: NDArray[Any]
    source_label_priors: Vector
    priors: Vector | None
    assumption: AssumptionTest | None = None
    notes: tuple[str, ...] = ()

    @property
    def rejected(self) -> bool:
        """Whether there is evidence of a shift, at this level."""
        return self.p_value <= self.alpha

    @property
    def sentence(self) -> str:
        """The finding in words."""
        said = say(self.fact())
        if self.assumption is not None and self.assumption.rejected:
            said += " " + self.assumption.sentence
        return said

    def fact(self, moved: float | None = None) -> Fact:
        """Return what was found; `moved` is how far by an estimate, else by mean predictions."""
        if not self.rejected:
            known = {"alternative": self.alternative, "power": self.power}
            return fact("not_shifted", p_value=self.p_value, **known)
        if moved is None and self.effect_interval is not None:
            low, high = self.effect_interval
            size = self.effect_size
            return fact("shift_by_means", p_value=self.p_value, moved=size, low=low, high=high)
        return fact("shifted", p_value=self.p_value, moved=moved)


def detect_shift(
    y_proba_val: ArrayLike,
    y_val: ArrayLike,
    y_proba_target: ArrayLike,
    source_priors: Any = None,
    source_label_priors: Any = None,
    classes: ArrayLike | None = None,
    *,
    alpha: float = 0.05,
    n_resamples: int = 999,
    assumption: bool = False,
    effect: bool = True,
    random_state: int | np.random.Generator | None = None,
) -> ShiftTest:
    r"""Test whether the target was drawn with the source's label priors.

    .. math:: H_0: q = C p^N, \qquad T = d^T \Sigma^{-1} d, \quad d = q - C p^N

    The null distribution of T holds the noise of target and validation. It comes from resampling,
    as a chi-square distribution would reject far too often with few rows per class: rows of
    validation and target are exchanged, which is exact if validation is a random sample of the
    source. Where `source_label_priors` are given, or validation has equally many rows of every
    class, which were chosen and not drawn, a bootstrap takes the priors as known instead. Where one
    side was rounded to fewer decimals, the other is rounded the same way.

    Parameters
    ----------
    y_proba_val : array-like of shape (n_val, n_classes) or (n_val,)
        Predicted probabilities on validation.
    y_val : array-like of shape (n_val,)
        Validation labels.
    y_proba_target : array-like of shape (n_target, n_classes) or (n_target,)
        Predicted probabilities on the target, from the same classifier.
    source_priors : array-like of shape (n_classes,) or mapping, optional
        Mean prediction on the training set. It is not the null hypothesis, which is about labels;
        you get a warning if validation does not follow it.
    source_label_priors : array-like of shape (n_classes,) or mapping, optional
        Label frequencies of the training set, the null hypothesis. By default the target is
        compared with validation.
    classes : array-like of shape (n_classes,), optional
        Class names in the order of the columns.
    alpha : float, default=0.05
        Level of the test.
    n_resamples : int, default=999
        Draws of the null distribution.
    assumption : bool, default=False
        Also test whether a change of priors alone explains the target: see `check_assumption`.
    effect : bool, default=True
        Also measure how far the priors moved, by mean predictions alone. An estimate with its
        interval tells more.
    random_state : None, int or numpy.random.Generator, optional

    Examples
    --------
    >>> import priorshift as ps
    >>> from priorshift.evidence import detect_shift
    >>> data = ps.datasets.load_fashion_lt()
    >>> validation = data.y_proba_val, data.y_val
    >>> target = data.y_proba_target[:500]
    >>> test = detect_shift(*validation, target, classes=data.classes, random_state=0)
    >>> test.rejected, test.method
    (True, 'permutation')
    """
    alpha = check_level(alpha)
    n_resamples = check_resamples(n_resamples, alpha)
    samples, rounded = at_one_precision(read_samples(y_proba_val, y_val, y_proba_target, classes))
    counts, notes = samples.class_counts, []
    if source_label_priors is None:
        null = counts / counts.sum()
        if source_priors is not None:
            source = check_priors(source_priors, samples.classes, "source_priors")
            mean = samples.y_proba_val.mean(axis=0, dtype=np.float64)
            apart = float(total_variation(mean, source))
            by_chance = float(np.sqrt(source * (1 - source) / samples.n_val).sum() / 2)
            if apart > max(0.1, 2 * by_chance):  # worth a warning
                notes.append(say(fact("drawn_otherwise", apart=apart)))
    else:
        null = check_priors(source_label_priors, samples.classes, "source_label_priors")
        lost = (counts == 0) & (null > 0)
        if lost.any():
            gone, share = samples.classes[lost].tolist(), float(null[lost].sum())
            notes.append(say(fact("class_not_tested", classes=gone, share=share)))
            if not null[~lost].any():
                raise ValueError(
                    "validation has no sample of any class of "
                    f"{argument('source_label_priors')}; add such samples, or leave it out."
                )
            null = np.where(lost, 0.0, null) / float(null[~lost].sum())
    for note in notes:
        warn_user(note, PriorShiftWarning)
    rng, whitener = as_generator(random_state), whiten_deviations(samples, null)
    statistic = float((((samples.q - samples.C @ null) @ whitener) ** 2).sum())
    # rows are exchanged between the sides, unless the source's priors or the rows per class are set
    permuted = source_label_priors is None and bool(counts.min() < counts.max())
    if permuted:
        drawn = draw_permutations(samples, n_resamples, rng) @ whitener
    else:
        drawn = draw_noise(samples, null, n_resamples, rng) @ whitener
    chance = p_value((drawn**2).sum(axis=1), statistic)
    notes += rounded
    clean = without_repeats(samples)
    for side, n in zip(SIDES, clean[1:], strict=True):
        if n:
            notes.append(say(fact("repeats_count", side=side, n=n)))
    power = Power(drawn, ways_to_shift(samples, null, whitener, rng), alpha)
    priors = distance = interval = None
    if effect:
        priors, distance, interval = estimate_effect(samples, null, whitener, alpha, rng)
        interval = interval if chance <= alpha else (0.0, interval[1])
    found = None
    if assumption:  # with fewer resamples where the level allows
        enough = max(N_RESAMPLES, int(np.ceil(1 / alpha)))
        found = assumption_of(samples, alpha, min(n_resamples, enough), rng, rounded, clean)
    return ShiftTest(
        statistic=statistic,
        p_value=chance,
        degrees_of_freedom=whitener.shape[1],
        alpha=alpha,
        effect_size=distance,
        effect_interval=interval,
        power=power.at(ALTERNATIVE),
        alternative=ALTERNATIVE,
        detectable_effect=power.detectable(),
        method="permutation" if permuted else "bootstrap",
        n_val=samples.n_val,
        n_target=samples.n_target,
        n_resamples=n_resamples,
        classes=samples.classes,
        source_label_priors=null,
        priors=priors,
        assumption=found,
        notes=tuple(notes),
    )


# How large the shift is -------------------------------------------------------------------------


def estimate_effect(
    samples: Samples, source: Vector, whitener: Vector, alpha: float, rng: np.random.Generator
) -> tuple[Vector, float, tuple[float, float]]:
    """Return the estimated priors, their debiased distance to those of the null, its interval.

    Priors are estimated from the data, and again from deviations drawn around any truth.
    """
    seen = samples.class_counts > 0
    sure = np.sqrt((whitener**2).sum(axis=0))
    # where decisions hardly vary, their covariance is not known well enough to rely on
    weights = whitener * np.minimum(1.0, 10 * sure.min(initial=np.inf) / sure)
    A, null, priors = weights.T @ samples.C[:, seen], source[seen], np.zeros(seen.size)
    found = simplex_least_squares(A, weights.T @ samples.q, tol=1e-6).value
    priors[seen] = found
    observed = max(float(total_variation(found, null)), np.finfo(np.float64).tiny)
    # 199 draws with the same signs, so that noise between both can be mixed from them
    seed = int(rng.integers(2**32))
    at_null, at_found = (
        draw_noise(samples, at, 199, np.random.default_rng(seed)) @ weights
        for at in (source, priors)
    )

    def estimates(truth: Vector) -> Vector:
        """Return estimates where these are the true priors, as columns."""
        share = float(total_variation(truth, null)) / observed
        drawn = (1 - share) * at_null + share * at_found
        return nearest_mixtures(A, (A @ truth)[:, None] + drawn.T, truth)

    first = estimates(null)
    error = np.sqrt(((first - null[:, None]) ** 2).mean(axis=1))
    # a class counts as moved beyond two standard errors
    clear = null + beyond_noise(found - null, 2 * error)
    # noise grows with the shift: the upper end needs draws from beyond the estimate
    margin = float(np.quantile(total_variation(first.T, null), 1 - alpha / 2))
    farther = np.maximum(null + min(1 + margin / observed, 1e3) * (found - null), 0.0)
    few = np.column_stack([null, (null + clear) / 2, clear, found])
    all_moved = np.column_stack([null, (null + found) / 2, found, farther / farther.sum()])
    of_few, of_all = (
        np.stack([total_variation(estimates(truth).T, null) for truth in truths.T])
        for truths in (few, all_moved)
    )
    moved_few, moved_all = total_variation(few.T, null), total_variation(all_moved.T, null)
    low = _true_distance(observed, moved_few, np.quantile(of_few, 1 - alpha / 2, axis=1))
    # an estimate nearer than noise allows is luck: it does not rule out what noise would hide
    at_most = max(observed, float(np.median(of_all[0])))
    high = _true_distance(at_most, moved_all, np.quantile(of_all, alpha / 2, axis=1))
    # the bias where the statistic suggests that the truth is, between the null and the estimate
    bias = np.median(of_few, axis=1) - moved_few
    squares = np.maximum.accumulate(((A @ (few - null[:, None])) ** 2).sum(axis=0))
    statistic = float((((samples.q - samples.C @ source) @ weights) ** 2).sum())
    beyond = statistic - float(np.median((at_null**2).sum(axis=1)))
    effect = float(np.clip(observed - np.interp(beyond, squares, bias), 0.0, 1.0))
    return priors, effect, (min(low, effect), min(1.0, max(high, effect)))


def beyond_noise(difference: Vector, error: Vector) -> Vector:
    r"""Return what noise does not explain of a difference of priors; it sums to 0.

    A class keeps :math:`\delta_k \max(0, 1 - s_k^2 / \delta_k^2)`. Then the side, gains or losses,
    that lost more gets back a share of what it lost, so that both are equal.

    Examples
    --------
    >>> beyond_noise(np.array([0.3, 0.01, -0.16, -0.15]), np.full(4, 0.05)).round(3)
    array([ 0.292,  0.   , -0.151, -0.141])
    """
    square = difference**2
    kept = difference * np.divide(
        np.maximum(square - error**2, 0.0), square, out=np.zeros_like(square), where=square > 0
    )
    gains, losses = difference > 0, difference < 0
    gained, lost = float(kept[gains].sum()), -float(kept[losses].sum())
    side, missing = (losses, gained - lost) if gained > lost else (gains, lost - gained)
    taken = np.where(side, difference - kept, 0.0)
    total = float(np.abs(taken).sum())
    return kept + taken * (missing / total if total > 0 else 0.0)


def _true_distance(observed: float, true: Vector, quantiles: Vector) -> float:
    """Return the true distance at which a quantile of estimated distances is the observed one."""
    rising = np.maximum.accumulate(quantiles)
    if observed > rising[-1]:
        return float(true.max() + observed - rising[-1])
    return float(np.interp(observed, rising, np.maximum.accumulate(true)))


# What would have been detected -----------------------------------------------------------------


def ways_to_shift(
    samples: Samples, null: Vector, whitener: Vector, rng: np.random.Generator
) -> Vector:
    """Return how shifts of size 1 move the whitened deviations, (64, n_directions)."""
    way = directions(null, rng)
    seen = way @ samples.C.T @ whitener
    # the noise of C makes any shift look larger than it is: subtract it
    square = (seen**2).sum(axis=1)
    n, squares = samples.class_counts, np.zeros(samples.n_val)
    for rows, block in float_blocks(samples.y_proba_val):
        block -= samples.C.T[samples.y_val[rows]]
        squares[rows] = ((block @ whitener) ** 2).sum(axis=1)
    noise = np.bincount(samples.y_val, squares, n.size) / np.maximum(n * (n - 1), 1)
    less = np.maximum(square - way**2 @ noise, 0.0)
    shrink = np.sqrt(np.divide(less, square, out=np.zeros_like(square), where=square > 0))
    return seen * shrink[:, None]


def directions(priors: Vector, rng: np.random.Generator) -> Vector:
    r"""Draw 64 shifts of total variation 1, (64, K).

    A random half of the classes becomes more common, all by one factor, at the expense of the
    others: :math:`p_k \propto p^N_k (\epsilon_k - \bar\epsilon)` with random signs
    :math:`\epsilon_k`.
    """
    signs = np.where(rng.random((64, priors.size)) < 0.5, -1.0, 1.0)
    ways = priors * (signs - signs @ priors[:, None])
    # if all signs are alike: the most common class against the others
    most = int(np.argmax(priors))
    against = priors * (np.where(np.arange(priors.size) == most, 1.0, -1.0))
    against -= priors * against.sum()
    size = np.abs(ways).sum(axis=1, keepdims=True) / 2
    ways = np.where(size > 1e-9, ways, against)
    size = np.abs(ways).sum(axis=1, keepdims=True) / 2
    return np.divide(ways, size, out=np.zeros_like(ways), where=size > 1e-9)
