r"""Least squares whose solution must be priors, or a ratio of priors.

Ratio: the regularised problem of Azizzadenesheli et al. (2019), written for :math:`w = 1 + \theta`,
is the second-order cone programme

.. math:: \min_{w \ge 0}\ F(w) = \|Jw - q\|_2 + c\,\|w - 1\|_2.

Its solution also solves the quadratic programme :math:`\min_{w \ge 0} \|Jw - q\|^2 + \kappa \|w -
1\|^2` for the one :math:`\kappa` that equals :math:`c\,\|Jw - q\| / \|w - 1\|` there, which a root
search finds. The quadratic programme's multipliers are a dual point of F: the duality gap follows.

Covariance: equations :math:`q = C p + e` with :math:`e \sim N(0, \Sigma)`, and p around a guess
:math:`p_0` with covariance :math:`\tau^2 D`, where :math:`D = \mathrm{diag}(d) - d d^T` is that of
a draw of one class with chances d. Both sides sum to 1, so one coordinate is dropped; which one
makes no difference.

Many problems at once: :math:`\min_{p \in \Delta} \|A p - b\|^2` for every column b, for the
thousands of estimates that resampling needs, each to the precision of its noise. Accelerated
projected gradient steps are taken in :math:`u_k = p_k \sqrt{G_{kk}}`, G = A^T A: in p itself, a
class that is almost never predicted would make every step too short. Squared distances are in units
of noise, so each problem stops when its duality gap is smaller than noise can show.
"""

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.optimize import brentq

from priorshift._typing import Vector
from priorshift.border import single_threaded_blas
from priorshift.solvers._interior_point import reach
from priorshift.solvers._linear import solve_linear
from priorshift.solvers._mixture import Solver, factorise
from priorshift.solvers._solution import Solution

QP_STEPS = 80
FREE = 1e-7
"""Entries of a ratio above this are not held at 0 by the constraint."""

VARIANCES = np.logspace(-8, 4, 241)
"""Range in which the variance tau^2 of the priors is searched; 0 is tried too."""

RIDGE = 1e-10
"""Added to a covariance, relative to its size: outputs without any noise have none."""

MAX_STEPS = 300
SMALL_GAP = 0.01
"""Of half the squared distance: no direction is off by more than 0.14 standard deviations."""

ROUNDING = 1e-10
"""Length of a column, in standard errors, that is rounding alone."""


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
        if max(float(x @ z) / K, float(np.abs(pull + z).max())) <= 1e-15 * size:
            return x, step
        solve = factorise(G, z / x)
        dx, _ = _newton_step(solve, pull, total, x)
        dz = -z - z / x * dx
        mu = float(x @ z) / K
        ahead = (x + reach(x, dx, 1.0) * dx) @ (z + reach(z, dz, 1.0) * dz) / K
        push = ((ahead / mu) ** 3 * mu - dx * dz) / x
        dx, change = _newton_step(solve, pull + push, total, x)
        dz = push - z - z / x * dx
        length = float(min(reach(x, dx)[0], reach(z, dz)[0]))
        x, z, multiplier = x + length * dx, z + length * dz, multiplier + length * change
    return x, QP_STEPS


def _newton_step(
    solve: Solver, pull: Vector, total: Vector | None, x: Vector
) -> tuple[Vector, float]:
    """Return a step of x, which also makes total . x = 1 if given, and of the multiplier."""
    dx = solve(pull)
    if total is None:
        return dx, 0.0
    border = solve(total)
    change = (1 - float(total @ x) - float(total @ dx)) / float(total @ border)
    return dx + change * border, change


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
    low, high = np.log(1e-11 * norm), np.log(norm)
    if imbalance(low) >= 0:  # the equations can be solved exactly, and that outweighs the penalty
        # meet Jw = q as far as the positive entries can: near w or, more exactly, as near 1
        w = found[low]
        free, candidates = w > FREE, [w]
        for moved in (w.copy(), free.astype(np.float64)):
            moved[free] -= solve_linear(J[:, free], J @ moved - q)
            if (moved >= 0).all():
                candidates.append(moved)
        best = min(candidates, key=lambda candidate: _objective(J, q, penalty, candidate))
        return best, float(np.exp(low)), n_steps
    while imbalance(high) < 0 and high < np.log(1e12 * norm):
        high += np.log(100.0)
    root = brentq(imbalance, low, high, xtol=1e-7) if imbalance(high) > 0 else high
    imbalance(root)
    return found[root], float(np.exp(root)), n_steps


def _dual_bound(J: Vector, q: Vector, penalty: float, w: Vector, kappa: float) -> float:
    """Return the best lower bound of F from dual points that w suggests."""
    u, v = J @ w - q, kappa * (w - 1)
    if not v.any():  # w = 1, where the penalty has no gradient
        return _feasible_dual(J, q, penalty, u, -J.T @ u)
    v_unit, free = penalty * v / np.linalg.norm(v), w > FREE
    # where Jw = q there is no residual to take u from: solve J^T u = -v instead, or J^T u >= -v
    # by the programme whose residual is the best u, but for a little weight on its length
    weight = max(float(np.linalg.norm(u)), 1e-6 * float(np.linalg.norm(J, 2)))
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


