r"""Noise of the moments q - C p, drawn as often as wanted without drawing new samples.

.. math:: \operatorname{Cov}(q - C p) = \frac{\operatorname{Cov}_p(f)}{M}
    + \sum_k \frac{p_k^2 S_k}{n_k}

with the covariance of a row drawn under p, from validation and target together, and the covariances
:math:`S_k` within the classes of validation. From the target alone, a decision that is rare and by
chance did not occur would have no noise.

A draw is :math:`\sum_i \xi_i g_i` over the centred contributions :math:`g_i` of all rows, with
random signs :math:`\xi_i`. Its covariance is that of the data, and so is the spread of its length:
signs leave every row as long as it is, where multipliers of varying size (Poisson, Mammen's) would
make the test reject 1 % instead of 5 % where a few rows of a common class carry much of the noise.
"""

from dataclasses import dataclass

import numpy as np

from priorshift._typing import Floats, Vector
from priorshift.shift_test._samples import Samples, decision_blocks
from priorshift.statistics import Decision

ENTRIES = 2**22
"""Random numbers held at once."""


def random_signs(n_draws: int, n_rows: int, rng: np.random.Generator) -> Vector:
    """Draw -1 or 1 alike, (n_draws, n_rows)."""
    return np.where(rng.random((n_draws, n_rows), dtype=np.float32) < 0.5, -1.0, 1.0)


def class_scales(samples: Samples, priors: Vector) -> Vector:
    """Return by what centred rows of each class of validation are multiplied.

    A class with a single sample shows no spread of its own: it is given the mean of the others.
    """
    n = samples.class_counts
    freedom = np.maximum(n - 1, 0)
    squares = np.divide(priors**2, n * freedom, out=np.zeros_like(priors), where=freedom > 0)
    squares += float((priors[n == 1] ** 2).sum()) / float(freedom.sum())
    return np.sqrt(squares)


def effective_size(samples: Samples, priors: Vector) -> float:
    """Return how many draws from the mixture C p the validation set is worth."""
    n = samples.class_counts
    return 1 / float((priors[n > 0] ** 2 / n[n > 0]).sum())


def draw_noise(
    samples: Samples, decision: Decision, priors: Vector, n_draws: int, rng: np.random.Generator
) -> Vector:
    """Draw the noise of q - C p, (n_draws, K)."""
    C, mixture = samples.confusion(decision), Mixed.of(samples, decision, priors)
    of_target, of_validation = (np.sqrt(one / samples.n_target) for one in mixture.row_weights)
    of_class = class_scales(samples, priors)
    drawn = np.zeros((n_draws, priors.size))
    for part in _parts(samples.n_target, n_draws):
        for rows, block in decision_blocks(samples.y_proba_target[part], decision):
            xi = random_signs(n_draws, rows.stop - rows.start, rng)
            drawn += of_target * (xi @ (block - mixture.mean))
    for part in _parts(samples.n_val, n_draws):
        label = samples.y_val[part]
        for rows, block in decision_blocks(samples.y_proba_val[part], decision):
            at = label[rows]
            # once as rows that the target might have had, once as what C was counted from
            for centre, scale in ((mixture.mean, of_validation), (C.T[at], of_class)):
                xi = random_signs(n_draws, at.size, rng)
                drawn += xi @ ((block - centre) * scale[at, None])
    return drawn


def column_noise(samples: Samples, decision: Decision, whitener: Vector) -> Vector:
    """Return the variance of each column of C after whitening, summed over directions."""
    C, n = samples.confusion(decision), samples.class_counts
    squares = np.zeros(samples.n_val)
    for rows, block in decision_blocks(samples.y_proba_val, decision):
        block -= C.T[samples.y_val[rows]]
        squares[rows] = ((block @ whitener) ** 2).sum(axis=1)
    total = np.bincount(samples.y_val, weights=squares, minlength=n.size)
    return total / np.maximum(n * (n - 1), 1)


def draw_permutations(
    samples: Samples, decision: Decision, n_draws: int, rng: np.random.Generator
) -> Vector:
    """Draw q - q_validation with rows exchanged at random, (n_draws, K)."""
    n, M = samples.n_val, samples.n_target
    sides = (samples.y_proba_val, samples.y_proba_target)
    drawn = np.empty((n_draws, samples.classes.size))
    step = max(1, ENTRIES // (n + M))
    for start in range(0, n_draws, step):
        chunk = drawn[start : start + step]
        signs = np.zeros((chunk.shape[0], n + M), dtype=bool)
        signs[:, n:] = True
        in_target = rng.permuted(signs, axis=1)
        total, all_rows = np.zeros_like(chunk), np.zeros(chunk.shape[1])
        for offset, side in ((0, sides[0]), (n, sides[1])):
            for rows, block in decision_blocks(side, decision):
                here = in_target[:, offset + rows.start : offset + rows.stop]
                total += here.astype(np.float64) @ block
                all_rows += block.sum(axis=0)
        chunk[:] = total / M - (all_rows - total) / n
    return drawn


@dataclass(frozen=True)
class Mixed:
    """Both sides as one sample of rows drawn under p: validation rows count by p of their class."""

    mean: Vector
    row_weights: tuple[float, Vector]
    """Of a row of the target, and by class of a row of validation; all of them sum to 1."""

    @classmethod
    def of(cls, samples: Samples, decision: Decision, priors: Vector) -> "Mixed":
        """Pool the sides as far as each is worth."""
        n, M, size = samples.class_counts, samples.n_target, effective_size(samples, priors)
        share = M / (M + size)
        of_class = np.divide(priors, n, out=np.zeros_like(priors), where=n > 0)
        mean = share * samples.frequencies(decision)
        mean += (1 - share) * samples.confusion(decision) @ priors
        return cls(mean, (share / M, (1 - share) * of_class))


def mixture_covariance(samples: Samples, decision: Decision, priors: Vector) -> Vector:
    """Return the covariance of one row under p, from both sides, centred at the common mean."""
    mixture = Mixed.of(samples, decision, priors)
    of_target, of_class = mixture.row_weights
    total = _second_moment(samples.y_proba_target, decision, mixture.mean, None) * of_target
    weight = of_class[samples.y_val]
    return total + _second_moment(samples.y_proba_val, decision, mixture.mean, weight)


def _second_moment(
    y_proba: Floats, decision: Decision, mean: Vector, weight: Vector | None
) -> Vector:
    total = np.zeros((mean.size, mean.size))
    for rows, block in decision_blocks(y_proba, decision):
        block -= mean
        total += block.T @ (block if weight is None else weight[rows, None] * block)
    return total


def _parts(n_rows: int, n_draws: int) -> list[slice]:
    step = max(1, ENTRIES // n_draws)
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
