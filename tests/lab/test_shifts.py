"""Simulated shifts: targets follow the priors they claim, and only the labels' balance changes."""

import numpy as np
import pytest

from lab.shifts import (
    SHIFTS,
    draw_rows,
    long_tail,
    rank_in_class,
    shifted_tasks,
    target_priors,
)


def outputs(n, K, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.choice(K, n, p=long_tail(K, 5.0))
    return rng.dirichlet(np.ones(K), n) * 0.5 + 0.5 * np.eye(K)[y], y


def test_there_is_a_task_for_every_shift_size_and_cap():
    tasks = list(shifted_tasks("toy", outputs(300, 4), outputs(900, 4, 1), sizes=[50, 20]))
    assert len(tasks) == len(SHIFTS) * 2 * 2
    assert {task.shift for task in tasks} == set(SHIFTS)
    assert len({task.name for task in tasks}) == len(tasks)
    assert {task.y_target.size for task in tasks} == {50, 20}


def test_targets_follow_their_priors():
    task = next(
        task
        for task in shifted_tasks("toy", outputs(300, 4), outputs(9000, 4, 1), sizes=[4000])
        if task.shift == "lt100rev"
    )
    found = np.bincount(task.y_target, minlength=4) / 4000
    expected = long_tail(4, 100.0)[::-1]
    error = np.sqrt(expected * (1 - expected) / 4000)
    assert (np.abs(found - expected) < 4 * error).all()


def test_rows_keep_their_labels():
    y_proba, y = outputs(500, 3)
    for task in shifted_tasks("toy", (y_proba, y), (y_proba, y), sizes=[40]):
        at = [np.flatnonzero((y_proba == row).all(axis=1))[0] for row in task.y_proba_target]
        np.testing.assert_array_equal(y[at], task.y_target)


def test_a_cap_keeps_at_most_so_many_of_each_class():
    _, y = outputs(500, 5)
    kept = np.flatnonzero(rank_in_class(y, np.random.default_rng(0)) < 10)
    np.testing.assert_array_equal(np.bincount(y[kept]), np.minimum(np.bincount(y), 10))
    assert np.unique(kept).size == kept.size


def test_rows_repeat_only_where_a_class_has_too_few():
    y = np.repeat([0, 1], [3, 100])
    rows = draw_rows(y, np.array([0.5, 0.5]), 40, np.random.default_rng(0))
    ones = rows[y[rows] == 1]
    assert np.unique(ones).size == ones.size
    assert np.unique(rows[y[rows] == 0]).size <= 3


def test_a_class_that_the_pool_lacks_is_never_drawn():
    y_proba, y = outputs(600, 4)
    pool = y != 2
    for task in shifted_tasks("toy", (y_proba, y), (y_proba[pool], y[pool]), sizes=[100]):
        assert 2 not in task.y_target


def test_source_priors_come_from_training_if_it_is_given():
    train = outputs(1000, 3, seed=5)
    task = next(shifted_tasks("toy", outputs(300, 3), outputs(300, 3), train=train, sizes=[10]))
    np.testing.assert_allclose(task.source_priors, train[0].mean(axis=0))
    np.testing.assert_allclose(task.source_label_priors, np.bincount(train[1]) / 1000)


def test_shifts_are_distributions():
    for priors in target_priors(long_tail(20, 10.0), np.random.default_rng(0)).values():
        assert priors.sum() == pytest.approx(1)
        assert (priors >= 0).all()


def test_the_same_seed_gives_the_same_tasks():
    def targets(seed):
        tasks = shifted_tasks("toy", outputs(90, 3), outputs(90, 3), sizes=[20], random_state=seed)
        return np.array([task.y_target for task in tasks])

    np.testing.assert_array_equal(targets(1), targets(1))
    assert (targets(1) != targets(2)).any()
