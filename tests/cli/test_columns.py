"""Headers as people have them: prefixes, one column, other separators, rounded numbers."""

import csv
import gzip
import json

import numpy as np
import pytest

import priorshift as ps

pytestmark = pytest.mark.usefixtures("no_verdict")

FORMATS = ["csv", "parquet", "arrow"]


@pytest.fixture
def named(write):
    """Write validation and target with columns of these names; return the options."""

    def files(data, columns, suffix="csv", labels=None, **more):
        labels = data.y_val if labels is None else labels
        validation = write(f"v.{suffix}", data.y_proba_val, labels, classes=columns, **more)
        return (
            "--validation",
            validation,
            "--target",
            write(f"t.{suffix}", data.y_proba, classes=columns),
        )

    return files


@pytest.fixture
def binary(data):
    """Predictions of two classes."""
    keep = data.y_val != "cow"
    y = (data.y_val[keep] == "bee").astype(int)
    share = data.y_proba_val[keep][:, 1] / data.y_proba_val[keep][:, :2].sum(axis=1)
    target = data.y_proba[:, 1] / data.y_proba[:, :2].sum(axis=1)
    return share, y, target


def expected(data):
    shift = ps.SCML().fit(data.y_proba_val, data.y_val, classes=data.classes)
    return shift.estimate(data.y_proba).to_dict()["priors"]


@pytest.mark.parametrize(
    ("form", "suffix"),
    [*zip(["p_{}", "{}_prob", "score.{}", "P({})"], [*FORMATS, "csv"], strict=True)],
)
def test_a_common_prefix_or_suffix_is_no_part_of_the_class(data, named, ask, form, suffix):
    files = named(data, [form.format(name) for name in data.classes], suffix)
    assert ask("estimate", *files)["priors"] == expected(data)


@pytest.mark.parametrize(("form", "kind"), [("p_{}", int), ("prob{}", float), ("{}", str)])
def test_numbered_classes(data, named, ask, form, kind):
    y = np.searchsorted(data.classes, data.y_val).astype(kind)
    files = named(data, [form.format(k) for k in range(3)], labels=y)
    answer = ask("estimate", *files)["priors"]
    assert list(answer) == ["0", "1", "2"]
    assert list(answer.values()) == list(expected(data).values())


def test_two_sets_of_columns_are_not_guessed_from(data, write, refuse, ask):
    both = np.hstack([data.y_proba_val, data.y_proba_val])
    columns = [f"{kind}_{name}" for kind in ("raw", "cal") for name in data.classes]
    validation = write("v.csv", both, data.y_val, classes=columns)
    target = write("t.csv", np.hstack([data.y_proba, data.y_proba]), classes=columns)
    files = ("--validation", validation, "--target", target)
    line = refuse(1, "estimate", *files)
    assert "several sets of columns match the classes 'ant', 'bee', 'cow'" in line
    assert "Use --class-columns." in line
    chosen = "ant=cal_ant,bee=cal_bee,cow=cal_cow"
    assert ask("estimate", *files, "--class-columns", chosen)["priors"] == expected(data)


def test_columns_by_class_in_any_order(data, named, ask, ok, tmp_path):
    files = named(data, ["x1", "x2", "x3"], id=range(300))
    chosen = ("--class-columns", "cow=x3, ant=x1,bee=x2")
    answer = ask("estimate", *files, *chosen)["priors"]
    assert answer == pytest.approx(expected(data))
    assert list(answer) == ["cow", "ant", "bee"]
    output = tmp_path / "o.csv"
    ok("adapt", *files, *chosen, "--output", output)
    shift = ps.SCML().fit(data.y_proba_val, data.y_val).estimate(data.y_proba)
    with output.open(newline="") as stream:
        header, *rows = csv.reader(stream)
    assert header == ["x1", "x2", "x3"]
    np.testing.assert_allclose(np.array(rows, dtype=float), shift.adapt(data.y_proba), atol=1e-9)


@pytest.mark.parametrize(
    ("columns", "code", "message"),
    [
        ("ant=x1,bee=x1,cow=x3", 2, "must name every class and every column once"),
        ("ant=x1,bee=x2,cow=x9", 1, "has no column 'x9'"),
        ("x1", 2, "For one column of binary probabilities write CLASS=COLUMN"),
    ],
)
def test_wrong_columns_by_class(data, named, refuse, columns, code, message):
    files = named(data, ["x1", "x2", "x3"])
    assert message in refuse(code, "estimate", *files, "--class-columns", columns)


