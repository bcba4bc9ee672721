"""What to be careful about, in words."""

import numpy as np

from priorshift._typing import Indices
from priorshift.report._facts import ENOUGH, ROUNDING, Facts
from priorshift.report._format import listed, number, plural, quoted
from priorshift.report._methods import KNOWN, TRUSTING

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
    trusting = facts.estimate.method in TRUSTING
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
