r"""Predictions of a real classifier under prior shift, and the file that holds them.

The file is a compressed npz without pickle, with two bytes per probability. Each row is stored as
log-ratios to its largest probability, in steps of 1/1024:

.. math:: c_k = \operatorname{round}(1024 \, (\log \max_j p_j - \log p_k)),
   \qquad p_k \propto \exp(-c_k / 1024).

Every probability, however small, keeps three digits (adaptation multiplies the small ones), none
becomes 0, and rows sum to 1 again after reading.
"""

from dataclasses import dataclass
from importlib.resources import files
from os import PathLike
from typing import IO

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Vector

STEPS = 1024
"""Steps per unit of log-probability."""

Codes = NDArray[np.uint16]
Names = NDArray[np.str_]


@dataclass(frozen=True, eq=False, repr=False)
class ShiftedPredictions:
    """Hold predictions of one classifier on a labelled validation set and on a shifted target.

    The arrays are read-only; use `array.copy()` to get one that you can change.

    Attributes
    ----------
    name : str
        Name of the data set.
    description : str
        Origin and licence of the images, the model and the samples.
    classes : ndarray of str, shape (n_classes,)
        Class names in the order of the columns.
    y_proba_val : ndarray of shape (n_val, n_classes)
        Predicted probabilities on validation, which has the class shares of the training set.
    y_val : ndarray of str, shape (n_val,)
        Validation labels.
    y_proba_target : ndarray of shape (n_target, n_classes)
        Predicted probabilities on the target, which has different class shares.
    y_target : ndarray of str, shape (n_target,)
        Target labels, for scoring only: no method may see them.
    source_priors : ndarray of shape (n_classes,)
        The classifier's mean prediction on its training set.

    Examples
    --------
    >>> from priorshift.datasets import load_fashion_lt
    >>> load_fashion_lt()
    ShiftedPredictions('fashion_lt', n_classes=10, n_val=3723, n_target=5085)
    """

    name: str
    description: str
    classes: Names
    y_proba_val: Vector
    y_val: Names
    y_proba_target: Vector
    y_target: Names
    source_priors: Vector

    def __post_init__(self) -> None:
        for name, value in list(vars(self).items()):
            if isinstance(value, np.ndarray):
                view = value.view()  # the caller's own array stays writable
                view.setflags(write=False)
                object.__setattr__(self, name, view)

    def __repr__(self) -> str:
        return (
            f"ShiftedPredictions({self.name!r}, n_classes={self.classes.size}, "
            f"n_val={self.y_val.size}, n_target={self.y_target.size})"
        )


def load_fashion_lt() -> ShiftedPredictions:
    """Load a network's predictions on Fashion-MNIST, trained in summer and used in winter.

    The network was trained on a long-tailed sample of the training images: 4500 T-shirts, 100 times
    as many as coats. Validation (3723 samples) is held out and has the same class shares. The
    target (5085 test images) has the classes in reverse order: there are five times as many coats,
    now the most frequent class, as T-shirts, now the rarest. `print(load_fashion_lt().description)`
    shows the origin; `python -m lab fashion-lt --images FOLDER` makes the file
    again.

    Examples
    --------
    >>> import priorshift as ps
    >>> from priorshift.datasets import load_fashion_lt
    >>> data = load_fashion_lt()
    >>> data.classes[:4].tolist()
    ['T-shirt/top', 'Trouser', 'Pullover', 'Dress']
    >>> unadapted = data.classes[data.y_proba_target.argmax(axis=1)]

    >>> scml = ps.SCML().fit(
    ...     data.y_proba_val, data.y_val, source_priors=data.source_priors, classes=data.classes
    ... )
    >>> adapted = data.classes[scml.adapt(data.y_proba_target).argmax(axis=1)]
    >>> bool((adapted == data.y_target).mean() > (unadapted == data.y_target).mean() + 0.15)
    True
    """
    archive = files("priorshift.datasets").joinpath("fashion_lt.npz")
    with archive.open("rb") as file:
        return read_archive(file)


def unpack_proba(codes: Codes) -> Vector:
    """Turn 16-bit codes back into probabilities.

    Each is off by a factor of at most exp(1/1024), about 0.1 %. Those below exp(-64) times the
    largest of their row are raised to that.

    Parameters
    ----------
    codes : ndarray of uint16, shape (n_samples, n_classes)

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        Rows sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> unpack_proba(np.array([[0, 710, 710]], np.uint16)).round(4)
    array([[0.5001, 0.25  , 0.25  ]])
    """
    proba = np.exp(-codes.astype(np.float64) / STEPS)
    return proba / proba.sum(axis=1, keepdims=True)


def read_archive(file: str | PathLike[str] | IO[bytes]) -> ShiftedPredictions:
    """Read a data set that `python -m lab fashion-lt` wrote."""
    with np.load(file, allow_pickle=False) as archive:
        classes = archive["classes"]
        return ShiftedPredictions(
            name=str(archive["name"]),
            description=str(archive["description"]),
            classes=classes,
            y_proba_val=unpack_proba(archive["codes_val"]),
            y_val=classes[archive["labels_val"]],
            y_proba_target=unpack_proba(archive["codes_target"]),
            y_target=classes[archive["labels_target"]],
            source_priors=archive["source_priors"],
        )
