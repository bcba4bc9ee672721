"""Facts in words: the sentences that Python, the command line and reports share.

A fact is a name with numbers. `say` turns it into a sentence; nothing turns a sentence back.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from priorshift.adapt import GOAL_WORDS, IN_POINTS, Aim
from priorshift.exceptions import argument
from priorshift.text import (
    at_level,
    listed,
    numbers,
    percent,
    percents,
    plural,
    quoted,
    short_percent,
    short_points,
    shorten,
    signed_number,
    some,
)
from priorshift.verdict import Ruling, Verdict

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
    >>> say(fact("more_target", n=30))
    'The target is small: more than its 30 rows would help.'
    """
    return Fact(name, numbers)


def say(told: Fact) -> str:
    """Return the sentence that states a fact."""
    sentence = SENTENCES[told.name]
    write = sentence.format if isinstance(sentence, str) else sentence
    return write(**told.numbers)


class Headline(NamedTuple):
    """What to do, and why: the two halves of the sentence that gives the verdict."""

    lead: str
    rest: str

    def __str__(self) -> str:
        """Join them."""
        return f"{self.lead}: {self.rest}"


# The verdict


def headline(
    ruling: Ruling,
    goal: Aim,
    gain: tuple[float, float, float],
    *,
    scores: tuple[float, float] | None = None,
    shifted: bool = False,
    unknown: Sequence[Any] = (),
) -> Headline:
    """Say what to do and why, for a reader who knows no statistics.

    Parameters
    ----------
    ruling : Ruling
        What is to be done, and the name of the reason.
    goal : str
        What the gain is in.
    gain : tuple of float
        Expected gain and its bounds.
    scores : tuple of float, optional
        The goal's score before and after.
    shifted : bool
        Whether a test found that the class balance changed.
    unknown : sequence, optional
        Classes that nothing is known of.

    Examples
    --------
    >>> from priorshift.verdict import Gain
    >>> ruling = Ruling("adapt", "adapt", "helps", Gain(0.17, 0.03))
    >>> print(headline(ruling, "accuracy", (0.17, 0.11, 0.22), scores=(0.62, 0.79), shifted=True))
    Adapt: the class balance has changed, and accuracy should rise from about 62% to 79% (+11 to
    +22 points).
    """
    word, in_points, why = GOAL_WORDS[goal], goal in IN_POINTS, ruling.why
    mean, low, high = gain
    size = short_points(mean).lstrip("+") + " points" if in_points else f"{mean:.3g}"
    how = f"by about {size}"
    if why in ("helps", "assumed_adapt") and scores is not None:
        before, after = (percents if in_points else numbers)(*scores)
        how = f"from about {before} to {after}"
    most = f"gain {short_points(max(0.001, high)).lstrip('+')} points of {word}"
    missing = ""
    if unknown:
        first, *others = unknown
        missing = quoted(str(first)) + (f" and {plural(len(others), 'other')}" if others else "")
    lead = LEADS[ruling.verdict]
    if (ruling.verdict, ruling.action) == ("adapt", "calibrate"):
        lead = "Adapt by calibrating alone"
    by, _, what = why.rpartition("_")
    rest = REASONS[why if why in REASONS else f"by_{what}"]
    if low == high:  # every row has a label: nothing is left to be uncertain of
        how, rest = how.replace("about ", ""), rest.replace(" ({span})", "")
    words = {
        "word": word,
        "Word": word.capitalize(),
        "should": f"should {'rise' if in_points else 'fall'} {how}",
        "makes": f"makes {word} {'rise' if in_points else 'fall'} {how}",
        "span": change(goal, low, high),
        "changed": "the class balance has changed, and " if shifted else "",
        "most": most if in_points else f"lower {word} by {max(0.0, high):.2g}",
        "unknown": missing,
        "by": BY.get(by, ""),
    }
    return Headline(lead, rest.format(**words))


LEADS: dict[Verdict, str] = {
    "adapt": "Adapt",
    "leave": "Leave the predictions as they are",
    "unclear": "Unclear",
}

BY = {
    "labels": "by the labels of the target",
    "history": "by your own history",
    "assumed": "as you say that each class looks as it did",
}
"""What a verdict rests on, in words."""

