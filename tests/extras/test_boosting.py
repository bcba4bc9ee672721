"""PriorAdaptedClassifier around XGBoost and LightGBM."""

import numpy as np
import pytest
from sklearn.metrics import log_loss
from sklearn.utils import get_tags

import priorshift as ps
from priorshift.sklearn import PriorAdaptedClassifier

SOURCE, TARGET = np.array([0.6, 0.3, 0.1]), np.array([0.1, 0.2, 0.7])


def draw(priors, n, seed):
    rng = np.random.default_rng(seed)
    y = rng.choice(3, n, p=priors)
    means = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
    return means[y] + rng.standard_normal((n, 2)), y


@pytest.fixture(params=["xgboost", "lightgbm"])
def booster(request):
    library = pytest.importorskip(request.param)
    if request.param == "xgboost":
        return library.XGBClassifier(n_estimators=20, max_depth=3, n_jobs=1, random_state=0)
    return library.LGBMClassifier(
        n_estimators=20, num_leaves=6, min_child_samples=10, n_jobs=1, random_state=0, verbose=-1
    )


@pytest.fixture
def data():
    return draw(SOURCE, 1200, seed=0), draw(TARGET, 1000, seed=1)


@pytest.mark.parametrize("calibrator", [None, ps.BCTS()])
def test_adapting_finds_the_priors_and_improves_predictions(booster, data, calibrator):
    (X, y), (X_target, y_target) = data
    clf = PriorAdaptedClassifier(booster, calibrator=calibrator, cv=3).fit(X, y)
    accuracy = clf.score(X_target, y_target)
    loss = log_loss(y_target, clf.predict_proba(X_target))
    clf.adapt(X_target)
    assert np.abs(clf.target_priors_ - TARGET).sum() < 0.2
    assert clf.score(X_target, y_target) > accuracy + 0.05
    assert log_loss(y_target, clf.predict_proba(X_target)) < loss - 0.1


def test_a_fitted_booster_is_what_the_arrays_give(booster, data):
    (X, y), (X_target, _) = data
    booster.fit(X[:600], y[:600])
    clf = PriorAdaptedClassifier.from_fitted(booster).fit(X[600:], y[600:]).adapt(X_target)
    est = ps.Auto().fit(booster.predict_proba(X[600:]), y[600:])
    shift = est.estimate(booster.predict_proba(X_target))
    np.testing.assert_array_equal(clf.target_priors_, shift.priors)
    adapted = shift.adapt(booster.predict_proba(X_target))
    np.testing.assert_array_equal(clf.predict_proba(X_target), adapted)
    assert adapted.dtype == booster.predict_proba(X_target).dtype
    assert clf.n_features_in_ == 2


def test_weights_reach_the_booster(booster, data):
    (X, y), _ = data
    weight = np.where(y == 2, 6.0, 1.0)
    clf = PriorAdaptedClassifier(booster, cv=3).fit(X, y, sample_weight=weight)
    booster.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(clf.predict_proba(X), booster.predict_proba(X), rtol=1e-5)
    assert clf.source_priors_[2] > 0.3


def test_missing_values_pass_through(booster, data):
    (X, y), (X_target, _) = data
    X, X_target = X.copy(), X_target.copy()
    X[::7, 0] = X_target[::7, 0] = np.nan
    clf = PriorAdaptedClassifier(booster, cv=3).fit(X, y).adapt(X_target)
    assert get_tags(clf).input_tags.allow_nan
    assert np.abs(clf.target_priors_ - TARGET).sum() < 0.25
