"""What Auto decided and why, as data and as sentences."""

from typing import Any, Literal

from priorshift._validation import some
from priorshift.calibration import Calibration, CalibrationMap
from priorshift.estimators._gain import Gain

Reason = Literal["helps", "no shift", "unsure", "unknown class"]
"""Why predictions are adapted, or left alone."""


def state_decision(
    gain: Gain,
    reason: Reason,
    unknown: list[Any],
    rows: tuple[int, int],
    *,
    calibrator: Calibration | None,
    mismatch: str | None,
    raw_weight: float,
    tempering: float,
) -> dict[str, Any]:
    """Return what was decided and why, as data and as sentences.

    `rows` are how many rows of the target were looked at, and how many there are.
    """
    facts = {
        "adapt": reason == "helps",
        "reason": reason,
        "unknown_classes": unknown,
        "expected_gain": float(gain.mean),
        "expected_gain_se": float(gain.standard_error),
        "changed_decisions": float(gain.changed),
        "calibration": "none" if calibrator is None else calibrator.name,
        "calibration_weights": _weights(calibrator),
        "mismatch": mismatch,
        "raw_weight": raw_weight,
        "row_weight": tempering,
        "rows_looked_at": rows[0],
    }
    sentences = [_verdict(gain, reason, unknown), *_details(facts, rows)]
    return {**facts, "sentence": " ".join(sentences)}


def _weights(calibrator: Calibration | None) -> dict[str, float]:
    if calibrator is None:
        return {}
    if isinstance(calibrator, CalibrationMap):
        return {calibrator.name: 1.0}
    return {
        one.name: weight for one, weight in zip(calibrator.maps, calibrator.weights, strict=True)
    }


def _verdict(gain: Gain, reason: Reason, unknown: list[Any]) -> str:
    """Say what to do, for a reader who knows no statistics."""
    if reason == "unknown class":
        return f"Leave predictions alone: {say_unknown(unknown)}. Give source_priors."
    if reason == "no shift":
        return "Leave predictions alone: the class balance has hardly changed."
    low, high = (100 * bound for bound in gain.interval)
    if reason == "unsure":
        return (
            "Leave predictions alone: it is not sure that adapting helps (expected change of "
            f"accuracy {100 * gain.mean:+.1f} points, {low:+.1f} to {high:+.1f})."
        )
    digits = 0 if 100 * gain.mean >= 9.5 else 1
    return (
        f"Adapt: accuracy should rise by about {100 * gain.mean:.{digits}f} points "
        f"({low:.{digits}f} to {high:.{digits}f})."
    )


def _details(facts: dict[str, Any], rows: tuple[int, int]) -> list[str]:
    details = []
    if facts["adapt"]:
        details.append(
            f"{facts['changed_decisions']:.0%} of the decisions change; probabilities are "
            "calibrated first."
        )
    elif facts["calibration"] != "none":
        details.append("Probabilities are calibrated by a temperature, which changes no decision.")
    if facts["mismatch"] is not None:
        details.append(facts["mismatch"])
    if rows[0] < rows[1]:
        details.append(f"Judged on {rows[0]:,} of {rows[1]:,} rows.")
    return details


def say_unknown(classes: list[Any]) -> str:
    """Say that nothing is known of classes."""
    return (
        f"validation has no sample of class {some(classes)}, and without source_priors nothing "
        "says how often it was in training"
    )