REASONS = {
    "helps": "{changed}{word} {should} ({span}).",
    "assumed_adapt": "{changed}{word} {should} ({span}).",
    "calibrate": "that pays whichever way the target changed. {Word} {should} ({span}).",
    "assumed_calibrate": "that gains more surely than adapting to the new shares. {Word} {should} "
    "({span}).",
    "by_adapt": "{by}, adapting {makes} ({span}).",
    "by_calibrate": "{by}, that {makes} ({span}).",
    "by_leave": "{by}, there is nothing to gain ({word} {span}).",
    "by_unsure": "{by}, adapting may still help or harm ({word} {span}).",
    "no_shift": "there is no evidence that the class balance changed.",
    "no_gain": "the predictions changed, but adapting would {most} at most.",
    "columns_swapped": "the columns of the predictions seem to be in a different order from the "
    "classes. Fix that before anything else.",
    "target_swapped": "the target's columns may be in a different order from validation's. Check "
    "that before anything else.",
    "few_rows": "validation has too few rows to tell. Label more of them.",
    "few_target_rows": "the target has too few rows to tell. Collect more of them.",
    "no_information": "on validation, the predictions say nothing about the labels. Check that "
    "both have the same row order and belong together.",
    "seen_before": "the validation rows look as if the model was trained on them, so they cannot "
    "tell what adapting gains. Use rows that it has not seen, or label some of the target.",
    "assumed_wrongly": "you say that each class looks as it did, but no class balance explains the "
    "target. Are its columns in another order, or was it adapted before?",
    "unknown_class": "validation has no row of class {unknown}, so adapting to the new class "
    "balance would be a guess.",
    "more_changed": "more than the class balance changed. The target looks different within its "
    "classes, so adapting may help or harm.",
    "hinges": "it hinges on what changed. If each class looks as it did, adapting helps; if other "
    "cases came, it harms. Predictions alone cannot tell.",
    "calibrate_first": "calibrating pays whichever way the target changed ({word} {span}), and is "
    "done. Adapting in full may gain more, or harm.",
    "unsure": "the predictions changed, but adapting may help or harm. {Word} would change by "
    "{span}.",
}
"""Why, by the name of the reason."""


def decisions_headline(
    named: list[tuple[Any, float, float]],
    *,
    all_named: bool,
    vague: tuple[Any, float, float] | None,
    drifted: bool = False,
    erred: bool = False,
) -> Headline:
    """Say that decisions stay as they are, and which shares to report.

    Parameters
    ----------
    named : list of (class, share, share of decisions)
    all_named : bool
        Whether these are all classes.
    vague : (class, low, high), optional
        A share that is too vague to report.
    drifted : bool
        Whether decisions make other mistakes than on validation, and no labels help.
    erred : bool
        Whether labels show that they do.
    """
    if drifted:
        return Headline(
            "Unclear",
            "the decisions make other mistakes than on validation, so neither their counts nor "
            "corrected shares can be trusted. Label some target rows, drawn at random.",
        )
    if vague is not None:
        name, low, high = vague
        return Headline(
            "Leave",
            "your decisions stay as they are, and say too little to report class shares "
            f"({quoted(shorten(name, 16))}: {short_percent(low)} to {short_percent(high)}). Label "
            "some target rows.",
        )
    said = "these corrected shares: " if all_named else "the corrected shares, above all "
    alike = any(decided for *_, decided in named)  # else verdicts have names of their own
    shares = []
    for name, share, decided in named:
        beside = f" (decided: {short_percent(decided)})" if alike else ""
        shares.append(f"{quoted(shorten(name, 16))} {short_percent(share)}{beside}")
    but = ", but they make other mistakes than on validation" if erred else ""
    rest = f"your decisions stay as they are{but}. Report {said}{listed(shares)}."
    return Headline("Leave", rest)


def change(goal: Aim, low: float, high: float) -> str:
    """Say between which bounds a goal would change: "+11 to +22 points"."""
    if goal in IN_POINTS:
        return f"{f'{short_points(low)} to ' if low < high else ''}{short_points(high)} points"
    return f"{signed_number(-high, 2)} to {signed_number(-low, 2)}"


