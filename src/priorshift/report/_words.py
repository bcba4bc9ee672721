"""What the numbers of a report say: findings, cautions, judgements, methods."""

from dataclasses import dataclass, replace

import numpy as np

from priorshift._typing import Indices
from priorshift.diagnostics import Diagnostics, Expected
from priorshift.estimators import Reference, traits_of
from priorshift.report._facts import ENOUGH, ROUNDING, Facts
from priorshift.shift_test import ShiftTest
from priorshift.text import (
    count,
    listed,
    movers,
    number,
    percent,
    plural,
    points,
    quoted,
    shown_text,
)

GUIDE = Reference(
    "The Hitchhiker’s Guide to Prior-Shift Adaptation, 2021", "https://arxiv.org/abs/2106.11695"
)
CALIBRATION = Reference("Guo et al., 2017", "https://arxiv.org/abs/1706.04599")

KNOWN = "known"
"""Method of an estimate that is none: its priors were given."""


def description(method: str) -> str:
    """Say what a method does; nothing about one that is not registered."""
    if method == KNOWN:
        return "takes target priors that were given; nothing is estimated"
    return traits_of(method).summary


def references(method: str, *, calibration: bool) -> list[Reference]:
    """List the papers that a report cites."""
    papers = (GUIDE, traits_of(method).reference, CALIBRATION if calibration else None)
    return list(dict.fromkeys(paper for paper in papers if paper is not None))


ROWS_A_CLASS = 20
"""Target rows a class below which the report warns of few."""
POOR_CALIBRATION = 0.05
ZERO = 1e-12


def cautions(facts: Facts, names: tuple[str, ...]) -> list[str]:
    """Say what the estimate rests on, the most pressing first."""
    found = [
        _worse(facts),
        _assumption(facts),
        *(caution[0].upper() + caution[1:] for caution in facts.estimate.cautions),
        _harm(facts),
        _no_evidence(facts),
        _unseen(facts, names),
        _negative(facts, names),
        _zero(facts, names),
        _few_target(facts),
        _few_validation(facts, names),
        _calibration(facts),
        _sources(facts),
        _no_interval(facts),
        "All of this supposes prior shift: each class looks as it did, only the shares changed. "
        "Predictions alone cannot prove that.",
    ]
    return [caution for caution in found if caution]


def _worse(facts: Facts) -> str:
    truth = facts.truth
    if truth is None or truth.after.accuracy >= truth.before.accuracy:
        return ""
    return "On the labels at hand adapting does harm: do not adapt without finding out why."


def _assumption(facts: Facts) -> str:
    found = None if facts.test is None else facts.test.assumption
    return found.verdict if found is not None and found.rejected else ""


def _harm(facts: Facts) -> str:
    found = facts.diagnostics
    if found is None or facts.left_alone or found.accuracy_gain.high >= 0:
        return ""
    return (
        "Adapting is expected to lower accuracy on the target, by "
        f"{number(-100 * found.accuracy_gain.value)} percentage points."
    )


def _no_evidence(facts: Facts) -> str:
    test = facts.test
    if test is None or test.rejected or facts.decisions is None or not facts.decisions.n_changed:
        return ""
    return "The shift test finds no evidence of a shift, yet adapting changes decisions."


def _unseen(facts: Facts, names: tuple[str, ...]) -> str:
    unseen = np.isin(facts.estimate.classes, list(facts.estimate.unseen_classes))
    if facts.mistakes is not None:
        unseen = unseen | ~facts.mistakes.seen
    if not unseen.any():
        return ""
    return (
        f"Validation has no sample of {_some(names, np.flatnonzero(unseen))}: a confusion matrix "
        "says nothing of such a class."
    )


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


def _zero(facts: Facts, names: tuple[str, ...]) -> str:
    gone = np.flatnonzero((facts.estimate.priors <= ZERO) & (facts.estimate.source_priors > ZERO))
    if not gone.size or facts.left_alone:
        return ""
    return (
        f"The estimated prior of {_some(names, gone)} is 0: adapted predictions never choose "
        "such a class. A hyper-prior (scm-m, map) keeps it possible."
    )


