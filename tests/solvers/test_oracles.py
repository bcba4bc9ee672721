"""Every solver against an independent one, on problems that are known to be hard."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize

from priorshift.solvers import (
    Mixture,
    maximise,
    project_simplex,
    regularised_ratio,
    simplex_least_squares,
)

KINDS = [
    "random",
    "diagonal",
    "singular",
    "rank-1",
    "permutation",
    "near-duplicate",
    "flat",
    "sparse",
]
COUNTS = ["expected", "drawn", "one decision", "unrelated"]


def confusion(kind: str, K: int, rng: np.random.Generator) -> np.ndarray:
    C = rng.dirichlet(np.ones(K), K).T
    if kind == "flat":
        return rng.dirichlet(np.full(K, 1000.0), K).T
    if kind == "permutation":
        return np.eye(K)[rng.permutation(K)]
    if kind == "rank-1":
        return np.tile(C[:, :1], K)
    if kind in ("diagonal", "near-duplicate"):
        C = 0.7 * np.eye(K) + 0.3 * C
    if kind == "sparse":
        C = 0.8 * np.eye(K) + 0.2 * rng.dirichlet(np.full(K, 0.05), K).T
    if kind == "singular":
        C[:, 1] = C[:, 0]
    if kind == "near-duplicate":
        C[:, 1] = C[:, 0] + 1e-9 * rng.random(K)
    return C / C.sum(axis=0)


def decisions(kind: str, C: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    K = C.shape[0]
    if kind == "one decision":
        return 1000.0 * np.eye(K)[0]
    if kind == "unrelated":
        return 1000 * rng.dirichlet(np.ones(K))
    q = C @ rng.dirichlet(np.full(K, 0.3))
    return 1000 * q if kind == "expected" else rng.multinomial(1000, q / q.sum()).astype(float)


def objective(p: np.ndarray, C: np.ndarray, n: np.ndarray, alpha: float) -> float:
    used = n > 0
    prior = (alpha - 1) * np.log(p).sum() if alpha > 1 else 0.0
    return float(n[used] @ np.log(C[used] @ p) + prior)


def scipy_maximum(C: np.ndarray, n: np.ndarray, alpha: float) -> float:
    """Maximise by SLSQP, and keep the best of where it ends and where it began."""
    K = C.shape[1]

    def negative(p: np.ndarray) -> tuple[float, np.ndarray]:
        used = n > 0
        slope = C[used].T @ (n[used] / (C[used] @ p)) + (alpha - 1) / p
        return -objective(p, C, n, alpha) / n.sum(), -slope / n.sum()

    start = np.full(K, 1 / K)
    found = minimize(
        negative,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(1e-10, 1)] * K,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": lambda p: np.ones(K)},
        options={"maxiter": 300, "ftol": 1e-13},
    )
    p = np.clip(found.x, 1e-10, 1)
    return max(objective(p / p.sum(), C, n, alpha), objective(start, C, n, alpha))


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [1.0, 3.0])
@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("K", [40])  # 2 and 10 are in test_certified
def test_mixture_reaches_scipys_maximum(K, kind, counts, alpha):
    rng = np.random.default_rng([K, KINDS.index(kind), COUNTS.index(counts)])
    C = confusion(kind, K, rng)
    n = decisions(counts, C, rng)
    possible = C.sum(axis=1) > 0
    n = np.where(possible, n, 0)
    solution = maximise(Mixture.of(C, weights=n, alpha=alpha), tol=1e-6)
    assert solution.status == "certified"
    assert 0 <= solution.gap <= 1e-6
    assert solution.value.min() >= 0
    assert solution.value.sum() == pytest.approx(1, abs=1e-12)
    assert objective(solution.value, C, n, alpha) >= scipy_maximum(C, n, alpha) - 1e-6


def softmax_maximum(C: np.ndarray, n: np.ndarray, alpha: float) -> float:
    """Maximise by SciPy's L-BFGS-B in p = softmax(theta), for problems too large for SLSQP."""

    def negative(theta: np.ndarray) -> tuple[float, np.ndarray]:
        p = np.exp(theta - theta.max())
        p /= p.sum()
        used = n > 0
        slope = p * (C[used].T @ (n[used] / (C[used] @ p))) + (alpha - 1)
        value = n[used] @ np.log(C[used] @ p) + (alpha - 1) * np.log(np.maximum(p, 1e-300)).sum()
        return -value / n.sum(), -(slope - p * slope.sum()) / n.sum()

    options = {"maxiter": 3000, "maxfun": 5000, "gtol": 1e-12, "ftol": 1e-15}
    found = minimize(negative, np.zeros(C.shape[1]), jac=True, method="L-BFGS-B", options=options)
    return -float(found.fun) * n.sum()


