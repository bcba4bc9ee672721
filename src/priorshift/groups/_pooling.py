"""What was asked of pooling, and what came of it."""

from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np

from priorshift._typing import Vector
from priorshift.groups._counts import GroupCounts
from priorshift.groups._spread import Spread

Pooling = float | Literal["auto"] | None


@dataclass(frozen=True)
class Pool:
    """How far groups are pooled: the variance v of their priors, and the moments behind it.

    `spread` is None where groups are not pooled; then v is infinite.
    """

    variance: float
    spread: Spread | None = None

    @classmethod
    def of(cls, pooling: Pooling, counts: GroupCounts, C: Vector, priors: Vector) -> "Pool":
        """Settle v: by marginal likelihood, or as asked for."""
        if pooling is None or pooling == 0:
            return cls(np.inf)
        if counts.second is None:
            raise ValueError(
                "pooling needs the products of decisions; count with covariance=True, or give "
                "pooling=None."
            )
        spread = Spread.of(counts, C, priors)
        variance = spread.likeliest_variance() if pooling == "auto" else 1 / (1 + pooling)
        return cls(variance, spread)

    @property
    def strength(self) -> float:
        """Rows that the pooled priors count for: the total of a Dirichlet, v = 1 / (1 + total)."""
        return np.inf if self.variance == 0 else max(1 / self.variance - 1, 0.0)

    @property
    def complete(self) -> bool:
        """Whether groups do not differ at all."""
        return self.variance == 0

    def weights(self, n_groups: int) -> Vector:
        """Return how far each group keeps its own."""
        return np.ones(n_groups) if self.spread is None else self.spread.weights(self.variance)


def check_pooling(pooling: Any) -> Pooling:
    """Check what was asked for."""
    if pooling is None or (isinstance(pooling, str) and pooling == "auto"):
        return pooling  # type: ignore[return-value]
    number = isinstance(pooling, Real) and not isinstance(pooling, bool)
    if not number or not float(pooling) >= 0:
        raise ValueError(
            "pooling must be 'auto', None, or a number of rows of at least 0 that the pooled "
            f"priors count for; got {pooling!r}."
        )
    return float(pooling)
