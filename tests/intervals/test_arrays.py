"""The numbers below estimators: bounds, votes, resampling weights, posterior draws."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import beta, sem

from priorshift.counts import Confusion
from priorshift.intervals import (
    IntervalRequest,
    SourceNoise,
    Votes,
    bootstrap_interval,
    credible_interval,
    drawn_interval,
    likelihood_interval,
    pooled_columns,
    posterior_draws,
    score_bounds,
    stratified_weights,
    wilson_bounds,
)
from priorshift.solvers import Mixture, invert, maximise


def request_for(level=0.95, **options):
    return IntervalRequest(level, np.random.default_rng(0), **options)


def interval_by_counts(validation, target, model, priors, request):
    """Bound priors by counts of hard decisions, as the request asks."""
    if request.method in ("bootstrap", "bayesian"):
        return drawn_interval(validation, target, model, priors, request)
    return Votes.of_counts(validation, target, model).interval(priors, request)


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
    n = np.bincount(y_val)
    model = y_proba_val.T @ y_proba_val / y_proba_val.sum(axis=0)
    C = (confusion.counts + 2 * model) / (n + 2)  # two rows of the model join each class
    raw = np.linalg.solve(C, y_proba.mean(axis=0))
    np.testing.assert_allclose(votes.raw, raw, atol=1e-12)
    S = [np.cov(y_proba_val[y_val == k].T) for k in range(K)]
    validation = sum(raw[k] ** 2 * S[k] / n[k] for k in range(K))
    B = np.linalg.inv(C)
    for estimand, target in (
        ("population", np.cov(y_proba.T) / 3000),
        ("sample", sum(raw[k] * S[k] / 3000 for k in range(K))),
    ):
        expected = np.diagonal(B @ (target + validation) @ B.T)
        np.testing.assert_allclose(votes.variance(estimand), expected, rtol=0.03)


def test_moments_of_votes_within_classes_are_those_of_the_rows(simulate, rng):
    """Variance and third moment, with so many rows that those of the model do not matter."""
    K = 3
    simulation = simulate(K, spread=1.2)
    y_proba_val, y_val = simulation.draw(np.full(K, 1 / K), 60_000, rng)
    confusion = Confusion.from_arrays(y_proba_val, y_val, decision="soft")
    votes = Votes.of(confusion, y_proba_val, y_proba_val, y_val)
    v = y_proba_val @ np.linalg.inv(confusion.conditional).T
    for k in range(K):
        of_class = v[y_val == k] - v[y_val == k].mean(axis=0)
        np.testing.assert_allclose(votes.within[k], (of_class**2).mean(axis=0), rtol=0.01)
        np.testing.assert_allclose(votes.skewness[k], (of_class**3).mean(axis=0), atol=0.01)


def test_bounds_of_two_classes_solve_the_score_equation():
    """The quadratic of Fieller's kind, written out for two classes, and its skewness."""
    V, target = np.array([[27.0, 6.0], [3.0, 24.0]]), np.array([600.0, 400.0])
    model = np.array([[0.85, 0.15], [0.15, 0.85]])
    votes = Votes.of_counts(V, target, model)
    lower, upper = votes.interval(np.array([0.55, 0.45]), request_for()).interval[0]
    assert 0 < lower < upper < 1
    for t in (lower, upper):
        p, n = np.array([t, 1 - t]), votes.n_validation
        T, third, U = votes.within[:, 0], votes.skewness[:, 0], votes.raw[0] - t
        a = (t * (1 - t) + p @ T) / 1000 + p**2 @ (T / n)
        at_raw = np.array([votes.raw[0], 1 - votes.raw[0]])
        modelled = at_raw[0] * at_raw[1] + at_raw @ T
        a += max(votes.target_variance[0] - modelled, 0) / 1000
        c = p**3 @ (third / n**2)
        v = 0.5 * (a + np.sqrt(a**2 + 4 * max(c * U, 0)))
        assert pytest.approx(1.959964**2 * v, rel=1e-5) == U**2


def test_ten_rows_without_a_mistake_do_not_exclude_mistakes():
    """A class of accuracy .85 has none in ten rows one time of five."""
    V, target = np.array([[10.0, 1.0], [0.0, 9.0]]), np.array([1660.0, 340.0])
    priors = np.array([0.83, 0.17])
    found = interval_by_counts(V, target, pooled_columns(V), priors, request_for())
    assert found.interval[0, 1] > 0.97


