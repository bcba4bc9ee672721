"""Read the pickles of CIFAR's Python archives without running what a pickle may ask for.

A pickle is a program: it names functions and calls them. Those of CIFAR need but three, which make
NumPy arrays. Whatever else is named is refused before it is even imported.
"""

import io
import pickle
from typing import Any

import numpy as np

_MAKE_ARRAY = np.zeros(0).__reduce__()[0]
"""`_reconstruct`, wherever this NumPy keeps it."""


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """Stand in for `_codecs.encode`, by which Python 3 writes bytes into old pickles."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it asks for the encoding {encoding!r}")
    return text.encode("latin1")


ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _MAKE_ARRAY,
    ("numpy._core.multiarray", "_reconstruct"): _MAKE_ARRAY,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _encode,
}


class ArrayUnpickler(pickle.Unpickler):
    """Unpickles arrays, numbers, texts and containers of them; refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        """Return one of the few allowed functions."""
        try:
            return ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None


def read_arrays(content: bytes, name: str) -> dict[str, Any]:
    """Return what a pickled dictionary of arrays and lists holds.

    Parameters
    ----------
    content : bytes
    name : str
        What messages call the file.

    Examples
    --------
    >>> import pickle
    >>> read_arrays(pickle.dumps({"labels": [1, 2]}, protocol=2), "a")
    {'labels': [1, 2]}
    """
    try:
        found = ArrayUnpickler(io.BytesIO(content), encoding="bytes").load()
    except Exception as error:  # a damaged pickle may raise anything
        raise ValueError(
            f"{name} is not a file of arrays and lists: {error}. Nothing of it was run; fetch it "
            "again."
        ) from error
    if not isinstance(found, dict):
        raise ValueError(f"{name} does not hold a dictionary; fetch it again.")
    # Python 2 wrote its texts as bytes
    return {
        key.decode("latin1") if isinstance(key, bytes) else str(key): value
        for key, value in found.items()
    }
