"""Diagnostics: numbers by hand, and expected accuracy against the real one."""

import dataclasses
import json
import pickle

import numpy as np
import pytest
from scipy.stats import norm

import priorshift as ps
from priorshift.estimators import PriorEstimate
from priorshift.evidence import Expected, diagnose
from priorshift.evidence._diagnose import confusable_pairs, expected_score


@pytest.fixture
def world(simulate):
    return simulate(4)


@pytest.fixture
def drawn(world, rng):
    priors = np.array([0.5, 0.1, 0.1, 0.3])
    f, y = world.draw(world.source_priors, 8000, rng)
    g, t = world.draw(priors, 3000, rng)
    return f, y, g, t


@pytest.fixture
def estimate(drawn, world):
    return ps.SCML().fit(*drawn[:2], source_priors=world.source_priors).estimate(drawn[2])


def test_numbers_by_hand(drawn, estimate):
    f, y, g, _ = drawn
    found = diagnose(f, y, g, estimate)
    C = ps.Confusion.from_arrays(f, y, decision="soft").conditional
    values = np.linalg.svd(C, compute_uv=False)
    np.testing.assert_allclose(found.smallest_singular_value, values[-1])
    np.testing.assert_allclose(found.condition_number, values[0] / values[-1])
    weight = (estimate.priors / np.bincount(y))[y]  # importance weight of each row
    np.testing.assert_allclose(found.effective_sample_size, weight.sum() ** 2 / (weight**2).sum())
    right = f.argmax(axis=1) == y
    by_class = [right[y == k].mean() for k in range(4)]
    np.testing.assert_allclose(found.accuracy_before.value, estimate.priors @ by_class)


def test_expected_accuracy_is_the_real_one(drawn, estimate):
    f, y, g, t = drawn
    found = diagnose(f, y, g, estimate)
    before = (g.argmax(axis=1) == t).mean()
    after = (estimate.adapt(g).argmax(axis=1) == t).mean()
    assert abs(found.accuracy_before.value - before) < 0.03
    assert abs(found.accuracy_after.value - after) < 0.03
    np.testing.assert_allclose(
        found.accuracy_gain.value, found.accuracy_after.value - found.accuracy_before.value
    )
    assert found.accuracy_gain.low > 0


def test_interval_of_expected_accuracy_by_hand():
    right = np.repeat([1.0, 0.0, 1.0, 0.0], [30, 10, 15, 45])
    y = np.repeat([0, 1], [40, 60])
    p, covariance = np.array([0.3, 0.7]), 0.05**2 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    found = expected_score(right, y, p, covariance, 0.9, (0.0, 1.0), 0.02)
    value = 0.3 * 0.75 + 0.7 * 0.25 - 0.02
    a, b = 31 / 42, 16 / 62  # two samples more
    noise = 0.09 * a * (1 - a) / 40 + 0.49 * b * (1 - b) / 60
    noise += 0.05**2 * (0.75 - 0.25) ** 2 + 0.01**2
    reach = norm.ppf(0.95) * np.sqrt(noise)
    np.testing.assert_allclose(
        [found.value, found.low, found.high], [value, value - reach, value + reach]
    )
    exact = expected_score(right, y, p, 0 * covariance, 0.9, (0.0, 1.0))
    assert exact.high - exact.low < found.high - found.low


def test_expected_accuracy_is_not_flattered_by_estimated_priors(simulate):
    """Few rows of a weak classifier: the plain sum of p_k acc_k is several points too high."""
    world, truth, off = simulate(6, spread=0.8), np.full(6, 1 / 6), {"plain": [], "found": []}
    covered = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        f, y = world.draw(truth, 90, rng)
        g, t = world.draw(truth, 400, rng)
        estimate = ps.SCML().fit(f, y, classes=np.arange(6)).estimate(g)
        found = diagnose(f, y, g, estimate).accuracy_after
        after = (estimate.adapt(g).argmax(axis=1) == t).mean()
        right = (estimate.adapt(f).argmax(axis=1) == y).astype(float)
        plain = estimate.priors @ (np.bincount(y, right) / np.bincount(y))
        off["plain"].append(plain - after)
        off["found"].append(found.value - after)
        covered += found.low <= after <= found.high
    assert np.mean(off["plain"]) > 0.04
    assert abs(np.mean(off["found"])) < 2.5 * np.std(off["found"]) / np.sqrt(40)
    assert covered >= 33


