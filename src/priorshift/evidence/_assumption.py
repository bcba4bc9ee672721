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

Decisions without probabilities are all equally sure. With more kinds of decisions than classes,
such as a judge's *unsure*, q = C p has more equations than unknowns, and how far q is from every
mixture is the statistic. With as many, only a q outside all mixtures tells: fewer positives than a
test gives by mistake.

Noise e of the mean probabilities moves the estimated priors by :math:`\Delta p = R\, e`, least
squares with a spread of p, so the deviation of a function answers a row x with
:math:`\varphi(x) - f(x) \cdot R^T E[\varphi]`. Draws give these answers random signs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from priorshift._results import Finding
from priorshift._typing import Indices, Vector
from priorshift.border import (
    Predictions,
    as_decisions,
    as_generator,
    check_level,
    check_resamples,
    read_decisions,
    sum_by,
)
from priorshift.evidence._samples import (
    MOST_DECIMALS,
    Power,
    Samples,
    as_file,
    at_one_precision,
    draw_noise,
    draw_signed,
    group_size,
    p_value,
    ranks,
    read_samples,
    whiten_deviations,
    without_repeats,
)
from priorshift.solvers import nearest_mixtures, simplex_least_squares
from priorshift.words import Fact, fact, say

N_RESAMPLES = 199
MOST_ROWS = 50_000
"""Rows per side beyond which a random part of them is tested."""

BORROWED = 10.0
"""Rows that the noise of a class borrows from the rows decided for it."""

NO_VARIANCE = 1e-14
"""Of a mean of features, which are of size 1: rounding alone."""

N_POOLED = 4
"""Functions of all rows: two polynomials of two ranks."""


@dataclass(frozen=True, eq=False, repr=False)
class AssumptionTest(Finding):
    """Whether a change of priors alone explains the target; frozen and picklable.

    Attributes
    ----------
    statistic : float
        Mean square of the target's deviations from the nearest mixture of classes, in standard
        errors: of all decisions together, plus of each decision.
    p_value : float or None
        How often the statistic is as large where only the priors changed. None where there are too
        few rows to tell.
    degrees_of_freedom : int
        Numbers that were compared.
    alpha : float
        Level of the test.
    n_cells : int
        Decisions (predicted classes) that were compared one by one, as both sides have enough rows
        of them.
    n_val, n_target : int
        Rows of validation and target.
    n_resamples : int
        Draws of the null distribution.
    classes : ndarray of shape (n_classes,)
    priors : ndarray of shape (n_classes,)
        The priors that explain the target best; of its distinct rows, if it repeats some.
    detectable_effect : float or None
        Change of confidence that is detected 4 times out of 5, as a mean change of rank: 0.05
        means that rows move up, or down, by 5 percentiles among the rows with the same decision.
        None if no change is.
    n_repeated_val, n_repeated_target : int
        Repeated rows of a side that was drawn with replacement: each counts once.
    notes : tuple of str
        What the user should know of the inputs.
    of_decisions : bool
        Whether there were decisions without probabilities.
    """

    statistic: float
    p_value: float | None
    degrees_of_freedom: int
    alpha: float
    n_cells: int
    n_val: int
    n_target: int
    n_resamples: int
    classes: NDArray[Any]
    priors: Vector
    detectable_effect: float | None = None
    n_repeated_val: int = 0
    n_repeated_target: int = 0
    notes: tuple[str, ...] = ()
    of_decisions: bool = False

    @property
    def rejected(self) -> bool:
        """Whether more than the priors changed, at this level."""
        return self.p_value is not None and self.p_value <= self.alpha

    @property
    def sentence(self) -> str:
        """The finding in words."""
        return " ".join(map(say, self.facts()))

    def facts(self) -> Iterator[Fact]:
        """List what was found."""
        if self.of_decisions:
            yield self.fact_of_decisions()
        elif self.p_value is None:
            yield fact("few_to_check", n_val=self.n_val, n_target=self.n_target)
        elif self.rejected:
            yield fact("looks_different", p_value=self.p_value)
        else:
            yield fact("balance_explains", p_value=self.p_value, least=self.detectable_effect)
        if self.n_repeated_val or self.n_repeated_target:
            yield fact("repeated", n_val=self.n_repeated_val, n_target=self.n_repeated_target)

    def fact_of_decisions(self) -> Fact:
        """Return whether decisions err as they did, as far as they tell."""
        if self.p_value is None:
            return fact("by_decisions", n_target=self.n_target)
        return fact("drifted" if self.rejected else "errs_alike", p_value=self.p_value)


