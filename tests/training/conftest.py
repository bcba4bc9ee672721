"""Tiny data sets in the formats of the real ones."""

import gzip
import io
import pickle
import tarfile
import zlib
from types import SimpleNamespace

import numpy as np
import pytest


def png(image, filters):
    """Encode an image of bytes, row by row with the given filters: the definition, byte by byte."""
    height, width, channels = image.shape
    plain = [[int(v) for v in row.ravel()] for row in image]
    rows = bytearray()
    for at, row in enumerate(plain):
        above = plain[at - 1] if at else [0] * len(row)
        kind = filters[at % len(filters)]
        rows.append(kind)
        for i, value in enumerate(row):
            a = row[i - channels] if i >= channels else 0
            b, c = above[i], above[i - channels] if i >= channels else 0
            p = a + b - c
            nearest = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            rows.append((value - (0, a, b, (a + b) // 2, nearest)[kind]) % 256)
    colour = 2 if channels == 3 else 0
    header = width.to_bytes(4) + height.to_bytes(4) + bytes([8, colour, 0, 0, 0])
    packed = zlib.compress(bytes(rows))
    half = len(packed) // 2  # two chunks, as large images have many
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        chunk(kind, data)
        for kind, data in [
            (b"IHDR", header),
            (b"IDAT", packed[:half]),
            (b"IDAT", packed[half:]),
            (b"IEND", b""),
        ]
    )


def chunk(kind, data):
    return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)


class Python2Pickler(pickle._Pickler):
    """Writes texts and bytes as Python 2 did, which made CIFAR's archives."""

    dispatch = pickle._Pickler.dispatch.copy()

    def save_string(self, value):
        content = value.encode("latin1") if isinstance(value, str) else value
        self.write(b"T" + len(content).to_bytes(4, "little") + content)
        self.memoize(value)

    dispatch[str] = save_string
    dispatch[bytes] = save_string


def python2_pickle(value):
    stream = io.BytesIO()
    Python2Pickler(stream, protocol=2).dump(value)
    return stream.getvalue().replace(b"numpy._core", b"numpy.core")


def archive(path, files):
    with tarfile.open(path, "w:gz") as stream:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            stream.addfile(info, io.BytesIO(content))


def idx(array):
    header = b"\0\0\x08" + bytes([array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return gzip.compress(header + array.tobytes())


@pytest.fixture
def cifar(rng):
    """Six batches of four images: pixels (n, 32, 32, 3) and labels of each."""

    def batch(n_classes):
        return rng.integers(0, 256, (4, 32, 32, 3), np.uint8), rng.integers(0, n_classes, 4)

    return lambda n_classes=10: [batch(n_classes) for _ in range(6)]


def planes(pixels):
    """CIFAR's own order: all of red, all of green, all of blue."""
    return pixels.transpose(0, 3, 1, 2).reshape(len(pixels), -1)


@pytest.fixture(scope="session")
def write():
    """The encoders of this file."""
    return SimpleNamespace(
        archive=archive, chunk=chunk, idx=idx, planes=planes, png=png, python2_pickle=python2_pickle
    )
