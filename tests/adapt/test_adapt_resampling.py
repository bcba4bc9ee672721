"""Weights and draws that make training follow given priors."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_sample_weight

import priorshift as ps


@st.composite
def labels_and_priors(draw):
    """Draw labels with at least one of each class, and priors of which some may be 0."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    K = draw(st.integers(2, 6))
    y = rng.permutation(
        np.concatenate([np.arange(K), rng.integers(K, size=draw(st.integers(0, 40)))])
    )
    priors = rng.dirichlet(np.ones(K)) * (rng.random(K) < 0.8)
    return y, priors / priors.sum() if priors.sum() else np.full(K, 1 / K)


# Weights


@settings(max_examples=60)
@given(data=labels_and_priors())
def test_weighted_shares_are_exactly_the_priors(data):
    y, priors = data
    weights = ps.sample_weights(y, priors)
    shares = np.bincount(y, weights=weights) / weights.sum()
    np.testing.assert_allclose(shares, priors, atol=1e-12)
    np.testing.assert_allclose(weights.mean(), 1.0)
    np.testing.assert_allclose(ps.priors_from_labels(y, sample_weight=weights), priors, atol=1e-12)


@settings(max_examples=30)
@given(data=labels_and_priors())
def test_samples_of_a_class_weigh_alike(data):
    y, priors = data
    weights = ps.sample_weights(y, priors)
    for k in np.unique(y):
        assert np.ptp(weights[y == k]) == 0.0


def test_balanced_weights_are_scikit_learns():
    y = np.repeat(["a", "b", "c"], [5, 20, 75])
    np.testing.assert_allclose(
        ps.sample_weights(y, np.full(3, 1 / 3)), compute_sample_weight("balanced", y)
    )


def test_weights_retrain_a_classifier_for_the_target(rng):
    y = rng.choice(2, 4000, p=[0.9, 0.1])
    X = (2 * y - 1 + rng.standard_normal(4000))[:, None]
    plain = LogisticRegression(C=1e6).fit(X, y)
    weighted = LogisticRegression(C=1e6).fit(X, y, sample_weight=ps.sample_weights(y, [0.3, 0.7]))
    # by theory only the intercept moves, by the change of the log-odds of the priors
    moved = weighted.intercept_[0] - plain.intercept_[0]
    assert moved == pytest.approx(np.log(0.7 / 0.3) - np.log(0.1 / 0.9), abs=0.25)


# Draws


@pytest.mark.parametrize("priors", [[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.0, 0.4, 0.6]])
def test_drawn_shares_follow_the_priors(priors):
    y = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [700, 250, 50]))
    drawn = ps.sample_indices(y, priors, 20_000, random_state=0)
    counts = np.bincount(y[drawn], minlength=3)
    expected = 20_000 * np.array(priors)
    possible = expected > 0
    np.testing.assert_array_equal(counts[~possible], 0)
    assert chisquare(counts[possible], expected[possible]).pvalue > 1e-3


def test_draws_are_uniform_within_a_class():
    y = np.random.default_rng(0).permutation(np.repeat([0, 1], [60, 20]))
    drawn = ps.sample_indices(y, [0.5, 0.5], 40_000, random_state=0)
    times = np.bincount(drawn, minlength=y.size)
    for k in (0, 1):
        assert chisquare(times[y == k]).pvalue > 1e-3


