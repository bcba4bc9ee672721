"""priorshift check."""

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import numpy as np

from priorshift._typing import Labels
from priorshift.border import read_decisions, read_labels, some
from priorshift.cli import _options as options
from priorshift.cli import _read as read
from priorshift.cli._console import document, emit, show_table, tell
from priorshift.cli._data import (
    drop_missing,
    name_classes,
    open_file,
    settle_columns,
    validation_labels,
)
from priorshift.cli._errors import command
from priorshift.cli._main import BAD_DATA

SHOWN_ROWS, SHOWN_CLASSES = 3, 25
"""First rows that are shown, and classes of them."""


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
    if as_json:
        emit(document("check", None, files=found))
    else:
        labelled = any(one["label_column"] is not None for one in found)
        for one in found:
            same = one is not found[0] and one["columns"] == found[0]["columns"]
            _show(one, labelled=labelled, table=not same or one["problem"] is not None)
    if any(one["problem"] for one in found):
        click.get_current_context().exit(BAD_DATA)


def _understand(paths: tuple[Path, ...], request: options.Request) -> list[dict[str, Any]]:
    """Open files as all commands do, and say of each how it is read.

    The first file with labels is taken as validation, as `--validation` names it elsewhere.
    """
    files, decided = tuple(open_file(path, request) for path in paths), request.predicted_column
    said: list[tuple[Labels | None, str, str]] = []
    for file in files:
        text, column, where = None, file.label_column, f"{file.label_column!r} in {file.where}"
        if file is files[0] and request.labels is not None:
            text, column, where = validation_labels(file, request)
        elif file.is_table or file.header:
            raw = file.vector(column)
            text = None if raw is None else read.text_labels(raw, file, where, partial=True)
        said.append((text, column, where))
    labelled = [at for at, (text, *_) in enumerate(said) if text is not None]
    if not labelled and len(files) > 1 and read.label_hint(files[0], decided):
        raise ValueError(read.say_no_labels(files[0], decided))  # whose, nobody knows
    first = labelled[0] if labelled else 0
    known = said[first][0]
    columns: read.Columns = None
    classes: Labels | None = None
    if decided is None:
        known = None if known is None else known[known != ""]
        files, columns = settle_columns(request, files, () if known is None else known)
    else:
        with suppress(ValueError):  # it is said of the file
            counted = read.read_decided(files[first], decided)[0]
            classes = read_decisions(counted, counted if known is None else known)[0]
    found = []
    for at, (file, (text, column, where)) in enumerate(zip(files, said, strict=True)):
        is_target, problem, remarks = at != first, None, list(file.remarks)
        names, counted, n_rows = classes, np.array([]), None
        try:
            if decided is not None:
                counted, of = read.read_decided(file, decided)
                if names is None:
                    names = read_decisions(counted, counted if text is None else text)[0]
                counted = read.match_labels(counted, names, of)
                n_rows = counted.size
            else:
                if request.drop_missing:
                    file = drop_missing(file, columns, None, None if is_target else text)
                    text = text if text is None or file.kept is None else text[file.kept]
                names = name_classes(columns, file, known)
                n_rows = read.read_rows(file, columns, files).shape[0]
        except ValueError as error:
            problem = str(error)
            names = np.array((columns or file.names or ()) if names is None else names)
            with suppress(ValueError):  # of a file whose predictions are wrong
                n_rows = file.n_rows()
                if n_rows is None and (cells := file.vector(file.header[0])) is not None:
                    n_rows = int(cells.size)
        truth = np.array([])
        if text is None:
            hint = "" if is_target else read.label_hint(file, decided)
            remarks.append(f"No labels: there is no {file.label_column!r}.{hint}")
        elif problem is None:
            try:
                truth = read_labels(read.text_labels(text, file, where), n_rows, where)
                truth = read.match_labels(truth, names, where, files if columns else ())
            except ValueError as error:
                truth = np.array([])
                if is_target:
                    remarks.append(f"The target's labels are not used: {error}")
                else:
                    problem = str(error)
        stored = [decided] if decided else file.as_stored(columns)[0] or names.tolist()
        used = {*stored, *([] if text is None else [column])}
        used |= set() if file.is_table else {"y_proba", "logits", "classes", "source_priors"}
        shown = problem is None and decided is None
        found.append(
            {
                "path": file.where,
                "n_rows": n_rows,
                "classes": names.tolist(),
                "columns": {}
                if decided
                else dict(zip(names.tolist()[-len(stored) :], stored, strict=False)),
                "label_column": None if text is None else column,
                "label_counts": _count(truth, names),
                "ignored": [name or "(no name)" for name in file.header if name not in used],
                "first_rows": file.head(SHOWN_ROWS, columns).round(6).tolist() if shown else [],
                "remarks": remarks,
                "problem": problem,
                "predicted_column": decided,
                "decision_counts": {} if problem else _count(counted, names),
            }
        )
    return found


def _count(found: Labels, names: Labels) -> dict[str, int]:
    """Count how often each name was found; nothing where nothing was."""
    counts = Counter(found.tolist())
    return {name: counts[name] for name in names.tolist()} if found.size else {}


def _show(found: dict[str, Any], *, labelled: bool, table: bool) -> None:
    """Print how a file is read: one line per class, what is left out, and whether it is fine.

    `labelled` says whether any of the files has labels, `table` whether to show its classes: not
    if they are those of the file before.
    """
    classes, decided, counts = found["classes"], found["predicted_column"], found["label_counts"]
    rows = "rows unknown" if found["n_rows"] is None else f"{found['n_rows']:,} rows"
    said = [rows, f"{len(classes)} classes"]
    said += [] if decided is None else [f"decisions in {decided!r}"]
    label = found["label_column"]
    said.append("no labels" if label is None else f"labels in {label!r}")
    columns: dict[str, list[str]] = {"class": classes}
    if decided is None:
        columns["column"] = [found["columns"].get(name, "(the rest)") for name in classes]
    else:
        columns["decisions"] = [f"{found['decision_counts'].get(k, 0):,}" for k in classes]
    if counts:
        columns["labels"] = [f"{counts[name]:,}" for name in classes]
    for at, row in enumerate(found["first_rows"]):
        columns[f"row {at}"] = [f"{p:.4g}" for p in row]
    title = f"{found['path']}: {', '.join(said)}"
    if table:
        lines = list(zip(*columns.values(), strict=True))[:SHOWN_CLASSES]
        show_table(title, list(columns), lines, n_left=2 if decided is None else 1)
        if len(classes) > SHOWN_CLASSES:
            tell(f"... and {len(classes) - SHOWN_CLASSES} more classes.")
    else:
        tell(f"{title}, read as above")
    ignored = [f"Ignored: {some(found['ignored'], 20)}."] if found["ignored"] else []
    fine = "Fine." if labelled else "Fine as a target. As validation it would need labels."
    problem = fine if found["problem"] is None else f"Problem: {found['problem']}"
    tell("\n".join([*found["remarks"], *ignored, problem, ""]))
