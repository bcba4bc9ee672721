"""Which columns of which file are which class."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Floats, Labels, Mask
from priorshift.adapt import reweight
from priorshift.border import (
    Block,
    Blocks,
    Predictions,
    Table,
    are_whole,
    as_text,
    check_logits,
    check_proba,
    is_array,
    is_missing,
    map_reduce,
    misspelt,
    read_labels,
    settle_classes,
    some,
    whole,
)
from priorshift.cli._console import note
from priorshift.cli._dask import cluster_rows
from priorshift.files import KeptRows, PredictionFile

Columns = tuple[str, ...] | None

MINUS_ONE = ("-1", "-1.0")
"""How a table may write that a label is not known."""

IN_MEMORY_BYTES = 2**27
"""Size of predictions up to which they are read at once: everything is quicker then."""


def class_columns(files: Sequence[PredictionFile], chosen: Columns) -> Columns:
    """Settle the class columns of all files; None where no file has names.

    They are those chosen; otherwise the classes that an npz names; otherwise the numeric columns
    that all tables have in common. The first file that has names settles their order.
    """
    if chosen is not None:
        return chosen
    named = [(file, file.names) for file in files if file.names is not None]
    fixed = [(file, names) for file, names in named if not file.is_table]
    tables = [(file, names) for file, names in named if file.is_table]
    if fixed:
        wanted = set(fixed[0][1])
        for file, names in fixed[1:] + tables:
            if wanted - set(names) if file.is_table else wanted ^ set(names):
                raise ValueError(_different([fixed[0][0], file]))
        return tuple(name for name in named[0][1] if name in wanted)
    if not tables:
        return None
    everywhere = set(tables[0][1]).intersection(*(names for _, names in tables))
    common = tuple(name for name in tables[0][1] if name in everywhere)
    if not common:
        raise ValueError(_different([file for file, _ in tables]))
    return common


def explain_columns(files: Sequence[PredictionFile], columns: Columns) -> str:
    """Say which columns were taken as classes, and which were not, as a help after an error."""
    if columns is None:
        return ""
    parts = [_spelling(files), f"Taken as classes: {some(columns, 20)}."]
    for file in files:
        others = _others(file, columns)
        if others:
            parts.append(f"Numeric only in {file.where}: {some(others, 20)}.")
    return " ".join(
        [
            *filter(None, parts),
            "Name them with --class-columns, or CLASS=COLUMN,..., if that is wrong.",
        ]
    )


def name_classes(columns: Columns, file: PredictionFile, labels: NDArray[Any] | None) -> Labels:
    """Name the classes as text: by columns, else by labels, else by position."""
    if columns is not None:
        return np.array(columns)
    numbers = None if labels is None else _numbers_if_all(labels)
    values = file.values(None)
    try:
        return as_text(settle_classes(Predictions(values), numbers))
    except ValueError:
        n_labels = 0 if numbers is None else np.unique(numbers).size
        raise ValueError(
            f"{file.where} has {values.shape[1]} columns without names but {n_labels} distinct "
            "labels; name the columns, in their order, with --class-columns."
        ) from None


def read_probabilities(
    file: PredictionFile, columns: Columns, files: Sequence[PredictionFile] = ()
) -> Predictions:
    """Read predictions as checked probabilities, columns in class order, into memory.

    `files` are all those whose classes were settled together, for a message that helps.
    """
    found = _checked(file.values(columns), file, columns, files)
    return replace(found, values=whole(found.values))  # half precision is converted in blocks


def read_rows(
    file: PredictionFile,
    columns: Columns,
    files: Sequence[PredictionFile] = (),
    client: Any = None,
) -> Predictions:
    """Return checked probabilities as `read_probabilities` does, but large files as tables.

    With a Dask client, its workers read the file.
    """
    if client is not None:
        table = cluster_rows(file, columns, client)
        return _checked(table, replace(file, kind="proba"), columns, files)
    rows = file.rows(columns)
    if not is_array(rows) and rows.size * rows.dtype.itemsize <= IN_MEMORY_BYTES:
        return read_probabilities(file, columns, files)
    return _checked(rows, file, columns, files)


def _checked(
    values: Any, file: PredictionFile, columns: Columns, files: Sequence[PredictionFile]
) -> Predictions:
    """Check that predictions are as many as the classes, and probabilities or logits."""
    if columns is not None and len(columns) != values.shape[1]:
        raise ValueError(
            f"{len(columns)} classes are named ({some(columns)}) but {file.where} has "
            f"{values.shape[1]} columns of predictions. {explain_columns(files, columns)}"
        )
    try:
        return _probabilities(values, file)
    except ValueError as error:
        if columns is not None and _sets_differ(files, columns):
            raise ValueError(_different(files)) from None
        if missing := _missing_predictions(values, file):
            raise ValueError(missing) from None
        negative = 0 not in values.shape and bool(map_reduce(_count_negative, values))
        hint = "Add --logits if these are logits. " if negative else ""
        raise ValueError(f"{error} {hint}{explain_columns(files, columns)}".strip()) from None


def _missing_predictions(values: Any, file: PredictionFile) -> str:
    """Say how many rows lack a prediction, and where the first is; nothing if none does."""
    if 0 in values.shape:
        return ""
    rows = map_reduce(_rows_with_nan, values)
    n, first = np.sum([count for count, _ in rows]), min(first for _, first in rows)
    if not n:
        return ""
    return (
        f"{file.where} has no prediction in {n:,} of {values.shape[0]:,} rows, first in "
        f"{file.place(int(first))}; fill in the empty cells, or leave out such rows with "
        "--drop-missing."
    )


def _rows_with_nan(block: Block, rows: slice) -> list[tuple[int, float]]:
    found = np.flatnonzero(np.isnan(np.asarray(block)).any(axis=1))
    return [(found.size, rows.start + found[0] if found.size else np.inf)]


def lacks(raw: NDArray[Any]) -> Mask:
    """Tell which cells hold nothing."""
    return np.fromiter(
        (is_missing(value) or (isinstance(value, str) and not value.strip()) for value in raw),
        bool,
        raw.size,
    )


def require_labels(raw: NDArray[Any], file: PredictionFile, where: str) -> None:
    """Refuse labels that are missing; say how many, and where the first is."""
    empty = np.flatnonzero(lacks(raw))
    if empty.size:
        raise ValueError(
            f"{where} has no label in {empty.size:,} of {raw.size:,} rows, first in "
            f"{file.place(int(empty[0]))}; fill in the empty cells, or leave out such rows with "
            "--drop-missing."
        )


def without_missing(
    file: PredictionFile, predictions: Mask, labels: NDArray[Any] | None = None
) -> PredictionFile:
    """Leave out rows without predictions or labels, and tell how many."""
    unlabelled = np.zeros_like(predictions) if labels is None else lacks(labels) & ~predictions
    parts = ((predictions, "without predictions"), (unlabelled, "without a label"))
    counts = [f"{np.count_nonzero(rows):,} {what}" for rows, what in parts if rows.any()]
    left_out = predictions | unlabelled
    if counts:
        n = np.count_nonzero(left_out)
        note(f"{file.where}: left out {n:,} of {left_out.size:,} rows: {', '.join(counts)}.")
    return KeptRows.of(file, ~left_out)


def read_text_labels(raw: NDArray[Any], n_rows: int, where: str) -> Labels:
    """Check labels, one per row, and turn them into text."""
    labels = as_text(read_labels(raw, n_rows, where))
    empty = np.flatnonzero(labels == "")
    if empty.size:
        raise ValueError(
            f"{where} has no label at row {empty[0]} ({empty.size} missing); drop these rows."
        )
    return labels


def some_labels(raw: NDArray[Any], classes: Labels, where: str) -> NDArray[np.object_] | None:
    """Check labels of which some are missing, and turn them into text; None stands for those.

    Nothing, NaN and an empty cell are missing, and so is -1 where it is no class. None is returned
    where all are.
    """
    known = _has_label(raw, classes)
    if not known.any():
        return None
    found = np.full(raw.size, None, dtype=object)
    labels = np.array(raw[known].tolist())
    found[known] = known_labels(read_text_labels(labels, labels.size, where), classes, where)
    return found


def classes_of_some(decided: Labels, raw: NDArray[Any]) -> Labels:
    """Name the classes where there are decisions on a target and labels of some of its rows."""
    named = np.unique(decided)
    labels = as_text(np.array(raw[_has_label(raw, named)].tolist()))
    with suppress(ValueError):  # tables write whole numbers beside missing ones with a point
        labels = as_text(labels.astype(np.float64))
    return np.unique(np.concatenate([named, labels])) if labels.size else named


def _has_label(raw: NDArray[Any], classes: Labels) -> Mask:
    """Tell which rows have a label."""
    values = raw.astype(object)
    known = ~np.fromiter((is_missing(value) or value == "" for value in values), bool, raw.size)
    if "-1" not in classes:
        known &= np.fromiter((str(value) not in MINUS_ONE for value in values), bool, raw.size)
    return known


def known_labels(labels: Labels, classes: Labels, where: str, explanation: str = "") -> Labels:
    """Refuse labels that are no class; 1.0 may stand for the class "1"."""
    strange = np.setdiff1d(labels, classes)
    if not strange.size:
        return labels
    try:  # tables write whole numbers beside missing ones with a point
        numbers = as_text(labels.astype(np.float64))
    except ValueError:
        numbers = labels
    if np.isin(numbers, classes).all():
        return numbers
    raise ValueError(
        f"{where} has labels that are not among the classes: {some(strange.tolist())}; the "
        f"classes are {some(classes.tolist(), 20)}. "
        f"{misspelt(classes.tolist(), np.unique(labels).tolist()) or explanation}".rstrip()
    )


def _probabilities(values: Any, file: PredictionFile) -> Predictions:
    if values.shape[1] < 2:
        raise ValueError(f"{file.where} has one column of predictions; give one column per class.")
    if file.kind == "logits" and is_array(values):
        return Predictions.from_checked(_softmax(values, file.where))
    if file.kind == "logits":
        values = ProbabilityTable(values, file.where)
    return check_proba(values, name=file.where, tables=True)


@dataclass(frozen=True, eq=False)
class ProbabilityTable(Table):
    """The probabilities of a table of logits, which are checked whenever they are read."""

    logits: Table
    where: str

    def __post_init__(self) -> None:
        for name in ("shape", "dtype", "names"):
            object.__setattr__(self, name, getattr(self.logits, name))

    def blocks(self, part: slice, n_rows: int) -> Blocks:
        """Yield blocks through a softmax."""
        for rows, block in self.logits.blocks(part, n_rows):
            try:
                yield rows, _softmax(block, self.where)
            except ValueError as error:
                where = f" (Row 0 of this block is row {rows.start} of the file.)"
                raise ValueError(f"{error}{where if rows.start else ''}") from None

    def parts(self, n_parts: int) -> list[slice]:
        """Cut as the logits are cut."""
        return self.logits.parts(n_parts)


def _softmax(values: Floats, where: str) -> Floats:
    logits = check_logits(values, name=where).values
    return reweight(logits, np.ones(logits.shape[1]), from_logits=True)


def _count_negative(block: Block, rows: slice) -> int:  # noqa: ARG001
    return int(np.count_nonzero(block < 0))


def _others(file: PredictionFile, columns: Sequence[str]) -> list[str]:
    """Return what might have been classes too."""
    return [name for name in file.names or () if name not in columns]


def _sets_differ(files: Sequence[PredictionFile], columns: Sequence[str]) -> bool:
    """Tell whether all numeric columns of each file make probabilities: then they are classes."""
    if len({frozenset(file.names or columns) for file in files}) < 2:
        return False
    try:
        for file in files:
            _probabilities(file.rows(file.names), file)
    except ValueError:
        return False
    return True


def _numbers_if_all(labels: NDArray[Any]) -> NDArray[Any]:
    """Read text as whole numbers where all of it is: "10" comes after "2"."""
    if labels.dtype.kind == "u" or (labels.dtype.kind == "f" and not are_whole(labels)):
        return labels
    try:
        return labels.astype(np.int64)
    except (ValueError, OverflowError):
        return labels


def _different(files: Sequence[PredictionFile]) -> str:
    one, other = (
        f"{file.where} ({some(file.names, 20) if file.names else 'no numeric column'})"
        for file in (files[0], files[-1])
    )
    return (
        f"the classes of {one} are not those of {other}; rename the columns, or choose with "
        f"--class-columns. {_spelling((files[0], files[-1]))}".rstrip()
    )


def _spelling(files: Sequence[PredictionFile]) -> str:
    """Suggest the column that another file calls nearly as the first does."""
    if not files or files[0].names is None:
        return ""
    for file in files[1:]:
        if file.is_table and (said := misspelt(file.header, files[0].names)):
            return f"{file.where}: {said}"
    return ""
