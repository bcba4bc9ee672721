"""What the numbers of a report say: headings that are claims, tiles, checks, next steps.

The verdict and its sentence are the assessment's. Nothing here weighs evidence again.
"""

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from priorshift._typing import Indices
from priorshift.assessment import FEW_ROWS, Measured, vaguest_share
from priorshift.estimators import Reference, traits_of
from priorshift.evidence import Diagnostics, Expected, ShiftTest
from priorshift.report._facts import ENOUGH, KNOWN, ROUNDING, TYPED, Facts, planned_shares
from priorshift.text import (
    count,
    listed,
    movers,
    number,
    numbers,
    percent,
    percents,
    plural,
    points,
    quoted,
    short_percent,
    shown_text,
    signed_number,
)
from priorshift.verdict import labels_to_settle
from priorshift.words import ENOUGH_POWER

GUIDE = Reference(
    "The Hitchhiker’s Guide to Prior-Shift Adaptation, 2021", "https://arxiv.org/abs/2106.11695"
)
CALIBRATION = Reference("Guo et al., 2017", "https://arxiv.org/abs/1706.04599")

SCORES = {
    "accuracy": "Accuracy",
    "balanced_accuracy": "Balanced accuracy",
    "log_loss": "Log loss",
    "cost": "Cost per case",
}
"""What a verdict is about, as a tile calls it."""

ZERO = 1e-12
WORTH_NAMING = 5e-4
"""Change of a prior, as a share, below which no class is named."""
ROWS_PER_CLASS = 20
"""Target rows per class below which the report says that there are few."""
MAX_PAIRS = 5
"""Pairs of classes that are named."""
LEVEL = 0.05
"""Of the test whether decisions err as on validation."""
GOOD_CALIBRATION, FAIR_CALIBRATION = 0.05, 0.15
"""Mean distance of confidence and accuracy up to which calibration is good, or fair."""
CLOSE, ROUGH = 0.95, 0.85
"""Mean agreement of methods from which on they agree closely, or roughly."""


def description(method: str) -> str:
    """Say what a method does; nothing about one that is not registered."""
    if method == KNOWN:
        return "uses target priors that were given; nothing is estimated"
    return traits_of(method).summary


def references(method: str, *, calibration: bool) -> list[Reference]:
    """List the papers that a report cites."""
    papers = (GUIDE, traits_of(method).reference, CALIBRATION if calibration else None)
    return list(dict.fromkeys(paper for paper in papers if paper is not None))


# The first screen


@dataclass(frozen=True)
class Verdict:
    """The verdict as the page shows it: its first words are set in bold."""

    kind: str
    lead: str
    rest: str


def verdict(facts: Facts) -> Verdict:
    """Return the assessment's sentence, or say what a verdict would need."""
    if facts.assessment is not None:
        lead, rest = facts.assessment.headline
        return Verdict(facts.assessment.verdict, f"{lead}:", rest)
    if facts.estimate.method == KNOWN:
        return Verdict(
            "none",
            "No verdict:",
            "the target's class shares were given, not estimated. Adapt if you trust them.",
        )
    return Verdict(
        "none",
        "No verdict:",
        "whether adapting helps takes labelled validation data to tell: y_proba_val and y_val, "
        "with y_proba_target (--validation and --target).",
    )


@dataclass(frozen=True)
class Tile:
    """A number for the first screen, what it is, and what to know of it."""

    label: str
    value: str
    notes: tuple[str, ...] = ()


def tiles(facts: Facts) -> list[Tile]:
    """Return the few numbers to see first."""
    found = [*_score_tiles(facts), _balance_tile(facts), *_last_tile(facts)]
    return [
        Tile(tile.label, _spaced(tile.value), tuple(map(_spaced, tile.notes))) for tile in found
    ]


def _spaced(text: str) -> str:
    """Keep "p = 0.9" on one line."""
    return text.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")


def _score_tiles(facts: Facts) -> Iterator[Tile]:
    """Show what the verdict is about, before and after; of decisions, what they are worth."""
    found, goal = facts.assessment, facts.goal
    if found is None or found.score_before is None:
        return
    if facts.decided is not None:
        yield from _decided_tiles(facts, found.score_before)
        return
    if found.score_after is None:
        return
    before, after, measured = found.score_before, found.score_after, found.measured
    show = percents if goal.in_points else numbers
    values = show(before.value, after.value)
    when = "after adapting" if facts.adapts else "if adapted"
    for label, value, expected, seen in (
        ("now", values[0], before, None if measured is None else measured.before),
        (when, values[1], after, None if measured is None else measured.after),
    ):
        notes = [f"expected, {_span(facts, expected)}"]
        if seen is not None:
            notes.append(f"labels say {_score(facts)(seen.value)}, {_span(facts, seen)}")
        if not goal.in_points and label == "now":
            notes.append("lower is better")
        yield Tile(f"{SCORES[goal.name]} {label}", value, tuple(notes))


