"""The documentation names everything that is public, and its links lead somewhere."""

import re
from pathlib import Path

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


def test_the_reference_lists_every_public_name():
    listed = re.findall(r"^   (\w+)$", REFERENCE, re.MULTILINE)
    assert set(ps.__all__) - {"__version__"} <= set(listed)


def test_every_method_has_a_line():
    table = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    for name in ps.available_estimators(target_labels=True):
        assert re.search(rf"^\|[^|]*`{re.escape(name)}`", table, re.MULTILINE), name


def test_links_within_the_repository_lead_somewhere():
    links = [(page, link) for page in PAGES for link in re.findall(r"\]\(([^)\s]+)\)", prose(page))]
    for page, link in links:
        if re.match(r"https?:", link):
            continue
        file, _, anchor = link.partition("#")
        aim = page.parent / file if file else page
        if aim.parent.name == "gallery":  # made from a script when the pages are built
            script = ROOT / "examples" / "gallery" / f"{aim.stem}.py"
            assert aim.stem == "index" or script.exists(), link
            continue
        assert aim.exists(), (page, link)
        assert not anchor or anchor in anchors(aim), (page, link)


def test_every_guide_is_listed_and_begins_with_the_problem_in_the_words_of_its_reader():
    index = ROOT / "docs" / "guides" / "index.md"
    listed = index.read_text(encoding="utf-8").splitlines()
    for page in set(index.parent.glob("*.md")) - {index}:
        assert page.stem in listed
        _, blank, first, *_ = page.read_text(encoding="utf-8").splitlines()
        assert not blank, page
        assert first.startswith('*"'), page


def test_commands_that_print_figures_exist():
    assert set(LAB) <= set(COMMANDS)