def evident_variance(C: Vector, q: Vector, Sigma: Vector, guess: Vector, spread: Vector) -> float:
    r"""Return the :math:`\tau^2` that makes q most likely.

    .. math:: q - C p_0 \sim N(0, \Sigma + \tau^2 C D C^T)
    """
    D = np.diag(spread) - np.outer(spread, spread)
    with single_threaded_blas():
        scale, axes = eigh((C @ D @ C.T)[:-1, :-1], _regular(Sigma[:-1, :-1]))
        along = (q - C @ guess)[:-1] @ axes
    variances = np.concatenate([[0.0], VARIANCES])
    total = 1 + variances[:, None] * np.maximum(scale, 0)
    likelihood = -0.5 * (np.log(total) + along**2 / total).sum(axis=1)
    return float(variances[np.argmax(likelihood)])


def shrunk_least_squares(
    C: Vector,
    q: Vector,
    Sigma: Vector,
    guess: Vector,
    spread: Vector,
    variance: float,
    *,
    tol: float,
) -> Solution:
    r"""Solve for the most likely priors on the simplex, given all covariances.

    .. math:: \min_{p \in \Delta}\ \tfrac12 (q - Cp)^T \Sigma^{-1} (q - Cp)
        + \tfrac1{2\tau^2} \sum_k (p_k - p_{0,k})^2 / d_k

    The gap is in nats. An infinite variance leaves the guess out; 0 returns it.
    """
    if variance == 0:
        return Solution(guess, "direct")
    with single_threaded_blas():
        factor = cho_factor(_regular(Sigma[:-1, :-1]))
        weighted = cho_solve(factor, C[:-1])
        pull = 0.0 if np.isinf(variance) else 1 / (variance * spread)
        G = C[:-1].T @ weighted + np.diag(pull * np.ones_like(guess))
        h = weighted.T @ q[:-1] + pull * guess
        # noise differs by orders of magnitude between classes; one that is always mistaken for
        # the last class, which is left out of C, has a column of 0
        size = np.diagonal(G)
        unit = 1 / np.sqrt(np.where(size > 0, size, max(float(size.max()), 1.0)))
        x, n_iter = quadratic_programme(G * np.outer(unit, unit), h * unit, total=unit)
        p = x * unit
    p /= p.sum()
    slope = G @ p - h
    gap = float(slope @ p - slope.min())
    residual, away = (q - C @ p)[:-1], p - guess
    cost = 0.5 * float(residual @ cho_solve(factor, residual) + away @ (pull * away))
    return Solution.judged(p, gap, tol, n_iter, -cost)


def _regular(Sigma: Vector) -> Vector:
    """Add a little to the diagonal, so that what never varies does not get infinite weight."""
    size = float(np.trace(Sigma)) / Sigma.shape[0]
    return Sigma + (RIDGE * size + np.finfo(np.float64).tiny ** 0.25) * np.eye(Sigma.shape[0])


def nearest_mixtures(A: Vector, B: Vector, start: Vector) -> Vector:
    r"""Solve :math:`\min_{p \in \Delta} \|A p - b\|^2` for every column b.

    Parameters
    ----------
    A : ndarray of shape (m, K)
    B : ndarray of shape (m, n)
        One problem per column.
    start : ndarray of shape (K,)
        Where all of them start, a point of the simplex.

    Returns
    -------
    ndarray of shape (K, n)

    Examples
    --------
    >>> import numpy as np
    >>> A = 100 * np.array([[0.8, 0.2], [0.2, 0.8]])
    >>> nearest_mixtures(A, 100 * np.array([[0.5, 1.0], [0.5, 0.0]]), np.full(2, 0.5)).round(3)
    array([[0.5, 1. ],
           [0.5, 0. ]])
    """
    G, H = A.T @ A, A.T @ B
    squares = np.diagonal(G)
    # columns become equally long; those that are rounding alone stay as they are
    scale = 1 / np.sqrt(np.where(squares > ROUNDING**2, squares, 1.0))[:, None]
    G, H = scale * G * scale.T, scale * H
    step = 1 / max(float(np.linalg.eigvalsh(G)[-1]), ROUNDING**2)
    # Nesterov's steps in u = p / scale; problems that are solved drop out
    solved, left = np.empty(H.shape), np.arange(H.shape[1])
    u = ahead = np.broadcast_to(start[:, None] / scale, H.shape)
    momentum = np.ones(left.size)
    for _ in range(MAX_STEPS):
        down = G @ ahead - H
        new = _project(ahead - step * down, scale)
        gap = (down * ahead).sum(axis=0) - (down / scale).min(axis=0)
        change = new - u
        # restart momentum that overshoots (O'Donoghue and Candes, 2015)
        momentum[((ahead - new) * change).sum(axis=0) > 0] = 1.0
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = new + (momentum - 1) / following * change
        u, momentum = new, following
        if 2 * np.count_nonzero(more := gap >= SMALL_GAP) <= left.size:
            solved[:, left[~more]] = (scale * u)[:, ~more]
            if not more.any():
                return solved
            u, ahead, H = (one[:, more] for one in (u, ahead, H))
            left, momentum = left[more], momentum[more]
    solved[:, left] = scale * u
    return solved


def _project(v: Vector, scale: Vector) -> Vector:
    r"""Return the nearest u >= 0 with :math:`\sum_k scale_k u_k = 1`, column by column.

    It is max(v - theta scale, 0). Theta starts at the value for all classes and rises while
    classes that would be negative drop out (Michelot, 1986).
    """
    square = np.broadcast_to(scale**2, v.shape)
    scaled, kept = scale * v, np.ones(v.shape)
    while True:
        total, mass = (np.einsum("kn,kn->n", one, kept) for one in (scaled, square))
        theta = (total - 1) / mass
        positive = (scaled > theta * square) & (kept > 0)
        if np.array_equal(positive, kept):
            return np.maximum(v - theta * scale, 0.0)
        kept = positive.astype(np.float64)
