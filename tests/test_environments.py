"""What `make` installs: every version pinned, and within the bounds that users get."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
GROUPS = PROJECT["dependency-groups"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
NAMES = sorted(path.stem for path in (ROOT / "constraints").glob("*.txt"))


def variable(name):
    """Return a variable of the Makefile, with what it names filled in."""
    (value,) = re.findall(rf"^{name} := (.*)$", MAKEFILE, re.MULTILINE)
    return re.sub(r"\$\((\w+)\)", lambda found: variable(found[1]), value)


def lines(name):
    text = (ROOT / "constraints" / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]


def pins(name):
    return {pin: Version(version) for pin, version in (line.split("==") for line in lines(name))}


def group(name):
    for line in GROUPS[name]:
        if isinstance(line, dict):
            yield from group(line["include-group"])
        else:
            yield line


def asked(name):
    """Return what an environment is asked to hold, and what builds it, by name."""
    options = variable(name)
    asked = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    for extra in re.search(r"\[(.*?)\]", options)[1].split(","):
        asked += EXTRAS[extra]
    for chosen in re.findall(r"--group (\S+)", options):
        asked += group(chosen)
    return {canonicalize_name(each.name): each for each in map(Requirement, asked)}


def test_every_environment_is_pinned():
    assert variable("ENVIRONMENTS").split() == NAMES
    assert set(re.findall(r"(?<=\.venv-)\w+(?=/)", MAKEFILE)) | {"dev"} == {*NAMES, "newest"}


@pytest.mark.parametrize("name", NAMES)
def test_pins_are_versions_and_nothing_else(name):
    found = lines(f"{name}.txt")
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*==\d[\w.]*", line) for line in found)
    assert len(found) == len({line.partition("==")[0] for line in found})
    assert {"pip", "hatchling", "editables"} <= pins(f"{name}.txt").keys()


@pytest.mark.parametrize("name", NAMES)
def test_pins_are_within_the_bounds(name):
    pinned = pins(f"{name}.txt")
    for package, requirement in asked(name).items():
        assert pinned[package] in requirement.specifier, requirement


@pytest.mark.parametrize("path", sorted((ROOT / "constraints").glob("*.in")), ids=lambda p: p.stem)
def test_pins_heed_what_was_decided_by_hand(path):
    pinned = pins(f"{path.stem}.txt")
    for requirement in map(Requirement, lines(path.name)):
        assert pinned[requirement.name] in requirement.specifier, requirement


def test_the_oldest_environment_holds_the_lower_bounds():
    pinned = pins("oldest.txt")
    bounds = [*PROJECT["project"]["dependencies"], *EXTRAS["report"], *EXTRAS["tables"]]
    for requirement in map(Requirement, bounds):
        (bound,) = requirement.specifier
        assert pinned[canonicalize_name(requirement.name)] == Version(bound.version), requirement


def test_users_get_lower_bounds_only():
    every = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    every += [line for extra in EXTRAS.values() for line in extra]
    every += [line for name in GROUPS for line in group(name)]
    for requirement in map(Requirement, every):
        assert {bound.operator for bound in requirement.specifier} <= {">="}, requirement


def test_the_conda_recipe_has_the_bounds_of_the_package():
    recipe = (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    parts = re.search(r"  run:\n(.*?)  run_constraints:\n(.*?)\n\n", recipe, re.DOTALL).groups()
    run, constrained = (dict(re.findall(r"^ +- (\S+) (>=\S+)$", part, re.M)) for part in parts)
    project = PROJECT["project"]
    wanted = {each.name: str(each.specifier) for each in map(Requirement, project["dependencies"])}
    assert run == {"python": project["requires-python"], **wanted}
    called = {"matplotlib": "matplotlib-base", "dask": "dask-core", "torch": "pytorch"}
    optional = {
        called.get(each.name, each.name): str(each.specifier)
        for extra in EXTRAS.values()
        for each in map(Requirement, extra)
    }
    assert constrained.items() <= optional.items()
    (version,) = re.findall(r'^  version: "(.*)"', recipe, re.M)
    stored = (ROOT / "src/priorshift/_version.py").read_text(encoding="utf-8")
    assert f'__version__ = "{version}"' in stored


def test_workflows_call_targets_that_exist():
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    called = " ".join(re.findall(r"run: make ([^#\n]*)", workflow))
    assert set(re.findall(r"[a-z][a-z-]+", called.replace("matrix.python", ""))) <= {
        *re.findall(r"^([a-z-]+):.*##", MAKEFILE, re.MULTILINE)
    }


def test_coverage_is_measured_where_nobody_waits_for_it():
    assert "make test COVERAGE=1" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "$(if $(COVERAGE),--cov)" in MAKEFILE
