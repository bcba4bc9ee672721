"""Predictions and labels of a file, checked: errors name the file, the row and the option."""

import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priorshift import border
from priorshift._typing import Floats, Labels, Mask
from priorshift.adapt import reweight
from priorshift.files import PredictionFile, explain_classes, say_different

Columns = tuple[str, ...] | None

IN_MEMORY_BYTES = 2**29
"""Size of predictions up to which they are read at once: everything is quicker then."""


def read_rows(
    file: PredictionFile,
    columns: Columns,
    files: Sequence[PredictionFile] = (),
    *,
    in_memory: bool = False,
) -> border.Predictions:
    """Return checked probabilities, columns in class order; of a large file as a table.

    `files` are all those whose classes were settled together, for a message that helps.
    """
    rows = file.rows(columns)
    if columns is not None and len(columns) != rows.shape[1]:
        raise ValueError(
            f"{len(columns)} classes are named ({border.some(columns)}) but {file.where} has "
            f"{rows.shape[1]} columns of predictions. " + explain_classes(files, columns)
        )
    small = in_memory or rows.size * rows.dtype.itemsize <= IN_MEMORY_BYTES
    if small and isinstance(rows, border.Table):
        rows = file.values(columns)
    try:
        if rows.shape[1] < 2:
            raise ValueError(
                f"{file.where} has one column of predictions; give one column per class."
            )
        proba = rows
        if file.kind == "logits":
            proba = border.map_blocks(partial(_softmax, file.where), rows, rows.shape[1])
        return border.check_proba(proba, name=file.where, tables=True)
    except ValueError as error:
        raise ValueError(_say_what_is_wrong(error, rows, file, columns, files)) from None


def _softmax(where: str, logits: Floats) -> Floats:
    checked = border.check_outputs(logits, from_proba=False, name=where).values
    return reweight(checked, np.ones(checked.shape[1]), from_logits=True)


def _say_what_is_wrong(
    error: ValueError,
    rows: border.Rows,
    file: PredictionFile,
    columns: Columns,
    files: Sequence[PredictionFile],
) -> str:
    """Say why predictions are wrong: other classes, empty cells, perhaps logits."""
    if columns is not None and len({frozenset(each.names or columns) for each in files}) > 1:
        with suppress(ValueError):  # all numbers of each file make probabilities: they are classes
            for each in files:
                border.check_proba(each.rows(each.names), name=each.where, tables=True)
            return say_different(files)
    hint = ""
    if 0 not in rows.shape:
        missing, first, negative = zip(*border.map_reduce(_count_faults, rows), strict=True)
        if n := sum(missing):
            return (
                f"{file.where} has no prediction in {n:,} of {rows.shape[0]:,} rows, first in "
                f"{file.place(min(first))}; fill in the empty cells, or leave out such rows with "
                "--drop-missing."
            )
        if any(negative) and file.kind == "proba":
            hint = "" if "--logits" in str(error) else "Add --logits if these are logits. "
    said = re.sub(r"(^|at )row (\d+)", lambda at: at[1] + file.place(int(at[2])), str(error))
    return f"{said} {hint}{explain_classes(files, columns)}".strip()


def _count_faults(block: border.Block, rows: slice) -> list[tuple[int, int, bool]]:
    """Count rows that lack numbers, and tell which is the first and whether any is negative."""
    empty = np.flatnonzero(np.isnan(np.asarray(block)).any(axis=1))
    first = rows.start + int(empty[0]) if empty.size else sys.maxsize
    return [(empty.size, first, bool((block < 0).any()))]


# Labels


def lacks(raw: NDArray[Any], nothing: tuple[str, ...] = ("",)) -> Mask:
    """Tell which cells hold nothing, or a word for it."""
    empty = (border.is_missing(v) or str(v).strip() in nothing for v in raw.astype(object))
    return np.fromiter(empty, bool, raw.size)


def text_labels(
    raw: NDArray[Any],
    file: PredictionFile,
    where: str,
    *,
    partial: bool = False,
    nothing: tuple[str, ...] = ("",),
) -> Labels:
    """Turn labels into text; if they may be `partial`, a missing one into an empty text."""
    missing = lacks(raw, nothing)
    if not missing.any():
        return border.as_text(border.read_labels(raw, None, where))
    if not partial:
        first = file.place(int(missing.argmax()))
        raise ValueError(
            f"{where} has no label in {np.count_nonzero(missing):,} of {raw.size:,} rows, first in "
            f"{first}; fill in the empty cells, or leave out such rows with --drop-missing."
        )
    labels = np.full(raw.size, "", dtype=object)
    if not missing.all():
        labels[~missing] = border.as_text(border.read_labels(raw[~missing], None, where))
    return labels.astype(str)


def match_labels(
    labels: Labels, classes: Labels, where: str, files: Sequence[PredictionFile] = ()
) -> Labels:
    """Refuse labels that are no class; 1.0 may stand for the class "1".

    `files` are those whose columns named the classes.
    """
    strange = np.setdiff1d(labels, classes)
    if not strange.size:
        return labels
    with suppress(ValueError):  # tables write whole numbers beside missing ones with a point
        numbers = border.as_text(labels.astype(np.float64))
        if np.isin(numbers, classes).all():
            return numbers
    called, hint = classes.tolist(), border.classes.by_case(np.union1d(classes, labels))
    if hint:
        hint = f"These {hint}"
    elif not (hint := border.columns.misspelt(called, np.unique(labels).tolist())) and files:
        hint = explain_classes(files, called)
    n = f"{np.count_nonzero(np.isin(labels, strange)):,} of {labels.size:,} rows"
    raise ValueError(
        f"{where} has labels that are not among the classes: {border.some(strange.tolist())}; the "
        f"classes are {border.some(called, 20)}. {n} have them: correct "
        f"these labels, or drop these rows. {hint}".rstrip()
    )


def say_no_labels(file: PredictionFile, decided: str | None = None) -> str:
    """Say that a validation file has no labels, and where they may be."""
    hint = label_hint(file, decided)
    there = f" (it has {border.some(file.header)})" if file.header and not hint else ""
    return (
        f"{file.where} has no labels (column or key {file.label_column!r}){there}; name them with "
        f"--label-column, or a file of them with --labels.{hint}"
    )


def label_hint(file: PredictionFile, decided: str | None = None) -> str:
    """Suggest a column that is called as labels often are, or almost as the user said.

    `decided` is the column of the decisions.
    """
    names = {name.lower(): name for name in reversed(file.header) if name != decided}
    likely = [names[name] for name in border.join.LABEL_NAMES if name in names]
    for close in get_close_matches(str(file.label_column).lower(), names, 1, cutoff=0.8):
        likely.insert(0, names[close])
    return f" Did you mean --label-column {likely[0]}?" if likely else ""


def read_cells(
    file: PredictionFile, column: str, option: str = "--predicted-column"
) -> NDArray[Any]:
    """Read a column that an option names."""
    raw = file.vector(column)
    if raw is None:
        hint = "An npy file has none: use npz, csv or parquet."
        if file.header:
            close = get_close_matches(column, file.header, 1)
            hint = f"Did you mean {close[0]!r}?" if close else f"It has {border.some(file.header)}."
        raise ValueError(f"{file.where} has no column {column!r}; name it with {option}. {hint}")
    return raw


def read_decided(file: PredictionFile, column: str) -> tuple[Labels, str]:
    """Read decisions as text, and say where they are from."""
    where = f"{column!r} in {file.where}"
    return text_labels(read_cells(file, column), file, where), where
