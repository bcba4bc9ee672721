r"""Estimate priors from calibrated posteriors, shrunk as far as the evidence supports.

Candidates are "p is exactly the source priors", "exactly uniform", and Dirichlet distributions
around either with total :math:`cK` for a grid of c. Each gets its log evidence; the estimate is the
mean of their posterior means, weighted by evidence: Occam's razor decides whether there is a shift
at all, and how far a noisy estimate is drawn back.
"""

from dataclasses import dataclass

import numpy as np

from priorshift._typing import Floats, Vector
from priorshift.adaptation import prior_ratio
from priorshift.solvers import Mixture
from priorshift.solvers._variational import DirichletPosterior, dirichlet_posterior

CONCENTRATIONS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Pseudo-counts a class, from a sparse prior to one that hardly leaves its centre."""


@dataclass(frozen=True)
class ShrunkPriors:
    """Priors, and how they were shrunk.

    Attributes
    ----------
    priors : ndarray of shape (n_classes,)
    alpha : ndarray of shape (n_classes,) or None
        The best candidate's posterior; None where p is known exactly under it.
    centre : str
        "source" or "uniform".
    concentration : float
        Pseudo-counts a class of the best candidate; infinite where p is exactly the centre.
    log_evidence : float
        For the best candidate and against no shift, in nats; 0 if no shift is the best.
    n_iter : int
        Passes over the target.
    converged : bool
    """

    priors: Vector
    alpha: Vector | None
    centre: str
    concentration: float
    log_evidence: float
    n_iter: int
    converged: bool

    @property
    def no_shift(self) -> bool:
        """Whether no candidate has more evidence than the source priors."""
        return self.centre == "source" and bool(np.isinf(self.concentration))


def shrink_by_evidence(y_proba: Floats, source_priors: Vector, tempering: float) -> ShrunkPriors:
    """Estimate the target priors of calibrated posteriors.

    `tempering` is the share of the noise that is the target's own: validation's noise makes the
    rows count for less.
    """
    K = source_priors.size
    uniform = np.full(K, 1 / K)
    problem = Mixture.of(y_proba, scale=prior_ratio(np.ones(K), source_priors))
    nothing = _likelihood(problem, source_priors)
    candidates: list[tuple[str, float, float, Vector, Vector | None]] = [
        ("source", np.inf, 0.0, source_priors, None),
        ("uniform", np.inf, tempering * (_likelihood(problem, uniform) - nothing), uniform, None),
    ]
    n_iter, converged, start = 2, True, None
    for centre, around in (("source", source_priors), ("uniform", uniform)):
        for concentration in CONCENTRATIONS:
            prior = np.maximum(concentration * K * around, 1e-12)
            found: DirichletPosterior = dirichlet_posterior(
                problem, prior, tempering=tempering, start=start
            )
            start, n_iter = found.mean, n_iter + found.n_iter
            converged = converged and found.converged
            evidence = found.log_evidence - tempering * nothing
            candidates.append((centre, concentration, evidence, found.mean, found.alpha))
    evidences = np.array([candidate[2] for candidate in candidates])
    weights = np.exp(evidences - evidences.max())
    priors = weights @ np.array([candidate[3] for candidate in candidates]) / weights.sum()
    centre, concentration, evidence, _, alpha = candidates[int(evidences.argmax())]
    shrunk = ShrunkPriors(
        priors / priors.sum(), alpha, centre, concentration, evidence, n_iter, converged
    )
    if shrunk.no_shift:  # exactly, so that nothing changes at random
        return ShrunkPriors(source_priors, None, centre, concentration, 0.0, n_iter, converged)
    return shrunk


def _likelihood(problem: Mixture, p: Vector) -> float:
    # a prior of 0 may leave a row without probability; such a candidate is out
    with np.errstate(invalid="ignore", over="ignore"):
        likelihood, _ = problem.evaluate(np.maximum(p, 1e-300))
    return likelihood
