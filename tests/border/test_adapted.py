"""Predictions that were adapted before are noticed, whatever they are kept in."""

import gc
import warnings

import numpy as np
import pandas as pd
import pytest

import priorshift as ps
from priorshift.border import adapted as module


@pytest.fixture
def found(simulate, rng):
    world = simulate(3)
    y_proba_val, y_val = world.draw(world.source_priors, 600, rng)
    y_proba = world.draw(np.array([0.1, 0.2, 0.7]), 900, rng)[0]
    return ps.assess(y_proba_val, y_val, y_proba), y_proba_val, y_val, y_proba


@pytest.mark.parametrize("kind", ["array", "part", "pandas", "polars"])
def test_a_target_that_is_adapted_twice_warns(kind, found):
    assessment, y_proba_val, y_val, y_proba = found
    names = ["0", "1", "2"]
    given = y_proba
    if kind in ("pandas", "polars"):
        library = pytest.importorskip(kind)
        given = library.DataFrame(dict(zip(names, y_proba.T, strict=True)))
    adapted = assessment.estimate.with_action("adapt").adapt(given)
    adapted = adapted[10:] if kind == "part" else adapted
    with pytest.warns(ps.PriorShiftWarning, match="y_proba was adapted already"):
        assessment.estimate.with_action("adapt").adapt(adapted)
    with pytest.warns(ps.PriorShiftWarning, match="y_proba_target was adapted already"):
        ps.assess(y_proba_val, y_val, adapted, classes=[0, 1, 2])
    fitted = ps.EM().fit(y_proba_val, y_val, classes=[0, 1, 2])
    with pytest.warns(ps.PriorShiftWarning, match="y_proba was adapted already"):
        fitted.estimate(adapted)


def test_what_was_left_alone_or_forgotten_does_not_warn(found):
    assessment, *_, y_proba = found
    same = assessment.estimate.with_action("none").adapt(y_proba)
    assessment.estimate.adapt(same)
    adapted = assessment.estimate.with_action("adapt").adapt(y_proba)
    before = len(module._ADAPTED)
    del adapted
    gc.collect()
    assert len(module._ADAPTED) < before


def test_an_adapter_that_changes_nothing_marks_nothing(rng):
    frame = pd.DataFrame(rng.dirichlet(np.ones(2), 30), columns=["a", "b"])
    adapter = ps.Adapter(["a", "b"], [0.5, 0.5], [0.8, 0.2])
    changed, same = adapter(frame), adapter(frame, strength=0)
    with pytest.warns(ps.PriorShiftWarning, match="was adapted already"):
        adapter(changed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        adapter(same)