def test_rows_repeat_only_after_all_of_their_class_were_drawn():
    y = np.random.default_rng(1).permutation(np.repeat([0, 1, 2], [300, 300, 20]))
    drawn = ps.sample_indices(y, [0.4, 0.4, 0.2], 250, random_state=0)
    times = np.bincount(drawn, minlength=y.size)
    assert times[y < 2].max() == 1
    wanted = np.bincount(y[drawn], minlength=3)[2]
    assert wanted > 20  # more than the class has: every row at least once, none far more often
    assert times[y == 2].min() == wanted // 20
    assert times[y == 2].max() == -(-wanted // 20)


def test_draws_come_in_random_order():
    y = np.repeat([0, 1], [50, 50])
    drawn = ps.sample_indices(y, [0.5, 0.5], 2000, random_state=0)
    # the halves of the draw look alike
    assert abs(y[drawn[:1000]].mean() - y[drawn[1000:]].mean()) < 0.08


def test_as_many_are_drawn_as_asked_for():
    y = np.repeat([0, 1], [30, 10])
    assert ps.sample_indices(y, [0.5, 0.5], random_state=0).shape == (40,)
    assert ps.sample_indices(y, [0.5, 0.5], 7, random_state=0).shape == (7,)
    assert ps.sample_indices(y, [0.5, 0.5], np.int64(100), random_state=0).shape == (100,)
    for n_samples in (0, -3, 2.5):
        with pytest.raises(ValueError, match=r"n_samples must be .*at least 1; got"):
            ps.sample_indices(y, [0.5, 0.5], n_samples)


@settings(max_examples=40)
@given(data=labels_and_priors(), seed=st.integers(0, 2**31))
def test_a_class_of_prior_0_is_never_drawn(data, seed):
    y, priors = data
    drawn = ps.sample_indices(y, priors, 50, random_state=seed)
    assert (priors[y[drawn]] > 0).all()


def test_seeds_make_draws_reproducible():
    y, priors = np.repeat([0, 1, 2], 30), [0.2, 0.3, 0.5]

    def draw(random_state):
        return ps.sample_indices(y, priors, random_state=random_state)

    np.testing.assert_array_equal(draw(7), draw(7))
    assert (draw(7) != draw(8)).any()
    assert (draw(None) != draw(None)).any()
    np.testing.assert_array_equal(draw(np.random.default_rng(7)), draw(7))
    rng = np.random.default_rng(7)
    first, second = draw(rng), draw(rng)
    assert (first != second).any()  # a generator goes on


def test_the_global_generator_is_neither_used_nor_changed():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    ps.sample_indices([0, 1], [0.5, 0.5], 10)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


# Names and errors


def test_priors_are_in_the_order_of_classes_or_by_name():
    y = ["cat", "cat", "cat", "dog"]
    sorted_order = ps.sample_weights(y, [0.25, 0.75])
    np.testing.assert_allclose(sorted_order, [1 / 3, 1 / 3, 1 / 3, 3])
    for priors, classes in [
        ([0.75, 0.25], ["dog", "cat"]),
        ({"dog": 0.75, "cat": 0.25}, None),
        (pd.Series({"dog": 0.75, "cat": 0.25}), None),
        ([0.75, 0.0, 0.25], ["dog", "eel", "cat"]),
    ]:
        np.testing.assert_allclose(ps.sample_weights(y, priors, classes=classes), sorted_order)
        drawn = ps.sample_indices(y, priors, 4000, classes=classes, random_state=0)
        assert np.mean(drawn == 3) == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("take", [ps.sample_weights, ps.sample_indices])
def test_a_class_wanted_but_without_samples(take):
    with pytest.raises(ValueError, match=r"asks for class 'eel' \(position 1\), but y has no") as e:
        take(["cat", "dog"], [0.4, 0.2, 0.4], classes=["cat", "eel", "dog"])
    assert "set its prior to 0" in str(e.value)


@pytest.mark.parametrize("take", [ps.sample_weights, ps.sample_indices])
def test_labels_that_are_no_classes(take):
    with pytest.raises(ValueError, match="y has a label outside classes: 'dog' at position 1"):
        take(["cat", "dog"], [0.5, 0.5], classes=["cat", "eel"])
    with pytest.raises(ValueError, match="y has no label at position 1"):
        take(["cat", None], [1.0])
    with pytest.raises(ValueError, match="classes names 'cat' twice"):
        take(["cat"], [0.5, 0.5], classes=["cat", "cat"])
    with pytest.raises(ValueError, match="target_priors must be 2 numbers, one per class"):
        take(["cat", "dog"], [0.5, 0.3, 0.2])
