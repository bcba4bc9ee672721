"""What a page holds apart from its figures: words, tables, and where it comes from."""

import platform
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from priorshift._version import __version__
from priorshift.report._facts import Facts
from priorshift.report._methods import description, references
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
from priorshift.report._trust_words import shift_judgement, trust_judgement
from priorshift.report._words import (
    condition_sentences,
    gains_and_losses,
    interval_sentence,
    left_out,
    ratio_sentence,
    used_condition,
    verdict,
)
from priorshift.text import count, number, percent, plural, shown_names, shown_text


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
