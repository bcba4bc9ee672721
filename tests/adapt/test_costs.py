"""Decisions whose errors have prices: against brute force, and what follows from them."""

from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV

import priorshift as ps
from priorshift.adapt import Goal, binary_cut
from priorshift.estimators.auto import Sample, Target, expected_gain


def brute_force(y_proba, costs, reject=None):
    """Sum over classes, decision by decision and row by row."""
    found = []
    for p in y_proba:
        expected = [sum(p[k] * costs[k][d] for k in range(len(p))) for d in range(len(costs[0]))]
        least = min(expected)
        tied = [d for d, cost in enumerate(expected) if cost <= least + 1e-9]
        best = max(tied, key=lambda d: (p[d], -d)) if len(costs) == len(costs[0]) else tied[0]
        found.append(-1 if reject is not None and least > reject + 1e-9 else best)
    return np.array(found)


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("reject", [None, 0.3, 1.0])
def test_decisions_are_those_of_brute_force(rng, K, reject):
    y_proba = rng.dirichlet(np.ones(K), size=300)
    for costs in (rng.exponential(size=(K, K)), rng.integers(-2, 4, size=(K, K)), 1 - np.eye(K)):
        expected = brute_force(y_proba, costs.tolist(), reject)
        np.testing.assert_array_equal(ps.decide(y_proba, costs, reject=reject), expected)
        names = np.array([f"class {k}" for k in range(K)])
        named = ps.decide(y_proba, costs, names, reject)
        assert [None if d == -1 else names[d] for d in expected] == named.tolist()


def test_ties_go_to_the_most_probable_then_the_first():
    grid = np.array([p for p in product(range(5), repeat=3) if sum(p) == 4]) / 4
    for costs in (np.zeros((3, 3)), 1 - np.eye(3), np.array([[0, 1, 1], [2, 0, 1], [2, 1, 0]])):
        np.testing.assert_array_equal(ps.decide(grid, costs), brute_force(grid, costs.tolist()))


def test_without_costs_it_is_the_most_probable(rng):
    y_proba = rng.dirichlet(np.ones(4), size=200)
    np.testing.assert_array_equal(ps.decide(y_proba), y_proba.argmax(axis=1))
    np.testing.assert_array_equal(ps.decide(y_proba, 1 - np.eye(4)), y_proba.argmax(axis=1))
    rejected = ps.decide(y_proba, reject=0.4)
    np.testing.assert_array_equal(rejected == -1, y_proba.max(axis=1) < 0.6)


def test_scale_and_offsets_of_costs_do_not_matter(rng):
    y_proba, costs = rng.dirichlet(np.ones(3), size=200), rng.exponential(size=(3, 3))
    expected = ps.decide(y_proba, costs)
    np.testing.assert_array_equal(ps.decide(y_proba, 1000 * costs), expected)
    np.testing.assert_array_equal(
        ps.decide(y_proba, costs + np.array([[1.0], [2.0], [3.0]])), expected
    )


def test_a_mapping_is_a_matrix_with_1_for_other_errors(rng):
    y_proba = rng.dirichlet(np.ones(3), size=200)
    names = ["healthy", "mild", "sick"]
    costs = {("sick", "healthy"): 10, ("mild", "mild"): 0.5}
    matrix = 1 - np.eye(3)
    matrix[2, 0], matrix[1, 1] = 10, 0.5
    expected = np.array(names)[ps.decide(y_proba, matrix)]
    np.testing.assert_array_equal(ps.decide(y_proba, costs, classes=names), expected)
    frame = pd.DataFrame(y_proba, columns=names)
    np.testing.assert_array_equal(ps.decide(frame, costs), expected)
    numbered = ps.decide(y_proba, {(2, 0): 10, (1, 1): 0.5})
    np.testing.assert_array_equal(numbered, ps.decide(y_proba, matrix))


def test_other_decisions_than_classes(rng):
    y_proba = rng.dirichlet(np.ones(2), size=100)
    costs = np.array([[0.0, 0.4, 1.0], [5.0, 0.4, 0.0]])  # send home, look again, treat
    found = ps.decide(y_proba, costs, classes=["well", "ill"])
    np.testing.assert_array_equal(found, brute_force(y_proba, costs.tolist()))
    assert set(found) == {0, 1, 2}


