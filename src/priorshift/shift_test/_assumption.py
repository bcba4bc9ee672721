r"""Test the assumption itself: that only the priors changed, and p(x|y) did not.

Decisions alone cannot tell, as q = C p has as many unknowns as equations. Decisions *and* their
confidence can: with cells of (predicted class, quintile of its confidence), the shares in the
target must be a mixture :math:`D p` of the classes' shares on validation, for some p. The test
compares the target with the nearest such mixture, and with how far mixtures estimated from noisy
cells are from them when the assumption holds.
"""

import numpy as np
from numpy.typing import ArrayLike

from priorshift._typing import Floats, Indices, Mask, Vector
from priorshift._validation import check_level, check_resamples
from priorshift.shift_test._least_squares import nearest_mixtures_each
from priorshift.shift_test._noise import ENTRIES, effective_size
from priorshift.shift_test._power import p_value
from priorshift.shift_test._results import AssumptionTest
from priorshift.shift_test._samples import Samples, read_samples
from priorshift.shift_test._statistic import Moments
from priorshift.solvers import simplex_least_squares

N_RESAMPLES = 199
"""Every draw is estimated from again, which at a hundred classes takes 15 ms."""

LEAST_A_CELL = 3.0
"""Effective validation rows a cell below which the test's level was found to be wrong."""

N_BINS = 5
LEAST_IN_CELL = 5
"""Rows that a cell must hold on average, on either side, or a class gets fewer bins."""


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

    Parameters
    ----------
    y_proba_val : array-like of shape (n_val, n_classes) or (n_val,)
        Predicted probabilities on validation.
    y_val : array-like of shape (n_val,)
        Validation labels, of any class balance.
    y_proba_target : array-like of shape (n_target, n_classes) or (n_target,)
        Predicted probabilities on the target, from the same classifier.
    classes : array-like of shape (n_classes,), optional
        Class names in the order of the columns.
    alpha : float, default=0.05
        Level of the test.
    n_resamples : int, default=199
        Draws of the null distribution; the priors are estimated again for each.
    random_state : None, int or numpy.random.Generator, optional

    Returns
    -------
    AssumptionTest

    Examples
    --------
    >>> import priorshift as ps
    >>> from priorshift.shift_test import check_assumption
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
    return assumption_of(samples, alpha, n_resamples, np.random.default_rng(random_state))


def assumption_of(
    samples: Samples, alpha: float, n_resamples: int, rng: np.random.Generator
) -> AssumptionTest:
    """Run the test on clean samples."""
    cells_val, cells_target, n_cells = cells_of(samples)
    seen = samples.class_counts > 0
    freedom = n_cells - int(np.count_nonzero(seen))
    shares = np.bincount(cells_target, minlength=n_cells) / samples.n_target
    D = _cells_by_class(samples, cells_val, n_cells)[:, seen]
    priors = _priors_of_decisions(samples, seen)
    weight = _weights(samples, D, shares, priors, seen)
    found, distance = _distances(D[None], shares[None], weight, priors[seen])
    chance = None
    if freedom > 0 and effective_size(samples, priors) >= LEAST_A_CELL * n_cells:
        drawn = _draw_distances(samples, D, weight, priors[seen], n_resamples, rng)
        chance = p_value(drawn, float(distance[0]))
    priors[seen] = found[:, 0]
    return AssumptionTest(
        statistic=float(distance[0]),
        p_value=chance,
        degrees_of_freedom=max(freedom, 0),
        alpha=alpha,
        n_cells=n_cells,
        n_val=samples.n_val,
        n_target=samples.n_target,
        n_resamples=n_resamples,
        classes=samples.classes,
        priors=priors,
    )


