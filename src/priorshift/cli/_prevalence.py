"""priorshift prevalence and priorshift plan: a share from counts, and the labels that one needs."""

from pathlib import Path
from typing import Any

import click
import numpy as np

from priorshift._typing import Labels
from priorshift.border import encode_labels
from priorshift.cli._console import emit, note, say
from priorshift.cli._data import CONFIDENCE_LEVEL, open_data
from priorshift.cli._documents import check_suffix, document, hand_out, priors_as_csv
from priorshift.cli._errors import Command, command
from priorshift.cli._options import INPUT, SHARE, Request, defaulted, json_option, output_option
from priorshift.cli._priors import read_priors
from priorshift.counts import Confusion
from priorshift.estimators import CML, PriorEstimate
from priorshift.estimators.labelled import LabelsNeeded, labels_needed
from priorshift.text import percent

RATE = click.FloatRange(0, 1)
SIZE = click.IntRange(1)


@click.command(
    cls=Command,
    epilog="\b\nExample:\n"
    "  priorshift prevalence --positives 120 --n 1000 --sensitivity 0.9 --specificity 0.95 "
    "--sensitivity-n 100 --specificity-n 200",
)
@click.option("--positives", type=click.IntRange(0), required=True, help="Positive test results.")
@click.option("--n", type=SIZE, required=True, help="All test results.")
@click.option(
    "--sensitivity", type=RATE, required=True, help="Share of true positives that the test finds."
)
@click.option(
    "--specificity", type=RATE, required=True, help="Share of true negatives that it clears."
)
@click.option("--sensitivity-n", type=SIZE, help="True positives that this was measured on.")
@click.option("--specificity-n", type=SIZE, help="True negatives that this was measured on.")
@defaulted("--confidence-level", SHARE, 0.95, "Of the interval.")
@output_option("Write a .json or .csv file instead of printing.")
@json_option
def prevalence(
    positives: int,
    n: int,
    sensitivity: float,
    specificity: float,
    sensitivity_n: int | None,
    specificity_n: int | None,
    confidence_level: float,
    output: Path | None,
    as_json: bool,
) -> None:
    """Estimate a prevalence from test results and the known error rates of the test.

    With --sensitivity-n and --specificity-n the interval carries the uncertainty of the rates;
    without them, the rates are exact.
    """
    check_suffix(output, as_json)
    if positives > n:
        raise click.UsageError(f"--positives is {positives} but --n is {n}; n counts all results.")
    known = Confusion.from_rates(
        sensitivity=sensitivity,
        specificity=specificity,
        n_positive=sensitivity_n,
        n_negative=specificity_n,
        classes=["negative", "positive"],
    )
    shift = CML().fit(confusion=known).estimate_counts([n - positives, positives], confidence_level)
    low, high = shift.interval[1].tolist()  # type: ignore[index]
    contents = {
        "prevalence": float(shift.priors[1]),
        "prevalence_interval": [low, high],
        "apparent_prevalence": positives / n,
    }
    text = {
        ".json": document("prevalence", None, **contents, **shift.to_dict()),
        ".csv": priors_as_csv(shift),
    }
    hand_out(text, output, as_json, lambda: _show_prevalence(shift, low, high, positives / n))


def _show_prevalence(shift: PriorEstimate, low: float, high: float, apparent: float) -> None:
    """Print the prevalence, its interval, and what it was before."""
    level = f"{100 * (shift.confidence_level or 0):g} %"
    say(
        f"Prevalence {percent(float(shift.priors[1]))}, {level} interval {percent(low)} to "
        f"{percent(high)}; {percent(apparent)} of the results are positive."
    )
    for caution in shift.cautions:
        note(f"{caution[0].upper()}{caution[1:]} Give --sensitivity-n and --specificity-n.")


@command("plan --width 0.04 --validation validation.csv")
@click.option(
    "--width",
    type=SHARE,
    required=True,
    help="Full width of the interval in the widest class: 0.04 is plus or minus 2 points.",
)
@defaulted("--confidence-level", SHARE, CONFIDENCE_LEVEL, "Confidence level of the interval.")
@click.option(
    "--validation",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Labelled predictions: their class balance is planned for, and how many fewer labels "
    "the method ppi needs.",
)
@click.option(
    "--priors",
    metavar="FILE|NAME=VALUE,...",
    help="What the shares in the target are about [default: as in --validation, or the worst "
    "case, 1/2].",
)
@click.option("--labels", type=INPUT, help="Labels of validation, if in a file of their own.")
@click.option("--key", metavar="NAME", help="Column that both files have, to join them by.")
@click.option("--logits", is_flag=True, help="Predictions are logits, not probabilities.")
@click.option("--label-column", help="Column of the labels [default: label; in an npz: y].")
@click.option("--class-columns", metavar="A,B,...", help="Columns that hold predictions.")
@click.option(
    "--predicted-column", metavar="NAME", help="Column of decisions, without probabilities."
)
@json_option
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
        confusion, classes = _decided(validation, named)
        shares = None if priors is None else read_priors(priors, classes, "--priors")
    elif priors is not None:
        shares = _named(priors)
    found = labels_needed(
        width=width, confidence_level=confidence_level, priors=shares, confusion=confusion
    )
    if as_json:
        emit(
            document(
                "plan",
                None,
                width=width,
                confidence_level=confidence_level,
                labels=int(found),
                with_predictions=found.with_predictions,
            )
        )
        return
    _show_plan(found, width, confidence_level)


def _decided(validation: Path, named: dict[str, Any]) -> tuple[Confusion, Labels]:
    """Count the decisions on validation by class."""
    with open_data(Request(target=validation, validation=validation, **named)) as data:
        assert data.y_proba_val is not None
        assert data.y_val is not None
        index = encode_labels(data.y_val, data.classes)
        confusion = Confusion.from_arrays(data.y_proba_val.values, index, decision="hard")
        return confusion, data.classes


def _named(text: str) -> Any:
    """Read shares without a validation set to name the classes: their names do not matter."""
    names = [part.split("=")[0].strip() for part in text.split(",")]
    if not all("=" in part for part in text.split(",")):
        raise click.UsageError("--priors without --validation are typed: spam=0.2,ham=0.8.")
    return read_priors(text, np.array(names), "--priors")


def _show_plan(found: LabelsNeeded, width: float, level: float) -> None:
    points = f"plus or minus {50 * width:g} points"
    say(f"Label {found:,} target rows, drawn at random: {points} at {100 * level:g} % confidence.")
    if found.with_predictions is not None:
        say(
            f"With predictions on many more rows, {found.with_predictions:,} labels do: "
            "priorshift estimate --method ppi --target-label-column NAME."
        )
    note("This is for the class whose share is hardest to tell; the others are narrower.")
