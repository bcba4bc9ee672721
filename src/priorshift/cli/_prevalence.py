"""priorshift prevalence."""

from pathlib import Path

import click

from priorshift.cli._console import note, say
from priorshift.cli._documents import check_suffix, document, hand_out, priors_as_csv
from priorshift.cli._errors import Command
from priorshift.cli._options import SHARE, defaulted, json_option, output_option
from priorshift.estimators import CML, PriorEstimate
from priorshift.statistics import Confusion
from priorshift.text import percent

RATE = click.FloatRange(0, 1)
SIZE = click.IntRange(1)


@click.command(
    cls=Command,
    short_help="Correct a share of positives for the errors of the test.",
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
    hand_out(text, output, as_json, lambda: show(shift, low, high, positives / n))


def show(shift: PriorEstimate, low: float, high: float, apparent: float) -> None:
    """Print the prevalence, its interval, and what it was before."""
    level = f"{100 * (shift.confidence_level or 0):g} %"
    say(
        f"Prevalence {percent(float(shift.priors[1]))}, {level} interval {percent(low)} to "
        f"{percent(high)}; {percent(apparent)} of the results are positive."
    )
    for caution in shift.cautions:
        note(f"{caution[0].upper()}{caution[1:]} Give --sensitivity-n and --specificity-n.")
