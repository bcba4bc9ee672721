"""priorshift prevalence and priorshift plan: a share from counts, and the labels that one needs."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import numpy as np

from priorshift._typing import Indices, Labels
from priorshift.border import as_text, encode_labels, some
from priorshift.cli import _console as console
from priorshift.cli import _options as options
from priorshift.cli._data import CONFIDENCE_LEVEL, open_data
from priorshift.cli._errors import command
from priorshift.cli._priors import names_in_pairs, read_priors
from priorshift.cli._read import read_cells
from priorshift.counts import Confusion
from priorshift.estimators import CML
from priorshift.estimators.labelled import labels_needed
from priorshift.estimators.result import columns_of
from priorshift.files import PredictionFile, open_predictions
from priorshift.groups import GroupCounts, estimate_groups
from priorshift.text import at_level, percent, printable


class Rate(click.ParamType):  # type: ignore[type-arg]
    """A share such as 0.9 or 90%, or the two counts that it was measured by, such as 130/157."""

    name = "rate"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, int | None]:
        """Return the share, and what it was measured on if that is known."""
        counts, rate = re.fullmatch(r"(\d+)/(\d+)", value), -1.0
        with suppress(ValueError, ZeroDivisionError):
            if counts:
                rate = int(counts[1]) / int(counts[2])
            else:
                rate = float(value.removesuffix("%")) / (100 if value.endswith("%") else 1)
        if not 0 <= rate <= 1:
            said = (
                f"{value!r} is neither a share such as 0.85 or 85% nor two counts such as 130/157."
            )
            self.fail(said, param, ctx)
        return rate, int(counts[2]) if counts else None


@command(
    "prevalence --positives 120 --n 1000 --sensitivity 90/100 --specificity 190/200",
    ("prevalence by_age.csv --sensitivity 90/100 --specificity 190/200",),
)
@click.argument("file", type=options.INPUT, required=False)
@click.option(
    "--positives",
    metavar="COUNT|NAME",
    help="Positive results; of a FILE of groups their column [default there: positives].",
)
@click.option(
    "--n", metavar="COUNT|NAME", help="All results; of a FILE their column [default there: n]."
)
@click.option(
    "--group-column", metavar="NAME", help="Groups of a FILE [default: its first column]."
)
@click.option(
    "--sensitivity",
    type=Rate(),
    required=True,
    metavar="RATE|FOUND/ILL",
    help="Share of true positives that the test finds: 0.9, or 90/100 as counted.",
)
@click.option(
    "--specificity",
    type=Rate(),
    required=True,
    metavar="RATE|CLEARED/HEALTHY",
    help="Share of true negatives that it clears.",
)
@options.pooling_option
@options.defaulted("--confidence-level", options.SHARE, 0.95, "Of the interval.")
@options.answer_options
def prevalence(
    file: Path | None,
    positives: str | None,
    n: str | None,
    group_column: str | None,
    sensitivity: tuple[float, int | None],
    specificity: tuple[float, int | None],
    pooling: Any,
    confidence_level: float,
    output: Path | None,
    as_json: bool,
) -> None:
    """Estimate a prevalence from test results and the known error rates of the test.

    FILE is a table with one line per group, such as an age group: its name, the positive results
    and all results. Small groups are pooled. Rates as counts put their uncertainty into the
    interval; others are exact.
    """
    known = Confusion.from_rates(
        sensitivity=sensitivity[0],
        specificity=specificity[0],
        n_positive=sensitivity[1],
        n_negative=specificity[1],
        classes=["negative", "positive"],
    )
    column, names, counts = _results(file, positives, n, group_column)
    estimator = CML().fit(confusion=known)
    shift = estimator.estimate_counts(counts.sum(axis=0), confidence_level)
    low, high = shift.interval[1].tolist()  # type: ignore[index]
    contents: dict[str, Any] = {
        "prevalence": float(shift.priors[1]),
        "prevalence_interval": [low, high],
        "apparent_prevalence": float(counts[:, 1].sum() / counts.sum()),
        "interval_by": "Wilson's, mapped through exact error rates"
        if known.exact
        else "score interval, with the errors of the rates",
    }
    table, like = columns_of(shift), None
    rows: list[tuple[Any, ...]] = []
    if file is not None:
        numbers = counts.astype(np.float64)
        second = np.diag(numbers.sum(axis=0))
        of_groups = GroupCounts(names, "hard", counts.sum(axis=1), numbers, second)
        found = estimate_groups(
            estimator, of_groups, pooling=pooling, confidence_level=confidence_level
        )
        bounds = found.interval[:, 1].T  # type: ignore[index]
        columns = (names, found.n, counts[:, 1], found.priors[:, 1], *bounds, found.weight)
        table, like = dict(zip(COLUMNS, columns, strict=True)), open_predictions(file)
        rows = list(zip(*(column.tolist() for column in columns), strict=True))
        contents["groups"] = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
        contents["pooling"] = None if np.isinf(found.pooling) else found.pooling

    def show() -> None:
        interval = at_level(confidence_level)
        if rows:
            title = f"Prevalence by {column} ({interval}: {contents['interval_by']})"
            header = (column, "results", "positive", "prevalence", "interval", "weight")
            cells = []
            for name, m, k, share, *bounds, weight in rows:
                counted = (str(name), f"{m:,}", f"{k:,}")
                between = " to ".join(map(percent, bounds))
                cells.append((*counted, percent(share), between, f"{weight:.2f}"))
            console.show_table(title, header, cells)
            console.note(
                "weight: how far a group keeps its own estimate; the rest comes from all groups."
            )
        all_of_them = "All groups together: prevalence" if rows else "Prevalence"
        console.say(
            f"{all_of_them} {percent(float(shift.priors[1]))}, {interval} {percent(low)} to "
            f"{percent(high)} ({contents['interval_by']}); "
            f"{percent(contents['apparent_prevalence'])} of the results are positive."
        )
        for caution in shift.cautions:
            console.note(
                f"{caution[0].upper()}{caution[1:]} Give rates as counts, such as 130/157."
            )

    console.hand_out({**contents, **shift.to_dict()}, table, show, output, as_json, like=like)
    _caution(names, counts, sensitivity[0], specificity[0])


COLUMNS = ("group", "n", "positives", "prevalence", "low", "high", "weight")
"""Of a table of groups."""


def _results(
    file: Path | None, positives: str | None, n: str | None, group_column: str | None
) -> tuple[str, Labels, Indices]:
    """Return what groups are called, their names, and negative and positive results of each."""
    if file is None:
        given = {"--positives": positives, "--n": n}
        for name, value in given.items():
            if value is None or not value.isdecimal():
                raise click.UsageError(f"{name} must be a count, or give a FILE of groups.")
        column, names, where = "group", np.array(["all"]), "--positives and --n"
        tested, found = np.array([int(n or 0)]), np.array([int(positives or 0)])
    else:
        table, where = open_predictions(file), str(file)
        column = group_column or table.header[0]
        names = as_text(read_cells(table, column, "--group-column"))
        found, tested = (
            _counted(table, name, option)
            for name, option in ((positives or "positives", "--positives"), (n or "n", "--n"))
        )
        unique, times = np.unique(names, return_counts=True)
        if (times > 1).any():
            raise ValueError(
                f"{where} has group {some(unique[times > 1].tolist())} more than once; add their "
                "counts up, or name another --group-column."
            )
        called = np.isin(np.char.lower(names), ("total", "totals", "all", "sum", "overall", ""))
        sums = called & (2 * tested == tested.sum()) & (2 * found == found.sum())
        for name in names[sums]:
            console.note(
                f"Left out row {printable(str(name))!r}: its counts are the sum of the others."
            )
        names, tested, found = names[~sums], tested[~sums], found[~sums]
    wrong = np.flatnonzero((found > tested) | (tested < 1))
    if wrong.size:
        at, refusal = int(wrong[0]), click.UsageError if file is None else ValueError
        raise refusal(
            f"{where}: group {some([names[at].item()])} has {found[at]} positives of {tested[at]} "
            "results; n counts all results, the negative ones too, and is at least 1."
        )
    return column, names, np.column_stack([tested - found, found])


def _counted(table: PredictionFile, name: str, option: str) -> Indices:
    """Read a column of whole numbers."""
    cells = as_text(read_cells(table, name, option))
    for at, value in enumerate(cells.tolist()):
        if not value.strip().isdecimal():
            raise ValueError(
                f"column {name!r} of {table.where} has {value!r} in {table.place(at)}; counts are "
                "whole numbers."
            )
    return cells.astype(np.int64)


def _caution(names: Labels, counts: Indices, sensitivity: float, specificity: float) -> None:
    """Say where there are fewer positives than mistakes alone give, or more than all cases do."""
    n, k = counts.sum(axis=1), counts[:, 1]
    least, most = 1 - specificity, sensitivity
    for which, what, end in (
        (k < n * least, f"fewer than the {percent(least)} that are by mistake", 0),
        (k > n * most, f"more than the {percent(most)} of all cases that the test finds", 1),
    ):
        for at in np.flatnonzero(which):
            group = "" if names.size == 1 else f"{printable(str(names[at]))}: "
            console.note(
                f"{group}{percent(k[at] / n[at])} of the results are positive, {what}, so the "
                f"estimate by itself is {end}. That is chance, or these error rates do not hold "
                "for these people."
            )


@command("plan --width 0.04 --validation validation.csv")
@click.option(
    "--width",
    type=options.SHARE,
    required=True,
    help="Full width of the interval in the widest class: 0.04 is plus or minus 2 points.",
)
@options.defaulted(
    "--confidence-level", options.SHARE, CONFIDENCE_LEVEL, "Confidence level of the interval."
)
@click.option(
    "--validation",
    type=options.EXISTING,
    help="Labelled predictions: their class balance is planned for, and how many fewer labels "
    "the method ppi needs.",
)
@click.option(
    "--priors",
    metavar="FILE|NAME=VALUE,...",
    help="What the shares in the target are about [default: as in --validation, or the worst "
    "case, 1/2].",
)
@options.labels_options
@options.column_options
@options.json_option
def plan(
    width: float,
    confidence_level: float,
    validation: Path | None,
    priors: str | None,
    as_json: bool,
    **named: Any,
) -> None:
    """Say how many rows of the target to label, for class shares within a given width."""
    confusion, shares = None, None
    if validation is not None:
        request = options.request_of(target=validation, validation=validation, **named)
        data = open_data(request)
        y_proba, y = data.validation("planning")
        index = encode_labels(y, data.classes)
        confusion = Confusion.from_arrays(y_proba.values, index, decision="hard")
        shares = None if priors is None else read_priors(priors, data.classes, "--priors")
    elif priors is not None:
        names = names_in_pairs(priors)
        if not names:
            raise click.UsageError("--priors without --validation are typed: spam=0.2,ham=0.8.")
        shares = read_priors(priors, np.array(names), "--priors")
    asked: Any = {"width": width, "confidence_level": confidence_level}
    found = labels_needed(confusion=confusion, priors=shares, **asked)
    if as_json:
        found_both = {"labels": int(found), "with_predictions": found.with_predictions}
        console.emit(console.document("plan", None, **asked, **found_both))
        return
    points = f"plus or minus {50 * width:g} points at {at_level(confidence_level, 'confidence')}"
    console.say(f"Label {found:,} target rows, drawn at random: {points}.")
    if found.with_predictions is not None:
        console.say(
            f"With predictions on many more rows, {found.with_predictions:,} labels do: "
            "priorshift estimate --method ppi --target-label-column NAME."
        )
    console.note("This is for the class whose share is hardest to tell; the others are narrower.")
