"""Labels of another table, joined by key: the same for frames and files."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import priorshift as ps
from priorshift.border.join import match_rows

KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}


@pytest.fixture(params=KINDS)
def make(request):
    return KINDS[request.param]


@pytest.fixture
def tables(make, rng):
    """Predictions by file, and their labels in another order."""
    names = np.array([f"img{i:03}.jpg" for i in range(60)])
    labels = rng.choice(["cat", "dog"], 60)
    cat = np.where(labels == "cat", 0.9, 0.2)
    rows = {"filename": names.tolist(), "cat": cat.tolist(), "dog": (1 - cat).tolist()}
    order = rng.permutation(60)
    there = {"filename": names[order].tolist(), "species": labels[order].tolist()}
    return make(rows), there, labels


def column(frame, name):
    return frame[name].to_pylist() if isinstance(frame, pa.Table) else list(frame[name])


def test_labels_find_their_rows_in_any_order(tables, make):
    frame, there, labels = tables
    for on in (None, "filename"):
        joined = ps.join_labels(frame, make(there), on)
        assert type(joined) is type(frame)
        assert column(joined, "species") == labels.tolist()
        assert column(joined, "filename") == column(frame, "filename")
    fitted = ps.SCML().fit(joined, "species")
    expected = ps.SCML().fit(np.column_stack([column(frame, c) for c in ("cat", "dog")]), labels)
    np.testing.assert_allclose(
        fitted.estimate(joined).priors,
        expected.estimate(np.column_stack([column(frame, c) for c in ("cat", "dog")])).priors,
        rtol=1e-12,
    )


def test_the_frames_may_be_of_two_kinds(tables):
    frame, there, labels = tables
    for other in KINDS.values():
        assert column(ps.join_labels(frame, other(there)), "species") == labels.tolist()


def test_a_pandas_frame_keeps_its_index(rng):
    index = rng.permutation(4) + 10
    frame = pd.DataFrame({"k": list("abcd"), "cat": 0.5}, index=index)
    joined = ps.join_labels(frame, pd.DataFrame({"k": list("dcba"), "label": list("4321")}))
    assert joined.index.tolist() == index.tolist()
    assert joined["label"].tolist() == list("1234")
    assert "label" not in frame


def test_a_pandas_series_is_joined_by_its_index():
    frame = pd.DataFrame({"cat": [0.1, 0.2, 0.3]}, index=["x", "y", "z"])
    labels = pd.Series(["Z", "X", "Y"], index=["z", "x", "y"], name="species")
    assert ps.join_labels(frame, labels)["species"].tolist() == ["X", "Y", "Z"]
    with pytest.raises(ValueError, match="'z' only in the index of frame"):
        ps.join_labels(frame, labels.drop("z"))


def test_whole_numbers_are_the_same_key_in_any_type():
    frame = pd.DataFrame({"id": [1, 2, 10], "cat": 0.5})
    for ids in (["10", "1", "2"], [10.0, 1.0, 2.0]):
        labels = pd.DataFrame({"id": ids, "label": ["ten", "one", "two"]})
        assert ps.join_labels(frame, labels)["label"].tolist() == ["one", "two", "ten"]


def test_keys_that_differ_are_refused_with_three_examples(tables, make):
    frame, there, _ = tables
    there["filename"] = [f"{name[:-3]}png" for name in there["filename"]]
    with pytest.raises(ValueError, match=r"keys differ: '\S+jpg', '\S+jpg', '\S+jpg' and 57 more"):
        ps.join_labels(frame, make(there))
    short = {name: cells[1:] for name, cells in tables[1].items()}
    with pytest.raises(ValueError, match="only in 'filename' in frame"):
        ps.join_labels(frame, make(short))


def test_keys_that_occur_twice_are_refused(tables, make):
    frame, there, _ = tables
    twice = {name: [cells[0], *cells[:-1]] for name, cells in there.items()}
    twice["species"][0] = "cow"
    with pytest.raises(ValueError, match=r"'filename' in labels repeats 'img.*; keep one row"):
        ps.join_labels(frame, make(twice))


def test_a_row_of_labels_that_was_copied_counts_once(tables, make):
    frame, there, labels = tables
    copied = {name: [*cells, *cells[:3]] for name, cells in there.items()}
    assert column(ps.join_labels(frame, make(copied)), "species") == labels.tolist()


def test_without_a_shared_column_rows_are_joined_by_position(tables, make):
    frame, there, _ = tables
    nameless = {"species": there["species"]}
    with pytest.warns(ps.PriorShiftWarning, match="row by row"):
        joined = ps.join_labels(frame, make(nameless))
    assert column(joined, "species") == there["species"]
    assert column(ps.join_labels(frame, there["species"]), "label") == there["species"]
    for wrong in (make({"species": there["species"][1:]}), there["species"][1:]):
        with pytest.raises(ValueError, match="59"):
            ps.join_labels(frame, wrong)


def test_what_nothing_says_is_asked(tables, make):
    frame, there, labels = tables
    several = there | {"cat": [0.5] * 60}
    with pytest.raises(ValueError, match=r"share several columns.*'filename', 'cat'.*on="):
        ps.join_labels(frame, make(several))
    with pytest.raises(ValueError, match="frame has no column 'id'"):
        ps.join_labels(frame, make(there), on="id")
    unclear = there | {"site": ["north"] * 60}
    with pytest.raises(ValueError, match="which column of labels holds the labels"):
        ps.join_labels(frame, make(unclear))
    unclear["label"] = unclear.pop("species")
    assert column(ps.join_labels(frame, make(unclear)), "label") == labels.tolist()
    named = make({"filename": there["filename"], "cat": there["species"]})
    with pytest.raises(ValueError, match="'cat'"):
        ps.join_labels(frame, named, on="filename")


def test_a_key_may_differ_in_letter_case(tables, make):
    frame, there, labels = tables
    there["FileName"] = there.pop("filename")
    for on in (None, "filename", "FILENAME"):
        assert column(ps.join_labels(frame, make(there), on), "species") == labels.tolist()


def test_columns_of_a_pandas_frame_may_be_numbers():
    rows = pd.DataFrame({0: [0.9, 0.2], 1: [0.1, 0.8], "ID": [7, 8]})
    joined = ps.join_labels(rows, pd.DataFrame({"id": [8, 7], "label": [1, 0]}))
    assert list(joined["label"]) == [0, 1]


def test_rows_cannot_be_dropped_if_no_key_matches():
    with pytest.raises(ValueError, match="No key is in both") as refused:
        match_rows(["a", "b"], ["c"], "rows", "labels", partial=True)
    assert "drop" not in str(refused.value)
    assert "letter case" not in str(refused.value)
    with pytest.raises(ValueError, match="differ only by letter case: spell them alike"):
        match_rows(["A.JPG", "b"], ["a.jpg", "b"], "rows", "labels")
