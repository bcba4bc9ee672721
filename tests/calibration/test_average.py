"""Many calibrators, averaged: what they recover, and that no row is judged by its own label."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from priorshift.calibration.average import (
    Labelled,
    _all_candidates,
    average_calibration,
    best_temperature,
    floored_likelihood,
    map_above,
)
from priorshift.calibration.likelihood import ScoreMap, by_fold

K = 4


@pytest.fixture
def simulation(simulate):
    return simulate(K, spread=1.2)


def averaged(y_proba, y, label_priors=None, weight=None, **more):
    n_classes = y_proba.shape[1]
    if label_priors is None:
        label_priors = (np.bincount(y, minlength=n_classes) + 0.5) / (y.size + 0.5 * n_classes)
    options = {"n_folds": 5, "random_state": 0, **more}
    weight = np.ones(y.size) if weight is None else weight
    return average_calibration(y_proba, y, weight, label_priors, **options)


def bent(y_proba, slope, bias):
    """Return outputs that a map with the inverse slope (and bias) sets right."""
    z = np.log(y_proba)
    return softmax(z @ slope if np.ndim(slope) == 2 else z * slope + bias, axis=1)


def losses_of(y_proba, y):
    return -np.log(np.maximum(y_proba[np.arange(y.size), y], np.finfo(np.float32).tiny))


def apart(found, expected):
    """Return the mean distance of probabilities."""
    return np.abs(found - expected).sum(axis=1).mean()


def test_weights_sum_to_1_and_the_best_map_names_the_average(simulation, rng):
    y_proba, y = simulation.draw(simulation.source_priors, 1000, rng)
    found = averaged(y_proba, y)
    weights = found.average.weights
    assert sum(weights) == pytest.approx(1)
    assert min(weights) > 0
    assert found.average.name == found.average.maps[int(np.argmax(weights))].name
    for without in found.folds:
        assert without.weights == weights
        assert [one.name for one in without.maps] == [one.name for one in found.average.maps]
    assert min(found.nats.values()) == 0
    np.testing.assert_allclose(found.y_proba.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(np.sort(found.order), np.arange(y.size))


def test_outputs_that_are_calibrated_hardly_change(simulation, rng):
    y_proba, y = simulation.draw(simulation.source_priors, 3000, rng)
    found = averaged(y_proba, y, simulation.source_priors)
    assert apart(found.average.apply(y_proba), y_proba) < 0.03
    assert abs(found.excess) < 5  # nats: a handful of parameters' worth


def test_a_temperature_is_recovered(simulation, rng):
    y_proba, y = simulation.draw(simulation.source_priors, 3000, rng)
    flat = bent(y_proba, 0.05, 0.0)
    found = averaged(flat, y, simulation.source_priors)
    assert apart(found.average.apply(flat), y_proba) < 0.05
    assert found.excess > 500


def test_a_bias_per_class_is_recovered(simulation, rng):
    y_proba, y = simulation.draw(simulation.source_priors, 4000, rng)
    skewed = bent(y_proba, 1.0, np.array([1.0, -1.0, 0.5, -0.5]))
    found = averaged(skewed, y, simulation.source_priors)
    assert apart(found.average.apply(skewed), y_proba) < 0.05 < apart(skewed, y_proba)
    assert found.average.name.startswith(("bcts", "ms"))


def test_a_matrix_of_slopes_is_recovered(simulation, rng):
    y_proba, y = simulation.draw(simulation.source_priors, 6000, rng)
    mixing = np.eye(K) + 0.5 * np.roll(np.eye(K), 1, axis=1)
    mixed = bent(y_proba, mixing, 0.0)
    found = averaged(mixed, y, simulation.source_priors)
    assert found.average.name.startswith("ms")
    assert apart(found.average.apply(mixed), y_proba) < 0.1 < apart(mixed, y_proba) / 2


def test_a_balanced_model_is_brought_to_the_source(simulation, rng):
    priors = np.array([0.9, 0.06, 0.03, 0.01])
    y_proba, y = simulation.draw(priors, 400, rng)
    balanced = y_proba / simulation.source_priors
    balanced /= balanced.sum(axis=1, keepdims=True)
    truth = balanced * priors / (balanced * priors).sum(axis=1, keepdims=True)
    found = averaged(balanced, y, priors)
    assert apart(found.average.apply(balanced), truth) < 0.06 < apart(balanced, truth) / 5


def test_validation_may_have_any_balance(simulation, rng):
    y_proba, y = simulation.draw(np.full(K, 1 / K), 4000, rng)
    found = averaged(bent(y_proba, 0.3, 0.0), y, simulation.source_priors)
    assert apart(found.average.apply(bent(y_proba, 0.3, 0.0)), y_proba) < 0.05


def test_zeros_get_a_floor(simulation, rng):
    y_proba, y = simulation.draw(simulation.source_priors, 2000, rng)
    sparse = np.where(y_proba < 0.19, 0.0, y_proba)
    sparse /= sparse.sum(axis=1, keepdims=True)
    assert (sparse[np.arange(y.size), y] == 0).any()
    found = averaged(sparse, y, simulation.source_priors)
    assert all(np.min(one.floor) > 0 for one in found.average.maps)
    assert (found.average.apply(sparse) > 0).all()
    assert np.isfinite(found.excess)


def test_what_is_applied_is_what_was_fitted_also_above_a_floor(rng):
    """A floor raises every row's sum, which slopes that differ would take for a bias."""
    y_proba, y = rng.dirichlet(np.ones(K), 60), rng.integers(K, size=60)
    floor = np.array([0.01, 0.02, 0.03, 0.06])
    likelihood = floored_likelihood(
        Labelled(y_proba, y, np.ones(60), np.zeros(K)), floor, scale=0.7
    )
    for slope in (np.ones(K), rng.uniform(0.5, 2, K), np.eye(K) + 0.3 * rng.random((K, K))):
        at = ScoreMap(slope, rng.standard_normal(K))
        scores = likelihood.z.T @ (slope if slope.ndim == 2 else np.diag(slope)) + at.bias
        applied = map_above("ms", at, 0.7, floor).apply(y_proba)
        np.testing.assert_allclose(applied, softmax(scores, axis=1), atol=1e-6)


