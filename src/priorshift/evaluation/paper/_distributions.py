r"""Class distributions of the paper's experiments.

The figure that shows the supplement's D1 to D5 is not to be had. What its tables say of them is
this: a classifier trained on D3 is most accurate on D1, and D4 is nearest to D3. So the family here
goes from strongly long-tailed to nearly uniform, and its last member runs the other way:

====  =========  ====================
name  imbalance  classes
====  =========  ====================
UNI   1
LT    100        first the most
D1    200        first the most
D2    50         first the most
D3    10         first the most
D4    3          first the most
D5    10         first the fewest
====  =========  ====================

Each falls geometrically, :math:`p_k \propto \text{imbalance}^{-k / (K - 1)}`.
"""

import numpy as np

from priorshift._typing import Indices, Vector
from priorshift._validation import check_choice
from priorshift.evaluation._protocol import long_tail

IMBALANCES = {"UNI": 1.0, "LT": 100.0, "D1": 200.0, "D2": 50.0, "D3": 10.0, "D4": 3.0, "D5": 0.1}
"""First class over last; below 1 the last has the most."""

SUPPLEMENT = ("D1", "D2", "D3", "D4", "D5", "UNI")
"""Targets of the supplement's tables."""


def distribution(name: str, n_classes: int) -> Vector:
    """Return one of the class distributions by name.

    Examples
    --------
    >>> distribution("D3", 3).round(3), distribution("D5", 3).round(3)
    (array([0.706, 0.223, 0.071]), array([0.071, 0.223, 0.706]))
    """
    check_choice(name, tuple(IMBALANCES), "distribution")
    imbalance = IMBALANCES[name]
    priors = long_tail(n_classes, max(imbalance, 1 / imbalance))
    return priors if imbalance >= 1 else priors[::-1].copy()


def long_tailed_counts(n_classes: int, largest: int, imbalance: float) -> Indices:
    r"""Return how many samples each class keeps: `int(largest * imbalance**(-k / (K - 1)))`.

    With 450 and 100 it is the paper's CIFAR-100-LT*, whose imbalance is 112.5 because the last
    class keeps int(4.5) = 4 samples.

    Examples
    --------
    >>> counts = long_tailed_counts(100, 450, 100.0)
    >>> counts[[0, -1]], counts.sum(), counts[0] / counts[-1]
    (array([450,   4]), np.int64(9754), np.float64(112.5))
    """
    exponent = -np.arange(n_classes) / (n_classes - 1)
    return (largest * np.float64(imbalance) ** exponent).astype(np.intp)


def largest_sample(y: Indices, priors: Vector, share: float, rng: np.random.Generator) -> Indices:
    """Draw rows whose labels follow `priors` as exactly as whole rows can, without replacement.

    It is `share` of the largest such sample that there is; at least one row of every class that
    the priors ask for, if there is one.
    """
    available = np.bincount(y, minlength=priors.size)
    asked = priors > 0
    if not available[asked].all():
        lacking = np.flatnonzero(asked & (available == 0))
        raise ValueError(
            f"there is no sample of class {lacking[0]} to draw, and the distribution asks for it; "
            "leave the class out of the outputs (its column and its labels), or add samples of it."
        )
    size = share * (available[asked] / priors[asked]).min()
    wanted = np.minimum(np.maximum(np.floor(size * priors + 1e-9), asked), available).astype(int)
    order = rng.permutation(y.size)
    order = order[np.argsort(y[order], kind="stable")]
    start = np.cumsum(available) - available
    rank = np.arange(y.size) - np.repeat(start, available)
    return np.sort(order[rank < np.repeat(wanted, available)])
