"""ELSA: moments of validation and target, weighted by what each row can tell."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from priorshift._typing import Floats, Indices, Mask, Vector
from priorshift._validation import check_count, check_positive
from priorshift.estimators.base import PriorEstimator
from priorshift.estimators.counts import SeenChance, SeenTarget, Validation
from priorshift.estimators.inversion import judge_condition, say_clipped
from priorshift.estimators.references import TIAN
from priorshift.estimators.result import PriorEstimate
from priorshift.exceptions import ConvergenceWarning, PriorShiftWarning, warn_user
from priorshift.execution import Block, Rows, map_reduce, multiply, single_threaded_blas, times
from priorshift.solvers import (
    Solution,
    Status,
    clip_to_simplex,
    invert,
    simplex_least_squares,
    solve_linear,
)
from priorshift.statistics import Confusion

LEAST_RATIO = 0.25
"""A ratio counts as at least this in the weights of rows, or single rows of classes that were
clipped to 0 would decide everything; the equations hold for any weights."""

INFEASIBLE = 0.1
"""Sum of negative priors up to which they are clipped. Beyond it the solution of few rows explodes
(to 12.5 and -12 where 0.06 and 0.92 were true), and what is left after clipping is arbitrary."""

UNKNOWN = 0.2
"""Standard error of a prior from which on a warning says that next to nothing is known."""

RIDGE = 0.01
"""Of the whitening, relative to the size of the noise."""

FREE_ROUNDS = 3
"""Rounds after which row weights move only half way to the new ratio, so as not to alternate."""


class ELSA(PriorEstimator):
    r"""Efficient label-shift adaptation by estimating equations (Tian et al., 2023).

    With n validation samples of label frequencies p and m target samples, the ratio
    :math:`w_k = P_k / p_k` solves

    .. math:: \frac1n \sum_i b_w(x_i)\, w_{y_i} = \frac1m \sum_j b_w(x_j), \quad p \cdot w = 1,
        \qquad b_w(x) = \frac{f(x) - p}{\sum_k w_k^2 f_k(x) / \pi + \sum_k w_k f_k(x) / (1 - \pi)}

    with :math:`\pi = n / (n + m)`. The denominator makes the equations efficient where outputs are
    calibrated; where they are not, the equations still hold. They are linear in w for given row
    weights, which are renewed in rounds from equal ones. Where the solution of few validation rows
    is far from feasible, w is the feasible ratio that comes nearest to solving the equations.

    Parameters
    ----------
    tol : float, default=1e-4
        Change of the priors, in L1, at which the rounds end.
    max_iter : int, default=10
        Largest number of rounds.

    References
    ----------
    Tian, Zhang, Zhao: ELSA: Efficient Label Shift Adaptation through the Lens of Semiparametric
    Models. ICML 2023.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_val = np.array([0, 0, 1, 1])
    >>> y_proba_val = np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.2, 0.8]])
    >>> y_proba = np.array([[0.8, 0.2], [0.8, 0.2], [0.2, 0.8]])
    >>> shift = ps.ELSA().fit(y_proba_val, y_val).estimate(y_proba)
    >>> shift.priors.round(2), shift.status
    (array([0.67, 0.33]), 'stationary')
    """

    name = "elsa"
    _decision = "soft"
    keeps_rows = True
    summary = "matches moments of validation and target, rows weighted by what they tell"
    reference = TIAN

    def __init__(self, *, tol: float = 1e-4, max_iter: int = 10) -> None:
        self.tol, self.max_iter = tol, max_iter

    def _estimate(self, y_proba: Rows) -> PriorEstimate:
        tol, max_iter = check_positive(self.tol, "tol"), check_count(self.max_iter, "max_iter")
        target = self._seen_target(y_proba, self.name)
        if target.empty:
            return self._only_unseen(target, y_proba.shape[0])
        with single_threaded_blas():
            rounds = _Equations.of(self._validation_rows(), target).solve(tol, max_iter)
            condition = judge_condition(self, rounds.matrix)
        self._warn(rounds, tol, target)
        status: Status = "stationary" if rounds.change <= tol else "not_converged"
        return self._result(
            target.complete(rounds.priors),
            Solution(rounds.priors, status, None, rounds.n_iter),
            y_proba.shape[0],
            raw=target.complete(rounds.raw),
            condition_number=condition,
            unseen_classes=self._unseen(target),
        )

    def _warn(self, rounds: "_Rounds", tol: float, target: SeenTarget) -> None:
        """Say that the equations have no feasible solution, or that the rounds did not settle."""
        if said := say_clipped(rounds.raw, self.classes_[target.seen]):
            warn_user(f"elsa found {said}.", PriorShiftWarning)
        if _is_infeasible(rounds.raw) or rounds.error > UNKNOWN:
            warn_user(
                "validation is too small for elsa: its priors may be far off (one has a standard "
                f"error of {min(rounds.error, 1.0):.2g} before they are made feasible). Add "
                "validation rows, or use SCM-L or Auto.",
                PriorShiftWarning,
            )
        if rounds.change > tol:
            warn_user(
                f"elsa has not settled after {rounds.n_iter} rounds: the last one moved the priors "
                f"by {rounds.change:.2g} in L1; raise max_iter or tol.",
                ConvergenceWarning,
            )


class _Rounds(NamedTuple):
    """Where the rounds ended.

    Priors, those before they were made feasible, the matrix, the number of rounds, the last change,
    and the largest standard error of a raw prior.
    """

    priors: Vector
    raw: Vector
    matrix: Vector
    n_iter: int
    change: float
    error: float


@dataclass(frozen=True)
class _Equations:
    """The estimating equations, among the classes that validation saw."""

    source: Floats
    y: Indices
    source_weight: Vector
    target: SeenTarget
    p: Vector

    @classmethod
    def of(cls, rows: Validation, target: SeenTarget) -> "_Equations":
        assert rows.y is not None
        weight = np.ones(rows.y.size) if rows.sample_weight is None else rows.sample_weight
        labelled = np.bincount(rows.y, weight, target.seen.size)[target.seen]
        index = np.cumsum(target.seen) - 1
        return cls(
            _among(rows.y_proba, target.seen),
            index[rows.y],
            weight * target.seen[rows.y],
            target,
            labelled / labelled.sum(),
        )

    def solve(self, tol: float, max_iter: int) -> _Rounds:
        """Solve for the ratio in rounds, each with the row weights of the last."""
        priors, change, n_iter, noise = self.p, np.inf, 0, None
        w = np.ones_like(self.p)
        while n_iter < max_iter and change > tol:
            matrix, moments = self._linear(noise)
            raw, last = solve_linear(matrix, moments) * self.p, priors
            priors = clip_to_simplex(raw)
            if _is_infeasible(raw):
                whiten = self._whitening(noise)
                C, q = whiten @ matrix / self.p, whiten @ moments
                priors = simplex_least_squares(C, q, tol=1e-9).value
            change = float(np.abs(priors - last).sum()) if n_iter else np.inf
            n_iter += 1
            w += (1.0 if n_iter <= FREE_ROUNDS else 0.5) * (priors / self.p - w)
            noise = self._noise(w)
        error = self._standard_error(priors / self.p, noise, matrix)
        return _Rounds(priors, raw, matrix, n_iter, change, error)

    def _linear(self, noise: Vector | None) -> tuple[Vector, Vector]:
        """Return the equations as a square system, rows weighted by 1 / (f . noise).

        They sum to 0 on both sides, so adding p . w = 1 to each makes them determine w, whatever
        the order of classes. Weights are scaled to 1 on average in the target.
        """
        summed, total = map_reduce(
            _TargetMoments(noise, self.target.weight, self.target.seen), self.target.y_proba
        )
        scale = total / self.target.size
        of_source = self.source_weight / scale
        if noise is not None:
            of_source = of_source / multiply(self.source, noise)
        by_class = Confusion.from_arrays(
            self.source, self.y, decision="soft", sample_weight=of_source
        )
        of_classes = by_class.counts - np.outer(self.p, by_class.class_weights)
        matrix = of_classes / self.source_weight.sum() + self.p
        return matrix, summed / total - self.p + 1

    def _source_equations(self, noise: Vector | None) -> Vector:
        """Return each validation row's equation, b(x), weights 1 on average: (n, K)."""
        weight = self.source_weight
        if noise is not None:
            weight = weight / multiply(self.source, noise)
        weight = weight * (weight.size / weight.sum())
        return weight[:, None] * (self.source - self.p)

    def _whitening(self, noise: Vector | None) -> Vector:
        """Return what makes the noise of the equations equal in all directions.

        The equations sum to 0, so nothing is known along (1, ..., 1) but p . w = 1, which is exact.
        """
        b = self._source_equations(noise)
        spread = b.T @ b / len(b)
        size = float(np.trace(spread))
        spread += size * (1 + RIDGE * np.eye(self.p.size))
        return np.linalg.cholesky(np.linalg.inv(spread)).T

    def _standard_error(self, w: Vector, noise: Vector | None, matrix: Vector) -> float:
        """Return the largest standard error of a raw prior, from the noise of validation."""
        b = self._source_equations(noise) * np.maximum(w, 1.0)[self.y, None]
        # noise within classes: their sizes are what they are
        size = np.maximum(np.bincount(self.y, minlength=w.size), 1)
        means = np.zeros((w.size, w.size))
        np.add.at(means, self.y, b)
        b -= (means / size[:, None])[self.y]
        b *= np.sqrt(size / np.maximum(size - 1, 1))[self.y, None]
        effect = b @ (invert(matrix).T * self.p) / len(b)
        return float(np.sqrt((effect**2).sum(axis=0).max()))

    def _noise(self, w: Vector) -> Vector:
        """Return what the variance of a row's equation is, as a linear function of the row."""
        n, m = self.source_weight.sum(), self.target.size
        w, share = np.maximum(w, LEAST_RATIO), n / (n + m)
        return w**2 / share + w / (1 - share)


def _is_infeasible(raw: Vector) -> bool:
    return bool(np.minimum(raw, 0).sum() < -INFEASIBLE)


@dataclass(frozen=True)
class _TargetMoments:
    """Return the sum of a block's rows, each weighted by 1 / (f . noise), and of the weights."""

    noise: Vector | None
    weight: SeenChance | None
    seen: Mask

    def __call__(self, block: Block, rows: slice) -> tuple[Vector, float]:  # noqa: ARG002
        weight = np.ones(block.shape[0]) if self.weight is None else self.weight(block)
        block = _among(block, self.seen)
        if self.noise is not None:
            weight = weight / times(block, self.noise)
        return weight @ block.astype(np.float64, copy=False), float(weight.sum())


def _among(y_proba: Floats, seen: Mask) -> Floats:
    """Return predictions among the classes that were seen; equal ones where there is no mass."""
    if seen.all():
        return y_proba
    among = y_proba[:, seen]
    mass = among.sum(axis=1, keepdims=True)
    flat = np.full_like(among, 1 / among.shape[1])
    return np.divide(among, mass, out=flat, where=mass > 0)
