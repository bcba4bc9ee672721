"""Every data set by name."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from priorshift._validation import check_choice
from priorshift.training._cifar import load_cifar
from priorshift.training._fashion import load_fashion_mnist
from priorshift.training._images import ImageData
from priorshift.training._lists import load_listed

LOADERS: dict[str, Callable[[Path], ImageData]] = {
    "fashion-mnist": load_fashion_mnist,
    "cifar-10": partial(load_cifar, "cifar-10"),
    "cifar-100": partial(load_cifar, "cifar-100"),
    "places365-lt": partial(load_listed, "places365-lt"),
    "imagenet-lt": partial(load_listed, "imagenet-lt"),
}


def load_images(dataset: str, folder: Path) -> ImageData:
    """Read a data set from the folder that holds its files.

    Parameters
    ----------
    dataset : {"fashion-mnist", "cifar-10", "cifar-100", "places365-lt", "imagenet-lt"}
    folder : Path
        Of the files as they were fetched; archives need not be unpacked.

    Returns
    -------
    ImageData
    """
    check_choice(dataset, tuple(LOADERS), "dataset")
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder; name the one that holds {dataset}.")
    return LOADERS[dataset](folder)
