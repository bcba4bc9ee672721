"""The test of the assumption: cells, the solver, level and power by simulation."""

import pickle

import numpy as np
import pytest
from scipy.stats import binom

from priorshift.shift_test import AssumptionTest, check_assumption
from priorshift.shift_test._assumption import cells_of
from priorshift.shift_test._least_squares import (
    SMALL_GAP,
    nearest_mixtures,
    nearest_mixtures_each,
)
from priorshift.shift_test._samples import read_samples
from priorshift.solvers import simplex_least_squares


def test_cells_are_predicted_class_and_quintile_of_confidence():
    confidence = np.linspace(0.6, 0.95, 50)
    first = np.column_stack([confidence, 1 - confidence])
    samples = read_samples(
        np.vstack([first, first[:, ::-1]]), np.repeat([0, 1], 50), np.vstack([first[:10]] * 3)
    )
    val, target, n_cells = cells_of(samples)
    assert n_cells == 6  # five of class 0, one of class 1, which the target never predicts
    assert np.unique(val[50:]).size == 1
    assert (np.diff(val[:50]) >= 0).all()  # confidence orders the cells
    np.testing.assert_array_equal(target[:10], target[10:20])
    np.testing.assert_array_equal(target[:10], val[:10])  # equal confidence, equal cell
    # 30 + 10 of 80 rows have the ten lowest confidences: half of the ranks
    assert target.max() <= 2


def test_few_predictions_get_few_cells():
    rows = np.tile([[0.9, 0.1], [0.8, 0.2]], (4, 1))
    samples = read_samples(rows, [0, 1] * 4, rows)
    *_, n_cells = cells_of(samples)
    assert n_cells == 1
    test = check_assumption(rows, [0, 1] * 4, rows, n_resamples=19, random_state=0)
    assert test.p_value is None
    assert not test.rejected
    assert "Too few samples" in test.verdict
    assert test.to_dict()["p_value"] is None
    assert "-" in repr(test)


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


def test_the_solver_of_a_matrix_each_is_the_solver_of_one(rng):
    A, B = 100 * rng.random((9, 12, 5)), 100 * rng.random((9, 12))
    found = nearest_mixtures_each(A, B, np.full(5, 0.2))
    for M, b, p in zip(A, B, found.T, strict=True):
        assert excess(M, b, p) <= 2 * SMALL_GAP


@pytest.mark.parametrize("each", [False, True])
def test_a_class_that_is_hardly_ever_predicted_does_not_stop_the_solver(rng, each):
    A = 30 * (np.eye(6) + 0.2 * rng.random((6, 6)))
    A[0] *= [1e4, 1, 1, 1, 1, 1]  # a decision that hardly varies, but for its class
    B = A @ rng.dirichlet(np.ones(6), 5).T + rng.standard_normal((6, 5))
    start = np.full(6, 1 / 6)
    solver = nearest_mixtures_each if each else nearest_mixtures
    found = solver(np.tile(A, (5, 1, 1)), B.T, start) if each else solver(A, B, start)
    for b, p in zip(B.T, found.T, strict=True):
        assert excess(A, b, p) <= 2 * SMALL_GAP


@pytest.mark.slow
def test_level_under_a_shift_of_priors_and_power_beyond_it(simulate):
    world, n = simulate(3), 200
    rejected = np.zeros(2)
    for seed in range(n):
        rng = np.random.default_rng([seed, 8])
        f, y = world.draw(world.source_priors, 400, rng)
        g, _ = world.draw(np.array([0.6, 0.1, 0.3]), 400, rng)
        duller = np.sqrt(g) / np.sqrt(g).sum(axis=1, keepdims=True)
        for at, target in enumerate((g, duller)):
            rejected[at] += check_assumption(
                f, y, target, n_resamples=99, random_state=seed
            ).rejected
    assert binom(n, 0.03).ppf(0.001) <= rejected[0] <= binom(n, 0.07).ppf(0.999), rejected / n
    assert rejected[1] > 0.9 * n


def test_a_moved_target_is_told_in_words(simulate, rng):
    world = simulate(3)
    f, y = world.draw(world.source_priors, 600, rng)
    g, _ = world.draw(np.array([0.6, 0.1, 0.3]), 600, rng)
    moved = check_assumption(f, y, 0.7 * g + 0.1, random_state=0)
    assert moved.rejected
    assert "p(x|y) moved" in moved.verdict
    test = check_assumption(f, y, g, random_state=0)
    assert not test.rejected
    assert test.verdict.startswith("A change of priors alone explains the target (p = ")
    assert np.abs(test.priors - [0.6, 0.1, 0.3]).max() < 0.08
    again = pickle.loads(pickle.dumps(test))
    assert isinstance(again, AssumptionTest)
    assert again.to_dict() == test.to_dict()
    assert f"{test.p_value:.4g}" in test._repr_html_()


def test_bad_input_is_refused(simulate, rng):
    f, y = simulate(3).draw(np.full(3, 1 / 3), 50, rng)
    with pytest.raises(ValueError, match="alpha must be above 0"):
        check_assumption(f, y, f, alpha=0.0)
    with pytest.raises(ValueError, match="n_resamples"):
        check_assumption(f, y, f, n_resamples=5)


def test_too_little_validation_gets_no_p_value(rng):
    """A long tail with 10 rows a class: resampling was found to reject too often there."""
    K = 60
    y_val = np.repeat(np.arange(K), 10)
    y = rng.choice(K, 4000, p=0.9 ** np.arange(K) / (0.9 ** np.arange(K)).sum())

    def predict(labels):
        return rng.dirichlet(np.ones(K), labels.size) * 0.6 + 0.4 * np.eye(K)[labels]

    test = check_assumption(predict(y_val), y_val, predict(y), random_state=0)
    assert test.p_value is None
    assert not test.rejected
    assert "Too few samples" in test.verdict
