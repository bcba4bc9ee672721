"""PriorAdaptedClassifier: against doing it by hand, against the truth, and inside scikit-learn."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from joblib import parallel_config
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import get_tags
from threadpoolctl import threadpool_limits

import priorshift as ps
from priorshift.sklearn import PriorAdaptedClassifier
from tests.methods import ROADS

NAMES = np.array(["ant", "bee", "cat"])
SOURCE, TARGET = np.array([0.6, 0.3, 0.1]), np.array([0.1, 0.2, 0.7])
MEANS = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
COUNTED = ["cm", "scm", "cm-l", "scm-l", "cm-m", "scm-m", "bbse", "bbse-s", "rlls"]
COUNTED += ["joint", "scm-l-shrunk"]
every_method = pytest.mark.parametrize("method", ROADS)


def draw(priors, n, seed):
    """Draw rows of three overlapping Gaussians, labelled by name."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, n, p=priors)
    return MEANS[y] + rng.standard_normal((n, 2)), NAMES[y]


X, Y = draw(SOURCE, 900, seed=0)
X_VAL, Y_VAL = draw(SOURCE, 800, seed=1)
X_TARGET, Y_TARGET = draw(TARGET, 1000, seed=2)
MODEL = GaussianNB().fit(X, Y)


@pytest.fixture(autouse=True)
def one_thread():
    """Small models gain nothing from threads, and wait long for busy cores."""
    with threadpool_limits(1):
        yield


def wrap(model, **options):
    """Adapt by SCM-L, which is quick, where it does not matter by which method."""
    return PriorAdaptedClassifier(model, **{"prior_estimator": ps.SCML(), **options})


def l1(priors, truth=TARGET):
    return np.abs(priors - truth).sum()


# Against doing it by hand


@every_method
def test_frozen_is_what_the_arrays_give(method):
    est = ps.get_estimator(method).fit(MODEL.predict_proba(X_VAL), Y_VAL, classes=MODEL.classes_)
    clf = PriorAdaptedClassifier.from_fitted(MODEL, prior_estimator=ps.get_estimator(method))
    assert clf.fit(X_VAL, Y_VAL).adapt(X_TARGET) is clf
    by_hand = est.estimate(MODEL.predict_proba(X_TARGET))
    np.testing.assert_array_equal(clf.shift_.priors, by_hand.priors)
    np.testing.assert_array_equal(clf.target_priors_, by_hand.priors)
    np.testing.assert_array_equal(clf.source_priors_, est.source_priors_)
    adapted = by_hand.adapt(MODEL.predict_proba(X_TARGET))
    np.testing.assert_array_equal(clf.predict_proba(X_TARGET), adapted)
    np.testing.assert_array_equal(clf.predict(X_TARGET), NAMES[adapted.argmax(axis=1)])
    np.testing.assert_allclose(np.exp(clf.predict_log_proba(X_TARGET)), adapted)


def test_unfitted_is_cross_val_predict_and_a_fit_on_all():
    cv = StratifiedKFold(4, shuffle=True, random_state=3)
    clf = PriorAdaptedClassifier(LogisticRegression(), prior_estimator=ps.SCML(), cv=cv, n_jobs=2)
    with parallel_config("threading"):
        clf.fit(X, Y)
    out_of_fold = cross_val_predict(LogisticRegression(), X, Y, cv=cv, method="predict_proba")
    est = ps.SCML().fit(out_of_fold, Y)
    np.testing.assert_allclose(
        clf.prior_estimator_.confusion_.conditional, est.confusion_.conditional, rtol=1e-9
    )
    np.testing.assert_allclose(clf.source_priors_, out_of_fold.mean(axis=0), rtol=1e-9)
    on_all = LogisticRegression().fit(X, Y)
    np.testing.assert_allclose(clf.predict_proba(X_TARGET), on_all.predict_proba(X_TARGET))
    by_hand = est.estimate(on_all.predict_proba(X_TARGET))
    np.testing.assert_allclose(clf.adapt(X_TARGET).target_priors_, by_hand.priors, atol=1e-5)


@pytest.mark.parametrize("name", ["TemperatureScaling", "BCTS", "VectorScaling"])
def test_calibrators_get_probabilities_and_are_cross_fitted(name):
    calibrator = getattr(ps, name)()
    clf = PriorAdaptedClassifier.from_fitted(
        MODEL, prior_estimator=ps.SCML(), calibrator=calibrator, cv=4
    ).fit(X_VAL, Y_VAL)
    y_proba = MODEL.predict_proba(X_VAL)
    crossed = np.empty_like(y_proba)
    for train, test in StratifiedKFold(4).split(X_VAL, Y_VAL):
        part = clone(calibrator).fit(y_proba[train], Y_VAL[train])
        crossed[test] = part.predict_proba(y_proba[test])
    est = ps.SCML().fit(crossed, Y_VAL)
    on_all = clone(calibrator).fit(y_proba, Y_VAL)
    before = on_all.predict_proba(MODEL.predict_proba(X_TARGET))
    assert not hasattr(calibrator, "classes_")  # it was cloned
    np.testing.assert_allclose(clf.predict_proba(X_TARGET), before, rtol=1e-5)
    np.testing.assert_allclose(clf.source_priors_, est.source_priors_, rtol=1e-5)
    by_hand = est.estimate(before)
    np.testing.assert_allclose(clf.adapt(X_TARGET).target_priors_, by_hand.priors, atol=1e-5)
    np.testing.assert_allclose(clf.predict_proba(X_TARGET), by_hand.adapt(before), atol=1e-5)


@pytest.mark.parametrize("priors", [TARGET, dict(zip(NAMES[::-1], TARGET[::-1], strict=True))])
def test_known_priors_are_adapt_proba(priors):
    clf = wrap(FrozenEstimator(MODEL)).fit(X_VAL, Y_VAL)
    assert clf.adapt(X_TARGET[:50]).set_target_priors(priors) is clf
    by_hand = ps.adapt_proba(MODEL.predict_proba(X_TARGET), clf.source_priors_, TARGET)
    np.testing.assert_allclose(clf.predict_proba(X_TARGET), by_hand, rtol=1e-12)
    np.testing.assert_allclose(clf.target_priors_, TARGET)
    assert clf.shift_ is None


