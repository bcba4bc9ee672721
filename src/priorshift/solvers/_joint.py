r"""Priors and confusion matrix together: both datasets say something about both.

With validation counts V (plus pseudo-counts), target counts n and a hyper-prior,

.. math:: \max_{C, p}\ \sum_d n_d \log (Cp)_d + \sum_{dk} V_{dk} \log C_{dk}
    + \sum_k (\alpha_k - 1) \log p_k

over p and the columns of C in the simplex. It is concave in p for a given C and in C for a given
p, but not in both: the result is a stationary point, the one that validation's matrix leads to.
"""

import numpy as np

from priorshift._typing import Vector
from priorshift.solvers._maximise import extrapolate, maximise
from priorshift.solvers._mixture import Mixture
from priorshift.solvers._solution import Solution, Status

EXACT = 1e-9
"""A change of p, in L1, that rounding alone explains."""


def maximise_jointly(
    V: Vector, n: Vector, alpha: Vector, *, tol: float, max_iter: int, start: Vector
) -> tuple[Vector, Solution]:
    """Climb from the validation matrix, alternating between p and C; return C and the solution p.

    It ends when the priors are within about `tol` in L1 of where they are heading.
    """

    def best_priors(C: Vector, start: Vector) -> Vector:
        problem = Mixture(C, weights=n, alpha=alpha)
        return maximise(problem, tol=1e-9, start=start).value

    def objective(C: Vector, p: Vector) -> float:  # cells without counts are left out
        mixed, excess = C @ p, alpha - 1
        told = (n > 0) & (mixed > 0)
        value = n[told] @ np.log(mixed[told])
        value += V[V > 0] @ np.log(C[V > 0])
        return float(value + excess[excess != 0] @ np.log(p[excess != 0]))

    C = _columns(V)
    p = best_priors(C, start)
    n_iter, last, distance = 1, np.inf, np.inf
    passed: list[Vector] = [C]
    while n_iter < max_iter and distance > tol:
        # an EM step in C: share out target decisions by class, and count them too
        mixed = C @ p
        share = np.divide(n, mixed, out=np.zeros_like(mixed), where=mixed > 0)
        C = _columns(V + share[:, None] * C * p)
        new = best_priors(C, p)
        change = float(np.abs(new - p).sum())
        p, n_iter = new, n_iter + 1
        # how far p still moves if steps keep shrinking by the same factor; a single step does not
        # tell, unless it led nowhere
        rate = change / last if np.isfinite(last) else 1.0
        distance = change * max(rate / (1 - rate), 1.0) if rate < 1 else np.inf
        distance, last = 0.0 if change <= EXACT else distance, change
        passed.append(C)
        # after three steps in a row the next matrix is guessed from them, and kept if it climbs
        if len(passed) == 4 and tol < distance and n_iter < max_iter:
            ahead = extrapolate(*passed[-3:])
            of_ahead = best_priors(ahead, p)
            if objective(ahead, of_ahead) >= objective(C, p):
                C, p = ahead, of_ahead
            passed, last, n_iter = [C], np.inf, n_iter + 1
    status: Status = "stationary" if distance <= tol else "not_converged"
    return C, Solution(p, status, None, n_iter, objective(C, p))


def _columns(counts: Vector) -> Vector:
    """Scale columns to sum 1; a column of zeros stays."""
    total = counts.sum(axis=0)
    return np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
