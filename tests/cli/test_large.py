"""Files too large for memory: the same answers, block by block, or a sample that is said to be one.

Here every file is taken for a large one.
"""

import json
import re

import numpy as np
import pytest

from priorshift.border import rows
from priorshift.cli import _console, _read
from priorshift.files import PredictionFile

FORMATS = ["npy", "parquet", "arrow", "feather"]


@pytest.fixture
def large(monkeypatch):
    """Take files for large ones, which must not be read at once."""
    monkeypatch.setattr(_read, "IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(PredictionFile, "values", at_once_of(PredictionFile.values))


def at_once_of(values):
    def at_once(file, names):
        assert "target" not in file.path.name, "the target was read into memory"
        return values(file, names)

    return at_once


@pytest.fixture
def named(data, files, write):
    """Return the options that name validation and a target of a suffix."""

    def options(suffix, **more):
        target = write(f"target.{suffix}", data.y_proba, **more)
        return "--validation", files[0], "--target", target

    return options


def approximately(document):
    """Take apart a document into numbers and the rest; times are left out."""
    text = re.sub(r'"seconds": [^,]+', "", json.dumps(document))
    number = r"(?<![\w.])-?\d+\.?\d*(?:e-?\d+)?"
    return re.sub(number, "#", text), np.array(re.findall(number, text), dtype=float)


def assert_alike(one, other):
    words, numbers = approximately(one)
    other_words, other_numbers = approximately(other)
    assert words == other_words
    np.testing.assert_allclose(numbers, other_numbers, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("suffix", "method"), [*zip(FORMATS, ["scm-l", "em", "cm", "map"], strict=True), ("npy", "em")]
)
def test_estimates_are_those_of_files_in_memory(named, ask, request, suffix, method):
    words = ("estimate", *named(suffix), "--method", method)
    expected = ask(*words)
    request.getfixturevalue("large")
    assert_alike(ask(*words), expected)


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_comparisons_are_those_of_files_in_memory(data, named, ask, request, suffix):
    chosen = ("--method", "na", "--method", "em", "--method", "scm-l")
    words = ("compare", *named(suffix, labels=data.y), *chosen)
    expected = ask(*words)
    assert expected["methods"][1]["scores"]["accuracy"] > 0.5
    request.getfixturevalue("large")
    assert_alike(ask(*words), expected)


@pytest.mark.usefixtures("blank_figures")
@pytest.mark.parametrize("suffix", ["npy", "parquet"])
def test_reports_are_those_of_files_in_memory(data, named, ok, request, tmp_path, suffix):
    labels = {} if suffix == "npy" else {"labels": data.y}
    words = ("report", *named(suffix, **labels), "--method", "em", "--output", tmp_path / "r.html")

    def reported():
        ok(*words)
        text = (tmp_path / "r.html").read_text(encoding="utf-8")
        (found,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.S)
        return {
            name: value
            for name, value in json.loads(found).items()
            if name in ("decisions", "target_labels", "estimate", "shift_test", "diagnostics")
        }

    expected = reported()
    request.getfixturevalue("large")
    assert_alike(reported(), expected)


@pytest.mark.usefixtures("large")
def test_tests_on_all_rows_of_a_table_that_is_not_so_large(named, ask):
    assert ask("test", *named("parquet"))["n_target"] == 200


@pytest.mark.usefixtures("large", "blank_figures")
def test_what_needs_rows_in_memory_takes_a_sample_and_says_so(named, ok, monkeypatch, tmp_path):
    monkeypatch.setattr(rows, "SAMPLE_NUMBERS", 60 * (3 + rows.PER_ROW))
    monkeypatch.setattr(rows, "FEWEST_ROWS", 10)
    sentence = r"(\d+) of the target's 200 rows, drawn at random \(seed 0\)\."
    words = named("parquet")
    result = ok("test", *words, "--json")
    (n_rows,) = re.findall(f"The test is on {sentence}", result.stderr)
    assert 30 < json.loads(result.stdout)["n_target"] == int(n_rows) < 60
    again = ok("test", *words, "--json")
    assert again.stdout == result.stdout
    result = ok("estimate", *words, "--method", "em", "--confidence-level", "0.9", "--json")
    assert re.search(f"The interval is that of {sentence}", result.stderr)
    found = json.loads(result.stdout)
    assert found["n_target"] == 200
    for name, (lower, upper) in found["interval"].items():
        assert lower <= found["priors"][name] <= upper
    shown = ok("estimate", *words, "--method", "auto").stderr
    assert re.search(r"\d\d of 200 target rows, drawn at random", shown)
    result = ok("estimate", *words, "--method", "scm-l", "--confidence-level", "0.9", "--json")
    assert "drawn at random" not in result.stderr  # its interval needs counts alone
    ok("report", *words, "--output", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert re.search("All of this rests on .* rows, drawn at random", page)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("suffix", FORMATS)
def test_bad_rows_are_named(data, files, write, refuse, suffix):
    y_proba = data.y_proba.copy()
    y_proba[130, 1] = -0.25
    target = write(f"target.{suffix}", y_proba)
    words = ("estimate", "--validation", files[0], "--target", target)
    line = refuse(1, *words)
    assert line.startswith(f"{target} has a negative value (-0.25) at row 130, column 1; ")
    assert "Add --logits if these are logits." in line
    y_proba[130] = np.nan
    target = write(f"target.{suffix}", y_proba)
    line = refuse(1, *words, "--logits")
    assert line.startswith(f"{target} has no prediction in 1 of 200 rows, first in row 130;")


def test_files_with_other_classes_are_told_apart(data, files, write, refuse, request):
    target = write("target.parquet", data.y_proba, classes=["ant", "bee", "dog"])
    request.getfixturevalue("large")
    line = refuse(1, "estimate", "--validation", files[0], "--target", target)
    assert "rename the columns, or choose with --class-columns" in line


# Progress


@pytest.mark.usefixtures("large")
def test_the_bar_of_adapt_counts_all_rows_of_a_target_that_was_sampled(
    named, ok, monkeypatch, tmp_path
):
    totals = []
    progress = _console.progress

    def counted(what, total, *columns):
        totals.extend([] if columns else [total])
        return progress(what, total, *columns)

    monkeypatch.setattr(_console, "progress", counted)
    monkeypatch.setattr(rows, "SAMPLE_NUMBERS", 60 * (3 + rows.PER_ROW))
    monkeypatch.setattr(rows, "FEWEST_ROWS", 10)
    output = ("--output", tmp_path / "o.parquet")
    ok("adapt", *named("parquet"), "--method", "auto", *output)
    assert totals == [200]
