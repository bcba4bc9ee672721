"""Files and commands as people expect them: words, empty cells, decisions, help."""

import csv
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import priorshift as ps
from priorshift.assessment import threshold_facts
from priorshift.cli import _errors, main
from priorshift.words import say

pytestmark = pytest.mark.usefixtures("no_verdict")


def cells(path, delimiter=","):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream, delimiter=delimiter))


# Two files as words


@pytest.mark.parametrize("command", ["assess", "test", "compare"])
def test_the_files_may_be_given_as_words(command, files, both, ask):
    chosen = ("--method", "na", "--method", "scm-l") if command == "compare" else ()
    expected = ask(command, *both, *chosen)
    for words in (files, ("--validation", files[0], files[1])):
        found = ask(command, *words, *chosen)
        for each in (*found.get("methods", ()), *expected.get("methods", ())):
            each.pop("seconds", None)
        assert found == expected


def test_one_word_is_the_target(files, ask, tmp_path):
    priors = ("--source-priors", "ant=0.4,bee=0.3,cow=0.3", "--known-priors", "ant=0.6,bee=0.2")
    answer = ask("adapt", files[1], *priors, "--output", tmp_path / "o.csv")
    assert answer["n_rows"] == 200


def test_too_few_and_too_many_files_are_refused(files, refuse):
    assert "--target" in refuse(2, "assess")
    assert "needs --validation" in refuse(2, "assess", files[1])
    assert "at most two files" in refuse(2, "assess", *files, files[0])
    assert "at most two files" in refuse(2, "assess", *files, "--target", files[1])


