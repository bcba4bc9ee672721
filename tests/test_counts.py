"""Confusion matrices and decision counts against plain loops and scikit-learn."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix

import priorshift as ps
from priorshift import counts as statistics
from priorshift.border import threads

DECISIONS = ["hard", "soft"]
every_decision = pytest.mark.parametrize("decision", DECISIONS)
quick = settings(max_examples=40)
samples = st.builds(
    lambda seed, n, K: random_samples(n, K, seed),
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 30),
    K=st.integers(2, 6),
)


def random_samples(n, K, seed=0):
    """Draw predictions, some of them exact zeros and ones, and labels that may miss classes."""
    rng = np.random.default_rng(seed)
    y_proba = rng.dirichlet(np.full(K, 0.5), n)
    certain = rng.random(n) < 0.2
    y_proba[certain] = np.eye(K)[rng.integers(K, size=certain.sum())]
    return y_proba, rng.integers(K, size=n)


def one_decision(row, decision):
    """Return the decision for a sample: a vote for the first largest class, or the row itself."""
    if decision == "soft":
        return list(row)
    best = max(range(len(row)), key=lambda k: row[k])
    return [float(k == best) for k in range(len(row))]


def counts_by_loop(y_proba, decision, weight=None):
    counts = [0.0] * y_proba.shape[1]
    for n, row in enumerate(y_proba.tolist()):
        for k, mass in enumerate(one_decision(row, decision)):
            counts[k] += mass * (1 if weight is None else weight[n])
    return np.array(counts)


def confusion_by_loop(y_proba, y, decision, weight=None):
    counts = np.zeros((y_proba.shape[1],) * 2)
    for n, row in enumerate(y_proba.tolist()):
        for i, mass in enumerate(one_decision(row, decision)):
            counts[i, y[n]] += mass * (1 if weight is None else weight[n])
    return counts


# Counting


@quick
@given(samples=samples, decision=st.sampled_from(DECISIONS))
def test_counts_equal_a_plain_loop(samples, decision):
    y_proba, y = samples
    counts = ps.DecisionCounts.from_arrays(y_proba, decision=decision)
    confusion = ps.Confusion.from_arrays(y_proba, y, decision=decision)
    np.testing.assert_allclose(counts.counts, counts_by_loop(y_proba, decision), atol=1e-12)
    np.testing.assert_allclose(
        confusion.counts, confusion_by_loop(y_proba, y, decision), atol=1e-12
    )
    assert counts.n_samples == confusion.n_samples == y.size


@quick
@given(samples=samples, decision=st.sampled_from(DECISIONS), seed=st.integers(0, 99))
def test_weighted_counts_equal_a_plain_loop(samples, decision, seed):
    y_proba, y = samples
    weight = np.random.default_rng(seed).exponential(size=y.size)
    counts = ps.DecisionCounts.from_arrays(y_proba, decision=decision, sample_weight=weight)
    confusion = ps.Confusion.from_arrays(y_proba, y, decision=decision, sample_weight=weight)
    np.testing.assert_allclose(counts.counts, counts_by_loop(y_proba, decision, weight))
    np.testing.assert_allclose(
        confusion.counts, confusion_by_loop(y_proba, y, decision, weight), atol=1e-12
    )
    np.testing.assert_allclose(confusion.class_weights, confusion.counts.sum(axis=0), atol=1e-12)


@every_decision
def test_several_blocks_and_threads_count_as_one(decision, monkeypatch):
    y_proba, y = random_samples(60_000, 5)  # more than one block of rows
    weight = np.random.default_rng(1).exponential(size=y.size)
    plain = y_proba if decision == "soft" else np.eye(5)[y_proba.argmax(axis=1)]
    expected = np.array([(plain[y == k] * weight[y == k, None]).sum(axis=0) for k in range(5)]).T
    for serial_work in (2**40, 0):
        monkeypatch.setattr(threads, "SERIAL_WORK", serial_work)
        counts = ps.DecisionCounts.from_arrays(y_proba, decision=decision, sample_weight=weight)
        confusion = ps.Confusion.from_arrays(y_proba, y, decision=decision, sample_weight=weight)
        np.testing.assert_allclose(counts.counts, expected.sum(axis=1), rtol=1e-12)
        np.testing.assert_allclose(confusion.counts, expected, rtol=1e-12)


@pytest.mark.parametrize("K", [2, 10, 300])
def test_hard_confusion_is_scikit_learns_transposed(K):
    y_proba, y = random_samples(500, K)
    weight = np.random.default_rng(2).exponential(size=y.size)
    theirs = confusion_matrix(y, y_proba.argmax(axis=1), labels=np.arange(K), sample_weight=weight)
    ours = ps.Confusion.from_arrays(y_proba, y, decision="hard", sample_weight=weight)
    np.testing.assert_allclose(ours.counts, theirs.T, atol=1e-12)


def test_conditional_is_scikit_learns_normalised_by_true_class():
    y_proba, y = random_samples(500, 6)
    theirs = confusion_matrix(y, y_proba.argmax(axis=1), normalize="true")
    ours = ps.Confusion.from_arrays(y_proba, y, decision="hard")
    np.testing.assert_allclose(ours.conditional, theirs.T)


def test_soft_conditional_is_the_mean_prediction_of_each_class():
    y_proba, y = random_samples(500, 6)
    ours = ps.Confusion.from_arrays(y_proba, y, decision="soft").conditional
    for k in range(6):
        np.testing.assert_allclose(ours[:, k], y_proba[y == k].mean(axis=0))


def test_ties_are_decided_as_by_argmax():
    y_proba = np.array([[0.4, 0.4, 0.2], [0.1, 0.45, 0.45]])
    counts = ps.DecisionCounts.from_arrays(y_proba, decision="hard").counts
    np.testing.assert_array_equal(counts, [1, 1, 0])


# What holds whatever the data


@quick
@given(samples=samples, decision=st.sampled_from(DECISIONS), seed=st.integers(0, 99))
def test_repeated_rows_equal_weights(samples, decision, seed):
    y_proba, y = samples
    times = np.random.default_rng(seed).integers(0, 4, y.size)
    times[0] += 1  # or nothing may be left
    rows = np.repeat(np.arange(y.size), times)
    weight = times.astype(float)
    repeated = ps.Confusion.from_arrays(y_proba[rows], y[rows], decision=decision)
    weighted = ps.Confusion.from_arrays(y_proba, y, decision=decision, sample_weight=weight)
    np.testing.assert_allclose(repeated.counts, weighted.counts, atol=1e-12)
    np.testing.assert_array_equal(repeated.class_weights, weighted.class_weights)
    np.testing.assert_allclose(
        ps.DecisionCounts.from_arrays(y_proba[rows], decision=decision).counts,
        ps.DecisionCounts.from_arrays(y_proba, decision=decision, sample_weight=weight).counts,
        atol=1e-12,
    )


@quick
@given(samples=samples, seed=st.integers(0, 99))
def test_permuting_classes_permutes_rows_and_columns(samples, seed):
    y_proba, y = samples
    order = np.random.default_rng(seed).permutation(y_proba.shape[1])
    position = np.argsort(order)
    one = ps.Confusion.from_arrays(y_proba, y, decision="soft")
    other = ps.Confusion.from_arrays(y_proba[:, order], position[y], decision="soft")
    np.testing.assert_allclose(other.counts, one.counts[np.ix_(order, order)], atol=1e-12)
    np.testing.assert_allclose(other.conditional, one.conditional[np.ix_(order, order)], atol=1e-12)


@quick
@given(samples=samples, decision=st.sampled_from(DECISIONS))
def test_columns_sum_to_1_and_unseen_classes_to_0(samples, decision):
    y_proba, y = samples
    confusion = ps.Confusion.from_arrays(y_proba, y, decision=decision)
    seen = np.isin(np.arange(y_proba.shape[1]), y)
    np.testing.assert_array_equal(confusion.seen, seen)
    np.testing.assert_allclose(confusion.conditional.sum(axis=0), seen.astype(float))
    np.testing.assert_array_equal(confusion.conditional[:, ~seen], 0.0)
    np.testing.assert_allclose(
        confusion.class_frequencies, np.bincount(y, minlength=seen.size) / y.size
    )


@quick
@given(samples=samples, decision=st.sampled_from(DECISIONS))
def test_joint_sums_to_1_and_its_rows_to_the_decisions(samples, decision):
    y_proba, y = samples
    joint = ps.Confusion.from_arrays(y_proba, y, decision=decision).joint()
    decided = ps.DecisionCounts.from_arrays(y_proba, decision=decision)
    np.testing.assert_allclose(joint.sum(), 1.0)
    np.testing.assert_allclose(joint.sum(axis=1), decided.frequencies, atol=1e-12)
    np.testing.assert_allclose(decided.frequencies.sum(), 1.0)


def test_joint_at_given_priors_has_them_as_column_sums():
    y_proba, y = random_samples(200, 4)
    priors = np.array([0.1, 0.2, 0.3, 0.4])
    confusion = ps.Confusion.from_arrays(y_proba, y, decision="soft")
    joint = confusion.joint(priors)
    np.testing.assert_allclose(joint.sum(axis=0), priors)
    np.testing.assert_allclose(joint, confusion.conditional @ np.diag(priors))


def test_the_balance_of_samples_does_not_change_the_conditional():
    y_proba, y = random_samples(300, 4)
    by_class = np.array([0.1, 7.0, 1.0, 3.0])
    plain = ps.Confusion.from_arrays(y_proba, y, decision="soft")
    rebalanced = ps.Confusion.from_arrays(y_proba, y, decision="soft", sample_weight=by_class[y])
    np.testing.assert_allclose(plain.conditional, rebalanced.conditional)


# Precision and memory


@every_decision
def test_float32_is_summed_in_float64(decision):
    # 0.1 in float32, summed 50,000 times in float32, is off by about 1e-4
    n = 50_000
    y_proba = np.full((n, 2), [0.1, 0.9], np.float32)
    weight = np.full(n, 0.1)
    y = np.zeros(n, np.intp)
    row = y_proba[0].astype(np.float64) if decision == "soft" else np.array([0.0, 1.0])
    for given_weight, share in ((None, 1.0), (weight, 0.1)):
        counts = ps.DecisionCounts.from_arrays(
            y_proba, decision=decision, sample_weight=given_weight
        )
        confusion = ps.Confusion.from_arrays(
            y_proba, y, decision=decision, sample_weight=given_weight
        )
        assert counts.counts.dtype == confusion.counts.dtype == np.float64
        np.testing.assert_allclose(counts.counts, n * share * row, rtol=1e-10)
        np.testing.assert_allclose(confusion.counts[:, 0], n * share * row, rtol=1e-10)


@every_decision
@pytest.mark.parametrize("weighted", [False, True])
def test_no_copy_of_the_matrix_is_made(decision, weighted):
    y_proba = np.full((60_000, 200), 1 / 200, np.float32)
    y = np.arange(60_000) % 200
    weight = np.ones(60_000) if weighted else None
    tracemalloc.start()
    try:
        ps.Confusion.from_arrays(y_proba, y, decision=decision, sample_weight=weight)
        ps.DecisionCounts.from_arrays(y_proba, decision=decision, sample_weight=weight)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < y_proba.nbytes / 4


# What is refused


def test_unlike_counts_cannot_be_added():
    def count(K, decision):
        return ps.DecisionCounts.from_arrays(np.full((2, K), 1 / K), decision=decision)

    def confuse(K, decision):
        y_proba = np.full((2, K), 1 / K)
        return ps.Confusion.from_arrays(y_proba, np.array([0, 1]), decision=decision)

    for make in (count, confuse):
        with pytest.raises(ValueError, match=r"hard counts of 3 .* to soft counts of 3"):
            make(3, "hard") + make(3, "soft")
        with pytest.raises(ValueError, match=r"of 3 classes to hard counts of 4 .* same way"):
            make(3, "hard") + make(4, "hard")
    with pytest.raises(ValueError, match="cannot add"):
        count(3, "hard") + confuse(3, "hard")


def test_an_unknown_kind_of_decision_is_refused():
    y_proba = np.full((2, 2), 0.5)
    with pytest.raises(ValueError, match="decision must be one of 'hard', 'soft'; got 'Hard'"):
        ps.DecisionCounts.from_arrays(y_proba, decision="Hard")
    with pytest.raises(ValueError, match="decision must be one of 'hard', 'soft'; got None"):
        ps.Confusion.from_arrays(y_proba, np.array([0, 1]), decision=None)


def test_statistics_are_frozen():
    counts = ps.DecisionCounts.from_arrays(np.full((2, 2), 0.5), decision="soft")
    with pytest.raises(AttributeError):
        counts.n_samples = 3


@pytest.mark.parametrize("decision", ["hard", "soft"])
@pytest.mark.parametrize("y", [[1, 2], [-1, 0], [0.0, 1.0], ["0", "1"], [0]])
def test_labels_that_are_not_column_numbers_are_refused(decision, y):
    """An index out of bounds would be written out of bounds by a sparse product."""
    with pytest.raises(ValueError, match=r"y (must hold column numbers 0..1|has 1 labels)"):
        ps.Confusion.from_arrays(np.full((2, 2), 0.5), y, decision=decision)


def test_rows_that_are_no_numbers_are_not_counted():
    bad = np.array([[0.5, 0.5], [np.nan, 1.0]])
    with pytest.raises(ValueError, match="counts must be finite"):
        ps.DecisionCounts.from_arrays(bad, decision="soft")
    with pytest.raises(ValueError, match=r"counts must be finite.* y_proba"):
        ps.Confusion.from_arrays(bad, np.array([0, 1]), decision="soft")


def test_counts_of_nothing_have_no_shares():
    nothing = ps.DecisionCounts.from_arrays(np.zeros((3, 2)), decision="soft")
    with pytest.raises(ValueError, match="counts are all 0"):
        _ = nothing.frequencies


@pytest.mark.parametrize("at_once", [1, 7, 2**18])
def test_weightings_counted_in_one_pass_are_those_counted_one_by_one(at_once, monkeypatch):
    monkeypatch.setattr(statistics, "MANY_CELLS", at_once * 4**2)
    y_proba, y = random_samples(300, 4)
    weights = list(np.random.default_rng(1).poisson(1.0, (20, 300)).astype(float))
    weights[3][y == 2] = 0  # a class that a draw misses
    found = list(statistics.reweighted_columns(y_proba, y, weights))
    assert len(found) == len(weights)
    for C, weight in zip(found, weights, strict=True):
        alone = ps.Confusion.from_arrays(y_proba, y, decision="soft", sample_weight=weight)
        np.testing.assert_array_equal(C, alone.conditional)


def test_a_gram_matrix_equals_a_plain_loop(monkeypatch):
    y_proba, y = random_samples(40, 3)
    weight = np.random.default_rng(1).exponential(size=40)
    centre = np.random.default_rng(2).dirichlet(np.ones(3), 3).T
    monkeypatch.setattr(statistics, "GRAM_BYTES", 8 * 3 * 7)  # several blocks
    for given_centre, labels in ((0.0, None), (centre[:, 0], None), (centre, y)):
        for given_weight in (None, weight):
            expected = np.zeros((3, 3))
            for i, row in enumerate(y_proba):
                away = row - (centre[:, y[i]] if labels is not None else given_centre)
                expected += (1.0 if given_weight is None else weight[i]) * np.outer(away, away)
            found = statistics.weighted_gram(y_proba, given_weight, given_centre, labels)
            assert found == pytest.approx(expected)


@every_decision
def test_what_a_classifier_predicts_for_itself_equals_a_plain_loop(decision):
    y_proba, _ = random_samples(30, 4, seed=3)
    y_proba[:, 3] = 0  # a class that is never predicted counts as always recognised
    y_proba /= np.maximum(y_proba.sum(axis=1, keepdims=True), 1e-9)
    weight = np.random.default_rng(4).exponential(size=30)
    sums = np.zeros((4, 4))
    for w, row in zip(weight, y_proba, strict=True):
        sums += w * np.outer(one_decision(row, decision), row)
    mass = sums.sum(axis=0)
    expected = np.where(mass > 0, sums / np.where(mass > 0, mass, 1), np.eye(4))
    assert statistics.model_columns(y_proba, weight, decision) == pytest.approx(expected)


def test_columns_are_shrunk_by_as_many_samples():
    y_proba, y = random_samples(30, 3, seed=5)
    counted = ps.Confusion.from_arrays(y_proba, y, decision="hard")
    model = np.full((3, 3), 1 / 3)
    n = np.bincount(y, minlength=3)
    expected = (n * counted.conditional + 7 * model) / (n + 7)
    assert statistics.shrunk_columns(counted, model, 7.0) == pytest.approx(expected)
    unseen = ps.Confusion(np.zeros((3, 3)), np.zeros(3), "hard", 0)
    assert not statistics.shrunk_columns(unseen, model, 0.0).any()


def test_weighted_samples_are_worth_fewer():
    """Kish: a column of weights w is worth (sum w)^2 / sum w^2 samples."""
    y_proba, y = random_samples(50, 3, seed=6)
    weight = np.random.default_rng(7).exponential(size=50)
    counted = ps.Confusion.from_arrays(y_proba, y, decision="hard", sample_weight=weight)
    worth = [weight[y == k].sum() ** 2 / (weight[y == k] ** 2).sum() for k in range(3)]
    assert counted.sizes == pytest.approx(worth)
    assert counted.in_samples() == pytest.approx(counted.conditional * worth)
    even = ps.Confusion.from_arrays(y_proba, y, decision="hard")
    assert even.sizes == pytest.approx(np.bincount(y))
    both = counted + even
    squares = [(weight[y == k] ** 2).sum() + (y == k).sum() for k in range(3)]
    assert both.squares == pytest.approx(squares)
    assert both.n_samples == 100
    assert (even + even).squares is None
    doubled = ps.Confusion(2 * even.counts, 2 * even.class_weights, "hard", 50)  # each weighs 2
    assert (doubled + counted).squares == pytest.approx(4 * np.bincount(y) + counted.squares)


@pytest.mark.parametrize("weighted", [False, True])
def test_decisions_of_sparse_rows_are_those_of_dense_ones(weighted):
    y_proba, y = random_samples(60, 5, seed=8)
    weight = np.random.default_rng(9).exponential(size=60) if weighted else None
    decided = y_proba.argmax(axis=1)
    dense, sparse = (
        statistics._cells(decided, y, 5, weight, sparse=sparse) for sparse in (False, True)
    )
    expected = np.zeros((5, 5))
    np.add.at(expected, (decided, y), 1.0 if weight is None else weight)
    assert dense == pytest.approx(expected)
    assert sparse.csr.toarray() == pytest.approx(expected)


def test_rates_of_a_test_by_hand():
    known = ps.Confusion.from_rates(sensitivity=0.9, specificity=0.7)
    assert known.exact
    assert known.conditional == pytest.approx(np.array([[0.7, 0.1], [0.3, 0.9]]))
    study = ps.Confusion.from_rates(sensitivity=0.9, specificity=0.7, n_positive=50, n_negative=20)
    assert not study.exact
    assert study.sizes == pytest.approx([20, 50])
    assert study.in_samples() == pytest.approx(np.array([[14, 5], [6, 45]]))
    assert study.n_samples == 70
    for rates in ({"sensitivity": 0.4, "specificity": 0.6}, {"sensitivity": 0, "specificity": 1}):
        with pytest.raises(ValueError, match="must sum to more than 1"):
            ps.Confusion.from_rates(**rates)
