"""The shift test: against tests done by hand, under symmetries, by simulation."""

import pickle

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

import priorshift as ps
from priorshift.evidence import ShiftTest, detect_shift
from priorshift.evidence._detect import beyond_noise, directions
from priorshift.evidence._samples import (
    Power,
    draw_noise,
    draw_permutations,
    p_value,
    read_samples,
    whiten,
    whiten_deviations,
)


def coins(n_ones, n):
    """Return decisions of two classes that are sure of themselves."""
    return np.eye(2)[np.repeat([0, 1], [n - n_ones, n_ones])]


@pytest.fixture
def data(simulate, rng):
    world = simulate(4)
    y_proba_val, y_val = world.draw(world.source_priors, 300, rng)
    y_proba, _ = world.draw(np.array([0.4, 0.1, 0.2, 0.3]), 250, rng)
    return y_proba_val, y_val, y_proba


def test_two_classes_are_a_two_sample_test_of_proportions():
    n, M, ones, target_ones = 80, 120, 24, 54
    y = np.repeat([0, 1], [50, 30])  # any labels: permutation compares predictions
    test = detect_shift(
        coins(ones, n),
        y,
        coins(target_ones, M),
        n_resamples=19_999,
        random_state=0,
    )
    pooled = (ones + target_ones) / (n + M)
    z = (ones / n - target_ones / M) / np.sqrt(pooled * (1 - pooled) * (1 / n + 1 / M))
    np.testing.assert_allclose(test.statistic, z**2, rtol=1e-9)
    assert test.method == "permutation"
    assert test.degrees_of_freedom == 1
    # exact: the permuted validation holds a hypergeometric number of ones
    k = np.arange(ones + target_ones + 1)
    far = np.abs(k / n - (ones + target_ones - k) / M) >= abs(ones / n - target_ones / M) - 1e-12
    exact = hypergeom(n + M, ones + target_ones, n).pmf(k)[far].sum()
    assert abs(test.p_value - exact) < 4 * np.sqrt(exact / 19_999)


def test_known_priors_and_chosen_labels_give_a_z_test_with_both_variances():
    """C = [[.8, .3], [.2, .7]] from 100 samples a class, q = .5 from 400, p^N = (.5, .5)."""
    y = np.repeat([0, 1], 100)
    y_proba_val = np.vstack([coins(20, 100), coins(70, 100)])
    y_proba = coins(200, 400)
    test = detect_shift(y_proba_val, y, y_proba, source_label_priors=[0.5, 0.5], random_state=0)
    assert test.method == "bootstrap"
    d = 0.5 - 0.45
    pooled = (400 * 0.5 + 200 * 0.45) / 600  # of what the target might have had
    variance = pooled * (1 - pooled) / 400 + 0.25 * (0.2 * 0.8 + 0.3 * 0.7) / 99
    samples = read_samples(y_proba_val, y, y_proba)
    noise = draw_noise(samples, np.array([0.5, 0.5]), 40_000, np.random.default_rng(1))
    np.testing.assert_allclose(noise[:, 1].var(), variance, rtol=0.03)
    p = 2 * (1 - _normal_cdf(d / np.sqrt(variance)))
    assert abs(test.p_value - p) < 0.05


def _normal_cdf(z):
    from scipy.stats import norm

    return norm.cdf(z)


def test_noise_has_the_covariance_of_the_formula(data, rng):
    samples = read_samples(*data)
    p = np.array([0.1, 0.2, 0.3, 0.4])
    f, y, g = data
    counts = np.bincount(y, minlength=4)
    size = 1 / (p**2 / counts).sum()
    rows = np.vstack([f, g])  # both sides, as far as each is worth
    share = np.concatenate([size * (p / counts)[y], np.ones(len(g))]) / (size + len(g))
    expected = np.cov(rows.T, aweights=share, ddof=0) / len(g)
    for k in range(4):
        expected += p[k] ** 2 * np.cov(f[y == k].T) / (y == k).sum()
    drawn = draw_noise(samples, p, 40_000, rng)
    np.testing.assert_allclose(np.cov(drawn.T), expected, atol=0.03 * np.abs(expected).max())
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=5 * np.sqrt(expected.max() / 40_000))


