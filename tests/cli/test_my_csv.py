"""The guide "My CSV looks like this": its files are read by its commands."""

import re
import shlex
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "my-csv.md"
SECTIONS = re.split(r"^## ", GUIDE.read_text(encoding="utf-8"), flags=re.M)[1:]
SHAPES = [section for section in SECTIONS if "```text" in section]
REPEATS = 20
"""Times that the few rows of the guide are written, so that there is something to estimate from."""


def write(section, folder):
    """Write the files that a section shows."""
    blocks = re.findall(r"^`(\S+)`\n\n```text\n(.*?)```", section, re.M | re.S)
    for name, text in blocks:
        header, *rows = text.splitlines(keepends=True)
        copies = (row.replace("img", f"img{at}-") for at in range(REPEATS) for row in rows)
        (folder / name).write_text(header + "".join(copies), encoding="utf-8")
    return [name for name, _ in blocks]


def commands(section):
    """Return the lines that a section tells to type."""
    lines = re.findall(r"```sh\n(.*?)```", section, re.S)
    return [shlex.split(line)[1:] for line in "".join(lines).splitlines()]


def test_there_are_seven_shapes():
    assert len(SHAPES) == 7
    assert all(commands(section) for section in SHAPES)


@pytest.mark.parametrize("section", SHAPES, ids=lambda text: text.splitlines()[0])
def test_commands_of_the_guide_run(section, tmp_path, monkeypatch, ok):
    monkeypatch.chdir(tmp_path)
    assert {"validation.csv", "target.csv"} <= set(write(section, tmp_path))
    for words in commands(section):
        ok(*words)


@pytest.mark.parametrize("section", SHAPES, ids=lambda text: text.splitlines()[0])
def test_check_finds_the_files_fine(section, tmp_path, monkeypatch, ok):
    monkeypatch.chdir(tmp_path)
    write(section, tmp_path)
    words = commands(section)[0][3:]  # after assess and the two files
    if "--labels" in words:  # check looks at files one by one
        return
    shown = ok("check", "validation.csv", "target.csv", *words).stdout
    assert shown.count("Fine.") == 2


def test_the_suggestion_is_what_the_guide_says(tmp_path, monkeypatch, refuse):
    monkeypatch.chdir(tmp_path)
    write(SHAPES[0], tmp_path)
    line = refuse(1, "assess", "--validation", "validation.csv", "--target", "target.csv")
    assert line.endswith("Did you mean --label-column y_true?")


def test_where_no_column_is_called_as_labels_are_all_are_named(tmp_path, refuse):
    (tmp_path / "val.csv").write_text("txn,score,is_fraud\n1,0.2,yes\n2,0.7,no\n")
    said = refuse(1, "assess", tmp_path / "val.csv", tmp_path / "val.csv")
    assert said.endswith("with --labels. It has 'txn', 'score', 'is_fraud'.")
