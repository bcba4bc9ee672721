"""Calibrators against simulated truth, independent optimisers, and their invariances."""

import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from priorshift.calibration import (
    BCTS,
    RIDGE_GRID,
    TINY,
    TemperatureScaling,
    VectorScaling,
    likelihood,
)
from priorshift.calibration.likelihood import by_fold, deal_folds
from priorshift.exceptions import ConvergenceWarning, PriorShiftWarning

EVERY = [
    pytest.param(TemperatureScaling(logits=True), id="ts"),
    pytest.param(BCTS(logits=True), id="bcts"),
    pytest.param(VectorScaling(logits=True, ridge=3.0), id="vs-ridge"),
]
every_calibrator = pytest.mark.parametrize("calibrator", EVERY)


def draw_labels(scores, rng):
    return np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


def simulate(n=400, n_classes=4, seed=0, slope=0.5, bias=0.0, spread=3.0):
    """Draw logits, and labels from softmax(slope * z + bias)."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=spread, size=(n, n_classes))
    return logits, draw_labels(slope * log_softmax(logits, axis=1) + bias, rng)


def nll(log_proba, y, weight=None):
    return np.average(-log_proba[np.arange(y.size), y], weights=weight)


def fit_quietly(calibrator, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", PriorShiftWarning)
        return clone(calibrator).fit(*args, **kwargs)


# Truth that is known


def test_recovers_a_known_temperature():
    logits, y = simulate(n=20_000, slope=1 / 2.5)
    assert TemperatureScaling(logits=True).fit(logits, y).temperature_ == pytest.approx(
        2.5, rel=0.03
    )


def test_recovers_a_known_temperature_and_bias():
    bias = np.array([0.8, -0.3, 0.1, -0.6])
    fitted = BCTS(logits=True).fit(*simulate(n=60_000, slope=1 / 2, bias=bias))
    assert fitted.temperature_ == pytest.approx(2, rel=0.03)
    np.testing.assert_allclose(fitted.bias_, bias, atol=0.06)
    assert abs(fitted.bias_.sum()) < 1e-12


@pytest.mark.parametrize("with_bias", [True, False])
def test_recovers_a_known_vector(with_bias):
    scale, bias = np.array([0.4, 0.7, 1.0, 0.5]), np.array([0.5, -0.5, 0.2, -0.2]) * with_bias
    data = simulate(n=60_000, slope=scale, bias=bias, spread=2.0)
    fitted = VectorScaling(logits=True).fit(*data)
    np.testing.assert_allclose(fitted.scale_, scale, atol=0.04)
    np.testing.assert_allclose(fitted.bias_, bias, atol=0.08)


# Other optimisers


def test_a_large_ridge_leaves_scales_alone_as_another_minimiser_finds_them():
    logits, y = simulate(n=300, slope=np.array([0.4, 0.7, 1.0, 0.5]), bias=[1, 0, 0, -1])
    z = log_softmax(logits, axis=1)
    fitted = VectorScaling(logits=True, ridge=1e9, tol=1e-9).fit(logits, y)
    oracle = minimize(lambda v: nll(log_softmax(v * z, axis=1), y), np.ones(4), tol=1e-12)
    np.testing.assert_allclose(fitted.scale_, oracle.x, atol=1e-4)
    assert np.abs(fitted.bias_).max() < 1e-6


def test_temperature_agrees_with_a_scalar_minimiser():
    logits, y = simulate(n=150)
    weight = np.random.default_rng(1).uniform(0.1, 2, size=y.size)
    fitted = TemperatureScaling(logits=True, tol=1e-9).fit(logits, y, weight)
    oracle = minimize_scalar(
        lambda log_t: nll(log_softmax(logits / np.exp(log_t), axis=1), y, weight),
        bounds=(-4, 4),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert fitted.temperature_ == pytest.approx(np.exp(oracle.x), rel=1e-5)
    assert fitted.nll_ == pytest.approx(oracle.fun, abs=1e-10)


def oracle_objective(theta, logits, y, weight, n_slopes, ridge):
    """Write the penalised sum anew, from SciPy's log-softmax."""
    slope, bias = theta[:n_slopes], theta[n_slopes:]
    scores = slope * log_softmax(logits, axis=1) + (bias if bias.size else 0.0)
    free = bias - bias.mean() if bias.size else bias
    return weight.sum() * nll(log_softmax(scores, axis=1), y, weight) + ridge / 2 * free @ free


