"""Bad input is refused with its name, place and remedy; good input is read in any form."""

import contextlib
import re
import sys
import warnings
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import NotFittedError

import priorshift as ps
from priorshift.border import (
    check_level,
    check_number,
    check_outputs,
    check_priors,
    check_proba,
    check_sample_weight,
)

VALID = np.array(
    [
        [0.7, 0.2, 0.1],
        [0.1, 0.8, 0.1],
        [0.2, 0.2, 0.6],
        [0.5, 0.3, 0.2],
        [0.2, 0.6, 0.2],
        [0.1, 0.1, 0.8],
    ]
)
LABELS = np.array([0, 1, 2, 0, 1, 2])
SUM_TOLERANCE = 1e-3  # as the messages state it
EQUAL = np.full(3, 1 / 3)

TAKERS = {
    "SCML.fit": lambda y_proba: ps.SCML().fit(y_proba, LABELS),
    "SCML.partial_fit": lambda y_proba: ps.SCML().partial_fit(y_proba, LABELS, classes=[0, 1, 2]),
    "SCML.estimate": lambda y_proba: ps.SCML().fit(VALID, LABELS).estimate(y_proba),
    "EM.fit": lambda y_proba: ps.EM().fit(y_proba),
    "EM.estimate": lambda y_proba: ps.EM().fit(source_priors=EQUAL).estimate(y_proba),
    "EM.adapt": lambda y_proba: ps.EM().fit(source_priors=EQUAL).adapt(y_proba),
    "adapt_proba": lambda y_proba: ps.adapt_proba(y_proba, EQUAL, [0.5, 0.3, 0.2]),
    "priors_from_predictions": ps.priors_from_predictions,
}
every_taker = pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS.keys())
OFTEN_WRONG = ("nan", "sum", "logits", "one column", "no rows", "1-D outside", "masked", "strings")


def complaint(call, *args, **kwargs):
    """Return the message of the ValueError that a call must raise."""
    with pytest.raises(ValueError, match=r"\w") as error:
        call(*args, **kwargs)
    return str(error.value)


def assert_says(message, *patterns):
    for pattern in patterns:
        assert re.search(pattern, message), f"{pattern!r} not in {message!r}"


def with_value(value, row=2, column=1):
    spoilt = VALID.copy()
    spoilt[row, column] = value
    return spoilt


def with_sum(total, dtype=np.float64, row=2):
    spoilt = VALID.astype(dtype)
    spoilt[row] *= total
    return spoilt


# Predictions that are none: what each message must say of place and remedy

SOFTMAX, DROP = "softmax", "repair or drop such rows"
BAD_PREDICTIONS = {
    "nan": (with_value(np.nan), "NaN", "row 2, column 1", DROP),
    "inf": (with_value(np.inf), "infinity", "row 2, column 1", DROP),
    "minus inf": (with_value(-np.inf), "infinity", "row 2, column 1", DROP),
    "both infinities": (np.array([[np.inf, -np.inf, 1.0]] * 6), "infinity", "row 0, column 0"),
    "nan in float32": (with_value(np.nan).astype(np.float32), "row 2, column 1", DROP),
    "negative": (with_value(-0.2), r"negative value \(-0.2\)", "row 2, column 1", SOFTMAX),
    # the sum is fine, the values are not
    "negative, sum 1": (np.array([[1.2, -0.2, 0.0]] * 6), "negative", "row 0, column 1", SOFTMAX),
    "sum": (with_sum(0.5), "row 2 of", "sums to 0.5", r"tolerance 0\.001", "softmax or divide"),
    "percentages": (100 * VALID, "row 0 of", "sums to 100", "pass priorshift.renormalise of them"),
    "zeros": (with_sum(0.0), "row 2 of", "sums to 0,", "divide rows by their sums"),
    "huge float32": (np.full((6, 3), 3e38, np.float32), "row 0 of", "sums to 9e\\+38"),
    "log-probabilities": (np.log(VALID), "row 0, column 0", "log-probabilities: pass np.exp"),
    "log-probabilities with -inf": (
        np.array([[0.0, -np.inf, -np.inf], *np.log(VALID[1:])]),
        "row 0, column 1",
        "log-probabilities: pass np.exp",
    ),
    "logits": (np.log(VALID) + 1.5, "negative", "row 0, column 1", SOFTMAX),
    "logits above 0": (np.log(VALID) + 5, "row 0 of", "softmax"),
    "one column": (VALID[:, :1], "has one column", "pass a 1-D array or one column per class"),
    "3-D": (VALID[None], r"\(1, 6, 3\)", r"must have shape \(n_samples, n_classes\)"),
    "0-D": (0.5, r"got \(\)", r"must have shape \(n_samples, n_classes\)"),
    "no rows": (np.empty((0, 3)), r"empty \(shape \(0, 3\)\)", "at least one row"),
    "no columns": (np.empty((6, 0)), r"empty \(shape \(6, 0\)\)", "at least one row"),
    "empty list": ([], "empty", "at least one row"),
    "empty frame": (pl.DataFrame({"0": [], "1": []}), r"shape \(0, 2\)", "at least one row"),
    "1-D outside": ([0.2, 1.2, 0.1], "1-D", "1.2", "position 1", r"\[0, 1\]"),
    "1-D nan": ([0.2, 0.3, np.nan], "nan", "position 2", r"\[0, 1\]"),
    "1-D logits": ([-0.4, 0.3], "-0.4", "position 0", "Logits need a sigmoid first"),
    "masked": (np.ma.masked_less(VALID, 0.15), "masked array", "fill or drop"),
    "sparse": (sparse.csr_matrix(0.5 * VALID), r"row 0 of y_proba sums to 0\.5", "softmax"),
    "sparse array": (sparse.coo_array(VALID - 0.2), "negative", "row 0, column", SOFTMAX),
    "lazy": (pl.LazyFrame(VALID), "lazy frame", r"\.collect\(\)"),
    "strings": (VALID.astype(str), "must hold numbers", "Drop the columns"),
    "objects": (VALID.astype(object), "must hold numbers", "object"),
    "complex": (VALID.astype(complex), "must hold numbers", "complex128"),
    "ragged": ([[0.5, 0.5], [1.0]], "cannot be read as an array", "inhomogeneous"),
    "text column": (
        pd.DataFrame(VALID, columns=list("abc")).assign(id="x"),
        "must hold numbers",
        "Drop the columns",
    ),
    "missing in pandas": (
        pd.DataFrame(VALID, columns=list("abc")).astype("Float64").mask(VALID == 0.8),
        "NaN",
        "row 1, column 1",
        DROP,
    ),
    "missing in polars": (
        pl.DataFrame({"0": [0.5, None], "1": [0.5, 0.5]}),
        "NaN",
        "row 1, column 0",
        DROP,
    ),
    "header with duplicates": (
        pd.DataFrame(VALID, columns=["a", "b", "a"]),
        "cannot be read as a frame",
        "unique column names",
    ),
}