def _decided_tiles(facts: Facts, right: Expected) -> Iterator[Tile]:
    assert facts.decided is not None
    by_share = facts.goal.name == "accuracy"
    label = "Decisions that are right" if by_share else f"{SCORES[facts.goal.name]} now"
    notes = [f"expected, {_span(facts, right)}"]
    measured = None if facts.assessment is None else facts.assessment.measured
    if measured is not None:
        seen = measured.before
        notes.append(f"labels say {_score(facts)(seen.value)}, {_span(facts, seen)}")
    yield Tile(label, short_percent(right.value) if by_share else number(right.value), tuple(notes))
    yield Tile(
        "Counting decisions is off by",
        short_percent(_miscounted(facts)),
        ("of cases, in the class shares",),
    )


def _miscounted(facts: Facts) -> float:
    """Return how far counted decisions and the shares to report are apart, as a share of cases."""
    assert facts.decided is not None
    return float(np.abs(facts.decided - facts.shown.priors).sum() / 2)


def _score(facts: Facts) -> Callable[[float], str]:
    """Return how to show a score of the goal."""
    return percent if facts.goal.in_points else number


def _span(facts: Facts, score: Expected) -> str:
    if facts.goal.in_points:
        return f"{100 * score.low:.0f} to {100 * score.high:.0f}%"
    low, high = numbers(score.low, score.high)
    return f"{low} to {high}"


def _balance_tile(facts: Facts) -> Tile:
    """Say how far the class mix moved: which share of cases training would put elsewhere."""
    test, label = facts.test, "Change in class balance"
    share = short_percent(facts.shift.total_variation)
    elsewhere = "of cases, against training"
    if test is None:
        return Tile(label, share, (elsewhere, "not tested against chance"))
    if test.rejected:
        return Tile(label, share, (elsewhere, f"more than chance (p = {test.p_value:.3f})"))
    return Tile(label, "none seen", (f"{share} may be chance (p = {test.p_value:.2f})",))


def _last_tile(facts: Facts) -> Iterator[Tile]:
    label = "Did only the balance change?"
    if facts.assessment is not None and facts.decided is not None:
        yield Tile(label, *_by_labels(facts))
    elif facts.assessment is not None:
        found = facts.assessment.assumption_test
        if found is None or found.p_value is None:
            yield Tile(label, "not tested", ("too few rows or too many classes",))
        elif found.rejected:
            share = short_percent(facts.assessment.unexplained)
            yield Tile(label, "in doubt", (f"up to {share} of the target looks different",))
        else:
            yield Tile(
                label, "it seems so", (f"nothing speaks against it (p = {found.p_value:.2f})",)
            )
    if facts.assessment is None and facts.changed_decisions is not None:
        yield Tile(
            "Decisions that change" if facts.adapts else "Decisions that would change",
            short_percent(facts.changed_decisions),
        )


def _by_labels(facts: Facts) -> tuple[str, tuple[str, ...]]:
    """Say whether decisions err as on validation, which labels of the target alone can show."""
    found = None if facts.assessment is None else facts.assessment.measured
    if found is None or found.p_value is None:
        return "cannot tell", ("labels of some target rows would show it",)
    how = f"{plural(found.n_labelled, 'label')}, p = {found.p_value:.2g}"
    if found.p_value > LEVEL:
        return "it seems so", (f"decisions err as on validation ({how})",)
    return "in doubt", (f"decisions err otherwise than on validation ({how})",)


def movers_claim(facts: Facts, names: tuple[str, ...]) -> str:
    """Name what grew and shrank most, as the heading of the picture."""
    if facts.test is not None and not facts.test.rejected:
        return "No class clearly grew or shrank"
    change, order = facts.shift.change, facts.shift.by_size
    grew = order[change[order] >= WORTH_NAMING][:1]
    shrank = order[change[order] <= -WORTH_NAMING][:1]
    named = grew if len(names) == 2 else np.concatenate([grew, shrank])
    source, priors = facts.shown.source_priors, facts.shown.priors
    claims = [f"{quoted(names[k])} {_moved(float(source[k]), float(priors[k]))}" for k in named]
    return ", ".join(claims) or "The class shares are what they were"


def _times(ratio: float) -> str:
    return number(ratio, 2).removesuffix(".0")


def _moved(before: float, after: float) -> str:
    """Say how a share moved: in times where it moved far, else from what to what."""
    if before <= ZERO:
        return f"appeared, with {short_percent(after)}"
    if after <= ZERO:
        return "disappeared"
    ratio = after / before
    if ratio < 1e-3:
        return "all but disappeared"
    if ratio >= 1.9:
        known = {2: "roughly doubled", 3: "roughly tripled"}
        return known.get(round(ratio), f"grew {_times(ratio)}-fold")
    if ratio <= 0.55:
        parts = {2: "half", 3: "a third", 4: "a quarter", 5: "a fifth"}
        part = parts.get(round(1 / ratio))
        return f"shrank {_times(1 / ratio)}-fold" if part is None else f"shrank to {part}"
    verb = "grew" if ratio >= 1 else "shrank"
    return f"{verb} from {short_percent(before)} to {short_percent(after)}"


