"""Intervals as users ask for them: `estimate(..., confidence_level=...)`."""

import json
import warnings

import numpy as np
import pytest

import priorshift as ps
from priorshift.counts import DecisionCounts
from priorshift.estimators.base import PriorEstimator
from priorshift.estimators.bounds import Bounds
from priorshift.intervals import IntervalRequest, PriorInterval

K = 5
TARGET = np.array([0.02, 0.08, 0.2, 0.3, 0.4])
CASES = (
    [(name, "asymptotic") for name in ("cm", "scm-l", "scm-m", "bbse-s", "rlls", "em", "map")]
    + [(name, "bootstrap") for name in ("scm-l", "em")]
    + [(name, "bayesian") for name in ("cm", "scm-m")]
)


@pytest.fixture
def data(simulate, rng):
    simulation = simulate(K, spread=2.0)
    y_proba_val, y_val = simulation.draw(np.full(K, 1 / K), 1500, rng)
    y_proba, _ = simulation.draw(TARGET, 1000, rng)
    return y_proba_val, y_val, y_proba, simulation.source_priors


def fitted(name, data, **options):
    return ps.get_estimator(name).fit(*data[:2], source_priors=data[3], **options)


def estimate(name, data, method="auto", level=0.95, **options):
    options = {"random_state": 0, "n_resamples": 60, "interval_method": method, **options}
    return fitted(name, data).estimate(data[2], level, **options)


@pytest.mark.parametrize(("name", "method"), CASES)
def test_intervals_hold_the_estimate_and_grow_with_the_level(data, name, method):
    plain = fitted(name, data).estimate(data[2])
    assert plain.interval is None
    assert plain.standard_error is None
    assert plain.confidence_level is None
    widths = []
    for level in (0.5, 0.8, 0.95):
        shift = estimate(name, data, method, level)
        np.testing.assert_array_equal(shift.priors, plain.priors)
        lower, upper = shift.interval.T
        assert (lower <= shift.priors).all()
        assert (shift.priors <= upper).all()
        assert (lower >= 0).all()
        assert (upper <= 1).all()
        assert np.isfinite(shift.standard_error).all()
        assert (shift.standard_error > 0).all()
        assert shift.confidence_level == level
        widths.append(upper - lower)
    assert (np.diff(widths, axis=0) >= 0).all()
    assert (widths[2] > widths[0]).all()


@pytest.mark.parametrize(("name", "method"), CASES)
def test_simultaneous_intervals_hold_the_others(data, name, method):
    each = estimate(name, data, method, n_resamples=200).interval
    together = estimate(name, data, method, n_resamples=200, simultaneous=True).interval
    assert (np.diff(together) >= np.diff(each)).all()
    assert np.diff(together).sum() > 1.1 * np.diff(each).sum()


@pytest.mark.parametrize("name", ["cm", "scm-l", "scm-m", "rlls", "em", "map"])
def test_class_order_does_not_matter(data, name):
    y_proba_val, y_val, y_proba, source = data
    order = np.array([3, 0, 4, 1, 2])
    there = np.argsort(order)[y_val]
    turned = (y_proba_val[:, order], there, y_proba[:, order], source[order])
    one, other = estimate(name, data), estimate(name, turned)
    np.testing.assert_allclose(other.interval, one.interval[order], atol=2e-3)
    np.testing.assert_allclose(other.standard_error, one.standard_error[order], rtol=2e-2)


@pytest.mark.parametrize(("name", "method"), [("scm-l", "bootstrap"), ("scm-m", "bayesian")])
def test_random_state_makes_draws_repeatable(data, name, method):
    one, again = (estimate(name, data, method).interval for _ in range(2))
    np.testing.assert_array_equal(one, again)
    assert (estimate(name, data, method, random_state=1).interval != one).any()
    given = estimate(name, data, method, random_state=np.random.default_rng(0)).interval
    np.testing.assert_array_equal(given, one)
    assert estimate(name, data, method, random_state=None).interval.shape == (K, 2)