@pytest.mark.parametrize("case", BAD_PREDICTIONS.values(), ids=BAD_PREDICTIONS.keys())
def test_bad_predictions_are_named_placed_and_remedied(case):
    y_proba, *patterns = case
    for take in (TAKERS["SCML.fit"], TAKERS["EM.estimate"]):
        assert_says(complaint(take, y_proba), "y_proba", *patterns)


@every_taker
def test_whoever_takes_predictions_refuses_what_is_often_wrong(take):
    for y_proba, *patterns in (BAD_PREDICTIONS[name] for name in OFTEN_WRONG):
        assert_says(complaint(take, y_proba), "y_proba", *patterns)


@every_taker
def test_rows_may_miss_1_by_the_stated_tolerance_and_no_more(take):
    for sign, dtype in ((-1, np.float32), (1, np.float64)):
        take(with_sum(1 + sign * 0.98 * SUM_TOLERANCE, dtype))
        outside = with_sum(1 + sign * 1.02 * SUM_TOLERANCE, dtype)
        assert_says(complaint(take, outside), "row 2 of y_proba", "tolerance 0.001")


def test_a_bad_row_is_found_in_a_later_block():
    y_proba = np.tile(VALID, (10_000, 1))
    y_proba[54_321] *= 1.5
    assert_says(complaint(ps.priors_from_predictions, y_proba), "row 54321 of y_proba sums to 1.5")
    y_proba[54_320, 2] = -1.0
    assert_says(complaint(ps.priors_from_predictions, y_proba), "row 54320, column 2")


@settings(max_examples=30)
@given(
    row=st.integers(0, 39),
    column=st.integers(0, 4),
    value=st.sampled_from([np.nan, np.inf, -np.inf, -1e-3, -5.0]),
    dtype=st.sampled_from([np.float16, np.float32, np.float64]),
)
def test_one_bad_value_anywhere_is_found_there(row, column, value, dtype):
    y_proba = np.full((40, 5), 0.2, dtype)
    y_proba[row, column] = value
    message = complaint(ps.adapt_proba, y_proba, np.full(5, 0.2), np.full(5, 0.2))
    assert_says(message, f"row {row}, column {column};")


@settings(max_examples=20)
@given(row=st.integers(0, 39), total=st.floats(0, 50).filter(lambda s: abs(s - 1) > 2e-3))
def test_one_bad_sum_anywhere_is_found_there(row, total):
    y_proba = np.full((40, 5), 0.2)
    y_proba[row] *= total
    assert_says(complaint(ps.priors_from_predictions, y_proba), f"row {row} of y_proba")


@pytest.mark.parametrize(
    ("logits", "patterns"),
    [
        ([[0.0, 1.0], [np.nan, 1.0]], ["row 1", "NaN"]),
        ([[0.0, 1.0], [np.inf, 1.0]], ["row 1", r"\+inf"]),
        ([[-np.inf, -np.inf], [0.0, 1.0]], ["row 0", "nothing but -inf"]),
        ([0.3, -0.3], [r"must have shape \(n_samples, n_classes\)"]),
        (np.empty((0, 2)), ["empty"]),
        (sparse.csr_matrix(np.eye(2)), ["sparse matrix", "toarray"]),
    ],
)
def test_bad_logits_are_refused(logits, patterns):
    def adapt():
        ps.adapt_proba(logits, [0.5, 0.5], [0.5, 0.5], from_logits=True)

    assert_says(complaint(adapt), "y_proba", *patterns)


# Columns and classes that do not fit


@pytest.mark.parametrize("method", ["scm-l", "em"])
def test_target_with_another_number_of_columns(method):
    est = ps.get_estimator(method).fit(VALID, LABELS)
    message = complaint(est.estimate, np.full((2, 4), 0.25))
    assert_says(message, "y_proba has 4 columns", "3 classes", "0, 1, 2", "one column per class")


def test_classes_that_do_not_fit_the_columns():
    message = complaint(ps.SCML().fit, VALID, LABELS, classes=[0, 1])
    assert_says(message, "classes has 2 entries", "3 columns", "name every column once")
    message = complaint(ps.adapt_proba, VALID, EQUAL, EQUAL, classes=list("abcd"))
    assert_says(message, "classes has 4 entries", "3 columns")


def test_headers_of_several_levels_are_refused():
    pd = pytest.importorskip("pandas")
    levels = pd.MultiIndex.from_product([["model"], ["a", "b", "c"]])
    frame = pd.DataFrame(np.full((3, 3), 1 / 3), columns=levels)
    message = r"^y_proba is labelled on several levels .* \('model', 'a'\); keep the level"
    for call in (
        lambda: ps.adapt_proba(frame, [0.2, 0.3, 0.5], [0.4, 0.3, 0.3]),
        lambda: ps.SCML().fit(frame, ["a", "b", "c"]),
        lambda: ps.EM().fit(source_priors=[0.2, 0.3, 0.5]).estimate(frame),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    priors = pd.Series([0.2, 0.3, 0.5], index=levels)
    with pytest.raises(ValueError, match="source_priors is labelled on several levels"):
        ps.EM().fit(source_priors=priors)
    frame.columns = frame.columns.get_level_values(-1)  # as the message says
    assert ps.SCML().fit(frame, ["a", "b", "c"]).classes_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    "classes", [["a", "b", "a"], [1, 2, 1], np.array([0.5, 0.5, 1.0])], ids=["str", "int", "float"]
)
def test_duplicate_classes(classes):
    takers = [
        lambda: ps.SCML().fit(VALID, LABELS, classes=classes),
        lambda: ps.EM().fit(source_priors=EQUAL, classes=classes),
        lambda: ps.adapt_proba(VALID, EQUAL, EQUAL, classes=classes),
        lambda: ps.priors_from_labels(classes, classes=classes),
        lambda: ps.sample_weights(classes, EQUAL, classes=classes),
    ]
    for take in takers:
        assert_says(complaint(take), "classes names .* twice", "its own name")