def test_a_class_with_one_sample_is_given_the_noise_of_the_others(rng):
    y = np.array([0, 0, 0, 0, 1])
    f = np.array([[0.9, 0.1], [0.7, 0.3], [0.8, 0.2], [0.6, 0.4], [0.2, 0.8]])
    samples = read_samples(f, y, np.full((2, 2), 0.5))
    drawn = draw_noise(samples, np.array([0.4, 0.6]), 40_000, rng)
    within, scale = np.var([0.9, 0.7, 0.8, 0.6], ddof=1), 0.4**2 / 4 + 0.6**2
    rows, weights = np.append(f[:, 0], [0.5, 0.5]), [0.1 / scale] * 4 + [0.6 / scale, 1, 1]
    of_target = np.cov(rows, aweights=weights, ddof=0) / 2
    np.testing.assert_allclose(drawn[:, 0].var(), of_target + within * scale, rtol=0.05)


def test_permutations_exchange_rows(data, rng):
    samples = read_samples(*data)
    drawn = draw_permutations(samples, 4000, rng)
    rows = np.vstack([data[0], data[2]])
    expected = np.cov(rows.T) * (1 / 300 + 1 / 250)
    np.testing.assert_allclose(np.cov(drawn.T), expected, atol=0.1 * np.abs(expected).max())


def test_whitening_is_the_inverse_but_for_a_little_of_the_diagonal(rng):
    rows = rng.dirichlet(np.ones(5), 1000)
    covariance = np.cov(rows.T)
    W = whiten(covariance, 10**9)
    assert W.shape[1] == 4  # the sum of a row never varies
    np.testing.assert_allclose(W.T @ covariance @ W, np.eye(4), atol=1e-6)
    few = whiten(covariance, 20)
    assert 3 < np.trace(few.T @ covariance @ few) < 6
    two = np.cov(rng.dirichlet(np.ones(2), 50).T)  # with two classes nothing is replaced
    np.testing.assert_allclose(whiten(two, 1) ** 2, whiten(two, 10**9) ** 2, rtol=1e-6)


@pytest.mark.parametrize(("K", "n"), [(10, 13), (13, 1000), (100, 500)])
def test_equal_rows_show_no_shift_whatever_their_mean_is_rounded_to(K, n, rng):
    row = rng.dirichlet(np.ones(K))
    y = np.arange(n) % K
    for one in (row, np.full(K, 1 / K)):
        rows = np.tile(one, (n, 1))
        test = ps.detect_shift(rows, y, np.tile(one, (100, 1)), random_state=0)
        assert (test.p_value, test.degrees_of_freedom) == (1.0, 0)
        assert ps.check_assumption(rows, y, rows[:37], random_state=0).p_value is None


def test_order_of_rows_and_classes_does_not_matter(data, rng):
    f, y, g = data
    first = detect_shift(f, y, g, random_state=0)
    rows, others = rng.permutation(y.size), rng.permutation(g.shape[0])
    shuffled = detect_shift(f[rows], y[rows], g[others], random_state=0)
    np.testing.assert_allclose(shuffled.statistic, first.statistic, rtol=1e-9)
    order = np.array([2, 0, 3, 1])
    named = np.array(["a", "b", "c", "d"])
    permuted = detect_shift(
        f[:, order],
        named[y],
        g[:, order],
        classes=named[order],
        random_state=0,
    )
    np.testing.assert_allclose(permuted.statistic, first.statistic, rtol=1e-6)
    np.testing.assert_allclose(permuted.effect_size, first.effect_size, atol=1e-4)
    assert abs(permuted.p_value - first.p_value) < 0.02


def whitened(samples, priors, drawn):
    """Return draws of noise and the statistic in units of the noise."""
    whitener = whiten_deviations(samples, priors)
    return drawn @ whitener, (((samples.q - samples.C @ priors) @ whitener) ** 2).sum()


def draw_p_values(world, source, priors, per_class, n_target, n):
    """Test n simulated targets; validation has chosen class counts, the source is known."""
    found = []
    for seed in range(n):
        rng = np.random.default_rng([seed, 5])
        y_val = np.repeat(np.arange(source.size), per_class)
        y_proba_val = _predict(world, y_val, rng)
        y_proba = _predict(world, rng.choice(source.size, n_target, p=priors), rng)
        samples = read_samples(y_proba_val, y_val, y_proba, np.arange(source.size))
        noise, observed = whitened(samples, source, draw_noise(samples, source, 99, rng))
        found.append(p_value((noise**2).sum(axis=1), observed))
    return np.array(found)


def _predict(world, y, rng):
    x = world.means[y] + rng.standard_normal((y.size, world.means.shape[1]))
    z = x @ world.means.T - 0.5 * (world.means**2).sum(axis=1)
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


