"""Least squares on the simplex and of ratios, and their quadratic programme, against cvxpy."""

from functools import lru_cache

import cvxpy as cp
import numpy as np
import pytest

from priorshift.solvers import (
    _least_squares,
    nearest_mixtures,
    regularised_ratio,
    simplex_least_squares,
    solve_linear,
)
from priorshift.solvers._least_squares import RIDGE, SMALL_GAP

PENALTIES = [1e-4, 3e-3, 0.1]


def draw(zoo, kind, counts, K):
    """Make a joint confusion matrix with a long-tailed source, and target frequencies."""
    rng = zoo.seeded(kind, counts, K)
    C = zoo.confusion(kind, K, rng)
    source = np.geomspace(1, 0.02, K)
    return C * (source / source.sum()), zoo.counts(counts, C, rng) / 1000


def cone_objective(J, q, penalty, w):
    return np.linalg.norm(J @ w - q) + penalty * np.linalg.norm(w - 1)


@lru_cache
def cvxpy_problem(kind, K):
    """State a problem in parameters, for to compile it takes far longer than to solve it."""
    x, matrix, q, penalty = cp.Variable(K), cp.Parameter((K, K)), cp.Parameter(K), cp.Parameter()
    if kind == "ratio":
        penalty = cp.Parameter(nonneg=True)
        loss, constraints = cp.norm(matrix @ x - q) + penalty * cp.norm(x - 1), [x >= 0]
    else:
        loss, constraints = 0.5 * cp.sum_squares(matrix @ x - q), [x >= 0, cp.sum(x) == 1]
    problem = cp.Problem(cp.Minimize(loss), constraints)
    assert problem.is_dpp()
    return problem, x, (matrix, q, penalty)


def cvxpy_solution(kind, *values):
    """Return where CLARABEL ends, made non-negative."""
    problem, x, parameters = cvxpy_problem(kind, values[0].shape[1])
    for parameter, value in zip(parameters, values, strict=False):
        parameter.value = value
    problem.solve(solver="CLARABEL")
    return np.maximum(x.value, 0)


def cvxpy_ratio(J, q, penalty):
    """Return the objective where CLARABEL ends, an upper bound of the minimum."""
    return cone_objective(J, q, penalty, cvxpy_solution("ratio", J, q, penalty))


def check_ratio(J, q, penalty):
    solution = regularised_ratio(J, q, penalty, tol=1e-6)
    assert solution.value.min() >= 0
    assert solution.objective == pytest.approx(cone_objective(J, q, penalty, solution.value))
    assert solution.status == "certified"
    assert 0 <= solution.gap <= 1e-6
    theirs = cvxpy_ratio(J, q, penalty)
    assert solution.objective <= theirs + 1e-7
    assert solution.objective - solution.gap <= theirs + 1e-9
    return solution


def test_ratio_reaches_cvxpys_minimum(zoo, kind, counts):
    for K in (2, 10):
        J, q = draw(zoo, kind, counts, K)
        check_ratio(J, q, PENALTIES[(zoo.number(kind, counts) + K) % 3])


@pytest.mark.parametrize("kind", ["diagonal", "flat", "duplicate", "sparse"])
def test_ratio_of_many_classes(zoo, kind):
    J, q = draw(zoo, kind, "model", 100)
    check_ratio(J, q, 3e-3)


def test_bound_of_a_ratio_never_exceeds_the_minimum(zoo, rng, kind):
    """Wherever it is taken from: it must be true, not close."""
    J, q = draw(zoo, kind, "sparse", 6)
    for penalty in (1e-6, 1e-2, 10.0):
        theirs = cvxpy_ratio(J, q, penalty)
        solution = regularised_ratio(J, q, penalty, tol=1e-12)
        assert solution.objective - solution.gap <= theirs + 1e-9
        for kappa in (1e-6, 1e-2, 1.0):
            w = rng.exponential(size=6) * (rng.random(6) < 0.7)
            assert _least_squares._dual_bound(J, q, penalty, w, kappa) <= theirs + 1e-9


