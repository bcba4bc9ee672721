"""Places365-LT and ImageNet-LT: the official image folders, and lists of `path label`."""

from pathlib import Path, PurePosixPath

import numpy as np

from priorshift.training._images import FileImages, ImageData

STEMS = {"places365-lt": "Places_LT", "imagenet-lt": "ImageNet_LT"}
"""How the lists of Liu et al. (OLTR, 2019) are called: Places_LT_train.txt, and so on."""

SIZE = 256
"""Side of the squares that are cut out of the images; training takes a part of them."""


def load_listed(name: str, folder: Path) -> ImageData:
    """Read the three lists of a long-tailed data set; images are read when they are needed.

    The lists are in the folder, and their paths begin there: `train/n01440764/...` of ImageNet,
    `data_256/a/airfield/...` of Places.
    """
    train, val, test = (
        _read_list(folder, f"{STEMS[name]}_{part}.txt") for part in ("train", "val", "test")
    )
    counts = np.bincount(train.y)
    if not counts.all():
        raise ValueError(f"the training list of {name} has no image of class {counts.argmin()}.")
    for part in (val, test):
        if part.y.max() >= counts.size:
            raise ValueError(f"{name} is tested on class {part.y.max()}, which training has not.")
    return ImageData(name, counts.size, train, test, val)


def _read_list(folder: Path, name: str) -> FileImages:
    path = folder / name
    if not path.is_file():
        raise ValueError(
            f"{path} is missing: put the lists of the long-tailed data set into the folder of its "
            "images."
        )
    lines = [line for line in path.read_text("utf-8").splitlines() if line.strip()]
    pairs = [line.rpartition(" ") for line in lines]
    bad = next((at for at, pair in enumerate(pairs) if not _is_good(pair)), None)
    if bad is not None or not pairs:
        told = f"line {(bad or 0) + 1}: {lines[bad]!r}" if bad is not None else "it is empty"
        raise ValueError(
            f"{path} should have lines of a path inside the folder and a label; {told}."
        )
    paths = tuple(pair[0].strip() for pair in pairs)
    if not (folder / paths[0]).is_file():
        raise ValueError(f"{path} names {paths[0]}, which is not in {folder}.")
    return FileImages(folder, paths, np.array([int(pair[2]) for pair in pairs]), SIZE)


def _is_good(pair: tuple[str, str, str]) -> bool:
    path = PurePosixPath(pair[0].strip())
    inside = bool(path.parts) and not path.is_absolute() and ".." not in path.parts
    return inside and pair[2].isascii() and pair[2].isdigit()
