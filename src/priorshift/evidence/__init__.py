"""What changed, and what an estimate is worth: tests, diagnostics, expected accuracy."""

from priorshift.evidence._accuracy import Expected, expected_score
from priorshift.evidence._assumption import check_assumption
from priorshift.evidence._detect import detect_shift, is_shifted
from priorshift.evidence._diagnose import Diagnostics, diagnose
from priorshift.evidence._information import label_information, least_information
from priorshift.evidence._reliability import (
    HISTOGRAM_EDGES,
    Reliability,
    Strategy,
    assign_bins,
    calibration_error,
)
from priorshift.evidence._results import AssumptionTest, ShiftTest
from priorshift.evidence._samples import Samples, read_samples

__all__ = [
    "HISTOGRAM_EDGES",
    "AssumptionTest",
    "Diagnostics",
    "Expected",
    "Reliability",
    "Samples",
    "ShiftTest",
    "Strategy",
    "assign_bins",
    "calibration_error",
    "check_assumption",
    "detect_shift",
    "diagnose",
    "expected_score",
    "is_shifted",
    "label_information",
    "least_information",
    "read_samples",
]
