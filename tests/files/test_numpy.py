"""NumPy's own formats: mapped or copied, never unpickled."""

import io
import pickle
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

import priorshift
from priorshift.files import _base, open_predictions

VALUES = np.random.default_rng(0).dirichlet(np.ones(3), 7)


def turn(values):
    return values[:, [1, 2, 0]]


def rewritten(file, function=turn, names=None):
    output = file.path.with_name(f"new{file.path.suffix}")
    with output.open("wb") as stream:
        file.rewrite(stream, names, function)
    return np.load(output, allow_pickle=False)


class Trap:
    """Leaves a mark where it is unpickled."""

    mark = ""

    def __reduce__(self):
        return Path.touch, (Path(self.mark),)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_round_trip(tmp_path, dtype, order):
    np.save(tmp_path / "a.npy", np.asarray(VALUES.astype(dtype), order=order))
    file = open_predictions(tmp_path / "a.npy")
    assert (file.names, file.vector("label"), file.vector("y"), file.n_rows()) == (
        None,
        None,
        None,
        7,
    )
    new = rewritten(file)
    np.testing.assert_array_equal(new, turn(VALUES.astype(dtype)))
    assert new.dtype == np.dtype(dtype)


def test_integers_become_floats(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(3, dtype=int))
    np.savez(tmp_path / "a.npz", y_proba=np.eye(3, dtype=int))
    for name in ("a.npy", "a.npz"):
        new = rewritten(open_predictions(tmp_path / name), lambda values: values / 2)
        new = new if name == "a.npy" else new["y_proba"]
        np.testing.assert_array_equal(new, np.eye(3) / 2)


def test_an_npy_vector_is_labels_or_priors(tmp_path):
    np.save(tmp_path / "a.npy", ["x", "y"])
    file = open_predictions(tmp_path / "a.npy")
    assert file.vector("y").tolist() == ["x", "y"]
    with pytest.raises(ValueError, match=r"a\.npy must be a matrix of numbers .* got shape \(2,\)"):
        file.values(None)


@pytest.mark.parametrize("compressed", [False, True])
def test_npz_round_trip_keeps_everything_else(tmp_path, compressed):
    arrays = {
        "y_proba": VALUES.astype(np.float32),
        "classes": np.array(["a", "b", "c"]),
        "y": np.array(["c"] * 7),
        "arr/deep": np.arange(5, dtype=">i2"),
    }
    save = np.savez_compressed if compressed else np.savez
    save(tmp_path / "a.npz", **arrays)
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:  # np.savez has no such name
        with archive.open("file.npy", "w") as member:
            np.lib.format.write_array(member, np.arange(2))
        archive.writestr("README.txt", "not an array")
    file = open_predictions(tmp_path / "a.npz")
    assert file.names == ("a", "b", "c")
    assert file.n_rows() == 7
    new = rewritten(file)
    for name in ("classes", "y", "arr/deep"):
        np.testing.assert_array_equal(new[name], arrays[name])
        assert new[name].dtype == arrays[name].dtype
    np.testing.assert_array_equal(new["file"], [0, 1])
    np.testing.assert_array_equal(new["y_proba"], turn(arrays["y_proba"]))
    assert new["y_proba"].dtype == np.float32
    with zipfile.ZipFile(tmp_path / "new.npz") as archive:
        assert archive.read("README.txt") == b"not an array"
        kinds = {member.compress_type for member in archive.infolist()}
    assert kinds == {zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED}


