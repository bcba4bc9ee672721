r"""Decode PNG images without a library: true colour or grey, 8 bits, not interlaced.

Every row begins with its filter's number, and was stored as its difference from a prediction by
the bytes to the left (a), above (b) and above left (c): 0 nothing, 1 a, 2 b, 3 the mean of a and b,
4 the nearest of a, b and c to a + b - c (https://www.w3.org/TR/png-3/#9Filters). Sums are modulo
256.
"""

import struct
import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from priorshift.training._images import Pixels

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3}
"""By colour type: grey, true colour."""

NONE, SUB, UP, AVERAGE, PAETH = range(5)


def decode_png(content: bytes, name: str) -> Pixels:
    """Return the image as (height, width, channels).

    Parameters
    ----------
    content : bytes
        The whole file.
    name : str
        What messages call it.

    Examples
    --------
    >>> import zlib
    >>> def chunk(kind, data):
    ...     return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)
    >>> header = (2).to_bytes(4) + (1).to_bytes(4) + bytes([8, 0, 0, 0, 0])
    >>> rows = bytes([1, 7, 2])  # filter 1: the second byte is 2 more than the first
    >>> png = SIGNATURE + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows))
    >>> decode_png(png + chunk(b"IEND", b""), "a.png").tolist()
    [[[7], [9]]]
    """
    if not content.startswith(SIGNATURE):
        raise ValueError(f"{name} is not a PNG image; fetch it again.")
    chunks = list(_chunks(content, name))
    if not chunks or chunks[0][0] != b"IHDR" or len(chunks[0][1]) != 13:
        raise ValueError(f"{name} has no PNG header; fetch it again.")
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    if depth != 8 or colour not in CHANNELS or interlaced:
        raise ValueError(
            f"{name}: only PNG images of 8 bits in grey or true colour, not interlaced, are read."
        )
    shape = height, width, CHANNELS[colour]
    packed = b"".join(data for kind, data in chunks if kind == b"IDAT")
    return _unfiltered(_inflated(packed, height + int(np.prod(shape)), name), shape, name)


def _chunks(content: bytes, name: str) -> Iterator[tuple[bytes, bytes]]:
    at = len(SIGNATURE)
    while at < len(content):
        length = int.from_bytes(content[at : at + 4])
        kind, data = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        check = content[at + 8 + length : at + 12 + length]
        if zlib.crc32(kind + data).to_bytes(4) != check:
            raise ValueError(f"{name} is damaged at byte {at}; fetch it again.")
        yield kind, data
        at += 12 + length


def _inflated(packed: bytes, size: int, name: str) -> NDArray[np.uint8]:
    try:
        # never more than the header promises, however much is packed
        content = zlib.decompressobj().decompress(packed, size)
    except zlib.error as error:
        raise ValueError(f"{name} is damaged ({error}); fetch it again.") from error
    if len(content) != size:
        raise ValueError(f"{name} ends early; fetch it again.")
    return np.frombuffer(content, dtype=np.uint8)


def _unfiltered(filtered: NDArray[np.uint8], shape: tuple[int, int, int], name: str) -> Pixels:
    height, width, channels = shape
    rows = filtered.reshape(height, 1 + width * channels)
    kinds = rows[:, 0]
    if (kinds > PAETH).any():
        raise ValueError(f"{name} has a row with an unknown filter; fetch it again.")
    image = rows[:, 1:].reshape(shape).copy()
    # rows that depend on no other row at once; the rest in turn, after the row above
    image[kinds == SUB] = np.cumsum(image[kinds == SUB], axis=1, dtype=np.uint8)
    nothing = np.zeros((width, channels), dtype=np.uint8)
    for row in np.flatnonzero(kinds > SUB):
        above = image[row - 1] if row else nothing
        if kinds[row] == UP:
            image[row] += above
        else:
            image[row] = _predicted(image[row], above, kinds[row] == PAETH)
    return image


def _predicted(row: NDArray[np.uint8], above: NDArray[np.uint8], paeth: bool) -> NDArray[np.uint8]:
    """Undo filters 3 and 4, pixel by pixel, because each needs the one to the left."""
    done = np.zeros((len(row) + 1, row.shape[1]), dtype=np.int64)
    over = np.vstack([np.zeros_like(row[:1]), above]).astype(np.int64)
    for at, value in enumerate(row.astype(np.int64)):
        a, b, c = done[at], over[at + 1], over[at]
        guess = _nearest(a, b, c) if paeth else (a + b) // 2
        done[at + 1] = (value + guess) % 256
    return done[1:].astype(np.uint8)


def _nearest(a: NDArray[np.int64], b: NDArray[np.int64], c: NDArray[np.int64]) -> NDArray[np.int64]:
    distances = np.abs([b - c, a - c, a + b - 2 * c])
    return np.choose(distances.argmin(axis=0), [a, b, c])
