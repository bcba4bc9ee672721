"""Predictions that are read in blocks give what the same numbers in one array give."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array

import priorshift as ps
from priorshift.border import (
    ArrayTable,
    Table,
    TopK,
    check_proba,
    dense,
    map_blocks,
    map_reduce,
    slices,
    sum_by,
    take_rows,
)
from priorshift.border import rows as rows_module
from priorshift.border.check import as_table
from priorshift.estimators import em
from tests.methods import ROADS

K, N = 6, 3000


class Chapters(Table):
    """A table in parts of its own, as the row groups of a file are; it counts its passes."""

    def __init__(self, array, ends, names=None):
        self.array, self.ends, self.names = array, ends, names
        self.shape, self.dtype, self.n_passes = array.shape, array.dtype, 0

    def parts(self, n_parts):
        self.n_passes += 1
        return [slice(*ends) for ends in pairwise([0, *self.ends, len(self.array)])]

    def blocks(self, part, n_rows):
        return slices(self.array, part, min(n_rows, 700))


@pytest.fixture
def simulate(rng):
    means = rng.normal(0, 2.0, (K, K))

    def draw(priors, n):
        y = rng.choice(K, n, p=priors)
        logits = means[y] + rng.normal(0, 2.0, (n, K))
        scores = -0.5 * ((logits[:, None] - means) ** 2).sum(-1) / 4
        proba = np.exp(scores - scores.max(1, keepdims=True))
        return proba / proba.sum(1, keepdims=True), y

    source, target = np.full(K, 1 / K), rng.dirichlet(np.full(K, 2.0))
    return *draw(source, 1200), *draw(target, N)


def quiet(function, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.PriorShiftWarning)
        warnings.simplefilter("ignore", ps.ConvergenceWarning)
        return function(*args, **kwargs)


def same(one, other):
    np.testing.assert_allclose(one.priors, other.priors, rtol=0, atol=1e-10)
    assert (one.status, one.n_target, one.n_iter) == (other.status, other.n_target, other.n_iter)
    if other.gap is not None:
        assert one.gap == pytest.approx(other.gap, abs=1e-8)


@pytest.mark.parametrize("name", ROADS)
def test_every_estimator_takes_a_table(simulate, name):
    y_proba_val, y_val, y_proba, _ = simulate
    est = quiet(ps.get_estimator(name).fit, y_proba_val, y_val)
    expected = quiet(est.estimate, y_proba)
    same(quiet(est.estimate, Chapters(y_proba, [1, 900, 901, 2500])), expected)
    est = quiet(ps.get_estimator(name).fit, Chapters(y_proba_val, [5, 800]), y_val)
    same(quiet(est.estimate, y_proba), expected)


@pytest.mark.parametrize(
    ("name", "known"),
    [("cm", True), ("scm-l", False), ("elsa", True), ("gls", False), ("em", True)],
)
def test_a_class_that_validation_lacks(simulate, name, known):
    y_proba_val, y_val, y_proba, _ = simulate
    kept = y_val != 2
    given = {"source_priors": np.full(K, 1 / K)} if known else {}
    est = ps.get_estimator(name)
    quiet(est.fit, y_proba_val[kept], y_val[kept], classes=np.arange(K), **given)
    expected = quiet(est.estimate, y_proba)
    same(quiet(est.estimate, Chapters(y_proba, [10, 2000])), expected)


@pytest.mark.parametrize("table", [True, False])
def test_auto_judges_by_a_sample_of_many_rows(simulate, monkeypatch, table):
    y_proba_val, y_val, y_proba, _ = simulate
    monkeypatch.setattr(rows_module, "SAMPLE_NUMBERS", 1000 * (K + rows_module.PER_ROW))
    y_proba = y_proba.astype(np.float32)
    auto = ps.Auto().fit(y_proba_val, y_val)
    shift = auto.estimate(Chapters(y_proba, [700]) if table else y_proba)
    n_rows = shift.decision["rows_looked_at"]
    assert 700 < n_rows <= 1000
    assert shift.n_target == n_rows
    assert f"{n_rows} of the target's 3,000 rows" in shift.decision["sentence"]
    assert np.abs(shift.priors - auto.estimate(y_proba[:2000]).priors).max() < 0.05


def test_a_large_array_is_calibrated_in_blocks(simulate, monkeypatch):
    y_proba_val, y_val, y_proba, _ = simulate
    est = ps.CalibratedEM().fit(y_proba_val, y_val)
    expected = est.estimate(y_proba)
    monkeypatch.setattr(em, "LARGEST_COPY", 10)
    same(est.estimate(y_proba), expected)


def test_columns_are_matched_by_name(simulate):
    y_proba_val, y_val, y_proba, _ = simulate
    names = np.array(list("abcdef"))
    est = ps.EM().fit(y_proba_val, names[y_val], classes=names)
    order = [3, 0, 1, 5, 4, 2]
    mixed = Chapters(np.ascontiguousarray(y_proba[:, order]), [1000], tuple(names[order]))
    same(est.estimate(mixed), est.estimate(y_proba))
    with pytest.raises(ValueError, match="are not the classes"):
        est.estimate(Chapters(y_proba, [], tuple("abcdeg")))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8])
@pytest.mark.parametrize("name", ["em", "cm-l"])
def test_memory_maps_of_any_kind(tmp_path, simulate, name, dtype):
    y_proba_val, y_val, y_proba, _ = simulate
    if dtype == np.int8:
        y_proba = np.eye(K)[y_proba.argmax(axis=1)]
    np.save(tmp_path / "target.npy", y_proba.astype(dtype))
    mapped = np.load(tmp_path / "target.npy", mmap_mode="r")
    est = ps.get_estimator(name).fit(y_proba_val, y_val, source_priors=np.full(K, 1 / K))
    in_memory = np.array(mapped, dtype=np.float64 if dtype == np.int8 else None)
    np.testing.assert_allclose(
        est.estimate(mapped).priors, est.estimate(in_memory).priors, atol=1e-6
    )


def test_rows_that_no_prior_explains_are_passed_over(rng):
    proba = rng.dirichlet(np.ones(3), 500)
    proba[7], proba[400] = [0, 1, 0], [0, 1, 0]
    proba[:, 1][proba[:, 1] < 1] = 0
    proba /= proba.sum(1, keepdims=True)
    from priorshift.solvers import Mixture, maximise

    scale = np.array([2.0, 0.0, 2.0])
    table, array = (Mixture(A, scale=scale, alpha=2.0) for A in (Chapters(proba, [100]), proba))
    assert table.impossible == array.impossible == 2
    assert table.total == array.total
    one, other = maximise(table, tol=1e-6), maximise(array, tol=1e-6)
    np.testing.assert_allclose(one.value, other.value, atol=1e-9)
    p = np.array([0.2, 0.3, 0.5])
    np.testing.assert_allclose(table.hessian(p), array.hessian(p))


@pytest.mark.parametrize(
    ("value", "message"),
    [(np.nan, "NaN"), (-0.5, "a negative value"), (np.inf, "an infinity"), (0.9, "sums to")],
)
def test_bad_rows_are_named_by_their_number_in_the_table(simulate, value, message):
    y_proba_val, y_val, y_proba, _ = simulate
    y_proba[2222, 3] = value if value != 0.9 else y_proba[2222, 3] + 0.9
    with pytest.raises(ValueError, match=message) as raised:
        ps.SCML().fit(y_proba_val, y_val).estimate(Chapters(y_proba, [1500, 2200]))
    assert "2222" in str(raised.value)


def test_an_empty_table_is_refused(simulate):
    y_proba_val, y_val, y_proba, _ = simulate
    with pytest.raises(ValueError, match="is empty"):
        ps.EM().fit(y_proba_val, y_val).estimate(Chapters(y_proba[:0], []))


def test_what_needs_all_rows_says_so(simulate):
    y_proba = simulate[2]
    with pytest.raises(ValueError, match="read in blocks"):
        ps.adapt_proba(Chapters(y_proba, []), np.full(K, 1 / K), np.full(K, 1 / K))
    with pytest.raises(TypeError, match="read in blocks"):
        np.asarray(Chapters(y_proba, []))


def test_a_sampled_hessian_fetches_rows_of_a_table(rng):
    from priorshift.solvers import Mixture

    A = rng.dirichlet(np.full(5, 0.5), 20_000)
    p = rng.dirichlet(np.ones(5))
    array, table = Mixture(A), Mixture(Chapters(A, [3, 9000]))
    full = array.hessian(p)
    for problem in (array, table):
        sampled = problem.hessian(p, 4000)
        assert np.linalg.norm(sampled - full, 2) < 0.05 * np.linalg.norm(full, 2)


# map_reduce


def test_sums_lists_and_tuples(rng):
    array = rng.random((1000, 3)).astype(np.float32)
    total, count, starts = map_reduce(
        lambda block, rows: (block.sum(axis=0), block.shape[0], [rows.start]),
        Chapters(array, [400]),
    )
    np.testing.assert_allclose(total, array.sum(axis=0, dtype=np.float64), rtol=1e-6)
    assert total.dtype == np.float64
    assert count == 1000
    assert starts == [0, 400]


def test_a_kernel_may_have_float64(rng):
    array = rng.random((100, 3)).astype(np.float32)
    for data in (array, ArrayTable(array)):
        kinds = map_reduce(lambda block, rows: [block.dtype], data, exact=True)
        assert set(kinds) == {np.dtype(np.float64)}


def test_take_rows(rng):
    array = rng.random((1000, 3))
    index = np.array([0, 5, 399, 400, 999])
    np.testing.assert_array_equal(take_rows(Chapters(array, [400]), index), array[index])
    assert take_rows(Chapters(array, [400]), index[:0]).shape == (0, 3)


def test_columns_and_maps_are_lazy_and_compose(rng):
    array = rng.random((50, 3))
    table = map_blocks(np.sqrt, ArrayTable(array).columns([2, 0, 1]), 3)
    np.testing.assert_allclose(take_rows(table, np.arange(50)), np.sqrt(array[:, [2, 0, 1]]))


# Whatever rows are, they have the same methods


KINDS = {"array": np.asarray, "table": ArrayTable, "sparse": lambda P: as_table(csr_array(P))}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_by_label_are_those_of_a_loop(kind, weighted, rng):
    P, y = rng.dirichlet(np.ones(4), 60), rng.integers(3, size=60)
    weight = rng.exponential(size=60) if weighted else None
    oracle = np.zeros((3, 4))
    for i in range(60):
        oracle[y[i]] += P[i] * (1.0 if weight is None else weight[i])
    np.testing.assert_allclose(sum_by(kind(P), y, 3, weight), oracle, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_rows_are_taken_as_what_they_are(kind, rng):
    P = rng.dirichlet(np.ones(3), 20)
    checked = check_proba(kind(P), tables=True)
    for at in (np.arange(20), rng.permutation(20)[:5], np.array([3])):
        some = np.sort(at)
        np.testing.assert_allclose(np.asarray(checked.take(some).values), P[some])


def test_all_rows_of_an_array_are_not_copied(rng):
    checked = check_proba(rng.dirichlet(np.ones(3), 20))
    assert checked.take(np.arange(20)) is checked
    turned = checked.take(np.arange(20)[::-1])
    np.testing.assert_array_equal(turned.values, checked.values[::-1])


@pytest.mark.parametrize("kind", [np.asarray, ArrayTable], ids=["array", "table"])
@pytest.mark.parametrize(("work", "n_parts"), [(10.0, 1), (1e9, 4)])
def test_little_work_is_not_cut_into_parts(kind, work, n_parts, rng):
    P = rng.random((4000, 3))
    starts = map_reduce(
        lambda _, rows: [rows.start], kind(P), work=work, block_bytes=2**20, n_parts=4
    )
    assert starts == [4000 * part // n_parts for part in range(n_parts)]


def test_blocks_of_a_sparse_table_become_arrays_of_a_few_rows(rng):
    P = rng.dirichlet(np.ones(4), 7)
    table = dense(TopK(np.tile(np.arange(4), (7, 1)), P, 4, rest="drop"))
    blocks = [block for _, block in table.blocks(slice(1, 7), 4)]
    assert [block.shape for block in blocks] == [(4, 4), (2, 4)]
    np.testing.assert_allclose(np.concatenate(blocks), P[1:])
    assert dense(P) is P
