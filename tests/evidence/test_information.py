"""Whether predictions know anything of the labels beside them."""

import itertools

import numpy as np
import pytest
from scipy.stats import kstest

import priorshift as ps
from priorshift.evidence import label_information


def classify(rng, n, shares, strength, K):
    """Draw rows of K classes, and what a calibrated classifier says of them."""
    y = rng.choice(K, n, p=shares)
    means = strength * np.random.default_rng(K).normal(size=(K, 4))
    z = (means[y] + rng.normal(size=(n, 4))) @ means.T - (means**2).sum(axis=1) / 2
    y_proba = np.exp(z - z.max(axis=1, keepdims=True)) * shares
    return y_proba / y_proba.sum(axis=1, keepdims=True), y


def test_mean_and_variance_are_those_of_all_shuffles():
    rng = np.random.default_rng(0)
    y_proba, y = rng.dirichlet(np.ones(3), 6), np.array([0, 0, 0, 1, 1, 2])
    sums = [
        y_proba[np.arange(6), y[list(order)]].sum() for order in itertools.permutations(range(6))
    ]
    expected = (y_proba[np.arange(6), y].sum() - np.mean(sums)) / np.std(sums)
    assert label_information(y_proba, y)[0] == pytest.approx(expected)
    assert label_information(y_proba.astype(np.float32), y)[0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("K", "strength"), [(2, 0.1), (2, 3.0), (5, 0.5), (14, 3.0)])
def test_shuffled_labels_are_normal(rng, K, strength):
    shares = rng.dirichlet(np.full(K, 2.0))
    y_proba, y = classify(rng, 400, shares, strength, K)
    found = [label_information(y_proba, rng.permutation(y))[0] for _ in range(500)]
    assert kstest(found, "norm").pvalue > 0.001
    assert max(found) < label_information(y_proba, y)[1]


@pytest.mark.parametrize(("K", "strength"), [(2, 0.15), (3, 0.1), (10, 0.2)])
def test_a_weak_classifier_knows_something(rng, K, strength):
    """Some points better than guessing: 1,000 rows always show it."""
    shares = np.full(K, 1 / K)
    for _ in range(50):
        y_proba, y = classify(rng, 1000, shares, strength, K)
        assert label_information(y_proba, y)[0] > 4
    assert (y_proba.argmax(axis=1) == y).mean() < 1 / K + 0.15


@pytest.mark.slow
@pytest.mark.parametrize("n", [12, 30, 100])
def test_few_rows_of_a_good_classifier_are_enough(rng, n):
    """90 % right, as in the smallest validation sets; of shuffled ones few slip through."""
    known, shuffled = [], []
    for _ in range(400):
        y = np.arange(n) % 2
        right = rng.permutation(n) >= round(0.1 * n)
        y_proba = np.where((y == 1) == right, 0.9, 0.1)
        y_proba = np.column_stack([1 - y_proba, y_proba])
        z, least = label_information(y_proba, y)
        known.append(z > least)
        shuffled.append(label_information(y_proba, rng.permutation(y))[0] > least)
    assert np.mean(known) == 1
    assert np.mean(shuffled) < (0.1 if n < 30 else 0.02)


def test_nothing_to_tell():
    assert label_information(np.full((20, 2), 0.5), np.zeros(20, int))[0] is None
    assert label_information(np.full((20, 2), 0.5), np.arange(20) % 2)[0] == 0.0


# What the verdict makes of it


@pytest.mark.parametrize(("K", "method"), [(2, "auto"), (5, "scm-l"), (14, "auto")])
def test_shuffled_labels_are_never_adapted_to(K, method):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        before, after = rng.dirichlet(np.ones(K), 2)
        y_proba, y = classify(rng, 600, before, 2.0, K)
        target, _ = classify(rng, 800, after, 2.0, K)
        found = ps.assess(y_proba, rng.permutation(y), target, classes=range(K), method=method)
        assert (found.verdict, found.action) == ("unclear", "none")
        assert found.facts[0].name == "no_information"
        assert "Are the rows in another order" in found.reasons[0]
        assert "say nothing about the labels" in found.sentence
        np.testing.assert_array_equal(found.adapt(target), target)


@pytest.mark.parametrize("method", ["auto", "em"])
def test_swapped_columns_are_said_first_and_never_adapted_to(method):
    rng = np.random.default_rng(0)
    K, order = 4, [1, 2, 3, 0]
    y_proba, y = classify(rng, 800, np.array([0.4, 0.3, 0.2, 0.1]), 2.0, K)
    target, _ = classify(rng, 800, np.array([0.1, 0.2, 0.3, 0.4]), 2.0, K)
    found = ps.assess(y_proba[:, order], y, target[:, order], classes=range(K), method=method)
    assert found.verdict == "unclear"
    assert found.facts[0].name == "columns_swapped"
    assert "in a different order from the classes" in found.sentence
    assert found.reasons[0].startswith("Before anything else: the columns seem to be in a diff")


@pytest.mark.parametrize("strength", [0.5, 1.0])
def test_weak_classifiers_are_judged_as_ever(strength):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        y_proba, y = classify(rng, 1000, np.array([0.6, 0.4]), strength, 2)
        target, _ = classify(rng, 1000, np.array([0.2, 0.8]), strength, 2)
        found = ps.assess(y_proba, y, target)
        assert all(fact.name != "no_information" for fact in found.facts)


def test_groups_and_windows_are_told_too():
    from priorshift.assessment import Verdicts

    rng = np.random.default_rng(0)
    y_proba, y = classify(rng, 600, np.array([0.7, 0.2, 0.1]), 0.6, 3)
    target, _ = classify(rng, 600, np.array([0.1, 0.2, 0.7]), 0.6, 3)
    for labels, expected in ((y, "adapt"), (rng.permutation(y), "unclear")):
        estimate = ps.EM().fit(y_proba, labels).estimate(target)
        verdicts = Verdicts(y_proba, labels)
        assert {verdicts.on(estimate, target) for _ in range(2)} == {expected}
