"""How confidence and accuracy go together on labelled rows."""

from dataclasses import dataclass

import numpy as np

from priorshift._typing import Floats, Indices, Vector

HISTOGRAM_EDGES = np.linspace(0, 1, 41)


@dataclass(frozen=True, eq=False)
class Reliability:
    """Confidence and accuracy by bins of confidence, the largest probability of a row.

    Attributes
    ----------
    rows : ndarray of shape (n_bins,)
        Rows of each bin; none is empty.
    confidence, accuracy : ndarray of shape (n_bins,)
        Mean confidence, and share of right decisions.
    histogram : ndarray of shape (40,)
        Rows by confidence, in bins of equal width from 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> y_proba = np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.3, 0.7]])
    >>> round(Reliability.of(y_proba, np.array([0, 1, 1, 1]), n_bins=2).error, 3)
    0.175
    """

    rows: Indices
    confidence: Vector
    accuracy: Vector
    histogram: Indices

    @classmethod
    def of(cls, y_proba: Floats, y: Indices, *, n_bins: int = 10) -> "Reliability":
        """Count clean probabilities with labels given as column indices."""
        confidence = y_proba.max(axis=1).astype(np.float64)
        bins = assign_bins(confidence, n_bins)
        rows = np.bincount(bins)
        used = rows > 0
        sums = (np.bincount(bins, what)[used] for what in (confidence, y_proba.argmax(axis=1) == y))
        mean_confidence, accuracy = (total / rows[used] for total in sums)
        histogram = np.histogram(confidence.clip(0, 1), HISTOGRAM_EDGES)[0]
        return cls(rows[used], mean_confidence, accuracy, histogram)

    @property
    def error(self) -> float:
        r"""Expected calibration error.

        .. math:: \mathrm{ECE} = \sum_j \frac{|B_j|}{n}
            \bigl|\mathrm{accuracy}(B_j) - \mathrm{confidence}(B_j)\bigr|
        """
        return float(np.average(np.abs(self.accuracy - self.confidence), weights=self.rows))


def assign_bins(confidence: Vector, n_bins: int) -> Indices:
    """Return the bin of each sample, of about equally many; equal confidences stay together.

    Examples
    --------
    >>> import numpy as np
    >>> assign_bins(np.array([0.5, 0.9, 0.9, 0.9]), 2)
    array([0, 1, 1, 1])
    """
    inner = np.linspace(0, 1, n_bins + 1)[1:-1]
    return np.searchsorted(np.unique(np.quantile(confidence, inner)), confidence, side="right")
