"""Auto: that it helps where it can, harms nowhere, and says what it does."""

import json
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, softmax

import priorshift as ps
from priorshift.border import rows
from priorshift.calibration import CalibrationAverage
from priorshift.estimators import auto as auto_module
from priorshift.estimators import mean as mean_module
from priorshift.estimators.shares import Shares, estimate_shares
from priorshift.intervals import IntervalRequest, Votes
from priorshift.solvers import Mixture, maximise
from priorshift.text import short_points

K = 5
TARGET = np.array([0.05, 0.1, 0.15, 0.2, 0.5])


@pytest.fixture
def simulation(simulate):
    return simulate(K, spread=1.2)


def accuracy(y_proba, y):
    return float((y_proba.argmax(axis=1) == y).mean())


def log_loss(y_proba, y):
    return -float(np.log(np.maximum(y_proba[np.arange(y.size), y], 1e-30)).mean())


def flattened(y_proba, factor=0.05):
    """Return outputs that say nearly 1/K of everything, as boosted trees do."""
    return softmax(factor * np.log(y_proba), axis=1)


def rare(rng, n, share, separation=2.0):
    """Return outputs of a model that was trained half and half, and labels."""
    y = (rng.random(n) < share).astype(int)
    positive = 1 / (1 + np.exp(separation**2 / 2 - separation * rng.normal(separation * y)))
    return np.column_stack([1 - positive, positive]), y


# Gains and harm


def test_under_no_shift_next_to_nothing_changes(simulation):
    gains = []
    for seed in range(8):
        draw = np.random.default_rng(seed)
        y_proba_val, y_val = simulation.draw(simulation.source_priors, 500, draw)
        y_proba, y = simulation.draw(simulation.source_priors, 500, draw)
        shift = ps.Auto().fit(y_proba_val, y_val, classes=np.arange(K)).estimate(y_proba)
        adapted = shift.adapt(y_proba)
        gains.append(accuracy(adapted, y) - accuracy(y_proba, y))
        if shift.decision["adapt"]:
            continue
        assert shift.action == "none"
        np.testing.assert_array_equal(adapted, y_proba)
    assert gains.count(0.0) >= 4
    assert np.mean(gains) > -0.005
    assert min(gains) > -0.03


def test_under_shift_it_gains_what_true_priors_gain(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 3000, rng)
    y_proba, y = simulation.draw(TARGET, 5000, rng)
    auto = ps.Auto(random_state=0).fit(y_proba_val, y_val)
    shift = auto.estimate(y_proba)
    oracle = accuracy(ps.adapt_proba(y_proba, simulation.source_priors, TARGET), y)
    assert np.abs(shift.priors - TARGET).sum() < 0.08
    assert accuracy(shift.adapt(y_proba), y) > oracle - 0.007
    assert accuracy(shift.adapt(y_proba), y) > accuracy(y_proba, y) + 0.02
    np.testing.assert_array_equal(auto.adapt(y_proba), shift.adapt(y_proba))


def test_flat_outputs_ruin_em_and_not_auto(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 2000, rng)
    y_proba, y = simulation.draw(TARGET, 4000, rng)
    flat_val, flat = flattened(y_proba_val), flattened(y_proba)
    em = ps.EM().fit(flat_val, y_val, source_priors=flat_val.mean(axis=0)).adapt(flat)
    auto = accuracy(ps.Auto().fit(flat_val, y_val).adapt(flat), y)
    assert accuracy(em, y) < accuracy(flat, y) - 0.1
    assert auto > accuracy(flat, y) + 0.02


def test_the_promise_is_about_what_is_gained(simulation):
    beyond = []
    for seed in range(8):
        draw = np.random.default_rng(seed)
        y_proba_val, y_val = simulation.draw(simulation.source_priors, 800, draw)
        y_proba, y = simulation.draw(TARGET, 2000, draw)
        y_proba_val, y_proba = flattened(y_proba_val, 2.0), flattened(y_proba, 2.0)
        shift = ps.Auto().fit(y_proba_val, y_val).estimate(y_proba)
        assert shift.decision["adapt"]
        real = accuracy(shift.adapt(y_proba), y) - accuracy(y_proba, y)
        promised, error = (shift.decision[k] for k in ("expected_gain", "expected_gain_se"))
        beyond.append((real - promised) / error)
    assert np.abs(beyond).max() < 3.5
    assert abs(np.mean(beyond)) < 1.5


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.01, 0.05, 0.5])
def test_rare_positives_of_a_balanced_model(share):
    """Trained half and half, 1 % positives in validation, and nothing else told."""
    gains, errors = [], []
    for seed in range(8):
        draw = np.random.default_rng([seed, int(1000 * share)])
        y_proba_val, y_val = rare(draw, 2000, 0.01)
        y_proba, y = rare(draw, 1000, share)
        shift = ps.Auto().fit(y_proba_val, y_val, classes=[0, 1]).estimate(y_proba)
        before = accuracy(y_proba, y)
        oracle = accuracy(y_proba * [1 - share, share], y) - before
        gain = accuracy(shift.adapt(y_proba), y) - before
        gains.append([100 * gain, 100 * oracle])
        errors.append(abs(shift.priors[1] - share))
        assert "class weights" in shift.decision["mismatch"]
    gain, oracle = np.mean(gains, axis=0)
    assert gain > oracle - 3
    assert min(gains)[0] > -3
    assert np.mean(errors) < 0.01 + 0.15 * share