def long_tail(K):
    priors = 20.0 ** (-np.arange(K) / (K - 1))
    return priors / priors.sum()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("K", "per_class", "n_target", "n"), [(4, 25, 200, 400), (30, 10, 400, 200)]
)
def test_level_is_five_per_cent(simulate, K, per_class, n_target, n):
    """Between what 4 % and 6 % allow but once in a thousand; a chi-square is far beyond."""
    world, source = simulate(K, dim=6), long_tail(K)
    found = draw_p_values(world, source, source, per_class, n_target, n)
    rejected = np.count_nonzero(found <= 0.05)
    assert binom(n, 0.04).ppf(0.001) <= rejected <= binom(n, 0.06).ppf(0.999), rejected / n


@pytest.mark.slow
def test_a_hundred_classes_with_ten_samples_each(simulate):
    world, source = simulate(100, dim=10), np.full(100, 0.01)
    found = draw_p_values(world, source, source, 10, 1000, 100)
    assert binom(100, 0.04).ppf(0.001) <= np.count_nonzero(found <= 0.05)
    assert np.count_nonzero(found <= 0.05) <= binom(100, 0.06).ppf(0.999)
    shifted = source * np.where(np.arange(100) % 2, 1.5, 0.5)
    assert (draw_p_values(world, source, shifted, 10, 1000, 20) <= 0.05).mean() > 0.9


@pytest.mark.slow
def test_level_of_the_permutation_test(simulate):
    world, n, rejected = simulate(5), 300, 0
    for seed in range(n):
        rng = np.random.default_rng([seed, 6])
        y_proba_val, y_val = world.draw(world.source_priors, 60, rng)
        y_proba, _ = world.draw(world.source_priors, 100, rng)
        samples = read_samples(y_proba_val, y_val, y_proba, np.arange(5))
        drawn = draw_permutations(samples, 99, rng)
        noise, observed = whitened(samples, samples.class_counts / 60, drawn)
        rejected += p_value((noise**2).sum(axis=1), observed) <= 0.05
    assert binom(n, 0.04).ppf(0.001) <= rejected <= binom(n, 0.06).ppf(0.999)


def test_power_is_what_a_two_sample_test_would_have(rng):
    """One coin against another: the power of a z-test, by hand."""
    from scipy.stats import norm

    n = M = 400
    y = np.repeat([0, 1], [200, 200])
    samples = read_samples(coins(200, n), y, coins(200, M))
    even = np.array([0.5, 0.5])
    whitener = whiten_deviations(samples, even)
    noise = draw_permutations(samples, 4999, rng) @ whitener
    ways = directions(even, rng) @ samples.C.T @ whitener
    power = Power(noise, ways, 0.05)
    sd = np.sqrt(0.25 * (1 / n + 1 / M))
    for size in (0.05, 0.1):
        expected = norm.sf(1.96 - size / sd) + norm.cdf(-1.96 - size / sd)
        assert abs(power.at(size) - expected) < 0.06
    detectable = power.detectable()
    assert abs(detectable - (1.96 + 0.8416) * sd) < 0.01
    assert power.at(0.95 * detectable) < 0.8 <= power.at(detectable)


def test_directions_keep_the_sum_and_have_unit_length(rng):
    ways = directions(np.array([0.7, 0.2, 0.1, 0.0]), rng)
    np.testing.assert_allclose(ways.sum(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(np.abs(ways).sum(axis=1), 2)
    assert not ways[:, 3].any()
    assert not directions(np.array([1.0, 0.0]), rng).any()


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.013])
def test_beyond_the_critical_value_the_p_value_is_at_most_alpha(rng, alpha):
    drawn, way = rng.random(199), np.ones((1, 1))
    limit = Power(np.sqrt(drawn)[:, None], way, alpha).limit
    assert p_value(drawn, limit + 1e-6) <= alpha < p_value(drawn, limit)
    assert Power(drawn[:10, None], way, 0.01).limit == np.inf


def test_effect_size_is_found_and_its_interval_holds_it(simulate, rng):
    world = simulate(4)
    priors = np.array([0.4, 0.1, 0.2, 0.3])
    y_proba_val, y_val = world.draw(world.source_priors, 4000, rng)
    y_proba, _ = world.draw(priors, 4000, rng)
    test = detect_shift(
        y_proba_val, y_val, y_proba, source_label_priors=world.source_priors, random_state=0
    )
    truth = np.abs(priors - world.source_priors).sum() / 2
    assert abs(test.effect_size - truth) < 0.03
    assert test.effect_interval[0] < truth < test.effect_interval[1]
    scml = ps.SCML().fit(y_proba_val, y_val).estimate(y_proba)
    np.testing.assert_allclose(test.priors, scml.priors, atol=1e-4)  # one solution inside


