"""PyTorch's files, made by hand: read without PyTorch, and without unpickling them."""

import contextlib
import os
import pickle
import zipfile

import numpy as np
import pytest

from priorshift.reproduction.pickles import MAGIC, read_tensors

VALUES = np.arange(6, dtype="<f4").tobytes()


def text(value):
    return b"X" + len(value).to_bytes(4, "little") + value.encode()


def whole(value):
    return b"J" + value.to_bytes(4, "little", signed=True)


def several(values):
    return b"(" + b"".join(map(whole, values)) + b"t"


def storage(kind="FloatStorage", key="0", n=6):
    named = f"ctorch\n{kind}\n".encode()
    return b"(" + text("storage") + named + text(key) + text("cpu") + whole(n) + b"tQ"


def tensor(offset=0, shape=(2, 3), strides=(3, 1), **about):
    view = whole(offset) + several(shape) + several(strides) + b"\x89ccollections\nOrderedDict\n)R"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage(**about) + view + b"tR"


def holding(value):
    """Pickle a mapping as PyTorch does, of which `a` is a value."""
    notes = b"}" + text("_metadata") + b"}sb"
    return b"\x80\x02ccollections\nOrderedDict\n)R(" + text("a") + value + b"u" + notes + b"."


def zipped(path, pickled, content=VALUES, order=b"little"):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/byteorder", order)
        archive.writestr("archive/data/0", content)
    return path


def in_a_row(path, pickled, content=VALUES, little=True, keys=("0",)):
    about = {"protocol_version": 1001, "little_endian": little}
    heads = [pickle.dumps(value, 2) for value in (MAGIC, 1001, about)]
    tail = pickle.dumps(list(keys), 2) + (6).to_bytes(8, "little") + content
    path.write_bytes(b"".join(heads) + pickled + tail)
    return path


forms = pytest.mark.parametrize("form", [zipped, in_a_row])


@forms
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (tensor(), [[0, 1, 2], [3, 4, 5]]),
        (tensor(shape=(3, 2), strides=(1, 3)), [[0, 3], [1, 4], [2, 5]]),
        (tensor(offset=4, shape=(2,), strides=(1,)), [4, 5]),
        (tensor(offset=5, shape=(), strides=()), 5),
        (tensor(offset=6, shape=(0, 3), strides=(3, 1)), np.empty((0, 3))),
        (b"ctorch._utils\n_rebuild_parameter\n(" + tensor() + b"\x88}tR", [[0, 1, 2], [3, 4, 5]]),
    ],
)
def test_tensors_become_arrays(tmp_path, form, value, expected):
    found = read_tensors(form(tmp_path / "a.pt", holding(value)))
    assert list(found) == ["a"]
    assert found["a"].dtype == np.float32
    np.testing.assert_array_equal(found["a"], expected)


def test_plain_values_stay_what_they_are(tmp_path):
    value = {"a": [1, 2.5, None, True, "x", (3, -4)], "state": {0: {"b": []}}}
    pickled = pickle.dumps(value, 2)
    assert read_tensors(zipped(tmp_path / "a.pt", pickled)) == value
    assert read_tensors(in_a_row(tmp_path / "b.pt", pickled, keys=[])) == value


def test_lists_of_lists_twice_are_read_once(tmp_path):
    """A kilobyte that would otherwise stand for 2 ** 60 lists."""
    value = []
    for _ in range(60):
        value = [value, value]
    found, depth = read_tensors(zipped(tmp_path / "a.pt", pickle.dumps({"a": value}, 2)))["a"], 0
    while found:
        assert found[0] is found[1]
        found, depth = found[0], depth + 1
    assert depth == 60


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@forms
def test_a_malicious_file_is_refused_and_runs_nothing(tmp_path, form):
    goal = tmp_path / "made"
    pickled = pickle.dumps({"a": Malicious(str(goal))}, 2)
    with pytest.raises(
        ValueError, match=r"not a PyTorch file of tensors alone.*asks for \w+\.mkdir"
    ):
        read_tensors(form(tmp_path / "a.pt", pickled))
    assert not goal.exists()


@forms
@pytest.mark.parametrize(
    "value",
    [
        tensor(shape=(3, 3)),
        tensor(offset=1),
        tensor(shape=(2**20, 2**10), strides=(0, 0)),
        tensor(shape=(2, -3)),
        tensor(offset=-1),
        tensor(shape=(2,)),
        tensor(kind="BFloat16Storage"),
        tensor(kind="load"),
        tensor(n=-6),
        b"ctorch._utils\n_rebuild_tensor_v2\n)R",
        b"ctorch._utils\n_rebuild_parameter\n)R",
        b"ccollections\nOrderedDict\n(K\x01tR",
        b"K\x01Q",
        b"(" + text("storage") + b"K\x01K\x01K\x01K\x01tQ",
        b"K\x01K\x01b",
        b"K\x01K\x01R",
        b"]q\x00h\x00a",  # a list that holds itself
        b")" + b"\x85" * 100_000,
    ],
)
def test_what_is_no_plain_tensor_is_refused(tmp_path, form, value):
    with pytest.raises(ValueError, match="not a PyTorch file of tensors alone"):
        read_tensors(form(tmp_path / "a.pt", holding(value)))


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "a.pt"
    other = [
        lambda: zipped(path, holding(tensor()), order=b"big"),
        lambda: zipped(path, holding(tensor()), content=b"123"),
        lambda: zipped(path, holding(tensor(key="1"))),
        lambda: in_a_row(path, holding(tensor()), little=False),
        lambda: in_a_row(path, holding(tensor(key="1"))),
        lambda: path.write_bytes(pickle.dumps(5, 2)),
        lambda: path.write_bytes(b"PK\x03\x04"),
        lambda: path.write_bytes(b""),
    ]
    for make in other:
        make()
        with pytest.raises(ValueError, match="not a PyTorch file of tensors alone"):
            read_tensors(path)
    with pytest.raises(FileNotFoundError):
        read_tensors(tmp_path / "none")


@forms
def test_damaged_files_are_read_or_refused(tmp_path, form, rng):
    path = form(tmp_path / "a.pt", holding(tensor()))
    content = path.read_bytes()
    for _ in range(300):
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] = rng.integers(256)
        path.write_bytes(damaged)
        with contextlib.suppress(ValueError):
            read_tensors(path)