@pytest.mark.parametrize("given", [[0.2, 0.3, 0.5], {"cat": 0.5, "ant": 0.2, "bee": 0.3}])
def test_given_source_priors_are_the_denominator(given):
    clf = wrap(FrozenEstimator(MODEL), source_priors=given).fit(X_VAL, Y_VAL)
    np.testing.assert_allclose(clf.source_priors_, [0.2, 0.3, 0.5])
    by_hand = ps.adapt_proba(MODEL.predict_proba(X_TARGET), [0.2, 0.3, 0.5], TARGET)
    np.testing.assert_allclose(clf.set_target_priors(TARGET).predict_proba(X_TARGET), by_hand)


def test_a_calibrator_does_not_move_predictions_to_the_balance_of_validation():
    X_balanced, y_balanced = draw(np.full(3, 1 / 3), 3000, seed=4)
    clf = PriorAdaptedClassifier.from_fitted(MODEL, calibrator=ps.BCTS(), source_priors=SOURCE)
    clf.fit(X_balanced, y_balanced)
    assert np.abs(clf.calibrator_.bias_).max() < 0.3  # log(0.6 / 0.1) = 1.8 were it not corrected
    assert PriorAdaptedClassifier.from_fitted(MODEL, calibrator=ps.BCTS()).fit(
        X_balanced, y_balanced
    ).calibrator_.bias_[2] == pytest.approx(np.log(0.6**0.5 * 0.3**0.5 / 0.1) * 2 / 3, abs=0.3)
    assert l1(clf.adapt(X_TARGET).target_priors_) < 0.1


def test_the_default_decides_for_itself():
    clf = PriorAdaptedClassifier.from_fitted(MODEL).fit(X_VAL, Y_VAL)
    assert isinstance(clf.prior_estimator_, ps.Auto)
    assert clf.adapt(X_TARGET).shift_.decision["adapt"]
    before = MODEL.predict_proba(X_TARGET)
    np.testing.assert_array_equal(clf.predict_proba(X_TARGET), clf.shift_.adapt(before))


# Against the truth


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        RandomForestClassifier(30, min_samples_leaf=5, random_state=0),
        HistGradientBoostingClassifier(max_iter=15, min_samples_leaf=10),
        make_pipeline(
            StandardScaler(),
            MLPClassifier(16, solver="lbfgs", alpha=1.0, max_iter=2000, random_state=0),
        ),
    ],
    ids=["logistic", "forest", "boosting", "mlp"],
)
def test_adapting_finds_the_priors_and_improves_predictions(model):
    clf = PriorAdaptedClassifier(model, cv=3).fit(X, Y)
    accuracy = clf.score(X_TARGET, Y_TARGET)
    loss = log_loss(Y_TARGET, clf.predict_proba(X_TARGET))
    clf.adapt(X_TARGET)
    assert l1(clf.target_priors_) < 0.2 < l1(clf.source_priors_)
    assert clf.score(X_TARGET, Y_TARGET) > accuracy + 0.05
    assert log_loss(Y_TARGET, clf.predict_proba(X_TARGET)) < loss - 0.1


@pytest.mark.parametrize("k", [1, 5])
def test_a_model_that_memorises_does_not_deceive(k):
    model = KNeighborsClassifier(k, weights="distance")
    assert model.fit(X, Y).score(X, Y) == 1  # in-sample predictions would make C the identity
    clf = PriorAdaptedClassifier(model, prior_estimator=ps.CML()).fit(X, Y)
    recall = np.diag(clf.prior_estimator_.confusion_.conditional)
    fresh = PriorAdaptedClassifier.from_fitted(model, prior_estimator=ps.CML()).fit(X_VAL, Y_VAL)
    assert recall.max() < 0.9
    np.testing.assert_allclose(
        recall, np.diag(fresh.prior_estimator_.confusion_.conditional), atol=0.12
    )
    deceived = PriorAdaptedClassifier.from_fitted(model, prior_estimator=ps.CML()).fit(X, Y)
    error = l1(clf.adapt(X_TARGET).target_priors_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.PriorShiftWarning)  # it may tell
        deceived.adapt(X_TARGET)
    assert error < l1(deceived.target_priors_) / 2


def test_calibration_is_not_flattered_by_its_own_fit():
    class Memory(BaseEstimator):
        """A calibrator that knows by heart what it was fitted to, and nothing else."""

        def fit(self, y_proba, y):
            self.classes_ = np.unique(y)
            self.known = dict(zip(y_proba[:, 0].tolist(), y.tolist(), strict=True))
            return self

        def predict_proba(self, y_proba):
            known = [self.known.get(value) for value in y_proba[:, 0].tolist()]
            hit = np.array(known, dtype=object)[:, None] == self.classes_
            return np.where(hit.any(axis=1, keepdims=True), hit, 1 / 3)

    clf = wrap(FrozenEstimator(MODEL), calibrator=Memory())
    with pytest.warns(ps.PriorShiftWarning, match="contradict its labels"):
        clf.fit(X_VAL, Y_VAL)
    assert clf.score(X_VAL, Y_VAL) == 1
    np.testing.assert_allclose(clf.prior_estimator_.confusion_.conditional, 1 / 3)


# Adapting, forgetting, and batches


def test_before_adapting_nothing_changes():
    clf = wrap(FrozenEstimator(MODEL)).fit(X_VAL, Y_VAL)
    np.testing.assert_array_equal(clf.predict_proba(X_TARGET), MODEL.predict_proba(X_TARGET))
    np.testing.assert_array_equal(clf.target_priors_, clf.source_priors_)
    assert clf.target_priors_ is not clf.source_priors_
    assert clf.shift_ is None


