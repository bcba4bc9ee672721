"""Pickles that are read but not unpickled, against independent encoders."""

import contextlib
import os
import pickle

import numpy as np
import pytest

from priorshift.reproduction.pickles import read_arrays


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
    with pytest.raises(ValueError, match=r"train is not a file of arrays .* Nothing in it was run"):
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
        (pickle.dumps({1: 1}, 2), "keys that are not text"),
        (pickle.dumps({"a": 1.5}, 2), "instruction BINFLOAT"),
        (pickle.dumps({"a": 1}, 2)[:-3], "train is not a file of arrays"),
        (b"(t.", "no dictionary"),
        (b"\x86.", "uses more than there is"),
        (b"N}b.", "cannot be filled"),
        (b"s.", "uses more"),
        (b"}h\x07.", "uses what is not there"),
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
