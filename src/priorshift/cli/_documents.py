"""What commands hand out: JSON documents, tables of priors, files."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from priorshift._version import __version__
from priorshift.assessment import Assessment
from priorshift.cli._console import emit, note, say, show_table
from priorshift.compare import Comparison
from priorshift.estimators import PriorEstimate
from priorshift.estimators.result import columns_of, priors_table
from priorshift.exceptions import PriorShiftWarning, warn_user
from priorshift.files import PredictionFile, write_text
from priorshift.text import csv_table

SCHEMA_VERSION = 2
"""Raised when a field of the JSON output changes its meaning or goes; see schemas/."""

SHOWN_CLASSES = 25
"""Classes a terminal shows; beyond that the ones that moved most."""


def document(command: str, verdict: str | None, **contents: Any) -> str:
    """Return a JSON document, with the verdict of the assessment if there is one."""
    whole = {
        "schema_version": SCHEMA_VERSION,
        "priorshift_version": __version__,
        "command": command,
        "verdict": verdict,
        **contents,
    }
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def hand_out(
    contents: dict[str, Any],
    table: str,
    show: Callable[[], None],
    output: Path | None,
    as_json: bool,
    assessment: Assessment | None = None,
) -> None:
    """Write a .csv table or a JSON document to a file, else print JSON, else show it to a person.

    What the assessment warns of is told last.
    """
    told = {"verdict": verdict_of(assessment), **contents}
    text = document(click.get_current_context().info_name or "", **told)
    if output is not None and str(output) != "-":
        write_text(output, table if output.suffix.lower() == ".csv" else text)  # JSON to devices
        note(f"Wrote {output}.")
    elif as_json:
        emit(text)
    else:
        show()
    tell_doubts(assessment)


def priors_as_csv(shift: PriorEstimate, like: PredictionFile | None = None) -> str:
    """Return one line per class, with the separators of a file."""
    columns = columns_of(shift)
    rows = list(zip(*(column.tolist() for column in columns.values()), strict=True))
    return csv_like(like, tuple(columns), rows)


def csv_like(
    file: PredictionFile | None, header: Sequence[str], rows: Iterable[Sequence[Any]]
) -> str:
    """Return rows as CSV, with the separator and the decimals of a file that is CSV as well."""
    stored = None if file is None else file.stored
    comma = getattr(stored, "decimal_comma", False)
    delimiter = getattr(stored, "delimiter", ",")

    def cell(value: Any) -> Any:
        if not isinstance(value, float):
            return value
        return repr(float(value)).replace(".", "," if comma else ".")

    return csv_table(header, ([cell(value) for value in row] for row in rows), delimiter)


def verdict_of(assessment: Assessment | None) -> str | None:
    """Return the verdict for JSON, if there is one."""
    return None if assessment is None else assessment.verdict


def show_verdict(assessment: Assessment | None) -> None:
    """Print what to do, if it is known."""
    if assessment is not None:
        say(assessment.sentence)


def tell_doubts(assessment: Assessment | None) -> None:
    """Warn of what the assessment warns of, the same in every command and each thing once."""
    for message in () if assessment is None else assessment.warnings:
        warn_user(message, PriorShiftWarning)


def show_priors(shift: PriorEstimate, n_rows: int | None, title: str = "") -> None:
    """Print the priors before and after, the largest movers first where there are many.

    `n_rows` are all of the target's: an estimate may rest on a sample of them.
    """
    title, K = title or f"Priors by {shift.method}", shift.classes.size
    if K > SHOWN_CLASSES:
        title += f": the {SHOWN_CLASSES} of {K} classes that moved most"
    show_table(title, *priors_table(shift, SHOWN_CLASSES))
    status = {  # JSON has the word itself
        "certified": "Certified optimum",
        "stationary": "Converged",
        "direct": "Closed form",
        "not_converged": "Not converged",
    }[shift.status]
    gap = "" if shift.gap is None else f", gap {shift.gap:.2g}"
    of, drawn = "", ""
    if n_rows is not None and shift.n_target < n_rows:
        of, drawn = f"of {n_rows:,} ", ", drawn at random"
    note(
        f"{status}{gap}; {shift.n_target:,} {of}target rows{drawn}; source "
        f"priors: {shift.source_priors_from}."
    )
    if shift.interval is not None:
        note(f"{shift.interval_in_words()}.")
    if shift.condition_number is not None:
        note(f"Condition number of the confusion matrix: {shift.condition_number:.3g}.")
    for caution in shift.cautions:
        note(f"Caution: {caution}")


def show_comparison(comparison: Comparison, title: str) -> None:
    """Print one line per method, what the columns mean, and a conclusion."""
    header, rows = comparison.table()
    show_table(title, header, rows)
    for name, meaning in comparison.meanings.items():
        note(f"{name}: {meaning}.")
    say(comparison.conclusion)
