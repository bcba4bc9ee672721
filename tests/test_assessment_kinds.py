"""assess on either kind of shift: what it does without labels, with forty, with a history."""

import json
import pickle

import numpy as np
import pytest

import priorshift as ps

MEANS = np.array([[1.2, 0.0], [0.0, 1.2], [-1.0, -1.0]])


def outputs(x):
    z = x @ MEANS.T
    P = np.exp(z - z.max(axis=1, keepdims=True))
    return P / P.sum(axis=1, keepdims=True)


def by_class(rng, n, shares):
    """Each class looks the same; its share moves."""
    y = rng.choice(3, n, p=shares)
    return outputs(MEANS[y] + rng.normal(size=(n, 2))), y


def by_cases(rng, n, centre):
    """Cases move; what an output means stays: it is the chance of each class."""
    P = outputs(1.3 * rng.normal(size=(n, 2)) + centre)
    return P, (rng.uniform(size=(n, 1)) > P.cumsum(axis=1)).sum(axis=1).clip(max=2)


@pytest.fixture(scope="module")
def prior():
    rng = np.random.default_rng(0)
    return *by_class(rng, 3000, [1 / 3] * 3), *by_class(rng, 3000, [0.05, 0.15, 0.8])


@pytest.fixture(scope="module")
def covariate():
    rng = np.random.default_rng(1)
    return *by_cases(rng, 3000, 0.0), *by_cases(rng, 3000, [-0.9, -0.7])


def accuracy(P, y):
    return (np.asarray(P).argmax(axis=1) == y).mean()


def with_forty(found, data, **options):
    P_val, y_val, P, y = data
    rows = found.rows_to_label(P, n=40, random_state=0)
    known = np.full(y.size, None, dtype=object)
    known[rows] = y[rows]
    return ps.assess(P_val, y_val, P, y_target=known, random_state=0, **options)


def test_prior_shift_is_explained_and_covariate_shift_reads_by_the_mean(prior, covariate):
    found = ps.assess(*prior[:3], random_state=0)
    truth = np.bincount(prior[3]) / 3000
    assert found.explained > 0.9
    low, high = found.explained_interval
    assert low <= found.explained <= high
    assert np.abs(found.estimate.priors - truth).sum() < 0.1
    assert np.abs(found.calibrated_mean.priors - truth).sum() > 0.2
    other = ps.assess(*covariate[:3], random_state=0)
    truth = np.bincount(covariate[3]) / 3000
    assert np.abs(other.calibrated_mean.priors - truth).sum() < 0.06
    assert np.abs(other.estimate.priors - truth).sum() > 0.2


@pytest.mark.parametrize("kind", ["prior", "covariate"])
def test_bounds_of_the_shares_to_report_hold_the_truth(kind, request):
    P_val, y_val, P, y = request.getfixturevalue(kind)
    found = ps.assess(P_val, y_val, P, random_state=0)
    low, high = found.shares_to_report.interval.T
    truth = np.bincount(y) / y.size
    assert ((low <= truth) & (truth <= high)).all()
    assert found.shares_to_report.priors.sum() == pytest.approx(1)
    labelled = with_forty(found, (P_val, y_val, P, y)).shares_to_report
    assert (
        np.ptp(labelled.interval, axis=1).mean() < np.ptp(found.shares_to_report.interval, 1).mean()
    )
    assert np.abs(labelled.priors - truth).sum() < 0.25


def test_forty_labels_tell_the_two_apart(prior, covariate):
    for data, gains in ((prior, True), (covariate, False)):
        first = ps.assess(*data[:3], random_state=0)
        rows = first.rows_to_label(data[2], n=40, random_state=0)
        assert rows.size == np.unique(rows).size == 40
        found = with_forty(first, data)
        raw, full = accuracy(data[2], data[3]), accuracy(first._full.adapt(data[2]), data[3])
        assert (full > raw) == gains
        assert (found.action == "adapt") == gains
        assert accuracy(found.adapt(data[2]), data[3]) >= raw - 0.005
        # the rule that was judged is the one that is applied: labels refit nothing
        np.testing.assert_array_equal(found.estimate.priors, first.estimate.priors)


def test_covariate_shift_is_never_adapted_to_without_a_word(covariate):
    found = ps.assess(*covariate[:3], random_state=0)
    assert found.action != "adapt"
    assert found.verdict == "unclear"
    assert found.facts[-1].name == "label_rows"
    vouched = ps.assess(*covariate[:3], assume_prior_shift=True, random_state=0)
    assert vouched.action == "adapt"
    assert vouched.shares_to_report.priors == pytest.approx(vouched.estimate.priors)


