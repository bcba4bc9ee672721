"""MAPLS and EM with labels against independent implementations and simulated truth."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import xlogy

import priorshift as ps
from priorshift.estimators import MAPLS, SemiSupervisedEM, em

# MAPLS


def mapls_by_iteration(y_proba, source, weight, n_steps=4000):
    K = source.size
    q = source.copy()
    for _ in range(n_steps):
        adapted = y_proba * q / source
        adapted /= adapted.sum(axis=1, keepdims=True)
        q = weight * adapted.mean(axis=0) + (1 - weight) / K
    return q


def kl(p, q):
    return float((xlogy(p, p) - p * np.log(q)).sum())


@pytest.mark.parametrize("weight", [1.0, 0.9, 0.5, 0.05])
def test_mapls_is_the_fixed_point_of_its_iteration(data, weight, monkeypatch):
    *_, y_proba, _, source = data
    monkeypatch.setattr(em, "data_weight", lambda *_: weight)
    shift = MAPLS(tol=1e-10).fit(source_priors=source).estimate(y_proba)
    assert shift.status == "certified"
    np.testing.assert_allclose(shift.priors, mapls_by_iteration(y_proba, source, weight), atol=1e-8)


def test_mapls_chooses_its_weight_by_the_published_rule(data):
    *_, y_proba, _, source = data
    em = mapls_by_iteration(y_proba, source, 1.0)
    uniform = np.full(4, 0.25)

    def conf(d, lam):
        gamma = (1 / (1 - lam) - 1) / 0.5
        return gamma * d / (1 + gamma * d)

    trust = 1 - conf(kl(source, uniform), 0.2)
    weight = 0.9 * conf(kl(em, uniform), trust) + 0.1 * (1 - conf(kl(em, source), trust))
    assert 0.1 < weight < 0.95
    shift = MAPLS(tol=1e-10).fit(source_priors=source).estimate(y_proba)
    np.testing.assert_allclose(shift.priors, mapls_by_iteration(y_proba, source, weight), atol=1e-7)


def test_mapls_with_an_exactly_balanced_source(data):
    *_, y_proba, _, _ = data
    balanced = np.full(4, 0.25)
    shift = MAPLS(tol=1e-9).fit(source_priors=balanced).estimate(y_proba)
    np.testing.assert_allclose(shift.priors, mapls_by_iteration(y_proba, balanced, 0.9), atol=1e-7)
    flat = MAPLS().fit(source_priors=[0.5, 0.5]).estimate(np.array([[0.5, 0.5]]))
    np.testing.assert_allclose(flat.priors, [0.5, 0.5], atol=1e-6)


def test_mapls_gains_where_the_target_is_near_equal_priors(simulate):
    simulation, errors = simulate(20, spread=0.6, seed=2), {"mapls": [], "em": []}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        y_proba, _ = simulation.draw(np.full(20, 0.05), 500, rng)
        for est in (MAPLS(), ps.EM()):
            found = est.fit(source_priors=simulation.source_priors).estimate(y_proba).priors
            errors[est.name].append(np.abs(found - 0.05).sum())
    assert np.mean(errors["mapls"]) < 0.8 * np.mean(errors["em"])


# EM with labels


def test_labels_enter_the_likelihood(data, rng):
    """Maximise the joint likelihood of labelled and unlabelled samples by SLSQP."""
    *_, y_proba, y, source = data
    labelled = rng.random(y.size) < 0.1
    counts = np.bincount(y[labelled], minlength=4)
    a = y_proba[~labelled] / source

    def loss(p):
        return -(np.log(a @ p).sum() + counts @ np.log(p)) / y.size

    bounds, total = [(1e-9, 1)] * 4, {"type": "eq", "fun": lambda p: p.sum() - 1}
    found = minimize(loss, source, bounds=bounds, constraints=[total], options={"ftol": 1e-14})
    marked = np.where(labelled, y, -1)
    est = SemiSupervisedEM(tol=1e-9).fit(source_priors=source)
    shift = est.estimate(y_proba, y_target=marked, unlabelled=-1)
    np.testing.assert_allclose(shift.priors, found.x, atol=1e-5)
    assert shift.status == "certified"
    assert shift.n_target == y.size


def test_all_labels_are_label_frequencies_and_none_are_em(data):
    *_, y_proba, y, source = data
    est = SemiSupervisedEM().fit(source_priors=source)
    whole = est.estimate(y_proba, y_target=y)
    np.testing.assert_allclose(whole.priors, np.bincount(y) / y.size)
    assert whole.status == "direct"
    em = ps.EM().fit(source_priors=source).estimate(y_proba)
    for shift in (est.estimate(y_proba), est.estimate(y_proba, y_target=[None] * y.size)):
        np.testing.assert_array_equal(shift.priors, em.priors)
        assert shift.gap == em.gap


def test_a_few_labels_beat_none_where_outputs_are_not_calibrated(data, rng, too_sure):
    *_, y_proba, y, source = data
    wrong = too_sure(y_proba, 0.2)
    est = SemiSupervisedEM().fit(source_priors=source)
    marked = np.where(rng.random(y.size) < 0.2, y, -1)
    with_labels = est.estimate(wrong, y_target=marked, unlabelled=-1).priors
    without = est.estimate(wrong).priors
    truth = np.bincount(y) / y.size
    assert np.abs(with_labels - truth).sum() < 0.9 * np.abs(without - truth).sum()


def test_calibrated_em_with_labels_beats_moments_without(data, rng, too_sure):
    """Where outputs are too sure, 20 % labels must not make an estimate worse than SCM-L's."""
    y_proba_val, y_val, y_proba, y, _ = data
    wrong_val, wrong = too_sure(y_proba_val, 0.2), too_sure(y_proba, 0.2)
    marked = np.where(rng.random(y.size) < 0.2, y, -1)
    truth = np.bincount(y) / y.size
    shift = SemiSupervisedEM().fit(wrong_val, y_val).estimate(wrong, y_target=marked, unlabelled=-1)
    assert shift.calibrator is not None
    trusting = SemiSupervisedEM(calibrator=None, unlabelled_weight=1.0).fit(wrong_val, y_val)
    errors = [
        np.abs(found.priors - truth).sum()
        for found in (
            shift,
            ps.SCML().fit(wrong_val, y_val).estimate(wrong),
            trusting.estimate(wrong, y_target=marked, unlabelled=-1),
        )
    ]
    assert errors[0] < errors[1]
    assert errors[0] < 0.5 * errors[2]