@pytest.mark.parametrize(
    ("suffix", "labels", "options", "said"),
    [
        ("csv", ("0", "1"), (), "is taken as the probability of class '1'"),
        ("npz", ("no", "yes"), ("--positive-class", "yes"), ""),
        ("arrow", ("no", "yes"), ("--class-columns", "yes=proba"), ""),
        ("parquet", ("no", "yes"), ("--positive-class", "yes"), ""),
    ],
)
def test_one_column_of_binary_probabilities(
    binary, write, ok, labels, options, said, suffix, tmp_path
):
    p_val, y, p = binary
    text = np.array(labels)[y]
    if suffix == "npz":
        validation, target = tmp_path / "v.npz", tmp_path / "t.npz"
        np.savez(validation, y_proba=p_val, y=text)
        np.savez(target, y_proba=p)
    else:
        validation = write(f"v.{suffix}", p_val[:, None], text, classes=["proba"])
        target = write(f"t.{suffix}", p[:, None], classes=["proba"], id=range(p.size))
    files = ("--validation", validation, "--target", target, *options)
    result = ok("estimate", *files, "--json")
    shift = ps.SCML().fit(p_val, y).estimate(p)
    assert json.loads(result.stdout)["priors"] == pytest.approx(
        dict(zip(labels, shift.priors.tolist(), strict=True))
    )
    assert said in result.stderr
    output = tmp_path / f"o.{suffix}"
    ok("adapt", *files, "--output", output)
    new = ps.files.open_predictions(output).values(None if suffix == "npz" else ["proba"])
    np.testing.assert_allclose(new[:, 0], shift.adapt(p), atol=1e-9)


def test_one_column_that_nothing_explains(binary, write, refuse):
    p_val, y, p = binary
    validation = write("v.csv", p_val[:, None], np.array(["a", "b"])[y], classes=["proba"])
    files = ("--validation", validation, "--target", write("t.csv", p[:, None], classes=["proba"]))
    line = refuse(1, "estimate", *files)
    assert "nothing says of which class" in line
    assert line.endswith("--positive-class a or b.")
    line = refuse(1, "estimate", *files, "--positive-class", "B")
    assert line == "--positive-class B is none of the labels, which are 'a', 'b'."
    many = write(
        "w.csv", p_val[:, None], np.array(["a", "b", "c"])[np.arange(y.size) % 3], classes=["proba"]
    )
    line = refuse(1, "estimate", "--validation", many, *files[2:], "--positive-class", "a")
    assert "needs two classes, but the labels are 'a', 'b', 'c'" in line
    wide = write(
        "x.csv", np.column_stack([p_val, p_val]), np.array(["a", "b"])[y], classes=["p", "q"]
    )
    target = write("y.csv", np.column_stack([p, p]), classes=["p", "q"])
    files = ("--validation", wide, "--target", target)
    line = refuse(1, "estimate", *files, "--positive-class", "b")
    assert "2 columns that may hold the probability ('p', 'q')" in line
    assert refuse(2, "estimate", *files, "--positive-class", "b", "--class-columns", "p,q")


def test_known_priors_need_no_validation(binary, write, ok, tmp_path):
    target = write("t.csv", binary[2][:, None], classes=["proba"])
    known = ("--source-priors", "1=0.5", "--known-priors", "1=0.02")
    result = ok("adapt", "--target", target, "--positive-class", "1", *known)
    rows = np.array(result.stdout.split()[1:], dtype=float)
    np.testing.assert_allclose(rows, ps.adapt_proba(binary[2], 0.5, 0.02), atol=1e-12)


@pytest.mark.parametrize("column", ["Y_true", "class"])
def test_a_column_of_labels_is_suggested(data, write, refuse, column):
    validation = write("v.csv", data.y_proba_val, data.y_val, label_column=column)
    line = refuse(1, "estimate", "--validation", validation, "--target", validation)
    assert line.endswith(f"Did you mean --label-column {column}?")


def as_text(data, mark, decimal):
    """Return validation and target as spreadsheets save them."""

    def lines(header, rows):
        cells = [header, *rows]
        return "".join(mark.join(map(str, line)) + "\r\n" for line in cells)

    def numbers(row):
        return [repr(float(value)).replace(".", decimal) for value in row]

    val = [[y, *numbers(row)] for y, row in zip(data.y_val, data.y_proba_val, strict=True)]
    target = [[i, *numbers(row)] for i, row in enumerate(data.y_proba)]
    return (
        lines(["label", *data.classes], val),
        lines(["Unnamed: 0", *data.classes], target),
    )


@pytest.mark.parametrize(
    ("mark", "name", "decimal"), [(";", "semicolons", ","), ("\t", "tabs", ".")]
)
def test_separators_are_said(data, ok, tmp_path, mark, name, decimal):
    for path, text in zip(("v.csv", "t.csv"), as_text(data, mark, decimal), strict=True):
        (tmp_path / path).write_text(text, newline="")
    files = ("--validation", tmp_path / "v.csv", "--target", tmp_path / "t.csv")
    result = ok("estimate", *files, "--json")
    assert json.loads(result.stdout)["priors"] == expected(data)
    assert f"t.csv is read with {name} between its cells" in result.stderr
    assert ("decimals have a comma" in result.stderr) == (decimal == ",")
    output = tmp_path / "o.csv"
    ok("adapt", *files, "--output", output)
    text = output.read_bytes().decode()
    assert text.startswith(mark.join(["Unnamed: 0", *data.classes]) + "\r\n")
    assert decimal in text.splitlines()[1]


