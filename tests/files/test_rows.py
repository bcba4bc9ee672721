"""Files read in blocks hold what they hold when read at once."""

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import priorshift as ps
from priorshift.border import Table, map_reduce, take_rows
from priorshift.files import _arrow, open_predictions

N = 101
VALUES = np.random.default_rng(0).dirichlet(np.ones(3), N)
TABLES = [
    "t.parquet",
    "one.parquet",
    "file.arrow",
    "one.arrow",
    "lz4.arrow",
    "one-lz4.arrow",
    "t.feather",
]
WITHOUT_NAMES = ["t.npy", "half.npy", "integer.npy", "big-endian.npy"]


def write(path, values=VALUES, kind=np.float64, **more):
    """Write a file whose name tells how: "one" is one piece, "lz4" is compressed."""
    columns = {"id": [f"{i}" for i in range(len(values))]}
    columns |= {name: values[:, i].astype(kind) for i, name in enumerate("abc")}
    table, size = pa.table(columns | more), N if path.name.startswith("one") else 17
    if path.name.startswith("half"):
        np.save(path, values.astype(np.float16))
    elif path.name.startswith("integer"):
        np.save(path, np.eye(3, dtype=np.int32)[np.arange(N) % 3])
    elif path.name.startswith("big"):
        np.save(path, values.astype(">f8"))
    elif path.suffix == ".npy":
        np.save(path, values.astype(kind))
    elif path.suffix == ".npz":
        np.savez(path, y_proba=values.astype(kind), classes=["a", "b", "c"])
    elif path.suffix == ".csv":
        lines = ["a,b,c", *(f"{a},{b},{c}" for a, b, c in values)]
        path.write_text("\n".join(lines))
    elif path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=size)
    elif path.suffix == ".feather":
        feather.write_feather(table, path, chunksize=size)
    else:
        options = pa.ipc.IpcWriteOptions(compression="lz4" if "lz4" in path.name else None)
        with pa.ipc.new_file(str(path), table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=size)
    return open_predictions(path)


def gone_through(table, n_parts, n_rows):
    """Return the blocks of all parts, which must follow each other and not be too large."""
    parts = table.parts(n_parts)
    assert 1 <= len(parts) <= n_parts
    assert parts == table.parts(n_parts)
    found, end = [], 0
    for part in parts:
        assert part.start == end
        for rows, block in table.blocks(part, n_rows):
            assert rows.start == end
            assert block.shape == (rows.stop - rows.start, table.shape[1])
            assert 0 < len(block) <= n_rows
            assert block.dtype == table.dtype
            found.append(block.copy())
            end = rows.stop
        assert end == part.stop
    assert end == table.shape[0]
    return np.concatenate(found)


@pytest.mark.parametrize("name", [*TABLES, *WITHOUT_NAMES])
def test_blocks_are_the_file(tmp_path, monkeypatch, name):
    monkeypatch.setattr(_arrow, "BATCH_BYTES", 1)
    file = write(tmp_path / name)
    table = file.rows(("a", "b", "c"))
    assert isinstance(table, Table)
    assert table.shape == (N, 3)
    for n_parts, n_rows in ((1, 1000), (8, 5), (3, 17), (200, 1)):
        np.testing.assert_array_equal(gone_through(table, n_parts, n_rows), file.values(None))


@pytest.mark.parametrize("name", TABLES)
def test_names_choose_and_order_columns(tmp_path, name):
    table = write(tmp_path / name).rows(("c", "a"))
    assert table.names == ("c", "a")
    np.testing.assert_array_equal(gone_through(table, 4, 10), VALUES[:, [2, 0]])
    assert write(tmp_path / name).rows().names == ("a", "b", "c")


@pytest.mark.parametrize("name", [*TABLES, "t.npy"])
def test_narrow_numbers_stay_narrow(tmp_path, name):
    for kind, dtype in (
        (np.float64, np.float64),
        (np.float32, np.float32),
        (np.float16, np.float32),
    ):
        if kind == np.float16 and name.endswith(".parquet"):
            continue  # old pyarrow writes no half floats
        table = write(tmp_path / name, kind=kind).rows(("a", "b", "c"))
        assert table.dtype == dtype
        np.testing.assert_array_equal(gone_through(table, 2, 10), VALUES.astype(kind).astype(dtype))