def test_calibrated_without_labels_is_calibrated_em(data, too_sure):
    y_proba_val, y_val, y_proba, _, _ = data
    wrong_val, wrong = too_sure(y_proba_val, 0.2), too_sure(y_proba, 0.2)
    partly = SemiSupervisedEM(calibrator="bcts").fit(wrong_val, y_val)
    em = ps.CalibratedEM().fit(wrong_val, y_val).estimate(wrong, 0.9)
    found = partly.estimate(wrong, 0.9)
    np.testing.assert_array_equal(found.priors, em.priors)
    np.testing.assert_array_equal(found.source_priors, em.source_priors)
    np.testing.assert_array_equal(found.adapt(wrong), em.adapt(wrong))
    np.testing.assert_array_equal(found.interval, em.interval)


def test_outputs_that_validation_does_not_refute_stay_as_they_are(data):
    y_proba_val, y_val, y_proba, _, source = data
    given = {"source_priors": source}
    shift = SemiSupervisedEM().fit(y_proba_val, y_val, **given).estimate(y_proba)
    assert shift.calibrator is None
    em = ps.EM().fit(y_proba_val, y_val, **given).estimate(y_proba)
    np.testing.assert_array_equal(shift.priors, em.priors)


def test_weight_of_unlabelled_rows(data, rng):
    """Weight 0 leaves labels; half of it is undone by giving rows twice; agreement leaves 1."""
    *_, y_proba, y, source = data
    marked = np.where(rng.random(y.size) < 0.1, y, -1)
    counts = np.bincount(y[marked >= 0], minlength=4)

    def estimate(weight, rows=y_proba, labels=marked):
        est = SemiSupervisedEM(unlabelled_weight=weight, tol=1e-9).fit(source_priors=source)
        return est.estimate(rows, y_target=labels, unlabelled=-1)

    np.testing.assert_allclose(estimate(0).priors, counts / counts.sum())
    assert estimate(0).status == "direct"
    # all labels and twice the unlabelled rows at half the weight
    twice = np.concatenate([y_proba, y_proba[marked < 0]])
    labels = np.concatenate([marked, np.full((marked < 0).sum(), -1)])
    np.testing.assert_allclose(estimate(0.5, twice, labels).priors, estimate(1.0).priors, atol=1e-6)
    np.testing.assert_allclose(estimate("auto").priors, estimate(1.0).priors, atol=1e-12)
    backwards = estimate("auto", y_proba[:, ::-1]).priors  # labels contradict these outputs
    assert np.abs(backwards - counts / counts.sum()).sum() < 0.1


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"calibrator": "best"}, "calibrator"),
        ({"unlabelled_weight": 2}, "unlabelled_weight"),
        ({"unlabelled_weight": "much"}, "unlabelled_weight"),
    ],
)
def test_bad_parameters_of_em_with_labels_are_named(data, params, match):
    y_proba_val, y_val, y_proba, y, _ = data
    labels = np.where(np.arange(y.size) % 5, -1, y)
    with pytest.raises(ValueError, match=match):
        SemiSupervisedEM(**params).fit(y_proba_val, y_val).estimate(
            y_proba, y_target=labels, unlabelled=-1
        )


