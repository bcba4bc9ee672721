"""priorshift adapt writes what the library computes, in the target's format, in one piece."""

import csv
import io
import json
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import priorshift as ps
from priorshift.files import _base, open_predictions

pytestmark = pytest.mark.usefixtures("no_verdict")

assert_close = partial(np.testing.assert_allclose, rtol=0)
"""Numbers in CSV have twelve digits."""

FORMATS = ["csv", "parquet", "arrow", "feather", "npz", "npy"]
KNOWN = {"ant": 0.2, "bee": 0.3, "cow": 0.5}
KNOWN_TEXT = "ant=0.2,bee=0.3,cow=0.5"


def estimated(data, method="scm-l"):
    est = ps.get_estimator(method).fit(data.y_proba_val, data.y_val, classes=data.classes)
    return est.estimate(data.y_proba)


def read(path):
    return open_predictions(path).values(None)


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("method", ["scm-l", "em"])
def test_the_output_is_what_the_library_computes(data, files, write, ask, suffix, method):
    target = write(f"t.{suffix}", data.y_proba)
    output = target.with_name(f"o.{suffix}")
    named = ("--validation", files[0], "--target", target, "--output", output)
    answer = ask("adapt", *named, "--method", method)
    shift = estimated(data, method)
    adapted = shift.adapt(data.y_proba)
    assert_close(read(output), adapted)
    assert answer["priors"] == shift.to_dict()["priors"]
    assert (answer["output"], answer["n_rows"]) == (str(output), 200)
    changed = adapted.argmax(axis=1) != data.y_proba.argmax(axis=1)
    assert answer["n_changed"] == changed.sum() > 0


@pytest.mark.parametrize("suffix", FORMATS)
def test_known_priors(data, files, write, ok, suffix):
    target = write(f"t.{suffix}", data.y_proba)
    output = target.with_name(f"o.{suffix}")
    named = ("--target", target, "--output", output, "--known-priors", KNOWN_TEXT)
    ok("adapt", *named, "--source-priors", "ant=1,bee=1,cow=1", "--class-columns", "ant,bee,cow")
    expected = ps.adapt_proba(data.y_proba, np.full(3, 1 / 3), list(KNOWN.values()))
    assert_close(read(output), expected)
    ok("adapt", *named, "--validation", files[0])  # then its mean prediction is the source
    source = ps.priors_from_predictions(data.y_proba_val)
    expected = ps.adapt_proba(data.y_proba, source, list(KNOWN.values()))
    assert_close(read(output), expected)


@pytest.mark.parametrize("suffix", [*FORMATS, "npz key"])
def test_logits_are_adapted_as_probabilities(data, write, ok, suffix):
    logits_val, logits = np.log(data.y_proba_val) + 3, np.log(data.y_proba) - 2
    validation = write("v.csv", logits_val, data.y_val)
    flags = ["--logits"]
    if suffix == "npz key":
        target = validation.with_name("t.npz")
        np.savez(target, logits=logits, classes=data.classes)
        validation, flags = validation.with_name("v.npz"), []
        np.savez(validation, logits=logits_val, y=data.y_val, classes=data.classes)
    else:
        target = write(f"t.{suffix}", logits)
    output = target.with_name(f"o{target.suffix}")
    ok("adapt", "--validation", validation, "--target", target, "--output", output, *flags)
    expected = estimated(data).adapt(data.y_proba)
    np.testing.assert_allclose(read(output), expected, atol=1e-9)
    np.testing.assert_allclose(read(output).sum(axis=1), 1)


@pytest.mark.parametrize("suffix", FORMATS)
def test_in_place(data, files, write, ok, refuse, suffix):
    target = write(f"t.{suffix}", data.y_proba)
    before, contents = set(target.parent.iterdir()), target.read_bytes()
    named = ("--validation", files[0], "--target", target, "--output", target)
    line = refuse(2, "adapt", *named)
    assert "is the target file itself, whose contents would be lost" in line
    assert "--overwrite" in line
    assert target.read_bytes() == contents
    ok("adapt", *named, "--overwrite")
    assert_close(read(target), estimated(data).adapt(data.y_proba))
    assert set(target.parent.iterdir()) == before


@pytest.mark.parametrize("suffix", FORMATS)
def test_blocks_together_equal_the_whole(data, files, write, ask, monkeypatch, suffix):
    monkeypatch.setattr(_base, "BLOCK_ROWS", 64)
    target = write(f"t.{suffix}", data.y_proba)
    output = target.with_name(f"o.{suffix}")
    answer = ask("adapt", "--validation", files[0], "--target", target, "--output", output)
    assert_close(read(output), estimated(data).adapt(data.y_proba))
    assert answer["n_rows"] == 200


