"""Options that commands share, and what they say together."""

from collections.abc import Callable
from dataclasses import dataclass
from os import fsdecode
from pathlib import Path
from typing import Any

import click

from priorshift.estimators import available_estimators

DEFAULT_METHOD = "auto"

INPUT = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


class OutputPath(click.Path):
    """A file to write; that its folder exists is known before any work is done."""

    def __init__(self, allow_dash: bool = False) -> None:
        super().__init__(dir_okay=False, writable=True, allow_dash=allow_dash, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check the path."""
        path = Path(fsdecode(super().convert(value, param, ctx)))
        if str(path) == "-" and not self.allow_dash:
            self.fail("name a file: this cannot go to stdout.", param, ctx)
        if not path.parent.is_dir():
            self.fail(f"there is no folder {path.parent}.", param, ctx)
        return path


@dataclass(frozen=True)
class Request:
    """What the user named: files, columns, priors."""

    target: Path
    validation: Path | None = None
    labels: Path | None = None
    logits: bool = False
    label_column: str | None = None
    class_columns: str | None = None
    source_priors: str | None = None
    source_label_priors: str | None = None
    known_priors: str | None = None
    dask: str | None = None
    stdin: Path | None = None
    """Where what came from stdin was put."""


def data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name the data."""
    return _all(
        command,
        click.option(
            "--validation",
            type=INPUT,
            help="Labelled predictions: csv, parquet, arrow, feather, npz, npy, or - for CSV on "
            "stdin. EM, MAP and --known-priors can do without.",
        ),
        click.option("--target", type=INPUT, required=True, help="Unlabelled predictions."),
        click.option(
            "--labels", type=INPUT, help="Labels of validation, where its file has no room (npy)."
        ),
        click.option("--logits", is_flag=True, help="Predictions are logits, not probabilities."),
        click.option("--label-column", help="Column of the labels [default: label; in an npz: y]."),
        click.option(
            "--class-columns",
            metavar="A,B,...",
            help="Columns that hold predictions [default: numeric columns common to both files].",
        ),
        click.option(
            "--source-priors",
            metavar="FILE|NAME=VALUE,...",
            help="Priors the model was trained under: numbers or counts by class, a file of them, "
            "or a file of predictions on the training set, whose mean is taken.",
        ),
        click.option(
            "--source-label-priors",
            metavar="FILE|NAME=VALUE,...",
            help="Label frequencies of the training set, if --source-priors are not known.",
        ),
    )


def method_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the choice of one method."""
    return click.option(
        "--method",
        type=click.Choice(available_estimators()),
        default=DEFAULT_METHOD,
        show_default=True,
        help="How to estimate the target priors.",
    )(command)


def dask_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add a cluster to work on."""
    return click.option(
        "--dask",
        metavar="ADDRESS",
        help="Read and go through the target on the workers of this Dask scheduler, such as "
        "tcp://host:8786. They must see the file by the same path.",
    )(command)


def confidence_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add intervals."""
    return click.option(
        "--confidence-level",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        help="Give every prior an interval of this confidence, such as 0.95.",
    )(command)


def known_priors_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add priors to adapt to instead of an estimate."""
    return click.option(
        "--known-priors",
        metavar="FILE|NAME=VALUE,...",
        help="Adapt to these priors instead of estimating them. One class may be left out: it "
        "gets what remains of 1.",
    )(command)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add output for machines."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def output_option(what: str) -> Callable[..., Any]:
    """Add a file to write."""
    return click.option("--output", type=OutputPath(allow_dash=True), help=what)


def _all(command: Callable[..., Any], *options: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command