# What changed


def changed_claim(facts: Facts) -> str:
    """Say in the heading how many decisions change or, without them, how far the shares moved."""
    share = facts.changed_decisions
    if facts.decided is not None:
        known = vaguest_share(facts.shown) is None
        need = "their counts need correcting" if known else "they say too little of the shares"
        return f"Decisions stay; {need}"
    if share is None:
        moved = short_percent(facts.shift.total_variation)
        return f"{moved} of the cases are in other classes than training suggests"
    if share == 0:
        return "Adapting changes no decision"
    verb = "changes" if facts.adapts else "would change"
    return f"Adapting {verb} {short_percent(share)} of the decisions"


def decisions_sentence(facts: Facts, names: tuple[str, ...]) -> str:
    """Say how many decisions change, and from what to what."""
    found = facts.decisions
    if facts.decided is not None:
        return _corrected(facts, names)
    if found is None:
        return ""
    if found.n_changed == 0:
        return (
            f"Adapting changes none of the {plural(found.n_rows, 'decision')} on the target; "
            "probabilities may change all the same."
        )
    verb = "changes" if facts.adapts else "would change"
    flow = found.flows[0]
    return (
        f"Adapting {verb} {count(found.n_changed)} of {plural(found.n_rows, 'decision')} on the "
        f"target, most often from {quoted(names[flow.before])} to {quoted(names[flow.after])} "
        f"({plural(flow.rows, 'row')}). {_gains_and_losses(facts, names)}"
    )


def _corrected(facts: Facts, names: tuple[str, ...]) -> str:
    """Say what counting decisions would get wrong most."""
    assert facts.decided is not None
    estimate = facts.shown
    k = int(movers(estimate.priors - facts.decided, 1)[0])
    span = ""
    if estimate.interval is not None:
        low, high = (short_percent(bound) for bound in estimate.interval[k].tolist())
        span = f" ({low} to {high})"
    return (
        "Single decisions cannot be adapted without probabilities, but their counts can be "
        "corrected for the errors that validation shows. "
        f"{short_percent(facts.decided[k])} of the decisions are {quoted(names[k])}; the share of "
        f"that class is {short_percent(estimate.priors[k])}{span}."
    )


def _gains_and_losses(facts: Facts, names: tuple[str, ...]) -> str:
    assert facts.decisions is not None
    difference = facts.decisions.difference
    order = movers(difference)
    before, after = facts.decisions.before, facts.decisions.after
    parts = [
        f"{quoted(names[k])} {verb} most ({count(before[k])} before, {count(after[k])} after)"
        for verb, which in (("gains", difference > 0), ("loses", difference < 0))
        for k in order[which[order]][:1]
    ]
    return f"{'; '.join(parts)}." if parts else "Every class keeps as many decisions as it had."


def ratio_sentence(facts: Facts) -> str:
    """Say what the ratio does to predictions."""
    estimate = facts.estimate
    if facts.decided is not None:
        return "“Decided” is the share of decisions; “Now” corrects it for their errors."
    if not facts.adapts:
        return "The ratio is the share now over the share before."
    what = "predicted probabilities" if estimate.calibrator is None else "calibrated probabilities"
    power = "" if estimate.strength == 1 else f", to the power of {number(estimate.strength)},"
    return (
        f"The ratio is the share now over the share before: adapting multiplies {what} by it"
        f"{power} and scales each row to sum 1."
    )


def interval_sentence(facts: Facts) -> str:
    """Say what the bounds of the shares are, or how to get them."""
    estimate = facts.shown
    if estimate.method == KNOWN:
        return "The shares of the target were given, so they have no interval."
    if estimate.interval is None:
        return (
            "These are point estimates: pass confidence_level=0.95 to estimate for intervals, or "
            "use priorshift.assess, which has them."
        )
    level = estimate.confidence_level
    at = "" if level is None else f" at {100 * level:g}% confidence"
    said = f"Lower and upper are bounds of each share{at}."
    if estimate is not facts.estimate:
        said += " The shares rest on labels and predictions (PPI), and hold whatever changed."
    if traits_of(estimate.method).trusts_outputs:
        said += " They assume that the predicted probabilities are calibrated."
    return said


# Can I trust it?


@dataclass(frozen=True)
class Check:
    """One doubt: a traffic light in a word, a sentence with its number, and more in the fold."""

    id: str
    light: str
    """One of "good", "care", "poor", "unknown"."""
    word: str
    sentence: str
    numbers: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


