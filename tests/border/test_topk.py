"""The best classes of each row, and what becomes of the rest."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array

import priorshift as ps
from priorshift.border import SparseTable, TopK

IDS = np.array([[0, 2], [4, 1], [3, 0]])
SCORES = np.array([[0.5, 0.2], [0.6, 0.4], [0.05, 0.2]])


def test_the_rest_is_spread_over_the_classes_that_are_not_listed():
    expected = [
        [0.5, 0.1, 0.2, 0.1, 0.1],
        [0.0, 0.4, 0.0, 0.0, 0.6],
        [0.2, 0.25, 0.25, 0.05, 0.25],
    ]
    table = TopK(IDS, SCORES, 5, rest="spread")
    assert table.toarray() == pytest.approx(np.array(expected), abs=1e-15)
    assert table.argmax(axis=1).tolist() == [0, 4, 1]
    assert table.base is not None


def test_the_rest_is_dropped_and_rows_are_normalised():
    expected = np.zeros((3, 5))
    np.put_along_axis(expected, IDS, SCORES / SCORES.sum(axis=1, keepdims=True), axis=1)
    table = TopK(IDS, SCORES, 5, rest="drop")
    assert table.toarray() == pytest.approx(expected, abs=1e-15)
    assert table.base is None


@pytest.mark.parametrize("rest", ["spread", "drop"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_sparse_matrix_of_scores_says_the_same(rest, dtype):
    dense = np.zeros((3, 5))
    np.put_along_axis(dense, IDS, SCORES, axis=1)
    scores = SCORES.astype(dtype)
    matrix = csr_array(dense.astype(np.float32 if dtype == np.float16 else dtype))
    listed = TopK(IDS, scores, 5, rest=rest)
    read = TopK.from_csr(matrix, rest=rest)
    assert isinstance(read, TopK)
    assert listed.dtype == (np.float64 if dtype == np.float64 else np.float32)
    assert read.toarray() == pytest.approx(listed.toarray(), abs=2e-4)
    assert listed.toarray().sum(axis=1) == pytest.approx(np.ones(3), abs=1e-6)


def test_a_score_of_0_that_is_stored_gets_no_share_of_the_rest():
    stored = csr_array((np.array([0.5, 0.0]), [0, 1], [0, 2]), shape=(1, 4))
    assert TopK.from_csr(stored, rest="spread").toarray().tolist() == [[0.5, 0.0, 0.25, 0.25]]


def test_the_order_of_ids_does_not_matter(rng):
    order = rng.permuted(np.tile(np.arange(2), (3, 1)), axis=1)
    turned = [np.take_along_axis(part, order, axis=1) for part in (IDS, SCORES)]
    for rest in ("spread", "drop"):
        one, other = TopK(IDS, SCORES, 5, rest=rest), TopK(*turned, 5, rest=rest)
        assert np.array_equal(one.toarray(), other.toarray())
        assert np.array_equal(one.argmax(), other.argmax())


def test_scores_beyond_1_by_rounding_are_taken():
    table = TopK([[0, 1]], [[0.6, 0.4005]], 3, rest="spread")
    assert table.toarray().tolist() == [[0.6, 0.4005, 0.0]]


def test_rows_that_list_all_classes_have_nothing_to_spread():
    table = TopK([[1, 0]], [[0.6, 0.4]], 2, rest="spread")
    assert table.toarray().tolist() == [[0.4, 0.6]]


def test_only_what_spreads_nothing_becomes_a_sparse_matrix_of_its_own():
    dropped = TopK([[1, 0]], [[0.6, 0.4]], 3, rest="drop")
    matrix = dropped.tocsr()
    matrix.sort_indices()
    assert dropped.toarray().tolist() == matrix.toarray().tolist() == [[0.4, 0.6, 0.0]]
    with pytest.raises(ValueError, match="not 0 but spread"):
        TopK(IDS, SCORES, 5, rest="spread").tocsr()


def test_it_can_be_pickled():
    table = TopK(IDS, SCORES, 5, rest="spread")
    copy = pickle.loads(pickle.dumps(table))
    assert type(copy) is TopK
    assert np.array_equal(copy.toarray(), table.toarray())


@pytest.mark.parametrize(
    ("ids", "scores", "options", "said"),
    [
        ([[0, 5]], [[0.5, 0.2]], {}, r"ids must be 0\.\.4, .*got 5 in row 0"),
        ([[0, 1], [0, -1]], [[0.5, 0.2]] * 2, {}, "got -1 in row 1"),
        ([[0, 1], [3, 3]], [[0.5, 0.2]] * 2, {}, "row 1 of ids lists class 3 twice"),
        ([[0, 1]], [[0.5, -0.2]], {}, "at least 0; got -0.2 in row 0.*softmax"),
        ([[0, 1]], [[0.5, np.nan]], {}, "at least 0; got nan in row 0"),
        ([[0, 1]] * 2, [[0.5, 0.1], [0.9, 0.2]], {}, "scores of row 1 sum to 1.1, more than 1"),
        ([[0.0, 1.0]], [[0.5, 0.2]], {}, "ids must be integers.*float64"),
        ([[0, 1]], [["a", "b"]], {}, "scores must be probabilities"),
        ([0, 1], [0.5, 0.2], {}, r"one shape \(n_samples, k\)"),
        ([[0, 1], [2]], [[0.5, 0.2]] * 2, {}, "ids and scores cannot be read as arrays"),
        ([[0, 1]], [[0.5]], {}, r"one shape.*\(1, 2\) and \(1, 1\)"),
        ([[0, 1]], [[0.5, 0.2]], {"rest": "keep"}, "rest must be 'spread'.*'keep'"),
        ([[0, 1]], [[0.0, 0.0]], {"rest": "drop"}, "row 0 lists no probability at all"),
        ([[0, 1]], [[0.5, 0.2]], {"n_classes": 2}, "row 0 lists every class.*0.7.* Divide scores"),
        ([[0, 1]], [[0.5, 0.2]], {"n_classes": 4.0}, "n_classes must be a whole number"),
    ],
)
def test_bad_lists_are_met_with_a_reason(ids, scores, options, said):
    with pytest.raises(ValueError, match=said):
        TopK(ids, scores, **({"n_classes": 5, "rest": "spread"} | options))


def test_the_rest_is_never_guessed():
    with pytest.raises(TypeError, match="rest"):
        TopK(IDS, SCORES, 5)
    with pytest.raises(TypeError, match="rest"):
        TopK.from_csr(csr_array(np.eye(2)))


def test_from_csr_wants_a_sparse_matrix():
    with pytest.raises(ValueError, match="takes a scipy sparse matrix; got ndarray"):
        TopK.from_csr(np.eye(2), rest="drop")


# What the border says of sparse matrices


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        (np.diag([1.0, 0.5]), "row 1 of y_proba sums to 0.5, not 1"),
        (np.array([[1.5, -0.5], [0.0, 1.0]]), r"a negative value \(-0.5\) at row 0, column 1"),
        (np.array([[1.0, 0.0], [np.nan, 1.0]]), r"NaN \(nan\) at row 1, column 0"),
        (np.array([[1.0], [1.0]]), "one column"),
    ],
)
def test_rows_that_are_no_distributions_are_named(matrix, said):
    with pytest.raises(ValueError, match=said):
        ps.EM().fit(source_priors=[0.5, 0.5]).estimate(csr_array(matrix))


def test_a_bad_row_far_down_is_named_without_all_rows_in_full(monkeypatch):
    good = csr_array((np.ones(5000), np.arange(5000) % 7, np.arange(5001)), shape=(5000, 7))
    good.data[4321] = 0.25
    shown = []
    plain = SparseTable.toarray

    def counted(block):
        shown.append(block.shape[0])
        return plain(block)

    monkeypatch.setattr(SparseTable, "toarray", counted)
    with pytest.raises(ValueError, match=r"row 4321 of y_proba sums to 0\.25"):
        ps.EM().fit(source_priors=np.full(7, 1 / 7)).estimate(good)
    assert sum(shown) <= 64


def test_empty_and_odd_matrices_are_refused():
    est = ps.EM().fit(source_priors=[0.5, 0.5])
    with pytest.raises(ValueError, match="is empty"):
        est.estimate(csr_array((0, 2)))
    with pytest.raises(ValueError, match="numbers in two dimensions"):
        est.estimate(csr_array(np.eye(2, dtype=complex)))
    with pytest.raises(ValueError, match="3 columns but there are 2 classes"):
        est.estimate(csr_array(np.eye(3)))


def test_names_of_columns_are_matched():
    table = SparseTable(csr_array([[0.2, 0.8], [0.4, 0.6]]), names=("b", "a"))
    shift = ps.EM().fit(source_priors={"a": 0.5, "b": 0.5}).estimate(table)
    plain = ps.EM().fit(source_priors=[0.5, 0.5]).estimate([[0.8, 0.2], [0.6, 0.4]])
    assert shift.priors == pytest.approx(plain.priors, abs=1e-12)


def test_probabilities_too_small_to_divide_by_are_none():
    with pytest.raises(ValueError, match="row 0 lists no probability at all"):
        TopK([[0, 1]], [[5e-324, 0.0]], 3, rest="drop")
    best = TopK([[0, 1]], [[1.0, 5e-324]], 2, rest="spread")
    shift = ps.EM().fit(source_priors=[0.5, 0.5]).estimate([[0.0, 1.0]])
    with pytest.warns(ps.PriorShiftWarning, match="1 of 1 rows have no class left"):
        adapted = shift.adapt(best)
    np.testing.assert_allclose(adapted.toarray(), [[1.0, 0.0]], atol=1e-300)