def check_assumption(
    y_proba_val: ArrayLike | None = None,
    y_val: ArrayLike | None = None,
    y_proba_target: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    *,
    y_pred_val: ArrayLike | None = None,
    y_pred_target: ArrayLike | None = None,
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
    y_pred_val, y_pred_target : array-like of shape (n_val,) and (n_target,), optional
        Decisions instead of probabilities. They can be checked where there are more kinds of them
        than classes.
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
    if y_pred_val is not None or y_pred_target is not None:
        decided = (y_pred_val, y_val, y_pred_target, classes)
        classes, y_proba_val, y_proba_target = as_rows(*decided, y_proba_val, y_proba_target)
    given = read_samples(y_proba_val, y_val, y_proba_target, classes)  # type: ignore[arg-type]
    samples, notes = at_one_precision(given)
    return assumption_of(samples, alpha, n_resamples, as_generator(random_state), notes)


def assumption_of(
    samples: Samples,
    alpha: float,
    n_resamples: int,
    rng: np.random.Generator,
    notes: tuple[str, ...] = (),
    clean: tuple[Samples, int, int] | None = None,
) -> AssumptionTest:
    """Run the test on samples of one precision; `clean` is without repeats, if it is known."""
    # of what is too large, in rows or in numbers, a random part
    part, most = samples, 2 * 10**7 // (2 * samples.classes.size + 4)
    most = max(1000, min(MOST_ROWS, most))
    if max(samples.n_val, samples.n_target) > most:
        sizes = samples.n_val, samples.n_target
        part = samples.rows(*(np.sort(rng.permutation(size)[:most]) for size in sizes))
    part, *repeated = clean if clean and part is samples else without_repeats(part)
    enough = part.n_target >= 2 and part.n_val >= 2 and int(part.class_counts.max()) >= 2
    found = Comparison(part) if enough else None
    answer: tuple[float, float, int, float | None] | None = None
    largest = [samples.y_proba_val.max(axis=1), samples.y_proba_target.max(axis=1)]
    certain = bool((np.concatenate(largest) == 1).all())  # decisions, no probabilities
    if found is not None and certain:
        answer = _compare_decisions(found, alpha, n_resamples, rng)
    elif found is not None and found.compared.size and found.worth >= 100:  # rows enough
        answer = _compare(found, alpha, n_resamples, rng)
    statistic, chance, n_directions, detectable = answer or (0.0, None, 0, None)
    return AssumptionTest(
        statistic=statistic,
        p_value=chance,
        degrees_of_freedom=n_directions,
        alpha=alpha,
        n_cells=0 if found is None else found.compared.size,
        n_val=samples.n_val,
        n_target=samples.n_target,
        n_resamples=n_resamples,
        classes=samples.classes,
        priors=samples.class_counts / samples.n_val if found is None else found.priors,
        detectable_effect=detectable,
        n_repeated_val=repeated[0],
        n_repeated_target=repeated[1],
        notes=notes,
        of_decisions=samples.validation.decided is not None,
    )


def as_rows(
    y_pred_val: Any, y_val: Any, y_pred_target: Any, classes: Any, *y_proba: Any
) -> tuple[Any, Any, Any]:
    """Return the classes, and decisions of both sides as rows that go where predictions go."""
    if any(one is not None for one in y_proba):
        raise ValueError("y_proba and y_pred are two ways to give the same; pass one of them.")
    if y_pred_val is None or y_pred_target is None or y_val is None:
        raise ValueError(
            "an assessment of decisions needs y_pred_val, y_val and y_pred_target; one is missing."
        )
    classes, decided, _ = read_decisions(y_pred_val, y_val, classes)
    rows = Predictions.from_decisions(decided, classes.size)
    return classes, rows, as_decisions(y_pred_target, classes)


class Comparison:
    """Functions of rows that tell how sure the classifier is, and their means on both sides.

    The priors are estimated from mean probabilities, weighted by their noise at the priors.

    Attributes
    ----------
    samples : Samples
    priors : ndarray of shape (K,)
        Of the nearest mixture.
    response : ndarray of shape (K, K)
        R: how the priors move with noise of mean probabilities.
    variance : ndarray of shape (K,)
        Of the priors.
    worth : float
        How many rows of the target validation is worth.
    features : ndarray of shape (n_val + n_target, n_features)
        Probabilities, then the functions: `N_POOLED` of all rows, then one per decision of
        `compared`. Validation comes first.
    predicted : ndarray of shape (n_val + n_target,)
        Decisions.
    compared : ndarray
        Decisions that are compared one by one.
    by_class : ndarray of shape (K, n_features)
        Means on validation.
    deviation : ndarray of shape (n_features - K,)
        How far the target's means of the functions are from the nearest mixture's.
    """

    def __init__(self, samples: Samples) -> None:
        seen, n = samples.class_counts > 0, samples.n_val
        K, p = seen.size, seen / np.count_nonzero(seen)
        # twice, each time with the noise at the last priors
        for _ in range(2):
            W = whiten_deviations(samples, p)
            A, b = W.T @ samples.C, W.T @ samples.q
            p = np.zeros(K)
            p[seen] = simplex_least_squares(A[:, seen], b, tol=1e-9).value
        self.samples, self.priors, self.worth = samples, p, samples.effective_size(p)
        # least squares of moves that sum to 0; a share p varies by p at the most
        root = np.sqrt(p)
        scaled = A * root
        normal = scaled.T @ scaled + np.eye(K)
        solved = np.linalg.solve(normal, np.column_stack([scaled.T, root]))
        moves, ones = solved[:, :-1], solved[:, -1]
        moves = root[:, None] * (moves - np.outer(ones, root @ moves / (root @ ones)))
        self.response, self.variance = moves @ W.T, (moves**2).sum(axis=1)
        # functions of rounded rows, so that a file's decimals change nothing: what is 1 is a tie
        sides = samples.y_proba_val, samples.y_proba_target
        coarse = np.concatenate([*map(as_file, sides)])
        at_row, predicted = np.arange(len(coarse)), coarse.argmax(axis=1)
        top = coarse[at_row, predicted].round(MOST_DECIMALS)
        coarse[at_row, predicted] = -1.0
        runner_up = np.divide(
            coarse.max(axis=1), 1 - top, out=np.ones_like(top), where=top < 1
        ).round(MOST_DECIMALS)
        pooled = []
        for score in (top, runner_up):  # Legendre polynomials of ranks, of variance 1
            lower, equal = ranks(score, predicted)
            t = 2 * (lower + equal / 2) / np.bincount(predicted)[predicted] - 1
            pooled += [np.sqrt(3) * t, np.sqrt(5) * (3 * t**2 - 1) / 2]
        decided = np.bincount(predicted[:n], minlength=K), np.bincount(predicted[n:], minlength=K)
        # decisions with enough rows on either side are compared by themselves
        self.predicted, self.compared = predicted, np.flatnonzero(np.minimum(*decided) >= 5)
        alone = np.where(predicted[:, None] == self.compared, pooled[0][:, None], 0.0)
        self.features = np.column_stack([np.concatenate(sides, dtype=np.float64), *pooled, alone])
        sums = sum_by(self.features[:n], samples.y_val, K)
        self.by_class = sums / np.maximum(samples.class_counts, 1)[:, None]
        self.deviation = (self.features[n:].mean(axis=0) - p @ self.by_class)[K:]


def draw_deviations(found: Comparison, n_draws: int, rng: np.random.Generator) -> Vector:
    r"""Draw deviations where the assumption holds, (n_draws, n_features - K).

    The target's noise is that of rows of both sides, weighted to the estimated priors; that of
    validation is drawn per class, times a share whose square is :math:`p_k^2` plus its variance. A
    class with few rows may show less spread than it has (15 rows that are all sure): `BORROWED`
    rows' worth of its covariance come from all rows that are decided for it.
    """
    samples, X, predicted = found.samples, found.features, found.predicted
    n, M, y, K = samples.class_counts, samples.n_target, samples.y_val, found.priors.size
    answer = X[:, K:] - X[:, :K] @ (found.response.T @ found.by_class[:, K:])
    share = M / (M + found.worth)
    weight = np.concatenate(
        [((1 - share) * found.priors / np.maximum(n, 1))[y], np.full(M, share / M)]
    )
    # a share of mean p has a mean square of p at the most
    square = np.minimum(found.priors**2 + found.variance, found.priors)
    borrowed = BORROWED / (np.maximum(n - 1, 0) + BORROWED)
    own = np.sqrt(square * (1 - borrowed) / np.maximum(n * (n - 1), 1))
    decided = np.bincount(predicted, minlength=K)
    others = np.sqrt(square * borrowed / np.maximum(n, 1) / np.maximum(decided - 1, 1))

    def within(rows: Vector, group: Indices, scale: Vector) -> Vector:
        """Return deviations from the mean of their group, scaled by group."""
        size = np.maximum(np.bincount(group, minlength=K), 1)[:, None]
        mean = sum_by(rows, group, K) / size
        return (rows - mean[group]) * scale[group, None]

    size = group_size(X.shape[0], K)
    target = (answer - weight @ answer) * np.sqrt(weight / M)[:, None]
    drawn = draw_signed(target, n_draws, size, rng)
    drawn += draw_signed(within(answer, predicted, others), n_draws, size, rng)
    of_classes = within(answer[: y.size], y, own)
    return drawn + draw_signed(of_classes, n_draws, group_size(y.size, K), rng)


def _compare(
    found: Comparison, alpha: float, n_resamples: int, rng: np.random.Generator
) -> tuple[float, float, int, float | None] | None:
    """Return the statistic, its p-value, degrees of freedom and detectable effect.

    The deviation is compared with draws; the scale comes from all of them alike.
    """
    drawn = np.vstack([found.deviation, draw_deviations(found, n_resamples, rng)])
    drawn -= drawn.mean(axis=0)
    # what makes the statistic a sum of squares: pooled functions are whitened, others standardised
    n, d = drawn.shape
    scale = np.zeros((d, d))
    values, vectors = np.linalg.eigh(drawn[:, :N_POOLED].T @ drawn[:, :N_POOLED] / n)
    varies = values > max(NO_VARIANCE, 1e-8 * float(values[-1]))
    white = vectors[:, varies] / np.sqrt(values[varies] * max(1, np.count_nonzero(varies)))
    scale[:N_POOLED, : white.shape[1]] = white
    variance = (drawn[:, N_POOLED:] ** 2).mean(axis=0)
    varies = variance > max(NO_VARIANCE, 1e-8 * variance.max(initial=0.0))
    at = N_POOLED + np.flatnonzero(varies)
    scale[at, at] = 1 / np.sqrt(variance[varies] * max(1, at.size))
    if not scale.any():
        return None
    scaled = drawn @ scale
    squares = (scaled**2).sum(axis=1)
    # how the functions change if confidence rises by a unit of rank, in every decision
    shares = np.bincount(found.predicted, minlength=found.priors.size)[found.compared]
    others = np.zeros(N_POOLED - 1)
    way = 2 * np.sqrt(3) * np.concatenate([[1.0], others, shares / found.predicted.size])
    power = Power(scaled[1:], (way @ scale)[None], alpha)
    n_directions = int(np.count_nonzero(scale.any(axis=0)))
    chance = p_value(squares[1:], float(squares[0]))
    return float(squares[0]), chance, n_directions, power.detectable(most=0.5)


def _compare_decisions(
    found: Comparison, alpha: float, n_resamples: int, rng: np.random.Generator
) -> tuple[float, float, int, None] | None:
    """Return statistic, p-value and degrees of freedom of the distance from every mixture.

    None where there are too few rows, or where decisions would fit whatever they are.
    """
    if found.worth < 60:  # rows
        return None
    seen, p = found.samples.class_counts > 0, found.priors
    W, C, q = whiten_deviations(found.samples, p), found.samples.C[:, seen], found.samples.q
    noise = draw_noise(found.samples, p, n_resamples, rng)
    b = W.T @ np.vstack([q, C @ p[seen] + noise]).T
    A = W.T @ C
    squares = ((b - A @ nearest_mixtures(A, b, p[seen])) ** 2).sum(axis=0)
    chance = p_value(squares[1:], float(squares[0]))
    made = (q > 0) | (C > 0).any(axis=1)
    spare = int(np.count_nonzero(made)) - int(np.count_nonzero(seen))
    if spare < 1 and chance > alpha:
        return None
    return float(squares[0]), chance, max(spare, 1), None
