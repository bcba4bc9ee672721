"""What an estimate is worth: conditioning, confusable classes, expected accuracy."""

from priorshift.diagnostics._accuracy import Expected
from priorshift.diagnostics._diagnose import Diagnostics, diagnose
from priorshift.diagnostics._reliability import (
    HISTOGRAM_EDGES,
    Reliability,
    Strategy,
    assign_bins,
    calibration_error,
)

__all__ = [
    "HISTOGRAM_EDGES",
    "Diagnostics",
    "Expected",
    "Reliability",
    "Strategy",
    "assign_bins",
    "calibration_error",
    "diagnose",
]