def test_frames_whose_header_is_not_the_classes():
    est = ps.SCML().fit(pd.DataFrame(VALID, columns=list("abc")), list("abcabc"))
    message = complaint(est.estimate, pd.DataFrame(VALID, columns=list("abd")))
    assert_says(message, "y_proba has no column 'c'", "'d'", "Rename the columns")


# Labels

names = np.array(["a", "b", "c"])


@pytest.mark.parametrize(
    ("labels", "patterns"),
    [
        (["a", "b", "c", "z", "a", "z"], ["'z' at position 3", "2 such", "Pass classes= with"]),
        ([0, 1, 2, 0, 1, 2], ["'0' at position 0", "6 such"]),
        (np.array([0.0, 1, 2, 0, 1, 2]), ["'0' at position 0", "6 such"]),
        (["a", "b"], ["2 labels", "6 rows", "one label per row"]),
        ([], ["empty", "at least one label"]),
        (["a", "b", None, "a", None, "c"], ["position 2", "2 missing", "drop these rows"]),
        (["a", "b", float("nan"), "a", "b", "c"], ["position 2", "1 missing", "drop"]),
        (np.array(["a", "b", "c", "a", pd.NA, "c"], object), ["position 4", "missing", "drop"]),
        (pd.Series([*"abcab", None]), ["position 5", "missing", "drop"]),
        (pd.Series([*"abcab", None], dtype="string"), ["position 5", "missing", "drop"]),
        (pd.Series([0, 1, None, 0, 1, 2], dtype="Int64"), ["position 2", "missing", "drop"]),
        (pl.Series(["a", None, "c", "a", "b", "c"]), ["position 1", "missing", "drop"]),
        (np.array([0, 1, np.nan, 0, 1, 2]), ["position 2", "missing", "drop"]),
        (["a", "b", 3, "a", "b", "c"], ["mixes strings", "3 at position 2", "one kind"]),
        (np.ma.masked_equal(LABELS, 2), ["masked array", "fill or drop"]),
        (LABELS[:, None], [r"1-D", "one label per row", r"\(6, 1\)"]),
        (np.eye(3)[LABELS], ["1-D", "one label per row", r"\(6, 3\)"]),
        (np.array(["2020-01-01"] * 6, "datetime64[D]"), ["numbers or strings", "datetime64"]),
        (pl.LazyFrame({"y": [0]}), ["lazy frame", "collect"]),
        ([0, 1, [2], 0, 1, 2], ["cannot be read as an array", "of one kind"]),
        ([(0, 1)] * 6, ["1-D", "one label per row", r"\(6, 2\)"]),
        ([0, 1, np.arange(2), 0, 1, 2], ["cannot be read as an array", "of one kind"]),
    ],
)
def test_bad_labels_are_named_placed_and_remedied(labels, patterns):
    for method in ("scm-l", "em"):
        message = complaint(ps.get_estimator(method).fit, VALID, labels, classes=names)
        assert_says(message, r"\by\b", *patterns)


def test_integer_label_outside_classes():
    message = complaint(ps.SCML().fit, VALID, [0, 1, 2, 0, 3, 2], classes=[0, 1, 2])
    assert_says(message, "y has a label outside classes: 3 at position 4", "0, 1, 2", "classes=")


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "b", "a", "b", "a", "b"],
        [0, 1, 2, 3, 0, 1],
        [1, 3, 1, 3, 1, 3],
        [-1, 1, -1, 1, -1, 1],
        [0.0, 1.0, 0.0, 1.0, 0.0, 1.0],
    ],
    ids=["two strings", "four ints", "ints past K", "negative ints", "two floats"],
)
def test_labels_that_cannot_name_the_columns(labels):
    n = len(set(labels))
    message = complaint(ps.SCML().fit, VALID, labels)
    assert_says(message, f"y has {n} distinct labels", "y_proba has 3 columns", "pass classes=")


def test_missing_validation_is_asked_for():
    assert_says(complaint(ps.SCML().fit), "SCML needs a validation set", r"fit\(y_proba, y\)")
    assert_says(complaint(ps.SCML().fit, VALID), "needs validation labels", r"fit\(y_proba, y\)")
    assert_says(complaint(ps.EM().fit), "EM needs source priors", r"fit\(source_priors=")


# Priors

BAD_PRIORS = {
    "counts": ([3, 4, 5], "sums to 12", "divide them by their sum"),
    "percentages": ([20.0, 30.0, 50.0], "sums to 100", "divide them by their sum"),
    "just outside": ([0.2, 0.3, 0.5011], "tolerance 0.001", "sums to 1.0011"),
    "negative": ([-0.2, 0.7, 0.5], "at least 0", r"-0\.2", "class 0", "position 0"),
    "nan": ([0.5, np.nan, 0.5], "finite", "nan", "class 1", "position 1"),
    "inf": ([0.5, 0.5, np.inf], "finite", "inf", "class 2", "position 2"),
    "too short": ([0.5, 0.5], "3 numbers, one per class", r"shape \(2,\)"),
    "too long": ([0.25] * 4, "3 numbers, one per class", r"shape \(4,\)"),
    "matrix": ([[0.2, 0.3, 0.5]], "3 numbers, one per class", r"shape \(1, 3\)"),
    "number": (0.5, r"a single number \(0.5\)", "there are 3 classes", "one prior per class"),
    "strings": (["0.2", "0.3", "0.5"], "3 numbers, one per class", "<U3"),
    "wrong names": ({0: 0.2, 1: 0.3, 7: 0.5}, "names the classes 0, 1, 7", "give each class"),
    "missing name": ({0: 0.5, 1: 0.5}, "names the classes 0, 1 but", "0, 1, 2", "give each class"),
    "series of others": (pd.Series([0.2, 0.3, 0.5], list("abc")), "'a', 'b', 'c'", "give each"),
    "ragged": ([[0.2, 0.3], 0.5], "cannot be read as an array", "lists of one length"),
    "mapping to text": ({0: "0.2", 1: "0.3", 2: "0.5"}, "3 numbers, one per class"),
}
PRIOR_TAKERS = {
    "adapt_proba source": (
        "source_priors",
        lambda p: ps.adapt_proba(VALID, p, EQUAL),
    ),
    "adapt_proba target": (
        "target_priors",
        lambda p: ps.adapt_proba(VALID, EQUAL, p),
    ),
    "SCML source": ("source_priors", lambda p: ps.SCML().fit(VALID, LABELS, source_priors=p)),
    "SCML labels": (
        "source_label_priors",
        lambda p: ps.SCML().fit(VALID, LABELS, source_label_priors=p),
    ),
    "EM source": ("source_priors", lambda p: ps.EM().fit(VALID, source_priors=p)),
    "sample_weights": ("target_priors", lambda p: ps.sample_weights(LABELS, p)),
    "sample_indices": ("target_priors", lambda p: ps.sample_indices(LABELS, p)),
}