def checks(facts: Facts, names: tuple[str, ...]) -> list[Check]:
    """Return what to doubt, in the order in which doubts arise."""
    found = (
        _shift_check(facts),
        _assumption_check(facts),
        _labels_check(facts),
        _sample_check(facts, names),
        _calibration_check(facts),
        _agreement_check(facts),
    )
    return [check for check in found if check is not None]


def trust_claim(found: list[Check]) -> str:
    """Sum the checks up in the heading."""
    known = [check for check in found if check.light != "unknown"]
    bad = sum(check.light != "good" for check in known)
    if not known:
        return "There is nothing to check it with"
    if not bad and len(known) < len(found):
        verb = "is" if len(known) == 1 else "are"
        return f"{plural(len(known), 'check')} {verb} good, {len(found) - len(known)} not possible"
    if not bad:
        return f"All {len(known)} checks are good" if len(known) > 1 else "The one check is good"
    return f"{bad} of {plural(len(known), 'check')} {'needs' if bad == 1 else 'need'} a look"


def _shift_check(facts: Facts) -> Check | None:
    if facts.assessment is None:
        return None
    test = facts.test
    if test is None:
        why = facts.assessment.say("no_test", "too_many_classes")
        return Check("shift", "unknown", "Not tested", why or "There is no test of a shift.")
    said = facts.assessment.say("shifted", "not_shifted")
    numbers, notes = _shift_numbers(test), _shift_notes(test)
    if test.rejected:
        return Check("shift", "good", "Clear change", said, numbers, notes)
    if test.power >= ENOUGH_POWER:
        return Check("shift", "good", "No change", said, numbers, notes)
    return Check("shift", "care", "Too few rows", said, numbers, notes)


def _shift_numbers(test: ShiftTest) -> tuple[tuple[str, str], ...]:
    low, high = test.effect_interval
    least = test.detectable_effect
    return (
        ("p-value", f"{test.p_value:.3f}"),
        ("change in class balance, by the test's own estimate", percent(test.effect_size)),
        (f"its {100 * (1 - test.alpha):g}% interval", f"{percent(low)} to {percent(high)}"),
        (f"chance to notice a change of {percent(test.alternative)}", percent(test.power)),
        ("change noticed 4 times of 5", "none" if least is None else percent(least)),
    )


def _shift_notes(test: ShiftTest) -> tuple[str, ...]:
    drawn = (
        f"{plural(test.n_resamples, 'random exchange')} of rows between the two"
        if test.method == "permutation"
        else f"{plural(test.n_resamples, 'draw')} of the noise of both"
    )
    compared = (
        f"The mean prediction on {plural(test.n_target, 'target row')} is compared with what the "
        f"source's class balance predicts; validation has {plural(test.n_val, 'row')}. The p-value "
        f"comes from {drawn}."
    )
    return compared, *(f"{note[0].upper()}{note[1:]}" for note in map(shown_text, test.notes))


def _assumption_check(facts: Facts) -> Check | None:
    if facts.assessment is None:
        return None
    if facts.decided is not None:
        said = facts.assessment.say("by_decisions")
        return Check("assumption", "unknown", "Cannot tell", said)
    found = facts.assessment.assumption_test
    if found is None:
        return Check(
            "assumption",
            "unknown",
            "Not tested",
            "Whether only the class balance changed is not tested here: see "
            "priorshift.check_assumption.",
        )
    said = facts.assessment.say("few_to_check", "explained", "more_changed", "repeated")
    note = (
        "Adapting assumes that each class looks as it did and only the shares changed. The test "
        "compares how confident decisions are with what validation, at the new shares, predicts."
    )
    numbers = (
        ("p-value", "–" if found.p_value is None else f"{found.p_value:.3f}"),
        ("statistic", number(found.statistic)),
        ("degrees of freedom", count(found.degrees_of_freedom)),
    )
    if found.p_value is None:
        return Check("assumption", "unknown", "Not tested", said, (), (note,))
    if not found.rejected:
        return Check("assumption", "good", "Holds", said, numbers, (note,))
    light = "care" if facts.adapts else "poor"
    return Check("assumption", light, "In doubt", said, numbers, (note,))


def _labels_check(facts: Facts) -> Check | None:
    """Set the truth beside the expectation."""
    found = None if facts.assessment is None else facts.assessment.measured
    if found is None or facts.assessment is None:
        return None
    on = f"On {plural(found.n_labelled, 'labelled target row')}, "
    if facts.decided is not None:
        said = f"{on}{percent(found.before.value)} of the decisions are right."
        meet = found.p_value is None or found.p_value > LEVEL
    else:
        expected = facts.assessment.gain
        meet = found.gain.low <= expected.high and expected.low <= found.gain.high
        said = f"{on}adapting takes {facts.goal.word} from {_measured_change(facts, found)}."
    return Check(
        "labels", "good" if meet else "care", "As expected" if meet else "Unexpected", said
    )


