"""The numbers below estimators: bounds, votes, resampling weights, posterior draws."""

import numpy as np
import pytest
from scipy.stats import beta, binom

from priorshift.solvers import Mixture, maximise
from priorshift.statistics import Confusion
from priorshift.uncertainty import (
    IntervalRequest,
    SourceNoise,
    Votes,
    bootstrap_draws,
    bootstrap_interval,
    credible_interval,
    invert,
    likelihood_interval,
    posterior_draws,
    score_bounds,
    stratified_weights,
    wilson_bounds,
)


def request_for(level=0.95, **options):
    return IntervalRequest(level, np.random.default_rng(0), **options)


def test_score_bounds_invert_the_test_they_come_from(rng):
    centre, a, b = rng.random(20), 0.01 * rng.random(20), 0.01 * rng.random(20)
    c, z = -0.01 * rng.random(20), 1.7
    for bound in score_bounds(centre, z, a, b, c):
        np.testing.assert_allclose((centre - bound) ** 2, z**2 * (a + b * bound + c * bound**2))


def test_wilson_bounds_are_those_of_scipy():
    from scipy.stats import binomtest

    lower, upper = wilson_bounds(np.array([0.0, 0.1, 0.5]), 40, 1.959963984540054)
    for k, x in enumerate((0, 4, 20)):
        expected = binomtest(x, 40).proportion_ci(0.95, method="wilson")
        assert (lower[k], upper[k]) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_votes_give_the_variance_of_the_whole_covariance_matrix(simulate, rng):
    """Sigma(p) written out with its K x K x K array, for many samples a class."""
    K = 4
    simulation = simulate(K, spread=1.2)
    y_proba_val, y_val = simulation.draw(np.full(K, 1 / K), 4000, rng)
    y_proba, _ = simulation.draw(np.array([0.1, 0.2, 0.3, 0.4]), 3000, rng)
    confusion = Confusion.from_arrays(y_proba_val, y_val, decision="soft")
    votes = Votes.of(confusion, y_proba, y_proba_val, y_val)
    C = confusion.conditional
    raw = np.linalg.solve(C, y_proba.mean(axis=0))
    np.testing.assert_allclose(votes.raw, raw, atol=1e-12)
    S = [np.cov(y_proba_val[y_val == k].T) for k in range(K)]
    n = np.bincount(y_val)
    validation = sum(raw[k] ** 2 * S[k] / n[k] for k in range(K))
    B = np.linalg.inv(C)
    for estimand, target in (
        ("population", np.cov(y_proba.T) / 3000),
        ("sample", sum(raw[k] * S[k] / 3000 for k in range(K))),
    ):
        expected = np.diagonal(B @ (target + validation) @ B.T)
        np.testing.assert_allclose(votes.variance(estimand), expected, rtol=0.03)


def test_a_singular_matrix_has_its_pseudo_inverse():
    C = np.array([[0.5, 0.5], [0.5, 0.5]])
    np.testing.assert_allclose(invert(C), np.linalg.pinv(C))
    nearly = C + np.array([[0.0, 1e-17], [0.0, -1e-17]])
    assert np.abs(invert(nearly)).max() < 10


def test_stratified_weights_keep_class_sizes(rng):
    y = rng.integers(0, 5, 200)
    weights = [stratified_weights(y, 6, np.random.default_rng(seed)) for seed in range(300)]
    for weight in weights:
        np.testing.assert_array_equal(np.bincount(y, weight, 6), np.bincount(y, minlength=6))
    # each row is drawn once on average, with the spread of a multinomial
    assert np.mean(weights, axis=0).std() < 0.1
    assert np.var(weights) == pytest.approx(1 - 5 / 200, rel=0.05)


def test_resamples_do_not_depend_on_the_number_of_threads(monkeypatch):
    import priorshift.execution as execution

    def draw(rng):
        return rng.standard_normal(3)

    many = bootstrap_draws(draw, 37, np.random.default_rng(1))
    monkeypatch.setattr(execution, "n_threads", lambda: 1)
    np.testing.assert_array_equal(many, bootstrap_draws(draw, 37, np.random.default_rng(1)))
    assert np.unique(many).size == many.size


def test_bootstrap_interval_of_normal_draws(rng):
    draws = 0.3 + 0.02 * rng.standard_normal((20_000, 2))
    found = bootstrap_interval(draws, np.full(2, 0.3), np.full(2, 0.3), 1e6, request_for())
    np.testing.assert_allclose(found.interval[0], 0.3 + 0.0392 * np.array([-1, 1]), rtol=0.02)
    np.testing.assert_allclose(found.standard_error, 0.02, rtol=0.03)
    together = bootstrap_interval(
        draws, np.full(2, 0.3), np.full(2, 0.3), 1e6, request_for(simultaneous=True)
    )
    # two independent classes: the level of each is sqrt(0.95)
    np.testing.assert_allclose(together.interval[0, 1] - 0.3, 0.02 * 2.236, rtol=0.02)


