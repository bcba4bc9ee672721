"""Maps, averages of them, and floors, against plain formulas."""

import pickle

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from priorshift.border import ArrayTable, Table, take_rows
from priorshift.calibration import TINY, CalibrationAverage, CalibrationMap
from priorshift.calibration import maps as maps_module
from priorshift.calibration.average import FLOOR_COST, Labelled, best_floor, floored_likelihood
from priorshift.calibration.likelihood import ScoreMap, deal_folds, rebalance

K = 3


@pytest.fixture
def y_proba():
    return np.random.default_rng(0).dirichlet(np.full(K, 0.4), size=200)


@pytest.fixture
def maps():
    rng = np.random.default_rng(1)
    slopes = [np.full(K, 0.5), rng.uniform(0.5, 2, K), np.eye(K) + 0.1 * rng.normal(size=(K, K))]
    floors = [0.0, 1e-3, np.array([1e-2, 1e-3, 1e-4])]
    return tuple(
        CalibrationMap(name, slope, rng.normal(size=K), floor)
        for name, slope, floor in zip(("ts", "vs", "ms"), slopes, floors, strict=True)
    )


def by_hand(one, y_proba):
    slope = np.diag(one.slope) if one.slope.ndim == 1 else one.slope
    return softmax(np.log(np.maximum(y_proba + one.floor, TINY)) @ slope + one.bias, axis=1)


@pytest.mark.parametrize("which", range(3), ids=["ts", "vs", "ms"])
def test_a_map_is_its_formula(y_proba, maps, which):
    applied = maps[which].apply(y_proba)
    np.testing.assert_allclose(applied, by_hand(maps[which], y_proba), rtol=1e-10)
    from_logits = maps[which].apply(np.log(y_proba) + 3.0, from_logits=True)
    np.testing.assert_allclose(from_logits, applied, rtol=1e-9)


def test_an_average_is_one_of_probabilities(y_proba, maps):
    weights = (0.2, 0.5, 0.3)
    average = CalibrationAverage(maps, weights)
    expected = sum(w * by_hand(one, y_proba) for w, one in zip(weights, maps, strict=True))
    np.testing.assert_allclose(average.apply(y_proba), expected, rtol=1e-10)
    np.testing.assert_allclose(average.apply(y_proba).sum(axis=1), 1)
    assert average.name == "vs"
    copy = pickle.loads(pickle.dumps(average))
    np.testing.assert_array_equal(copy.apply(y_proba), average.apply(y_proba))


def test_precision_stays_as_it_was(y_proba, maps):
    average = CalibrationAverage(maps, (0.2, 0.5, 0.3))
    for one in (*maps, average):
        single = one.apply(y_proba.astype(np.float32))
        assert single.dtype == np.float32
        assert one.apply(y_proba).dtype == np.float64
        np.testing.assert_allclose(single, one.apply(y_proba), atol=1e-5)


def test_inputs_are_left_alone_and_blocks_do_not_matter(y_proba, maps, monkeypatch):
    average, copy = CalibrationAverage(maps, (0.2, 0.5, 0.3)), y_proba.copy()
    expected = average.apply(y_proba)
    np.testing.assert_array_equal(y_proba, copy)
    blocks = maps_module.row_blocks
    monkeypatch.setattr(maps_module, "row_blocks", lambda n, k: blocks(n, k, block_bytes=7 * 8 * k))
    np.testing.assert_allclose(average.apply(y_proba), expected, rtol=1e-12)


def test_a_table_stays_one(y_proba, maps):
    average = CalibrationAverage(maps, (0.2, 0.5, 0.3))
    table = average.apply(ArrayTable(y_proba))
    assert isinstance(table, Table)
    read = take_rows(table, np.arange(y_proba.shape[0]))
    np.testing.assert_allclose(read, average.apply(y_proba), rtol=1e-12)


def test_zeros_end_finite(maps):
    for one in maps:
        for dtype in (np.float32, np.float64):
            applied = one.apply(np.array([[1, 0, 0], [0, 1, 0]], dtype=dtype))
            assert np.isfinite(applied).all()
            np.testing.assert_allclose(applied.sum(axis=1), 1, rtol=1e-5)


# Floors


