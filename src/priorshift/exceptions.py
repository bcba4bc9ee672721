"""Warnings that you can filter by name, and errors that say what to install."""

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from sklearn.exceptions import ConvergenceWarning

__all__ = ["ConvergenceWarning", "PriorShiftWarning", "missing", "moved", "warn_user"]


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


EXTRAS = {
    "plot": ("matplotlib",),
    "report": ("jinja2", "matplotlib"),
    "tables": ("narwhals", "pyarrow"),
    "dask": ("dask[array]", "distributed"),
    "spark": ("pyspark[sql]",),
    "torch": ("torch",),
    "train": ("torch", "pillow"),
}
"""The packages of each extra, as in pyproject.toml."""


def missing(what: str, package: str, extra: str) -> ImportError:
    """Return an error that says what to install.

    It names the packages themselves: that works in a clone, and after any kind of installation.

    Examples
    --------
    >>> print(missing("a report", "jinja2", "report"))
    a report needs jinja2, which is not installed: pip install jinja2 matplotlib
    >>> print(missing("a frame", "polars", "tables"))
    a frame needs polars, which is not installed: pip install polars narwhals pyarrow
    """
    names = EXTRAS[extra]
    root = package.partition(".")[0]
    if not any(name.partition("[")[0] == root for name in names):
        names = (root, *names)
    command = " ".join(f"'{name}'" if "[" in name else name for name in names)
    return ImportError(f"{what} needs {root}, which is not installed: pip install {command}")
