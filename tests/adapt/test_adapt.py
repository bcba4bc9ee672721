"""Adapting predictions to new priors: Bayes' rule, its invariances, and its edges."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

import priorshift as ps
from priorshift.adapt import total_variation

quick = settings(max_examples=60)


@st.composite
def problems(draw, n_priors=2):
    """Draw predictions, and vectors of priors without zeros."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, K = draw(st.integers(1, 12)), draw(st.integers(2, 7))
    y_proba = rng.dirichlet(np.full(K, draw(st.sampled_from([0.1, 1.0, 10.0]))), n)
    priors = 0.01 / K + 0.99 * rng.dirichlet(np.ones(K), n_priors)
    return y_proba, *priors


def adapt_by_loop(y_proba, source, target):
    """Apply Bayes' rule sample by sample, class by class."""
    adapted = []
    for row in np.asarray(y_proba, dtype=float).tolist():
        mass = [f * t / s for f, s, t in zip(row, source, target, strict=True)]
        adapted.append([m / sum(mass) for m in mass])
    return np.array(adapted)


# The formula


def test_a_worked_example():
    # trained on 8:1:1, used where all are equally frequent: masses 0.8/0.8, 0.1/0.1 and so on
    y_proba = [[0.8, 0.1, 0.1], [0.4, 0.5, 0.1]]
    adapted = ps.adapt_proba(y_proba, [0.8, 0.1, 0.1], [1 / 3, 1 / 3, 1 / 3])
    np.testing.assert_allclose(adapted, [[1 / 3, 1 / 3, 1 / 3], [0.5 / 6.5, 5 / 6.5, 1 / 6.5]])


@quick
@given(problem=problems())
def test_equals_bayes_rule_by_loop(problem):
    y_proba, source, target = problem
    adapted = ps.adapt_proba(y_proba, source, target)
    np.testing.assert_allclose(adapted, adapt_by_loop(y_proba, source, target), atol=1e-14)
    np.testing.assert_allclose(adapted.sum(axis=1), 1.0)


@quick
@given(problem=problems(n_priors=1))
def test_equal_priors_change_nothing(problem):
    y_proba, priors = problem
    np.testing.assert_allclose(ps.adapt_proba(y_proba, priors, priors), y_proba, atol=1e-15)


@quick
@given(problem=problems(n_priors=3))
def test_adapting_in_two_steps_equals_one(problem):
    y_proba, a, b, c = problem
    in_two = ps.adapt_proba(ps.adapt_proba(y_proba, a, b), b, c)
    np.testing.assert_allclose(in_two, ps.adapt_proba(y_proba, a, c), atol=1e-12)


@quick
@given(problem=problems())
def test_adapting_back_restores(problem):
    y_proba, a, b = problem
    there_and_back = ps.adapt_proba(ps.adapt_proba(y_proba, a, b), b, a)
    np.testing.assert_allclose(there_and_back, y_proba, atol=1e-12)


@quick
@given(problem=problems(), seed=st.integers(0, 99))
def test_permuting_classes_permutes_columns(problem, seed):
    y_proba, source, target = problem
    order = np.random.default_rng(seed).permutation(source.size)
    np.testing.assert_allclose(
        ps.adapt_proba(y_proba[:, order], source[order], target[order]),
        ps.adapt_proba(y_proba, source, target)[:, order],
        atol=1e-15,
    )


def test_many_blocks_equal_one_formula():
    rng = np.random.default_rng(0)
    y_proba = rng.dirichlet(np.ones(40), 8_000)  # several blocks of rows
    source, target = rng.dirichlet(np.ones(40), 2)
    expected = y_proba * target / source
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(ps.adapt_proba(y_proba, source, target), expected)


# Logits and log-probabilities


@quick
@given(problem=problems(), scale=st.floats(0.1, 50))
def test_logits_equal_their_softmax(problem, scale):
    y_proba, source, target = problem
    logits = scale * np.log(np.maximum(y_proba, 1e-12))
    np.testing.assert_allclose(
        ps.adapt_proba(logits, source, target, from_logits=True),
        ps.adapt_proba(softmax(logits, axis=1), source, target),
        atol=1e-12,
    )


@quick
@given(problem=problems())
def test_log_probabilities_equal_probabilities(problem):
    y_proba, source, target = problem
    with np.errstate(divide="ignore"):
        log_proba = np.log(y_proba)
    np.testing.assert_allclose(
        ps.adapt_proba(log_proba, source, target, from_logits=True),
        ps.adapt_proba(y_proba, source, target),
        atol=1e-12,
    )