def oracle_objective_with_offset(theta, logits, y, offset, ridge):
    bias = theta[1:] - theta[1:].mean()
    scores = theta[0] * logits + bias + offset
    return y.size * nll(log_softmax(scores, axis=1), y) + ridge / 2 * bias @ bias


@pytest.mark.parametrize("seed", range(2))
@every_calibrator
def test_agrees_with_bfgs_on_numerical_gradients(calibrator, seed):
    logits, y = simulate(n=120, n_classes=3, seed=seed)
    weight = np.random.default_rng(seed).uniform(0.2, 2, size=y.size)
    n_slopes = 3 if isinstance(calibrator, VectorScaling) else 1
    n_biases = (
        3 if getattr(calibrator, "bias", not isinstance(calibrator, TemperatureScaling)) else 0
    )
    ridge = getattr(calibrator, "ridge", None) or 0.0
    start = np.concatenate([np.ones(n_slopes), np.zeros(n_biases)])
    oracle = minimize(
        oracle_objective,
        start,
        (logits, y, weight, n_slopes, ridge),
        "BFGS",
        options={"gtol": 1e-3},
    )
    fitted = clone(calibrator).set_params(tol=1e-9).fit(logits, y, weight)
    slope = fitted.scale_ if n_slopes == 3 else np.array([1 / fitted.temperature_])
    bias = fitted.bias_ if n_biases else np.empty(0)
    value = oracle_objective(np.concatenate([slope, bias]), logits, y, weight, n_slopes, ridge)
    assert value == pytest.approx(oracle.fun, abs=1e-6)
    np.testing.assert_allclose(slope, oracle.x[:n_slopes], atol=1e-3)
    if n_biases:
        centred = oracle.x[n_slopes:] - oracle.x[n_slopes:].mean()
        np.testing.assert_allclose(bias, centred, atol=1e-3)


def test_mean_calibrated_probability_is_the_label_frequency():
    """A free bias makes the model right on average, whatever the data: the score equation."""
    logits, y = simulate(n=300, seed=5, bias=[1.0, 0, 0, -1.0])
    for calibrator in (BCTS(logits=True), VectorScaling(logits=True)):
        proba = calibrator.fit(logits, y).predict_proba(logits)
        np.testing.assert_allclose(proba.mean(axis=0), np.bincount(y) / y.size, atol=1e-5)


# Promises


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 30),
    n_classes=st.integers(2, 6),
    spread=st.sampled_from([1e-3, 1.0, 30.0, 1e4]),
    index=st.integers(0, len(EVERY) - 1),
    balance=st.sampled_from([None, "offset", "weights"]),
)
def test_never_worse_than_the_identity(seed, n, n_classes, spread, index, balance):
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=spread, size=(n, n_classes))
    y, weight = rng.integers(n_classes, size=n), rng.uniform(0.1, 3, size=n)
    priors = None if balance is None else rng.dirichlet(np.ones(n_classes))
    calibrator = clone(EVERY[index].values[0]).set_params(balance=balance or "offset")
    fit_args = {"source_label_priors": priors, "classes": np.arange(n_classes)}
    calibrator = fit_quietly(calibrator, logits, y, weight, **fit_args)
    after = calibrator.predict_log_proba(logits)
    assert np.isfinite(after).all()
    offset, corrected = np.zeros(n_classes), weight
    with np.errstate(divide="ignore"):
        frequencies = np.bincount(y, weight, n_classes) / weight.sum()
        if balance == "offset":
            offset = np.log(frequencies / priors)
        elif balance == "weights":
            corrected = weight * priors[y] / frequencies[y]
    before = nll(log_softmax(log_softmax(logits, axis=1) + offset, axis=1), y, corrected)
    after = nll(log_softmax(after + offset, axis=1), y, corrected)
    bias = getattr(calibrator, "bias_", np.zeros(1))
    penalty = (getattr(calibrator, "ridge", None) or 0) / 2 * bias @ bias / corrected.sum()
    assert after == pytest.approx(calibrator.nll_, abs=1e-7, rel=1e-7)
    assert after + penalty <= before + 1e-9 * (1 + before)