@pytest.mark.usefixtures("blank_figures")
def test_the_report_tells_the_command_with_its_words(files, ok, tmp_path):
    ok("report", *files, "--output", tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert f"priorshift report {files[0]} {files[1]}" in text


# Empty cells


@pytest.fixture
def holes(data, tmp_path):
    """Validation and target as CSV in which cells are missing, each kind written otherwise."""
    paths = tmp_path / "v.csv", tmp_path / "t.csv"
    header = "label,ant,bee,cow\n"
    rows = [[y, *map(str, p)] for y, p in zip(data.y_val, data.y_proba_val.tolist(), strict=True)]
    rows[3][2], rows[5][0], rows[7][1] = "", "", "NA"
    paths[0].write_text(header + "".join(",".join(row) + "\n" for row in rows))
    rows = [["north", *map(str, p)] for p in data.y_proba.tolist()]
    rows[4][3], rows[9][1:] = "nan", ["", "", ""]
    paths[1].write_text("site" + header[5:] + "".join(",".join(row) + "\n" for row in rows))
    return paths


def test_empty_cells_are_counted_at_once_with_their_line(holes, files, refuse):
    line = refuse(1, "estimate", files[0], holes[1])
    assert f"{holes[1]} has no prediction in 2 of 200 rows, first in line 6" in line
    assert "--drop-missing" in line
    line = refuse(1, "estimate", holes[0], files[1])
    assert "has no label in 1 of 300 rows, first in line 7" in line


def test_text_in_place_of_numbers_is_counted_with_its_lines(data, files, write, refuse):
    y_proba = data.y_proba.astype(object)
    y_proba[[1500 % 200, 150, 190], 1] = "?"
    bad = write("bad.csv", data.y_proba.tolist())
    rows = cells(bad)
    for at in (101, 151, 191):
        rows[at][1] = "?"
    rows += rows[1:] * 20  # so that the header's sample shows numbers
    rows = [rows[0], *([["0.2", "0.3", "0.5"]] * 1000), *rows[1:]]
    bad.write_text("".join(",".join(row) + "\n" for row in rows))
    line = refuse(1, "estimate", files[0], bad)
    assert "line 1102, column 'bee' holds '?'; line 1152" in line
    assert "(63 such cells in 63 rows)" in line


def test_rows_with_empty_cells_are_left_out(data, holes, ok, tmp_path):
    output = tmp_path / "o.csv"
    words = (*holes, "--drop-missing")
    result = ok("estimate", *words, "--json")
    val = np.setdiff1d(np.arange(300), [3, 5, 7])
    target = np.setdiff1d(np.arange(200), [4, 9])
    fitted = ps.SCML().fit(data.y_proba_val[val], data.y_val[val], classes=data.classes)
    shift = fitted.estimate(data.y_proba[target])
    answer = json.loads(result.stdout)
    assert list(answer["priors"].values()) == pytest.approx(shift.priors.tolist())
    assert answer["n_target"] == 198
    assert "left out 3 of 300 rows: 2 without predictions, 1 without a label." in result.stderr
    assert "left out 2 of 200 rows: 2 without predictions." in result.stderr
    result = ok("adapt", *words, "--output", output, "--decision-column", "decided")
    assert "of 198 decisions changed" in result.stderr
    before, after = cells(holes[1])[1:], cells(output)[1:]
    for row in (4, 9):
        assert after[row] == [*before[row], ""]
    new = np.array([[float(c) for c in after[row][1:4]] for row in target])
    assert new == pytest.approx(shift.adapt(data.y_proba[target]))
    assert [after[row][4] for row in target] == data.classes[new.argmax(axis=1)].tolist()


def test_decisions_may_be_missing_as_well(tmp_path, rng, ask):
    y = rng.integers(0, 2, 300)
    decided = np.where(rng.random(300) < 0.9, y, 1 - y).astype(str)
    decided[7] = ""
    lines = [f"{label},{verdict}" for label, verdict in zip(y, decided, strict=True)]
    for name in ("v.csv", "t.csv"):
        (tmp_path / name).write_text("\n".join(["label,said", *lines]))
    named = (tmp_path / "v.csv", tmp_path / "t.csv", "--predicted-column", "said")
    found = ask("estimate", *named, "--drop-missing")
    assert found["n_target"] == 299


# What is written


def test_adapted_numbers_have_no_more_digits_than_they_need(data, files, write, ok, tmp_path):
    output = tmp_path / "o.csv"
    ok("adapt", *files, "--output", output)
    for row in cells(output)[1:]:
        assert row == [repr(float(cell)) for cell in row]  # the shortest that comes back
    target = tmp_path / "plain.csv"
    target.write_text("ant,bee,cow\n0.50,0.3,2e-1\n.2,0.3,0.500\n")
    same = "ant=0.2,bee=0.3,cow=0.5"
    ok("adapt", target, "--source-priors", same, "--known-priors", same, "--output", output)
    assert output.read_text() == target.read_text()


def test_tables_of_priors_have_the_separators_of_the_target(files, data, tmp_path, ok):
    target, output = tmp_path / "t.csv", tmp_path / "o.csv"
    rows = [";".join(f"{p:.6f}".replace(".", ",") for p in row) for row in data.y_proba]
    target.write_text("\n".join(["ant;bee;cow", *rows]))
    words = (files[0], target, "--renormalise")
    for command in ("estimate", "assess"):
        ok(command, *words, "--output", output)
        (header, first, *_) = cells(output, ";")
        assert header[0] == "class"
        shares = [cell for cell in first[1:] if "," in cell]
        assert len(shares) > 2
        assert all(float(share.replace(",", ".")) for share in shares)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
def test_adapt_writes_decisions(suffix, data, files, write, ok, refuse, tmp_path):
    target, output = write(f"t.{suffix}", data.y_proba), tmp_path / f"o.{suffix}"
    costs = ("--costs", "cow:ant=30,cow:bee=30")
    words = ("adapt", files[0], target, *costs, "--output", output, "--decision-column")
    ok(*words, "decided")
    if suffix == "csv":
        found = [row[-1] for row in cells(output)[1:]]
    elif suffix == "parquet":
        found = pq.read_table(output)["decided"].to_pylist()
    else:
        found = np.load(output)["decided"].tolist()
    shift = ps.SCML().fit(data.y_proba_val, data.y_val).estimate(data.y_proba)
    prices = {("cow", "ant"): 30, ("cow", "bee"): 30}
    expected = ps.decide(shift.adapt(data.y_proba), prices, classes=data.classes)
    assert found == list(expected)
    if suffix != "npz":
        assert "has a column 'ant' already" in refuse(1, *words, "ant")


def test_an_npy_file_has_no_room_for_decisions(data, files, write, refuse, tmp_path):
    target = write("t.npy", data.y_proba)
    words = ("--output", tmp_path / "o.npy", "--decision-column", "decided")
    assert "no room for 'decided'" in refuse(1, "adapt", files[0], target, *words)


# Costs and thresholds


def test_costs_may_be_typed(both, ask, tmp_path, refuse):
    path = tmp_path / "costs.json"
    path.write_text('{"cow": {"ant": 10, "bee": 2.5}}')
    expected = ask("assess", *both, "--costs", path)
    assert ask("assess", *both, "--costs", "cow:ant=10,cow:bee=2.5") == expected
    for wrong in ("cow=10", "cow:ant", "cow:ant=x", "nothing.json"):
        line = refuse(2, "assess", *both, "--costs", wrong)
        assert "--costs" in line
        assert "ill:well=10" in line
    assert "yak" in refuse(1, "assess", *both, "--costs", "yak:ant=10")


def test_a_class_with_a_colon_has_costs(tmp_path):
    from priorshift.cli._priors import read_costs

    found = read_costs("a:b:c=7", np.array(["a:b", "c"]))
    assert found[0, 1] == 7


@pytest.mark.parametrize(("costs", "threshold"), [(None, 0.5), ([[0, 1], [20, 0]], 1 / 21)])
def test_the_threshold_of_two_classes_is_told_before_and_after_adapting(costs, threshold):
    priors, source = np.array([0.9, 0.1]), np.array([0.5, 0.5])
    shift = ps.PriorEstimate("known", np.array(["no", "yes"]), priors, source, "given", "direct")
    (said,) = threshold_facts(shift, None if costs is None else np.array(costs))
    odds = threshold / (1 - threshold) * 9  # the ratio of priors is 1.8 and 0.2
    raw = odds / (1 + odds)
    assert say(said) == (
        f"Flag a case as yes above {threshold:.3g} (of your raw score: above {raw:.3g})."
    )


def test_adapt_and_assess_tell_the_threshold(tmp_path, rng, ok):
    y = rng.integers(0, 2, 400)
    p = 1 / (1 + np.exp(-rng.normal(3 * y - 1.5, 1)))
    for name, labels in (("v.csv", y), ("t.csv", None)):
        column = "" if labels is None else "label,"
        lines = [
            f"{'' if labels is None else f'{label},'}{1 - q:.5f},{q:.5f}"
            for label, q in zip(y, np.round(p, 5), strict=True)
        ]
        (tmp_path / name).write_text("\n".join([f"{column}0,1", *lines]))
    words = (tmp_path / "v.csv", tmp_path / "t.csv", "--costs", "1:0=20")
    assert "Flag a case as 1 above 0.0476" in ok("assess", *words).stdout
    assert "Flag a case as 1 above 0.0476" in ok("assess", *words, "--json").stdout
    assert "Flag a case as 1 above 0.0476" in ok("adapt", *words, "--output", "-").stderr


# Help, and what check says


def test_help_lists_options_in_groups(ok):
    text = ok("--help").stdout
    assert text.index("  assess") < text.index("  check") < text.index("  estimate")
    assert "130 stopped" in text
    for name in main.list_commands(None):
        lines = ok(name, "--help").stdout.splitlines()
        titles = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
        known = [f"{title}:" for title in _errors.OPTION_GROUPS]
        found = [title for title in titles if title in known]
        assert found == [title for title in known if title in found]
        assert "Options:" not in titles
        assert "Output:" in titles
        assert any("--help" in line for line in lines[lines.index("Output:") :])


def test_groups_print_intervals(data, files, write, ok):
    target = write("t.csv", data.y_proba, part=["a", "b"] * 100)
    words = ("groups", files[0], target, "--group-column", "part")
    shown = ok(*words, "--confidence-level", 0.9)
    assert "90% intervals" in shown.stderr
    first = next(line for line in shown.stdout.splitlines() if line.startswith("a "))
    assert first.count("(") == 3
    assert "(" not in next(line for line in ok(*words).stdout.splitlines() if line[:2] == "a ")


def test_check_shows_a_table_once(files, ok):
    shown = ok("check", *files).stdout
    assert shown.count("column") == 1
    assert "read as above" in shown


def test_an_npz_without_labels_tells_its_arrays(data, files, write, refuse):
    validation = write("v.npz", data.y_proba_val, data.y_val, label_column="truth_2")
    line = refuse(1, "estimate", validation, files[1])
    assert "It has 'y_proba', 'truth_2', 'classes'." in line