def test_columns_in_another_order_stay_there(data, files, write, ok):
    order = [2, 0, 1]
    expected = estimated(data).adapt(data.y_proba)[:, order]
    for suffix in ("csv", "npz", "parquet"):
        target = write(f"t.{suffix}", data.y_proba[:, order], classes=data.classes[order])
        named = ("--validation", files[0], "--target", target, "--output", target)
        ok("adapt", *named, "--overwrite")
        assert_close(read(target), expected)
        assert open_predictions(target).names == ("cow", "ant", "bee")


def test_other_columns_are_kept(data, files, write, ok, tmp_path):
    ids = [f"{k:03d}" for k in range(200)]
    notes = ['says "hi", ok', "é\nline"] * 100
    target = write("t.csv", data.y_proba, data.y, id=ids, note=notes)
    output = tmp_path / "o.csv"
    ok("adapt", "--validation", files[0], "--target", target, "--output", output)
    with output.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["id"] for row in rows] == ids
    assert [row["note"] for row in rows] == notes
    assert [row["label"] for row in rows] == data.y.tolist()


def test_float32_parquet_stays_float32(data, files, ok, tmp_path):
    columns = dict(zip(data.classes, data.y_proba.astype(np.float32).T, strict=True))
    pq.write_table(pa.table({**columns, "n": range(200)}), tmp_path / "t.parquet")
    target = ("--target", tmp_path / "t.parquet", "--output", tmp_path / "o.parquet")
    ok("adapt", "--validation", files[0], *target)
    new = pq.read_table(tmp_path / "o.parquet")
    assert [str(kind) for kind in new.schema.types] == ["float"] * 3 + ["int64"]
    expected = estimated(data).adapt(data.y_proba)
    columns = [new.column(name).to_numpy() for name in data.classes]
    np.testing.assert_allclose(np.column_stack(columns), expected, atol=1e-5)


# Where it goes


@pytest.mark.usefixtures("verdict")
@pytest.mark.parametrize("more", [(), ("--output", "-")])
def test_csv_goes_to_stdout(data, both, ok, more):
    result = ok("adapt", *both, *more)
    rows = list(csv.reader(io.StringIO(result.stdout)))
    assert rows[0] == data.classes.tolist()
    expected = estimated(data).adapt(data.y_proba)
    assert_close(np.array(rows[1:], dtype=float), expected)
    changed = (expected.argmax(axis=1) != data.y_proba.argmax(axis=1)).sum()
    first, verdict = result.stderr.splitlines()
    assert first == f"{changed} of 200 decisions changed."
    assert verdict.startswith(("Adapt", "Leave", "Unclear"))


def test_files_are_told_on_stderr_and_documents_on_stdout(both, ok, tmp_path):
    result = ok("adapt", *both, "--output", tmp_path / "o.csv")
    assert result.stdout == ""
    assert result.stderr.startswith(f"Wrote {tmp_path / 'o.csv'}: ")
    result = ok("adapt", *both, "--output", tmp_path / "o.csv", "--json")
    assert json.loads(result.stdout)["command"] == "adapt"
    assert result.stderr.startswith("Wrote ")


@pytest.mark.parametrize("name", ["validation", "target"])
def test_stdin(data, files, ok, name):
    given = {"validation": files[0], "target": files[1]}
    text = given[name].read_bytes()
    given[name] = "-"
    named = [word for option, path in given.items() for word in (f"--{option}", path)]
    result = ok("adapt", *named, input=text)
    rows = list(csv.reader(io.StringIO(result.stdout)))[1:]
    expected = estimated(data).adapt(data.y_proba)
    assert_close(np.array(rows, dtype=float), expected)


def test_a_header_alone_can_be_adapted_to_known_priors(files, ok, tmp_path):
    (tmp_path / "t.csv").write_text("id,ant,bee,cow\n")
    known = ("--known-priors", KNOWN_TEXT, "--class-columns", "ant,bee,cow")
    result = ok("adapt", "--validation", files[0], "--target", tmp_path / "t.csv", *known)
    assert result.stdout == "id,ant,bee,cow\n"
    assert result.stderr == "0 of 0 decisions changed.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--json",), "name a file with --output: --json takes stdout."),
        (("--output", "o.parquet"), "o.parquet must end with .csv, as the target does."),
        (("--output", "nowhere/o.csv"), "Invalid value for '--output': there is no folder nowhere"),
    ],
)
def test_wrong_outputs_are_bad_usage(both, refuse, arguments, message):
    assert message in refuse(2, "adapt", *both, *arguments)


