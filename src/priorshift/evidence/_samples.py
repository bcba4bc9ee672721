r"""The two sides of a test: checked predictions, and what makes them comparable.

Two things make the sides differ although nothing shifted. A file keeps few decimals, so a
saturated classifier ties where it did not before. And rows that were drawn with replacement repeat,
so they look more certain than they are.

**Deviations** d = q - C p of decisions, their statistic, and draws of their noise:

.. math:: T = d^T \Sigma^{-1} d, \quad d = q - C p^N, \quad
    \Sigma = \operatorname{Cov}(f) \left(\frac1M + \frac1{n_e}\right),
    \quad \frac1{n_e} = \sum_k \frac{(p^N_k)^2}{n_k}

Cov(f) is the covariance of a row drawn under the null hypothesis, estimated from validation and
target together. So a class with few rows cannot make T large by chance, which covariances within
classes would allow. No variance counts as less than K / (M + n_e) of the largest: decisions that
hardly ever occur vary by more than they show, and without that floor the test rejected 12 % instead
of 5 % (121 classes of plankton, 10 rows per class). The draws that T is compared with include the
full noise of both sides,

.. math:: \operatorname{Cov}(q - C p) = \frac{\operatorname{Cov}_p(f)}{M}
    + \sum_k \frac{p_k^2 S_k}{n_k}

with the covariances :math:`S_k` within the classes of validation. A draw is
:math:`\sum_i \xi_i g_i` over the centred contributions :math:`g_i` of all rows, with random signs
:math:`\xi_i`. Its covariance is that of the data, and so is the spread of its length: signs leave
every row as long as it is. Multipliers of varying size (Poisson, Mammen's) would make the test
reject 1 % instead of 5 % where a few rows of a common class carry much of the noise.

Many rows are drawn by groups: each sign, or each exchange of rows, is that of a few random rows
together. With a thousand groups that has the same covariance but for a few per cent, and a test
by permutation stays exact, as exchanging groups is a subgroup of exchanging rows.

P-values and the power of a test come from the same draws: what it would have seen, and the smallest
departure it detects.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from priorshift._typing import Floats, Indices, Labels, Mask, Vector
from priorshift.border import Predictions, read_labelled, read_proba, row_blocks
from priorshift.counts import DecisionCounts
from priorshift.estimators.data import Validation
from priorshift.words import fact, say

SIDES = "validation", "the target"


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
    confusion : Confusion
        Validation's soft decisions by class, counted once for these checked predictions.
    C : ndarray of shape (n_classes, n_classes)
        Mean prediction by class, a column of 0 for a class that validation lacks.
    q : ndarray of shape (n_classes,)
        Mean prediction of the target.
    """

    def __init__(
        self, classes: Labels, validation: Predictions, y_val: Indices, y_proba_target: Floats
    ) -> None:
        self.classes, self.validation, self.y_val = classes, validation, y_val
        self.y_proba_val: Floats = validation.values
        self.y_proba_target = y_proba_target
        self.class_counts = np.bincount(y_val, minlength=classes.size)
        self.n_val, self.n_target = y_val.size, y_proba_target.shape[0]
        if not self.n_val or not self.n_target:  # without its repeats a side may be empty
            return
        self.confusion = Validation(self.y_proba_val, y_val, None, validation).confusion("soft")
        self.C: Vector = self.confusion.conditional
        self.q = DecisionCounts.from_arrays(y_proba_target, decision="soft").frequencies

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
    for rows in row_blocks(len(y_proba), y_proba.shape[1], 2**23):
        yield rows, y_proba[rows].astype(np.float64)


def ranks(score: Vector, group: Indices) -> tuple[Indices, Indices]:
    """Return how many rows of the same group have a lower score, and how many the same one.

    Examples
    --------
    >>> lower, equal = ranks(np.array([0.3, 0.1, 0.3, 0.9]), np.array([0, 0, 0, 1]))
    >>> lower.tolist(), equal.tolist()
    ([1, 0, 1, 0], [2, 1, 2, 1])
    """
    order = np.lexsort((score, group))
    new_group = np.append(True, np.diff(group[order]) != 0)
    first = np.flatnonzero(new_group | np.append(True, np.diff(score[order]) != 0))
    tied = np.diff(np.append(first, order.size))
    start = np.flatnonzero(new_group)[np.cumsum(new_group)[first] - 1]
    lower, equal = np.empty((2, order.size), np.intp)
    lower[order] = np.repeat(first - start, tied)
    equal[order] = np.repeat(tied, tied)
    return lower, equal


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
    said = fact("rounded", coarse=SIDES[1 - finer], decimals=coarse.decimals, fine=SIDES[finer])
    validation = Predictions.from_checked(sides[0]) if finer == 0 else samples.validation
    return Samples(samples.classes, validation, samples.y_val, sides[1]), (say(said),)


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
    val, target = samples.y_proba_val, samples.y_proba_target
    n, K = samples.n_val, samples.classes.size
    predicted = np.concatenate([val.argmax(axis=1), target.argmax(axis=1)])
    largest = np.concatenate([val.max(axis=1), target.max(axis=1)], dtype=np.float64)
    largest = largest.round(MOST_DECIMALS)
    # only rows with equal maxima can be equal: most often that leaves few to compare
    _, tie, ties = np.unique(largest, return_inverse=True, return_counts=True)
    maybe = np.flatnonzero(ties[tie] > 1)
    tied = [val[maybe[maybe < n]], target[maybe[maybe >= n] - n]]
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
    on_side, equal = np.repeat([0, 1], [n, predicted.size - n]), groups >= 0
    at = on_side[equal] * decided.size + groups[equal]
    counts = np.bincount(at, minlength=2 * decided.size).reshape(2, -1)
    rows = np.bincount(on_side * K + predicted, minlength=2 * K).reshape(2, K)
    shares = (rows / np.maximum(rows.sum(axis=0), 1))[:, decided]
    kept, repeated, n_repeated = [], [], []
    for side, part in enumerate((slice(0, n), slice(n, None))):
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


