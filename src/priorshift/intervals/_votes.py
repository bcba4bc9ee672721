r"""Standard errors of confusion-matrix methods: noise of the target and of validation together.

All of these methods solve :math:`q = C p`, so the decisions d of each row carry a *vote*
:math:`v = C^{-1} d`, and the mean vote of the target is the raw solution :math:`\hat p = C^{-1} q`.
With :math:`T_{km}` the variance of vote m within class k, the delta method gives

.. math:: \mathrm{Var}(\hat p_m) = \frac{\mathrm{Var}_{target}(v_m)}{M}
    + \sum_k \frac{p_k^2\, T_{km}}{n_k},

the diagonal of :math:`C^{-1} \Sigma C^{-T}` with :math:`\Sigma = \mathrm{Cov}_{target}(d)/M +
\sum_k p_k^2 S_k / n_k`, without any K x K x K array. For the share among these very rows the first
term is :math:`\sum_k p_k T_{km} / M` instead: the noise of the labels themselves is left out.

A column of C from a handful of rows may look like another one, and then the inverse explodes. So
the C that is inverted counts a few more rows per class that follow the classifier's own account of
the class, :math:`C^m_k = \sum_x f_k d / \sum_x f_k`. Ten rows may also show none of the mistakes
of a class. So the variances count a few such rows as well, with f at the temperature that fits
validation best: an overconfident classifier expects no mistakes at all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from priorshift._typing import Floats, Indices, Mask, Vector
from priorshift.border import Rows, map_reduce, map_rows, row_blocks, single_threaded_blas
from priorshift.counts import Confusion, Decision, model_columns
from priorshift.intervals._bayesian import credible_interval, posterior_draws
from priorshift.intervals._interval import (
    IntervalRequest,
    PriorInterval,
    bootstrap_interval,
)
from priorshift.solvers import invert

Recalibrate = Callable[[Floats], Floats]
"""Turns a block of outputs into chances of each class."""

JOINED_ROWS = 2.0
"""Rows per class that follow the classifier's own account of it, in the C that is inverted."""

MODEL_ROWS = 4.0
"""The same in the variances, at the best temperature."""

MISTAKES = 0.25
"""Mistakes added to each class: few rows may show none, and yet they occur."""