@every_calibrator
def test_probabilities_are_distributions(calibrator):
    logits, y = simulate()
    calibrator = clone(calibrator).fit(logits, y)
    proba = calibrator.predict_proba(logits.astype(np.float32))
    assert proba.dtype == np.float64
    assert proba.min() >= 0
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(np.exp(calibrator.predict_log_proba(logits)), proba, atol=1e-6)


def test_temperature_keeps_the_ranking():
    logits, y = simulate(slope=0.2)
    proba = TemperatureScaling(logits=True).fit(logits, y).predict_proba(logits)
    np.testing.assert_array_equal(np.argsort(proba, axis=1), np.argsort(logits, axis=1))


# Invariances


@every_calibrator
def test_shifting_rows_changes_nothing(calibrator):
    logits, y = simulate()
    shifted = logits + np.random.default_rng(0).normal(scale=50, size=(y.size, 1))
    expected = clone(calibrator).fit(logits, y).predict_proba(logits)
    actual = clone(calibrator).fit(shifted, y).predict_proba(shifted)
    np.testing.assert_allclose(actual, expected, atol=1e-6)


@every_calibrator
def test_class_order_does_not_matter(calibrator):
    logits, y = simulate(bias=[1, 0, 0, -1])
    balance = "weights" if isinstance(calibrator, BCTS) else "offset"
    priors, order = np.array([0.1, 0.2, 0.3, 0.4]), np.array([2, 0, 3, 1])
    plain = clone(calibrator).set_params(balance=balance, tol=1e-9)
    permuted = clone(plain).fit(
        logits[:, order], y, source_label_priors=priors[order], classes=order
    )
    plain.fit(logits, y, source_label_priors=priors)
    actual = permuted.predict_proba(logits[:, order])
    np.testing.assert_allclose(actual, plain.predict_proba(logits)[:, order], atol=1e-6)


@every_calibrator
def test_repeated_rows_are_weights(calibrator):
    logits, y = simulate(n=150)
    balance = "offset" if isinstance(calibrator, BCTS) else "weights"
    counts = np.random.default_rng(0).integers(0, 4, size=y.size)
    priors = [0.1, 0.2, 0.3, 0.4]
    weighted = clone(calibrator).set_params(balance=balance, tol=1e-9)
    repeated = clone(weighted).fit(
        np.repeat(logits, counts, axis=0), np.repeat(y, counts), source_label_priors=priors
    )
    weighted.fit(logits, y, counts, source_label_priors=priors)
    assert weighted.nll_ == pytest.approx(repeated.nll_, abs=1e-10)
    np.testing.assert_allclose(
        weighted.predict_proba(logits), repeated.predict_proba(logits), atol=1e-6
    )


def test_scale_of_logits_goes_into_the_temperature():
    logits, y = simulate()
    temperature = TemperatureScaling(logits=True).fit(logits, y).temperature_
    for factor in (1e-4, 1e4, 1e8):
        scaled = TemperatureScaling(logits=True).fit(factor * logits, y).temperature_
        assert scaled == pytest.approx(factor * temperature, rel=1e-4)


def test_small_blocks_give_the_same_answer(monkeypatch):
    logits, y = simulate()
    expected = VectorScaling(logits=True).fit(logits, y).predict_proba(logits)
    blocks = likelihood.row_blocks
    monkeypatch.setattr(likelihood, "row_blocks", lambda n, k, _: blocks(n, k, 7 * 8 * k))
    actual = VectorScaling(logits=True).fit(logits, y).predict_proba(logits)
    np.testing.assert_allclose(actual, expected, atol=1e-6)


# The balance of the validation set


def rebalanced_problem(seed, n=3000):
    """Give outputs with a wrong temperature and bias, on a set drawn at another balance."""
    rng = np.random.default_rng(seed)
    training, validation = np.array([0.6, 0.3, 0.1]), np.array([0.1, 0.2, 0.7])
    y = rng.choice(3, size=n, p=validation)
    x = rng.normal(size=(n, 3)) + 1.5 * np.eye(3)[y]
    posterior = log_softmax(1.5 * x + np.log(training), axis=1)
    return 2 * posterior + [0.6, 0, -0.6], y, training, posterior


