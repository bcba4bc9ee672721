"""PNG images, and pickles that are read but not unpickled, against independent encoders."""

import contextlib
import os
import pickle
import zlib

import numpy as np
import pytest

from priorshift.training._pickles import read_arrays
from priorshift.training._png import decode_png


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    "filters", [[0], [1], [2], [3], [4], [4, 3, 2, 1, 0], [1, 1, 4, 1, 2, 2, 3, 3]]
)
def test_png_rows_of_every_filter(rng, write, filters, channels):
    image = rng.integers(0, 256, (11, 7, channels), np.uint8)
    np.testing.assert_array_equal(decode_png(write.png(image, filters), "a.png"), image)


def test_png_as_pillow_writes_it(rng, tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    smooth = np.add.outer(np.arange(40), np.arange(30))[..., None] * [1, 2, 3] % 256
    image = (smooth + rng.integers(0, 3, smooth.shape)).astype(np.uint8)
    pillow.fromarray(image).save(tmp_path / "a.png")
    content = (tmp_path / "a.png").read_bytes()
    np.testing.assert_array_equal(decode_png(content, "a.png"), image)


def _with_header(bits, *data):
    def content(write):
        header = (7).to_bytes(4) + (2).to_bytes(4) + bytes(bits)
        chunks = [(b"IHDR", header), *((b"IDAT", each) for each in data)]
        return SIGNATURE + b"".join(write.chunk(*each) for each in chunks)

    return content


def _changed(content, at):
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


SIGNATURE = b"\x89PNG\r\n\x1a\n"
IMAGE = np.arange(42, dtype=np.uint8).reshape(2, 7, 3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda write: b"GIF89a", "a.png is not a PNG image"),
        (lambda write: SIGNATURE, "no PNG header"),
        (lambda write: write.png(IMAGE, [1])[:50], "damaged at byte 33"),
        (lambda write: _changed(write.png(IMAGE, [1]), 45), "damaged at byte 33"),
        (_with_header([16, 2, 0, 0, 0]), "only PNG images of 8 bits"),
        (_with_header([8, 3, 0, 0, 0]), "only PNG images of 8 bits"),
        (_with_header([8, 2, 0, 0, 1]), "not interlaced"),
        (_with_header([8, 2, 0, 0, 0]), "ends early"),
        (_with_header([8, 2, 0, 0, 0], b"no"), "is damaged"),
        (_with_header([8, 2, 0, 0, 0], zlib.compress(bytes([9]) * 44)), "unknown filter"),
    ],
)
def test_bad_png(write, content, message):
    with pytest.raises(ValueError, match=message):
        decode_png(content(write), "a.png")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("version", [2, 3])
def test_pickles_of_arrays(write, version, order):
    array = np.asarray(np.arange(250, 256, dtype=np.uint8).reshape(2, 3), order=order)
    value = {"data": array, "fine_labels": [3, 400, -70000], "filenames": ["a", "b"], "more": {}}
    content = write.python2_pickle(value) if version == 2 else pickle.dumps(value, protocol=2)
    found = read_arrays(content, "train")
    np.testing.assert_array_equal(found.pop("data"), value.pop("data"))
    assert found == value


class Malicious:
    def __init__(self, function, *arguments, state=None):
        self.reduced = function, arguments, state

    def __reduce__(self):
        return self.reduced if self.reduced[2] is not None else self.reduced[:2]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_malicious_pickle_is_refused_and_runs_nothing(tmp_path, protocol):
    goal = tmp_path / "made"
    content = pickle.dumps({"data": Malicious(os.mkdir, str(goal))}, protocol=protocol)
    with pytest.raises(ValueError, match=r"it (asks for \w+\.mkdir|has the instruction \w+)\. No"):
        read_arrays(content, "train")
    assert not goal.exists()
    pickle.loads(content)  # the very same pickle does run where nothing is refused
    assert goal.exists()


