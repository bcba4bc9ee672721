"""What CONTRIBUTING says about the code's shape, checked."""

import importlib
import inspect
import pkgutil
import sys

import numpy as np
import pytest

import priorshift as ps

MOST_LEVELS = 2
"""Levels of inheritance of our own."""


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


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of modules that moved
def test_inheritance_is_shallow():
    deep = {cls.__qualname__: depth(cls) for cls in own_classes() if depth(cls) > MOST_LEVELS}
    assert deep == {}


def modules_called(run):
    """Name the modules of priorshift whose functions a call passes through."""
    called = set()

    def note(frame, event, _):
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("priorshift"):
            called.add(name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return called


def test_one_method_can_be_read_in_few_files():
    y_proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.9, 0.1], [0.2, 0.8]])
    ps.EM()  # so that nothing is imported on the way
    called = modules_called(lambda: ps.EM().fit(source_priors=[0.5, 0.5]).estimate(y_proba))
    assert "priorshift.estimators.em" in called
    assert len(called) <= 14, sorted(called)