def test_three_positives_do_no_harm():
    for seed in range(5):
        draw = np.random.default_rng(seed)
        y_proba_val, y_val = rare(draw, 300, 0.01)
        y_val[:3] = 1
        y_proba_val[:3] = rare(draw, 3, 1.0)[0]
        y_proba, y = rare(draw, 1000, 0.01)
        adapted = ps.Auto().fit(y_proba_val, y_val).adapt(y_proba)
        assert accuracy(adapted, y) > accuracy(y_proba, y) - 0.03


def test_validation_may_be_balanced_otherwise(simulation, rng):
    y_proba_val, y_val = simulation.draw(np.full(K, 1 / K), 4000, rng)
    y_proba, _ = simulation.draw(simulation.source_priors, 4000, rng)
    priors = {"source_label_priors": simulation.source_priors}
    shift = ps.Auto().fit(y_proba_val, y_val, **priors).estimate(y_proba)
    assert not shift.decision["adapt"]
    np.testing.assert_allclose(shift.priors, simulation.source_priors, atol=0.03)


def test_rows_that_are_all_alike_are_evidence_too(simulation, rng):
    """They show no spread of their own, which once made validation's noise outweigh them."""
    auto = ps.Auto().fit(*simulation.draw(simulation.source_priors, 500, rng))
    assert auto.estimate(np.tile(np.eye(K)[2], (50, 1))).priors[2] > 0.7


# What priors and probabilities are where decisions are left alone


def test_priors_are_label_shares_also_where_decisions_are_left_alone(simulate, rng):
    simulation = simulate(8, spread=1.0)
    equal = np.full(8, 1 / 8)

    def miscalibrated(n):
        y_proba, y = simulation.draw(equal, n, rng)
        y_proba = y_proba / simulation.source_priors
        y_proba /= y_proba.sum(axis=1, keepdims=True)
        skewed = y_proba**1.5 * np.linspace(0.6, 1.6, 8)
        return skewed / skewed.sum(axis=1, keepdims=True), y

    y_proba_val, y_val = miscalibrated(4000)
    y_proba, _ = miscalibrated(4000)
    shift = ps.Auto(caution=1000).fit(y_proba_val, y_val).estimate(y_proba)
    assert not shift.decision["adapt"]
    assert np.abs(y_proba.mean(axis=0) - 1 / 8).max() > 0.04
    np.testing.assert_allclose(shift.priors, 1 / 8, atol=0.02)


def test_left_alone_predictions_stay_as_they_are_to_the_last_digit(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 1000, rng)
    y_proba, _ = simulation.draw(simulation.source_priors, 2000, rng)
    flat_val, flat = flattened(y_proba_val), flattened(y_proba)
    shift = ps.Auto().fit(flat_val, y_val).estimate(flat)
    assert not shift.decision["adapt"]
    assert shift.action == "none"
    assert shift.calibrator is None
    np.testing.assert_array_equal(shift.adapt(flat), flat)
    assert shift.decision["calibration"] == "none"


@pytest.mark.parametrize("adapts", [True, False])
def test_the_same_estimate_calibrates_or_adapts_whatever_was_decided(simulation, rng, adapts):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 1000, rng)
    y_proba, y = simulation.draw(TARGET, 2000, rng)
    flat_val, flat = flattened(y_proba_val), flattened(y_proba)
    auto = ps.Auto(caution=1e-3 if adapts else 1e3).fit(flat_val, y_val)
    shift = auto.estimate(flat)
    assert shift.action == ("adapt" if adapts else "none")
    again = ps.PriorEstimate.from_dict(json.loads(json.dumps(shift.to_dict())))
    for found in (shift, again):
        calibrated = found.with_action("calibrate")
        assert calibrated.action == "calibrate"
        np.testing.assert_array_equal(calibrated.priors, shift.priors)
        np.testing.assert_allclose(
            calibrated.adapt(flat), shift.calibration.apply(flat), atol=1e-12
        )
        full = found.with_action("adapt").adapt(flat)
        by_hand = ps.adapt_proba(calibrated.adapt(flat), shift.source_priors, shift.priors)
        np.testing.assert_allclose(full, by_hand, atol=1e-12)
        np.testing.assert_array_equal(found.with_action("none").adapt(flat), flat)
        assert found.with_action("none").with_action("adapt").action == "adapt"
    assert log_loss(calibrated.adapt(flat), y) < log_loss(flat, y) - 0.5
    assert log_loss(full, y) < log_loss(calibrated.adapt(flat), y) - 0.1
    with pytest.raises(ValueError, match="action must be one of"):
        shift.with_action("leave")


def out_of_fold(auto):
    """Return calibrated validation in the order of the rows that `fit` got."""
    found = np.empty_like(auto._calibration.y_proba)
    found[auto._calibration.order] = auto._calibration.y_proba
    return found


