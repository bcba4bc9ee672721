"""Prediction sets: the definition, word by word, and the coverage that it promises."""

import warnings
from dataclasses import replace
from fractions import Fraction
from math import ceil

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import truncnorm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import priorshift as ps
from priorshift.conformal import ConformalSets, mean_above_zero

quick = settings(max_examples=80)
LEVELS = [Fraction(1, 2), Fraction(3, 4), Fraction(9, 10), Fraction(19, 20)]
GRAIN = 64


@st.composite
def problems(draw):
    """Draw few rows of probabilities in 64ths: sums are exact, and ties are many."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, K = draw(st.integers(1, 40)), draw(st.integers(2, 5))
    sharp = draw(st.sampled_from([0.1, 1.0, 10.0]))
    y_proba = rng.multinomial(GRAIN, rng.dirichlet(np.full(K, sharp), n + 6)) / GRAIN
    y = rng.integers(0, draw(st.integers(1, K)), n)  # some classes may be missing
    priors = rng.multinomial(12, rng.dirichlet(np.ones(K)))
    priors[y[0]] += 1
    return y_proba[:n], y, y_proba[n:], [Fraction(int(p), 13) for p in priors]


def score_of(row, y, score):
    """Score one class of one row."""
    return -row[y] if score == "lac" else sum(p for p in row if p >= row[y])


def quantile_by_definition(scores, weights, extra, level):
    """Return the least score with weight enough up to it, `extra` being at infinity."""
    total, upto = sum(weights) + extra, Fraction(0)
    for s, w in sorted(zip(scores, weights, strict=True)):
        upto += w
        if upto >= level * total:
            return s
    return np.inf


def sets_by_definition(y_proba_val, y_val, y_proba, priors, level, score, per_class):
    """Decide sample by sample and class by class, in exact arithmetic."""
    y_val, n = y_val.tolist(), len(y_val)
    own = [score_of(row, y, score) for row, y in zip(y_proba_val.tolist(), y_val, strict=True)]
    sets = []
    for row in y_proba.tolist():
        held = []
        for y, prior in enumerate(priors):
            if per_class:
                scores = sorted(s for s, label in zip(own, y_val, strict=True) if label == y)
                rank = ceil((len(scores) + 1) * level)
                limit = scores[rank - 1] if rank <= len(scores) else np.inf
            elif y not in y_val and prior > 0:
                limit = np.inf
            else:
                weight = {k: priors[k] / Fraction(y_val.count(k), n) for k in set(y_val)}
                weights = [weight[label] for label in y_val]
                limit = quantile_by_definition(own, weights, weight.get(y, Fraction(0)), level)
            held.append(score_of(row, y, score) <= limit)
        sets.append(held)
    return np.array(sets)


def reversed_tail(K, ratio=30.0):
    source = ratio ** (-np.arange(K) / (K - 1))
    source /= source.sum()
    return source, source[::-1].copy()


def coverage(sets, y):
    return sets[np.arange(y.size), y].mean()


# The definition


@quick
@given(
    problem=problems(),
    level=st.sampled_from(LEVELS),
    score=st.sampled_from(["lac", "aps"]),
    per_class=st.booleans(),
)
def test_sets_are_those_of_the_definition(problem, level, score, per_class):
    y_proba_val, y_val, y_proba, priors = problem
    conformal = ConformalSets(score, per_class=per_class)
    conformal.fit(
        y_proba_val, y_val, target_priors=[float(p) for p in priors], classes=range(len(priors))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.PriorShiftWarning)
        sets = conformal.predict_set(y_proba, float(level))
    expected = sets_by_definition(y_proba_val, y_val, y_proba, priors, level, score, per_class)
    np.testing.assert_array_equal(sets, expected)


def test_priors_of_validation_give_ordinary_conformal_sets(simulate, rng):
    sim = simulate(3)
    y_proba, y = sim.draw(sim.source_priors, 99, rng)
    conformal = ConformalSets().fit(y_proba, y, target_priors=ps.priors_from_labels(y))
    np.testing.assert_allclose(conformal.weights_, 1.0)
    own = np.sort(-y_proba[np.arange(99), y])
    np.testing.assert_array_equal(conformal.thresholds(0.9), own[89])  # rank 0.9 (99 + 1) of 99


def test_rounding_costs_no_rank():
    # rank ceil(0.9 * 10) = 9 of 9, though neither 0.9 nor 1/9 is a binary fraction
    y_proba = np.column_stack([np.linspace(0.1, 0.9, 9), 1 - np.linspace(0.1, 0.9, 9)])
    conformal = ConformalSets().fit(y_proba, np.zeros(9, int), target_priors=[1.0, 0.0])
    assert conformal.thresholds(0.9)[0] == -0.1


def test_weights_compare_the_target_with_validation_not_with_training(simulate, rng):
    sim = simulate(3)
    balanced = np.full(3, 1 / 3)
    y_proba, y = np.vstack([sim.draw(np.eye(3)[k], 50, rng)[0] for k in range(3)]), np.arange(150)
    target = [0.6, 0.3, 0.1]
    for source in (None, sim.source_priors, balanced):
        conformal = ConformalSets().fit(
            y_proba, y // 50, target_priors=target, source_priors=source
        )
        np.testing.assert_allclose(conformal.weights_, [1.8, 0.9, 0.3])


def test_adapted_scores_are_scores_of_adapted_probabilities(simulate, rng):
    sim = simulate(4)
    target = np.array([0.1, 0.2, 0.3, 0.4])
    y_proba_val, y_val = sim.draw(sim.source_priors, 300, rng)
    y_proba, _ = sim.draw(target, 200, rng)
    shift = ps.EM().fit(source_priors=sim.source_priors).estimate(y_proba)
    by_estimate = ConformalSets("aps").fit(y_proba_val, y_val, estimate=shift)
    by_priors = ConformalSets("aps").fit(
        y_proba_val, y_val, target_priors=shift.priors, source_priors=sim.source_priors
    )
    by_hand = ConformalSets("aps").fit(shift.adapt(y_proba_val), y_val, target_priors=shift.priors)
    expected = by_hand.predict_set(shift.adapt(y_proba), 0.8)
    np.testing.assert_array_equal(by_estimate.predict_set(y_proba, 0.8), expected)
    np.testing.assert_array_equal(by_priors.predict_set(y_proba, 0.8), expected)
    raw = ConformalSets("aps").fit(y_proba_val, y_val, target_priors=shift.priors)
    assert (raw.predict_set(y_proba, 0.8) != expected).any()


def test_small_probabilities_are_no_ties():
    y_proba_val = np.array([[1 - 1e-18, 1e-18], [1.0, 1e-20]]).repeat(10, axis=0)
    y_val = np.array([1] * 10 + [0] * 10)
    conformal = ConformalSets().fit(y_proba_val, y_val, target_priors=[0.5, 0.5])
    np.testing.assert_array_equal(
        conformal.predict_set([[1.0, 1e-17], [1.0, 1e-19]], 0.9), [[True, True], [True, False]]
    )


def test_sums_that_are_1_are_equal_whatever_rounding_says(rng):
    y_proba = rng.dirichlet(np.ones(7), 300)
    least = y_proba.argmin(axis=1)
    conformal = ConformalSets("aps").fit(
        y_proba[:150], least[:150], target_priors=np.full(7, 1 / 7)
    )
    np.testing.assert_array_equal(conformal.thresholds(0.6), 1.0)
    assert conformal.predict_set(y_proba[150:], 0.6).all()


# Coverage


@pytest.mark.parametrize("score", ["lac", "aps", "randomised-aps"])
@pytest.mark.parametrize("adapted", [False, True])
def test_true_priors_keep_the_promise_under_strong_shift(simulate, score, adapted):
    K, repeats, n = 4, 40, 1000
    source, target = reversed_tail(K)
    sim = type(simulate(K))(simulate(K).means, source)
    covered, ignorant = np.empty(repeats), np.empty(repeats)
    for r in range(repeats):
        rng = np.random.default_rng([r, K])
        y_proba_val, y_val = sim.draw(source, 1000, rng)
        y_proba, y = sim.draw(target, n, rng)
        conformal = ConformalSets(score, random_state=r).fit(
            y_proba_val,
            y_val,
            target_priors=target,
            source_priors=source if adapted else None,
            classes=range(K),
        )
        covered[r] = coverage(conformal.predict_set(y_proba, 0.9), y)
        conformal.fit(y_proba_val, y_val, target_priors=source, classes=range(K))
        ignorant[r] = coverage(conformal.predict_set(y_proba, 0.9), y)
    # repeats are independent, so three standard errors of their mean bound it
    assert covered.mean() > 0.9 - 3 * covered.std() / np.sqrt(repeats)
    assert ignorant.mean() < 0.75


@pytest.mark.parametrize("n_val", [20, 60])
def test_the_promise_holds_with_few_validation_samples(simulate, n_val):
    sim = simulate(2, spread=0.8)
    target, repeats = np.array([0.15, 0.85]), 300
    covered = np.empty(repeats)
    y_val = np.repeat([0, 1], n_val // 2)
    for r in range(repeats):
        rng = np.random.default_rng([r, n_val])
        y_proba_val = np.vstack([sim.draw(np.eye(2)[k], n_val // 2, rng)[0] for k in (0, 1)])
        y_proba, y = sim.draw(target, 500, rng)
        conformal = ConformalSets().fit(y_proba_val, y_val, target_priors=target)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ps.PriorShiftWarning)
            covered[r] = coverage(conformal.predict_set(y_proba, 0.9), y)
    assert covered.mean() > 0.9 - 3 * covered.std() / np.sqrt(repeats)


def test_estimated_priors_come_close_and_give_smaller_sets(simulate):
    K, repeats = 4, 20
    source, target = reversed_tail(K)
    sim = type(simulate(K))(simulate(K).means, source)
    covered, sizes, raw_sizes = (np.empty(repeats) for _ in range(3))
    for r in range(repeats):
        rng = np.random.default_rng([r, 7])
        y_proba_val, y_val = sim.draw(source, 1500, rng)
        y_proba, y = sim.draw(target, 1000, rng)
        shift = ps.EM().fit(source_priors=source).estimate(y_proba)
        sets = ConformalSets().fit(y_proba_val, y_val, estimate=shift).predict_set(y_proba, 0.9)
        raw = ConformalSets().fit(y_proba_val, y_val, target_priors=shift.priors)
        covered[r], sizes[r] = coverage(sets, y), sets.sum(axis=1).mean()
        raw_sizes[r] = raw.predict_set(y_proba, 0.9).sum(axis=1).mean()
    assert abs(covered.mean() - 0.9) < 0.02
    assert sizes.mean() < 0.8 * raw_sizes.mean()


def test_per_class_sets_cover_every_class_whatever_the_target(simulate):
    K, repeats = 3, 60
    sim = simulate(K, spread=1.0)
    by_class = np.empty((repeats, K))
    for r in range(repeats):
        rng = np.random.default_rng([r, 3])
        y_proba_val, y_val = sim.draw(sim.source_priors, 300, rng)
        conformal = ConformalSets(per_class=True).fit(y_proba_val, y_val)
        for k in range(K):
            y_proba, y = sim.draw(np.eye(K)[k], 300, rng)
            by_class[r, k] = coverage(conformal.predict_set(y_proba, 0.9), y)
    error = by_class.std(axis=0) / np.sqrt(repeats)
    assert (by_class.mean(axis=0) > 0.9 - 3 * error).all()
    assert (by_class.mean(axis=0) < 0.93).all()


def test_randomised_scores_give_smaller_sets_than_whole_ones(simulate, rng):
    sim = simulate(6)
    y_proba_val, y_val = sim.draw(sim.source_priors, 2000, rng)
    y_proba, y = sim.draw(sim.source_priors, 4000, rng)
    sets = {}
    for score in ("aps", "randomised-aps"):
        conformal = ConformalSets(score, random_state=0)
        conformal.fit(y_proba_val, y_val, target_priors=sim.source_priors, classes=range(6))
        sets[score] = conformal.predict_set(y_proba, 0.8)
    # true posteriors: the randomised score is uniform, so its quantiles are the levels
    np.testing.assert_allclose(conformal.thresholds(0.8), 0.8, atol=0.03)
    assert abs(coverage(sets["randomised-aps"], y) - 0.8) < 0.03
    assert sets["randomised-aps"].sum() < 0.95 * sets["aps"].sum()


def test_coverage_on_real_outputs():
    data = ps.datasets.load_fashion_lt()
    y = np.searchsorted(np.sort(data.classes), data.y_target)
    y = np.argsort(data.classes)[y]
    em = ps.EM().fit(source_priors=data.source_priors, classes=data.classes)
    conformal = ConformalSets()
    conformal.fit(data.y_proba_val, data.y_val, estimate=em.estimate(data.y_proba_target))
    adapted = conformal.predict_set(data.y_proba_target, 0.9)
    ignorant = conformal.fit(
        data.y_proba_val,
        data.y_val,
        target_priors=ps.priors_from_labels(data.y_val, classes=data.classes),
        classes=data.classes,
    ).predict_set(data.y_proba_target, 0.9)
    assert 0.87 < coverage(adapted, y) < 0.95
    assert coverage(ignorant, y) < 0.7
    assert adapted.sum(axis=1).mean() < 2


# Invariances


@pytest.mark.parametrize("score", ["lac", "aps"])
@pytest.mark.parametrize("per_class", [False, True])
def test_order_of_classes_and_rows_does_not_matter(simulate, rng, score, per_class):
    sim = simulate(4)
    y_proba_val, y_val = sim.draw(sim.source_priors, 400, rng)
    y_proba, _ = sim.draw(sim.source_priors, 50, rng)
    target = np.array([0.4, 0.3, 0.2, 0.1])
    conformal = ConformalSets(score, per_class=per_class)
    plain = conformal.fit(y_proba_val, y_val, target_priors=target).predict_set(y_proba, 0.8)
    rows, columns = rng.permutation(400), rng.permutation(4)
    conformal.fit(
        y_proba_val[rows][:, columns], y_val[rows], target_priors=target[columns], classes=columns
    )
    np.testing.assert_array_equal(
        conformal.predict_set(y_proba[:, columns], 0.8), plain[:, columns]
    )


def test_sets_grow_with_the_level(simulate, rng):
    sim = simulate(5)
    y_proba_val, y_val = sim.draw(sim.source_priors, 1000, rng)
    conformal = ConformalSets("aps").fit(y_proba_val, y_val, target_priors=np.full(5, 0.2))
    narrow, wide = (conformal.predict_set(y_proba_val, level) for level in (0.6, 0.9))
    assert (narrow <= wide).all()
    assert narrow.sum() < wide.sum()


def test_frames_are_matched_by_name(simulate, rng):
    sim = simulate(3)
    names = np.array(["ash", "beech", "oak"])
    y_proba, y = sim.draw(sim.source_priors, 200, rng)
    plain = ConformalSets().fit(y_proba, names[y], target_priors=[0.2, 0.3, 0.5], classes=names)
    frame = pd.DataFrame(y_proba, columns=names)[["oak", "ash", "beech"]]
    by_name = ConformalSets().fit(
        frame, names[y], target_priors={"oak": 0.5, "ash": 0.2, "beech": 0.3}
    )
    assert by_name.classes_.tolist() == ["oak", "ash", "beech"]
    np.testing.assert_array_equal(
        by_name.predict_set(frame[names])[:, [1, 2, 0]], plain.predict_set(y_proba)
    )


def test_probabilities_of_the_positive_class_alone(rng):
    y = rng.integers(0, 2, 200)
    positive = np.clip(0.3 + 0.4 * y + 0.2 * rng.standard_normal(200), 0, 1)
    one = ConformalSets().fit(positive, y, target_priors=[0.9, 0.1])
    both = ConformalSets().fit(
        np.column_stack([1 - positive, positive]), y, target_priors=[0.9, 0.1]
    )
    sets = one.predict_set(positive, 0.8)
    assert sets.shape == (200, 2)
    np.testing.assert_array_equal(
        sets, both.predict_set(np.column_stack([1 - positive, positive]), 0.8)
    )


# Chance


def test_an_integer_seed_repeats_its_sets_and_a_generator_moves_on(simulate, rng):
    sim = simulate(4)
    y_proba, y = sim.draw(sim.source_priors, 500, rng)
    target = {"target_priors": sim.source_priors, "classes": range(4)}
    seeded = ConformalSets("randomised-aps", random_state=1).fit(y_proba, y, **target)
    sets = seeded.predict_set(y_proba)
    np.testing.assert_array_equal(sets, seeded.predict_set(y_proba))
    other = ConformalSets("randomised-aps", random_state=2).fit(y_proba, y, **target)
    assert (sets != other.predict_set(y_proba)).any()
    moving = clone(seeded).set_params(random_state=np.random.default_rng(1))
    moving.fit(y_proba, y, **target)
    assert (moving.predict_set(y_proba) != moving.predict_set(y_proba)).any()


def test_validation_and_target_do_not_share_their_draws(rng):
    # with equal probabilities a score is the draw itself; if the target shared those of
    # validation, exactly the share of the level would be within it
    y_proba, y = np.full((200, 2), 0.5), np.arange(200) % 2
    conformal = ConformalSets("randomised-aps", random_state=0)
    conformal.fit(y_proba, y, target_priors=[0.5, 0.5])
    shares = [conformal.predict_set(y_proba, level)[:, 0].mean() for level in (0.3, 0.5, 0.7)]
    ranks = [np.ceil(level * 201) / 200 for level in (0.3, 0.5, 0.7)]
    assert np.abs(np.subtract(shares, ranks)).max() > 0.005
    np.testing.assert_allclose(shares, ranks, atol=0.15)


# Too little validation


def test_a_class_with_too_few_samples_is_named_and_always_included(simulate, rng):
    sim = simulate(3)
    y_proba, y = sim.draw(np.array([0.5, 0.5, 0.0]), 300, rng)
    y[:4] = 2
    names = np.array(["ash", "beech", "oak"])
    conformal = ConformalSets(per_class=True).fit(y_proba, names[y], classes=names)
    with pytest.warns(ps.PriorShiftWarning, match=r"too few samples of class 'oak' for .* 0\.9,"):
        sets = conformal.predict_set(y_proba)
    assert sets[:, 2].all()
    assert not sets[:, :2].all(axis=0).any()
    conformal.predict_set(y_proba, 0.8)  # four samples are enough: rank ceil(0.8 * 5) = 4
    weighted = ConformalSets().fit(y_proba, names[y], classes=names, target_priors=[0.2, 0.2, 0.6])
    with pytest.warns(ps.PriorShiftWarning, match="'oak'"):
        assert weighted.predict_set(y_proba)[:, 2].all()


def test_a_class_that_validation_lacks_matters_only_if_the_target_has_it(simulate, rng):
    sim = simulate(3)
    y_proba, y = sim.draw(np.array([0.5, 0.5, 0.0]), 300, rng)
    without = ConformalSets().fit(y_proba, y, classes=range(3), target_priors=[0.3, 0.7, 0.0])
    sets = without.predict_set(y_proba)  # no warning
    assert not sets[:, 2].all()
    having = ConformalSets().fit(y_proba, y, classes=range(3), target_priors=[0.27, 0.63, 0.1])
    with pytest.warns(ps.PriorShiftWarning, match="class 2"):
        np.testing.assert_array_equal(having.predict_set(y_proba)[:, :2], sets[:, :2])
    assert having.weights_[2] == 0


# Surface


def test_names_of_the_classes_in_a_set():
    conformal = ConformalSets().fit(
        [[0.5, 0.3, 0.2]] * 3, ["a", "b", "c"], target_priors=[0.2, 0.3, 0.5]
    )
    sets = np.array([[True, False, True], [False, False, False], [False, True, False]])
    assert conformal.class_names(sets) == [["a", "c"], [], ["b"]]
    assert conformal.class_names(sets[:0]) == []
    with pytest.raises(ValueError, match=r"what predict_set returns, .* float64 of shape \(3, 3\)"):
        conformal.class_names(sets.astype(float))


def test_an_unfitted_object_says_so():
    for call in (ConformalSets().thresholds, lambda: ConformalSets().predict_set([[0.5, 0.5]])):
        with pytest.raises(NotFittedError):
            call()


def test_a_failed_fit_changes_nothing():
    y_proba, y = [[0.6, 0.4], [0.3, 0.7]], [0, 1]
    conformal = ConformalSets()
    for bad in ({"target_priors": [0.5, 0.5], "source_priors": [1, 0]}, {"target_priors": [1, 1]}):
        with pytest.raises(ValueError, match="priors"):
            conformal.fit(y_proba, y, **bad)
        with pytest.raises(NotFittedError):
            conformal.thresholds()


def test_parameters_survive_cloning():
    assert clone(ConformalSets("aps", per_class=True, random_state=3)).get_params() == {
        "score": "aps",
        "per_class": True,
        "prior_noise": True,
        "random_state": 3,
    }


def an_estimate():
    return ps.EM().fit(source_priors=[0.5, 0.5]).estimate([[0.4, 0.6], [0.3, 0.7]])


@pytest.mark.parametrize(
    ("parameters", "arguments", "message"),
    [
        ({}, {}, "pass the priors of the target, target_priors= or estimate="),
        ({"per_class": True}, {"source_priors": [0.5, 0.5]}, "pass the priors of the target"),
        (
            {},
            {"estimate": an_estimate(), "target_priors": [0.5, 0.5]},
            "pass it or them",
        ),
        (
            {},
            {"estimate": an_estimate(), "source_priors": [0.5, 0.5]},
            "pass it or them",
        ),
        ({}, {"estimate": [0.5, 0.5]}, "estimate must be a PriorEstimate, .* got list"),
        ({}, {"estimate": an_estimate(), "classes": [1, 0]}, "those of estimate, in its order"),
        ({"score": "raps"}, {"target_priors": [0.5, 0.5]}, "score must be one of"),
        ({}, {"target_priors": [0.5, 0.6]}, "target_priors must sum to 1"),
        (
            {},
            {"target_priors": [0.5, 0.5], "source_priors": [1.0, 0.0]},
            "source_priors is 0 for class 1",
        ),
    ],
)
def test_bad_arguments_are_refused(parameters, arguments, message):
    with pytest.raises(ValueError, match=message):
        ConformalSets(**parameters).fit([[0.6, 0.4], [0.3, 0.7]], [0, 1], **arguments)


def test_a_validation_set_of_other_classes_is_refused():
    with pytest.raises(ValueError, match="0 for every class of y_val"):
        ConformalSets().fit(
            [[0.6, 0.4], [0.3, 0.7]], [0, 0], target_priors=[0, 1], classes=range(2)
        )


@pytest.mark.parametrize("level", [0, 1, 1.5, -0.1, "high", [0.8, 0.9]])
def test_a_level_is_one_number_between_0_and_1(level):
    conformal = ConformalSets().fit([[0.6, 0.4], [0.3, 0.7]], [0, 1], target_priors=[0.5, 0.5])
    with pytest.raises(ValueError, match="confidence_level must be"):
        conformal.predict_set([[0.6, 0.4]], level)


# Noise of the priors


def estimate_of(priors, standard_error):
    shift = ps.EM().fit(source_priors=np.full(3, 1 / 3)).estimate(np.full((4, 3), 1 / 3))
    return replace(shift, priors=np.array(priors), standard_error=standard_error)


def test_the_mean_above_zero_is_that_of_a_truncated_normal_distribution():
    priors, error = np.array([0.0, 0.1, 0.9]), np.array([0.05, 0.1, 0.05])
    means = truncnorm(-priors / error, np.inf, priors, error).mean()
    np.testing.assert_allclose(mean_above_zero(priors, error), means / means.sum())


def test_priors_known_exactly_stay():
    known = estimate_of([0.0, 0.2, 0.8], np.zeros(3))
    np.testing.assert_allclose(mean_above_zero(known.priors, np.zeros(3)), known.priors)


@pytest.mark.parametrize("noise", [True, False])
def test_a_class_that_is_0_by_chance_is_not_left_out(noise):
    shift = estimate_of([0.0, 0.5, 0.5], np.array([0.1, 0.05, 0.05]))
    y_val = np.repeat([0, 1, 2], 30)
    y_proba = 0.1 + 0.7 * np.eye(3)[y_val]
    conformal = ConformalSets(prior_noise=noise).fit(y_proba, y_val, estimate=shift)
    of_first = conformal.predict_set(y_proba[:1], 0.95)[0, 0]
    assert bool(of_first) is noise
    assert (conformal.target_priors_[0] > 0) is np.bool_(noise)


def test_allowing_for_noise_covers_what_was_promised(simulate):
    covered = {True: [], False: []}
    world, target = simulate(5, spread=1.2), np.array([0.4, 0.3, 0.2, 0.05, 0.05])
    for seed in range(30):
        draw = np.random.default_rng(seed)
        y_proba_val, y_val = world.draw(np.full(5, 0.2), 60, draw)
        y_proba, y = world.draw(target, 500, draw)
        known = {"source_priors": world.source_priors, "classes": np.arange(5)}
        shift = ps.SCML().fit(y_proba_val, y_val, **known).estimate(y_proba, confidence_level=0.95)
        for noise, rates in covered.items():
            sets = ConformalSets(prior_noise=noise).fit(y_proba_val, y_val, estimate=shift)
            rates.append(sets.predict_set(y_proba, 0.9)[np.arange(y.size), y].mean())
    assert np.mean(covered[True]) > np.mean(covered[False]) + 0.01
    assert np.mean(covered[True]) > 0.88


def test_other_columns_of_a_frame_are_no_classes(simulate, rng):
    sim = simulate(3)
    y_proba, y = sim.draw(sim.source_priors, 200, rng)
    names = np.array(["ant", "bee", "cow"])
    frame = pd.DataFrame(y_proba, columns=names).assign(id=np.arange(200), label=names[y])
    target = {"target_priors": [0.2, 0.3, 0.5]}
    found = ConformalSets().fit(frame, "label", **target)
    plain = ConformalSets().fit(y_proba, names[y], **target)
    assert found.classes_.tolist() == names.tolist()
    np.testing.assert_array_equal(found.thresholds(0.8), plain.thresholds(0.8))