def test_simultaneous_intervals_of_two_classes_are_those_of_one():
    one, both = request_for(), request_for(simultaneous=True)
    assert both.z(2) == one.z(2)
    assert both.level(3) == pytest.approx(0.95 ** (1 / 3))


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
    import priorshift.border as execution

    def draw(rng):
        return rng.standard_normal(3)

    given = draw, np.zeros(3), np.full(3, 0.5), 10
    many = bootstrap_interval(*given, request_for(n_resamples=37)).standard_error
    monkeypatch.setattr(execution, "n_threads", lambda: 1)
    one = bootstrap_interval(*given, request_for(n_resamples=37)).standard_error
    np.testing.assert_array_equal(many, one)
    assert np.unique(many).size == many.size


def test_bootstrap_interval_of_normal_draws():
    def draw(rng):
        return 0.3 + 0.02 * rng.standard_normal(2)

    given = draw, np.full(2, 0.3), np.full(2, 0.3), 1e6
    found = bootstrap_interval(*given, request_for(n_resamples=20_000))
    np.testing.assert_allclose(found.interval[0], 0.3 + 0.0392 * np.array([-1, 1]), rtol=0.02)
    np.testing.assert_allclose(found.standard_error, 0.02, rtol=0.03)
    together = bootstrap_interval(*given, request_for(n_resamples=20_000, simultaneous=True))
    # two independent classes: the level of each is sqrt(0.95)
    np.testing.assert_allclose(together.interval[0, 1] - 0.3, 0.02 * 2.236, rtol=0.02)


def test_gibbs_without_mistakes_is_the_conjugate_posterior(monkeypatch):
    monkeypatch.setattr("priorshift.intervals._bayesian.THIN", 1)
    V, n = np.diag([1e6, 1e6, 1e6]), np.array([5.0, 20.0, 75.0])
    drawn = posterior_draws(V, n, alpha=2.0, n_draws=4000, random_state=0)
    for k in range(3):
        expected = beta(n[k] + 2, 106 - n[k] - 2)
        got = np.quantile(drawn[0][:, k], [0.05, 0.5, 0.95])
        np.testing.assert_allclose(got, expected.ppf([0.05, 0.5, 0.95]), atol=0.006)
    np.testing.assert_array_equal(drawn[1][7], n / 100)


def posterior_on_a_grid(V, n, alpha):
    """Return points of p, where they end, and their probabilities; C is summed out."""
    grid = (np.arange(80) + 0.5) / 80
    p = beta.ppf(grid, alpha, alpha)  # equally likely under the hyper-prior
    a, b = grid[:, None], grid
    of_columns = beta.pdf(a, V[0, 0] + 1, V[1, 0] + 1) * beta.pdf(b, V[0, 1] + 1, V[1, 1] + 1)
    q = p[:, None, None] * a + (1 - p[:, None, None]) * b
    loglik = n[0] * np.log(q) + n[1] * np.log1p(-q)
    weight = (np.exp(loglik - loglik.max()) * of_columns).sum(axis=(1, 2))
    return p, beta.ppf(grid + 0.5 / 80, alpha, alpha), weight / weight.sum()


@pytest.mark.parametrize(
    ("V", "n", "alpha"),
    [
        ([[17, 3], [2, 16]], [30, 20], 1.0),
        ([[14, 6], [6, 14]], [60, 40], 1.0),  # weak: a round depends much on the one before
        ([[5, 1], [3, 9]], [30, 200], 3.0),
        ([[9, 1], [1, 9]], [2, 60], 0.5),  # piles up at 0
    ],
)
def test_gibbs_is_the_posterior_on_a_grid(V, n, alpha):
    """Two classes, the confusion matrix integrated out by brute force."""
    V, n = np.array(V, float), np.array(n)
    drawn = posterior_draws(V, n, alpha=alpha, pseudo_counts=1.0, n_draws=4000, random_state=1)
    draws = drawn[0][:, 0]
    grid, ends, weight = posterior_on_a_grid(V, n, alpha)
    mean = weight @ grid
    deviation = np.sqrt(weight @ (grid - mean) ** 2)
    assert draws.mean() == pytest.approx(mean, abs=0.1 * deviation)
    assert draws.std() == pytest.approx(deviation, rel=0.08)
    for level in (0.025, 0.25, 0.5, 0.75, 0.975):
        at = np.searchsorted(np.cumsum(weight), level)
        assert (draws <= ends[at]).mean() == pytest.approx(weight[: at + 1].sum(), abs=0.03)