def test_fits_without_a_fold_never_saw_it(simulation, rng):
    """SciPy's minimiser on the rows outside of each fold is the oracle."""
    y_proba, y = simulation.draw(simulation.source_priors, 300, rng)
    bias = np.array([1.0, -1.0, 0.5, -0.5])
    y_proba = bent(y_proba, 1.0, bias)
    found = averaged(y_proba, y, np.bincount(y) / y.size)
    name = next(one.name for one in found.average.maps if one.name.startswith("bcts"))
    ridge = float(name.removeprefix("bcts "))
    z, y = np.log(y_proba)[found.order], y[found.order]

    def fitted(rows):
        def loss(theta):
            scores = log_softmax(np.exp(theta[0]) * z[rows] + theta[1:], axis=1)
            nats = -scores[np.arange(len(scores)), y[rows]].sum()
            return nats + ridge * theta[1:] @ theta[1:] / 2 + theta[0] ** 2 / 2

        return minimize(loss, np.zeros(1 + K)).x[1:]

    full = fitted(slice(None))
    for fold, without in enumerate(found.folds):
        outside = np.arange(y.size) // 60 != fold
        bias = next(one.bias for one in without.maps if one.name == name)
        expected = fitted(outside)
        assert np.abs(bias - expected).max() < 0.25 * np.abs(full - expected).max()


