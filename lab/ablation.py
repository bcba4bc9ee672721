"""Auto with one part taken away, or one constant of its gate changed, at a time.

These are its insides, so this file follows them.
"""

from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any
from unittest.mock import patch

import numpy as np


def inside(name: str, value: Any) -> AbstractContextManager[Any]:
    """Replace something of priorshift by another."""
    return patch(f"priorshift.{name}", value)


def without(*words: str) -> AbstractContextManager[Any]:
    """Leave out candidate maps whose names have one of these words; the rest are fitted as ever."""
    fit = import_module("priorshift.calibration.average")._all_candidates

    def fewer(*given: Any) -> list[Any]:
        named = [(f"{one.name},".split(), one) for one in fit(*given)]
        return [one for name, one in named if not set(words) & {w.strip(",") for w in name}]

    return inside("calibration.average._all_candidates", fewer)


def likeliest(_: Any, start: Any, *__: Any) -> tuple[Any, Any, int, bool]:
    """Stand in for the posterior of the shares: where it begins, and sure of it."""
    return start, np.zeros((start.size, start.size)), 0, True


def without_refits() -> AbstractContextManager[Any]:
    """Estimate shares as if the calibrator were known exactly."""
    estimate = import_module("priorshift.estimators.shares").estimate_shares
    return inside("estimators.auto.estimate_shares", lambda P, source, *_: estimate(P, source))


def always(gain: Any, **_: Any) -> Any:
    """Rule that adapting helps, whatever it gains."""
    return import_module("priorshift.verdict").Ruling("adapt", "adapt", "helps", gain)


VARIANTS: dict[str, AbstractContextManager[Any]] = {
    "Auto": nullcontext(),
    "no temperature with biases": without("bcts"),
    "no matrices": without("ms"),
    "a floor for matrices too": inside("calibration.average._matrix_nats", lambda _: 0.0),
    "no balanced candidate": inside("calibration.average.BALANCED", np.inf),
    "no ridge of 100": without("100"),
    "no ridge of 10": without("10"),
    "no ridge of 1": without("1"),
    "no ridge of 0.1": without("0.1"),
    "no shrinkage of shares": inside("estimators.shares._posterior", likeliest),
    "no jackknife: a row counts as one": without_refits(),
    "shares of the population": inside("estimators.shares._realised", lambda _, priors, __: priors),
    "shares from calibrated outputs only": inside("estimators.auto.LEAST_RAW", 1.0),
    "one reading of the shares": inside("estimators.auto.LEAST_SHARE", 1.0),
    "a gate that overlooks the spread over maps": inside(
        "estimators.auto._variance", lambda values, _: 0.0 * values[0]
    ),
    "in full or not at all": inside("estimators.auto.STRENGTHS", (1.0,)),
    "always adapt, in full": inside("estimators.auto.judge_gain", always),
}
"""The first is Auto as it is."""


def cautious(errors: float) -> AbstractContextManager[Any]:
    """Ask for so many standard errors, whatever Auto is told."""
    ask = import_module("priorshift.verdict").judge_gain
    return inside(
        "estimators.auto.judge_gain",
        lambda gain, **given: ask(gain, **(given | {"caution": errors})),
    )


GATE: dict[str, dict[str, AbstractContextManager[Any]]] = {
    "CAUTION": {f"{errors:g}": cautious(errors) for errors in (1.0, 0.8, 1.2, 1.5)},
    "MODEL_SAMPLES": {
        f"{rows:g}": inside("estimators.auto.MODEL_SAMPLES", rows)
        for rows in (20.0, 5.0, 10.0, 40.0)
    },
    "STRENGTHS": {
        "1, 1/2": nullcontext(),
        **{
            name: inside("estimators.auto.STRENGTHS", powers)
            for name, powers in {"1": (1.0,), "1, 1/2, 1/4": (1.0, 0.5, 0.25)}.items()
        },
    },
}
"""The constants of the gate, each with other values; the first is today's."""
