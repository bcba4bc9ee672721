r"""The paper's own optimisers, for reproduction and comparison: its text, and its released code.

The text (supplementary A) has projected gradient ascent on the mean objective,

.. math:: p \leftarrow \pi\big(p + \eta\, \nabla f(p) / T\big),

with the learning rate of a grid that reaches the best objective (for alpha < 1, the weight of the
rows is used as T), and plain EM. Neither has a principled stopping rule: EM and MAP stop when two
iterates differ by less than a threshold in l2, the confusion-matrix methods after 1000 steps.

The code that the authors released has one learning rate for all data sets. It divides by the weight
n of all rows, and halves the rate every 50 steps where there is no hyper-prior:

.. math:: p \leftarrow \pi\big(p + \eta_i\, \nabla f(p) / n\big), \qquad
    \eta_i = \eta\, 2^{-\lfloor i / 50 \rfloor}.

It ends near its start, the source priors. The gap tells how far an answer is from the maximum. It
calibrates (BCTS) by PyTorch's L-BFGS, which `released_lbfgs` ports.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from priorshift._typing import Floats, Vector
from priorshift.border import Block, map_reduce
from priorshift.solvers._linear import project_simplex
from priorshift.solvers._mixture import Mix, Mixture
from priorshift.solvers._solution import Solution

LEARNING_RATES = tuple(10.0**exponent for exponent in range(-6, 1))
N_STEPS = 1000
L2_THRESHOLD = 1e-3
FLOOR = 1e-8
"""Smallest p_k an ascent visits: at 0 the gradient of log p is infinite."""

HALVED_EVERY = 50
"""Steps after which the released code halves its learning rate."""


def gradient_ascent(
    problem: Mixture,
    start: Vector,
    *,
    tol: float,
    n_steps: int = N_STEPS,
    threshold: float = 0.0,
    learning_rates: tuple[float, ...] = LEARNING_RATES,
) -> Solution:
    """Ascend with every learning rate at once, one per column, and keep the best result.

    A column stops when its step is shorter than `threshold` in l2.
    """
    rates = np.asarray(learning_rates)
    P = np.repeat(_project(start[:, None]), rates.size, axis=1)
    moving, steps = np.ones(rates.size, bool), np.zeros(rates.size, int)
    # alpha < 1 may outweigh the rows, and the sign of the objective must not change
    total = max(problem.total, problem.total - float(problem.excess.sum()))
    for _ in range(n_steps):
        gradient = _slopes(problem, P[:, moving]) + problem.excess[:, None] / P[:, moving]
        new = _project(P[:, moving] + rates[moving] * (gradient / total))
        length = np.linalg.norm(new - P[:, moving], axis=0)
        P[:, moving] = new
        steps[moving] += 1
        moving[moving] = length >= threshold if threshold else length > 0
        if not moving.any():
            break
    best = int(np.argmax([problem.at(p).objective for p in P.T]))
    return _honest(problem, P[:, best], tol, int(steps[best]))


def expectation_maximisation(
    problem: Mixture,
    start: Vector,
    *,
    tol: float,
    n_steps: int = N_STEPS,
    lagged: bool = False,
) -> Solution:
    """Run plain EM, p <- p g / T, until two iterates differ by less than 0.001 in l2.

    The released code adapts predictions with the iterate before the last: `lagged`.
    """
    p, steps = start, 0
    while steps < n_steps:
        _, slope = problem.evaluate(p)
        before, p, steps = p, (p * slope + problem.excess) / problem.total, steps + 1
        if np.linalg.norm(p - before) < L2_THRESHOLD:
            break
    return _honest(problem, p, tol, steps, adapts_to=before if lagged else None)


def released_ascent(
    problem: Mixture,
    start: Vector,
    *,
    tol: float,
    learning_rate: float,
    of_sum: bool = False,
    n_steps: int = N_STEPS,
    halved_every: int | None = None,
    threshold: float = 0.0,
    floor: float = 0.0,
) -> Solution:
    """Ascend the mean objective f/n as the released code does, from the source priors.

    Parameters
    ----------
    problem : Mixture
    start : ndarray of shape (K,)
    tol : float
        Gap up to which the result counts as certified.
    learning_rate : float
        Of the gradient of f/n, n being the weight of all rows.
    of_sum : bool, default=False
        Whether the learning rate is meant for the gradient of f itself, as MAP's is.
    n_steps : int, default=1000
    halved_every : int, optional
        Halve the learning rate after so many steps, again and again.
    threshold : float, default=0
        Stop when a step is shorter than this in l2. Predictions are then adapted with the iterate
        before the last.
    floor : float, default=0
        What p counts as, at least, in the gradient of log p. Without a floor that gradient is
        infinite at p = 0, where the released code fails; here the last iterate above 0 is returned.
    """
    p, steps, lagged = start / start.sum(), 0, None
    if of_sum:
        learning_rate *= problem.mass
    while steps < n_steps:
        rate = learning_rate / 2 ** (0 if halved_every is None else steps // halved_every)
        slope = _slopes(problem, p[:, None])[:, 0]  # decisions that p makes impossible have none
        if problem.penalised:
            slope = slope + problem.excess / np.maximum(p, floor)
        new = project_simplex(p + rate * (slope / problem.mass))
        if not floor and new[problem.excess != 0].min(initial=1.0) <= 0:
            break
        before, p, steps = p, new, steps + 1
        if np.linalg.norm(p - before) < threshold:
            lagged = before
            break
    return _honest(problem, p, tol, steps, adapts_to=lagged)


def _project(P: Vector) -> Vector:
    """Project columns onto the simplex whose entries are at least FLOOR."""
    room = 1 - P.shape[0] * FLOOR
    return FLOOR + room * project_simplex((P - FLOOR) / room)


def _slopes(problem: Mixture, P: Vector) -> Vector:
    """Return the gradient of the likelihood at every column of P."""
    kernel, work = partial(_slopes_of_block, problem.mix(P)), problem.A.size * P.shape[1]
    return problem.scale[:, None] * map_reduce(kernel, problem.A, work=work)


def _slopes_of_block(mix: Mix, block: Block, rows: slice) -> Vector:
    """Return the gradient of the likelihood of a block at every column of the scaled P."""
    w, U = mix(block, rows)
    slopes = np.divide(1.0 if w is None else w, U, out=np.zeros_like(U), where=U > 0)
    return (block.T @ slopes.astype(block.dtype, copy=False)).astype(np.float64)


def _honest(
    problem: Mixture, p: Vector, tol: float, n_iter: int, *, adapts_to: Vector | None = None
) -> Solution:
    """Certify, in float64, the point that a heuristic ended at."""
    point = problem.at(p)
    objective = point.objective if np.isfinite(point.objective) else None  # impossible data
    gap = np.inf if (problem.excess < 0).any() else point.gap
    return replace(Solution.judged(p, gap, tol, n_iter, objective), adapts_to=adapts_to)


# Calibration in the released code

LBFGS_STEPS, LBFGS_RATE = 100, np.float32(1e-4)
"""Steps of the released code, and their length: it has no line search."""

GRADIENT_TOLERANCE, CHANGE_TOLERANCE, LEAST_CURVATURE = 1e-7, 1e-9, 1e-10
"""PyTorch's defaults: when to stop, and which steps are worth remembering."""


