"""What CONTRIBUTING says about the code's shape, checked."""

import importlib
import inspect
import pickle
import pkgutil
from pathlib import Path

import numpy as np
import pytest

import priorshift as ps

MOST_LEVELS = 3
"""Levels of inheritance of our own."""

ROOT = Path(__file__).parents[1]
SOURCE, TESTS = ROOT / "src" / "priorshift", ROOT / "tests"

TESTED_TOGETHER = {"cases", "rows", "traits"}
"""Test files about several modules of their package at once."""


def own_classes():
    """Yield the classes that priorshift defines, wherever they are."""
    for module in pkgutil.walk_packages(ps.__path__, "priorshift."):
        if module.name.endswith("__main__"):
            continue
        try:
            members = vars(importlib.import_module(module.name))
        except ImportError:  # an extra that is not installed
            continue
        for thing in members.values():
            if inspect.isclass(thing) and thing.__module__ == module.name:
                yield thing


def depth(cls):
    """Count the levels of our own above a class."""
    parents = [base for base in cls.__bases__ if base.__module__.startswith("priorshift")]
    return max((1 + depth(base) for base in parents), default=0)


def test_inheritance_is_shallow():
    deep = {cls.__qualname__: depth(cls) for cls in own_classes() if depth(cls) > MOST_LEVELS}
    assert deep == {}


def test_no_file_is_a_drawer():
    names = {path.stem.strip("_") for path in SOURCE.rglob("*.py")}
    assert names & {"utils", "util", "helpers", "common", "misc"} == set()


@pytest.mark.parametrize("name", ps.available_estimators(target_labels=True))
def test_what_fit_finds_ends_in_an_underscore_and_estimating_leaves_it(name, simulate, rng):
    y_proba, y = simulate(3).draw(np.full(3, 1 / 3), 60, rng)
    fitted = ps.get_estimator(name).fit(y_proba, y)
    found = {each for each in vars(fitted) if not each.startswith("_")} - set(fitted.get_params())
    assert found
    assert all(each.endswith("_") for each in found), found
    before = pickle.dumps(fitted)
    fitted.estimate(y_proba, **({"y_target": y} if fitted.target_labels == "required" else {}))
    assert pickle.dumps(fitted) == before


def modules_of(package):
    """Name the modules of a package as its tests do, without the underscore."""
    return {path.stem.lstrip("_") for path in package.glob("*.py")} - {"init__"}


def test_tests_mirror_the_source():
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    modules = {path.stem for path in SOURCE.glob("*.py")}
    folders = {path.parent.name for path in TESTS.glob("*/test_*.py")}
    assert folders - packages - modules == {"extras", "lab"}
    alone = {path.stem.removeprefix("test_") for path in TESTS.glob("test_*.py")}
    assert {name.lstrip("_") for name in packages} - folders - alone == set()


@pytest.mark.parametrize("name", ["adapt", "calibration", "border", "estimators", "solvers"])
def test_a_test_file_is_named_after_its_module(name):
    modules = modules_of(SOURCE / name)
    for path in (TESTS / name).glob("test_*.py"):
        tested = path.stem.removeprefix("test_")
        known = any(tested == module or tested.startswith(f"{module}_") for module in modules)
        assert known or tested in TESTED_TOGETHER, path
