"""Which predictions were adapted before: adapting them again would correct twice."""

import weakref
from contextlib import suppress
from typing import Any

from priorshift.exceptions import PriorShiftWarning, warn_user

_ADAPTED: dict[int, weakref.ref[Any]] = {}
"""Adapted predictions by their id, for as long as they live."""


def mark_adapted(y_proba: Any, *, changed: bool) -> Any:
    """Remember predictions that were adapted, if that changed anything; return them."""
    key = id(y_proba)
    with suppress(TypeError):  # of some kinds there are no weak references
        if changed:
            _ADAPTED[key] = weakref.ref(y_proba, lambda _: _ADAPTED.pop(key, None))
    return y_proba


def warn_if_adapted(y_proba: Any, name: str = "y_proba") -> None:
    """Warn of predictions, or a part of an array of them, that were adapted before."""
    for one in (y_proba, getattr(y_proba, "base", None)):
        known = _ADAPTED.get(id(one))
        if known is not None and known() is one:
            warn_user(
                f"{name} was adapted already: its predictions follow other priors than the "
                "classifier's. Pass the predictions as they came from the classifier.",
                PriorShiftWarning,
            )