def test_offset_recovers_the_posterior_of_the_training_balance():
    logits, y, training, posterior = rebalanced_problem(seed=0, n=40_000)
    offset = BCTS(logits=True).fit(logits, y, source_label_priors=training)
    assert offset.temperature_ == pytest.approx(2, rel=0.03)
    np.testing.assert_allclose(offset.bias_, [-0.3, 0, 0.3], atol=0.05)
    np.testing.assert_allclose(offset.predict_proba(logits), np.exp(posterior), atol=0.02)
    uncorrected = BCTS(logits=True).fit(logits, y)
    assert np.abs(uncorrected.bias_ - offset.bias_).max() > 0.5


def test_weights_recover_it_too_but_offset_does_so_better():
    divergence = {"offset": [], "weights": []}
    for seed in range(16):
        logits, y, training, posterior = rebalanced_problem(seed, n=300)
        for balance, found in divergence.items():
            fitted = BCTS(logits=True, balance=balance).fit(logits, y, source_label_priors=training)
            gap = posterior - fitted.predict_log_proba(logits)
            # what counts is the posterior on training data, which weights bring back
            weight = (training / np.array([0.1, 0.2, 0.7]))[y]
            found.append(np.average((np.exp(posterior) * gap).sum(axis=1), weights=weight))
    assert np.mean(divergence["weights"]) < 0.1
    assert np.mean(divergence["offset"]) < np.mean(divergence["weights"])


@pytest.mark.parametrize("balance", ["offset", "weights"])
def test_priors_of_the_validation_set_correct_nothing(balance):
    calibrator = VectorScaling(logits=True)
    logits, y = simulate()
    plain = clone(calibrator).fit(logits, y)
    same = clone(calibrator).set_params(balance=balance)
    same.fit(logits, y, source_label_priors=np.bincount(y) / y.size)
    np.testing.assert_allclose(same.predict_proba(logits), plain.predict_proba(logits), atol=1e-6)


def test_priors_may_be_a_mapping():
    logits, y = simulate(n_classes=2)
    names = np.array(["dog", "cat"])
    by_name = BCTS(logits=True).fit(
        logits, names[y], source_label_priors={"cat": 0.9, "dog": 0.1}, classes=names
    )
    by_order = BCTS(logits=True).fit(logits, y, source_label_priors=[0.1, 0.9])
    np.testing.assert_array_equal(by_name.bias_, by_order.bias_)


# Classes that validation never saw


@pytest.mark.parametrize(
    ("calibrator", "balance", "priors"),
    [
        (BCTS(logits=True), "offset", [0.4, 0.3, 0.2, 0.1]),
        (VectorScaling(logits=True), "weights", [0.4, 0.3, 0.2, 0.1]),
        (VectorScaling(logits=True), "offset", None),
    ],
)
def test_an_unseen_class_is_left_where_it_is(calibrator, balance, priors):
    logits, y = simulate()
    logits, y = logits[y != 2], y[y != 2]
    calibrator = clone(calibrator).set_params(balance=balance)
    with pytest.warns(PriorShiftWarning, match=r"1 of the classes \(2\)"):
        calibrator.fit(logits, y, source_label_priors=priors, classes=range(4))
    temperature = TemperatureScaling(logits=True, balance=balance)
    temperature.fit(logits, y, source_label_priors=priors, classes=range(4))
    if hasattr(calibrator, "bias_"):
        assert calibrator.bias_[2] == 0
        assert abs(calibrator.bias_.sum()) < 1e-12
        assert np.abs(calibrator.bias_).max() > 0.01
    if hasattr(calibrator, "scale_"):
        assert calibrator.scale_[2] == pytest.approx(1 / temperature.temperature_, rel=1e-9)
    assert calibrator.predict_proba(logits)[:, 2].max() > 0.01


def test_offset_ignores_the_outputs_of_an_unseen_class():
    """Given labels of only three classes, the likelihood is that of these three alone."""
    logits, y = simulate()
    logits, y, priors = logits[y < 3], y[y < 3], np.array([0.4, 0.3, 0.2, 0.1])
    four = fit_quietly(BCTS(logits=True), logits, y, source_label_priors=priors, classes=range(4))
    three = BCTS(logits=True).fit(logits[:, :3], y, source_label_priors=priors[:3] / 0.9)
    assert four.temperature_ == pytest.approx(three.temperature_, rel=1e-5)
    np.testing.assert_allclose(four.bias_[:3], three.bias_, atol=1e-5)


