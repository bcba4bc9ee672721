"""estimate --save-adapter, and adapt --adapter on files of every format."""

import json
from functools import partial

import numpy as np
import pytest

import priorshift as ps
from priorshift.files import open_predictions, sign, verify

pytestmark = pytest.mark.usefixtures("no_verdict")

assert_close = partial(np.testing.assert_allclose, rtol=0)
"""Numbers in CSV have twelve digits."""

FORMATS = ["csv", "parquet", "arrow", "feather", "npz", "npy"]


def read(path):
    return open_predictions(path).values(None)


@pytest.fixture
def adapter(ok, files, tmp_path):
    """Save an adapter; return its path."""
    path = tmp_path / "adapter.json"
    result = ok("estimate", "--validation", files[0], "--target", files[1], "--save-adapter", path)
    assert f"Wrote {path}" in result.stderr
    return path


@pytest.mark.parametrize(
    ("suffix", "method"), [*zip(FORMATS, ["scm-l", "auto", "em-bcts"] * 2, strict=True)]
)
def test_saved_and_applied_is_adapted_at_once(data, files, write, ok, suffix, method):
    target = write(f"t.{suffix}", data.y_proba)
    path, one, two = (target.with_name(name) for name in ("a.json", f"1.{suffix}", f"2.{suffix}"))
    named = ("--validation", files[0], "--target", target, "--method", method)
    ok("estimate", *named, "--save-adapter", path)
    ok("adapt", *named, "--output", one)
    ok("adapt", "--adapter", path, "--target", target, "--output", two)
    assert_close(read(two), read(one))
    assert_close(ps.Adapter.from_json(path)(data.y_proba), read(one))


def test_json_says_what_was_applied(data, files, ask, adapter, tmp_path):
    output = tmp_path / "o.csv"
    answer = ask("adapt", "--adapter", adapter, "--target", files[1], "--output", output)
    applied = ps.Adapter.from_json(adapter)
    assert answer["method"] == "scm-l"
    assert answer["verdict"] is None
    assert answer["priors"] == dict(zip(data.classes, applied.priors.tolist(), strict=True))
    assert answer["n_rows"] == 200


def test_other_columns_are_kept_and_columns_found_by_name(data, write, ok, tmp_path):
    adapter = ps.Adapter(data.classes, np.full(3, 1 / 3), [0.2, 0.3, 0.5])
    path = tmp_path / "a.json"
    adapter.to_json(path)
    target = write("t.csv", data.y_proba, age=range(200))
    output = tmp_path / "o.csv"
    ok("adapt", "--adapter", path, "--target", target, "--output", output)
    assert output.read_text().splitlines()[0] == target.read_text().splitlines()[0]
    assert_close(open_predictions(output).values(tuple(data.classes)), adapter(data.y_proba))


def test_columns_may_have_a_prefix(data, write, ok, tmp_path):
    adapter = ps.Adapter(data.classes, np.full(3, 1 / 3), [0.2, 0.3, 0.5])
    adapter.to_json(tmp_path / "a.json")
    columns = tuple(f"p_{name}" for name in data.classes)
    target, output = (
        write("t.csv", data.y_proba, classes=columns, age=range(200)),
        tmp_path / "o.csv",
    )
    ok("adapt", "--adapter", tmp_path / "a.json", "--target", target, "--output", output)
    assert output.read_text().splitlines()[0] == target.read_text().splitlines()[0]
    assert_close(open_predictions(output).values(columns), adapter(data.y_proba))


def test_one_column_of_the_positive_class(write, ok, tmp_path):
    adapter = ps.Adapter(["well", "ill"], [0.5, 0.5], [0.9, 0.1])
    adapter.to_json(tmp_path / "a.json")
    target, output = tmp_path / "t.csv", tmp_path / "o.csv"
    target.write_text("score\n0.25\n0.75\n")
    named = ("--adapter", tmp_path / "a.json", "--target", target, "--output", output)
    ok("adapt", *named, "--positive-class", "ill")
    header, *rows = output.read_text().split()
    assert header == "score"
    np.testing.assert_allclose(np.array(rows, float), adapter([0.25, 0.75]), atol=1e-15)


@pytest.mark.parametrize(
    "more",
    [
        ("--method", "em"),
        ("--validation", "FILE"),
        ("--known-priors", "ant=1,bee=1,cow=1"),
        ("--source-priors", "ant=1,bee=1,cow=1"),
        ("--goal", "log_loss"),
        ("--target-labels", "FILE"),
        ("--history-column", "month"),
    ],
)
def test_options_that_an_adapter_settles(files, refuse, adapter, more):
    more = [files[0] if word == "FILE" else word for word in more]
    line = refuse(2, "adapt", "--adapter", adapter, "--target", files[1], *more)
    assert line == f"--adapter says how to adapt; leave out {more[0]}."


def test_adapters_that_do_not_fit(files, write, data, refuse, adapter, tmp_path):
    other = write("t.csv", data.y_proba, classes=("ant", "bee", "dog"))
    line = refuse(1, "adapt", "--adapter", adapter, "--target", other)
    assert "has no numeric column for 'cow', a class of" in line
    two = write("t.npy", data.y_proba[:, :2] / data.y_proba[:, :2].sum(axis=1, keepdims=True))
    output = ("--output", tmp_path / "o.npy")
    assert "2 columns" in refuse(1, "adapt", "--adapter", adapter, "--target", two, *output)
    later = verify(json.loads(adapter.read_text())) | {"schema_version": 9}
    adapter.write_text(json.dumps(sign(later)))
    assert "found 9" in refuse(1, "adapt", "--adapter", adapter, "--target", files[1])
    adapter.write_text("{")
    assert "not JSON" in refuse(1, "adapt", "--adapter", adapter, "--target", files[1])
    missing = tmp_path / "none.json"
    assert "none.json" in refuse(2, "adapt", "--adapter", missing, "--target", files[1])


def test_an_adapter_is_written_to_json_only(files, refuse, tmp_path):
    named = ("--validation", files[0], "--target", files[1])
    line = refuse(2, "estimate", *named, "--save-adapter", tmp_path / "a.csv")
    assert "must end with .json" in line


def test_columns_of_the_target_may_be_named(data, write, ok, tmp_path):
    """One of two columns that may be probabilities."""
    path, target = tmp_path / "a.json", tmp_path / "t.csv"
    adapter = ps.Adapter(["no", "yes"], [0.5, 0.5], [0.9, 0.1])
    adapter.to_json(path)
    target.write_text("score,amount\n0.25,0.5\n0.75,0.1\n")
    named = ("--target", target, "--class-columns", "yes=score", "--output", tmp_path / "o.csv")
    ok("adapt", "--adapter", path, *named)
    rows = [line.split(",") for line in (tmp_path / "o.csv").read_text().splitlines()[1:]]
    assert_close(np.array(rows, float)[:, 0], adapter([0.25, 0.75]), atol=1e-12)
    assert [amount for _, amount in rows] == ["0.5", "0.1"]
