"""What every further estimator owes: the paper's cases, unseen classes, order, batches, errors."""

import pickle
import warnings

import numpy as np
import pandas as pd
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


def accuracy(y_proba, y):
    return float((y_proba.argmax(axis=1) == y).mean())


# The paper's cases


@consistent
def test_known_training_set(simulation, rng, kind):
    y_proba_val, y_val = simulation.draw(np.full(K, 1 / K), 8000, rng)
    y_proba, y = simulation.draw(TARGET, 8000, rng)
    est = kind().fit(y_proba_val, y_val, source_priors=simulation.source_priors)
    shift = est.estimate(y_proba)
    assert np.abs(shift.priors - TARGET).sum() < 0.08
    assert accuracy(shift.adapt(y_proba), y) > accuracy(y_proba, y) + 0.01
    # outputs are calibrated, so calibrating moves the denominator by noise alone
    np.testing.assert_allclose(shift.source_priors, simulation.source_priors, atol=0.02)


@consistent
def test_unknown_training_set(simulation, rng, kind):
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 8000, rng)
    y_proba, y = simulation.draw(TARGET, 8000, rng)
    shift = kind().fit(y_proba_val, y_val).estimate(y_proba)
    assert np.abs(shift.priors - TARGET).sum() < 0.08
    assert accuracy(shift.adapt(y_proba), y) > accuracy(y_proba, y) + 0.01
    assert "prediction on validation" in shift.source_priors_from


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


@pytest.mark.slow
@consistent
def test_error_falls_like_one_over_root_n(simulate, kind):
    simulation = simulate(5, spread=1.2, seed=3)
    target = np.array([0.1, 0.15, 0.2, 0.25, 0.3])
    errors = {300: [], 4800: []}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        for n, found in errors.items():
            y_proba_val, y_val = simulation.draw(simulation.source_priors, n, rng)
            y_proba, _ = simulation.draw(target, n, rng)
            est = (CalibratedEM(ridge=1.0) if kind is CalibratedEM else kind()).fit(
                y_proba_val, y_val, source_priors=simulation.source_priors
            )
            found.append(np.abs(est.estimate(y_proba).priors - target).sum())
    assert 2.2 < np.mean(errors[300]) / np.mean(errors[4800]) < 6.5


# Classes that validation lacks


@need_labels
def test_class_absent_from_validation(simulate, rng, kind):
    simulation = simulate(K, spread=2.5)
    y_proba_val, y_val = simulation.draw(np.full(K, 1 / K), 6000, rng)
    keep = y_val != 2
    y_proba, _ = simulation.draw(TARGET, 6000, rng)
    names = np.array(["ant", "bee", "cat", "dog"])
    est = kind().fit(
        y_proba_val[keep], names[y_val[keep]], source_priors=simulation.source_priors, classes=names
    )
    with pytest.warns(ps.PriorShiftWarning, match="no sample of class 'cat'"):
        shift = est.estimate(y_proba)
    assert shift.unseen_classes == ("cat",)
    np.testing.assert_allclose(shift.priors, TARGET, atol=0.025)
    assert shift.priors.sum() == pytest.approx(1)


@need_labels
def test_unseen_class_without_source_priors_is_not_blown_up(simulation, rng, kind):
    y_proba_val, y_val = simulation.draw(np.full(K, 1 / K), 6000, rng)
    keep = y_val != 3
    y_proba, _ = simulation.draw(np.array([0.5, 0.3, 0.2, 0.0]), 6000, rng)
    est = kind().fit(y_proba_val[keep], y_val[keep], classes=range(K))
    with pytest.warns(ps.PriorShiftWarning, match="no sample of class 3"):
        shift = est.estimate(y_proba)
    assert np.abs(shift.priors - [0.5, 0.3, 0.2, 0.0]).sum() < 0.25


@further
def test_class_absent_everywhere_gets_nothing(simulate, rng, kind):
    y_proba_val, y_val = simulate(3, spread=2.0).draw(np.full(3, 1 / 3), 1000, rng)
    with_empty = np.column_stack([y_proba_val, np.zeros(1000)])
    est = kind().fit(with_empty, y_val)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.PriorShiftWarning)
        shift = est.estimate(with_empty)
    assert shift.priors[3] <= 1e-9
    np.testing.assert_allclose(shift.priors[:3], 1 / 3, atol=0.1)
    assert shift.adapt(with_empty)[:, 3].max() == 0