def say_backtest(
    n: int, n_groups: int, fewest: int, goal: Aim, gains: dict[Any, float], off: dict[str, float]
) -> str:
    """Say what actions would have gained on groups of the past, and how far readings were off.

    Examples
    --------
    >>> off = {"prior_shift": 0.14, "calibrated_mean": 0.02, "unchanged": 0.05}
    >>> say_backtest(9, 9, 4, "accuracy", {"calibrate": 0.004, "adapt": -0.031}, off)
    'On your 9 past groups adapting would have lost 3.1 points of accuracy and calibrating alone would have gained 0.4; the mean of calibrated probabilities was off by 2 points, the prior-shift estimate by 14, unchanged shares by 5.'
    """  # noqa: E501
    word = GOAL_WORDS[goal]
    factor, unit = (100, f" points of {word}") if goal in IN_POINTS else (1, f" of {word}")

    def did(gain: float) -> str:
        return f"{'gained' if gain >= 0 else 'lost'} {factor * abs(gain):.1f}"

    few = f" {n_groups} groups are too few for a verdict." if n_groups < fewest else ""
    mean, prior, same = (off[one] for one in ("calibrated_mean", "prior_shift", "unchanged"))
    groups = "past group" if n == 1 else plural(n, "past group")
    return (
        f"On your {groups} adapting would have {did(gains['adapt'])}{unit} and "
        f"calibrating alone would have {did(gains['calibrate'])}; the mean of calibrated "
        f"probabilities was off by {100 * mean:.0f} points, the prior-shift estimate by "
        f"{100 * prior:.0f}, unchanged shares by {100 * same:.0f}.{few}"
    )


def by_other_goals() -> str:
    """Say by what to judge where accuracy says little."""
    log_loss = argument("goal=log_loss", 'goal="log_loss"')
    return f"by what errors cost ({argument('costs')}) or by log loss ({log_loss})"


# What it rests on


def _say_shift(p_value: float, moved: float | None) -> str:
    size = f": about {moved or 0:.0%} of the cases belong to other classes than before"
    return f"The class balance changed ({_p(p_value)}){'' if moved is None else size}."


def _p(p_value: float) -> str:
    return "p < 0.001" if p_value < 0.0005 else f"p = {p_value:.3f}"


def _say_balance(p_value: float, least: float | None) -> str:
    # a test that misses a mean change of rank of a tenth is weak
    weak = least is None or least > 0.1
    but = ", but so few rows would hardly show anything else" if weak else ""
    return f"A change of class balance alone explains the target (p = {p_value:.2f}){but}."


def _say_no_shift(p_value: float, alternative: float, power: float) -> str:
    joint, only = ("and", "") if power >= ENOUGH_POWER else ("but", " only")
    return (
        f"There is no evidence that the class balance changed (p = {p_value:.2f}), {joint} a "
        f"change of {alternative:.0%} of the cases would have been noticed with {power:.0%} "
        f"probability{only}."
    )


def _say_repeats(n_val: int, n_target: int) -> str:
    return " ".join(
        f"{side} has {n:,} repeated rows: intervals are too narrow if these are copies."
        for side, n in (("Validation", n_val), ("The target", n_target))
        if n
    )


def _say_promise(goal: Aim, value: float, low: float, high: float, level: float, **_: float) -> str:
    by = f"{short_points(value)} points" if goal in IN_POINTS else signed_number(-value)
    bounds = f"{at_level(level)} {change(goal, low, high)}"
    return f"adapting in full changes {GOAL_WORDS[goal]} by {by} ({bounds})"


def _say_measured(
    goal: Aim,
    n: int,
    before: float,
    after: float,
    before_interval: tuple[float, float],
    after_interval: tuple[float, float],
) -> str:
    said = (before, after, *before_interval, *after_interval)
    shown = [f"{one:.1%}" for one in said] if goal in IN_POINTS else numbers(*said)
    on = f"On {n:,} labelled rows of the target, {GOAL_WORDS[goal]} is"
    if before_interval[0] == before_interval[1]:  # no row is without a label
        return f"{on} {shown[0]} before and {shown[1]} after adapting."
    return (
        f"{on} {shown[0]} ({shown[2]} to {shown[3]}) before and {shown[1]} ({shown[4]} to "
        f"{shown[5]}) after adapting."
    )


def _say_readings(
    label: str,
    prior: float,
    mean: float,
    before: float,
    report: float,
    low: float,
    high: float,
    level: float,
) -> str:
    said = (
        f"Class {label}: {percent(prior)} if each class looks as it did, {percent(mean)} if "
        "predictions mean what they did"
    )
    if not min(prior, mean) <= report <= max(prior, mean):
        said += f", {percent(before)} before"
    bounds = f"{at_level(level)} {percent(low)} to {percent(high)}"
    if low == high:
        bounds = "counted: every row has a label"
    return f"{said}; report {percent(report)} ({bounds})."


