"""Linear systems against numpy.linalg, and the projection onto the simplex against a QP."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from priorshift.solvers import condition_number, project_simplex, solve_linear

# Linear systems


@pytest.mark.parametrize(
    ("M", "answer"),
    [
        ([[0.8, 0.2], [0.2, 0.8]], [4 / 3, -1 / 3]),  # CM
        ([[0.4, 0.1], [0.1, 0.4]], [8 / 3, -2 / 3]),  # BBSE
    ],
)
def test_the_papers_examples(M, answer):
    np.testing.assert_allclose(solve_linear(np.array(M), np.array([1.0, 0.0])), answer, rtol=1e-14)


@pytest.mark.parametrize("shape", [(2, 2), (30, 30), (5, 3), (3, 5)])
def test_regular_and_rectangular_systems(rng, shape):
    M, q = rng.random(shape), rng.random(shape[0])
    np.testing.assert_allclose(solve_linear(M, q), np.linalg.pinv(M) @ q, rtol=1e-8)
    if shape[0] == shape[1]:
        np.testing.assert_allclose(solve_linear(M, q), np.linalg.inv(M) @ q, rtol=1e-8)
    wide = shape[0] < shape[1]  # some x has M x = 0, although the rows are independent
    expected = np.inf if wide else np.linalg.cond(M)
    assert condition_number(M) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("kind", ["singular", "rank-1", "duplicate", "zero"])
@pytest.mark.parametrize("K", [2, 10, 50])
def test_singular_systems_use_the_pseudo_inverse(zoo, rng, kind, K):
    M = np.zeros((K, K)) if kind == "zero" else zoo.confusion(kind, K, rng)
    q = rng.dirichlet(np.ones(K))
    assert condition_number(M) == np.inf
    pinv = np.linalg.pinv(M, rcond=K * np.finfo(float).eps)
    np.testing.assert_allclose(solve_linear(M, q), pinv @ q, rtol=1e-7, atol=1e-9)


def test_a_badly_conditioned_system_is_still_solved():
    M = np.array([[1, 1], [1, 1 + 1e-9]])
    assert condition_number(M) == pytest.approx(np.linalg.cond(M), rel=1e-5)
    np.testing.assert_allclose(solve_linear(M, M @ [3.0, 4.0]), [3, 4], rtol=1e-5)


# Projection

vectors = hnp.arrays(float, st.integers(1, 8), elements=st.floats(-1e3, 1e3))


@pytest.mark.parametrize("scale", [0.01, 1, 100])
@pytest.mark.parametrize("K", [2, 7, 50])
def test_projection_is_the_nearest_point(rng, K, scale):
    v = scale * rng.standard_normal(K)
    p = cp.Variable(K)
    nearest = cp.Problem(cp.Minimize(cp.sum_squares(p - v)), [p >= 0, cp.sum(p) == 1])
    nearest.solve(solver="CLARABEL")
    mine = project_simplex(v)
    np.testing.assert_allclose(mine, p.value, atol=1e-5)
    assert ((mine - v) ** 2).sum() <= nearest.value + 1e-6 * scale


@given(vectors)
def test_projection_lies_in_the_simplex_and_stays(v):
    p = project_simplex(v)
    assert p.min() >= 0
    assert p.sum() == pytest.approx(1, abs=1e-10)
    np.testing.assert_allclose(project_simplex(p), p, atol=1e-14)


@given(vectors, st.floats(-1e3, 1e3), st.randoms(use_true_random=False))
def test_projection_ignores_shifts_and_follows_permutations(v, shift, random):
    p = project_simplex(v)
    np.testing.assert_allclose(project_simplex(v + shift), p, atol=1e-10)
    order = random.sample(range(v.size), v.size)
    np.testing.assert_allclose(project_simplex(v[order]), p[order], atol=1e-12)


def test_columns_are_projected_one_by_one(rng):
    V = rng.standard_normal((6, 20)) * np.geomspace(0.01, 1e6, 20)
    one_by_one = np.column_stack([project_simplex(v) for v in V.T])
    np.testing.assert_array_equal(project_simplex(V), one_by_one)


@pytest.mark.parametrize("v", [[1e20, 0.0], [-1e20, -1e20], [1e300, 1e300, 0.0], [5.0]])
def test_projection_of_huge_values(v):
    v = np.array(v)
    expected = (v == v.max()) / (v == v.max()).sum()
    np.testing.assert_allclose(project_simplex(v), expected)
