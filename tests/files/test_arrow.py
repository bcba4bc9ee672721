"""Parquet and Arrow: types, metadata and other columns are kept."""

import datetime
import decimal
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import priorshift as ps
from priorshift.files import _base, open_predictions
from priorshift.files._arrow import _expanded

N = 7
VALUES = np.random.default_rng(0).dirichlet(np.ones(3), N)
EVERY = ["t.parquet", "file.arrow", "t.feather"]


def turn(values):
    return values[:, [1, 2, 0]]


def table(**more):
    columns = {
        "id": pa.array(["007"] * N),
        "a": pa.array(VALUES[:, 0], pa.float64()),
        "label": pa.array(["a", "b", None, "c", "a", "b", "c"]).dictionary_encode(),
        "b": pa.array(VALUES[:, 1], pa.float64()),
        "c": pa.array(VALUES[:, 2], pa.float64()),
        "when": pa.array([datetime.datetime(2024, 2, 29)] * N, pa.timestamp("us", "Europe/Prague")),
        "nested": pa.array([[{"x": 1, "y": [None]}]] * N),
        "__index_level_0__": pa.array(range(N)),
    } | more
    return pa.table(columns).replace_schema_metadata({"pandas": "{}", "mine": "yes"})


def write(path, data, **options):
    if path.suffix == ".parquet":
        pq.write_table(data, path, **options)
    elif path.suffix == ".feather":
        feather.write_feather(data, str(path), **options)
    else:
        with pa.ipc.new_file(str(path), data.schema) as writer:
            writer.write_table(data, **options)
    return open_predictions(path)


def read(path):
    if path.suffix == ".parquet":
        return pq.read_table(path)
    if path.suffix == ".feather":
        return feather.read_table(str(path))
    return pa.ipc.open_file(path.read_bytes()).read_all()


def rewritten(file, function=turn, names=("a", "b", "c")):
    output = file.path.with_name(f"new-{file.path.name}")
    with output.open("wb") as stream:
        file.rewrite(stream, names, function)
    return read(output)


def matrix(data, names=("a", "b", "c")):
    return np.column_stack([data.column(name).to_numpy() for name in names])


@pytest.mark.parametrize("name", EVERY)
def test_round_trip(tmp_path, name):
    data = table()
    file = write(tmp_path / name, data)
    assert file.names == ("a", "b", "c")
    assert file.n_rows() == N
    assert file.vector("label").tolist() == data.column("label").to_pylist()
    np.testing.assert_array_equal(file.values(["c", "a"]), VALUES[:, [2, 0]])
    new = rewritten(file)
    assert new.schema.equals(data.schema)
    mark = {b"priorshift.adapted": ps.__version__.encode()}
    assert new.schema.metadata.items() >= ({b"mine": b"yes"} | mark).items()
    assert file.adapted is None
    assert open_predictions(file.path.with_name(f"new-{name}")).adapted == ps.__version__
    for other in ("id", "label", "when", "nested", "__index_level_0__"):
        assert new.column(other).to_pylist() == data.column(other).to_pylist()
    np.testing.assert_array_equal(matrix(new), turn(VALUES))
    new.validate(full=True)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(
    ("kinds", "after"),
    [
        ((pa.float32(), pa.float32(), pa.float32()), (pa.float32(), pa.float32(), pa.float32())),
        ((pa.int64(), pa.uint8(), pa.float32()), (pa.float64(), pa.float64(), pa.float32())),
    ],
)
def test_types_of_predictions(tmp_path, name, kinds, after):
    one_hot = np.eye(3, dtype=int)[:, [0, 1, 2, 0, 1, 2, 0]]
    columns = zip("abc", one_hot, kinds, strict=True)
    data = pa.table({key: pa.array(column).cast(kind) for key, column, kind in columns})
    data = data.cast(pa.schema([field.with_metadata({"unit": "1"}) for field in data.schema]))
    new = rewritten(write(tmp_path / name, data), lambda values: values / 4)
    assert tuple(new.schema.types) == after
    np.testing.assert_array_equal(matrix(new), matrix(data) / 4)
    assert all(field.metadata[b"unit"] == b"1" for field in new.schema)


def test_narrow_floats_are_read_as_such(tmp_path):
    data = pa.table({"a": pa.array(VALUES[:, 0], pa.float32()), "b": pa.array(VALUES[:, 1])})
    file = write(tmp_path / "t.parquet", data)
    assert file.values(["a", "a"]).dtype == np.float32
    assert file.values(["a", "b"]).dtype == np.float64


