"""Auto: what it is made of, and that it helps where it can and harms nowhere."""

import json
import pickle
import warnings

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

import priorshift as ps
from priorshift.estimators._calibrator import cross_validate, fit, likelihood_of
from priorshift.estimators._evidence import Validation
from priorshift.estimators._gain import Decisions, Sample, expected_gain
from priorshift.estimators._outputs import Outputs, calibrated_outputs
from priorshift.estimators._shrinkage import shrink_by_evidence
from priorshift.solvers._softmax import RIDGE_GRID, Family, best_ridge, deal_folds

K = 5
TARGET = np.array([0.05, 0.1, 0.15, 0.2, 0.5])


@pytest.fixture
def simulation(simulate):
    return simulate(K, spread=1.2)


def accuracy(y_proba, y):
    return float((y_proba.argmax(axis=1) == y).mean())


def flattened(y_proba, factor=0.05):
    """Return outputs that say nearly 1/K of everything, as boosted trees do."""
    return softmax(factor * np.log(y_proba), axis=1)


# Shrinkage by evidence


def test_no_shift_gives_the_source_priors_exactly(simulation, rng):
    y_proba, _ = simulation.draw(simulation.source_priors, 2000, rng)
    shrunk = shrink_by_evidence(y_proba, simulation.source_priors, 1.0)
    assert shrunk.no_shift
    np.testing.assert_array_equal(shrunk.priors, simulation.source_priors)
    assert shrunk.log_evidence == 0


def test_a_shift_is_found_and_its_error_falls_with_the_target(simulation, rng):
    errors = []
    for n in (200, 20_000):
        y_proba, _ = simulation.draw(TARGET, n, rng)
        shrunk = shrink_by_evidence(y_proba, simulation.source_priors, 1.0)
        assert shrunk.log_evidence > 5
        errors.append(np.abs(shrunk.priors - TARGET).sum())
    assert errors[1] < min(0.05, errors[0])


def test_a_uniform_target_is_recognised(simulation, rng):
    y_proba, _ = simulation.draw(np.full(K, 1 / K), 3000, rng)
    shrunk = shrink_by_evidence(y_proba, simulation.source_priors, 1.0)
    assert shrunk.centre == "uniform"
    np.testing.assert_allclose(shrunk.priors, 1 / K, atol=0.02)


def test_noise_of_validation_shrinks_further(simulation, rng):
    y_proba, _ = simulation.draw(TARGET, 300, rng)
    moved = [
        np.abs(
            shrink_by_evidence(y_proba, simulation.source_priors, eta).priors
            - simulation.source_priors
        ).sum()
        for eta in (1.0, 0.05, 0.001)
    ]
    assert moved[0] > moved[1] > moved[2]


# Calibrated outputs


def outputs_of(y_proba, y, label_priors, **more):
    options = {"source_priors": None, "n_folds": 5, "random_state": 0, **more}
    return calibrated_outputs(y_proba, y, np.ones(y.size), label_priors, **options)


def test_outputs_that_are_calibrated_hardly_change(simulation, rng):
    y_proba, y = simulation.draw(simulation.source_priors, 3000, rng)
    first = outputs_of(y_proba, y, simulation.source_priors)[0]
    np.testing.assert_allclose(first.apply(y_proba), y_proba, atol=0.03)
    np.testing.assert_allclose(first.source_priors, simulation.source_priors, atol=0.03)


@pytest.mark.slow
def test_outputs_stay_as_they_are_where_a_temperature_is_no_better(simulation, rng):
    kept = 0
    for _ in range(10):
        y_proba, y = simulation.draw(simulation.source_priors, 300, rng)
        first = outputs_of(y_proba, y, simulation.source_priors)[0]
        kept += first.name == "none"
        assert first.name != "none" or first.apply(y_proba) is y_proba
    assert 3 <= kept <= 10


