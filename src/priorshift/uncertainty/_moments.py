r"""Standard errors of confusion-matrix methods: noise of the target and of validation together.

All of them solve :math:`q = C p`, so each row's decisions d carry a *vote* :math:`v = C^{-1} d`,
and the mean vote of the target is the raw solution :math:`\hat p = C^{-1} q`. With :math:`T_{km}`
the variance of vote m within class k, the delta method gives

.. math:: \mathrm{Var}(\hat p_m) = \frac{\mathrm{Var}_{target}(v_m)}{M}
    + \sum_k \frac{p_k^2\, T_{km}}{n_k},

the diagonal of :math:`C^{-1} \Sigma C^{-T}` with :math:`\Sigma = \mathrm{Cov}_{target}(d)/M +
\sum_k p_k^2 S_k / n_k`, without any K x K x K array. For the share among these very rows the first
term is :math:`\sum_k p_k T_{km} / M` instead: the labels' own noise is left out.

A column of C from a handful of rows may look like another one, and then the inverse explodes: with
3 rows of the rarest of 121 classes intervals were 0.7 wide. So the C that is inverted has a few
rows of the model's own column :math:`C^m_k = \sum_x f_k f / \sum_x f_k` added to each.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from priorshift._blocks import row_blocks
from priorshift._typing import Floats, Indices, Vector
from priorshift.execution import Rows, map_reduce, map_rows, single_threaded_blas
from priorshift.statistics import Confusion, Decision
from priorshift.uncertainty._interval import IntervalRequest, PriorInterval, score_bounds

SHRINKAGE = 2.0
"""Rows of a model-based class that join each class's own: with few rows, none may differ."""

ERRORS = 0.5
"""Mistakes added to each class: few rows may show none, and yet they occur (as Jeffreys' prior)."""

WEAK = 1.5
"""Noise of a column of C, relative to what tells classes apart, beyond which intervals may fail."""


@dataclass(frozen=True)
class Votes:
    r"""Moments of the votes :math:`v = C^{-1} d` on validation and target.

    Attributes
    ----------
    raw : ndarray of shape (K,)
        Mean vote of the target: the unconstrained solution of q = C p, model-based rows in C.
    target_variance : ndarray of shape (K,)
        Variance of a target row's votes.
    within : ndarray of shape (K, K)
        T[k, m], the variance of vote m among rows of class k.
    n_target : float
    n_validation : ndarray of shape (K,)
        Rows of each class, an effective number where rows are weighted, and the model's.
    """

    raw: Vector
    target_variance: Vector
    within: Vector
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
    ) -> "Votes":
        """Take the moments; every class needs a row on validation.

        The target may be a table; it is gone through once.
        """
        weight = np.ones(y.size) if sample_weight is None else sample_weight
        with single_threaded_blas():
            model_columns = _model_columns(y_proba, weight, confusion.decision)
        n = confusion.class_weights**2 / np.bincount(y, weight**2, minlength=model_columns.shape[0])
        with single_threaded_blas():
            B = invert(_joined(confusion.conditional, model_columns, n))
            own, model = _second_moments(y_proba, y, weight, B, confusion.decision)
            mean, square = _target_moments(y_proba_target, B, confusion.decision)
        within = _shrink(own, model, n) + _unseen_errors(model[0], n)
        variance = np.maximum(square - mean**2, 0)
        return cls(mean, variance, within, y_proba_target.shape[0], n + SHRINKAGE)

    @classmethod
    def of_counts(cls, validation: Vector, target: Vector, model: Vector) -> "Votes":
        """Take the moments of hard decisions, from their counts and the model's own columns.

        Parameters
        ----------
        validation : ndarray of shape (K, K)
            Decisions by true class.
        target : ndarray of shape (K,)
        model : ndarray of shape (K, K)
            Columns that add up to 1: what the rows of a class do if the classifier is right.
        """
        n, n_target = validation.sum(axis=0), float(target.sum())
        C, q = validation / n, target / n_target
        B = invert(_joined(C, model, n))
        powers = (B, B**2)
        own, modelled = (np.array([(b @ columns).T for b in powers]) for columns in (C, model))
        mean, square = (b @ q for b in powers)
        within = _shrink(own, modelled, n) + _unseen_errors(modelled[0], n)
        return cls(mean, np.maximum(square - mean**2, 0), within, n_target, n + SHRINKAGE)

    @property
    def weak(self) -> bool:
        """Whether validation is too small for errors of C to pass through its inverse linearly."""
        return bool((self.within.sum(axis=1) > WEAK * self.n_validation).any())

    def variance(self, estimand: str) -> Vector:
        """Return the variance of the raw solution about the population's or the sample's share."""
        target = self.target_variance
        if estimand == "sample":
            target = np.maximum(self.raw, 0) @ self.within
        return target / self.n_target + self._validation_variance

    def interval(self, priors: Vector, request: IntervalRequest) -> PriorInterval:
        r"""Bound each prior: the values from which the raw solution is at most z errors away.

        The error is that at the bound, not at the estimate, because a class's own share of the
        variance, :math:`(p (1 - p) + p\,T_{mm}) / M`, moves with p. A class never decided for has
        an upper bound above 0, Wilson's where no mistakes are made. Lower bounds lie halfway to
        :math:`\hat p - z\,SE`: mistakes on other classes look like rows of a class that is hardly
        there.
        """
        M, own = self.n_target, np.diagonal(self.within)
        positive = np.maximum(self.raw, 0)
        variance = self.variance(request.estimand)
        labels = 1.0 if request.estimand == "population" else 0.0
        slope, curve = (labels + own) / M, np.full_like(own, -labels / M)
        # what does not move with p, by the target's spread and by mistakes seen on validation
        others = (positive @ self.within - positive * own) / M + self._validation_variance
        constant = np.maximum(variance - slope * self.raw - curve * self.raw**2, others)
        z, error = request.z(priors.size), np.sqrt(variance)
        lower, upper = score_bounds(self.raw, z, constant, slope, curve)
        lower = np.minimum(lower, 0.5 * (lower + self.raw - z * error))
        return PriorInterval.around(priors, lower, upper, error, "asymptotic")

    @property
    def _validation_variance(self) -> Vector:
        return (self.raw**2 / self.n_validation) @ self.within


