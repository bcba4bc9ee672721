"""Whether there is a shift and whether to trust the estimate, in words and key numbers."""

from dataclasses import dataclass, replace

from priorshift.diagnostics import Diagnostics, Expected
from priorshift.report._facts import ROUNDING, Facts
from priorshift.report._format import (
    number,
    percent,
    plural,
    points,
    quoted,
    shown_text,
)
from priorshift.shift_test import ShiftTest

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
    return [
        "Expected accuracy is that of each class on validation, weighted by the estimated priors, "
        "less what these flatter themselves by: no label of the target is used.",
        f"At the estimated priors, {plural(found.n_val, 'validation row')} are worth "
        f"{number(found.effective_sample_size)} (effective sample size)"
        + (": the estimate rests on few samples." if few else "."),
        "Where the soft confusion matrix is inverted, noise in the mean prediction can grow "
        f"{growth} (one over its smallest singular value).",
        _confusable(found, names),
    ]


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
