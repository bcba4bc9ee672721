"""PPI: formulas, invariances, coverage whatever changed; and how many labels to ask for."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import binomtest
from scipy.stats import norm as normal

import priorshift as ps
from priorshift.border import ArrayTable
from priorshift.estimators.labelled import FEW_LABELS, exact_bounds

CLASSES = ["a", "b", "c"]
P = np.array([0.5, 0.3, 0.2])


def target(rng, n=3000, n_labelled=300, p=P, skill=1.0):
    """Return predictions of no particular quality, labels of some rows, and all labels."""
    K = p.size
    y = rng.choice(K, size=n, p=p)
    y_proba = rng.dirichlet(np.ones(K), size=n) + skill * np.eye(K)[y]
    y_proba /= y_proba.sum(axis=1, keepdims=True)
    y_target = np.full(n, None, dtype=object)
    rows = np.sort(rng.choice(n, n_labelled, replace=False))
    y_target[rows] = np.array(CLASSES)[y[rows]] if K == 3 else y[rows]
    return y_proba, y_target, rows, y


def estimate(y_proba, y_target, weight=None, **options):
    return (
        ps.PPI(weight=weight).fit(classes=CLASSES).estimate(y_proba, y_target=y_target, **options)
    )


def by_hand(y_proba, rows, y, k, weight=None):
    """The formulas of the papers, for one class."""
    f, g = y_proba[rows, k], np.delete(y_proba[:, k], rows)
    hit, n, m = (y[rows] == k).astype(float), rows.size, g.size
    if weight is None:
        covariance = np.mean((hit - hit.mean()) * (f - f.mean()))
        weight = covariance / ((1 + n / m) * y_proba[:, k].var(ddof=1))
        weight = min(1.0, max(0.0, weight))
    point = weight * g.mean() + (hit - weight * f).mean()
    return point, np.sqrt(weight**2 * g.var() / m + (hit - weight * f).var() / n)


@pytest.mark.parametrize("weight", [None, 0.0, 0.5, 1.0])
def test_it_is_the_formula_of_the_papers(rng, weight):
    y_proba, y_target, rows, y = target(rng)
    found = estimate(y_proba, y_target, weight, confidence_level=0.9)
    for k in range(3):
        point, error = by_hand(y_proba, rows, y, k, weight)
        assert found.raw[k] == pytest.approx(point, abs=1e-12)
        assert found.standard_error[k] == pytest.approx(error, abs=1e-12)
        reach = normal.ppf(0.95) * error
        assert found.interval[k] == pytest.approx([point - reach, point + reach], abs=1e-12)
    assert found.priors.sum() == pytest.approx(1)
    assert found.interval_method == "prediction-powered"
    assert found.status == "direct"
    assert found.n_target == 3000


def test_without_predictions_it_is_the_labels(rng):
    y_proba, y_target, rows, y = target(rng)
    shares = np.bincount(y[rows], minlength=3) / rows.size
    assert estimate(y_proba, y_target, 0.0).priors == pytest.approx(shares)
    flat = np.full_like(y_proba, 1 / 3)  # predictions that say nothing get no weight
    assert estimate(flat, y_target).priors == pytest.approx(shares)
    everything = np.array(CLASSES)[y]
    full = estimate(y_proba, everything, confidence_level=0.95)
    share = np.bincount(y, minlength=3) / y.size
    assert full.priors == pytest.approx(share)
    assert full.standard_error == pytest.approx(np.sqrt(share * (1 - share) / y.size))


def test_perfect_predictions_count_as_labels(rng):
    _, y_target, _, y = target(rng)
    found = estimate(np.eye(3)[y], y_target, 1.0, confidence_level=0.95)
    share = np.bincount(y, minlength=3) / y.size
    assert found.standard_error == pytest.approx(np.sqrt(share * (1 - share) / y.size), rel=0.1)


def test_order_of_rows_and_classes_does_not_matter(rng):
    y_proba, y_target, _, _ = target(rng)
    found = estimate(y_proba, y_target, confidence_level=0.95)
    order = rng.permutation(len(y_proba))
    again = estimate(y_proba[order], y_target[order], confidence_level=0.95)
    assert again.interval == pytest.approx(found.interval, abs=1e-12)
    turned = (
        ps.PPI()
        .fit(classes=["c", "a", "b"])
        .estimate(y_proba[:, [2, 0, 1]], y_target=y_target, confidence_level=0.95)
    )
    assert turned.interval == pytest.approx(found.interval[[2, 0, 1]], abs=1e-12)


@pytest.mark.parametrize("unknown", [None, np.nan, -1, 99])
def test_what_stands_for_an_unknown_label(rng, unknown):
    y_proba, y_target, _, y = target(rng)
    known = y_target != None  # noqa: E711 - element by element
    labels = np.full(y.size, unknown, dtype=object)
    labels[known] = y[known]
    more = {"unlabelled": 99} if unknown == 99 else {}
    found = ps.PPI().fit(classes=[0, 1, 2]).estimate(y_proba, y_target=labels, **more)
    assert found.priors == pytest.approx(estimate(y_proba, y_target).priors, abs=1e-15)


def test_tables_and_sparse_rows_give_the_same(rng):
    y_proba, y_target, _, _ = target(rng)
    found = estimate(y_proba, y_target, confidence_level=0.95)
    for rows in (ArrayTable(y_proba), csr_array(y_proba)):
        again = estimate(rows, y_target, confidence_level=0.95)
        assert again.interval == pytest.approx(found.interval, abs=1e-6)
    single = estimate(y_proba.astype(np.float32), y_target, confidence_level=0.95)
    assert single.interval == pytest.approx(found.interval, abs=1e-5)


def test_decisions_are_one_hot_rows(rng):
    y_proba, y_target, _, _ = target(rng)
    decided = y_proba.argmax(axis=1)
    expected = estimate(np.eye(3)[decided], y_target, confidence_level=0.95)
    ppi = ps.PPI().fit(classes=CLASSES)
    named = np.array(CLASSES)[decided]
    found = ppi.estimate(y_pred=named, y_target=y_target, confidence_level=0.95)
    assert found.interval == pytest.approx(expected.interval, abs=1e-9)
    with pytest.raises(ValueError, match="one of them"):
        ppi.estimate(y_proba, y_pred=named, y_target=y_target)


# Few labels


def test_few_labels_get_the_exact_interval(rng):
    y_proba, y_target, rows, y = target(rng, n_labelled=60, p=np.array([0.93, 0.04, 0.03]))
    found = estimate(y_proba, y_target, confidence_level=0.95)
    counts = np.bincount(y[rows], minlength=3)
    assert (counts < FEW_LABELS).any()
    for k in np.flatnonzero(np.minimum(counts, 60 - counts) < FEW_LABELS):
        exact = binomtest(int(counts[k]), 60).proportion_ci(0.95, method="exact")
        low, high = min(exact.low, found.priors[k]), max(exact.high, found.priors[k])
        assert found.interval[k] == pytest.approx([low, high], abs=1e-9)
        assert found.standard_error[k] > 0


@pytest.mark.parametrize(("count", "size"), [(0, 5), (5, 5), (1, 30), (9, 200)])
def test_exact_bounds_are_scipy_s(count, size):
    lower, upper = exact_bounds(np.array([count]), size, 0.9)
    exact = binomtest(count, size).proportion_ci(0.9, method="exact")
    assert (lower[0], upper[0]) == pytest.approx((exact.low, exact.high), abs=1e-9)


def test_one_label_is_enough_to_say_something(rng):
    y_proba, _, _, y = target(rng)
    y_target = np.full(y.size, None, dtype=object)
    y_target[0] = CLASSES[y[0]]
    found = estimate(y_proba, y_target, confidence_level=0.95)
    assert np.isfinite(found.interval).all()
    assert found.interval[y[0], 1] == 1


# Coverage: whatever changed between the classifier's training and the target


def drifted(rng, n, p, errors):
    """Return one-hot decisions of a judge whose errors have drifted, and the labels."""
    y = rng.choice(p.size, size=n, p=p)
    decided = (errors.cumsum(axis=0)[:, y] < rng.random(n)).sum(axis=0)
    return np.eye(p.size)[decided], y


@pytest.mark.slow
def test_intervals_cover_where_a_judge_s_errors_drifted(rng):
    """A method that trusts validation does not; labels alone do, in wider intervals."""
    before = np.array([[0.95, 0.10], [0.05, 0.90]])
    after = np.array([[0.85, 0.05], [0.15, 0.95]])
    p, trials = np.array([0.7, 0.3]), 160
    val, y_val = drifted(rng, 2000, np.array([0.5, 0.5]), before)
    cml = ps.CML().fit(val, y_val)
    hits, widths, trusted = np.zeros(2), np.zeros(2), []
    for _ in range(trials):
        y_proba, y = drifted(rng, 2000, p, after)
        y_target = np.where(np.arange(2000) < 200, y, -1)
        found = [
            ps.PPI().fit(classes=[0, 1]).estimate(y_proba, 0.95, y_target=y_target),
            ps.PPI(weight=0).fit(classes=[0, 1]).estimate(y_proba, 0.95, y_target=y_target),
        ]
        if len(trusted) < 30:
            low, high = cml.estimate(y_proba, 0.95).interval[1]
            trusted.append(low <= 0.3 <= high)
        hits += [one.interval[1, 0] <= 0.3 <= one.interval[1, 1] for one in found]
        widths += [np.ptp(one.interval[1]) for one in found]
    powered, labels = hits / trials
    assert 0.9 <= powered <= 0.99  # 3 standard errors of the simulation are 0.05
    assert 0.9 <= labels <= 0.995
    assert np.mean(trusted) < 0.2
    assert widths[0] < 0.75 * widths[1]


@pytest.mark.slow
def test_a_rare_label_among_heavy_rows_is_allowed_for(rng):
    """Rows that the judge accepts are labelled an eighth as often, and hardly any of them is bad.

    Often none of the labels shows it, and the plain variance then covers 90 % only.
    """
    errors, p, trials, hits, plain = np.array([[0.85, 0.05], [0.15, 0.95]]), 0.5, 250, 0, 0
    for _ in range(trials):
        y_proba, y = drifted(rng, 2000, np.array([1 - p, p]), errors)
        chance = np.where(y_proba[:, 1] == 1, 8.0, 1.0)
        chance *= 200 / chance.sum()
        y_target = np.where(rng.random(y.size) < chance, y, -1)
        found = (
            ps.PPI()
            .fit(classes=[0, 1])
            .estimate(y_proba, 0.95, y_target=y_target, sample_weight=1 / chance)
        )
        low, high = found.interval[1]
        hits += low <= p <= high
        plain += abs(found.raw[1] - p) <= 1.96 * found.standard_error[1]
    assert hits / trials >= 0.955
    assert plain / trials <= 0.94  # or this test would not show anything


def test_equal_weights_change_nothing(rng):
    y_proba, y_target, _, _ = target(rng)
    plain = estimate(y_proba, y_target, confidence_level=0.95)
    weighted = estimate(
        y_proba, y_target, confidence_level=0.95, sample_weight=np.full(len(y_proba), 7.0)
    )
    np.testing.assert_allclose(weighted.interval, plain.interval, rtol=1e-12)
    reach = normal.ppf(0.975) * plain.standard_error
    np.testing.assert_allclose(plain.interval[:, 1] - plain.raw, reach, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("estimand", ["population", "sample"])
def test_intervals_cover_with_unequal_chances_of_a_label(rng, estimand):
    """Rows about which the classifier is unsure are labelled eight times as often."""
    trials, hits, errors, claimed = 120, 0, [], []
    for _ in range(trials):
        y_proba, _, _, y = target(rng, n=1500, skill=0.7)
        unsure = y_proba.max(axis=1) < np.quantile(y_proba.max(axis=1), 0.4)
        chance = np.where(unsure, 0.4, 0.05)
        chosen = rng.random(y.size) < chance
        y_target = np.where(chosen, y, -1)
        found = (
            ps.PPI()
            .fit(classes=[0, 1, 2])
            .estimate(y_proba, 0.95, y_target=y_target, sample_weight=1 / chance, estimand=estimand)
        )
        truth = P if estimand == "population" else np.bincount(y, minlength=3) / y.size
        hits += ((found.interval[:, 0] <= truth) & (truth <= found.interval[:, 1])).mean()
        errors.append(found.raw - truth)
        claimed.append(found.standard_error)
    assert 0.9 <= hits / trials <= 0.99
    spread = np.std(errors, axis=0)
    assert np.abs(np.mean(errors, axis=0)).max() < 4 * spread.max() / np.sqrt(trials)
    assert np.mean(claimed, axis=0) == pytest.approx(spread, rel=0.2)


def test_all_classes_together_are_covered_at_once(rng):
    trials, hits = 150, 0
    for _ in range(trials):
        y_proba, y_target, _, _ = target(rng, n=1000, n_labelled=200)
        found = estimate(y_proba, y_target, confidence_level=0.9, simultaneous=True)
        hits += ((found.interval[:, 0] <= P) & (found.interval[:, 1] >= P)).all()
    assert hits / trials >= 0.83


# The source


def test_without_a_source_nothing_is_said_of_it(rng):
    y_proba, y_target, _, _ = target(rng)
    found = estimate(y_proba, y_target, confidence_level=0.95)
    assert found.source_priors is None
    assert found.ratio is None
    assert found.total_variation is None
    assert found.to_dict()["ratio"] is None
    assert "source" not in found.to_frame().columns
    assert list(found.to_frame().columns)[:2] == ["class", "prior"]
    assert "source priors: unknown" in repr(found)
    assert "<table" in found._repr_html_()
    assert pickle.loads(pickle.dumps(found)).source_priors is None
    for adapt in (found.adapt, found.adapt_interval):
        with pytest.raises(ValueError, match="give them to fit: source_priors="):
            adapt(y_proba)


def test_with_a_source_predictions_can_be_adapted(rng):
    y_proba, y_target, _, _ = target(rng)
    source = [0.2, 0.3, 0.5]
    ppi = ps.PPI().fit(classes=CLASSES, source_priors=source)
    found = ppi.estimate(y_proba, y_target=y_target)
    assert found.ratio == pytest.approx(found.priors / source)
    expected = ps.adapt_proba(y_proba, source, found.priors)
    assert ppi.adapt(y_proba, y_target=y_target) == pytest.approx(expected)
    val, _, _, y_val = target(rng)
    fitted = ps.PPI().fit(val, np.array(CLASSES)[y_val])
    assert fitted.estimate(y_proba, y_target=y_target).source_priors == pytest.approx(
        val.mean(axis=0)
    )


# Decisions of a judge


def test_a_validation_set_of_decisions_tells_the_source(rng):
    errors = np.array([[0.85, 0.05], [0.15, 0.95]])
    names = np.array(["bad", "good"])
    _, y_val = drifted(rng, 300, np.array([0.5, 0.5]), errors)
    verdicts, y = drifted(rng, 900, np.array([0.7, 0.3]), errors)
    y_pred, y_target = names[verdicts.argmax(axis=1)], np.where(np.arange(900) < 90, names[y], None)
    fitted = ps.PPI().fit(y_pred=names[y_val], y=names[y_val])
    found = fitted.estimate(y_pred=y_pred, y_target=y_target)
    alone = ps.PPI().fit(classes=names).estimate(y_pred=y_pred, y_target=y_target)
    np.testing.assert_array_equal(found.priors, alone.priors)
    np.testing.assert_allclose(found.source_priors, np.bincount(y_val) / 300)
    assert fitted.needs_rows
    with pytest.raises(ValueError, match="needs the rows of the target"):
        fitted.estimate_counts([10, 20])


# Errors


def test_labels_go_to_methods_that_use_them_only(rng):
    y_proba, y_target, _, y = target(rng, n=400, n_labelled=40)
    fitted = ps.SCML().fit(y_proba, np.array(CLASSES)[y])
    for call in (fitted.estimate, fitted.adapt):
        with pytest.raises(ValueError, match=r"SCML does not use labels.*em-labels, ppi"):
            call(y_proba, y_target=y_target)
    with pytest.raises(ValueError, match="pass y_target= beside it"):
        fitted.estimate(y_proba, sample_weight=np.ones(400))
    em = ps.SemiSupervisedEM().fit(source_priors=P, classes=CLASSES)
    with pytest.raises(ValueError, match=r"same chance of a label.*use PPI"):
        em.estimate(y_proba, y_target=y_target, sample_weight=np.ones(400))


def test_errors_say_what_to_do(rng):
    y_proba, y_target, _, _ = target(rng)
    ppi = ps.PPI().fit(classes=CLASSES)
    with pytest.raises(ValueError, match=r"needs labels of some rows.*y_target="):
        ppi.estimate(y_proba)
    with pytest.raises(ValueError, match="needs labels of some rows"):
        ppi.estimate(y_proba, y_target=np.full(len(y_proba), None))
    with pytest.raises(ValueError, match=r"fit\(classes=\[...\]\)"):
        ps.PPI().fit()
    with pytest.raises(ValueError, match="Give source_priors instead"):
        ps.PPI().fit(classes=CLASSES, source_label_priors=P)
    with pytest.raises(ValueError, match="interval of its own"):
        ppi.estimate(y_proba, 0.95, y_target=y_target, interval_method="bootstrap")
    with pytest.raises(ValueError, match=r"weight must be a number in \[0, 1\]"):
        ps.PPI(weight=2).fit(classes=CLASSES).estimate(y_proba, y_target=y_target)
    with pytest.raises(ValueError, match="one weight per row"):
        ppi.estimate(y_proba, y_target=y_target, sample_weight=[1.0, 2.0])
    with pytest.raises(ValueError, match="finite and at least 0"):
        ppi.estimate(y_proba, y_target=y_target, sample_weight=-np.ones(3000))
    with pytest.raises(ValueError, match="outside classes"):
        ppi.estimate(y_proba, y_target=np.where(y_target == "a", "z", y_target))
    with pytest.raises(ValueError, match="learns nothing from validation"):
        ppi.partial_fit(y_proba, y_target)


# How many labels


@pytest.mark.parametrize("width", [0.02, 0.04, 0.1])
@pytest.mark.parametrize("priors", [[0.5, 0.5], [0.7, 0.2, 0.1], [0.97, 0.03], [0.999, 0.001]])
def test_labels_needed_are_the_least_that_suffice(width, priors):
    found = ps.labels_needed(width=width, priors=priors)

    def widest(n):
        wide = []
        for p in priors:
            low, high = (float(bound) for bound in exact_bounds(n * p, n, 0.95))
            normally = 2 * normal.ppf(0.975) * np.sqrt(p * (1 - p) / n)
            wide.append(high - low if n * min(p, 1 - p) < FEW_LABELS else normally)
        return max(wide)

    assert widest(found) <= width < widest(found - 1)


def test_the_promised_width_comes_true(rng):
    C = np.array([[0.9, 0.2], [0.1, 0.8]])
    needed = ps.labels_needed(width=0.08, priors=[0.7, 0.3], confusion=C)
    assert needed.with_predictions < 0.6 * needed
    widths = {0.0: [], None: []}
    for _ in range(5):
        y_proba, y = drifted(rng, 40_000, np.array([0.7, 0.3]), C)
        for weight, n in ((0.0, int(needed)), (None, needed.with_predictions)):
            labels = np.where(np.arange(y.size) < n, y, -1)
            ppi = ps.PPI(weight=weight).fit(classes=[0, 1])
            widths[weight].append(np.ptp(ppi.estimate(y_proba, 0.95, y_target=labels).interval[0]))
    assert np.mean(widths[0.0]) == pytest.approx(0.08, rel=0.02)
    assert np.mean(widths[None]) == pytest.approx(0.08, rel=0.05)


def test_labels_needed_takes_what_there_is(rng):
    counts = np.array([[45, 10], [5, 40]])
    by_counts = ps.labels_needed(width=0.05, confusion=counts)
    y_proba = np.eye(2)[np.repeat([0, 1, 0, 1], [45, 5, 10, 40])]
    measured = ps.Confusion.from_arrays(y_proba, np.repeat([0, 1], 50), decision="hard")
    by_confusion = ps.labels_needed(width=0.05, confusion=measured)
    assert by_counts == by_confusion == ps.labels_needed(width=0.05)
    assert by_counts.with_predictions == by_confusion.with_predictions < by_counts
    assert ps.labels_needed(width=0.05).with_predictions is None
    named = ps.labels_needed(width=0.05, priors={"a": 0.9, "b": 0.1})
    assert named == ps.labels_needed(width=0.05, priors=[0.9, 0.1])
    again = pickle.loads(pickle.dumps(by_counts))
    assert (again, again.with_predictions) == (by_counts, by_counts.with_predictions)
    assert isinstance(again, int)
    useless = ps.labels_needed(width=0.05, confusion=np.ones((2, 2)))
    assert useless.with_predictions == useless


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"width": 0}, "width must be above 0"),
        ({"width": 0.1, "confidence_level": 1.5}, "confidence_level"),
        ({"width": 0.1, "priors": [0.5, 0.6]}, "must sum to 1"),
        ({"width": 0.1, "confusion": [1, 2]}, "2 x 2: a row per decision"),
        (
            {"width": 0.1, "confusion": [[1, 0], [0, -1]]},
            r"at least 0; got -1.0 at position \(1, 1\)",
        ),
        ({"width": 0.1, "priors": [1.0], "confusion": np.eye(2)}, "one prior per class"),
    ],
)
def test_labels_needed_says_what_to_do(given, message):
    with pytest.raises(ValueError, match=message):
        ps.labels_needed(**given)
