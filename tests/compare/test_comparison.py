"""Methods side by side: their scores, how far they agree, and how that is shown."""

import json
import time
from dataclasses import astuple
from itertools import count

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn import metrics

import priorshift as ps
from priorshift.compare import COLUMNS, Comparison, MethodResult, Scores, compare, score_adapted

CLASSES = np.array(["ant", "bee", "<cow>"])


@pytest.fixture
def data(simulate, rng):
    world = simulate(3)
    y_proba_val, y_val = world.draw(world.source_priors, 300, rng)
    y_proba, y = world.draw(np.array([0.6, 0.3, 0.1]), 200, rng)
    return y_proba_val, CLASSES[y_val], y_proba, CLASSES[y]


def make(priors, method="em", **more):
    """Make a method's result by hand."""
    priors = np.asarray(priors)
    even = np.full(priors.size, 1 / priors.size)
    estimate = ps.PriorEstimate(method, np.arange(priors.size), priors, even, "given", "direct")
    return MethodResult(method, estimate, None, 0.001, **more)


# Scores


def score(y_proba, y, priors, *, classes):
    """Score adapted predictions and estimated priors against labels."""
    index = np.array([list(classes).index(label) for label in y])
    return score_adapted(make(priors).estimate, np.asarray(y_proba), index, adapts=False)


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(1, 40))
def test_scores_are_those_of_scikit_learn(seed, K, n):
    rng = np.random.default_rng(seed)
    y_proba, y = rng.dirichlet(np.ones(K), n), rng.integers(0, K, n)
    priors = rng.dirichlet(np.ones(K))
    found = score(y_proba, y, priors, classes=np.arange(K))
    decided = y_proba.argmax(axis=1)
    recalls = metrics.recall_score(y, decided, labels=np.unique(y), average=None, zero_division=0)
    assert found.accuracy == pytest.approx(metrics.accuracy_score(y, decided))
    assert found.balanced_accuracy == pytest.approx(recalls.mean())
    assert found.log_loss == pytest.approx(metrics.log_loss(y, y_proba, labels=np.arange(K)))
    shares = np.array([(y == k).mean() for k in range(K)])
    assert found.l1_error == pytest.approx(np.abs(priors - shares).sum())


def test_balanced_accuracy_is_that_of_scikit_learn(data):
    _, _, y_proba, y = data
    found = score(y_proba, y, [0.6, 0.3, 0.1], classes=CLASSES)
    decided = CLASSES[y_proba.argmax(axis=1)]
    assert found.balanced_accuracy == pytest.approx(metrics.balanced_accuracy_score(y, decided))


def test_an_impossible_class_has_the_log_loss_of_the_smallest_step():
    found = score([[1.0, 0.0]], [1], [1.0, 0.0], classes=[0, 1])
    assert found.log_loss == pytest.approx(-np.log(np.finfo(float).eps))
    assert astuple(found)[:2] == (0.0, 0.0)
    assert found.l1_error == 2


# compare


def test_every_method_runs_and_is_scored(data, monkeypatch):
    y_proba_val, y_val, y_proba, y = data
    monkeypatch.setattr(time, "perf_counter", count().__next__)
    comparison = compare(y_proba_val, y_val, y_proba, y, classes=CLASSES)
    every = ps.available_estimators(target_labels=True)
    assert [result.method for result in comparison.results] == every
    assert every[-1] == "ppi"
    for result in comparison.results[:-1]:
        est = ps.get_estimator(result.method).fit(y_proba_val, y_val, classes=CLASSES)
        shift = est.estimate(y_proba)
        np.testing.assert_array_equal(result.estimate.priors, shift.priors)
        expected = score(shift.adapt(y_proba), y, shift.priors, classes=CLASSES)
        assert astuple(result.scores) == pytest.approx(astuple(expected), abs=1e-12)
        assert result.seconds == 1  # the clock was read twice
        assert result.error is None
    np.testing.assert_array_equal(comparison.truth, ps.priors_from_labels(y, classes=CLASSES))
    assert list(comparison.estimates) == every