def test_estimating_stores_nothing():
    clf = wrap(FrozenEstimator(MODEL)).fit(X_VAL, Y_VAL)
    shift = clf.estimate(X_TARGET)
    assert clf.shift_ is None
    np.testing.assert_array_equal(clf.target_priors_, clf.source_priors_)
    np.testing.assert_array_equal(clf.adapt(X_TARGET).shift_.priors, shift.priors)
    assert shift.n_target == 1000
    assert shift.interval is None
    interval = clf.estimate(X_TARGET, confidence_level=0.9).interval
    assert (interval[:, 0] < TARGET).all()
    assert (interval[:, 1] > TARGET).all()


def test_fitting_again_forgets():
    clf = PriorAdaptedClassifier(LogisticRegression(), prior_estimator=ps.EM())
    clf.fit(X, Y).adapt(X_TARGET[:500]).fit(X, Y)
    assert clf.shift_ is None
    np.testing.assert_array_equal(clf.target_priors_, clf.source_priors_)
    once = clone(clf).fit(X, Y).adapt(X_TARGET[500:])
    again = clf.partial_adapt(X_TARGET[500:])
    np.testing.assert_array_equal(again.target_priors_, once.target_priors_)


def test_a_failed_fit_changes_nothing():
    clf = wrap(LogisticRegression()).fit(X, Y).adapt(X_TARGET)
    before = clf.predict_proba(X_TARGET)
    with pytest.raises(ValueError, match="NaN"):
        clf.fit(np.full_like(X, np.nan), Y)
    np.testing.assert_array_equal(clf.predict_proba(X_TARGET), before)


@every_method
def test_batches_are_one_target(method):
    first = "adapt" if method in COUNTED else "partial_adapt"
    clf = PriorAdaptedClassifier.from_fitted(MODEL, prior_estimator=ps.get_estimator(method))
    whole = clf.fit(X_VAL, Y_VAL).adapt(X_TARGET).shift_
    parts = clone(clf).fit(X_VAL, Y_VAL)
    getattr(parts, first)(X_TARGET[:300])
    parts.partial_adapt(X_TARGET[300:301]).partial_adapt(X_TARGET[301:])
    tight = 1e-9 if method in COUNTED else 1e-5  # rows are kept in float32
    np.testing.assert_allclose(parts.shift_.priors, whole.priors, atol=tight)
    assert (parts.shift_.n_target, parts.shift_.method) == (1000, method)
    assert parts.shift_.status == whole.status
    np.testing.assert_allclose(parts.target_priors_, whole.priors, atol=tight)


@every_method
def test_only_methods_that_need_rows_keep_them(method):
    clf = PriorAdaptedClassifier.from_fitted(MODEL, prior_estimator=ps.get_estimator(method))
    clf.fit(X_VAL, Y_VAL)
    small = len(pickle.dumps(clf))
    clf.adapt(X_TARGET).partial_adapt(X_TARGET)
    kept = len(pickle.dumps(clf)) - small
    assert (kept < 4000) == (method in COUNTED)
    assert len(pickle.dumps(clf.set_target_priors(TARGET))) < small + 1000


def test_a_new_adaptation_begins_anew():
    clf = wrap(FrozenEstimator(MODEL)).fit(X_VAL, Y_VAL)
    fresh = clf.estimate(X_TARGET).priors
    np.testing.assert_array_equal(clf.adapt(X_VAL).adapt(X_TARGET).target_priors_, fresh)
    clf.set_target_priors(SOURCE).partial_adapt(X_TARGET)
    np.testing.assert_array_equal(clf.target_priors_, fresh)


def test_batches_with_a_class_that_validation_lacks():
    there = Y_VAL != "cat"
    clf = PriorAdaptedClassifier.from_fitted(MODEL, prior_estimator=ps.SCML(), source_priors=SOURCE)
    clf.fit(X_VAL[there], Y_VAL[there])
    assert clf.classes_.tolist() == NAMES.tolist()
    with pytest.warns(ps.PriorShiftWarning, match="no sample of class 'cat'"):
        whole = clf.adapt(X_TARGET).shift_
    assert whole.unseen_classes == ("cat",)
    assert l1(whole.priors) < 0.2
    with pytest.warns(ps.PriorShiftWarning, match="no sample of class 'cat'"):
        parts = clone(clf).fit(X_VAL[there], Y_VAL[there]).adapt(X_TARGET[:400])
    with pytest.warns(ps.PriorShiftWarning, match="no sample of class 'cat'"):
        parts.partial_adapt(X_TARGET[400:])
    np.testing.assert_allclose(parts.target_priors_, whole.priors, atol=1e-5)


# Inside scikit-learn


def test_pipelines_outside_and_inside():
    inside = wrap(make_pipeline(StandardScaler(), LogisticRegression()))
    inside.fit(X, Y).adapt(X_TARGET)
    outside = make_pipeline(StandardScaler(), wrap(LogisticRegression()))
    outside.set_output(transform="pandas").fit(pd.DataFrame(X, columns=["a", "b"]), Y)
    rows = pd.DataFrame(X_TARGET, columns=["a", "b"])
    outside[-1].adapt(outside[:-1].transform(rows))
    assert outside[-1].feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_allclose(outside[-1].target_priors_, inside.target_priors_, atol=0.02)
    accuracy = inside.score(X_TARGET, Y_TARGET)
    assert outside.score(rows, Y_TARGET) == pytest.approx(accuracy, abs=0.02)


def test_grid_search_reaches_every_part():
    clf = PriorAdaptedClassifier(
        LogisticRegression(), prior_estimator=ps.MAP(), calibrator=ps.BCTS(ridge=1.0), cv=2
    )
    grid = {
        "estimator__C": [1e-6, 1.0],
        "prior_estimator__alpha": [1.5],
        "calibrator__ridge": [0.5],
    }
    search = GridSearchCV(clf, grid, cv=2, scoring="neg_log_loss").fit(X, Y)
    best = search.best_estimator_
    assert search.best_params_["estimator__C"] == 1.0
    assert (best.prior_estimator_.alpha, best.calibrator_.ridge) == (1.5, 0.5)
    assert l1(best.adapt(X_TARGET).target_priors_) < 0.2


