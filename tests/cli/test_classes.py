"""Which column is which class: settled by name, whatever the format."""

import json

import numpy as np
import pytest

import priorshift as ps

pytestmark = pytest.mark.usefixtures("no_verdict")

FORMATS = ["csv", "parquet", "arrow", "feather", "npz"]


def expected(data, method="scm-l", **given):
    shift = ps.get_estimator(method).fit(
        data.y_proba_val, data.y_val, classes=data.classes, **given
    )
    return shift.estimate(data.y_proba).to_dict()["priors"]


@pytest.fixture
def estimate(ask):
    """Return the priors that the command estimates."""

    def priors(validation, target, *more, **options):
        named = ("--validation", validation, "--target", target)
        return ask("estimate", *named, *more, **options)["priors"]

    return priors


@pytest.mark.parametrize(
    ("of_validation", "of_target"), [*zip(FORMATS, [*FORMATS[1:], "csv"], strict=True)]
)
def test_formats_may_be_mixed(data, write, estimate, of_validation, of_target):
    validation = write(f"v.{of_validation}", data.y_proba_val, data.y_val)
    target = write(f"t.{of_target}", data.y_proba)
    assert estimate(validation, target) == expected(data)


@pytest.mark.parametrize("formats", [("csv", "csv"), ("npz", "parquet"), ("arrow", "npz")])
def test_columns_in_another_order_change_nothing(data, write, estimate, formats):
    order = (2, 0, 1)
    validation = write(f"v.{formats[0]}", data.y_proba_val, data.y_val)
    target = write(f"t.{formats[1]}", data.y_proba[:, order], classes=data.classes[list(order)])
    priors = estimate(validation, target)
    assert priors == expected(data)
    assert list(priors) == data.classes.tolist()


@pytest.mark.parametrize("names", [("v.npz", "t.csv"), ("v.csv", "t.npy"), ("v.csv", "t.npz")])
def test_columns_without_names_follow_those_that_have_them(data, write, ok, names):
    unnamed = {"classes": None} if names[0] == "v.npz" else {}
    validation = write(names[0], data.y_proba_val, data.y_val, **unnamed)
    unnamed = {} if names[1] == "t.csv" else {"classes": None}
    target = write(names[1], data.y_proba, **unnamed)
    result = ok("estimate", "--validation", validation, "--target", target, "--json")
    bare = validation if names[0] == "v.npz" else target
    assert result.stderr == (
        f"{bare} does not name its columns; taken in the order 'ant', 'bee', 'cow'.\n"
    )


@pytest.mark.parametrize("of_labels", ["labels.npy", "labels.csv", "labels.npz", "-"])
def test_arrays_with_labels_of_their_own(data, write, estimate, tmp_path, of_labels):
    validation, target = write("v.npy", data.y_proba_val), write("t.npy", data.y_proba)
    labels, options = tmp_path / of_labels, {}
    text = "label\n" + "\n".join(data.y_val)
    if of_labels == "-":
        labels, options = "-", {"input": text}
    elif of_labels == "labels.npz":
        np.savez(labels, y=data.y_val)
    elif of_labels == "labels.npy":
        np.save(labels, data.y_val)
    else:
        labels.write_text(text)
    assert estimate(validation, target, "--labels", labels, **options) == expected(data)


def test_numbered_labels_of_plain_arrays_come_in_numeric_order(write, estimate, rng):
    y = np.repeat(np.arange(12), 5)
    y_proba = np.full((60, 12), 0.01) + 0.88 * np.eye(12)[y]
    validation, target = write("v.npz", y_proba, y, classes=None), write("t.npy", y_proba[:30])
    priors = estimate(validation, target, "--method", "na")
    assert list(priors) == [str(k) for k in range(12)]
    labels = write("l.csv", y_proba, y.astype(str), classes=range(12))
    assert list(
        estimate(write("v.npy", y_proba), target, "--labels", labels, "--method", "na")
    ) == [str(k) for k in range(12)]


@pytest.mark.parametrize(
    ("labels", "suffix"),
    [([0, 1, 2, 1], "npz"), ([0.0, 1.0, 2.0, 1.0], "csv"), (["0", "1", "2", "1"], "parquet")],
)
def test_numbers_as_labels_match_a_numbered_header(write, estimate, labels, suffix):
    y_proba = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.3, 0.6, 0.1]])
    validation = write(f"v.{suffix}", y_proba, np.array(labels), classes=[0, 1, 2])
    shift = ps.SCML().fit(y_proba, [0, 1, 2, 1]).estimate(y_proba)
    assert estimate(validation, validation) == {
        str(k): prior for k, prior in enumerate(shift.priors.tolist())
    }