@pytest.mark.parametrize("name", ["cm", "scm-l", "cm-m", "bbse-s", "rlls"])
def test_without_mistakes_it_is_the_binomial(name):
    """A perfect classifier: sqrt(p (1 - p) / M), and Wilson's bounds for a class never seen."""
    from scipy.stats import binomtest

    y_val, y = np.repeat(np.arange(3), 20_000), np.repeat([0, 1], [100, 300])
    fitted = ps.get_estimator(name).fit(np.eye(3)[y_val], y_val)
    shift = fitted.estimate(np.eye(3)[y], 0.95)
    expected = np.sqrt(0.25 * 0.75 / 400)
    np.testing.assert_allclose(shift.standard_error, [expected, expected, 0], atol=2e-3)
    absent = binomtest(0, 400).proportion_ci(0.95, method="wilson").high
    assert shift.interval[2].tolist() == pytest.approx([0, max(absent, shift.priors[2])], abs=2e-4)
    realised = fitted.estimate(np.eye(3)[y], 0.95, estimand="sample")
    assert realised.standard_error.max() < 1.6e-3


def test_two_classes_by_hand():
    """The delta method of p = (q - b) / (a - b), for decisions 0 on either class."""
    n, M = 400, 1000
    y_val = np.repeat([0, 1], n)
    decisions = np.repeat([0, 1, 0, 1], [320, 80, 120, 280])
    target = np.repeat([0, 1], [500, 500])
    a, b, q = 0.8, 0.3, 0.5
    p = (q - b) / (a - b)
    gradient = np.array([1, -p, -(1 - p)]) / (a - b)
    variance = np.array([q * (1 - q) / M, a * (1 - a) / n, b * (1 - b) / n])
    shift = ps.CM().fit(np.eye(2)[decisions], y_val).estimate(np.eye(2)[target], 0.95)
    assert shift.priors[0] == pytest.approx(p)
    expected = np.sqrt(gradient**2 @ variance)
    np.testing.assert_allclose(shift.standard_error, expected, rtol=0.02)
    half = 1.96 * expected
    np.testing.assert_allclose(shift.interval[0], [p - half, p + half], rtol=0.02)


@pytest.mark.parametrize("name", ["cm", "scm-l", "em"])
def test_bootstrap_and_formula_agree(data, name):
    formula = estimate(name, data, "asymptotic")
    resampled = estimate(name, data, "bootstrap", n_resamples=600)
    np.testing.assert_allclose(resampled.standard_error, formula.standard_error, rtol=0.25)
    ratio = np.diff(resampled.interval) / np.diff(formula.interval)
    np.testing.assert_allclose(ratio, 1, atol=0.25)


def test_em_with_source_priors_of_validation_is_less_sure(simulate, rng):
    """The noise of the source priors: seen by formula and by bootstrap alike."""
    simulation = simulate(K, spread=1.0)
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 200, rng)
    y_proba, _ = simulation.draw(TARGET, 4000, rng)
    given = ps.EM().fit(source_priors=y_proba_val.mean(axis=0)).estimate(y_proba, 0.95)
    unknown = ps.EM().fit(y_proba_val)
    formula = unknown.estimate(y_proba, 0.95)
    assert (formula.standard_error > 1.2 * given.standard_error).all()
    resampled = unknown.estimate(y_proba, 0.95, 0, interval_method="bootstrap", n_resamples=300)
    present = formula.priors > 0.01
    ratio = resampled.standard_error / formula.standard_error
    np.testing.assert_allclose(ratio[present], 1, atol=0.3)
    by_class = ps.EM().fit(y_proba_val, y_val, source_label_priors=simulation.source_priors)
    within = by_class.estimate(y_proba, 0.95).standard_error
    assert (within < formula.standard_error).any()


