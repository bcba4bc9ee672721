"""The two sides of a test: checked predictions, and what makes them comparable.

Two things make the sides differ although nothing shifted. A file keeps few decimals, so a
saturated classifier ties where it did not before. And rows that were drawn with replacement repeat,
so they look more certain than they are.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from priorshift._typing import Floats, Indices, Labels, Mask, Vector
from priorshift.border import (
    Predictions,
    read_labelled,
    read_proba,
    row_blocks,
)
from priorshift.counts import Confusion, DecisionCounts


class Samples:
    """Clean predictions: validation with labels, the target without.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    validation : Predictions
    y_proba_val, y_proba_target : ndarray of shape (n_val, n_classes) and (n_target, n_classes)
    y_val : ndarray of shape (n_val,)
        Labels as indices.
    class_counts : ndarray of shape (n_classes,)
        Validation rows per class.
    n_val, n_target : int
    """

    def __init__(
        self, classes: Labels, validation: Predictions, y_val: Indices, y_proba_target: Floats
    ) -> None:
        self.classes, self.validation, self.y_val = classes, validation, y_val
        self.y_proba_val: Floats = validation.values
        self.y_proba_target = y_proba_target
        self.class_counts = np.bincount(y_val, minlength=classes.size)
        self.n_val, self.n_target = y_val.size, y_proba_target.shape[0]

    @cached_property
    def confusion(self) -> Confusion:
        """Validation's soft decisions by class, counted once for these checked predictions."""

        def count() -> Confusion:
            return Confusion.from_arrays(self.y_proba_val, self.y_val, decision="soft")

        key = ("confusion", "soft")
        return self.validation.once(self.y_proba_val, key, (self.y_val, None), count)

    @cached_property
    def C(self) -> Vector:  # noqa: N802
        """Mean prediction by class, a column of 0 for a class that validation lacks."""
        conditional: Vector = self.confusion.conditional
        return conditional

    @cached_property
    def q(self) -> Vector:
        """Mean prediction of the target."""
        return DecisionCounts.from_arrays(self.y_proba_target, decision="soft").frequencies

    def effective_size(self, priors: Vector) -> float:
        """Return how many draws from the mixture C p the validation set is worth."""
        n = self.class_counts
        return 1 / float((priors[n > 0] ** 2 / n[n > 0]).sum())

    def rows(self, val: Indices | Mask, target: Indices | Mask) -> "Samples":
        """Select rows of both sides."""
        validation = Predictions.from_checked(self.y_proba_val[val])
        return Samples(self.classes, validation, self.y_val[val], self.y_proba_target[target])


def read_samples(
    y_proba_val: ArrayLike,
    y_val: ArrayLike,
    y_proba_target: ArrayLike,
    classes: ArrayLike | None = None,
) -> Samples:
    """Check predictions and labels; at least two target rows and two rows of some class."""
    names, validation, y = read_labelled(
        y_proba_val, y_val, classes, name="y_proba_val", label_name="y_val"
    )
    target = read_proba(y_proba_target, names, "y_proba_target", named=validation.named)
    samples = Samples(names, validation, y, target.values)
    if samples.n_target < 2:
        raise ValueError(
            f"y_proba_target has {samples.n_target} rows, which show no spread; give at least 2."
        )
    if samples.class_counts.max() < 2:
        raise ValueError(
            "validation has no class with 2 samples, so its noise cannot be known; give more."
        )
    return samples


def float_blocks(y_proba: Floats) -> Iterator[tuple[slice, Vector]]:
    """Yield blocks of rows, copied to float64."""
    n, K = y_proba.shape
    for rows in row_blocks(n, K, 2**23):
        yield rows, y_proba[rows].astype(np.float64)


# One precision ----------------------------------------------------------------------------------

MOST_DECIMALS = 6
"""Finer than that, float32 and float64 disagree."""

FILE_DECIMALS = 4
"""Files seldom have fewer: finer differences between rows do not count."""

ON_GRID = 3e-7
"""How far from the grid a value may be, for the rounding of float32."""


class Precision(NamedTuple):
    """Decimals that probabilities were rounded to, and whether rows were divided by their sums."""

    decimals: int
    normalised: bool = False

    def apply(self, y_proba: Floats) -> Floats:
        """Round rows as a file with these decimals would; a row that vanishes stays as it is."""
        rounded = y_proba.astype(np.float64).round(self.decimals)
        vanished = ~rounded.any(axis=1)
        rounded[vanished] = y_proba[vanished]
        return rounded / rounded.sum(axis=1, keepdims=True) if self.normalised else rounded