@pytest.mark.parametrize("balance", ["offset", "weights"])
def test_a_class_that_training_never_saw_drops_out(balance):
    logits, y = simulate()
    priors = [0.5, 0.3, 0.2, 0.0]
    calibrator = BCTS(logits=True, balance=balance)
    with pytest.warns(PriorShiftWarning, match=r"\(3\)"):
        calibrator.fit(logits, y, source_label_priors=priors)
    without = fit_quietly(
        calibrator, logits[y < 3], y[y < 3], source_label_priors=priors, classes=range(4)
    )
    np.testing.assert_allclose(calibrator.bias_, without.bias_, atol=1e-6)
    assert calibrator.nll_ == pytest.approx(without.nll_)


def test_temperature_needs_no_sample_of_every_class():
    logits, y = simulate()
    TemperatureScaling(logits=True).fit(
        logits[y != 2], y[y != 2], classes=range(4)
    )  # and so does not warn


@every_calibrator
def test_no_usable_class_leaves_the_identity(calibrator):
    logits, y = simulate(n_classes=3)
    logits, y = logits[y == 1], y[y == 1]
    calibrator = clone(calibrator)
    for priors in ([0.3, 0.4, 0.3], [0.5, 0.0, 0.5]):
        with pytest.warns(PriorShiftWarning, match="validation says nothing about"):
            calibrator.fit(logits, y, source_label_priors=priors, classes=range(3))
        np.testing.assert_allclose(calibrator.predict_proba(logits), softmax(logits, axis=1))
        assert calibrator.nll_ == 0


def test_a_warning_names_no_more_than_ten_classes():
    logits, y = simulate(n_classes=30)
    with pytest.warns(
        PriorShiftWarning, match=r"28 of the classes \(2, .*, 11, \.\.\. \(28 in all\)\)"
    ):
        BCTS(logits=True).fit(logits, y % 2, classes=range(30))


# Degenerate data


@every_calibrator
def test_separable_data_end_finite(calibrator):
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    logits = rng.normal(size=(90, 3)) + 20 * np.eye(3)[y]
    fitted = fit_quietly(calibrator, logits, y)
    assert np.isfinite(fitted.predict_log_proba(logits)).all()
    assert fitted.nll_ < 1e-3


@every_calibrator
def test_constant_outputs_end_finite(calibrator):
    y = np.repeat([0, 1, 2], [50, 30, 20])
    fitted = clone(calibrator).fit(np.zeros((100, 3)), y)
    proba = fitted.predict_proba(np.zeros((1, 3)))
    if fitted.get_params().get("ridge") is None and not isinstance(fitted, TemperatureScaling):
        np.testing.assert_allclose(proba, [[0.5, 0.3, 0.2]], atol=1e-5)
    assert np.isfinite(proba).all()


def test_outputs_worse_than_chance_have_no_temperature():
    logits, y = simulate(slope=-1.0)
    for calibrator in (TemperatureScaling(logits=True), BCTS(logits=True)):
        with pytest.warns(ConvergenceWarning, match="no better than chance"):
            calibrator.fit(logits, y)
        assert 1e5 < calibrator.temperature_ < 1e8
        assert np.isfinite(calibrator.predict_proba(logits)).all()


@every_calibrator
def test_extreme_logits_end_finite(calibrator):
    for extreme in (1e6, 1e308):
        logits, y = simulate(n=50)
        logits[:5, 0], logits[3:10, 1] = extreme, -extreme
        proba = fit_quietly(calibrator, logits, y).predict_proba(logits)
        assert np.isfinite(proba).all()


@pytest.mark.parametrize(("kind", "extreme"), [(BCTS, 1e308), (VectorScaling, 1e6)])
def test_cross_validation_of_extreme_logits_ends_finite(kind, extreme):
    logits, y = simulate(n=50)
    logits[:5, 0], logits[3:10, 1] = extreme, -extreme
    fitted = fit_quietly(kind(logits=True, ridge="cv", max_iter=100), logits, y)
    assert np.isfinite(fitted.predict_proba(logits)).all()