def test_columns_keep_their_places_in_an_npz(tmp_path):
    np.savez(tmp_path / "a.npz", y_proba=VALUES, classes=["c", "a", "b"])
    file = open_predictions(tmp_path / "a.npz")
    np.testing.assert_array_equal(file.values(["a", "b", "c"]), VALUES[:, [1, 2, 0]])
    new = rewritten(file, lambda values: values + np.arange(3), ["a", "b", "c"])
    np.testing.assert_allclose(new["y_proba"], VALUES + np.array([2, 0, 1]))
    with pytest.raises(ValueError, match=r"a\.npz has no column 'd'; it has 'c', 'a', 'b'"):
        file.values(["a", "b", "d"])


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_blocks_together_equal_the_whole(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"a{suffix}"
    np.save(path, VALUES) if suffix == ".npy" else np.savez(path, y_proba=VALUES)
    monkeypatch.setattr(_base, "BLOCK_ROWS", 3)
    done = []
    with (tmp_path / f"b{suffix}").open("wb") as stream:
        open_predictions(path).rewrite(
            stream, None, lambda block: done.append(len(block)) or turn(block)
        )
    new = np.load(tmp_path / f"b{suffix}")
    np.testing.assert_array_equal(new if suffix == ".npy" else new["y_proba"], turn(VALUES))
    assert done == [3, 3, 1]


def test_logits_are_known_by_their_key(tmp_path):
    np.savez(tmp_path / "a.npz", logits=VALUES)
    np.savez(tmp_path / "b.npz", logits=VALUES, y_proba=VALUES + 1)
    file = open_predictions(tmp_path / "a.npz")
    assert (file.kind, file.key) == ("logits", "logits")
    assert rewritten(file).files == ["y_proba", "priorshift.adapted"]
    assert open_predictions(tmp_path / "b.npz").key == "y_proba"
    both = open_predictions(tmp_path / "b.npz", logits=True)
    assert (both.kind, both.key) == ("logits", "logits")
    assert rewritten(both).files == ["y_proba", "priorshift.adapted"]


@pytest.mark.parametrize(
    ("classes", "names"),
    [
        ([0, 1, 2], ("0", "1", "2")),
        ([0.0, 1.0, 2.0], ("0", "1", "2")),
        ([0.5, 1.0, 2.0], ("0.5", "1.0", "2.0")),
        ([b"a", "é".encode(), b"c"], ("a", "é", "c")),
    ],
)
def test_classes_become_text(tmp_path, classes, names):
    np.savez(tmp_path / "a.npz", y_proba=VALUES, classes=classes, y=np.array(classes)[[0, 1]])
    file = open_predictions(tmp_path / "a.npz")
    assert file.names == names
    if isinstance(classes[0], bytes):
        assert file.vector("y").tolist() == ["a", "é"]


def test_nothing_is_unpickled(tmp_path, monkeypatch):
    monkeypatch.setattr(Trap, "mark", str(tmp_path / "sprung"))
    trap = np.array([Trap(), None], dtype=object)
    np.save(tmp_path / "a.npy", trap, allow_pickle=True)
    np.savez(tmp_path / "a.npz", y=trap, y_proba=VALUES)
    (tmp_path / "b.npy").write_bytes(pickle.dumps(trap))
    (tmp_path / "b.npz").write_bytes(pickle.dumps(trap))
    with pytest.raises(ValueError, match=r"a\.npy holds Python objects\. Store labels"):
        open_predictions(tmp_path / "a.npy").vector("label")
    with pytest.raises(ValueError, match=r"'y' in .*a\.npz holds Python objects\. Store labels"):
        open_predictions(tmp_path / "a.npz").vector("y")
    for name in ("b.npy", "b.npz"):
        with pytest.raises(ValueError, match=f"{name} cannot be read"):
            open_predictions(tmp_path / name).values(None)
    rewritten(open_predictions(tmp_path / "a.npz"))  # objects are copied, as bytes
    assert not (tmp_path / "sprung").exists()


def test_no_module_of_ours_can_unpickle():
    forbidden = re.compile(
        r"Unpickler|(pickle|joblib|torch|dill|marshal|shelve)\.(loads?|open)\b|allow_pickle=True"
    )
    modules = Path(priorshift.__file__).parent.rglob("*.py")
    found = {path.name: forbidden.findall(path.read_text("utf-8")) for path in modules}
    assert len(found) > 100
    assert not {name: calls for name, calls in found.items() if calls}


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
@pytest.mark.parametrize("keep", [0, 4, 60, 150, -30])
def test_truncated_files_are_named(tmp_path, suffix, keep):
    path = tmp_path / f"a{suffix}"
    np.save(path, VALUES) if suffix == ".npy" else np.savez_compressed(path, y_proba=VALUES)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=rf"a\{suffix} cannot be read: "):
        open_predictions(path).values(None)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
