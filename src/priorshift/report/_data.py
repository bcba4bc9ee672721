"""The numbers of a report as JSON that a page can hold."""

import json
from dataclasses import asdict
from typing import Any

from priorshift.report._facts import Facts
from priorshift.text import plain

MAX_CONFUSABLE = 100
"""Pairs kept of those that cannot be told apart: a thousand classes may have 100,000."""

SCHEMA_VERSION = 1
"""Raised when a name goes or changes its meaning; not when one is added."""


def report_data(facts: Facts, **more: Any) -> dict[str, Any]:
    """Return the facts as plain values; vectors of classes are lists in the order of `classes`.

    `estimate` is `PriorEstimate.to_dict()`, whose vectors are mappings from class.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        **more,
        "estimate": plain(facts.estimate.to_dict()),
        "total_variation": facts.shift.total_variation,
        "n_validation": facts.n_val,
        "shift_test": _shift_test(facts),
        "diagnostics": _diagnostics(facts),
        "skipped": [] if facts.trust is None else list(facts.trust.skipped),
        "decisions": _decisions(facts),
        "confusion": _confusion(facts),
        "calibration": _calibration(facts),
        "target_labels": _target_labels(facts),
        "comparison": _comparison(facts),
        "warnings": list(facts.warnings),
    }


def as_json(data: dict[str, Any]) -> str:
    r"""Write JSON that neither ends a script element nor begins a comment.

    Examples
    --------
    >>> as_json({"class": "</script><!--"})
    '{"class":"\\u003c/script\\u003e\\u003c!--"}'
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


def _shift_test(facts: Facts) -> dict[str, Any] | None:
    return None if facts.test is None else dict(plain(facts.test.to_dict()))


def _diagnostics(facts: Facts) -> dict[str, Any] | None:
    if facts.diagnostics is None:
        return None
    found = plain(facts.diagnostics.to_dict())
    pairs = found["confusable"]
    return {**found, "confusable": pairs[:MAX_CONFUSABLE], "n_confusable": len(pairs)}


def _decisions(facts: Facts) -> dict[str, Any] | None:
    decisions = facts.decisions
    if decisions is None:
        return None
    classes = facts.estimate.classes.tolist()
    return {
        "n_rows": decisions.n_rows,
        "n_changed": decisions.n_changed,
        "before": decisions.before.tolist(),
        "after": decisions.after.tolist(),
        "n_flows": decisions.n_flows,
        "largest_flows": [
            {"from": classes[flow.before], "to": classes[flow.after], "rows": flow.rows}
            for flow in decisions.flows
        ],
    }


def _confusion(facts: Facts) -> dict[str, Any] | None:
    """Keep what is not 0 of the matrix: most of a large one is."""
    mistakes = facts.mistakes
    if mistakes is None:
        return None
    decided, truth = mistakes.hard.counts.nonzero()
    return {
        "condition_number_hard": plain(mistakes.condition_hard),
        "condition_number_soft": plain(mistakes.condition_soft),
        "accuracy": mistakes.accuracy,
        "rows_of_class": mistakes.hard.class_weights.astype(int).tolist(),
        "counts": {
            "decision": decided.tolist(),
            "class": truth.tolist(),
            "rows": mistakes.hard.counts[decided, truth].astype(int).tolist(),
        },
    }


def _calibration(facts: Facts) -> dict[str, Any] | None:
    reliability = facts.reliability
    if reliability is None:
        return None
    return {**plain(asdict(reliability)), "error": reliability.error}


def _target_labels(facts: Facts) -> dict[str, Any] | None:
    truth = facts.truth
    if truth is None:
        return None
    return {
        "priors": truth.priors.tolist(),
        "before": plain(asdict(truth.before)),
        "after": plain(asdict(truth.after)),
    }


def _comparison(facts: Facts) -> list[dict[str, Any]] | None:
    if facts.comparison is None:
        return None
    return [
        {
            "method": result.method,
            "priors": None if result.estimate is None else result.estimate.priors.tolist(),
            "status": None if result.estimate is None else result.estimate.status,
            "gap": None if result.estimate is None else plain(result.estimate.gap),
            "agreement": result.agreement,
            "seconds": result.seconds,
            "error": result.error,
            "warnings": list(result.warnings),
            "scores": None if result.scores is None else plain(asdict(result.scores)),
        }
        for result in facts.comparison.results
    ]
