"""Intervals of priors: reading them, and drawing vectors of priors that have them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import ndtri

from priorshift._typing import Labels, Vector
from priorshift._validation import as_array, some
from priorshift.resampling import RandomState

SLACK = 1e-3
"""How far rounded bounds may be from what they should be."""

MOST_EXCESS = 2.0
"""A prior may not vary by more than this multiple of all the others together."""

NEGLIGIBLE = 1e-6
"""A prior that varies by less, beside the one that varies most, does not vary."""

LEAST_QUANTILE = 1e-6
"""Of a confidence level of about 0, by which widths are divided."""

MOST_STEPS = 1000
ENOUGH = 1e-6
"""Relative change of a variance below which it is settled."""


def read_interval(interval: Any, priors: Vector, names: Labels) -> Vector:
    """Read bounds as (K, 2) in class order; NaN for a class that has none of its own."""
    if isinstance(interval, Mapping):
        interval = _from_mapping(interval, names)
    bounds = as_array(interval, "interval")
    if bounds.dtype.kind not in "fiu" or bounds.shape != (names.size, 2):
        raise ValueError(
            f"interval must have shape ({names.size}, 2), a lower and an upper bound for each "
            f"class, or be a mapping from class to both; got shape {bounds.shape} and type "
            f"{bounds.dtype}."
        )
    bounds = bounds.astype(np.float64)
    bounds[np.isnan(bounds).any(axis=1)] = np.nan
    if np.isnan(bounds).all():
        raise ValueError("interval gives no class any bounds; give at least one class its own.")
    _require_around(bounds, priors, names)
    return _complementary(bounds, names) if names.size == 2 else bounds


def end_priors(priors: Vector, bounds: Vector) -> Vector | None:
    """Return the two extreme vectors of priors where one number decides all; else None."""
    bounded = np.flatnonzero(~np.isnan(bounds[:, 0]))
    if priors.size > 2 and bounded.size > 1:
        return None
    k = bounded[-1]
    others = np.where(np.arange(priors.size) == k, 0.0, priors)
    if not others.any():
        others = (np.arange(priors.size) != k).astype(np.float64)
    ends = (1 - bounds[k])[:, None] * (others / others.sum())
    ends[:, k] = bounds[k]
    return ends


def draw_priors(
    priors: Vector,
    bounds: Vector,
    tail: float,
    n_draws: int,
    random_state: RandomState,
    names: Labels,
) -> Vector:
    r"""Draw vectors of priors whose marginal quantiles are about the bounds.

    Each prior is drawn on its own, normal with one scale below its value and another above. Where
    all classes have bounds, the vectors are then divided by their sums, which turns independent
    variances :math:`v_k` into

    .. math:: \sigma_k^2 \approx (1 - 2 p_k)\, v_k + p_k^2 \textstyle\sum_j v_j,

    so the draws use the :math:`v` that gives the variances asked for. (For a Dirichlet distribution
    of concentration c it is :math:`v_k = p_k / c`.) Else the classes without bounds share the rest.
    """
    free, z = np.isnan(bounds[:, 0]), max(float(-ndtri(tail)), LEAST_QUANTILE)
    below = np.where(free, 0.0, priors - bounds[:, 0]) / z
    above = np.where(free, 0.0, bounds[:, 1] - priors) / z
    noise = np.random.default_rng(random_state).standard_normal((n_draws, priors.size))
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
    excess = scale - MOST_EXCESS * (scale.sum() - scale)
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
    variance = relative[uncertain] ** 2
    stretch[uncertain] = np.sqrt(_independent_variances(priors[uncertain], variance) / variance)
    return stretch


def _independent_variances(p: Vector, variance: Vector) -> Vector:
    """Solve M v = variance for v >= 0, as nearly as can be, by Richardson and Lucy's iteration.

    M is the matrix of `draw_priors`: none of its entries is negative, so no step leaves v >= 0.
    """
    v = variance.copy()
    wanted = _dot_transposed(p, 1 / variance)
    moves = wanted > 0
    for _ in range(MOST_STEPS):
        reached = np.maximum((1 - 2 * p) * v + p**2 * v.sum(), NEGLIGIBLE**2)
        # a prior of 1 vanishes by division: nothing wants it to vary, nothing minds
        step = np.divide(_dot_transposed(p, 1 / reached), wanted, out=np.ones_like(v), where=moves)
        v *= step
        if np.abs(step - 1).max() < ENOUGH:
            break
    return v


def _dot_transposed(p: Vector, u: Vector) -> Vector:
    """Return M'u without making M."""
    return np.maximum((1 - 2 * p) * u + p**2 @ u, 0.0)


def _from_mapping(interval: Mapping[Any, Any], names: Labels) -> list[Any]:
    by_name = {str(label): bounds for label, bounds in interval.items()}
    wanted = [str(label) for label in names.tolist()]
    unknown = [label for label in interval if str(label) not in wanted]
    if unknown:
        raise ValueError(
            f"interval names class {some(unknown)}, but the classes are {some(names.tolist())}; "
            "use these names."
        )
    return [by_name.get(label, (np.nan, np.nan)) for label in wanted]


def _require_around(bounds: Vector, priors: Vector, names: Labels) -> None:
    """Refuse bounds that are no bounds, or not around their prior; NaN compares as fine."""
    lower, upper = bounds.T
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


def _complementary(bounds: Vector, names: Labels) -> Vector:
    """Complete the bounds of one class to both, or check that both say the same."""
    mirrored = 1 - bounds[::-1, ::-1]
    if np.isnan(bounds).any():
        return np.where(np.isnan(bounds), mirrored, bounds)
    if np.abs(bounds - mirrored).max() > SLACK:
        raise ValueError(
            f"of two classes, the bounds of one follow from the other's, but {names[0].item()!r} "
            f"has {bounds[0].tolist()} and {names[1].item()!r} has {bounds[1].tolist()}; give one."
        )
    return bounds
