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
"""

from priorshift.calibration._calibrators import BCTS, TemperatureScaling, VectorScaling
from priorshift.calibration._crossfit import RIDGE_GRID
from priorshift.calibration._floor import best_temperature
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
    "best_temperature",
]
