r"""Class distributions of the paper's experiments, and samples that follow them.

The paper's figure of D1 to D5 is not available. Its tables tell two things about them: a classifier
trained on D3 is most accurate on D1, and D4 is nearest to D3. The family here therefore goes from
strongly long-tailed to nearly uniform, and its last member has the classes in reverse order:

====  =========  ====================
name  imbalance  classes
====  =========  ====================
UNI   1
LT    100        first the largest
D1    200        first the largest
D2    50         first the largest
D3    10         first the largest
D4    3          first the largest
D5    10         first the smallest
====  =========  ====================

Each falls geometrically, :math:`p_k \propto \text{imbalance}^{-k / (K - 1)}`.
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from lab.shifts import long_tail, rank_in_class, shuffled_by_class

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]

IMBALANCES = {"UNI": 1.0, "LT": 100.0, "D1": 200.0, "D2": 50.0, "D3": 10.0, "D4": 3.0, "D5": 0.1}
"""Share of the first class over that of the last; below 1 the last class is the largest."""

SUPPLEMENT = ("D1", "D2", "D3", "D4", "D5", "UNI")
"""Targets of the supplement's tables."""

OWN = "own"
"""The source that keeps all training images but those held out."""

LONG_TAILS = {"Places365-LT": (365, 4980, 5, 62_500), "ImageNet-LT": (1000, 1280, 5, 115_846)}
"""Long-tailed training sets of Liu et al. (CVPR 2019): classes, images of the largest class, of the
smallest, of all. They were drawn from Pareto distributions; see `pareto_counts`."""

N_VAL = 50
"""Validation images per class, as in the paper."""


def distribution(name: str, n_classes: int) -> Vector:
    """Return one of the class distributions by name.

    Examples
    --------
    >>> distribution("D3", 3).round(3), distribution("D5", 3).round(3)
    (array([0.706, 0.223, 0.071]), array([0.071, 0.223, 0.706]))
    """
    imbalance = _imbalance(name, "distribution")
    priors = long_tail(n_classes, max(imbalance, 1 / imbalance))
    return priors if imbalance >= 1 else priors[::-1].copy()


def long_tailed_counts(n_classes: int, largest: int, imbalance: float) -> Indices:
    r"""Return how many samples to keep per class: `int(largest * imbalance**(-k / (K - 1)))`.

    450 and 100 give the paper's CIFAR-100-LT*. Its imbalance is 112.5, because the last class keeps
    int(4.5) = 4 samples.

    Examples
    --------
    >>> counts = long_tailed_counts(100, 450, 100.0)
    >>> counts[[0, -1]], counts.sum(), counts[0] / counts[-1]
    (array([450,   4]), np.int64(9754), np.float64(112.5))
    """
    exponent = -np.arange(n_classes) / (n_classes - 1)
    return (largest * np.float64(imbalance) ** exponent).astype(np.intp)


def pareto_counts(n_classes: int, largest: int, smallest: int, total: int) -> Indices:
    r"""Return how many samples per class a Pareto tail of known ends and sum keeps.

    The class of rank r keeps

    .. math:: n_r = \max\Big(\text{smallest},\; \text{largest} \,
        \frac{(r / K)^{-1/a} - 1}{K^{1/a} - 1}\Big),

    the quantiles of a Pareto distribution, whose power :math:`a` is such that the counts add up to
    `total` before they are rounded.

    Examples
    --------
    >>> counts = pareto_counts(*LONG_TAILS["ImageNet-LT"])
    >>> counts[[0, 500, -1]], counts.sum()
    (array([1280,   71,    5]), np.int64(115839))
    """
    rank = np.arange(1, n_classes + 1) / n_classes

    def profile(power: float) -> Vector:
        tail = rank ** (-1 / power) - 1
        return np.asarray(np.maximum(smallest, largest * tail / tail[0]))

    power = brentq(lambda a: profile(a).sum() - total, 0.1, 100.0)
    return np.rint(profile(power)).astype(np.intp)