@pytest.mark.parametrize("library", [pd, pl])
def test_frames(library):
    plain = wrap(LogisticRegression(), calibrator=ps.TemperatureScaling())
    weight = np.linspace(0.5, 1.5, Y.size)
    plain.fit(X, Y, sample_weight=weight).adapt(X_TARGET)
    frame = library.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    target = library.DataFrame({"a": X_TARGET[:, 0], "b": X_TARGET[:, 1]})
    clf = clone(plain).fit(frame, library.Series(Y.tolist()), library.Series(weight))
    assert clf.feature_names_in_.tolist() == ["a", "b"]
    assert clf.n_features_in_ == 2
    np.testing.assert_allclose(clf.adapt(target).target_priors_, plain.target_priors_, rtol=1e-6)
    assert clf.predict(target).tolist() == plain.predict(X_TARGET).tolist()
    priors = pd.Series(TARGET, NAMES).sort_values()
    np.testing.assert_allclose(clf.set_target_priors(priors).target_priors_, TARGET)


@pytest.mark.parametrize(
    "encode",
    [
        lambda y: np.searchsorted(NAMES, y),
        lambda y: np.searchsorted(NAMES, y) - 1.0,
        lambda y: y.astype(object),
        lambda y: pd.Series(y, dtype="category"),
        lambda y: y.tolist(),
    ],
    ids=["int", "float", "object", "category", "list"],
)
def test_labels_of_every_kind(encode):
    clf = wrap(GaussianNB(), calibrator=ps.TemperatureScaling(), cv=3)
    expected = clone(clf).fit(X, Y).adapt(X_TARGET)
    clf.fit(X, encode(Y)).adapt(X_TARGET)
    np.testing.assert_allclose(clf.target_priors_, expected.target_priors_)
    assert clf.predict(X_TARGET).tolist() == list(encode(expected.predict(X_TARGET)))
    assert clf.score(X_TARGET, encode(Y_TARGET)) == expected.score(X_TARGET, Y_TARGET)
    with pytest.raises(ValueError, match="target_priors must be finite and at least 0"):
        clf.set_target_priors([1.5, -0.5, 0])


def test_predictions_come_back_as_labels_came():
    assert wrap(GaussianNB()).fit(X, Y.astype(object)).predict(X).dtype == object
    assert wrap(GaussianNB()).fit(X, Y).predict(X).dtype == Y.dtype
    numbers = np.searchsorted(NAMES, Y)
    assert wrap(GaussianNB()).fit(X, numbers.astype(object)).predict(X).dtype == numbers.dtype


def test_sparse_rows():
    clf = wrap(LogisticRegression()).fit(csr_array(X), Y)
    dense = wrap(LogisticRegression()).fit(X, Y).adapt(X_TARGET)
    np.testing.assert_allclose(
        clf.adapt(csr_array(X_TARGET)).target_priors_, dense.target_priors_, atol=1e-3
    )


def test_precomputed_distances_are_cut_both_ways():
    plain = wrap(KNeighborsClassifier(9)).fit(X, Y).adapt(X_TARGET)
    clf = wrap(KNeighborsClassifier(9, metric="precomputed"))
    assert get_tags(clf).input_tags.pairwise
    clf.fit(cdist(X, X), Y).adapt(cdist(X_TARGET, X))
    np.testing.assert_allclose(clf.source_priors_, plain.source_priors_)
    np.testing.assert_allclose(clf.target_priors_, plain.target_priors_)


def test_class_weights_by_name():
    weight = dict(zip(NAMES, [1.0, 2.0, 6.0], strict=True))
    model = LogisticRegression(class_weight=weight)
    clf = wrap(model, source_priors=np.full(3, 1 / 3)).fit(X, Y)
    plain = wrap(LogisticRegression()).fit(X, Y).adapt(X_TARGET)
    assert l1(clf.adapt(X_TARGET).target_priors_) < 0.15
    difference = clf.predict_proba(X_TARGET) - plain.predict_proba(X_TARGET)
    assert np.abs(difference).mean() < 0.03


def test_clone_pickle_and_repr():
    clf = PriorAdaptedClassifier(
        LogisticRegression(C=0.5), prior_estimator=ps.EM(tol=0.1), calibrator=ps.BCTS()
    )
    assert repr(clf).replace("\n", "").replace(" ", "") == (
        "PriorAdaptedClassifier(calibrator=BCTS(),estimator=LogisticRegression(C=0.5),"
        "prior_estimator=EM(tol=0.1))"
    )
    clf.fit(X, Y).adapt(X_TARGET)
    for part in ("PriorAdaptedClassifier", "LogisticRegression", "EM", "BCTS"):
        assert part in clf._repr_html_()
    back = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(back.predict_proba(X_TARGET), clf.predict_proba(X_TARGET))
    back.partial_adapt(X_VAL)
    clf.partial_adapt(X_VAL)
    np.testing.assert_array_equal(back.target_priors_, clf.target_priors_)
    copy = clone(clf)
    assert copy.estimator.C == 0.5
    with pytest.raises(NotFittedError):
        copy.predict(X)


def test_from_fitted_keeps_the_model_and_freezes_once():
    clf = PriorAdaptedClassifier.from_fitted(MODEL, cv=3)
    assert clf.estimator.estimator is MODEL
    assert clf.cv == 3
    frozen = FrozenEstimator(MODEL)
    assert PriorAdaptedClassifier.from_fitted(frozen).estimator is frozen
    before = pickle.dumps(MODEL)
    assert clone(clf).fit(X_VAL, Y_VAL).estimator_.estimator is MODEL
    assert pickle.dumps(MODEL) == before


class PlainModel:
    """A model that owes nothing to scikit-learn."""

    classes_ = ("ant", "bee", "cat")

    def fit(self, X, y):
        raise AssertionError("a frozen model is not fitted")

    def __sklearn_is_fitted__(self):
        return True

    def predict_proba(self, X):
        return MODEL.predict_proba(X)


