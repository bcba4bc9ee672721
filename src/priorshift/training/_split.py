"""Which training images a classifier sees, and which are held out."""

import numpy as np

from priorshift._typing import Indices
from priorshift._validation import check_choice, check_count
from priorshift.datasets._long_tail import draw_parts
from priorshift.evaluation.paper import IMBALANCES, long_tailed_counts

N_VAL = 50
"""Validation images of each class, as in the paper."""


def source_counts(source: str, n_classes: int, largest: int) -> Indices:
    """Return how many training images each class keeps for a source distribution.

    Parameters
    ----------
    source : str
        Name of a class distribution, see `priorshift.evaluation.paper.IMBALANCES`.
    n_classes : int
    largest : int
        Images of the most frequent class.

    Examples
    --------
    >>> source_counts("LT", 100, 450)[[0, 1, -1]], source_counts("D5", 3, 100)
    (array([450, 429,   4]), array([ 10,  31, 100]))
    """
    check_choice(source, tuple(IMBALANCES), "source")
    imbalance = IMBALANCES[source]
    counts = long_tailed_counts(n_classes, largest, max(imbalance, 1 / imbalance))
    return counts if imbalance >= 1 else counts[::-1].copy()


def split(
    y: Indices,
    source: str,
    rng: np.random.Generator,
    *,
    n_val: int = N_VAL,
    largest: int | None = None,
) -> list[Indices]:
    """Draw training and validation rows that share none.

    Validation has `n_val` images of every class. The most frequent class of the source keeps
    `largest` images, by default the rest of the smallest class; with 500 a class and 50 held out
    that is 450.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.repeat([0, 1, 2], 60)
    >>> train, val = split(y, "D3", np.random.default_rng(0), n_val=20)
    >>> np.bincount(y[train]), np.bincount(y[val])
    (array([40, 12,  4]), array([20, 20, 20]))
    """
    check_count(n_val, "n_val")
    available = np.bincount(y)
    rest = int(available.min()) - n_val
    if largest is not None and largest > rest:
        raise ValueError(
            f"largest is {largest}, but the smallest class has {available.min()} images of which "
            f"{n_val} are held out: it can be {rest} at most."
        )
    largest = rest if largest is None else largest
    counts = source_counts(source, available.size, largest) if largest > 0 else np.zeros(1, int)
    if counts.min() < 1:
        raise ValueError(
            f"{largest} images of the most frequent class ({available.min()} are there, {n_val} "
            f"held out) are too few for the distribution {source}: its rarest would keep none."
        )
    return draw_parts(y, [counts, np.full(available.size, n_val)], rng)
