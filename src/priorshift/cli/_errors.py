"""Every failure as one sentence: bad data ends with 1, bad usage with 2, a traceback never."""

import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from priorshift.cli._console import complain, note

BAD_DATA = 1
INTERRUPTED = 130


class Command(click.Command):
    """A command whose failures are told in a sentence; `--debug` shows where they happened."""

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
def cleaned_up_when_terminated() -> Iterator[None]:
    """Let SIGTERM unwind the stack, so that temporary files are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def told_warnings() -> Iterator[None]:
    """Tell warnings on stderr, each once and without its place in the code."""
    told: set[str] = set()

    def tell(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in told:
            told.add(str(message))
            note(f"Warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = tell
        yield


def _sentence(error: Exception) -> str:
    if isinstance(error, ValueError | ImportError):
        return str(error)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    if isinstance(error, MemoryError):
        return f"there is not enough memory. {error}".strip()
    return (
        f"this should not have happened ({type(error).__name__}: {error}). Run it again with "
        "--debug and report what it shows."
    )


def _stop(*_: Any) -> None:
    sys.exit(128 + signal.SIGTERM)
