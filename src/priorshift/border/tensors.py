"""Tensors: arrays of other libraries become NumPy's, and results go back to their device.

PyTorch tensors, and CuPy or JAX arrays by the same path (extra `array-api`).
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from priorshift._typing import Floats


def is_tensor(values: Any) -> bool:
    """Tell whether values are an array of the standard other than NumPy's, importing nothing.

    Examples
    --------
    >>> is_tensor(np.ones(3)), is_tensor([1, 2])
    (False, False)
    """
    kind = type(values)
    if kind is np.ndarray or issubclass(kind, np.ndarray | np.generic | list | tuple):
        return False
    if not hasattr(values, "ndim") or not hasattr(values, "dtype"):
        return False
    library = kind.__module__.partition(".")[0]  # some of theirs lack the mark of the standard
    return hasattr(kind, "__array_namespace__") or library in ("torch", "cupy", "jax", "jaxlib")


def to_numpy(tensor: Any) -> Any:
    """Copy a tensor to this process's memory, from any device."""
    if hasattr(tensor, "detach"):  # PyTorch: leave the graph of gradients
        tensor = tensor.detach().cpu()
        if str(tensor.dtype) == "torch.bfloat16":  # which NumPy does not have
            tensor = tensor.float()
        return tensor.numpy()
    if hasattr(tensor, "get"):  # CuPy
        return tensor.get()
    with suppress(AttributeError):  # older libraries do not say where their memory is
        library = tensor.__array_namespace__().__array_namespace_info__()
        tensor = tensor.to_device(library.default_device())
    return np.asarray(tensor)


@dataclass(frozen=True, eq=False)
class Tensor:
    """A caller's tensor, and the type in which its numbers were read."""

    given: Any
    dtype: np.dtype[Any]

    def with_numbers(self, numbers: Floats) -> Any:
        """Return other numbers as a tensor on the same device; in float32 where it has no other."""
        try:
            import array_api_compat
        except ImportError:
            raise ImportError(
                "tensors need array-api-compat: pip install 'priorshift[array-api]', or pass NumPy "
                "arrays."
            ) from None
        library = array_api_compat.array_namespace(self.given)
        device = array_api_compat.device(self.given)
        numbers = np.ascontiguousarray(numbers, self.dtype)
        try:
            return library.asarray(numbers, device=device)
        except (TypeError, RuntimeError, ValueError):
            return library.asarray(numbers.astype(np.float32), device=device)
