"""EM on calibrated outputs: against its parts, simulated truth and what it promises."""

import numpy as np
import pytest

import priorshift as ps
from priorshift.calibration import BCTS, RIDGE_GRID, CalibrationMap, VectorScaling
from priorshift.calibration.likelihood import deal_folds
from priorshift.estimators import CalibratedEM
from priorshift.estimators.data import Validation
from priorshift.exceptions import ConvergenceWarning, PriorShiftWarning

K = 4
TARGET = np.array([0.1, 0.2, 0.3, 0.4])


@pytest.fixture
def simulation(simulate):
    return simulate(K, spread=1.5)


@pytest.fixture
def data(simulation, rng):
    y_proba_val, y_val = simulation.draw(np.array([0.4, 0.3, 0.2, 0.1]), 700, rng)
    y_proba, y = simulation.draw(TARGET, 900, rng)
    return y_proba_val, y_val, y_proba, y, simulation.source_priors


def sparse(y_proba, below=0.19):
    kept = np.where(y_proba < below, 0.0, y_proba)
    return kept / kept.sum(axis=1, keepdims=True)


def accuracy(y_proba, y):
    return float((y_proba.argmax(axis=1) == y).mean())


# Its parts


def test_by_hand(data, too_sure):
    """The parts of it, called one by one."""
    y_proba_val, y_val, y_proba, _, source = data
    wrong_val, wrong = too_sure(y_proba_val), too_sure(y_proba)
    est = CalibratedEM(calibrator="ts", tol=1e-9)
    shift = est.fit(wrong_val, y_val, source_label_priors=source).estimate(wrong)
    scaling = ps.TemperatureScaling()
    scaling.fit(wrong_val, y_val, source_label_priors=source)
    assert 1 / shift.calibrator.slope[0] == pytest.approx(scaling.temperature_, rel=1e-3)
    assert scaling.temperature_ == pytest.approx(2.5, rel=0.25)
    calibrated = scaling.predict_proba(wrong)
    by_hand = ps.EM(tol=1e-9).fit(source_priors=est.source_priors_).estimate(calibrated)
    np.testing.assert_allclose(shift.priors, by_hand.priors, atol=1e-3)
    # out of fold or not, one temperature hardly changes the mean prediction
    mean = sum(
        source[k] * scaling.predict_proba(wrong_val[y_val == k]).mean(axis=0) for k in range(K)
    )
    np.testing.assert_allclose(est.source_priors_, mean, atol=5e-3)
    np.testing.assert_allclose(
        shift.adapt(wrong), ps.adapt_proba(calibrated, shift.source_priors, shift.priors), atol=5e-3
    )
    assert shift.method == "em-ts"
    assert shift.source_priors_from == (
        "mean calibrated prediction on validation at source_label_priors"
    )


@pytest.mark.parametrize("known", [False, True], ids=["plain", "priors"])
@pytest.mark.parametrize(("name", "kind"), [("bcts", BCTS), ("vs", VectorScaling)])
def test_its_map_and_ridge_are_those_of_the_calibrator(data, name, kind, known, too_sure):
    y_proba_val, y_val, _, _, source = data
    wrong, priors = too_sure(y_proba_val), source if known else None
    rows = Validation(wrong, y_val, None).in_canonical_order()
    est = CalibratedEM(calibrator=name).fit(wrong, y_val, source_label_priors=priors)
    alone = kind(ridge="cv")
    alone.fit(rows.y_proba, rows.y, source_label_priors=priors)
    found = est.recalibration_
    assert isinstance(found, CalibrationMap)
    np.testing.assert_array_equal(found.floor, 0)
    assert est.ridge_ == alone.ridge_
    slope = np.full(K, 1 / alone.temperature_) if name == "bcts" else alone.scale_
    np.testing.assert_allclose(found.slope, slope, rtol=1e-3)
    np.testing.assert_allclose(found.bias, alone.bias_, atol=1e-3)


@pytest.mark.parametrize("ridge", [None, 3.0])
def test_the_source_priors_are_a_mean_out_of_fold(data, ridge, too_sure):
    y_proba_val, y_val, _, _, source = data
    rows = Validation(too_sure(y_proba_val), y_val, None).in_canonical_order()
    known = {"source_label_priors": source}
    est = CalibratedEM(ridge=ridge, cv=3).fit(rows.y_proba, rows.y, **known)
    assert est.ridge_ == (ridge or 0.0)
    folds = deal_folds(rows.y, 3, True, None)
    offset = np.log(np.bincount(rows.y) / rows.y.size / source)  # of all rows, not of the others
    calibrated = np.empty_like(rows.y_proba)
    for fold in range(3):
        inside = folds == fold
        frequencies = np.bincount(rows.y[~inside]) / (~inside).sum()
        bcts = BCTS(ridge=ridge)
        bcts.fit(
            rows.y_proba[~inside], rows.y[~inside], source_label_priors=_of(frequencies, offset)
        )
        calibrated[inside] = bcts.predict_proba(rows.y_proba[inside])
    mean = sum(source[k] * calibrated[rows.y == k].mean(axis=0) for k in range(K))
    np.testing.assert_allclose(est.source_priors_, mean / mean.sum(), atol=2e-3)


def _of(frequencies, offset):
    """Return the priors at which these frequencies have this offset."""
    priors = frequencies * np.exp(-offset)
    return priors / priors.sum()