def draw_effects(K, per_class, n_target, priors, n, simulate):
    """Return effect sizes, plain distances and intervals of n simulated targets."""
    world, source, found = simulate(K, dim=5), np.full(K, 1 / K), []
    for seed in range(n):
        rng = np.random.default_rng([seed, 12])
        y_val = rng.choice(K, per_class * K)
        y_proba_val = _predict(world, y_val, rng)
        y_proba = _predict(world, rng.choice(K, n_target, p=priors), rng)
        test = detect_shift(
            y_proba_val,
            y_val,
            y_proba,
            source_label_priors=source,
            classes=np.arange(K),
            n_resamples=99,
            random_state=seed,
        )
        plain = np.abs(test.priors - source).sum() / 2
        found.append([test.effect_size, plain, *test.effect_interval])
        assert test.rejected or test.effect_interval[0] == 0
    return np.array(found).T


@pytest.mark.slow
def test_without_a_shift_the_effect_is_small_and_its_interval_covers_0(simulate):
    """The plain distance of 26 classes is large by noise alone."""
    effect, plain, low, high = draw_effects(26, 30, 50, np.full(26, 1 / 26), 25, simulate)
    assert plain.mean() > 0.3
    assert effect.mean() < 0.5 * plain.mean()
    assert np.count_nonzero(low > 0) <= binom(25, 0.05).ppf(0.999)
    assert (effect <= high).all()
    assert (low <= effect).all()


@pytest.mark.slow
def test_with_a_shift_the_effect_is_that_of_the_truth(simulate):
    """One class of 26 grows by 0.3."""
    priors = np.append(1 / 26 + 0.3, np.full(25, (1 - 1 / 26 - 0.3) / 25))
    effect, plain, low, high = draw_effects(26, 30, 500, priors, 20, simulate)
    assert abs(effect.mean() - 0.3) < 0.03
    assert abs(effect.mean() - 0.3) < plain.mean() - 0.3  # noise adds to the plain distance
    missed = np.count_nonzero((low > 0.3) | (high < 0.3))
    assert missed <= binom(20, 0.1).ppf(0.999)


def test_what_noise_explains_is_taken_off_and_the_rest_sums_to_0(rng):
    for _ in range(20):
        difference = rng.dirichlet(np.ones(6)) - rng.dirichlet(np.ones(6))
        kept = beyond_noise(difference, np.full(6, 0.1))
        assert abs(kept.sum()) < 1e-12
        assert (np.abs(kept) <= np.abs(difference) + 1e-12).all()
        assert (kept * difference >= 0).all()
    assert not beyond_noise(np.array([0.05, -0.05]), np.full(2, 0.1)).any()


def test_a_rounded_target_is_compared_with_validation_rounded_alike(simulate, rng):
    world = simulate(4)
    f, y = world.draw(world.source_priors, 300, rng)
    g, _ = world.draw(world.source_priors, 300, rng)
    coarse = g.round(2)
    coarse /= coarse.sum(axis=1, keepdims=True)
    alike = f.round(2)
    alike /= alike.sum(axis=1, keepdims=True)
    test = detect_shift(f, y, coarse, random_state=0)
    same = detect_shift(alike, y, coarse, random_state=0)
    assert test.statistic == pytest.approx(same.statistic, rel=1e-9)
    assert "rounded to 2 decimals" in test.notes[0]
    assert same.notes == ()


def test_a_lucky_match_does_not_rule_out_every_shift(simulate):
    """A target nearer to validation than noise allows leaves room for what noise would hide."""
    world, rng = simulate(3), np.random.default_rng(3)
    f, y = world.draw(world.source_priors, 300, rng)
    lucky = detect_shift(f, y, f, random_state=0, n_resamples=99)
    assert lucky.effect_size == 0
    assert lucky.effect_interval[0] == 0
    assert lucky.effect_interval[1] > 0.01


def test_repeated_rows_are_noted(data):
    f, y, g = data
    test = detect_shift(f, y, np.repeat(g, 2, axis=0), random_state=0, n_resamples=99)
    assert "The target has 250 repeated rows" in test.notes[0]
    assert detect_shift(f, y, g, random_state=0, n_resamples=99).notes == ()


