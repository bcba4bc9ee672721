r"""A calibrator's map and nothing else: what a result carries to calibrate further predictions.

.. math:: g(f) = \mathrm{softmax}(v \circ z + b), \quad
    z_k = \log \frac{f_k + \varepsilon}{1 + K \varepsilon}

The floor :math:`\varepsilon` keeps probabilities of exactly 0 from deciding everything.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax, softmax

from priorshift._blocks import row_blocks
from priorshift._typing import Floats, Vector

TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True, eq=False)
class Recalibration:
    """Calibrate probabilities by a slope and a bias a class, after raising them by a floor.

    Attributes
    ----------
    name : str
        The calibrator it came from, such as "ts".
    slope, bias : ndarray of shape (n_classes,)
    floor : float
        Added to every probability before the logarithm.

    Examples
    --------
    >>> import numpy as np
    >>> halved = Recalibration("ts", np.full(2, 0.5), np.zeros(2))
    >>> halved.apply(np.array([[0.9, 0.1]])).round(2)
    array([[0.75, 0.25]])
    """

    name: str
    slope: Vector
    bias: Vector
    floor: float = 0.0

    def apply(self, values: Floats, *, from_logits: bool = False) -> Floats:
        """Calibrate clean probabilities, or logits, block by block."""
        calibrated = np.empty_like(values)
        for rows in row_blocks(*values.shape):
            calibrated[rows] = softmax(self.scores(values[rows], from_logits=from_logits), axis=1)
        return calibrated

    def scores(self, values: Floats, *, from_logits: bool = False) -> Vector:
        """Return v z + b, the calibrated logits."""
        z = self._logarithms(values.astype(np.float64), from_logits)
        z *= self.slope
        z += self.bias
        return z

    def _logarithms(self, block: Vector, from_logits: bool) -> Vector:
        if from_logits:
            block = log_softmax(block, axis=1)
            if not self.floor:
                return np.maximum(block, np.log(TINY), out=block)
            np.exp(block, out=block)
        block += self.floor
        np.maximum(block, TINY, out=block)
        return np.log(block, out=block)