@pytest.mark.parametrize("case", BAD_PRIORS.values(), ids=BAD_PRIORS.keys())
def test_bad_priors_are_named_placed_and_remedied(case):
    priors, *patterns = case
    for taker in ("SCML source", "sample_weights"):
        name, take = PRIOR_TAKERS[taker]
        assert_says(complaint(take, priors), f"^{name}", *patterns)


@pytest.mark.parametrize("taker", PRIOR_TAKERS.values(), ids=PRIOR_TAKERS.keys())
def test_whoever_takes_priors_refuses_what_is_often_wrong(taker):
    name, take = taker
    for case in ("counts", "negative", "too short", "number", "wrong names"):
        priors, *patterns = BAD_PRIORS[case]
        assert_says(complaint(take, priors), f"^{name}", *patterns)


def test_priors_alone_that_are_ragged_are_refused_in_words_of_ours():
    said = complaint(lambda p: ps.EM().fit(source_priors=p), [[0.2, 0.3], 0.5])
    assert_says(said, "^source_priors cannot be read as an array", "lists of one length")


def test_priors_within_tolerance_are_normalised():
    est = ps.EM().fit(source_priors=[0.2, 0.3, 0.5009])
    np.testing.assert_allclose(est.source_priors_, np.array([0.2, 0.3, 0.5009]) / 1.0009)


NO_LAST = np.array([0.5, 0.5, 0.0])


@pytest.mark.parametrize(
    "take",
    [
        lambda p: ps.adapt_proba(p, NO_LAST, EQUAL),
        lambda p: ps.adapt_proba(np.log(p), NO_LAST, EQUAL, from_logits=True),
        lambda p: ps.EM().fit(source_priors=NO_LAST).estimate(p),
        lambda p: ps.MAP().fit(source_priors=NO_LAST).estimate(p),
        lambda p: ps.SCML().fit(VALID, LABELS, source_priors=NO_LAST).estimate(p),
        lambda p: ps.NoAdaptation().fit(source_priors=NO_LAST).adapt(p),
    ],
    ids=["adapt_proba", "adapt_proba logits", "EM", "MAP", "SCML", "NA"],
)
def test_source_prior_of_0_for_a_class_with_mass(take):
    message = complaint(take, VALID)
    assert_says(message, "source_priors is 0 for class 2", r"position 2", "up to 0.8", "Give the")


@pytest.mark.parametrize("from_logits", [False, True])
def test_source_prior_of_0_without_mass_leaves_the_class_at_0(from_logits):
    y_proba = np.array([[0.5, 0.5 - 1e-7, 1e-7], [0.25, 0.75, 0.0]])
    with np.errstate(divide="ignore"):
        outputs = np.log(y_proba) if from_logits else y_proba
    adapted = ps.adapt_proba(outputs, NO_LAST, [0.1, 0.4, 0.5], from_logits=from_logits)
    np.testing.assert_array_equal(adapted[:, 2], 0.0)
    np.testing.assert_allclose(adapted[:, 0], [0.2, 0.25 / 3.25], atol=1e-6)


# Weights


@pytest.mark.parametrize(
    ("weight", "patterns"),
    [
        ([1.0, 2.0], [r"shape \(2,\)", "6: a weight per row"]),
        (np.ones((6, 1)), [r"shape \(6, 1\)", "a weight per row"]),
        ([1, 1, -1, 1, 1, 1], ["at least 0", "position 2"]),
        ([1, 1, 1, np.nan, 1, 1], ["finite", "position 3"]),
        (np.zeros(6), ["zero everywhere", "leave out rows"]),
        (np.full(6, 1e300), ["sums to 6e[+]300", "divide the weights by their mean"]),
        (np.full(6, 1e308), ["sums to inf", "divide the weights by their mean"]),
        (np.full(6, 1e-300), ["sums to 6e-300", "divide the weights by their mean"]),
        (list("abcdef"), ["must hold numbers"]),
    ],
)
def test_bad_sample_weights(weight, patterns):
    takers = [
        lambda: ps.SCML().fit(VALID, LABELS, sample_weight=weight),
        lambda: ps.EM().fit(VALID, sample_weight=weight),
        lambda: ps.priors_from_labels(LABELS, sample_weight=weight),
        lambda: ps.priors_from_predictions(VALID, sample_weight=weight),
    ]
    for take in takers:
        assert_says(complaint(take), "sample_weight", *patterns)


# Parameters: judged when used, not in __init__


@pytest.mark.parametrize(
    ("estimator", "patterns"),
    [
        (ps.EM(tol=0), ["tol", "above 0", "got 0"]),
        (ps.EM(tol=float("nan")), ["tol", "finite"]),
        (ps.SCML(tol=-1.0), ["tol", "above 0"]),
        (ps.EM(tol="small"), ["tol", "above 0", "'small'"]),
        (ps.SCML(max_iter=0), ["max_iter", "at least 1", "got 0"]),
        (ps.SCML(max_iter=2.5), ["max_iter", "whole number", "got 2.5"]),
        (
            ps.EM(solver="newton"),
            ["solver", "'certified', 'paper', 'released', 'gradient'", "'newton'"],
        ),
        (ps.SCML(solver="gradient"), ["solver", "'certified', 'paper'", "'gradient'"]),
        (ps.MAP(alpha=0.0), ["alpha", "above 0"]),
        (ps.MAP(alpha=[1.0, np.inf, 1.0]), ["alpha", "finite"]),
        (ps.SCMM(alpha=[2.0, 2.0]), ["alpha", "one number or 3", r"shape \(2,\)"]),
        (ps.CMM(alpha="3"), ["alpha", "one number or 3"]),
        (ps.RLLS(gamma=1.5), ["gamma", r"\[0, 1\]", "1.5"]),
        (ps.RLLS(decision="Hard"), ["decision", "'hard', 'soft'", "'Hard'"]),
    ],
)
def test_bad_parameters(estimator, patterns):
    assert_says(complaint(lambda: estimator.fit(VALID, LABELS).estimate(VALID)), *patterns)


