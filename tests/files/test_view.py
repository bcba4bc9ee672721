"""A file as it is meant: in every format, at once and in blocks."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from priorshift.border import Table
from priorshift.files import _base, open_predictions

ROWS = np.array([[0.125, 0.5, 0.375], [0.25, 0.25, 0.5], [1.0, 0.0, 0.0]])
TABLES = ["csv", "csv.gz", "tsv", "parquet", "arrow"]
COLUMNS = {"cat": "p_cat", "dog": "p_dog", "fox": "p_fox"}


@pytest.fixture
def make(tmp_path):
    def write(suffix, columns):
        path = tmp_path / f"t.{suffix}"
        if suffix == "parquet":
            pq.write_table(pa.table(columns), path, row_group_size=2)
        elif suffix == "arrow":
            table = pa.table(columns)
            with pa.ipc.new_file(str(path), table.schema) as writer:
                writer.write_table(table, max_chunksize=2)
        else:
            lines = zip(*columns.values(), strict=True)
            mark = "\t" if suffix == "tsv" else ","
            text = "\n".join(mark.join(map(str, line)) for line in [tuple(columns), *lines]) + "\n"
            path.write_text(text)
        return open_predictions(path)

    return write


def in_memory(rows):
    return rows.read(slice(0, rows.shape[0])) if isinstance(rows, Table) else rows


def rewritten(file, function, names):
    output = file.path.with_name(f"new-{file.path.name}")
    with output.open("wb") as stream:
        file.rewrite(stream, names, function)
    return open_predictions(output)


@pytest.mark.parametrize("suffix", TABLES)
def test_columns_are_called_by_their_classes(make, suffix, monkeypatch):
    monkeypatch.setattr(_base, "BLOCK_ROWS", 2)
    columns = dict(zip(COLUMNS.values(), ROWS.T.tolist(), strict=True))
    file = make(suffix, {"id": [7, 8, 9], **columns})
    view = file.meant(COLUMNS)
    assert view.names == ("cat", "dog", "fox")
    order = ["fox", "cat", "dog"]
    np.testing.assert_array_equal(view.values(order), ROWS[:, [2, 0, 1]])
    np.testing.assert_array_equal(in_memory(view.rows(order)), ROWS[:, [2, 0, 1]])
    np.testing.assert_array_equal(view.head(2), ROWS[:2])
    new = rewritten(view, lambda block: block[:, ::-1], ["cat", "dog", "fox"])
    np.testing.assert_array_equal(new.values(list(COLUMNS.values())), ROWS[:, ::-1])
    assert new.vector("id").astype(str).tolist() == ["7", "8", "9"]
    with pytest.raises(ValueError, match="has no column 'elk'; it has 'cat', 'dog', 'fox'"):
        view.values(["elk"])


@pytest.mark.parametrize(
    ("order", "logits"), [(("ill", "well"), False), (("well", "ill"), True), (None, False)]
)
@pytest.mark.parametrize("suffix", [*TABLES, "npy", "npz", "(n, 1).npy"])
def test_one_column_is_two_classes(make, tmp_path, suffix, order, logits, monkeypatch):
    monkeypatch.setattr(_base, "BLOCK_ROWS", 2)
    p = np.array([0.25, 0.5, 1.0])
    shape = (3, 1) if suffix.startswith("(") else (3,)
    path = tmp_path / f"t.{suffix.rpartition('.')[2]}"
    column = None
    if suffix.endswith("npy"):
        np.save(path, p.reshape(shape))
    elif suffix == "npz":
        np.savez(path, y_proba=p, site=np.arange(3))
    else:
        path, column = make(suffix, {"proba": p.tolist()}).path, {"ill": "proba"}
    file = open_predictions(path, logits=logits)
    assert file.single
    view = file.meant(column, binary=("well", "ill"))
    assert view.names == ("well", "ill")
    assert not view.single
    both = {"ill": p, "well": np.zeros(3) if logits else 1 - p}
    expected = np.column_stack([both[name] for name in order or view.names])
    np.testing.assert_array_equal(view.values(order), expected)
    rows = view.rows(order)
    assert isinstance(rows, Table) == path.name.endswith((".parquet", ".arrow", ".npy"))
    np.testing.assert_array_equal(in_memory(rows), expected)
    if isinstance(rows, Table):
        np.testing.assert_array_equal(in_memory(pickle.loads(pickle.dumps(rows))), expected)
    seen = []

    def halved(block):
        seen.append(block)
        return block / 2

    new = rewritten(view, halved, order)
    np.testing.assert_array_equal(np.concatenate(seen), expected)
    stored = new.values(["proba"] if column else None)
    np.testing.assert_array_equal(stored[:, 0], p / 2)
    if path.suffix == ".npy":
        assert np.load(new.path).shape == shape
    if path.suffix == ".npz":
        assert np.load(new.path)["y_proba"].shape == shape
        assert np.load(new.path)["site"].tolist() == [0, 1, 2]
        assert new.adapted is not None


@pytest.mark.parametrize("suffix", [*TABLES, "npy"])
def test_rounded_rows_are_divided_by_their_sums(make, tmp_path, suffix):
    rounded = np.array([[0.13, 0.5, 0.38], [0.33, 0.33, 0.33]])
    if suffix == "npy":
        np.save(tmp_path / "t.npy", rounded.astype(np.float16))
        file = open_predictions(tmp_path / "t.npy")
    else:
        file = make(suffix, dict(zip("abc", rounded.T.tolist(), strict=True)))
    view = file.meant(renormalise=True)
    for rows in (view.values(None), in_memory(view.rows()), view.head(5)):
        np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-6)
        np.testing.assert_allclose(rows[1], 1 / 3, atol=1e-6)


def test_rows_that_no_division_mends_stay_as_they_are(make):
    bad = np.array([[0.0, 0.0], [-0.5, 1.5], [np.nan, 1.0], [np.inf, 0.0]])
    file = make("parquet", dict(zip("ab", bad.T.tolist(), strict=True)))
    np.testing.assert_array_equal(file.meant(renormalise=True).values(None), bad)


def test_a_view_that_changes_nothing_is_the_file(make):
    file = make("csv", {"a": [0.5], "b": [0.5]})
    assert file.meant() == file
    assert file.meant({"a": "a", "b": "b"}).names == file.names
    assert file.meant({"a": "b", "b": "a"}).names == ("a", "b")