def test_validation_is_calibrated_out_of_fold_in_its_own_order(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 600, rng)
    flat = flattened(y_proba_val)
    auto = ps.Auto(random_state=0).fit(flat, y_val)
    found = out_of_fold(auto)
    assert np.abs(found - auto._calibration.average.apply(flat)).max() < 0.1
    assert log_loss(found, y_val) < log_loss(flat, y_val) - 0.5


def test_log_loss_falls_as_well_where_it_adapts(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 1000, rng)
    y_proba, y = simulation.draw(TARGET, 2000, rng)
    flat_val, flat = flattened(y_proba_val), flattened(y_proba)
    adapted = ps.Auto().fit(flat_val, y_val).adapt(flat)
    exact = ps.adapt_proba(y_proba, simulation.source_priors, TARGET)
    assert log_loss(adapted, y) < log_loss(exact, y) + 0.02


# Little to go by


def test_the_second_reading_is_scm_m_of_calibrated_outputs_with_shrunk_columns(
    simulation, rng, monkeypatch
):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 60, rng)
    y_proba, _ = simulation.draw(TARGET, 500, rng)
    auto = ps.Auto().fit(y_proba_val, y_val, classes=np.arange(K))
    shares, calibrated, *_ = auto._read(y_proba)
    outputs, source = out_of_fold(auto).astype(float), auto._balance.priors
    columns = np.empty((K, K))
    omega = (source / (np.bincount(y_val) / y_val.size))[y_val]
    for k in range(K):
        own = (omega * outputs[:, k]) @ outputs / (omega @ outputs[:, k])
        rows = outputs[y_val == k]
        columns[:, k] = (rows.sum(axis=0) + 15 * own) / (len(rows) + 15)

    def unlikely(free):
        p = np.exp(free) / np.exp(free).sum()
        return -(calibrated.sum(axis=0) @ np.log(columns @ p) + 2 * np.log(p).sum())

    free = minimize(unlikely, np.zeros(K), method="BFGS").x
    expected = np.exp(free) / np.exp(free).sum()
    monkeypatch.setattr(auto_module, "LEAST_SHARE", 1.0)  # the first reading alone
    first = auto._read(y_proba).shares
    share = first.priors @ (15 / (15 + np.bincount(y_val))) / 2
    found = first.priors + (shares.priors - first.priors) / share
    np.testing.assert_allclose(found, expected, atol=1e-3)
    assert np.trace(shares.doubt) > 0
    assert first.doubt == 0


@pytest.mark.slow
def test_the_error_of_the_gain_has_the_noise_of_the_rows_it_is_earned_on(simulation):
    """With ample validation, what differs between small targets is mostly which rows they have."""
    rng, off = np.random.default_rng(0), []
    auto = ps.Auto(random_state=0).fit(*simulation.draw(simulation.source_priors, 8000, rng))
    for _ in range(60):
        y_proba, y = simulation.draw(TARGET, 300, rng)
        shift = auto.estimate(y_proba)
        real = accuracy(shift.adapt(y_proba), y) - accuracy(y_proba, y)
        promised, error = (shift.decision[k] for k in ("expected_gain", "expected_gain_se"))
        assert shift.decision["adapt"]
        off.append((real - promised) / error)
    assert 0.75 < np.sqrt(np.mean(np.square(off))) < 1.25


@pytest.mark.slow
def test_few_rows_promise_no_more_than_they_can_keep():
    """Eight classes of some eight rows each; half of the targets are not shifted."""
    off, gains = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        centres, tilt = rng.normal(size=(8, 5)), rng.normal(scale=0.7, size=8)
        source = 0.5 * rng.dirichlet(np.ones(8)) + 0.0625

        def draw(n, priors, rng=rng, centres=centres, tilt=tilt):
            y = rng.choice(8, n, p=priors)
            scores = (centres[y] + rng.normal(size=(n, 5))) @ centres.T
            return softmax(scores - (centres**2).sum(axis=1) / 2 + tilt, axis=1), y

        y_proba_val, y_val = draw(64, source)
        y_proba, y = draw(500, rng.dirichlet(np.ones(8)) if seed % 2 else source)
        given = {"source_label_priors": source, "classes": np.arange(8)}
        shift = ps.Auto(random_state=0).fit(y_proba_val, y_val, **given).estimate(y_proba)
        gains.append(accuracy(shift.adapt(y_proba), y) - accuracy(y_proba, y))
        if shift.decision["adapt"]:
            promised, error = (shift.decision[k] for k in ("expected_gain", "expected_gain_se"))
            off.append((gains[-1] - promised) / error)
    assert len(off) >= 8
    assert np.mean(np.abs(off) < 1.96) >= 0.9
    assert min(gains) > -0.05  # of which some is noise of the labels
    assert np.mean(gains) > 0.015


