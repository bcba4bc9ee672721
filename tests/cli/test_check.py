"""What `priorshift check` says is what the other commands do."""

import json

import numpy as np
import pytest


@pytest.fixture
def named(data, write):
    columns = [f"p_{name}" for name in data.classes]
    return (
        write("v.csv", data.y_proba_val, data.y_val, classes=columns, site=["n"] * 300),
        write("t.parquet", data.y_proba, classes=columns, **{"Unnamed: 0": range(200)}),
    )


def test_files_that_are_fine(data, named, ok, ask):
    answer = ask("check", *named)
    validation, target = answer["files"]
    assert validation["classes"] == target["classes"] == data.classes.tolist()
    assert validation["columns"] == {name: f"p_{name}" for name in data.classes}
    assert (validation["n_rows"], target["n_rows"]) == (300, 200)
    assert (validation["label_column"], target["label_column"]) == ("label", None)
    counts = np.unique(data.y_val, return_counts=True)
    assert validation["label_counts"] == dict(zip(*(part.tolist() for part in counts), strict=True))
    assert (validation["ignored"], target["ignored"]) == (["site"], ["Unnamed: 0"])
    np.testing.assert_allclose(target["first_rows"], data.y_proba[:3], atol=1e-6)
    assert validation["problem"] is target["problem"] is None
    shown = ok("check", *named).stdout
    assert "v.csv: 300 rows, 3 classes, labels in 'label'" in shown
    assert "p_bee" in shown
    assert "Ignored: 'site'." in shown
    assert shown.count("Fine.") == 2


@pytest.mark.parametrize("suffix", ["csv", "npz", "npy", "arrow"])
def test_problems_are_those_of_other_commands(data, write, files, run, refuse, suffix, schema):
    target = write(f"t.{suffix}", data.y_proba * 2)
    result = run("check", files[0], target, "--json")
    assert result.exit_code == 1
    first, second = json.loads(result.stdout)["files"]
    assert first["problem"] is None
    schema.validate(json.loads(result.stdout))
    assert second["problem"] == refuse(1, "estimate", "--validation", files[0], "--target", target)


def test_options_mean_what_they_mean_elsewhere(data, write, ask):
    p = data.y_proba[:, 0]
    one = write("t.csv", p[:, None], classes=["proba"], age=range(200))
    answer = ask("check", one, "--class-columns", "ill=proba")
    (found,) = answer["files"]
    assert found["classes"] == ["not ill", "ill"]
    assert found["columns"] == {"ill": "proba"}
    np.testing.assert_allclose(found["first_rows"][0], [1 - p[0], p[0]], atol=1e-6)


def test_labels_are_suggested(data, write, run):
    path = write("v.csv", data.y_proba_val, data.y_val, label_column="y_true")
    result = run("check", path)
    assert "No labels: there is no 'label'. Did you mean --label-column y_true?" in result.stdout
    assert result.exit_code == 0
    strange = write("w.csv", data.y_proba_val, ["yak", *data.y_val[1:]])
    result = run("check", strange)
    assert result.exit_code == 1
    assert "labels that are not among the classes: 'yak'" in result.stdout


def test_many_classes_are_cut_short(write, ok, rng):
    path = write("t.csv", rng.dirichlet(np.ones(40), 5), classes=range(40))
    shown = ok("check", path).stdout
    assert "... and 15 more classes." in shown


@pytest.mark.parametrize("one_column", [False, True])
def test_labels_that_are_not_found_are_the_problem_as_in_assess(
    data, write, run, refuse, one_column
):
    y = (data.y_val == "bee").astype(int)
    if one_column:
        validation = write(
            "v.csv", data.y_proba_val[:, [1]], y, classes=["proba"], label_column="y_true"
        )
        target = write("t.csv", data.y_proba[:, [1]], classes=["proba"])
    else:
        validation = write("v.csv", data.y_proba_val, data.y_val, label_column="y_true")
        target = write("t.csv", data.y_proba)
    said = refuse(1, "assess", "--validation", validation, "--target", target)
    assert said.endswith("Did you mean --label-column y_true?")
    result = run("check", validation, target)
    assert result.exit_code == 1
    assert said in (result.stdout + result.stderr)
    assert "--positive-class" not in result.stdout + result.stderr
    assert run("check", validation, target, "--label-column", "y_true").exit_code == 0


def test_a_file_without_labels_is_fine_as_a_target_only(data, write, ok, files):
    alone = write("alone.csv", data.y_proba)
    assert "Fine as a target. As validation it would need labels." in ok("check", alone).stdout
    assert "as a target" not in ok("check", *files).stdout


def test_without_labels_the_target_is_not_blamed(data, write, refuse):
    validation = write("v.csv", data.y_proba_val, data.y_val, label_column="y_true", id=range(300))
    target = write("t.csv", data.y_proba, id=range(200))
    said = refuse(1, "check", validation, target)
    assert said.startswith(f"{validation} has no labels (column or key 'label')")


def test_rows_of_a_file_with_a_problem_are_counted(data, write, run):
    rounded = write("v.csv", data.y_proba_val.round(2), data.y_val)
    shown = run("check", rounded).stdout
    assert "300 rows" in shown
    assert "if they were rounded, add --renormalise." in shown


def test_strange_labels_of_the_target_are_a_remark_as_elsewhere(data, write, ok, files):
    target = write("t.csv", data.y_proba, ["yak"] * 200)
    assert "The target's labels are not used: " in ok("check", files[0], target).stdout
    both = "--validation", files[0], "--target", target
    assert "The target's labels are not used: " in ok("assess", *both).stderr


# Decisions without probabilities


