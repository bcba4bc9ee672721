"""Estimates from counts of decisions: what the rows give, however the rows were cut."""

from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import priorshift as ps
from priorshift.estimators.data import Evidence, Target, Validation

NEED_ROWS = ["na", "em", "map", "mapls", "em-labels"]
FITTED = [
    "auto",
    "mean",
    "elsa",
    "gls",
    "em-bcts",
]  # they need rows as well, and a fit of some size
COUNTED = [name for name in ps.available_estimators() if name not in NEED_ROWS + FITTED]
SOURCE, TARGET = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, 0.2, 0.3, 0.4])
ESTIMATORS = [ps.get_estimator(name) for name in COUNTED] + [
    ps.RLLS(decision="soft"),
    ps.BBSE(constrained=True),
    ps.BBSE(solver="paper"),
    ps.CML(solver="paper"),
    ps.SCMM(alpha=[1.0, 2.0, 3.0, 4.0]),
]


@pytest.fixture
def data(simulate, rng):
    simulation = simulate(4)
    y_proba_val, y_val = simulation.draw(SOURCE, 900, rng)
    return y_proba_val, y_val, simulation.draw(TARGET, 500, rng)[0]


def count(estimator, y_proba):
    return ps.DecisionCounts.from_arrays(y_proba, decision=estimator.confusion_.decision)