def test_zeros_that_happen_ask_for_a_floor(y_proba):
    rng = np.random.default_rng(2)
    y = np.array([rng.choice(K, p=p) for p in y_proba])
    sparse = np.where(y_proba < 0.2, 0.0, y_proba)
    sparse /= sparse.sum(axis=1, keepdims=True)
    weight, offset = np.ones(y.size), np.zeros(K)
    floors = (0.0, 1e-4, 1e-2, 0.1)
    slope, chosen = best_floor(Labelled(sparse, y, weight, offset), 1.0, floors)
    assert chosen > 0
    best, expected = [], []
    for floor in floors:
        z = np.log(np.maximum(sparse + floor, TINY))
        slopes = np.exp(np.linspace(-5, 2, 2000))
        of_label = np.arange(y.size), y
        losses = [-log_softmax(s * z, axis=1)[of_label].sum() + np.log(s) ** 2 / 2 for s in slopes]
        best.append(slopes[int(np.argmin(losses))])
        expected.append(min(losses) + FLOOR_COST * (floor > 0))
    at = int(np.argmin(expected))
    assert chosen == floors[at]
    assert slope == pytest.approx(best[at], rel=0.01)


def test_outputs_without_zeros_need_none(y_proba):
    rng = np.random.default_rng(2)
    y = np.array([rng.choice(K, p=p) for p in y_proba])
    rows = Labelled(y_proba, y, np.ones(y.size), np.zeros(K))
    slope, floor = best_floor(rows, 1.0, (0.0, 1e-6, 1e-4, 1e-2))
    assert floor == 0
    assert slope == pytest.approx(1, abs=0.3)


def test_a_fixed_bias_may_be_better():
    rng = np.random.default_rng(0)
    truth = np.array([0.9, 0.08, 0.02])
    y_proba = rng.dirichlet(np.ones(K), size=2000)
    posterior = softmax(np.log(y_proba) + np.log(K * truth), axis=1)
    y = np.array([rng.choice(K, p=p) for p in posterior])
    biases = (np.zeros(K), np.log(K * truth))
    rows = Labelled(y_proba, y, np.ones(y.size), np.zeros(K))
    slope, _ = best_floor(rows, 1.0, (0.0,), biases)
    assert slope == pytest.approx(1, abs=0.1)
    plain, _ = best_floor(rows, 1.0, (0.0,))
    assert abs(plain - 1) > 0.1


def test_the_likelihood_above_a_floor(y_proba):
    y, weight, offset = np.arange(200) % K, np.ones(200), np.array([0.1, 0.2, -0.3])
    floor = np.array([0.01, 0.02, 0.03])
    likelihood = floored_likelihood(
        Labelled(y_proba, y, weight, offset), floor, scale=0.5, dtype=np.float64
    )
    at = ScoreMap(np.array([1.0, 2.0, 0.5]), np.array([0.3, 0.0, -0.3]))
    z = 0.5 * (np.log(y_proba + floor) - np.log((y_proba + floor).sum(axis=1, keepdims=True)))
    expected = -log_softmax(z * at.slope + at.bias + offset, axis=1)[np.arange(200), y].sum()
    assert likelihood.value(at) == pytest.approx(expected, rel=1e-12)


# The balance of labels


@pytest.mark.parametrize("balance", ["offset", "weights"])
def test_labels_stand_for_a_draw_from_priors(balance):
    y, weight = np.repeat([0, 1, 2], [10, 20, 70]), np.ones(100)
    priors = np.array([0.5, 0.5, 0.0])
    new_weight, offset = rebalance(y, weight, priors, balance)
    counts = np.bincount(y, new_weight, K)
    assert counts[2] == 0  # a class without a prior has no part in it
    if balance == "weights":
        np.testing.assert_allclose(counts / counts.sum(), priors)
        np.testing.assert_array_equal(offset, 0)
    else:
        np.testing.assert_array_equal(counts, [10, 20, 0])
        np.testing.assert_allclose(offset[:2], np.log([0.1 / 0.5, 0.2 / 0.5]))
        assert np.exp(offset[2]) == 0


def test_more_folds_than_rows_are_dealt():
    assert sorted(deal_folds(np.zeros(3, dtype=int), 3, True, None)) == [0, 1, 2]
