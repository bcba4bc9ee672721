"""What a page holds: words, tables, the numbers as JSON, and where it comes from."""

import json
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from priorshift._version import __version__
from priorshift.report._facts import Facts
from priorshift.report._tables import (
    Table,
    decisions_table,
    flows_table,
    methods_table,
    pairs_table,
    priors_table,
    reliability_table,
    truth_table,
)
from priorshift.report._words import (
    condition_sentences,
    description,
    gains_and_losses,
    interval_sentence,
    left_out,
    ratio_sentence,
    references,
    shift_judgement,
    trust_judgement,
    used_condition,
    verdict,
)
from priorshift.text import count, number, percent, plain, plural, shown_names, shown_text

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


def about_report(
    title: str | None, command: str | None, random_state: Any, created: datetime | None
) -> dict[str, Any]:
    """Say what the report is called, and how it was made."""
    when = (created or datetime.now(UTC)).replace(microsecond=0)
    return {
        "title": shown_text(title or "Prior shift report"),
        "created": when.isoformat(),
        "command": None if command is None else shown_text(command, keep_lines=True),
        "random_state": None if random_state is None else shown_text(str(random_state)),
        "versions": _versions(),
    }


def page_content(facts: Facts, about: dict[str, Any]) -> dict[str, Any]:
    """Return what the template fills in."""
    names = shown_names(facts.estimate.classes)
    comparison = facts.comparison
    return {
        "about": about,
        "facts": facts,
        "estimate": facts.estimate,
        "describe": description(facts.estimate.method),
        "verdict": verdict(facts, names),
        "numbers": _key_numbers(facts),
        "shift": shift_judgement(facts),
        "trusted": trust_judgement(facts, names),
        "ratio": ratio_sentence(facts),
        "interval": interval_sentence(facts),
        "gains": gains_and_losses(facts, names),
        "conditions": condition_sentences(facts),
        "tables": _tables(facts, names),
        "refused": [] if comparison is None else [r for r in comparison.results if r.error],
        "left_out": left_out(facts),
        "references": references(facts.estimate.method, calibration=facts.reliability is not None),
        "count": count,
        "percent": percent,
        "plural": plural,
    }


def _tables(facts: Facts, names: tuple[str, ...]) -> dict[str, Table | None]:
    tables: dict[str, Table | None] = {
        "priors": priors_table(facts, names),
        "methods": methods_table(facts),
    }
    if facts.decisions is not None:
        tables["decisions"] = decisions_table(facts.decisions, names)
        tables["flows"] = flows_table(facts.decisions, names)
    if facts.mistakes is not None:
        tables["pairs"] = pairs_table(facts.mistakes, names)
    if facts.reliability is not None:
        tables["reliability"] = reliability_table(facts.reliability)
    if facts.truth is not None:
        tables["truth"] = truth_table(facts.truth)
    return tables


def _key_numbers(facts: Facts) -> list[tuple[str, str]]:
    """Return the few numbers to see first."""
    found = [
        ("total variation distance", number(facts.shift.total_variation)),
        ("solver", facts.estimate.status.replace("_", " ")),
    ]
    if facts.decisions is not None:
        share = facts.decisions.n_changed / facts.decisions.n_rows
        found.append(("of decisions change", percent(share)))
    condition = used_condition(facts)
    if condition is not None:
        found.append(("condition number", number(condition)))
    if facts.reliability is not None:
        found.append(("calibration error", percent(facts.reliability.error)))
    if facts.truth is not None:
        when = "accuracy, left alone" if facts.left_alone else "accuracy after adapting"
        found.append((when, percent(facts.truth.after.accuracy)))
    return found


def _versions() -> dict[str, str]:
    packages = ("numpy", "scipy", "scikit-learn")
    return {
        "priorshift": __version__,
        "Python": platform.python_version(),
        **{package: version(package) for package in packages},
    }