def cells_of(samples: Samples) -> tuple[Indices, Indices, int]:
    """Return the cell of each row, of validation and target, and how many cells there are.

    A predicted class is cut at quantiles of its confidence, of both sides together; one that is
    seldom predicted gets fewer cuts.
    """
    K = samples.classes.size
    sides = (samples.y_proba_val, samples.y_proba_target)
    chosen = [side.argmax(axis=1) for side in sides]
    fewest = np.minimum(*(np.bincount(side, minlength=K) for side in chosen))
    bins = np.clip(fewest // LEAST_IN_CELL, 1, N_BINS)
    predicted = np.concatenate(chosen)
    confidence = np.concatenate([_confidence(side) for side in sides])
    order = np.lexsort((confidence, predicted))
    size = np.bincount(predicted, minlength=K)
    first = np.cumsum(size) - size
    rank = np.empty(order.size, dtype=np.intp)
    rank[order] = np.arange(order.size) - first[predicted[order]]
    rank = _first_of_equals(rank, predicted, confidence, order)
    cell = predicted * N_BINS + rank * bins[predicted] // size[predicted]
    used, numbered = np.unique(cell, return_inverse=True)
    n_val = samples.n_val
    return numbered[:n_val], numbered[n_val:], used.size


def _confidence(y_proba: Floats) -> Vector:
    # rounded, so that equal confidences are equal in every precision
    return y_proba.max(axis=1).astype(np.float64).round(6)


def _first_of_equals(
    rank: Indices, predicted: Indices, confidence: Vector, order: Indices
) -> Indices:
    """Give rows of equal confidence the rank of the first of them: they share a cell."""
    same = (np.diff(confidence[order]) == 0) & (np.diff(predicted[order]) == 0)
    leader = np.where(np.concatenate([[False], same]), 0, np.arange(order.size))
    ranks = rank[order][np.maximum.accumulate(leader)]
    shared = np.empty_like(rank)
    shared[order] = ranks
    return shared


def _cells_by_class(samples: Samples, cells: Indices, n_cells: int) -> Vector:
    """Return D: the share of each cell in each class of validation."""
    K = samples.classes.size
    table = np.bincount(cells * K + samples.y_val, minlength=n_cells * K).reshape(n_cells, K)
    return table / np.maximum(samples.class_counts, 1)


def _priors_of_decisions(samples: Samples, seen: Mask) -> Vector:
    """Estimate the priors from soft decisions alone.

    They have as many equations as unknowns. The cells have more, and the noise of D would draw
    their estimate towards priors that are less noisy than the truth.
    """
    even = np.where(seen, 1 / np.count_nonzero(seen), 0.0)
    moments = Moments.of(samples, "soft", even)
    A = moments.whitener.T @ moments.C[:, seen]
    priors = np.zeros(seen.size)
    priors[seen] = simplex_least_squares(A, moments.whitener.T @ moments.q, tol=1e-6).value
    return priors


def _weights(samples: Samples, D: Vector, shares: Vector, priors: Vector, seen: Mask) -> Vector:
    """Return one over the standard deviation of each cell, at the shares of both sides together."""
    M, size = samples.n_target, effective_size(samples, priors)
    expected = (M * shares + size * (D @ priors[seen])) / (M + size)
    return 1 / np.sqrt(np.maximum(expected, 0.5 / M) * (1 / M + 1 / size))


def _distances(D: Vector, shares: Vector, weight: Vector, start: Vector) -> tuple[Vector, Vector]:
    """Return the priors of the nearest mixtures, as columns, and the squared distances to them."""
    A, b = weight[:, None] * D, weight * shares
    found = nearest_mixtures_each(A, b, start)
    return found, ((b - (A @ found.T[:, :, None])[:, :, 0]) ** 2).sum(axis=1)


def _draw_distances(
    samples: Samples,
    D: Vector,
    weight: Vector,
    priors: Vector,
    n_draws: int,
    rng: np.random.Generator,
) -> Vector:
    """Draw cells of validation and target where the assumption holds; estimate from each again."""
    n, M = samples.class_counts, samples.n_target
    n = n[n > 0]
    mixed = D @ priors
    drawn = np.empty(n_draws)
    step = max(1, ENTRIES // D.size)
    for start in range(0, n_draws, step):
        chunk = drawn[start : start + step]
        by_class = rng.multinomial(n, D.T / D.sum(axis=0)[:, None], size=(chunk.size, n.size))
        shares = rng.multinomial(M, mixed / mixed.sum(), size=chunk.size) / M
        again = (by_class / n[:, None]).transpose(0, 2, 1)
        chunk[:] = _distances(again, shares, weight, priors)[1]
    return drawn
