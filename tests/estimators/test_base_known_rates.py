"""Known error rates: `Confusion.from_rates` and `from_counts`, `fit(confusion=)`."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtri
from sklearn.metrics import confusion_matrix

import priorshift as ps
from priorshift.solvers import _linear

METHODS = ("cm", "cm-l", "cm-m", "bbse", "rlls", "joint")


def rates(sensitivity, specificity, **sizes):
    return ps.Confusion.from_rates(sensitivity=sensitivity, specificity=specificity, **sizes)


def prevalence(positives, n, known, level=0.95, method="cm-l"):
    fitted = ps.get_estimator(method).fit(confusion=known)
    return fitted.estimate_counts([n - positives, positives], confidence_level=level)


def lang_reiczigel(positives, n, se, n_se, sp, n_sp, level=0.95):
    """The interval of Lang and Reiczigel (2014), equations 4, 6, 7, 16 and 17, step by step."""
    z = ndtri((1 + level) / 2)
    se_, sp_ = (n_se * se + 1) / (n_se + 2), (n_sp * sp + 1) / (n_sp + 2)
    n_, p_ = n + z**2, (positives + z**2 / 2) / (n + z**2)
    P_ = (p_ + sp_ - 1) / (se_ + sp_ - 1)
    dP = 2 * z**2 * (P_ * se_ * (1 - se_) / (n_se + 2) - (1 - P_) * sp_ * (1 - sp_) / (n_sp + 2))
    variance = p_ * (1 - p_) / n_ + P_**2 * se_ * (1 - se_) / (n_se + 2)
    variance += (1 - P_) ** 2 * sp_ * (1 - sp_) / (n_sp + 2)
    half = z * np.sqrt(variance) / (se_ + sp_ - 1)
    return max(0, P_ + dP - half), min(1, P_ + dP + half)


# Examples 1 to 4 of Lang and Reiczigel (2014), with the intervals that the help page of R's
# asht::prevSeSp quotes for them: positives, n, Se, n of Se, Sp, n of Sp, interval.
PUBLISHED = [
    (4060, 11284, 178 / 179, 179, 358 / 359, 359, (0.349, 0.372)),
    (51, 2971, 32 / 33, 33, 20 / 20, 20, (0.0, 0.053)),
    (712, 11862, 0.80, 10, 1.0, 12, (0.0, 0.147)),
    (259, 509, 84 / 127, 127, 96 / 109, 109, (0.58, 0.87)),
    (51, 509, 23 / 41, 41, 187 / 195, 195, (0.037, 0.195)),
]


@pytest.mark.parametrize("example", PUBLISHED)
def test_the_formula_that_we_compare_with_is_the_published_one(example):
    *given, published = example
    assert_allclose(lang_reiczigel(*given), published, atol=0.0055)


@pytest.mark.parametrize(
    ("example", "most"), list(zip(PUBLISHED, [0.002, 0.02, 0.03, 0.01, 0.01], strict=True))
)
def test_published_intervals_of_lang_and_reiczigel(example, most):
    positives, n, se, n_se, sp, n_sp, published = example
    found = prevalence(positives, n, rates(se, sp, n_positive=n_se, n_negative=n_sp))
    # few positives or negatives: ours is wider, by at most so much
    assert_allclose(found.interval[1], published, atol=most)
    assert not found.cautions


def test_published_intervals_of_exact_rates():
    """RSurveillance (R) prints for tp(20, 120, 0.9, 0.99, "all") these, with rates as exact.

    The estimate is that of Rogan and Gladen (1978), the interval Wilson's.
    """
    found = prevalence(20, 120, rates(0.9, 0.99))
    assert_allclose(found.priors[1], 0.17603, atol=5e-6)
    assert_allclose(found.interval[1], [0.1129887, 0.2623065], atol=5e-7)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "cm-m"])  # a hyper-prior
def test_every_method_is_rogan_and_gladen(method):
    known = rates(0.9, 0.95, n_positive=10**6, n_negative=10**6)
    for positives in (60, 120, 900):
        found = prevalence(positives, 1000, known, method=method).priors[1]
        share = positives / 1000
        assert found == pytest.approx((share + 0.95 - 1) / (0.9 + 0.95 - 1), abs=2e-3)


def test_results_outside_are_clipped_and_kept():
    known = rates(0.9, 0.95)
    with pytest.warns(UserWarning, match="negative entry"):
        found = prevalence(10, 1000, known, method="cm")
    assert found.priors.tolist() == [1.0, 0.0]
    assert found.raw[1] == pytest.approx((0.01 + 0.95 - 1) / 0.85)
    assert prevalence(10, 1000, known).priors[1] == pytest.approx(0, abs=1e-6)


def test_the_rates_are_exact_or_not_and_the_result_says_which():
    exact = prevalence(120, 1000, rates(0.9, 0.95))
    assert "taken to be exact" in exact.cautions[0]
    assert "taken to be exact" in repr(exact)
    assert exact.source_priors is None
    assert exact.ratio is None
    with pytest.raises(ValueError, match="give them to fit: source_priors="):
        exact.adapt([[0.2, 0.8]])
    known = ps.CML().fit(confusion=rates(0.9, 0.95), source_priors=[0.9, 0.1])
    assert_allclose(known.estimate_counts([880, 120]).source_priors, [0.9, 0.1])
    widths = [np.ptp(exact.interval[1])]
    for n in (10**6, 1000, 100, 30):
        found = prevalence(120, 1000, rates(0.9, 0.95, n_positive=n, n_negative=n))
        assert not found.cautions
        widths.append(np.ptp(found.interval[1]))
    assert widths == sorted(widths)
    assert widths[1] == pytest.approx(widths[0], rel=1e-3)
    one = prevalence(120, 1000, rates(0.9, 0.95, n_negative=100))
    assert one.cautions
    assert widths[0] < np.ptp(one.interval[1]) < widths[4]


def test_rates_with_sizes_are_counts():
    by_counts = ps.Confusion.from_counts([[190, 10], [10, 90]])
    by_rates = rates(0.9, 0.95, n_positive=100, n_negative=200)
    assert_allclose(by_rates.counts, by_counts.counts)
    assert_allclose(by_rates.sizes, [200, 100])
    one, other = (prevalence(120, 1000, known) for known in (by_rates, by_counts))
    assert_allclose(one.interval, other.interval)
    assert rates(0.9, 0.95).exact
    assert not by_rates.exact
    assert np.isinf(rates(0.9, 0.95).sizes).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_confusion_matrix_is_a_validation_set(method):
    rng = np.random.default_rng(0)
    y, decided = rng.integers(3, size=300), rng.integers(3, size=300)
    decided = np.where(rng.random(300) < 0.8, y, decided)
    target = rng.integers(3, size=500)
    rows = ps.get_estimator(method).fit(y_pred=decided, y=y)
    # scikit-learn's rows are true classes
    known = ps.Confusion.from_counts(confusion_matrix(y, decided).T, classes=["a", "b", "c"])
    fitted = ps.get_estimator(method).fit(confusion=known)
    counts = np.bincount(target, minlength=3)
    found = fitted.estimate_counts(counts, confidence_level=0.9)
    expected = rows.estimate(y_pred=target, confidence_level=0.9)
    assert found.classes.tolist() == ["a", "b", "c"]
    assert_allclose(found.priors, expected.priors)
    assert_allclose(found.interval, expected.interval)
    named = fitted.estimate(y_pred=np.array(["a", "b", "c"])[target])
    assert_allclose(named.priors, expected.priors)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "sizes"),
    [
        (0.02, {}),
        (0.0, {"n_positive": 100, "n_negative": 200}),
        (0.3, {"n_positive": 100, "n_negative": 200}),
    ],
)
def test_intervals_cover_down_to_prevalence_0_and_50_people(p, sizes):
    rng, inside, n_trials = np.random.default_rng(1), 0, 150
    for _ in range(n_trials):
        se, sp = 0.9, 0.95
        if sizes:
            se, sp = rng.binomial(100, se) / 100, rng.binomial(200, sp) / 200
        positives = rng.binomial(50, p * 0.9 + (1 - p) * 0.05)
        low, high = prevalence(positives, 50, rates(se, sp, **sizes)).interval[1]
        inside += low <= p <= high
    assert inside >= 0.9 * n_trials  # of 0.95, and a standard error of 0.018


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sensitivity": 90, "specificity": 0.95}, r"sensitivity must be a number in \[0, 1\]"),
        ({"sensitivity": 0.3, "specificity": 0.6}, "must sum to more than 1"),
        ({"sensitivity": 0.9, "specificity": 0.9, "n_positive": 0}, "n_positive must be a whole"),
        ({"sensitivity": 0.9, "specificity": 0.9, "classes": ["a"]}, "classes has 1 entries"),
    ],
)
def test_bad_rates_are_refused(given, said):
    with pytest.raises(ValueError, match=said):
        ps.Confusion.from_rates(**given)


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        ([[1, 2, 3], [4, 5, 6]], "2 x 2: a row per decision"),
        ([1, 2], "2 x 2: a row per decision"),
        (3, "2 x 2: a row per decision"),
        ([["a", "b"], ["c", "d"]], "2 x 2: a row per decision"),
        ([[5, -1], [0, 3]], r"got -1.0 at position \(0, 1\)"),
        ([[0.9, 0.1], [0.1, 0.9]], "looks like rates"),
    ],
)
def test_bad_matrices_are_refused(matrix, said):
    with pytest.raises(ValueError, match=said):
        ps.Confusion.from_counts(matrix)


def test_bad_fits_and_counts_are_refused():
    known = rates(0.9, 0.95)
    with pytest.raises(ValueError, match="EM needs predicted probabilities"):
        ps.EM().fit(confusion=known)
    with pytest.raises(ValueError, match="leave out y, y_pred"):
        ps.CML().fit(confusion=known, y_pred=[0], y=[0])
    with pytest.raises(ValueError, match="must be a Confusion"):
        ps.CML().fit(confusion=[[9, 1], [1, 9]])
    soft = ps.Confusion.from_arrays(np.eye(2), np.array([0, 1]), decision="soft")
    with pytest.raises(ValueError, match="soft decisions"):
        ps.CML().fit(confusion=soft)
    fitted = ps.CML().fit(confusion=known)
    with pytest.raises(ValueError, match="whole numbers"):
        fitted.estimate_counts([0.88, 0.12])
    with pytest.raises(ValueError, match="on 2 classes"):
        fitted.estimate_counts([1, 2, 3])
    with pytest.raises(ValueError, match="at least 0"):
        fitted.estimate_counts([-1, 2])
    with pytest.raises(ValueError, match="count at least one row"):
        fitted.estimate_counts([0, 0])


# Worked examples on the help page of R's epiR::epi.prev (version 2.0): positives, n, sensitivity,
# specificity, and the true prevalence by Rogan and Gladen's estimator that it states, in percent.
EPI_PREV = [
    (23, 150, 0.96, 0.89, 5.1),  # brucellosis in a herd of cows
    (6, 151, 0.964, 0.927, 0.0),  # Helicobacter pylori at 1 to 4 years (Moujaber et al., 2008)
    (8, 210, 0.60, 0.90, 0.0),  # tuberculosis in three dairy herds
    (12, 189, 0.65, 0.95, 2.25),
    (7, 124, 0.70, 0.99, 6.73),
]


@pytest.mark.parametrize("method", ["cm", "cm-l"])
@pytest.mark.parametrize("example", EPI_PREV)
@pytest.mark.filterwarnings("ignore:.*negative entry")  # where fewer are positive than false alarms
def test_published_examples_of_rogan_and_gladen(example, method):
    positives, n, sensitivity, specificity, percent = example
    found = prevalence(positives, n, rates(sensitivity, specificity), method=method)
    digits = 1 if percent == 5.1 else 2
    assert round(100 * found.priors[1], digits) == percent


def test_published_interval_of_brucellosis():
    """The help page of epiR::epi.prev states 0 to 13 cases per 100 cows, at 95 %."""
    found = prevalence(23, 150, rates(0.96, 0.89))
    assert (100 * found.interval[1]).round().tolist() == [0, 13]


# Classes 0 and 3 are never decided for: three decisions cannot tell five shares.
NEVER = [[0, 0, 0, 0, 0], [0, 63, 0, 0, 22], [66, 0, 45, 42, 0], [0, 0, 0, 0, 0], [0, 0, 4, 16, 42]]


@pytest.mark.filterwarnings("ignore::priorshift.PriorShiftWarning")
@pytest.mark.parametrize("method", METHODS)
def test_a_singular_confusion_matrix_is_a_caution_that_names_the_classes(method):
    known = ps.Confusion.from_counts(NEVER, classes=list("abcde"))
    fitted = ps.get_estimator(method).fit(confusion=known)
    found = fitted.estimate_counts([0, 150, 400, 0, 40])
    assert found.condition_number == np.inf
    (caution,) = found.cautions
    assert "share of class 'a', 'b', 'c', 'd', 'e'" in caution
    assert "class 'a', 'd' is never decided for" in caution
    assert caution in repr(found)


def test_only_the_shares_that_decisions_leave_open_are_named():
    alike = ps.Confusion.from_counts([[5, 5, 1], [5, 5, 1], [0, 0, 8]], classes=list("abc"))
    found = ps.CML().fit(confusion=alike).estimate_counts([10, 10, 30])
    assert "share of class 'a', 'b', and" in found.cautions[0]
    assert "never" not in found.cautions[0]


@pytest.mark.filterwarnings("ignore::priorshift.PriorShiftWarning")
@pytest.mark.parametrize("method", ["scm-l", "scm-m", "scm", "bbse-s", "scm-l-shrunk", "gls"])
def test_soft_decisions_that_tell_nothing_are_a_caution(method):
    flat, y = np.full((40, 2), 0.5), np.repeat([0, 1], 20)
    found = ps.get_estimator(method).fit(flat, y).estimate(flat)
    assert found.condition_number == np.inf
    assert "share of class 0, 1" in found.cautions[0]
    if method not in ("scm-l-shrunk", "gls"):  # which need all rows at once
        batched = ps.get_estimator(method).partial_fit(flat, y, classes=[0, 1]).estimate(flat)
        assert batched.cautions == found.cautions


def test_groups_carry_the_caution_of_a_singular_confusion_matrix():
    known = ps.Confusion.from_counts(NEVER)
    y_pred, groups = np.repeat([1, 2, 4], [150, 400, 40]), np.tile(["north", "south"], 295)
    found = ps.estimate_groups(ps.CML().fit(confusion=known), y_pred=y_pred, groups=groups)
    assert found["north"].condition_number == np.inf
    assert "never decided for" in found["south"].cautions[0]
    assert "caution: the confusion matrix is singular" in repr(found)


def test_regular_confusion_matrices_cost_no_caution():
    found = ps.CML().fit(confusion=rates(0.9, 0.95, n_positive=50, n_negative=50))
    found = found.estimate_counts([880, 120])
    assert found.cautions == ()
    assert found.condition_number is None


def test_groups_with_known_error_rates_become_frames():
    fitted = ps.CML().fit(confusion=rates(0.9, 0.95))
    found = ps.estimate_groups(fitted, y_pred=[0, 1, 1, 0], groups=["a", "a", "b", "b"])
    frame = found.to_frame()
    assert list(frame) == ["group", "class", "n", "weight", "prior"]
    assert_allclose(frame["prior"], found.priors.ravel())
    assert found.ratio is None
    with pytest.raises(ValueError, match="nothing is known of the priors"):
        found.adapt(np.eye(2), ["a", "b"])


@pytest.mark.parametrize("method", ["cm-l", "scm-l", "cm-m", "scm-m", "cm", "bbse"])
def test_a_matrix_is_looked_at_when_an_answer_is_asked_for_and_only_then(method, monkeypatch):
    """At many classes that costs more than all the rest of a fit."""
    found = []
    for name in ("dgetrf", "dgecon"):
        monkeypatch.setattr(_linear, name, lambda *_, name=name: found.append(name))
    monkeypatch.setattr(np.linalg, "svd", lambda *_, **__: found.append("svd"))
    fitted = ps.get_estimator(method).fit(np.eye(3)[[0, 1, 2, 1]], [0, 1, 2, 2])
    assert not found
    monkeypatch.undo()
    singular_values = np.linalg.svd

    def counted(*given, **options):
        found.append("svd")
        return singular_values(*given, **options)

    monkeypatch.setattr(np.linalg, "svd", counted)
    fitted.estimate(np.eye(3)[[0, 1, 2]])
    assert len(found) == (method in {"cm", "bbse"})


def test_methods_that_invert_a_singular_matrix_warn():
    with pytest.warns(ps.PriorShiftWarning, match="cm: the confusion matrix is singular"):
        ps.CM().fit(np.full((2, 2), 0.5), [0, 1]).estimate([[0.5, 0.5]])
