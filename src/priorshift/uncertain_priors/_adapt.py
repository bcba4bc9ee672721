"""adapt_proba_interval: adapted probabilities with bounds."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from priorshift._blocks import row_blocks
from priorshift._typing import Floats, Vector
from priorshift._validation import (
    check_count,
    check_fraction,
    check_priors,
    check_proba,
    check_source_mass,
    in_class_order,
    settle_classes,
)
from priorshift.adaptation import like_input, prior_ratio, reweight
from priorshift.resampling import RandomState
from priorshift.uncertain_priors._draws import draw_priors, end_priors, read_interval

BLOCK_BYTES = 2**24
"""Float64 bytes of the adapted probabilities that are held at once."""


class ProbaInterval(NamedTuple):
    """Adapted probabilities with their bounds; `proba, lower, upper` in this order.

    Attributes
    ----------
    proba : ndarray of shape (n_samples, n_classes) or (n_samples,)
        Probabilities adapted to the target priors themselves.
    lower, upper : ndarrays of the shape of `proba`
        What they may be, given what the target priors may be.
    """

    proba: Floats
    lower: Floats
    upper: Floats


def adapt_proba_interval(
    y_proba: ArrayLike,
    source_priors: Any,
    target_priors: Any = None,
    *,
    interval: Any = None,
    draws: ArrayLike | None = None,
    confidence_level: float = 0.95,
    strength: float = 1.0,
    classes: ArrayLike | None = None,
    n_draws: int = 1000,
    random_state: RandomState = 0,
) -> ProbaInterval:
    """Adapt predicted probabilities to uncertain target priors, with bounds.

    The bounds speak of the priors' uncertainty alone, not of the classifier's. They hold for one
    sample at a time, and are exact for two classes, and for an `interval` of one class alone.
    Several intervals say nothing of how the priors vary together: each prior is drawn around its
    value, a normal distribution either side, so that the vectors sum to 1 and every prior has about
    its interval; `draws` leave nothing to suppose.

    Parameters
    ----------
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities; 1-D is the probability of the second, positive class.
    source_priors : array-like of shape (n_classes,), mapping from class to prior, or float
        Class priors the classifier was trained under. With 1-D `y_proba`, a number is the prior of
        the positive class; likewise below.
    target_priors : array-like of shape (n_classes,), mapping from class to prior, or float
        Class priors to adapt to; by default the mean of `draws`.
    interval : array-like of shape (n_classes, 2), mapping from class to (lower, upper), or a pair
        Bounds of each target prior. A pair is for 1-D `y_proba`. Classes that a mapping leaves out,
        or whose row is NaN, share what the others leave in the proportions of `target_priors`.
    draws : array-like of shape (n_draws, n_classes) or (n_draws,)
        Target priors drawn from what is known of them, such as a posterior distribution or a
        bootstrap; instead of `interval`.
    confidence_level : float in (0, 1), default=0.95
        Level of the given `interval`, and of the bounds returned.
    strength : float in [0, 1], default=1
        Exponent of the ratio, as in `adapt_proba`.
    classes : array-like of shape (n_classes,), optional
        Class names in the order of the columns.
    n_draws : int, default=1000
        How many vectors to draw for an `interval` of more than two classes.
    random_state : None, int or numpy.random.Generator, default=0

    Returns
    -------
    ProbaInterval
        Probabilities, lower and upper bounds, each of the shape of `y_proba`.

    Examples
    --------
    A test trained on equal shares, where 20 % (18-22 %) are positive:

    >>> import numpy as np
    >>> from priorshift.uncertain_priors import adapt_proba_interval
    >>> proba, lower, upper = adapt_proba_interval(
    ...     np.array([0.5, 0.9]), 0.5, 0.2, interval=(0.18, 0.22)
    ... )
    >>> np.column_stack([proba, lower, upper]).round(3)
    array([[0.2  , 0.18 , 0.22 ],
           [0.692, 0.664, 0.717]])
    """
    if (interval is None) == (draws is None):
        raise ValueError("pass either interval= or draws=: what the target priors may be.")
    if not 0 < check_fraction(confidence_level, "confidence_level") < 1:
        raise ValueError(f"confidence_level must be above 0 and below 1; got {confidence_level!r}.")
    tail = (1 - confidence_level) / 2
    power, n_draws = check_fraction(strength, "strength"), check_count(n_draws, "n_draws", 100)
    predictions = check_proba(y_proba)
    names = settle_classes(predictions, classes=classes)
    values = in_class_order(predictions, names)
    if predictions.binary:
        source_priors, target_priors = _completed(source_priors), _completed(target_priors)
        interval = _of_positive(interval)
    source = check_priors(source_priors, names, "source_priors")
    check_source_mass(source, values, names)
    drawn = None
    if draws is not None:
        drawn = in_class_order(check_proba(draws, "draws"), names, "draws").astype(np.float64)
        target_priors = drawn.mean(axis=0) if target_priors is None else target_priors
    target = check_priors(target_priors, names, "target_priors")
    inverse = prior_ratio(np.ones(names.size), source)
    if drawn is not None:
        ends = _outer_pair(drawn, tail) if names.size == 2 else None
    else:
        bounds = read_interval(interval, target, names)
        ends = end_priors(target, bounds)
        if ends is None:
            drawn = draw_priors(target, bounds, tail, n_draws, random_state, names)
    if ends is not None:
        lower, upper = _envelope(values, (ends * inverse) ** power)
    else:
        assert drawn is not None
        lower, upper = _quantiles(values, (drawn * inverse) ** power, tail)
    proba = reweight(values, (target * inverse) ** power)
    lower, upper = np.minimum(lower, proba), np.maximum(upper, proba)
    return ProbaInterval(*(like_input(predictions, part) for part in (proba, lower, upper)))


def _envelope(values: Floats, ratios: Vector) -> tuple[Floats, Floats]:
    """Adapt by either of two ratios, between which every adapted probability is monotone."""
    one, other = (reweight(values, ratio) for ratio in ratios)
    return np.minimum(one, other), np.maximum(one, other)


def _outer_pair(drawn: Vector, tail: float) -> Vector:
    """Return the outer quantiles of the priors of two classes: one number orders them."""
    return drawn[np.argsort(drawn[:, 1])[list(_ranks(drawn.shape[0], tail))]]


def _quantiles(values: Floats, ratios: Vector, tail: float) -> tuple[Floats, Floats]:
    """Adapt by every ratio and return the outer quantiles, in blocks of rows."""
    n_draws, K = ratios.shape
    low, high = ranks = _ranks(n_draws, tail)
    lower, upper = np.empty_like(values), np.empty_like(values)
    for rows in row_blocks(values.shape[0], K * n_draws, BLOCK_BYTES):
        block = values[rows].astype(np.float64)
        sums = block @ ratios.T
        lost = sums == 0  # priors that leave no class possible say nothing of the row
        adapted = block[:, :, None] * ratios.T
        adapted /= np.where(lost, 1.0, sums)[:, None, :]
        if lost.any():
            np.copyto(adapted, block[:, :, None], where=lost[:, None, :])
        adapted.partition(ranks, axis=2)
        lower[rows], upper[rows] = adapted[:, :, low], adapted[:, :, high]
    return lower, upper


def _ranks(n_draws: int, tail: float) -> tuple[int, int]:
    """Return the places of the outer quantiles among sorted draws, never too far inside."""
    low = int(tail * (n_draws - 1) + 1e-9)  # (1 - 0.9) / 2 is a little less than 0.05
    return low, n_draws - 1 - low


def _completed(prior: Any) -> Any:
    """Complete the prior of the positive class to both classes."""
    if not isinstance(prior, float | int | np.number):
        return prior
    check_fraction(float(prior), "the prior of the positive class")
    return [1 - prior, prior]


def _of_positive(interval: Any) -> Any:
    """Read a pair as the bounds of the positive class; the other's follow."""
    if interval is None or isinstance(interval, Mapping) or np.shape(interval) != (2,):
        return interval
    return [[np.nan, np.nan], interval]
