"""The paper's cases: training set known or unknown, target priors known or unknown."""

import numpy as np
import pytest

import priorshift as ps

K = 4
TARGET = np.array([0.1, 0.2, 0.3, 0.4])
CONSISTENT = ["cm", "scm-l", "cm-m", "em", "map", "bbse-s", "rlls", "elsa", "joint", "gls"]
CONSISTENT += ["em-labels", "em-bcts", "scm-l-shrunk"]


@pytest.fixture
def simulation(simulate):
    return simulate(K, spread=1.2)


def accuracy(y_proba, y):
    return float((y_proba.argmax(axis=1) == y).mean())


def test_known_training_set_and_known_target(simulation, rng):
    """Case 1 with known priors: one call, and close to the best that can be had."""
    y_proba, y = simulation.draw(TARGET, 20_000, rng)
    adapted = ps.adapt_proba(y_proba, simulation.source_priors, TARGET)
    bayes = y_proba / simulation.source_priors * TARGET
    np.testing.assert_allclose(adapted, bayes / bayes.sum(axis=1, keepdims=True))
    assert accuracy(adapted, y) > accuracy(y_proba, y) + 0.01


@pytest.mark.parametrize("name", CONSISTENT)
def test_known_training_set_and_unknown_target(simulation, rng, name):
    """Case 1: trained priors from training labels, the validation set balanced otherwise."""
    _, y_train = simulation.draw(simulation.source_priors, 50_000, rng)
    y_proba_val, y_val = simulation.draw(np.full(K, 1 / K), 8000, rng)
    y_proba, y = simulation.draw(TARGET, 8000, rng)
    source = ps.priors_from_labels(y_train)
    shift = ps.get_estimator(name).fit(y_proba_val, y_val, source_priors=source).estimate(y_proba)
    assert np.abs(shift.priors - TARGET).sum() < 0.08
    assert accuracy(shift.adapt(y_proba), y) > accuracy(y_proba, y) + 0.01
    assert shift.source_priors_from == "given" or name == "em-bcts"
    # outputs are calibrated, so calibrating moves the denominator by noise alone
    np.testing.assert_allclose(shift.source_priors, source, atol=0.02 * (name == "em-bcts"))


@pytest.mark.parametrize("name", CONSISTENT)
def test_unknown_training_set_and_unknown_target(simulation, rng, name):
    """Case 3: all that is known is a validation set drawn as the training set was."""
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 8000, rng)
    y_proba, y = simulation.draw(TARGET, 8000, rng)
    shift = ps.get_estimator(name).fit(y_proba_val, y_val).estimate(y_proba)
    assert np.abs(shift.priors - TARGET).sum() < 0.08
    assert accuracy(shift.adapt(y_proba), y) > accuracy(y_proba, y) + 0.01
    if name in ("bbse-s", "rlls"):
        assert "label frequencies" in shift.source_priors_from
        np.testing.assert_allclose(shift.source_priors, np.bincount(y_val) / len(y_val))
    else:
        assert "prediction on validation" in shift.source_priors_from
        mean, exact = y_proba_val.mean(axis=0), name != "em-bcts"
        np.testing.assert_allclose(shift.source_priors, mean, atol=1e-12 if exact else 0.02)


def test_trained_priors_by_mean_prediction_at_known_label_balance(simulation, rng):
    """Only validation predictions and the training label balance are known: p^f = C p^N."""
    y_proba_val, y_val = simulation.draw(np.full(K, 1 / K), 2000, rng)
    labels = dict(enumerate(simulation.source_priors))
    em = ps.EM().fit(y_proba_val, y_val, source_label_priors=labels)
    expected = sum(labels[k] * y_proba_val[y_val == k].mean(axis=0) for k in range(K))
    np.testing.assert_allclose(em.source_priors_, expected / expected.sum())
    np.testing.assert_allclose(em.source_label_priors_, simulation.source_priors)
    # a ratio method's ratio is to the labels themselves
    bbse = ps.BBSE().fit(y_proba_val, y_val, source_label_priors=labels)
    np.testing.assert_allclose(bbse.source_priors_, simulation.source_priors)