def _few_target(facts: Facts) -> str:
    K, rows = facts.estimate.classes.size, facts.estimate.n_target
    if not 0 < rows < ROWS_A_CLASS * K:
        return ""
    return (
        f"The target has {plural(rows, 'row')} for {plural(K, 'class', 'classes')}: chance alone "
        "moves shares by that little data, rare classes most of all."
    )


def _few_validation(facts: Facts, names: tuple[str, ...]) -> str:
    if facts.mistakes is None:
        return ""
    weights = facts.mistakes.hard.class_weights
    few = np.flatnonzero((weights > 0) & (weights < ENOUGH))
    if not few.size:
        return ""
    return (
        f"Validation has fewer than {ENOUGH} samples of {_some(names, few)}: how such a class is "
        "mistaken for others is little known."
    )


def _calibration(facts: Facts) -> str:
    reliability = facts.reliability
    if reliability is None or reliability.error < POOR_CALIBRATION:
        return ""
    if facts.estimate.calibrator is not None:
        return ""
    trusting = traits_of(facts.estimate.method).trusts_outputs
    if facts.left_alone and not trusting:
        return ""
    trust = (
        f"{facts.estimate.method} trusts the probabilities"
        if trusting
        else "adaptation multiplies the probabilities"
    )
    return (
        f"On validation confidence and accuracy differ by {number(100 * reliability.error)} "
        f"percentage points on average, and {trust}: calibrate validation and target first "
        "(priorshift.BCTS)."
    )


def _sources(facts: Facts) -> str:
    if "taken to be drawn" not in facts.estimate.source_priors_from:
        return ""
    return (
        f"The source priors are the {facts.estimate.source_priors_from}. If validation is balanced "
        "otherwise than the training set was, pass source_priors."
    )


def _no_interval(facts: Facts) -> str:
    if facts.estimate.method == KNOWN:
        return "The priors were given: this report cannot tell whether they are right."
    if facts.estimate.interval is not None:
        return ""
    return (
        "These are point estimates: nothing here says how much of a change is chance, so read "
        "small changes with care."
    )


def _some(names: tuple[str, ...], which: Indices, most: int = 3) -> str:
    """Name a few classes of many."""
    if which.size <= most:
        return listed([quoted(names[k]) for k in which])
    shown = ", ".join(quoted(names[k]) for k in which[:most])
    return f"{plural(which.size, 'class', 'classes')} ({shown}, …)"


FEW_ROWS = 30
"""Effective validation rows below which an estimate rests on little."""
MAX_PAIRS = 5
"""Pairs of classes that are named."""


@dataclass(frozen=True)
class Judgement:
    """A section: its answer, its numbers, and more to say."""

    answer: str
    numbers: tuple[tuple[str, str], ...]
    findings: tuple[str, ...]


def shift_judgement(facts: Facts) -> Judgement | None:
    """Say whether there is a shift, if that was tested."""
    test = facts.test
    if test is None or facts.trust is None:
        return None
    low, high = test.effect_interval
    least = test.detectable_effect
    said = [_compared(test, given=facts.trust.given)]
    if test.assumption is not None:
        said.append(test.assumption.verdict)
    return Judgement(
        replace(test, assumption=None).verdict,  # which is said in a sentence of its own
        (
            ("p-value", f"{test.p_value:.3f}"),
            ("effect size, total variation", number(test.effect_size)),
            (f"{_level(1 - test.alpha)} interval of it", f"{number(low, 2)} to {number(high, 2)}"),
            (f"power for a shift of {number(test.alternative, 2)}", percent(test.power)),
            ("shift seen 4 times of 5", "none" if least is None else number(least)),
        ),
        (*said, *(f"{note[0].upper()}{note[1:]}" for note in map(shown_text, test.notes))),
    )


