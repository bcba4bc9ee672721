"""Dask arrays: the same numbers as NumPy, wherever the chunks are, and if a worker dies."""

import os
import pickle
import signal
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

dask = pytest.importorskip("dask", reason="needs the extra `dask`")
distributed = pytest.importorskip("distributed", reason="needs the extra `dask`")

import cloudpickle  # noqa: E402
import dask.array as da  # noqa: E402
import psutil  # noqa: E402
from dask import delayed  # noqa: E402

import priorshift as ps  # noqa: E402
from priorshift.border import (  # noqa: E402
    map_reduce,
    take_rows,
)
from priorshift.border.clusters import (  # noqa: E402
    MOST_HELD,
    DaskTable,
    apply_to,
    is_dask_array,
)

SAME = {"rtol": 0, "atol": 1e-10}


@pytest.fixture
def data(simulate, rng):
    """Validation and a target of 6 classes, float64."""
    simulation = simulate(6)
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 600, rng)
    y_proba, _ = simulation.draw(rng.dirichlet(np.ones(6)), 3001, rng)
    return y_proba_val, y_val, y_proba


@pytest.fixture
def wide(simulate, rng):
    """Float32 and more classes than whole Hessians are for: EM moves in float32 and samples."""
    simulation = simulate(80, spread=0.7, dim=6)
    y_proba, _ = simulation.draw(rng.dirichlet(np.full(80, 0.3)), 55_001, rng)
    return y_proba.astype(np.float32), simulation.source_priors


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        yield client


def from_files(y_proba, folder):
    """Store parts of an array, and return the Dask array that workers read from there."""
    parts = np.array_split(y_proba, 6)
    chunks = []
    for at, part in enumerate(parts):
        np.save(folder / f"{at}.npy", part)
        load = delayed(np.load)(str(folder / f"{at}.npy"))
        chunks.append(da.from_delayed(load, part.shape, part.dtype))
    return da.concatenate(chunks)


def assert_same(found, expected):
    np.testing.assert_allclose(found.priors, expected.priors, **SAME)
    for name in ("gap", "objective"):
        one, other = getattr(found, name), getattr(expected, name)
        assert (one is None) == (other is None)
        if one is not None:
            # sums over rows are only known to their own rounding
            np.testing.assert_allclose(one, other, rtol=1e-14, atol=1e-10)
    assert found.status == expected.status
    assert found.n_iter == expected.n_iter
    assert found.n_target == expected.n_target


def assert_certified(found, expected):
    """Other blocks may lead to other steps; both ends are proved to be near the optimum."""
    assert found.status == expected.status == "certified"
    slack = found.gap + expected.gap + 1e-13 * abs(expected.objective)
    assert abs(found.objective - expected.objective) <= slack
    np.testing.assert_allclose(found.priors, expected.priors, atol=1e-5)


# The same numbers


@pytest.mark.parametrize("method", ps.available_estimators())
@pytest.mark.filterwarnings("ignore::priorshift.PriorShiftWarning")
def test_every_method_gives_the_numbers_of_numpy(method, data):
    y_proba_val, y_val, y_proba = data
    expected = ps.get_estimator(method).fit(y_proba_val, y_val).estimate(y_proba)
    target = da.from_array(y_proba, chunks=(1000, 4))
    found = ps.get_estimator(method).fit(y_proba_val, y_val).estimate(target)
    assert_same(found, expected)
    validation = da.from_array(y_proba_val, chunks=(250, 6))
    for labels in (y_val, da.from_array(y_val, chunks=100)):
        found = ps.get_estimator(method).fit(validation, labels).estimate(target)
        assert_same(found, expected)


@pytest.mark.parametrize("rows", [1, 700, (9, 0, 2500, 1, 491), 3001])
@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_chunks_do_not_matter(rows, scheduler, data):
    y_proba = data[2][:300] if rows == 1 else data[2]
    source = np.full(6, 1 / 6)
    expected = ps.EM().fit(source_priors=source).estimate(y_proba)
    with dask.config.set(scheduler=scheduler):
        target = da.from_array(y_proba, chunks=(rows, -1))
        assert_same(ps.EM().fit(source_priors=source).estimate(target), expected)


@pytest.mark.parametrize("n_rows", [7_000, 20_000])
def test_steps_by_samples_of_rows_end_within_their_certificate(n_rows, wide):
    y_proba, source = wide
    expected = ps.EM().fit(source_priors=source).estimate(y_proba)
    assert expected.n_iter > 6  # beyond EM steps: by samples of rows, which depend on the cuts
    target = da.from_array(y_proba, chunks=(n_rows, 50))
    assert_certified(ps.EM().fit(source_priors=source).estimate(target), expected)


