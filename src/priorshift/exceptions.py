"""Warnings that you can filter by name, and errors that say what to install."""

import sys
import warnings

from sklearn.exceptions import ConvergenceWarning

__all__ = ["ConvergenceWarning", "PriorShiftWarning", "missing", "warn_user"]


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