@pytest.mark.parametrize(
    ("full", "half", "strength"),
    [(0.105, 0.2, 1.0), (0.095, 0.105, 0.5), (0.095, 0.09, 0.0), (0.3, 0.1, 1.0)],
)
def test_a_gain_must_exceed_the_caution_of_assess(
    simulation, rng, monkeypatch, full, half, strength
):
    """In full, or else half the way; what `adapt` then does is what was judged."""
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 300, rng)
    y_proba, _ = simulation.draw(TARGET, 300, rng)
    auto = ps.Auto().fit(y_proba_val, y_val)
    gains = {
        1.0: auto_module.ExpectedGain(full, 0.1, 0.2),
        0.5: auto_module.ExpectedGain(half, 0.1, 0.2),
    }
    monkeypatch.setattr(auto_module, "expected_gain", lambda *_, strength, **__: gains[strength])
    shift = auto.estimate(y_proba)
    decision = shift.decision
    assert shift.strength == decision["strength"] == strength
    assert decision["adapt"] is (strength > 0)
    assert decision["expected_gain"] == (half if strength == 0.5 else full)
    assert (decision["full_gain"], decision["full_gain_se"]) == (full, 0.1)
    assert ("half the way" in decision["sentence"]) is (strength == 0.5)
    assert shift.with_action("adapt").strength == 1
    if strength:
        calibrated = shift.with_action("calibrate").adapt(y_proba)
        adapted = calibrated * shift.ratio**strength
        adapted /= adapted.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(shift.adapt(y_proba), adapted, atol=1e-9)


def test_too_few_samples_change_no_decision(simulation, rng):
    y_proba_val, y_val = simulation.draw(np.full(K, 1 / K), 25, rng)
    y_proba, _ = simulation.draw(simulation.source_priors, 3, rng)
    shift = ps.Auto().fit(y_proba_val, y_val, classes=np.arange(K)).estimate(y_proba)
    assert shift.strength == 0
    assert shift.decision["sentence"].startswith(("Leave the predictions", "Unclear"))