def _array(dtype=("u1", False, True), state=(3, "|", None, None, None, -1, -1, 0), rest=()):
    """Pickle an array of eight bytes, or what claims to be one."""
    kind = Malicious(np.dtype, *dtype, state=state)
    version, shape, by_column, content = rest or (1, (8,), False, b"12345678")
    make = np.zeros(0).__reduce__()[0]
    array = Malicious(
        make, np.ndarray, (0,), b"b", state=(version, shape, kind, by_column, content)
    )
    return pickle.dumps({"data": array}, protocol=2)


def test_an_array_made_by_hand_is_read():
    assert read_arrays(_array(), "train")["data"].tobytes() == b"12345678"


@pytest.mark.parametrize(
    "content",
    [
        # NumPy takes the eight bytes for a pointer to an object, and crashes
        _array(dtype=("O8", False, True)),
        _array(state=(3, "|", None, None, None, 8, 1, 63)),
        _array(dtype=("O8", False, True), state=(3, "|", None, None, None, -1, -1, 63)),
        _array(dtype=("V8", False, True), state=(3, "|", None, ("a",), {"a": 1}, 8, 1, 0)),
        _array(dtype=("f8", False, True), state=(3, "<", None, None, None, -1, -1, 0)),
        _array(rest=(1, (9,), False, b"12345678")),
        _array(rest=(1, (-8,), False, b"12345678")),
        _array(rest=(1, (2**80, 0), False, b"")),
        _array(rest=(1, 8, False, b"12345678")),
        _array(rest=(1, (8,), False, 5)),
        _array(rest=(1, (8,), False, ["12345678"])),
    ],
)
def test_arrays_are_never_rebuilt_from_states_that_lie(content):
    with pytest.raises(ValueError, match=r"train is not a file of arrays .* Nothing of it was run"):
        read_arrays(content, "train")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps(Malicious(eval, "1 + 1"), 2), "it asks for __builtin__.eval"),
        (pickle.dumps(Malicious(getattr, "a", "upper"), 2), "it asks for __builtin__.getattr"),
        (b"c_codecs\nencode\n(X\x01\0\0\0aX\x03\0\0\0hextR.", "other than an array of bytes"),
        (b"cnumpy\nload\n.", "it asks for numpy.load"),
        (b"cnumpy\ndtype\n(K\x01tR.", "other than an array of bytes"),
        (b"}U\x01acnumpy\ndtype\n(U\x02u1K\x00K\x01tRs.", "array without a state"),
        (pickle.dumps([1], 2), "no dictionary"),
        (pickle.dumps({1: 1}, 2), "keys that are no texts"),
        (pickle.dumps({"a": 1.5}, 2), "instruction BINFLOAT"),
        (pickle.dumps({"a": 1}, 2)[:-3], "train is not a file of arrays"),
        (b"(t.", "no dictionary"),
        (b"\x86.", "takes more than there is"),
        (b"N}b.", "cannot be filled"),
        (b"s.", "takes more"),
        (b"}h\x07.", "takes what is not there"),
        (b"", "train is not a file of arrays"),
    ],
)
def test_other_pickles_are_refused(content, message):
    with pytest.raises(ValueError, match=message):
        read_arrays(content, "train")


def test_deep_and_endless_values_are_no_trouble():
    deep = b"}U\x01a)" + b"\x85" * 200_000 + b"s."
    endless = b"}U\x01a]q\x00h\x00as."
    assert list(read_arrays(deep, "train")) == list(read_arrays(endless, "train")) == ["a"]


def test_damaged_pickles_are_read_or_refused(write, rng):
    value = {"data": np.arange(6, dtype=np.uint8).reshape(2, 3), "labels": [3, 4], "name": "a"}
    whole = write.python2_pickle(value)
    for _ in range(500):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] = rng.integers(256)
        with contextlib.suppress(ValueError):
            read_arrays(bytes(damaged), "train")
