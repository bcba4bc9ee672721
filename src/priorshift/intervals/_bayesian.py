r"""Credible intervals, from draws of priors and confusion matrix together by Gibbs sampling.

The joint model of Ziegler and Czyż (2023): validation counts :math:`V_{\cdot k}` and the unknown
target counts :math:`N_{\cdot k}` of class k both follow its column of C. Every round draws

.. math:: N_{d\cdot} \sim \mathrm{Multinomial}(n_d, r_{d\cdot}),\ r_{dk} \propto p_k C_{dk}; \qquad
    p \sim \mathrm{Dir}(\alpha + N_{\cdot k}); \qquad
    C_{\cdot k} \sim \mathrm{Dir}(V_{\cdot k} + N_{\cdot k} + \beta_{\cdot k}).

Rounds depend on each other, the more the less a decision says about its class: a weak classifier
needs 50 rounds and more for one independent draw. So there are many chains, side by side in one
array, and each starts from its own draw: C from validation alone, p by EM on it.
"""

import numpy as np
from scipy.sparse import csr_array

from priorshift._typing import Mask, Vector
from priorshift.border import as_generator, map_rows
from priorshift.intervals._interval import IntervalRequest, PriorInterval

N_CHAINS = 100
WARM_UP, THIN = 100, 10
"""Rounds of each chain thrown away, and those from one draw of a chain to its next."""

CHAIN_CELLS = 2**17
"""Cells of the confusion matrices of chains that run side by side, at most."""

TINY = 1e-300

SLICE = 0.1
"""Of the interval from 0: where draws are counted to compare its ends."""