def test_gibbs_of_few_draws_starts_where_the_posterior_is():
    """One draw a chain: warm-up alone has to bring all of them to the posterior."""
    V, n = np.array([[12.0, 6.0], [8.0, 14.0]]), np.array([300, 200])
    few = posterior_draws(V, n, pseudo_counts=1.0, n_draws=50, random_state=0)[0][:, 0]
    grid, _, weight = posterior_on_a_grid(V, n, 1.0)
    mean = weight @ grid
    deviation = np.sqrt(weight @ (grid - mean) ** 2)
    assert few.mean() == pytest.approx(mean, abs=3 * deviation / np.sqrt(50))
    assert few.std() == pytest.approx(deviation, rel=0.3)
    assert np.unique(few).size == 50


def test_gibbs_leaves_out_what_is_impossible():
    """Cells without counts never get any, wherever they are and however rows are cut."""
    V = np.array([[40.0, 5.0, 0.0], [0.0, 45.0, 0.0], [0.0, 0.0, 50.0]])
    drawn = posterior_draws(V, np.array([20, 50, 30]), n_draws=400, random_state=0)
    np.testing.assert_array_equal(drawn[1][:, 2], 0.3)  # never mistaken
    assert (drawn[1][:, 0] <= 0.2).all()
    assert drawn[1][:, 0].std() > 0
    # a decision that validation never made goes somewhere, and breaks nothing
    odd = posterior_draws(np.diag([9.0, 9.0, 0.0]), np.array([5, 5, 5]), n_draws=60, random_state=0)
    assert np.isfinite(odd[0]).all()


def test_gibbs_draws_do_not_depend_on_the_number_of_threads(monkeypatch):
    import priorshift.border.threads as local
    import priorshift.intervals._bayesian as gibbs

    V, n = np.array([[12.0, 6.0], [8.0, 14.0]]), np.array([30, 20])
    monkeypatch.setattr(gibbs, "CHAIN_CELLS", 40)  # several groups of chains
    monkeypatch.setattr(local, "SERIAL_WORK", 0)
    many = posterior_draws(V, n, n_draws=60, random_state=3)[0]
    monkeypatch.setattr(local, "n_threads", lambda: 1)
    np.testing.assert_array_equal(many, posterior_draws(V, n, n_draws=60, random_state=3)[0])
    assert np.unique(many).size == many.size


@pytest.mark.slow
def test_gibbs_is_calibrated_by_simulation():
    """Truths from the hyper-priors, counts from the model: intervals must hold as they say.

    Four chains of 75 draws, thinned by 4, gave 86 % at K = 5 with 5000 target rows.
    """
    K, n_replicates, rng = 4, 70, np.random.default_rng(0)
    pseudo = 0.5 + 2.5 * np.eye(K)
    inside, ranks = [], []
    for seed in range(n_replicates):
        p = rng.dirichlet(np.ones(K))
        C = np.stack([rng.dirichlet(pseudo[:, k]) for k in range(K)], axis=1)
        V = rng.multinomial(50, C.T).T
        n = rng.multinomial(3000, C @ p)
        draws = posterior_draws(V, n, pseudo_counts=pseudo, n_draws=300, random_state=seed)[0]
        bounds = credible_interval(draws, draws.mean(axis=0), request_for()).interval
        inside.append((bounds[:, 0] <= p) & (p <= bounds[:, 1]))
        ranks.append((draws < p).mean(axis=0))
    # classes of a replicate share its noise: its mean is one trial
    share = np.mean(inside, axis=1)
    assert share.mean() == pytest.approx(0.95, abs=3 * share.std() / np.sqrt(n_replicates))
    # a truth is as likely in any fifth of its posterior
    fifths = np.histogram(ranks, 5, (0, 1))[0] / np.size(ranks)
    np.testing.assert_allclose(fifths, 0.2, atol=3 * np.sqrt(0.16 / n_replicates / 2))


def test_credible_intervals_hold_what_they_say(rng):
    draws = rng.dirichlet([0.5, 3.0, 10.0, 30.0], 8000)
    priors = draws.mean(axis=0)
    found = credible_interval(draws, priors, request_for(0.9))
    inside = (draws >= found.interval[:, 0]) & (draws <= found.interval[:, 1])
    np.testing.assert_allclose(inside.mean(axis=0), 0.9, atol=0.011)
    assert found.interval[0, 0] == 0  # piles up there
    for k in (1, 2, 3):  # these do not: as much is left out below as above
        assert (draws[:, k] < found.interval[k, 0]).mean() == pytest.approx(0.05, abs=0.001)
    together = credible_interval(draws, priors, request_for(0.9, simultaneous=True)).interval
    inside = (draws >= together[:, 0]) & (draws <= together[:, 1])
    assert inside.all(axis=1).mean() == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("n_draws", [20, 60, 300])
