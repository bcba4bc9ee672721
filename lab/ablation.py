"""Auto with one part taken away at a time. These are its insides, so this file follows them."""

from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any
from unittest.mock import patch

import numpy as np


def inside(name: str, value: Any) -> AbstractContextManager[Any]:
    """Replace something of priorshift by another."""
    return patch(f"priorshift.{name}", value)


def only_families(*kept: str) -> AbstractContextManager[Any]:
    """Let Auto fit these families of maps beside temperatures, and no others."""
    families = import_module("priorshift.calibration.average")._families
    few = lambda K: ((name, each) for name, each in families(K) if name in kept)  # noqa: E731
    return inside("calibration.average._families", few)


def likeliest(_: Any, start: Any, *__: Any) -> tuple[Any, Any, int, bool]:
    """Stand in for the posterior of the shares: where it begins, and sure of it."""
    return start, np.zeros((start.size, start.size)), 0, True


def always(*_: Any) -> Any:
    """Rule that adapting helps, whatever it gains."""
    verdict = import_module("priorshift.verdict")
    return verdict.Ruling("adapt", "adapt", "helps", verdict.Gain(0.0, 0.0))


VARIANTS: dict[str, AbstractContextManager[Any]] = {
    "Auto": nullcontext(),
    "temperatures only": only_families(),
    "temperatures and biases": only_families("bcts"),
    "no balanced candidates": inside("calibration.average.BALANCED", np.inf),
    "no matrices above no floor": inside("calibration.average.WEAK_RIDGES", ()),
    "no shrinkage of shares": inside("estimators.shares._posterior", likeliest),
    "no jackknife: a row counts as one": inside(
        "estimators.shares._jackknife", lambda _, noise: np.zeros_like(noise)
    ),
    "shares of the population": inside("estimators.shares._realised", lambda _, priors, __: priors),
    "shares from calibrated outputs only": inside("estimators.auto.LEAST_RAW", 1.0),
    "one reading of the shares": inside("estimators.auto.LEAST_SHARE", 1.0),
    "always adapt": inside("estimators.auto.Auto._judge", always),
}
"""The first is Auto as it is."""
