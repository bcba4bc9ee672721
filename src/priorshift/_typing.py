"""Names of array types that signatures share."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
"""Float32 or float64: data, in the precision it came in."""

Vector = NDArray[np.float64]
"""Float64: whatever is computed from data."""

Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]
Labels = NDArray[Any]