def largest_sample(y: Indices, priors: Vector, share: float, rng: np.random.Generator) -> Indices:
    """Draw rows without replacement so that their labels follow `priors` up to rounding.

    The sample has `share` of the rows of the largest such sample, and at least one row of every
    class with a positive prior.
    """
    available = np.bincount(y, minlength=priors.size)
    wanted_at_all = priors > 0
    lacking = np.flatnonzero(wanted_at_all & (available == 0))
    if lacking.size:
        raise ValueError(
            f"there is no sample of class {lacking[0]} to draw, and the distribution asks for it; "
            "leave the class out of the outputs (its column and its labels), or add samples of it."
        )
    size = share * (available[wanted_at_all] / priors[wanted_at_all]).min()
    least = np.maximum(np.floor(size * priors + 1e-9), wanted_at_all)
    wanted = np.minimum(least, available)
    return np.flatnonzero(rank_in_class(y, rng) < wanted[y])


def source_counts(source: str, n_classes: int, largest: int) -> Indices:
    """Return how many training images per class a source distribution keeps.

    Parameters
    ----------
    source : str
        Name of a class distribution, see `IMBALANCES`.
    n_classes : int
    largest : int
        Images of the most frequent class.

    Examples
    --------
    >>> source_counts("LT", 100, 450)[[0, 1, -1]], source_counts("D5", 3, 100)
    (array([450, 429,   4]), array([ 10,  31, 100]))
    """
    imbalance = _imbalance(source, "source")
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
    """Draw disjoint training and validation rows.

    Validation has `n_val` images of every class. The most frequent class of the source keeps
    `largest` images. By default that is what remains of the smallest class: 450 if every class has
    500 images and 50 are held out. The source "own" trains on all that are not held out, and holds
    out at most half of a class.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.repeat([0, 1, 2], 60)
    >>> train, val = split(y, "D3", np.random.default_rng(0), n_val=20)
    >>> np.bincount(y[train]), np.bincount(y[val])
    (array([40, 12,  4]), array([20, 20, 20]))
    """
    available = np.bincount(y)
    if source == OWN:
        if largest is not None:
            raise ValueError("the source 'own' keeps all images: leave out `largest`.")
        held = np.minimum(n_val, available // 2)
        return draw_parts(y, [available - held, held], rng)
    rest = int(available.min()) - n_val
    if largest is not None and largest > rest:
        raise ValueError(
            f"largest is {largest}, but the smallest class has {available.min()} images and "
            f"{n_val} of them are held out: it can be {rest} at most."
        )
    largest = rest if largest is None else largest
    counts = source_counts(source, available.size, largest) if largest > 0 else np.zeros(1, int)
    if counts.min() < 1:
        raise ValueError(
            f"{largest} images of the most frequent class ({available.min()} available, {n_val} "
            f"held out) are too few for the distribution {source}: its rarest class would keep "
            "none."
        )
    return draw_parts(y, [counts, np.full(available.size, n_val)], rng)


def draw_parts(
    y: NDArray[Any], counts: Sequence[Indices], rng: np.random.Generator
) -> list[Indices]:
    """Draw disjoint parts of a labelled data set with given class counts, without replacement.

    Parameters
    ----------
    y : ndarray of int, shape (n_samples,)
        Labels 0 to K - 1.
    counts : sequence of ndarrays of shape (n_classes,)
        Samples per class in each part.
    rng : numpy.random.Generator

    Returns
    -------
    list of ndarrays
        Row numbers of each part, in random order.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.repeat([0, 1], 5)
    >>> counts = np.array([3, 1]), np.array([2, 2])
    >>> first, second = draw_parts(y, counts, np.random.default_rng(0))
    >>> np.bincount(y[first]), np.bincount(y[second]), np.intersect1d(first, second).size
    (array([3, 1]), array([2, 2]), 0)
    """
    ends = np.cumsum(counts, axis=0)
    available = np.bincount(y, minlength=ends.shape[1])
    short = np.flatnonzero(ends[-1] > available)
    if short.size:
        raise ValueError(
            f"class {short[0]} has {available[short[0]]} samples, but counts asks for "
            f"{ends[-1][short[0]]}; lower the counts, or use a larger data set."
        )
    by_class = shuffled_by_class(y, rng)
    rank = np.arange(y.size) - (np.cumsum(available) - available)[y[by_class]]
    part = (rank >= ends[:, y[by_class]]).sum(axis=0)
    return [rng.permutation(by_class[part == number]) for number in range(len(counts))]


def require_known(value: str, known: Collection[str], name: str) -> None:
    """Refuse a name that is not one of the known ones."""
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}; got {value!r}.")


def _imbalance(distribution: str, name: str) -> float:
    require_known(distribution, IMBALANCES, name)
    return IMBALANCES[distribution]
