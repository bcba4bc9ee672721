"""Adapting sparse predictions gives what adapting them in full does."""

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix, issparse

import priorshift as ps
from priorshift.border import SparseTable, TopK


def as_array(adapted):
    return adapted.toarray()


def test_adapted_rows_are_those_of_the_arrays(wide, rng):
    target = rng.dirichlet(np.ones(wide.K))
    source = np.full(wide.K, 1 / wide.K)
    for strength in (1.0, 0.4):
        sparse = ps.adapt_proba(wide.new, source, target, strength=strength)
        dense = ps.adapt_proba(wide.dense_new, source, target, strength=strength)
        assert as_array(sparse) == pytest.approx(dense, abs=1e-12)
        assert np.array_equal(np.asarray(sparse.argmax(axis=1)).ravel(), dense.argmax(axis=1))
    if wide.kind == "spread":
        assert type(sparse) is TopK
    else:
        assert issparse(sparse)


@pytest.mark.usefixtures("nothing_dense")
def test_nothing_is_made_dense_on_the_way(wide):
    est = ps.EM().fit(wide.val)
    shift = est.estimate(wide.new)
    one, other = shift.adapt(wide.new), est.adapt(wide.new)
    assert one.shape == wide.new.shape
    for adapted in (one, other):
        table = adapted if isinstance(adapted, SparseTable) else SparseTable(adapted)
        assert table.sum(axis=1) == pytest.approx(np.ones(wide.new.shape[0]), abs=1e-12)


def test_adapted_rows_can_be_adapted_and_estimated_again(wide, rng):
    first, second = rng.dirichlet(np.ones(wide.K), 2)
    source = np.full(wide.K, 1 / wide.K)
    there = ps.adapt_proba(wide.new, source, first)
    again = ps.adapt_proba(there, first, second)
    at_once = ps.adapt_proba(wide.dense_new, source, second)
    assert as_array(again) == pytest.approx(at_once, abs=1e-12)
    found = ps.EM().fit(source_priors=second).estimate(again).priors
    dense = ps.EM().fit(source_priors=second).estimate(at_once).priors
    assert found == pytest.approx(dense, abs=1e-10)


def test_the_mean_prediction_is_that_of_the_array(wide):
    found = ps.priors_from_predictions(wide.new)
    assert found == pytest.approx(wide.dense_new.mean(axis=0), abs=1e-12)


def test_float32_stays_float32():
    rows = csr_matrix(np.array([[0.25, 0.75, 0.0]], dtype=np.float32))
    adapted = ps.adapt_proba(rows, [0.4, 0.3, 0.3], [0.2, 0.4, 0.4])
    assert adapted.dtype == np.float32
    assert adapted.nnz == 2
    assert rows.data.tolist() == [0.25, 0.75]


@pytest.mark.parametrize("rest", ["csr", "spread"])
def test_rows_that_lose_everything_are_kept_with_a_warning(rest):
    ids, scores = [[0, 1], [2, 3], [1, 2]], [[0.5, 0.5], [0.5, 0.5], [0.25, 0.75]]
    if rest == "spread":
        scores = [[0.5, 0.5], [0.5, 0.25], [0.25, 0.5]]
    table = TopK(ids, scores, 4, rest="spread")
    rows = csr_array(table.toarray()) if rest == "csr" else table
    dense = table.toarray()
    source, target = [0.25] * 4, [0.0, 0.0, 0.0, 1.0]
    with pytest.warns(ps.PriorShiftWarning, match="rows have no class left"):
        adapted = ps.adapt_proba(rows, source, target)
    with pytest.warns(ps.PriorShiftWarning, match="rows have no class left"):
        expected = ps.adapt_proba(dense, source, target)
    assert adapted.toarray() == pytest.approx(expected, abs=1e-12)


def test_a_lost_row_keeps_what_it_spreads():
    rows = TopK([[0, 2], [1, 2]], [[0.6, 0.0], [0.5, 0.4]], 3, rest="spread")
    for given in (rows, rows.toarray()):
        with pytest.warns(UserWarning, match="1 of 2 rows"):
            adapted = ps.adapt_proba(given, [0.4, 0.4, 0.2], [0.0, 0.0, 1.0])
        full = adapted if given is not rows else adapted.toarray()
        assert full == pytest.approx(np.array([[0.6, 0.4, 0.0], [0.0, 0.0, 1.0]]))


def test_what_spreads_nothing_but_lost_rows_is_written_in_full():
    table = TopK([[0], [1]], [[0.9], [1.0]], 3, rest="spread")
    source, target = [0.4, 0.3, 0.3], [1.0, 0.0, 0.0]
    with pytest.warns(ps.PriorShiftWarning, match="1 of 2 rows"):
        adapted = ps.adapt_proba(table, source, target)
    assert adapted.toarray() == pytest.approx(np.array([[1, 0, 0], [0, 1, 0]]), abs=1e-12)


def test_a_calibrator_needs_rows_in_full(wide):
    shift = ps.CalibratedEM().fit(wide.dense_val, wide.y).estimate(wide.dense_new)
    with pytest.raises(ValueError, match=r"is a sparse matrix|read in blocks"):
        shift.adapt(wide.new)


def test_logits_cannot_be_sparse(wide):
    rows = csr_array(np.eye(3))
    with pytest.raises(ValueError, match="is a sparse matrix"):
        ps.adapt_proba(rows, [0.4, 0.3, 0.3], [0.2, 0.4, 0.4], from_logits=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_listed_as_nothing_does_not_fall_below_it(dtype, rng):
    """A listed score of 0 is the row's share less itself, and rounding must not show."""
    for _ in range(20):
        K = int(rng.integers(4, 30))
        ids = np.array([rng.permutation(K)[:3] for _ in range(30)])
        scores = rng.dirichlet(np.full(4, 0.3), 30)[:, :3].astype(dtype)
        scores[rng.random(scores.shape) < 0.4] = 0
        best = TopK(ids, scores, K, rest="spread")
        target = rng.dirichlet(np.full(K, 0.3))
        adapted = ps.adapt_proba(best, np.full(K, 1 / K), target)
        assert as_array(adapted).min() >= 0
        dense = ps.adapt_proba(best.toarray().astype(np.float64), np.full(K, 1 / K), target)
        assert as_array(adapted) == pytest.approx(dense, abs=1e-4 if dtype == np.float32 else 1e-9)
        ps.NoAdaptation().fit(source_priors=np.full(K, 1 / K)).estimate(adapted)