def test_ppi_is_shown_where_there_are_labels(data):
    y_proba_val, y_val, y_proba, y = data
    some = np.where(np.arange(y.size) < 60, y.astype(object), None)
    comparison = compare(
        y_proba_val, y_val, y_proba, some, classes=CLASSES, methods=["na", "scm-l", "ppi"]
    )
    *others, ppi = comparison.results
    expected = ps.PPI().fit(classes=CLASSES).estimate(y_proba, y_target=some)
    np.testing.assert_array_equal(ppi.estimate.priors, expected.priors)
    assert ppi.scores.l1_error is None  # it used the labels
    np.testing.assert_array_equal(comparison.truth, ps.priors_from_labels(y[:60], classes=CLASSES))
    for result in others:
        adapted = result.estimate.adapt(y_proba)[:60]
        expected = score(adapted, y[:60], result.estimate.priors, classes=CLASSES)
        assert astuple(result.scores) == pytest.approx(astuple(expected), abs=1e-12)
    assert "by the target's labels ppi" not in comparison.conclusion.lower()
    header, rows = comparison.table()
    assert rows[-1][header.index("L1 error")] == ""
    without = compare(y_proba_val, y_val, y_proba, classes=CLASSES, methods=["ppi"])
    assert "y_target=" in without.results[0].error


def test_a_sparse_target_is_scored_as_the_array_is(data):
    *validation, y_proba, y = data
    y_proba = np.where(y_proba < 0.05, 0, y_proba)
    y_proba /= y_proba.sum(axis=1, keepdims=True)
    dense, sparse = (
        compare(*validation, target, y_target=y, methods=["na", "scm-l"], classes=CLASSES)
        for target in (y_proba, csr_array(y_proba))
    )
    for one, other in zip(dense.results, sparse.results, strict=True):
        scored = (astuple(result.scores)[:4] for result in (one, other))
        np.testing.assert_allclose(*scored, atol=1e-4)


def test_em_with_labels_uses_those_of_a_partly_labelled_target(data):
    """All labels are kept to judge methods by; some are there to be used."""
    y_proba_val, y_val, y_proba, y = data
    some = np.where(np.arange(y.size) < 60, y.astype(object), None)
    fitted = ps.SemiSupervisedEM().fit(y_proba_val, y_val, classes=CLASSES)
    for labels, used in ((some, {"y_target": some}), (y, {})):
        comparison = compare(
            y_proba_val, y_val, y_proba, labels, classes=CLASSES, methods=["na", "em-labels"]
        )
        na, found = comparison.results
        expected = fitted.estimate(y_proba, **used)
        np.testing.assert_array_equal(found.estimate.priors, expected.priors)
        assert (found.scores.l1_error is None) == bool(used)
        assert na.scores.l1_error is not None
        assert not used or "labels na is most accurate" in comparison.conclusion


def test_costs_are_what_the_decisions_cost(data):
    y_proba_val, y_val, y_proba, y = data
    costs = {("ant", "bee"): 7, ("<cow>", "ant"): 3}
    comparison = compare(
        y_proba_val, y_val, y_proba, y, classes=CLASSES, methods=["na", "em"], costs=costs
    )
    price = {(true, d): float(true != d) for true in CLASSES for d in CLASSES} | costs
    paid = {}
    for result in comparison.results:
        decided = ps.decide(result.estimate.adapt(y_proba), costs, classes=CLASSES)
        paid[result.method] = np.mean([price[pair] for pair in zip(y, decided, strict=True)])
        assert result.scores.cost == pytest.approx(paid[result.method])
    best = min(paid, key=paid.get)
    assert f"labels {best} costs least per row: {paid[best]:.3g}" in comparison.conclusion
    assert comparison.table()[0][6] == "cost"
    assert comparison.to_dict()["methods"][0]["scores"]["cost"] == pytest.approx(paid["na"])
    assert "cost" in comparison.to_frame().columns


