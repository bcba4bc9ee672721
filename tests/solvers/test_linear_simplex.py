"""The projection onto the simplex, against a QP and by its invariances."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from priorshift.solvers import project_simplex

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
