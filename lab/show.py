"""What the commands share: options, Markdown tables, and how time and memory are measured."""

import argparse
import csv
import inspect
import io
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

ARGUMENTS = ("experiment", "folder_of_results")
"""Names of what is given without a dash."""


def parse(doc: str, arguments: list[str] | None, **options: Any) -> argparse.Namespace:
    """Read the options of a command, whose docstring tells what they mean.

    A default gives an option its type: False is a switch, a tuple takes several of its values, a
    type or function has no default, and a dict is what `argparse` takes.
    """
    parser = argparse.ArgumentParser(
        description=inspect.cleandoc(doc), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in options.items():
        if isinstance(default, dict):
            how = default
        elif default is False:
            how = {"action": "store_true"}
        elif isinstance(default, tuple):
            how = {"nargs": "+", "type": type(default[0]), "default": default, "choices": default}
        elif callable(default):
            how = {"type": default}
        else:
            how = {"type": type(default), "default": default}
        flag = name if name in ARGUMENTS else f"--{name.replace('_', '-')}"
        parser.add_argument(flag, **how)
    return parser.parse_args(arguments)


def markdown(header: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """Return a table as Markdown."""
    lines = ["| " + " | ".join(map(str, cells)) + " |" for cells in (list(header), *rows)]
    return "\n".join([lines[0], "|" + "---|" * (lines[0].count(" | ") + 1), *lines[1:]])


def head(title: str, *columns: Any) -> None:
    """Print a title and the head of a table."""
    print(f"\n**{title}**\n\n{markdown(columns, ())}", flush=True)


def row(*cells: Any) -> None:
    """Print a row of a table as soon as it is known."""
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def as_csv(rows: Sequence[Any], names: Sequence[str] = ()) -> str:
    """Return rows as CSV, under their names; those of named tuples are their fields."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([names or rows[0]._fields, *rows])
    return stream.getvalue()


def told(steps: Iterable[Any]) -> Iterator[Any]:
    """Tell on stderr, if somebody reads there, how far a command is."""
    start, steps = time.perf_counter(), list(steps)
    for at, step in enumerate(steps, 1):
        yield step
        if sys.stderr.isatty():
            took = time.perf_counter() - start
            print(f"\r{at}/{len(steps)}, {took:.0f} s", end="", file=sys.stderr, flush=True)


def mean_and_error(values: Any, digits: int = 2, sign: str = "+") -> str:
    """Show a mean with its standard error, which one value has not."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{np.mean(values):{sign}.{digits}f} ± {error:.{digits}f}"


def duration(seconds: float) -> str:
    """Show a time."""
    return f"{1000 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def fastest(repeats: int, *calls: Callable[[], object]) -> list[float]:
    """Time calls in turn, so that noise hits all alike; return the least seconds of each."""
    seconds = np.empty((repeats, len(calls)))
    for place in np.ndindex(seconds.shape):
        start = time.perf_counter()
        calls[place[1]]()
        seconds[place] = time.perf_counter() - start
    return seconds.min(axis=0).tolist()


def cpu_time(call: Callable[[], object]) -> float:
    """Return the seconds that this process computes: others on the machine do not count."""
    start = time.process_time()
    call()
    return time.process_time() - start


def peak(call: Callable[[], object]) -> int:
    """Return the most memory that a call holds at once, in bytes."""
    tracemalloc.start()
    call()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most
