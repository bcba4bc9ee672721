"""A sparse block does what the array does that it stands for."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import coo_array, csr_array, csr_matrix

from priorshift.border import SparseTable, map_reduce, sparse, take_rows
from priorshift.border.check import as_table

NUMBERS = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.0, 0.0, 0.25, 1.0, 2.0])


@st.composite
def blocks(draw, dtype=np.float64, least=None):
    """Draw a block and its array, its rest of `least` or more; the numbers make all sums exact."""
    n, K = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    dense = draw(hnp.arrays(dtype, (n, K), elements=NUMBERS))
    rest = NUMBERS if least is None else NUMBERS.filter(lambda number: number >= least)
    base = trend = None
    full = dense
    if draw(st.booleans()):
        base = draw(hnp.arrays(dtype, n, elements=rest))
        if draw(st.booleans()):
            trend = draw(hnp.arrays(dtype, K, elements=rest))
        full = dense + np.outer(base, np.ones(K) if trend is None else trend)
    return SparseTable(csr_array(dense), base, trend), full


everything = settings(max_examples=50)


@given(blocks(), st.data())
@everything
def test_products_are_those_of_the_array(pair, data):
    block, full = pair
    n, K = full.shape
    x = data.draw(hnp.arrays(np.float64, K, elements=NUMBERS))
    w = data.draw(hnp.arrays(np.float64, n, elements=NUMBERS))
    assert np.array_equal(block @ x, full @ x)
    assert np.array_equal(w @ block, w @ full)
    X = np.column_stack([x, x[::-1]])
    assert np.array_equal(block @ X, full @ X)
    W = np.column_stack([w, w[::-1]])
    assert np.array_equal(block.T @ W, full.T @ W)
    assert np.array_equal(W.T @ block, W.T @ full)
    assert np.array_equal(block.T @ block, full.T @ full)


@given(blocks())
@everything
def test_sums_and_extremes_are_those_of_the_array(pair):
    block, full = pair
    assert block.shape == full.shape
    assert block.size == full.size
    assert np.array_equal(block.toarray(), full)
    assert np.array_equal(block.sum(axis=0), full.sum(axis=0))
    assert np.array_equal(block.sum(axis=1), full.sum(axis=1))
    assert block.sum() == full.sum()
    assert np.array_equal(block.squares(), (full**2).sum(axis=0))


@given(blocks(least=0.25), blocks())
@everything
def test_extremes_are_those_of_the_array(pair, signed):
    """Of probabilities: what rows do not list is at least 0."""
    block, full = pair
    assert np.array_equal(block.argmax(axis=1), full.argmax(axis=1))
    assert np.array_equal(block.max(axis=0), full.max(axis=0))
    assert np.array_equal(block.max(axis=1), full.max(axis=1))
    block, full = signed
    if block.base is None or (full - block.csr.toarray()).min() >= 0:
        assert block.min() == min(full.min(), 0)


@given(blocks(), st.data())
@everything
def test_slices_and_factors_are_those_of_the_array(pair, data):
    block, full = pair
    n, K = full.shape
    rows = data.draw(hnp.arrays(np.intp, st.integers(0, 8), elements=st.integers(0, n - 1)))
    mask = data.draw(hnp.arrays(np.bool_, n))
    columns = data.draw(st.permutations(range(K)))[: max(1, K // 2)]
    start, stop = data.draw(st.integers(0, n)), data.draw(st.integers(0, n))
    for key in (rows, mask, slice(start, stop), slice(None), slice(None, None, 2)):
        assert np.array_equal(block[key].toarray(), full[key])
    assert np.array_equal(block[:, columns].toarray(), full[:, columns])
    of_column = data.draw(hnp.arrays(np.float64, K, elements=NUMBERS))
    of_row = data.draw(hnp.arrays(np.float64, n, elements=NUMBERS))
    assert np.array_equal((block * of_column).toarray(), full * of_column)
    assert np.array_equal((block * of_row[:, None]).toarray(), full * of_row[:, None])


@given(blocks(), st.data())
@everything
def test_sums_by_label_are_those_of_the_array(pair, data):
    block, full = pair
    label = data.draw(hnp.arrays(np.intp, full.shape[0], elements=st.integers(0, 3)))
    weight = data.draw(hnp.arrays(np.float64, full.shape[0], elements=NUMBERS))
    expected = np.zeros((4, full.shape[1]))
    np.add.at(expected, label, weight[:, None] * full)
    assert np.array_equal(block.sum_by(label, 4, weight), expected)
    with patch.object(sparse, "DENSE_CLASSES", 0):  # however many classes there are
        found = block.sum_by(label, 4, weight)
    assert np.array_equal(found.toarray(), expected)
    assert np.array_equal((found + found).toarray(), 2 * expected)
    assert np.array_equal((found.T + found.T).toarray(), 2 * expected.T)


def test_precision_is_kept_until_it_is_changed():
    block = SparseTable(csr_array(np.eye(3, dtype=np.float32)), np.ones(3, np.float32))
    assert block.dtype == np.float32
    assert (block @ np.ones(3, np.float32)).dtype == np.float32
    assert block.sum(axis=0).dtype == np.float64
    exact = block.astype(np.float64)
    assert exact.dtype == exact.base.dtype == np.float64
    assert (exact @ np.ones(3)).dtype == np.float64


def test_blocks_that_spread_differently_are_not_added():
    eye = csr_array(np.eye(2))
    one = SparseTable(eye, np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    other = SparseTable(eye, np.array([2.0, 1.0]), np.array([2.0, 1.0]))
    with pytest.raises(AssertionError):
        one + other
    with pytest.raises(AssertionError):
        one + SparseTable(eye)


# Tables


@pytest.mark.parametrize("kind", [csr_array, csr_matrix, coo_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_any_sparse_matrix_becomes_a_table(kind, dtype):
    dense = np.array([[1, 0, 0], [0, 0, 1]], dtype=dtype)
    table = as_table(kind(dense))
    assert table.dtype == (np.float32 if dtype == np.float32 else np.float64)
    assert np.array_equal(table.toarray(), dense)
    assert table.base is None


def test_entries_given_twice_are_added_and_the_matrix_of_the_user_stays_as_it_is():
    twice = csr_array((np.array([0.5, 0.25, 0.25]), [2, 0, 2], [0, 3]), shape=(1, 3))
    table = as_table(twice)
    assert table.toarray().tolist() == [[0.25, 0.0, 0.75]]
    assert table.argmax().tolist() == [2]
    assert twice.indices.tolist() == [2, 0, 2]


def test_a_table_holds_the_scores_of_the_user_without_a_copy():
    matrix = csr_array(np.eye(4, dtype=np.float32))
    table = as_table(matrix)
    assert np.shares_memory(table.csr.data, matrix.data)
    [(_, block)] = table.blocks(slice(1, 3), 1)
    assert np.shares_memory(block.csr.data, matrix.data)
    assert np.array_equal(block.toarray(), np.eye(4)[1:3])


def test_passes_in_many_blocks_and_threads_give_the_sums_of_one(monkeypatch, rng):
    dense = rng.random((501, 7)) * (rng.random((501, 7)) < 0.4)
    table = as_table(csr_array(dense))
    monkeypatch.setattr(sparse, "SCORES_IN_BLOCK", 60)
    monkeypatch.setattr(sparse, "SERIAL_WORK", 1)
    sums, n_blocks = map_reduce(lambda block, rows: (block.sum(axis=0), 1), table)
    assert n_blocks > 16
    assert sums == pytest.approx(dense.sum(axis=0), abs=1e-12)
    at = np.array([0, 7, 8, 500])
    assert np.array_equal(take_rows(table, at), dense[at])


def test_columns_are_put_in_order_with_their_names():
    table = SparseTable(csr_array([[0.1, 0.2, 0.7]]), names=("a", "b", "c"))
    turned = table.columns([2, 0, 1])
    assert turned.names == ("c", "a", "b")
    assert turned.toarray().tolist() == [[0.7, 0.1, 0.2]]


def test_a_table_is_not_made_an_array_by_accident():
    table = as_table(csr_array(np.eye(2)))
    with pytest.raises(TypeError, match="read in blocks"):
        np.asarray(table)
