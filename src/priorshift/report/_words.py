"""The verdict in words: what the numbers say, what they rest on, what to be careful about.

Sizes are described, never called significant: that is for intervals and a test to say.
"""

from dataclasses import dataclass

import numpy as np

from priorshift._typing import Indices
from priorshift.estimators import traits_of
from priorshift.report._cautions import cautions
from priorshift.report._facts import Facts
from priorshift.report._methods import KNOWN
from priorshift.text import count, listed, movers, number, percent, plural, points, quoted

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