def test_few_labels_that_are_all_right_ask_for_no_extreme(rng):
    y = np.repeat(np.arange(K), 4)
    y_proba = 0.6 * np.eye(K)[y] + 0.4 / K
    first = outputs_of(y_proba, y, np.full(K, 1 / K))[0]
    assert first.name == "ts"
    assert 1 < first.calibrator.slope[0] < 20


def test_flattened_outputs_get_their_temperature_back(simulation, rng):
    y_proba, y = simulation.draw(simulation.source_priors, 3000, rng)
    first = outputs_of(flattened(y_proba), y, simulation.source_priors)[0]
    assert first.name == "ts"
    assert first.calibrator.slope[0] == pytest.approx(20, rel=0.15)
    np.testing.assert_allclose(first.apply(flattened(y_proba)), y_proba, atol=0.06)


@pytest.mark.slow
def test_source_priors_are_at_the_source_balance_whatever_validation_has(simulation, rng):
    y_proba, y = simulation.draw(np.full(K, 1 / K), 20_000, rng)
    outputs = outputs_of(flattened(y_proba), y, simulation.source_priors)[0]
    np.testing.assert_allclose(outputs.source_priors, simulation.source_priors, atol=0.02)


def test_zeros_get_a_floor(simulation, rng):
    y_proba, y = simulation.draw(simulation.source_priors, 2000, rng)
    sparse = np.where(y_proba < 0.19, 0.0, y_proba)
    sparse /= sparse.sum(axis=1, keepdims=True)
    assert (sparse[np.arange(y.size), y] == 0).any()
    first = outputs_of(sparse, y, simulation.source_priors)[0]
    assert first.name == "ts"
    assert first.calibrator.floor > 0


def test_a_bias_a_class_is_found(simulation, rng):
    y_proba, y = simulation.draw(simulation.source_priors, 5000, rng)
    bias = np.array([1.0, -1.0, 0.5, -0.5, 0.0])
    skewed = softmax(np.log(y_proba) + bias, axis=1)
    tried = {o.name: o for o in outputs_of(skewed, y, simulation.source_priors)}
    assert {"bcts", "vs"} <= set(tried)
    np.testing.assert_allclose(tried["bcts"].calibrator.bias, -bias, atol=0.25)


def test_losses_are_those_of_labels_at_the_balance_of_validation(simulation, rng):
    y_proba, y = simulation.draw(np.full(K, 1 / K), 400, rng)
    first = outputs_of(y_proba, y, simulation.source_priors)[0]
    balance = np.bincount(y, minlength=K) / y.size / simulation.source_priors
    expected = -log_softmax(np.log(y_proba) + np.log(balance), axis=1)[np.arange(y.size), y]
    np.testing.assert_allclose(first.losses, expected)


# Gain without labels


def test_gain_by_hand():
    before = np.array([[0.6, 0.4], [0.6, 0.4], [0.3, 0.7], [0.55, 0.45]])
    y, weight = np.array([0, 1, 1, 1]), np.ones(4)
    ratio = np.array([0.5, 1.0])  # turns rows 0, 1 and 3 to the second class
    target = np.array([[0.6, 0.4], [0.9, 0.1]])
    rule, nothing = Decisions(before, target, ratio), Decisions(before, target, np.ones(2))
    gain = expected_gain(np.array([0.25, 0.75]), rule, nothing, Sample(y, weight))
    d = np.array([-1.0, 2 / 3])
    noise = np.array([0.0, 2 / 9]) + 0.5 * 0.5
    variance = (np.array([0.25, 0.75]) ** 2 * noise / [1, 3]).sum()
    model, doubt = (0.4 / 0.7 - 0.3 / 0.7) / 2, (0.25 * 0.5) ** 2
    mean = (d @ [0.25, 0.75] / variance + model / doubt) / (1 / variance + 1 / doubt)
    assert gain.changed == 0.5
    assert gain.mean == pytest.approx(mean)
    assert gain.standard_error == pytest.approx((1 / variance + 1 / doubt) ** -0.5)