@dataclass(frozen=True)
class Votes:
    r"""Moments of the votes :math:`v = C^{-1} d` on validation and target.

    Attributes
    ----------
    raw : ndarray of shape (K,)
        Mean vote of the target: the unconstrained solution of q = C p, with the model's rows in C.
    target_variance : ndarray of shape (K,)
        Variance of the votes of a target row.
    within : ndarray of shape (K, K)
        T[k, m], the variance of vote m among rows of class k.
    skewness : ndarray of shape (K, K)
        The third central moment of vote m among rows of class k.
    n_target : float
    n_validation : ndarray of shape (K,)
        Rows of each class (an effective number where rows are weighted), and the model's.
    """

    raw: Vector
    target_variance: Vector
    within: Vector
    skewness: Vector
    n_target: float
    n_validation: Vector

    @classmethod
    def of(
        cls,
        confusion: Confusion,
        y_proba_target: Rows,
        y_proba: Floats,
        y: Indices,
        sample_weight: Vector | None = None,
        recalibrate: Recalibrate | None = None,
    ) -> "Votes":
        """Sum the votes of rows; every class needs a row on validation.

        The target may be a table; it is read once. `recalibrate` turns outputs of validation into
        the chances that the model's rows are weighted by in variances; by default they are chances
        already.
        """
        weight = np.ones(y.size) if sample_weight is None else sample_weight
        n = confusion.class_weights**2 / np.bincount(y, weight**2, confusion.class_weights.size)
        (n_target, K), decision = y_proba_target.shape, confusion.decision
        # votes of many classes are summed in the precision of their rows, in half the time
        precise = K < 500 or y_proba.dtype != np.float32
        precision: Any = np.float64 if precise else np.float32

        def kernel(part: slice) -> tuple[Vector, Vector, Vector]:
            """Sum votes, squares and cubes by class, as labelled and as predicted."""
            own, model, mass = np.zeros((3, K, K)), np.zeros((3, K, K)), np.zeros(K)
            for rows in row_blocks(part, K, 2**23):
                block, w, size = y_proba[rows], weight[rows], rows.stop - rows.start
                of_class = csr_array((w, y[rows], np.arange(size + 1)), shape=(size, K)).T
                likely = block if recalibrate is None else recalibrate(block)
                likely = (likely * w[:, None]).astype(np.float64, copy=False).T
                mass += likely.sum(axis=1)
                likely = likely.astype(precision, copy=False)
                votes = _decide(block, B.astype(precision, copy=False), decision)
                power = votes.copy()
                for i in range(3):
                    own[i] += of_class @ power
                    model[i] += likely @ power
                    power *= votes
            return own, model, mass

        with single_threaded_blas():
            C = n * confusion.conditional + JOINED_ROWS * model_columns(y_proba, weight, decision)
            B = invert(C / (n + JOINED_ROWS))
            parts = map_rows(kernel, y.size, work=y.size * K**2 / 16, n_parts=2)
            of_target = partial(_sum_votes, B=B, decision=decision)
            sums = map_reduce(of_target, y_proba_target, work=n_target * K**2 / 16)
        summed: Any = map(sum, zip(*parts, strict=True))
        own, model, mass = summed
        own /= np.bincount(y, weight, minlength=K)[:, None]
        model /= np.maximum(mass, np.finfo(np.float64).tiny)[:, None]
        mean, square = sums / n_target
        return cls._of_moments(mean, square, own, model, n_target, n)

    @classmethod
    def _of_moments(
        cls, mean: Vector, square: Vector, own: Vector, model: Vector, n_target: float, n: Vector
    ) -> "Votes":
        """Centre the moments within classes, the model's rows joined.

        A fraction of one mistake is added to each class where the model expects its mistakes: it
        takes a vote of 1 from the class and gives it to another one.
        """
        share, size = (MODEL_ROWS / (n + MODEL_ROWS))[:, None], n + MODEL_ROWS
        first, second, third = (1 - share) * own + share * model
        within = np.maximum(second - first**2, 0) * (size / (size - 1))[:, None]
        skewness = third - 3 * first * second + 2 * first**3
        mistakes = _others(np.maximum(model[0], 0))
        np.fill_diagonal(mistakes, 1)
        mistakes *= (MISTAKES / (n + MISTAKES))[:, None]
        within += mistakes
        skewness += mistakes
        np.fill_diagonal(skewness, np.diagonal(skewness) - 2 * np.diagonal(mistakes))
        variance = np.maximum(square - mean**2, 0)
        return cls(mean, variance, within, skewness, n_target, size)

    @classmethod
    def of_counts(
        cls, validation: Vector, target: Vector, model: Vector, tempered: Vector | None = None
    ) -> "Votes":
        """Sum the votes of hard decisions, from their counts and the model's columns.

        Parameters
        ----------
        validation : ndarray of shape (D, K)
            Decisions by true class; there may be more kinds of decisions than classes.
        target : ndarray of shape (D,)
        model : ndarray of shape (D, K)
            Columns that add up to 1: what the rows of a class do if the classifier is right.
        tempered : ndarray of shape (D, K), optional
            The same at the temperature that fits validation best; by default the same.
        """
        n, n_target = validation.sum(axis=0), float(target.sum())
        C, q = validation / n, target / n_target
        B = unmixing((validation + JOINED_ROWS * model) / (n + JOINED_ROWS), q, n_target)
        powers, tempered = (B, B**2, B**3), model if tempered is None else tempered
        own, modelled = (np.array([(b @ columns).T for b in powers]) for columns in (C, tempered))
        return cls._of_moments(B @ q, B**2 @ q, own, modelled, n_target, n)

    @property
    def weak(self) -> bool:
        """Whether validation is too small for errors of C to pass through its inverse linearly."""
        # by the noise of a column of C, relative to what tells classes apart
        return bool((self.within.sum(axis=1) > 1.5 * self.n_validation).any())

    def variance(self, estimand: str) -> Vector:
        """Return the variance of the raw solution about the population's or the sample's share."""
        target = self.target_variance
        if estimand == "sample":
            target = np.maximum(self.raw, 0) @ self.within
        validation = (self.raw**2 / self.n_validation) @ self.within
        return target / self.n_target + validation

    def interval(self, priors: Vector, request: IntervalRequest) -> PriorInterval:
        r"""Bound each prior by the values t that a test does not reject.

        The test compares :math:`U = \hat p_m - t` with the error it has *if t is true*, not with
        the error at the estimate (Lang and Reiczigel, 2014, do so for two classes). The other
        classes share :math:`1 - t` as in the estimate, by :math:`o_k`. Then the variance is

        .. math:: a(t) = \frac{t (1 - t) + t T_{mm} + (1 - t) \sum_k o_k T_{km}}{M}
            + t^2 \frac{T_{mm}}{n_m} + (1 - t)^2 \sum_k o_k^2 \frac{T_{km}}{n_k}

        at validation's own columns. If t is true, validation has been lucky or unlucky, and its
        columns are likelier where they explain U: the mean vote of class k moves by :math:`p_k
        T_{km} U / (n_k v)`, and the variance with it, by the third moment :math:`\kappa`:

        .. math:: v = a + c\,U / v, \qquad
            c(t) = t^3 \frac{\kappa_{mm}}{n_m^2} + (1 - t)^3 \sum_k o_k^3 \frac{\kappa_{km}}{n_k^2}.

        So ten rows without a mistake do not say that mistakes are impossible: a larger share of a
        class whose rows would be mistaken more often remains possible. Only increases count.
        """
        M, n, z = self.n_target, self.n_validation, request.z(priors.size)
        population = request.estimand == "population"
        others, labels = _others(np.maximum(self.raw, 0)), (1.0 if population else 0.0) / M
        # outside [0, 1] it is drawn back half the way before it is compared with a share
        raw = 0.5 * self.raw + 0.5 * np.clip(self.raw, 0, 1)

        # of each moment, what a class itself adds, and what the others do that share the rest
        T, noise, third = self.within / M, self.within / n[:, None], self.skewness / n[:, None] ** 2
        own, by_others = np.diagonal(T), np.einsum("mk,km->m", others, T)
        variance = np.diagonal(noise), np.einsum("mk,km->m", others**2, noise)
        skewness = np.diagonal(third), np.einsum("mk,km->m", others**3, third)
        # a target more diverse than these classes explain is as noisy as it looks
        seen = self.target_variance / M if population else np.zeros_like(raw)
        excess = np.maximum(seen - labels * raw * (1 - raw) - raw * own - (1 - raw) * by_others, 0)

        def accepts(t: Vector) -> Mask:
            rest = 1 - t
            a = labels * t * rest + t * own + rest * by_others + excess
            a = a + t**2 * variance[0] + rest**2 * variance[1]
            c = t**3 * skewness[0] + rest**3 * skewness[1]
            v = 0.5 * (a + np.sqrt(a**2 + 4 * np.maximum(c * (raw - t), 0)))
            return (raw - t) ** 2 <= z**2 * v

        def bound(end: float) -> Vector:
            """Return where U^2 = z^2 v between the estimate and an end, or the end."""
            inside, outside = np.clip(raw, 0, 1), np.full_like(raw, end)
            kept = accepts(outside)
            for _ in range(30):  # halvings of [0, 1] locate the bound
                middle = 0.5 * (inside + outside)
                fits = accepts(middle)
                inside, outside = np.where(fits, middle, inside), np.where(fits, outside, middle)
            return np.where(kept, end, inside)

        error = np.sqrt(self.variance(request.estimand))
        return PriorInterval.around(priors, bound(0.0), bound(1.0), error, "asymptotic")