def posterior_draws(
    confusion_counts: Vector,
    decision_counts: Vector,
    *,
    alpha: float | Vector = 1.0,
    pseudo_counts: float | Vector = 0.0,
    n_draws: int = 1000,
    random_state: int | np.random.Generator | None = None,
) -> tuple[Vector, Vector]:
    """Draw target priors from their posterior, given counts of hard decisions.

    Returns the population's shares and those among the target's own rows, (n_draws, K) each, round
    by round: draws N_CHAINS apart are of the same chain.

    Parameters
    ----------
    confusion_counts : ndarray of shape (D, K)
        Decisions by true class on validation, such as `Confusion.counts`.
    decision_counts : ndarray of shape (D,)
        Decisions on the target.
    alpha : float or ndarray of shape (K,), default=1
        Dirichlet hyper-prior of the target priors.
    pseudo_counts : float or ndarray of shape (D, K), default=0
        Dirichlet hyper-prior of the columns of the confusion matrix, added to its counts. Cells
        that are 0 with it are taken to be impossible, and cost no time.
    n_draws : int, default=1000
        Draws kept.
    random_state : None, int or numpy.random.Generator, optional

    Examples
    --------
    A classifier without mistakes leaves Dirichlet(1 + counts):

    >>> import numpy as np
    >>> V, n = np.diag([1000.0, 1000.0]), np.array([30.0, 10.0])
    >>> priors, realised = posterior_draws(V, n, n_draws=4000, random_state=0)
    >>> bool(abs(priors[:, 0].mean() - 31 / 42) < 0.01)
    True
    >>> realised[0]
    array([0.75, 0.25])
    """
    counts = np.rint(decision_counts).astype(np.int64)
    fixed = np.asarray(confusion_counts, np.float64) + pseudo_counts
    alpha = np.broadcast_to(np.asarray(alpha, np.float64), fixed.shape[1:])
    K, total = alpha.size, max(int(counts.sum()), 1)
    # cells of C decision by decision, the likeliest class first, without what is impossible: at
    # K = 100 four cells of five
    of_class = np.argsort(-fixed, axis=1, kind="stable")
    of_class = of_class[:, : max(1, int((fixed > 0).sum(axis=1).max()))]
    fixed = np.take_along_axis(fixed, of_class, axis=1)
    places = (of_class.ravel(), np.arange(of_class.size))
    member = csr_array((np.ones(of_class.size), places), (K, of_class.size))
    n_chains = min(N_CHAINS, n_draws)
    n_kept = -(-n_draws // n_chains)
    rounds = WARM_UP + n_kept * THIN

    def sum_by_class(cells: Vector) -> Vector:
        return np.asarray(member @ cells.reshape(len(cells), -1).T).T

    def draw_columns(concentration: Vector, rng: np.random.Generator) -> Vector:
        gamma = rng.standard_gamma(concentration)
        return gamma / np.maximum(sum_by_class(gamma), TINY)[:, of_class]

    def shares(C: Vector, p: Vector) -> Vector:
        """Return the chance of each class given a decision, r."""
        joint = C * p[:, of_class]
        joint[..., 0] += TINY  # a decision that no class explains is given to its likeliest
        return joint / joint.sum(axis=2, keepdims=True)

    def run(n: int, rng: np.random.Generator) -> Vector:
        """Run n chains; return draws of population and realised shares, (2, n_kept, n, K)."""
        C = draw_columns(np.broadcast_to(fixed, (n, *fixed.shape)), rng)
        # a spread-out start: near-maximal p for each chain's own C and a newly drawn target
        drawn = rng.standard_gamma(np.broadcast_to(counts + 0.5, (n, counts.size)))
        drawn *= (counts.sum() / drawn.sum(axis=1))[:, None]
        p = np.full((n, K), 1 / K)
        for _ in range(60):
            p = sum_by_class(shares(C, p) * drawn[..., None]) + alpha / 2
            p /= p.sum(axis=1, keepdims=True)
        draws = np.empty((2, n_kept, n, K))
        for step in range(1 - WARM_UP, n_kept * THIN + 1):
            allocated = rng.multinomial(counts, shares(C, p)).astype(np.float64)
            found = sum_by_class(allocated)
            p = rng.standard_gamma(alpha + found)
            p /= p.sum(axis=1, keepdims=True)
            C = draw_columns(fixed + allocated, rng)
            if step > 0 and step % THIN == 0:
                draws[:, step // THIN - 1] = p, found / total
        return draws

    # groups do not depend on the number of threads, so neither do the draws
    size = min(max(1, CHAIN_CELLS // fixed.size), n_chains)
    sizes = [min(size, n_chains - first) for first in range(0, n_chains, size)]
    seeds = as_generator(random_state).integers(2**63, size=len(sizes))

    def kernel(part: slice) -> list[Vector]:
        groups = zip(sizes[part], seeds[part], strict=True)
        return [run(n, np.random.default_rng(seed)) for n, seed in groups]

    work = float(n_chains * rounds * fixed.size * 16)  # random numbers cost more than sums
    parts = map_rows(kernel, len(sizes), work=work, n_parts=len(sizes))
    drawn = np.concatenate([group for part in parts for group in part], axis=2)
    priors, realised = drawn.reshape(2, -1, K)[:, :n_draws]
    return priors, realised


def credible_interval(draws: Vector, priors: Vector, request: IntervalRequest) -> PriorInterval:
    r"""Return the interval that holds each prior with the asked probability.

    It leaves out as much below as above, unless the posterior piles up at 0 or at 1; then it is
    :math:`[0, b]` or :math:`[a, 1]`. It is not the shortest interval, because the shortest of few
    draws holds less of the posterior than of the draws; for the same reason the j-th of n draws
    stands for a probability of :math:`j / (n + 1)`.

    Simultaneous: that share of the draws is inside the intervals of all classes at once.

    Examples
    --------
    >>> import numpy as np
    >>> draws = np.random.default_rng(0).dirichlet([30.0, 10.0], 4000)
    >>> request = IntervalRequest(0.9, np.random.default_rng(0))
    >>> credible_interval(draws, np.array([0.75, 0.25]), request).interval.round(1)
    array([[0.6, 0.9],
           [0.1, 0.4]])
    """
    level = request.confidence_level
    if request.simultaneous:  # find the level of each class at which enough draws are inside all
        low, high = level, 1.0
        for _ in range(12):
            middle = 0.5 * (low + high)
            lower, upper = _bounds(draws, middle)
            inside = ((draws >= lower) & (draws <= upper)).all(axis=1).mean()
            low, high = (low, middle) if inside >= level else (middle, high)
        level = high
    lower, upper = _bounds(draws, level)
    return PriorInterval.around(priors, lower, upper, draws.std(axis=0), "bayesian")


def _bounds(draws: Vector, level: float) -> tuple[Vector, Vector]:
    """Return the bounds of each column; from 0, or to 1, where draws pile up there alone."""
    tail = (1 - level) / 2
    lower, upper = np.quantile(draws, [tail, 1 - tail], axis=0, method="weibull")
    (at_zero, most), (at_one, rest) = _piled_up(draws, level), _piled_up(1 - draws, level)
    from_zero, to_one = at_zero & ~at_one, at_one & ~at_zero
    lower = np.where(from_zero, 0.0, np.where(to_one, 1 - rest, lower))
    return lower, np.where(to_one, 1.0, np.where(from_zero, most, upper))


def _piled_up(draws: Vector, level: float) -> tuple[Mask, Vector]:
    """Tell where draws are denser at 0 than at the end b of [0, b]; return b."""
    most = np.quantile(draws, level, axis=0, method="weibull")
    at_most = ((draws > (1 - SLICE) * most) & (draws <= most)).sum(axis=0)
    return (draws <= SLICE * most).sum(axis=0) >= at_most, most
