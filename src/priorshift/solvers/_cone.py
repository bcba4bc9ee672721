r"""Least squares whose solution must be a ratio of priors.

Written for the ratio :math:`w = 1 + \theta`, the regularised problem of Azizzadenesheli et al.
(2019) is the second-order cone programme

.. math:: \min_{w \ge 0}\ F(w) = \|Jw - q\|_2 + c\,\|w - 1\|_2.

Its solution also solves the quadratic programme :math:`\min_{w \ge 0} \|Jw - q\|^2 + \kappa \|w -
1\|^2` for the one :math:`\kappa` that equals :math:`c\,\|Jw - q\| / \|w - 1\|` there, which a root
search finds. The quadratic programme's multipliers are a dual point of F, hence its duality gap.
"""

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from priorshift._typing import Vector
from priorshift.execution import single_threaded_blas
from priorshift.solvers._interior_point import factorise, reach
from priorshift.solvers._linear import solve_linear
from priorshift.solvers._solution import Solution

QP_STEPS = 80
QP_ACCURACY = 1e-15
SMALLEST_RIDGE = 1e-11
LARGEST_RIDGE = 1e12
LENGTH_WEIGHT = 1e-6
FREE = 1e-7
"""Entries of a ratio above this are not held at 0 by the constraint."""


def regularised_ratio(J: Vector, q: Vector, penalty: float, *, tol: float) -> Solution:
    """Solve the cone programme; `value` is the ratio w, `gap` the duality gap of F.

    Examples
    --------
    >>> import numpy as np
    >>> J = np.array([[0.4, 0.1], [0.1, 0.4]])
    >>> solution = regularised_ratio(J, np.array([1.0, 0.0]), 0.1, tol=1e-9)
    >>> solution.value.round(3), solution.status
    (array([2.24, 0.  ]), 'certified')
    """
    with single_threaded_blas():
        w, kappa, n_steps = _balance_norms(J, q, penalty)
    objective = _objective(J, q, penalty, w)
    gap = objective - _dual_bound(J, q, penalty, w, kappa)
    return Solution.judged(w, gap, tol, n_steps, objective)


def simplex_least_squares(C: Vector, q: Vector, *, tol: float) -> Solution:
    r"""Solve :math:`\min_{p \in \Delta} \tfrac12 \|Cp - q\|^2`.

    For C = J diag(1/p_T) it is min ||Jw - q|| over ratios: w >= 0 and p_T . w = 1.

    Examples
    --------
    >>> import numpy as np
    >>> C = np.array([[0.8, 0.2], [0.2, 0.8]])
    >>> simplex_least_squares(C, np.array([1.0, 0.0]), tol=1e-9).value.round(9)
    array([1., 0.])
    """
    ones = np.ones(C.shape[1])
    with single_threaded_blas():
        p, n_steps = quadratic_programme(C.T @ C, C.T @ q, total=ones)
    p /= p.sum()
    slope = C.T @ (C @ p - q)
    gap = float(slope @ p - slope.min())
    return Solution.judged(p, gap, tol, n_steps, 0.5 * float(np.sum((C @ p - q) ** 2)))


def quadratic_programme(G: Vector, h: Vector, total: Vector | None = None) -> tuple[Vector, int]:
    r"""Minimise :math:`\tfrac12 x^T G x - h^T x` for x >= 0 and, if given, total . x = 1.

    A primal-dual interior point with Mehrotra's corrector. Returns x and the number of steps.
    """
    K, size = h.size, float(np.abs(h).max() + np.abs(np.diagonal(G)).max())
    x, z, multiplier = np.ones(K), np.full(K, size), 0.0
    if total is not None:
        x /= total.sum()
    for step in range(QP_STEPS):
        pull = h - G @ x + (0.0 if total is None else multiplier * total)
        if max(float(x @ z) / K, float(np.abs(pull + z).max())) <= QP_ACCURACY * size:
            return x, step
        newton = _bordered(factorise(G, z / x), total, x)
        dx, _ = newton(pull)
        dz = -z - z / x * dx
        mu = float(x @ z) / K
        ahead = (x + reach(x, dx, 1.0) * dx) @ (z + reach(z, dz, 1.0) * dz) / K
        push = ((ahead / mu) ** 3 * mu - dx * dz) / x
        dx, change = newton(pull + push)
        dz = push - z - z / x * dx
        length = float(min(reach(x, dx)[0], reach(z, dz)[0]))
        x, z, multiplier = x + length * dx, z + length * dz, multiplier + length * change
    return x, QP_STEPS


