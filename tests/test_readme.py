"""The README's examples run."""

import doctest
import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_examples_of_the_readme_run():
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    results = doctest.testfile(str(README), module_relative=False, optionflags=flags)
    assert results.attempted > 10
    assert results.failed == 0


def test_the_first_screen_answers_a_newcomer():
    """What it is, the call with its output, a picture of the report, when not, and entries."""
    first = README.read_text(encoding="utf-8").partition("## Install")[0]
    assert len(first.splitlines()) < 60
    assert "ps.assess(" in first
    assert "\nAdapt: " in first
    assert (README.parent / "docs/_static/report.png").stat().st_size > 10_000
    for words in ("docs/_static/report.png", "When not to use it", "Fraud", "Prevalence"):
        assert words in first
    for words in ("Species", "LLM judge", "Monitoring"):
        assert f"**{words}" in first


def test_links_of_the_readme_lead_somewhere():
    text = README.read_text(encoding="utf-8")
    links = re.findall(r"\]\(((?!http)[^)#]+)", text)
    assert len(links) > 20
    assert [link for link in links if not (README.parent / link).exists()] == []
