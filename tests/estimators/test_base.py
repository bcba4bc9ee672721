"""What every further estimator owes: the paper's cases, unseen classes, order, batches, errors."""

import numpy as np
import pytest
from sklearn.base import clone

import priorshift as ps
from priorshift.estimators import (
    ELSA,
    GLS,
    MAPLS,
    CalibratedEM,
    JointLikelihood,
    SemiSupervisedEM,
    ShrunkSCML,
)

K = 4
TARGET = np.array([0.1, 0.2, 0.3, 0.4])
FURTHER = [ELSA, MAPLS, JointLikelihood, GLS, SemiSupervisedEM, CalibratedEM, ShrunkSCML]
NEED_LABELS = [ELSA, JointLikelihood, GLS, CalibratedEM, ShrunkSCML]
CONSISTENT = [kind for kind in FURTHER if kind is not MAPLS]  # which leans towards equal priors
FROM_COUNTS = [JointLikelihood, ShrunkSCML]
further = pytest.mark.parametrize("kind", FURTHER, ids=lambda kind: kind.name)
consistent = pytest.mark.parametrize("kind", CONSISTENT, ids=lambda kind: kind.name)
need_labels = pytest.mark.parametrize("kind", NEED_LABELS, ids=lambda kind: kind.name)
pytestmark = pytest.mark.filterwarnings("ignore:.*negative entr")


@pytest.fixture
def simulation(simulate):
    return simulate(K, spread=1.5)


@pytest.fixture
def data(simulation, rng):
    y_proba_val, y_val = simulation.draw(np.full(K, 1 / K), 800, rng)
    y_proba, _ = simulation.draw(TARGET, 900, rng)
    return y_proba_val, y_val, y_proba, simulation.source_priors


# Two classes


@consistent
def test_two_classes_given_as_one_column(rng, kind):
    y_val, y = rng.choice(2, 3000), rng.choice(2, 3000, p=[0.8, 0.2])
    one, other = (1 / (1 + np.exp(-2 * rng.normal(2 * label - 1))) for label in (y_val, y))
    shift = kind().fit(one, y_val).estimate(other)
    np.testing.assert_allclose(shift.priors, [0.8, 0.2], atol=0.1)
    assert shift.adapt(other).shape == (3000,)
    both = kind().fit(np.column_stack([1 - one, one]), y_val)
    np.testing.assert_allclose(
        both.estimate(np.column_stack([1 - other, other])).priors, shift.priors, atol=1e-12
    )


@pytest.mark.parametrize(
    "est", [ELSA(), GLS(), JointLikelihood(shrinkage=5), ShrunkSCML(shrinkage=5)], ids=repr
)
def test_repeated_validation_rows_are_weights(data, rng, est):
    y_proba_val, y_val, y_proba, source = data
    times = rng.integers(0, 4, y_val.size)
    weighted = clone(est).fit(y_proba_val, y_val, source_priors=source, sample_weight=times)
    repeated = clone(est).fit(
        y_proba_val.repeat(times, axis=0), y_val.repeat(times), source_priors=source
    )
    np.testing.assert_allclose(
        weighted.estimate(y_proba).priors, repeated.estimate(y_proba).priors, atol=1e-9
    )


def test_a_batch_with_weights_may_follow_one_without(data):
    y_proba_val, y_val, y_proba, _ = data
    half = y_val.size // 2
    one = ps.SCML().fit(y_proba_val[:half], y_val[:half])
    one.partial_fit(y_proba_val[half:], y_val[half:], sample_weight=np.ones(y_val.size - half))
    whole = ps.SCML().fit(y_proba_val, y_val)
    np.testing.assert_allclose(one.estimate(y_proba).priors, whole.estimate(y_proba).priors)


# Intervals


@further
def test_intervals_are_to_be_had(data, kind):
    y_proba_val, y_val, y_proba, source = data
    est = kind().fit(y_proba_val, y_val, source_label_priors=source)
    shift = est.estimate(y_proba, confidence_level=0.9, random_state=0, n_resamples=30)
    assert (shift.interval[:, 0] <= shift.priors + 1e-9).all()
    assert (shift.priors <= shift.interval[:, 1] + 1e-9).all()
    assert (shift.standard_error > 0.002).all()
    assert (shift.standard_error < 0.1).all()
    np.testing.assert_array_equal(shift.priors, est.estimate(y_proba).priors)


