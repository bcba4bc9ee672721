"""What a page holds: words, tables, the numbers as JSON, and where it comes from."""

import json
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from priorshift._version import __version__
from priorshift.report._facts import Facts
from priorshift.report._figures import picture
from priorshift.report._tables import (
    PageTable,
    decisions_table,
    flows_table,
    methods_table,
    pairs_table,
    plan_table,
    priors_table,
    reliability_table,
    truth_table,
)
from priorshift.report._words import (
    changed_claim,
    checks,
    condition_sentences,
    decisions_sentence,
    description,
    interval_sentence,
    left_out,
    movers_claim,
    next_steps,
    ratio_sentence,
    references,
    tiles,
    trust_claim,
    verdict,
    worth_knowing,
)
from priorshift.text import (
    count,
    listed,
    percent,
    plain,
    plural,
    shorten,
    shown_names,
    shown_text,
)

MAX_CONFUSABLE = 100
"""Pairs kept of those that cannot be told apart: a thousand classes may have 100,000."""

MOST_IN_TITLE, MANY_IN_TITLE = 3, 12
"""Classes that a title names, and beyond how many it names none."""

SCHEMA_VERSION = 2
"""Raised when a name goes or changes its meaning; not when one is added."""


def report_data(facts: Facts, **more: Any) -> dict[str, Any]:
    """Return the facts as plain values; vectors of classes are lists in the order of `classes`.

    `estimate` is `PriorEstimate.to_dict()`, whose vectors are mappings from class.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        **more,
        "verdict": facts.verdict,
        "sentence": None if facts.assessment is None else facts.assessment.sentence,
        "reasons": [] if facts.assessment is None else list(facts.assessment.reasons),
        "gain": None if facts.assessment is None else facts.assessment.gain.to_dict(),
        "goal": facts.goal.name,
        "score_before": _expected(facts, "score_before"),
        "score_after": _expected(facts, "score_after"),
        "accuracy": _accuracy(facts),
        "estimate": plain(facts.estimate.to_dict()),
        "total_variation": facts.shift.total_variation,
        "n_validation": facts.n_val,
        "shift_test": _shift_test(facts),
        "diagnostics": _diagnostics(facts),
        "decisions": _decisions(facts),
        "decided_shares": None if facts.decided is None else facts.decided.tolist(),
        "confusion": _confusion(facts),
        "calibration": _calibration(facts),
        "target_labels": _target_labels(facts),
        "labels_needed": [asdict(plan) for plan in facts.plans],
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


def _accuracy(facts: Facts) -> dict[str, Any] | None:
    """Return expected accuracy, and what labels of the target say of the goal."""
    found = facts.assessment
    if found is None or found.accuracy_before is None:
        return None
    return {
        "before": found.accuracy_before.to_dict(),
        "after": None if found.accuracy_after is None else found.accuracy_after.to_dict(),
        "measured": None if found.measured is None else found.measured.to_dict(),
    }


def _expected(facts: Facts, name: str) -> dict[str, float] | None:
    """Return a score of the assessment, as the first screen shows it."""
    found = None if facts.assessment is None else getattr(facts.assessment, name)
    return None if found is None else dict(found.to_dict())


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
        "cost": None if truth.cost is None else list(truth.cost),
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
    title: str, command: str | None, random_state: Any, created: datetime | None
) -> dict[str, Any]:
    """Say what the report is called, and how it was made."""
    when = (created or datetime.now(UTC)).replace(microsecond=0)
    return {
        "title": shown_text(title),
        "created": when.isoformat(),
        "command": None if command is None else shown_text(command, keep_lines=True),
        "random_state": None if random_state is None else shown_text(str(random_state)),
        "versions": _versions(),
    }


def title_of(facts: Facts) -> str:
    """Name a report that was given no title by its classes."""
    names = [shorten(name, 30) for name in shown_names(facts.estimate.classes)]
    if len(names) > MANY_IN_TITLE:
        return f"Class balance of {len(names):,} classes"
    if len(names) > MOST_IN_TITLE:
        names = [*names[: MOST_IN_TITLE - 1], f"{len(names) - MOST_IN_TITLE + 1:,} other classes"]
    return f"Class balance of {listed(names)}"


def page_content(facts: Facts, about: dict[str, Any], options: str | None) -> dict[str, Any]:
    """Return what the template fills in."""
    names = shown_names(facts.estimate.classes)
    comparison, doubts = facts.comparison, checks(facts, names)
    return {
        "about": about,
        "facts": facts,
        "estimate": facts.estimate,
        "describe": description(facts.estimate.method),
        "verdict": verdict(facts),
        "tiles": tiles(facts),
        "picture": picture(facts, names),
        "movers_claim": movers_claim(facts, names),
        "changed_claim": changed_claim(facts),
        "decided": decisions_sentence(facts, names),
        "ratio": ratio_sentence(facts),
        "interval": interval_sentence(facts),
        "checks": doubts,
        "trust_claim": trust_claim(doubts),
        "next": next_steps(facts, names, options),
        "worth_knowing": worth_knowing(facts, names),
        "conditions": condition_sentences(facts),
        "tables": _tables(facts, names),
        "refused": [] if comparison is None else [r for r in comparison.results if r.error],
        "left_out": left_out(facts),
        "references": references(facts.estimate.method, calibration=facts.reliability is not None),
        "count": count,
        "percent": percent,
        "plural": plural,
    }


def _tables(facts: Facts, names: tuple[str, ...]) -> dict[str, PageTable | None]:
    tables: dict[str, PageTable | None] = {
        "priors": priors_table(facts, names),
        "methods": methods_table(facts),
        "truth": None if facts.truth is None else truth_table(facts.truth),
        "plan": plan_table(facts) if facts.plans else None,
    }
    if facts.decisions is not None:
        tables["decisions"] = decisions_table(facts.decisions, names)
        tables["flows"] = flows_table(facts.decisions, names)
    if facts.mistakes is not None:
        tables["pairs"] = pairs_table(facts.mistakes, names)
    if facts.reliability is not None:
        tables["reliability"] = reliability_table(facts.reliability)
    return tables


def _versions() -> dict[str, str]:
    packages = ("numpy", "scipy", "scikit-learn")
    return {
        "priorshift": __version__,
        "Python": platform.python_version(),
        **{package: version(package) for package in packages},
    }