@pytest.mark.parametrize(
    ("classes", "y_target", "unlabelled"),
    [
        (["a", "b"], ["a", None, "b", float("nan")], None),
        (["a", "b"], np.array(["a", "", "b", ""]), ""),
        ([0, 1], [0.0, np.nan, 1.0, np.nan], None),
        ([0, 1], np.array([0, -1, 1, -1]), -1),
        ([-1, 1], [-1, None, 1, None], None),
    ],
)
def test_unknown_labels_are_marked_in_many_ways(classes, y_target, unlabelled):
    y_proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.2, 0.8]])
    est = SemiSupervisedEM(tol=1e-9).fit(source_priors=[0.5, 0.5], classes=classes)
    found = est.estimate(y_proba, y_target=y_target, unlabelled=unlabelled)
    # one label of each class, and two rows: (1.5, 0.4 / 0.6) and (0.25, 4) up to scale
    grid = np.linspace(1e-6, 1 - 1e-6, 200_001)
    values = np.log(grid * (1 - grid) * (0.2 * grid + 0.4) * (0.8 - 0.6 * grid))
    assert found.priors[0] == pytest.approx(grid[np.argmax(values)], abs=1e-4)
    np.testing.assert_array_equal(
        est.adapt(y_proba, y_target=y_target, unlabelled=unlabelled), found.adapt(y_proba)
    )


def test_bad_labels_are_named():
    y_proba = np.array([[0.9, 0.1], [0.6, 0.4]])
    est = SemiSupervisedEM().fit(source_priors=[0.5, 0.5])
    with pytest.raises(ValueError, match=r"y_target has shape \(1,\) but there are 2 rows"):
        est.estimate(y_proba, y_target=[0])
    with pytest.raises(ValueError, match=r"labelled part of y_target has a label outside .* 7"):
        est.estimate(y_proba, y_target=[0, 7])
    with pytest.raises(ValueError, match="intervals by bootstrap only"):
        est.estimate(
            y_proba, y_target=[0, None], confidence_level=0.9, interval_method="asymptotic"
        )


def test_minus_one_is_unknown_where_it_is_no_class():
    y_proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    est = SemiSupervisedEM().fit(source_priors=[0.5, 0.5])
    expected = est.estimate(y_proba, y_target=[0, None, None]).priors
    np.testing.assert_array_equal(est.estimate(y_proba, y_target=[0, -1, -1]).priors, expected)


@pytest.mark.slow
def test_intervals_cover_with_labels(rng):
    """A calibrated classifier: labels make intervals narrower, and they hold the truth."""
    trials, hits, widths = 25, 0, np.zeros(2)
    for _ in range(trials):
        y = (rng.random(400) < 0.3).astype(int)
        score = rng.normal(loc=1.0 * y)
        risk = 1 / (1 + np.exp(0.5 - score))  # calibrated at equal shares
        est = SemiSupervisedEM().fit(source_priors=[0.5, 0.5])
        some = np.where(np.arange(400) < 200, y, -1)
        found = [
            est.estimate(risk, 0.95, 0, y_target=labels, n_resamples=25)
            for labels in (some, np.where(np.arange(400) < 1, y, -1))
        ]
        low, high = found[0].interval[1]
        hits += low <= 0.3 <= high
        widths += [np.ptp(one.interval[1]) for one in found]
    assert hits / trials >= 0.8  # 95 % less 3.4 standard errors of the simulation
    assert widths[0] < widths[1]
    everything = est.estimate(risk, 0.95, 0, y_target=y, n_resamples=60)
    assert everything.interval[1, 0] < y.mean() < everything.interval[1, 1]
    assert everything.interval_method == "bootstrap"