def assert_same(one, other, **tolerance):
    np.testing.assert_allclose(one.priors, other.priors, **tolerance)
    for name in ("raw", "gap", "objective", "condition_number"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert (mine is None) == (theirs is None)
        if mine is not None:
            np.testing.assert_allclose(mine, theirs, **tolerance)
    for name in ("method", "status", "n_target", "source_priors_from", "unseen_classes"):
        assert getattr(one, name) == getattr(other, name)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
@pytest.mark.parametrize("sources", [{}, {"source_priors": SOURCE}], ids=["default", "given"])
def test_counts_are_as_good_as_rows(data, estimator, sources):
    y_proba_val, y_val, y_proba = data
    estimator.fit(y_proba_val, y_val, **sources)
    assert not estimator.needs_rows
    from_rows = estimator.estimate(y_proba)
    from_counts = estimator.estimate_counts(count(estimator, y_proba))
    assert_same(from_counts, from_rows, rtol=0)
    np.testing.assert_array_equal(from_counts.adapt(y_proba), from_rows.adapt(y_proba))


@st.composite
def cut_targets(draw):
    """Draw validation of every class, and a target that is cut into parts in any order."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, K = draw(st.integers(2, 60)), draw(st.integers(2, 5))
    y_val = np.arange(20 * K) % K
    y_proba_val = rng.dirichlet(np.ones(K), y_val.size) / 2 + np.eye(K)[y_val] / 2
    cuts = draw(st.lists(st.integers(1, n - 1), max_size=5, unique=True))
    parts = np.split(rng.permutation(n), sorted(cuts))
    return y_proba_val, y_val, rng.dirichlet(np.ones(K), n), parts


@pytest.mark.filterwarnings("ignore::priorshift.PriorShiftWarning")
@settings(max_examples=40)
@given(data=cut_targets(), name=st.sampled_from(COUNTED))
def test_merged_counts_of_parts_are_as_good_as_all_rows(data, name):
    y_proba_val, y_val, y_proba, parts = data
    estimator = ps.get_estimator(name).fit(y_proba_val, y_val)
    merged = reduce(add, (count(estimator, y_proba[rows]) for rows in parts))
    whole = estimator.estimate(y_proba)
    from_parts = estimator.estimate_counts(merged)
    direct = whole.status == "direct"  # others stop within their tolerance of the same optimum
    np.testing.assert_allclose(from_parts.priors, whole.priors, atol=1e-9 if direct else 2e-3)
    assert from_parts.n_target == whole.n_target == len(y_proba)
    if whole.objective is not None:
        assert from_parts.objective == pytest.approx(whole.objective, abs=3e-6)
    if name == "cm":
        np.testing.assert_array_equal(from_parts.priors, whole.priors)  # sums of ones are exact


@pytest.mark.parametrize("name", NEED_ROWS)
def test_methods_that_need_rows_say_so(name):
    estimator = ps.get_estimator(name).fit(source_priors=[0.5, 0.5])
    assert estimator.needs_rows
    with pytest.raises(ValueError, match=rf"{type(estimator).__name__} needs the rows .*y_proba\)"):
        estimator.estimate_counts(ps.DecisionCounts(np.ones(2), "soft", 2))


@pytest.mark.parametrize("name", COUNTED)
def test_a_class_that_validation_lacks_needs_rows(data, name):
    y_proba_val, y_val, y_proba = data
    keep = y_val != 2
    names = np.array(["ant", "bee", "cat", "dog"])
    estimator = ps.get_estimator(name).fit(y_proba_val[keep], names[y_val[keep]], classes=names)
    assert estimator.needs_rows
    with pytest.raises(ValueError, match=r"no sample of class 'cat'.* use estimate\(y_proba\)"):
        estimator.estimate_counts(count(estimator, y_proba))
    estimator.fit(y_proba_val, names[y_val], classes=names)
    assert not estimator.needs_rows
    assert estimator.estimate_counts(count(estimator, y_proba)).n_target == len(y_proba)


@pytest.mark.parametrize(
    ("counts", "decision", "message"),
    [
        ([1.0, 2.0, 3.0, 4.0], "soft", "needs counts of hard decisions on 4 classes; got soft"),
        ([1.0, 2.0, 3.0], "hard", r"on 4 classes; got hard decisions of shape \(3,\)"),
        ([1.0, 2.0, -3.0, 4.0], "hard", "at least 0"),
        ([[1.0, 2.0, 3.0, 4.0]], "hard", r"one per class\); got .* shape \(1, 4\)"),
        (["a", "b", "c", "d"], "hard", r"one per class\); got .* type <U1"),
        ([1.0, 2.0, 3.0, 4.0], "both", "decision must be one of 'hard', 'soft'"),
        ([1.0, 2.0, np.nan, 4.0], "hard", "finite"),
        ([0.0, 0.0, 0.0, 0.0], "hard", "0 for every class"),
    ],
)
def test_counts_that_cannot_be(data, counts, decision, message):
    estimator = ps.CML().fit(*data[:2])
    with pytest.raises(ValueError, match=message):
        estimator.estimate_counts(ps.DecisionCounts(np.array(counts), decision, 10))


def test_counts_of_no_rows_or_of_another_kind(data):
    estimator = ps.CML().fit(*data[:2])
    with pytest.raises(ValueError, match="counts"):
        estimator.estimate_counts([1, 2, 3.5, 4])
    with pytest.raises(ValueError, match="count at least one row"):
        estimator.estimate_counts(ps.DecisionCounts(np.ones(4), "hard", 0))
    with pytest.raises(ValueError, match="n_samples must be a whole number of at least 0"):
        ps.DecisionCounts(np.ones(4), "hard", -1)
    whole = estimator.estimate_counts(ps.DecisionCounts([1, 2, 3, 4], "hard", 10))
    assert whole.priors.sum() == pytest.approx(1)


def test_a_source_prior_of_0_for_a_class_that_was_decided_for(data):
    y_proba_val, y_val, y_proba = data
    estimator = ps.SCML().fit(y_proba_val, y_val, source_priors=[0.5, 0.3, 0.2, 0.0])
    with pytest.raises(ValueError, match="source_priors is 0 for class 3"):
        estimator.estimate_counts(count(estimator, y_proba))


def test_counts_may_be_of_small_weights(data):
    estimator = ps.CM().fit(*data[:2])
    counts = count(estimator, data[2])
    light = ps.DecisionCounts(1e-12 * counts.counts, "hard", counts.n_samples)
    np.testing.assert_allclose(
        estimator.estimate_counts(light).priors, estimator.estimate_counts(counts).priors
    )


@pytest.mark.parametrize("rest", ["spread", "drop"])
@pytest.mark.parametrize("name", ["cm-l", "scm-l", "cm-m", "scm-m", "bbse", "joint", "gls"])
@pytest.mark.filterwarnings("ignore::priorshift.PriorShiftWarning")
def test_all_predictions_may_be_for_a_class_without_labels(name, rest):
    """Every class that has labels then has a source prior of 0, and is next to absent."""
    y_proba_val = np.zeros((8, 10))
    y_proba_val[:, 1] = 1.0
    ids = np.tile([1, 0, 2, 3, 4, 5, 6, 7], (11, 1))
    scores = np.tile([1 - 7e-9, *[1e-9] * 7], (11, 1))
    target = ps.TopK(ids, scores, n_classes=10, rest=rest)
    estimator = ps.get_estimator(name).fit(y_proba_val, [5, 3, 4, 3, 3, 8, 6, 5], classes=range(10))
    assert estimator.estimate(target).priors[1] == pytest.approx(1.0)


@pytest.mark.parametrize("level", [None, 0.9])
@pytest.mark.parametrize("name", ["em", "map", "mapls"])
def test_methods_that_need_rows_say_so_before_anything_else(name, level):
    estimator = ps.get_estimator(name).fit(source_priors=SOURCE)
    with pytest.raises(ValueError, match="rows"):
        estimator.estimate_counts(ps.DecisionCounts.from_arrays(np.eye(4), decision="hard"), level)


# The parts that evidence is made of


def validation(rng, n, *, weighted, labelled=True):
    y = rng.integers(0, 3, n) if labelled else None
    weight = rng.uniform(0.5, 3, n) if weighted else None
    return Validation(rng.dirichlet(np.ones(3), n), y, weight)


@pytest.mark.parametrize(
    ("weighted", "also_weighted"), [(False, False), (True, False), (False, True), (True, True)]
)
def test_batches_add_up_to_their_rows_together(rng, weighted, also_weighted):
    one = validation(rng, 7, weighted=weighted)
    other = validation(rng, 5, weighted=also_weighted)
    both = Validation(
        np.concatenate([one.y_proba, other.y_proba]),
        np.concatenate([one.y, other.y]),
        np.concatenate([one.weight, other.weight]) if weighted or also_weighted else None,
    )
    nothing = Evidence(np.arange(3), source_label_priors=np.full(3, 1 / 3))
    counts = nothing.count(both, "hard")
    added = nothing.count(one, "hard") + nothing.count(other, "hard")
    assert added.rows is None
    np.testing.assert_allclose(added.confusion.counts, counts.confusion.counts)
    np.testing.assert_allclose(added.confusion._squares, counts.confusion._squares)
    np.testing.assert_allclose(added.soft.conditional, counts.soft.conditional)
    assert added.soft.decision == "soft"


@pytest.mark.parametrize("weighted", [False, True])
def test_balanced_weights_have_the_balance_and_the_sum(rng, weighted):
    rows, wanted = validation(rng, 60, weighted=weighted), np.array([0.6, 0.3, 0.1])
    found = rows.balanced_weight(wanted)
    shares = np.bincount(rows.y, found)
    np.testing.assert_allclose(shares / shares.sum(), wanted)
    np.testing.assert_allclose(found.sum(), rows.weight.sum())
    np.testing.assert_array_equal(rows.balanced_weight(None), rows.weight)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("decision", "needs_soft"), [(None, False), ("hard", False), ("hard", True), ("soft", True)]
)
def test_counts_survive_a_file(rng, weighted, decision, needs_soft):
    rows = validation(rng, 40, weighted=weighted)
    labels = np.full(3, 1 / 3) if needs_soft else None
    counts = Evidence(np.arange(3), source_label_priors=labels).count(rows, decision)
    assert (counts.confusion is None) == (decision is None)
    assert (counts.soft is None) == (not needs_soft)
    described, arrays = counts.to_arrays()
    again = Evidence.from_arrays(described, arrays)
    for name in ("predicted", "confusion", "soft"):
        mine, theirs = getattr(counts, name), getattr(again, name)
        assert type(mine) is type(theirs)
        if mine is None:
            continue
        assert (mine.decision, mine.n_samples) == (theirs.decision, theirs.n_samples)
        np.testing.assert_array_equal(mine.counts, theirs.counts)
        if name != "predicted":
            np.testing.assert_array_equal(mine.class_weights, theirs.class_weights)
            np.testing.assert_array_equal(mine._squares, theirs._squares)


def test_what_one_side_lacks_is_not_in_the_sum(rng):
    rows = validation(rng, 20, weighted=False)
    nothing = Evidence(np.arange(3))
    hard, plain = (nothing.count(rows, decision) for decision in ("hard", None))
    for added in (hard + plain, plain + hard):
        assert added.confusion is None
        np.testing.assert_allclose(added.predicted.counts, 2 * hard.predicted.counts)
    unlabelled = nothing.count(validation(rng, 9, weighted=False, labelled=False), "hard")
    assert unlabelled.confusion is None
    assert not unlabelled.decisions_only


def test_evidence_adds_what_both_sides_have(rng):
    nothing = Evidence(np.arange(3))
    whole = nothing.count(validation(rng, 20, weighted=False), "hard")
    counted = replace(whole, rows=None)
    assert (whole + nothing) is nothing
    assert (nothing + whole) is whole
    both = whole + whole
    assert both.predicted.n_samples == 40
    for added in (whole + counted, counted + whole, counted + counted):
        assert added.rows is None
        assert added.predicted.n_samples == 40


def test_what_was_given():
    source, labels = np.array([0.2, 0.8]), np.array([0.5, 0.5])
    nothing, source_only, labels_only, both = (
        Evidence(np.arange(2), source_priors=pair[0], source_label_priors=pair[1])
        for pair in ((None, None), (source, None), (None, labels), (source, labels))
    )
    assert [one.given for one in (nothing, source_only, labels_only, both)] == [False] + [True] * 3
    rows = Validation(np.full((2, 2), 0.5), np.array([0, 1]), None)
    counted = [one.count(rows, None) for one in (nothing, source_only, labels_only, both)]
    assert [one.soft is not None for one in counted] == [False, False, True, False]
    assert nothing.best_labels is None
    assert source_only.best_labels is source
    assert labels_only.best_labels is both.best_labels is labels


def test_rows_of_classes_that_validation_never_saw_are_set_aside(rng):
    """By Bayes: the share of unseen classes in each row, at the priors that EM finds."""
    y_proba, source = rng.dirichlet(np.ones(3), 80), np.array([0.5, 0.3, 0.2])
    seen = np.array([True, True, False])
    target = Target.of(y_proba, seen, source, "soft")
    priors = ps.EM(tol=1e-12).fit(source_priors=source).estimate(y_proba).priors
    posterior = y_proba * (priors / source)
    posterior /= posterior.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(target.size, posterior[:, :2].sum(), rtol=1e-5)
    np.testing.assert_allclose(target.unseen_priors, [0, 0, priors[2]], atol=1e-6)
    np.testing.assert_allclose(
        target.counts.counts, posterior[:, :2].sum(axis=1) @ y_proba, rtol=1e-5
    )
    np.testing.assert_allclose(
        target.complete(np.array([0.25, 0.75])),
        [0.25 * (1 - priors[2]), 0.75 * (1 - priors[2]), priors[2]],
        atol=1e-6,
    )
    assert not target.empty
    all_seen = Target.of(y_proba, np.full(3, True), source, "soft")
    assert (all_seen.size, all_seen.weight) == (80, None)
    unknown = Target.of(y_proba, seen, None, "hard")
    assert not unknown.empty
    np.testing.assert_allclose(unknown.size, y_proba[:, :2].sum())
    np.testing.assert_allclose(unknown.unseen_priors, [0, 0, y_proba[:, 2].mean()])
    only_unseen = Target.of(np.tile([0.0, 0.0, 1.0], (9, 1)), seen, None, "soft")
    assert only_unseen.empty
    np.testing.assert_allclose(only_unseen.among_seen(np.array([0.0, 0.0, 1.0])), [0.5, 0.5])
    np.testing.assert_allclose(target.among_seen(np.array([0.1, 0.3, 0.6])), [0.25, 0.75])


def test_what_fit_lacks_is_said(data):
    y_proba_val, y_val, _ = data
    with pytest.raises(ValueError, match=r"EM needs source priors, or predictions"):
        ps.EM().fit()
    with pytest.raises(ValueError, match=r"PPI needs the names of the classes in the order"):
        ps.PPI().fit()
    with pytest.raises(ValueError, match=r"source_label_priors without source_priors need"):
        ps.EM().fit(y_proba_val, source_label_priors=SOURCE)
    both = ps.EM().fit(y_proba_val, source_priors=SOURCE, source_label_priors=TARGET)
    np.testing.assert_allclose(both.source_priors_, SOURCE)
    with pytest.raises(ValueError, match=r"CM does not use labels of the target"):
        ps.CM().fit(y_proba_val, y_val).estimate(y_proba_val, y_target=y_val)


def test_labels_of_the_target_go_with_decisions_as_with_the_rows_they_were_made_from(data):
    _, _, y_proba = data
    decided = y_proba.argmax(axis=1)
    labels = np.where(np.arange(decided.size) % 5 == 0, decided // 2, -1)
    ppi = ps.PPI().fit(classes=[0, 1, 2, 3])
    given = {"y_target": labels, "unlabelled": -1}
    found = ppi.estimate(y_pred=decided, **given)
    expected = ppi.estimate(np.eye(4)[decided], **given)
    np.testing.assert_allclose(found.priors, expected.priors, atol=1e-12)