def test_half_floats_stay(tmp_path):
    half = {key: pa.array(VALUES[:, i].astype(np.float16)) for i, key in enumerate("abc")}
    new = rewritten(write(tmp_path / "file.arrow", pa.table(half)))
    assert set(new.schema.types) == {pa.float16()}
    np.testing.assert_array_equal(matrix(new), turn(VALUES.astype(np.float16)))


@pytest.mark.parametrize("name", EVERY)
def test_blocks_together_equal_the_whole(tmp_path, monkeypatch, name):
    file = write(tmp_path / name, table())
    whole = rewritten(file)
    monkeypatch.setattr(_base, "BLOCK_ROWS", 3)
    done = []
    parts = rewritten(file, lambda block: done.append(len(block)) or turn(block))
    assert sum(done) == N
    assert max(done) == 3
    assert parts.to_pylist() == whole.to_pylist()
    np.testing.assert_array_equal(file.values(["b"]), VALUES[:, [1]])


def test_a_stream_is_refused_with_what_to_do(tmp_path):
    data = table()
    with pa.ipc.new_stream(str(tmp_path / "t.arrow"), data.schema) as writer:
        writer.write_table(data)
    with pytest.raises(ValueError, match="a stream must be written as a file"):
        _ = open_predictions(tmp_path / "t.arrow").names


@pytest.mark.parametrize("codec", ["zstd", "none", "snappy"])
def test_parquet_compression_is_kept(tmp_path, codec):
    file = write(tmp_path / "t.parquet", table(), compression=codec)
    rewritten(file)
    column = pq.read_metadata(tmp_path / "new-t.parquet").row_group(0).column(0)
    assert column.compression == {"none": "UNCOMPRESSED"}.get(codec, codec.upper())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # old pandas of new NumPy or pyarrow
def test_pandas_gets_its_frame_back(tmp_path):
    frame = pd.DataFrame({"a": VALUES[:, 0], "b": VALUES[:, 1], "c": VALUES[:, 2]})
    frame["kind"] = pd.Categorical(["x", "y", "x", "x", "y", "x", "y"], ordered=True)
    frame.index = pd.Index(range(10, 10 + N), name="row")
    frame.to_parquet(tmp_path / "t.parquet")
    rewritten(open_predictions(tmp_path / "t.parquet"))
    again = pd.read_parquet(tmp_path / "new-t.parquet")
    expected = frame.assign(a=VALUES[:, 1], b=VALUES[:, 2], c=VALUES[:, 0])
    pd.testing.assert_frame_equal(again, expected)


@pytest.mark.parametrize("name", EVERY)
def test_nulls_become_nan(tmp_path, name):
    data = table(b=pa.array([None, *VALUES[1:, 1]]), c=pa.array([1, None, 1, 1, 1, 1, 1]))
    values = write(tmp_path / name, data).values(["a", "b", "c"])
    assert np.argwhere(np.isnan(values)).tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize("name", EVERY)
def test_no_rows(tmp_path, name):
    file = write(tmp_path / name, table().slice(0, 0))
    assert file.values(["a", "b"]).shape == (0, 2)
    assert file.vector("label").size == 0
    assert rewritten(file).num_rows == 0


def test_no_row_groups(tmp_path):
    pq.ParquetWriter(tmp_path / "t.parquet", table().schema).close()
    assert rewritten(open_predictions(tmp_path / "t.parquet")).num_rows == 0


def test_names_with_dots_are_not_paths(tmp_path):
    file = write(tmp_path / "t.parquet", pa.table({"v.1": [0.25], "v": [0.75], "label": ["v"]}))
    np.testing.assert_array_equal(file.values(["v", "v.1"]), [[0.75, 0.25]])
    assert file.vector("v").tolist() == [0.75]


def test_columns_that_are_missing_or_twice(tmp_path):
    file = write(tmp_path / "t.parquet", table())
    assert file.vector("nothing") is None
    with pytest.raises(ValueError, match=r"t\.parquet has no column 'z'; it has 'id', 'a'"):
        file.values(["a", "z"])
    twice = pa.Table.from_arrays([pa.array([1.0])] * 2, names=["a", "a"])
    with pytest.raises(ValueError, match=r"the header of .* names 'a' twice"):
        _ = write(tmp_path / "twice.arrow", twice).names


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("keep", [0, 3, 100, -20])
def test_truncated_files_are_named(tmp_path, name, keep):
    path = tmp_path / name
    write(path, table())
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=f"{name} cannot be read: "):
        open_predictions(path).values(None)