def trust_judgement(facts: Facts, names: tuple[str, ...]) -> Judgement | None:
    """Say what the estimate is worth, if that was diagnosed."""
    found = facts.diagnostics
    if found is None:
        return None
    before, after, gain = found.accuracy_before, found.accuracy_after, found.accuracy_gain
    level = f"at {_level(found.confidence_level)} confidence"
    numbers = [
        ("expected accuracy before", percent(before.value)),
        ("expected accuracy after", percent(after.value)),
        ("smallest singular value", number(found.smallest_singular_value)),
        ("condition number", number(found.condition_number)),
        ("effective sample size", number(found.effective_sample_size)),
    ]
    if facts.left_alone:
        answer = (
            f"Predictions are left alone, and {_range(before)} of the decisions on the target are "
            f"expected to be right, {level}."
        )
    else:
        answer = (
            f"Of the decisions on the target, {_range(before)} are expected to be right before "
            f"adapting, {_range(after)} after it, {level}. {_helps(gain)}"
        )
    return Judgement(answer, tuple(numbers), tuple(_findings(found, names)))


def _findings(found: Diagnostics, names: tuple[str, ...]) -> list[str]:
    few = found.effective_sample_size < FEW_ROWS
    smallest = found.smallest_singular_value
    growth = f"{number(1 / smallest)} times" if smallest > ROUNDING else "without bound"
    said = [
        "Expected accuracy is that of each class on validation, weighted by the estimated priors, "
        "less what these flatter themselves by: no label of the target is used.",
        f"At the estimated priors, {plural(found.n_val, 'validation row')} are worth "
        f"{number(found.effective_sample_size)} (effective sample size)"
        + (": the estimate rests on few samples." if few else "."),
        "Where the soft confusion matrix is inverted, noise in the mean prediction can grow "
        f"{growth} (one over its smallest singular value).",
        _confusable(found, names),
    ]
    if found.priors_exact:
        said.append("The intervals take the target's priors as exact: they were given.")
    return said


def _confusable(found: Diagnostics, names: tuple[str, ...]) -> str:
    pairs = [" and ".join(quoted(shown_text(str(c))) for c in pair) for pair in found.confusable]
    if not pairs:
        return "Validation tells every two classes apart."
    more = "; …" if len(pairs) > MAX_PAIRS else ""
    return (
        f"{plural(len(pairs), 'pair')} of {plural(len(names), 'class', 'classes')} cannot be told "
        "apart on validation, so that little more than the sum of their priors is known: "
        f"{'; '.join(pairs[:MAX_PAIRS])}{more}."
    )


def _compared(test: ShiftTest, *, given: bool) -> str:
    """Say what was compared with what, and where the p-value comes from."""
    drawn = (
        f"{plural(test.n_resamples, 'random exchange')} of rows between the two"
        if test.method == "permutation"
        else f"{plural(test.n_resamples, 'draw')} of the noise of both"
    )
    source = "the label frequencies given" if given else "validation"
    return (
        f"The class balance of {plural(test.n_target, 'target row')} is compared with that of "
        f"{source}, by mean probabilities; validation has {plural(test.n_val, 'row')}. The p-value "
        f"comes from {drawn}."
    )


def _helps(gain: Expected) -> str:
    size = f"{points(gain.value)} points, {points(gain.low)} to {points(gain.high)}"
    if gain.low > 0:
        return f"Adapting is expected to help ({size})."
    if gain.high < 0:
        return f"Adapting is expected to harm ({size})."
    return f"Whether adapting helps cannot be told from these data ({size})."


def _range(share: Expected) -> str:
    return f"{percent(share.value)} ({percent(share.low)} to {percent(share.high)})"


def _level(share: float) -> str:
    return f"{100 * share:g}%"


MOVERS = 3
"""Classes named a direction."""
WORTH_NAMING = 5e-4
"""Change of a prior, as a share, below which no class is named."""


@dataclass(frozen=True)
class Verdict:
    """Sentences for a person."""

    headline: str
    findings: tuple[str, ...]
    cautions: tuple[str, ...]


