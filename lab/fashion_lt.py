"""Make `fashion_lt.npz`: train a small network on long-tailed Fashion-MNIST, store its outputs.

The story: a shop trains a classifier in summer, when T-shirts and sandals fill the catalogue, and
uses it in winter, when coats and boots do. The images come from Debian's package
`dataset-fashion-mnist` (or from https://github.com/zalandoresearch/fashion-mnist). Training takes
seconds on one core, and the folder is Debian's unless you name another::

    python -m lab fashion-lt --images /usr/share/datasets/fashion-mnist

Samples and initial weights depend on the seed alone. The last digits of the predictions also depend
on the machine and on the versions that the description names.
"""

import hashlib
import platform
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from lab.paper.distributions import draw_parts
from lab.paper.images import read_fashion_mnist
from lab.show import parse
from priorshift import adapt_proba, priors_from_labels, priors_from_predictions
from priorshift.datasets import ShiftedPredictions
from priorshift.files import atomic_file, write_text

ARCHIVE = Path(__file__).parents[1] / "src" / "priorshift" / "datasets"
"""Where the library keeps its data."""

CLASSES = np.array(
    [
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ]
)

SUMMER = (0, 5, 3, 7, 1, 6, 8, 2, 9, 4)
"""Positions in CLASSES from the most to the least frequent in summer; winter is the reverse."""


STEPS = 1024
"""Steps per unit of log-probability, in 16 bits."""

SEED = 0

MODEL = {"hidden_layer_sizes": (128,), "batch_size": 128, "max_iter": 10, "random_state": SEED}
"""Of 5, 10, ..., 40 passes over the data, 10 gave the least log loss on validation."""

DESCRIPTION = """\
Fashion-MNIST with a long tail: a classifier trained in summer, used in winter.

Images: Fashion-MNIST by H. Xiao, K. Rasul and R. Vollgraf (Zalando Research), 2017,
  arXiv:1708.07747. Copyright 2017 Zalando SE, Expat (MIT) licence. This file holds no image.
Training set: {train} of the training images.
Validation: {val} others of the training images, balanced alike.
Target: {target} of the test images, in the reverse order of frequency.
Model: scikit-learn's MLPClassifier on pixels / 255,
  {model}.
  Of 5, 10, ..., 40 passes over the data, 10 gave the least log loss on validation.
source_priors: the model's mean prediction on its training set.
Made by: python -m lab fashion-lt --images FOLDER
  (seed {seed}, {versions}).
"""

ORIGIN = """\
# Origin of `{file}`

Written by `python -m lab fashion-lt` together with the file.

```text
{description}```

| class | training | validation | target |
|---|---:|---:|---:|
{counts}

| | |
|---|---|
| sha256 | `{sha256}` |
| bytes | {n_bytes} |
| accuracy on validation | {accuracy_val:.4f} |
| accuracy on the target, unadapted | {accuracy_target:.4f} |
| accuracy on the target, adapted to its true priors | {accuracy_oracle:.4f} |
| largest error of a probability by storing it in 16 bits | {rounding:.1e} |
| decisions that storing changed | {changed} |

Each probability is stored as its log-ratio to the largest of its row, in steps of 1/1024, and rows
are normalised when read. The predictions are priorshift's own and share its licence.
"""


def long_tail_counts(order: Sequence[int], n_most: int, imbalance: float) -> NDArray[np.intp]:
    r"""Return sample counts per class that fall exponentially along `order`.

    .. math:: n_{order(j)} = \operatorname{round}(n_{most} \, r^{-j / (K - 1)})

    Examples
    --------
    >>> long_tail_counts([1, 0, 2], 100, 4.0)
    array([ 50, 100,  25])
    """
    counts = np.empty(len(order), dtype=np.intp)
    counts[list(order)] = np.rint(n_most * imbalance ** -np.linspace(0.0, 1.0, len(order)))
    return counts


TRAIN = long_tail_counts(SUMMER, 4500, 100.0)
VAL = long_tail_counts(SUMMER, 1500, 100.0)
TARGET = long_tail_counts(SUMMER[::-1], 1000, 5.0)
"""The most frequent class uses all of its 6000 training or 1000 test images."""


def pack_proba(y_proba: NDArray[np.float64]) -> NDArray[np.uint16]:
    """Round log-probabilities, relative to the largest of their row, to 16 bits.

    Examples
    --------
    >>> pack_proba(np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]]))
    array([[    0,   710,   710],
           [    0, 65535, 65535]], dtype=uint16)
    """
    log_proba = np.log(np.maximum(y_proba, np.finfo(np.float64).tiny))
    below_largest = log_proba.max(axis=1, keepdims=True) - log_proba
    return np.minimum(np.rint(STEPS * below_largest), np.iinfo(np.uint16).max).astype(np.uint16)