@pytest.mark.parametrize(
    ("goal", "said"),
    [("balanced_accuracy", "has the best balanced accuracy"), ("log_loss", "has the least log")],
)
def test_the_conclusion_names_the_best_by_the_goal(data, goal, said):
    *validation, y_proba, y = data
    found = compare(
        *validation, y_proba, y, classes=CLASSES, methods=["na", "em", "auto"], goal=goal
    )
    assert found.results[-1].estimate.decision["goal"] == goal
    sign = -1 if goal == "log_loss" else 1
    best = max(found.results, key=lambda result: sign * getattr(result.scores, goal))
    assert f"labels {best.method} {said}" in found.conclusion


def test_without_labels_nothing_is_scored(data):
    comparison = compare(*data[:3], classes=CLASSES, methods=["na", "em"])
    assert comparison.truth is None
    assert [result.scores for result in comparison.results] == [None, None]
    assert "accuracy" not in repr(comparison)
    assert "accuracy" not in comparison.to_frame().columns


def test_source_priors_are_passed_on(data):
    source = {"ant": 0.2, "bee": 0.3, "<cow>": 0.5}
    comparison = compare(*data[:3], classes=CLASSES, methods=["em"], source_priors=source)
    np.testing.assert_allclose(comparison.estimates["em"].source_priors, [0.2, 0.3, 0.5])
    comparison = compare(*data[:3], classes=CLASSES, methods=["cm"], source_label_priors=source)
    assert "source_label_priors" in comparison.estimates["cm"].source_priors_from


def test_disagreement_by_hand(data, monkeypatch):
    priors = {"cm": [0.5, 0.3, 0.2], "scm": [0.4, 0.4, 0.2], "em": [0.1, 0.3, 0.6]}
    for method, values in priors.items():
        kind = type(ps.get_estimator(method))
        result = make(values, method).estimate
        monkeypatch.setattr(kind, "estimate", lambda self, y_proba, result=result: result)
    comparison = compare(*data[:3], classes=CLASSES, methods=["na", *priors])
    # the median is (0.4, 0.3, 0.2)
    found = [(result.disagreement, result.disagrees_on) for result in comparison.results]
    assert found == [
        (None, None),
        (pytest.approx(5 / 4), CLASSES[0]),
        (pytest.approx(4 / 3), CLASSES[1]),
        (pytest.approx(4), CLASSES[0]),
    ]
    odd = comparison.disagreement
    assert (odd.method, odd.name, odd.share, odd.median) == ("em", CLASSES[0], 0.1, 0.4)
    assert odd.n_methods == 1


def test_rare_classes_are_no_disagreement(data, monkeypatch):
    priors = {"cm": [0.5, 0.4999, 1e-4], "scm": [0.5, 0.5, 0.0], "em": [0.5, 0.495, 0.005]}
    for method, values in priors.items():
        kind = type(ps.get_estimator(method))
        result = make(values, method).estimate
        monkeypatch.setattr(kind, "estimate", lambda self, y_proba, result=result: result)
    comparison = compare(*data[:3], classes=CLASSES, methods=list(priors))
    assert comparison.disagreement.ratio < 1.02


def test_a_method_alone_agrees_with_nobody(data):
    comparison = compare(*data[:3], classes=CLASSES, methods=["na", "em"])
    assert [result.disagreement for result in comparison.results] == [None, None]
    assert comparison.disagreement is None