@pytest.mark.parametrize(("y_val", "n_target"), [([0, 0, 0], 3), ([0, 1, 1], 1), ([0, 1, 1], 3)])
def test_next_to_nothing_changes_nothing(y_val, n_target):
    y_proba = [[0.6, 0.4], [0.3, 0.7], [0.2, 0.8]]
    auto = ps.Auto().fit(y_proba, y_val, classes=[0, 1])
    target = np.tile([0.4, 0.6], (n_target, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.PriorShiftWarning)  # validation may lack a class
        np.testing.assert_array_equal(auto.adapt(target).argmax(axis=1), 1)


def test_a_class_that_validation_lacks_is_no_obstacle(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 2000, rng)
    kept = y_val != 4
    y_proba, _ = simulation.draw(TARGET, 3000, rng)
    auto = ps.Auto().fit(
        y_proba_val[kept],
        y_val[kept],
        source_priors=simulation.source_priors,
        classes=np.arange(K),
    )
    shift = auto.estimate(y_proba)
    assert np.abs(shift.priors - TARGET).sum() < 0.1
    assert shift.unseen_classes == (4,)


@pytest.mark.parametrize("given", ["source_priors", "source_label_priors"])
def test_intervals_cover_also_a_class_that_validation_lacks(simulate, given):
    """The priors of training are known, so predictions tell of the class all the same."""
    simulation = simulate(K, spread=2.0)
    source = simulation.source_priors
    hits = []
    for seed in range(8):
        draw = np.random.default_rng(seed)
        y_proba_val, y_val = simulation.draw(source, 500, draw)
        y_proba, _ = simulation.draw(TARGET, 1000, draw)
        kept = y_val != 4
        auto = ps.Auto().fit(y_proba_val[kept], y_val[kept], classes=range(K), **{given: source})
        low, high = np.transpose(auto.estimate(y_proba, 0.95).interval)
        hits.append((low <= TARGET) & (high >= TARGET))
    assert np.mean(hits) > 0.85
    assert np.mean(hits, axis=0)[4] > 0.7


def test_a_class_without_samples_and_source_prior_leaves_predictions_alone(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 1000, rng)
    kept = y_val != 4
    y_proba, _ = simulation.draw(TARGET, 1000, rng)
    auto = ps.Auto().fit(y_proba_val[kept], y_val[kept], classes=np.arange(K))
    with pytest.warns(ps.PriorShiftWarning, match="no sample of class 4.*Give source_priors"):
        shift = auto.estimate(y_proba)
    assert shift.unseen_classes == (4,)
    np.testing.assert_array_equal(shift.adapt(y_proba).argmax(axis=1), y_proba.argmax(axis=1))
    assert shift.decision["adapt"] is False
    assert shift.decision["reason"] == "unknown_class"
    assert shift.decision["unknown_classes"] == [4]
    assert "no row of class “4”" in shift.decision["sentence"]
    assert "may help or harm" not in shift.decision["sentence"]


def test_validation_of_other_classes_than_the_source_is_refused():
    with pytest.raises(ValueError, match="no sample of any class of source_label_priors"):
        ps.Auto().fit(
            [[0.5, 0.3, 0.2]] * 3, [0, 0, 0], classes=[0, 1, 2], source_label_priors=[0, 0.5, 0.5]
        )


def test_it_needs_labels_and_all_of_validation_at_once():
    with pytest.raises(ValueError, match="Auto needs a validation set"):
        ps.Auto().fit(source_priors=[0.5, 0.5])
    with pytest.raises(ValueError, match="Auto needs validation labels"):
        ps.Auto().fit([[0.5, 0.5]])
    with pytest.raises(ValueError, match="all of validation at once; use fit"):
        ps.Auto().partial_fit([[0.5, 0.5]], [0], classes=[0, 1])
    with pytest.raises(ValueError, match="cv must be"):
        ps.Auto(cv=1).fit([[0.5, 0.5]], [0])
    with pytest.raises(ValueError, match="caution must be"):
        ps.Auto(caution=-1).fit([[0.5, 0.5]], [0])


def test_outputs_that_never_named_a_class_say_nothing_of_its_share():
    """On validation one class takes all; on the target it takes nothing."""
    y_val = np.random.default_rng(2).integers(40, size=30)
    y_proba = np.zeros((50, 40))
    y_proba[:, [0, -1]] = 0.5
    fitted = ps.Auto(random_state=0).fit(np.eye(40)[np.ones(30, int)], y_val, classes=range(40))
    priors = fitted.estimate(y_proba).priors
    assert priors.sum() == pytest.approx(1)
    assert priors[1] < 0.1


# The decision


def test_the_decision_is_data_and_sentences(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 1000, rng)
    y_proba, _ = simulation.draw(TARGET, 1000, rng)
    shift = ps.Auto().fit(flattened(y_proba_val), y_val).estimate(flattened(y_proba))
    decision = shift.decision
    assert decision["adapt"] is True
    assert decision["reason"] == "helps"
    assert decision["unknown_classes"] == []
    assert decision["expected_gain"] > decision["expected_gain_se"] > 0
    assert 0 < decision["changed_decisions"] < 1
    assert sum(decision["calibration_weights"].values()) == pytest.approx(1)
    assert decision["calibration"] in decision["calibration_weights"]
    assert "far from calibrated" in decision["mismatch"]
    assert 0 <= decision["raw_weight"] <= 1
    assert 0 < decision["row_weight"] <= 1
    assert decision["rows_looked_at"] == 1000
    gain = short_points(decision["expected_gain"]).lstrip("+")
    assert decision["sentence"].startswith(f"Adapt: accuracy should rise by about {gain} points (")
    assert shift.status == "stationary"


@pytest.mark.parametrize("priors", [TARGET, None])
def test_the_result_is_json_and_lasts_to_the_last_bit(simulation, rng, priors):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 400, rng)
    priors = simulation.source_priors if priors is None else priors
    y_proba = flattened(simulation.draw(priors, 400, rng)[0])
    shift = ps.Auto().fit(flattened(y_proba_val), y_val).estimate(y_proba)
    plain = json.loads(json.dumps(shift.to_dict()))
    assert plain["decision"]["sentence"] == shift.decision["sentence"]
    again = ps.PriorEstimate.from_dict(plain)
    assert type(again.calibrator) is type(shift.calibrator)
    np.testing.assert_array_equal(again.priors, shift.priors)
    np.testing.assert_array_equal(again.adapt(y_proba), shift.adapt(y_proba))
    assert again.decision == shift.decision
    if shift.decision["adapt"]:
        assert isinstance(again.calibrator, CalibrationAverage)
        assert again.calibrator.weights == shift.calibrator.weights
        for one, other in zip(again.calibrator.maps, shift.calibrator.maps, strict=True):
            assert one.name == other.name
            np.testing.assert_array_equal(one.slope, other.slope)
            np.testing.assert_array_equal(one.bias, other.bias)
            np.testing.assert_array_equal(one.floor, other.floor)


@pytest.mark.parametrize("reason", ["no_shift", "helps"])
def test_the_decision_has_its_reason(simulation, rng, reason):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 2000, rng)
    priors = TARGET if reason == "helps" else simulation.source_priors
    y_proba, _ = simulation.draw(priors, 2000, rng)
    decision = ps.Auto().fit(y_proba_val, y_val).estimate(y_proba).decision
    assert decision["reason"] == reason


def test_little_evidence_is_a_reason_of_its_own(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 500, rng)
    y_proba, _ = simulation.draw(TARGET, 2000, rng)
    decision = ps.Auto(caution=50).fit(y_proba_val, y_val).estimate(y_proba).decision
    assert decision["reason"] == "unsure"
    assert "adapting may help or harm" in decision["sentence"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "class frequencies on validation, taken to be drawn as the training set was"),
        ("source_priors", "source_priors"),
        ("source_label_priors", "given (source_label_priors)"),
    ],
)
def test_the_result_says_where_source_priors_are_from(simulation, rng, given, said):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 200, rng)
    y_proba, _ = simulation.draw(TARGET, 300, rng)
    known = {given: simulation.source_priors} if given else {}
    assert said in ps.Auto().fit(y_proba_val, y_val, **known).estimate(y_proba).source_priors_from


# As data


