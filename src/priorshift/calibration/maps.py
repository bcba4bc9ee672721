r"""Calibration maps: what a result carries to calibrate further predictions.

.. math:: g(f) = \mathrm{softmax}(z S + b), \qquad
    z_k = \log (f_k + \varepsilon_k)

with a slope per class (S diagonal) or between all classes (S a matrix). The floor
:math:`\varepsilon` keeps probabilities of exactly 0 from deciding everything. An average of maps
averages their probabilities.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import softmax

from priorshift._typing import Floats, Vector
from priorshift.border import SUM_TOLERANCE, check_numbers, map_blocks, require_keys, row_blocks

TINY = float(np.finfo(np.float32).tiny)
"""The smallest normal float32, 1.2e-38: a smaller probability counts as this."""


@dataclass(frozen=True, eq=False)
class CalibrationMap:
    """Calibrate probabilities by slopes and biases, after raising them by a floor.

    Attributes
    ----------
    name : str
        The calibrator it came from, such as "ts".
    slope : ndarray of shape (n_classes,) or (n_classes, n_classes)
    bias : ndarray of shape (n_classes,)
    floor : float or ndarray of shape (n_classes,)
        Added to the probabilities before the logarithm.

    Examples
    --------
    >>> import numpy as np
    >>> from priorshift.calibration import CalibrationMap
    >>> halved = CalibrationMap("ts", np.full(2, 0.5), np.zeros(2))
    >>> halved.apply(np.array([[0.9, 0.1]])).round(2)
    array([[0.75, 0.25]])
    """

    name: str
    slope: Vector
    bias: Vector
    floor: float | Vector = 0.0

    def apply(self, values: Any, *, from_logits: bool = False) -> Any:
        """Calibrate clean probabilities, or logits, block by block; a table when it is read."""
        return CalibrationAverage((self,), (1.0,)).apply(values, from_logits=from_logits)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON; see `calibration_from_dict`."""
        floor = np.asarray(self.floor, np.float64).tolist()
        slope, bias = self.slope.tolist(), self.bias.tolist()
        return {"name": self.name, "slope": slope, "bias": bias, "floor": floor}


@dataclass(frozen=True, eq=False)
class CalibrationAverage:
    """Calibrate by several maps and average their probabilities.

    Attributes
    ----------
    maps : tuple of CalibrationMap
    weights : tuple of float
        One per map; they sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from priorshift.calibration import CalibrationAverage, CalibrationMap
    >>> same = CalibrationMap("none", np.ones(2), np.zeros(2))
    >>> halved = CalibrationMap("ts", np.full(2, 0.5), np.zeros(2))
    >>> CalibrationAverage((same, halved), (0.5, 0.5)).apply(np.array([[0.9, 0.1]])).round(3)
    array([[0.825, 0.175]])
    """

    maps: tuple[CalibrationMap, ...]
    weights: tuple[float, ...]

    @property
    def name(self) -> str:
        """The name of the map that counts most."""
        return self.maps[int(np.argmax(self.weights))].name

    def apply(self, values: Any, *, from_logits: bool = False) -> Any:
        """Calibrate clean probabilities, or logits, block by block; a table when it is read."""
        return map_blocks(partial(_calibrate, self, from_logits), values, values.shape[1])

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON; see `calibration_from_dict`."""
        return {"maps": [one.to_dict() for one in self.maps], "weights": list(self.weights)}


Calibration = CalibrationMap | CalibrationAverage
"""What a result may carry."""


def calibration_from_dict(found: Any, n_classes: int, name: str = "calibration") -> Calibration:
    """Create a map, or an average of maps, from `to_dict`; reject anything else.

    Examples
    --------
    >>> import numpy as np
    >>> from priorshift.calibration import CalibrationMap, calibration_from_dict
    >>> halved = CalibrationMap("ts", np.full(2, 0.5), np.zeros(2))
    >>> calibration_from_dict(halved.to_dict(), 2).slope
    array([0.5, 0.5])
    """
    if isinstance(found, Mapping) and "maps" not in found:
        return _map_from_dict(found, n_classes, name)
    require_keys(found, ("maps", "weights"), name)
    if not isinstance(found["maps"], list) or not found["maps"]:
        raise ValueError(f"{name}.maps must be a list of at least one map.")
    maps = tuple(
        _map_from_dict(one, n_classes, f"{name}.maps[{at}]") for at, one in enumerate(found["maps"])
    )
    weights = check_numbers(found["weights"], ((len(maps),),), f"{name}.weights", least=0)
    if abs(weights.sum() - 1) > SUM_TOLERANCE:
        raise ValueError(f"{name}.weights must sum to 1; they sum to {weights.sum():.6g}.")
    return CalibrationAverage(maps, tuple(weights.tolist()))


def _map_from_dict(found: Any, n_classes: int, name: str) -> CalibrationMap:
    require_keys(found, ("name", "slope", "bias", "floor"), name)
    if not isinstance(found["name"], str):
        raise ValueError(f"{name}.name must be a string; got {found['name']!r}.")
    per_class, square = (n_classes,), (n_classes, n_classes)
    floor = check_numbers(found["floor"], ((), per_class), f"{name}.floor", least=0)
    return CalibrationMap(
        found["name"],
        check_numbers(found["slope"], (per_class, square), f"{name}.slope"),
        check_numbers(found["bias"], (per_class,), f"{name}.bias"),
        floor if floor.ndim else float(floor),
    )


def _calibrate(average: CalibrationAverage, from_logits: bool, values: Any) -> Any:
    calibrated = np.empty_like(values)
    for rows in row_blocks(*values.shape):
        proba = softmax(values[rows], axis=1) if from_logits else values[rows]
        (calibrated[rows],) = apply_each([average], proba)
    return calibrated


def apply_each(calibrations: Sequence[Calibration], values: Floats) -> Iterator[Floats]:
    """Calibrate the same probabilities by each in turn.

    Logarithms above a floor are taken once: most maps share a floor.
    """
    logs: dict[bytes, Any] = {}
    for given in calibrations:
        average = (
            CalibrationAverage((given,), (1.0,)) if isinstance(given, CalibrationMap) else given
        )
        calibrated = np.zeros_like(values)
        for weight, one in zip(average.weights, average.maps, strict=True):
            key = np.asarray(one.floor, np.float64).tobytes()
            if key not in logs:
                logs[key] = floored_log(values, one.floor)
            z = logs[key]
            slope = one.slope.astype(z.dtype, copy=False)
            for rows in row_blocks(*values.shape):
                block = z[rows] * slope if slope.ndim == 1 else z[rows] @ slope
                block += one.bias
                block -= block.max(axis=1, keepdims=True)
                np.exp(block, out=block)
                block /= block.sum(axis=1, keepdims=True)
                block *= weight
                calibrated[rows] += block
        yield calibrated


def floored_log(proba: Floats, floor: float | Vector) -> Any:
    """Return log(proba + floor) in the precision of `proba`, as a new array."""
    z = proba + np.asarray(floor, proba.dtype)
    np.maximum(z, TINY, out=z)
    return np.log(z, out=z)
