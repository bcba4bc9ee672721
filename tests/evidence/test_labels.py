"""Few labels: which rows to label, unbiased by stratum, honest in small numbers."""

import numpy as np
import pytest

import priorshift as ps
from priorshift.adapt import Goal
from priorshift.evidence import (
    Acted,
    Strata,
    draw_rows_to_label,
    measure_gains,
    measure_shares,
    rows_that_differ,
)

ACCURACY = Goal("accuracy")


@pytest.fixture(scope="module")
def target():
    """A target where adapting changes a fifth of the decisions, and helps in two of three cases."""
    rng = np.random.default_rng(0)
    raw = rng.dirichlet([1, 1, 1], size=3000)
    calibrated = raw**0.8 / (raw**0.8).sum(axis=1, keepdims=True)
    adapted = calibrated * [0.7, 1.0, 1.6]
    adapted /= adapted.sum(axis=1, keepdims=True)
    y = (rng.uniform(size=(3000, 1)) > adapted.cumsum(axis=1)).sum(axis=1).clip(max=2)
    return Acted(raw, calibrated, adapted), y


def test_three_quarters_are_drawn_where_decisions_differ(target):
    actions, _ = target
    changed = rows_that_differ(ACCURACY, actions)
    rows = draw_rows_to_label(ACCURACY, actions, 40, 0)
    assert rows.size == np.unique(rows).size == 40
    assert changed[rows].sum() == 30
    np.testing.assert_array_equal(rows, draw_rows_to_label(ACCURACY, actions, 40, 0))


@pytest.mark.slow
def test_rows_of_a_stratum_have_the_same_chance(target):
    actions, _ = target
    changed, rng = rows_that_differ(ACCURACY, actions), np.random.default_rng(0)
    drawn = np.zeros(3000)
    for _ in range(1000):
        drawn[draw_rows_to_label(ACCURACY, actions, 40, rng)] += 1
    for stratum, m in ((changed, 30), (~changed, 10)):
        expected = 1000 * m / stratum.sum()
        assert np.abs(drawn[stratum] - expected).max() < 6 * np.sqrt(expected)


@pytest.mark.parametrize(("n_changed", "expected"), [(0, 0), (5, 5), (95, 35), (100, 40)])
def test_where_there_are_few_of_a_kind_the_others_fill_up(n_changed, expected):
    raw = np.tile([0.6, 0.4], (100, 1))
    adapted = np.where(np.arange(100)[:, None] < n_changed, raw[:, ::-1], raw)
    actions = Acted(raw, raw, adapted)
    rows = draw_rows_to_label(ACCURACY, actions, 40, 0)
    assert rows.size == np.unique(rows).size == 40
    assert (rows < n_changed).sum() == expected
    assert draw_rows_to_label(ACCURACY, actions, 400, 0).tolist() == list(range(100))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("goal", "drawn"), [(ACCURACY, "as asked"), (Goal("log_loss"), "at random")]
)
def test_gains_and_shares_are_unbiased_and_as_uncertain_as_they_say(target, goal, drawn):
    actions, y = target
    changed, rng = rows_that_differ(goal, actions), np.random.default_rng(1)
    truth = measure_gains(goal, actions, Strata(changed, np.arange(3000), y))["adapt"].mean
    shares = np.bincount(y) / 3000
    gains, errors, apart = [], [], []
    for _ in range(400):
        rows = draw_rows_to_label(goal, actions, 60, rng)
        if drawn == "at random":
            rows = rng.choice(3000, 60, replace=False)
        strata = Strata(changed, rows, y[rows])
        found = measure_gains(goal, actions, strata)["adapt"]
        gains.append(found.mean)
        errors.append(found.error)
        mean, variance = measure_shares(actions.calibrated, strata)
        apart.append((mean - shares) / np.sqrt(variance))
    assert np.mean(gains) == pytest.approx(truth, abs=4 * np.std(gains) / 20)
    assert np.std(gains) < 1.1 * np.mean(errors)
    assert np.abs(np.mean(apart, axis=0)).max() < 0.25
    assert np.std(apart) < 1.15


def test_all_changed_rows_labelled_is_exact(target):
    actions, y = target
    changed = rows_that_differ(ACCURACY, actions)
    rows = np.flatnonzero(changed)
    found = measure_gains(ACCURACY, actions, Strata(changed, rows, y[rows]))["adapt"]
    right = [(one.argmax(axis=1) == y).mean() for one in actions]
    assert found.mean == pytest.approx(right[2] - right[0])
    assert found.error == 0
    mean, variance = measure_shares(actions.calibrated, Strata(changed, np.arange(3000), y))
    np.testing.assert_allclose(mean, np.bincount(y) / 3000)
    np.testing.assert_allclose(variance, 0, atol=1e-15)


def test_few_labels_without_a_difference_are_no_proof_of_none(target):
    actions, y = target
    changed = rows_that_differ(ACCURACY, actions)
    same = y == 1  # neither the old nor the new decision, most of the time
    rows = np.flatnonzero(changed & same & (actions.y_proba.argmax(axis=1) != 1))[:3]
    found = measure_gains(ACCURACY, actions, Strata(changed, rows, y[rows]))["adapt"]
    assert found.error > 0.05 * changed.mean()


def test_an_action_that_changes_nothing_gains_exactly_nothing(target):
    actions, y = target
    idle = actions._replace(calibrated=actions.y_proba)
    changed = rows_that_differ(ACCURACY, idle)
    rows = draw_rows_to_label(ACCURACY, idle, 40, 0)
    assert measure_gains(ACCURACY, idle, Strata(changed, rows, y[rows]))["calibrate"] == (0, 0)


def test_costs_are_what_is_saved(target):
    actions, y = target
    costs = np.array([[0, 1, 1], [1, 0, 1], [10, 10, 0]], float)
    goal = Goal("cost", costs, costs)
    changed = rows_that_differ(goal, actions)
    found = measure_gains(goal, actions, Strata(changed, np.arange(3000), y))["adapt"]
    paid = [costs[y, goal.decide(one)].mean() for one in (actions.y_proba, actions.adapted)]
    assert found.mean == pytest.approx(paid[0] - paid[1])


def test_labels_elsewhere_tell_nothing_of_gains():
    data = ps.datasets.load_fashion_lt()
    known = (data.y_proba_val, data.y_val, data.y_proba_target)
    found = ps.assess(*known, classes=data.classes)
    raw, calibrated, adapted = (
        found.estimate.with_action(action).adapt(data.y_proba_target).argmax(axis=1)
        for action in ("none", "calibrate", "adapt")
    )
    rows = np.flatnonzero((raw == calibrated) & (raw == adapted))[:40]
    labels = np.full(raw.size, None, dtype=object)
    labels[rows] = data.y_target[rows]
    again = ps.assess(*known, classes=data.classes, y_target=labels)
    assert again.measured.n_labelled == 40
    assert again.gain == found.gain
    assert again.verdict == found.verdict