def test_gibbs_without_mistakes_is_the_conjugate_posterior():
    V, n = np.diag([1e6, 1e6, 1e6]), np.array([5.0, 20.0, 75.0])
    drawn = posterior_draws(V, n, alpha=2.0, n_draws=4000, thin=1, random_state=0)
    for k in range(3):
        expected = beta(n[k] + 2, 106 - n[k] - 2)
        got = np.quantile(drawn.priors[:, k], [0.05, 0.5, 0.95])
        np.testing.assert_allclose(got, expected.ppf([0.05, 0.5, 0.95]), atol=0.006)
    np.testing.assert_array_equal(drawn.realised[7], n / 100)


def test_gibbs_is_the_posterior_on_a_grid():
    """Two classes, the confusion matrix integrated out by brute force."""
    V, n = np.array([[17.0, 3.0], [2.0, 16.0]]), np.array([30.0, 20.0])
    drawn = posterior_draws(V, n, pseudo_counts=1.0, n_draws=12_000, thin=1, random_state=1)
    grid = (np.arange(60) + 0.5) / 60
    p, a, b = np.meshgrid(grid, grid, grid, indexing="ij")
    likelihood = binom.pmf(30, 50, p * a + (1 - p) * b)
    weight = (likelihood * beta.pdf(a, 18, 3) * beta.pdf(b, 4, 17)).sum(axis=(1, 2))
    mean = (weight @ grid) / weight.sum()
    deviation = np.sqrt((weight @ (grid - mean) ** 2) / weight.sum())
    assert drawn.priors[:, 0].mean() == pytest.approx(mean, abs=0.01)
    assert drawn.priors[:, 0].std() == pytest.approx(deviation, rel=0.05)


def test_credible_intervals_hold_what_they_say(rng):
    draws = rng.dirichlet([0.5, 3.0, 10.0, 30.0], 8000)
    priors = draws.mean(axis=0)
    found = credible_interval(draws, priors, request_for(0.9))
    inside = (draws >= found.interval[:, 0]) & (draws <= found.interval[:, 1])
    np.testing.assert_allclose(inside.mean(axis=0), 0.9, atol=0.011)
    assert found.interval[0, 0] == 0
    together = credible_interval(draws, priors, request_for(0.9, simultaneous=True)).interval
    inside = (draws >= together[:, 0]) & (draws <= together[:, 1])
    assert inside.all(axis=1).mean() == pytest.approx(0.9, abs=0.02)


def test_source_noise_is_the_variance_of_a_mean(rng):
    y_proba = rng.dirichlet(np.ones(3), 500)
    source, slope = y_proba.mean(axis=0), rng.standard_normal((2, 3))
    got = SourceNoise(y_proba, np.full(500, 1 / 500)).variance(source, slope)
    expected = np.diagonal(slope / source @ np.cov(y_proba.T) / 500 @ (slope / source).T)
    np.testing.assert_allclose(got, expected)
    y, priors = np.arange(500) % 2, np.array([0.3, 0.7])
    got = SourceNoise(y_proba, priors[y] / 250, y).variance(source, slope)
    S = sum(priors[k] ** 2 * np.cov(y_proba[y == k].T) / 250 for k in range(2))
    np.testing.assert_allclose(got, np.diagonal(slope / source @ S @ (slope / source).T))


def test_likelihood_bounds_of_two_classes_are_likelihood_ratios(rng):
    """With two classes the path is the whole simplex, so the profile is the likelihood itself."""
    A = rng.dirichlet(np.ones(2), 300)
    problem = Mixture.of(A)
    mle = maximise(problem, tol=1e-9).value
    found = likelihood_interval(problem, mle, mle, request_for(), np.full(2, 0.5))
    peak = problem.evaluate(mle)[0]
    for bound in found.interval[0]:
        drop = 2 * (peak - problem.evaluate(np.array([bound, 1 - bound]))[0])
        assert drop == pytest.approx(1.96**2, rel=1e-2)
    information = (((A[:, 0] - A[:, 1]) / (A @ mle)) ** 2).sum()
    np.testing.assert_allclose(found.standard_error, information**-0.5, rtol=1e-6)


def test_a_class_without_rows_has_an_upper_bound():
    """M rows that are surely not of a class bound it by -log(1 - p) M = z²/2."""
    problem = Mixture.of(np.tile([1.0, 1e-12], (200, 1)))
    mle = np.array([1.0, 0.0])
    found = likelihood_interval(problem, mle, mle, request_for(), np.full(2, 0.5))
    assert found.interval[1].tolist() == pytest.approx([0, 1 - np.exp(-(1.96**2) / 400)], rel=1e-2)
