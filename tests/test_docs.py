"""The documentation's examples run."""

import doctest
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(p for p in (ROOT / "docs").rglob("*.md") if ">>>" in p.read_text(encoding="utf-8"))
GALLERY = sorted((ROOT / "examples" / "gallery").glob("plot_*.py"))
BOX = re.compile(r"^```\{command-output\}[^\n]*\n(.*?)^```$", re.M | re.S)
"""A command that the build runs: words for the build in the first line, then what readers see."""

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


def test_boxes_of_commands_show_the_command_in_plain_markdown_too():
    pages = [p.read_text(encoding="utf-8") for p in (ROOT / "docs").rglob("*.md")]
    boxes = [box for page in pages for box in BOX.findall(page)]
    assert len(boxes) >= 10
    assert sum(page.count("{command-output}") for page in pages) == len(boxes)
    for box in boxes:
        assert re.match(r"\$ (priorshift|python) ", box)
        assert "\n# the built page shows what this prints\n" in box


def test_there_is_something_to_test():
    assert len(PAGES) >= 9
    assert len(GALLERY) >= 6
