"""Make `fashion_lt.npz`: train a small network on long-tailed Fashion-MNIST, store its outputs.

The story: a shop trains a classifier in summer, when T-shirts and sandals fill the catalogue, and
uses it in winter, when coats and boots do. The images come from Debian's package
`dataset-fashion-mnist` (or from https://github.com/zalandoresearch/fashion-mnist). Training takes
seconds on one core::

    python -m priorshift.datasets.make_fashion_lt --images /usr/share/datasets/fashion-mnist

Samples and initial weights depend on the seed alone. The last digits of the predictions also depend
on the machine and on the versions that the description names.
"""

import argparse
import hashlib
import platform
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Floats, Labels, Vector
from priorshift.adapt import adapt_proba, priors_from_labels, priors_from_predictions
from priorshift.datasets._images import draw_parts, long_tail_counts, read_fashion_mnist
from priorshift.datasets._predictions import ShiftedPredictions, read_archive, write_archive
from priorshift.files import atomic_file, write_text

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

TRAIN = long_tail_counts(SUMMER, 4500, 100.0)
VAL = long_tail_counts(SUMMER, 1500, 100.0)
TARGET = long_tail_counts(SUMMER[::-1], 1000, 5.0)
"""The most frequent class uses all of its 6000 training or 1000 test images."""

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
Made by: python -m priorshift.datasets.make_fashion_lt --images FOLDER
  (seed {seed}, {versions}).
"""

ORIGIN = """\
# Origin of `{file}`

Written by `make_fashion_lt.py` together with the file.

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


def read_part(images: Path, part: str) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Read "train" or "t10k": pixels from 0 to 1, one row per image, and labels."""
    pixels, labels = read_fashion_mnist(images, part)
    return pixels.reshape(len(pixels), -1).astype(np.float32) / np.float32(255), labels


def train_and_predict(
    X: NDArray[np.float32], y: NDArray[np.uint8], others: Sequence[NDArray[np.float32]]
) -> list[Vector]:
    """Train the network; predict probabilities on its training set and on the others."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier
    from threadpoolctl import threadpool_limits

    # one thread, because the last digits of a sum depend on the order of its terms
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # stopped early on purpose
        model = MLPClassifier(**MODEL).fit(X, y)
        return [model.predict_proba(part).astype(np.float64) for part in (X, *others)]


def make_predictions(images: Path) -> ShiftedPredictions:
    """Draw training set, validation and target, train the network, predict."""
    rng = np.random.default_rng(SEED)
    X, y = read_part(images, "train")
    X_test, y_test = read_part(images, "t10k")
    train, val = draw_parts(y, [TRAIN, VAL], rng)
    (target,) = draw_parts(y_test, [TARGET], rng)
    proba_train, proba_val, proba_target = train_and_predict(
        X[train], y[train], [X[val], X_test[target]]
    )
    return ShiftedPredictions(
        name="fashion_lt",
        description=describe(),
        classes=CLASSES,
        y_proba_val=proba_val,
        y_val=CLASSES[y[val]],
        y_proba_target=proba_target,
        y_target=CLASSES[y_test[target]],
        source_priors=priors_from_predictions(proba_train),
    )


def describe() -> str:
    """Return the origin of the predictions, with versions."""
    import sklearn

    versions = (
        f"Python {platform.python_version()}, NumPy {np.__version__}, "
        f"scikit-learn {sklearn.__version__}"
    )
    return DESCRIPTION.format(
        train=TRAIN.sum(),
        val=VAL.sum(),
        target=TARGET.sum(),
        model=", ".join(f"{name}={value}" for name, value in MODEL.items()),
        seed=SEED,
        versions=versions,
    )


def write_origin(path: Path, data: ShiftedPredictions, archive: Path) -> None:
    """Write the origin of the archive, its checksum, and the cost of rounding."""
    content = archive.read_bytes()
    stored = read_archive(archive)
    made = np.vstack([data.y_proba_val, data.y_proba_target])
    kept = np.vstack([stored.y_proba_val, stored.y_proba_target])
    true_priors = priors_from_labels(stored.y_target, classes=stored.classes)
    oracle = adapt_proba(stored.y_proba_target, stored.source_priors, true_priors)
    text = ORIGIN.format(
        file=archive.name,
        description=data.description,
        counts="\n".join(
            "| " + " | ".join(map(str, row)) + " |"
            for row in zip(CLASSES, TRAIN, VAL, TARGET, strict=True)
        ),
        sha256=hashlib.sha256(content).hexdigest(),
        n_bytes=len(content),
        accuracy_val=_accuracy(stored.y_proba_val, stored.y_val),
        accuracy_target=_accuracy(stored.y_proba_target, stored.y_target),
        accuracy_oracle=_accuracy(oracle, stored.y_target),
        rounding=np.abs(kept - made).max(),
        changed=(kept.argmax(axis=1) != made.argmax(axis=1)).sum(),
    )
    write_text(path, text)


def _accuracy(y_proba: Floats, y: Labels) -> float:
    return float((CLASSES[y_proba.argmax(axis=1)] == y).mean())


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the archive and its ORIGIN.md."""
    parser = argparse.ArgumentParser(description="Make fashion_lt.npz and its ORIGIN.md.")
    parser.add_argument(
        "--images",
        type=Path,
        default=Path("/usr/share/datasets/fashion-mnist"),
        help="folder of Fashion-MNIST's four files (default: where Debian puts them)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).parent,
        help="folder to write to (default: next to this script)",
    )
    options = parser.parse_args(arguments)
    data = make_predictions(options.images)
    archive = options.output / "fashion_lt.npz"
    with atomic_file(archive) as file:
        write_archive(file, data)
    write_origin(options.output / "ORIGIN.md", data, archive)


if __name__ == "__main__":
    main()