# Deviations, and their noise ----------------------------------------------------------------------

WANTED_POWER, N_HALVINGS = 0.8, 12
"""How often a detectable departure is detected, and the halvings that find its size."""


def whiten_deviations(samples: Samples, priors: Vector) -> Vector:
    """Return the matrix W that whitens deviations from these priors: T = |W^T (q - C p)|^2."""
    M, K, size = samples.n_target, priors.size, samples.effective_size(priors)
    # the covariance of one row under p, from both sides, centred at the common mean
    mean, of_target, of_class = mix(samples, priors)
    covariance, weight = np.zeros((2, K, K)), of_class[samples.y_val]
    for _, block in float_blocks(samples.y_proba_target):
        block -= mean
        covariance[0] += block.T @ block
    for rows, block in float_blocks(samples.y_proba_val):
        block -= mean
        covariance[1] += block.T @ (weight[rows, None] * block)
    total = covariance[0] * of_target + covariance[1]
    whitener = whiten(total, samples.n_val + M, K / (M + size))
    return whitener / np.sqrt(1 / M + 1 / size)


def whiten(covariance: Vector, n_rows: int, least: float = 0.0) -> Vector:
    """Return W with W W^T = covariance^-1 where there is variance.

    Variances below `least` times the largest are raised to it.

    A share K / (K + n_rows) of the covariance is replaced by its diagonal, on vectors that sum to 0
    and with the same trace: the fewer rows it is estimated from, the larger the share. With two
    classes that changes nothing.
    """
    K = covariance.shape[0]
    centre = np.eye(K) - 1 / K
    plain = K / (K - 1) * (centre * np.diag(covariance)) @ centre
    share = K / (K + n_rows)
    values, vectors = np.linalg.eigh((1 - share) * covariance + share * plain)
    # directions without variance, but for rounding, are left out
    varies = values > max(1e-10 * values[-1], 1e-24)
    return vectors[:, varies] / np.sqrt(np.maximum(values[varies], least * values[-1]))


def group_rows(rows: Vector, size: int, rng: np.random.Generator) -> Vector:
    """Sum random groups of `size` rows; what is left over is the last group."""
    if size <= 1:
        return rows
    ends = np.append(np.arange(0, len(rows), size), len(rows))
    order = rng.permutation(len(rows))
    return np.asarray(
        csr_array((np.ones(len(rows)), order, ends), (ends.size - 1, len(rows))) @ rows
    )


def group_size(n_rows: int, n_classes: int) -> int:
    """Return how many rows share a sign: so few that there are 1000 groups, or 10 per class."""
    return n_rows // max(1000, 10 * n_classes)


