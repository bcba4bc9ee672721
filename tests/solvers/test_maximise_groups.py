"""Many problems at once: every group certified, and where an independent solver ends."""

import numpy as np
import pytest
from scipy.optimize import minimize

from priorshift.solvers import (
    Mixture,
    Mixtures,
    _interior_point,
    _maximise,
    maximise,
    maximise_by_group,
)

TOL = 1e-8


def confusion(K, blur, rng):
    return (1 - blur) * np.eye(K) + blur * rng.dirichlet(np.ones(K), K).T


def true_gap(problem, group, p):
    return problem.single(group).at(p).gap


def random_problem(K, G, blur, excess, rng):
    C = confusion(K, blur, rng)
    p = rng.dirichlet(np.full(K, 0.3), G)
    n = rng.integers(1, 400, G)
    counts = np.array([rng.multinomial(m, q / q.sum()) for m, q in zip(n, p @ C.T, strict=True)])
    return Mixtures(C, counts.astype(np.float64), excess)


@pytest.mark.parametrize(("K", "excess"), [(2, 0.0), (5, 2.0), (20, 0.0), (70, 2.0)])
@pytest.mark.parametrize("blur", [0.1, 0.9, 0.9999])
def test_every_group_is_certified(K, blur, excess, rng):
    problem = random_problem(K, 40, blur, excess, rng)
    found = maximise(problem, start=np.full(K, 1 / K), tol=1e-6, max_iter=1000)
    assert found.gap.max() <= 1e-6
    np.testing.assert_allclose(found.value.sum(axis=1), 1)
    assert found.value.min() >= 0
    for g in range(40):  # the certificate is checked by the code for one problem
        assert true_gap(problem, g, found.value[g]) <= 1e-6 + 1e-12 * problem.total[g]


