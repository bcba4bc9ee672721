"""Partial pooling: as far as the data support, and better than all or nothing."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import priorshift as ps
from priorshift.exceptions import PriorShiftWarning
from priorshift.groups import (
    GroupCounts,
    Pool,
    _log_likelihood,
    estimate_groups,
    within_covariance,
)

SMALL = tuple(np.random.default_rng(5).integers(3, 80, 150))


def estimate(data, method, pooling, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PriorShiftWarning)
        return estimate_groups(data.fit(method), data.y_proba, data.groups, pooling=pooling, **more)


def error(priors, truth):
    return np.sqrt(((priors - truth) ** 2).sum(axis=1).mean())


@pytest.mark.parametrize("method", ["scm-l", "cm-l", "scm", "scm-m", "em"])
@pytest.mark.parametrize("concentration", [5.0, 30.0])
def test_pooled_estimates_are_better_than_all_or_nothing(grouped, method, concentration):
    data = grouped(sizes=SMALL, concentration=concentration, n_val=400)
    own = estimate(data, method, None)
    pooled = estimate(data, method, "auto")
    whole = np.tile(own.whole.priors, (len(own), 1))
    mine = error(pooled.priors, data.truth)
    assert mine < error(own.priors, data.truth)
    assert mine < error(whole, data.truth)
    assert 0.4 * concentration < pooled.pooling < 2.5 * concentration


@pytest.mark.parametrize("method", ["scm-l", "cm-l", "em"])
def test_groups_that_are_alike_get_one_estimate(grouped, method):
    data = grouped(sizes=SMALL, concentration=np.inf)
    own, pooled = estimate(data, method, None), estimate(data, method, "auto")
    assert pooled.pooling > 200
    assert pooled.distance.max() < 0.1 * own.distance.max()
    copies = np.tile(data.y_proba[:50], (6, 1))
    same = estimate_groups(data.fit(method), copies, np.repeat(np.arange(6), 50))
    assert np.isinf(same.pooling)
    np.testing.assert_array_equal(same.priors, np.tile(same.whole.priors, (6, 1)))
    np.testing.assert_array_equal(same.weight, 0)
    assert set(same.status) == {same.whole.status}


@pytest.mark.parametrize("method", ["scm-l", "cm-l", "scm", "em"])
def test_large_groups_that_differ_keep_their_own(grouped, method):
    data = grouped(sizes=(4000, 4000, 4000, 4000), concentration=2.0)
    own, pooled = estimate(data, method, None), estimate(data, method, "auto")
    assert pooled.weight.min() > 0.98
    np.testing.assert_allclose(pooled.priors, own.priors, atol=0.02)


@pytest.mark.parametrize("method", ["scm-l", "scm-m", "em"])
def test_the_more_rows_the_larger_the_weight(grouped, method):
    data = grouped(sizes=(5, 20, 100, 500, 2000, 3))
    found = estimate(data, method, 50.0)
    order = np.argsort(found.n)
    assert (np.diff(found.weight[order]) > 0).all()
    assert found.pooling == 50
    more = estimate(data, method, 500.0)
    assert (more.weight < found.weight).all()
    assert (estimate(data, method, 0.0).weight == 1).all()
    np.testing.assert_array_equal(
        estimate(data, method, np.inf).priors, np.tile(found.whole.priors, (6, 1))
    )


def test_a_perfect_classifier_gives_the_dirichlet_posterior_mean():
    # c + tau m over n + tau: exactly so for hard decisions without mistakes
    rng = np.random.default_rng(0)
    K, tau = 3, 12.0
    mean = np.array([0.5, 0.3, 0.2])
    sizes = rng.integers(5, 60, 2000)
    truth = rng.dirichlet(tau * mean, 2000)
    counts = np.array([rng.multinomial(n, p) for n, p in zip(sizes, truth, strict=True)])
    rows = np.repeat(np.tile(np.arange(K), 2000), counts.ravel())
    groups = np.repeat(np.arange(2000), sizes)
    est = ps.CML().fit(np.eye(K)[np.repeat(np.arange(K), 10)], np.repeat(np.arange(K), 10))
    found = estimate_groups(est, np.eye(K)[rows], groups)
    assert found.pooling == pytest.approx(tau, rel=0.15)
    expected = (counts + tau * mean) / (sizes + tau)[:, None]
    np.testing.assert_allclose(found.priors, expected, atol=0.02)
    np.testing.assert_allclose(found.weight, sizes / (sizes + tau), atol=0.03)


def test_a_giant_group_does_not_pull_the_centre(grouped):
    # the mean of groups, not of rows: most groups are unlike the giant
    data = grouped(sizes=(20_000, *[60] * 60), concentration=2.0, n_val=400)
    found = estimate(data, "scm-l", "auto")
    typical = data.truth[1:].mean(axis=0)
    of_pooled = np.abs(found.pooled.priors - typical).sum()
    of_whole = np.abs(found.whole.priors - typical).sum()
    assert of_pooled < 0.5 * of_whole


def test_the_likelihood_is_the_restricted_one(rng):
    # independent: contrasts that are free of the mean
    n, theta, variance = rng.integers(1, 9, 5).astype(float), rng.standard_normal((5, 1)), 0.3
    contrasts = np.column_stack([np.eye(4), -np.ones(4)])
    covariance = contrasts @ np.diag(1 / n + variance) @ contrasts.T
    oracle = multivariate_normal(np.zeros(4), covariance).logpdf(contrasts @ theta[:, 0])
    other = contrasts @ np.diag(1 / n + 2.0) @ contrasts.T
    oracle -= multivariate_normal(np.zeros(4), other).logpdf(contrasts @ theta[:, 0])
    mine = _log_likelihood(n[:, None], theta, np.array([variance]))
    mine -= _log_likelihood(n[:, None], theta, np.array([2.0]))
    assert mine == pytest.approx(oracle)


def test_axes_turn_noise_and_signal_into_independent_numbers(grouped):
    data = grouped(sizes=SMALL)
    est = data.fit("scm-l")
    counts = GroupCounts.from_arrays(data.y_proba, data.groups, decision="soft")
    C, p = est.confusion_.conditional, est.estimate(data.y_proba).priors
    spread = Pool("auto", counts, C, p)
    Sigma = within_covariance(counts)
    np.testing.assert_allclose(spread.axes @ spread.axes.T, Sigma, atol=1e-12)
    d = (counts.n_rows.sum() * p + 0.25) / (counts.n_rows.sum() + 1)
    signal = C @ (np.diag(d) - np.outer(d, d)) @ C.T
    np.testing.assert_allclose((spread.axes * spread.signal) @ spread.axes.T, signal, atol=1e-12)
    frequencies = counts.counts / counts.n_rows[:, None]
    np.testing.assert_allclose(spread.decisions(spread.theta), frequencies, atol=1e-12)
    raw = np.linalg.solve(C, frequencies.T).T
    centre = np.linalg.solve(C, spread.mean)
    np.testing.assert_allclose(spread.theta @ spread.to_priors.T, raw - centre, atol=1e-10)


def test_the_covariance_is_that_within_groups(grouped):
    data = grouped(sizes=(2000, 3000, 1500), concentration=1.0)
    counts = GroupCounts.from_arrays(data.y_proba, data.groups, decision="soft")
    parts = [np.cov(data.y_proba[data.groups == g].T, bias=True) for g in range(3)]
    oracle = np.average(parts, axis=0, weights=counts.n_rows)
    np.testing.assert_allclose(within_covariance(counts), oracle, atol=1e-3)


def test_posterior_variance_is_that_of_the_linear_model(grouped):
    data = grouped(sizes=SMALL)
    est = data.fit("scm-l")
    counts = GroupCounts.from_arrays(data.y_proba, data.groups, decision="soft")
    C = est.confusion_.conditional
    spread = Pool("auto", counts, C, est.estimate(data.y_proba).priors)
    v, g = 0.05, 3
    D = np.linalg.solve(C, np.linalg.solve(C, (spread.axes * spread.signal) @ spread.axes.T).T)
    noise = np.linalg.solve(C, np.linalg.solve(C, spread.axes @ spread.axes.T / counts.n_rows[g]).T)
    D, noise = v * D[:-1, :-1], noise[:-1, :-1]
    oracle = np.linalg.inv(np.linalg.inv(D) + np.linalg.inv(noise))
    # a group known exactly hardly leaves noise of the centre
    spread.mass, spread.variance = np.append(counts.n_rows, 1e12), v
    found = spread.prior_variance()[g, :-1]
    assert (found >= np.diag(oracle) - 1e-12).all()
    np.testing.assert_allclose(found, np.diag(oracle), rtol=0.05)


@pytest.mark.parametrize("method", ["scm-l", "cm-l"])
@pytest.mark.parametrize(("pooling", "least"), [(None, 0.94), ("auto", 0.92)])
def test_intervals_cover(grouped, method, pooling, least):
    data = grouped(sizes=SMALL, concentration=15.0, n_val=400)
    found = estimate(data, method, pooling, confidence_level=0.95)
    lower, upper = found.interval[..., 0], found.interval[..., 1]
    covered = ((lower <= data.truth) & (data.truth <= upper)).mean()
    assert covered >= least
    assert ((lower <= found.priors) & (found.priors <= upper)).all()
    assert lower.min() >= 0
    assert upper.max() <= 1
    assert found.confidence_level == 0.95
    assert (found.standard_error > 0).all()


def test_pooling_narrows_intervals_and_more_confidence_widens_them(grouped):
    data = grouped(sizes=SMALL, concentration=15.0)
    width = {}
    for pooling in (None, "auto", np.inf):
        for level in (0.8, 0.95):
            interval = estimate(data, "scm-l", pooling, confidence_level=level).interval
            width[pooling, level] = (interval[..., 1] - interval[..., 0]).mean()
    for level in (0.8, 0.95):
        assert width[np.inf, level] < width["auto", level] < width[None, level]
    for pooling in (None, "auto", np.inf):
        assert width[pooling, 0.8] < width[pooling, 0.95]


def test_intervals_of_large_groups_are_those_of_the_estimator(grouped):
    data = grouped(sizes=(3000, 5000), concentration=3.0)
    est = data.fit("scm-l")
    found = estimate(data, "scm-l", None, confidence_level=0.9)
    for g in range(2):
        alone = est.estimate(data.y_proba[data.groups == g], confidence_level=0.9)
        np.testing.assert_allclose(found.interval[g], alone.interval, atol=0.01)
        np.testing.assert_allclose(found.standard_error[g], alone.standard_error, rtol=0.1)


def test_one_group_is_the_whole(grouped):
    data = grouped(sizes=(100,))
    found = estimate(data, "scm-l", "auto")
    np.testing.assert_array_equal(found.priors[0], found.whole.priors)


def test_groups_of_one_row_are_pooled(grouped):
    data = grouped(sizes=(1,) * 60, concentration=np.inf)
    for method in ("scm-l", "cm-l", "em"):
        found = estimate(data, method, "auto")
        assert np.isfinite(found.priors).all()
        assert found.weight.max() < 0.5


def test_rounding_of_single_precision_leaves_a_covariance():
    rng = np.random.default_rng(4)
    shares = rng.dirichlet(np.ones(2), size=5)
    y_proba = np.insert(shares, 1, 0.0, axis=1).astype(np.float16)
    counts = GroupCounts.from_arrays(y_proba, [1, 2, 3, 1, 2], decision="soft")
    many = {name: 10**12 * getattr(counts, name) for name in ("n_rows", "counts", "second")}
    counts = replace(counts, **many)
    assert np.linalg.eigvalsh(within_covariance(counts)[:-1, :-1])[0] > 0