def draw_signed(rows: Vector, n_draws: int, size: int, rng: np.random.Generator) -> Vector:
    """Draw sums of rows with random signs, (n_draws, K); groups of `size` rows share one."""
    rows = group_rows(rows, size, rng)
    drawn = np.zeros((n_draws, rows.shape[1]))
    for part in row_blocks(len(rows), n_draws, 2**25):  # bytes of random numbers at once
        chosen, n = rows[part], n_draws * len(rows[part])
        bits = np.unpackbits(np.frombuffer(rng.bytes(-(-n // 8)), np.uint8), count=n)
        positive = bits.reshape(n_draws, -1).astype(np.float64) @ chosen
        drawn += 2 * positive - chosen.sum(axis=0)
    return drawn


def draw_noise(samples: Samples, priors: Vector, n_draws: int, rng: np.random.Generator) -> Vector:
    """Draw the noise of q - C p, (n_draws, K)."""
    C, K, n = samples.C, priors.size, samples.class_counts
    mean, *weights = mix(samples, priors)
    of_target, of_validation = (np.sqrt(one / samples.n_target) for one in weights)
    # a class with one row shows no spread of its own: it gets the mean spread of the others
    freedom = np.maximum(n - 1, 0)
    squares = np.divide(priors**2, n * freedom, out=np.zeros_like(priors), where=freedom > 0)
    of_class = np.sqrt(squares + float((priors[n == 1] ** 2).sum()) / float(freedom.sum()))
    drawn, size = np.zeros((n_draws, K)), group_size(samples.n_target, K)
    for _, block in float_blocks(samples.y_proba_target):
        drawn += draw_signed(of_target * (block - mean), n_draws, size, rng)
    size = group_size(samples.n_val, K)
    # once as rows that the target might have had, once as what C was counted from
    for rows, block in float_blocks(samples.y_proba_val):
        at = samples.y_val[rows]
        drawn += draw_signed((block - mean) * of_validation[at, None], n_draws, size, rng)
        drawn += draw_signed((block - C.T[at]) * of_class[at, None], n_draws, size, rng)
    return drawn


def draw_permutations(samples: Samples, n_draws: int, rng: np.random.Generator) -> Vector:
    """Draw q - q_validation with rows exchanged at random, (n_draws, K).

    Groups of both sides are shuffled and dealt into hands, as many as the smaller side has. A draw
    takes one group of each hand for the smaller side, which costs less than shuffling again.
    """
    sides = samples.y_proba_val, samples.y_proba_target
    n = [samples.n_val, samples.n_target]
    # groups that are not full stay, so the smaller side has at least 20 to exchange
    size = max(1, min(2 * group_size(sum(n), samples.classes.size), min(n) // 20))
    sums = sides[0].sum(axis=0, dtype=np.float64), sides[1].sum(axis=0, dtype=np.float64)
    drawn = np.empty((n_draws, samples.classes.size))
    # rows are grouped anew after 250 draws, and dealt anew after 20
    for part in row_blocks(n_draws, n_rows=250 if size > 1 else n_draws):
        groups = []
        for side in sides:
            full = []
            for _, block in float_blocks(side):
                full.append(group_rows(block, size, rng)[: len(block) // size])
            groups.append(np.concatenate(full))
        at = int(len(groups[1]) < len(groups[0]))  # the smaller side
        stay, rows = sums[at] - groups[at].sum(axis=0), np.concatenate(groups)
        hand = np.arange(len(groups[at]))
        held = -(-(len(rows) - hand) // hand.size)
        for some in row_blocks(part, n_rows=20):
            taken = rng.random((some.stop - some.start, hand.size)) * held
            at_row = rng.permutation(len(rows))[taken.astype(np.intp) * hand.size + hand]
            ends = np.arange(0, taken.size + 1, hand.size)
            shape = len(taken), len(rows)
            total = stay + csr_array((np.ones(taken.size), at_row.ravel(), ends), shape) @ rows
            drawn[some] = total / n[at] - (sums[0] + sums[1] - total) / n[1 - at]
        drawn[part] *= 2 * at - 1
    return drawn


def mix(samples: Samples, priors: Vector) -> tuple[Vector, float, Vector]:
    """Take both sides for one sample drawn under p: validation rows are weighted by their class.

    Returns the mean row, and the weights of a target row and, per class, of a validation row; over
    all rows they sum to 1.
    """
    n, M, size = samples.class_counts, samples.n_target, samples.effective_size(priors)
    share = M / (M + size)
    of_class = np.divide(priors, n, out=np.zeros_like(priors), where=n > 0)
    mean = share * samples.q + (1 - share) * samples.C @ priors
    return mean, share / M, (1 - share) * of_class


class Power:
    r"""Power as a function of the size of a departure, from draws of whitened noise.

    A departure of size :math:`\tau` moves the whitened deviations by :math:`\tau w` for one of the
    ways w, so that :math:`T = |e + \tau w|^2` over draws e and ways w.

    Parameters
    ----------
    noise : ndarray of shape (n_draws, n_directions)
    ways : ndarray of shape (n_ways, n_directions)
    alpha : float
    """

    def __init__(self, noise: Vector, ways: Vector, alpha: float) -> None:
        own = (noise**2).sum(axis=1)
        # the value beyond which the p-value is at most alpha; infinite with too few draws
        beyond = int(np.floor(alpha * (own.size + 1)))
        self.limit = float(np.sort(own)[own.size - beyond]) if beyond else np.inf
        self.own = own[:, None]
        self.cross = 2 * noise @ ways.T
        self.square = (ways**2).sum(axis=1)

    def at(self, size: float) -> float:
        """Return how often a departure of this size is detected."""
        drawn = self.own + size * self.cross + size**2 * self.square
        return float((drawn > self.limit).mean())

    def detectable(self, most: float = 1.0) -> float | None:
        """Return the size that is detected 4 times out of 5, None if there is none up to `most`."""
        low, high = 0.0, most
        if not self.square.any() or self.at(high) < WANTED_POWER:
            return None
        for _ in range(N_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.at(middle) >= WANTED_POWER else (middle, high)
        return high


def p_value(drawn: Vector, observed: float) -> float:
    """Return the share of draws at least as large, the observed one among them."""
    return (1 + int(np.count_nonzero(drawn >= observed * (1 - 1e-9)))) / (drawn.size + 1)