def test_sparse_rows_and_single_precision_decide_alike(rng):
    y_proba = rng.dirichlet(np.full(6, 0.2), size=500)
    y_proba[y_proba < 0.01] = 0
    y_proba /= y_proba.sum(axis=1, keepdims=True)
    costs = rng.exponential(size=(6, 6))
    expected = ps.decide(y_proba, costs)
    np.testing.assert_array_equal(ps.decide(csr_array(y_proba), costs), expected)
    single = ps.decide(y_proba.astype(np.float32), costs)
    assert np.mean(single == expected) > 0.99


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (np.ones(3), "a row per true class"),
        (np.ones((2, 2)), "a row per true class"),
        ([[0, 1, np.nan], [1, 0, 1], [1, 1, 0]], r"finite; got nan at position \(0, 2\)"),
        ({"sick": 10}, "keys \\(true class, decision\\)"),
        ({("sick", "well"): 10}, "name the class 'sick'"),
        ({(0, 1): "much"}, "must be a finite number"),
    ],
)
def test_errors_say_what_to_do(costs, message):
    with pytest.raises(ValueError, match=message):
        ps.decide([[0.2, 0.3, 0.5]], costs)


def test_a_nested_mapping_says_what_pairs_say():
    risk, names = np.array([0.02, 0.2, 0.6]), ["well", "ill"]
    nested, pairs = {"ill": {"well": 10}}, {("ill", "well"): 10}
    found = ps.decide(risk, nested, classes=names)
    assert (
        found.tolist() == ps.decide(risk, pairs, classes=names).tolist() == names[:1] + ["ill"] * 2
    )
    mixed = ps.decide(risk, nested | {("well", "ill"): 100}, classes=names)
    assert mixed.tolist() == ["well"] * 3


def test_reject_is_a_number():
    with pytest.raises(ValueError, match="reject must be a finite number"):
        ps.decide([[0.5, 0.5]], reject=np.nan)


# What is at stake when predictions are adapted


COSTS = np.array([[0.0, 1.0], [10.0, 0.0]])


def draw(rng, n, share):
    y = (rng.random(n) < share).astype(int)
    score = rng.normal(loc=2.0 * y)
    return np.column_stack([1 / (1 + np.exp(2 * score - 2)), 1 / (1 + np.exp(2 - 2 * score))]), y


def test_expected_gain_in_cost_is_the_gain_that_happens(rng):
    (val, y_val), (target, y) = draw(rng, 20_000, 0.5), draw(rng, 20_000, 0.05)
    priors, source = np.array([0.95, 0.05]), np.array([0.5, 0.5])
    adapted = ps.adapt_proba(target, source, priors)
    for goal in (Goal("cost", COSTS, COSTS), Goal("accuracy"), Goal("balanced_accuracy")):
        sample = Sample(val, goal.decide(val), y_val, np.ones(y_val.size))
        gain = expected_gain(priors, np.zeros((2, 2)), source, sample, Target(target, target), goal)
        saved = goal.at(priors).saved(y, goal.decide(target), goal.decide(adapted))
        realised = saved.mean()
        assert gain.mean == pytest.approx(realised, abs=4 * saved.std() / np.sqrt(y.size) + 1e-3)
    # of balanced accuracy it is the mean over classes of what changes
    change = (adapted.argmax(axis=1) == y).astype(float) - (target.argmax(axis=1) == y)
    balanced = np.mean([change[y == k].mean() for k in range(2)])
    assert gain.mean == pytest.approx(balanced, abs=0.03)
    assert gain.mean < 0  # decisions for the most probable class lose the rare one


def test_expected_gain_in_log_loss_is_the_gain_that_happens(rng):
    (val, y_val), (target, y) = draw(rng, 20_000, 0.5), draw(rng, 20_000, 0.05)
    priors, source = np.array([0.95, 0.05]), np.array([0.5, 0.5])
    at = np.arange(y.size)
    of_truth = val[at, y_val]
    sample = Sample(val, val.argmax(axis=1), y_val, np.ones(y_val.size), of_truth)
    gain = expected_gain(
        priors, np.zeros((2, 2)), source, sample, Target(target, target), Goal("log_loss")
    )
    adapted = ps.adapt_proba(target, source, priors)
    realised = np.mean(np.log(adapted[at, y]) - np.log(target[at, y]))
    assert gain.mean == pytest.approx(realised, abs=0.02)
    assert realised > 0.2


def test_costs_of_1_are_accuracy(rng):
    (val, y_val), (target, _) = draw(rng, 1000, 0.5), draw(rng, 2000, 0.1)
    plain = ps.Auto(random_state=0).fit(val, y_val).estimate(target).decision
    costs = ps.Auto(random_state=0, costs=1 - np.eye(2)).fit(val, y_val).estimate(target).decision
    for name in ("expected_gain", "expected_gain_se", "changed_decisions"):
        assert costs[name] == pytest.approx(plain[name], abs=1e-12)
    assert (plain["goal"], costs["goal"]) == ("accuracy", "cost")
    assert "accuracy should rise" in plain["sentence"]
    assert "cost per case should fall" in costs["sentence"]


