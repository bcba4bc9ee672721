"""Group labels of every kind, and none that is missing."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from priorshift.border import read_groups
from priorshift.groups import encode_groups, match_groups

LABELS = {
    "text": np.array(["b", "a", "b", "c"]),
    "objects": np.array(["b", "a", "b", "c"], dtype=object),
    "a list": ["b", "a", "b", "c"],
    "dense whole numbers": np.array([7, 3, 7, 9]),
    "sparse whole numbers": np.array([7 * 10**15, -3, 7 * 10**15, 9 * 10**15]),
    "unsigned": np.array([7, 3, 7, 2**64 - 1], dtype=np.uint64),
    "floats": np.array([0.5, -1.0, 0.5, 3.0]),
    "booleans": np.array([True, False, True, True]),
    "pandas": pd.Series(["b", "a", "b", "c"]),
    "categories": pd.Series(["b", "a", "b", "c"], dtype="category"),
    "polars": pl.Series(["b", "a", "b", "c"]),
    "dates": np.array(["2024-02-01", "2024-01-01", "2024-02-01", "2024-03-01"], "datetime64[D]"),
    "timestamps": pd.Series(
        pd.to_datetime(["2024-02-01", "2024-01-01", "2024-02-01", "2024-03-01"])
    ),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_groups_are_sorted_and_rows_find_them(labels):
    read = read_groups(labels, 4)
    names, codes = encode_groups(read)
    oracle, inverse = np.unique(read, return_inverse=True)
    np.testing.assert_array_equal(names, oracle)
    assert names.dtype.kind == oracle.dtype.kind
    np.testing.assert_array_equal(codes, inverse)
    np.testing.assert_array_equal(match_groups(read, names), inverse)


def test_dates_become_text_as_short_as_can_be():
    days = read_groups(LABELS["timestamps"])
    assert days.tolist() == ["2024-02-01", "2024-01-01", "2024-02-01", "2024-03-01"]


@pytest.mark.parametrize(
    "labels",
    [
        ["a", None, "b"],
        ["a", float("nan"), "b"],
        np.array([1.0, np.nan, 2.0]),
        pd.Series(["a", None, "b"]),
        pd.Series(["a", pd.NA, "b"], dtype="string"),
        np.array(["2024-01-01", "NaT", "2024-01-02"], dtype="datetime64[D]"),
    ],
    ids=["None", "nan", "float nan", "pandas None", "NA", "NaT"],
)
def test_a_missing_group_is_named_with_its_place(labels):
    with pytest.raises(ValueError, match=r"groups has no label at position 1 \(1 missing\)"):
        read_groups(labels)


def test_one_label_a_row():
    with pytest.raises(ValueError, match="groups has 2 labels but there are 3 rows"):
        read_groups(["a", "b"], 3)


def test_unknown_groups_are_named():
    with pytest.raises(ValueError, match="no estimate for group 'x'"):
        match_groups(np.array(["a", "x"]), np.array(["a", "b"]))
    with pytest.raises(ValueError, match="of another kind"):
        match_groups(np.array([1, 2]), np.array(["1", "2"]))