# The whole


def test_under_no_shift_predictions_stay_as_they_are(simulation, rng):
    for seed in range(5):
        draw = np.random.default_rng(seed)
        y_proba_val, y_val = simulation.draw(simulation.source_priors, 500, draw)
        y_proba, _ = simulation.draw(simulation.source_priors, 500, draw)
        shift = ps.Auto().fit(y_proba_val, y_val, classes=np.arange(K)).estimate(y_proba)
        assert not shift.decision["adapt"]
        np.testing.assert_allclose(shift.adapt(y_proba), y_proba, rtol=1e-12)


def test_under_shift_it_gains_what_true_priors_gain(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 3000, rng)
    y_proba, y = simulation.draw(TARGET, 5000, rng)
    auto = ps.Auto(random_state=0).fit(y_proba_val, y_val)
    shift = auto.estimate(y_proba)
    oracle = accuracy(ps.adapt_proba(y_proba, simulation.source_priors, TARGET), y)
    assert np.abs(shift.priors - TARGET).sum() < 0.08
    assert accuracy(shift.adapt(y_proba), y) > oracle - 0.005
    assert accuracy(shift.adapt(y_proba), y) > accuracy(y_proba, y) + 0.02
    np.testing.assert_array_equal(auto.adapt(y_proba), shift.adapt(y_proba))


def test_flat_outputs_ruin_em_and_not_auto(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 2000, rng)
    y_proba, y = simulation.draw(TARGET, 4000, rng)
    flat_val, flat = flattened(y_proba_val), flattened(y_proba)
    em = accuracy(ps.EM().fit(flat_val, y_val).adapt(flat), y)
    auto = accuracy(ps.Auto().fit(flat_val, y_val).adapt(flat), y)
    assert em < accuracy(flat, y) - 0.1
    assert auto > accuracy(flat, y) + 0.02


def test_too_few_samples_change_nothing(simulation, rng):
    y_proba_val, y_val = simulation.draw(np.full(K, 1 / K), 25, rng)
    y_proba, _ = simulation.draw(simulation.source_priors, 3, rng)
    shift = ps.Auto().fit(y_proba_val, y_val, classes=np.arange(K)).estimate(y_proba)
    assert shift.strength == 0
    assert "left alone" in shift.decision["sentence"]


def test_validation_may_be_balanced_otherwise(simulation, rng):
    y_proba_val, y_val = simulation.draw(np.full(K, 1 / K), 4000, rng)
    y_proba, _ = simulation.draw(simulation.source_priors, 4000, rng)
    priors = {"source_label_priors": simulation.source_priors}
    shift = ps.Auto().fit(y_proba_val, y_val, **priors).estimate(y_proba)
    assert not shift.decision["adapt"]
    np.testing.assert_allclose(shift.priors, simulation.source_priors, atol=0.03)


def test_the_decision_is_data_and_a_sentence(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 1000, rng)
    y_proba, _ = simulation.draw(TARGET, 1000, rng)
    shift = ps.Auto().fit(flattened(y_proba_val), y_val).estimate(flattened(y_proba))
    decision = shift.decision
    assert decision["adapt"] is True
    assert decision["calibration"] == "ts"
    assert decision["slope"] == pytest.approx(20, rel=0.3)
    assert decision["expected_gain"] > decision["expected_gain_se"] > 0
    assert decision["log_evidence"] > 10
    assert "calibrated by a temperature and adapted to priors shrunk" in decision["sentence"]
    assert json.loads(json.dumps(shift.to_dict()))["decision"]["sentence"] == decision["sentence"]
    assert shift.status == "stationary"