def test_credible_intervals_of_few_draws_hold_as_much_of_the_posterior(rng, n_draws):
    """The shortest 90 % interval would hold 78 % from 20 draws, 85 % from 60, 88 % from 300."""
    draws = rng.beta(20, 80, (n_draws, 4000))
    lower, upper = credible_interval(draws, draws.mean(axis=0), request_for(0.9)).interval.T
    held = beta.cdf(upper, 20, 80) - beta.cdf(lower, 20, 80)
    assert held.mean() == pytest.approx(0.9, abs=0.005)


@pytest.fixture
def hard_counts(simulate, rng):
    K = 5
    simulation = simulate(K, spread=1.5)
    y_proba_val, y_val = simulation.draw(np.full(K, 1 / K), 300, rng)
    y_proba, _ = simulation.draw(np.array([0.02, 0.08, 0.2, 0.3, 0.4]), 800, rng)
    V = Confusion.from_arrays(y_proba_val, y_val, decision="hard")
    n = np.bincount(y_proba.argmax(axis=1), minlength=K).astype(float)
    decided = np.eye(K)[y_proba_val.argmax(axis=1)]
    model = (decided.T @ y_proba_val) / y_proba_val.sum(axis=0)
    return V, n, model, (y_proba, y_proba_val, y_val)


def test_votes_of_counts_are_those_of_the_rows_counted(hard_counts):
    V, n, model, rows = hard_counts
    one, other = Votes.of_counts(V.counts, n, model), Votes.of(V, *rows)
    for name in ("raw", "target_variance", "within", "skewness", "n_target", "n_validation"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-10)
    assert one.weak == other.weak


@pytest.mark.parametrize("method", ["auto", "asymptotic", "bootstrap", "bayesian"])
def test_intervals_of_counts_do_not_depend_on_class_order(hard_counts, method):
    V, n, model, _ = hard_counts
    request = request_for(method=method, n_resamples=600)
    priors, order = np.full(5, 0.2), np.array([3, 0, 4, 1, 2])
    one = interval_by_counts(V.counts, n, model, priors, request)
    turned = (part[np.ix_(order, order)] for part in (V.counts, model))
    V_turned, model_turned = turned
    other = interval_by_counts(V_turned, n[order], model_turned, priors, request)
    tight = method in ("auto", "asymptotic")
    np.testing.assert_allclose(
        other.standard_error, one.standard_error[order], rtol=1e-9 if tight else 0.15
    )
    assert one.method == ("asymptotic" if method == "auto" else method)


def test_three_ways_to_an_interval_of_counts_agree(hard_counts):
    V, n, model, _ = hard_counts
    given = 50 * V.counts, 50 * n, model, np.full(5, 0.2)
    errors = [
        interval_by_counts(*given, request_for(method=method, n_resamples=600)).standard_error
        for method in ("asymptotic", "bootstrap", "bayesian")
    ]
    np.testing.assert_allclose(errors[1], errors[0], rtol=0.15)
    np.testing.assert_allclose(errors[2], errors[0], rtol=0.15)


def test_pooled_columns_are_columns(rng):
    V = rng.poisson(1.0, (6, 6)) + 20.0 * np.eye(6)
    columns = pooled_columns(V)
    np.testing.assert_allclose(columns.sum(axis=0), 1)
    order = rng.permutation(6)
    there = np.ix_(order, order)
    np.testing.assert_allclose(pooled_columns(V[there]), columns[there])
    assert (pooled_columns(np.diag([5.0, 5.0, 5.0])) > 0).all()  # mistakes occur, if unseen


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
    problem = Mixture(A)
    mle = maximise(problem, tol=1e-9).value
    found = likelihood_interval(problem, mle, mle, request_for(), np.full(2, 0.5))
    assert found.method == "likelihood ratio"
    peak = problem.evaluate(mle)[0]
    for bound in found.interval[0]:
        drop = 2 * (peak - problem.evaluate(np.array([bound, 1 - bound]))[0])
        assert drop == pytest.approx(1.96**2, rel=1e-2)
    information = (((A[:, 0] - A[:, 1]) / (A @ mle)) ** 2).sum()
    np.testing.assert_allclose(found.standard_error, information**-0.5, rtol=1e-6)


def test_a_class_without_rows_has_an_upper_bound():
    """M rows that are surely not of a class bound its share in them by -log(1 - p) M = z²/2.

    Of the population they say no more than M labels: Wilson's bound, z² / (M + z²).
    """
    problem, z = Mixture(np.tile([1.0, 1e-12], (200, 1))), 1.96
    mle = np.array([1.0, 0.0])
    for estimand, bound in (
        ("sample", 1 - np.exp(-(z**2) / 400)),
        ("population", z**2 / (200 + z**2)),
    ):
        request = request_for(estimand=estimand)
        found = likelihood_interval(problem, mle, mle, request, np.full(2, 0.5))
        np.testing.assert_allclose(found.interval, [[1 - bound, 1], [0, bound]], rtol=1e-2)
        np.testing.assert_allclose(found.standard_error, bound / z, rtol=1e-2)