def test_it_is_deterministic_and_survives_pickling(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 800, rng)
    y_proba = flattened(simulation.draw(TARGET, 800, rng)[0])
    first = ps.Auto(random_state=1).fit(flattened(y_proba_val), y_val)
    second = ps.Auto(random_state=1).fit(flattened(y_proba_val), y_val)
    copy = pickle.loads(pickle.dumps(first))
    for other in (second, copy):
        np.testing.assert_array_equal(other.adapt(y_proba), first.adapt(y_proba))
    shift = pickle.loads(pickle.dumps(first.estimate(y_proba)))
    np.testing.assert_array_equal(shift.adapt(y_proba), first.adapt(y_proba))


def test_logits_adapt_to_the_same(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 800, rng)
    y_proba = flattened(simulation.draw(TARGET, 800, rng)[0])
    shift = ps.Auto().fit(flattened(y_proba_val), y_val).estimate(y_proba)
    assert isinstance(shift.calibrator, CalibrationAverage)
    np.testing.assert_allclose(
        shift.adapt(np.log(y_proba) + 3.0, from_logits=True), shift.adapt(y_proba), atol=1e-12
    )


def test_the_order_of_classes_makes_no_difference(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 800, rng)
    y_proba, _ = simulation.draw(TARGET, 800, rng)
    turned = np.array([3, 0, 4, 1, 2])
    first = ps.Auto().fit(y_proba_val, y_val, classes=np.arange(K)).estimate(y_proba)
    second = ps.Auto().fit(y_proba_val[:, turned], y_val, classes=turned)
    np.testing.assert_allclose(
        second.estimate(y_proba[:, turned]).priors, first.priors[turned], atol=2e-3
    )


def test_float32_gives_nearly_the_same(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 800, rng)
    y_proba, _ = simulation.draw(TARGET, 800, rng)
    exact = ps.Auto().fit(y_proba_val, y_val).estimate(y_proba)
    rough = ps.Auto().fit(y_proba_val.astype("f4"), y_val).estimate(y_proba.astype("f4"))
    np.testing.assert_allclose(rough.priors, exact.priors, atol=2e-3)
    assert rough.adapt(y_proba.astype("f4")).dtype == np.float32


def test_weights_are_repeated_rows_nearly(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 600, rng)
    y_proba, _ = simulation.draw(TARGET, 1000, rng)
    times = rng.integers(1, 4, y_val.size)
    weighted = ps.Auto().fit(y_proba_val, y_val, sample_weight=times).estimate(y_proba)
    repeated = ps.Auto().fit(np.repeat(y_proba_val, times, axis=0), np.repeat(y_val, times))
    repeated = repeated.estimate(y_proba)
    np.testing.assert_allclose(weighted.priors, repeated.priors, atol=0.03)
    assert weighted.decision["adapt"] == repeated.decision["adapt"]


def test_a_large_target_is_judged_by_a_sample(simulation, rng, monkeypatch):
    auto = ps.Auto().fit(*simulation.draw(simulation.source_priors, 500, rng))
    y_proba = simulation.draw(TARGET, 4000, rng)[0].astype(np.float32)
    monkeypatch.setattr(rows, "SAMPLE_NUMBERS", 1000)
    shift = auto.estimate(y_proba)
    assert shift.decision["rows_looked_at"] < 4000
    assert "of the target's 4,000 rows" in shift.decision["sentence"]
    assert np.abs(shift.priors - TARGET).sum() < 0.2


# Intervals


@pytest.mark.slow
def test_intervals_hold_the_truth_also_for_flat_outputs(simulation):
    covered = []
    for seed in range(40):
        draw = np.random.default_rng(seed)
        y_proba_val, y_val = simulation.draw(simulation.source_priors, 400, draw)
        y_proba, _ = simulation.draw(TARGET, 400, draw)
        auto = ps.Auto().fit(flattened(y_proba_val), y_val, classes=np.arange(K))
        shift = auto.estimate(flattened(y_proba), confidence_level=0.9)
        lower, upper = shift.interval.T
        assert ((lower <= shift.priors) & (shift.priors <= upper)).all()
        covered.append((lower <= TARGET) & (upper >= TARGET))
    assert 0.83 <= np.mean(covered) <= 0.98  # 200 intervals at 90 %, some of them correlated


@pytest.mark.slow
def test_intervals_are_narrower_than_those_of_moments_with_few_rows(simulation):
    """Ten rows per class: what is known of the calibrator says more than its confusion matrix."""
    covered, widths = [], []
    for seed in range(12):
        draw = np.random.default_rng(seed)
        y_proba_val, y_val = simulation.draw(np.full(K, 1 / K), 10 * K, draw)
        y_proba, _ = simulation.draw(TARGET, 1000, draw)
        auto = ps.Auto().fit(
            y_proba_val, y_val, source_priors=simulation.source_priors, classes=np.arange(K)
        )
        shift = auto.estimate(y_proba, confidence_level=0.95)
        request = IntervalRequest(0.95, draw)
        calibrated, held_out = auto._calibration.average.apply(y_proba), auto._sample
        votes = Votes.of(auto._soft, calibrated, held_out.y_proba, held_out.y, held_out.weight)
        moments = votes.interval(shift.priors, request).interval
        lower, upper = shift.interval.T
        covered.append((lower <= TARGET) & (upper >= TARGET))
        widths.append([np.ptp(one, axis=1).mean() for one in (shift.interval, moments)])
    assert np.mean(covered) > 0.9
    ours, theirs = np.mean(widths, axis=0)
    assert ours < 0.9 * theirs


