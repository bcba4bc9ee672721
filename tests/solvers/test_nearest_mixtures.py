"""Many least-squares problems on the simplex, against the certified solver of one."""

import numpy as np

from priorshift.solvers import nearest_mixtures, simplex_least_squares
from priorshift.solvers._least_squares import SMALL_GAP


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