SIZES = [(100, kind) for kind in ("random", "diagonal", "singular", "near-duplicate", "flat")]
SIZES += [(500, "diagonal"), (250, "singular"), (250, "sparse")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("K", "kind", "alpha"),
    # alpha 1 and 2000 classes are in test_certified: there SciPy's maximum takes long
    [
        *[(*size, 1.0) for size in SIZES],
        *[(100, "flat", 3.0), (250, "singular", 3.0), (2000, "diagonal", 3.0)],
    ],
)
def test_many_classes_reach_scipys_maximum(K, kind, alpha):
    rng = np.random.default_rng(K)
    C = confusion(kind, K, rng)
    n = decisions("drawn", C, rng)
    solution = maximise(Mixture.of(C, weights=n, alpha=alpha), tol=1e-6)
    assert solution.status == "certified"
    assert objective(solution.value, C, n, alpha) == pytest.approx(solution.objective, abs=1e-6)
    assert solution.objective >= softmax_maximum(C, n, alpha) - 1e-6


@pytest.mark.parametrize("alpha", [1.0, 3.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("spread", [0.3, 1.5], ids=["weak", "strong"])
@pytest.mark.parametrize(("K", "n"), [(2, 3000), (100, 5000), (300, 4000)])
def test_posterior_problem_is_certified_in_double_precision(
    simulate, rng, K, n, spread, dtype, alpha
):
    simulation = simulate(K, spread=spread, dim=12)
    A = simulation.draw(rng.dirichlet(np.full(K, 0.5)), n, rng)[0].astype(dtype)
    w = rng.integers(1, 4, n).astype(float)
    problem = Mixture.of(A, scale=1 / simulation.source_priors, weights=w, alpha=alpha)
    solution = maximise(problem, tol=0.01)
    assert solution.status == "certified"
    rows = A.astype(np.float64) / simulation.source_priors

    def step(p):
        gradient = rows.T @ (w / (rows @ p)) + (alpha - 1) / np.maximum(p, 1e-300)
        return p * gradient / (w.sum() + K * (alpha - 1)), gradient

    gradient = step(solution.value)[1]
    assert gradient.max() - (w.sum() + K * (alpha - 1)) <= 0.01 + 1e-6
    p = np.full(K, 1 / K)
    for _ in range(50):
        p = step(p)[0]
    assert objective(solution.value, rows, w, alpha) >= objective(p, rows, w, alpha) - 0.01


@pytest.mark.parametrize("penalty", [1e-4, 2e-3, 0.3])
@pytest.mark.parametrize("kind", ["diagonal", "flat", "singular", "sparse"])
@pytest.mark.parametrize("K", [60])  # fewer are in test_least_squares
def test_regularised_ratio_reaches_cvxpys_minimum(K, kind, penalty):
    rng = np.random.default_rng([K, KINDS.index(kind)])
    C = confusion(kind, K, rng)
    J, q = C * rng.dirichlet(np.ones(K)), decisions("drawn", C, rng) / 1000
    solution = regularised_ratio(J, q, penalty, tol=1e-6)
    w = cp.Variable(K)
    problem = cp.Problem(cp.Minimize(cp.norm(J @ w - q) + penalty * cp.norm(w - 1)), [w >= 0])
    problem.solve(solver="CLARABEL")
    assert solution.status == "certified"
    assert solution.value.min() >= 0
    assert problem.value - solution.gap - 1e-6 <= solution.objective <= problem.value + 1e-7


@pytest.mark.parametrize("kind", ["diagonal", "flat", "singular", "sparse"])
@pytest.mark.parametrize("K", [2, 10, 60])
def test_constrained_least_squares_reaches_cvxpys_minimum(K, kind):
    rng = np.random.default_rng([K, KINDS.index(kind)])
    C = confusion(kind, K, rng)
    q = decisions("drawn", C, rng) / 1000
    solution = simplex_least_squares(C, q, tol=1e-9)
    p = cp.Variable(K)
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(C @ p - q)), [p >= 0, cp.sum(p) == 1])
    problem.solve(solver="CLARABEL")
    assert solution.status == "certified"
    assert solution.objective <= problem.value + 1e-8


@pytest.mark.parametrize("K", [2, 7, 50])
def test_projection_is_the_nearest_point(K, rng):
    v = rng.standard_normal((K, 5))
    projected = project_simplex(v)
    for column in range(5):
        p = cp.Variable(K)
        cp.Problem(cp.Minimize(cp.sum_squares(p - v[:, column])), [p >= 0, cp.sum(p) == 1]).solve(
            solver="CLARABEL"
        )
        np.testing.assert_allclose(projected[:, column], p.value, atol=1e-5)
        np.testing.assert_allclose(project_simplex(v[:, column]), projected[:, column])
