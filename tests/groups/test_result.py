"""GroupEstimates: a group by its name, rows adapted by group, frames, text."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import priorshift as ps
from priorshift.exceptions import PriorShiftWarning
from priorshift.groups import GroupEstimates, estimate_groups, pooling_in_words

SITES = np.array(["a<b>", "b", "c", "d", "e"])


@pytest.fixture
def data(grouped):
    return grouped()


@pytest.fixture
def found(data):
    est = data.fit("scm-l")
    return estimate_groups(est, data.y_proba, SITES[data.groups], confidence_level=0.9)


def test_a_group_is_a_prior_estimate(found, data):
    one = found["c"]
    assert isinstance(one, ps.PriorEstimate)
    np.testing.assert_array_equal(one.priors, found.priors[2])
    np.testing.assert_array_equal(one.interval, found.interval[2])
    np.testing.assert_array_equal(one.standard_error, found.standard_error[2])
    assert (one.n_target, one.confidence_level, one.method) == (200, 0.9, "scm-l")
    assert (one.status, one.gap) == ("certified", found.gap[2])
    np.testing.assert_allclose(one.ratio, found.ratio[2])
    np.testing.assert_allclose(one.ratio, one.priors / data.source_priors)
    assert "c" in found
    assert "z" not in found
    assert list(found) == SITES.tolist()
    assert len(found) == 5
    with pytest.raises(ValueError, match="no estimate for group 'z'"):
        found["z"]


def test_labels_are_labels_also_where_they_are_numbers(data):
    groups = np.array([30, 10, 20, 50, 40])[data.groups]
    found = estimate_groups(data.fit("scm-l"), data.y_proba, groups)
    assert found.groups.tolist() == [10, 20, 30, 40, 50]
    assert found[30].n_target == 80
    with pytest.raises(ValueError, match="no estimate for group 0"):
        found[0]


@pytest.mark.parametrize("from_logits", [False, True])
def test_each_row_is_adapted_by_its_group(found, data, from_logits):
    labels = SITES[data.groups]
    given = np.log(data.y_proba) + 1 if from_logits else data.y_proba
    adapted = found.adapt(given, labels, from_logits=from_logits)
    for site in SITES:
        rows = labels == site
        expected = found[site].adapt(given[rows], from_logits=from_logits)
        np.testing.assert_allclose(adapted[rows], expected, atol=1e-12)
    np.testing.assert_allclose(adapted.sum(axis=1), 1)


def test_single_precision_and_blocks(found, data, monkeypatch):
    from priorshift.adapt import _adapt

    labels = SITES[data.groups]
    whole = found.adapt(data.y_proba, labels)
    single = found.adapt(data.y_proba.astype(np.float32), labels)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, whole, atol=1e-6)
    blocks = _adapt.row_blocks
    monkeypatch.setattr(_adapt, "row_blocks", lambda n, K: blocks(n, K, 500))
    np.testing.assert_array_equal(found.adapt(data.y_proba, labels), whole)


def test_groups_without_an_estimate(found, data):
    labels = SITES[data.groups]
    labels[3] = "new"
    with pytest.raises(ValueError, match="no estimate for group 'new'"):
        found.adapt(data.y_proba, labels)
    adapted = found.adapt(data.y_proba, labels, unknown="pooled")
    np.testing.assert_allclose(adapted[3], found.pooled.adapt(data.y_proba[[3]])[0])
    with pytest.raises(ValueError, match="unknown must be one of"):
        found.adapt(data.y_proba, labels, unknown="guess")


def test_a_row_that_no_class_is_left_of_is_kept():
    cm = ps.CML().fit(np.eye(2)[[0, 1]], [0, 1])
    found = estimate_groups(cm, np.eye(2)[[0, 0, 1, 1]], ["a", "a", "b", "b"], pooling=None)
    with pytest.warns(PriorShiftWarning, match="1 of 2 rows have no class left"):
        adapted = found.adapt(np.eye(2)[[0, 0]], ["a", "b"])
    np.testing.assert_array_equal(adapted, np.eye(2)[[0, 0]])


def test_frames(found):
    long = found.to_frame()
    assert isinstance(long, pd.DataFrame)
    assert len(long) == 20
    at = long[(long["group"] == "b") & (long["class"] == 2)].iloc[0]
    assert at["prior"] == found.priors[1, 2]
    assert (at["lower"], at["upper"]) == tuple(found.interval[1, 2])
    assert at["n"] == 5
    assert at["ratio"] == found.ratio[1, 2]
    wide = found.to_frame(wide=True, backend="polars")
    assert isinstance(wide, pl.DataFrame)
    assert wide.shape == (5, 6 + 3 * 4)
    assert wide["prior:2"].to_list() == found.priors[:, 2].tolist()
    assert wide["upper:0"].to_list() == found.interval[:, 0, 1].tolist()
    assert wide["status"].to_list() == ["certified"] * 5


def test_it_is_frozen_and_survives_pickling(found):
    with pytest.raises(ValueError, match="read-only"):
        found.priors[0, 0] = 1
    with pytest.raises(AttributeError):
        found.pooling = 3
    again = pickle.loads(pickle.dumps(found))
    assert isinstance(again, GroupEstimates)
    np.testing.assert_array_equal(again.priors, found.priors)
    assert not again.priors.flags.writeable
    assert again.pooled.method == "scm-l"


@pytest.mark.parametrize(
    ("pooling", "said"),
    [
        (0.0, "not pooled"),
        (11.64, "if 11.6 more"),
        (8371.2, "if 8,371 more"),
        (np.inf, "completely"),
    ],
)
def test_pooling_is_said_in_rows(pooling, said):
    assert said in pooling_in_words(pooling)


def test_text(found, grouped):
    text = repr(found)
    assert text.startswith("GroupEstimates(method='scm-l', n_groups=5, n_classes=4, n_target=326)")
    assert "more rows of every group followed the pooled priors" in text
    assert "5 certified; source priors: given" in text
    many = grouped(sizes=(30,) * 40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PriorShiftWarning)
        shown = repr(estimate_groups(many.fit("cm"), many.y_proba, many.groups, pooling=None))
    assert "... the 10 of 40 groups that moved most" in shown
    assert "not pooled" in shown
    assert "40 direct" in shown


def test_distance_is_the_total_variation_from_the_pooled_priors(found):
    oracle = 0.5 * np.abs(found.priors - found.pooled.priors).sum(axis=1)
    np.testing.assert_allclose(found.distance, oracle)


def test_a_group_does_not_carry_what_only_all_rows_have(grouped):
    data = grouped()
    with pytest.warns(PriorShiftWarning, match="negative entries"):
        found = estimate_groups(data.fit("scm"), data.y_proba, data.groups, pooling=None)
    assert found.whole.raw is not None
    assert found[2].raw is None
    assert found[2].objective is None