def test_intervals_that_it_has_not_are_refused(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 300, rng)
    auto = ps.Auto().fit(y_proba_val, y_val)
    with pytest.raises(ValueError, match="Auto has no Bayesian interval"):
        auto.estimate(y_proba_val, confidence_level=0.9, interval_method="bayesian")


@pytest.mark.parametrize(
    ("K", "n_val", "thin"), [(60, 400, True), (60, 600, False), (20, 90, False)]
)
def test_thin_validation_is_said(rng, K, n_val, thin):
    y = np.arange(n_val) % K
    val = 0.3 * rng.dirichlet(np.ones(K), n_val) + 0.7 * np.eye(K)[y]
    target = 0.3 * rng.dirichlet(np.ones(K), 300) + 0.7 * np.eye(K)[rng.integers(K, size=300)]
    shift = ps.Auto().fit(val, y).estimate(target)
    assert any("validation is thin, 400 rows for 60 classes" in c for c in shift.cautions) == thin
    assert thin or not any("thin" in caution for caution in shift.cautions)


# Its rules, by hand


@pytest.fixture
def few(simulation, rng):
    """Auto on few rows per class, and a target."""
    y_proba, y = simulation.draw(np.full(K, 1 / K), 60, rng)
    return ps.Auto(random_state=0).fit(y_proba, y), simulation.draw(TARGET, 200, rng)[0]


def test_few_rows_of_a_class_make_its_share_doubtful(few, monkeypatch):
    """By the share of the target that is of such classes, half of it at the most."""
    auto, y_proba = few
    seen, real = [], auto_module.expected_gain

    def watch(priors, covariance, *others, **named):
        seen.append((priors, covariance))
        return real(priors, covariance, *others, **named)

    monkeypatch.setattr(auto_module, "expected_gain", watch)
    auto.estimate(y_proba)
    read = auto._read(y_proba)
    monkeypatch.setattr(auto_module, "LEAST_SHARE", 1.0)
    plain = auto._read(y_proba).shares
    n = auto.confusion_.class_weights
    share = plain.priors @ (auto_module.FEW_ROWS / (auto_module.FEW_ROWS + n)) / 2
    sums = read.calibrated.sum(axis=0, dtype=float)
    moments = Mixture(auto._class_outputs, weights=sums, alpha=auto_module.MOMENTS_ALPHA)
    found = maximise(moments, tol=auto_module.MOMENTS_TOL, start=auto._balance.priors).value
    apart = found - plain.priors
    np.testing.assert_allclose(read.shares.priors, plain.priors + share * apart)
    doubt = 2 * share * (np.outer(apart, apart) + 2 * plain.jackknife)
    for priors, covariance in seen:
        np.testing.assert_allclose(priors, read.shares.priors)
        np.testing.assert_allclose(covariance, plain.noise + doubt)


@pytest.mark.parametrize(("excess", "most"), [(0.0, 300), (3.0, 300), (3.0, 6)])
def test_raw_outputs_count_by_the_odds_that_calibrating_helps_no_more(
    simulation, rng, monkeypatch, excess, most
):
    y_proba, y = simulation.draw(np.full(K, 1 / K), 60, rng)
    real = mean_module.average_calibration
    monkeypatch.setattr(
        mean_module, "average_calibration", lambda *a, **k: replace(real(*a, **k), excess=excess)
    )
    monkeypatch.setattr(auto_module, "RAW_ROWS", most)
    odds = auto_module.RAW_ODDS * np.exp(-excess * min(1, most / 60))
    decision = ps.Auto(random_state=0).fit(y_proba, y).estimate(y_proba).decision
    assert decision["raw_weight"] == pytest.approx(odds / (1 + odds))


def test_mixing_raw_outputs_in_adds_what_both_estimates_differ_by(few, monkeypatch):
    auto, y_proba = few
    monkeypatch.setattr(auto_module, "LEAST_SHARE", 1.0)
    auto._raw_weight = share = 0.25
    read = auto._read(y_proba).shares
    raw = estimate_shares(y_proba, auto.source_priors_)
    monkeypatch.setattr(auto_module, "LEAST_RAW", 1.0)
    alone = auto._read(y_proba).shares
    apart = raw.priors - alone.priors
    np.testing.assert_allclose(read.priors, alone.priors + share * apart, rtol=1e-6)
    noise = 0.75 * alone.noise + 0.25 * raw.noise + 3 / 16 * np.outer(apart, apart)
    np.testing.assert_allclose(read.noise, noise, rtol=1e-6)
    np.testing.assert_allclose(read.jackknife, 0.75 * alone.jackknife)
    assert (read.tempering, read.n_iter) == (alone.tempering, alone.n_iter + raw.n_iter)
    assert read.doubt == 0


