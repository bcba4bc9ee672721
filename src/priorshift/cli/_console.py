"""Data on stdout, messages and progress on stderr."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from priorshift.border import watched
from priorshift.text import printable

PIPE_WIDTH = 120
"""Width of a table that goes to a pipe or a file."""


def on_terminal() -> bool:
    """Tell whether a person sees stdout, rather than a pipe or a file."""
    return sys.stdout.isatty()


def stdout() -> Console:
    """Return a console for data."""
    return _plain_console(width=None if on_terminal() else PIPE_WIDTH)


def stderr() -> Console:
    """Return a console for messages."""
    return _plain_console(stderr=True)


def emit(document: str) -> None:
    """Print data to stdout in UTF-8, whatever the locale."""
    click.echo(printable(document, lines=True).encode("utf-8"), nl=False)


def say(sentence: str) -> None:
    """Print a sentence to stdout."""
    console = stdout()
    console.print(Text(printable(sentence), style="bold"), soft_wrap=not console.is_terminal)


def tell(line: str) -> None:
    """Print a line to stdout, however long."""
    stdout().print(printable(line), soft_wrap=True)


def note(message: str) -> None:
    """Print a message to stderr."""
    _say(printable(message))


def complain(message: str) -> None:
    """Print an error to stderr."""
    _say(Text.assemble(("Error:", "bold red"), " ", printable(message)))


def _say(message: str | Text) -> None:
    """Print a message, between words on a terminal, and in one line elsewhere."""
    console = stderr()
    console.print(message, soft_wrap=not console.is_terminal)


def show_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], n_left: int = 1
) -> None:
    """Print a table to stdout; all but the first `n_left` columns are numbers, aligned right.

    Columns that do not fit are printed below, next to the first column again.
    """
    console = stdout()
    header = [printable(name) for name in header]
    rows = [[printable(cell) for cell in row] for row in rows]
    console.print(Text(printable(title), style="italic"), soft_wrap=not console.is_terminal)
    # a heading and its cells stay whole, however narrow the terminal, unless they are long
    widths = [
        min(max(map(len, (name, *(row[at] for row in rows)))), 30) for at, name in enumerate(header)
    ]
    for columns in _cut_columns(widths, console.width):
        table = Table(
            box=SIMPLE_HEAD, show_edge=False, show_header=any(header), padding=(0, 1, 0, 0)
        )
        for at in columns:
            table.add_column(
                header[at],
                justify="left" if at < n_left else "right",
                min_width=widths[at],
                overflow="fold",
            )
        for row in rows:
            table.add_row(*(row[at] for at in columns))
        unlimited = console.options.update(width=10_000)
        if console.measure(table, options=unlimited).maximum > console.width:
            table.padding = 0
        width = max(console.width, console.measure(table, options=unlimited).minimum)
        console.print(table, width=width, crop=False)


def _cut_columns(widths: Sequence[int], width: int) -> list[list[int]]:
    """Cut columns into tables that are narrow enough, each with the first column."""
    tables = [[0]]
    used = widths[0]
    for at in range(1, len(widths)):
        if used + 1 + widths[at] > width and len(tables[-1]) > 1:
            tables.append([0])
            used = widths[0]
        tables[-1].append(at)
        used += 1 + widths[at]
    return tables


@contextmanager
def progress(what: str, total: int | None = None, *, counted: bool = True) -> Iterator[Progress]:
    """Show a progress bar on stderr if that is a terminal; its only task has number 0.

    Passes over files that are read in blocks get a bar of their own below it. Unless it is
    `counted`, only they tell how far the work is.
    """
    text, column = TextColumn("{task.description}"), TimeRemainingColumn()
    columns: tuple[ProgressColumn, ...] = (text, BarColumn(), MofNCompleteColumn(), column)
    if not counted:
        columns = (SpinnerColumn(), text, TaskProgressColumn(), BarColumn(), column)
    hidden = not sys.stderr.isatty()
    bar = Progress(*columns, console=stderr(), transient=True, disable=hidden)
    with nullcontext() if hidden else bar:  # old rich ends a disabled bar with a line
        bar.add_task(what, total=total)
        with watched(PassBar(bar)):
            yield bar


def busy(what: str) -> AbstractContextManager[Progress]:
    """Show on a terminal's stderr that something takes its time, and how far each pass is."""
    return progress(what, counted=False)


class PassBar:
    """Hears of passes over tables and shows the present one: its number, share and time left.

    Only once they have taken `after` seconds: what is quick needs no bar.
    """

    def __init__(self, bar: Progress, after: float = 1.0) -> None:
        self.bar, self.after = bar, after
        self.lock = Lock()
        self.begin: float | None = None
        self.n_passes, self.done = 0, 0
        self.task: TaskID | None = None

    def __call__(self, n_rows: int, done: int) -> None:
        """Take note of some more rows; threads call it, each for its own part."""
        with self.lock:
            if self.begin is None:
                self.begin = time.monotonic()
            if self.done == 0:
                self.n_passes += 1
                if self.task is not None:
                    name = f"pass {self.n_passes}"
                    self.bar.reset(self.task, total=n_rows, description=name)
            self.done = (self.done + done) % n_rows
            if self.task is None and time.monotonic() - self.begin > self.after:
                self.task = self.bar.add_task(f"pass {self.n_passes}", total=n_rows)
            if self.task is not None:
                self.bar.update(self.task, completed=self.done)


def _plain_console(**options: Any) -> Console:
    """Return a console that prints names as they are, and no escape codes under NO_COLOR."""
    if os.environ.get("NO_COLOR"):
        options["color_system"] = None
    return Console(markup=False, emoji=False, highlight=False, **options)