def test_what_a_method_refuses_is_its_row(data, monkeypatch):
    def refuse(self, y_proba):
        raise ValueError("not <these> data")

    monkeypatch.setattr(ps.CM, "estimate", refuse)
    comparison = compare(*data, classes=CLASSES, methods=["cm", "em", "scm-l"])
    refused = comparison.results[0]
    assert (refused.estimate, refused.error, refused.scores) == (None, "not <these> data", None)
    assert list(comparison.estimates) == ["em", "scm-l"]
    one, other = comparison.results[1:]
    assert one.disagreement == pytest.approx(other.disagreement, rel=1e-3)
    assert "refused: not <these> data" in repr(comparison)
    frame = comparison.to_frame()
    assert frame["error"].tolist()[0] == "not <these> data"
    assert pd.isna(frame["accuracy"][0])
    json.dumps(comparison.to_dict(), allow_nan=False)


def test_warnings_are_kept_not_raised(data):
    y_proba_val, y_val, y_proba, _ = data
    seen = y_val != "bee"
    comparison = compare(y_proba_val[seen], y_val[seen], y_proba, classes=CLASSES)
    warned = {result.method for result in comparison.results if result.warnings}
    assert {"cm", "scm-l", "bbse"} <= warned
    assert "na" not in warned
    for result in comparison.results:
        assert len(set(result.warnings)) == len(result.warnings)


def test_bad_data_and_names_are_refused_before_anything_runs(data):
    def forbidden(names):
        raise AssertionError("ran")

    y_proba_val, y_val, y_proba, y = data
    given = {"classes": CLASSES, "progress": forbidden}
    with pytest.raises(ValueError, match="no estimator 'magic'"):
        compare(y_proba_val, y_val, y_proba, methods=["em", "magic"], **given)
    for wrong in ("em", 3):
        with pytest.raises(ValueError, match="methods must be a list of names"):
            compare(y_proba_val, y_val, y_proba, methods=wrong, **given)
    with pytest.raises(ValueError, match="methods is empty; name at least one"):
        compare(y_proba_val, y_val, y_proba, methods=[], **given)
    with pytest.raises(ValueError, match="y_proba_target has 2 columns but there are 3 classes"):
        compare(y_proba_val, y_val, np.full((4, 2), 0.5), **given)
    with pytest.raises(ValueError, match=r"y_target has shape \(5,\) but there are 200 rows"):
        compare(y_proba_val, y_val, y_proba, y[:5], **given)
    with pytest.raises(ValueError, match="y_target has a label outside classes: 'yak'"):
        compare(y_proba_val, y_val, y_proba, np.array(["yak", *y[1:]]), **given)
    with pytest.raises(ValueError, match="sums to"):
        compare(y_proba_val * 2, y_val, y_proba, **given)


def test_progress_hears_every_method_once(data):
    heard = []

    def follow(names):
        for name in names:
            heard.append(name)
            yield name

    compare(*data[:3], classes=CLASSES, methods=["em", "cm", "em"], progress=follow)
    assert heard == ["em", "cm"]


# How it is shown


@pytest.fixture
def comparison():
    scores = Scores(0.75, 0.5, 1.25, 0.125)
    results = (
        make([0.5, 0.5], "na", scores=scores),
        make(
            [0.25, 0.75], "em", disagreement=1.25, disagrees_on=1, scores=scores, warnings=("mind",)
        ),
        MethodResult("cm", None, "<b>no</b>", 0.002),
    )
    return Comparison(results, np.array([0, 1]), np.array([0.25, 0.75]))


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_as_a_frame(comparison, backend):
    frame = comparison.to_frame(backend)
    if backend == "pandas":
        frame = pl.from_pandas(frame)
    elif backend == "pyarrow":
        frame = pl.from_arrow(frame)
    assert frame["method"].to_list() == ["na", "em", "cm"]
    assert frame["status"].to_list() == ["direct", "direct", "refused"]
    assert frame["disagreement"].to_list() == [None, 1.25, None]
    assert frame["seconds"].to_list() == [0.001, 0.001, 0.002]
    assert frame["accuracy"].to_list() == [0.75, 0.75, None]
    assert frame["l1_error"].to_list() == [0.125, 0.125, None]
    assert frame["error"].to_list() == [None, None, "<b>no</b>"]


