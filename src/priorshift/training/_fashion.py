"""Fashion-MNIST, as Debian's package `dataset-fashion-mnist` has it."""

from pathlib import Path

import numpy as np

from priorshift.datasets.make_fashion_lt import read_idx
from priorshift.training._images import ArrayImages, ImageData


def load_fashion_mnist(folder: Path) -> ImageData:
    """Read Fashion-MNIST's four gzipped files from a folder."""
    return ImageData("fashion-mnist", 10, _part(folder, "train"), _part(folder, "t10k"))


def _part(folder: Path, part: str) -> ArrayImages:
    try:
        pixels = read_idx(folder / f"{part}-images-idx3-ubyte.gz")
        y = read_idx(folder / f"{part}-labels-idx1-ubyte.gz")
    except FileNotFoundError as error:
        raise ValueError(
            f"{error.filename} is missing: install Debian's package dataset-fashion-mnist (its "
            "folder is /usr/share/datasets/fashion-mnist), or name the folder that holds "
            "Fashion-MNIST's four files."
        ) from error
    if len(pixels) != len(y):
        raise ValueError(f"{folder} has {len(pixels)} {part} images, but {len(y)} labels.")
    return ArrayImages(pixels[..., None], y.astype(np.intp))