@pytest.mark.parametrize("method", ["asymptotic", "bootstrap", "bayesian"])
def test_weights_change_intervals_by_their_effective_size(data, method):
    y_proba_val, y_val, y_proba, source = data

    def width(weight, rows=slice(None)):
        scm = ps.SCMM().fit(
            y_proba_val[rows], y_val[rows], source_priors=source, sample_weight=weight
        )
        options = {"interval_method": method, "n_resamples": 400}
        return scm.estimate(y_proba, 0.95, 0, **options).standard_error

    even = width(None)
    np.testing.assert_allclose(width(np.full(y_val.size, 7.0)), even, rtol=1e-6)
    # rows of weight 0 are no rows
    half = np.arange(y_val.size) % 2
    if method == "asymptotic":
        np.testing.assert_allclose(width(half.astype(float)), width(None, half == 1), rtol=1e-9)
    # a few heavy rows are worth less than as many even ones
    heavy = width(np.where(np.arange(y_val.size) % 10 == 0, 20.0, 1.0))
    assert heavy.mean() > 1.08 * even.mean()


def test_the_realised_share_is_known_better_than_the_population_s(data):
    for name, method in (("scm-l", "asymptotic"), ("em", "asymptotic"), ("cm-m", "bayesian")):
        population = estimate(name, data, method, n_resamples=400)
        sample = estimate(name, data, method, n_resamples=400, estimand="sample")
        assert (sample.standard_error[1:] < population.standard_error[1:]).all()


def test_errors_say_what_to_do(data):
    y_proba, source = data[2:]
    em, scm = fitted("em", data), fitted("scm-l", data)
    for wrong in (0, 1, 95, "0.95", True):
        with pytest.raises(ValueError, match="confidence_level must be"):
            scm.estimate(y_proba, wrong)
    with pytest.raises(ValueError, match="interval_method"):
        scm.estimate(y_proba, 0.9, interval_method="guess")
    with pytest.raises(ValueError, match="estimand"):
        scm.estimate(y_proba, 0.9, estimand="both")
    with pytest.raises(ValueError, match="n_resamples"):
        scm.estimate(y_proba, 0.9, n_resamples=3)
    with pytest.raises(ValueError, match="describes only the population"):
        scm.estimate(y_proba, 0.9, interval_method="bootstrap", estimand="sample")
    with pytest.raises(ValueError, match="no Bayesian interval"):
        em.estimate(y_proba, 0.9, interval_method="bayesian")
    with pytest.raises(ValueError, match="estimates nothing"):
        ps.NoAdaptation().fit(source_priors=source).estimate(y_proba, 0.9)


def test_partial_fit_keeps_no_rows(data):
    y_proba_val, y_val, y_proba, _ = data
    for name in ("scm-l", "em"):
        parts = ps.get_estimator(name).partial_fit(y_proba_val, y_val, classes=np.arange(K))
        for method in ("asymptotic", "bootstrap"):
            with pytest.raises(ValueError, match=r"partial_fit.*fit"):
                parts.estimate(y_proba, 0.9, interval_method=method)


def test_an_unseen_class_has_no_interval_but_by_bootstrap(data):
    y_proba_val, y_val, y_proba, source = data
    rows = y_val != 1
    scm = ps.SCML().fit(y_proba_val[rows], y_val[rows], source_priors=source, classes=np.arange(K))
    with (
        pytest.warns(ps.PriorShiftWarning, match="no sample of class 1"),
        pytest.raises(ValueError, match=r"no sample of class 1.*bootstrap"),
    ):
        scm.estimate(y_proba, 0.95)
    with pytest.warns(ps.PriorShiftWarning, match="no sample of class 1"):
        shift = scm.estimate(y_proba, 0.95, 0, interval_method="bootstrap", n_resamples=30)
    assert shift.interval[1, 0] < TARGET[1] < shift.interval[1, 1]


def test_a_warning_where_validation_is_too_small(simulate, rng):
    simulation = simulate(8, spread=0.6)
    y_proba_val, y_val = simulation.draw(np.full(8, 1 / 8), 80, rng)
    y_proba, _ = simulation.draw(np.full(8, 1 / 8), 500, rng)
    scm = ps.SCML().fit(y_proba_val, y_val, classes=np.arange(8))
    with pytest.warns(ps.PriorShiftWarning, match="may cover less"):
        scm.estimate(y_proba, 0.95)