def test_auto_judges_by_the_costs_it_is_given(rng):
    (val, y_val), (target, y) = draw(rng, 2000, 0.5), draw(rng, 4000, 0.05)
    auto = ps.Auto(costs={(1, 0): 10}).fit(val, y_val)
    shift = auto.estimate(target)
    before, after = (ps.decide(p, COSTS) for p in (target, shift.adapt(target)))
    realised = np.mean(COSTS[y, before] - COSTS[y, after])
    decision = shift.decision
    assert decision["adapt"]
    assert abs(decision["expected_gain"] - realised) < 4 * decision["expected_gain_se"] + 0.05
    balanced = ps.Auto(goal="balanced_accuracy").fit(val, y_val).estimate(target)
    assert not balanced.decision["adapt"]
    loss = ps.Auto(goal="log_loss").fit(val, y_val).estimate(target)
    assert loss.decision["adapt"]
    assert "log loss should fall" in loss.decision["sentence"]
    assert clone(ps.Auto(costs=COSTS)).costs is not None


def test_costs_and_another_goal_exclude_each_other(rng):
    val, y_val = draw(rng, 200, 0.5)
    with pytest.raises(ValueError, match="not both"):
        ps.Auto(costs=COSTS, goal="log_loss").fit(val, y_val)
    with pytest.raises(ValueError, match="goal"):
        ps.Auto(goal="profit").fit(val, y_val)
    with pytest.raises(ValueError, match="one column per class"):
        ps.Auto(costs=np.ones((2, 3))).fit(val, y_val)


def test_assess_weighs_costs(rng):
    (val, y_val), (target, y) = draw(rng, 2000, 0.5), draw(rng, 4000, 0.05)
    assess = partial(ps.assess, val, y_val, target, assume_prior_shift=True)
    found = assess(costs=COSTS)
    assert (found.verdict, found.goal) == ("adapt", "cost")
    assert "cost per case should fall" in found.sentence
    before, after = (ps.decide(p, COSTS) for p in (target, found.adapt(target)))
    assert found.gain.value == pytest.approx(np.mean(COSTS[y, before] - COSTS[y, after]), abs=0.05)
    scaled = assess(costs=100 * COSTS)
    assert scaled.verdict == found.verdict
    assert scaled.gain.value == pytest.approx(100 * found.gain.value)
    labelled = assess(costs=COSTS, y_target=np.where(np.arange(y.size) < 500, y, -1))
    saved = COSTS[y, before] - COSTS[y, after]
    assert labelled.measured.gain.value == pytest.approx(saved[:500].mean(), abs=0.03)
    other = assess(costs=COSTS, method="scm-l")
    assert other.gain.value == pytest.approx(found.gain.value, abs=0.1)
    assert other.to_dict()["goal"] == "cost"
    balanced = assess(goal="balanced_accuracy")
    assert balanced.verdict == "leave"
    assert "balanced accuracy" in balanced.sentence
    assert assess(goal="log_loss").verdict == "adapt"


# scikit-learn


def rows(rng, n, share):
    y = (rng.random(n) < share).astype(int)
    return rng.normal(size=(n, 2)) + 1.5 * y[:, None], y


def test_the_classifier_predicts_by_costs(rng):
    (X, y), (X_target, y_target) = rows(rng, 2000, 0.5), rows(rng, 3000, 0.1)
    clf = ps.PriorAdaptedClassifier(LogisticRegression(), costs={(1, 0): 10}).fit(X, y)
    np.testing.assert_array_equal(
        clf.predict(X_target), ps.decide(clf.predict_proba(X_target), COSTS)
    )
    before = COSTS[y_target, clf.predict(X_target)].mean()
    clf.adapt(X_target)
    after = COSTS[y_target, clf.predict(X_target)].mean()
    assert after < before
    assert clf.shift_.decision["goal"] == "cost"
    assert clone(clf).costs == {(1, 0): 10}
    with pytest.raises(ValueError, match="name the class 'ill'"):
        ps.PriorAdaptedClassifier(LogisticRegression(), costs={("ill", 0): 1}).fit(X, y)