@pytest.mark.parametrize("name", EVERY)
def test_other_files_are_refused(tmp_path, name):
    (tmp_path / name).write_text("label,a,b\nx,0.5,0.5\n" * 10)
    with pytest.raises(ValueError, match=f"{name} cannot be read: "):
        open_predictions(tmp_path / name).values(None)


def test_a_missing_pyarrow_is_named(tmp_path, monkeypatch):
    write(tmp_path / "t.parquet", table())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="pip install narwhals pyarrow"):
        _ = open_predictions(tmp_path / "t.parquet").names


@pytest.mark.parametrize(("name", "what"), [("a.txt", r"\.txt"), ("a", "none")])
def test_other_suffixes_are_refused(name, what):
    with pytest.raises(ValueError, match=rf"{name} has an unknown suffix \({what}\)"):
        open_predictions(name)


def test_decimals_are_numbers(tmp_path):
    half = [decimal.Decimal("0.5")]
    pq.write_table(pa.table({"a": half, "b": half}), tmp_path / "t.parquet")
    file = open_predictions(tmp_path / "t.parquet")
    assert file.names == ("a", "b")
    np.testing.assert_array_equal(file.values(None), [[0.5, 0.5]])


def test_columns_that_hold_no_numbers_are_named(tmp_path):
    pq.write_table(pa.table({"a": ["x"], "b": [0.5]}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"column 'a' of .*t\.parquet holds string, not numbers"):
        open_predictions(tmp_path / "t.parquet").values(["a", "b"])


def test_damaged_text_names_its_file(tmp_path):
    path = tmp_path / "x.arrow"
    table = pa.table({"a": [0.5], "label": ["abcdef"]})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    path.write_bytes(path.read_bytes().replace(b"abcdef", b"abc\xf5ef"))
    with pytest.raises(ValueError, match=r"x\.arrow cannot be read.*write it again"):
        open_predictions(path).vector("label")


def test_a_damaged_index_names_its_file_and_does_not_crash(tmp_path):
    path = tmp_path / "x.arrow"
    words = pa.DictionaryArray.from_arrays(pa.array([0x0A0B0C, 0], pa.int32()), ["x"], safe=False)
    table = pa.table({"a": [0.5, 0.5], "label": words})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(ValueError, match=r"x\.arrow cannot be read.*write it again"):
        open_predictions(path).vector("label")


def test_many_rows_of_one_value_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_base, "MOST_EXPANDED", 100_000)
    path = tmp_path / "bomb.parquet"
    pq.write_table(pa.table({name: np.full(10**6, 0.5) for name in "ab"}), path)
    with pytest.raises(ValueError, match=r"expands from [0-9,]+ bytes to 16,000,000 or more"):
        _ = open_predictions(path).header
    assert open_predictions(path, bounded=False).rows().shape == (10**6, 2)


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_what_a_compressed_arrow_file_expands_to_is_told_before_it_is_read(
    tmp_path, monkeypatch, codec
):
    """Two columns, and a dictionary whose one word takes as much again."""
    words = pa.DictionaryArray.from_arrays(pa.array([0] * 50_000), ["x" * 100_000])
    table = pa.table({"a": np.full(50_000, 0.5), "b": np.full(50_000, 0.5), "label": words})
    path = tmp_path / "bomb.arrow"
    with pa.ipc.new_file(
        path, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)
    ) as writer:
        writer.write_table(table, max_chunksize=10_000)
    expanded = 2 * 400_000 + 400_000 + 100_000  # two columns, indices, the word
    with pa.memory_map(str(path)) as source:
        found = _expanded(memoryview(source.read_buffer()))
    assert expanded <= found <= expanded + 5_000
    monkeypatch.setattr(_base, "MOST_EXPANDED", 1_000_000)
    with pytest.raises(ValueError, match=rf"expands from [0-9,]+ bytes to {found:,} or more"):
        _ = open_predictions(path).header
    assert open_predictions(path, bounded=False).rows().shape == (50_000, 2)


def test_arrow_files_without_compression_are_as_large_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(_base, "MOST_EXPANDED", 0)
    monkeypatch.setattr(_base, "MOST_TIMES", 1)
    table = pa.table({name: np.full(1000, 0.5) for name in "ab"})
    path = tmp_path / "x.arrow"
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    assert open_predictions(path).rows().shape == (1000, 2)