def test_labels_at_random_promise_nothing(rng):
    """Calibrated by its own labels, each row would seem better than chance."""
    y_proba = rng.dirichlet(np.ones(6), 120)
    y = rng.integers(6, size=120)
    found = averaged(y_proba, y, np.full(6, 1 / 6))
    losses = losses_of(found.y_proba, y[found.order])
    assert losses.mean() > np.log(6) - 0.03


def test_out_of_fold_rows_are_those_of_the_fits_without_them(simulation, rng):
    y_proba, y = simulation.draw(simulation.source_priors, 203, rng)
    found = averaged(y_proba, y)
    start = 0
    sizes = [41, 41, 41, 40, 40]
    for size, without in zip(sizes, found.folds, strict=True):
        rows = slice(start, start + size)
        expected = without.apply(y_proba[found.order[rows]])
        np.testing.assert_allclose(found.y_proba[rows], expected, atol=1e-6)
        start += size


def test_the_excess_is_the_loss_of_raw_outputs_less_that_out_of_fold(simulation, rng):
    y_proba, y = simulation.draw(np.full(K, 1 / K), 400, rng)
    found = averaged(y_proba, y, simulation.source_priors)
    balance = np.log(np.bincount(y, minlength=K) / y.size / simulation.source_priors)
    raw = -log_softmax(np.log(y_proba) + balance, axis=1)[np.arange(y.size), y].sum()
    y_there = y[found.order]
    out = -log_softmax(np.log(found.y_proba) + balance, axis=1)[np.arange(y.size), y_there].sum()
    assert found.excess == pytest.approx(raw - out, abs=1e-2)


def test_a_matrix_reads_what_a_floor_would_hide(simulation, rng):
    """Zeros make a temperature want a floor, and what is below it tells classes apart."""
    y_proba, y = simulation.draw(simulation.source_priors, 2000, rng)
    hidden = bent(y_proba, 3.0, np.array([-40.0, 0.0, 0.0, 0.0]))
    hidden = np.where(hidden < 1e-30, 0.0, hidden)
    assert (hidden == 0).any()
    found = averaged(hidden, y)
    assert found.average.name.endswith("no floor")
    assert all(name.endswith("no floor") for name in found.nats if name.startswith("ms"))
    assert apart(found.average.apply(hidden), y_proba) < 0.15


def test_a_matrix_keeps_the_floor_that_suits_it(simulation, rng):
    """Where outputs of 0 are noise, and where nobody wants a floor."""
    y_proba, y = simulation.draw(simulation.source_priors, 500, rng)
    rough = rng.multinomial(20, y_proba) / 20
    for outputs in (rough, y_proba):
        found = averaged(outputs, y)
        assert np.any([one.floor for one in found.average.maps]) == (outputs is rough)
        assert any(name.startswith("ms") for name in found.nats)
        assert not any("no floor" in name for name in found.nats)


def test_the_likelihood_is_that_of_scaled_log_probabilities(rng):
    y_proba, y = rng.dirichlet(np.ones(3), 50), rng.integers(3, size=50)
    floor = np.array([0.01, 0.02, 0.03])
    likelihood = floored_likelihood(
        Labelled(y_proba, y, np.ones(50), np.zeros(3)), floor, scale=0.7
    )
    raised = (y_proba + floor) / (y_proba + floor).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(likelihood.z, 0.7 * np.log(raised).T, rtol=1e-5)
    expected = -log_softmax(0.7 * np.log(raised), axis=1)[np.arange(50), y].sum()
    assert likelihood.value(ScoreMap(np.ones(3), np.zeros(3))) == pytest.approx(expected, rel=1e-5)


def test_the_order_of_classes_makes_no_difference(simulation, rng):
    y_proba, y = simulation.draw(simulation.source_priors, 800, rng)
    y_proba = bent(y_proba, 0.4, np.array([0.5, -0.5, 0.0, 0.3]))
    turned = np.array([2, 0, 3, 1])
    first = averaged(y_proba, y, simulation.source_priors)
    second = averaged(y_proba[:, turned], np.argsort(turned)[y], simulation.source_priors[turned])
    np.testing.assert_array_equal(first.order, second.order)
    np.testing.assert_allclose(
        first.average.apply(y_proba)[:, turned],
        second.average.apply(y_proba[:, turned]),
        atol=2e-3,
    )