SENTENCES: dict[str, str | Callable[..., str]] = {
    # do validation's predictions and labels belong together?
    "columns_swapped": "Before anything else: {text}",
    "target_swapped": lambda names, unlike, left: (
        f"Are the target's columns in order? As they are, up to {percent(unlike)} of the target "
        f"looks like no mixture of classes; if they were {listed(names)}, {percent(left)} would. "
        "Check the header, or in which order the model gave them."
    ),
    "seen_before": lambda accuracy, expected, confidence: (
        "The validation rows look as if the model was trained on them: it is right on "
        f"{percent(accuracy)} of them, and surer of them than of the target ({percent(expected)} "
        f"expected, {percent(confidence)} found). Use rows that it has not seen, or label some of "
        "the target: what validation promises is worth little."
    ),
    "few_rows": lambda n, least: (
        f"Validation has {plural(n, 'row')}, which is too few to tell what its predictions are "
        f"worth: label {least} or more."
    ),
    "few_target_rows": lambda n, least: (
        f"The target has {plural(n, 'row')}, which is too few to tell what changed: collect "
        f"{least} or more."
    ),
    "no_information": "Validation's predictions fit its {n:,} labels no better than shuffled "
    "labels (z = {z:.1f}; at least {least:.2g} where they belong together). Are the rows in "
    "another order, or do the labels come from another file or column?",
    # did the class balance change, and nothing else?
    "shifted": _say_shift,
    "shift_by_means": "The class balance changed (p = {p_value:.3f}): by mean predictions alone, "
    "about {moved:.0%} of the cases belong to other classes than before ({low:.0%} to {high:.0%}).",
    "not_shifted": _say_no_shift,
    "balance_explains": _say_balance,
    "looks_different": "A change of class balance alone does not explain the target (p = "
    "{p_value:.3f}): it looks different within its classes, so estimated shares may be wrong. A "
    "target that was already adapted looks like that too.",
    "few_to_check": "Whether only the class balance changed cannot be checked: there are too few "
    "rows ({n_val:,} of validation, {n_target:,} of the target), or the classifier is equally sure "
    "of all rows.",
    "explained": "A change of class balance explains {share:.0%} of what changed in the "
    "predictions ({low:.0%} to {high:.0%}).",
    "little_changed": "From {n_val:,} validation rows to {n_target:,} of the target, the change is "
    "too small to tell how much of it a new class balance explains.",
    "nothing_changed": "From {n_val:,} validation rows to {n_target:,} of the target, the "
    "predictions changed no more than chance does.",
    "assumed": lambda share: (
        "You say that each class looks as it did. The verdict takes your word for it"
        + ("." if share is None else ", though a change of class balance explains only ")
        + ("" if share is None else f"{share:.0%} of the change.")
    ),
    "assumed_wrongly": "You say that each class looks as it did, but up to {unlike:.0%} of the "
    "target looks like no mixture of validation's classes, and a change of class balance explains "
    "only {share:.0%} of the change. Perhaps its columns are in another order, or its "
    "predictions come from another model or were adapted already.",
    "repeated": _say_repeats,
    "by_decisions": "The correction assumes that the {n_target:,} decisions are wrong as often as "
    "on validation. Decisions alone cannot show whether they are; labels of some target rows can.",
    "errs_alike": "The decisions fit a mixture of the classes as validation shows them (p = "
    "{p_value:.2f}): nothing suggests that they make other mistakes there.",
    "drifted": "The decisions fit no mixture of the classes as validation shows them (p = "
    "{p_value:.3f}): they make other mistakes than on validation, so corrected shares are wrong "
    "too.",
    # what should be known of the tests' inputs?
    "rounded": lambda coarse, decimals, fine: (
        f"{coarse.capitalize()} was rounded to {decimals} decimals, so {fine} was rounded alike."
    ),
    "repeats_count": lambda side, n: (
        f"{side.capitalize()} has {n:,} repeated rows, which the test of a shift counts as new "
        "ones: its p-value is too small, its interval too narrow; draw without replacement."
    ),
    "drawn_otherwise": lambda apart: (
        f"Validation's mean prediction is {apart:.2f} from {argument('source_priors')}, so "
        "validation was not drawn as the training set was, yet the target is compared with it. "
        f"After class weights or resampling, leave {argument('source_priors')} out; otherwise give "
        f"{argument('source_label_priors')}, the label frequencies of the training set."
    ),
    "class_not_tested": lambda classes, share: (
        f"Validation has no sample of class {some(classes)}, {share:.2g} of "
        f"{argument('source_label_priors')}: the test leaves it out."
    ),
    # what does an estimate rest on?
    "priors_exact": "The intervals take the target's priors as exact: they were given.",
    "singular": "The confusion matrix is singular: some priors are not identified.",
    "ill_conditioned": "The confusion matrix is ill-conditioned ({number:.3g}): a little noise in "
    "the decisions moves the estimate a lot.",
    "few_effective": "At these priors validation is worth {n:.1f} rows of {n_val}: the estimate "
    "rests on few samples.",
    "confusable": lambda pairs: (
        f"Validation cannot tell apart: {some([f'{one} and {other}' for one, other in pairs], 5)}."
    ),
    "left_out": lambda classes: f"Not in validation, and left out: {some(classes)}.",
    # what does adapting gain?
    "if_prior_shift": lambda changed, **gain: (
        f"If each class looks as it did, {_say_promise(**gain)}; {changed:.0%} of the decisions "
        "would change."
    ),
    "if_covariate_shift": lambda **gain: (
        f"If predictions mean what they did and other cases came, {_say_promise(**gain)}."
    ),
    "history": "{text}",
    "moved_further": "The target has moved further than any of these groups ({moved:.0%} of the "
    "cases), so they do not decide.",
    "calibrated_first": "{changed:.0%} of the decisions change; probabilities are calibrated "
    "first.",
    "half_way": "In full it would be too uncertain: they are adapted half the way, by the square "
    "root of the ratio of priors.",
    "mismatch": "Note: {text}",
    # what do labels of the target say?
    "measured": _say_measured,
    "measured_decisions": "On {n:,} labelled rows of the target, {right:.1%} of the decisions are "
    "right.",
    "as_on_validation": "Within classes, decisions on them are as good as on validation (p = "
    "{p_value:.2f}).",
    "not_as_on_validation": lambda promised, p_value: (
        "Within classes, decisions on them are not as on validation, by which "
        f"{promised:.1%} should be right ({_p(p_value)}): more than the class balance changed."
    ),
    # which shares to report?
    "readings": _say_readings,
    "rare": lambda label, other, share: (
        f"Only {short_percent(share)} of the cases are {quoted(label)}, so always answering "
        f"{quoted(other)} is right in {percents(1 - share)[0]}: judge {by_other_goals()} "
        "instead of accuracy."
    ),
    # what would help?
    "unknown_class": lambda n: (
        f"Add validation rows of {'the missing class' if n == 1 else f'the {n} missing classes'}, "
        f"or give {argument('source_priors')}."
    ),
    "more_validation": lambda label, n, n_val: (
        f"Validation is small: class {shorten(label)} has {n} of {n_val:,} rows. More labelled "
        "validation rows would help."
    ),
    "more_target": "The target is small: more than its {n:,} rows would help.",
    "label_rows": lambda n, more: (
        f"Label {n:,}{' more' if more else ''} rows to settle it: {argument('rows_to_label')} "
        "draws them mostly where calibrating or adapting changes the decision, and "
        f"{argument('labels_by_row', 'assess(y_target=...)')} then measures which of them helps."
    ),
    # what is missing?
    "no_interval": "There is no interval: {error}",
    "no_diagnostics": "There are no diagnostics: {error}",
    "no_test": "There is no test: {error}",
    "too_many_classes": "The tests are left out: with {n:,} classes they would take too long. See "
    "priorshift.detect_shift.",
    # what to do with it
    "threshold": lambda label, cut, raw: (
        f"Flag a case as {label} above {cut:.3g} (of your raw score: "
        f"{'none reaches it' if raw is None else f'above {raw:.3g}'})."
    ),
    "sampled": "All of this rests on {n:,} of the target's {n_target:,} rows, drawn at random.",
}
"""What states each fact, by its name."""

WORTHLESS = ("columns_swapped", "no_information", "seen_before", "drifted")
"""Facts that leave no share to be trusted, without labels of the target."""

ADVICE = ("unknown_class", "more_validation", "more_target", "label_rows")
"""Facts that say what would make an unclear verdict clear."""