def test_it_is_deterministic_and_survives_pickling(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 800, rng)
    y_proba, _ = simulation.draw(TARGET, 800, rng)
    first = ps.Auto(random_state=1).fit(flattened(y_proba_val), y_val)
    second = ps.Auto(random_state=1).fit(flattened(y_proba_val), y_val)
    copy = pickle.loads(pickle.dumps(first))
    for other in (second, copy):
        np.testing.assert_array_equal(
            other.adapt(flattened(y_proba)), first.adapt(flattened(y_proba))
        )
    shift = pickle.loads(pickle.dumps(first.estimate(flattened(y_proba))))
    np.testing.assert_array_equal(shift.adapt(flattened(y_proba)), first.adapt(flattened(y_proba)))


def test_logits_adapt_to_the_same(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 800, rng)
    y_proba, _ = simulation.draw(TARGET, 800, rng)
    shift = ps.Auto().fit(flattened(y_proba_val), y_val).estimate(flattened(y_proba))
    assert shift.calibrator is not None
    logits = np.log(flattened(y_proba)) + 3.0
    np.testing.assert_allclose(
        shift.adapt(logits, from_logits=True), shift.adapt(flattened(y_proba)), atol=1e-12
    )


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
    assert np.abs(auto.estimate(y_proba).priors - TARGET).sum() < 0.1


def test_it_needs_labels_and_all_of_validation_at_once():
    with pytest.raises(ValueError, match="Auto needs a validation set"):
        ps.Auto().fit(source_priors=[0.5, 0.5])
    with pytest.raises(ValueError, match="Auto needs validation labels"):
        ps.Auto().fit([[0.5, 0.5]])
    with pytest.raises(ValueError, match="all of validation at once; use fit"):
        ps.Auto().partial_fit([[0.5, 0.5]], [0], classes=[0, 1])
    with pytest.raises(ValueError, match="cv must be"):
        ps.Auto(cv=1).fit([[0.5, 0.5]], [0])


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
    assert 0.83 <= np.mean(covered) <= 0.97  # 200 intervals at 90 %, some of them correlated


def test_intervals_that_it_has_not_are_refused(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 300, rng)
    auto = ps.Auto().fit(y_proba_val, y_val)
    with pytest.raises(ValueError, match="Auto has no Bayesian interval"):
        auto.estimate(y_proba_val, confidence_level=0.9, interval_method="bayesian")


@pytest.mark.parametrize(("y_val", "n_target"), [([0, 0, 0], 3), ([0, 1, 1], 1), ([0, 1, 1], 3)])
def test_next_to_nothing_changes_nothing(y_val, n_target):
    y_proba = [[0.6, 0.4], [0.3, 0.7], [0.2, 0.8]]
    auto = ps.Auto().fit(y_proba, y_val, classes=[0, 1])
    target = np.tile([0.4, 0.6], (n_target, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.PriorShiftWarning)  # validation may lack a class
        np.testing.assert_allclose(auto.adapt(target), target)


def test_a_class_without_samples_and_source_prior_leaves_predictions_alone(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 1000, rng)
    kept = y_val != 4
    y_proba, _ = simulation.draw(TARGET, 1000, rng)
    auto = ps.Auto().fit(y_proba_val[kept], y_val[kept], classes=np.arange(K))
    with pytest.warns(ps.PriorShiftWarning, match="no sample of class 4.*Give source_priors"):
        shift = auto.estimate(y_proba)
    assert shift.unseen_classes == (4,)
    np.testing.assert_allclose(shift.adapt(y_proba), y_proba)
    assert shift.decision["adapt"] is False
    assert shift.decision["reason"] == "unknown class"
    assert shift.decision["unknown_classes"] == [4]
    assert "no sample of class 4" in shift.decision["sentence"]
    assert "not enough to be sure" not in shift.decision["sentence"]


@pytest.mark.parametrize("reason", ["no shift", "helps"])
def test_the_decision_has_its_reason(simulation, rng, reason):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 2000, rng)
    priors = TARGET if reason == "helps" else simulation.source_priors
    y_proba, _ = simulation.draw(priors, 2000, rng)
    decision = ps.Auto().fit(y_proba_val, y_val).estimate(y_proba).decision
    assert decision["reason"] == reason
    assert decision["unknown_classes"] == []