def profile_bound(A, k, sign, drop):
    """Return the least (sign 1) or largest (-1) share of class k that is likely enough (SciPy)."""
    K = A.shape[1]

    def fallen(p):
        return np.log(A @ np.maximum(p, 1e-300)).sum()

    simplex = {"type": "eq", "fun": lambda p: p.sum() - 1}
    start, bounds = np.full(K, 1 / K), [(0, 1)] * K
    mle = minimize(lambda p: -fallen(p) / len(A), start, bounds=bounds, constraints=simplex).x
    peak = max(fallen(mle), *(fallen(vertex) for vertex in np.eye(K)))
    likely = {"type": "ineq", "fun": lambda p: fallen(p) - peak + drop}
    ends = [
        minimize(lambda p: sign * p[k], p, bounds=bounds, constraints=[simplex, likely])
        for p in (mle, 0.99 * mle + 0.01 / K)
    ]
    return min((end.x[k] for end in ends if end.success), key=lambda x: sign * x)


@pytest.mark.parametrize("seed", range(4))
def test_where_one_class_takes_everything_its_bound_is_that_of_the_profile(seed):
    """Every row leans to class 0, more or less: no likelihood is lost within the face."""
    rng = np.random.default_rng(seed)
    A = np.column_stack([np.ones(300), rng.uniform(0, 0.9, 300), rng.uniform(0, 0.7, 300)])
    mle = np.array([1.0, 0.0, 0.0])
    request = request_for(estimand="sample")
    found = likelihood_interval(Mixture(A), mle, mle, request, np.full(3, 1 / 3))
    drop = 0.5 * request.z(3) ** 2
    exact = profile_bound(A, 0, 1, drop)
    assert exact - 1e-6 <= found.interval[0, 0] <= exact + 0.05 * (1 - exact)
    assert found.interval[0, 1] == 1
    for k in (1, 2):
        upper = profile_bound(A, k, -1, drop)
        np.testing.assert_allclose(found.interval[k], [0, upper], rtol=0.05)


def test_a_share_that_may_be_0_has_a_lower_bound_of_exactly_0(rng):
    """One row in fifty hints at class 1: 0 is likely enough, so 0 it is, not a tiny number."""
    A = np.ones((200, 2))
    A[:, 1] = np.where(np.arange(200) % 50 == 0, 3.0, 0.97)
    problem = Mixture(A)
    mle = maximise(problem, tol=1e-9).value
    assert 0 < mle[1] < 0.5
    request = request_for(estimand="sample")
    found = likelihood_interval(problem, mle, mle, request, np.full(2, 0.5))
    assert profile_bound(A, 1, 1, 0.5 * request.z(2) ** 2) == pytest.approx(0, abs=1e-9)
    assert found.interval[1, 0] == 0
    assert found.interval[0, 1] == 1


def test_no_share_has_a_standard_error_above_a_half():
    """Two classes that no row tells apart: nothing is known of either."""
    A = np.tile([[1.0, 1.0, 0.01]], (100, 1))
    mle = np.array([0.5, 0.5, 0.0])
    found = likelihood_interval(Mixture(A), mle, mle, request_for(), np.full(3, 1 / 3))
    np.testing.assert_allclose(found.interval[:2], [[0, 1], [0, 1]], atol=1e-3)
    assert (found.standard_error <= 0.5).all()


def test_a_class_without_validation_rows_adds_no_noise_of_its_own(rng):
    """The variance of the mean over classes 0 and 2 is that of SciPy's standard errors."""
    f, y = rng.dirichlet(np.ones(3), 40), np.repeat([0, 2], 20)
    share = np.where(y == 0, 0.3, 0.2) / 20
    slope = np.array([[1.0, -2.0, 0.5]])
    found = SourceNoise(f, share, y).variance(np.ones(3), slope)
    effect = f @ slope[0]
    expected = (0.3 * sem(effect[y == 0])) ** 2 + (0.2 * sem(effect[y == 2])) ** 2
    np.testing.assert_allclose(found, [expected])


def test_a_matrix_whose_inverse_overflows_has_a_pseudo_inverse():
    C = np.array([[1.0, 1.0], [0.0, 1e-200]])
    np.testing.assert_allclose(invert(C), [[0.5, 0.0], [0.5, 0.0]], atol=1e-12)
