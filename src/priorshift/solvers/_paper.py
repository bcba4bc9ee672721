r"""The paper's own optimisers, for reproduction and comparison (its supplementary A).

Projected gradient ascent on the mean objective,

.. math:: p \leftarrow \pi\big(p + \eta\, \nabla f(p) / T\big),

with the learning rate of a grid that reaches the best objective (for alpha < 1, the weight of the
rows is used as T), and plain EM. Neither has a principled stopping
rule: EM and MAP stop when two iterates differ by less than a threshold in l2, the
confusion-matrix methods after 1000 steps. The gap tells how far that is from the maximum.
"""

import numpy as np

from priorshift._typing import Vector
from priorshift.execution import Block, map_reduce
from priorshift.solvers._mixture import Mixture, RowKernel
from priorshift.solvers._simplex import project_simplex
from priorshift.solvers._solution import Solution

LEARNING_RATES = tuple(10.0**exponent for exponent in range(-6, 1))
N_STEPS = 1000
L2_THRESHOLD = 1e-3
FLOOR = 1e-8
"""Smallest p_k an ascent visits: at 0 the gradient of log p is infinite."""


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
    for _ in range(n_steps):
        new = _project(P[:, moving] + rates[moving] * _mean_gradients(problem, P[:, moving]))
        length = np.linalg.norm(new - P[:, moving], axis=0)
        P[:, moving] = new
        steps[moving] += 1
        moving[moving] = length >= threshold if threshold else length > 0
        if not moving.any():
            break
    values = [problem.objective(p, problem.evaluate(p)[0]) for p in P.T]
    best = int(np.argmax(values))
    return _honest(problem, P[:, best], tol, int(steps[best]))


def expectation_maximisation(
    problem: Mixture,
    start: Vector,
    *,
    tol: float,
    n_steps: int = N_STEPS,
    threshold: float = L2_THRESHOLD,
) -> Solution:
    """Run plain EM, p <- p g / T, until two iterates differ by less than `threshold` in l2."""
    p, steps = start, 0
    while steps < n_steps:
        _, slope = problem.evaluate(p)
        new = (p * slope + problem.excess) / problem.total
        length, p, steps = float(np.linalg.norm(new - p)), new, steps + 1
        if length < threshold:
            break
    return _honest(problem, p, tol, steps)


def _project(P: Vector) -> Vector:
    """Project columns onto the simplex whose entries are at least FLOOR."""
    room = 1 - P.shape[0] * FLOOR
    return FLOOR + room * project_simplex((P - FLOOR) / room)


def _mean_gradients(problem: Mixture, P: Vector) -> Vector:
    """Return the gradient of f/T at every column of P."""
    scale = problem.scale[:, None]
    kernel = _Slopes(scale * P, problem.weights, problem.hidden)
    slopes = scale * map_reduce(kernel, problem.A, work=problem.A.size * P.shape[1])
    # alpha < 1 may outweigh the rows, and the sign of the objective must not change
    total = max(problem.total, problem.total - float(problem.excess.sum()))
    return (slopes + problem.excess[:, None] / P) / total


class _Slopes(RowKernel):
    """Return the gradient of the likelihood of a block at every column of the scaled P."""

    def __call__(self, block: Block, rows: slice) -> Vector:
        w, U = self.likelihoods(block, rows)
        slopes = (1.0 if w is None else w) / U
        return (block.T @ slopes.astype(block.dtype, copy=False)).astype(np.float64)


def _honest(problem: Mixture, p: Vector, tol: float, n_iter: int) -> Solution:
    """Certify, in float64, the point that a heuristic ended at."""
    likelihood, slope = problem.evaluate(p)
    objective = problem.objective(p, likelihood)
    if (problem.excess < 0).any():
        return Solution(p, "not_converged", None, n_iter, objective)
    gap = problem.gap(problem.gradient(p, slope))
    return Solution.judged(p, gap, tol, n_iter, objective)
