"""Backtest: labelled groups of the past, under prior shift and covariate shift."""

import json
import pickle
from datetime import date

import numpy as np
import pytest

import priorshift as ps
from priorshift.evidence import name_groups


def prior_shift(rng, shares, n=500):
    """Two classes whose features stay; scores of a model trained at even shares."""
    groups = np.repeat(np.arange(len(shares)), n)
    y = (rng.uniform(size=groups.size) < np.asarray(shares)[groups]).astype(int)
    return 1 / (1 + np.exp(-1.5 * rng.normal(1.5 * y - 0.75))), y, groups


def covariate_shift(rng, centres, n=500):
    """Cases move, their risk given the score stays."""
    groups = np.repeat(np.arange(len(centres)), n)
    x = rng.normal(size=groups.size) + np.asarray(centres)[groups]
    risk = 1 / (1 + np.exp(-x))
    return risk, (rng.uniform(size=risk.size) < risk).astype(int), groups


@pytest.fixture(scope="module")
def helpful():
    rng = np.random.default_rng(0)
    return ps.backtest(*prior_shift(rng, [0.5, 0.15, 0.85, 0.2, 0.8, 0.1, 0.9]), random_state=0)


@pytest.fixture(scope="module")
def harmful():
    rng = np.random.default_rng(1)
    return ps.backtest(*covariate_shift(rng, [0, 0.8, -0.8, 1, -1, 0.9]), random_state=0)


def test_it_says_what_would_have_helped(helpful, harmful):
    assert helpful.verdict == "adapt"
    assert helpful.ruling.action == "adapt"
    assert np.mean([group.gains["adapt"] for group in helpful.groups]) > 0.03
    assert helpful.off["prior_shift"] < helpful.off["calibrated_mean"] < helpful.off["unchanged"]
    assert harmful.verdict in ("leave", "unclear")
    assert np.mean([group.gains["adapt"] for group in harmful.groups]) < 0
    assert harmful.off["calibrated_mean"] < harmful.off["prior_shift"]
    assert "adapting would have lost" in harmful.sentence


def test_readings_are_weighed_by_how_far_they_were_off(helpful, harmful):
    prior, mean, _ = helpful.weights()
    assert prior > mean
    prior, mean, _ = harmful.weights()
    assert mean > prior
    assert harmful.spread(0.95).shape == (2,)
    assert (harmful.spread(0.95) > harmful.spread(0.5)).all()


def test_groups_in_order_see_earlier_ones_only(helpful):
    rng = np.random.default_rng(0)
    P, y, groups = prior_shift(rng, [0.5, 0.15, 0.85, 0.2, 0.8, 0.1, 0.9])
    assert [group.name for group in helpful.groups] == list("123456")
    early = groups < 4
    part = ps.backtest(P[early], y[early], groups[early], random_state=0)
    for one, same in zip(part.groups, helpful.groups, strict=False):
        assert one.gains == same.gains  # the future makes no difference
    names = np.array(list("abcdefg"))[groups]
    others = ps.backtest(P, y, names, random_state=0)
    assert len(others.groups) == 7
    assert not others.ordered


def test_gains_are_those_of_fitting_and_adapting_by_hand():
    rng = np.random.default_rng(2)
    P, y, groups = prior_shift(rng, [0.5, 0.2, 0.7], 400)
    found = ps.backtest(P, y, groups).groups[-1]
    past, here = groups < 2, groups == 2
    shift = ps.Auto().fit(P[past], y[past]).estimate(P[here])
    full = shift.with_action("adapt").adapt(P[here])
    right = [((one > 0.5) == y[here]).mean() for one in (P[here], full)]
    assert found.gains["adapt"] == pytest.approx(right[1] - right[0])
    truth = np.bincount(y[here]) / 400
    assert found.off[0] == pytest.approx(np.abs(shift.priors - truth).sum() / 2)


def test_small_groups_are_pooled_and_few_give_no_verdict():
    rng = np.random.default_rng(3)
    P, y, _ = prior_shift(rng, [0.5, 0.3], 300)
    groups = np.repeat([1, 2, 3, 4, 5], [200, 60, 60, 220, 60])
    found = ps.backtest(P, y, groups)
    assert [group.name for group in found.groups] == ["2 to 3", "4 to 5"]
    assert found.n_groups == 3
    assert found.verdict is None
    assert "too few for a verdict" in found.sentence


def test_bounds_are_students():
    rng = np.random.default_rng(4)
    found = ps.backtest(*prior_shift(rng, [0.5, 0.3, 0.6, 0.4, 0.5], 200))
    gains = [group.gains["adapt"] for group in found.groups]
    one_sided = found.gains["adapt"].less(1.64)
    expected = np.mean(gains) - 2.353 * np.std(gains, ddof=1) / 2  # t of 3 degrees of freedom
    assert one_sided == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_a_frame_a_dict_a_picture_and_a_pickle(helpful):
    frame = helpful.to_frame()
    assert frame["group"].tolist() == list("123456")
    assert {"gain_adapt", "gain_calibrate", "off_prior_shift"} <= set(frame.columns)
    told = json.loads(json.dumps(helpful.to_dict()))
    assert told["verdict"] == "adapt"
    assert len(told["groups"]) == 6
    assert pickle.loads(pickle.dumps(helpful)).to_dict() == helpful.to_dict()
    assert helpful.sentence in repr(helpful)
    plt = pytest.importorskip("matplotlib.pyplot")
    axes = helpful.plot()
    assert len(axes.patches) == 12
    plt.close("all")


@pytest.mark.parametrize(
    ("values", "in_time"),
    [
        ([3, 1, 2], True),
        ([0.5, 1.5, 2.5], True),
        (["2024-01", "2024-02", "2024-03"], True),
        (np.array(["2024-01-05", "2024-01-06", "2024-01-07"], "datetime64[D]"), True),
        ([date(2024, 1, 5), date(2024, 1, 6), date(2024, 1, 7)], True),
        (["north", "south", "west"], False),
    ],
)
def test_numbers_and_dates_have_an_order(values, in_time):
    assert name_groups(values, 3, None)[2] is in_time
    assert name_groups(values, 3, not in_time)[2] is not in_time


def test_groups_that_cannot_be_are_refused():
    P, y = np.full(4, 0.5), [0, 1, 0, 1]
    with pytest.raises(ValueError, match="groups has 2 labels but there are 4 rows"):
        ps.backtest(P, y, [1, 2])
    with pytest.raises(ValueError, match="groups has no label at position 2"):
        ps.backtest(P, y, [1, 2, np.nan, 2])
    with pytest.raises(ValueError, match="at least two"):
        ps.backtest(P, y, ["a"] * 4)


def test_groups_that_are_no_names_are_refused():
    odd = np.empty(300, dtype=object)
    odd[:] = [["a"], ["b"], "c"] * 100
    with pytest.raises(ValueError, match="groups mixes strings with other labels"):
        ps.backtest(np.full((300, 2), 0.5), np.arange(300) % 2, odd)


def test_rows_that_make_one_group_are_refused():
    y_proba, y = np.full((120, 2), 0.5), np.arange(120) % 2
    with pytest.raises(ValueError, match="at least two of 100 rows; all 120 rows make one"):
        ps.backtest(y_proba, y, np.arange(120) % 4)