@pytest.mark.parametrize("kind", [BCTS, VectorScaling])
def test_a_few_extreme_rows_do_not_decide_the_rest(kind):
    """Whose curvature would otherwise dwarf that of every other parameter."""
    logits, y = simulate(bias=[1, 0, 0, -1])
    expected = kind(logits=True).fit(logits, y)
    sure = np.concatenate([logits, 1e6 * np.eye(4)])
    fitted = fit_quietly(kind(logits=True), sure, np.concatenate([y, np.arange(4)]))
    np.testing.assert_allclose(fitted.bias_, expected.bias_, atol=0.05)


@every_calibrator
def test_impossible_labels_end_finite(calibrator):
    """A label that was given probability 0 must not make the likelihood infinite."""
    logits, y = simulate()
    logits[:5] = 0
    logits[np.arange(5), y[:5]] = -np.inf
    proba = softmax(logits, axis=1)
    from_logits = fit_quietly(calibrator, logits, y)
    from_proba = fit_quietly(clone(calibrator).set_params(logits=False), proba, y)
    assert np.isfinite(from_logits.predict_log_proba(logits)).all()
    assert from_logits.nll_ == pytest.approx(from_proba.nll_, rel=1e-6)


def test_probability_zero_never_beats_a_small_one():
    fitted = TemperatureScaling(logits=True).fit(*simulate(n_classes=3))
    log_proba = fitted.predict_log_proba([[0.0, -500.0, -np.inf], [0.0, -10.0, -np.inf]])
    expected = np.array([[0, -500, -500], [0, -10, np.log(TINY)]]) / fitted.temperature_
    np.testing.assert_allclose(log_proba, log_softmax(expected, axis=1), rtol=1e-5, atol=1e-12)


@every_calibrator
def test_a_handful_of_rows_ends_finite(calibrator):
    for n in (1, 2, 3):
        logits, y = simulate(n=n)
        fitted = fit_quietly(calibrator, logits, y, classes=range(4))
        assert np.isfinite(fitted.predict_log_proba(logits)).all()


def test_a_thousand_classes():
    logits, y = simulate(n=1000, n_classes=1000, slope=1.0, spread=4.0)
    for calibrator in (TemperatureScaling(logits=True), BCTS(logits=True, ridge=1.0)):
        fitted = fit_quietly(calibrator, 2 * logits, y, classes=range(1000))
        assert fitted.temperature_ == pytest.approx(2, rel=0.1)
    # so few rows do not settle as many slopes, but no step goes up
    several = VectorScaling(logits=True, ridge=1.0, max_iter=50)
    assert fit_quietly(several, 2 * logits, y, classes=range(1000)).nll_ < fitted.nll_


def test_running_out_of_iterations_warns():
    logits, y = simulate(bias=[2, 0, 0, -2])
    with pytest.warns(ConvergenceWarning, match="BCTS did not converge.*raise max_iter"):
        BCTS(logits=True, max_iter=1).fit(logits, y)


# The ridge


def test_ridge_goes_from_free_to_no_bias():
    logits, y = simulate(bias=[1, 0, 0, -1])
    bcts = partial(BCTS, logits=True)
    free, temperature = bcts().fit(logits, y), TemperatureScaling(logits=True).fit(logits, y)
    sizes = [np.linalg.norm(bcts(ridge=r).fit(logits, y).bias_) for r in (1e-3, 1, 100, 1e4)]
    assert sizes == sorted(sizes, reverse=True)
    np.testing.assert_allclose(bcts(ridge=0).fit(logits, y).bias_, free.bias_, atol=1e-9)
    np.testing.assert_allclose(bcts(ridge=1e-9).fit(logits, y).bias_, free.bias_, atol=1e-4)
    huge = bcts(ridge=1e12).fit(logits, y)
    assert np.abs(huge.bias_).max() < 1e-6
    assert huge.temperature_ == pytest.approx(temperature.temperature_, rel=1e-5)
    assert np.abs(VectorScaling(logits=True, ridge=1e12).fit(logits, y).bias_).max() < 1e-6


def test_cross_validation_prefers_no_bias_where_there_is_none():
    """Rows sorted by class must not undo the shuffle; six of ten samples should see no bias."""
    chosen = []
    for seed in range(10):
        logits, y = simulate(n=100, n_classes=10, seed=seed)
        order = np.argsort(y)
        chosen.append(fit_quietly(BCTS(logits=True, ridge="cv"), logits[order], y[order]).ridge_)
    assert set(chosen) <= set(RIDGE_GRID)
    assert np.median(chosen) >= 100


