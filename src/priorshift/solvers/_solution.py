"""What a solver returns, and what its status means to a user."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from priorshift._typing import Indices, Vector

Status = Literal["certified", "stationary", "direct", "not_converged"]

ADVICE: dict[str, str] = {
    "certified": "the objective is within `gap` of its optimum, whatever the start",
    "stationary": "converged; this method has no certificate of a global optimum",
    "direct": "a closed-form solution; there is nothing to converge",
    "not_converged": "stopped short of its tolerance, by at most `gap` from the optimum",
}
"""One sentence per status, for messages and reports."""


@dataclass(frozen=True)
class Solution:
    """A solver's answer.

    Attributes
    ----------
    value : ndarray
        The solution.
    status : str
        One of "certified", "stationary", "direct", "not_converged".
    gap : float or None
        Upper bound, in nats, on how far the objective is below its maximum; None where no bound
        exists.
    n_iter : int
        How often the gradient was evaluated, that is, passes over the data.
    objective : float or None
        The objective at `value`, where there is one.
    adapts_to : ndarray or None
        What predictions are adapted to, where that is not `value`: some algorithms were released
        so.
    """

    value: Vector
    status: Status
    gap: float | None = None
    n_iter: int = 0
    objective: float | None = None
    adapts_to: Vector | None = None

    @classmethod
    def judged(
        cls, value: Vector, gap: float, tol: float, n_iter: int, objective: float | None
    ) -> "Solution":
        """Return a solution that is "certified" if its gap is at most `tol`."""
        status: Status = "certified" if gap <= tol else "not_converged"
        # rounding may leave a gap below 0 by some units in the last place of T
        bound = max(gap, 0.0) if np.isfinite(gap) else None
        return cls(value, status, bound, n_iter, objective)


@dataclass(frozen=True)
class Solutions:
    """The answers to many problems of one kind that were solved together.

    Attributes
    ----------
    value : ndarray of shape (G, K)
    status : ndarray of shape (G,), of text
    gap : ndarray of shape (G,)
        As in `Solution`; infinite where no bound exists.
    n_iter : ndarray of shape (G,)
    """

    value: Vector
    status: NDArray[Any]
    gap: Vector
    n_iter: Indices

    @classmethod
    def judged(cls, value: Vector, gap: Vector, tol: float, n_iter: Indices) -> "Solutions":
        """Return solutions that are "certified" where their gap is at most `tol`."""
        return cls(value, np.where(gap <= tol, "certified", "not_converged"), gap, n_iter)

    @classmethod
    def direct(cls, value: Vector) -> "Solutions":
        """Return solutions in closed form."""
        G = value.shape[0]
        return cls(value, np.full(G, "direct"), np.full(G, np.inf), np.zeros(G, dtype=np.intp))
