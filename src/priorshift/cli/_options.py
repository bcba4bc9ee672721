"""Options that commands share, and what they say together."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from os import fsdecode
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from priorshift.adapt import GOALS, GoalName
from priorshift.cli._errors import SHIFTED
from priorshift.estimators import PriorEstimator, available_estimators, traits_of
from priorshift.files import is_device, suffix_of
from priorshift.intervals import INTERVAL_METHODS
from priorshift.text import safe_csv

DEFAULT_METHOD = "auto"

INPUT = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)
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
        as_json = ctx is not None and ctx.params.get("as_json") and ".json" in self.suffixes
        suffixes = (".json",) if as_json else self.suffixes
        if suffixes and not is_device(path) and path.suffix.lower() not in suffixes:
            self.fail(f"{path} must end with {' or '.join(suffixes)}.", param, ctx)
        return path


def check_copy(request: "Request", output: Path, option: str, *, overwrite: bool) -> None:
    """Refuse a copy of the target in another format, or in the place of a file that is read."""
    suffix = target_suffix(request.target)
    if not is_device(output) and suffix_of(output) != suffix:
        raise click.BadParameter(
            f"{output} must end with {suffix}, as the target does.", param_hint=f"'{option}'"
        )
    for name in ("target", "validation", "labels"):
        path = getattr(request, name)
        if path is None or overwrite or not (path.exists() and output.exists()):
            continue
        if path.samefile(output):
            raise click.BadParameter(
                f"{output} is the {name} file itself, whose contents would be lost; name another "
                "file, or add --overwrite.",
                param_hint=f"'{option}'",
            )


def target_suffix(target: Path) -> str:
    """Return the suffix of the target; what comes from stdin is CSV."""
    return ".csv" if str(target) == "-" else suffix_of(target)


def was_typed(name: str) -> bool:
    """Tell whether the user typed an option, rather than left it at its default."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and ctx.get_parameter_source(name) == ParameterSource.COMMANDLINE


overwrite_option: Decorator = click.option(
    "--overwrite", is_flag=True, help="Allow the adapted file to replace the target."
)


@dataclass(frozen=True)
class Request:
    """What the user named: files, columns, priors, intervals.

    `stdin` is where what came from stdin was put; `known_classes` are classes to look for where
    there are no labels, those of a saved state; `not_classes` are columns that hold something else:
    a group, a time.
    """

    target: Path
    validation: Path | None = None
    drop_missing: bool = False
    labels: Path | None = None
    key: str | None = None
    logits: bool = False
    label_column: str | None = None
    target_label_column: str | None = None
    target_labels: Path | None = None
    history_column: str | None = None
    assume_prior_shift: bool = False
    costs: str | None = None
    goal: GoalName = "accuracy"
    predicted_column: str | None = None
    class_columns: str | None = None
    positive_class: str | None = None
    renormalise: bool = False
    any_size: bool = False
    source_priors: str | None = None
    source_label_priors: str | None = None
    known_priors: str | None = None
    adapter: Path | None = None
    confidence_level: float | None = None
    interval_method: str | None = None
    stdin: Path | None = None
    known_classes: tuple[str, ...] = ()
    not_classes: tuple[str, ...] = ()


def request_of(files: tuple[Path, ...] = (), **named: Any) -> Request:
    """Return what the user named, and refuse what cannot go together.

    `files` are validation and target, as far as they are words and not options.
    """
    free = [name for name in ("validation", "target") if named.get(name) is None]
    if len(files) > len(free):
        raise click.UsageError(
            "name at most two files, validation and target, each once: as words, or with "
            "--validation and --target."
        )
    named |= zip(free[len(free) - len(files) :], files, strict=True)
    if named.get("target") is None:
        raise click.UsageError(
            "Missing option '--target'. It may also be the last file that you name."
        )
    found = Request(**named)
    if found.target_labels is not None and found.target_label_column is not None:
        raise click.UsageError("give --target-labels or --target-label-column, not both.")
    if found.key is not None and found.labels is None:
        raise click.UsageError("--key is for --labels, a file of labels; leave it out.")
    if found.interval_method is not None and found.confidence_level is None:
        raise click.UsageError("--interval-method needs a --confidence-level.")
    if found.costs is not None and found.goal != "accuracy":
        raise click.UsageError(
            f"--costs replaces --goal; leave out --goal {found.goal}, or --costs."
        )
    if found.positive_class is not None and found.class_columns is not None:
        raise click.UsageError(
            "give --class-columns CLASS=COLUMN or --positive-class CLASS, not both."
        )
    probabilities = found.logits or found.class_columns or found.positive_class
    if found.predicted_column is not None and probabilities:
        raise click.UsageError(
            "--predicted-column is for decisions without probabilities; leave out --logits, "
            "--class-columns and --positive-class."
        )
    return found