def test_an_independent_solver_ends_at_the_same_priors(rng):
    problem = random_problem(4, 12, 0.4, 0.0, rng)
    found = maximise(problem, start=np.full(4, 0.25), tol=TOL, max_iter=1000)
    for g in range(12):
        w = problem.weights[g]

        def cost(p, w=w):
            return -(w @ np.log(np.maximum(problem.A @ p, 1e-300))) / w.sum()

        oracle = minimize(
            cost,
            np.full(4, 0.25),
            method="SLSQP",
            bounds=[(0, 1)] * 4,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert cost(found.value[g]) <= oracle.fun + TOL / w.sum() + 1e-13
        np.testing.assert_allclose(found.value[g], oracle.x, atol=2e-4)


@pytest.mark.parametrize("start", [[0.6, 0.25, 0.1, 0.04, 0.01], [0.2] * 5])
def test_problems_on_which_newton_may_go_in_circles(start, rng):
    # a weak last class: plain Mehrotra steps cycle on some of these from a lopsided start
    C = np.array(
        [
            [0.788, 0.487, 0.430, 0.145, 0.565],
            [0.157, 0.486, 0.049, 0.026, 0.333],
            [0.047, 0.015, 0.439, 0.169, 0.073],
            [0.002, 0.004, 0.073, 0.657, 0.005],
            [0.006, 0.008, 0.009, 0.003, 0.024],
        ]
    )
    p = rng.dirichlet(np.full(5, 0.3), 3000)
    q = p @ C.T
    counts = np.stack(
        [
            rng.multinomial(n, row / row.sum())
            for n, row in zip(rng.integers(1, 300, 3000), q, strict=True)
        ]
    )
    found = maximise(Mixtures(C, counts.astype(float)), start=np.array(start), tol=1e-6)
    assert found.gap.max() <= 1e-6


def test_rows_of_each_group_are_as_good_as_shared_ones(rng):
    problem = random_problem(6, 30, 0.5, 1.0, rng)
    own = Mixtures(np.tile(problem.A, (30, 1, 1)), problem.weights, problem.excess)
    one = maximise(problem, start=np.full(6, 1 / 6), tol=TOL, max_iter=1000)
    other = maximise(own, start=np.full(6, 1 / 6), tol=TOL, max_iter=1000)
    np.testing.assert_allclose(one.value, other.value, atol=1e-6)


def test_chunks_make_no_difference(rng, monkeypatch):
    problem = random_problem(5, 50, 0.5, 0.0, rng)
    whole = maximise(problem, start=np.full(5, 0.2), tol=TOL, max_iter=1000)
    monkeypatch.setattr(_maximise, "CHUNK_BYTES", 8 * 25 * 7)
    parts = maximise(problem, start=np.full(5, 0.2), tol=TOL, max_iter=1000)
    np.testing.assert_allclose(parts.value, whole.value, rtol=1e-9, atol=1e-12)


def test_classes_permute(rng):
    problem = random_problem(5, 20, 0.5, 0.0, rng)
    order = rng.permutation(5)
    turned = Mixtures(problem.A[:, order], problem.weights)
    one = maximise(problem, start=np.full(5, 0.2), tol=TOL, max_iter=1000)
    other = maximise(turned, start=np.full(5, 0.2), tol=TOL, max_iter=1000)
    np.testing.assert_allclose(other.value, one.value[:, order], atol=1e-6)


def test_classes_that_are_not_there_are_exactly_0():
    problem = Mixtures(np.array([[0.8, 0.2], [0.2, 0.8]]), np.array([[1.0, 0.0], [0.0, 3.0]]))
    found = maximise(problem, start=np.full(2, 0.5), tol=TOL, max_iter=1000)
    np.testing.assert_array_equal(found.value, [[1, 0], [0, 1]])


@pytest.mark.parametrize("shape", [(2, 2), (1, 2, 2)])
def test_a_point_that_gives_a_row_no_probability_is_not_certified(shape):
    """Rounding a class to 0 may do so; infinity times 0 must not warn on the way."""
    problem = Mixtures(np.eye(2).reshape(shape), np.array([[1.0, 1e-46]]))
    points = _interior_point.Points.at(problem, np.array([[1.0, 0.0]]), np.zeros((1, 2)))
    assert points.likelihood[0] == -np.inf
    assert points.gap[0] == np.inf
    found = maximise(problem, start=np.full(2, 0.5), tol=TOL, max_iter=1000)
    np.testing.assert_allclose(found.value, [[1, 0]], atol=TOL)


def test_too_few_steps_are_owned_up_to(rng):
    problem = random_problem(5, 20, 0.9, 0.0, rng)
    found = maximise(problem, start=np.full(5, 0.2), tol=TOL, max_iter=2)
    assert (found.gap > TOL).any()
    for g in range(20):
        assert true_gap(problem, g, found.value[g]) <= found.gap[g] + 1e-9


def test_what_rounding_stops_short_goes_to_the_solver_of_one_problem(rng, monkeypatch):
    monkeypatch.setattr(_interior_point, "GIVE_UP", -1)
    problem = random_problem(5, 6, 0.5, 0.0, rng)
    found = maximise(problem, start=np.full(5, 0.2), tol=1e-6, max_iter=1000)
    assert found.gap.max() <= 1e-6


def test_single_is_the_same_problem(rng):
    problem = random_problem(4, 3, 0.5, 1.0, rng)
    p = rng.dirichlet(np.ones(4), 3)
    likelihood, slope = problem.evaluate(p)
    hessian = problem.hessian(p)
    for g in range(3):
        single = problem.single(g)
        assert isinstance(single, Mixture)
        value, gradient = single.evaluate(p[g])
        np.testing.assert_allclose([likelihood[g], *slope[g]], [value, *gradient])
        u = problem.A @ p[g]
        oracle = problem.A.T @ np.diag(problem.weights[g] / u**2) @ problem.A
        np.testing.assert_allclose(hessian[g], oracle)


@pytest.mark.parametrize("most", [None, 8 * 4 * 30])
def test_rows_by_group_are_each_groups_own_problem(rng, monkeypatch, most):
    """Stacked with others or alone, every group ends where the solver of one problem does."""
    if most is not None:
        monkeypatch.setattr(_maximise, "STACK_BYTES", most)
    codes, A = np.repeat(np.arange(6), [3, 50, 1, 4, 40, 7]), rng.dirichlet(np.ones(4), 105)
    order = rng.permutation(codes.size)
    codes, A, scale, excess = codes[order], A[order], rng.uniform(1, 5, 4), np.full(4, 0.5)
    groups = np.array([4, 0, 1, 5])
    found = maximise_by_group(
        A,
        codes,
        groups,
        scale=scale,
        excess=excess,
        start=np.full(4, 0.25),
        tol=TOL,
        max_iter=1000,
    )
    assert (found.status == "certified").all()
    for at, group in enumerate(groups):
        own = codes == group
        alone = Mixture(A[own], scale=scale, alpha=1 + excess)
        point, best = alone.at(found.value[at]), maximise(alone, tol=TOL)
        assert point.gap <= 2 * TOL
        assert point.objective == pytest.approx(best.objective, abs=2 * TOL)
