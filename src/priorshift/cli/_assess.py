"""priorshift assess."""

from pathlib import Path
from typing import Any

import click

from priorshift.assessment import Assessment
from priorshift.cli._console import busy, say
from priorshift.cli._documents import (
    check_suffix,
    document,
    hand_out,
    priors_as_csv,
    show_priors,
    tell_doubts,
    threshold_in_words,
)
from priorshift.cli._errors import command, in_options
from priorshift.cli._options import (
    Request,
    confidence_option,
    data_options,
    goal_options,
    json_option,
    method_option,
    output_option,
    target_labels_option,
)
from priorshift.cli._task import open_task


@command(
    "assess validation.csv target.csv",
    (
        "assess validation.csv target.csv --goal log_loss",
        "assess validation.csv target.csv --target-label-column label",
    ),
)
@data_options(validation="Required.")
@target_labels_option
@goal_options
@method_option(target_labels=True)
@confidence_option
@output_option("Write a .json or .csv file instead of printing.")
@json_option
def assess(method: str, output: Path | None, as_json: bool, **named: Any) -> None:
    """Estimate the class priors, test for a shift, and say whether to adapt: start here."""
    check_suffix(output, as_json)
    with open_task(Request(**named)) as task, busy("Assessing"):
        found = task.assess(method)
    if found is None:
        raise click.UsageError("an assessment needs --validation.")
    contents = {**found.to_dict(), "priors": found.estimate.to_dict()["priors"]}
    text = {
        ".json": document("assess", **contents),
        ".csv": priors_as_csv(found.estimate, task.target),
    }
    hand_out(text, output, as_json, lambda: show_assessment(found))
    tell_doubts(found)


def show_assessment(found: Assessment) -> None:
    """Print the verdict, the reasons and the priors."""
    say(found.sentence)
    for reason in found.reasons:
        say(f"- {in_options(reason)}")
    if said := threshold_in_words(found.estimate, found.costs):
        say(f"- {said}")
    show_priors(found.estimate)