def test_a_large_penalty_means_no_shift(zoo, kind):
    J, q = draw(zoo, kind, "model", 8)
    solution = regularised_ratio(J, q, 10.0, tol=1e-9)
    np.testing.assert_array_equal(solution.value, 1)
    assert solution.status == "certified"


def test_no_shift_is_found_exactly(zoo):
    J, _ = draw(zoo, "diagonal", "model", 8)
    solution = regularised_ratio(J, J.sum(axis=1), 1e-3, tol=1e-9)
    np.testing.assert_allclose(solution.value, 1, rtol=1e-12)
    assert solution.gap == pytest.approx(0, abs=1e-9)


def test_a_tiny_penalty_meets_the_equations(zoo, rng):
    J, _ = draw(zoo, "diagonal", "model", 8)
    w = rng.uniform(0.1, 2, 8)
    solution = regularised_ratio(J, J @ w, 1e-7, tol=1e-9)
    np.testing.assert_allclose(solution.value, w, rtol=1e-6)
    np.testing.assert_allclose(solution.value, solve_linear(J, J @ w), rtol=1e-6)
    assert solution.status == "certified"


def test_a_singular_matrix_shares_what_it_cannot_tell_apart(zoo):
    """Of all ratios that meet the equations, the one nearest to 1."""
    J = np.array([[0.4, 0.4, 0.0], [0.0, 0.0, 0.2]])
    solution = regularised_ratio(J, np.array([0.9, 0.1]), 1e-6, tol=1e-9)
    np.testing.assert_allclose(solution.value, [1.125, 1.125, 0.5], rtol=1e-5)


def test_a_ratio_found_too_soon_has_a_true_gap(monkeypatch, zoo):
    J, q = draw(zoo, "diagonal", "sparse", 10)
    best = regularised_ratio(J, q, 3e-3, tol=1e-6)
    monkeypatch.setattr(_least_squares, "QP_STEPS", 3)
    early = regularised_ratio(J, q, 3e-3, tol=1e-6)
    assert early.status == "not_converged"
    assert early.gap >= early.objective - best.objective > 1e-6


# Constrained least squares


@pytest.mark.parametrize("K", [2, 30])
def test_constrained_least_squares_reaches_cvxpys_minimum(zoo, K, kind):
    counts = ("sparse", "unrelated", "one decision")[zoo.number(kind) % 3]
    rng = zoo.seeded(kind, counts, K)
    C = zoo.confusion(kind, K, rng)
    q = zoo.counts(counts, C, rng) / 1000
    solution = simplex_least_squares(C, q, tol=1e-9)
    assert solution.status == "certified"
    assert solution.value.min() >= 0
    assert solution.value.sum() == pytest.approx(1, abs=1e-12)
    assert solution.objective == pytest.approx(0.5 * np.sum((C @ solution.value - q) ** 2))
    theirs = cvxpy_solution("least squares", C, q)
    theirs = 0.5 * np.sum((C @ (theirs / theirs.sum()) - q) ** 2)
    assert solution.objective <= theirs + 1e-9
    assert solution.objective - solution.gap <= theirs + 1e-12


def test_constrained_least_squares_inside_the_simplex_is_the_inverse(zoo, rng):
    C, p = zoo.confusion("diagonal", 12, rng), rng.dirichlet(np.ones(12))
    np.testing.assert_allclose(simplex_least_squares(C, C @ p, tol=1e-9).value, p, atol=1e-6)


def test_least_squares_stopped_too_soon_have_a_true_gap(monkeypatch, zoo, rng):
    C = zoo.confusion("diagonal", 10, rng)
    q = zoo.counts("sparse", C, rng) / 1000
    best = simplex_least_squares(C, q, tol=1e-9)
    monkeypatch.setattr(_least_squares, "QP_STEPS", 3)
    early = simplex_least_squares(C, q, tol=1e-9)
    assert early.status == "not_converged"
    assert early.gap >= early.objective - best.objective > 1e-9


