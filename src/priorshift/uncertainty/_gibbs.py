r"""Gibbs sampling of priors and confusion matrix together, from counts of hard decisions.

The joint model of Ziegler and Czyż (2023): validation counts :math:`V_{\cdot k}` and the unknown
target counts :math:`N_{\cdot k}` of class k both follow its column of C. Every round draws

.. math:: N_{d\cdot} \sim \mathrm{Multinomial}(n_d, r_{d\cdot}),\ r_{dk} \propto p_k C_{dk}; \qquad
    p \sim \mathrm{Dir}(\alpha + N_{\cdot k}); \qquad
    C_{\cdot k} \sim \mathrm{Dir}(V_{\cdot k} + N_{\cdot k} + \beta_{\cdot k}).
"""

from dataclasses import dataclass

import numpy as np

from priorshift._typing import Vector
from priorshift.execution import map_rows

N_CHAINS = 4
WARM_UP = 0.5
"""Rounds thrown away, as a share of those kept."""

TINY = 1e-300


@dataclass(frozen=True)
class PosteriorDraws:
    """Draws of a posterior, chains one after the other.

    Attributes
    ----------
    priors : ndarray of shape (n_draws, K)
        Of the population's shares.
    realised : ndarray of shape (n_draws, K)
        Of the shares among the target's own rows.
    """

    priors: Vector
    realised: Vector


def posterior_draws(
    confusion_counts: Vector,
    decision_counts: Vector,
    *,
    alpha: float | Vector = 1.0,
    pseudo_counts: float | Vector = 0.0,
    n_draws: int = 1000,
    thin: int = 2,
    random_state: int | np.random.Generator | None = None,
) -> PosteriorDraws:
    """Draw target priors from their posterior, given counts of hard decisions.

    Parameters
    ----------
    confusion_counts : ndarray of shape (K, K)
        Decisions by true class on validation, `Confusion.counts`.
    decision_counts : ndarray of shape (K,)
        Decisions on the target.
    alpha : float or ndarray of shape (K,), default=1
        Dirichlet hyper-prior of the target priors.
    pseudo_counts : float or ndarray of shape (K, K), default=0
        Dirichlet hyper-prior of the columns of the confusion matrix, added to its counts. With 0
        what validation never saw is taken to be impossible.
    n_draws : int, default=1000
        Draws kept.
    thin : int, default=2
        Rounds a draw.
    random_state : None, int or numpy.random.Generator, optional

    Returns
    -------
    PosteriorDraws

    Examples
    --------
    A classifier without mistakes leaves Dirichlet(1 + counts):

    >>> import numpy as np
    >>> V, n = np.diag([1000.0, 1000.0]), np.array([30.0, 10.0])
    >>> draws = posterior_draws(V, n, n_draws=4000, random_state=0)
    >>> bool(abs(draws.priors[:, 0].mean() - 31 / 42) < 0.01)
    True
    >>> draws.realised[0]
    array([0.75, 0.25])
    """
    seeds = np.random.default_rng(random_state).integers(2**63, size=N_CHAINS)
    fixed = np.asarray(confusion_counts, np.float64) + pseudo_counts
    counts = np.rint(decision_counts).astype(np.int64)
    alpha = np.broadcast_to(np.asarray(alpha, np.float64), counts.shape)
    n_kept = -(-n_draws // N_CHAINS)

    def kernel(part: slice) -> list[Vector]:
        return [_chain(fixed, counts, alpha, n_kept, thin, seed) for seed in seeds[part]]

    work = float(n_draws * thin * fixed.size * 16)  # random numbers cost more than products
    parts = map_rows(kernel, N_CHAINS, work=work, n_parts=N_CHAINS)
    draws = np.concatenate([chain for part in parts for chain in part], axis=1)[:, :n_draws]
    return PosteriorDraws(draws[0], draws[1])


def _chain(
    fixed: Vector, counts: np.ndarray, alpha: Vector, n_kept: int, thin: int, seed: int
) -> Vector:
    """Run one chain; return its draws of population and realised shares, (2, n_kept, K)."""
    rng = np.random.default_rng(seed)
    observed, total = counts > 0, counts.sum()
    p = rng.dirichlet(np.maximum(alpha, 1.0))
    C = fixed / fixed.sum(axis=0)
    draws = np.empty((2, n_kept, alpha.size))
    allocated = np.zeros_like(fixed)
    warm_up = int(WARM_UP * n_kept * thin)
    for step in range(warm_up + n_kept * thin):
        joint = C[observed] * p + TINY
        joint /= joint.sum(axis=1, keepdims=True)
        allocated[observed] = rng.multinomial(counts[observed], joint)
        of_class = allocated.sum(axis=0)
        p = _dirichlet(alpha + of_class, rng)
        C = _dirichlet(fixed + allocated, rng)
        kept, rest = divmod(step - warm_up, thin)
        if kept >= 0 and rest == 0:
            draws[:, kept] = p, of_class / total
    return draws


def _dirichlet(concentration: Vector, rng: np.random.Generator) -> Vector:
    """Draw a Dirichlet vector, or one a column; a concentration of 0 gives 0."""
    gamma = rng.standard_gamma(concentration)
    return gamma / np.maximum(gamma.sum(axis=0), TINY)
