r"""Adapt predictions to target priors that are known only within bounds.

If a prevalence is 20 % (18-22 %), the adapted probabilities have bounds too. If only one prior is
uncertain and the others share the rest, every adapted probability rises or falls with it. Applying
Bayes' rule to the bounds of the prior then gives exact bounds. Otherwise, many vectors of priors
are drawn, the predictions are adapted to each, and the bounds are quantiles:

.. math:: \text{adapted}^{(b)}_k = \frac{f_k\, p^{(b)}_k / s_k}{\sum_j f_j\, p^{(b)}_j / s_j}.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from priorshift._typing import Floats, Labels, Vector, are_numbers
from priorshift.adapt._adapt import RandomState, classes_named, prior_ratio, reweight
from priorshift.border import (
    as_array,
    as_generator,
    check_level,
    check_number,
    check_priors,
    check_proba,
    check_source_mass,
    like_input,
    ordered,
    row_blocks,
    settle_classes,
    some,
)

BLOCK_BYTES = 2**24
"""Float64 bytes of the adapted probabilities that are held at once."""

N_DRAWS = 1000
"""Vectors of priors that are drawn for intervals of several classes."""

SLACK = 1e-3
"""How far rounded bounds may be from their exact values."""


NEGLIGIBLE = 1e-6
"""A prior that varies by less than this share of the largest variation counts as fixed."""


class ProbaInterval(NamedTuple):
    """Hold adapted probabilities and their bounds, in the order `proba, lower, upper`.

    Attributes
    ----------
    proba : ndarray of shape (n_samples, n_classes) or (n_samples,)
        Probabilities adapted to the given target priors.
    lower, upper : ndarrays of the shape of `proba`
        Their bounds, given the bounds of the target priors.
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
    random_state: RandomState = 0,
) -> ProbaInterval:
    """Adapt predicted probabilities to uncertain target priors, with bounds.

    The bounds cover only the uncertainty of the priors, not that of the classifier. They hold for
    each sample separately. They are exact for two classes, and for an `interval` of a single class.

    Several intervals do not determine how the priors vary together. In that case, each prior is
    drawn from a normal distribution on either side of its value, so that the vectors sum to 1 and
    every prior has approximately its interval. With `draws`, no such assumption is needed.

    Parameters
    ----------
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. If 1-D, the probability of the second, positive class.
    source_priors : array-like of shape (n_classes,), mapping from class to prior, or float
        Class priors the classifier was trained with. With 1-D `y_proba`, a single number is the
        prior of the positive class; the same holds for `target_priors`.
    target_priors : array-like of shape (n_classes,), mapping from class to prior, or float
        Class priors to adapt to; by default the mean of `draws`.
    interval : array-like of shape (n_classes, 2), mapping from class to (lower, upper), or a pair
        Bounds of each target prior; a pair with 1-D `y_proba`. Classes that are missing from a
        mapping, or whose row is NaN, share the remainder in proportion to `target_priors`.
    draws : array-like of shape (n_draws, n_classes) or (n_draws,)
        Draws of the target priors, for example from a posterior distribution or a bootstrap. Pass
        either `draws` or `interval`.
    confidence_level : float in (0, 1), default=0.95
        Level of the given `interval`, and of the bounds returned.
    strength : float in [0, 1], default=1
        Exponent of the ratio, as in `adapt_proba`.
    classes : array-like of shape (n_classes,), optional
        Class names in the order of the columns.
    random_state : None, int or numpy.random.Generator, default=0

    Returns
    -------
    ProbaInterval
        Probabilities, lower and upper bounds, each of the shape of `y_proba`.

    Examples
    --------
    A test was trained on balanced classes. The population has 20 % (18-22 %) positives:

    >>> import numpy as np
    >>> import priorshift as ps
    >>> proba, lower, upper = ps.adapt_proba_interval(
    ...     np.array([0.5, 0.9]), 0.5, 0.2, interval=(0.18, 0.22)
    ... )
    >>> np.column_stack([proba, lower, upper]).round(3)
    array([[0.2  , 0.18 , 0.22 ],
           [0.692, 0.664, 0.717]])
    """
    if (interval is None) == (draws is None):
        raise ValueError(
            "pass either interval= or draws=, the bounds or the draws of the target priors."
        )
    tail = (1 - check_level(confidence_level, "confidence_level")) / 2
    power = check_number(strength, "strength", 1)
    predictions = check_proba(y_proba, classes=classes_named(classes, target_priors, source_priors))
    names = settle_classes(predictions, classes=classes)
    values = ordered(predictions, names).values
    pair = interval is not None and not isinstance(interval, Mapping)
    if predictions.binary and pair and np.shape(interval) == (2,):
        interval = [[np.nan, np.nan], interval]  # of the positive class; the other's follow
    source = check_priors(source_priors, names, "source_priors")
    check_source_mass(source, values, names)
    if draws is not None:
        drawn = ordered(check_proba(draws, "draws"), names, "draws").values.astype(np.float64)
        target_priors = drawn.mean(axis=0) if target_priors is None else target_priors
    target = check_priors(target_priors, names, "target_priors")
    ends, inverse = None, prior_ratio(np.ones(names.size), source)
    if draws is None:
        bounds = _read_interval(interval, target, names)
        bounded = np.flatnonzero(~np.isnan(bounds[:, 0]))
        if names.size == 2 or bounded.size == 1:  # one number determines all
            k = bounded[-1]
            others = np.where(np.arange(names.size) == k, 0.0, target)
            if not others.any():
                others = (np.arange(names.size) != k).astype(np.float64)
            ends = (1 - bounds[k])[:, None] * (others / others.sum())
            ends[:, k] = bounds[k]
        else:
            drawn = _draw_priors(target, bounds, tail, random_state, names)
    elif names.size == 2:  # which one number orders
        ends = drawn[np.argsort(drawn[:, 1])[list(_ranks(drawn.shape[0], tail))]]
    if ends is not None:
        # every adapted probability is monotone between the two
        one, other = (reweight(values, ratio) for ratio in (ends * inverse) ** power)
        lower, upper = np.minimum(one, other), np.maximum(one, other)
    else:
        lower, upper = _quantiles(values, (drawn * inverse) ** power, tail)
    proba = reweight(values, (target * inverse) ** power)
    lower, upper = np.minimum(lower, proba), np.maximum(upper, proba)
    return ProbaInterval(*(like_input(predictions, part, names) for part in (proba, lower, upper)))


