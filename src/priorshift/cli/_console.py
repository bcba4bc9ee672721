"""What commands hand out: data on stdout or in a file, messages and progress on stderr."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from priorshift._version import __version__
from priorshift.assessment import Assessment
from priorshift.compare import COLUMNS, Comparison
from priorshift.estimators import PriorEstimate
from priorshift.estimators.result import priors_notes, priors_table
from priorshift.exceptions import PriorShiftWarning, warn_user
from priorshift.files import PredictionFile, write_text
from priorshift.text import csv_table, printable, text_table

PIPE_WIDTH = 120
"""Width of a table that goes to a pipe or a file."""

SCHEMA_VERSION = 2
"""Raised when a field of the JSON output changes its meaning or goes; see schemas/."""

SHOWN_CLASSES = 25
"""Classes a terminal shows; beyond that the ones that moved most."""


def console(*, stderr: bool = False) -> Console:
    """Return what prints names as they are, and no escape codes under NO_COLOR.

    Messages break between words on a terminal, and stay one line elsewhere.
    """
    found = Console(
        stderr=stderr,
        width=None if stderr or sys.stdout.isatty() else PIPE_WIDTH,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        markup=False,
        emoji=False,
        highlight=False,
    )
    found.soft_wrap = not found.is_terminal
    return found


def emit(document: str) -> None:
    """Print data to stdout in UTF-8, whatever the locale."""
    click.echo(printable(document, lines=True).encode("utf-8"), nl=False)


def say(sentence: str) -> None:
    """Print a sentence to stdout."""
    console().print(Text(printable(sentence), style="bold"))


def tell(lines: str) -> None:
    """Print lines to stdout, however long."""
    console().print(printable(lines, lines=True), soft_wrap=True)


def note(message: str) -> None:
    """Print a message to stderr."""
    console(stderr=True).print(printable(message))


def complain(message: str) -> None:
    """Print an error to stderr."""
    said = Text.assemble(("Error:", "bold red"), " ", printable(message))
    console(stderr=True).print(said)


def show_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], n_left: int = 1
) -> None:
    """Print a table to stdout; all but the first `n_left` columns are numbers, aligned right."""
    console().print(Text(printable(title), style="italic"))
    titled = any(header)
    lines = text_table([header, *rows] if titled else rows, right=range(n_left, len(header)))
    if titled:
        lines.insert(1, "\u2500" * max(map(len, lines)))
    tell("\n".join(lines))


@contextmanager
def progress(what: str, total: int | None = None, *columns: ProgressColumn) -> Iterator[Progress]:
    """Show a progress bar on stderr if that is a terminal; its only task has number 0."""
    columns = columns or (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    text, hidden = TextColumn("{task.description}"), not sys.stderr.isatty()
    bar = Progress(text, *columns, console=console(stderr=True), transient=True, disable=hidden)
    with nullcontext() if hidden else bar:  # old rich ends a disabled bar with a line
        bar.add_task(what, total=total)
        yield bar


def busy(what: str) -> AbstractContextManager[Progress]:
    """Show on a terminal's stderr that something takes its time, and how long it has."""
    return progress(what, None, SpinnerColumn(), TimeElapsedColumn())


def document(command: str, verdict: str | None, *, indent: int | None = 2, **contents: Any) -> str:
    """Return a JSON document, with the verdict of the assessment if there is one."""
    whole = {
        "schema_version": SCHEMA_VERSION,
        "priorshift_version": __version__,
        "command": command,
        "verdict": verdict,
        **contents,
    }
    return json.dumps(whole, indent=indent, ensure_ascii=False, allow_nan=False) + "\n"


def hand_out(
    contents: dict[str, Any],
    columns: Mapping[str, Iterable[Any]],
    show: Callable[[], None],
    output: Path | None,
    as_json: bool,
    assessment: Assessment | None = None,
    like: PredictionFile | None = None,
) -> None:
    """Write a .csv table or a JSON document to a file, else print JSON, else show it to a person.

    `columns` are the table, which is written `like` a file. What the assessment warns of is told
    last.
    """
    verdict = None if assessment is None else assessment.verdict
    told = {"verdict": verdict, **contents}
    text = document(click.get_current_context().info_name or "", **told)
    if output is not None and str(output) != "-":
        as_table = output.suffix.lower() == ".csv"  # JSON to devices
        write_text(output, csv_like(like, columns) if as_table else text)
        note(f"Wrote {output}.")
    elif as_json:
        emit(text)
    else:
        show()
    tell_doubts(assessment)


def csv_like(like: PredictionFile | None, columns: Mapping[str, Iterable[Any]]) -> str:
    """Return columns as CSV, with the separator and the decimals of a file that is CSV as well."""
    delimiter, mark = (",", ".") if like is None else like.separators

    def cell(value: Any) -> Any:
        return repr(float(value)).replace(".", mark) if isinstance(value, float) else value

    rows = zip(*(map(cell, column) for column in columns.values()), strict=True)
    return csv_table(list(columns), rows, delimiter)


def show_verdict(assessment: Assessment | None) -> None:
    """Print what to do, if it is known."""
    if assessment is not None:
        say(assessment.sentence)


def tell_doubts(assessment: Assessment | None) -> None:
    """Warn of what the assessment warns of, the same in every command and each thing once."""
    for message in () if assessment is None else assessment.warnings:
        warn_user(message, PriorShiftWarning)


def show_priors(shift: PriorEstimate, n_rows: int, title: str) -> None:
    """Print the priors before and after, the largest movers first where there are many.

    `n_rows` are all of the target's: an estimate may rest on a sample of them.
    """
    show_table(title, *priors_table(shift, SHOWN_CLASSES))
    rows = f"{n_rows:,} target rows"
    if shift.n_target < n_rows:
        rows = f"{shift.n_target:,} of {rows}, drawn at random"
    for line in (rows, *priors_notes(shift, SHOWN_CLASSES)):
        note(line)


def show_comparison(comparison: Comparison, title: str) -> None:
    """Print one line per method, what the columns mean, and a conclusion."""
    header, rows = comparison.table()
    show_table(title, header, rows)
    for name in header[1:]:
        note(f"{name}: {COLUMNS[name]}.")
    say(comparison.conclusion)
