"""The documentation names everything that is public, and its links lead somewhere."""

import re
from pathlib import Path

import pytest

import priorshift as ps
from lab.__main__ import COMMANDS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "docs" / "guides").glob("*.md"))
REFERENCE = (ROOT / "docs" / "api" / "index.rst").read_text(encoding="utf-8")
LAB = re.findall(r"python -m lab ([a-z][\w-]*)", "".join(p.read_text("utf-8") for p in PAGES))


def prose(page):
    """Return a page without its blocks of code."""
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def anchors(page):
    """Return the names of a page's headings, as links write them, and its own labels."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading).strip().lower() for heading in headings)
    return {heading.replace(" ", "-") for heading in plain} | set(
        re.findall(r"^\((\S+)\)=$", text, re.MULTILINE)
    )


@pytest.mark.parametrize("name", sorted(set(ps.__all__) - {"__version__"}))
def test_the_reference_lists_every_public_name(name):
    assert re.search(rf"^   {name}$", REFERENCE, re.MULTILINE)


@pytest.mark.parametrize("name", ps.available_estimators(target_labels=True))
def test_every_method_has_a_line(name):
    table = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    assert re.search(rf"^\|[^|]*`{re.escape(name)}`", table, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_within_the_repository_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"https?:", link):
            continue
        file, _, anchor = link.partition("#")
        aim = page.parent / file if file else page
        if aim.parent.name == "gallery":  # made from a script when the pages are built
            script = ROOT / "examples" / "gallery" / f"{aim.stem}.py"
            assert aim.stem == "index" or script.exists(), link
            continue
        assert aim.exists(), link
        assert not anchor or anchor in anchors(aim), link


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "guides").glob("*.md")), ids=str)
def test_every_guide_is_listed(page):
    listed = (page.parent / "index.md").read_text(encoding="utf-8").splitlines()
    assert page.stem == "index" or page.stem in listed


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "guides").glob("*.md")), ids=str)
def test_every_guide_begins_with_the_problem_in_the_words_of_its_reader(page):
    _, blank, first, *_ = page.read_text(encoding="utf-8").splitlines()
    assert page.stem == "index" or (not blank and first.startswith('*"'))


@pytest.mark.parametrize("command", sorted(set(LAB)))
def test_commands_that_print_figures_exist(command):
    assert command in COMMANDS
