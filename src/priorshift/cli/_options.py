"""Options that commands share, and what they say together."""

from collections.abc import Callable
from dataclasses import dataclass
from os import fsdecode
from pathlib import Path
from typing import Any

import click

from priorshift.cli._errors import SHIFTED
from priorshift.estimators import PriorEstimator, available_estimators, traits_of
from priorshift.uncertainty import INTERVAL_METHODS

DEFAULT_METHOD = "auto"

INPUT = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class OutputPath(click.Path):
    """A file to write; that folder and suffix are right is known before any work is done."""

    def __init__(self, *suffixes: str, allow_dash: bool = False) -> None:
        super().__init__(dir_okay=False, writable=True, allow_dash=allow_dash, path_type=Path)
        self.suffixes = suffixes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check the path."""
        path = Path(fsdecode(super().convert(value, param, ctx)))
        if str(path) == "-":
            if not self.allow_dash:
                self.fail("name a file: this cannot go to stdout.", param, ctx)
            return path
        if not path.parent.is_dir():
            self.fail(f"there is no folder {path.parent}.", param, ctx)
        if self.suffixes and is_file(path) and path.suffix.lower() not in self.suffixes:
            self.fail(f"{path} must end with {' or '.join(self.suffixes)}.", param, ctx)
        return path


def is_file(path: Path) -> bool:
    """Tell whether a path is, or will be, a file: a pipe or a device may have any name."""
    return not path.exists() or path.is_file()


@dataclass(frozen=True)
class Request:
    """What the user named: files, columns, priors, intervals."""

    target: Path
    validation: Path | None = None
    labels: Path | None = None
    logits: bool = False
    label_column: str | None = None
    class_columns: str | None = None
    source_priors: str | None = None
    source_label_priors: str | None = None
    known_priors: str | None = None
    adapter: Path | None = None
    dask: str | None = None
    confidence_level: float | None = None
    interval_method: str | None = None
    stdin: Path | None = None
    """Where what came from stdin was put."""

    def __post_init__(self) -> None:
        if self.interval_method is not None and self.confidence_level is None:
            raise click.UsageError("--interval-method needs a --confidence-level.")
        if self.adapter is not None:
            self._refuse_beside_adapter()

    def _refuse_beside_adapter(self) -> None:
        """Refuse what an adapter settles: it says all that is needed to adapt."""
        settled = ("validation", "labels", "class_columns", "known_priors")
        for name in (*settled, "source_priors", "source_label_priors"):
            if getattr(self, name) is not None:
                raise click.UsageError(
                    f"--adapter says how to adapt; leave out --{name.replace('_', '-')}."
                )

    @property
    def interval(self) -> dict[str, Any]:
        """What an estimator is told of the interval that is asked for; nothing if none is."""
        if self.confidence_level is None:
            return {}
        method = self.interval_method or "auto"
        return {"confidence_level": self.confidence_level, "interval_method": method}


def data_options(validation: str, *, folder: bool = False) -> Decorator:
    """Add the options that name the data.

    `validation` says when it can be left out; with `folder` the target may be one.
    """
    target = "Unlabelled predictions: a folder of files, or one file."
    options = (
        click.option(
            "--validation",
            type=INPUT,
            help="Labelled predictions: csv, parquet, arrow, feather, npz, npy, or - for CSV on "
            f"stdin. {validation}",
        ),
        click.option(
            "--target",
            type=click.Path(exists=True, dir_okay=folder, allow_dash=True, path_type=Path),
            required=True,
            help=target if folder else "Unlabelled predictions.",
        ),
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

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


class MethodChoice(click.Choice[str]):
    """The registered methods that a command can use, looked up when they are needed."""

    def __init__(self, usable: Callable[[PriorEstimator], bool] = lambda _: True) -> None:
        self.usable = usable
        super().__init__(())

    @property
    def choices(self) -> tuple[str, ...]:
        """Names of the methods whose traits the command can use."""
        return tuple(name for name in available_estimators() if self.usable(traits_of(name)))

    @choices.setter
    def choices(self, _: object) -> None:
        """Ignore what click sets: names may be registered later."""


def method_option(
    usable: Callable[[PriorEstimator], bool] = lambda _: True,
    default: str = DEFAULT_METHOD,
    more: str = ".",
) -> Decorator:
    """Add the choice of one method, of all or of those that a command can use."""
    return click.option(
        "--method",
        type=MethodChoice(usable),
        default=default,
        show_default=True,
        help=f"How to estimate the target priors{more}",
    )


def methods_option(what: str) -> Decorator:
    """Add the choice of several methods."""
    return click.option(
        "--method",
        "methods",
        type=MethodChoice(),
        multiple=True,
        help=what,
    )


def defaulted(name: str, kind: Any, default: Any, what: str) -> Decorator:
    """Add an option whose default the help shows."""
    return click.option(name, type=kind, default=default, show_default=True, help=what)


def level_option(name: str, what: str) -> Decorator:
    """Add the level of a test."""
    return defaulted(name, SHARE, 0.05, what)


def fail_option(when: str) -> Decorator:
    """Add an exit code of its own for a shift."""
    return click.option(
        "--fail-on-shift", is_flag=True, help=f"End with exit code {SHIFTED} if {when}."
    )


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
        type=SHARE,
        help="Give every prior an interval of this confidence, such as 0.95.",
    )(command)


def interval_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add intervals, and how to find them."""
    method = click.option(
        "--interval-method",
        type=click.Choice(INTERVAL_METHODS),
        help="How to find the interval [default: auto, what suits --method best].",
    )
    return confidence_option(method(command))


def known_priors_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add priors to adapt to instead of an estimate."""
    return click.option(
        "--known-priors",
        metavar="FILE|NAME=VALUE,...",
        help="Adapt to these priors instead of estimating them. One class may be left out: it "
        "gets what remains of 1.",
    )(command)


def adapter_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add an adapter to apply instead of an estimate."""
    return click.option(
        "--adapter",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Apply this adapter, as estimate --save-adapter or Adapter.to_json writes it, instead "
        "of estimating: needs no validation.",
    )(command)


def save_adapter_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add an adapter to write."""
    return click.option(
        "--save-adapter",
        type=OutputPath(".json"),
        help="Also write what adapt would apply, for adapt --adapter or Adapter.from_json.",
    )(command)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add output for machines."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def output_option(what: str, *suffixes: str) -> Decorator:
    """Add a file to write."""
    return click.option("--output", type=OutputPath(*suffixes, allow_dash=True), help=what)


def html_option(what: str, default: Path | None = None) -> Decorator:
    """Add a report to write."""
    return click.option(
        "--output",
        type=OutputPath(".html", ".htm"),
        default=default,
        show_default=default is not None,
        help=what,
    )


def title_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add a heading."""
    return click.option("--title", help="Heading of the report.")(command)