@pytest.mark.parametrize("name", TABLES)
def test_nulls_become_nan_which_estimators_name(tmp_path, name):
    holed = VALUES[:, 1].tolist()
    holed[60] = None
    table = write(tmp_path / name, b=pa.array(holed)).rows(("a", "b", "c"))
    assert np.argwhere(np.isnan(gone_through(table, 3, 7))).tolist() == [[60, 1]]
    with pytest.raises(ValueError, match=r"NaN .* at row 60, column 1"):
        ps.EM().fit(source_priors=[1 / 3] * 3, classes=["a", "b", "c"]).estimate(table)


def test_parts_of_parquet_are_runs_of_row_groups(tmp_path):
    table = write(tmp_path / "t.parquet").rows()
    assert [part.start % 17 for part in table.parts(4)] == [0] * 4
    assert len(table.parts(100)) == 6
    assert write(tmp_path / "one.parquet").rows().parts(8) == [slice(0, N)]


def test_a_large_record_batch_is_cut_unless_that_means_decoding_it_again(tmp_path):
    assert len(write(tmp_path / "one.arrow").rows().parts(8)) == 8
    assert write(tmp_path / "one-lz4.arrow").rows().parts(8) == [slice(0, N)]


@pytest.mark.parametrize("name", [*TABLES, "t.npy", "t.npz", "t.csv"])
def test_estimators_take_rows_of_files(tmp_path, name):
    rows = write(tmp_path / name).rows()
    y_val = np.array(["a", "b", "c"])[VALUES.argmax(axis=1)]
    for method in ("scm-l", "em", "cm"):
        est = ps.get_estimator(method).fit(VALUES[::-1], y_val[::-1], classes=["a", "b", "c"])
        expected = est.estimate(VALUES)
        np.testing.assert_allclose(est.estimate(rows).priors, expected.priors, rtol=1e-9)


def test_columns_are_matched_to_classes_by_name(tmp_path):
    rows = write(tmp_path / "t.parquet").rows(("c", "a", "b"))
    est = ps.EM().fit(source_priors={"a": 0.2, "b": 0.3, "c": 0.5})
    np.testing.assert_allclose(est.estimate(rows).priors, est.estimate(VALUES).priors, rtol=1e-9)


@pytest.mark.parametrize("name", [*TABLES, "t.npy"])
def test_sums_and_samples(tmp_path, name):
    rows = write(tmp_path / name).rows()
    total = map_reduce(lambda block, _: block.sum(axis=0), rows, block_bytes=100)
    np.testing.assert_allclose(total, VALUES.sum(axis=0))
    index = np.array([0, 16, 17, 50, 100])
    np.testing.assert_array_equal(take_rows(rows, index), VALUES[index])


@pytest.mark.parametrize("name", ["t.npz", "t.csv"])
def test_other_files_are_read_into_memory(tmp_path, name):
    rows = write(tmp_path / name).rows(("b", "a", "c"))
    np.testing.assert_array_equal(rows, VALUES[:, [1, 0, 2]])


@pytest.mark.parametrize("name", TABLES)
def test_no_rows(tmp_path, name):
    table = write(tmp_path / name, VALUES[:0]).rows()
    assert table.shape == (0, 3)
    with pytest.raises(ValueError, match="y_proba is empty"):
        ps.EM().fit(source_priors=[1 / 3] * 3, classes=["a", "b", "c"]).estimate(table)


@pytest.mark.parametrize("name", TABLES)
def test_broken_files_and_missing_columns_are_named(tmp_path, name):
    with pytest.raises(ValueError, match=f"{name} has no column 'z'"):
        write(tmp_path / name).rows(("a", "z"))
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-20])
    with pytest.raises(ValueError, match=f"{name} cannot be read: "):
        open_predictions(tmp_path / name).rows()


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (np.float16, np.float32),
        (np.float32, np.float32),
        (np.int8, np.float64),
        (np.int32, np.float64),
        (np.longdouble, np.float64),
        (bool, np.float64),
    ],
)
def test_numbers_of_every_kind_follow_the_one_rule(tmp_path, stored, expected):
    values = np.eye(3)[np.arange(N) % 3].astype(stored)
    np.save(tmp_path / "t.npy", values)
    table = open_predictions(tmp_path / "t.npy").rows()
    assert table.dtype == expected
    np.testing.assert_array_equal(gone_through(table, 2, 40), values)