def _measured_change(facts: Facts, found: Measured) -> str:
    gain = found.gain
    if facts.goal.in_points:
        return (
            f"{percent(found.before.value)} to {percent(found.after.value)}: {points(gain.value)} "
            f"points ({points(gain.low)} to {points(gain.high)})"
        )
    before, after = numbers(found.before.value, found.after.value)
    value, low, high = (signed_number(-part) for part in (gain.value, gain.high, gain.low))
    return f"{before} to {after}: {value} ({low} to {high})"


def _sample_check(facts: Facts, names: tuple[str, ...]) -> Check | None:
    found = facts.diagnostics
    if found is None:
        return None
    size = found.effective_sample_size
    said = (
        f"Weighted to the target's class balance, {plural(found.n_val, 'validation row')} are "
        f"worth about {count(max(1, round(size)))}: "
        + ("few to judge by." if size < FEW_ROWS else "enough to judge by.")
    )
    few = size < FEW_ROWS
    smallest = found.smallest_singular_value
    growth = f"{number(1 / smallest)} times" if smallest > ROUNDING else "without bound"
    notes = [
        _expectation(facts),
        f"Where a method inverts the confusion matrix, noise can grow {growth} (one over its "
        "smallest singular value).",
        _confusable(found, names),
    ]
    numbers = (
        ("effective sample size", number(size)),
        ("smallest singular value", number(smallest)),
        ("condition number", number(found.condition_number)),
    )
    word = "Few rows" if few else "Enough rows"
    return Check("sample", "care" if few else "good", word, said, numbers, tuple(notes))


def _expectation(facts: Facts) -> str:
    word = facts.goal.word.removeprefix("the expected ")
    weighed = "all classes alike" if facts.goal.name == "balanced_accuracy" else "the shares now"
    return (
        f"Expected {word} is that of each class on validation, weighted by {weighed}: no label of "
        "the target is used."
    )


def _confusable(found: Diagnostics, names: tuple[str, ...]) -> str:
    pairs = [" and ".join(quoted(shown_text(str(c))) for c in pair) for pair in found.confusable]
    if not pairs:
        return "Validation tells every two classes apart."
    more = "; …" if len(pairs) > MAX_PAIRS else ""
    return (
        f"{plural(len(pairs), 'pair')} of {plural(len(names), 'class', 'classes')} cannot be told "
        "apart on validation, so little more than the sum of their shares is known: "
        f"{'; '.join(pairs[:MAX_PAIRS])}{more}."
    )


def _calibration_check(facts: Facts) -> Check | None:
    reliability = facts.reliability
    if reliability is None:
        return None
    error = reliability.error
    said = (
        f"On validation, how sure the classifier is and how often it is right differ by "
        f"{number(100 * error)} points on average."
    )
    if error < GOOD_CALIBRATION:
        return Check("calibration", "good", "Calibrated", said)
    if facts.estimate.calibrator is not None:
        said += " Adapting calibrates predictions first."
        return Check("calibration", "good", "Corrected", said)
    said += " Calibrating validation and target first (priorshift.BCTS) may help."
    fair = error < FAIR_CALIBRATION
    return Check("calibration", "care" if fair else "poor", "Off" if fair else "Far off", said)


def _agreement_check(facts: Facts) -> Check | None:
    judged = facts.estimating
    if len(judged) < 2:
        return None
    mean, farthest = float(np.mean([r.agreement for r in judged])), judged[0]
    how, light, word = next(
        found
        for least, *found in (
            (CLOSE, "closely", "good", "Agree"),
            (ROUGH, "roughly", "care", "Roughly"),
            (-1.0, "poorly", "poor", "Disagree"),
        )
        if mean >= least
    )
    said = (
        f"{plural(len(judged), 'method')} agree {how}: on average, a method and the mean of the "
        f"others put {percent(mean)} of the cases in the same classes; {farthest.method} is "
        f"farthest from them, with {percent(farthest.agreement)}."
    )
    return Check("methods", light, word, said)


# What to do next


@dataclass(frozen=True)
class Next:
    """What to do: a claim, why, the line of Python, the command, about labels, and classes."""

    claim: str
    sentence: str
    python: str
    command: str
    labels: str
    plan: str
    plan_command: str
    classes: tuple[str, ...]


OPTIONS = "--validation validation.csv --target target.csv"


def next_steps(facts: Facts, names: tuple[str, ...], options: str | None) -> Next:
    """Say what to do with the verdict."""
    claim, sentence = _step(facts)
    options = options or _options(facts)
    return Next(
        claim,
        sentence,
        _python(facts),
        _command(facts, options),
        _labels(facts),
        _plan(facts, names),
        _plan_command(facts, options) if facts.plans else "",
        tuple(classes_to_look_at(facts, names)),
    )


