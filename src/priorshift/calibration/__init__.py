"""Calibration: maps from outputs to probabilities that mean what they say, and how to fit them."""

from priorshift.calibration._calibrators import BCTS, TemperatureScaling, VectorScaling
from priorshift.calibration._crossfit import RIDGE_GRID
from priorshift.calibration._maps import TINY, Calibration, CalibrationAverage, CalibrationMap

__all__ = [
    "BCTS",
    "RIDGE_GRID",
    "TINY",
    "Calibration",
    "CalibrationAverage",
    "CalibrationMap",
    "TemperatureScaling",
    "VectorScaling",
]
