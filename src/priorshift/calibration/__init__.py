"""Calibrate a classifier, so that an output of 80 % is right in 80 % of the cases.

If `z` is the log-softmax of the outputs, every calibrator here is `softmax(v * z + b)`:

| class                | scale v       | bias b        | known as |
|----------------------|---------------|---------------|----------|
| `TemperatureScaling` | 1 / T, T > 0  | 0             | TS       |
| `BCTS`               | 1 / T, T > 0  | one per class | BCTS     |
| `VectorScaling`      | one per class | one per class | VS       |

If an estimator calibrates by itself, its `PriorEstimate` contains a `CalibrationMap`, or a
`CalibrationAverage` of several.

To read the package, start with `maps` (what is fitted), `likelihood` (what is maximised), `fitting`
(how: once, or along a path of ridges and without each fold). `calibrators` (the classes above) and
`average` (where outputs may be exactly 0: one calibrator for `CalibratedEM`, many for `Auto`) build
on these.
"""

from priorshift.calibration.average import (
    FAMILIES,
    AveragedCalibration,
    average_calibration,
    best_temperature,
    choose_calibration,
)
from priorshift.calibration.calibrators import BCTS, TemperatureScaling, VectorScaling
from priorshift.calibration.fitting import RIDGE_GRID
from priorshift.calibration.likelihood import deal_folds
from priorshift.calibration.maps import (
    TINY,
    Calibration,
    CalibrationAverage,
    CalibrationMap,
    apply_each,
    calibration_from_dict,
)
