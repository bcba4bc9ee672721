"""What Auto's estimate and its gain are made of, against oracles and by hand."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm, t

from priorshift.estimators.auto import (
    MODEL_SAMPLES,
    Belief,
    Sample,
    Target,
    decide,
    expected_gain,
)
from priorshift.estimators.data import posterior_problem
from priorshift.estimators.shares import (
    CONCENTRATIONS,
    PSEUDO_COUNT,
    TOL,
    Shares,
    _laplace,
    _posterior,
    _realised,
    estimate_shares,
    share_interval,
)
from priorshift.intervals import IntervalRequest, Votes
from priorshift.solvers import Mixture, dirichlet_posterior, maximise

K = 4
TARGET = np.array([0.1, 0.15, 0.25, 0.5])


def problem_of(y_proba, source_priors):
    return posterior_problem(y_proba, source_priors, 1 + PSEUDO_COUNT)


@pytest.fixture
def simulation(simulate):
    return simulate(K, spread=1.2)


# Shares


def whole(shares):
    """Return the whole covariance."""
    return shares.noise + shares.jackknife


def objective(y_proba, source_priors):
    """Return the penalised likelihood to minimise, of the first K - 1 shares."""

    def value(head):
        p = np.append(head, 1 - head.sum())
        likelihood = np.log((y_proba / source_priors) @ p).sum()
        return -likelihood - PSEUDO_COUNT * np.log(p).sum()

    return value


def test_the_start_is_the_maximum_that_scipy_finds(simulation, rng):
    y_proba, _ = simulation.draw(TARGET, 500, rng)
    found = maximise(problem_of(y_proba, simulation.source_priors), tol=1e-6).value
    value = objective(y_proba, simulation.source_priors)
    best = minimize(value, np.full(K - 1, 1 / K), method="Nelder-Mead", tol=1e-9).x
    np.testing.assert_allclose(found[:-1], best, atol=1e-4)


def test_the_covariance_is_the_inverse_of_a_numerical_hessian(simulation, rng):
    y_proba, _ = simulation.draw(TARGET, 500, rng)
    problem = problem_of(y_proba, simulation.source_priors)
    p = maximise(problem, tol=1e-6).value
    covariance = _laplace(problem, p)
    value, h = objective(y_proba, simulation.source_priors), 1e-4
    steps = h * np.eye(K - 1)
    hessian = [
        [
            (
                value(p[:-1] + a + b)
                - value(p[:-1] + a - b)
                - value(p[:-1] - a + b)
                + value(p[:-1] - a - b)
            )
            / (4 * h * h)
            for a in steps
        ]
        for b in steps
    ]
    np.testing.assert_allclose(covariance[:-1, :-1], np.linalg.inv(hessian), rtol=1e-3, atol=1e-9)
    np.testing.assert_allclose(covariance.sum(axis=1), 0, atol=1e-9)


def test_errors_fall_with_the_target_and_are_those_promised(simulation):
    errors, promised = [], []
    for n in (200, 2000, 20_000):
        of_n, variance = [], []
        for seed in range(5):
            y_proba, _ = simulation.draw(TARGET, n, np.random.default_rng(seed))
            shares = estimate_shares(y_proba, simulation.source_priors)
            assert shares.converged
            of_n.append(((shares.priors - TARGET) ** 2).sum())
            variance.append(np.trace(whole(shares)))
        errors.append(np.sqrt(np.mean(of_n)))
        promised.append(np.sqrt(np.mean(variance)))
    assert errors[0] > errors[1] > errors[2]
    assert (np.divide(errors, promised) > 0.4).all()
    assert (np.divide(errors, promised) < 1.6).all()


def test_no_shift_is_shrunk_to_the_source(simulation):
    source, distance = simulation.source_priors, []
    for seed in range(10):
        y_proba, _ = simulation.draw(source, 500, np.random.default_rng(seed))
        shrunk = estimate_shares(y_proba, source).priors
        free = maximise(problem_of(y_proba, source), tol=TOL).value
        distance.append([np.abs(p - source).sum() for p in (shrunk, free)])
    shrunk, free = np.mean(distance, axis=0)
    assert shrunk < 0.9 * free


def test_a_uniform_target_is_recognised(simulation, rng):
    y_proba, _ = simulation.draw(np.full(K, 1 / K), 3000, rng)
    shares = estimate_shares(y_proba, simulation.source_priors)
    np.testing.assert_allclose(shares.priors, 1 / K, atol=0.02)


def test_rows_that_are_all_alike_are_evidence_too(simulation):
    shares = estimate_shares(np.tile(np.eye(K)[2], (50, 1)), simulation.source_priors)
    assert shares.priors[2] > 0.9


def test_the_jackknife_by_hand(simulation, rng):
    y_proba, _ = simulation.draw(TARGET, 300, rng)
    refits = [y_proba[:150], y_proba[150:], y_proba[::2]]
    source = simulation.source_priors
    problem = problem_of(y_proba, source)
    first = maximise(problem, tol=TOL, start=source).value
    found = [maximise(problem_of(one, source), tol=TOL, start=first).value for one in refits]
    plain = 2 / 3 * sum(np.outer(one, one) for one in found - np.mean(found, axis=0))
    noise = _laplace(problem, first)
    in_shape = np.trace(plain) / np.trace(noise) * noise
    shares = estimate_shares(y_proba, source, refits)
    np.testing.assert_allclose(shares.jackknife, (plain + in_shape) / 2)
    assert not estimate_shares(y_proba, source, refits[:1]).jackknife.any()


def test_an_uncertain_calibrator_tempers_and_shrinks(simulation, rng):
    y_proba, _ = simulation.draw(TARGET, 300, rng)

    def bent(factors):
        for factor in factors:
            skewed = y_proba * factor ** np.linspace(-1, 1, K)
            yield skewed / skewed.sum(axis=1, keepdims=True)

    source = simulation.source_priors
    alone = estimate_shares(y_proba, source)
    alike = estimate_shares(y_proba, source, [y_proba] * 5)
    unsure = estimate_shares(y_proba, source, bent([0.3, 0.6, 1.0, 1.6, 3.0]))
    assert alone.tempering == 1
    assert alike.tempering == pytest.approx(1, abs=0.01)
    assert 0 < unsure.tempering < 0.5
    assert np.trace(whole(unsure)) > 2 * np.trace(whole(alone))
    moved = [np.abs(shares.priors - source).sum() for shares in (unsure, alone)]
    assert moved[0] < moved[1]


def test_the_tempering_is_the_mean_share_of_the_likelihoods_own_variance(simulation, rng):
    y_proba, _ = simulation.draw(TARGET, 300, rng)
    refits = [y_proba[:150], y_proba[150:], y_proba[::2]]
    shares = estimate_shares(y_proba, simulation.source_priors, refits)
    problem = problem_of(y_proba, simulation.source_priors)
    noise = _laplace(problem, maximise(problem, tol=TOL, start=simulation.source_priors).value)
    own, added = noise.diagonal(), shares.jackknife.diagonal()
    expected = np.exp(np.log(own / (own + added)).mean())
    assert shares.tempering == pytest.approx(expected, rel=1e-3)


def test_the_average_of_posteriors_by_hand(simulation, rng):
    """Priors at the source and at equal shares; one of concentration c counts 1 / c as much."""
    y_proba, _ = simulation.draw(TARGET, 60, rng)
    source, start = simulation.source_priors, np.full(K, 1 / K)
    logs, means, n_iter = [], [], 0
    for centre in (source, np.full(K, 1 / K)):
        for c in CONCENTRATIONS:
            rows = Mixture(y_proba, scale=1 / source)
            found = dirichlet_posterior(rows, c * K * centre, tempering=0.7, start=start)
            logs.append(found.log_marginal - np.log(c))
            start, n_iter = found.alpha / found.alpha.sum(), n_iter + found.n_iter
            means.append(start)
    weights = np.exp(logs) / np.exp(logs).sum()
    mean = weights @ means
    between = sum(
        w * np.outer(one - mean, one - mean) for w, one in zip(weights, means, strict=True)
    )
    problem = problem_of(y_proba, source)
    priors, apart, passes, _ = _posterior(problem, np.full(K, 1 / K), source, 0.7)
    np.testing.assert_allclose(priors, mean, rtol=1e-9)
    np.testing.assert_allclose(apart, between, atol=1e-12)
    assert passes == n_iter


def test_realised_shares_are_mean_posteriors_as_far_as_rows_count(simulation, rng):
    y_proba, _ = simulation.draw(TARGET, 40, rng)
    problem = problem_of(y_proba, simulation.source_priors)
    posterior = y_proba * (TARGET / simulation.source_priors)
    posterior /= posterior.sum(axis=1, keepdims=True)
    expected = 0.75 * TARGET + 0.25 * posterior.mean(axis=0)
    np.testing.assert_allclose(_realised(problem, TARGET, 0.25), expected, rtol=1e-9)


def test_passes_of_all_fits_are_counted(simulation, rng):
    y_proba, _ = simulation.draw(TARGET, 80, rng)
    source = simulation.source_priors
    problem = problem_of(y_proba, source)
    first = maximise(problem, tol=TOL, start=source)
    alone = estimate_shares(y_proba, source)
    passes = _posterior(problem, first.value, source, 1.0)[2]
    assert alone.n_iter == first.n_iter + passes
    again = maximise(problem, tol=TOL, start=first.value).n_iter
    both = estimate_shares(y_proba, source, [y_proba, y_proba])
    passes = _posterior(problem, first.value, source, both.tempering)[2]
    assert both.n_iter == first.n_iter + 2 * again + passes


def test_float32_and_rare_classes_do_no_harm(simulation, rng):
    rare = np.array([0.0, 0.001, 0.499, 0.5])
    y_proba, _ = simulation.draw(rare, 3000, rng)
    exact = estimate_shares(y_proba, simulation.source_priors)
    rough = estimate_shares(y_proba.astype(np.float32), simulation.source_priors)
    np.testing.assert_allclose(exact.priors, rough.priors, atol=1e-4)
    assert np.abs(exact.priors - rare).sum() < 0.05
    assert (np.linalg.eigvalsh(whole(exact)) > -1e-9).all()


# Intervals


@pytest.mark.parametrize("estimand", ["population", "sample"])
def test_the_interval_by_hand(estimand):
    """Half-widths that solve the equation of the docstring at each bound."""
    priors, unit, nothing = np.array([0.3, 0.7]), np.eye(2), np.zeros((2, 2))
    shares = Shares(priors, 0.002 * unit, 0.0004 * unit, 1.0, 1, True)
    votes = Votes(np.array([0.36, 0.64]), np.full(2, 0.2), nothing, nothing, 200, np.ones(2))
    request = IntervalRequest(0.95, np.random.default_rng(0), estimand=estimand)
    found = share_interval(priors, shares, np.full(2, 0.0001), votes, 200, 5, request)
    z, tail = norm.ppf(0.975), t.ppf(0.975, 4)
    contradiction = 0.06**2 - votes.variance("population")
    labels = priors * (1 - priors) / 200
    fixed = z**2 * (0.002 - labels + contradiction) + 2 * tail**2 * 0.0005
    own = 1 / 200 if estimand == "population" else 0.0
    for bound in found.interval.T:
        np.testing.assert_allclose((bound - priors) ** 2, fixed + z**2 * own * bound * (1 - bound))
    error = 0.002 - labels + contradiction + 2 * 0.0005 + 200 * own * labels
    np.testing.assert_allclose(found.standard_error**2, error)


def test_moments_that_agree_add_nothing():
    priors, unit, nothing = np.array([0.3, 0.7]), np.eye(2), np.zeros((2, 2))
    shares = Shares(priors, 0.002 * unit, 0 * unit, 1.0, 1, True)
    request = IntervalRequest(0.95, np.random.default_rng(0))
    near, exact = (
        Votes(raw, np.full(2, 0.2), nothing, nothing, 200, np.ones(2))
        for raw in (np.array([0.31, 0.69]), priors)
    )
    found = [
        share_interval(priors, shares, np.zeros(2), one, 200, 5, request) for one in (near, exact)
    ]
    np.testing.assert_array_equal(found[0].interval, found[1].interval)


# Gain


def test_the_gain_by_hand():
    """Four samples: the rule turns all but the third to the second class."""
    y_proba = np.array([[0.6, 0.4], [0.6, 0.4], [0.3, 0.7], [0.55, 0.45]])
    sample = Sample(y_proba, y_proba.argmax(axis=1), np.array([0, 1, 1, 1]), np.ones(4))
    target = np.array([[0.6, 0.4], [0.9, 0.1]])
    priors, source = np.array([0.25, 0.75]), np.array([0.5, 0.75])  # a ratio of 1/2 and 1
    covariance = np.array([[0.01, -0.01], [-0.01, 0.01]])
    gain = expected_gain(priors, covariance, source, sample, Target(target, target))
    # the model's own expectation: one row of the target changes, to (.3, .4)/.7
    mass = np.array([0.3 / 0.7 + 0.45 / 0.55, 0.4 / 0.7 + 0.1 / 0.55])
    lost, gained = np.array([0.3 / 0.7, 0.0]) / mass, np.array([0.0, 0.4 / 0.7]) / mass
    n = np.array([1, 3]) + MODEL_SAMPLES
    d = (np.array([-1.0, 2.0]) + MODEL_SAMPLES * (gained - lost)) / n
    square = (np.array([1.0, 2.0]) + MODEL_SAMPLES * (gained + lost)) / n
    spread = priors**2 * (square - d**2)
    variance = (spread / n).sum() + d @ covariance @ d
    variance += (priors @ square - (priors @ d) ** 2) / 2  # of the target's two rows
    assert gain.changed == 0.5
    assert gain.mean == pytest.approx(priors @ d)
    assert gain.standard_error == pytest.approx(np.sqrt(variance))


def test_where_no_decision_changes_the_gain_is_nothing(simulation, rng):
    y_proba, y = simulation.draw(simulation.source_priors, 200, rng)
    sample = Sample(y_proba, y_proba.argmax(axis=1), y, np.ones(200))
    source = simulation.source_priors
    gain = expected_gain(source, np.eye(K), source, sample, Target(y_proba, y_proba))
    assert gain == (0.0, 0.0, 0.0)


def test_the_gain_is_that_of_fresh_labels(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 4000, rng)
    y_proba, y = simulation.draw(TARGET, 4000, rng)
    source = simulation.source_priors
    sample = Sample(y_proba_val, y_proba_val.argmax(axis=1), y_val, np.ones(y_val.size))
    gain = expected_gain(TARGET, np.zeros((K, K)), source, sample, Target(y_proba, y_proba))
    real = (decide(y_proba, TARGET / source) == y).mean() - (y_proba.argmax(axis=1) == y).mean()
    assert gain.mean == pytest.approx(real, abs=3 * gain.standard_error)
    assert 0 < gain.standard_error < 0.02


def test_half_the_way_gains_what_fresh_labels_say(simulation, rng):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 4000, rng)
    y_proba, y = simulation.draw(TARGET, 4000, rng)
    source, target = simulation.source_priors, Target(y_proba, y_proba)
    sample = Sample(y_proba_val, y_proba_val.argmax(axis=1), y_val, np.ones(y_val.size))
    half, full = (
        expected_gain(TARGET, np.zeros((K, K)), source, sample, target, strength=strength)
        for strength in (0.5, 1.0)
    )
    new = decide(y_proba, np.sqrt(TARGET / source))
    real = (new == y).mean() - (y_proba.argmax(axis=1) == y).mean()
    assert half.mean == pytest.approx(real, abs=3 * half.standard_error)
    assert 0 < half.changed < full.changed
    assert 0 < half.mean < full.mean


def test_the_gain_is_as_uncertain_as_maps_differ_in_it():
    """Rows of no class of validation: the model's account alone counts, by each map's own."""
    y_proba = np.array([[0.6, 0.4], [0.9, 0.1], [0.2, 0.8]])
    sample = Sample(y_proba[:0], np.zeros(0, int), np.zeros(0, int), np.ones(0))
    priors, source, target = np.array([0.25, 0.75]), np.full(2, 0.5), Target(y_proba, y_proba)
    sharp = y_proba**3 / (y_proba**3).sum(axis=1, keepdims=True)
    beliefs = [Belief(0.75, priors, y_proba), Belief(0.25, np.array([0.5, 0.5]), sharp)]
    given = (priors, np.zeros((2, 2)), source, sample, target)
    alone, alike, apart = (
        expected_gain(*given, part=target, beliefs=by) for by in ((), beliefs[:1] * 2, beliefs)
    )
    assert alone == alike
    # the first row alone changes, from the first class to the second
    gains = []
    for one in beliefs:
        posterior = one.y_proba * one.priors / source
        posterior /= posterior.sum(axis=1, keepdims=True)
        mass = posterior.sum(axis=0)
        gains.append(one.priors @ (posterior[0] / mass * [-1, 1]))
    spread = 0.75 * 0.25 * (gains[0] - gains[1]) ** 2
    assert apart.mean == alone.mean == pytest.approx(gains[0])
    assert apart.standard_error**2 == pytest.approx(alone.standard_error**2 + spread)


def test_weights_are_repeated_rows():
    y_proba = np.array([[0.6, 0.4], [0.6, 0.4], [0.3, 0.7], [0.55, 0.45]])
    y, times = np.array([0, 1, 1, 1]), np.array([3, 1, 2, 1])
    priors, source, target = np.array([0.25, 0.75]), np.full(2, 0.5), Target(y_proba, y_proba)
    weighted = Sample(y_proba, y_proba.argmax(axis=1), y, times.astype(float))
    repeated = Sample(
        np.repeat(y_proba, times, axis=0),
        np.repeat(y_proba.argmax(axis=1), times),
        np.repeat(y, times),
        np.ones(7),
    )
    gains = [
        expected_gain(priors, np.eye(2), source, sample, target) for sample in (weighted, repeated)
    ]
    np.testing.assert_allclose(*gains)


def test_without_folds_nothing_is_known_of_the_calibrator():
    priors = np.array([0.3, 0.7])
    shares = Shares(priors, np.eye(2), 0 * np.eye(2), 1.0, 1, True)
    request = IntervalRequest(0.95, np.random.default_rng(0))
    found = share_interval(priors, shares, np.zeros(2), None, 10, 1, request)
    np.testing.assert_array_equal(found.interval, [[0, 1], [0, 1]])
