"""priorshift plan."""

from pathlib import Path
from typing import Any

import click
import numpy as np

from priorshift._typing import Labels
from priorshift._validation import encode_labels
from priorshift.cli._console import emit, note, say
from priorshift.cli._documents import document
from priorshift.cli._errors import command
from priorshift.cli._options import INPUT, SHARE, Request, defaulted, json_option
from priorshift.cli._priors import read_priors
from priorshift.cli._task import CONFIDENCE_LEVEL, open_task
from priorshift.estimators.ppi import LabelsNeeded, labels_needed
from priorshift.statistics import Confusion


@command("plan --width 0.04 --validation validation.csv", "Say how many target rows to label.")
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
@click.option("--labels", type=INPUT, help="Labels of validation, where its file has no room.")
@click.option("--logits", is_flag=True, help="Predictions are logits, not probabilities.")
@click.option("--label-column", help="Column of the labels [default: label; in an npz: y].")
@click.option("--class-columns", metavar="A,B,...", help="Columns that hold predictions.")
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
    _show(found, width, confidence_level)


def _decided(validation: Path, named: dict[str, Any]) -> tuple[Confusion, Labels]:
    """Count the decisions on validation by class."""
    with open_task(Request(target=validation, validation=validation, **named)) as task:
        assert task.y_proba_val is not None
        assert task.y_val is not None
        index = encode_labels(task.y_val, task.classes)
        confusion = Confusion.from_arrays(task.y_proba_val.values, index, decision="hard")
        return confusion, task.classes


def _named(text: str) -> Any:
    """Read shares without a validation set to name the classes: their names do not matter."""
    names = [part.split("=")[0].strip() for part in text.split(",")]
    if not all("=" in part for part in text.split(",")):
        raise click.UsageError("--priors without --validation are typed: spam=0.2,ham=0.8.")
    return read_priors(text, np.array(names), "--priors")


def _show(found: LabelsNeeded, width: float, level: float) -> None:
    points = f"plus or minus {50 * width:g} points"
    say(f"Label {found:,} target rows, drawn at random: {points} at {100 * level:g} % confidence.")
    if found.with_predictions is not None:
        say(
            f"With predictions on many more rows, {found.with_predictions:,} labels do: "
            "priorshift estimate --method ppi --target-label-column NAME."
        )
    note("This is for the class whose share is hardest to tell; the others are narrower.")
