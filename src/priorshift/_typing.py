"""Names of array types that signatures share, and the one rule for the type of numbers.

Data stay in the precision they come in, and everything computed from them is float64. Data are
float32 if they come as floats of at most 32 bits, such as half precision, and float64 otherwise:
integers, booleans (one-hot rows) and long doubles too. This holds for arrays, frames, files, sparse
matrices and tables alike: see `float_type`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
"""Float32 or float64: data, in the precision they come in."""

Vector = NDArray[np.float64]
"""Float64: whatever is computed from data."""

Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]
Labels = NDArray[Any]

NUMBERS = frozenset("fiub")
"""Kinds of types that hold real numbers: floats, integers and booleans."""


def are_numbers(dtype: Any) -> bool:
    """Tell whether a type holds real numbers: floats, integers or booleans.

    Examples
    --------
    >>> are_numbers(np.dtype("int8")), are_numbers(np.dtype("complex64"))
    (True, False)
    """
    return np.dtype(dtype).kind in NUMBERS


def float_type(*dtypes: Any) -> np.dtype[Any]:
    """Return the type that numbers of these types are worked on in: float32 or float64.

    Float32 holds floats of at most 32 bits; everything else, and any mixture, becomes float64.

    Examples
    --------
    >>> float_type("float16"), float_type("int8"), float_type("float32", "float64")
    (dtype('float32'), dtype('float64'), dtype('float64'))
    """
    kinds = [np.dtype(dtype) for dtype in dtypes]
    narrow = all(kind.kind == "f" and kind.itemsize <= 4 for kind in kinds)
    return np.dtype(np.float32 if narrow else np.float64)
