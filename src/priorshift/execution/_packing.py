"""Results of a pass as bytes and back, by NumPy's own format: nothing is pickled."""

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np


def pack(result: Any) -> bytes:
    """Turn what a fold returns into bytes: numbers, arrays, lists and tuples of them.

    Examples
    --------
    >>> unpack(pack((1.5, [np.arange(3), np.arange(2)])))
    (np.float64(1.5), [array([0, 1, 2]), array([0, 1])])
    """
    leaves: list[Any] = []
    tree = json.dumps(_flatten(result, leaves))
    buffer = io.BytesIO()
    for array in (np.array(tree), *leaves):
        np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def unpack(data: bytes) -> Any:
    """Turn bytes back into what a fold returned."""
    buffer = io.BytesIO(data)
    tree = json.loads(str(_read(buffer)))
    return _unflatten(tree, lambda: _read(buffer))


def _flatten(result: Any, leaves: list[Any]) -> Any:
    """Put arrays aside; return what is left: [kind, parts], or null in place of an array."""
    if isinstance(result, tuple | list):
        return [type(result).__name__, [_flatten(part, leaves) for part in result]]
    leaves.append(np.asarray(result))
    return None


def _unflatten(tree: Any, next_leaf: Callable[[], Any]) -> Any:
    if tree is None:
        leaf = next_leaf()
        return leaf[()] if leaf.ndim == 0 else leaf
    kind, parts = tree
    found = [_unflatten(part, next_leaf) for part in parts]
    return tuple(found) if kind == "tuple" else found


def _read(buffer: io.BytesIO) -> Any:
    return np.lib.format.read_array(buffer, allow_pickle=False)
