"""The mean of calibrated probabilities, against what it must be and under covariate shift."""

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student

import priorshift as ps
from priorshift.estimators.mean import CalibratedMean


def covariate_shift(rng, n, centre):
    """Three classes by softmax of two features that move; p(y|x) stays. Outputs are too sure."""
    x = rng.normal(size=(n, 2)) + centre
    logits = x @ np.array([[1.0, -0.5, -0.5], [0.0, 1.0, -1.0]])
    true = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    sharp = np.exp(2 * logits) / np.exp(2 * logits).sum(axis=1, keepdims=True)
    y = (rng.uniform(size=(n, 1)) > true.cumsum(axis=1)).sum(axis=1)
    return sharp, y, true


def test_mean_of_the_maps_that_were_averaged():
    rng = np.random.default_rng(0)
    P, y, _ = covariate_shift(rng, 1500, 0.0)
    T, _, _ = covariate_shift(rng, 800, 1.0)
    found = CalibratedMean(random_state=0).fit(P, y).estimate(T)
    np.testing.assert_allclose(found.priors, found.calibrator.apply(T).mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(found.adapt(T), found.calibrator.apply(T), atol=1e-6)


def test_right_where_meaning_stayed_and_prior_shift_is_not():
    rng = np.random.default_rng(1)
    P, y, _ = covariate_shift(rng, 4000, 0.0)
    T, y_target, _ = covariate_shift(rng, 4000, 1.0)
    truth = np.bincount(y_target) / y_target.size
    off = np.abs(CalibratedMean().fit(P, y).estimate(T).priors - truth).sum()
    assert off < 0.05
    assert np.abs(ps.Auto().fit(P, y).estimate(T).priors - truth).sum() > 3 * off


@pytest.mark.slow
@pytest.mark.parametrize("estimand", ["population", "sample"])
def test_interval_holds_the_truth(estimand):
    rng = np.random.default_rng(2)
    held, (_, _, true) = [], covariate_shift(rng, 100_000, 0.7)
    for _ in range(16):
        P, y, _ = covariate_shift(rng, 600, 0.0)
        T, y_target, _ = covariate_shift(rng, 500, 0.7)
        truth = true.mean(axis=0) if estimand == "population" else np.bincount(y_target) / 500
        low, high = CalibratedMean().fit(P, y).estimate(T, 0.95, estimand=estimand).interval.T
        held.append((low <= truth) & (truth <= high))
    assert np.mean(held) > 0.85  # 16 draws of a level of 0.95


def test_order_of_rows_and_classes_does_not_matter():
    rng = np.random.default_rng(3)
    P, y, _ = covariate_shift(rng, 900, 0.0)
    T, _, _ = covariate_shift(rng, 700, 0.5)
    names, turned = np.array(["a", "b", "c"]), [2, 0, 1]
    fitted = CalibratedMean().fit(P, names[y], classes=names)
    same = CalibratedMean().fit(P[:, turned], names[y], classes=names[turned])
    there, back = fitted.estimate(T), same.estimate(T[::-1, turned])
    np.testing.assert_allclose(there.priors[turned], back.priors, atol=2e-3)


def test_beside_auto_it_calibrates_nothing_again():
    rng = np.random.default_rng(4)
    P, y, _ = covariate_shift(rng, 800, 0.0)
    auto = ps.Auto(random_state=0).fit(P, y)
    beside, own = CalibratedMean.beside(auto), CalibratedMean(random_state=0).fit(P, y)
    np.testing.assert_array_equal(beside.estimate(P).priors, own.estimate(P).priors)
    assert beside.get_params() == own.get_params()


def test_it_needs_labels_and_all_of_validation():
    with pytest.raises(ValueError, match="all of validation at once; use fit"):
        CalibratedMean().partial_fit([[0.5, 0.5]], [0])
    with pytest.raises(ValueError, match="needs validation labels"):
        CalibratedMean().fit([[0.5, 0.5]])


@pytest.mark.parametrize("estimand", ["population", "sample"])
def test_the_interval_by_hand(estimand):
    rng = np.random.default_rng(3)
    val, y, _ = covariate_shift(rng, 400, 0.0)
    target, *_ = covariate_shift(rng, 300, 0.5)
    fitted = CalibratedMean(random_state=0).fit(val, y)
    found = fitted.estimate(target, confidence_level=0.9, estimand=estimand)
    one = fitted._calibration.average.apply(target)
    variance = one.var(axis=0) if estimand == "population" else (one * (1 - one)).mean(axis=0)
    folds = np.array([fold.apply(target).mean(axis=0) for fold in fitted._calibration.folds])
    F = len(folds)
    jackknife = 2 * (F - 1) * folds.var(axis=0)
    half = np.sqrt(norm.ppf(0.95) ** 2 * variance / 300 + student.ppf(0.95, F - 1) ** 2 * jackknife)
    assert F == 5
    assert found.interval == pytest.approx(found.priors[:, None] + np.outer(half, [-1, 1]))
    assert found.standard_error == pytest.approx(np.sqrt(variance / 300 + jackknife))


def test_one_row_of_validation_bounds_nothing():
    fitted = CalibratedMean().fit([[0.8, 0.2, 0.0]], [0], classes=[0, 1, 2])
    found = fitted.estimate(np.eye(3), confidence_level=0.95)
    assert found.interval == pytest.approx(np.tile([0.0, 1.0], (3, 1)))