def test_as_plain_values(comparison):
    plain = comparison.to_dict()
    assert plain["classes"] == [0, 1]
    assert plain["truth"] == {0: 0.25, 1: 0.75}
    na, em, cm = plain["methods"]
    assert em == {
        "method": "em",
        "priors": {0: 0.25, 1: 0.75},
        "status": "direct",
        "gap": None,
        "n_iter": 0,
        "condition_number": None,
        "disagreement": 1.25,
        "disagrees_on": 1,
        "seconds": 0.001,
        "scores": {
            "accuracy": 0.75,
            "balanced_accuracy": 0.5,
            "log_loss": 1.25,
            "l1_error": 0.125,
        },
        "warnings": ["mind"],
        "error": None,
    }
    assert na["disagreement"] is None
    assert (cm["priors"], cm["status"], cm["scores"], cm["error"]) == (
        None,
        None,
        None,
        "<b>no</b>",
    )


def test_as_text(comparison):
    lines = repr(comparison).splitlines()
    assert lines[0] == "Comparison of 3 methods, 2 classes"
    assert lines[1].split()[:3] == ["method", "moved", "differs"]
    assert set(comparison.table()[0][1:]) == COLUMNS.keys() - {"cost"}
    assert lines[3].split() == [
        *("em", "25.0%", "1.2×", "75.0%", "50.0%", "1.250", "0.125", "0.001", "s", "direct")
    ]
    assert "refused: <b>no</b>" in lines[4]


# What it concludes


def of_methods(**priors):
    results = [make([0.5, 0.5], "na")]
    results += [make(p, name.replace("_", "-")) for name, p in priors.items()]
    return Comparison(tuple(results), np.array(["cat", "dog"]))


def test_methods_to_look_at_first_agree():
    found = of_methods(auto=[0.8, 0.2], em=[0.82, 0.18], scm_l=[0.78, 0.22], cm=[0.1, 0.9])
    assert found.conclusion == (
        "Auto, EM and SCM-L agree: about 30% of the cases belong to other classes than before; cat "
        "grew most, from 50% to 80%."
    )
    assert repr(found).splitlines()[-1] == found.conclusion
    assert found.to_dict()["conclusion"] == found.conclusion


def test_methods_disagree():
    said = of_methods(auto=[0.8, 0.2], em=[0.55, 0.45]).conclusion
    assert said.startswith("Auto and EM disagree about 25% of the cases, most on cat: 55% to 80%.")


def test_nothing_moved():
    assert of_methods(auto=[0.51, 0.49], em=[0.5, 0.5]).conclusion == (
        "Auto and EM agree: the class balance hardly changed."
    )


def test_a_conclusion_without_the_methods_to_look_at_first():
    assert of_methods(cm=[0.8, 0.2]).conclusion.startswith("cm says: about 30% of the cases")
    assert of_methods().conclusion == "No method has an answer: each row says why."


def test_labels_tell_which_was_most_accurate(comparison):
    assert comparison.conclusion.endswith(
        "By the target's labels na is most accurate: 75.0%, against 75.0% without adapting. Never "
        "answering “0” is right as often or more often: 75.0%. Judge by what errors cost (costs) "
        'or by log loss (goal="log_loss").'
    )


def test_a_rare_class_that_one_method_makes_common_is_disagreed_on(rng):
    """As after class weights: most methods say that none are left, and EM a fifth."""
    y_val, y = (rng.random(n) < share for n, share in ((4000, 0.09), (4000, 0.001)))
    score = [expit(2.2 * one + rng.normal(size=one.size) - 0.3) for one in (y_val, y)]
    found = compare(score[0], y_val.astype(int), score[1], methods=["em", "cm-l", "scm-l", "scm"])
    shares = {name: one.priors[1] for name, one in found.estimates.items()}
    assert found.disagreement.method == "em", shares
    assert found.disagreement.ratio > 10
