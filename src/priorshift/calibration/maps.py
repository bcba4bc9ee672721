r"""Calibration maps: what a result carries to calibrate further predictions.

.. math:: g(f) = \mathrm{softmax}(z S + b), \qquad
    z_k = \log (f_k + \varepsilon_k)

with a slope per class (S diagonal) or between all classes (S a matrix). The floor
:math:`\varepsilon` keeps probabilities of exactly 0 from deciding everything. An average of maps
averages their probabilities.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import softmax

from priorshift._typing import Floats, Vector
from priorshift.execution import Table, row_blocks

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
        return _apply((self,), (1.0,), values, from_logits)

    def scores(self, z: Any) -> Any:
        """Return the calibrated logits of floored log-probabilities, as a new array."""
        linear = z * self.slope if self.slope.ndim == 1 else z @ self.slope.astype(z.dtype)
        linear += self.bias
        return linear


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
        return _apply(self.maps, self.weights, values, from_logits)


Calibration = CalibrationMap | CalibrationAverage
"""What a result may carry."""


def _apply(
    maps: tuple[CalibrationMap, ...], weights: tuple[float, ...], values: Any, from_logits: bool
) -> Any:
    if isinstance(values, Table):
        return values.map(partial(_apply, maps, weights, from_logits=from_logits))
    calibrated = np.zeros_like(values)
    for rows in row_blocks(*values.shape):
        proba = softmax(values[rows], axis=1) if from_logits else values[rows]
        for weight, one in zip(weights, maps, strict=True):
            block = one.scores(floored_log(proba, one.floor))
            normalise(block)
            block *= weight
            calibrated[rows] += block
    return calibrated


def floored_log(proba: Floats, floor: float | Vector) -> Any:
    """Return log(proba + floor) in the precision of `proba`, as a new array."""
    z = (proba + floor).astype(proba.dtype, copy=False)
    np.maximum(z, TINY, out=z)
    return np.log(z, out=z)


def normalise(scores: Any) -> None:
    """Turn scores into probabilities, in place."""
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