def write_archive(file: IO[bytes], data: ShiftedPredictions) -> None:
    """Write a data set; equal data give equal bytes."""
    order = np.argsort(data.classes)

    def positions(labels: NDArray[np.str_]) -> NDArray[np.uint8]:
        return order[np.searchsorted(data.classes, labels, sorter=order)].astype(np.uint8)

    np.savez_compressed(
        file,
        name=np.array(data.name),
        description=np.array(data.description),
        classes=data.classes,
        source_priors=data.source_priors,
        codes_val=pack_proba(data.y_proba_val),
        labels_val=positions(data.y_val),
        codes_target=pack_proba(data.y_proba_target),
        labels_target=positions(data.y_target),
    )


def make_predictions(images: Path) -> ShiftedPredictions:
    """Draw training set, validation and target, train the network, predict."""
    (pixels, y), (pixels_test, y_test) = (
        read_fashion_mnist(images, part) for part in ("train", "t10k")
    )
    rng = np.random.default_rng(SEED)
    train, val = draw_parts(y, [TRAIN, VAL], rng)
    (target,) = draw_parts(y_test, [TARGET], rng)
    parts = [
        some.reshape(len(some), -1).astype(np.float32) / np.float32(255)
        for some in (pixels[train], pixels[val], pixels_test[target])
    ]
    # one thread, because the last digits of a sum depend on the order of its terms
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # stopped early on purpose
        model = MLPClassifier(**MODEL).fit(parts[0], y[train])
        proba_train, proba_val, proba_target = (
            model.predict_proba(part).astype(np.float64) for part in parts
        )
    versions = {"Python": platform.python_version(), "NumPy": np.__version__}
    versions["scikit-learn"] = sklearn.__version__
    return ShiftedPredictions(
        name="fashion_lt",
        description=DESCRIPTION.format(
            train=TRAIN.sum(),
            val=VAL.sum(),
            target=TARGET.sum(),
            model=", ".join(f"{name}={value}" for name, value in MODEL.items()),
            seed=SEED,
            versions=", ".join(f"{name} {version}" for name, version in versions.items()),
        ),
        classes=CLASSES,
        y_proba_val=proba_val,
        y_val=CLASSES[y[val]],
        y_proba_target=proba_target,
        y_target=CLASSES[y_test[target]],
        source_priors=priors_from_predictions(proba_train),
    )


def write_origin(path: Path, data: ShiftedPredictions, archive: Path) -> None:
    """Write the origin of the archive, its checksum, and the cost of rounding."""
    content = archive.read_bytes()
    made = (data.y_proba_val, data.y_proba_target)
    kept = [np.exp(-pack_proba(each) / STEPS) for each in made]
    kept = [each / each.sum(axis=1, keepdims=True) for each in kept]
    true_priors = priors_from_labels(data.y_target, classes=data.classes)
    oracle = adapt_proba(kept[1], data.source_priors, true_priors)
    pairs = list(zip(kept, made, strict=True))
    rows = zip(CLASSES, TRAIN, VAL, TARGET, strict=True)
    text = ORIGIN.format(
        file=archive.name,
        description=data.description,
        counts="\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows),
        sha256=hashlib.sha256(content).hexdigest(),
        n_bytes=len(content),
        accuracy_val=_accuracy(kept[0], data.y_val),
        accuracy_target=_accuracy(kept[1], data.y_target),
        accuracy_oracle=_accuracy(oracle, data.y_target),
        rounding=max(np.abs(after - before).max() for after, before in pairs),
        changed=sum((a.argmax(axis=1) != b.argmax(axis=1)).sum() for a, b in pairs),
    )
    write_text(path, text)


def _accuracy(y_proba: NDArray[np.float64], y: NDArray[np.str_]) -> float:
    return float((CLASSES[y_proba.argmax(axis=1)] == y).mean())


def main(arguments: list[str] | None = None) -> None:
    """Make the archive and its ORIGIN.md."""
    images = Path("/usr/share/datasets/fashion-mnist")
    options = parse(__doc__, arguments, images=images, output=ARCHIVE)
    data = make_predictions(options.images)
    archive = options.output / "fashion_lt.npz"
    with atomic_file(archive) as file:
        write_archive(file, data)
    write_origin(options.output / "ORIGIN.md", data, archive)
