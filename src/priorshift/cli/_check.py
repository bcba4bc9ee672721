"""priorshift check."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from priorshift._typing import Labels
from priorshift._validation import read_labels, some
from priorshift.cli._classes import (
    Columns,
    class_columns,
    explain_columns,
    known_labels,
    name_classes,
    read_rows,
    read_text_labels,
)
from priorshift.cli._columns import Meaning, by_class, label_hint, names_of
from priorshift.cli._console import emit, show_table, stdout
from priorshift.cli._documents import document
from priorshift.cli._errors import BAD_DATA, Command
from priorshift.cli._options import Decorator, Request, column_options, json_option
from priorshift.cli._task import open_file
from priorshift.io import PredictionFile

SHOWN_ROWS, SHOWN_CLASSES = 3, 25
"""First rows that are shown, and classes of them."""

EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True)
class Understood:
    """How a file is read, and what is wrong with it."""

    path: str
    n_rows: int | None
    classes: list[str]
    columns: dict[str, str]
    """The column of each class; of two classes, perhaps of one only."""
    label_column: str | None
    label_counts: dict[str, int]
    ignored: list[str]
    first_rows: list[list[float]]
    remarks: list[str]
    problem: str | None


def columns_of_files(command: Any) -> Any:
    """Add the options that say how to read columns."""
    options: tuple[Decorator, ...] = column_options
    for option in reversed(options):
        command = option(command)
    return command


@click.command(
    cls=Command,
    short_help="Show how files are read: rows, classes, columns, labels.",
    epilog="\b\nExample:\n  priorshift check validation.csv target.csv",
)
@click.argument("files", nargs=-1, required=True, type=EXISTING, metavar="FILE...")
@columns_of_files
@json_option
def check(files: tuple[Path, ...], as_json: bool, **named: Any) -> None:
    """Show how files are read, without estimating: rows, classes, columns, labels, first rows.

    Files that belong together, such as validation and target, are best checked together: their
    classes must be the same. The first that has labels names them.
    """
    found = understand(files, Request(target=files[0], **named))
    if as_json:
        emit(document("check", None, files=[asdict(one) for one in found]))
    else:
        for one in found:
            show(one)
    if any(one.problem for one in found):
        click.get_current_context().exit(BAD_DATA)


def understand(paths: Sequence[Path], request: Request) -> list[Understood]:
    """Open files as all commands do, and gather what is known of each."""
    opened = [open_file(path, request) for path in paths]
    labels = [_labels(file) for file in opened]
    known = next((raw for raw in labels if raw is not None), None)
    meaning = Meaning.of(request.class_columns, request.positive_class, request.renormalise, opened)
    files = by_class(opened, names_of(known), meaning)
    columns = class_columns(files, meaning.chosen)
    return [
        _understood(file, raw, known, columns, files)
        for file, raw in zip(files, labels, strict=True)
    ]


def _labels(file: PredictionFile) -> Labels | None:
    raw = file.labels()
    if raw is None or (not file.is_table and not file.header):  # an npy is predictions here
        return None
    return read_labels(raw, None, f"{file.label_column!r} in {file.where}")


def _understood(
    file: PredictionFile,
    raw: Labels | None,
    known: Labels | None,
    columns: Columns,
    files: Sequence[PredictionFile],
) -> Understood:
    n_rows, problem, counts = None, None, {}
    try:
        classes = name_classes(columns, file, known)
        n_rows = read_rows(file, columns, files).shape[0]
        if raw is not None:
            where = f"{file.label_column!r} in {file.where}"
            text = read_text_labels(raw, n_rows, where)
            text = known_labels(text, classes, where, explain_columns(files, columns))
            counts = dict(Counter(text.tolist()))
    except ValueError as error:
        problem = str(error)
        classes = np.array(columns or file.names or ())
    stored = file.stored_names(columns) or classes.tolist()
    return Understood(
        path=file.where,
        n_rows=file.n_rows() if n_rows is None else n_rows,
        classes=classes.tolist(),
        columns=dict(zip(classes.tolist()[-len(stored) :], stored, strict=False)),
        label_column=None if raw is None else file.label_column,
        label_counts={name: counts.get(name, 0) for name in classes.tolist()} if counts else {},
        ignored=_ignored(file, stored, raw),
        first_rows=[] if problem else file.head(SHOWN_ROWS, columns).round(6).tolist(),
        remarks=[*file.remarks, *([] if raw is not None else _about_labels(file))],
        problem=problem,
    )


def _ignored(file: PredictionFile, stored: Sequence[str], raw: Labels | None) -> list[str]:
    """Return the columns, or arrays, that commands do not read."""
    used = {*stored, *([file.label_column] if raw is not None else [])}
    if not file.is_table:
        used |= {"y_proba", "logits", "classes", "source_priors"}
    return [name or "(no name)" for name in file.header if name not in used]


def _about_labels(file: PredictionFile) -> list[str]:
    hint = label_hint(file)
    return [f"No labels: there is no {file.label_column!r}.{hint}"]


def show(found: Understood) -> None:
    """Print how a file is read: one line per class, then what is left out."""
    rows = "rows unknown" if found.n_rows is None else f"{found.n_rows:,} rows"
    labels = "no labels" if found.label_column is None else f"labels in {found.label_column!r}"
    title = f"{found.path}: {rows}, {len(found.classes)} classes, {labels}"
    classes = found.classes
    header = ["class", "column"]
    cells = [[name, found.columns.get(name, "(the rest)")] for name in classes]
    if found.label_counts:
        header.append("labels")
        cells = [[*line, f"{found.label_counts[line[0]]:,}"] for line in cells]
    if found.first_rows and len(found.first_rows[0]) == len(classes):
        header += [f"row {at}" for at in range(len(found.first_rows))]
        numbers = np.array(found.first_rows).T
        cells = [
            [*line, *(f"{p:.4g}" for p in row)] for line, row in zip(cells, numbers, strict=True)
        ]
    show_table(title, header, cells[:SHOWN_CLASSES], n_left=2)
    console = stdout()
    if len(cells) > SHOWN_CLASSES:
        console.print(f"... and {len(cells) - SHOWN_CLASSES} more classes.", soft_wrap=True)
    for line in (
        *found.remarks,
        *([f"Ignored: {some(found.ignored, 20)}."] if found.ignored else []),
    ):
        console.print(line, soft_wrap=True)
    problem = "Fine." if found.problem is None else f"Problem: {found.problem}"
    console.print(f"{problem}\n", soft_wrap=True)
