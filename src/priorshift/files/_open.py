"""Open a file of predictions; its suffix says which format it has."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from priorshift.files._arrow import ArrowFile, ParquetFile
from priorshift.files._base import PredictionFile
from priorshift.files._csv import CsvFile
from priorshift.files._numpy import NpyFile, NpzFile

SUFFIXES: dict[str, type[PredictionFile]] = {
    ".csv": CsvFile,
    ".csv.gz": CsvFile,
    ".tsv": CsvFile,
    ".parquet": ParquetFile,
    ".arrow": ArrowFile,
    ".feather": ArrowFile,
    ".npz": NpzFile,
    ".npy": NpyFile,
}


def suffix_of(path: Path) -> str:
    """Return the suffix that says which format a file has: `.csv.gz` counts as one.

    Examples
    --------
    >>> suffix_of(Path("jan.2026.CSV.gz")), suffix_of(Path("jan.2026.parquet"))
    ('.csv.gz', '.parquet')
    """
    name = path.name.lower()
    for known in SUFFIXES:
        if name.endswith(known):
            return known
    return path.suffix.lower()


def require_file(path: Path) -> None:
    """Refuse a folder, a pipe or a device: opening a pipe would wait for a writer forever."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file in it.")
    if path.exists() and not path.is_file():
        raise ValueError(
            f"{path} is a pipe or a device, but files are read more than once; save it to a file "
            "first. Commands read CSV from stdin if you pass -."
        )


def open_predictions(
    path: str | os.PathLike[str],
    *,
    label_column: str | None = None,
    logits: bool = False,
    title: str = "",
    ignored: Sequence[str] = (),
    bounded: bool = True,
) -> PredictionFile:
    r"""Open a file of predictions; only its header is read yet.

    Parameters
    ----------
    path : str or path-like
        A file whose suffix is its format: csv, csv.gz, tsv, parquet, arrow, feather, npz or npy.
        The header of a CSV file tells whether commas, semicolons or tabs separate its cells.
    label_column : str, optional
        Column of the labels, by default "label"; in an npz the key, by default "y".
    logits : bool, default=False
        Whether predictions are logits. In an npz, the key `logits` has the same effect.
    title : str, optional
        What messages call the file, by default its path.
    ignored : sequence of str, optional
        Columns that are not classes, even if they hold numbers.
    bounded : bool, default=True
        Whether to refuse a file with a line above 16 MB, or one that expands to more than 1 GB and
        100 times its size: it may have been made to fill your memory.

    Returns
    -------
    PredictionFile

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from priorshift.files import open_predictions
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "target.csv"
    ...     _ = path.write_text("site,cat,dog\nnorth,0.9,0.1\n")
    ...     file = open_predictions(path)
    ...     file.names, file.values(["dog", "cat"]).tolist()
    (('cat', 'dog'), [[0.1, 0.9]])
    """
    path = Path(path)
    kind = SUFFIXES.get(suffix_of(path))
    if kind is None:
        raise ValueError(
            f"{path} has an unknown suffix ({path.suffix or 'none'}); use one of "
            f"{', '.join(SUFFIXES)}."
        )
    require_file(path)
    file = kind(
        path,
        title or str(path),
        label_column or ("y" if kind is NpzFile else "label"),
        "logits" if logits else "proba",
        bounded,
        tuple(ignored),
    )
    if isinstance(file, NpzFile) and "logits" in file.keys and "y_proba" not in file.keys:
        return replace(file, kind="logits")
    return file
