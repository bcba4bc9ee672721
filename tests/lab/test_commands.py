"""python -m lab benchmark: experiments by name, files into a folder, refusals in one sentence."""

import csv
from functools import partial

import numpy as np
import pytest

from lab.paper.trials import target_priors

K = 3


@pytest.fixture
def invoke(run):
    """Run the command; stdout and stderr are kept apart."""
    return partial(run, "benchmark")


@pytest.fixture
def outputs(tmp_path, rng):
    """An npz of a long-tailed classifier's outputs."""
    trained = np.array([0.7, 0.2, 0.1])
    arrays = {}
    for part, n, priors in (("train", 400, trained), ("val", 200, trained), ("test", 300, None)):
        y = rng.choice(K, n, p=priors)
        arrays[f"{part}_y"] = y
        arrays[f"{part}_logits"] = 3.0 * np.eye(K)[y] + rng.normal(size=(n, K)) + np.log(trained)
    path = tmp_path / "net.npz"
    np.savez(path, **arrays)
    return path


def test_a_table_is_printed_and_written(invoke, outputs, tmp_path):
    folder = tmp_path / "results"
    found = invoke("table4", "--data", outputs, "--quick", "--output", folder)
    assert found.exit_code == 0, found.stderr
    assert (folder / "table4.md").read_text(encoding="utf-8") == found.stdout
    assert "| net -> UNI | no | certified |" in found.stdout
    assert found.stderr == f"written into {folder}\n"
    with (folder / "table4.csv").open(encoding="utf-8") as file:
        records = list(csv.DictReader(file))
    assert {record["method"] for record in records} == {
        *("na", "scm-l", "rlls", "bbse", "bbse-s", "oracle")
    }
    assert {record["seed"] for record in records} == {"0", "1"}


def test_a_further_method_is_a_column(invoke, outputs, tmp_path):
    found = invoke(
        "table4", "--data", outputs, "--quick", "--method", "elsa", "--output", tmp_path / "new"
    )
    assert found.exit_code == 0, found.stderr
    header = found.stdout.splitlines()[2]
    assert header.endswith("| BBSE-S | ELSA | Oracle |")


def test_targets_and_classifiers_may_be_several(invoke, outputs, tmp_path):
    other = tmp_path / "other.npz"
    other.write_bytes(outputs.read_bytes())
    found = invoke(
        *("inconsistent", "--data", outputs, other, "--quick"),
        *("--target-distribution", "UNI", "--target-distribution", "D5"),
        *("--output", tmp_path / "new"),
    )
    assert found.exit_code == 0, found.stderr
    for source in ("net", "other"):
        for target in ("UNI", "D5"):
            assert f"| {source} -> {target} | no |" in found.stdout


def test_target_priors_from_files(invoke, outputs, tmp_path):
    """A CSV in any order, and a list of images that is counted."""
    priors, images = tmp_path / "mine.csv", tmp_path / "Tail_train.txt"
    priors.write_text("class,prior\n2,1\n0,6\n1,3\n")
    images.write_text("".join(f"{k}.jpg {k}\n" * n for k, n in enumerate((6, 3, 1))))
    found = invoke(
        *("table1", "--data", outputs, "--quick", "--output", tmp_path / "new"),
        *("--target-priors", priors, "--target-priors", images),
    )
    assert found.exit_code == 0, found.stderr
    rows = {
        name: [line.split("|")[2:] for line in found.stdout.splitlines() if f"-> {name} " in line]
        for name in ("mine", "Tail_train")
    }
    assert len(rows["mine"]) == 4
    assert rows["mine"] == rows["Tail_train"]  # the same priors, the same seeds


def test_classes_that_a_list_lacks_are_absent_from_the_target(outputs, tmp_path):
    (tmp_path / "test.txt").write_text("a.jpg 2\nb.jpg 0\nc.jpg 2\n")
    np.testing.assert_allclose(target_priors(tmp_path / "test.txt", 3), [1 / 3, 0, 2 / 3])
    with pytest.raises(ValueError, match="from 0 to 1 once, as the outputs have 2 columns"):
        target_priors(tmp_path / "test.txt", 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class,prior\n0,1\n1,1\n", "each class from 0 to 2 once, as the outputs have 3 columns"),
        ("class,prior\n0,1\n1,1\n1,1\n", "each class from 0 to 2 once"),
        ("class,share\n0,1\n1,1\n2,1\n", "should have the columns class and prior"),
        ("class,prior\n0,1\na,1\n2,1\n", "should have the columns class and prior, of numbers"),
        ("class,prior\n0,1\n1,-1\n2,1\n", "should be finite, not negative"),
        ("class,prior\n0,nan\n1,1\n2,1\n", "should be finite, not negative"),
    ],
)
def test_bad_target_priors(invoke, outputs, tmp_path, text, message):
    (tmp_path / "bad.csv").write_text(text)
    found = invoke(
        *("table2", "--data", outputs, "--output", tmp_path / "new"),
        *("--target-priors", tmp_path / "bad.csv"),
    )
    assert found.exit_code == 1
    assert message in found.stderr
    assert not (tmp_path / "new").exists()


def test_some_experiments_need_no_data(invoke, tmp_path):
    found = invoke("inconsistent", "--quick", "--output", tmp_path / "new")
    assert found.exit_code == 0, found.stderr
    assert found.stdout.startswith("# ")
    assert (tmp_path / "new" / "inconsistent.md").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("table1",), "needs --data"),
        (("table9",), "invalid choice: 'table9'"),
        (("table1", "--data", "absent.npz"), "'absent.npz' does not exist"),
        (("gaussian", "--target-distribution", "D9"), "invalid choice: 'D9'"),
        (("gaussian", "--method", "scml"), "invalid choice: 'scml'"),
    ],
)
def test_bad_usage_ends_with_2(invoke, arguments, message):
    found = invoke(*arguments)
    assert found.exit_code == 2
    assert message in found.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train_y": None}, "lacks train_y"),
        ({"val_logits": np.zeros((200, K + 1))}, "differ in their number of classes"),
        ({"test_logits": np.full((300, K), np.nan)}, "test_logits"),
    ],
)
def test_bad_data_end_with_1_before_anything_is_written(invoke, outputs, tmp_path, change, message):
    with np.load(outputs) as file:
        arrays = {**file, **change}
    bad = tmp_path / "bad.npz"
    np.savez(bad, **{name: array for name, array in arrays.items() if array is not None})
    found = invoke("table1", "--data", bad, "--output", tmp_path / "new")
    assert found.exit_code == 1
    assert found.stderr.startswith("Error: ")
    assert message in found.stderr
    assert not (tmp_path / "new").exists()