@pytest.mark.parametrize("name", ["cm", "scm-l"])
def test_a_class_of_two_rows_does_not_spoil_the_others(rng, name):
    """Its rows look like those of another class, so C is singular; the model knows better."""
    y_val = np.repeat([0, 1, 2], [200, 200, 2])
    outputs = 0.97 * np.eye(3) + 0.01
    seen = np.where(y_val == 2, 1, y_val)
    seen[rng.permutation(400)[:8]] = 2  # others are at times taken for it
    y_proba = outputs[rng.choice(3, 1000, p=[0.6, 0.3, 0.1])]
    estimator = ps.get_estimator(name).fit(outputs[seen], y_val)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.PriorShiftWarning)
        widths = np.diff(estimator.estimate(y_proba, 0.95).interval)[:, 0]
    assert widths[0] < 0.6  # the inverse of C alone says nothing: 1
    assert widths[2] > widths[0]  # and of that class itself little is known


@pytest.mark.parametrize(
    ("name", "method"), [("cm", "bayesian"), ("cm-m", "bootstrap"), ("rlls", "asymptotic")]
)
def test_counts_of_hard_decisions_have_the_interval_of_their_rows(data, name, method):
    estimator = fitted(name, data)
    counts = DecisionCounts.from_arrays(data[2], decision="hard")
    found = estimator.estimate_counts(counts)
    request = IntervalRequest(0.9, 0, method, 60, False, "population")
    bounds = Bounds(estimator, found, request).by_counts(counts)
    rows = estimate(name, data, method, 0.9)
    np.testing.assert_allclose(bounds.interval, rows.interval)
    np.testing.assert_allclose(bounds.standard_error, rows.standard_error)
    assert bounds.method == method


@pytest.mark.parametrize("estimand", ["population", "sample"])
def test_counts_alone_come_close_to_rows(data, estimand):
    """After partial_fit there are counts only: all classes together stand in for the model."""
    parts = ps.CML()
    for rows in np.array_split(np.arange(1500), 3):
        parts.partial_fit(data[0][rows], data[1][rows], classes=np.arange(K))
    options = {"confidence_level": 0.95, "estimand": estimand}
    kept = ps.CML().fit(data[0], data[1]).estimate(data[2], **options)
    counted = parts.estimate(data[2], **options)
    np.testing.assert_allclose(counted.priors, kept.priors, rtol=1e-9)
    np.testing.assert_allclose(counted.standard_error, kept.standard_error, rtol=0.03)
    np.testing.assert_allclose(counted.interval, kept.interval, atol=0.003)
    drawn = parts.estimate(data[2], 0.95, 0, interval_method="bayesian", estimand=estimand)
    np.testing.assert_allclose(drawn.interval, kept.interval, atol=0.02)


def test_weighted_rows_that_were_only_counted_are_taken_as_even(data):
    one, seven = (
        ps.CM().partial_fit(
            data[0], data[1], classes=np.arange(K), sample_weight=np.full(1500, weight)
        )
        for weight in (1.0, 7.0)
    )
    np.testing.assert_allclose(
        seven.estimate(data[2], 0.95).interval, one.estimate(data[2], 0.95).interval
    )


def test_soft_counts_have_no_interval(data):
    scm = fitted("scm-l", data)
    counts = DecisionCounts.from_arrays(data[2], decision="soft")
    request = IntervalRequest(0.9, 0, "auto", 60, False, "population")
    with pytest.raises(ValueError, match=r"summed probabilities .* use estimate\(y_proba"):
        Bounds(scm, scm.estimate_counts(counts), request).by_counts(counts)


def test_credible_intervals_do_not_take_the_method_s_hyper_prior(data):
    """Dirichlet(3) pulls rare classes up: the interval says what data say under Dirichlet(1/2)."""
    one, other = (
        ps.CMM(alpha=alpha)
        .fit(*data[:2], source_priors=data[3])
        .estimate(data[2], 0.95, 0, interval_method="bayesian")
        for alpha in (1.5, 30.0)
    )
    np.testing.assert_array_equal(one.standard_error, other.standard_error)
    assert (one.priors != other.priors).any()


