"""priorshift check."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import numpy as np

from priorshift._typing import Labels
from priorshift.border import read_decisions, read_labels, some
from priorshift.cli import _options as options
from priorshift.cli import _read as read
from priorshift.cli._console import document, emit, show_table, tell
from priorshift.cli._data import (
    by_class,
    name_classes,
    open_file,
    validation_labels,
    without_missing,
)
from priorshift.cli._errors import command
from priorshift.cli._main import BAD_DATA
from priorshift.files import PredictionFile, common_classes

SHOWN_ROWS, SHOWN_CLASSES = 3, 25
"""First rows that are shown, and classes of them."""


Understood = dict[str, Any]
"""How a file is read, and what is wrong with it."""


@command("check validation.csv target.csv")
@click.argument("files", nargs=-1, required=True, type=options.EXISTING, metavar="FILE...")
@options.labels_options
@options.column_options
@options.json_option
def check(files: tuple[Path, ...], as_json: bool, **named: Any) -> None:
    """Show how files are read, without estimating: rows, classes, columns, labels, first rows.

    Files that belong together, such as validation and target, are best checked together: their
    classes must be the same. The first that has labels names them; a file of --labels belongs to
    the first.
    """
    found = _understand(files, options.request_of(target=files[0], **named))
    first = found[0]
    for other in found[1:]:
        other["differences"] = _differ(first, other)
    if as_json:
        emit(document("check", None, files=found))
    else:
        labelled = any(one["label_column"] is not None for one in found)
        for one in found:
            same = one is not first and one["columns"] == first["columns"] and not one["problem"]
            _show(one, labelled=labelled, table=not same)
    if any(one["problem"] for one in found):
        click.get_current_context().exit(BAD_DATA)


def _understand(paths: Sequence[Path], request: options.Request) -> list[Understood]:
    """Open files as all commands do, and gather what is known of each.

    The first file with labels is taken as validation, as `--validation` names it elsewhere.
    """
    opened = [open_file(path, request) for path in paths]
    labels: list[Labels | None] = []
    origin: list[tuple[str, str]] = []
    for at, file in enumerate(opened):
        column, where = file.label_column, f"{file.label_column!r} in {file.where}"
        raw, text = file.labels() if file.is_table or file.header else None, None  # an npy has none
        if at == 0 and request.labels is not None:
            text, column, where = validation_labels(file, request)
        elif raw is not None:
            text = read.text_labels(raw, file, where, partial=True)
        labels.append(text)
        origin.append((column, where))
    validation = next((at for at, text in enumerate(labels) if text is not None), None)
    known = None if validation is None else labels[validation]
    known = None if known is None else known[known != ""]
    if request.predicted_column is not None:  # those of validation name the classes
        at = validation or 0
        first = _understand_file(opened[at], labels[at], origin[at], request, is_target=False)
        names = None if first["problem"] else np.array(first["classes"])
        return [
            first
            if file is opened[at]
            else _understand_file(file, text, told, request, classes=names)
            for file, text, told in zip(opened, labels, origin, strict=True)
        ]
    # where labels are not found, a column of them may stand among the classes, or hide them
    hidden = 0 if known is None and read.label_hint(opened[0]) else None
    labelled = hidden if validation is None else validation
    try:
        files, columns = by_class(opened, () if known is None else read.names_of(known), request)
        columns = columns or common_classes(files)
    except ValueError:
        if hidden is None:
            raise
        raise ValueError(read.say_no_labels(opened[hidden])) from None
    found = [
        _understand_file(file, text, told, request, known, columns, files, is_target=at != labelled)
        for at, (file, text, told) in enumerate(zip(files, labels, origin, strict=True))
    ]
    if hidden is None or (len(found) == 1 and not found[hidden]["problem"]):
        return found
    for one in found:
        unknown = f"its classes are not known without the labels of {opened[hidden].where}."
        one["problem"] = one["problem"] and unknown
    found[hidden]["problem"] = read.say_no_labels(opened[hidden])
    return found


def _differ(first: Understood, other: Understood) -> list[str]:
    """Say which columns one of two files has alone."""
    one, two = (
        [*each["columns"].values(), *filter(None, [each["label_column"]]), *each["ignored"]]
        for each in (first, other)
    )
    alone = (
        ([name for name in one if name not in two], first["path"]),
        ([name for name in two if name not in one], other["path"]),
    )
    return [f"Only in {path}: {some(names, 20)}." for names, path in alone if names]


def _understand_file(
    file: PredictionFile,
    labels: Labels | None,
    origin: tuple[str, str],
    request: options.Request,
    known: Labels | None = None,
    columns: read.Columns = None,
    files: Sequence[PredictionFile] = (),
    *,
    is_target: bool = True,
    classes: Labels | None = None,
) -> Understood:
    """Say how a file is read.

    `origin` is the column of its labels, in words too, `known` are labels, and `classes` those of
    decisions on validation.
    """
    column, (label_column, where) = request.predicted_column, origin
    n_rows, problem, remarks = None, None, list(file.remarks)
    text, decided = np.array([]), np.array([])
    try:
        if column is not None:
            decided, of = read.read_decided(file, column)
            if classes is None:
                classes = read_decisions(decided, labels)[0]
            decided = read.match_labels(decided, classes, of)
            n_rows = decided.size
        else:
            if request.drop_missing:
                missing = np.isnan(file.values(columns)).any(axis=1)
                file = without_missing(file, missing, None if is_target else labels)
                if labels is not None and file.kept is not None:
                    labels = labels[file.kept]
            classes = name_classes(columns, file, known)
            n_rows = read.read_rows(file, columns, files).shape[0]
    except ValueError as error:
        problem = str(error)
        if classes is None:
            classes = np.array((columns or file.names or ()) if column is None else ())
    if labels is not None and problem is None:
        try:
            text = read_labels(read.text_labels(labels, file, where), n_rows, where)
            text = read.match_labels(text, classes, where, () if columns is None else files)
        except ValueError as error:
            text = np.array([])
            if is_target:
                remarks.append(f"The target's labels are not used: {error}")
            else:
                problem = str(error)
    stored = [column] if column is not None else file.stored_names(columns) or classes.tolist()
    if labels is None:
        hint = "" if is_target else read.label_hint(file, column)
        remarks.append(f"No labels: there is no {file.label_column!r}.{hint}")
    of_classes = dict(zip(classes.tolist()[-len(stored) :], stored, strict=False))
    shown = problem is None and column is None
    if n_rows is None:
        with suppress(ValueError):  # of a file whose predictions are wrong
            n_rows = file.n_rows()
            if n_rows is None and (first := file.vector(file.header[0])) is not None:
                n_rows = int(first.size)
    used = {*stored, *([] if labels is None else [label_column])}
    if not file.is_table:
        used |= {"y_proba", "logits", "classes", "source_priors"}
    return dict(  # noqa: C408
        path=file.where,
        n_rows=n_rows,
        classes=classes.tolist(),
        columns=of_classes if column is None else {},
        label_column=None if labels is None else label_column,
        label_counts=_count(text, classes),
        ignored=[name or "(no name)" for name in file.header if name not in used],
        first_rows=file.head(SHOWN_ROWS, columns).round(6).tolist() if shown else [],
        remarks=remarks,
        problem=problem,
        predicted_column=column,
        decision_counts={} if problem else _count(decided, classes),
        differences=[],
    )


def _count(found: Labels, names: Labels) -> dict[str, int]:
    """Count how often each name was found; nothing where nothing was."""
    counts = Counter(found.tolist())
    return {name: counts[name] for name in names.tolist()} if found.size else {}


def _show(found: Any, *, labelled: bool = True, table: bool = True) -> None:
    """Print how a file is read: one line per class, what is left out, and whether it is fine.

    `labelled` says whether any of the files has labels, `table` whether to show its classes: not
    if they are those of the file before.
    """
    found = SimpleNamespace(**found)
    rows = "rows unknown" if found.n_rows is None else f"{found.n_rows:,} rows"
    labels = "no labels" if found.label_column is None else f"labels in {found.label_column!r}"
    classes = found.classes
    header = ["class", "column"]
    cells = [[name, found.columns.get(name, "(the rest)")] for name in classes]
    if found.predicted_column is not None:
        labels = f"decisions in {found.predicted_column!r}, {labels}"
        header = ["class", "decisions"]
        cells = [[name, f"{found.decision_counts.get(name, 0):,}"] for name in classes]
    title = f"{found.path}: {rows}, {len(found.classes)} classes, {labels}"
    if found.label_counts:
        header.append("labels")
        cells = [[*line, f"{found.label_counts[line[0]]:,}"] for line in cells]
    if found.first_rows and len(found.first_rows[0]) == len(classes):
        header += [f"row {at}" for at in range(len(found.first_rows))]
        numbers = np.array(found.first_rows).T
        cells = [
            [*line, *(f"{p:.4g}" for p in row)] for line, row in zip(cells, numbers, strict=True)
        ]
    n_left = 1 if found.predicted_column is not None else 2
    if table:
        show_table(title, header, cells[:SHOWN_CLASSES], n_left=n_left)
    else:
        tell(f"{title}, read as above")
    if table and len(cells) > SHOWN_CLASSES:
        tell(f"... and {len(cells) - SHOWN_CLASSES} more classes.")
    for line in (
        *found.remarks,
        *found.differences,
        *([f"Ignored: {some(found.ignored, 20)}."] if found.ignored else []),
    ):
        tell(line)
    fine = "Fine." if labelled else "Fine as a target. As validation it would need labels."
    tell(fine if found.problem is None else f"Problem: {found.problem}")
    tell("")
