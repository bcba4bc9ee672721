"""Tensors: rows that stay on their device, by the Array API standard (extra `array-api`).

PyTorch tensors, and CuPy or JAX arrays by the same path. Adapting and calibrating run where they
are; everything else, such as estimating, copies them to NumPy arrays at the border.
"""

import warnings
from collections.abc import Iterator
from typing import Any, TypeGuard

import numpy as np

from priorshift._typing import Vector
from priorshift.border.rows import Blocks, Table
from priorshift.border.threads import LockFree, row_slices

BLOCK_NUMBERS = 2**20
"""Numbers to work on at once, so that little memory is needed besides the tensor."""


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
    return np.asarray(tensor)


def array_api() -> Any:
    """Import array-api-compat, or say how to get it."""
    try:
        import array_api_compat
    except ImportError:
        raise ImportError(
            "tensors need array-api-compat: pip install 'priorshift[array-api]', or pass NumPy "
            "arrays."
        ) from None
    return array_api_compat


class TensorTable(Table):
    """A matrix on some device, as a table.

    Attributes
    ----------
    array : array of the library it came from, of shape (n_samples, n_classes)
        Float32 or float64.
    xp : module
        The library's functions by the names of the standard.
    work : dtype
        The type to compute in: float64 where the device has it, else float32.
    """

    def __init__(self, array: Any) -> None:
        self.xp = xp = array_api().array_namespace(array)
        self._device = array_api().device(array)
        if not (xp.isdtype(array.dtype, ("real floating", "integral", "bool"))):
            raise ValueError(f"tensors must hold numbers; got {array.dtype}.")
        narrow = xp.isdtype(array.dtype, "real floating") and xp.finfo(array.dtype).bits <= 32
        narrow = narrow or not self.has_float64
        self.array = xp.astype(array, xp.float32 if narrow else xp.float64, copy=False)
        self.dtype = np.dtype(np.float32 if narrow else np.float64)
        self.shape = tuple(array.shape)

    @LockFree
    def has_float64(self) -> bool:
        """Whether the device computes in float64: Apple's do not, and JAX only if configured to."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                one = self.xp.ones(1, dtype=self.xp.float64, device=self._device)
        except (TypeError, RuntimeError, ValueError):
            return False
        return bool(one.dtype == self.xp.float64)

    @LockFree
    def work(self) -> Any:
        """The type that sums are computed in."""
        return self.xp.float64 if self.has_float64 else self.xp.float32

    def constant(self, values: Any, dtype: Any = None) -> Any:
        """Put numbers on the device."""
        plain = np.array(values, np.float64)  # a copy: PyTorch warns of read-only memory
        return self.xp.asarray(plain, dtype=dtype or self.work, device=self._device)

    def parts(self, n_parts: int) -> list[slice]:  # noqa: ARG002
        """Keep rows in one part: the device has threads of its own."""
        return [slice(0, self.shape[0])]

    def slices(self) -> Iterator[slice]:
        """Cut rows into blocks for the device."""
        return row_slices(self.shape[0], BLOCK_NUMBERS // self.shape[1])

    def on_device(self, dtype: Any = None) -> Iterator[Any]:
        """Yield blocks where they are, in the type that sums are computed in."""
        for rows in self.slices():
            yield self.xp.astype(self.array[rows, :], dtype or self.work, copy=False)

    def joined(self, blocks: list[Any]) -> Any:
        """Join blocks of results into one array of the table's own type."""
        whole = blocks[0] if len(blocks) == 1 else self.xp.concat(blocks, axis=0)
        return self.xp.astype(whole, self.array.dtype, copy=False)

    def scaled(self, ratio: Vector, *, from_logits: bool = False) -> tuple[Any, int]:
        """Multiply columns by a ratio and normalise rows, on the device.

        Rows that would lose all probability are kept; the second value counts them.
        """
        xp, adapted, n_kept = self.xp, [], 0
        with np.errstate(divide="ignore"):
            factor = self.constant(np.log(ratio) if from_logits else ratio)
        for block in self.on_device():
            if from_logits:
                shifted = block + factor
                lost = xp.max(shifted, axis=1, keepdims=True) == -xp.inf
                adapted.append(softmax_of(xp, xp.where(lost, block, shifted)))
            else:
                lost = xp.sum(block * factor, axis=1, keepdims=True) == 0
                scaled = block * xp.where(lost, xp.ones_like(factor), factor)
                adapted.append(scaled / xp.sum(scaled, axis=1, keepdims=True))
            n_kept += int(xp.sum(xp.astype(lost, xp.int64)))
        return self.joined(adapted), n_kept

    def blocks(self, part: slice, n_rows: int) -> Blocks:
        """Copy blocks to this process, for everything that is not written for tensors."""
        for rows in row_slices(part, n_rows):
            yield rows, np.asarray(to_numpy(self.array[rows, :]), self.dtype)


def on_device(rows: Any) -> TypeGuard[TensorTable]:
    """Tell whether rows are a tensor, to be worked on where it is."""
    return isinstance(rows, TensorTable)


def softmax_of(xp: Any, scores: Any) -> Any:
    """Turn scores into probabilities, row by row."""
    powers = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
    return powers / xp.sum(powers, axis=1, keepdims=True)