def test_history_decides_where_the_target_moved_no_further(covariate):
    rng = np.random.default_rng(2)
    parts = [
        by_cases(rng, 600, 1.1 * np.array(centre))
        for centre in ([0, 0], [-1, -0.8], [1, 0], [0, 1], [-0.9, -0.9], [1, 1])
    ]
    P_val, y_val = np.vstack([P for P, _ in parts]), np.concatenate([y for _, y in parts])
    groups = np.repeat([f"2025-0{month}" for month in range(1, 7)], 600)
    found = ps.assess(P_val, y_val, covariate[2], groups_val=groups, random_state=0)
    assert found.backtest.n_groups == 6
    assert found.backtest.off["calibrated_mean"] < found.backtest.off["prior_shift"]
    assert found.action != "adapt"
    assert any(fact.name == "history" for fact in found.facts)
    truth = np.bincount(covariate[3]) / 3000
    assert np.abs(found.shares_to_report.priors - truth).sum() < 0.15


def test_few_people_are_not_as_many_rows_as_they_have(prior):
    """Promises go by group: 21 rows, each copied 80 times, are 21 rows."""
    P_val, y_val, P, _ = prior
    copies = np.concatenate([np.repeat(np.flatnonzero(y_val == k)[:7], 80) for k in range(3)])
    alike = ps.assess(P_val[copies], y_val[copies], P, random_state=0)
    grouped = ps.assess(P_val[copies], y_val[copies], P, groups_val=copies, random_state=0)
    for name in ("if_prior_shift", "if_covariate_shift"):
        told = [
            next(one for one in by.facts if one.name == name).numbers for by in (alike, grouped)
        ]
        narrow, wide = (one["high"] - one["low"] for one in told)
        assert wide > 5 * narrow


def test_nothing_changed_is_none_and_left():
    rng = np.random.default_rng(4)
    P_val, y_val = by_class(rng, 2000, [1 / 3] * 3)
    P, _ = by_class(rng, 2000, [1 / 3] * 3)
    found = ps.assess(P_val, y_val, P)
    assert found.explained is None
    assert found.explained_interval is None
    assert (found.verdict, found.action) == ("leave", "none")
    np.testing.assert_array_equal(found.adapt(P), P)


def test_calibrating_alone_is_an_action_of_its_own():
    """A model trained with class weights, a target as validation was: a bias per class pays."""
    rng = np.random.default_rng(5)
    shares = np.array([0.85, 0.1, 0.05])
    (P_val, y_val), (P, y) = by_class(rng, 3000, shares), by_class(rng, 3000, shares)
    found = ps.assess(P_val, y_val, P)
    assert (found.verdict, found.action) == ("adapt", "calibrate")
    assert "calibrating alone: that pays" in found.sentence
    assert accuracy(found.adapt(P), y) > accuracy(P, y) + 0.02
    np.testing.assert_allclose(found.adapt(P), found.calibrated_mean.adapt(P), atol=1e-6)


@pytest.mark.parametrize("method", ["scm-l", "em-bcts"])
def test_other_methods_are_judged_the_same_way(method, covariate):
    found = ps.assess(*covariate[:3], method=method, random_state=0)
    assert found.action != "adapt"
    assert found.explained is not None
    assert with_forty(found, covariate, method=method).action != "adapt"


@pytest.mark.parametrize("goal", ["balanced_accuracy", "log_loss"])
def test_other_goals(goal, prior):
    found = ps.assess(*prior[:3], goal=goal, random_state=0)
    told = with_forty(found, prior, goal=goal)
    assert found.goal == told.goal == goal
    assert told.action != "adapt" or goal == "log_loss"  # rare classes count alike: leave


def test_balanced_accuracy_counts_classes_alike_on_validation_and_on_labels():
    rng = np.random.default_rng(4)
    P_val, y_val = by_class(rng, 300, [0.6, 0.3, 0.1])
    P, y = by_class(rng, 200, [0.1, 0.2, 0.7])
    given = {"goal": "balanced_accuracy", "method": "scm-l", "random_state": 0}
    found = ps.assess(P_val, y_val, P, y_target=y, **given)
    for score, rows, labels in ((found.score_before, P_val, y_val), (found.measured.before, P, y)):
        recalls = [accuracy(rows[labels == k], labels[labels == k]) for k in range(3)]
        assert score.value == pytest.approx(np.mean(recalls), abs=1e-3)
        assert abs(np.mean(recalls) - accuracy(rows, labels)) > 0.02


def test_it_is_told_in_plain_values_and_pickles(prior):
    found = ps.assess(*prior[:3], groups_val=np.arange(3000) // 600, random_state=0)
    told = json.loads(json.dumps(found.to_dict()))
    assert told["action"] == found.action
    assert told["explained"] == found.explained
    assert told["shares_to_report"]["interval"]
    assert told["calibrated_mean"]["method"] == "mean"
    assert len(told["backtest"]["groups"]) == 4
    assert pickle.loads(pickle.dumps(found)).to_dict() == found.to_dict()


def test_decisions_have_no_rows_to_choose():
    found = ps.assess(y_pred_val=[0, 1] * 30, y_val=[0, 1] * 30, y_pred_target=[0] * 30 + [1] * 30)
    assert found.calibrated_mean is None
    with pytest.raises(ValueError, match="label rows at random"):
        found.rows_to_label([0.5] * 60)