@pytest.mark.parametrize(("given", "share"), [({}, 1.0), ({"source_label_priors": 1}, 0.0)])
def test_raw_outputs_of_validation_that_lacks_a_class(simulation, rng, given, share):
    y_proba, y = simulation.draw(np.full(K, 1 / K), 200, rng)
    kept = y != 2
    given = dict.fromkeys(given, np.full(K, 1 / K))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.PriorShiftWarning)
        auto = ps.Auto(random_state=0).fit(y_proba[kept], y[kept], classes=np.arange(K), **given)
    assert auto._raw_weight == share


@pytest.mark.parametrize(("factor", "moved"), [(0.9, True), (1.1, False)])
def test_shares_have_moved_beyond_twice_their_noise(few, factor, moved, monkeypatch):
    auto, y_proba = few
    apart = np.array([0.05, -0.05, 0.02, 0.0, -0.02])
    error = factor * np.abs(apart).sum() / 2 / K  # of every class
    half = error**2 / 2 * np.eye(K)
    shares = Shares(auto._balance.priors + apart, half, half, 1.0, 1, True)
    read = auto._read(y_proba)._replace(shares=shares)
    monkeypatch.setattr(auto, "_read", lambda _: read)
    nothing = auto_module.ExpectedGain(0.0, 1.0, 0.0)
    monkeypatch.setattr(auto_module, "expected_gain", lambda *_, **__: nothing)
    assert auto.estimate(y_proba).decision["reason"] == ("unsure" if moved else "no_shift")


@pytest.mark.parametrize("equal", [False, True])
def test_rows_of_validation_keep_their_weights_and_labels(simulation, rng, equal):
    y_proba, y = simulation.draw(np.full(K, 1 / K), 80, rng)
    weight = np.full(80, 2.0) if equal else rng.integers(1, 4, 80).astype(float)
    auto = ps.Auto(random_state=0).fit(y_proba, y, sample_weight=weight)
    sample, order = auto._sample, auto._calibration.order
    np.testing.assert_array_equal(sample.weight, weight[order])
    np.testing.assert_array_equal(sample.y, y[order])


def test_outputs_that_find_other_shares_on_validation_than_its_labels_do_not_count(rng):
    def draw(n, share):  # a model trained on equal shares that is not sure enough of itself
        y = (rng.random(n) < share).astype(int)
        return expit(0.8 * (1.8 * (rng.normal(size=n) + 1.8 * y) - 1.62) - 0.6), y

    y_proba, y = draw(6000, 0.034)
    target, truth = draw(20_000, 0.012)
    auto = ps.Auto(random_state=0).fit(y_proba, y, source_priors=0.5)
    assert ps.EM().fit(y_proba, y, source_priors=0.5).estimate(y_proba).priors[1] < 0.001
    assert auto._raw_weight == 0
    assert auto.estimate(target).priors[1] == pytest.approx(truth.mean(), abs=0.006)


@pytest.mark.filterwarnings("ignore::priorshift.PriorShiftWarning")
def test_sums_a_little_above_1_make_no_share_negative():
    """Raw outputs, which alone count here, got a weight of 1 + 3e-9, and the others less than 0."""
    y_proba_val = np.array([[1.0, 8e-25, 1e-32, 2e-48], [1.0 - 1e-14, 1e-45, 1e-14, 4e-46]])
    y_proba = np.tile([1e-9, 1.0, 1e-9, 1e-9], (7, 1))
    for source in (None, [0.7, 0.1, 0.1, 0.1]):
        auto = ps.Auto().fit(y_proba_val, [0, 0], source_priors=source, classes=np.arange(4))
        assert (auto.estimate(y_proba).priors >= 0).all()


def test_without_a_shift_a_gain_must_be_worth_it_in_its_own_unit(simulation, rng, monkeypatch):
    """Where an error costs 10, a gain of .05 is half a point of accuracy: too little; .5 is not."""
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 300, rng)
    y_proba, _ = simulation.draw(simulation.source_priors, 300, rng)
    auto = ps.Auto(costs=10.0 * (1 - np.eye(K))).fit(y_proba_val, y_val)
    for gain, adapts in ((0.05, False), (0.5, True)):
        made = auto_module.ExpectedGain(gain, 0.001, 0.2)
        monkeypatch.setattr(auto_module, "expected_gain", lambda *_, made=made, **__: made)
        assert auto.estimate(y_proba).decision["adapt"] is adapts


def test_the_promise_of_a_lower_log_loss_is_kept(simulation, rng):
    """In nats: what each row's label gains, not what decisions gain."""
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 2000, rng)
    y_proba, y = simulation.draw(TARGET, 4000, rng)
    shift = ps.Auto(goal="log_loss").fit(y_proba_val, y_val).estimate(y_proba)
    real = log_loss(y_proba, y) - log_loss(shift.adapt(y_proba), y)
    assert real > 0.02
    assert shift.decision["expected_gain"] == pytest.approx(real, rel=0.25)