def precision_of(y_proba: Floats) -> Precision | None:
    """Return the decimals that rows were rounded to, None if they were not.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).dirichlet(np.ones(5), 30)
    >>> precision_of(rows), precision_of(rows.round(3))
    (None, Precision(decimals=3, normalised=False))
    """
    largest = y_proba.max(axis=1).astype(np.float64)
    unsure = np.flatnonzero(largest < 1 - 10.0 ** (1 - MOST_DECIMALS))
    # 1 and 0 are on every grid
    if unsure.size < 5:
        return None
    # 64 rows tell whether a division hides a grid
    least_sure = y_proba[unsure[np.argsort(largest[unsure], kind="stable")[:64]]]
    least_sure = least_sure.astype(np.float64)
    for decimals in range(1, MOST_DECIMALS):
        if (np.abs(largest - largest.round(decimals))[unsure] < ON_GRID).all():
            total = y_proba.sum(axis=1, dtype=np.float64)
            return Precision(decimals, bool((np.abs(total - 1) < 1e-5).all()))
        # rounded rows may have been divided by their sums, which are 1 but for a few units
        most_off = min(y_proba.shape[1] // 2 + 1, 10**decimals // 4)
        units = (10**decimals + np.arange(-most_off, most_off + 1))[:, None]
        if decimals > 1 and all(
            (np.abs(row - (row * units).round() / units).max(axis=1) < ON_GRID).any()
            for row in least_sure
        ):
            return Precision(decimals, normalised=True)
    return None


def as_file(y_proba: Floats) -> Floats:
    """Return rows with the decimals of a file, divided by their sums, unless they are so already.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).dirichlet(np.ones(5), 30)
    >>> in_file = rows.round(4)
    >>> divided = in_file / in_file.sum(axis=1, keepdims=True)
    >>> [bool(np.allclose(as_file(one), divided, atol=1e-12)) for one in (rows, in_file, divided)]
    [True, True, True]
    """
    found = precision_of(y_proba)
    done = found is not None and found.normalised and found.decimals <= FILE_DECIMALS
    return y_proba.astype(np.float64) if done else Precision(FILE_DECIMALS, True).apply(y_proba)


def at_one_precision(samples: Samples) -> tuple[Samples, tuple[str, ...]]:
    """Round the finer side as the coarser one was rounded, and say so."""
    val, target = precision_of(samples.y_proba_val), precision_of(samples.y_proba_target)
    coarse = min(filter(None, (val, target)), default=None)
    if coarse is None or (val and target and val.decimals == target.decimals):
        return samples, ()
    sides = [samples.y_proba_val, samples.y_proba_target]
    finer = 0 if coarse is target else 1
    sides[finer] = coarse.apply(sides[finer])
    names = ("validation", "the target")
    said = (
        f"{names[1 - finer]} was rounded to {coarse.decimals} decimals, so {names[finer]} was "
        "rounded alike."
    )
    validation = Predictions.from_checked(sides[0]) if finer == 0 else samples.validation
    return Samples(samples.classes, validation, samples.y_val, sides[1]), (said,)


# Repeated rows ----------------------------------------------------------------------------------


def without_repeats(samples: Samples) -> tuple[Samples, int, int]:
    r"""Return the samples without repeated rows, and how many there are in validation and target.

    Classifiers tie by themselves. Networks saturate, so the surest rows of a decision are not
    judged. Forests vote in steps, but such ties do not respect sides: of t equal rows, all are on
    one side with probability :math:`\rho^t`, :math:`\rho` its share of all rows with the same
    decision. Rows that were drawn with replacement leave far fewer groups of equal rows with rows
    on both sides than that.

    Where a side repeats rows, each counts once: a class is still a sample of p(x|y), as repeating
    depends on the class alone. Rows that occur on both sides are ties of the classifier, which hide
    repeats; they are left out on both sides, which conditions both on the same event.
    """
    # rounded, so that saturated rows are equal in every precision
    sides, n, K = (samples.y_proba_val, samples.y_proba_target), samples.n_val, samples.classes.size
    predicted = np.concatenate([side.argmax(axis=1) for side in sides])
    largest = np.concatenate([side.max(axis=1) for side in sides], dtype=np.float64)
    largest = largest.round(MOST_DECIMALS)
    # only rows with equal maxima can be equal: most often that leaves few to compare
    _, tie, ties = np.unique(largest, return_inverse=True, return_counts=True)
    maybe = np.flatnonzero(ties[tie] > 1)
    tied = [sides[0][maybe[maybe < n]], sides[1][maybe[maybe >= n] - n]]
    same = np.concatenate(tied, dtype=np.float64).round(MOST_DECIMALS) + 0.0  # -0.0 equals 0.0
    keys = same.view(np.dtype((np.void, same.dtype.itemsize * same.shape[1]))).ravel()
    _, first, group, size = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    several = size > 1
    if not several.any():
        return samples, 0, 0
    groups = np.full(predicted.size, -1)  # of equal rows, -1 for a row that equals no other
    groups[maybe] = np.where(several, np.cumsum(several) - 1, -1)[group]
    one_of_each = maybe[first[several]]
    decided, sure = predicted[one_of_each], largest[one_of_each]
    parts = slice(0, n), slice(n, None)
    counts = np.array(
        [np.bincount(groups[part][groups[part] >= 0], minlength=decided.size) for part in parts]
    )
    rows = np.array([np.bincount(predicted[part], minlength=K) for part in parts])
    shares = (rows / np.maximum(rows.sum(axis=0), 1))[:, decided]
    kept, repeated, n_repeated = [], [], []
    for side, part in enumerate(parts):
        most = np.zeros(K)
        np.maximum.at(most, predicted[part], largest[part])
        # so near to the surest row, rounded rows are often equal by chance
        judged = (counts[side] > 0) & (sure < most[decided] - 1e-3)
        chance = shares[side, judged] ** counts[:, judged].sum(axis=0)
        both = np.count_nonzero(counts[1 - side][judged])
        expected = float((1 - chance).sum())
        noise = float(np.sqrt((chance * (1 - chance)).sum()))
        repeated.append(both < expected / 2 and both < expected - 4 * noise)
        group = groups[part]
        shared = (group >= 0) & (counts[1 - side][group] > 0)
        once = group < 0
        once[np.unique(group, return_index=True)[1]] = True
        kept.append(~shared & once if repeated[side] else ~shared)
        n_repeated.append(int(np.count_nonzero(~kept[side] & ~shared)))
    return (samples.rows(*kept) if any(repeated) else samples), n_repeated[0], n_repeated[1]