@pytest.mark.parametrize("kind", [BCTS, VectorScaling])
def test_cross_validation_frees_a_strong_bias(kind):
    logits, y = simulate(n=600, bias=[2, 1, -1, -2])
    assert kind(logits=True, ridge="cv").fit(logits, y).ridge_ <= 10


def test_cross_validation_agrees_with_one_by_hand():
    priors = [0.2, 0.3, 0.5]
    logits, y = simulate(n=80, n_classes=3, seed=3, bias=[0.6, 0, -0.6])
    offset = np.log(np.bincount(y) / y.size / priors)
    folds = deal_folds(y, 4, True, None)
    losses = np.zeros(len(RIDGE_GRID))
    for fold in range(4):
        train, test = folds != fold, folds == fold
        theta = np.array([1.0, 0, 0, 0])
        for i, ridge in enumerate(RIDGE_GRID):
            data = (logits[train], y[train], offset, ridge)
            theta = minimize(oracle_objective_with_offset, theta, data).x
            scores = theta[0] * logits[test] + theta[1:] - theta[1:].mean() + offset
            losses[i] += test.sum() * nll(log_softmax(scores, axis=1), y[test])
    fitted = BCTS(logits=True, ridge="cv", cv=4).fit(logits, y, source_label_priors=priors)
    assert fitted.ridge_ == RIDGE_GRID[np.argmin(losses)]


def class_counts(folds, y):
    return np.array([np.bincount(folds[y == k], minlength=5) for k in np.unique(y)])


def test_folds_are_even_and_deterministic():
    y = np.random.default_rng(0).choice(4, size=203, p=[0.5, 0.3, 0.15, 0.05])
    for stratified in (True, False):
        folds = deal_folds(y, 5, stratified, None)
        np.testing.assert_array_equal(folds, deal_folds(y, 5, stratified, None))
        np.testing.assert_array_equal(folds, deal_folds(3 - y, 5, stratified, None))
        assert (folds != deal_folds(y, 5, stratified, 1)).any()
        assert np.ptp(class_counts(folds, y).sum(axis=0)) <= 1
        assert (np.ptp(class_counts(folds, y), axis=1).max() <= 1) == stratified


def test_rows_are_ordered_fold_by_fold():
    y = np.arange(23) % 3
    order, folds = by_fold(y, 5, True, None)
    dealt = deal_folds(y, 5, True, None)
    assert sorted(order) == list(range(23))
    assert [fold.start for fold in folds] + [23] == [0, *(fold.stop for fold in folds)]
    for i, fold in enumerate(folds):
        np.testing.assert_array_equal(order[fold], np.flatnonzero(dealt == i))


def test_cross_validation_is_deterministic_and_may_be_shuffled():
    logits, y = simulate(n=60)
    first, second = (BCTS(logits=True, ridge="cv", cv=2).fit(logits, y) for _ in range(2))
    np.testing.assert_array_equal(first.bias_, second.bias_)
    seeded = [
        BCTS(logits=True, ridge="cv", cv=2, random_state=r) for r in (7, np.random.default_rng(7))
    ]
    assert len({calibrator.fit(logits, y).ridge_ for calibrator in seeded}) == 1


@pytest.mark.parametrize("n", [1, 2, 7])
def test_cross_validation_of_a_handful_ends(n):
    logits, y = simulate(n=n)
    fitted = fit_quietly(BCTS(logits=True, ridge="cv"), logits, y, classes=range(4))
    assert np.isfinite(fitted.predict_proba(logits)).all()


# Classes and frames


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_are_matched_by_header(library):
    frames = pytest.importorskip(library)
    logits, y = simulate()
    names = ["wolf", "ant", "bee", "cow"]
    frame = frames.DataFrame(dict(zip(names, logits.T, strict=True)))
    labels = frames.Series(np.array(names)[y])
    fitted = BCTS(logits=True).fit(frame, labels)
    assert fitted.classes_.tolist() == names
    expected = BCTS(logits=True).fit(logits, y).predict_proba(logits)
    np.testing.assert_array_equal(fitted.predict_proba(frame), expected)
    np.testing.assert_array_equal(fitted.predict_proba(frame[names[::-1]]), expected)
    np.testing.assert_array_equal(fitted.predict_proba(logits), expected)
    with pytest.raises(ValueError, match="are not the classes"):
        fitted.predict_proba(
            frame.rename(columns={"ant": "bug"})
            if library == "pandas"
            else frame.rename({"ant": "bug"})
        )


