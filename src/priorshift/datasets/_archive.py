r"""The file of a bundled data set: a compressed npz without pickle, two bytes a probability.

A row of probabilities is kept as its log-ratios to the largest one, in steps of 1/1024:

.. math:: c_k = \operatorname{round}(1024 \, (\log \max_j p_j - \log p_k)),
   \qquad p_k \propto \exp(-c_k / 1024).

So every probability, however small, keeps three digits (adaptation multiplies the small ones), none
becomes 0, and rows sum to 1 again when read.
"""

from os import PathLike
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Floats, Vector
from priorshift.datasets._shifted import ShiftedPredictions

STEPS = 1024
"""Steps to a unit of log-probability."""

LARGEST = np.iinfo(np.uint16).max

Codes = NDArray[np.uint16]


def pack_proba(y_proba: Floats) -> Codes:
    """Round log-probabilities, relative to their row's largest, to 16 bits.

    Parameters
    ----------
    y_proba : ndarray of shape (n_samples, n_classes)

    Returns
    -------
    ndarray of uint16, shape (n_samples, n_classes)

    Examples
    --------
    >>> import numpy as np
    >>> pack_proba(np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]]))
    array([[    0,   710,   710],
           [    0, 65535, 65535]], dtype=uint16)
    """
    log_proba = np.log(np.maximum(y_proba, np.finfo(np.float64).tiny))
    below_largest = log_proba.max(axis=1, keepdims=True) - log_proba
    return np.minimum(np.rint(STEPS * below_largest), LARGEST).astype(np.uint16)


def unpack_proba(codes: Codes) -> Vector:
    """Turn what `pack_proba` made into probabilities again.

    Each is off by a factor of at most exp(1/1024), about 0.1 %; those below exp(-64) times the
    row's largest are raised to that.

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
    >>> unpack_proba(pack_proba(np.array([[0.7, 0.2, 0.1]]))).round(4)
    array([[0.7, 0.2, 0.1]])
    """
    proba = np.exp(-codes.astype(np.float64) / STEPS)
    return proba / proba.sum(axis=1, keepdims=True)


def write_archive(file: str | PathLike[str] | IO[bytes], data: ShiftedPredictions) -> None:
    """Write a data set; the same data give the same bytes."""
    np.savez_compressed(
        file,
        name=np.array(data.name),
        description=np.array(data.description),
        classes=data.classes,
        source_priors=data.source_priors,
        codes_val=pack_proba(data.y_proba_val),
        labels_val=_positions(data.y_val, data.classes),
        codes_target=pack_proba(data.y_proba_target),
        labels_target=_positions(data.y_target, data.classes),
    )


def read_archive(file: str | PathLike[str] | IO[bytes]) -> ShiftedPredictions:
    """Read a data set that `write_archive` wrote."""
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


def _positions(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.uint8]:
    order = np.argsort(classes)
    return order[np.searchsorted(classes, labels, sorter=order)].astype(np.uint8)
