"""Guards against predictions that are not what they seem: other orders, no names, repeats."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

import priorshift as ps
from priorshift.border import (
    Predictions,
    SparseTable,
    Table,
    check_source_mass,
    encode_labels,
)

NAMES = np.array(["cat", "dog", "elk", "fox"])


def draw(rng, n, K=4, signal=0.6, priors=None):
    y = rng.choice(K, size=n, p=priors)
    return (1 - signal) * rng.dirichlet(np.ones(K), n) + signal * np.eye(K)[y], y


@pytest.mark.parametrize(
    "frame", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"]
)
def test_an_array_after_a_frame_is_warned_of(rng, frame):
    y_proba, y = draw(rng, 200)
    given = frame(dict(zip(NAMES, y_proba.T, strict=True)))
    est = ps.SCML().fit(given, NAMES[y])
    with pytest.warns(ps.PriorShiftWarning, match=r"y_proba has no column names, .* 'cat', 'dog'"):
        est.estimate(y_proba)
    with pytest.warns(ps.PriorShiftWarning, match="a frame came before it"):
        est.adapt(y_proba)
    with pytest.warns(ps.PriorShiftWarning, match="y_proba_target has no column names"):
        ps.assess(given, NAMES[y], y_proba, method="scm-l")
    with pytest.warns(ps.PriorShiftWarning, match="y_proba_target has no column names"):
        ps.check_assumption(given, NAMES[y], y_proba)
    shift = est.estimate(given, confidence_level=0.9)
    for adapt in (shift.adapt, shift.adapt_interval, ps.assess(given, NAMES[y], given).adapt):
        with pytest.warns(ps.PriorShiftWarning, match="y_proba has no column names"):
            adapt(y_proba)


def test_nothing_else_is_warned_of(rng):
    y_proba, y = draw(rng, 200)
    frame = pd.DataFrame(y_proba, columns=NAMES)
    est = ps.SCML().fit(frame, NAMES[y])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        est.estimate(frame).adapt(frame)
        ps.PriorEstimate.from_dict(est.estimate(frame).to_dict()).adapt(y_proba)
        ps.SCML().fit(y_proba, NAMES[y]).estimate(y_proba).adapt(y_proba)
        ps.SCML().fit(y_proba, NAMES[y]).estimate(y_proba)
        ps.SCML().fit(y_proba, NAMES[y]).estimate(frame)
        ps.SCML().fit(pd.DataFrame(y_proba), y).estimate(y_proba)  # numbered by pandas
        ps.assess(frame, NAMES[y], frame, method="scm-l")
        binary = ps.SCML().fit(pd.Series(y_proba[:, 0]), y == 0)
        binary.estimate(y_proba[:, 0])


@pytest.mark.parametrize("order", [[1, 0, 2, 3], [3, 0, 1, 2], [2, 3, 0, 1]])
@pytest.mark.parametrize("method", [ps.SCML, ps.EM, ps.Auto])
def test_columns_in_another_order_are_named(rng, order, method):
    y_proba, y = draw(rng, 400)
    found, moved = ", ".join(map(repr, NAMES[order].tolist())), y_proba[:, order]
    before, after = ((one.argmax(axis=1) == y).mean() for one in (moved, y_proba))
    said = f"different order .* is {before:.0%}, but {after:.0%} if the columns were {found}"
    with pytest.warns(ps.PriorShiftWarning, match=said):
        method().fit(moved, NAMES[y])


@pytest.mark.parametrize(("K", "n"), [(2, 30_000), (10, 30_000), (10, 5000), (200, 30_000)])
@pytest.mark.parametrize("sort", [np.sort, lambda y: np.arange(y.size) % (y.max() + 1)])
def test_another_order_is_found_among_many_rows(rng, K, n, sort):
    """However rows are sorted: only some of them are looked at first."""
    y = sort(rng.integers(K, size=n))
    decided = np.where(rng.random(n) < 0.7, y, rng.integers(K, size=n))
    y_proba, order = np.eye(K)[decided] * 0.6 + 0.4 / K, np.roll(np.arange(K), 1)
    fit = ps.NoAdaptation().fit
    with pytest.warns(ps.PriorShiftWarning, match=r"different order .* accuracy on validation is"):
        fit(y_proba[:, order], y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(y_proba, y)


def test_assess_says_so_first_of_all_else(rng):
    y_proba, y = draw(rng, 400)
    found = ps.assess(y_proba[:, [1, 0, 2, 3]], NAMES[y], y_proba, method="scm-l")
    assert any("different order from the classes" in reason for reason in found.reasons)


@pytest.mark.parametrize("K", [2, 10, 100])
@pytest.mark.parametrize("n", [20, 100, 2000])
def test_chance_finds_no_order(K, n):
    """A model that knows nothing, one that prefers a class, and one that is often right."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        y = rng.integers(K, size=n)
        y[: min(K, n)] = np.arange(min(K, n))
        for signal, favour in ((0.0, 0.0), (0.0, 5.0), (0.3, 0.0)):
            y_proba, _ = draw(rng, n, K, 0.0)
            y_proba = y_proba + signal * np.eye(K)[y] + favour * np.eye(K)[0]
            y_proba /= y_proba.sum(axis=1, keepdims=True)
            with warnings.catch_warnings():
                warnings.filterwarnings("error", "the columns seem")
                warnings.filterwarnings("ignore", "", ps.PriorShiftWarning)
                warnings.filterwarnings("error", "the columns seem")
                ps.NoAdaptation().fit(y_proba, y, classes=np.arange(K))


