r"""Priors and confusion matrix together: both datasets say something about both.

With validation counts V (plus pseudo-counts), target counts n and a hyper-prior,

.. math:: \max_{C, p}\ \sum_d n_d \log (Cp)_d + \sum_{dk} V_{dk} \log C_{dk}
    + \sum_k (\alpha_k - 1) \log p_k

over p and the columns of C in the simplex. It is concave in p for a given C and in C for a given
p, but not in both: the result is a stationary point, the one that validation's matrix leads to.
"""

from typing import NamedTuple

import numpy as np

from priorshift._typing import Vector
from priorshift.solvers._certified import extrapolate, maximise
from priorshift.solvers._mixture import Mixture
from priorshift.solvers._solution import Solution, Status

INNER_TOL = 1e-9
"""Gap in nats of the priors for a given confusion matrix."""

STEPS_TO_LEAP = 4
"""Every so many matrices in a row, the next is guessed from them, and kept if it climbs."""

EXACT = 1e-9
"""A change of p, in L1, that rounding alone explains."""


class JointProblem(NamedTuple):
    """Validation counts V (K, K), target counts n (K,) and hyper-prior alpha (K,)."""

    V: Vector
    n: Vector
    alpha: Vector

    def priors(self, C: Vector, start: Vector) -> Solution:
        """Return the best priors for a given C, certified."""
        problem = Mixture.of(C, weights=self.n, alpha=self.alpha)
        return maximise(problem, tol=INNER_TOL, start=start)

    def confusion(self, C: Vector, p: Vector) -> Vector:
        """Take one EM step in C: share out target decisions by class, and count them too."""
        return _columns(self.V + self.attributed(C, p))

    def attributed(self, C: Vector, p: Vector) -> Vector:
        """Return the expected target decisions of each class, n_d p_k C_dk / (Cp)_d."""
        mixed = C @ p
        share = np.divide(self.n, mixed, out=np.zeros_like(mixed), where=mixed > 0)
        return share[:, None] * C * p

    def objective(self, C: Vector, p: Vector) -> float:
        """Return the log-likelihood, up to a constant; cells without counts are left out."""
        mixed, excess = C @ p, self.alpha - 1
        told = (self.n > 0) & (mixed > 0)
        value = self.n[told] @ np.log(mixed[told])
        value += self.V[self.V > 0] @ np.log(C[self.V > 0])
        return float(value + excess[excess != 0] @ np.log(p[excess != 0]))


def maximise_jointly(
    V: Vector, n: Vector, alpha: Vector, *, tol: float, max_iter: int, start: Vector
) -> tuple[Vector, Solution]:
    """Climb from the validation matrix, alternating between p and C; return C and the solution p.

    It ends when the priors are within about `tol` in L1 of where they are heading.
    """
    problem = JointProblem(V, n, alpha)
    C = _columns(V)
    p = problem.priors(C, start).value
    n_iter, last, distance = 1, np.inf, np.inf
    passed: list[Vector] = [C]
    while n_iter < max_iter and distance > tol:
        C = problem.confusion(C, p)
        new = problem.priors(C, p).value
        change = float(np.abs(new - p).sum())
        p, n_iter = new, n_iter + 1
        distance, last = _to_go(change, last), change
        passed.append(C)
        if len(passed) == STEPS_TO_LEAP and tol < distance and n_iter < max_iter:
            ahead = extrapolate(*passed[-3:])
            of_ahead = problem.priors(ahead, p).value
            if problem.objective(ahead, of_ahead) >= problem.objective(C, p):
                C, p = ahead, of_ahead
            passed, last, n_iter = [C], np.inf, n_iter + 1
    status: Status = "stationary" if distance <= tol else "not_converged"
    return C, Solution(p, status, None, n_iter, problem.objective(C, p))


def _to_go(change: float, last: float) -> float:
    """Predict how far p still moves if steps keep shrinking by the same factor.

    A single step does not tell, unless it led nowhere.
    """
    if change <= EXACT:
        return 0.0
    rate = change / last if np.isfinite(last) else 1.0
    return change * max(rate / (1 - rate), 1.0) if rate < 1 else np.inf


def _columns(counts: Vector) -> Vector:
    """Scale columns to sum 1; a column of zeros stays."""
    total = counts.sum(axis=0)
    return np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