def test_the_ridge_is_chosen_among_a_grid_and_kept_by_a_bootstrap(data):
    y_proba_val, y_val, y_proba, _, source = data
    est = CalibratedEM().fit(y_proba_val, y_val, source_label_priors=source)
    assert est.ridge_ in RIDGE_GRID
    drawn = est.estimate(y_proba, 0.9, 0, interval_method="bootstrap", n_resamples=20)
    assert est.ridge == "cv"
    assert np.isfinite(drawn.interval).all()


# Where it helps


@pytest.mark.parametrize("calibrator", ["bcts", "vs"])
def test_it_beats_em_where_outputs_are_not_calibrated(simulate, rng, calibrator, too_sure):
    simulation = simulate(K, spread=1.2)
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 4000, rng)
    y_proba, _ = simulation.draw(TARGET, 4000, rng)
    wrong_val, wrong = too_sure(y_proba_val, 0.3), too_sure(y_proba, 0.3)
    em = ps.EM().fit(source_priors=wrong_val.mean(axis=0)).estimate(wrong)
    shift = CalibratedEM(calibrator=calibrator).fit(wrong_val, y_val).estimate(wrong)
    assert np.abs(shift.priors - TARGET).sum() < 0.5 * np.abs(em.priors - TARGET).sum()
    assert np.abs(shift.priors - TARGET).sum() < 0.1


def test_training_with_class_weights_needs_no_word(simulation, rng):
    """Outputs at equal priors on validation that is not balanced: the biases take it up."""
    equal = type(simulation)(simulation.means, np.full(K, 1 / K))
    natural = np.array([0.7, 0.2, 0.06, 0.04])
    y_proba_val, y_val = equal.draw(natural, 3000, rng)
    y_proba, y = equal.draw(TARGET, 4000, rng)
    shift = CalibratedEM().fit(y_proba_val, y_val).estimate(y_proba)
    np.testing.assert_array_equal(shift.calibrator.floor, 0)
    np.testing.assert_allclose(shift.source_priors, natural, atol=0.02)
    assert np.abs(shift.priors - TARGET).sum() < 0.08
    assert accuracy(shift.adapt(y_proba), y) > accuracy(y_proba, y) + 0.01


def test_zeros_are_not_final(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 2000, rng)
    y_proba, y = simulation.draw(TARGET, 3000, rng)
    sparse_val, sparse_new = sparse(y_proba_val), sparse(y_proba)
    assert (sparse_val[np.arange(y_val.size), y_val] == 0).any()
    known = {"source_label_priors": simulation.source_priors}
    shift = CalibratedEM().fit(sparse_val, y_val, **known).estimate(sparse_new)
    # a floor mixes source priors into every row
    np.testing.assert_allclose(
        shift.calibrator.floor / np.sum(shift.calibrator.floor), simulation.source_priors
    )
    adapted = shift.adapt(sparse_new)
    assert (adapted > 0).all()
    assert accuracy(adapted, y) > accuracy(sparse_new, y) + 0.01
    np.testing.assert_array_equal(adapted, shift.adapt(sparse_new.copy()))


def test_intervals_cover_the_truth():
    covered = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        y_val, y = rng.choice(2, 1500), rng.choice(2, 600, p=[0.7, 0.3])
        wrong_val, wrong = (
            1 / (1 + np.exp(-5 * rng.normal(2 * label - 1))) for label in (y_val, y)
        )
        est = CalibratedEM(calibrator="ts").fit(wrong_val, y_val, source_label_priors=[0.5, 0.5])
        shift = est.estimate(wrong, confidence_level=0.9)
        covered.append(shift.interval[0, 0] <= 0.7 <= shift.interval[0, 1])
    assert np.mean(covered) > 0.75
    # resampling all of it, calibrator included, gives a standard error of the same size
    drawn = est.estimate(wrong, 0.9, 0, interval_method="bootstrap", n_resamples=40)
    np.testing.assert_allclose(drawn.standard_error, shift.standard_error, rtol=0.4)


# Little data


def test_three_rows_will_do():
    y_proba, y = [[0.8, 0.2], [0.3, 0.7], [0.6, 0.4]], ["a", "b", "a"]
    est = CalibratedEM().fit(y_proba, y)
    assert est.source_priors_.sum() == pytest.approx(1)
    assert np.isfinite(est.estimate(y_proba).priors).all()


@pytest.mark.parametrize("ridge", ["cv", None])
def test_a_class_with_one_sample(data, ridge):
    """The fold that has it is calibrated by maps that never saw the class."""
    y_proba_val, y_val, y_proba, _, source = data
    once = np.flatnonzero(y_val == 2)[:1]
    rows = np.concatenate([np.flatnonzero(y_val != 2), once])
    est = CalibratedEM(ridge=ridge, calibrator="vs")
    est.fit(y_proba_val[rows], y_val[rows], source_label_priors=source, classes=range(K))
    assert np.isfinite(est.recalibration_.bias).all()
    assert np.isfinite(est.estimate(y_proba).priors).all()


def test_outputs_that_rank_no_better_than_chance_are_said(rng):
    y = np.arange(300) % 2
    p = 1 / (1 + np.exp(rng.normal(2 * y - 1)))  # the wrong way round
    with (
        pytest.warns(ConvergenceWarning, match="the calibrator of em-bcts did not converge"),
        pytest.warns(PriorShiftWarning, match="different order from the classes"),
    ):
        CalibratedEM(calibrator="ts").fit(np.column_stack([1 - p, p]), y)