def released_lbfgs(
    evaluate: Callable[[Floats], tuple[Any, Floats]], theta: Floats, n_steps: int
) -> tuple[Floats, int]:
    """Run PyTorch's L-BFGS as the released code does: float32, a fixed rate, no line search.

    `evaluate` returns a value and its gradient. Gradients add up over all steps, because nothing
    sets them to zero. Returns the last point and the steps taken.
    """
    (value, summed), taken = evaluate(theta), 0
    before = step = summed
    memory: list[tuple[Floats, Floats, Any]] = []  # of steps: all of them, as they are at most 100
    scale: Any = np.float32(1.0)
    while taken < n_steps and np.abs(summed).max() > GRADIENT_TOLERANCE:
        change = summed - before
        curvature = change @ step if taken else 0.0
        if curvature > LEAST_CURVATURE:
            memory.append((step, change, np.float32(1.0) / curvature))
            scale = curvature / (change @ change)
        # minus the inverse Hessian times the gradient, by two loops over the memory
        direction, along = -summed, []
        for past, fall, inverse in reversed(memory):
            along.append(inverse * (past @ direction))
            direction = direction - along[-1] * fall
        direction = scale * direction
        for past, fall, inverse in memory:
            direction = direction + (along.pop() - inverse * (fall @ direction)) * past
        before = summed
        if summed @ direction > -CHANGE_TOLERANCE:
            break
        rate = LBFGS_RATE if taken else LBFGS_RATE * np.minimum(1, 1 / np.abs(summed).sum())
        step = np.float32(rate) * direction
        theta = theta + step
        taken += 1
        if taken == n_steps or np.abs(step).max() <= CHANGE_TOLERANCE:
            break
        last, (value, gradient) = value, evaluate(theta)
        summed = summed + gradient
        if abs(value - last) < CHANGE_TOLERANCE:
            break
    return theta, taken


Published = Callable[..., Solution]
"""A solver as published: takes a problem, a start, `tol` and `n_steps`."""

PUBLISHED: Mapping[str, Mapping[str, Published]] = {
    "em": {
        "paper": expectation_maximisation,
        "released": partial(expectation_maximisation, lagged=True),
        "gradient": partial(gradient_ascent, threshold=L2_THRESHOLD),
    },
    "map": {
        "paper": partial(gradient_ascent, threshold=L2_THRESHOLD),
        "released": partial(
            released_ascent, learning_rate=5e-8, of_sum=True, threshold=1e-5, floor=FLOOR
        ),
    },
    "cm-l": {
        "paper": gradient_ascent,
        "released": partial(released_ascent, learning_rate=1e-4, halved_every=HALVED_EVERY),
    },
    "scm-l": {
        "paper": gradient_ascent,
        "released": partial(released_ascent, learning_rate=1e-3, halved_every=HALVED_EVERY),
    },
    "cm-m": {
        "paper": gradient_ascent,
        "released": partial(released_ascent, learning_rate=1e-3),
    },
}
"""What `solver=` may be besides "certified", for each method of the paper."""