def test_a_class_that_validation_never_predicts_is_no_obstacle(rng):
    """Its row of C is 0, though the target has such predictions."""
    y = rng.integers(3, size=90)
    f = np.zeros((90, 3))
    f[:, :2] = rng.dirichlet([2, 2], 90)
    g = rng.dirichlet([2, 2, 1], 60)
    estimate = ps.EM().fit(source_priors=np.full(3, 1 / 3), classes=np.arange(3)).estimate(g)
    found = diagnose(f, y, g, estimate)
    assert 0 <= found.accuracy_after.low <= found.accuracy_after.high <= 1


def test_a_rule_that_leaves_decisions_alone_is_not_optimistic(drawn, estimate):
    f, y, g, _ = drawn
    alone = dataclasses.replace(estimate, strength=0.0)
    found = diagnose(f, y, g, alone)
    assert abs(found.accuracy_gain.value) < 0.005
    assert found.accuracy_after.value == pytest.approx(found.accuracy_before.value, abs=0.005)


@pytest.mark.slow
def test_interval_of_expected_accuracy_covers(world):
    priors, n, hits = np.array([0.5, 0.1, 0.1, 0.3]), 300, 0
    _, big = None, np.random.default_rng(0)
    f, y = world.draw(priors, 200_000, big)
    truth = (f.argmax(axis=1) == y).mean()
    for seed in range(n):
        f, y = world.draw(world.source_priors, 200, np.random.default_rng([seed, 1]))
        right = (f.argmax(axis=1) == y).astype(float)
        found = expected_score(right, y, priors, np.zeros((4, 4)), 0.95, (0.0, 1.0))
        hits += found.low <= truth <= found.high
    assert 0.91 <= hits / n <= 0.99


def test_classes_that_cannot_be_told_apart(rng):
    y = np.repeat(np.arange(3), 200)
    twins = rng.dirichlet([5, 5, 1], 400)
    other = rng.dirichlet([1, 1, 8], 200)
    assert confusable_pairs(np.vstack([twins, other]), y) == [(0, 1)]
    shifted = twins.copy()
    shifted[:200] = shifted[:200] * 0.8 + 0.2 * np.array([1.0, 0, 0])
    assert confusable_pairs(np.vstack([shifted, other]), y) == []
    few = np.r_[0:4, 200:204, 400:404]  # the same difference, but four samples a class
    assert (0, 1) in confusable_pairs(np.vstack([shifted, other])[few], y[few])


def test_gap_and_noise_of_a_pair_by_hand(rng):
    """A pair is told apart exactly where Welch's statistic of f_a - f_b is above 1.96."""
    for seed in range(30):
        local = np.random.default_rng(seed)
        f = np.vstack([local.dirichlet([3, 2, 2], 12), local.dirichlet([2, 2.5, 2], 9)])
        y = np.repeat([0, 1], [12, 9])
        s = f[:, 0] - f[:, 1]
        welch = (s[:12].mean() - s[12:].mean()) / np.sqrt(
            s[:12].var(ddof=1) / 12 + s[12:].var(ddof=1) / 9
        )
        assert ((0, 1) in confusable_pairs(f, y)) == (welch <= 1.96)


def test_words_and_plain_values(drawn, estimate):
    f, y, g, _ = drawn
    found = diagnose(f, y, g, estimate)
    with pytest.raises(AttributeError):
        found.method = "other"
    assert pickle.loads(pickle.dumps(found)) == found
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["accuracy_before"]["value"] == found.accuracy_before.value
    assert plain["words"] == list(found.words)
    assert f"{found.condition_number:.4g}" in repr(found)
    assert str(found.accuracy_before) in repr(found)
    assert str(Expected(0.5, 0.25, 1.0)) == "0.5 (0.25 to 1)"


def test_standard_errors_widen_the_intervals(drawn, estimate):
    f, y, g, _ = drawn
    named = estimate.to_dict()
    uncertain = PriorEstimate(
        "scm-l",
        estimate.classes,
        estimate.priors,
        estimate.source_priors,
        named["source_priors_from"],
        "certified",
        n_target=3000,
        standard_error=np.full(4, 0.1),
    )
    exact, wide = diagnose(f, y, g, estimate), diagnose(f, y, g, uncertain)
    assert not wide.priors_exact
    assert wide.accuracy_before.low < exact.accuracy_before.low