def test_retraining_follows_the_target(simulation, rng):
    """Case 2: the training procedure may change."""
    from sklearn.linear_model import LogisticRegression

    means, n = simulation.means, 20_000
    y_train = rng.choice(K, n, p=simulation.source_priors)
    x_train = means[y_train] + rng.standard_normal((n, means.shape[1]))
    y = rng.choice(K, n, p=TARGET)
    x = means[y] + rng.standard_normal((n, means.shape[1]))
    plain = LogisticRegression(C=100).fit(x_train, y_train)
    weights = ps.sample_weights(y_train, TARGET)
    weighted = LogisticRegression(C=100).fit(x_train, y_train, sample_weight=weights)
    drawn = ps.sample_indices(y_train, TARGET, random_state=0)
    resampled = LogisticRegression(C=100).fit(x_train[drawn], y_train[drawn])
    adapted = ps.adapt_proba(plain.predict_proba(x), simulation.source_priors, TARGET)
    assert weighted.score(x, y) > plain.score(x, y) + 0.01
    assert resampled.score(x, y) > plain.score(x, y) + 0.01
    assert accuracy(adapted, y) == pytest.approx(weighted.score(x, y), abs=0.01)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*negative entr")
@pytest.mark.parametrize("name", CONSISTENT)
def test_error_falls_like_one_over_root_n(simulate, name):
    """With 16 times the data, validation and target alike, the error is about a quarter."""
    simulation = simulate(5, spread=1.2, seed=3)
    errors = {300: [], 4800: []}
    for seed in range(9):
        rng = np.random.default_rng(seed)
        target = np.array([0.1, 0.15, 0.2, 0.25, 0.3])
        for n, found in errors.items():
            y_proba_val, y_val = simulation.draw(simulation.source_priors, n, rng)
            y_proba, _ = simulation.draw(target, n, rng)
            shift = (
                ps.get_estimator(name)
                .fit(y_proba_val, y_val, source_priors=simulation.source_priors)
                .estimate(y_proba)
            )
            found.append(np.abs(shift.priors - target).sum())
    rate = np.mean(errors[300]) / np.mean(errors[4800])
    assert 2.6 < rate < 6.2


@pytest.mark.filterwarnings("ignore:.*negative entr")
@pytest.mark.parametrize("name", CONSISTENT)
def test_class_absent_from_validation(simulate, rng, name):
    """It is named; its prior comes from EM; the other classes stay right."""
    simulation = simulate(K, spread=2.5)
    y_proba_val, y_val = simulation.draw(np.full(K, 1 / K), 6000, rng)
    keep = y_val != 2
    y_proba, _ = simulation.draw(TARGET, 6000, rng)
    names = np.array(["ant", "bee", "cat", "dog"])
    estimator = ps.get_estimator(name).fit(
        y_proba_val[keep], names[y_val[keep]], source_priors=simulation.source_priors, classes=names
    )
    if name in ("em", "map", "em-labels"):
        shift = estimator.estimate(y_proba)  # needs no labels, so misses none
        assert shift.unseen_classes == ()
    else:
        with pytest.warns(ps.PriorShiftWarning, match="no sample of class 'cat'"):
            shift = estimator.estimate(y_proba)
        assert shift.unseen_classes == ("cat",)
    np.testing.assert_allclose(shift.priors, TARGET, atol=0.025)
    assert shift.priors.sum() == pytest.approx(1)