@pytest.mark.parametrize(
    "shape",
    [(-5, 2), (-1, 2), (True, 2), (10**30, 2), (2**62, 2), (10**12, 2), (0, 2**70), (2.0, 2)],
)
def test_headers_that_say_what_cannot_be_are_refused(tmp_path, suffix, shape):
    content = io.BytesIO()
    described = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(content, described)
    content.write(bytes(80))
    path = tmp_path / f"a{suffix}"
    if suffix == ".npy":
        path.write_bytes(content.getvalue())
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("y_proba.npy", content.getvalue())
    with pytest.raises(
        ValueError, match=r"cannot be read: .*(its header says|[Ss]hape is not valid).*[^.]; write"
    ):
        open_predictions(path).values(None)


def test_a_header_that_is_too_long_is_not_taken_for_objects(tmp_path):
    path, content = tmp_path / "a.npy", io.BytesIO()
    described = {"descr": [(f"field {k}", "<f8") for k in range(1000)], "shape": (1,)}
    np.lib.format.write_array_header_2_0(content, described | {"fortran_order": False})
    path.write_bytes(content.getvalue() + bytes(8000))
    with pytest.raises(ValueError, match=r"a\.npy cannot be read: its header is too long"):
        open_predictions(path).values(None)


def test_damaged_headers_are_refused(tmp_path, rng):
    path = tmp_path / "a.npy"
    np.save(path, VALUES)
    whole = path.read_bytes()
    for _ in range(300):
        content = bytearray(whole)
        content[rng.integers(128)] = rng.integers(256)
        path.write_bytes(content)
        try:
            assert open_predictions(path).values(None).dtype.kind in "fiu"
        except ValueError as error:
            assert "a.npy" in str(error)  # noqa: PT017


@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_arrays_are_named(tmp_path, compressed):
    path = tmp_path / "a.npz"
    (np.savez_compressed if compressed else np.savez)(path, y_proba=VALUES, other=VALUES)
    content = bytearray(path.read_bytes())
    for at in (200, 210, 220):
        content[at] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"'y_proba' in .*a\.npz cannot be read: "):
        open_predictions(path).values(None)


def test_a_damaged_array_is_not_copied(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, other=VALUES, y_proba=VALUES)
    content = bytearray(path.read_bytes())
    content[200] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"'other.npy' in .*a\.npz cannot be read: "):
        rewritten(open_predictions(path))


def test_formats_are_not_confused(tmp_path):
    np.save(tmp_path / "a.npy", VALUES)
    np.savez(tmp_path / "b.npz", y_proba=VALUES)
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    (tmp_path / "b.npz").rename(tmp_path / "b.npy")
    for name in ("a.npz", "b.npy"):
        with pytest.raises(ValueError, match=f"{name} cannot be read"):
            open_predictions(tmp_path / name).values(None)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": VALUES}, r"a\.npz has no array 'y_proba' or 'logits'; it has 'x'\."),
        ({"y_proba": VALUES[None]}, r"y_proba in .*a\.npz must be a matrix of numbers"),
        ({"y_proba": VALUES.astype(str)}, r"y_proba in .*a\.npz must be a matrix of numbers"),
        ({"y_proba": VALUES, "classes": ["a", "b"]}, "has 2 classes but y_proba has 3 columns"),
        ({"y_proba": VALUES, "classes": ["a", "b", "a"]}, "classes in .* names 'a' twice"),
    ],
)
def test_wrong_arrays_are_named(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        open_predictions(tmp_path / "a.npz").values(None)


def test_an_archive_that_expands_too_far_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_base, "MOST_EXPANDED", 10_000)
    path = tmp_path / "a.npz"
    np.savez_compressed(path, y_proba=np.full((20_000, 2), 0.5))
    with pytest.raises(ValueError, match=r"expands from [0-9,]+ bytes to 320,128 or more.*trust"):
        open_predictions(path).values(None)
    assert open_predictions(path, bounded=False).values(None).shape == (20_000, 2)