@pytest.mark.parametrize("kind", [ELSA, GLS, JointLikelihood, ShrunkSCML])
def test_target_of_unseen_classes_only(simulate, rng, kind):
    y_proba_val, y_val = simulate(K, spread=2.0).draw(np.full(K, 1 / K), 500, rng)
    keep = y_val != 3
    est = kind().fit(
        y_proba_val[keep], y_val[keep], classes=range(K), source_priors=np.full(K, 1 / K)
    )
    with pytest.warns(ps.PriorShiftWarning, match="no sample of class 3"):
        shift = est.estimate(np.eye(K)[[3, 3, 3]])
    np.testing.assert_allclose(shift.priors, [0, 0, 0, 1], atol=1e-6)


# What changes nothing


@further
def test_class_order(data, rng, kind):
    y_proba_val, y_val, y_proba, source = data
    order = rng.permutation(K)
    plain = kind().fit(y_proba_val, y_val, source_priors=source).estimate(y_proba)
    permuted = kind().fit(y_proba_val[:, order], y_val, source_priors=source[order], classes=order)
    np.testing.assert_allclose(
        permuted.estimate(y_proba[:, order]).priors, plain.priors[order], atol=1e-4
    )


@further
def test_row_order(data, rng, kind):
    y_proba_val, y_val, y_proba, source = data
    plain = kind().fit(y_proba_val, y_val, source_priors=source).estimate(y_proba)
    order = rng.permutation(y_val.size)
    shuffled = kind().fit(y_proba_val[order], y_val[order], source_priors=source)
    found = shuffled.estimate(rng.permutation(y_proba))
    np.testing.assert_allclose(found.priors, plain.priors, atol=1e-5)


@pytest.mark.parametrize("kind", [MAPLS, SemiSupervisedEM, CalibratedEM, ShrunkSCML])
def test_repeated_target_rows(data, kind):
    y_proba_val, y_val, y_proba, source = data
    est = kind(tol=1e-8).fit(y_proba_val, y_val, source_priors=source)
    doubled = est.estimate(np.tile(y_proba, (2, 1)))
    np.testing.assert_allclose(doubled.priors, est.estimate(y_proba).priors, atol=1e-5)


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


@further
def test_single_precision(data, kind):
    y_proba_val, y_val, y_proba, source = data
    double = kind().fit(y_proba_val, y_val, source_priors=source).estimate(y_proba)
    single = kind().fit(y_proba_val.astype(np.float32), y_val, source_priors=source)
    found = single.estimate(y_proba.astype(np.float32))
    np.testing.assert_allclose(found.priors, double.priors, atol=1e-3)
    assert found.priors.dtype == np.float64


def test_a_batch_with_weights_may_follow_one_without(data):
    y_proba_val, y_val, y_proba, _ = data
    half = y_val.size // 2
    one = ELSA().fit(y_proba_val[:half], y_val[:half])
    one.partial_fit(y_proba_val[half:], y_val[half:], sample_weight=np.ones(y_val.size - half))
    whole = ELSA().fit(y_proba_val, y_val)
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


@pytest.mark.slow
# Manners


@further
def test_results_and_estimators_pickle(data, kind):
    y_proba_val, y_val, y_proba, source = data
    est = kind().fit(y_proba_val, y_val, source_priors=source)
    before = pickle.dumps(est.__dict__)
    shift = est.estimate(y_proba)
    assert pickle.dumps(est.__dict__) == before
    assert len(pickle.dumps(shift)) < 3000
    copy = pickle.loads(pickle.dumps(est))
    np.testing.assert_array_equal(copy.adapt(y_proba), est.adapt(y_proba))
    np.testing.assert_array_equal(shift.adapt(y_proba), est.adapt(y_proba))
    assert shift.method == kind.name
    assert shift.n_target == y_proba.shape[0]
    assert shift.status in ("certified", "stationary")


@further
def test_frames_follow_names(data, kind):
    y_proba_val, y_val, y_proba, source = data
    names = np.array(["d", "a", "c", "b"])
    plain = kind().fit(y_proba_val, names[y_val], source_priors=source, classes=names)
    frames = [pd.DataFrame(rows, columns=names) for rows in (y_proba_val, y_proba)]
    named = kind().fit(frames[0], names[y_val], source_priors=dict(zip(names, source, strict=True)))
    np.testing.assert_allclose(
        named.estimate(frames[1][names[::-1]]).priors, plain.estimate(y_proba).priors, atol=1e-9
    )


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
