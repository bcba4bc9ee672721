"""The mixture problem of very many classes, against dense solvers."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from priorshift.border import SparseTable
from priorshift.solvers import Mixture, Mixtures, _maximise, maximise
from priorshift.solvers._interior_point import (
    Curvatures,
    MatrixFree,
    Points,
    conjugate_gradients,
    interior_points,
    merit,
)
from priorshift.solvers._maximise import extrapolate, leap


def problem_of(rng, n=600, K=30, alpha=1.0, weights=None, base=True, dtype=np.float64):
    """Return the same problem sparse and dense."""
    dense = rng.random((n, K)) * (rng.random((n, K)) < 0.15)
    dense[np.arange(n), rng.integers(0, K, n)] += 1
    spread = rng.random(n) * 0.02 if base else None
    block = SparseTable(csr_array(dense.astype(dtype)), spread)
    scale = 0.5 + rng.random(K)
    full = block.toarray()
    one = Mixture(block, scale=scale, alpha=alpha, weights=weights)
    return one, Mixture(full, scale=scale, alpha=alpha, weights=weights)


@pytest.mark.parametrize("alpha", [1.0, 3.0])
@pytest.mark.parametrize("base", [True, False])
@pytest.mark.parametrize("sampled", [True, False])
def test_matrix_free_steps_end_where_dense_ones_do(alpha, base, sampled, rng, monkeypatch):
    sparse, dense = problem_of(rng, alpha=alpha, base=base)
    if sampled:
        monkeypatch.setattr(_maximise, "MIN_ROWS", 1)
        monkeypatch.setattr(_maximise, "ROWS_PER_CLASS", 6)
        monkeypatch.setattr(_maximise, "FEW_CLASSES", 2)
    monkeypatch.setattr(_maximise, "MANY_CLASSES", 5)
    found, exact = maximise(sparse, tol=1e-8, max_iter=500), maximise(dense, tol=1e-10)
    assert found.gap <= 1e-8
    assert found.n_iter < 100
    assert found.value == pytest.approx(exact.value, abs=1e-5)
    assert dense.at(found.value).objective >= exact.objective - 1e-8


def test_weights_of_rows_count_as_repeated_rows(rng):
    weights = rng.integers(0, 4, 600).astype(float)
    sparse, dense = problem_of(rng, weights=weights)
    assert isinstance(sparse.A, SparseTable)
    assert sparse.A.shape[0] == np.count_nonzero(weights)
    assert sparse.total == dense.total == weights.sum()
    p = rng.dirichlet(np.ones(30))
    for one, other in zip(sparse.evaluate(p), dense.evaluate(p), strict=True):
        assert one == pytest.approx(other, rel=1e-12)


def test_impossible_rows_of_a_sparse_matrix_are_left_out_and_counted():
    rows = SparseTable(csr_array(np.array([[1.0, 0.0], [0.0, 0.0], [0.5, 0.5]])))
    problem = Mixture(rows, weights=np.array([2.0, 3.0, 1.0]))
    assert (problem.impossible, problem.total, problem.A.shape) == (3.0, 3.0, (2, 2))
    likelihood, _ = problem.evaluate(np.array([0.5, 0.5]))
    assert likelihood == pytest.approx(3 * np.log(0.5))


def test_leaps_never_lower_the_likelihood_of_an_em_step(rng):
    sparse, _ = problem_of(rng)
    p = rng.dirichlet(np.full(30, 0.1))
    p = np.maximum(p, 1e-6) / np.maximum(p, 1e-6).sum()
    value, plain = -np.inf, p
    for n_leaps in range(1, 5):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_maximise, "LEAPS", n_leaps)
            point, n_iter = leap(sparse, p, 1e-12, 1000, enough=1e-12)
        assert point.objective >= value
        assert 2 * n_leaps + 1 <= n_iter <= 3 * n_leaps + 1
        value = point.objective
        for _ in range(2):
            plain = plain * sparse.evaluate(plain)[1] / sparse.total
        assert value >= sparse.evaluate(plain)[0] - 1e-9
    assert point.p.sum() == pytest.approx(1.0)


def test_it_ends_when_told_to_with_a_true_gap(rng, monkeypatch):
    monkeypatch.setattr("priorshift.solvers._maximise.MANY_CLASSES", 5)
    sparse, dense = problem_of(rng, dtype=np.float32)
    for max_iter in (1, 2, 5, 14):
        solution = maximise(sparse, tol=1e-12, max_iter=max_iter)
        assert solution.status == "not_converged"
        assert solution.n_iter <= max_iter + 2
        gradient = dense.evaluate(solution.value)[1]
        assert solution.gap == pytest.approx(gradient.max() - dense.total, rel=1e-4, abs=1e-4)


def test_conjugate_gradients_solve_and_stop(rng):
    M = rng.random((20, 20))
    M = M @ M.T + np.eye(20)
    b = rng.standard_normal(20)
    x = conjugate_gradients(lambda v: M @ v, b, accuracy=1e-12)
    assert x == pytest.approx(np.linalg.solve(M, b), abs=1e-9)
    few = conjugate_gradients(lambda v: M @ v, b, accuracy=1e-12, most=2)
    assert np.linalg.norm(M @ few - b) < np.linalg.norm(b)
    assert np.array_equal(conjugate_gradients(lambda v: -v, b), b)  # not definite: straight ahead
    assert np.array_equal(conjugate_gradients(lambda v: v, np.zeros(3)), np.zeros(3))


def test_what_gradients_teach_is_met_exactly(rng):
    sparse, dense = problem_of(rng)
    H, p = MatrixFree(sparse, 600), rng.dirichlet(np.ones(30))
    H.refresh(p[None], sparse.evaluate(p)[1][None], None)
    x, plain = rng.standard_normal(30), dense.hessian(p) / dense.total
    assert H.product(x) == pytest.approx(plain @ x)
    for factor in (1.5, 0.01):  # too little curvature, and far too much
        change = plain @ x * factor + 0.001 * x
        H.learn(x, change * sparse.total)
        assert H.product(x) == pytest.approx(change)
        assert (H.diagonal > 0).all()


def test_steps_that_shrink_by_a_factor_are_extrapolated_to_their_end():
    end, away = np.array([0.5, 0.3, 0.2]), np.array([0.1, -0.06, -0.04])
    for factor in (0.5, 0.9, 0.99):
        found = extrapolate(*(end + factor**k * away for k in range(3)))
        np.testing.assert_allclose(found, end, rtol=1e-9)
    np.testing.assert_array_equal(extrapolate(end, end, end), end)
    gone = np.array([[0.5, 0.0], [0.5, 0.0]])
    np.testing.assert_array_equal(extrapolate(gone, gone, gone), gone)


def start_of_steps(rng, G=3, K=4):
    """Return problems, points off the simplex, and duals."""
    weights = rng.integers(1, 50, (G, 6)).astype(float)
    stack = Mixtures(rng.random((6, K)), weights, rng.integers(0, 3, (G, K)).astype(float))
    return stack, 0.5 + rng.random((G, K)), rng.random((G, K))


def test_duals_start_in_the_middle_of_the_gap(rng):
    stack, p, _ = start_of_steps(rng)
    found, n_iter, exact = interior_points(stack, p, 1e-9, 1, Curvatures())
    assert n_iter.tolist() == [1, 1, 1]
    assert exact
    for g in range(3):
        one = stack.single(g).at(p[g])
        mu = one.gap / one.p.size / stack.total[g]
        pull = 1 - one.slope / stack.total[g]
        at_least = (stack.excess[g] / stack.total[g] + mu) / p[g]
        np.testing.assert_allclose(found.z[g], np.maximum(pull, at_least), rtol=1e-12)


def test_steps_lower_the_barrier_objective(rng):
    stack, p, z = start_of_steps(rng)
    points, mu = Points.at(stack, p, z), np.array([[0.1], [0.01], [0.5]])
    found = merit(stack, points, mu)
    for g in range(3):
        barrier = p[g].sum() - mu[g, 0] * np.log(p[g]).sum()
        plain = barrier - stack.single(g).at(p[g]).objective / stack.total[g]
        assert found[g] == pytest.approx(plain, rel=1e-12)