def invert(C: Vector) -> Vector:
    """Return C^-1, or its pseudo-inverse where it is singular.

    Examples
    --------
    >>> import numpy as np
    >>> invert(np.array([[0.8, 0.2], [0.2, 0.8]])).round(3)
    array([[ 1.333, -0.333],
           [-0.333,  1.333]])
    """
    limit = max(C.shape) * float(np.finfo(np.float64).eps)
    try:
        inverse = np.linalg.inv(C).astype(np.float64, copy=False)
        with np.errstate(over="ignore"):  # an infinite norm is too large as well
            if np.linalg.norm(C) * np.linalg.norm(inverse) * limit < 1:
                return inverse
    except np.linalg.LinAlgError:
        pass
    return np.linalg.pinv(C, rcond=limit).astype(np.float64, copy=False)


def solve(C: Vector, q: Vector) -> Vector:
    """Solve C p = q, by the pseudo-inverse where C is singular."""
    try:
        return np.linalg.solve(C, q).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        return invert(C) @ q


def _decide(block: Floats, B: Vector, decision: Decision) -> Vector:
    """Return the votes of some rows."""
    if decision == "hard":
        return B.T[block.argmax(axis=1)]
    return block.astype(np.float64, copy=False) @ B.T


def _target_moments(y_proba: Rows, B: Vector, decision: Decision) -> tuple[Vector, Vector]:
    """Return the mean of each vote and of its square."""
    n, K = y_proba.shape
    kernel = partial(_sum_votes, B=B, decision=decision)
    mean, square = map_reduce(kernel, y_proba, work=n * K**2 / 16) / n
    return mean, square


def _sum_votes(block: Floats, rows: slice, *, B: Vector, decision: Decision) -> Vector:  # noqa: ARG001
    votes = _decide(block, B, decision)
    return np.array([votes.sum(axis=0), np.einsum("im,im->m", votes, votes)])


def _second_moments(
    y_proba: Floats, y: Indices, weight: Vector, B: Vector, decision: Decision
) -> tuple[Vector, Vector]:
    """Return mean and mean square of votes by class, as labelled and as predicted: (2, K, K)."""
    n, K = y_proba.shape

    def kernel(part: slice) -> tuple[Vector, Vector, Vector]:
        own, model, mass = np.zeros((2, K, K)), np.zeros((2, K, K)), np.zeros(K)
        for rows in row_blocks(part, K, 2**23):
            label, size = y[rows], rows.stop - rows.start
            of_class = csr_array((weight[rows], label, np.arange(size + 1)), shape=(size, K)).T
            likely = (y_proba[rows] * weight[rows, None]).T.astype(np.float64, copy=False)
            votes = _decide(y_proba[rows], B, decision)
            mass += likely.sum(axis=1)
            for power in (0, 1):
                own[power] += of_class @ votes
                model[power] += likely @ votes
                votes = votes**2
        return own, model, mass

    parts = map_rows(kernel, n, work=n * K**2 / 16, n_parts=2)
    own, model, mass = (np.sum(part, axis=0) for part in zip(*parts, strict=True))
    own /= np.bincount(y, weight, minlength=K)[:, None]
    model /= np.maximum(mass, np.finfo(np.float64).tiny)[:, None]
    return own, model


def _model_columns(y_proba: Floats, weight: Vector, decision: Decision) -> Vector:
    """Return the mean decision under each class as the classifier itself sees it, (K, K)."""
    n, K = y_proba.shape
    unchanged = np.eye(K)

    def kernel(part: slice) -> Vector:
        sums = np.zeros((K, K))
        for rows in row_blocks(part, K, 2**23):
            likely = (y_proba[rows] * weight[rows, None]).astype(np.float64, copy=False)
            if decision == "hard":
                sums += unchanged[y_proba[rows].argmax(axis=1)].T @ likely
            else:
                sums += y_proba[rows].astype(np.float64, copy=False).T @ likely
        return sums

    sums = np.sum(map_rows(kernel, n, work=n * K**2 / 16, n_parts=2), axis=0)
    mass = sums.sum(axis=0)
    return np.divide(sums, mass, out=unchanged, where=mass > 0)


def _joined(C: Vector, model: Vector, n: Vector) -> Vector:
    """Return confusion columns of rows joined by a few model-based ones."""
    return (n * C + SHRINKAGE * model) / (n + SHRINKAGE)


def _shrink(own: Vector, model: Vector, n: Vector) -> Vector:
    """Return the within-class variances of rows of a class joined by a few model-based ones."""
    share = (SHRINKAGE / (n + SHRINKAGE))[:, None]
    mean, square = (1 - share) * own + share * model
    correction = (n + SHRINKAGE) / (n + SHRINKAGE - 1)
    return np.maximum(square - mean**2, 0) * correction[:, None]


def _unseen_errors(mean_votes: Vector, n: Vector) -> Vector:
    """Return the variance that a fraction of one mistake adds, where the model expects it."""
    wrong = np.maximum(mean_votes, 0)
    np.fill_diagonal(wrong, 0)
    wrong /= np.maximum(wrong.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    np.fill_diagonal(wrong, 1)
    return wrong * (ERRORS / (n + ERRORS))[:, None]