def verdict(facts: Facts, names: tuple[str, ...]) -> Verdict:
    """Say what was found."""
    headline, decided = _headline(facts), _decided(facts)
    # what becomes of predictions comes first where nothing does, else how far the balance moved
    sentences = [decided, headline] if facts.left_alone else [headline, decided]
    lead, *second = filter(None, sentences)
    findings = [
        *second,
        *_movers(facts, names),
        _solver(facts),
        *_agreement(facts),
        *_condition(facts),
        *_decisions(facts),
        *_truth(facts),
    ]
    return Verdict(lead, tuple(findings), tuple(cautions(facts, names)))


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


def gains_and_losses(facts: Facts, names: tuple[str, ...]) -> str:
    """Say which classes gain and lose most decisions."""
    if facts.decisions is None:
        return ""
    difference = facts.decisions.difference
    order = movers(difference)
    before, after = facts.decisions.before, facts.decisions.after
    parts = [
        f"{quoted(names[k])} {verb} most ({count(before[k])} before, {count(after[k])} after)"
        for verb, which in (("gains", difference > 0), ("loses", difference < 0))
        for k in order[which[order]][:1]
    ]
    return f"{'; '.join(parts)}." if parts else "Every class keeps as many decisions as it had."


def left_out(facts: Facts) -> list[tuple[str, str]]:
    """List what the report lacks, and what to pass for it."""
    wishes = (
        (facts.decisions, "how decisions change", "y_proba_target"),
        (
            facts.mistakes,
            "confusion matrix and calibration",
            "y_proba_val and y_val, or --validation",
        ),
        (
            facts.trust,
            "whether there is a shift, and whether the estimate can be trusted",
            "y_proba_val, y_val and y_proba_target, or --validation",
        ),
        (facts.comparison, "whether methods agree", "comparison=priorshift.evaluation.compare(…)"),
        (
            facts.truth,
            "scores on the target’s labels, if there are any",
            "y_target, or a --target with labels",
        ),
    )
    return [(what, arguments) for fact, what, arguments in wishes if fact is None]


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


def ratio_sentence(facts: Facts) -> str:
    """Say what the ratio does to predictions."""
    estimate = facts.estimate
    if facts.left_alone:
        return (
            "The ratio is target over source. Predictions are left alone: it does not touch them."
        )
    what = "predicted probabilities" if estimate.calibrator is None else "calibrated probabilities"
    power = "" if estimate.strength == 1 else f", to the power of {number(estimate.strength)},"
    return (
        f"The ratio is target over source: what {what} are multiplied by{power} before each row is "
        "scaled to sum 1."
    )


def interval_sentence(facts: Facts) -> str:
    """Say what the bounds of the priors are, if there are any."""
    estimate = facts.estimate
    if estimate.interval is None:
        return ""
    level = estimate.confidence_level
    at = "" if level is None else f" at {100 * level:g}% confidence"
    said = f"Lower and upper are bounds of each prior{at}."
    if traits_of(estimate.method).trusts_outputs:
        said += " They suppose that the predicted probabilities are calibrated."
    return said


def used_condition(facts: Facts) -> float | None:
    """Return the condition number that bears on this estimate, if it is known."""
    if facts.estimate.condition_number is not None:
        return facts.estimate.condition_number
    method = traits_of(facts.estimate.method)
    if facts.mistakes is None or not method.fit_is_counts:
        return None
    soft = method._decision == "soft"
    return facts.mistakes.condition_soft if soft else facts.mistakes.condition_hard


def _decided(facts: Facts) -> str:
    """Return what the estimate decided of itself, if it did."""
    decision = facts.estimate.decision
    if decision is not None:
        return str(decision["sentence"])
    if facts.left_alone and facts.shift.total_variation:
        return "Predictions are left alone: this estimate sees no evidence of a shift."
    return ""


