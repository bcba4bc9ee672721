"""Every failure as one sentence: bad data ends with 1, bad usage with 2, a traceback never."""

import csv
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from priorshift.border import RENORMALISE
from priorshift.cli._console import complain, note
from priorshift.text import printable

BAD_DATA = 1
SHIFTED = 3
"""Exit code with --fail-on-shift."""

INTERRUPTED = 130

STOPPING = ("SIGTERM", "SIGHUP")
"""Signals that unwind the stack, where the system has them: stop, and the terminal went away."""

LONGEST_CELL = 2**31 - 1
"""Characters of a CSV cell: beside predictions may stand whole documents."""

OPTIONS = {
    "source_priors": "--source-priors",
    "source_label_priors": "--source-label-priors",
    "confidence_level": "--confidence-level",
    "y_target": "--target-label-column",
    "n_resamples": "--resamples",
}
"""What an argument of the library is called here."""

_ARGUMENT = re.compile(rf"(?<![\w'/.-])({'|'.join(OPTIONS)})(?![\w'/=-]|\.\w)")

_INTERVAL_METHOD = re.compile(r"interval_method='(\w+)'")


class Program(click.Group):
    """All commands, in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order in which help shows them."""
        return list(self.commands)

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """Read the command line; what it quotes is fit for a terminal."""
        with _printable_errors():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what its errors quote is fit for a terminal."""
        with _printable_errors():
            return super().invoke(ctx)

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run a command; even its help may meet a full disk."""
        with ExitStack() as stack:
            stack.callback(csv.field_size_limit, csv.field_size_limit(LONGEST_CELL))
            for name in ("stdin", "stdout", "stderr"):
                if getattr(sys, name) is None:  # closed by whoever started this, as some jobs do
                    mode = "r" if name == "stdin" else "w"
                    opened = stack.enter_context(Path(os.devnull).open(mode, encoding="utf-8"))
                    setattr(sys, name, opened)
                    stack.callback(setattr, sys, name, None)
            try:
                return super().main(*arguments, **options)
            except OSError as error:
                complain(_sentence(error))
                sys.exit(BAD_DATA)


class Command(click.Command):
    """A command that reports failures in one sentence; `--debug` shows the traceback."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.params.append(
            click.Option(["--debug"], is_flag=True, help="Show the traceback of a failure.")
        )

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        debug = ctx.params.pop("debug")
        try:
            with cleaned_up_when_terminated(), told_warnings():
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            complain("stopped.")
            sys.exit(INTERRUPTED)
        except Exception as error:
            if debug:
                traceback.print_exc()
            complain(_sentence(error))
            sys.exit(BAD_DATA)


@contextmanager
def _printable_errors() -> Iterator[None]:
    """Escape control characters that click would print as the user typed them."""
    try:
        yield
    except click.ClickException as error:
        vars(error)["message"] = printable(error.message, lines=True)
        raise


def command(
    example: str, short_help: str | None = None, more: tuple[str, ...] = ()
) -> Callable[..., Command]:
    """Make a function a command whose help ends with examples of it."""
    lines = "".join(f"\n  priorshift {line}" for line in (example, *more))
    epilog = f"\b\nExample{'s' if more else ''}:{lines}"
    return click.command(cls=Command, short_help=short_help, epilog=epilog)


@contextmanager
def cleaned_up_when_terminated() -> Iterator[None]:
    """Let signals that stop a process unwind the stack, so that temporary files are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in STOPPING if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    heard = [number for number in numbers if before[number] is not signal.SIG_IGN]  # as by nohup
    for number in heard:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])


@contextmanager
def told_warnings() -> Iterator[None]:
    """Tell warnings on stderr, each once and without its place in the code."""
    told: set[str] = set()

    def tell(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in told:
            told.add(str(message))
            note(f"Warning: {in_options(str(message))}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = tell
        yield


def in_options(message: str) -> str:
    """Name options where a message of the library names arguments, but not columns or files."""
    message = message.replace(RENORMALISE, "add --renormalise")
    message = message.replace("the key with on=", "the key with --key")
    message = _INTERVAL_METHOD.sub(r"--interval-method \1", message)
    return _ARGUMENT.sub(lambda found: OPTIONS[found[1]], message)


def _sentence(error: Exception) -> str:
    if isinstance(error, ValueError | ImportError):
        return in_options(str(error))
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    if isinstance(error, MemoryError):
        return f"there is not enough memory. {error}".strip()
    return (
        f"this should not have happened ({type(error).__name__}: {error}). Run it again with "
        "--debug and report what it shows."
    )


def _stop(number: int, _: Any) -> None:
    sys.exit(128 + number)
