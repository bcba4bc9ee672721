r"""A calibrator's map and nothing else: what a result carries to calibrate further predictions.

.. math:: g(f) = \mathrm{softmax}(v \circ z + b), \quad
    z_k = \log \frac{f_k + \varepsilon}{1 + K \varepsilon}

The floor :math:`\varepsilon` keeps probabilities of exactly 0 from deciding everything.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import softmax

from priorshift._blocks import row_blocks
from priorshift._typing import Floats, Vector
from priorshift.execution import Table

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

    def apply(self, values: Any, *, from_logits: bool = False) -> Any:
        """Calibrate clean probabilities, or logits, block by block; a table when it is read."""
        if isinstance(values, Table):
            return values.map(partial(self.apply, from_logits=from_logits))
        calibrated = np.empty_like(values)
        for rows in row_blocks(*values.shape):
            z = self._scores(values[rows].copy(), from_logits)
            z -= z.max(axis=1, keepdims=True)
            np.exp(z, out=z)
            z /= z.sum(axis=1, keepdims=True)
            calibrated[rows] = z
        return calibrated

    def scores(self, values: Floats) -> Vector:
        """Return v z + b, the calibrated logits of probabilities, in float64."""
        return self._scores(values.astype(np.float64), from_logits=False)

    def _scores(self, block: Any, from_logits: bool) -> Any:
        """Turn a block into calibrated logits, in place and in its own precision."""
        if from_logits:
            block = softmax(block, axis=1)
        block += self.floor
        np.maximum(block, TINY, out=block)
        np.log(block, out=block)
        block *= self.slope
        block += self.bias
        return block
