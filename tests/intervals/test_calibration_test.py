"""The test of calibration: its level, its power, and what EM's result says of it."""

import json
import warnings

import numpy as np
import pytest

import priorshift as ps
from priorshift.intervals import refute_calibration

K = 5


def sharpened(y_proba, slope):
    powered = y_proba**slope
    return powered / powered.sum(axis=1, keepdims=True)


def balanced(simulation, n, rng):
    return simulation.draw(np.full(K, 1 / K), n, rng)


@pytest.mark.parametrize("given", [True, False])
def test_calibrated_outputs_are_refuted_no_more_often_than_the_level(simulate, rng, given):
    """On 400 validation sets, balanced as the source or otherwise."""
    simulation, n = simulate(K, spread=1.0), 400
    source = simulation.source_priors
    refuted = 0
    for _ in range(n):
        if given:
            y_proba, y = balanced(simulation, 60, rng)
            refuted += refute_calibration(y_proba, y, None, source) is not None
        else:
            y_proba, y = simulation.draw(source, 60, rng)
            refuted += refute_calibration(y_proba, y) is not None
    assert refuted / n <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / n)


@pytest.mark.parametrize(("slope", "how"), [(3.0, "too sure"), (0.4, "not sure enough")])
def test_wrong_temperatures_are_refuted(simulate, rng, slope, how):
    simulation = simulate(K, spread=1.0)
    y_proba, y = simulation.draw(simulation.source_priors, 300, rng)
    found = refute_calibration(sharpened(y_proba, slope), y)
    assert how in found
    assert float(found.split("p = ")[1].strip(")")) < 1e-3


def test_a_class_that_is_predicted_too_often_is_named(simulate, rng):
    simulation = simulate(K, spread=1.0)
    y_proba, y = simulation.draw(simulation.source_priors, 400, rng)
    biased = y_proba * np.array([1.0, 1.0, 6.0, 1.0, 1.0])
    biased /= biased.sum(axis=1, keepdims=True)
    said = refute_calibration(biased, y, classes=np.array(["a", "b", "c", "d", "e"]))
    assert "predict class c too often" in said


def test_weights_count_as_rows(simulate, rng):
    """A weight of 3 on every row is worth no more rows than there are."""
    simulation = simulate(K, spread=1.0)
    y_proba, y = simulation.draw(simulation.source_priors, 100, rng)
    sharp = sharpened(y_proba, 1.7)
    one = refute_calibration(sharp, y)
    assert one == refute_calibration(sharp, y, np.full(100, 3.0))
    assert one is not None


@pytest.mark.parametrize("name", ["em", "map"])
def test_the_result_says_that_calibration_is_refuted(simulate, rng, name):
    simulation = simulate(K, spread=1.0)
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 300, rng)
    y_proba, _ = balanced(simulation, 500, rng)
    too_sure_val, too_sure = sharpened(y_proba_val, 3.0), sharpened(y_proba, 3.0)
    estimator = ps.get_estimator(name).fit(too_sure_val, y_val)
    with pytest.warns(ps.PriorShiftWarning, match="refutes that outputs are calibrated"):
        shift = estimator.estimate(too_sure, 0.95)
    (caution,) = shift.cautions
    for remedy in ("Auto", "em-bcts", "SCM-L"):
        assert remedy in caution
    assert caution in repr(shift)
    assert caution in shift._repr_html_()
    assert json.loads(json.dumps(shift.to_dict()))["cautions"] == [caution]


def test_calibrated_outputs_get_no_caution(simulate, rng):
    simulation = simulate(K, spread=1.0)
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 300, rng)
    y_proba, _ = balanced(simulation, 500, rng)
    estimator = ps.EM().fit(y_proba_val, y_val)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert estimator.estimate(y_proba, 0.95).cautions == ()


def test_without_labels_nothing_is_refuted(simulate, rng):
    simulation = simulate(K, spread=1.0)
    y_proba, _ = balanced(simulation, 500, rng)
    em = ps.EM().fit(source_priors=simulation.source_priors)
    assert em.estimate(sharpened(y_proba, 3.0), 0.95).cautions == ()


def test_em_bcts_remedies_what_it_is_recommended_for(simulate, rng):
    simulation = simulate(K, spread=1.0)
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 600, rng)
    y_proba, _ = balanced(simulation, 500, rng)
    remedy = ps.get_estimator("em-bcts").fit(sharpened(y_proba_val, 3.0), y_val)
    assert remedy.estimate(sharpened(y_proba, 3.0), 0.95).cautions == ()