def test_class_absent_everywhere_gets_nothing(simulate, rng):
    """Unknown training set, and a class that the classifier never predicts."""
    simulation = simulate(3, spread=2.0)
    y_proba_val, y_val = simulation.draw(np.full(3, 1 / 3), 1000, rng)
    with_empty = np.column_stack([y_proba_val, np.zeros(1000)])
    for name in ps.available_estimators():
        estimator = ps.get_estimator(name).fit(with_empty, y_val)
        if name in ("na", "em", "map", "mapls", "em-labels", "auto", "mean"):
            shift = estimator.estimate(with_empty)
        else:
            with pytest.warns(ps.PriorShiftWarning, match="no sample of class 3"):
                shift = estimator.estimate(with_empty)
        assert shift.priors[3] <= (0.002 if name in ("map", "auto", "mean") else 1e-9)
        assert np.isfinite(shift.priors).all()
        assert shift.adapt(with_empty)[:, 3].max() <= (1e-6 if name in ("auto", "mean") else 0)


@pytest.mark.filterwarnings("ignore:.*negative entr")
@pytest.mark.parametrize("target", [[0.5, 0.3, 0.2, 0.0], [0.4, 0.3, 0.2, 0.1]])
@pytest.mark.parametrize("name", ["cm", "scm-l", "cm-m", "bbse-s", "rlls", "joint"])
def test_unseen_class_without_source_priors_is_not_blown_up(simulate, rng, name, target):
    """Nothing identifies it then: it gets what is predicted, and the warning asks for more."""
    simulation = simulate(K, spread=1.2)
    y_proba_val, y_val = simulation.draw(np.full(K, 1 / K), 8000, rng)
    keep = y_val != 3
    y_proba, _ = simulation.draw(np.array(target), 8000, rng)
    estimator = ps.get_estimator(name).fit(y_proba_val[keep], y_val[keep], classes=range(K))
    with pytest.warns(ps.PriorShiftWarning, match="Give source_priors"):
        shift = estimator.estimate(y_proba)
    assert shift.priors[3] == pytest.approx(y_proba[:, 3].mean(), abs=1e-9)
    assert np.abs(shift.priors - target).sum() < 0.25


@pytest.mark.parametrize("name", ["cm", "scm-m", "bbse", "rlls", "elsa", "gls", "joint"])
def test_target_of_unseen_classes_only(simulate, rng, name):
    simulation = simulate(K, spread=2.0)
    y_proba_val, y_val = simulation.draw(np.full(K, 1 / K), 500, rng)
    keep = y_val != 3
    estimator = ps.get_estimator(name).fit(
        y_proba_val[keep], y_val[keep], classes=range(K), source_priors=np.full(K, 1 / K)
    )
    with pytest.warns(ps.PriorShiftWarning, match="no sample of class 3"):
        shift = estimator.estimate(np.eye(K)[[3, 3, 3]])
    np.testing.assert_allclose(shift.priors, [0, 0, 0, 1], atol=1e-6)


def test_source_label_priors_are_never_dropped(simulation, rng):
    y_proba_val, y_val = simulation.draw(np.full(K, 1 / K), 2000, rng)
    labels = np.array([0.1, 0.1, 0.1, 0.7])
    with pytest.raises(ValueError, match="need validation labels y"):
        ps.EM().fit(y_proba_val, source_label_priors=labels)
    # a class that validation lacks counts as always recognised
    keep = y_val != 3
    em = ps.EM().fit(y_proba_val[keep], y_val[keep], classes=range(K), source_label_priors=labels)
    assert em.source_priors_[3] > 0.7
    # a ratio is to the labels, whatever the mean prediction: no shift is a ratio of 1
    rlls = ps.RLLS(regularization=1e3).fit(
        y_proba_val, y_val, source_priors=np.full(K, 1 / K), source_label_priors=labels
    )
    np.testing.assert_allclose(rlls.estimate(y_proba_val).priors, labels, atol=1e-9)


def test_warnings_point_at_the_users_line(simulate, rng):
    simulation = simulate(30, spread=0.3)
    y_proba, _ = simulation.draw(rng.dirichlet(np.ones(30)), 2000, rng)
    em = ps.EM(max_iter=1).fit(source_priors=simulation.source_priors)
    with pytest.warns(ps.ConvergenceWarning) as caught:
        em.estimate(y_proba)
    assert caught[0].filename == __file__