def test_little_evidence_is_a_reason_of_its_own(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 60, rng)
    y_proba, _ = simulation.draw(TARGET, 2000, rng)
    decision = ps.Auto(caution=50).fit(y_proba_val, y_val).estimate(y_proba).decision
    assert decision["reason"] == "unsure"
    assert "not enough to be sure" in decision["sentence"]


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("given", ["", "source_priors", "source_label_priors"])
def test_the_result_says_whether_source_priors_were_given(simulation, rng, given, flat):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 200, rng)
    y_proba, _ = simulation.draw(TARGET, 300, rng)
    known = {given: simulation.source_priors} if given else {}
    if flat:
        y_proba_val, y_proba = flattened(y_proba_val), flattened(y_proba)
    auto = ps.Auto().fit(y_proba_val, y_val, **known)
    if not flat:  # as they came, whatever this sample says
        loss = np.zeros(y_val.size)
        auto._outputs = [Outputs(None, y_proba_val, simulation.source_priors, 0.0, loss)]
    said = auto.estimate(y_proba).source_priors_from
    if given == "source_priors" and not flat:
        assert said == "given"
        return
    mean = "mean calibrated prediction" if flat else "mean prediction"
    where = f" at {given}" if given else ", taken to be drawn as the training set was"
    assert said == f"{mean} on validation{where}"


# EM on calibrated outputs


def test_zeros_are_not_final_for_em_on_calibrated_outputs(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 2000, rng)
    y_proba, y = simulation.draw(TARGET, 3000, rng)
    sparse_val, sparse = (np.where(p < 0.19, 0.0, p) for p in (y_proba_val, y_proba))
    sparse_val /= sparse_val.sum(axis=1, keepdims=True)
    sparse /= sparse.sum(axis=1, keepdims=True)
    known = {"source_label_priors": simulation.source_priors}
    shift = ps.get_estimator("em-bcts").fit(sparse_val, y_val, **known).estimate(sparse)
    auto = ps.Auto().fit(sparse_val, y_val, **known)
    assert shift.calibrator.floor == auto._outputs[0].calibrator.floor > 0
    adapted = shift.adapt(sparse)
    assert (adapted > 0).all()
    assert accuracy(adapted, y) > accuracy(sparse, y) + 0.02
    np.testing.assert_array_equal(adapted, shift.adapt(sparse.copy()))


def test_the_ridge_is_that_of_the_least_loss_out_of_fold(simulation, rng):
    y_proba, y = simulation.draw(simulation.source_priors, 600, rng)
    likelihood = likelihood_of(Validation(y_proba, y, None), None, 0.0)
    folds = deal_folds(y, 5, False, 0)
    family = Family(n_slopes=1, n_biases=K)
    ridge, maps = cross_validate(likelihood, family, folds, RIDGE_GRID)
    assert ridge == best_ridge(likelihood, family, folds, 1000)
    for fold, found in maps.items():  # each fitted without its fold
        outside = Validation(y_proba[folds != fold], y[folds != fold], None)
        alone = fit(likelihood_of(outside, None, 0.0), family, ridge).map
        np.testing.assert_allclose(found.bias, alone.bias, atol=1e-3)
        np.testing.assert_allclose(found.slope, alone.slope, atol=1e-3)


def test_rows_that_are_all_alike_are_evidence_too(simulation, rng):
    """They show no spread of their own, which once made validation's noise outweigh them."""
    auto = ps.Auto().fit(*simulation.draw(simulation.source_priors, 500, rng))
    shift = auto.estimate(np.tile(np.eye(K)[2], (50, 1)))
    assert shift.priors[2] > 0.7
    assert shift.decision["log_evidence"] > 5