@pytest.mark.parametrize("persist", [True, False])
def test_kept_or_computed_in_every_pass(persist, data):
    loads = []

    def load(block, block_info=None):
        loads.append(block_info[0]["chunk-location"])
        return block

    counted = da.from_array(data[2], chunks=(1000, -1)).map_blocks(load, dtype=float, meta=data[2])
    table = DaskTable(counted, persist=persist)
    expected = ps.EM().fit(source_priors=np.full(6, 1 / 6)).estimate(data[2])
    assert_same(ps.EM().fit(source_priors=np.full(6, 1 / 6)).estimate(table), expected)
    assert len(loads) == 4 if persist else len(loads) >= 4 * expected.n_iter


def test_unknown_chunks_are_counted_and_the_callers_array_stays_as_it_is(data):
    y_proba = data[2]
    known = da.from_array(y_proba, chunks=(1000, -1))
    unknown = known[known[:, 0] >= 0]
    assert np.isnan(unknown.shape[0])
    expected = ps.EM().fit(source_priors=np.full(6, 1 / 6)).estimate(y_proba)
    for persist in (None, True, False):
        table = DaskTable(unknown, persist=persist)
        assert table.shape == y_proba.shape
        assert_same(ps.EM().fit(source_priors=np.full(6, 1 / 6)).estimate(table), expected)
    assert np.isnan(unknown.shape[0])


def claiming(y_proba, true, claimed):
    """Make a Dask array whose chunks hold other rows than it says."""
    return da.concatenate(
        [
            da.from_delayed(delayed(y_proba[:n]), (m, y_proba.shape[1]), y_proba.dtype)
            for n, m in zip(true, claimed, strict=True)
        ]
    )


@pytest.mark.parametrize("persist", [True, False])
@pytest.mark.parametrize(
    ("true", "claimed", "message"),
    [
        ((100, 100), (100, 150), r"rows 100 to 249 are a chunk of shape \(150, 6\); .* \(100, 6\)"),
        ((150, 100), (100, 100), r"rows 0 to 99 .* \(150, 6\)"),
        ((100, 2000), (2000, 100), "rows"),  # as many in all
        ((100, 3, 100), (100, 2, 100), "its shape is"),
    ],
)
def test_rows_are_counted_where_they_are_claimed(persist, true, claimed, message, data):
    array = claiming(data[2], true, claimed)
    with pytest.raises(ValueError, match=message):
        ps.EM().fit(source_priors=np.full(6, 1 / 6)).estimate(DaskTable(array, persist=persist))


def test_what_is_delayed_is_named(data):
    y_proba_val, y_val, y_proba = data
    est = ps.SCML().fit(y_proba_val, y_val)
    priors = np.full(6, 1 / 6)
    for name, call in {
        "y_proba": lambda: est.estimate(delayed(y_proba)),
        "y": lambda: ps.SCML().fit(y_proba_val, delayed(y_val)),
        "source_priors": lambda: ps.adapt_proba(y_proba, delayed(priors), priors),
        "target_priors": lambda: ps.adapt_proba(y_proba, priors, delayed(priors)),
    }.items():
        with pytest.raises(ValueError, match=rf"^{name} is a Delayed .* {name}\.compute\(\)"):
            call()


def test_columns_are_counted_too_before_they_are_joined(data):
    parts = [da.from_delayed(delayed(data[2][:100, :at]), (100, 3), data[2].dtype) for at in (4, 2)]
    with pytest.raises(ValueError, match=r"shape \(100, 3\); its shape is \(100, [24]\)"):
        DaskTable(da.concatenate(parts, axis=1), persist=True)


@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=8).filter(any),
    n_rows=st.integers(1, 50),
)
@settings(max_examples=60)
def test_blocks_are_the_rows_in_order_however_they_are_chunked(sizes, n_rows):
    numbers = np.arange(2.0 * sum(sizes)).reshape(-1, 2)
    with dask.config.set(scheduler="sync"):
        table = DaskTable(da.from_array(numbers, chunks=(tuple(sizes), 1)))
        found = table.map_parts(list, 1, n_rows)
    assert len(found) == len(sizes)
    row = 0
    for rows, block in (each for part in found for each in part):
        assert rows.start == row
        assert 0 < rows.stop - row <= n_rows
        np.testing.assert_array_equal(block, numbers[rows])
        row = rows.stop
    assert row == len(numbers)


