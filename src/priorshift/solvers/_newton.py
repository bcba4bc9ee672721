r"""Newton's method on EM's own equations: the quickest way where Newton's matrix is cheap.

EM rests where :math:`p_k z_k = e_k/T` with :math:`z = 1 - \ell/T`, for the likelihood's gradient l
and the hyper-prior's e = alpha - 1. A Newton step for these equations solves

.. math:: (H/T + \mathrm{diag}(z/p))\, dp = e/(Tp) - z.

It is the likelihood's own Newton step for classes that stay, and takes those that leave towards 0
at once. Every class is held above 0 by itself, so that those that leave do not shorten the step of
the others. Extrapolated EM steps come first: they cost little, and end where no barrier is needed.
"""

import numpy as np

from priorshift._typing import Vector
from priorshift.solvers._accelerated import held, leap
from priorshift.solvers._interior_point import SHORTEN, TINY, Curvature, Point, inside, merit
from priorshift.solvers._mixture import Mixture

SMALLEST = 1e-290
"""A smaller share counts as this where something is divided by it."""

MARGIN = 0.01
"""Where EM's steps just reach the tolerance, one of Newton's follows, which gets well within it."""

MOST_STEPS = 15
MOST_TRIES = 4
"""Two to four steps are enough, of full length; if not, an interior point is the safer way."""


def newton(problem: Mixture, start: Vector, tol: float, max_iter: int) -> tuple[Point, int]:
    """Solve for alpha >= 1 if that is easy; return the best point and the number of evaluations."""
    point, n_iter = leap(problem, inside(start), tol, max_iter)
    if not point.exact and n_iter < max_iter:
        point, n_iter = Point.at(problem, point.p, exact=True), n_iter + 1
    best, curvature = point, Curvature(problem)
    enough = MARGIN * tol
    for _ in range(MOST_STEPS):
        if n_iter >= max_iter or point.gap <= enough:
            break
        enough = tol
        before = point
        point, tries = _step(problem, curvature, point)
        n_iter += tries
        if point is before:  # no step helps
            break
        best = min(best, point, key=lambda at: at.gap)
    return best, n_iter


def _step(problem: Mixture, curvature: Curvature, point: Point) -> tuple[Point, int]:
    """Take one step, shortened until it helps; return the new point and the evaluations."""
    z = 1 - point.likelihood_gradient / problem.total
    curvature.refresh(point)
    solve = curvature.solver(np.maximum(z, TINY) / np.maximum(point.p, SMALLEST))
    step = solve(point.gradient / problem.total - 1)
    for tries in range(1, MOST_TRIES + 1):
        new = Point.at(problem, held(point.p, point.p + step), exact=True)
        if new.gap < point.gap or merit(problem, new) < merit(problem, point):
            return new, tries
        step = SHORTEN * step
    return point, MOST_TRIES
