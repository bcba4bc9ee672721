"""Two plain ways to weigh the past: the last batches alike, or all of them, ever less."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from priorshift._typing import Vector

Unit = Literal["batches", "rows"]


@dataclass(frozen=True)
class Window:
    """The last batches: so many of them, or as few as hold so many rows.

    Attributes
    ----------
    length : float
        Batches or rows.
    unit : {"batches", "rows"}
    counts : ndarray of shape (n_kept, n_classes)
        Decisions of each batch that is kept, the oldest first.

    Examples
    --------
    >>> import numpy as np
    >>> window = Window.empty(2, length=25, unit="rows")
    >>> for _ in range(9):
    ...     window = window.add(np.array([7.0, 3.0]))
    >>> window.pooled
    array([21.,  9.])
    """

    length: float
    unit: Unit
    counts: Vector

    @classmethod
    def empty(cls, n_classes: int, *, length: float, unit: Unit) -> "Window":
        """Return a window without batches."""
        return cls(length, unit, np.zeros((0, n_classes)))

    @property
    def pooled(self) -> Vector:
        """Decisions of all batches that are kept."""
        return self.counts.sum(axis=0)

    def add(self, counts: Vector) -> "Window":
        """Return the window with the next batch, and without those that are too old."""
        kept = np.vstack([self.counts, counts])
        if self.unit == "batches":
            return Window(self.length, self.unit, kept[-int(self.length) :])
        since = np.cumsum(kept.sum(axis=1)[::-1])[::-1]  # rows from each batch to the last
        enough = np.flatnonzero(since >= self.length)
        return Window(self.length, self.unit, kept[enough[-1] :] if enough.size else kept)


@dataclass(frozen=True)
class Fading:
    r"""All batches, halved in weight every `half_life`: :math:`\sum_s 2^{-(t - s) / h} N_s`.

    Attributes
    ----------
    half_life : float
        Batches or rows.
    unit : {"batches", "rows"}
    pooled : ndarray of shape (n_classes,)
        The weighted decisions.

    Examples
    --------
    >>> import numpy as np
    >>> Fading.empty(2, half_life=1, unit="batches").add(np.array([8.0, 0])).add([0, 8.0]).pooled
    array([4., 8.])
    """

    half_life: float
    unit: Unit
    pooled: Vector

    @classmethod
    def empty(cls, n_classes: int, *, half_life: float, unit: Unit) -> "Fading":
        """Return an average of nothing."""
        return cls(half_life, unit, np.zeros(n_classes))

    def add(self, counts: Vector) -> "Fading":
        """Return the average with the next batch."""
        age = 1.0 if self.unit == "batches" else float(np.sum(counts))
        decay = 2.0 ** (-age / self.half_life)
        return Fading(self.half_life, self.unit, decay * self.pooled + counts)
