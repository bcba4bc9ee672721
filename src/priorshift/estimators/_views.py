"""An estimate as plain values, as columns of a frame, as text and as HTML."""

from collections.abc import Mapping
from dataclasses import fields
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from priorshift._typing import Indices
from priorshift._validation import some
from priorshift.calibration import CalibrationAverage, CalibrationMap
from priorshift.solvers import ADVICE
from priorshift.uncertainty import IntervalKind

if TYPE_CHECKING:
    from priorshift.estimators._result import PriorEstimate

MAX_ROWS = 10
"""Classes shown by a repr; beyond that the top movers."""

MADE_BY: dict[IntervalKind, str] = {
    "asymptotic": "standard errors of validation and target",
    "likelihood ratio": "likelihood ratios, which assume calibrated outputs",
    "bootstrap": "resampling validation and target",
    "bayesian": "posterior draws of priors and confusion matrix",
}


def as_dict(found: "PriorEstimate") -> dict[str, Any]:
    """Return plain Python values, ready for JSON; vectors become mappings from class."""
    classes = found.classes.tolist()
    named: dict[str, Any] = {}
    for field in fields(found):
        value = getattr(found, field.name)
        if field.name == "classes":
            value = classes
        elif isinstance(value, np.ndarray):
            value = dict(zip(classes, value.tolist(), strict=True))
        elif isinstance(value, CalibrationMap | CalibrationAverage):
            value = value.name
        named[field.name] = _plain(value)
    named["ratio"] = dict(zip(classes, found.ratio.tolist(), strict=True))
    return named


def _plain(value: Any) -> Any:
    """Return the value with None for infinities, which JSON does not know."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and np.isinf(value) else value


def columns_of(found: "PriorEstimate") -> dict[str, Any]:
    """Return one entry a class in every column; bounds and errors where there are any."""
    columns = {
        "class": found.classes,
        "source_prior": found.source_priors,
        "prior": found.priors,
        "ratio": found.ratio,
    }
    if found.interval is not None:
        columns |= {"lower": found.interval[:, 0], "upper": found.interval[:, 1]}
    if found.standard_error is not None:
        columns["standard_error"] = found.standard_error
    return columns


def as_text(found: "PriorEstimate") -> str:
    """Show the certificate and the classes that moved."""
    gap = "" if found.gap is None else f", gap={found.gap:.2g}"
    head = (
        f"PriorEstimate(method={found.method!r}, status={found.status!r}{gap}, "
        f"n_classes={found.classes.size}, n_target={found.n_target})"
    )
    rows = [_header(found), *_rows(found)]
    width = max(len(row[0]) for row in rows)
    lines = [f"  {row[0]:<{width}}" + "".join(f"  {cell:>8}" for cell in row[1:]) for row in rows]
    return "\n".join([head, *lines, *(f"  {note}" for note in _notes(found))])


def as_html(found: "PriorEstimate") -> str:
    """Show the same in a notebook."""
    header = "".join(f"<th>{escape(cell)}</th>" for cell in _header(found))
    cells = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in _rows(found)
    )
    gap = "" if found.gap is None else f", gap {found.gap:.2g}"
    head = escape(f"{found.method}: {found.status}{gap}, {found.n_target} target rows")
    notes = "".join(f"<p>{escape(note)}</p>" for note in _notes(found))
    return (
        f"<div><strong>Prior estimate</strong> {head}<table><thead><tr>{header}</tr></thead>"
        f"<tbody>{cells}</tbody></table>{notes}</div>"
    )


def interval_in_words(found: "PriorEstimate") -> str:
    """Say the level of the interval, what it is of, and how it was made."""
    level = "" if found.confidence_level is None else f"{100 * found.confidence_level:g} % "
    of = "these very rows" if found.estimand == "sample" else "the population"
    together = "for all classes together" if found.simultaneous else "for each class"
    by = "" if found.interval_method is None else f", by {MADE_BY[found.interval_method]}"
    return f"{level}interval of the share in {of}, {together}{by}"


def _header(found: "PriorEstimate") -> tuple[str, ...]:
    bounds = () if found.interval is None else ("lower", "upper")
    return ("class", "source", "target", *bounds, "ratio")


def _rows(found: "PriorEstimate") -> list[tuple[str, ...]]:
    shares = [found.source_priors, found.priors]
    if found.interval is not None:
        shares += [*found.interval.T]
    return [
        (
            str(found.classes[k]),
            *(f"{share[k]:.4f}" for share in shares),
            f"{found.ratio[k]:.3g}",
        )
        for k in _shown(found)
    ]


def _shown(found: "PriorEstimate") -> Indices:
    """Return the classes to show, the largest movers where there are many."""
    if found.classes.size <= MAX_ROWS:
        return np.arange(found.classes.size)
    moved = np.abs(found.priors - found.source_priors)
    return np.argsort(-moved, kind="stable")[:MAX_ROWS]


def _notes(found: "PriorEstimate") -> list[str]:
    notes = [
        f"{found.status}: {ADVICE[found.status]}",
        f"source priors: {found.source_priors_from}",
    ]
    if found.interval is not None:
        notes.insert(0, interval_in_words(found))
    if found.classes.size > MAX_ROWS:
        notes.insert(0, f"... the {MAX_ROWS} of {found.classes.size} classes that moved most")
    if found.condition_number is not None:
        notes.append(f"condition number of the confusion matrix: {found.condition_number:.3g}")
    if found.unseen_classes:
        notes.append(f"not in validation: {some(found.unseen_classes)}")
    return [*notes, *(f"caution: {caution}" for caution in found.cautions)]
