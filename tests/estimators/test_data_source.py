"""The source's class balance, and predictions that contradict the labels."""

import warnings

import numpy as np
import pytest

import priorshift as ps
from priorshift.estimators.data import Evidence, Validation, _mean, find_mismatch, source_balance


@pytest.fixture
def simulation(simulate):
    return simulate(4, spread=1.2)


def balanced_model(seed, n=2000, share=0.01):
    """Return outputs of a model that was trained with class weights, and rare positives."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    y[0] = 1
    positive = 1 / (1 + np.exp(2 - 2 * rng.normal(2.0 * y)))
    return np.column_stack([1 - positive, positive]), y


# The balance that calibrated outputs stand for


def balance(y_proba, y, weight, source_priors, label_priors):
    rows, classes = Validation(y_proba, y, weight), np.arange(y_proba.shape[1])
    given = {"source_priors": source_priors, "source_label_priors": label_priors}
    return source_balance(Evidence(classes, rows=rows, **given))


def test_label_priors_that_are_given_are_the_balance(simulation, rng):
    y_proba, y = simulation.draw(np.full(4, 0.25), 500, rng)
    given = np.array([0.1, 0.2, 0.3, 0.4])
    found = balance(y_proba, y, np.ones(500), np.full(4, 0.25), given)
    np.testing.assert_array_equal(found.priors, given)
    assert found.given
    assert found.words == "given (source_label_priors)"


def test_source_priors_that_validation_confirms_leave_the_balance_to_its_labels():
    y_proba, y = balanced_model(0)
    found = balance(y_proba, y, np.ones(y.size), y_proba.mean(axis=0), None)
    np.testing.assert_allclose(found.priors[1], (y.sum() + 0.5) / (y.size + 1))
    assert found.given
    assert "class frequencies on validation" in found.words
    assert "agrees with source_priors" in found.words


def test_source_priors_that_contradict_validation_are_the_balance():
    y_proba, y = balanced_model(0)
    found = balance(y_proba, y, np.ones(y.size), np.array([0.5, 0.5]), None)
    np.testing.assert_array_equal(found.priors, [0.5, 0.5])
    assert found.given
    assert found.words == "given"


def test_with_nothing_given_labels_tell_the_balance(simulation, rng):
    y_proba, y = simulation.draw(simulation.source_priors, 300, rng)
    weight = rng.uniform(0.5, 2, 300)
    found = balance(y_proba, y, weight, None, None)
    counts = np.bincount(y, weight)
    np.testing.assert_allclose(found.priors, (counts + 0.5) / (counts.sum() + 2))
    assert not found.given
    assert "taken to be drawn as the training set was" in found.words


def test_a_class_without_labels_still_has_a_share():
    found = balance(np.full((6, 3), 1 / 3), np.zeros(6, int), np.ones(6), None, None)
    assert found.priors.sum() == pytest.approx(1)
    assert (found.priors > 0).all()


# Predictions that contradict labels


def mismatch(predicted, labelled, n, classes=None):
    """Say what rows of these mean predictions and labels contradict."""
    classes = np.arange(len(labelled)) if classes is None else np.array(classes)
    y = np.repeat(np.arange(classes.size), np.rint(np.array(labelled) * n).astype(int))
    rows = Validation(np.empty((y.size, 0)), y, None)
    sums = ps.DecisionCounts(np.array(predicted) * n, "soft", int(n))
    return find_mismatch(Evidence(classes, predicted=sums, rows=rows))


@pytest.mark.parametrize(
    ("predicted", "labelled", "n", "says"),
    [
        ([0.5, 0.5], [0.99, 0.01], 2000, True),
        ([0.5, 0.5], [0.99, 0.01], 20, False),  # too few to tell
        ([0.98, 0.02], [0.99, 0.01], 1e6, False),  # sure, and not worth a word
        ([0.52, 0.48], [0.6, 0.4], 1e6, False),  # any classifier may be that far off
        ([0.5, 0.5], [0.5, 0.5], 1e6, False),
    ],
)
def test_a_mismatch_is_large_sure_and_notable(predicted, labelled, n, says):
    assert (mismatch(predicted, labelled, n) is not None) == says


def test_a_mean_prediction_and_its_standard_error(rng):
    """As of the rows repeated, whose effective number is that of Kish."""
    y_proba, weight = rng.dirichlet(np.ones(3), 50), rng.integers(1, 4, 50).astype(float)
    repeated = np.repeat(y_proba, weight.astype(int), axis=0)
    mean, error = _mean(y_proba, weight)
    np.testing.assert_allclose(mean, repeated.mean(axis=0))
    n = weight.sum() ** 2 / (weight**2).sum()
    np.testing.assert_allclose(error, repeated.std(axis=0) / np.sqrt(n))


def test_a_class_that_was_not_in_training_gets_no_share():
    y_proba, y = np.tile([[0.75, 0.25, 0.0]], (40, 1)), np.array([0] * 30 + [1] * 10)
    found = balance(y_proba, y, np.ones(40), np.array([0.75, 0.25, 0.0]), None)
    np.testing.assert_allclose(found.priors, [30.5 / 41, 10.5 / 41, 0])
    assert found.given
    nothing_given = balance(y_proba, y, np.ones(40), None, None)
    np.testing.assert_allclose(nothing_given.priors, [30.5 / 41.5, 10.5 / 41.5, 0.5 / 41.5])


def test_the_class_that_is_furthest_off_need_not_be_large():
    said = mismatch([0.45, 0.5, 0.05], [0.4, 0.2, 0.4], 1000, ["a", "b", "c"])
    assert "(class c: 5.00% predicted on average, 40.0% of the labels)" in said


def test_a_mismatch_names_the_class_that_is_furthest_off():
    assert mismatch([0.4, 0.3, 0.3], [0.9, 0.08, 0.02], 1000, ["a", "b", "c"]) == (
        "predictions on validation contradict its labels (class a: 40.0% predicted on average, "
        "90.0% of the labels), as after training with class weights or on undersampled data, or "
        "where outputs are far from calibrated"
    )


@pytest.mark.parametrize("method", ["em", "map", "scm-l", "scm", "cm-l", "bbse", "rlls"])
def test_methods_that_need_source_priors_warn_of_a_mismatch(method):
    y_proba, y = balanced_model(1)
    with pytest.warns(ps.PriorShiftWarning, match="contradict its labels") as caught:
        ps.get_estimator(method).fit(y_proba, y)
    assert len(caught) == 1
    said = str(caught[0].message)
    assert "source_priors=" in said
    assert "class weights" in said
    assert "undersampled" in said
    assert caught[0].filename == __file__


@pytest.mark.parametrize("method", ["auto", "em-bcts"])
def test_methods_that_calibrate_do_not_warn(method):
    y_proba, y = balanced_model(1)
    found = ps.get_estimator(method).fit(y_proba, y).estimate(y_proba)
    assert found.priors[1] == pytest.approx(y.mean(), abs=0.01)


@pytest.mark.parametrize("given", ["source_priors", "source_label_priors"])
def test_what_is_given_is_believed(given):
    y_proba, y = balanced_model(1)
    ps.EM().fit(y_proba, y, **{given: [0.5, 0.5]})
    auto = ps.Auto().fit(y_proba, y, **{given: [0.5, 0.5]})
    assert auto.estimate(y_proba).decision["mismatch"] is None


def test_auto_says_a_mismatch_and_corrects_it():
    y_proba, y = balanced_model(2)
    names = np.array(["no", "yes"])
    shift = ps.Auto().fit(y_proba, names[y]).estimate(y_proba)
    said = shift.decision["mismatch"]
    assert "contradict its labels (class yes: " in said
    assert "class weights" in said
    assert said in shift.decision["sentence"]
    right = (shift.adapt(y_proba).argmax(axis=1) == y).mean()
    assert right > (y_proba.argmax(axis=1) == y).mean() + 0.1


def test_calibrated_outputs_are_never_doubted(simulation):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(50):
            rng = np.random.default_rng(seed)
            n = int(rng.choice([20, 200, 2000]))
            ps.EM().fit(*simulation.draw(simulation.source_priors, n, rng), classes=np.arange(4))
            rare, y = balanced_model(seed, n)
            odds = rare * [0.99, 0.01]
            ps.EM().fit(odds / odds.sum(axis=1, keepdims=True), y)


def test_weights_of_rows_count_in_the_comparison():
    """Undersampled rows with the weights that undo it contradict nothing."""
    y_proba, y = balanced_model(3, n=4000, share=0.5)
    odds = y_proba * [0.99, 0.01]
    y_proba = odds / odds.sum(axis=1, keepdims=True)
    ps.EM().fit(y_proba, y, sample_weight=np.where(y == 1, 0.01, 0.99))
    with pytest.warns(ps.PriorShiftWarning, match="contradict its labels"):
        ps.EM().fit(y_proba, y)


def test_a_few_heavy_rows_contradict_nothing():
    """Their chance is not that of as many rows as there are."""
    y_proba, y = np.full((2000, 2), 0.5), np.arange(2000) % 2
    weight = np.full(2000, 1e-6)
    weight[:6:2] = 1.0  # three rows of class 0 are nearly all there is
    ps.EM().fit(y_proba, y, sample_weight=weight)