def _quantiles(values: Floats, ratios: Vector, tail: float) -> tuple[Floats, Floats]:
    """Adapt by every ratio and return the outer quantiles, in blocks of rows."""
    n_draws, K = ratios.shape
    low, high = ranks = _ranks(n_draws, tail)
    lower, upper = np.empty_like(values), np.empty_like(values)
    for rows in row_blocks(values.shape[0], K * n_draws, BLOCK_BYTES):
        block = values[rows].astype(np.float64)
        sums = block @ ratios.T
        lost = sums == 0  # draws that leave no class possible say nothing about the row
        adapted = block[:, :, None] * ratios.T
        adapted /= np.where(lost, 1.0, sums)[:, None, :]
        if lost.any():
            np.copyto(adapted, block[:, :, None], where=lost[:, None, :])
        adapted.partition(ranks, axis=2)
        lower[rows], upper[rows] = adapted[:, :, low], adapted[:, :, high]
    return lower, upper


def _ranks(n_draws: int, tail: float) -> tuple[int, int]:
    """Return the positions of the outer quantiles among sorted draws, never too far inside."""
    low = int(tail * (n_draws - 1) + 1e-9)  # (1 - 0.9) / 2 is a little less than 0.05
    return low, n_draws - 1 - low


def _read_interval(interval: Any, priors: Vector, names: Labels) -> Vector:
    """Read bounds as (K, 2) in class order; NaN for a class without bounds."""
    if isinstance(interval, Mapping):
        by_name = {str(label): bounds for label, bounds in interval.items()}
        wanted = [str(label) for label in names.tolist()]
        if unknown := [label for label in interval if str(label) not in wanted]:
            raise ValueError(
                f"interval names class {some(unknown)}, but the classes are "
                f"{some(names.tolist())}; use these names."
            )
        interval = [by_name.get(label, (np.nan, np.nan)) for label in wanted]
    bounds = as_array(interval, "interval")
    if not are_numbers(bounds.dtype) or bounds.shape != (names.size, 2):
        raise ValueError(
            f"interval must have shape ({names.size}, 2), a lower and an upper bound for each "
            f"class, or be a mapping from class to both; got shape {bounds.shape} and type "
            f"{bounds.dtype}."
        )
    bounds = bounds.astype(np.float64)
    bounds[np.isnan(bounds).any(axis=1)] = np.nan
    if np.isnan(bounds).all():
        raise ValueError("interval gives no class any bounds; give at least one class its own.")
    lower, upper = bounds.T  # where they are NaN, every comparison is false
    faults = {
        "is not in [0, 1]": (lower < 0) | (upper > 1),
        "has a lower bound above the upper one": lower > upper,
        "does not hold its target prior": (lower > priors + SLACK) | (upper < priors - SLACK),
    }
    for fault, where in faults.items():
        if where.any():
            k = int(np.argmax(where))
            raise ValueError(
                f"interval of class {names[k].item()!r} {fault}: {lower[k]:.6g} to {upper[k]:.6g}, "
                f"prior {priors[k]:.6g}. Give bounds with 0 <= lower <= prior <= upper <= 1."
            )
    np.minimum(lower, priors, out=lower, where=~np.isnan(lower))
    np.maximum(upper, priors, out=upper, where=~np.isnan(upper))
    if names.size != 2:
        return bounds
    mirrored = 1 - bounds[::-1, ::-1]  # of two classes, the bounds of one follow from the other's
    if np.isnan(bounds).any():
        return np.where(np.isnan(bounds), mirrored, bounds)
    if np.abs(bounds - mirrored).max() > SLACK:
        raise ValueError(
            f"of two classes, the bounds of one follow from the other's, but {names[0].item()!r} "
            f"has {bounds[0].tolist()} and {names[1].item()!r} has {bounds[1].tolist()}; give one."
        )
    return bounds


