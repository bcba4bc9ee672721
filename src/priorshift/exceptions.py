"""Warnings that you can filter by name, and what messages call arguments and packages."""

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from types import MappingProxyType

from sklearn.exceptions import ConvergenceWarning as ConvergenceWarning

_names: ContextVar[Mapping[str, str]] = ContextVar("_names", default=MappingProxyType({}))


def argument(name: str, text: str | None = None) -> str:
    """Return what the reader of a message calls an argument: a command has options instead.

    `text` is what a message says in Python, if it is more than the name.

    Examples
    --------
    >>> argument("source_priors"), argument("interval_method=bootstrap", "method='bootstrap'")
    ('source_priors', "method='bootstrap'")
    >>> with use_names({"source_priors": "--source-priors"}):
    ...     argument("source_priors")
    '--source-priors'
    """
    return _names.get().get(name, name if text is None else text)


@contextmanager
def use_names(names: Mapping[str, str]) -> Iterator[None]:
    """Let messages call arguments by other names."""
    token = _names.set(names)
    try:
        yield
    finally:
        _names.reset(token)


class PriorShiftWarning(UserWarning):
    """Say that an answer was found, but rests on less than it should.

    Raised when a class is missing from validation, when a solution had to be clipped, or when
    target decisions occur that validation says are impossible.
    """


class KeptRowsWarning(PriorShiftWarning):
    """Say how many rows of how many have no class left, and keep their probabilities."""

    def __init__(self, n_kept: int, n_rows: int) -> None:
        super().__init__(n_kept, n_rows)
        self.n_kept, self.n_rows = n_kept, n_rows

    def __str__(self) -> str:
        return (
            f"{self.n_kept} of {self.n_rows} rows have no class left that the target priors allow; "
            "they keep their original probabilities."
        )


def warn_user(message: str | Warning, category: type[Warning] = PriorShiftWarning) -> None:
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


def require(what: str, extra: str, *modules: str) -> None:
    """Import modules that something needs, or say what to install.

    Examples
    --------
    >>> require("a plot", "plot", "nonesuch")
    Traceback (most recent call last):
    ImportError: a plot needs nonesuch, which is not installed: pip install nonesuch matplotlib
    """
    for module in modules:
        try:
            import_module(module)
        except ImportError as error:
            raise missing(what, error.name or module, extra) from None


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
