"""The past of a stream, weighed in three ways at once."""

from dataclasses import dataclass
from typing import Literal

from priorshift._typing import Vector
from priorshift.streaming._averages import Fading, Unit, Window
from priorshift.streaming._leading_history import LeadingHistory

Online = Literal["flh-ftl", "window", "exponential"]
ONLINE: tuple[Online, ...] = ("flh-ftl", "window", "exponential")


@dataclass(frozen=True)
class Past:
    """What each way keeps of the batches so far; little enough to keep all three."""

    leading: LeadingHistory
    window: Window
    fading: Fading
    n_batches: int = 0

    @classmethod
    def empty(cls, n_classes: int, *, window: float, half_life: float, unit: Unit) -> "Past":
        """Return a past without batches."""
        return cls(
            LeadingHistory.empty(n_classes),
            Window.empty(n_classes, length=window, unit=unit),
            Fading.empty(n_classes, half_life=half_life, unit=unit),
        )

    def add(self, counts: Vector) -> "Past":
        """Return the past with the next batch."""
        return Past(
            self.leading.add(counts),
            self.window.add(counts),
            self.fading.add(counts),
            self.n_batches + 1,
        )

    def pooled(self, online: Online) -> Vector:
        """Return the weighted counts of decisions."""
        if online == "flh-ftl":
            return self.leading.pooled
        return self.window.pooled if online == "window" else self.fading.pooled
