"""How each estimator solves for all groups at once, from their counts of decisions."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Vector
from priorshift._validation import check_alpha, check_count, check_positive, some
from priorshift.estimators import (
    BBSE,
    BBSES,
    CM,
    CML,
    CMM,
    SCM,
    SCML,
    SCMM,
    PriorEstimator,
    ShrunkSCML,
)
from priorshift.estimators.inversion import ROUNDING, clip_to_simplex
from priorshift.exceptions import PriorShiftWarning, warn_user
from priorshift.groups._mixtures import Mixtures
from priorshift.groups._newton import maximise_all
from priorshift.solvers import NO_LIKELIHOOD, solve_linear

Likelihood = (CML, SCML, CMM, SCMM, ShrunkSCML)
Inversion = (CM, SCM, BBSE, BBSES)

SUPPORTED = "SCM-L, CM-L, SCM-M, CM-M, the shrunk SCM-L, SCM, CM, BBSE, BBSE-S, EM, MAP or Auto"


@dataclass(frozen=True)
class Found:
    """Priors of each group with what the solver can promise.

    Attributes
    ----------
    priors : ndarray of shape (G, K)
    status : ndarray of shape (G,), of text
    gap : ndarray of shape (G,)
        Infinite where no bound exists.
    n_iter : ndarray of shape (G,)
    """

    priors: Vector
    status: NDArray[Any]
    gap: Vector
    n_iter: NDArray[np.intp]

    @classmethod
    def judged(cls, priors: Vector, gap: Vector, tol: float, n_iter: NDArray[np.intp]) -> "Found":
        """Call certified what has a gap of at most `tol`."""
        return cls(priors, np.where(gap <= tol, "certified", "not_converged"), gap, n_iter)

    @classmethod
    def direct(cls, priors: Vector) -> "Found":
        """Wrap solutions in closed form."""
        G = priors.shape[0]
        return cls(priors, np.full(G, "direct"), np.full(G, np.inf), np.zeros(G, dtype=np.intp))


@dataclass(frozen=True)
class LikelihoodMethod:
    """CM-L, SCM-L, CM-M, SCM-M: one certified maximum a group."""

    confusion: Vector
    excess: Vector
    start: Vector
    tol: float
    max_iter: int
    kind: Literal["likelihood"] = "likelihood"

    @property
    def has_prior(self) -> bool:
        """Whether there is a hyper-prior, so that the number of rows matters."""
        return bool(self.excess.any())

    def informative(self, counts: Vector) -> Vector:
        """Return the weight of decisions that validation knows of, by group."""
        return counts @ (self.confusion.sum(axis=1) > NO_LIKELIHOOD)

    def solve(self, counts: Vector) -> Found:
        """Solve for groups that are informative."""
        possible = self.confusion.sum(axis=1) > NO_LIKELIHOOD
        weights = np.ascontiguousarray(np.maximum(counts[:, possible], 0))
        problem = Mixtures.of(self.confusion[possible], weights, self.excess)
        solved = maximise_all(problem, self.start, tol=self.tol, max_iter=self.max_iter)
        return Found.judged(solved.priors, solved.gap, self.tol, solved.n_iter)


@dataclass(frozen=True)
class InversionMethod:
    """CM, SCM, BBSE, BBSE-S: one system with as many right-hand sides as groups, clipped."""

    confusion: Vector
    source: Vector | None
    name: str
    kind: Literal["inversion"] = "inversion"
    has_prior: Literal[False] = False

    def informative(self, counts: Vector) -> Vector:
        """Return the weight of decisions by group."""
        return counts.sum(axis=1)

    def solve(self, counts: Vector) -> Found:
        """Solve for groups that have rows; warn once of those that were clipped."""
        q = counts / counts.sum(axis=1, keepdims=True)
        if self.source is None:
            raw = solve_linear(self.confusion, q.T).T
        else:
            ratio = solve_linear(self.confusion * self.source, q.T).T
            raw = ratio * self.source
        negative = (raw < -ROUNDING).any(axis=1)
        if negative.any():
            warn_user(
                f"{self.name} found negative entries, the lowest {raw.min():.3g}, in "
                f"{np.count_nonzero(negative)} of {raw.shape[0]} groups, and set them to 0. CM-L "
                "and SCM-L need no clipping.",
                PriorShiftWarning,
            )
        return Found.direct(clip_to_simplex(raw))


Method = LikelihoodMethod | InversionMethod


def method_of(estimator: PriorEstimator) -> Method:
    """Return how a fitted estimator with a confusion matrix solves for groups, or refuse."""
    if not isinstance(estimator, (*Likelihood, *Inversion)):
        raise ValueError(f"{type(estimator).__name__} does not estimate groups; use {SUPPORTED}.")
    seen = estimator.confusion_.seen
    if not seen.all():
        raise ValueError(
            f"validation has no sample of class {some(estimator.classes_[~seen].tolist())}, so a "
            "confusion matrix cannot tell its share in a group, nor how far to pool; add samples, "
            "give rows in memory with pooling=None and no weights or confidence_level, which "
            "estimates each group by itself, or use EM or MAP with source_priors."
        )
    if getattr(estimator, "solver", "certified") != "certified":
        raise ValueError("groups are solved to a certificate; use solver='certified'.")
    if isinstance(estimator, Inversion):
        return _inversion(estimator)
    return _likelihood(estimator)


def _inversion(estimator: Any) -> InversionMethod:
    C = estimator.confusion_.conditional
    if not isinstance(estimator, BBSE | BBSES):
        return InversionMethod(C, None, estimator.name)
    if estimator.constrained:
        raise ValueError(
            "constrained BBSE does not estimate groups; use SCM-L or CM-L, which keep priors on "
            "the simplex as well."
        )
    return InversionMethod(C, estimator.source_priors_, estimator.name)


def _likelihood(estimator: Any) -> LikelihoodMethod:
    alpha = check_alpha(getattr(estimator, "alpha", 1.0), estimator.classes_.size)
    require_concave(alpha)
    return LikelihoodMethod(
        estimator._columns,
        alpha - 1,
        estimator.source_priors_,
        check_positive(estimator.tol, "tol"),
        check_count(estimator.max_iter, "max_iter"),
    )


def require_concave(alpha: Vector) -> None:
    """Refuse a hyper-prior that makes the problem lose its certificate."""
    if (alpha < 1).any():
        raise ValueError("groups need alpha of at least 1: below, nothing can be certified.")
