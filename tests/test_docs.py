"""The documentation's examples run."""

import contextlib
import doctest
import runpy
import shlex
import subprocess
import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner

from priorshift.cli import main

ROOT = Path(__file__).parents[1]
PAGES = sorted(p for p in (ROOT / "docs").rglob("*.md") if ">>>" in p.read_text(encoding="utf-8"))
GALLERY = sorted((ROOT / "examples" / "gallery").glob("plot_*.py"))
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_of_pages_run(page):
    pytest.importorskip("matplotlib").use("agg")
    results = doctest.testfile(
        str(page), module_relative=False, optionflags=FLAGS, encoding="utf-8"
    )
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.slow
@pytest.mark.parametrize("script", GALLERY, ids=lambda script: script.stem)
def test_gallery_runs_and_draws(script):
    pytest.importorskip("matplotlib").use("agg")
    from matplotlib import pyplot

    runpy.run_path(str(script), run_name="__main__")
    assert pyplot.get_fignums()
    pyplot.close("all")


@pytest.fixture(scope="session")
def outputs():
    """Load the script that writes what commands print; ours run in this process."""
    loaded = runpy.run_path(str(ROOT / "docs" / "outputs.py"))
    start = loaded["execute"]

    def execute(command, folder):
        program, *words = shlex.split(command)
        if program != "priorshift":
            return start(command, folder)
        environment = {"COLUMNS": "100", "NO_COLOR": "1"}
        try:
            runner = CliRunner(env=environment, mix_stderr=False)
        except TypeError:  # click 8.2 keeps them apart always
            runner = CliRunner(env=environment)
        with contextlib.chdir(folder), warnings.catch_warnings():
            warnings.simplefilter("default")
            done = runner.invoke(main, words, prog_name="priorshift")
        return subprocess.CompletedProcess(command, done.exit_code, done.stdout, done.stderr)

    loaded["refresh"].__globals__["execute"] = loaded["execute"] = execute
    return loaded


@pytest.fixture(scope="session")
def files(outputs, tmp_path_factory):
    """Make a folder with the files of the demo."""
    folder = tmp_path_factory.mktemp("docs")
    outputs["execute"]("priorshift demo --save-data .", folder).check_returncode()
    return folder


QUOTING = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if "```console" in page.read_text(encoding="utf-8")
]


@pytest.mark.slow
@pytest.mark.parametrize("page", QUOTING, ids=lambda page: page.stem)
def test_pages_quote_what_commands_print(page, outputs, files):
    """If this fails because outputs changed on purpose: python docs/outputs.py."""
    text = page.read_text(encoding="utf-8")
    assert len(outputs["BOX"].findall(text)) == text.count("```console")
    assert outputs["lasting"](outputs["refresh"](text, files)) == outputs["lasting"](text)


def test_there_is_something_to_test():
    assert len(PAGES) >= 9
    assert len(GALLERY) >= 6


def test_the_table_of_methods_takes_what_quality_prints():
    refresh = runpy.run_path(str(ROOT / "docs" / "measured.py"))["refresh"]
    page = "means over 420 tasks\n| `em` | a | b | c | d | +0.00 |\n| `em-bcts` | a | b | c | d | |"
    rows = "| em | +1.25 | 3.40 | -6.5 | 0.1 |\n| em-bcts | -2.00 | 1.0 | -9.0 | 0.25 |\n"
    printed = f"| em | +9.99 | 9.9 | 9.9 |\n\n**All 140 tasks**\n\n{rows}"
    assert refresh(page, printed).splitlines() == [
        "means over 140 tasks",
        "| `em` | a | b | c | d | +1.25, 0.1 |",
        "| `em-bcts` | a | b | c | d | -2.00, 0.25 |",
    ]
    with pytest.raises(ValueError, match="no table of all tasks"):
        refresh(page, rows)


def test_pages_take_the_tables_that_commands_print():
    replace = runpy.run_path(str(ROOT / "docs" / "measured.py"))["replace"]
    head = "| method | gain |\n|---|---|\n"
    old = [f"{head}| em | {n} |\n| map | 0 |\n" for n in range(3)]
    page = f"# A\n\n**Two**\n\n{old[0]}\nas said.\n\n**Two**\n\n{old[1]}\n# B\n\n{old[2]}"
    new = [table.replace("em", "em-bcts") for table in old]
    printed = f"**One**\n\n{new[2]}\n**Two**\n\n{new[0]}\n**Two**\n\n{new[1]}\n| x |\n|---|\n"
    written, said = replace(page, printed)
    assert written == page.replace("em", "em-bcts"), "by title, else what is left, in order"
    assert said == ["1 of 2 rows differ: | method | gain |"] * 3
    other = page.replace("gain", "loss")
    assert replace(other, printed) == (other, []), "another header is another table"