def test_the_index_that_pandas_writes_is_ignored(data, write, estimate):
    more = {"": range(300)}
    validation = write("v.csv", data.y_proba_val, data.y_val, **more)
    assert estimate(validation, write("t.csv", data.y_proba, **{"": range(200)})) == expected(data)


def test_a_numeric_column_of_both_files_that_is_no_class_is_left_out(data, write, ok, estimate):
    validation = write("v.csv", data.y_proba_val, data.y_val, id=range(5, 305))
    target = write("t.parquet", data.y_proba, id=range(200))
    result = ok("estimate", "--validation", validation, "--target", target, "--json")
    assert result.stderr == (
        "Not taken as classes: 'id'. Rows sum to 1 without them, and no label has their name.\n"
    )
    assert json.loads(result.stdout)["priors"] == expected(data)
    chosen = estimate(validation, target, "--class-columns", "cow, ant,bee")
    assert chosen == pytest.approx(expected(data), abs=1e-6)
    assert list(chosen) == ["cow", "ant", "bee"]


def test_a_numeric_column_beside_a_class_that_validation_lacks_needs_a_word(data, write, refuse):
    seen = data.y_val != "cow"
    more = {"id": range(np.count_nonzero(seen))}
    validation = write("v.csv", data.y_proba_val[seen], data.y_val[seen], **more)
    target = write("t.csv", data.y_proba, id=range(200))
    line = refuse(1, "estimate", "--validation", validation, "--target", target)
    assert "Taken as classes: 'id', 'ant', 'bee', 'cow'. Name them with --class-columns" in line


def test_a_label_column_by_name(data, write, estimate, refuse):
    validation = write("v.csv", data.y_proba_val, data.y_val, label_column="truth")
    target = write("t.csv", data.y_proba)
    assert estimate(validation, target, "--label-column", "truth") == expected(data)
    line = refuse(1, "estimate", "--validation", validation, "--target", target)
    assert line == (
        f"{validation} has no labels (column or key 'label'); name them with --label-column, or a "
        "file of them with --labels. Did you mean --label-column truth?"
    )


@pytest.mark.parametrize(
    ("of_validation", "of_target", "others"),
    [
        ("csv", "csv", ("ant", "bee", "dog")),
        ("npz", "csv", ("ant", "dog", "elk")),
        ("csv", "npz", ("x", "y", "z")),
        ("parquet", "arrow", ("Ant", "bee", "cow")),
    ],
)
def test_different_classes_are_an_error_that_shows_both(
    data, write, refuse, of_validation, of_target, others
):
    validation = write(f"v.{of_validation}", data.y_proba_val, data.y_val)
    target = write(f"t.{of_target}", data.y_proba, classes=others)
    line = refuse(1, "estimate", "--validation", validation, "--target", target)
    shown = ", ".join(map(repr, others))
    assert f"{validation} ('ant', 'bee', 'cow')" in line
    assert f"{target} ({shown})" in line
    assert "are not those of" in line


def test_other_columns_do_not_hide_a_bad_row(data, write, refuse):
    validation = write("v.csv", data.y_proba_val * 2, data.y_val)
    target = write("t.csv", data.y_proba, age=range(200))
    line = refuse(1, "estimate", "--validation", validation, "--target", target)
    assert line.startswith(f"line 2 of {validation} sums to 2, not 1")
    assert f"Numeric only in {target}: 'age'." in line


def test_labels_outside_the_classes(data, write, files, refuse):
    validation = write("v.csv", data.y_proba_val, ["yak", *data.y_val[1:]])
    line = refuse(1, "estimate", "--validation", validation, "--target", files[1])
    assert line.startswith(
        f"'label' in {validation} has labels that are not among the classes: 'yak'; the classes "
        "are 'ant', 'bee', 'cow'."
    )
    assert " 1 of 300 rows have them: correct these labels, or drop these rows." in line


def test_labels_missing_from_validation(data, write, files, refuse):
    validation = write("v.csv", data.y_proba_val, [*data.y_val[:-2], "", ""])
    line = refuse(1, "estimate", "--validation", validation, "--target", files[1])
    assert f"'label' in {validation} has no label in 2 of 300 rows, first in line 300" in line
    validation = write("v.parquet", data.y_proba_val, np.array([None, *data.y_val[1:]]))
    line = refuse(1, "estimate", "--validation", validation, "--target", files[1])
    assert "has no label in 1 of 300 rows, first in row 0" in line


NAMES = ("two words", "a,b", 'q"q', "x=y", "žluťoučký 🐎", "[bold]:cat:", "<b>")