# Class order: however the columns are named, the same class gets the same prior


@pytest.fixture
def shifted(simulate, rng):
    """Validation, labels and target of a simulated shift, with SCM-L's answer by column."""
    K = 4
    world = simulate(K)
    y_proba_val, y_val = world.draw(np.full(K, 1 / K), 400, rng)
    y_proba, _ = world.draw(np.array([0.1, 0.2, 0.3, 0.4]), 400, rng)
    priors = ps.SCML().fit(y_proba_val, y_val).estimate(y_proba).priors
    assert np.unique(priors.round(2)).size == K  # or a wrong order could go unseen
    return y_proba_val, y_val, y_proba, priors


UNSORTED = np.array(["dog", "ant", "cow", "bee"])


def test_integer_labels_name_the_columns_in_order(shifted):
    y_proba_val, y_val, y_proba, priors = shifted
    for labels in (y_val, y_val.tolist(), y_val.astype(np.uint8), pd.Series(y_val)):
        est = ps.SCML().fit(y_proba_val, labels)
        assert est.classes_.tolist() == [0, 1, 2, 3]
        np.testing.assert_allclose(est.estimate(y_proba).priors, priors)


@pytest.mark.parametrize("shape", [np.asarray, list, pd.Series, pl.Series, "category"])
def test_string_labels_name_the_columns_in_sorted_order(shifted, shape):
    y_proba_val, y_val, y_proba, priors = shifted
    labels = np.sort(UNSORTED)[y_val]
    labels = pd.Series(labels, dtype="category") if shape == "category" else shape(labels)
    est = ps.SCML().fit(y_proba_val, labels)
    assert est.classes_.tolist() == ["ant", "bee", "cow", "dog"]
    np.testing.assert_allclose(est.estimate(y_proba).priors, priors)


def test_variable_width_strings_of_numpy_2(shifted):
    if not hasattr(np.dtypes, "StringDType"):
        pytest.skip("NumPy 1 has no StringDType")
    y_proba_val, y_val, _, _ = shifted
    labels = np.sort(UNSORTED)[y_val].astype(np.dtypes.StringDType())
    assert ps.SCML().fit(y_proba_val, labels).classes_.tolist() == ["ant", "bee", "cow", "dog"]


@pytest.mark.parametrize("shape", [np.asarray, list, tuple, pd.Index, pl.Series])
def test_classes_name_the_columns_in_the_order_given(shifted, shape):
    y_proba_val, y_val, y_proba, priors = shifted
    est = ps.SCML().fit(y_proba_val, UNSORTED[y_val], classes=shape(UNSORTED))
    assert est.classes_.tolist() == UNSORTED.tolist()
    np.testing.assert_allclose(est.estimate(y_proba).priors, priors)


FRAMES = {
    "pandas": lambda values, header: pd.DataFrame(values, columns=list(header)),
    "pandas with Arrow's numbers": lambda values, header: pd.DataFrame(
        values, columns=list(header)
    ).astype("float64[pyarrow]"),
    "polars": lambda values, header: pl.DataFrame(values, schema=list(header)),
    "pyarrow": lambda values, header: pa.table(dict(zip(header, values.T, strict=True))),
}
every_frame = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES.keys())


@every_frame
def test_frames_are_matched_by_header(shifted, frame):
    y_proba_val, y_val, y_proba, priors = shifted
    order = [3, 1, 0, 2]
    est = ps.SCML().fit(frame(y_proba_val, UNSORTED), UNSORTED[y_val])
    assert est.classes_.tolist() == UNSORTED.tolist()
    shift = est.estimate(frame(y_proba[:, order], UNSORTED[order]))
    np.testing.assert_allclose(shift.priors, priors)
    # adapted columns come in the order of the frame, as a frame
    given = frame(y_proba[:, order], UNSORTED[order])
    adapted = shift.adapt(given)
    assert type(adapted) is type(given)
    np.testing.assert_allclose(adapted, shift.adapter(y_proba)[:, order])


@every_frame
def test_headers_are_text_even_where_labels_are_numbers(shifted, frame):
    y_proba_val, y_val, y_proba, priors = shifted
    order = [3, 1, 0, 2]
    header = np.array(["0", "1", "2", "3"])
    est = ps.SCML().fit(frame(y_proba_val[:, order], header[order]), y_val)
    np.testing.assert_allclose(est.estimate(frame(y_proba, header)).priors, priors[order])
    # and a classifier fitted on plain arrays understands such a target
    plain = ps.SCML().fit(y_proba_val, y_val)
    np.testing.assert_allclose(
        plain.estimate(frame(y_proba[:, order], header[order])).priors, priors
    )


def test_pandas_headers_may_be_numbers(shifted):
    y_proba_val, y_val, y_proba, priors = shifted
    reordered = pd.DataFrame(y_proba_val)[[2, 3, 0, 1]]
    est = ps.SCML().fit(reordered, y_val)
    assert est.classes_.tolist() == [2, 3, 0, 1]
    again = pd.DataFrame(y_proba)[[1, 0, 3, 2]]
    np.testing.assert_allclose(est.estimate(again).priors, priors[[2, 3, 0, 1]])
    with pytest.raises(ValueError, match="names or positions"):
        est.estimate(pd.DataFrame(y_proba))  # 0..3 is also what pandas calls nameless columns


