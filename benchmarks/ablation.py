"""What every part of Auto earns: the same tasks with one part taken away at a time."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.judging import Figures, figures, judge, markdown
from priorshift.calibration import average
from priorshift.compare import ShiftTask
from priorshift.estimators import Auto, auto, shares
from priorshift.verdict import Gain, Ruling

Change = Callable[[], AbstractContextManager[Any]]


def only_families(*kept: str) -> Change:
    """Let Auto fit these families of maps beside temperatures, and no others."""
    families = average._families

    def of_classes(n_classes: int) -> Iterator[Any]:
        return ((name, family) for name, family in families(n_classes) if name in kept)

    return lambda: patch.object(average, "_families", of_classes)


def no_balanced_candidates() -> AbstractContextManager[Any]:
    return patch.object(average, "BALANCED", np.inf)


def no_maps_without_floor() -> AbstractContextManager[Any]:
    return patch.object(average, "WEAK_RIDGES", ())


def no_evidence() -> AbstractContextManager[Any]:
    def likeliest(_: Any, start: Any, *__: Any) -> tuple[Any, Any, int, bool]:
        return start, np.zeros((start.size, start.size)), 0, True

    return patch.object(shares, "_posterior", likeliest)


def of_the_population() -> AbstractContextManager[Any]:
    return patch.object(shares, "_realised", lambda _, priors, __: priors)


def no_jackknife() -> AbstractContextManager[Any]:
    return patch.object(shares, "_jackknife", lambda _, noise: np.zeros_like(noise))


def no_raw_outputs() -> AbstractContextManager[Any]:
    return patch.object(auto, "LEAST_RAW", 1.0)


def one_reading() -> AbstractContextManager[Any]:
    return patch.object(auto, "LEAST_SHARE", 1.0)


def always_adapt() -> AbstractContextManager[Any]:
    return patch.object(
        Auto, "_judge", lambda *_: Ruling("adapt", "adapt", "helps", Gain(0.0, 0.0))
    )


VARIANTS: dict[str, Change] = {
    "Auto": nullcontext,
    "temperatures only": only_families(),
    "temperatures and biases": only_families("bcts"),
    "no balanced candidates": no_balanced_candidates,
    "no matrices above no floor": no_maps_without_floor,
    "no shrinkage of shares": no_evidence,
    "no jackknife: a row counts as one": no_jackknife,
    "shares of the population": of_the_population,
    "shares from calibrated outputs only": no_raw_outputs,
    "one reading of the shares": one_reading,
    "always adapt": always_adapt,
}
"""The first is Auto as it is."""


def ablation(tasks: Callable[[], Iterator[ShiftTask]]) -> str:
    """Return a table: one row per variant, with source priors given and without."""
    what = ("gain", "worst, n >= 1000", "L1 error")
    header = ["variant", *(f"{given}: {name}" for given in ("given", "plain") for name in what)]
    rows = []
    for name, change in VARIANTS.items():
        cells = []
        for plain in (False, True):
            with change():
                cells += shown(figures(judge(tasks(), ["auto"], plain=plain), "auto", ()))
        rows.append([name, *cells])
    return f"**Auto with a part taken away**\n\n{markdown(header, rows)}"


def shown(found: Figures) -> list[str]:
    return [f"{found.gain:+.2f}", f"{found.worst_large:+.2f}", f"{found.l1_error:.3f}"]
