"""Facts in words: the sentences that Python, the command line and reports share.

A fact is a name with numbers. `say` turns it into a sentence; nothing turns a sentence back.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from priorshift.adapt import Goal
from priorshift.text import (
    listed,
    numbers,
    percents,
    plural,
    quoted,
    short_percent,
    short_points,
    shorten,
    signed_number,
)

Aim = Literal["accuracy", "balanced_accuracy", "log_loss", "cost"]
"""What a gain is in."""

LONGEST_NAMED = 16
"""Characters of a class name in a sentence that names several."""

ENOUGH_POWER = 0.8
"""Chance of noticing a shift from which on not noticing one is evidence that there is none."""


class Fact(NamedTuple):
    """What a verdict rests on: a name, and its numbers by name."""

    name: str
    numbers: dict[str, Any]


def fact(name: str, **numbers: Any) -> Fact:
    """Return a fact.

    Examples
    --------
    >>> say(fact("explained", p_value=0.73))
    'A change of class balance alone explains the target (p = 0.73).'
    """
    return Fact(name, numbers)


def say(told: Fact) -> str:
    """Return the sentence that states a fact."""
    sentence = SENTENCES[told.name]
    return (
        sentence.format(**told.numbers) if isinstance(sentence, str) else sentence(**told.numbers)
    )


class Headline(NamedTuple):
    """What to do, and why: the two halves of the sentence that gives the verdict."""

    lead: str
    rest: str

    def __str__(self) -> str:
        """Join them."""
        return f"{self.lead}: {self.rest}"


# The verdict


def headline(
    why: str,
    *,
    goal: Aim = "accuracy",
    gain: tuple[float, float, float] = (0.0, 0.0, 0.0),
    scores: tuple[float, float] | None = None,
    shifted: bool = False,
    unknown: list[Any] | None = None,
) -> Headline:
    """Say what to do and why, for a reader who knows no statistics.

    Parameters
    ----------
    why : str
        The reason of the ruling: see `priorshift.verdict.judge`.
    goal : str
        What the gain is in.
    gain : tuple of float
        Expected gain and its bounds.
    scores : tuple of float, optional
        The goal's score before and after.
    shifted : bool
        Whether a test found that the class balance changed.
    unknown : list, optional
        Classes that nothing is known of.

    Examples
    --------
    >>> print(headline("helps", gain=(0.17, 0.11, 0.22), scores=(0.62, 0.79), shifted=True))
    Adapt: the class balance has changed, and accuracy should rise from about 62% to 79% (+11 to
    +22 points).
    """
    aim = Goal(goal)
    mean, low, high = gain
    span = change(goal, low, high)
    if why == "helps":
        changed = "the class balance has changed, and " if shifted else ""
        verb = "rise" if aim.in_points else "fall"
        size = short_points(mean).lstrip("+") + " points" if aim.in_points else f"{mean:.3g}"
        how = f"by about {size}"
        if scores is not None:
            before, after = (percents if aim.in_points else numbers)(*scores)
            how = f"from about {before} to {after}"
        return Headline("Adapt", f"{changed}{aim.word} should {verb} {how} ({span}).")
    if why == "no_shift":
        return Headline(LEAVE, "there is no evidence that the class balance changed.")
    if why == "no_gain":
        most = max(0.0, high)
        much = f"gain {short_points(max(0.001, most)).lstrip('+')} points of {aim.word}"
        if not aim.in_points:
            much = f"lower {aim.word} by {most:.2g}"
        return Headline(LEAVE, f"the class balance changed, but adapting would {much} at most.")
    if why == "columns_swapped":
        return Headline(
            "Unclear",
            "the columns of the predictions seem to be in another order than the classes. Put them "
            "right before anything else.",
        )
    if why == "no_information":
        return Headline(
            "Unclear",
            "on validation, the predictions say nothing about the labels. Check that both have the "
            "same row order and belong together.",
        )
    if why == "unknown_class":
        first, *others = unknown or ["?"]
        more = f" and {plural(len(others), 'other')}" if others else ""
        return Headline(
            "Unclear",
            f"validation has no row of class {quoted(str(first))}{more}, so adapting to the new "
            "class balance would be a guess.",
        )
    if why == "more_changed":
        return Headline(
            "Unclear",
            "more than the class balance changed. The target looks different within its classes, "
            "so adapting may help or harm.",
        )
    return Headline(
        "Unclear",
        "the class balance changed, but adapting may help or harm. "
        f"{aim.word.capitalize()} would change by {span}.",
    )


LEAVE = "Leave the predictions as they are"


def decisions_headline(
    named: list[tuple[Any, float, float]],
    *,
    all_named: bool,
    vague: tuple[Any, float, float] | None,
) -> Headline:
    """Say that decisions stay as they are, and which shares to report.

    Parameters
    ----------
    named : list of (class, share, share of decisions)
    all_named : bool
        Whether these are all classes.
    vague : (class, low, high), optional
        A share that is too vague to report.
    """
    if vague is not None:
        name, low, high = vague
        return Headline(
            "Leave",
            "your decisions stay as they are, and say too little to report class shares "
            f"({_short(name)}: {short_percent(low)} to {short_percent(high)}). Label some target "
            "rows.",
        )
    said = "these corrected shares: " if all_named else "the corrected shares, above all "
    shares = [
        f"{_short(name)} {short_percent(share)} (decided: {short_percent(decided)})"
        for name, share, decided in named
    ]
    return Headline("Leave", f"your decisions stay as they are. Report {said}{listed(shares)}.")


def _short(name: Any) -> str:
    return quoted(shorten(name, LONGEST_NAMED))


def change(goal: Aim, low: float, high: float) -> str:
    """Say between which bounds a goal would change: "+11 to +22 points"."""
    if Goal(goal).in_points:
        return f"{short_points(low)} to {short_points(high)} points"
    return f"{signed_number(-high, 2)} to {signed_number(-low, 2)}"


# What it rests on


def _not_shifted(p_value: float, alternative: float, power: float) -> str:
    joint, only = ("and", "") if power >= ENOUGH_POWER else ("but", " only")
    return (
        f"There is no evidence that the class balance changed (p = {p_value:.2f}), {joint} a "
        f"change of {alternative:.0%} of the cases would have been noticed with {power:.0%} "
        f"probability{only}."
    )


def _repeated(n_val: int, n_target: int) -> str:
    return " ".join(
        f"{side} has {n:,} repeated rows: intervals are too narrow if these are copies."
        for side, n in (("Validation", n_val), ("The target", n_target))
        if n
    )


def _expected_gain(
    goal: Aim, mean: float, low: float, high: float, level: float, changed: float | None
) -> str:
    by = f"{short_points(mean)} points" if Goal(goal).in_points else signed_number(-mean)
    tail = "" if changed is None else f" {changed:.0%} of the decisions would change."
    return (
        f"Judging by validation, adapting should change {Goal(goal).word} by {by} "
        f"({100 * level:g}% interval {change(goal, low, high)}).{tail}"
    )


def _measured(goal: Aim, n: int, before: float, after: float) -> str:
    shown = (f"{before:.1%}", f"{after:.1%}") if Goal(goal).in_points else numbers(before, after)
    return (
        f"On {n:,} labelled rows of the target, {Goal(goal).word} is {shown[0]} before and "
        f"{shown[1]} after adapting."
    )


SENTENCES: dict[str, str | Callable[..., str]] = {
    # do validation's predictions and labels belong together?
    "columns_swapped": "Before anything else: {text}",
    "no_information": "Validation's predictions fit its {n:,} labels no better than shuffled "
    "labels (z = {z:.1f}; at least {least:.2g} where they belong together). Are the rows in "
    "another order, or do the labels come from another file or column?",
    # did the class balance change, and nothing else?
    "shifted": "The class balance changed (p = {p_value:.3f}): about {moved:.0%} of the cases "
    "belong to other classes than in training.",
    "not_shifted": _not_shifted,
    "explained": "A change of class balance alone explains the target (p = {p_value:.2f}).",
    "more_changed": "A change of class balance alone does not explain the target (p = "
    "{p_value:.3f}): up to {share:.0%} of it looks different within its classes. The verdict "
    "allows for that. A target that was already adapted looks like that too.",
    "few_to_check": "There are too few rows to check that only the class balance changed: "
    "{n_val:,} of validation and {n_target:,} of the target.",
    "repeated": _repeated,
    "by_decisions": "The correction assumes that the {n_target:,} decisions err as often as on "
    "validation. Decisions alone cannot show whether they do; labels of some target rows can.",
    # what does adapting gain?
    "expected_gain": _expected_gain,
    "mismatch": "Note: {text}",
    # what do labels of the target say?
    "measured": _measured,
    "measured_decisions": "On {n:,} labelled rows of the target, {right:.1%} of the decisions are "
    "right.",
    "as_on_validation": "Within classes, decisions on them are as good as on validation (p = "
    "{p_value:.2f}).",
    "not_as_on_validation": "Within classes, decisions on them are not as on validation, by which "
    "{promised:.1%} should be right (p = {p_value:.3f}): more than the class balance changed.",
    "labels_contradict": "Those labels and all predictions (PPI) put class {label} at {low:.1%} to "
    "{high:.1%}, whatever changed; {method} says {share:.1%}. Report PPI's shares.",
    "labels_agree": "The shares by {method} are inside the {level:.3g}% intervals of PPI, which "
    "hold whatever changed. Report those by {better}: they are more precise.",
    # what would help?
    "unknown_class": lambda n: (
        f"Add validation rows of the {plural(n, 'missing class', 'missing classes')}, or give "
        "source_priors."
    ),
    "more_validation": lambda label, n, n_val: (
        f"More labelled validation rows would help most: class {shorten(label)} has {n} of "
        f"{n_val:,}."
    ),
    "more_target": "More target rows would help most: there are {n:,}.",
    "label_rows": "Labels of {n:,} target rows or more would help most: pass them as y_target.",
    # what is missing?
    "no_interval": "There is no interval: {error}",
    "no_diagnostics": "There are no diagnostics: {error}",
    "no_test": "There is no test: {error}",
    "too_many_classes": "The tests are left out: with {n:,} classes they would take too long. See "
    "priorshift.detect_shift.",
    "sampled": "All of this rests on {n:,} of the target's {n_target:,} rows, drawn at random.",
}
"""What states each fact, by its name."""

ADVICE = ("unknown_class", "more_validation", "more_target", "label_rows")
"""Facts that say what would make an unclear verdict clear."""