@pytest.fixture
def judged(tmp_path):
    """A file with decisions and labels, and one with decisions alone."""

    def write(name, **columns):
        lines = [",".join(columns), *map(",".join, zip(*columns.values(), strict=True))]
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return tmp_path / name

    return write


def test_decisions_are_shown(judged, ok, ask):
    validation = judged(
        "v.csv", verdict=["good", "bad", "good"], label=["good", "fair", "bad"], note=["x"] * 3
    )
    target = judged("t.csv", verdict=["bad", "good", "good", "good"])
    named = (target, validation, "--predicted-column", "verdict")
    answer = ask("check", *named)
    t, v = answer["files"]
    assert t["classes"] == v["classes"] == ["bad", "fair", "good"]
    assert v["decision_counts"] == {"bad": 1, "fair": 0, "good": 2}
    assert v["label_counts"] == {"bad": 1, "fair": 1, "good": 1}
    assert t["decision_counts"] == {"bad": 1, "fair": 0, "good": 3}
    assert (t["n_rows"], v["n_rows"]) == (4, 3)
    assert (t["label_column"], v["label_column"]) == (None, "label")
    assert (t["ignored"], v["ignored"]) == ([], ["note"])
    assert t["predicted_column"] == "verdict"
    assert t["problem"] is v["problem"] is None
    shown = ok("check", *named).stdout
    assert "v.csv: 3 rows, 3 classes, decisions in 'verdict', labels in 'label'" in shown
    assert "t.csv: 4 rows, 3 classes, decisions in 'verdict', no labels" in shown


@pytest.mark.parametrize("command", ["check", "assess"])
def test_decisions_that_nobody_named_are_no_probabilities_and_no_labels(judged, refuse, command):
    numbers = {"id": ["17", "18", "19"], "verdict": ["good", "bad", "good"]}
    validation = judged("v.csv", **numbers, human=["good", "bad", "bad"])
    line = refuse(1, command, validation, judged("t.csv", **numbers), "--label-column", "human")
    assert "v.csv has no probabilities: its only numbers, 'id', are not from 0 to 1" in line
    assert line.endswith("name their column with --predicted-column.")
    if command == "check":  # and what target and validation have both are no labels either
        assert "has no probabilities" in refuse(1, command, validation, judged("t.csv", **numbers))


def test_problems_of_decisions_are_those_of_other_commands(judged, run, refuse):
    validation = judged("v.csv", verdict=["good", "bad"], label=["good", "bad"])
    strange = judged("t.csv", verdict=["bad", "awful"])
    other = judged("o.csv", grade=["bad", "good"])
    decided = ("--predicted-column", "verdict")
    for target in (strange, other):
        result = run("check", validation, target, *decided, "--json")
        assert result.exit_code == 1
        first, second = json.loads(result.stdout)["files"]
        assert first["problem"] is None
        named = ("--validation", validation, "--target", target)
        assert second["problem"] == refuse(1, "estimate", *named, *decided)
    partly = judged("p.csv", verdict=["bad", "good"], label=["bad", "unknown"])
    result = run("check", validation, partly, *decided)
    assert result.exit_code == 0
    assert "labels are not used" in result.stdout
    line = refuse(2, "check", validation, *decided, "--logits")
    assert "--predicted-column is for decisions" in line


def test_a_target_may_have_labels_of_some_rows(data, files, write, ok):
    target = write("t.csv", data.y_proba, ["", *data.y[1:]])
    shown = ok("check", files[0], target).stdout
    assert "The target's labels are not used: 'label' in" in shown
    assert shown.count("Fine.") == 2


def test_labels_may_come_from_a_file_of_their_own(data, write, run, tmp_path, ask):
    validation, labels = write("v.csv", data.y_proba_val), tmp_path / "labels.csv"
    labels.write_text("species\n" + "\n".join(data.y_val) + "\n")
    found = ask("check", validation, "--labels", labels)["files"][0]
    whole = write("w.csv", data.y_proba_val, data.y_val)
    assert found["label_column"] == "species"
    same = ask("check", whole)["files"][0]
    assert found["label_counts"] == same["label_counts"]
    labels.write_text("species\nyak\n")
    assert run("check", validation, "--labels", labels).exit_code == 1


def test_a_column_that_only_sounds_like_labels_is_not_suggested(ok, tmp_path):
    path = tmp_path / "v.csv"
    path.write_text(
        "lab,ant,bee\n" + "".join(f"Munich {i % 3},0.{i + 1},0.{9 - i}\n" for i in range(8))
    )
    assert "No labels: there is no 'label'.\n" in ok("check", path).stdout


def test_keys_without_a_partner_are_counted_and_left_out(data, write, ok, refuse, tmp_path):
    validation, labels = write("v.csv", data.y_proba_val), tmp_path / "labels.csv"
    header, *lines = validation.read_text().splitlines()
    keyed = [f"k{i},{line}" for i, line in enumerate(lines)]
    validation.write_text("\n".join([f"key,{header}", *keyed]) + "\n")
    known = [f"k{i},{label}" for i, label in enumerate(data.y_val)]
    labels.write_text("\n".join(["key,species", *known[3:], "other,ant"]) + "\n")
    given = (validation, validation, "--labels", labels)
    assert "add --drop-missing to leave such rows out" in refuse(1, "assess", *given)
    done = ok("assess", *given, "--drop-missing", "--json")
    said = " ".join(done.stderr.split())
    assert "'k0', 'k1', 'k2' only in 'key' in" in said
    assert "'other' only in 'key' in" in said
    assert "3 without a label" in said
    assert json.loads(done.stdout)["n_val"] == data.y_val.size - 3