def _others(shares: Vector) -> Vector:
    """Return by class m (rows) how the other classes share 1, equally if all have 0.

    Parameters
    ----------
    shares : ndarray of shape (K,) or (K, K)
        Of each class; a row per m where they differ.
    """
    K = shares.shape[-1]
    others = np.where(np.eye(K) > 0, 0.0, shares)
    total = others.sum(axis=1, keepdims=True)
    equal = (1 - np.eye(K)) / max(K - 1, 1)
    return np.where(total > 0, others / np.maximum(total, np.finfo(np.float64).tiny), equal)


def _decide(block: Floats, B: Vector, decision: Decision) -> Vector:
    """Return the votes of some rows."""
    if decision == "hard":
        return B.T[block.argmax(axis=1)]
    return block.astype(B.dtype, copy=False) @ B.T


def _sum_votes(block: Floats, _: slice, *, B: Vector, decision: Decision) -> Vector:
    """Return the sum of each vote and of its square."""
    votes = _decide(block, B, decision)
    return np.array([votes.sum(axis=0), np.einsum("im,im->m", votes, votes)])


def unmixing(C: Vector, q: Vector, n_target: float) -> Vector:
    r"""Return B with B C = I, so that shares are B q.

    With more kinds of decisions than classes these are least squares weighted by 1 / q. Votes then
    sum to 1 only if they are made to, along :math:`G 1` with :math:`G = (C^T W C)^{-1}`. So the
    votes of two classes mirror each other.

    Examples
    --------
    >>> import numpy as np
    >>> C = np.array([[0.7, 0.1], [0.1, 0.7], [0.2, 0.2]])
    >>> unmixing(C, np.array([0.3, 0.4, 0.3]), 100.0).sum(axis=0).round(9)
    array([1., 1., 1.])
    """
    if C.shape[0] == C.shape[1]:
        return invert(C)
    scale = 1 / np.sqrt(q + 1 / n_target)
    root = invert(C * scale[:, None])
    B, along = root * scale, root @ root.sum(axis=0)
    return B + np.outer(along / along.sum(), 1 - B.sum(axis=0))