def _step(facts: Facts) -> tuple[str, str]:
    found = facts.assessment
    if found is None and facts.estimate.method == KNOWN:
        return "Adapt, if you trust the given shares", "The report cannot tell whether they hold."
    if found is None:
        return (
            "Get a verdict from labelled validation",
            "Validation is data with labels that the classifier was not trained on.",
        )
    if facts.decided is not None and vaguest_share(facts.shown) is not None:
        return (
            "Label some target rows before you report class shares",
            "Decisions and validation do not tell the classes apart well enough.",
        )
    if facts.decided is not None:
        return (
            "Report the corrected shares",
            "Counts of decisions carry the errors of the classifier; the corrected shares do not.",
        )
    if found.verdict == "adapt":
        return "Adapt with one line", "Use the adapted probabilities in place of the old ones."
    if found.verdict == "leave":
        return "Keep the predictions, and look again later", "With new target data, assess again:"
    needed = _labels_needed(facts)
    if needed is None:
        return "Get more data before you adapt", found.advice
    return f"Label about {count(needed)} target rows to settle it", found.advice


def _python(facts: Facts) -> str:
    origin = facts.estimate.source_priors_from
    given = origin == "given" or "agrees with source_priors" in origin
    known = ", source_priors=source_priors" if given else ""
    if origin == "given (source_label_priors)":
        known = ", source_label_priors=source_label_priors"
    method = facts.estimate.method
    if facts.assessment is None and method == KNOWN:
        return "adapted = ps.adapt_proba(y_proba_target, source_priors, target_priors)"
    how = "" if method == "auto" or facts.assessment is None else f', method="{method}"'
    if facts.decided is not None:
        how = "" if method == "cm-l" else how
        data = f"y_pred_val=y_pred_val, y_val=y_val, y_pred_target=y_pred_target{known}{how}"
        return f"shares = ps.assess({data}).shares_to_report"
    aim = {"accuracy": "", "cost": ", costs=costs"}.get(
        facts.goal.name, f', goal="{facts.goal.name}"'
    )
    data = f"y_proba_val, y_val, y_proba_target{known}{how}{aim}"
    if facts.verdict == "adapt":
        adapted = f"adapted = ps.assess({data}).adapt(y_proba_target)"
        decided = "\ndecided = ps.decide(adapted, costs, classes=classes)"
        return adapted + (decided if facts.goal.name == "cost" else "")
    labels = ", y_target=labels" if facts.verdict == "unclear" else ""
    return f"found = ps.assess({data}{labels})"


def _command(facts: Facts, options: str) -> str:
    if facts.decided is not None:
        return f"priorshift estimate {options} --output shares.csv"
    if facts.verdict == "adapt" or facts.estimate.method == KNOWN:
        return f"priorshift adapt {options} --output adapted.csv"
    return f"priorshift assess {options}"


def _labels_needed(facts: Facts) -> int | None:
    """Return how many labelled target rows would settle it, if that is known and feasible."""
    if facts.assessment is None or not facts.changed_decisions:
        return None
    if facts.goal.name not in ("accuracy", "cost"):
        return None
    gain = facts.assessment.gain.value / facts.goal.scale
    needed = labels_to_settle(gain, facts.changed_decisions)
    return needed if needed <= facts.n_target else None


def _labels(facts: Facts) -> str:
    found = facts.assessment
    if found is None:
        return ""
    if facts.decided is not None and found.measured is None:
        return "Labels of some target rows would show whether decisions still err as on validation."
    if found.verdict == "leave":
        return "No more labels are needed for the verdict."
    if found.verdict == "adapt" and found.gain.low > 0:
        return "No more labels are needed for the verdict: the gain is clear without them."
    needed = _labels_needed(facts)
    if needed is None:
        return "More labelled rows, of validation and target, would make it clearer."
    verb = "confirm" if found.verdict == "adapt" else "settle"
    return (
        f"About {plural(needed, 'labelled target row')}, drawn at random, would {verb} it with a "
        "chance of four in five: pass their labels as y_target."
    )


def _options(facts: Facts) -> str:
    """Name files as an example where the report does not know them."""
    more = " --predicted-column decision" if facts.decided is not None else ""
    goal = facts.goal.name
    aim = {"accuracy": "", "cost": " --costs costs.csv"}.get(goal, f" --goal {goal}")
    return OPTIONS + more + aim


