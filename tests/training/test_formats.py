"""PNG images and restricted pickles, against independent encoders."""

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


@pytest.mark.parametrize("version", [2, 3])
def test_pickles_of_arrays(write, version):
    array = np.arange(6, dtype=np.uint8).reshape(2, 3)
    value = {"data": array, "fine_labels": [3, 4], "filenames": [b"a", b"b"], "more": {"x": 1.5}}
    content = write.python2_pickle(value) if version == 2 else pickle.dumps(value, protocol=2)
    found = read_arrays(content, "train")
    np.testing.assert_array_equal(found["data"], array)
    assert found["data"].dtype == np.uint8
    assert found["fine_labels"] == [3, 4]
    assert found["filenames"] == [b"a", b"b"]


class Malicious:
    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_malicious_pickle_is_refused_and_runs_nothing(tmp_path, protocol):
    goal = tmp_path / "made"
    content = pickle.dumps({"data": Malicious(os.mkdir, str(goal))}, protocol=protocol)
    with pytest.raises(ValueError, match=r"it asks for \w+\.mkdir\. Nothing of it was run"):
        read_arrays(content, "train")
    assert not goal.exists()
    pickle.loads(content)  # the very same pickle does run where nothing is refused
    assert goal.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps(Malicious(eval, "1 + 1")), "it asks for builtins.eval"),
        (pickle.dumps(Malicious(getattr, "a", "upper")), "it asks for builtins.getattr"),
        (b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x03\x00\x00\x00hextR.", "the encoding 'hex'"),
        (b"cnumpy\nload\n.", "it asks for numpy.load"),
        (pickle.dumps([1]), "does not hold a dictionary"),
        (pickle.dumps({"a": 1})[:-3], "train is not a file of arrays"),
        (b"", "train is not a file of arrays"),
    ],
)
def test_other_pickles_are_refused(content, message):
    with pytest.raises(ValueError, match=message):
        read_arrays(content, "train")