# Rows


def test_row_numbers_are_those_of_the_whole(data):
    y_proba = data[2]
    table = DaskTable(da.from_array(y_proba, chunks=(1000, 3)))
    index = np.array([0, 999, 1000, 1717, 3000])
    np.testing.assert_array_equal(take_rows(table, index), y_proba[index])
    np.testing.assert_array_equal(
        np.concatenate([block for _, block in table.blocks(slice(990, 1010), 7)]),
        y_proba[990:1010],
    )
    wrong = y_proba.copy()
    wrong[2345, 2] = np.nan
    with pytest.raises(ValueError, match=r"NaN .* at row 2345, column 2"):
        ps.EM().fit(source_priors=np.full(6, 1 / 6)).estimate(
            da.from_array(wrong, chunks=(1000, 6))
        )


# What comes in


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(np.float16, np.float32), (np.float32, np.float32), (np.int64, np.float64), (bool, float)],
)
def test_numbers_are_read_as_those_of_arrays_are(dtype, expected):
    values = np.eye(3, dtype=dtype)
    table = DaskTable(da.from_array(values, chunks=(3, 2)))
    assert table.dtype == expected
    (found,) = map_reduce(lambda block, rows: [block.copy()], table, n_parts=1)
    assert found.dtype == expected
    np.testing.assert_array_equal(found, np.eye(3))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (da.zeros(5), r"shape \(n_samples, n_classes\); it has 1 dimensions.*stack"),
        (da.zeros((5, 2, 2)), "it has 3 dimensions"),
        (da.zeros((5, 2), dtype=complex), "must hold numbers; it holds complex128"),
        (da.zeros((0, 2)), r"y_proba is empty \(shape \(0, 2\)\)"),
        (da.zeros((5, 1)), "y_proba has one column"),
        (da.full((5, 2), 0.3, chunks=2), r"row \d of y_proba sums to 0\.6"),
    ],
)
def test_bad_arrays_are_named(array, message):
    with pytest.raises(ValueError, match=message):
        ps.EM().fit(source_priors=[0.5, 0.5]).estimate(array)


@pytest.mark.parametrize("kind", [np.ma.masked_array, csr_array])
def test_chunks_that_are_no_plain_arrays_are_refused(kind):
    odd = da.zeros((4, 2), chunks=2).map_blocks(kind)
    with pytest.raises(ValueError, match=f"plain NumPy arrays; they are of {kind.__name__}"):
        ps.EM().fit(source_priors=[0.5, 0.5]).estimate(odd)


