"""What a solver hands back, and what its status means to a user."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from priorshift._typing import Vector

Status = Literal["certified", "stationary", "direct", "not_converged"]

ADVICE: dict[str, str] = {
    "certified": "the objective is within `gap` of its optimum, whatever the start",
    "stationary": "a fixed point of a problem that is not concave; other starts may end elsewhere",
    "direct": "a closed-form solution; there is nothing to converge",
    "not_converged": "stopped short of its tolerance, by at most `gap` from the optimum",
}
"""One sentence a status, for messages and reports."""


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
    """

    value: Vector
    status: Status
    gap: float | None = None
    n_iter: int = 0
    objective: float | None = None

    @classmethod
    def judged(
        cls, value: Vector, gap: float, tol: float, n_iter: int, objective: float
    ) -> "Solution":
        """Return a solution that is "certified" if its gap is at most `tol`."""
        status: Status = "certified" if gap <= tol else "not_converged"
        # rounding may leave a gap below 0 by some units in the last place of T
        bound = max(gap, 0.0) if np.isfinite(gap) else None
        return cls(value, status, bound, n_iter, objective)
