"""Parts of the data, counted apart and merged in any order, equal the whole."""

from functools import reduce
from operator import add

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import priorshift as ps
from tests.methods import ROADS

EXACT = {"rtol": 1e-12, "atol": 1e-12}


@st.composite
def cut_data(draw):
    """Draw data with weights, and row numbers cut into parts in any order."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, K = draw(st.integers(2, 40)), draw(st.integers(2, 5))
    y_proba, y = rng.dirichlet(np.ones(K), n), rng.integers(K, size=n)
    cuts = draw(st.lists(st.integers(1, n - 1), max_size=5, unique=True))
    parts = [part for part in np.split(rng.permutation(n), sorted(cuts)) if part.size]
    return y_proba, y, rng.exponential(size=n), [parts[i] for i in rng.permutation(len(parts))]


@settings(max_examples=25)
@given(data=cut_data(), decision=st.sampled_from(["hard", "soft"]), weighted=st.booleans())
def test_merged_parts_equal_the_whole(data, decision, weighted):
    y_proba, y, weight, parts = data

    def confuse(rows):
        part = weight[rows] if weighted else None
        return ps.Confusion.from_arrays(
            y_proba[rows], y[rows], decision=decision, sample_weight=part
        )

    def count(rows):
        part = weight[rows] if weighted else None
        return ps.DecisionCounts.from_arrays(y_proba[rows], decision=decision, sample_weight=part)

    everything = np.arange(y.size)
    confusion, merged = confuse(everything), reduce(add, map(confuse, parts))
    np.testing.assert_allclose(merged.counts, confusion.counts, **EXACT)
    np.testing.assert_allclose(merged.class_weights, confusion.class_weights, **EXACT)
    np.testing.assert_allclose(merged.conditional, confusion.conditional, **EXACT)
    np.testing.assert_allclose(merged.joint(), confusion.joint(), **EXACT)
    assert merged.n_samples == y.size
    counts, merged_counts = count(everything), reduce(add, map(count, parts))
    np.testing.assert_allclose(merged_counts.counts, counts.counts, **EXACT)
    assert merged_counts.n_samples == y.size


@settings(max_examples=10)
@given(data=cut_data())
def test_merging_is_associative_and_commutative(data):
    y_proba, y, _, _ = data
    a, b, c = (ps.Confusion.from_arrays(y_proba[k::2], y[k::2], decision="soft") for k in (0, 1, 0))
    np.testing.assert_allclose(((a + b) + c).counts, (a + (b + c)).counts, **EXACT)
    np.testing.assert_array_equal((a + b).counts, (b + a).counts)


def test_merging_leaves_the_parts_alone():
    y_proba, y = np.array([[0.9, 0.1], [0.3, 0.7]]), np.array([0, 1])
    one = ps.Confusion.from_arrays(y_proba, y, decision="soft")
    before = one.counts.copy()
    assert (one + one).n_samples == 4
    np.testing.assert_array_equal(one.counts, before)


# partial_fit: validation in batches


@pytest.fixture
def data(simulate, rng):
    world = simulate(4)
    y_proba, y = world.draw(np.array([0.4, 0.3, 0.2, 0.1]), 900, rng)
    target, _ = world.draw(np.array([0.1, 0.2, 0.3, 0.4]), 500, rng)
    return y_proba, y, target


@pytest.mark.parametrize("method", [m for m in ROADS if not ps.get_estimator(m)._keeps_rows])
@pytest.mark.parametrize(
    ("sources", "weighted"),
    [
        ({}, True),
        ({"source_priors": [0.4, 0.3, 0.2, 0.1]}, False),
        ({"source_label_priors": {0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4}}, True),
    ],
    ids=["default", "source_priors", "source_label_priors"],
)
def test_partial_fit_in_batches_equals_fit(data, rng, method, sources, weighted):
    y_proba, y, target = data
    weight = rng.exponential(size=y.size) if weighted else None
    whole = ps.get_estimator(method).fit(y_proba, y, sample_weight=weight, **sources)
    batched = ps.get_estimator(method)
    for batch in np.array_split(rng.permutation(y.size), 4):
        first = {} if hasattr(batched, "classes_") else {"classes": [0, 1, 2, 3], **sources}
        part = None if weight is None else weight[batch]
        batched.partial_fit(y_proba[batch], y[batch], sample_weight=part, **first)
    np.testing.assert_allclose(batched.source_priors_, whole.source_priors_, **EXACT)
    np.testing.assert_allclose(batched.source_label_priors_, whole.source_label_priors_, **EXACT)
    np.testing.assert_array_equal(batched.classes_, whole.classes_)
    assert batched.source_priors_from_ == whole.source_priors_from_
    np.testing.assert_allclose(
        batched.estimate(target).priors, whole.estimate(target).priors, atol=1e-8
    )


def test_batches_may_lack_classes_and_come_as_frames(data):
    y_proba, y, target = data
    names = np.array(["dog", "ant", "cow", "bee"])
    whole = ps.SCML().fit(y_proba, names[y], classes=names)
    batched = ps.SCML()
    for k in range(4):  # one class a batch, columns in another order each
        order = np.roll(np.arange(4), k)
        frame = pd.DataFrame(y_proba[y == k][:, order], columns=names[order])
        batched.partial_fit(frame, names[y[y == k]], classes=names)
    np.testing.assert_allclose(batched.confusion_.counts, whole.confusion_.counts, **EXACT)
    np.testing.assert_allclose(batched.estimate(target).priors, whole.estimate(target).priors)


@pytest.mark.parametrize("method", ["gls", "elsa", "em-bcts", "scm-l-shrunk", "joint", "em-labels"])
def test_methods_that_need_rows_refuse_batches(data, method):
    y_proba, y, _ = data
    with pytest.raises(ValueError, match="needs the rows of all of validation at once; use fit"):
        ps.get_estimator(method).partial_fit(y_proba, y, classes=[0, 1, 2, 3])


def test_partial_fit_goes_on_from_fit(data):
    y_proba, y, target = data
    whole = ps.CML().fit(y_proba, y)
    continued = ps.CML().fit(y_proba[:600], y[:600]).partial_fit(y_proba[600:], y[600:])
    np.testing.assert_allclose(continued.confusion_.counts, whole.confusion_.counts, **EXACT)
    np.testing.assert_allclose(continued.estimate(target).priors, whole.estimate(target).priors)


def test_fit_starts_anew(data):
    y_proba, y, _ = data
    est = ps.SCML().fit(y_proba, y).fit(y_proba[:100], y[:100])
    assert est.confusion_.n_samples == 100


def test_the_first_partial_fit_needs_classes(data):
    y_proba, y, _ = data
    with pytest.raises(ValueError, match=r"first partial_fit needs classes= in the order"):
        ps.SCML().partial_fit(y_proba, y)


def test_a_batch_with_an_unknown_label_is_refused(data):
    y_proba, y, _ = data
    est = ps.SCML().partial_fit(y_proba, y, classes=[0, 1, 2, 3])
    before = est.confusion_.counts.copy()
    with pytest.raises(ValueError, match="y has a label outside classes: 4 at position 0"):
        est.partial_fit(y_proba[:1], [4])
    np.testing.assert_array_equal(est.confusion_.counts, before)


def test_later_batches_must_fit_the_first():
    first = np.array([[0.8, 0.2], [0.3, 0.7]])
    est = ps.SCML().partial_fit(first, [0, 1], classes=[0, 1])
    with pytest.raises(ValueError, match="classes must stay those of the first"):
        est.partial_fit(first[:, ::-1], [0, 1], classes=[1, 0])
    with pytest.raises(ValueError, match="belong to the first partial_fit"):
        est.partial_fit(first, [0, 1], source_priors=[0.5, 0.5])


def test_failed_fit_does_not_spoil_later_batches():
    first = np.array([[0.8, 0.2], [0.3, 0.7]])
    est = ps.SCML().fit(first, [0, 1], source_priors=[0.5, 0.5])
    with pytest.raises(ValueError, match="one label per row"):
        est.fit(first, [0, 1, 1], source_priors=[0.9, 0.1])
    est.partial_fit(first, [0, 1])
    assert est.confusion_.n_samples == 4
    np.testing.assert_array_equal(est.source_priors_, [0.5, 0.5])
