"""Calibration."""
from priorshift.calibration._maps import TINY, Calibration, CalibrationAverage, CalibrationMap