def test_classes_reorder_a_frame(shifted):
    y_proba_val, y_val, y_proba, priors = shifted
    frame = pd.DataFrame(y_proba_val, columns=UNSORTED)
    est = ps.SCML().fit(frame, UNSORTED[y_val], classes=np.sort(UNSORTED))
    order = np.argsort(UNSORTED)
    with pytest.warns(ps.PriorShiftWarning, match="no column names, but a frame came before"):
        found = est.estimate(y_proba[:, order])
    np.testing.assert_allclose(found.priors, priors[order])


def test_a_frame_without_narwhals_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "narwhals", None)
    message = complaint(ps.priors_from_predictions, pd.DataFrame(VALID))
    assert_says(message, "y_proba is a frame", "pip install narwhals pyarrow")


def test_arrays_of_others_need_no_narwhals(monkeypatch):
    class Tensor:
        def __array__(self, dtype=None, copy=None):
            return VALID if dtype is None else VALID.astype(dtype)

    monkeypatch.setitem(sys.modules, "narwhals", None)
    np.testing.assert_allclose(ps.priors_from_predictions(Tensor()), VALID.mean(axis=0))


@pytest.mark.parametrize("shape", [dict, pd.Series])
def test_priors_by_name_are_matched_by_name(shifted, shape):
    y_proba_val, y_val, y_proba, _ = shifted
    by_column = np.array([0.1, 0.4, 0.2, 0.3])
    by_name = shape({UNSORTED[k]: by_column[k] for k in (3, 0, 2, 1)})
    labels = UNSORTED[y_val]
    for given_as in ("source_priors", "source_label_priors"):
        named = ps.SCML().fit(y_proba_val, labels, classes=UNSORTED, **{given_as: by_name})
        plain = ps.SCML().fit(y_proba_val, labels, classes=UNSORTED, **{given_as: by_column})
        np.testing.assert_array_equal(named.source_priors_, plain.source_priors_)
        np.testing.assert_array_equal(named.source_label_priors_, plain.source_label_priors_)
    adapted = ps.adapt_proba(y_proba, by_name, by_name, classes=UNSORTED)
    np.testing.assert_allclose(adapted, y_proba)


@pytest.mark.parametrize("labels", [UNSORTED, np.array([7, 3, 5, 1])], ids=["str", "int"])
def test_value_counts_are_priors_although_sorted_by_frequency(shifted, labels):
    y_proba_val, y_val, _, _ = shifted
    train = labels[np.repeat(np.arange(4), [10, 40, 20, 30])]
    frequencies = pd.Series(train).value_counts(normalize=True)
    assert frequencies.index.tolist() != labels.tolist()
    est = ps.SCML().fit(y_proba_val, labels[y_val], classes=labels, source_priors=frequencies)
    np.testing.assert_allclose(est.source_priors_, [0.1, 0.4, 0.2, 0.3])


def test_absent_classes_of_integer_labels_keep_their_columns(shifted):
    y_proba_val, y_val, y_proba, _ = shifted
    seen = y_val != 2
    est = ps.SCML().fit(y_proba_val[seen], y_val[seen])
    assert est.classes_.tolist() == [0, 1, 2, 3]
    with pytest.warns(ps.PriorShiftWarning, match="no sample of class 2"):
        shift = est.estimate(y_proba)
    assert shift.unseen_classes == (2,)


def test_absent_classes_of_named_labels_need_classes(shifted):
    y_proba_val, y_val, y_proba, _ = shifted
    seen = y_val != 2
    labels = UNSORTED[y_val[seen]]
    message = complaint(ps.SCML().fit, y_proba_val[seen], labels)
    assert_says(message, "y has 3 distinct labels", "4 columns", "pass classes=")
    est = ps.SCML().fit(y_proba_val[seen], labels, classes=UNSORTED)
    with pytest.warns(ps.PriorShiftWarning, match="no sample of class 'cow'"):
        est.estimate(y_proba)


def test_integer_labels_that_are_no_column_numbers(shifted):
    y_proba_val, y_val, y_proba, priors = shifted
    est = ps.SCML().fit(y_proba_val, 10 * y_val + 5)
    assert est.classes_.tolist() == [5, 15, 25, 35]
    np.testing.assert_allclose(est.estimate(y_proba).priors, priors)


def test_labels_of_other_kinds_than_classes_but_equal_to_them(shifted):
    y_proba_val, y_val, y_proba, priors = shifted
    for labels, classes in [
        (y_val.astype(float), [0, 1, 2, 3]),
        (y_val, [0.0, 1.0, 2.0, 3.0]),
        (y_val.astype(object), [0, 1, 2, 3]),
    ]:
        est = ps.SCML().fit(y_proba_val, labels, classes=classes)
        np.testing.assert_allclose(est.estimate(y_proba).priors, priors)


# Binary: a 1-D array is the probability of one class, which must be known


@pytest.fixture
def binary(simulate, rng):
    world = simulate(2)
    y_proba_val, y_val = world.draw(np.array([0.6, 0.4]), 300, rng)
    y_proba, _ = world.draw(np.array([0.2, 0.8]), 300, rng)
    return y_proba_val, y_val, y_proba, ps.SCML().fit(y_proba_val, y_val).estimate(y_proba).priors


SICK = np.array(["well", "sick"])  # positive is the second, though first in the alphabet


@pytest.mark.parametrize(
    ("labels_of", "known"),
    [
        (lambda y: y, {}),
        (lambda y: y.astype(bool), {}),
        (lambda y: y.astype(float), {}),
        (lambda y: 2 * y - 1, {}),
        (lambda y: SICK[y], {"classes": ["well", "sick"]}),
        (lambda y: 1 - y, {"classes": [1, 0]}),
    ],
    ids=[
        "0-1",
        "bool",
        "0.0-1.0",
        "-1-1",
        "classes",
        "classes [1, 0]",
    ],
)
def test_one_column_is_the_positive_class(binary, labels_of, known):
    y_proba_val, y_val, y_proba, priors = binary
    est = ps.SCML().fit(y_proba_val[:, 1], labels_of(y_val), **known)
    positive = labels_of(np.array([0, 1])).tolist()
    assert est.classes_.tolist() == positive
    shift = est.estimate(y_proba[:, 1])
    np.testing.assert_allclose(shift.priors, priors)
    np.testing.assert_allclose(est.estimate(y_proba).priors, priors)  # both columns serve as well
    np.testing.assert_allclose(shift.adapt(y_proba[:, 1]), shift.adapt(y_proba)[:, 1])