class Plain(PriorEstimator):
    """An estimator of its own kind: the mean prediction."""

    name = "plain"

    def _estimate(self, y_proba):
        from priorshift.solvers import Solution

        mean = y_proba.mean(axis=0)
        return self._result(mean, Solution(mean, "direct"), y_proba.shape[0])


def test_any_estimator_has_a_bootstrap(data):
    plain = Plain().fit(source_priors=data[3])
    shift = plain.estimate(data[2], 0.95, 0)
    expected = data[2].std(axis=0) / np.sqrt(1000)
    np.testing.assert_allclose(shift.standard_error, expected, rtol=0.2)
    with pytest.raises(ValueError, match="by bootstrap only"):
        plain.estimate(data[2], 0.95, interval_method="asymptotic")


def test_a_subclass_may_supply_its_own_interval(data):
    class Sure(Plain):
        def _interval(self, y_proba, found, request):
            bounds = np.column_stack([found.priors, found.priors])
            return PriorInterval(bounds, np.zeros(K), "bayesian")

    shift = Sure().fit(source_priors=data[3]).estimate(data[2], 0.95)
    np.testing.assert_array_equal(shift.interval[:, 0], shift.priors)


def test_adapt_takes_a_strength(data):
    em = fitted("em", data)
    np.testing.assert_allclose(em.adapt(data[2], strength=0.0), data[2], atol=1e-12)
    half = em.estimate(data[2]).adapt(data[2], strength=0.5)
    np.testing.assert_allclose(em.adapt(data[2], strength=0.5), half)


@pytest.mark.parametrize("name", ["em", "mapls"])
def test_a_resample_may_hold_rows_of_weight_0_alone(name):
    weight = [0.0, 1.0, 0.0]
    fitted = ps.get_estimator(name).fit([[0.7, 0.3]] * 3, sample_weight=weight)
    found = fitted.estimate([[0.6, 0.4]] * 9, 0.9, 0, interval_method="bootstrap", n_resamples=50)
    assert np.isfinite(found.interval).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_class_that_the_source_hardly_had_bounds_the_others_at_once(dtype):
    y_proba = np.array([[0.5, 0.5], [1e-30, 1.0], [0.0, 1.0]] * 9, dtype)
    fitted = ps.EM().fit(source_priors=[1.0, 1e-29])
    found = fitted.estimate(y_proba, confidence_level=0.9)
    assert (found.interval[:, 0] <= found.priors).all()
    assert (found.priors <= found.interval[:, 1]).all()


def test_a_resample_may_be_singular():
    """Two rows a class: some resamples cannot tell the classes apart, and give no NaN."""
    y_proba_val = np.array([[0.9, 0.1], [0.2, 0.8], [0.8, 0.2], [0.1, 0.9]])
    cm = ps.CM().fit(y_proba_val, [0, 0, 1, 1])
    y_proba = np.repeat([[0.9, 0.1], [0.2, 0.8]], 50, axis=0)
    with pytest.warns(ps.PriorShiftWarning, match="singular"):
        shift = cm.estimate(y_proba, 0.95, 0, interval_method="bootstrap", n_resamples=40)
    assert np.isfinite(shift.interval).all()


def test_unlabelled_validation_gives_em_its_source_noise(data):
    """EM fitted with predictions alone: formula, and rows resampled as they are."""
    em = ps.EM().fit(data[0])
    for method in ("asymptotic", "bootstrap"):
        shift = em.estimate(data[2], 0.9, 0, interval_method=method, n_resamples=40)
        given = ps.EM().fit(source_priors=em.source_priors_)
        sure = given.estimate(data[2], 0.9, 0, interval_method=method, n_resamples=40)
        assert shift.standard_error.mean() > sure.standard_error.mean()