def _headline(facts: Facts) -> str:
    distance = facts.shift.total_variation
    if distance == 0:
        return "Target and source priors are the same: nothing would be adapted."
    sizes = ((0.02, "hardly moved"), (0.1, "moved a little"), (0.3, "moved markedly"))
    size = next((words for most, words in sizes if distance < most), "moved far")
    by = "With the priors given" if facts.estimate.method == KNOWN else "By this estimate"
    return (
        f"{by} the class balance has {size}: to get from the source balance to that "
        f"of the target, {percent(distance)} of all cases have to change class."
    )


def _movers(facts: Facts, names: tuple[str, ...]) -> list[str]:
    """Name the classes that grew and shrank most."""
    change, order = facts.shift.change, facts.shift.by_size
    grew = order[change[order] >= WORTH_NAMING][:MOVERS]
    shrank = order[change[order] <= -WORTH_NAMING][:MOVERS]
    sentences = []
    if grew.size:
        sentences.append(f"Grew most: {_paths(facts, names, grew)}.")
    if shrank.size:
        sentences.append(f"Shrank most: {_paths(facts, names, shrank)}.")
    return sentences


def _paths(facts: Facts, names: tuple[str, ...], which: Indices) -> str:
    source, priors = facts.estimate.source_priors, facts.estimate.priors
    return listed(
        [f"{quoted(names[k])} from {percent(source[k])} to {percent(priors[k])}" for k in which]
    )


def _solver(facts: Facts) -> str:
    estimate = facts.estimate
    if estimate.method == KNOWN:
        return "The target priors were given: there is nothing to solve, and nothing to certify."
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
            f"The method {estimate.method} has a closed form: there is nothing to converge, and "
            "nothing to certify."
        )
    if estimate.status == "stationary":
        return (
            "The solver reached a stationary point of an objective that may have several: another "
            "start may end elsewhere."
        )
    short = "" if estimate.gap is None else f", at most {gap}{unit} below the optimum"
    return f"The solver stopped short of its tolerance{short}: the answer is not certified."


def _agreement(facts: Facts) -> list[str]:
    judged = facts.estimating
    if len(judged) < 2:
        return []
    mean = float(np.mean([r.agreement for r in judged]))
    farthest = judged[0]
    closeness = "closely" if mean >= 0.95 else "roughly" if mean >= 0.85 else "poorly"
    return [
        f"The {plural(len(judged), 'method')} compared agree {closeness}: on average a method "
        f"shares {percent(mean)} of its prior mass with the mean of the others; "
        f"{farthest.method} stands farthest from them, with {percent(farthest.agreement)}."
    ]


def _condition(facts: Facts) -> list[str]:
    value = used_condition(facts)
    if value is None:
        return []
    return [f"The confusion matrix is {conditioning(value)} (condition number {number(value)})."]


def _decisions(facts: Facts) -> list[str]:
    decisions = facts.decisions
    if decisions is None:
        return []
    if facts.left_alone:
        kept = f"{plural(decisions.n_rows, 'decision')} on the target"
        return [f"Predictions are left alone: the {kept} stay as they are."]
    if decisions.n_changed == 0:
        return [f"Adapting changes none of the {count(decisions.n_rows)} decisions on the target."]
    share = decisions.n_changed / decisions.n_rows
    return [
        f"Adapting changes {count(decisions.n_changed)} of {plural(decisions.n_rows, 'decision')} "
        f"on the target ({percent(share)})."
    ]


def _truth(facts: Facts) -> list[str]:
    truth = facts.truth
    if truth is None:
        return []
    errors = f"{number(truth.before.l1_error)} to {number(truth.after.l1_error)}"
    if facts.left_alone:
        return [
            f"On the target’s labels, predictions are right in {percent(truth.before.accuracy)} of "
            f"all cases, left alone. The L1 error of the priors goes from {errors}."
        ]
    gain = truth.after.accuracy - truth.before.accuracy
    verb = "raises" if gain > 0 else "lowers" if gain < 0 else "keeps"
    return [
        f"On the target’s labels, adapting {verb} accuracy: {percent(truth.before.accuracy)} "
        f"before, {percent(truth.after.accuracy)} after ({points(gain)} points). The L1 error of "
        f"the priors goes from {errors}."
    ]