@need_labels
def test_labels_are_needed(data, kind):
    y_proba_val, _, _, source = data
    with pytest.raises(ValueError, match=f"{kind.__name__} needs validation labels"):
        kind().fit(y_proba_val)
    with pytest.raises(ValueError, match=f"{kind.__name__} needs a validation set"):
        kind().fit(source_priors=source)


@further
def test_counts_will_do_only_where_they_can(data, kind):
    y_proba_val, y_val, y_proba, _ = data
    est = kind().fit(y_proba_val, y_val)
    if kind in FROM_COUNTS:
        assert not est.needs_rows
        decision = est.confusion_.decision
        counts = ps.DecisionCounts.from_arrays(y_proba, decision=decision)
        from_counts = est.estimate_counts(counts)
        np.testing.assert_array_equal(from_counts.priors, est.estimate(y_proba).priors)
    else:
        assert est.needs_rows
        with pytest.raises(ValueError, match="needs the rows of the target"):
            est.estimate_counts(ps.DecisionCounts(np.ones(K), "soft", K))


@pytest.mark.parametrize(
    ("est", "message"),
    [
        (ELSA(tol=0), "tol must be a finite number above 0"),
        (ELSA(max_iter=0), "max_iter must be a whole number"),
        (MAPLS(tol=-1), "tol must be"),
        (JointLikelihood(shrinkage="loo"), "shrinkage must be one of 'cv'"),
        (JointLikelihood(shrinkage=-1), "shrinkage must be a finite number above 0"),
        (JointLikelihood(alpha=0.5), "alpha must be at least 1"),
        (ShrunkSCML(max_iter=0), "max_iter must be"),
        (GLS(shrinkage="cv"), "shrinkage must be one of 'evidence'"),
        (GLS(tol=None), "tol must be"),
        (CalibratedEM(calibrator="isotonic"), "calibrator must be one of 'ts', 'bcts', 'vs'"),
        (CalibratedEM(cv=1), "cv must be a whole number of at least 2"),
        (CalibratedEM(ridge="loo"), "ridge must be one of 'cv'"),
    ],
    ids=repr,
)
def test_bad_parameters_are_named(data, est, message):
    y_proba_val, y_val, y_proba, _ = data
    with pytest.raises(ValueError, match=message):
        est.fit(y_proba_val, y_val).estimate(y_proba)


def test_a_failed_fit_changes_nothing(data):
    y_proba_val, y_val, y_proba, _ = data
    est = CalibratedEM(calibrator="ts").fit(y_proba_val, y_val)
    before = est.estimate(y_proba)
    est.set_params(cv=1)
    with pytest.raises(ValueError, match="cv must be"):
        est.fit(y_proba_val[:100], y_val[:100], source_priors=TARGET)
    np.testing.assert_array_equal(est.estimate(y_proba).priors, before.priors)


def test_a_class_that_the_model_never_predicts_keeps_a_source_prior():
    """Naive Bayes gave class 1 next to nothing on validation, all of its own rows included."""
    rng = np.random.default_rng(0)
    y_val = np.repeat([0, 1, 2], 10)
    sure = np.where(y_val == 1, rng.choice([0, 2], 30), y_val)
    sure[[0, -1]] = 2, 0  # a mistake or two, so that no temperature of 0 is best
    y_proba_val = np.full((30, 3), 1e-60)
    y_proba_val[np.arange(30), sure] = 1.0
    y_proba = np.eye(3)[rng.integers(0, 3, 100)]
    for known in ({}, {"source_label_priors": [0.4, 0.2, 0.4]}):
        for calibrator in ("bcts", "vs", "ts"):
            est = CalibratedEM(calibrator=calibrator).fit(y_proba_val, y_val, **known)
            assert est.source_priors_.min() > 1e-3
            assert est.source_priors_.sum() == pytest.approx(1)
            shift = est.estimate(y_proba)
            assert shift.priors.sum() == pytest.approx(1)
            assert np.isfinite(est.adapt(y_proba)).all()


def test_gls_without_shrinkage_takes_a_perfect_classifier():
    y = np.repeat(np.arange(4), 5)
    target = np.eye(4)[np.repeat(np.arange(4), [4, 3, 2, 1])]
    found = GLS(shrinkage=0.0).fit(np.eye(4)[y], y).estimate(target)
    np.testing.assert_allclose(found.priors, [0.4, 0.3, 0.2, 0.1], atol=1e-6)