# Counts of hard decisions alone, without the rows of target or validation


def drawn_interval(
    validation: Vector, target: Vector, model: Vector, priors: Vector, request: IntervalRequest
) -> PriorInterval:
    r"""Bound priors by draws from counts of hard decisions: a bootstrap, or their posterior.

    Validation, target and the model's columns are those of `Votes.of_counts`; weighted rows count
    as what they are worth. A bootstrap draws new counts: resampling rows within classes amounts to
    the same. The joint posterior of priors and confusion matrix is that under
    :math:`p \sim \mathrm{Dir}(1/2)` and :math:`C_k \sim \mathrm{Dir}(2\, C^m_k)`.

    Examples
    --------
    >>> import numpy as np
    >>> V, n = np.array([[80.0, 20.0], [20.0, 80.0]]), np.array([100.0, 100.0])
    >>> request = IntervalRequest(0.95, np.random.default_rng(0), method="bootstrap")
    >>> found = drawn_interval(V, n, pooled_columns(V), np.array([0.5, 0.5]), request)
    >>> found.interval.round(1)
    array([[0.3, 0.7],
           [0.3, 0.7]])
    """
    if request.method == "bayesian":
        pseudo = 2.0 * model
        pseudo[validation + pseudo < 0.01] = 0  # next to empty cells would cost time
        # a larger alpha says that no class is rare: of classes below 1 % credible intervals
        # under Dirichlet(3) held 44 % at K = 10, and 71 % at K = 100 (simulated)
        population, sample = posterior_draws(
            validation,
            target,
            alpha=0.5,
            pseudo_counts=pseudo,
            n_draws=request.n_resamples,
            random_state=request.rng,
        )
        draws = population if request.estimand == "population" else sample
        return credible_interval(draws, priors, request)
    sizes = np.maximum(np.rint(validation.sum(axis=0)), 1).astype(np.int64)
    columns = validation / validation.sum(axis=0)
    q, n_target = target / target.sum(), int(np.rint(target.sum()))

    def replicate(rng: np.random.Generator) -> Vector:
        drawn, found = rng.multinomial(sizes, columns.T).T / sizes, rng.multinomial(n_target, q)
        return unmixing(drawn, found / n_target, n_target) @ found / n_target

    centre = unmixing(columns, q, n_target) @ q
    return bootstrap_interval(replicate, centre, priors, n_target, request)


def pooled_columns(validation: Vector) -> Vector:
    """Return columns with the accuracy and the mistakes of all classes together.

    For validation that is known only by its counts: without rows, nothing shows how the classifier
    itself sees a class.

    Examples
    --------
    >>> import numpy as np
    >>> pooled_columns(np.array([[8.0, 0.0, 1.0], [2.0, 9.0, 0.0], [0.0, 0.0, 8.0]])).round(2)
    array([[0.88, 0.1 , 0.04],
           [0.11, 0.88, 0.08],
           [0.02, 0.02, 0.88]])
    """
    K = validation.shape[0]
    right = np.diagonal(validation)
    share = (right.sum() + 0.5) / (validation.sum() + 1)
    wrong = np.tile((validation.sum(axis=1) - right + 1 / K)[:, None], K)
    np.fill_diagonal(wrong, 0)
    return share * np.eye(K) + (1 - share) * wrong / wrong.sum(axis=0)