def test_any_model_with_classes_will_do():
    plain = wrap(FrozenEstimator(PlainModel())).fit(X_VAL, Y_VAL).adapt(X_TARGET)
    clf = wrap(FrozenEstimator(MODEL)).fit(X_VAL, Y_VAL).adapt(X_TARGET)
    np.testing.assert_array_equal(plain.predict(X_TARGET), clf.predict(X_TARGET))
    assert not hasattr(plain, "n_features_in_")


def test_tags_are_those_of_the_inner_estimator():
    inner = [GaussianNB(), HistGradientBoostingClassifier(), SVC(), SVC(kernel="precomputed")]
    tags = [get_tags(PriorAdaptedClassifier(model)) for model in inner]
    assert [tag.input_tags for tag in tags] == [get_tags(model).input_tags for model in inner]
    assert [tag.input_tags.allow_nan for tag in tags] == [False, True, False, False]
    assert [tag.input_tags.pairwise for tag in tags] == [False, False, False, True]
    assert {tag.estimator_type for tag in tags} == {"classifier"}


# Classes that were weighted in training


def weighted_model(n=3000, seed=3):
    """Return a model that was trained with class weights, and rows in which positives are rare."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.02).astype(int)
    rows = rng.standard_normal((n, 2)) + 1.5 * y[:, None]
    return LogisticRegression(class_weight="balanced"), rows, y


@pytest.mark.parametrize("frozen", [True, False])
def test_class_weights_are_noticed(frozen):
    model, rows, y = weighted_model()
    if frozen:
        model = FrozenEstimator(model.fit(*weighted_model(seed=4)[1:]))
    with pytest.warns(ps.PriorShiftWarning, match="contradict its labels") as caught:
        wrap(model).fit(rows, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "Give source_priors=" in str(caught[0].message)
    assert "class weights" in str(caught[0].message)
    wrap(model, source_priors=[0.5, 0.5]).fit(rows, y)  # as the warning asks


def test_auto_corrects_class_weights_and_says_so():
    model, rows, y = weighted_model()
    clf = PriorAdaptedClassifier(model).fit(rows, y)
    _, target, y_target = weighted_model(seed=5)
    before = clf.score(target, y_target)
    clf.adapt(target)
    assert clf.score(target, y_target) > before + 0.05
    assert "class weights" in clf.shift_.decision["mismatch"]
    assert clf.target_priors_[1] == pytest.approx(y_target.mean(), abs=0.01)


# Weights


def test_weights_are_repeated_rows():
    times = np.random.default_rng(5).integers(0, 3, Y_VAL.size)
    clf = PriorAdaptedClassifier.from_fitted(MODEL)
    weighted = clone(clf).fit(X_VAL, Y_VAL, sample_weight=times).adapt(X_TARGET)
    repeated = clone(clf).fit(X_VAL.repeat(times, 0), Y_VAL.repeat(times)).adapt(X_TARGET)
    np.testing.assert_allclose(weighted.source_priors_, repeated.source_priors_)
    np.testing.assert_allclose(weighted.target_priors_, repeated.target_priors_, atol=0.01)
    assert l1(weighted.source_priors_, clf.fit(X_VAL, Y_VAL).source_priors_) > 1e-3


def test_weights_reach_every_part():
    weight = np.where(Y == "cat", 5.0, 1.0)
    clf = wrap(LogisticRegression(), calibrator=ps.BCTS())
    clf.fit(X, Y, sample_weight=weight)
    model = LogisticRegression().fit(X, Y, sample_weight=weight)
    np.testing.assert_allclose(clf.estimator_.coef_, model.coef_, rtol=1e-6)
    shares = ps.priors_from_labels(Y, sample_weight=weight)
    np.testing.assert_allclose(clf.source_priors_, shares, atol=0.01)  # BCTS keeps the marginals


def test_weights_that_the_model_cannot_take():
    weight = np.where(Y == "cat", 5.0, 1.0)
    clf = wrap(LinearDiscriminantAnalysis())
    with pytest.warns(ps.PriorShiftWarning, match="LinearDiscriminantAnalysis.fit takes no sample"):
        clf.fit(X, Y, sample_weight=weight)
    plain = LinearDiscriminantAnalysis().fit(X, Y)
    np.testing.assert_allclose(clf.predict_proba(X_VAL), plain.predict_proba(X_VAL))


def test_fit_parameters_go_to_the_model_cut_by_fold():
    weight = np.where(Y == "cat", 5.0, 1.0)
    pipe = make_pipeline(StandardScaler(), GaussianNB())
    weighted = {"source_priors": ps.priors_from_labels(Y, sample_weight=weight)}
    by_step = wrap(pipe, **weighted).fit(X, Y, gaussiannb__sample_weight=weight.tolist())
    direct = wrap(GaussianNB()).fit(X, Y, sample_weight=weight)
    np.testing.assert_allclose(by_step.predict_proba(X_VAL), direct.predict_proba(X_VAL), rtol=1e-6)
    with pytest.warns(ps.PriorShiftWarning, match=r"<step>__sample_weight"):
        wrap(pipe, **weighted).fit(X, Y, sample_weight=weight)
    both = wrap(pipe).fit(X, Y, sample_weight=weight, gaussiannb__sample_weight=weight)
    np.testing.assert_allclose(both.source_priors_, direct.source_priors_, rtol=1e-6)


def test_groups_stay_together():
    """Every row has a twin: only folds that know of them predict it honestly."""
    groups = np.r_[np.arange(300), np.arange(300)]
    twins, y = X[groups], Y[groups]
    model = KNeighborsClassifier(1)
    apart = wrap(model, cv=list(GroupKFold(5).split(twins, y, groups))).fit(twins, y)
    assert np.diag(apart.prior_estimator_.confusion_.conditional).max() < 0.95
    together = wrap(model, cv=KFold(5, shuffle=True, random_state=0))
    assert np.diag(together.fit(twins, y).prior_estimator_.confusion_.conditional).min() > 0.75


# What cannot be


@pytest.mark.parametrize("model", [LinearSVC(), SVC(), FrozenEstimator(LinearSVC().fit(X, Y))])
def test_models_without_probabilities(model):
    clf = PriorAdaptedClassifier(model)
    assert not hasattr(clf, "predict_proba")
    assert not hasattr(clf, "predict")
    with pytest.raises(ValueError, match=r"no predict_proba \(.*SV.*CalibratedClassifierCV"):
        clf.fit(X, Y)


def test_why_a_model_has_no_probabilities():
    vote = VotingClassifier([("a", GaussianNB())], voting="hard")
    with pytest.raises(ValueError, match=r"\(VotingClassifier\)") as caught:
        PriorAdaptedClassifier(vote).fit(X, Y)
    assert "voting='hard'" in str(caught.value.__cause__.__cause__)


def test_models_that_cannot_be_copied():
    with pytest.raises(
        ValueError, match=r"estimator \(PlainModel\) has no get_params.*from_fitted"
    ):
        PriorAdaptedClassifier(PlainModel()).fit(X, Y)


def test_rare_classes():
    rare = np.flatnonzero(Y == "cat")
    rest = np.flatnonzero(Y != "cat")
    clf = wrap(GaussianNB(var_smoothing=1e-2))
    few = np.r_[rest, rare[:3]]
    with pytest.warns(ps.PriorShiftWarning, match=r"class 'cat' has fewer .* folds \(5\)"):
        clf.fit(X[few], Y[few])
    assert clf.prior_estimator_.confusion_.class_weights[2] == 3
    one = np.r_[rest, rare[:1]]
    with pytest.raises(ValueError, match=r"trains without class 'cat'.* 2 samples at least"):
        clf.fit(X[one], Y[one])
    # a model that is fitted already needs no more than one, nor for its calibrator, which does
    # not complain of a class that only a fold lacks
    frozen = wrap(FrozenEstimator(MODEL), calibrator=ps.BCTS())
    assert frozen.fit(X[one], Y[one]).prior_estimator_.confusion_.class_weights[2] == 1


def test_a_class_that_validation_lacks_is_named_once():
    there = Y_VAL != "cat"
    clf = wrap(FrozenEstimator(MODEL), calibrator=ps.BCTS(), source_priors=SOURCE)
    with pytest.warns(ps.PriorShiftWarning) as caught:
        clf.fit(X_VAL[there], Y_VAL[there])
    assert len(caught) == 1
    assert "says nothing about 1 of the classes ('cat')" in str(caught[0].message)


def test_more_folds_than_rows():
    few = np.r_[0:3, np.flatnonzero(Y == "cat")[:1]]
    for cv in (5, None, StratifiedKFold(5)):
        with pytest.raises(
            ValueError, match=r"5 folds, but no class has more than \d samples; use"
        ):
            wrap(GaussianNB(), cv=cv).fit(X[few], Y[few])


def test_folds_that_are_used_up():
    clf = wrap(GaussianNB(), cv=iter(list(KFold(2).split(X)))).fit(X, Y)
    with pytest.raises(ValueError, match="no folds; an iterator serves one fit only"):
        clf.fit(X, Y)


def test_folds_that_are_sorted_by_class():
    order = np.argsort(Y)
    clf = PriorAdaptedClassifier(GaussianNB(), cv=KFold(2))
    with pytest.raises(ValueError, match="fold 1 of cv trains without class 'bee', 'cat'"):
        clf.fit(X[order], Y[order])


def test_folds_must_be_a_partition():
    with pytest.raises(ValueError, match="exactly once; row"):
        wrap(GaussianNB(), cv=ShuffleSplit(3, random_state=0)).fit(X, Y)
    half = np.arange(Y.size) < Y.size // 2
    clf = wrap(GaussianNB(), cv=[(half, ~half), (~half, half)]).fit(X, Y)
    same = [np.flatnonzero(half), np.flatnonzero(~half)]
    again = wrap(GaussianNB(), cv=iter([same, same[::-1]])).fit(X, Y)
    np.testing.assert_array_equal(clf.source_priors_, again.source_priors_)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prior_estimator": "em"}, "prior_estimator must be an instance.*'em'.*get_estimator"),
        ({"prior_estimator": ps.EM}, "prior_estimator must be an instance"),
        ({"estimator": GaussianNB}, r"estimator must be an instance, GaussianNB\(\)"),
        ({"estimator": FrozenEstimator(GaussianNB)}, r"estimator must be an instance, Gaus"),
        ({"estimator": None}, r"no predict_proba \(NoneType\)"),
        ({"calibrator": ps.BCTS(logits=True)}, "receive probabilities"),
        ({"calibrator": ps.BCTS}, r"calibrator must be an instance .* such as BCTS\(\), or None"),
        ({"calibrator": "bcts"}, "calibrator must be an instance .* got 'bcts'"),
        ({"calibrator": StandardScaler()}, r"calibrator .* predict_proba.* got StandardScaler"),
        ({"source_priors": [0.5, 0.5]}, "source_priors must be 3 numbers"),
        ({"source_priors": {"ant": 1.0}}, "source_priors names the classes 'ant'"),
        ({"cv": 1}, "at least one train/test split"),
    ],
)
def test_bad_parameters(change, message):
    with pytest.raises(ValueError, match=message):
        PriorAdaptedClassifier(**{"estimator": GaussianNB(), **change}).fit(X, Y)


def test_bad_labels_and_weights():
    clf = PriorAdaptedClassifier(GaussianNB())
    with pytest.raises(ValueError, match="requires y"):
        clf.fit(X, None)
    with pytest.raises(ValueError, match="weight is zero everywhere"):
        clf.fit(X, Y, sample_weight=np.zeros(Y.size))
    with pytest.raises(ValueError, match="frozen and will not be fitted, so fit takes no 'note'"):
        PriorAdaptedClassifier.from_fitted(MODEL).fit(X_VAL, Y_VAL, note="hello")
    with pytest.raises(ValueError, match="y has 1 class only"):
        clf.fit(X, np.zeros(Y.size))
    with pytest.raises(ValueError, match=r"1 class only.*weight 0"):
        clf.fit(X, Y, sample_weight=Y == "ant")
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        clf.fit(X, Y[:-1])
    with pytest.raises(ValueError, match="a weight per row"):
        clf.fit(X, Y, sample_weight=[1.0])
    with pytest.raises(
        ValueError, match=r"GaussianNB\) does not know: 'dog'; it knows 'ant', 'bee'"
    ):
        PriorAdaptedClassifier.from_fitted(MODEL).fit(X_VAL, np.where(Y_VAL == "cat", "dog", Y_VAL))


@pytest.mark.parametrize(
    "hide",
    [
        lambda y: np.where(y == "bee", None, y),
        lambda y: np.where(y == "bee", np.nan, y.astype(object)),
        lambda y: np.where(y == "bee", np.nan, 1.0),
        lambda y: pd.Series(y, dtype="string").mask(y == "bee"),
        lambda y: pd.Series(np.searchsorted(NAMES, y), dtype="Int64").mask(y == "bee"),
        lambda y: pl.Series([None if label == "bee" else label for label in y]),
    ],
    ids=["none", "nan among text", "nan", "pandas text", "pandas integers", "polars"],
)
@pytest.mark.parametrize("model", [GaussianNB(), FrozenEstimator(MODEL)], ids=["new", "frozen"])
def test_missing_labels(hide, model):
    first = np.flatnonzero(Y == "bee")[0]
    with pytest.raises(ValueError, match=rf"y has no label at position {first} .* drop these rows"):
        PriorAdaptedClassifier(model).fit(X, hide(Y))


def test_labels_of_two_kinds():
    with pytest.raises(ValueError, match="y mixes strings with other labels"):
        PriorAdaptedClassifier(GaussianNB()).fit(X, np.where(Y == "bee", 1, Y.astype(object)))


def test_bad_target_priors():
    clf = wrap(GaussianNB())
    with pytest.raises(NotFittedError):
        clf.set_target_priors(TARGET)
    for call in (clf.adapt, clf.partial_adapt, clf.estimate):
        with pytest.raises(NotFittedError):
            call(X_TARGET)
    clf.fit(X, Y)
    with pytest.raises(ValueError, match="target_priors must sum to 1"):
        clf.set_target_priors([1, 2, 3])
    with pytest.raises(ValueError, match="target_priors names the classes 'ant'"):
        clf.set_target_priors({"ant": 1.0})
    np.testing.assert_array_equal(clf.target_priors_, clf.source_priors_)


def test_models_whose_columns_have_no_names():
    class Nameless(PlainModel):
        @property
        def classes_(self):
            raise AttributeError

    with pytest.raises(ValueError, match=r"\(Nameless\) has no classes_.* Fit it first"):
        PriorAdaptedClassifier.from_fitted(Nameless()).fit(X_VAL, Y_VAL)


def test_models_that_give_the_wrong_columns():
    class Positive(PlainModel):
        def predict_proba(self, X):
            return np.full(len(X), 0.5)

    with pytest.raises(ValueError, match=r"shape \(800,\); one column per class is needed: 'ant'"):
        PriorAdaptedClassifier.from_fitted(Positive()).fit(X_VAL, Y_VAL)

    class Renamed(GaussianNB):
        def fit(self, X, y):
            super().fit(X, y)
            self.classes_ = np.arange(3)
            return self

    with pytest.raises(ValueError, match="Renamed has the classes 0, 1, 2 where 'ant', 'bee'"):
        PriorAdaptedClassifier(Renamed()).fit(X, Y)


def test_models_of_one_class():
    one = GaussianNB().fit(X, np.full(Y.size, "ant"))
    with pytest.raises(ValueError, match=r"\(GaussianNB\) knows 1 class only \('ant'\)"):
        PriorAdaptedClassifier.from_fitted(one).fit(X_VAL, Y_VAL)


def test_models_that_predict_no_probabilities():
    class Late(PlainModel):
        """Turn out NaN once in use."""

        def predict_proba(self, X):
            return MODEL.predict_proba(X) * (1 if len(X) > 1 else np.nan)

    clf = wrap(FrozenEstimator(Late())).fit(X_VAL, Y_VAL)
    for call in (clf.predict, clf.predict_proba, clf.adapt):
        with pytest.raises(ValueError, match="predict_proba of Late has NaN"):
            call(X_TARGET[:1])


@pytest.mark.parametrize("library", [pd, pl])
def test_predictions_in_frames_are_matched_by_name(library):
    class Framed(PlainModel):
        def predict_proba(self, X):
            columns = dict(zip(NAMES.tolist(), MODEL.predict_proba(X).T, strict=True))
            return library.DataFrame({name: columns[name] for name in ("bee", "cat", "ant")})

    plain = wrap(FrozenEstimator(MODEL)).fit(X_VAL, Y_VAL).adapt(X_TARGET)
    clf = wrap(FrozenEstimator(Framed())).fit(X_VAL, Y_VAL).adapt(X_TARGET)
    framed = clf.predict_proba(X_TARGET)
    assert isinstance(framed, library.DataFrame)  # as the model returns them
    assert list(framed.columns) == ["bee", "cat", "ant"]
    np.testing.assert_array_equal(framed[NAMES.tolist()], plain.predict_proba(X_TARGET))
    logs = clf.predict_log_proba(X_TARGET)
    np.testing.assert_array_equal(logs[NAMES.tolist()], plain.predict_log_proba(X_TARGET))
    np.testing.assert_array_equal(clf.predict(X_TARGET), plain.predict(X_TARGET))


class ByAppearance(ClassifierMixin, BaseEstimator):
    """A model whose classes are in the order in which they first appear."""

    def fit(self, X, y):
        self.classes_ = np.asarray(pd.unique(pd.Series(y)))
        self.inner_ = GaussianNB().fit(X, y)
        return self

    def predict_proba(self, X):
        order = [self.inner_.classes_.tolist().index(name) for name in self.classes_]
        return self.inner_.predict_proba(X)[:, order]


def test_models_with_classes_in_another_order():
    plain = wrap(GaussianNB()).fit(X, Y).adapt(X_TARGET)
    clf = wrap(ByAppearance()).fit(X, Y).adapt(X_TARGET)
    assert clf.estimator_.classes_.tolist() != clf.classes_.tolist() == NAMES.tolist()
    np.testing.assert_array_equal(clf.predict_proba(X_TARGET), plain.predict_proba(X_TARGET))
    own = ByAppearance().fit(X, Y)
    frozen = (
        wrap(FrozenEstimator(own))
        .fit(X_VAL, Y_VAL)
        .set_target_priors(dict(zip(NAMES, TARGET, strict=True)))
    )
    assert frozen.classes_.tolist() == own.classes_.tolist()
    plain = wrap(FrozenEstimator(MODEL)).fit(X_VAL, Y_VAL).set_target_priors(TARGET)
    assert frozen.predict(X_TARGET).tolist() == plain.predict(X_TARGET).tolist()


def test_calibrators_of_others():
    """Any classifier of probabilities is a calibrator, within limits that are named."""
    clf = wrap(FrozenEstimator(MODEL), calibrator=LogisticRegression())
    clf.fit(X_VAL, Y_VAL, sample_weight=np.ones(Y_VAL.size)).adapt(X_TARGET)
    assert l1(clf.target_priors_) < 0.15
    there = Y_VAL != "cat"
    with pytest.raises(ValueError, match="LogisticRegression has the classes 'ant', 'bee' where"):
        clf.fit(X_VAL[there], Y_VAL[there])
    with pytest.warns(ps.PriorShiftWarning, match="takes no source_label_priors"):
        clone(clf).set_params(source_priors=SOURCE).fit(X_VAL, Y_VAL)
    clf.set_params(calibrator=LinearDiscriminantAnalysis())
    with pytest.raises(ValueError, match="takes no sample_weight; use a calibrator"):
        clf.fit(X_VAL, Y_VAL, sample_weight=np.ones(Y_VAL.size))


def test_probabilities_of_zero_can_be_calibrated():
    """A forest says 0 and 1, whose logarithms are infinite."""
    forest = RandomForestClassifier(5, random_state=0).fit(X, Y)
    assert (forest.predict_proba(X_VAL) == 0).any()
    for calibrator in (ps.TemperatureScaling(), LogisticRegression()):
        clf = wrap(FrozenEstimator(forest), calibrator=calibrator).fit(X_VAL, Y_VAL)
        loss = log_loss(Y_TARGET, clf.predict_proba(X_TARGET))
        assert loss < log_loss(Y_TARGET, forest.predict_proba(X_TARGET)) - 0.5
        clf.adapt(X_TARGET)
        assert log_loss(Y_TARGET, clf.predict_proba(X_TARGET)) < loss
        assert np.isfinite(clf.predict_log_proba(X_TARGET)).all()


def test_no_probability_is_minus_infinity_in_logs():
    clf = wrap(FrozenEstimator(MODEL)).fit(X_VAL, Y_VAL)
    log_proba = clf.set_target_priors([0.5, 0.5, 0]).predict_log_proba(X_TARGET)
    assert np.isneginf(log_proba[:, 2]).all()
    assert np.isfinite(log_proba[:, :2]).all()


def test_labels_that_are_lists_are_refused_in_words():
    with pytest.raises(ValueError, match="y cannot be read as an array"):
        PriorAdaptedClassifier(GaussianNB()).fit(np.eye(3), [0, [1], 1])


def test_adapting_warns_where_more_than_the_balance_changed():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=3000)
    X = rng.normal(size=(3000, 2)) + 1.5 * y[:, None]
    model = LogisticRegression().fit(X[:1500], y[:1500])
    wrapped = ps.PriorAdaptedClassifier(FrozenEstimator(model), prior_estimator=ps.SCML())
    wrapped.fit(X[1500:], y[1500:])
    moved = rng.normal(size=(1500, 2)) * 0.4 + 2.5 * rng.integers(2, size=(1500, 1)) - 0.5
    with pytest.warns(ps.PriorShiftWarning, match="explains only"):
        wrapped.adapt(moved)
    wrapped.adapt(np.vstack([X[y == 1], X[y == 0][:100]]))  # prior shift: not a word


def test_costs_must_fit_the_classes_when_fitting(rng):
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 3
    model = ps.PriorAdaptedClassifier(
        GaussianNB(), prior_estimator=ps.SCML(), costs=np.ones((3, 4))
    )
    with pytest.raises(ValueError, match=r"one column per class here \(3\); got 4"):
        model.fit(X, y)


@pytest.mark.parametrize("wrap_in", ["plain", "pipeline", "search", "frozen"])
def test_known_priors_of_a_model_with_class_weights_need_its_own(wrap_in):
    """Its mean prediction is not the balance that it believes in, and Auto alone corrects that."""
    weighted = LogisticRegression(class_weight="balanced")
    model = {
        "plain": weighted,
        "pipeline": make_pipeline(StandardScaler(), weighted),
        "search": GridSearchCV(LogisticRegression(), {"class_weight": ["balanced"]}, cv=2),
        "frozen": FrozenEstimator(clone(weighted).fit(X, Y)),
    }[wrap_in]
    clf = PriorAdaptedClassifier(model, cv=2).fit(X, Y)
    with pytest.warns(ps.PriorShiftWarning, match=r"class_weight='balanced', so .*0.333 each"):
        clf.set_target_priors(TARGET)
    clf.set_target_priors(clf.source_priors_)  # undone, in silence
    for mended in ({"source_priors": np.full(3, 1 / 3)}, {"calibrator": ps.BCTS()}):
        clf = PriorAdaptedClassifier(model, cv=2, **mended).fit(X, Y).set_target_priors(TARGET)
        np.testing.assert_allclose(clf.predict_proba(X_TARGET).mean(axis=0), TARGET, atol=0.03)