def _plan(facts: Facts, names: tuple[str, ...]) -> str:
    """Say what labels do for the shares, and how well the shares are known now."""
    if not facts.plans:
        return ""
    estimate, now = facts.shown, ""
    if estimate.interval is not None:
        k = int(np.ptp(estimate.interval, axis=1).argmax())
        low, high = (short_percent(bound) for bound in estimate.interval[k].tolist())
        now = f" Now {quoted(names[k])} is known least well: {low} to {high}."
    found = None if facts.assessment is None else facts.assessment.measured
    have = "" if found is None else f" You have {plural(found.n_labelled, 'label')} already."
    beyond = (
        f" The target has {plural(facts.n_target, 'row')}."
        if any(plan.labels > facts.n_target for plan in facts.plans)
        else ""
    )
    level = 100 * (estimate.confidence_level or 0.95)
    return (
        "Labels of target rows, drawn at random, tell the class shares whatever changed; with "
        f"predictions on all rows (method ppi) fewer do. The table says how many give every class "
        f"a {level:g}% interval that narrow.{now}{have}{beyond}"
    )


PLANNED = ("--validation", "--labels", "--label-column", "--class-columns", "--predicted-column")
"""Options that name validation data, as `priorshift plan` takes them too; --logits beside them."""


def _plan_command(facts: Facts, options: str) -> str:
    """Return the command that plans again: with the shares typed, or from a file if many."""
    words, estimate = shlex.split(options), facts.shown
    kept = [word for word in words if word == "--logits"]
    for option, value in pairwise(words):
        if option in PLANNED:
            kept += [option, value]
    width = next(plan.width for plan in facts.plans if not plan.halves)
    plan = f"priorshift plan --width {width:g} {shlex.join(kept)}"
    level = estimate.confidence_level
    if level is not None and level != LEVEL_OF_PLAN:
        plan += f" --confidence-level {level:g}"
    names = [str(name) for name in estimate.classes.tolist()]
    if len(names) <= TYPED and not any(set(',"=\n') & set(name) for name in names):
        pairs = zip(names, planned_shares(estimate).tolist(), strict=True)
        return f"{plan} --priors {shlex.quote(','.join(f'{k}={p:.4g}' for k, p in pairs))}"
    return f"priorshift estimate {options} --output shares.csv\n{plan} --priors shares.csv"


LEVEL_OF_PLAN = 0.95
"""Confidence level of `priorshift plan`, unless another is asked for."""


def classes_to_look_at(facts: Facts, names: tuple[str, ...]) -> list[str]:
    """Name the classes of which little is known."""
    found = [
        _unseen(facts, names),
        _zero(facts, names),
        _few_validation(facts, names),
        _widest(facts, names),
        ""
        if facts.diagnostics is None or not facts.diagnostics.confusable
        else _confusable(facts.diagnostics, names),
    ]
    return [sentence for sentence in found if sentence]


def _unseen(facts: Facts, names: tuple[str, ...]) -> str:
    unseen = np.isin(facts.estimate.classes, list(facts.estimate.unseen_classes))
    if facts.mistakes is not None:
        unseen = unseen | ~facts.mistakes.seen
    if not unseen.any():
        return ""
    return (
        f"Validation has no sample of {_some(names, np.flatnonzero(unseen))}: add some, because "
        "nothing is known about how often such a class is taken for another."
    )


def _zero(facts: Facts, names: tuple[str, ...]) -> str:
    gone = np.flatnonzero((facts.estimate.priors <= ZERO) & (facts.estimate.source_priors > ZERO))
    if not gone.size or not facts.adapts:
        return ""
    return (
        f"The estimated share of {_some(names, gone)} is 0: adapted predictions never choose "
        "such a class. A hyper-prior (scm-m, map) keeps it possible."
    )


def _few_validation(facts: Facts, names: tuple[str, ...]) -> str:
    if facts.mistakes is None:
        return ""
    weights = facts.mistakes.hard.class_weights
    few = np.flatnonzero((weights > 0) & (weights < ENOUGH))
    if not few.size:
        return ""
    return (
        f"Validation has fewer than {ENOUGH} samples of {_some(names, few)}: too few to know how "
        "often such a class is taken for another."
    )


def _widest(facts: Facts, names: tuple[str, ...]) -> str:
    interval = facts.estimate.interval
    if interval is None or not facts.adapts:
        return ""
    width = interval[:, 1] - interval[:, 0]
    k = int(width.argmax())
    low, high = (short_percent(bound) for bound in interval[k].tolist())
    return f"The share of {quoted(names[k])} is the least certain: {low} to {high}."


def _some(names: tuple[str, ...], which: Indices, most: int = 3) -> str:
    """Name a few classes of many."""
    if which.size <= most:
        return listed([quoted(names[k]) for k in which])
    shown = ", ".join(quoted(names[k]) for k in which[:most])
    return f"{plural(which.size, 'class', 'classes')} ({shown}, …)"


# Details


def worth_knowing(facts: Facts, names: tuple[str, ...]) -> list[str]:
    """Say what the estimate rests on, for those who read on."""
    found = [_solver(facts), _negative(facts, names), _few_target(facts), _sources(facts)]
    cautions = [caution[0].upper() + caution[1:] for caution in facts.estimate.cautions]
    return [*cautions, *(sentence for sentence in found if sentence)]


