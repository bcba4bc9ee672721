"""What Auto decided and why, as data and as a sentence."""

from typing import Any, Literal

import numpy as np

from priorshift._validation import some
from priorshift.estimators._gain import Gain
from priorshift.estimators._outputs import Outputs
from priorshift.estimators._shrinkage import ShrunkPriors

Reason = Literal["helps", "no shift", "unsure", "unknown class"]
"""Why predictions are adapted, or left alone."""

CALIBRATED = {
    "none": "Predictions are",
    "ts": "Predictions are calibrated by a temperature and",
    "bcts": "Predictions are calibrated by a temperature and biases, and",
    "vs": "Predictions are calibrated by scales and biases, and",
}


def state_decision(
    outputs: Outputs,
    shrunk: ShrunkPriors,
    gain: Gain,
    reason: Reason,
    unknown: list[Any],
    rows: tuple[int, int],
) -> dict[str, Any]:
    """Return what was decided and why, as data and as a sentence.

    `rows` are how many rows of the target were looked at, and how many there are.
    """
    calibrator = outputs.calibrator
    scales = np.ones(1) if calibrator is None else calibrator.slope
    exact, adapts = bool(np.isinf(shrunk.concentration)), reason == "helps"
    facts = {
        "adapt": adapts,
        "reason": reason,
        "unknown_classes": unknown,
        "calibration": outputs.name if adapts else "none",
        "slope": float(scales.mean()),
        "floor": 0.0 if calibrator is None else calibrator.floor,
        "shrunk_towards": shrunk.centre,
        "pseudo_counts": None if exact else shrunk.concentration,
        "log_evidence": float(shrunk.log_evidence),
        "expected_gain": float(gain.mean),
        "expected_gain_se": float(gain.standard_error),
        "changed_decisions": float(gain.changed),
        "rows_looked_at": rows[0],
    }
    sampled = f" Judged on {rows[0]:,} of {rows[1]:,} rows." if rows[0] < rows[1] else ""
    return {**facts, "sentence": _sentence(facts) + sampled}


def _sentence(facts: dict[str, Any]) -> str:
    if facts["reason"] == "no shift":
        return (
            "Predictions are left alone: the target gives no more evidence for other priors than "
            "for those of the source."
        )
    gain, error = 100 * facts["expected_gain"], 100 * facts["expected_gain_se"]
    nats = facts["log_evidence"]
    evidence = f"{nats:{',.0f' if nats >= 100 else '.3g'}} nats of evidence for a shift"
    expected = f"expected gain {gain:+.1f} points of accuracy (standard error {error:.1f})"
    if facts["reason"] == "unknown class":
        return (
            f"Predictions are left alone: {say_unknown(facts['unknown_classes'])}, so that the "
            f"{evidence} cannot be trusted. Give source_priors."
        )
    if facts["reason"] == "unsure":
        return f"Predictions are left alone: {evidence}, but not enough to be sure, {expected}."
    counts = facts["pseudo_counts"]
    shrinkage = (
        f"the {facts['shrunk_towards']} priors exactly"
        if counts is None
        else f"priors shrunk towards the {facts['shrunk_towards']} ones by "
        f"{counts:g} pseudo-count{'' if counts == 1 else 's'} a class"
    )
    return f"{CALIBRATED[facts['calibration']]} adapted to {shrinkage}: {evidence}, {expected}."


def say_unknown(classes: list[Any]) -> str:
    """Say that nothing is known of classes."""
    return (
        f"validation has no sample of class {some(classes)}, and without source_priors nothing "
        "says how often it was in training"
    )