@quick
@given(problem=problems(), seed=st.integers(0, 99), size=st.sampled_from([1.0, 1e3, 1e6]))
def test_a_constant_added_to_a_row_of_logits_changes_nothing(problem, seed, size):
    y_proba, source, target = problem
    logits = np.log(np.maximum(y_proba, 1e-12))
    shift = size * np.random.default_rng(seed).standard_normal((y_proba.shape[0], 1))
    np.testing.assert_allclose(
        ps.adapt_proba(logits + shift, source, target, from_logits=True),
        ps.adapt_proba(logits, source, target, from_logits=True),
        atol=1e-8,
    )


def test_logits_of_minus_infinity_are_probability_0():
    logits = np.array([[0.0, -np.inf, 0.0], [-np.inf, 700.0, -np.inf]])
    adapted = ps.adapt_proba(logits, [0.5, 0.25, 0.25], [0.25, 0.25, 0.5], from_logits=True)
    np.testing.assert_allclose(adapted, [[0.2, 0, 0.8], [0, 1, 0]])


def test_logits_too_large_for_exp():
    adapted = ps.adapt_proba(
        [[5000.0, 5000.0], [-5000.0, 0.0]], [0.5, 0.5], [0.9, 0.1], from_logits=True
    )
    np.testing.assert_allclose(adapted, [[0.9, 0.1], [0.0, 1.0]])


# Strength


def test_strength_goes_from_nothing_to_all():
    rng = np.random.default_rng(0)
    y_proba = rng.dirichlet(np.ones(3), 20)
    source, target = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.7])
    np.testing.assert_allclose(ps.adapt_proba(y_proba, source, target, strength=0), y_proba)
    np.testing.assert_array_equal(
        ps.adapt_proba(y_proba, source, target, strength=1),
        ps.adapt_proba(y_proba, source, target),
    )
    half = y_proba * np.sqrt(target / source)
    half /= half.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(ps.adapt_proba(y_proba, source, target, strength=0.5), half)
    twice = ps.adapt_proba(half, source, target, strength=0.5)
    np.testing.assert_allclose(twice, ps.adapt_proba(y_proba, source, target))
    np.testing.assert_allclose(
        ps.adapt_proba(np.log(y_proba), source, target, strength=0.5, from_logits=True), half
    )


@pytest.mark.parametrize("strength", [-0.1, 1.1, np.nan, np.inf, "half", None])
def test_strength_outside_0_to_1_is_refused(strength):
    with pytest.raises(ValueError, match=r"strength must .* in \[0, 1\]; got"):
        ps.adapt_proba([[0.5, 0.5]], [0.5, 0.5], [0.5, 0.5], strength=strength)


# Priors of 0, and rows that lose everything


@pytest.mark.parametrize("from_logits", [False, True])
def test_a_target_prior_of_0_rules_the_class_out(from_logits):
    y_proba = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    outputs = np.log(y_proba) if from_logits else y_proba
    adapted = ps.adapt_proba(outputs, np.full(3, 1 / 3), [0.5, 0.5, 0], from_logits=from_logits)
    np.testing.assert_allclose(adapted, [[0.4, 0.6, 0.0], [2 / 3, 1 / 3, 0.0]])


