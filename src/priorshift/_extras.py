"""What to install where a package is missing that only some parts of priorshift need."""

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