def test_compressed_text(data, files, write, ask, ok, tmp_path, refuse):
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(files[1].read_bytes()))
    named = ("--validation", files[0], "--target", packed)
    assert ask("estimate", *named)["priors"] == expected(data)
    ok("adapt", *named, "--output", tmp_path / "o.csv.gz")
    ok("adapt", "--validation", files[0], "--target", files[1], "--output", tmp_path / "o.csv")
    text = gzip.decompress((tmp_path / "o.csv.gz").read_bytes())
    assert text == (tmp_path / "o.csv").read_bytes()
    assert "must end with .csv.gz" in refuse(2, "adapt", *named, "--output", tmp_path / "o.csv")
    assert ".csv.gz is not text" in refuse(2, "adapt", *named)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npy"])
def test_rounded_probabilities(data, write, refuse, ask, suffix):
    rounded = data.y_proba.round(2)
    assert np.abs(rounded.sum(axis=1) - 1).max() > 5e-3
    validation, target = write("v.csv", data.y_proba_val, data.y_val), write(f"t.{suffix}", rounded)
    files = ("--validation", validation, "--target", target)
    assert "if they were rounded, add --renormalise." in refuse(1, "estimate", *files)
    answer = ask("estimate", *files, "--renormalise")["priors"]
    again = rounded / rounded.sum(axis=1, keepdims=True)
    shift = ps.SCML().fit(data.y_proba_val, data.y_val).estimate(again)
    assert list(answer.values()) == pytest.approx(shift.priors.tolist(), abs=1e-6)


@pytest.mark.parametrize("command", ["assess", "test", "compare", "groups", "monitor", "adapt"])
def test_every_command_reads_such_files(data, write, ok, command, tmp_path):
    columns = [f"p_{name}" for name in data.classes]
    more = {"site": ["north", "south"] * 150, "week": [1, 2, 3] * 100}
    validation = write("v.csv", data.y_proba_val.round(2), data.y_val, classes=columns, **more)
    more = {"site": ["north", "south"] * 100, "week": [1, 2, 3, 4] * 50}
    target = write("t.csv", data.y_proba.round(2), classes=columns, **more)
    options = {
        "compare": ("--method", "scm-l"),
        "groups": ("--group-column", "week"),
        "monitor": ("--time-column", "week"),
        "test": ("--resamples", "99"),
    }
    files = ("--validation", validation, "--target", target, "--renormalise")
    result = ok(command, *files, *options.get(command, ()))
    assert "p_ant" not in result.stdout.replace(",".join(columns), "")


def test_priors_name_the_classes_where_there_are_no_labels(data, write, ask):
    columns = [f"p_{name}" for name in data.classes]
    target = write("t.csv", data.y_proba, classes=columns)
    priors = "ant=0.5,bee=0.3,cow=0.2"
    answer = ask("estimate", "--target", target, "--source-priors", priors, "--method", "em")
    em = ps.EM().fit(source_priors=[0.5, 0.3, 0.2], classes=data.classes).estimate(data.y_proba)
    assert answer["priors"] == pytest.approx(em.to_dict()["priors"])


@pytest.mark.parametrize("form", ["prob_{}", "{}"])
def test_a_misspelt_column_of_the_target_is_named(data, write, refuse, run, form):
    columns = [form.format(name) for name in ("horse", "zebra", "yak")]
    y = np.array(["horse", "zebra", "yak"])[np.searchsorted(data.classes, data.y_val)]
    validation = write("v.csv", data.y_proba_val, y, classes=columns)
    wrong = [form.format("hores"), *columns[1:]]
    target = write("t.csv", data.y_proba, classes=wrong)
    hint = f"There is no column {columns[0]!r}. Did you mean {wrong[0]!r}?"
    assert hint in refuse(1, "assess", "--validation", validation, "--target", target)
    checked = run("check", validation, target)
    assert hint in checked.stdout + checked.stderr


def test_either_class_may_be_the_positive_one(binary, write, refuse):
    y_val, p_val, p = binary[1], binary[0], binary[2]
    validation = write(
        "v.csv", p_val[:, None], np.array(["legit", "fraud"])[y_val], classes=["score"]
    )
    target = write("t.csv", p[:, None], classes=["score"])
    assert refuse(1, "assess", validation, target).endswith("--positive-class fraud or legit.")


def test_costs_are_of_classes_that_priors_name(binary, write, ok, refuse):
    target = write("t.csv", binary[2][:, None], classes=["score"])
    known = (
        "--positive-class",
        "fraud",
        "--source-priors",
        "fraud=.5,legit=.5",
        "--known-priors",
        "fraud=.1",
    )
    decided = ok("adapt", target, *known, "--costs", "fraud:legit=20", "--decision-column", "d")
    assert {line.rpartition(",")[2] for line in decided.stdout.splitlines()[1:]} == {
        "fraud",
        "legit",
    }
    said = refuse(1, "adapt", target, *known, "--costs", "fraud:ok=20")
    assert said.endswith("use these names, or give others: --class-columns.")
