"""The documentation names everything that is public; its links and commands lead somewhere."""

import argparse
import re
import shlex
from pathlib import Path

import pytest

import priorshift as ps
from lab.__main__ import main as lab_main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "docs" / "guides").glob("*.md"))
REFERENCE = (ROOT / "docs" / "api" / "index.rst").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
MEASURED = re.compile(r"^\|.*\| \*{0,2}[+-]?\d+\.\d+[ %*].*\|$", re.MULTILINE)
"""A row of a table with a number that has decimals."""


def prose(page):
    """Return a page without its blocks of code."""
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def commands(page, start):
    """Return the commands of a page that begin so, from its text and its blocks of code."""
    blocks = re.findall(r"^```.*?^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose(page))]
    found = (one.strip().removeprefix("$ ") for one in lines + spans)
    return {one for one in found if one.startswith(f"{start} ")}


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


LAB = sorted({one for page in PAGES for one in commands(page, "python -m lab")})


@pytest.mark.parametrize("command", LAB)
def test_a_command_of_the_laboratory_has_these_options(command, monkeypatch):
    """Its parser reads them, and stops there; a page may leave out what a command needs."""
    read = argparse.ArgumentParser.parse_args

    def stop(parser, words=None, _=None):
        for action in parser._actions:
            action.required = False
        read(parser, words)
        raise InterruptedError("all was read")

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    monkeypatch.setattr("lab.paper.commands.existing", Path)
    monkeypatch.setattr("sys.argv", shlex.split(command, comments=True)[2:])
    assert "--help" in command or lab_main() == "Error: all was read"


def test_targets_of_make_exist_and_use_what_they_are_given():
    pages = [*PAGES, ROOT / "RELEASING.md"]
    named = {one.partition("|")[0] for page in pages for one in commands(page, "make")}
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    named |= set(re.findall(r"run: (make [a-z -]+)", workflow))
    assert len(named) > 30
    for command in named:
        for word in shlex.split(command, comments=True)[1:]:
            target, given, _ = word.partition("=")
            known = f"$({target})" if given else rf"^(?:[a-z -]+ )?{target}(?: [a-z -]+)?:"
            assert known in MAKEFILE or re.search(known, MAKEFILE, re.MULTILINE), command


def test_every_page_with_measured_figures_names_a_command_that_prints_them():
    measured = [page for page in PAGES if MEASURED.search(page.read_text(encoding="utf-8"))]
    assert len(measured) > 10
    for page in measured:
        assert commands(page, "make") | commands(page, "python -m lab"), page
