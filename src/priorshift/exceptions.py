"""Warnings that priorshift raises, so that users can filter them by name."""

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from sklearn.exceptions import ConvergenceWarning

__all__ = ["ConvergenceWarning", "PriorShiftWarning", "moved", "warn_user"]


class PriorShiftWarning(UserWarning):
    """Say that an answer was found, but rests on less than it should.

    Raised when a class is missing from validation, when a solution had to be clipped, or when
    target decisions occur that validation says are impossible.
    """


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the user's own line: the first frame outside the package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        "priorshift."
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def moved(
    old: str, new: str, *, removed_in: str, renamed: Mapping[str, str] | None = None
) -> Callable[[str], Any]:
    """Make the `__getattr__` of a module whose names have moved to another one.

    Parameters
    ----------
    old, new : str
        Names of both modules. The new one is imported when the first name is used.
    removed_in : str
        Version in which the old module goes.
    renamed : mapping from old to new name, optional
    """

    def __getattr__(name: str) -> Any:  # noqa: N807
        goal = (renamed or {}).get(name, name)
        module = import_module(new)
        if goal not in module.__all__:
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        warn_user(
            f"{old}.{name} has moved; import {goal} from {new} instead. The old name will be "
            f"removed in priorshift {removed_in}.",
            FutureWarning,
        )
        return getattr(module, goal)

    return __getattr__
