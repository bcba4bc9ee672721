"""What an estimate is worth: conditioning, confusable classes, expected accuracy."""

from priorshift.diagnostics._diagnose import diagnose
from priorshift.diagnostics._reliability import (
    HISTOGRAM_EDGES,
    Reliability,
    Strategy,
    assign_bins,
    calibration_error,
)
from priorshift.diagnostics._result import Diagnostics, Expected

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