# The quadratic programme behind both


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize(("rank", "scale"), [(3, 1e-6), (15, 1.0), (3, 1e6)])
def test_quadratic_programme_meets_its_optimality_conditions(rng, constrained, rank, scale):
    B = rng.standard_normal((rank, 15))
    G, h = scale * B.T @ B, scale * B.T @ rng.standard_normal(rank)  # bounded below at any rank
    total = rng.uniform(0.5, 2, 15) if constrained else None
    x, n_steps = _least_squares.quadratic_programme(G, h, total)
    assert n_steps <= 16
    assert x.min() >= 0
    slope = (G @ x - h) / scale
    if total is not None:
        assert total @ x == pytest.approx(1, abs=1e-10)
        slope -= (slope @ x) * total  # minus the multiplier of total . x = 1
    assert slope.min() >= -1e-8
    assert slope @ x == pytest.approx(0, abs=1e-8)


# Many problems at once, against the certified solver of one


def excess(A, b, p):
    """Return by how much the squared distance at p is above the least one."""
    best = simplex_least_squares(A, b, tol=1e-9).value
    return np.sum((A @ p - b) ** 2) - np.sum((A @ best - b) ** 2)


def test_the_solver_of_many_is_the_solver_of_one(rng):
    A = 100 * rng.random((12, 5))
    B = A @ rng.dirichlet(np.ones(5), 7).T + 10 * rng.standard_normal((12, 7))
    found = nearest_mixtures(A, B, np.full(5, 0.2))
    np.testing.assert_allclose(found.sum(axis=0), 1)
    assert found.min() >= 0
    for b, p in zip(B.T, found.T, strict=True):
        assert excess(A, b, p) <= 2 * SMALL_GAP


def test_a_class_that_is_hardly_ever_predicted_does_not_stop_the_solver(rng):
    A = 30 * (np.eye(6) + 0.2 * rng.random((6, 6)))
    A[0] *= [1e4, 1, 1, 1, 1, 1]  # a decision that hardly varies, but for its class
    B = A @ rng.dirichlet(np.ones(6), 5).T + rng.standard_normal((6, 5))
    found = nearest_mixtures(A, B, np.full(6, 1 / 6))
    for b, p in zip(B.T, found.T, strict=True):
        assert excess(A, b, p) <= 2 * SMALL_GAP


def test_columns_of_rounding_alone_divide_by_no_0():
    A = np.array([[1.0, 1e-16], [2.0, -1e-16]])
    found = nearest_mixtures(A, np.array([[-5.0, 1.0], [-3.0, 2.0]]), np.full(2, 0.5))
    np.testing.assert_allclose(found.sum(axis=0), 1)
    assert (found >= 0).all()
    alone = nearest_mixtures(np.array([[1e-16]]), np.array([[3.0, -3.0]]), np.ones(1))
    np.testing.assert_allclose(alone, [[1.0, 1.0]])


def test_what_never_varies_gets_a_little_variance():
    """A share of the mean variance, or next to nothing where nothing varies."""
    found = _least_squares._regular(np.diag([0.0, 2.0, 4.0]))
    np.testing.assert_allclose(np.diagonal(found), np.array([0, 2, 4]) + 2 * RIDGE, rtol=1e-14)
    nothing = np.diagonal(_least_squares._regular(np.zeros((2, 2))))
    assert ((nothing > 1e-100) & (nothing < 1e-60)).all()


def test_equations_that_can_be_solved_are_solved_to_the_last_digits(rng):
    """Where the penalty is small, Jw = q exactly; the ridge that leads there leaves 1e-11."""
    J = 0.1 * np.eye(4) + 0.01 * rng.random((4, 4))
    w = np.array([0.2, 1.5, 0.7, 3.0])
    found = regularised_ratio(J, J @ w, 1e-6, tol=1e-12)
    np.testing.assert_allclose(found.value, w, rtol=0, atol=2e-12)