def test_verdicts(simulate):
    world, rng = simulate(3), np.random.default_rng(1)
    y_proba_val, y_val = world.draw(world.source_priors, 900, rng)
    same, _ = world.draw(world.source_priors, 900, rng)
    other, _ = world.draw(np.array([0.8, 0.1, 0.1]), 900, rng)
    test = detect_shift(y_proba_val, y_val, other, random_state=0)
    assert test.rejected
    assert test.sentence.startswith("The class balance changed (p = 0.001): by mean predictions")
    test = detect_shift(y_proba_val, y_val, same, random_state=0)
    assert not test.rejected
    assert test.power > 0.8
    assert test.detectable_effect < 0.1
    assert test.sentence == (
        f"There is no evidence that the class balance changed (p = {test.p_value:.2f}), and a "
        f"change of 10% of the cases would have been noticed with {test.power:.0%} probability."
    )
    few = detect_shift(y_proba_val, y_val, same[:30], random_state=0)
    assert few.sentence.endswith("probability only.")
    two = detect_shift(y_proba_val, y_val, np.full((2, 3), 1 / 3), random_state=0)
    assert two.sentence.endswith("probability only.")


def test_result_is_frozen_and_picklable(data):
    test = detect_shift(*data, assumption=True, random_state=0, n_resamples=99)
    with pytest.raises(AttributeError):
        test.p_value = 0.5
    with pytest.raises(ValueError, match="read-only"):
        test.priors[0] = 0.5
    again = pickle.loads(pickle.dumps(test))
    assert isinstance(again, ShiftTest)
    assert again.to_dict() == test.to_dict()
    with pytest.raises(ValueError, match="read-only"):
        again.priors[0] = 0.5
    plain = test.to_dict()
    assert plain["rejected"] is test.rejected
    assert plain["classes"] == [0, 1, 2, 3]
    assert list(plain["priors"]) == [0, 1, 2, 3]
    assert plain["assumption"]["sentence"] == test.assumption.sentence
    text = repr(test)
    assert text.startswith(f"ShiftTest: {test.sentence}")
    assert f"{test.p_value:.4g}" in text
    assert f"{test.power:.4g}" in text
    assert "source_label_priors" not in text  # one line per number, none for vectors


def test_the_seed_decides(data):
    results = [detect_shift(*data, random_state=seed).p_value for seed in (3, 3)]
    assert results[0] == results[1]


def test_validation_of_equal_class_counts_is_taken_as_chosen(rng):
    f = rng.dirichlet(np.ones(3), 30)
    test = detect_shift(f, np.repeat([0, 1, 2], 10), f, random_state=0, n_resamples=19)
    assert test.method == "bootstrap"


def test_warns_where_validation_does_not_follow_the_source(data):
    with pytest.warns(ps.PriorShiftWarning, match="give source_label_priors"):
        test = detect_shift(*data, source_priors=[0.85, 0.05, 0.05, 0.05], n_resamples=19)
    assert "source_label_priors" in test.notes[0]
    assert test.notes[0] in repr(test)
    mean = data[0].mean(axis=0)
    assert detect_shift(*data, source_priors=mean / mean.sum(), n_resamples=19).notes == ()


def test_a_class_that_validation_lacks_is_left_out(data):
    f, y, g = data
    kept = y != 1
    with pytest.warns(ps.PriorShiftWarning, match="no sample of class 1"):
        test = detect_shift(
            f[kept], y[kept], g, source_label_priors=[0.25] * 4, classes=range(4), n_resamples=19
        )
    np.testing.assert_allclose(test.source_label_priors, [1 / 3, 0, 1 / 3, 1 / 3])
    assert test.priors[1] == 0
    with pytest.raises(ValueError, match="no sample of any class"):
        detect_shift(f[kept], y[kept], g, source_label_priors=[0, 1, 0, 0], classes=range(4))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 0.0}, "alpha must be above 0"),
        ({"alpha": 1.5}, "alpha must be a number"),
        ({"n_resamples": 10}, "n_resamples must be a whole number of at least 19"),
        ({"n_resamples": 10**9}, "n_resamples must be at most 1000000; got 1000000000"),
        ({"y_proba_target": np.full((1, 4), 0.25)}, "at least 2"),
        ({"y_proba_target": np.full((3, 3), 1 / 3)}, "y_proba_target has 3 columns"),
        ({"y_val": np.zeros(3, dtype=int)}, "y_val has 3 labels"),
        ({"source_label_priors": [0.5, 0.6, 0, 0]}, "must sum to 1"),
        ({"y_proba_val": np.eye(4), "y_val": np.arange(4)}, "no class with 2 samples"),
    ],
)
def test_bad_input_is_refused(data, change, message):
    named = dict(zip(("y_proba_val", "y_val", "y_proba_target"), data, strict=True))
    with pytest.raises(ValueError, match=message):
        detect_shift(**{**named, **change})
