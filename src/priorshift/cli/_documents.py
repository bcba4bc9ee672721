"""What commands hand out: JSON documents, tables of priors, files."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from priorshift._version import __version__
from priorshift.adapt import binary_cut
from priorshift.assessment import Assessment
from priorshift.cli._console import emit, note, say, show_table
from priorshift.compare import Comparison
from priorshift.estimators import PriorEstimate
from priorshift.estimators.result import columns_of, priors_table
from priorshift.exceptions import PriorShiftWarning, warn_user
from priorshift.files import PredictionFile, write_text
from priorshift.text import csv_table
from priorshift.words import fact
from priorshift.words import say as say_fact

SCHEMA_VERSION = 2
"""Raised when a field of the JSON output changes its meaning or goes; see schemas/."""

STATUS_IN_WORDS = {
    "certified": "Certified optimum",
    "stationary": "Converged",
    "direct": "Closed form",
    "not_converged": "Not converged",
}
"""What a person reads of a solver's status; JSON and docs have the word itself."""

SHOWN_CLASSES = 25
"""Classes a terminal shows; beyond that the ones that moved most."""


def document(command: str, verdict: str | None, **contents: Any) -> str:
    """Return a JSON document, with the verdict of the assessment if there is one."""
    head = {
        "schema_version": SCHEMA_VERSION,
        "priorshift_version": __version__,
        "command": command,
        "verdict": verdict,
    }
    return json.dumps({**head, **contents}, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def check_suffix(output: Path | None, as_json: bool) -> None:
    """Refuse a file that is neither JSON nor CSV, before any work is done."""
    suffixes = (".json",) if as_json else (".json", ".csv")
    if output is not None and str(output) != "-" and output.suffix.lower() not in suffixes:
        raise click.BadParameter(
            f"{output} must end with {' or '.join(suffixes)}.", param_hint="'--output'"
        )


def hand_out(
    text: dict[str, str], output: Path | None, as_json: bool, show: Callable[[], None]
) -> None:
    """Write a document to a file by its suffix, else print JSON, else show it to a person.

    `text` holds the document as ".json" and ".csv".
    """
    if output is not None and str(output) != "-":
        write_text(output, text.get(output.suffix.lower(), text[".json"]))  # JSON to devices
        note(f"Wrote {output}.")
    elif as_json:
        emit(text[".json"])
    else:
        show()


def priors_as_csv(shift: PriorEstimate, like: PredictionFile | None = None) -> str:
    """Return one line per class, with the separators of a file."""
    columns = columns_of(shift)
    rows = list(zip(*(column.tolist() for column in columns.values()), strict=True))
    return csv_like(like, tuple(columns), rows)


def csv_like(
    file: PredictionFile | None, header: Sequence[str], rows: Iterable[Sequence[Any]]
) -> str:
    """Return rows as CSV, with the separator and the decimals of a file that is CSV as well."""
    comma = getattr(file, "decimal_comma", False)
    delimiter = getattr(file, "delimiter", ",")

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


def threshold_in_words(shift: PriorEstimate, costs: Any = None) -> str:
    """Say from which score on two classes are decided for the second; nothing if it is 1/2."""
    cut = binary_cut(costs) if shift.classes.size == 2 and shift.source_priors is not None else None
    if cut is None:
        return ""
    raw = shift.threshold(costs)
    if costs is None and raw is not None and abs(raw - cut) < 1e-6:  # nothing is adapted
        return ""
    return say_fact(fact("threshold", label=shift.classes[1], cut=cut, raw=raw))


def show_priors(shift: PriorEstimate) -> None:
    """Print the priors before and after, the largest movers first where there are many."""
    title, K = f"Priors by {shift.method}", shift.classes.size
    if K > SHOWN_CLASSES:
        title += f": the {SHOWN_CLASSES} of {K} classes that moved most"
    show_table(title, *priors_table(shift, SHOWN_CLASSES))
    for line in notes_of(shift):
        note(line)


def notes_of(shift: PriorEstimate) -> list[str]:
    """Return what a person should know of an estimate, one line each."""
    gap = "" if shift.gap is None else f", gap {shift.gap:.2g}"
    status = STATUS_IN_WORDS[shift.status]
    lines = [
        f"{status}{gap}; {shift.n_target} target rows; source priors: {shift.source_priors_from}."
    ]
    if shift.interval is not None:
        lines.append(f"{shift.interval_in_words()}.")
    if shift.condition_number is not None:
        lines.append(f"Condition number of the confusion matrix: {shift.condition_number:.3g}.")
    return [*lines, *(f"Caution: {caution}" for caution in shift.cautions)]


def comparison_as_csv(comparison: Comparison, like: PredictionFile | None = None) -> str:
    """Return one line per method, with its priors."""
    names = [str(name) for name in comparison.classes]
    header = ("method", "status", "gap", "disagreement", "seconds", "error")
    scored = comparison.score_names
    rows = []
    for result in comparison.results:
        estimate, scores = result.estimate, result.scores
        rows.append(
            (
                result.method,
                estimate.status if estimate else "refused",
                estimate.gap if estimate else None,
                result.disagreement,
                result.seconds,
                result.error,
                *(getattr(scores, name, None) for name in scored),
                *(estimate.priors.tolist() if estimate else [None] * len(names)),
            )
        )
    return csv_like(like, (*header, *scored, *(f"prior:{name}" for name in names)), rows)


def show_comparison(comparison: Comparison, title: str) -> None:
    """Print one line per method, what the columns mean, and a conclusion."""
    header, rows = comparison.table()
    show_table(title, header, rows)
    for name, meaning in comparison.columns.items():
        note(f"{name}: {meaning}.")
    say(comparison.conclusion)


def tell_warnings(comparison: Comparison) -> None:
    """Tell what methods warned of, each warning once, with those that gave it."""
    told: dict[str, list[str]] = {}
    for result in comparison.results:
        for message in result.warnings:
            told.setdefault(message, []).append(result.method)
    for message, methods in told.items():
        note(f"Warning by {', '.join(methods)}: {message}")