@pytest.mark.parametrize("known", ["source_label_priors", "source_priors", None])
@pytest.mark.parametrize(("name", "lacking"), [("em", 0), ("map", 1), ("em-bcts", 2)])
def test_errors_are_numbers_although_validation_lacks_a_class(simulate, rng, name, known, lacking):
    world = simulate(3, seed=4)
    y_proba_val, y_val = world.draw(np.full(3, 1 / 3), 300, rng)
    y_proba, _ = world.draw(np.array([0.5, 0.3, 0.2]), 400, rng)
    seen = y_val != lacking
    given = {} if known is None else {known: np.full(3, 1 / 3)}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        est = ps.get_estimator(name).fit(
            y_proba_val[seen], y_val[seen], classes=np.arange(3), **given
        )
        shift = est.estimate(y_proba, confidence_level=0.95)
    assert (shift.standard_error > 0).all()
    assert (shift.standard_error <= 0.5).all()
    json.dumps(shift.to_dict(), allow_nan=False)
    if known == "source_label_priors":
        assert f"no sample of class {lacking}, which counts as" in " ".join(
            str(one.message) for one in said
        )


@pytest.mark.parametrize("name", ["em", "map"])
def test_five_thousand_negatives_are_negative(name):
    """As many labels would give [0.99923, 1] by Wilson; the likelihood must not say [0, 1]."""
    est = ps.get_estimator(name).fit(source_priors=[0.5, 0.5])
    shift = est.estimate(np.zeros(5000), confidence_level=0.95)
    if name == "em":
        np.testing.assert_allclose(shift.interval, [[0.99923, 1], [0, 0.00077]], atol=1e-5)
    assert shift.interval[0, 0] > 0.999
    boots = est.estimate(
        np.zeros(5000), confidence_level=0.95, interval_method="bootstrap", random_state=0
    )
    np.testing.assert_allclose(shift.interval, boots.interval, atol=1e-3)


@pytest.mark.parametrize(
    ("method", "interval"),
    [
        *[(name, "auto") for name in ("cm-l", "scm-l", "em", "em-bcts", "auto")],
        ("scm-l", "bootstrap"),
        ("em", "bootstrap"),
        ("cm-l", "bayesian"),
    ],
)
@pytest.mark.filterwarnings("ignore::priorshift.exceptions.PriorShiftWarning")
def test_intervals_of_two_classes_are_mirror_images(method, interval, rng):
    """What one class gains the other loses; so it is where a third verdict is never true."""

    def draw(n, share):
        y = (rng.random(n) < share).astype(int)
        p = 1 / (1 + np.exp(-2 * (2 * y - 1 + rng.standard_normal(n))))
        return np.column_stack([1 - p, p]), y

    def verdicts(y_proba):
        return np.where(np.abs(y_proba[:, 0] - 0.5) < 0.2, 2, y_proba.argmax(axis=1))

    asked = {"confidence_level": 0.95, "random_state": 0, "n_resamples": 30}
    checked = 0
    for n, m, share in ((300, 500, 0.2), (40, 60, 0.02), (50, 40, 0.999)):
        (f, y), (g, _) = draw(n, 0.5), draw(m, share)
        for three in (False, True):
            est = ps.get_estimator(method)
            try:
                if three:
                    fitted = est.fit(y_pred=verdicts(f), y=y, classes=[0, 1, 2])
                    found = fitted.estimate(y_pred=verdicts(g), interval_method=interval, **asked)
                else:
                    found = est.fit(f, y).estimate(g, interval_method=interval, **asked)
            except ValueError:  # the method has none, or needs probabilities
                continue
            checked += 1
            low, high = found.interval[0]
            np.testing.assert_allclose(found.interval[1], [1 - high, 1 - low], atol=2e-5)
    assert checked


def test_bounds_that_contradict_the_estimate_are_not_taken_for_narrower():
    priors, error = np.array([0.2, 0.5, 0.3, 0.0]), np.ones(4)
    wide = PriorInterval.around(priors, priors - 0.2, priors + 0.2, error, "asymptotic")
    low, high = np.array([0.25, 0.45, 0.1, 0.0]), np.array([0.35, 0.55, 0.2, 0.1])
    other = PriorInterval.around(priors, low, high, error, "asymptotic")
    assert other.interval[0].tolist() == [0.2, 0.35]  # stretched
    found = wide.narrower(other, priors).interval
    np.testing.assert_array_equal(found[[0, 2]], wide.interval[[0, 2]])
    np.testing.assert_array_equal(found[[1, 3]], other.interval[[1, 3]])