def add(*options: Decorator) -> Decorator:
    """Return a decorator that adds several options, in this order."""

    def to(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return to


labels_options: Decorator = add(
    click.option(
        "--labels", type=INPUT, help="Labels of validation, if they are in a file of their own."
    ),
    click.option(
        "--key",
        metavar="NAME",
        help="Column that tells which row of --labels belongs to which of --validation "
        "[default: the one that both have; if there is none, row by row].",
    ),
)

column_options: Decorator = add(
    click.option("--logits", is_flag=True, help="Predictions are logits, not probabilities."),
    click.option(
        "--drop-missing",
        is_flag=True,
        help="Leave out rows with empty cells in place of predictions or validation labels; adapt "
        "copies them as they are.",
    ),
    click.option("--label-column", help="Column of the labels [default: label; in an npz: y]."),
    click.option(
        "--class-columns",
        metavar="A,B,...|CLASS=COLUMN,...",
        help="Columns that hold predictions, or the column of each class [default: numeric columns "
        "common to both files that match the labels, perhaps with a prefix or suffix].",
    ),
    click.option(
        "--positive-class",
        metavar="CLASS",
        help="Predictions are one column: the probability of this class.",
    ),
    click.option(
        "--renormalise",
        is_flag=True,
        help="Divide each row by its sum, for probabilities that were rounded.",
    ),
    click.option(
        "--any-size",
        is_flag=True,
        help="Read a file even if it expands to more than 1 GB and 100 times its size.",
    ),
    click.option(
        "--predicted-column",
        metavar="NAME",
        help="Column of decisions, where there are no probabilities; auto is then cm-l.",
    ),
)
"""How to read the columns of a file."""


def data_options(validation: str, *, folder: bool = False) -> Decorator:
    """Add the options that name the data.

    `validation` says when it can be left out; with `folder` the target may be one, and label
    frequencies of the training set are not asked for: a monitor compares with validation as it is.
    """
    path = click.Path(exists=True, dir_okay=folder, allow_dash=True, path_type=Path)
    target = "Unlabelled predictions: a folder of files, or one file."
    label_frequencies = click.option(
        "--source-label-priors",
        metavar="FILE|NAME=VALUE,...",
        help="Label frequencies of the training set, if --source-priors are not known.",
    )
    return add(
        click.argument("files", nargs=-1, type=path, metavar="[VALIDATION] TARGET"),
        click.option(
            "--validation",
            type=INPUT,
            help="Labelled predictions: csv, parquet, arrow, feather, npz, npy, or - for CSV on "
            f"stdin. {validation}",
        ),
        click.option("--target", type=path, help=target if folder else "Unlabelled predictions."),
        labels_options,
        column_options,
        click.option(
            "--source-priors",
            metavar="FILE|NAME=VALUE,...",
            help="Priors the model was trained under: numbers or counts by class, a file of them, "
            "or a file of predictions on the training set, whose mean is taken.",
        ),
        *(() if folder else (label_frequencies,)),
    )


Usable = Callable[[PriorEstimator], bool]


class MethodChoice(click.Choice[str]):
    """The registered methods that a command can use, looked up when they are needed."""

    def __init__(self, usable: Usable | None = None, *, target_labels: bool = False) -> None:
        self.usable, self.target_labels = usable, target_labels
        super().__init__(())

    @property
    def choices(self) -> tuple[str, ...]:
        """Names of the methods whose traits the command can use."""
        names = available_estimators(target_labels=self.target_labels)
        if self.usable is None:
            return tuple(names)
        return tuple(name for name in names if self.usable(traits_of(name)))

    @choices.setter
    def choices(self, _: object) -> None:
        """Ignore what click sets: names may be registered later."""


def method_option(
    usable: Usable | None = None,
    default: str = DEFAULT_METHOD,
    more: str = ".",
    *,
    target_labels: bool = False,
) -> Decorator:
    """Add the choice of one method, of all or of those that a command can use."""
    return click.option(
        "--method",
        type=MethodChoice(usable, target_labels=target_labels),
        default=default,
        help=f"How to estimate the target priors{more}",
    )


def defaulted(name: str, kind: Any, default: Any, what: str) -> Decorator:
    """Add an option whose default the help shows."""
    return click.option(name, type=kind, default=default, help=what)


def fail_option(when: str) -> Decorator:
    """Add an exit code of its own for a shift."""
    return click.option(
        "--fail-on-shift", is_flag=True, help=f"End with exit code {SHIFTED} if {when}."
    )


goal_options: Decorator = add(
    click.option(
        "--costs",
        metavar="FILE|TRUE:DECIDED=COST,...",
        help="What errors cost: pairs such as ill:well=10, or a .csv table with a row per true "
        'class and a column per decision, or .json such as {"ill": {"well": 10}}; other errors '
        "cost 1. The verdict then rests on expected cost instead of accuracy.",
    ),
    click.option(
        "--goal",
        type=click.Choice(GOALS),
        default="accuracy",
        help="What adapting is to improve, where errors have no --costs: the verdict rests on it.",
    ),
)
"""What adapting is to improve: the price of errors, or a goal by name."""


target_labels_option: Decorator = click.option(
    "--target-label-column",
    metavar="NAME",
    help="Column of the target with the labels that you have; a cell is empty where you have none. "
    "The method ppi needs some [default: --label-column, if no cell is empty].",
)
"""Adds labels of some rows of the target."""


confidence_option: Decorator = click.option(
    "--confidence-level",
    type=SHARE,
    help="Give every prior an interval of this confidence, such as 0.95.",
)


interval_options: Decorator = add(
    confidence_option,
    click.option(
        "--interval-method",
        type=click.Choice(INTERVAL_METHODS),
        help="How to find the interval [default: auto, what suits --method best].",
    ),
)


known_priors_option: Decorator = click.option(
    "--known-priors",
    metavar="FILE|NAME=VALUE,...",
    help="Adapt to these priors instead of estimating them. One class may be left out: it "
    "gets what remains of 1.",
)


json_option: Decorator = click.option(
    "--json", "as_json", is_flag=True, is_eager=True, help="Print JSON."
)


def _write_safely(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:  # until the command ends
        context.with_resource(safe_csv())


safe_option: Decorator = click.option(
    "--safe-csv",
    is_flag=True,
    expose_value=False,
    callback=_write_safely,
    help="Begin text of CSV that a spreadsheet would run as a formula with a quote.",
)


def output_option(what: str, *suffixes: str, default: Path | None = None) -> Decorator:
    """Add a file to write, or stdout for what people read there: no HTML."""
    path = OutputPath(*suffixes, allow_dash=".html" not in suffixes)
    return click.option("--output", type=path, default=default, help=what)


answer_options: Decorator = add(
    output_option("Write a .json or .csv file instead of printing.", ".json", ".csv"),
    safe_option,
    json_option,
)
"""Where the answer goes: see `hand_out`."""


def read_pooling(_: click.Context, param: click.Parameter, value: str) -> float | str | None:
    """Read `auto`, `none`, or a number of rows."""
    if value in ("auto", "none"):
        return None if value == "none" else value
    with suppress(ValueError):
        if (rows := float(value)) >= 0:
            return rows
    raise click.BadParameter(f"{value!r} is neither auto, none, nor a number of rows.", param=param)


pooling_option = click.option(
    "--pooling",
    callback=read_pooling,
    default="auto",
    metavar="auto|none|ROWS",
    help="How far small groups are drawn to the others: as the data support, not at all, or as if "
    "so many more rows of every group followed the pooled priors.",
)

evidence_options: Decorator = add(
    target_labels_option,
    click.option(
        "--target-labels",
        type=EXISTING,
        help="Labels of some target rows: the file that assess --rows-to-label wrote, with the "
        "column label filled in.",
    ),
    click.option(
        "--history-column",
        metavar="NAME",
        help="Column of validation with the month, site or other group of each row: the verdict "
        "then rests on what would have helped in these groups.",
    ),
    click.option(
        "--assume-prior-shift",
        is_flag=True,
        help="You vouch that each class looks as it did and only the class balance changed.",
    ),
)
"""What a verdict may rest on beside predictions; commands that share it come to the same."""