def test_tables_that_are_no_text_need_a_file(data, files, write, refuse):
    target = write("t.parquet", data.y_proba)
    line = refuse(2, "adapt", "--validation", files[0], "--target", target)
    assert line == "name a file with --output: .parquet is not text."


def test_failure_leaves_the_old_file(data, files, write, refuse, tmp_path, monkeypatch):
    monkeypatch.setattr(_base, "BLOCK_ROWS", 50)
    y_proba = data.y_proba.copy()
    y_proba[120] = [0.5, 0.5, 0.5]
    target = write("t.csv", y_proba)
    output = tmp_path / "o.csv"
    output.write_text("old")
    before = set(tmp_path.iterdir())
    known = ("--known-priors", KNOWN_TEXT)
    named = ("--validation", files[0], "--target", target, "--output", output)
    line = refuse(1, "adapt", *named, *known)
    assert line.startswith(f"{target}: row 20 of y_proba sums to 1.5, not 1")
    assert line.endswith("(Row 0 of this block is row 100 of the file.)")
    assert output.read_text() == "old"
    assert set(tmp_path.iterdir()) == before


def test_a_link_to_the_target_is_the_target(files, refuse, tmp_path):
    (tmp_path / "link.csv").symlink_to(files[1])
    named = ("--validation", files[0], "--target", files[1])
    line = refuse(2, "adapt", *named, "--output", tmp_path / "link.csv")
    assert "is the target file itself" in line
    assert "is the validation file itself" in refuse(2, "adapt", *named, "--output", files[0])


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "feather", "npz"])
def test_adapted_files_are_marked_and_warned_of(data, files, write, ok, suffix, tmp_path):
    target, output = write(f"t.{suffix}", data.y_proba), tmp_path / f"o.{suffix}"
    first = ok("adapt", "--validation", files[0], "--target", target, "--output", output)
    assert "adapted already" not in first.stderr
    assert open_predictions(output).adapted == ps.__version__
    for command in ("estimate", "test"):
        again = ok(command, "--validation", files[0], "--target", output)
        assert f"Warning: {output} was adapted already" in again.stderr
    twice = tmp_path / f"p.{suffix}"
    ok("adapt", "--validation", files[0], "--target", output, "--output", twice)
    assert open_predictions(twice).adapted == ps.__version__


@pytest.mark.usefixtures("verdict")
@pytest.mark.parametrize("command", ["assess", "estimate", "adapt", "groups"])
def test_every_command_warns_of_source_priors_that_validation_contradicts(
    data, write, ok, command, tmp_path
):
    files = (
        write("v.csv", data.y_proba_val, data.y_val),
        write("t.csv", data.y_proba, part=["a", "b"] * 100),
    )
    more = {"groups": ["--group-column", "part"], "adapt": ["--output", tmp_path / "o.csv"]}
    named = ("--validation", files[0], "--target", files[1], *more.get(command, []))
    wrong = ok(command, *named, "--source-priors", "ant=0.02,bee=0.02,cow=0.96").stderr
    assert wrong.count("from --source-priors, so validation was not drawn as the training set") == 1
    assert "not drawn as the training set" not in ok(command, *named).stderr


@pytest.mark.usefixtures("verdict")
def test_rows_that_stay_as_they_were_are_said_to(files, ok, tmp_path):
    output = tmp_path / "copied.csv"
    result = ok("adapt", files[0], files[0], "--output", output, "--method", "auto")
    n = len(files[0].read_text().splitlines()) - 1
    assert f"Wrote {output}: all {n} rows are as they were." in result.stderr


@pytest.mark.usefixtures("verdict")
def test_a_method_that_does_not_follow_the_verdict_says_so(files, ok, tmp_path):
    named = ("adapt", files[0], files[0], "--output", tmp_path / "o.csv")
    said = "Predictions are adapted all the same, as you named em; auto follows the verdict."
    assert said in ok(*named, "--method", "em").stderr
    assert "all the same" not in ok(*named, "--method", "auto", "--overwrite").stderr


def test_known_priors_of_a_class_that_validation_never_predicts_are_written(run, tmp_path):
    """What would be said of the threshold must not fail once the file is written."""
    val, target, output = (tmp_path / name for name in ("val.csv", "target.csv", "out.csv"))
    val.write_text("label,no,yes\nno,0,1\nyes,0,1\n", encoding="utf-8")
    target.write_text("no,yes\n0,1\n0,1\n", encoding="utf-8")
    files = ["--validation", str(val), "--target", str(target), "--output", str(output)]
    found = run("adapt", *files, "--known-priors", "no=0.4,yes=0.6")
    assert found.exit_code == 0, found.output
    assert output.exists()