def test_any_class_name_goes(write, ask, ok, rng):
    y = np.arange(70) % 7
    y_proba = 0.3 * rng.dirichlet(np.ones(7), 70) + 0.7 * np.eye(7)[y]
    names = np.array(NAMES)
    validation = write("v.csv", y_proba, names[y], classes=NAMES)
    target = write("t.parquet", y_proba[:, ::-1], classes=NAMES[::-1])
    named = ("--validation", validation, "--target", target)
    assert tuple(ask("estimate", *named)["priors"]) == NAMES
    shown = ok("estimate", *named).stdout
    assert all(name in shown for name in NAMES)
    pairs = 'two words=0.1,"a,b=0.1","q""q=0.1",x=y=0.1,žluťoučký 🐎=0.2,[bold]:cat:=0.2'
    known = ask("adapt", *named, "--known-priors", pairs, "--output", target.with_name("o.parquet"))
    assert known["priors"] == pytest.approx(
        dict(zip(NAMES, [0.1, 0.1, 0.1, 0.1, 0.2, 0.2, 0.2], strict=True))
    )
    columns = '"two words","a,b","q""q",x=y,žluťoučký 🐎,[bold]:cat:,<b>'
    assert tuple(ask("estimate", *named, "--class-columns", columns)["priors"]) == NAMES


def test_a_class_missing_from_validation_is_warned_of_once(data, write, ok):
    seen = data.y_val != "cow"
    validation = write("v.csv", data.y_proba_val[seen], data.y_val[seen])
    named = ("--validation", validation, "--target", write("t.csv", data.y_proba))
    result = ok("estimate", *named)
    assert result.stderr.count("Warning: validation has no sample of class 'cow'") == 1
    result = ok("compare", *named)
    warned = [line for line in result.stderr.splitlines() if line.startswith("Warning by cm, scm")]
    assert len(warned) == 1
    assert "validation has no sample of class 'cow'" in warned[0]


def test_one_column_of_predictions(write, refuse):
    path = write("v.csv", np.ones((2, 1)), ["a", "a"], classes=["a"])
    line = refuse(1, "estimate", "--validation", path, "--target", path)
    assert line.startswith(f"{path} has one column of predictions; give one column per class.")


@pytest.mark.parametrize("suffix", [*FORMATS, "npy"])
def test_nan_is_refused(data, write, files, refuse, suffix):
    y_proba = data.y_proba.copy()
    y_proba[7, 1] = np.nan
    target = write(f"t.{suffix}", y_proba)
    line = refuse(1, "estimate", "--validation", files[0], "--target", target)
    place = "line 9" if suffix == "csv" else "row 7"
    assert f"{target} has no prediction in 1 of 200 rows, first in {place}" in line


@pytest.mark.parametrize("columns", ["ant", "ant,ant,bee", ""])
def test_class_columns_must_be_classes(both, refuse, columns):
    line = refuse(2, "estimate", *both, "--class-columns", columns)
    assert "must name two classes or more, each once" in line


def test_class_columns_that_are_missing(both, files, refuse):
    line = refuse(1, "estimate", *both, "--class-columns", "ant,bee,dog")
    assert line == f"{files[0]} has no column 'dog'; it has 'label', 'ant', 'bee', 'cow'."


def test_plain_arrays_whose_labels_do_not_name_them(write, refuse, ask, tmp_path):
    y_proba = np.full((4, 3), 1 / 3)
    validation = write("v.npz", y_proba, ["a", "b", "a", "b"], classes=None)
    named = ("--validation", validation, "--target", validation)
    line = refuse(1, "estimate", *named)
    assert line == (
        f"y has 2 distinct labels but {validation} has 3 columns, so the columns cannot be named; "
        "pass --class-columns in their order."
    )
    answer = ask("estimate", *named, "--class-columns", "a,b,c", "--method", "na")
    assert answer["classes"] == ["a", "b", "c"]
    line = refuse(1, "estimate", *named, "--class-columns", "a,b")
    assert "2 classes are named ('a', 'b') but" in line


def test_labels_that_are_large_numbers_are_refused_without_a_warning(data, write, files, run):
    validation = write("v.csv", data.y_proba_val, [f"1e30{k % 3}" for k in range(300)])
    result = run("estimate", "--validation", validation, "--target", files[1])
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: 'label' in ")


def test_long_cells_beside_predictions(data, files, write, ok):
    target = write("t.csv", data.y_proba, note=["x" * 200_000] + [""] * 199)
    result = ok("adapt", "--validation", files[0], "--target", target)
    assert "x" * 200_000 in result.stdout