def _bordered(
    solve: Callable[[Vector], Vector], total: Vector | None, x: Vector
) -> Callable[[Vector], tuple[Vector, float]]:
    """Extend a solver so that its step also makes total . x = 1; it returns the multiplier too."""
    if total is None:
        return lambda pull: (solve(pull), 0.0)
    border, missing = solve(total), 1 - float(total @ x)

    def newton(pull: Vector) -> tuple[Vector, float]:
        dx = solve(pull)
        change = (missing - float(total @ dx)) / float(total @ border)
        return dx + change * border, change

    return newton


def _objective(J: Vector, q: Vector, penalty: float, w: Vector) -> float:
    """Return F(w)."""
    return float(np.linalg.norm(J @ w - q) + penalty * np.linalg.norm(w - 1))


def _balance_norms(J: Vector, q: Vector, penalty: float) -> tuple[Vector, float, int]:
    """Find the ridge kappa at which kappa ||w - 1|| = c ||Jw - q||; return w, kappa and steps."""
    G, h, ones = J.T @ J, J.T @ q, np.ones(J.shape[1])
    found: dict[float, Vector] = {}
    n_steps = 0

    def imbalance(log_kappa: float) -> float:
        nonlocal n_steps
        kappa = float(np.exp(log_kappa))
        if log_kappa not in found:
            found[log_kappa], steps = quadratic_programme(G + kappa * np.eye(ones.size), h + kappa)
            n_steps += steps
        w = found[log_kappa]
        return float(kappa * np.linalg.norm(w - 1) - penalty * np.linalg.norm(J @ w - q))

    if np.linalg.norm(J.T @ (q - J @ ones)) <= penalty * np.linalg.norm(q - J @ ones):
        return ones, 0.0, n_steps  # the penalty outweighs any gain: no shift
    norm = float(np.linalg.norm(G, 2))
    low, high = np.log(SMALLEST_RIDGE * norm), np.log(norm)
    if imbalance(low) >= 0:  # the equations can be met exactly, and that is worth the penalty
        return _interpolate(J, q, penalty, found[low]), float(np.exp(low)), n_steps
    while imbalance(high) < 0 and high < np.log(LARGEST_RIDGE * norm):
        high += np.log(100.0)
    root = brentq(imbalance, low, high, xtol=1e-7) if imbalance(high) > 0 else high
    imbalance(root)
    return found[root], float(np.exp(root)), n_steps


def _interpolate(J: Vector, q: Vector, penalty: float, w: Vector) -> Vector:
    """Meet Jw = q as far as the positive entries can: near w or, more exactly, as near 1."""
    free, candidates = w > FREE, [w]
    for moved in (w.copy(), free.astype(np.float64)):
        moved[free] -= solve_linear(J[:, free], J @ moved - q)
        if (moved >= 0).all():
            candidates.append(moved)
    return min(candidates, key=lambda candidate: _objective(J, q, penalty, candidate))


def _dual_bound(J: Vector, q: Vector, penalty: float, w: Vector, kappa: float) -> float:
    """Return the best lower bound of F from dual points that w suggests."""
    u, v = J @ w - q, kappa * (w - 1)
    if not v.any():  # w = 1, where the penalty has no gradient of its own
        return _feasible_dual(J, q, penalty, u, -J.T @ u)
    v_unit, free = penalty * v / np.linalg.norm(v), w > FREE
    # where Jw = q there is no residual to take u from: solve J^T u = -v instead, or J^T u >= -v
    # by the programme whose residual is the best u, but for a little weight on its length
    weight = max(float(np.linalg.norm(u)), LENGTH_WEIGHT * float(np.linalg.norm(J, 2)))
    residual = J @ quadratic_programme(J.T @ J, J.T @ q - weight * v_unit)[0] - q
    candidates = [
        (u, v),
        (u / max(float(np.linalg.norm(u)), 1e-300), v_unit),
        (solve_linear(J[:, free].T, -v_unit[free]), v_unit),
        (residual / weight, v_unit),
    ]
    return max(_feasible_dual(J, q, penalty, *candidate) for candidate in candidates)


def _feasible_dual(J: Vector, q: Vector, penalty: float, u: Vector, v: Vector) -> float:
    """Return -u.q - v.1 after moving (u, v) into J^T u + v >= 0, ||u|| <= 1 and ||v|| <= c."""
    largest = max(float(np.linalg.norm(u)), float(np.linalg.norm(v)) / penalty, 1e-300)
    u, v = u / largest, v / largest
    v = v + max(0.0, -float((J.T @ u + v).min()))
    shrink = max(1.0, float(np.linalg.norm(v)) / penalty)
    return -float(u @ q + v.sum()) / shrink