@pytest.mark.parametrize("shape", [pd.Series, pl.Series, list])
def test_one_column_may_be_a_series(binary, shape):
    y_proba_val, y_val, y_proba, priors = binary
    est = ps.SCML().fit(shape(y_proba_val[:, 1]), shape(y_val))
    np.testing.assert_allclose(est.estimate(shape(y_proba[:, 1])).priors, priors)


@pytest.mark.parametrize("labels_of", [lambda y: SICK[y], lambda y: y + 1], ids=["str", "1-2"])
def test_labels_that_do_not_say_which_class_is_positive(binary, labels_of):
    y_proba_val, y_val, _, _ = binary
    message = complaint(ps.SCML().fit, y_proba_val[:, 1], labels_of(y_val))
    assert_says(message, "y_proba is 1-D", r"classes=\[negative, positive\]")


# Precision and containers


@pytest.mark.parametrize(("dtype", "atol"), [(np.float32, 1e-6), (np.float16, 2e-3)])
def test_lower_precision_gives_the_same_answer(shifted, dtype, atol):
    y_proba_val, y_val, y_proba, priors = shifted
    shift = ps.SCML().fit(y_proba_val.astype(dtype), y_val).estimate(y_proba.astype(dtype))
    np.testing.assert_allclose(shift.priors, priors, atol=atol)
    assert shift.priors.dtype == np.float64


@pytest.mark.parametrize("dtype", [np.longdouble, ">f8", ">f4"])
def test_unusual_floats_are_read(shifted, dtype):
    y_proba_val, y_val, y_proba, priors = shifted
    shift = ps.SCML().fit(y_proba_val.astype(dtype), y_val).estimate(y_proba.astype(dtype))
    np.testing.assert_allclose(shift.priors, priors, atol=1e-6)


@pytest.mark.parametrize("dtype", [bool, int, np.uint8])
def test_one_hot_decisions_are_probabilities(dtype):
    one_hot = np.eye(3, dtype=dtype)[LABELS]
    priors = ps.CML().fit(one_hot, LABELS).estimate(one_hot[[0, 0, 0, 1]]).priors
    np.testing.assert_allclose(priors, [0.75, 0.25, 0.0], atol=1e-6)


def test_lists_and_strided_arrays_are_read(shifted):
    y_proba_val, y_val, y_proba, priors = shifted
    est = ps.SCML().fit(y_proba_val.tolist(), y_val.tolist())
    np.testing.assert_allclose(est.estimate(y_proba.tolist()).priors, priors)
    est = ps.SCML().fit(np.asfortranarray(y_proba_val), y_val)
    np.testing.assert_allclose(est.estimate(y_proba[::-1]).priors, priors)


def test_read_only_memory_maps_are_read(shifted, tmp_path):
    y_proba_val, y_val, y_proba, priors = shifted
    np.save(tmp_path / "target.npy", y_proba)
    on_disk = np.load(tmp_path / "target.npy", mmap_mode="r")
    shift = ps.SCML().fit(y_proba_val, y_val).estimate(on_disk)
    np.testing.assert_allclose(shift.priors, priors)
    np.testing.assert_allclose(shift.adapt(on_disk), shift.adapt(y_proba))


def test_pandas_frame_without_column_names_is_in_class_order(shifted):
    """`pd.DataFrame(model.predict_proba(X))` has a header of positions, not of classes."""
    y_proba_val, y_val, y_proba, priors = shifted
    names = np.array(["a", "b", "c", "d"])
    est = ps.SCML().fit(pd.DataFrame(y_proba_val), names[y_val])
    assert est.classes_.tolist() == names.tolist()
    np.testing.assert_allclose(est.estimate(pd.DataFrame(y_proba)).priors, priors)
    shifted_labels = ps.SCML().fit(pd.DataFrame(y_proba_val), y_val + 1)
    assert shifted_labels.classes_.tolist() == [1, 2, 3, 4]


def test_failed_fit_leaves_the_estimator_unfitted():
    em = ps.EM()
    with pytest.raises(ValueError, match="source_priors"):
        em.fit([[0.5, 0.5]], source_priors=[1.0, 2.0, 3.0])
    with pytest.raises(NotFittedError):
        em.estimate([[0.5, 0.5]])


def test_source_priors_by_name_are_put_in_class_order():
    by_name = ps.EM().fit(source_priors={1: 0.3, 0: 0.7})
    assert by_name.classes_.tolist() == [0, 1]
    np.testing.assert_allclose(by_name.source_priors_, [0.7, 0.3])
    series = ps.EM().fit(source_priors=pd.Series({"b": 0.3, "a": 0.7}))
    assert series.classes_.tolist() == ["a", "b"]
    np.testing.assert_allclose(series.source_priors_, [0.7, 0.3])
    with pytest.raises(ValueError, match="must be a vector or a mapping"):
        ps.EM().fit(source_priors=[[0.3, 0.7]])


@pytest.mark.parametrize("name", ["em", "map", "scm-l", "bbse"])
def test_a_mean_prediction_of_0_is_said_to_be_one(name):
    """Nobody gave source_priors, so nobody can be told that they gave a 0."""
    never = np.tile([[0.5, 0.5, 0.0], [0.4, 0.6, 0.0]], (10, 1))
    est = ps.get_estimator(name).fit(never, np.arange(20) % 2, classes=[0, 1, 2])
    message = complaint(est.estimate, VALID)
    assert_says(message, "the source prior", "validation", "is 0 for class 2", "position 2")
    assert_says(message, "up to 0.8", "source_priors=", "validate on rows")
    message = complaint(lambda p: ps.estimate_groups(est, p, np.zeros(len(p), int)), VALID)
    assert_says(message, "the source prior", "source_priors=")


@pytest.mark.parametrize(
    ("given", "tiny"), [("source_priors", 5e-324), ("source_label_priors", 1e-31)]
)
@pytest.mark.parametrize("name", ps.available_estimators())
def test_priors_too_small_to_divide_by_are_0(name, given, tiny):
    y_proba = np.array([[0.7, 0.3, 0.0], [0.2, 0.8, 0.0], [0.4, 0.6, 0.0]] * 4)
    y = np.array([0, 1, 1] * 4)
    priors = {given: [0.5, 0.5, tiny], "classes": [0, 1, 2]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.PriorShiftWarning)
        fitted = ps.get_estimator(name).fit(y_proba, y, **priors)
        found = fitted.estimate(y_proba)
    assert found.priors.sum() == pytest.approx(1)
    assert found.source_priors[2] < 1e-30


