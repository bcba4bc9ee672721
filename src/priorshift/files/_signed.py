"""One container for everything that priorshift keeps for itself: JSON with a checksum.

Monitors, adapters and the entries of work that can be resumed are objects of JSON whose key
`checksum` is the SHA-256 of all the others. It reveals damage, not a file that somebody edited
with care, so a reader still checks what it reads. Arrays are objects too, with type, shape and
bytes; nothing is ever unpickled.
"""

import base64
import hashlib
import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHECKSUM = "checksum"
KINDS = "biufUSM"
"""Kinds of arrays: booleans, numbers, text and dates."""


def sign(content: dict[str, Any]) -> dict[str, Any]:
    """Return an object of JSON with its checksum.

    Examples
    --------
    >>> from priorshift.files import sign, verify
    >>> verify(sign({"priors": [0.2, 0.8]}))
    {'priors': [0.2, 0.8]}
    """
    return {**content, CHECKSUM: _checksum(content)}


def verify(document: Any) -> dict[str, Any]:
    """Return the content of a signed object; raise ValueError if it is not what was signed."""
    if not isinstance(document, dict) or CHECKSUM not in document:
        raise ValueError("it has no checksum")
    content = {name: value for name, value in document.items() if name != CHECKSUM}
    if document[CHECKSUM] != _checksum(content):
        raise ValueError("its checksum does not match its content")
    return content


def write_json(document: dict[str, Any]) -> str:
    """Return JSON with one line per key; ValueError for NaN."""
    lines = (f"  {json.dumps(k)}: {json.dumps(v, allow_nan=False)}" for k, v in document.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_line(document: dict[str, Any]) -> bytes:
    """Return JSON in one line; ValueError for NaN."""
    return json.dumps(document, allow_nan=False).encode() + b"\n"


def read_json(text: str | bytes) -> Any:
    """Read JSON strictly: ValueError for NaN, a key that occurs twice, and numbers too large."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_int=_whole, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def array_to_json(array: NDArray[Any]) -> dict[str, Any]:
    """Return an array as an object of JSON, byte for byte."""
    if array.dtype.kind not in KINDS:
        raise ValueError(f"an array of {array.dtype} cannot be kept in a file")
    array = array.astype(array.dtype.newbyteorder("<"))
    text = base64.b64encode(array.tobytes()).decode()
    return {"dtype": array.dtype.str, "shape": list(array.shape), "bytes": text}


def array_from_json(found: Any) -> NDArray[Any]:
    """Return the array that `array_to_json` wrote; raise ValueError if there is none."""
    try:
        dtype, shape = np.dtype(str(found["dtype"])), tuple(found["shape"])
        content = bytearray(base64.b64decode(found["bytes"], validate=True))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"an array cannot be read ({error})") from None
    whole = all(type(length) is int and length >= 0 for length in shape)
    known = dtype.kind in KINDS and dtype.itemsize > 0
    if not known or not whole or math.prod(shape) * dtype.itemsize != len(content):
        raise ValueError(f"an array of {dtype} and shape {shape} is not {len(content)} bytes")
    return np.ndarray(shape, dtype, content)


def _checksum(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _refuse(constant: str) -> None:
    raise ValueError(f"it has {constant}, which is not a number of JSON")


def _whole(digits: str) -> int:
    if len(digits) > 308:  # those of the largest whole number that a float can hold
        raise ValueError(f"it has a number of {len(digits)} digits")
    return int(digits)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it has the key {twice!r} twice")
    return found