def _draw_priors(
    priors: Vector,
    bounds: Vector,
    tail: float,
    random_state: RandomState,
    names: Labels,
) -> Vector:
    r"""Draw vectors of priors whose marginal quantiles are about the bounds.

    Each prior is drawn on its own, normal with one scale below its value and another above. Where
    all classes have bounds, the vectors are then divided by their sums, which turns independent
    variances :math:`v_k` into

    .. math:: \sigma_k^2 \approx (1 - 2 p_k)\, v_k + p_k^2 \textstyle\sum_j v_j,

    so the draws use the :math:`v` that gives the requested variances. (For a Dirichlet distribution
    of concentration c it is :math:`v_k = p_k / c`.) Otherwise the classes without bounds share the
    rest.
    """
    free, z = np.isnan(bounds[:, 0]), float(-ndtri(tail))
    below = np.where(free, 0.0, priors - bounds[:, 0]) / z
    above = np.where(free, 0.0, bounds[:, 1] - priors) / z
    noise = as_generator(random_state).standard_normal((N_DRAWS, priors.size))
    if not free.any():
        noise *= _stretch(priors, (below + above) / 2, names)
    drawn = np.maximum(priors + noise * np.where(noise < 0, below, above), 0.0)
    if priors[free].sum() > 0:
        rest = np.maximum(1 - drawn[:, ~free].sum(axis=1), 0.0)
        drawn[:, free] = rest[:, None] * (priors[free] / priors[free].sum())
    sums = drawn.sum(axis=1, keepdims=True)
    return np.where(sums > 0, drawn / np.where(sums > 0, sums, 1.0), priors)


def _stretch(priors: Vector, scale: Vector, names: Labels) -> Vector:
    """Return how much wider to draw each prior, so that division by the sum leaves its scale."""
    # a prior may not vary by more than twice what all the others do together
    excess = scale - 2.0 * (scale.sum() - scale)
    if excess.max() > SLACK:
        k = int(np.argmax(excess))
        raise ValueError(
            f"interval lets class {names[k].item()!r} vary by more than all the others can make "
            "up for, though priors sum to 1; leave out the others, which then share the rest, "
            "or widen them, or pass draws=."
        )
    stretch = np.ones_like(scale)
    if not scale.any():
        return stretch
    relative = scale / scale.max()
    uncertain = relative > NEGLIGIBLE
    variance, p = relative[uncertain] ** 2, priors[uncertain]
    # solve M v = variance for v >= 0 as closely as possible, by Richardson and Lucy's iteration: M,
    # the matrix of `_draw_priors`, has no negative entry, so every step keeps v >= 0

    def transposed(u: Vector) -> Vector:  # M'u without making M
        return np.maximum((1 - 2 * p) * u + p**2 @ u, 0.0)

    v, wanted = variance.copy(), transposed(1 / variance)
    for _ in range(1000):
        reached = np.maximum((1 - 2 * p) * v + p**2 * v.sum(), NEGLIGIBLE**2)
        # division by the sum leaves a prior of 1 as it is, however much it varies
        step = np.divide(transposed(1 / reached), wanted, out=np.ones_like(v), where=wanted > 0)
        v *= step
        if np.abs(step - 1).max() < 1e-6:
            break
    stretch[uncertain] = np.sqrt(v / variance)
    return stretch