@pytest.mark.parametrize("from_logits", [False, True])
def test_rows_that_lose_all_their_mass_stay_and_are_counted(from_logits):
    y_proba = np.array([[0.0, 0.4, 0.6], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    with np.errstate(divide="ignore"):
        outputs = np.log(y_proba) if from_logits else y_proba
    with pytest.warns(ps.PriorShiftWarning, match=r"^2 of 4 rows .* original prob") as caught:
        adapted = ps.adapt_proba(outputs, np.full(3, 1 / 3), [1, 0, 0], from_logits=from_logits)
    np.testing.assert_allclose(adapted, [[0.0, 0.4, 0.6], [1, 0, 0], [0, 1, 0], [1, 0, 0]])
    assert caught[0].filename == __file__  # the warning points at the caller
    assert len(caught) == 1


def test_rows_that_stay_are_counted_over_all_blocks():
    y_proba = np.tile([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]], (50_000, 1))
    with pytest.warns(ps.PriorShiftWarning, match="^50000 of 150000 rows"):
        adapted = ps.adapt_proba(y_proba, [0.5, 0.5], [0.0, 1.0])
    np.testing.assert_array_equal(adapted[1::3], y_proba[1::3])
    np.testing.assert_array_equal(adapted[2::3], [[0.0, 1.0]] * 50_000)


def test_rows_that_stay_sum_to_1_even_if_they_did_not_quite():
    with pytest.warns(ps.PriorShiftWarning, match="^1 of 1 rows"):
        adapted = ps.adapt_proba([[0.0, 0.4, 0.6008]], np.full(3, 1 / 3), [1, 0, 0])
    np.testing.assert_allclose(adapted, [[0.0, 0.4 / 1.0008, 0.6008 / 1.0008]], rtol=1e-12)


def test_no_warning_where_no_row_is_lost():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ps.adapt_proba([[0.5, 0.5], [1e-300, 1.0]], [0.5, 0.5], [1.0, 0.0])


def test_strength_0_keeps_even_what_the_target_rules_out():
    y_proba = np.array([[0.0, 1.0], [0.3, 0.7]])
    adapted = ps.adapt_proba(y_proba, [0.5, 0.5], [1.0, 0.0], strength=0)
    np.testing.assert_array_equal(adapted, y_proba)


def test_many_classes_do_not_underflow():
    K = 2000
    priors = np.arange(1, K + 1) / (K * (K + 1) / 2)
    y_proba = np.full((3, K), 1 / K)
    adapted = ps.adapt_proba(y_proba, np.full(K, 1 / K), priors)
    np.testing.assert_allclose(adapted, np.tile(priors, (3, 1)))


# Inputs and outputs


@pytest.mark.parametrize(
    ("dtype", "returned"),
    [(np.float32, np.float32), (np.float64, np.float64), (np.float16, np.float32)],
)
@pytest.mark.parametrize("from_logits", [False, True])
def test_precision_of_the_result(dtype, returned, from_logits):
    rng = np.random.default_rng(0)
    y_proba = rng.dirichlet(np.ones(4), 50)
    outputs = log_softmax(np.log(y_proba), axis=1) if from_logits else y_proba
    source, target = rng.dirichlet(np.ones(4), 2)
    adapted = ps.adapt_proba(outputs.astype(dtype), source, target, from_logits=from_logits)
    assert adapted.dtype == returned
    np.testing.assert_allclose(
        adapted, adapt_by_loop(y_proba, source, target), atol=10 * np.finfo(dtype).eps
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("from_logits", [False, True])
def test_the_input_is_left_alone(dtype, from_logits):
    y_proba = np.array([[0.2, 0.8], [0.6, 0.4]], dtype)
    source, target = np.array([0.5, 0.5]), np.array([0.9, 0.1])
    before = [array.copy() for array in (y_proba, source, target)]
    y_proba.setflags(write=False)
    ps.adapt_proba(y_proba, source, target, from_logits=from_logits)
    for array, copy in zip((y_proba, source, target), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_the_result_is_not_the_input():
    y_proba = np.array([[0.2, 0.8]])
    assert not np.shares_memory(ps.adapt_proba(y_proba, [0.5, 0.5], [0.5, 0.5]), y_proba)


def test_one_column_is_the_positive_class():
    y_proba = np.array([0.2, 0.5, 0.9])
    both = np.column_stack([1 - y_proba, y_proba])
    expected = ps.adapt_proba(both, [0.7, 0.3], [0.4, 0.6])[:, 1]
    for source, target in [
        (0.3, 0.6),
        ([0.7, 0.3], 0.6),
        (np.float32(0.3), np.float64(0.6)),
        ({0: 0.7, 1: 0.3}, {1: 0.6, 0: 0.4}),
    ]:
        adapted = ps.adapt_proba(y_proba, source, target)
        assert adapted.shape == (3,)
        np.testing.assert_allclose(adapted, expected, rtol=1e-6)
    named = ps.adapt_proba(
        y_proba, {"no": 0.7, "yes": 0.3}, {"yes": 0.6, "no": 0.4}, classes=["no", "yes"]
    )
    np.testing.assert_allclose(named, expected)
    assert ps.adapt_proba(y_proba.astype(np.float32), 0.3, 0.6).dtype == np.float32


@pytest.mark.parametrize("prior", [1.5, -0.5, np.nan])
def test_a_positive_prior_outside_0_to_1_is_refused(prior):
    with pytest.raises(ValueError, match=r"prior of the positive class.*must be in \[0, 1\]"):
        ps.adapt_proba([0.2, 0.5], 0.5, prior)


def test_a_number_is_the_prior_of_the_second_of_two_columns():
    adapted = ps.adapt_proba([[0.2, 0.8]], 0.3, 0.6)
    np.testing.assert_allclose(adapted, ps.adapt_proba([[0.2, 0.8]], [0.7, 0.3], [0.4, 0.6]))


def test_a_number_is_no_prior_for_three_columns():
    with pytest.raises(ValueError, match="source_priors"):
        ps.adapt_proba([[0.2, 0.3, 0.5]], 0.5, 0.5)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_meet_priors_by_name(frame):
    source, target = {"cat": 0.5, "dog": 0.3, "ant": 0.2}, {"ant": 0.6, "cat": 0.1, "dog": 0.3}
    y_proba = frame({"dog": [0.2, 0.5], "ant": [0.2, 0.1], "cat": [0.6, 0.4]})
    adapted = ps.adapt_proba(y_proba, source, target)
    expected = adapt_by_loop(y_proba.to_numpy(), [0.3, 0.2, 0.5], [0.3, 0.6, 0.1])
    np.testing.assert_allclose(adapted, expected)  # columns stay in the frame's order
    named = ps.adapt_proba(y_proba, source, target, classes=["ant", "cat", "dog"])
    assert isinstance(named, frame)
    np.testing.assert_allclose(named, expected)


def test_no_second_copy_of_the_matrix_is_made():
    y_proba = np.full((40_000, 200), 1 / 200, np.float32)
    priors = np.full(200, 1 / 200)
    tracemalloc.start()
    try:
        adapted = ps.adapt_proba(y_proba, priors, priors)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < adapted.nbytes + y_proba.nbytes / 4


# What it is for


def test_the_true_priors_improve_a_shifted_classifier(simulate, rng):
    world = simulate(6, spread=0.8)
    target_priors = np.array([0.02, 0.03, 0.05, 0.1, 0.2, 0.6])[np.argsort(-world.source_priors)]
    y_proba, y = world.draw(target_priors, 20_000, rng)
    adapted = ps.adapt_proba(y_proba, world.source_priors, target_priors)

    def accuracy(proba):
        return np.mean(proba.argmax(axis=1) == y)

    assert accuracy(adapted) > accuracy(y_proba) + 0.05
    # and the adapted probabilities are calibrated: their mean is the target's balance
    np.testing.assert_allclose(adapted.mean(axis=0), target_priors, atol=0.01)
    assert np.abs(y_proba.mean(axis=0) - target_priors).max() > 0.03


# Trained priors


def test_priors_from_labels_are_frequencies():
    y = ["cat", "dog", "cat", "ant"]
    np.testing.assert_allclose(ps.priors_from_labels(y), [0.25, 0.5, 0.25])
    np.testing.assert_allclose(ps.priors_from_labels(pd.Series(y)), [0.25, 0.5, 0.25])
    np.testing.assert_allclose(
        ps.priors_from_labels(y, sample_weight=[1, 2, 3, 2]), [0.25, 0.5, 0.25]
    )
    in_order = ps.priors_from_labels(y, classes=["dog", "eel", "cat", "ant"])
    np.testing.assert_allclose(in_order, [0.25, 0, 0.5, 0.25])
    np.testing.assert_allclose(ps.priors_from_labels([3, 1, 1, 1]), [0.75, 0.25])
    # as pandas counts them
    y = np.random.default_rng(0).integers(0, 5, 200)
    counted = pd.Series(y).value_counts(normalize=True).sort_index()
    np.testing.assert_allclose(ps.priors_from_labels(y), counted)


def test_priors_from_labels_refuses_what_it_cannot_place():
    with pytest.raises(ValueError, match="y has a label outside classes: 'eel' at position 1"):
        ps.priors_from_labels(["cat", "eel"], classes=["cat", "dog"])
    with pytest.raises(ValueError, match="y is empty"):
        ps.priors_from_labels([])
    with pytest.raises(ValueError, match="classes names 'cat' twice"):
        ps.priors_from_labels(["cat"], classes=["cat", "cat"])


def test_priors_from_predictions_are_the_mean():
    rng = np.random.default_rng(0)
    y_proba = rng.dirichlet(np.ones(5), 300)
    weight = rng.exponential(size=300)
    np.testing.assert_allclose(ps.priors_from_predictions(y_proba), y_proba.mean(axis=0))
    np.testing.assert_allclose(
        ps.priors_from_predictions(y_proba, sample_weight=weight),
        np.average(y_proba, axis=0, weights=weight),
    )
    from_float32 = ps.priors_from_predictions(y_proba.astype(np.float32))
    assert from_float32.dtype == np.float64
    np.testing.assert_allclose(from_float32, y_proba.mean(axis=0), atol=1e-7)
    np.testing.assert_allclose(ps.priors_from_predictions([0.2, 0.4]), [0.7, 0.3])


def test_the_distance_between_priors_is_half_the_sum_of_differences(rng):
    one, other = rng.dirichlet(np.ones(4), (2, 5))
    assert total_variation(one, other) == pytest.approx(np.maximum(one - other, 0).sum(axis=1))
    assert total_variation(np.array([1.0, 0.0]), np.array([0.0, 1.0])) == 1


def test_what_is_left_alone_stays_to_the_last_digit(rng):
    y_proba = (rng.dirichlet(np.ones(7), 50) * (1 + 1e-7)).astype(np.float32)
    same = ps.adapt_proba(y_proba, np.full(7, 1 / 7), np.full(7, 1 / 7))
    np.testing.assert_array_equal(same, y_proba)