def _solver(facts: Facts) -> str:
    estimate = facts.estimate
    if estimate.method == KNOWN:
        return "The target priors were given, so there was nothing to solve."
    gap = number(estimate.gap, 2)
    unit = f" {traits_of(estimate.method).gap_unit}".rstrip()
    if estimate.status == "certified" and not estimate.gap:
        return (
            f"The solver certifies its answer: up to rounding, no other priors could raise the "
            f"objective of {estimate.method}."
        )
    if estimate.status == "certified":
        return (
            f"The solver certifies its answer: no other priors could raise the objective of "
            f"{estimate.method} by more than {gap}{unit}."
        )
    if estimate.status == "direct":
        return (
            f"The method {estimate.method} has a closed form: it computes the answer directly, "
            "without iterations."
        )
    if estimate.status == "stationary":
        return (
            "The solver reached a stationary point of an objective that may have several: another "
            "start may end elsewhere."
        )
    short = "" if estimate.gap is None else f", at most {gap}{unit} below the optimum"
    return f"The solver stopped short of its tolerance{short}: the answer is not certified."


def _negative(facts: Facts, names: tuple[str, ...]) -> str:
    raw = facts.estimate.raw
    if raw is None or not (raw < -ROUNDING).any():
        return ""
    worst, n_negative = int(np.argmin(raw)), int(np.count_nonzero(raw < -ROUNDING))
    return (
        f"Before clipping, {plural(n_negative, 'entry', 'entries')} of the solution "
        f"{'was' if n_negative == 1 else 'were'} negative (the lowest {number(raw[worst])}, "
        f"{quoted(names[worst])}): a sign of noise, or of more than prior shift."
    )


def _few_target(facts: Facts) -> str:
    K, rows = facts.estimate.classes.size, facts.estimate.n_target
    if not 0 < rows < ROWS_PER_CLASS * K:
        return ""
    return (
        f"The target has {plural(rows, 'row')} for {plural(K, 'class', 'classes')}: with so few, "
        "chance alone moves the shares, those of rare classes most."
    )


def _sources(facts: Facts) -> str:
    if "taken to be drawn" not in facts.estimate.source_priors_from:
        return ""
    return (
        f"The source priors are the {facts.estimate.source_priors_from}. If the classes of "
        "validation have other shares than in the training set, pass source_priors."
    )


def conditioning(value: float) -> str:
    """Say what a condition number means for the estimate."""
    if not np.isfinite(value):
        return "singular, so decisions alone cannot tell some classes apart"
    if value < 5:
        return "well conditioned, so decisions tell the classes apart"
    if value < 30:
        return "fairly conditioned, so noise in the decisions is amplified moderately"
    if value < 1000:
        return "poorly conditioned, so noise in the decisions may be amplified many times"
    return "nearly singular, so decisions hardly tell some classes apart"


def condition_sentences(facts: Facts) -> list[str]:
    """Say what the condition numbers of the confusion matrix are, and what they mean."""
    mistakes = facts.mistakes
    if mistakes is None:
        return []
    hard, soft = mistakes.condition_hard, mistakes.condition_soft
    meanings = list(dict.fromkeys([conditioning(hard), conditioning(soft)]))
    numbers = f"{number(hard)} with hard decisions, {number(soft)} with soft ones"
    if len(meanings) == 1:
        sentences = [f"Its condition number is {numbers}: {meanings[0]}."]
    else:
        sentences = [
            f"Its condition number is {numbers}.",
            f"With hard decisions it is {meanings[0]}.",
            f"With soft ones it is {meanings[1]}.",
        ]
    own = facts.estimate.condition_number
    if own is not None and number(own) not in (number(hard), number(soft)):
        sentences.append(
            f"The matrix that {facts.estimate.method} inverted has a condition number of "
            f"{number(own)}."
        )
    return sentences


def left_out(facts: Facts) -> list[tuple[str, str]]:
    """List what the report lacks, and what to pass for it."""
    wishes = (
        (
            facts.assessment,
            "Verdict, expected accuracy and tests",
            "y_proba_val, y_val and y_proba_target, or --validation",
        ),
        (facts.decisions, "Which decisions change", "y_proba_target, or --target"),
        (
            facts.mistakes,
            "Calibration and confusion matrix",
            "y_proba_val and y_val, or --validation",
        ),
        (facts.comparison, "Whether methods agree", "comparison=priorshift.compare.compare(…)"),
        (facts.truth, "Scores on the target’s labels", "y_target, or a --target with labels"),
    )
    return [
        (what, arguments)
        for fact, what, arguments in wishes
        if fact is None and not (what.startswith("Verdict") and facts.estimate.method == KNOWN)
    ]
