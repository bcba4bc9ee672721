"""Calibration: make a classifier's outputs mean what they say, before anything is built on them.

With `z` the log-softmax of the outputs, every calibrator here is `softmax(v * z + b)`:

| class                       | scale v       | bias b        | known as |
|-----------------------------|---------------|---------------|----------|
| `TemperatureScaling`        | 1 / T, T > 0  | 0             | TS       |
| `BCTS`                      | 1 / T, T > 0  | one per class | BCTS     |
| `VectorScaling`             | one per class | one per class | VS       |
| `VectorScaling(bias=False)` | one per class | 0             | NBVS     |

What estimators fit for themselves, a `PriorEstimate` carries as a `CalibrationMap`, or as a
`CalibrationAverage` of several.

To read the package: `maps` is what is fitted, `likelihood` what is maximised, `fitting` how, and
`crossfit` does so along ridges and without each fold. On these stand `calibrators` (the classes
above), `chosen` (one calibrator, for `CalibratedEM`) and `average` (many, for `Auto`); `floors`
deals with outputs of exactly 0.
"""

from priorshift.calibration.average import AveragedCalibration, average_calibration, label_losses
from priorshift.calibration.calibrators import BCTS, TemperatureScaling, VectorScaling
from priorshift.calibration.crossfit import (
    FAMILIES,
    RIDGE_GRID,
    ChosenCalibration,
    choose_calibration,
    ridges_of,
)
from priorshift.calibration.floors import best_temperature
from priorshift.calibration.likelihood import deal_folds
from priorshift.calibration.maps import (
    TINY,
    Calibration,
    CalibrationAverage,
    CalibrationMap,
    calibration_from_dict,
)

__all__ = [
    "BCTS",
    "FAMILIES",
    "RIDGE_GRID",
    "TINY",
    "AveragedCalibration",
    "Calibration",
    "CalibrationAverage",
    "CalibrationMap",
    "ChosenCalibration",
    "TemperatureScaling",
    "VectorScaling",
    "average_calibration",
    "best_temperature",
    "calibration_from_dict",
    "choose_calibration",
    "deal_folds",
    "label_losses",
    "ridges_of",
]