def test_the_order_of_rows_hardly_matters(simulation, rng):
    y_proba, y = simulation.draw(simulation.source_priors, 2000, rng)
    y_proba = bent(y_proba, 0.4, np.array([0.5, -0.5, 0.0, 0.3]))
    turned = rng.permutation(y.size)
    first = averaged(y_proba, y, simulation.source_priors)
    second = averaged(y_proba[turned], y[turned], simulation.source_priors)
    assert apart(first.average.apply(y_proba), second.average.apply(y_proba)) < 0.02


def test_a_class_that_validation_lacks_keeps_its_say(simulation, rng):
    y_proba, y = simulation.draw(simulation.source_priors, 1500, rng)
    kept = y != 2
    found = averaged(y_proba[kept], y[kept], simulation.source_priors)
    calibrated = found.average.apply(y_proba)
    assert np.isfinite(calibrated).all()
    assert calibrated[y == 2, 2].mean() > 0.5 * y_proba[y == 2, 2].mean()


@pytest.mark.parametrize("n_classes", [2, 50])
def test_few_and_many_classes(simulate, rng, n_classes):
    simulation = simulate(n_classes, spread=1.2)
    y_proba, y = simulation.draw(simulation.source_priors, 3000, rng)
    flat = bent(y_proba, 0.3, 0.0)
    found = averaged(flat, y, simulation.source_priors)
    assert apart(found.average.apply(flat), y_proba) < 0.08 < apart(flat, y_proba)


@pytest.mark.parametrize("n", [1, 3])
def test_next_to_no_rows(n):
    y_proba = np.array([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]])[:n]
    found = averaged(y_proba, np.arange(3)[:n])
    assert sum(found.average.weights) == pytest.approx(1)
    np.testing.assert_allclose(found.y_proba.sum(axis=1), 1, atol=1e-5)
    assert np.isfinite(found.average.apply(y_proba)).all()
    assert len(found.folds) == n


def test_few_labels_that_are_all_right_ask_for_no_extreme():
    y = np.repeat(np.arange(K), 4)
    y_proba = 0.6 * np.eye(K)[y] + 0.4 / K
    found = averaged(y_proba, y, np.full(K, 1 / K))
    assert all(np.max(one.slope) < 20 for one in found.average.maps)
    assert found.average.apply(y_proba).max() < 0.9999


def test_weights_are_repeated_rows_nearly(simulation, rng):
    y_proba, y = simulation.draw(simulation.source_priors, 1000, rng)
    y_proba = bent(y_proba, 0.4, np.array([0.5, -0.5, 0.0, 0.3]))
    times = rng.integers(1, 4, y.size)
    weighted = averaged(y_proba, y, simulation.source_priors, times.astype(float))
    repeated = averaged(
        np.repeat(y_proba, times, axis=0), np.repeat(y, times), simulation.source_priors
    )
    # folds differ: copies of a row may be on both sides
    assert apart(weighted.average.apply(y_proba), repeated.average.apply(y_proba)) < 0.06


