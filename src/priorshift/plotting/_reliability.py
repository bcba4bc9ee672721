"""Calibration on labelled data, as a reliability diagram."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from priorshift._results import Backend, make_frame
from priorshift._typing import Vector
from priorshift.border import check_count
from priorshift.evidence import HISTOGRAM_EDGES, Reliability, calibration_error
from priorshift.intervals import wilson_bounds
from priorshift.plotting._samples import read_labelled
from priorshift.plotting.style import BLUE, GREY, Display, bare, ink, share_axis, write_head
from priorshift.text import short_percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVEL = 0.95
STRIP = 0.3
"""Height of the histogram's strip below the diagram, as a share of the diagram's."""


class ReliabilityDisplay(Display):
    r"""Show how often predictions with a confidence of, for example, 80 % are right.

    For each bin of confidence (the largest probability of a row), the plot shows the share of
    correct predictions with its 95 % Wilson interval, and a histogram of confidence below. The
    expected calibration error weights the bins by their number of samples,

    .. math:: \text{ECE} = \sum_b \frac{n_b}{n} |\text{accuracy}_b - \text{confidence}_b|.

    Parameters
    ----------
    confidence : array-like of shape (n_bins,)
        Mean confidence of each bin.
    accuracy : array-like of shape (n_bins,)
        Share of correct predictions in each bin.
    counts : array-like of shape (n_bins,)
        Number of samples in each bin.
    histogram : array-like of shape (40,)
        Number of samples in 40 bins of equal width from 0 to 1.
    n_classes : int
        Confidence is never below 1 / n_classes.

    Attributes
    ----------
    ax_, figure_, histogram_ax_ : Axes, Figure and Axes
        Set by `plot`.

    Examples
    --------
    >>> from priorshift.plotting import ReliabilityDisplay
    >>> display = ReliabilityDisplay([0.6, 0.9], [0.5, 0.9], [100, 300], [0] * 39 + [400], 2)
    >>> round(display.ece, 3)
    0.025
    """

    histogram_ax_: "Axes"

    def __init__(
        self,
        confidence: ArrayLike,
        accuracy: ArrayLike,
        counts: ArrayLike,
        histogram: ArrayLike,
        n_classes: int,
    ) -> None:
        self.confidence = np.asarray(confidence, dtype=np.float64)
        self.accuracy = np.asarray(accuracy, dtype=np.float64)
        self.counts = np.asarray(counts, dtype=np.float64)
        self.histogram = np.asarray(histogram, dtype=np.float64)
        self.n_classes = check_count(n_classes, "n_classes", 2)
        if not self.confidence.shape == self.accuracy.shape == self.counts.shape:
            raise ValueError(
                "confidence, accuracy and counts must have one number per bin each; got shapes "
                f"{self.confidence.shape}, {self.accuracy.shape} and {self.counts.shape}."
            )
        if not self.counts.size or self.counts.min() < 1:
            raise ValueError("every bin must have samples; leave out those that are empty.")
        if self.histogram.size != HISTOGRAM_EDGES.size - 1:
            raise ValueError(
                f"histogram must count samples in {HISTOGRAM_EDGES.size - 1} bins of equal width "
                f"from 0 to 1; got {self.histogram.size}."
            )

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        y_proba: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Plot the reliability of labelled predictions.

        Parameters
        ----------
        y, y_proba, classes, ax
            As for `ConfusionDisplay.from_predictions`.
        """
        values, codes, names = read_labelled(y_proba, y, classes)
        return cls.from_reliability(Reliability.of(values, codes), names.size).plot(ax)

    @classmethod
    def from_reliability(cls, found: Reliability, n_classes: int) -> Self:
        """Hold the bins that were counted, without drawing."""
        return cls(found.confidence, found.accuracy, found.rows, found.histogram, n_classes)

    @property
    def ece(self) -> float:
        """Expected calibration error."""
        return calibration_error(self.confidence, self.accuracy, self.counts)

    @property
    def interval(self) -> Vector:
        """Wilson interval of each bin's accuracy, shape (n_bins, 2)."""
        z = float(ndtri(0.5 + LEVEL / 2))
        return np.column_stack(wilson_bounds(self.accuracy, self.counts, z)).clip(0, 1)

    def figsize(self) -> tuple[float, float]:
        """Return the inches a figure needs."""
        return 5.2, 5.8

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Plot the diagram, with the histogram as a strip at the bottom of the same axes.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        """
        ax = self._axes(ax, self.figsize())
        lowest = np.floor(10 / self.n_classes) / 10
        self._draw_reliability(ax, lowest)
        self.histogram_ax_ = self._draw_histogram(ax)
        accuracy, confidence = (
            float(np.average(of, weights=self.counts)) for of in (self.accuracy, self.confidence)
        )
        write_head(
            ax,
            f"Reliability: calibration error {short_percent(self.ece)}",
            f"accuracy {short_percent(accuracy)}, mean confidence {short_percent(confidence)}, "
            f"{int(self.counts.sum()):,} samples",
        )
        return self

    def frame(self, backend: Backend = "pandas") -> Any:
        """Return one row per bin, as a frame of the named library."""
        columns = {
            "confidence": self.confidence,
            "accuracy": self.accuracy,
            "lower": self.interval[:, 0],
            "upper": self.interval[:, 1],
            "n_samples": self.counts.astype(np.intp),
        }
        return make_frame(columns, backend)

    def _draw_reliability(self, ax: "Axes", lowest: float) -> None:
        ax.plot([lowest, 1], [lowest, 1], "--", color=GREY, lw=1.2, label="perfectly calibrated")
        errors = np.abs(self.interval.T - self.accuracy)
        ax.errorbar(
            self.confidence,
            self.accuracy,
            yerr=errors,
            fmt="o-",
            color=BLUE,
            ms=5,
            lw=1.5,
            elinewidth=1.2,
            capsize=2.5,
            label=f"bins of equal count, {LEVEL:.0%} interval",
        )
        ax.set_xlim(lowest, 1.01)
        ax.set_ylim(-STRIP, 1.02)
        ax.set_yticks(np.linspace(0, 1, 6))
        share_axis(ax.xaxis)
        share_axis(ax.yaxis)
        ax.set_xlabel("confidence")
        ax.set_ylabel("share of right predictions", y=(0.5 + STRIP) / (1.02 + STRIP))
        ax.grid(alpha=0.3)
        bare(ax, "bottom")

    def _draw_histogram(self, ax: "Axes") -> "Axes":
        """Draw below 0 of the diagram, where nothing else is: no layout can cut it off."""
        strip = ax.inset_axes((0, 0, 1, 0.8 * STRIP / (1.02 + STRIP)))
        strip.stairs(self.histogram, HISTOGRAM_EDGES, fill=True, color=GREY)
        strip.set_xlim(ax.get_xlim())
        strip.set_ylim(0, 1.05 * self.histogram.max())
        strip.set_xticks([])
        strip.set_yticks([self.histogram.max()], [f"{int(self.histogram.max()):,}"])
        strip.tick_params(length=0)
        strip.set_facecolor("none")
        strip.annotate(
            "samples",
            (0, 1),
            xytext=(4, -2),
            xycoords="axes fraction",
            textcoords="offset points",
            va="top",
            fontsize="small",
            color=ink(),
        )
        bare(strip, "bottom")
        return strip