def test_labels_of_classes_that_the_source_never_had():
    priors = {"source_label_priors": [1e-300, 1.0]}
    with pytest.raises(ValueError, match="no sample of any class of source_label_priors; add"):
        ps.Auto().fit(np.eye(2)[np.zeros(9, int)], np.zeros(9, int), **priors)


@pytest.mark.parametrize("frame", [pd.DataFrame(), pl.DataFrame(), pa.table({})])
def test_frames_without_columns_are_refused(frame):
    with pytest.raises(ValueError, match="y_proba is a frame without columns; give one column"):
        ps.EM().fit(source_priors=[0.5, 0.5]).estimate(frame)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([[60.0, 40.0]], "if these are percent, pass priorshift.renormalise of them"),
        ([[0.61, 0.4]], "if they were rounded, pass priorshift.renormalise of them"),
        ([[1 - 69.7, 69.7]], "a probability above 1 (69.7)"),
    ],
)
def test_rows_that_sum_to_something_else_get_the_remedy_that_fits(rows, said):
    assert said in complaint(ps.priors_from_predictions, rows)


def test_logits_may_lie_further_apart_than_floats_reach():
    logits = np.array([[-1.7e308, 1.7e308], [1.7e308, -1.7e308]])
    adapted = ps.adapt_proba(logits, [0.5, 0.5], [0.2, 0.8], from_logits=True)
    np.testing.assert_array_equal(adapted, [[0, 1], [1, 0]])


@pytest.fixture
def two(rng):
    p = rng.uniform(size=80)
    return np.column_stack([1 - p, p]), (rng.uniform(size=80) < p).astype(int)


def test_one_number_is_the_prior_of_the_positive_class_of_two(two):
    y_proba, y = two
    for name in ("source_priors", "source_label_priors"):
        one = ps.EM().fit(y_proba, y, **{name: 0.3}).estimate(y_proba)
        both = ps.EM().fit(y_proba, y, **{name: [0.7, 0.3]}).estimate(y_proba)
        np.testing.assert_array_equal(one.priors, both.priors)
    alone = ps.EM().fit(source_priors=0.3).estimate(y_proba)
    assert alone.source_priors.tolist() == [0.7, 0.3]
    expected = ps.adapt_proba(y_proba, [0.7, 0.3], [0.9, 0.1])
    np.testing.assert_array_equal(ps.adapt_proba(y_proba, 0.3, 0.1), expected)
    np.testing.assert_array_equal(
        ps.sample_weights(y, target_priors=0.3), ps.sample_weights(y, target_priors=[0.7, 0.3])
    )
    found = ps.assess(y_proba, y, y_proba, source_priors=np.float64(0.5), method="scm-l")
    assert found.estimate.source_priors.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("prior", "classes", "said"),
    [
        (
            0.3,
            ["a", "b", "c"],
            "a single number (0.3), the prior of the positive class of two",
        ),
        (1.3, ["a", "b"], "it must be in [0, 1], but is 1.3"),
        (np.nan, ["a", "b"], "it must be in [0, 1], but is nan"),
        (0.3, ["ill", "well"], "should come last, but the classes are in the order 'ill', 'well'"),
        (0.3, [1, 0], "should come last, but the classes are in the order 1, 0"),
        (True, ["a", "b"], "must be 2 numbers"),
    ],
)
def test_one_number_that_is_not_clear(prior, classes, said):
    assert said in complaint(check_priors, prior, np.array(classes), "source_priors")


ODD = [0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 10**400]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("one", ODD)
def test_odd_numbers_are_refused_in_words_or_pass_without_a_warning(one):
    ab = np.array(["a", "b"])
    for other in ODD:
        rows = [[one, other], [0.5, 0.5]]
        for check, *arguments in (
            (check_proba, rows),
            (partial(check_outputs, from_proba=False), rows),
            (check_sample_weight, rows[0], 2),
            (check_priors, rows[0], ab, "priors"),
            (check_priors, {"a": one, "b": other}, ab, "priors"),
            (check_priors, one, ab, "priors"),
            (check_number, one, "alpha"),
            (ps.renormalise, rows),
        ):
            with contextlib.suppress(ValueError):
                check(*arguments)


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("pyspark.sql.dataframe", r"is a Spark frame; name its columns: SparkTable\(y_proba"),
        ("pyspark.sql.connect.dataframe", "is a Spark frame"),
        ("pyspark.pandas.frame", "must hold numbers"),
    ],
)
def test_a_spark_frame_is_known_without_spark(module, said):
    given = type("DataFrame", (), {"__module__": module})()
    assert re.search(said, complaint(ps.EM().fit(source_priors=[0.5, 0.5]).estimate, given))
    other = type("Row", (), {"__module__": module})()
    assert "must hold numbers" in complaint(ps.EM().fit(source_priors=[0.5, 0.5]).estimate, other)


@pytest.mark.parametrize("level", [0.0, 1e-10, 1 - 1e-10, 1.0])
def test_a_level_is_not_too_near_to_0_or_1(level):
    assert "must be above 0 and below 1" in complaint(check_level, level)
    assert check_level(1e-8) + check_level(1 - 1e-8) == 1.0


def test_long_names_are_cut_in_messages():
    names = ["a" * 100_000, "b" * 100_000]
    with pytest.raises(ValueError, match="outside classes") as caught:
        ps.SCML().fit(np.eye(2), ["c" * 100_000, "a"], classes=names)
    assert len(str(caught.value)) < 500


def test_a_sum_at_the_tolerance_is_fine():
    """0.998999... by the sum of three decimals: an error would call it 0.999."""
    for dtype in (np.float64, np.float32):
        ps.adapt_proba(np.array([[0.100, 0.497, 0.402]], dtype), [1 / 3] * 3, [0.2, 0.3, 0.5])
    with pytest.raises(ValueError, match=r"sums to 0\.998, not 1 \(tolerance 0\.001\)"):
        ps.adapt_proba([[0.333, 0.333, 0.332]], [1 / 3] * 3, [0.2, 0.3, 0.5])
