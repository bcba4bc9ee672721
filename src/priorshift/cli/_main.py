"""The group of commands; each is imported when it is needed, so that help comes at once."""

import csv
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from priorshift._version import __version__

BAD_DATA = 1
INTERRUPTED = 130

COMMANDS = {
    "assess": ("_answers", "Say whether to adapt, and why. Start here."),
    "check": ("_check", "Show how files are read: rows, classes, columns, labels."),
    "estimate": ("_answers", "Estimate the class priors of unlabelled target data."),
    "adapt": ("_adapt", "Adapt predictions to estimated or known priors."),
    "groups": ("_groups", "Estimate the priors of each site, week or device."),
    "backtest": ("_answers", "Say what would have helped on labelled months of the past."),
    "compare": ("_answers", "Run every method on the same data."),
    "test": ("_answers", "Test whether the class priors shifted."),
    "report": ("_report", "Write a self-contained HTML report."),
    "monitor": ("_monitor", "Follow the class priors over time, with alarms."),
    "prevalence": ("_prevalence", "Correct a share of positives for the errors of the test."),
    "plan": ("_prevalence", "Say how many target rows to label."),
    "demo": ("_demo", "Show what adapting does, on data that come with priorshift."),
}
"""Where each command is, and what help says of it, in the order of help."""


class Program(click.Group):
    """All commands, in the order of help."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order in which help shows them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        # scikit-learn imports pandas if it can, unused, at a quarter of the time; whoever needs
        # pandas imports it afterwards
        hidden = "pandas" not in sys.modules
        if hidden:
            sys.modules["pandas"] = None  # type: ignore[assignment]
        try:
            module = import_module(f"priorshift.cli.{COMMANDS[cmd_name][0]}")
        except KeyboardInterrupt:  # NumPy and SciPy take their time
            click.echo("Error: stopped.", err=True)
            sys.exit(INTERRUPTED)
        finally:
            if hidden:
                del sys.modules["pandas"]
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List what each command does, without importing it."""
        lines = [(name, about) for name, (_, about) in COMMANDS.items()]
        with formatter.section("Commands"):
            formatter.write_dl(lines)

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
            # beside predictions may stand whole documents
            stack.callback(csv.field_size_limit, csv.field_size_limit(2**31 - 1))
            for name in ("stdin", "stdout", "stderr"):
                if getattr(sys, name) is None:  # closed by whoever started this, as some jobs do
                    mode = "r" if name == "stdin" else "w"
                    opened = stack.enter_context(Path(os.devnull).open(mode, encoding="utf-8"))
                    setattr(sys, name, opened)
                    stack.callback(setattr, sys, name, None)
            try:
                return super().main(*arguments, **options)
            except OSError as error:
                from priorshift.cli._console import complain
                from priorshift.cli._errors import sentence_of

                complain(sentence_of(error))
                try:
                    sys.stdout.flush()
                except OSError:  # Python 3.14 would try again at its end, and exit with 120
                    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                sys.exit(BAD_DATA)


@contextmanager
def _printable_errors() -> Iterator[None]:
    """Escape control characters that click would print as the user typed them."""
    try:
        yield
    except click.ClickException as error:
        from priorshift.text import printable

        vars(error)["message"] = printable(error.message, lines=True)
        raise


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog="Start with: priorshift assess validation.csv target.csv\n\n"
    "To try it on example data: priorshift demo --save-data .",
)
@click.version_option(__version__, prog_name="priorshift")
def main() -> None:
    """Estimate the class priors of unlabelled data, and adapt a classifier's predictions to them.

    Exit codes: 0 done, 1 bad data, 2 bad usage, 3 a shift (test and monitor with --fail-on-shift),
    130 stopped.
    """