def test_a_model_that_prefers_one_of_two_classes_is_not_called_mixed_up(rng):
    """Nearly all labels are 0, nearly all decisions 1: accuracy alone would ask for a swap."""
    y = (rng.random(1000) < 0.05).astype(int)
    p = np.where(rng.random(1000) < 0.9, 0.6, 0.3) + 0.05 * y
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "the columns seem")
        ps.NoAdaptation().fit(p, y)


def test_repeated_rows_are_said(rng):
    y_proba, y = draw(rng, 600)
    target, _ = draw(rng, 150)
    repeated = np.tile(target, (4, 1))
    test = ps.check_assumption(y_proba, NAMES[y], repeated, random_state=0)
    assert "repeated rows" in str(test)
    found = ps.assess(y_proba, NAMES[y], repeated, method="scm-l")
    assert any("The target has 450 repeated rows" in reason for reason in found.reasons)
    found = ps.assess(y_proba, NAMES[y], target, method="scm-l")
    assert not any("repeated rows" in reason for reason in found.reasons)


def test_labels_that_differ_only_by_case_are_named():
    y_pred, y = np.array(["PASS", "fail", "pass"] * 9), np.array(["pass", "fail", "pass"] * 9)
    said = r"labels differ only by case: 'PASS', 'pass'; spell them alike"
    with pytest.warns(ps.PriorShiftWarning, match=said):
        ps.CML().fit(y_pred=y_pred, y=y)
    y_proba = np.random.default_rng(0).dirichlet(np.ones(3), y.size)
    with pytest.warns(ps.PriorShiftWarning, match=said):
        ps.CML().fit(y_proba, y_pred)
    with pytest.raises(ValueError, match=r"outside classes: 'PASS'.*These " + said):
        ps.CML().fit(y_proba[:, 0], y_pred, classes=["fail", "pass"])
    ps.CML().fit(y_proba, np.array(["a", "A", "b"] * 9))  # letters may


@pytest.mark.parametrize("label", [0.5, -1, 2, 1e9])
def test_only_positions_are_taken_for_classes_that_are_numbered(label):
    labels = np.array([0, 1, label])
    with pytest.raises(ValueError, match=r"outside classes: .* at position 2 \(1 such labels\)"):
        encode_labels(labels, np.arange(2))
    found = encode_labels(np.array([1.0, 0.0]), np.arange(2))
    assert found.dtype == np.intp
    assert found.tolist() == [1, 0]


def test_many_decisions_are_no_matrix():
    few, many = (Predictions.from_decisions(np.arange(n) % 4096, 4096) for n in (4096, 4097))
    assert isinstance(few.values, np.ndarray)
    assert isinstance(many.values, Table)
    assert many.take(np.array([4095, 4096])).values.argmax(axis=1).tolist() == [4095, 0]


def test_a_trend_of_next_to_nothing_leaves_room(recwarn):
    classes, even = np.array(["a", "b"]), np.array([0.5, 0.5])
    scores, base = csr_array((1, 2)), np.array([0.5])
    check_source_mass(even, SparseTable(scores, base, np.array([5e-324, 1.0])), classes)
    assert not recwarn.list
    with pytest.raises(ValueError, match="which rounding loses"):
        check_source_mass(even, SparseTable(scores, base, np.array([1e12, 1.0])), classes)