def test_singular_few_and_unseen_are_told(drawn):
    f, y, g, _ = drawn
    kept = np.flatnonzero(y != 3)[:20]
    flat = np.full((20, 4), 0.25)
    estimate = PriorEstimate(
        "known", np.arange(4), np.array([0.4, 0.2, 0.2, 0.2]), np.full(4, 0.25), "given", "direct"
    )
    found = diagnose(flat, y[kept], g, estimate)
    said = " ".join(found.words)
    assert found.unseen_classes == (3,)
    assert found.to_dict()["condition_number"] is None
    assert "singular" in said
    assert "few samples" in said
    assert "cannot tell apart" in said
    assert "Not in validation" in said
    assert found.priors_exact
    assert "priors as exact" in said
    near = diagnose(0.995 * flat + 0.005 * f[kept], y[kept], g, estimate)
    assert "ill-conditioned" in " ".join(near.words)


def test_harm_is_told(drawn, world):
    f, y, g, _ = drawn
    wrong = PriorEstimate(
        "known",
        np.arange(4),
        world.source_priors,
        np.array([0.94, 0.02, 0.02, 0.02]),
        "given",
        "direct",
    )
    assert diagnose(f, y, g, wrong).accuracy_gain.high < 0


def test_bad_input_is_refused(drawn, estimate):
    f, y, g, _ = drawn
    with pytest.raises(ValueError, match="confidence_level must be above 0"):
        diagnose(f, y, g, estimate, confidence_level=1.0)
    with pytest.raises(ValueError, match="classes must be those of the estimate"):
        diagnose(f, y, g, estimate, classes=[1, 0, 2, 3])
    with pytest.raises(ValueError, match=r"estimate must be a PriorEstimate.*; got list"):
        diagnose(f, y, g, [0.25] * 4)
    only = PriorEstimate("known", np.arange(4), np.eye(4)[3], np.full(4, 0.25), "given", "direct")
    kept = y != 3
    with pytest.raises(ValueError, match="no sample of any class"):
        diagnose(f[kept], y[kept], g, only)


# Expected accuracy by itself


def test_expected_accuracy_with_given_priors_is_a_weighted_mean_of_recalls(drawn):
    f, y, g, _ = drawn
    priors = np.array([0.5, 0.1, 0.1, 0.3])
    recall = [(f[y == k].argmax(axis=1) == k).mean() for k in range(4)]
    found = ps.expected_accuracy(f, y, g, priors)
    assert found.value == pytest.approx(priors @ recall)
    named = ps.expected_accuracy(f, y, g, dict(enumerate(priors.tolist())), classes=range(4))
    assert named == found


def test_expected_accuracy_estimates_priors_and_includes_their_noise(drawn, estimate):
    f, y, g, t = drawn
    found = ps.expected_accuracy(f, y, g)
    assert found.low < (g.argmax(axis=1) == t).mean() < found.high
    of_estimate = ps.expected_accuracy(f, y, g, estimate)
    assert of_estimate == diagnose(f, y, g, estimate).accuracy_before
    exact = ps.expected_accuracy(f, y, g, estimate.priors)
    assert exact.value == pytest.approx(of_estimate.value)
    assert exact.high - exact.low < of_estimate.high - of_estimate.low


def test_expected_accuracy_refuses_what_it_cannot_know(drawn):
    f, y, g, _ = drawn
    kept = y != 3
    with pytest.raises(ValueError, match="no sample of any class that the priors give"):
        ps.expected_accuracy(f[kept], y[kept], g, [0, 0, 0, 1], classes=range(4))
    with pytest.raises(ValueError, match="priors"):
        ps.expected_accuracy(f, y, g, [0.5, 0.5])


def test_the_gain_is_what_the_method_itself_expects(drawn):
    """One quantity, one number: the assessment, its diagnostics and Auto's decision agree."""
    f, y, g, _ = drawn
    found = ps.assess(f, y, g)
    decided, diagnostics = found.estimate.decision, found.diagnostics
    gain = diagnostics.accuracy_gain
    (promised,) = (one.numbers for one in found.facts if one.name == "if_prior_shift")
    assert promised["value"] == gain.value == decided["expected_gain"]
    assert (promised["low"], promised["high"]) == pytest.approx((gain.low, gain.high))
    (moved,) = (one.numbers["moved"] for one in found.facts if one.name == "shifted")
    assert moved == found.estimate.total_variation
    assert found.shift_test.effect_size is None


@pytest.mark.parametrize("row", [(0.4, 0.1, 0.5), (0.0, 1.0 - 1e-12, 1e-12)])
def test_a_decision_that_validation_never_made_tells_nothing(row):
    val, y = np.tile([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], (20, 1)), np.tile([0, 1], 20)
    found = ps.expected_accuracy(val, y, np.tile(row, (30, 1)), classes=[0, 1, 2])
    assert 0 <= found.low <= found.value <= found.high <= 1