def test_nothing_large_is_kept_without_a_cluster(monkeypatch):
    kept = []
    monkeypatch.setattr(da.Array, "persist", lambda array: kept.append(array.shape) or array)
    large = da.zeros((MOST_HELD // 16 + 1, 2), chunks=(2**20, 2))
    DaskTable(large)
    DaskTable(large[:1000])
    assert kept == [(1000, 2)]


def test_a_table_is_never_pickled(data):
    table = DaskTable(da.from_array(data[2], chunks=(1000, -1)))
    for dumps in (pickle.dumps, cloudpickle.dumps):
        with pytest.raises(TypeError, match="cannot be pickled"):
            dumps(table)


def test_kernels_are_small(wide, monkeypatch):
    y_proba, source = wide
    sizes, plain = [], DaskTable.map_parts

    def measured(self, fold, *others):
        sizes.append(len(cloudpickle.dumps(fold)))
        return plain(self, fold, *others)

    monkeypatch.setattr(DaskTable, "map_parts", measured)
    target = da.from_array(y_proba, chunks=(20_000, -1))
    for estimator in (ps.EM(), ps.MAP(), ps.MAPLS()):
        estimator.fit(source_priors=source).estimate(target)
    assert len(sizes) > 20
    assert max(sizes) < 8 * 80 * 10  # a few vectors of K numbers, and nothing of n


# Adapting


def test_chunks_are_mapped_when_they_are_asked_for(data):
    shift = ps.EM().fit(source_priors=np.full(6, 1 / 6)).estimate(data[2])
    lazy = apply_to(shift.adapt, da.from_array(data[2].astype(np.float32), chunks=(1000, 4)))
    assert is_dask_array(lazy)
    assert lazy.dtype == np.float32
    assert lazy.chunks == ((1000, 1000, 1000, 1), (6,))
    np.testing.assert_array_equal(lazy.compute(), shift.adapt(data[2].astype(np.float32)))
    assert apply_to(shift.adapt, lazy[lazy[:, 0] > 2]).compute().shape == (0, 6)  # empty chunks
    positive = apply_to(lambda p: p / 2, da.from_array(data[2][:, 0], chunks=1000))
    np.testing.assert_array_equal(positive.compute(), data[2][:, 0] / 2)


def test_adapting_is_lazy(data):
    y_proba = data[2]
    target = da.from_array(y_proba, chunks=(1000, 4))
    shift = ps.EM().fit(source_priors=np.full(6, 1 / 6)).estimate(target)
    for found, expected in [
        (shift.adapt(target, strength=0.5), shift.adapt(y_proba, strength=0.5)),
        (shift.adapt(da.log(target), from_logits=True), shift.adapt(y_proba)),
        (ps.adapt_proba(target, shift.source_priors, shift.priors), shift.adapt(y_proba)),
        (ps.adapt_proba(target[:, 0], 0.5, 0.1), ps.adapt_proba(y_proba[:, 0], 0.5, 0.1)),
    ]:
        assert is_dask_array(found)
        np.testing.assert_allclose(found.compute(), expected, rtol=1e-12)


# On a cluster of processes


def test_a_cluster_gives_the_numbers_of_numpy(client, wide, tmp_path):
    y_proba, source = wide
    found = ps.EM().fit(source_priors=source).estimate(from_files(y_proba, tmp_path))
    assert_certified(found, ps.EM().fit(source_priors=source).estimate(y_proba))


def test_a_cluster_adds_up_many_chunks_and_needs_not_keep_them(client, data):
    y_proba_val, y_val, y_proba = data
    expected = ps.SCML().fit(y_proba_val, y_val).estimate(y_proba)
    validation = da.from_array(y_proba_val, chunks=(30, -1))  # 20 chunks, more than one task adds
    table = DaskTable(da.from_array(y_proba, chunks=(1500, -1)), persist=False)
    estimator = ps.SCML().fit(validation, y_val)
    np.testing.assert_allclose(
        estimator.confusion_.counts, ps.SCML().fit(y_proba_val, y_val).confusion_.counts, **SAME
    )
    assert_same(estimator.estimate(table), expected)
    lazy = apply_to(expected.adapt, table.array)
    # a chunk of one row is summed by other instructions, so the last digit may differ
    np.testing.assert_allclose(lazy.compute(), expected.adapt(y_proba), rtol=1e-12)


def test_an_error_on_a_worker_reaches_the_caller(client, data):
    wrong = data[2].copy()
    wrong[2345, 2] = -1
    with pytest.raises(ValueError, match=r"negative value .* at row 2345, column 2"):
        ps.EM().fit(source_priors=np.full(6, 1 / 6)).estimate(
            da.from_array(wrong, chunks=(1000, 6))
        )


def test_rows_are_counted_on_a_cluster(client, data):
    array = claiming(data[2], (100, 100), (100, 150))
    with pytest.raises(ValueError, match="rows 100 to 249 are a chunk"):
        ps.EM().fit(source_priors=np.full(6, 1 / 6)).estimate(array)


# A worker that dies


def test_a_worker_killed_in_the_middle_of_em_changes_nothing(client, wide, tmp_path, monkeypatch):
    y_proba, source = wide
    target = from_files(y_proba, tmp_path)
    pids, killed, n_passes, map_parts = dict(client.run(os.getpid)), [], 0, DaskTable.map_parts

    def kill_once(table, *arguments):
        nonlocal n_passes
        n_passes += 1
        if n_passes == 4:
            holding = {at: keys for at, keys in client.has_what().items() if keys}
            at = max(holding, key=lambda at: len(holding[at]))
            assert len(holding[at]) >= 2  # chunks that are lost with it
            killed.append(pids[at])
            os.kill(pids[at], signal.SIGKILL)
        return map_parts(table, *arguments)

    monkeypatch.setattr(DaskTable, "map_parts", kill_once)
    found = ps.EM().fit(source_priors=source).estimate(target)
    assert killed
    assert_gone(killed[0])
    assert n_passes > 6
    assert_certified(found, ps.EM().fit(source_priors=source).estimate(y_proba))


def assert_gone(pid):
    """Wait until a process is no more; a zombie's parent has yet to hear of its death."""
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait()
