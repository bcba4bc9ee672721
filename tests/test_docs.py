"""The documentation's examples run."""

import doctest
import runpy
from pathlib import Path

import pytest

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


def test_there_is_something_to_test():
    assert len(PAGES) >= 9
    assert len(GALLERY) >= 6