def test_one_dimensional_probabilities_are_of_the_positive_class():
    logits, y = simulate(n_classes=2)
    proba = softmax(logits, axis=1)
    matrix = BCTS().fit(proba, y)
    vector = BCTS().fit(proba[:, 1], y)
    np.testing.assert_allclose(
        vector.predict_proba(proba[:, 1]), matrix.predict_proba(proba), atol=1e-6
    )


# scikit-learn's manners and bad input


@every_calibrator
def test_parameters_clone_and_pickle(calibrator):
    logits, y = simulate(n=50)
    other = clone(calibrator).set_params(logits=False)
    assert other.get_params() == {**calibrator.get_params(), "logits": False}
    assert repr(clone(calibrator)) == repr(calibrator)
    fitted = clone(calibrator)
    with pytest.raises(NotFittedError):
        fitted.predict_proba(logits)
    with pytest.raises(ValueError, match="balance"):
        fitted.set_params(balance="?").fit(logits, y)
    with pytest.raises(NotFittedError):
        fitted.set_params(balance="offset").predict_proba(logits)
    assert fitted.fit(logits, y) is fitted
    assert fitted.n_features_in_ == 4
    assert fitted.n_iter_ > 0
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict_proba(logits), fitted.predict_proba(logits))


@pytest.mark.parametrize(
    ("calibrator", "match"),
    [
        (TemperatureScaling(logits=True, balance="both"), "balance must be one of"),
        (TemperatureScaling(logits=True, tol=0), "tol must be"),
        (TemperatureScaling(logits=True, max_iter=0), "max_iter must be"),
        (BCTS(logits=True, ridge=-1.0), "ridge must be a finite number above 0"),
        (BCTS(logits=True, ridge="auto"), "ridge must be one of 'cv'"),
        (BCTS(logits=True, ridge="cv", cv=1), "cv must be"),
        (TemperatureScaling(), "y_proba has a negative value"),
    ],
)
def test_bad_parameters(calibrator, match):
    with pytest.raises(ValueError, match=match):
        calibrator.fit(*simulate(n=30))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"y_proba": np.full((30, 4), np.nan)}, "logits has NaN"),
        ({"y_proba": np.zeros(30)}, "must have shape"),
        ({"y": np.arange(29) % 4}, "29 labels"),
        ({"y": np.arange(30) % 4 + 1, "classes": range(4)}, "label outside classes: 4"),
        ({"sample_weight": -np.ones(30)}, "sample_weight must be finite and at least 0"),
        ({"source_label_priors": [0.5, 0.5]}, "source_label_priors must be 4 numbers"),
    ],
)
def test_bad_data(change, match):
    logits, _ = simulate(n=30)
    with pytest.raises(ValueError, match=match):
        BCTS(logits=True).fit(**{"y_proba": logits, "y": np.arange(30) % 4, **change})


def test_wrong_columns_at_prediction():
    logits, y = simulate()
    fitted = BCTS(logits=True).fit(logits, y)
    with pytest.raises(ValueError, match="logits has 3 columns but there are 4 classes"):
        fitted.predict_proba(logits[:, :3])


@every_calibrator
def test_probabilities_are_the_default_and_logits_that_sum_to_1_warn(calibrator):
    logits, y = simulate()
    proba = softmax(logits, axis=1)
    by_default = type(calibrator)(**{**calibrator.get_params(), "logits": False})
    assert type(calibrator)().logits is False
    expected = clone(calibrator).fit(logits, y)
    found = by_default.fit(proba, y)
    np.testing.assert_allclose(
        found.predict_proba(proba), expected.predict_proba(logits), atol=1e-5
    )
    with pytest.warns(
        PriorShiftWarning, match=r"\(logits=True\) got sum to 1, as probabilities do"
    ):
        clone(calibrator).fit(proba, y)
    with pytest.warns(PriorShiftWarning, match="leave out logits=True"):
        expected.predict_proba(proba)