def test_scores_out_of_fold_are_those_of_fresh_rows(monkeypatch):
    """Maps fitted without a fold must not know it: then the fold is as hard as fresh rows are.

    Labels must go with the outputs: maps that remember shuffled ones do not look better for it.
    """
    monkeypatch.setattr("priorshift.calibration.fitting.HOPELESS", np.inf)
    classes, draws, optimism = 10, 20, {}
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        centres = 2 * rng.normal(size=(classes, 8))

        def votes(n, rng=rng, centres=centres):
            """Return the outputs of a forest: 100 trees, so many are exactly 0."""
            y = rng.permutation(np.arange(n) % classes)
            scores = (centres[y] + rng.normal(size=(n, 8))) @ centres.T - (centres**2).sum(1) / 2
            trees = softmax(scores + 0.3 * rng.normal(size=scores.shape), axis=1)
            return rng.multinomial(100, trees) / 100, y

        (y_proba, y), (fresh, y_fresh) = votes(10 * classes), votes(2000)
        order, folds = by_fold(y, 5, True, 0)
        y_proba, y, ones = y_proba[order], y[order], np.ones(y.size)
        nothing, equal = np.zeros(classes), np.full(classes, 1 / classes)
        lucky = {}
        for one in _all_candidates(Labelled(y_proba, y, ones, nothing), equal, folds):
            outside = np.mean([losses_of(at.apply(fresh), y_fresh).mean() for at in one.maps[1:]])
            lucky[one.name.removesuffix(", no floor")] = outside - one.nats / y.size
        rows = np.arange(y.size)  # temperatures, refitted each time, tell the rows' luck
        others = [np.setdiff1d(rows, rows[fold]) for fold in folds]
        fitted = [best_temperature(y_proba[i], y[i], ones[i]) for i in others]
        inside = sum(
            losses_of(at.apply(y_proba[fold]), y[fold]).sum()
            for at, fold in zip(fitted, folds, strict=True)
        )
        outside = np.mean([losses_of(at.apply(fresh), y_fresh).mean() for at in fitted])
        for name, luck in lucky.items():
            optimism.setdefault(name, []).append(luck - (outside - inside / y.size))
    for name in ("bcts 10", "bcts 1", "bcts 0.1", "ms 100", "ms 10", "ms 1", "ms 0.1"):
        mean, spread = np.mean(optimism[name]), np.std(optimism[name], ddof=1)
        assert mean < 2.5 * spread / np.sqrt(draws), name


@pytest.mark.parametrize(("n_classes", "matrices"), [(2, False), (3, True)])
def test_weights_by_hand(simulate, rng, n_classes, matrices):
    """A fourteenth per map with parameters, the rest to those without; by likelihood out of fold.

    Two classes have no matrices: a slope and a bias is all that can be told apart.
    """
    world = simulate(n_classes, spread=1.2)
    y_proba, y = world.draw(world.source_priors, 120, rng)
    found = averaged(y_proba, y)
    assert any(name.startswith("ms") for name in found.nats) is matrices
    plain = {name for name in found.nats if name.endswith("none")}
    rest = (1 - (len(found.nats) - len(plain)) / 14) / len(plain)
    scores = {name: np.exp(-nats) * (rest if name in plain else 1 / 14)
              for name, nats in found.nats.items()}  # fmt: skip
    kept = np.array([scores[one.name] for one in found.average.maps])
    assert kept.size > 2
    np.testing.assert_allclose(found.average.weights, kept / kept.sum(), rtol=1e-6)


def test_maps_to_an_even_balance_are_tried_where_labels_are_uneven(simulate, rng):
    world = simulate(3, spread=1.2)
    for shares, tried in (([1 / 3] * 3, False), ([0.6, 0.3, 0.1], True)):
        y_proba, y = world.draw(np.array(shares), 150, rng)
        found = averaged(y_proba, y, np.array(shares))
        assert ("balanced none" in found.nats) is tried


def test_the_map_without_parameters_changes_nothing(simulate, rng):
    """Also of outputs that are too sure, whose likelihood is scaled by their temperature."""
    world = simulate(3, spread=1.2)
    y_proba, y = world.draw(world.source_priors, 60, rng)
    y_proba = bent(y_proba, 1.2, np.zeros(3))
    (same,) = (one for one in averaged(y_proba, y).average.maps if one.name == "none")
    np.testing.assert_allclose(same.apply(y_proba), y_proba, atol=1e-9)
