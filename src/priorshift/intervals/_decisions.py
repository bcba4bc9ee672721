"""Intervals from counts of hard decisions alone, without the rows of target or validation."""

from dataclasses import dataclass

import numpy as np

from priorshift._typing import Mask, Vector
from priorshift.intervals._bayesian import credible_interval, posterior_draws
from priorshift.intervals._bootstrap import bootstrap_draws, bootstrap_interval
from priorshift.intervals._interval import IntervalRequest, PriorInterval
from priorshift.intervals._votes import Votes, unmixing

JEFFREYS = 0.5
"""Hyper-prior of the target priors. A larger one says that no class is rare: of classes below 1 %
credible intervals under Dirichlet(3) held 44 % at K = 10, and 71 % at K = 100 (simulated)."""

SHRINKAGE = 2.0
"""Pseudo-counts of each confusion column, spread as the model expects it."""

LEAST_CELL = 0.01
"""Counts and pseudo-counts of a cell, below which it is taken to be empty: it saves time."""


@dataclass(frozen=True)
class HardDecisions:
    """Counts of hard decisions on validation and target.

    Examples
    --------
    >>> import numpy as np
    >>> V, n = np.array([[80.0, 20.0], [20.0, 80.0]]), np.array([100.0, 100.0])
    >>> decisions = HardDecisions(V, n, pooled_columns(V))
    >>> request = IntervalRequest(0.95, np.random.default_rng(0))
    >>> decisions.interval(np.array([0.5, 0.5]), request).interval.round(2)
    array([[0.35, 0.65],
           [0.35, 0.65]])
    """

    validation: Vector  # by true class, (D, K); weighted rows count as what they are worth
    target: Vector  # (D,), in rows
    model: Vector  # columns that join the counts where these are few; each adds up to 1
    tempered: Vector | None = None  # the same at the temperature that fits validation best

    def among(self, seen: Mask) -> "HardDecisions":
        """Return the same among some of the classes; decisions for others remain decisions."""
        tempered = None if self.tempered is None else self.tempered[:, seen]
        return HardDecisions(self.validation[:, seen], self.target, self.model[:, seen], tempered)

    @property
    def votes(self) -> Votes:
        """The moments of the votes, as on the rows that were counted."""
        return Votes.of_counts(self.validation, self.target, self.model, self.tempered)

    def interval(self, priors: Vector, request: IntervalRequest) -> PriorInterval:
        r"""Bound the priors by the requested method, by default by standard errors.

        A bootstrap draws new counts: resampling rows within classes amounts to the same. The joint
        posterior of priors and confusion matrix is that under :math:`p \sim \mathrm{Dir}(1/2)` and
        :math:`C_k \sim \mathrm{Dir}(2\, C^m_k)`.
        """
        if request.method == "bayesian":
            pseudo = SHRINKAGE * self.model
            pseudo[self.validation + pseudo < LEAST_CELL] = 0
            population, sample = posterior_draws(
                self.validation,
                self.target,
                alpha=JEFFREYS,
                pseudo_counts=pseudo,
                n_draws=request.n_resamples,
                random_state=request.rng,
            )
            draws = population if request.estimand == "population" else sample
            return credible_interval(draws, priors, request)
        if request.method != "bootstrap":
            return self.votes.interval(priors, request)
        sizes = np.maximum(np.rint(self.validation.sum(axis=0)), 1).astype(np.int64)
        columns = self.validation / self.validation.sum(axis=0)
        q, n_target = self.target / self.target.sum(), int(np.rint(self.target.sum()))

        def replicate(rng: np.random.Generator) -> Vector:
            drawn, found = rng.multinomial(sizes, columns.T).T / sizes, rng.multinomial(n_target, q)
            return unmixing(drawn, found / n_target, n_target) @ found / n_target

        draws = bootstrap_draws(replicate, request.n_resamples, request.rng)
        centre = unmixing(columns, q, n_target) @ q
        return bootstrap_interval(draws, centre, priors, n_target, request)


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
