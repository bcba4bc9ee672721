"""Every failure as one sentence: bad data ends with 1, bad usage with 2, a traceback never."""

import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from priorshift.cli._console import complain, note
from priorshift.cli._main import BAD_DATA, INTERRUPTED
from priorshift.exceptions import use_names

SHIFTED = 3
"""Exit code with --fail-on-shift."""

OPTION_GROUPS = {
    "Files": "validation target labels target_labels key drop_missing any_size state",
    "Columns": "logits label_column class_columns positive_class renormalise "
    "predicted_column target_label_column history_column group_column time_column",
    "Priors": "source_priors source_label_priors known_priors adapter",
    "Method": "",
    "Output": "output rows_to_label save_adapter save_data adapted decision_column overwrite "
    "safe_csv plot fail_on_shift as_json debug help",
}
"""Under which heading help lists an option; others are about the method."""

OPTIONS = {
    "source_priors": "--source-priors",
    "source_label_priors": "--source-label-priors",
    "confidence_level": "--confidence-level",
    "class_columns": "--class-columns",
    "positive_class": "--positive-class",
    "costs": "--costs",
    "key": "--key",
    "interval_method": "--interval-method",
    "groups_val": "--history-column",
    "y_target": "--target-label-column",
    "n_resamples": "--resamples",
    "order_of_columns": "--class-columns or --positive-class,",
    "drop_missing": "add --drop-missing to leave such rows out",
    "from_logits": "add --logits",
    "goal=log_loss": "--goal log_loss",
    "label_column": "name it with --label-column",
    "y_pred_val": "--predicted-column",
    "renormalise": "add --renormalise",
    "rows_to_label": "--rows-to-label todo.csv",
    "labels_by_row": "--target-labels todo.csv",
    "pooling=none": "--pooling none",
    "interval_method=asymptotic": "--interval-method asymptotic",
    "interval_method=bootstrap": "--interval-method bootstrap",
}
"""What messages of the library call arguments and their values here: see `argument`."""


class Command(click.Command):
    """A command that reports failures in one sentence; `--debug` shows the traceback."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.params.append(
            click.Option(["--debug"], is_flag=True, help="Show the traceback of a failure.")
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List options in groups, by what they are about."""
        lines: dict[str, list[tuple[str, str]]] = {title: [] for title in OPTION_GROUPS}
        titles = {name: title for title, names in OPTION_GROUPS.items() for name in names.split()}
        for parameter in self.get_params(ctx):
            line = parameter.get_help_record(ctx)
            if line is not None and isinstance(parameter, click.Option):
                name = "help" if "--help" in parameter.opts else parameter.name  # versions differ
                lines[titles.get(name or "", "Method")].append(line)
        for title, records in lines.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        debug = ctx.params.pop("debug")
        try:
            with unwind_when_terminated(), use_names(OPTIONS), told_warnings():
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            complain(
                "stopped; no file was changed. Run the same command to begin again: adapt goes on "
                "where it was, if the target is large, and monitor where --state is."
            )
            sys.exit(INTERRUPTED)
        except Exception as error:
            if debug:
                traceback.print_exc()
            complain(sentence_of(error))
            sys.exit(BAD_DATA)


def command(example: str, more: tuple[str, ...] = ()) -> Callable[..., Command]:
    """Make a function a command whose help ends with examples of it."""
    lines = "".join(f"\n  priorshift {line}" for line in (example, *more))
    epilog = f"\b\nExample{'s' if more else ''}:{lines}"
    return click.command(cls=Command, epilog=epilog)


@contextmanager
def unwind_when_terminated() -> Iterator[None]:
    """Let signals that stop a process unwind the stack, so that temporary files are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {}
    for name in ("SIGTERM", "SIGHUP"):  # stop, and the terminal went away; Windows has one of them
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # as by nohup
            before[number] = signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def told_warnings() -> Iterator[list[str]]:
    """Tell warnings on stderr, each once and without its place in the code; yield what was told."""
    told: list[str] = []

    def tell(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in told:
            told.append(str(message))
            note(f"Warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = tell
        yield told


def sentence_of(error: Exception) -> str:
    """Say what went wrong."""
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