def test_a_threshold_on_adapted_probabilities_is_costs(rng):
    (X, y), (X_target, _) = rows(rng, 2000, 0.5), rows(rng, 3000, 0.1)
    clf = ps.PriorAdaptedClassifier(LogisticRegression()).fit(X, y).adapt(X_target)
    fixed = FixedThresholdClassifier(FrozenEstimator(clf), threshold=1 / 11).fit(X, y)
    np.testing.assert_array_equal(
        fixed.predict(X_target), ps.decide(clf.predict_proba(X_target), COSTS)
    )


def test_a_threshold_is_tuned_inside_or_around(rng):
    (X, y), (X_target, y_target) = rows(rng, 2000, 0.5), rows(rng, 3000, 0.1)
    saved = make_scorer(lambda y, d: -COSTS[y, d].mean())
    tuned = TunedThresholdClassifierCV(
        ps.PriorAdaptedClassifier(LogisticRegression(), prior_estimator=ps.SCML()), scoring=saved
    ).fit(X, y)
    assert abs(tuned.best_threshold_ - 1 / 11) < 0.08
    inside = ps.PriorAdaptedClassifier(
        TunedThresholdClassifierCV(LogisticRegression(), scoring=saved),
        prior_estimator=ps.SCML(),
        costs=COSTS,
    ).fit(X, y)
    inside.adapt(X_target)
    adapted = COSTS[y_target, inside.predict(X_target)].mean()
    assert adapted < COSTS[y_target, tuned.predict(X_target)].mean()


def test_names_of_any_length_are_cut_in_messages():
    long = "x" * 10_000
    for costs in ({(long + "y", "b"): 1}, {(long, long): "much"}, {long: 1}):
        with pytest.raises(ValueError, match="costs") as refused:
            ps.decide([[0.5, 0.5]], costs, classes=[long, "b"])
        assert len(str(refused.value)) < 400


def test_one_number_is_no_table_of_costs():
    with pytest.raises(ValueError, match="2 x 2: a row per true class"):
        ps.decide([[0.2, 0.8]], 20, classes=[0, 1])


@pytest.mark.parametrize("costs", [[[0, 1], [10, 0]], [[1, 4], [3, -2]], [[0, 0.5], [0.5, 0]]])
def test_the_cut_is_where_both_decisions_cost_the_same(costs):
    costs = np.array(costs, dtype=float)
    cut = binary_cut(costs)
    expected = np.array([1 - cut, cut]) @ costs
    assert expected[0] == pytest.approx(expected[1])
    assert ps.decide([cut - 1e-6, cut + 1e-6], costs).tolist() == [0, 1]


def test_there_is_no_cut_where_one_decision_is_never_dearer():
    assert binary_cut() == 0.5
    for alarm, miss in ((0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (1.0, -1.0)):
        assert binary_cut(np.array([[0.0, alarm], [miss, 0.0]])) is None


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_a_cost_equal_to_that_of_abstaining_is_no_reason_to_abstain(scale):
    """Up to rounding: 1 - 0.7 is more than 0.3."""
    assert ps.decide([[0.7, 0.3]], reject=0.3) == [0]
    assert ps.decide([[0.7, 0.3]], scale * (1 - np.eye(2)), reject=0.3 * scale * (1 - 1e-14)) == [0]
    assert ps.decide([[0.7, 0.3]], scale * (1 - np.eye(2)), reject=0.3 * scale * (1 - 1e-9)) == [-1]


@pytest.mark.parametrize("pair", ["ab", ("a", "b", "a"), ("a",)])
def test_costs_by_name_need_pairs(pair):
    with pytest.raises(ValueError, match="have keys"):
        ps.decide([[0.7, 0.3]], {pair: 2}, classes=["a", "b"])


def test_the_cost_of_an_error_is_its_mean_over_wrong_decisions(rng):
    costs, priors = rng.integers(-3, 9, (4, 4)).astype(float), rng.dirichlet(np.ones(4))
    goal = Goal.of(costs, "accuracy", np.arange(4))
    wrong = [
        np.mean([abs(costs[k, d] - costs[k, k]) for d in range(4) if d != k]) for k in range(4)
    ]
    assert goal.cost_of_error(priors) == pytest.approx(priors @ wrong)
    assert goal.cost_of_error() == pytest.approx(np.mean(wrong))
    assert Goal("accuracy").cost_of_error() == Goal("accuracy").cost_of_error(priors) == 1
    nothing = Goal.of(np.ones((2, 2)), "accuracy", np.arange(2))
    assert nothing.cost_of_error() == 1  # nothing is at stake
    assert goal.bounds == (costs.min(), costs.max())
    assert Goal("balanced_accuracy").bounds == (0, 1)
    assert Goal("log_loss").bounds == (0, -np.log(np.finfo(np.float32).eps))
