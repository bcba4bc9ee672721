"""How an estimate stabilises as the target grows."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from priorshift._results import Backend, make_frame
from priorshift._typing import Indices, Vector
from priorshift.border import as_generator, check_count, check_positive, check_proba, in_class_order
from priorshift.estimators import PriorEstimator
from priorshift.exceptions import ConvergenceWarning, PriorShiftWarning
from priorshift.plotting.style import BLUE, VERMILLION, WIDTH, Display, bare, by, write_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

BAND = (0.1, 0.9)
"""Quantiles of the repeats that the band spans."""

FITTED = 0.1
"""Sizes from this share of the largest on count for the law: very small ones are biased."""

MAX_SPAN = 2000
"""How many times the smallest number on an axis the largest may be, and every 1, 2, 5 is named."""


class SampleSizeDisplay(Display):
    r"""Show how far estimates from fewer target samples are from the estimate from all samples.

    Random subsets of n of the N rows give estimates whose L1 distance to the full one decreases as

    .. math:: d(n) \approx c \sqrt{1/n - 1/N},

    so an estimate from n rows has an error of about :math:`c / \sqrt n` from sampling the target
    alone (the error from validation is additional), and an error of t needs :math:`(c / t)^2` rows.

    Parameters
    ----------
    sizes : array-like of shape (n_sizes,)
        Numbers of rows of the subsets.
    distances : array-like of shape (n_sizes, n_repeats)
        L1 distance of each subset's priors to those of the whole target.
    n_target : int
        Number of rows of the whole target.
    method : str, optional
        Name of the estimator, for the title.

    Examples
    --------
    >>> from priorshift.plotting import SampleSizeDisplay
    >>> display = SampleSizeDisplay([100, 200], [[0.3], [0.2]], n_target=400)
    >>> display.samples_needed(0.1) > 400
    True
    """

    def __init__(
        self, sizes: ArrayLike, distances: ArrayLike, n_target: int, *, method: str | None = None
    ) -> None:
        self.n_target = check_count(n_target, "n_target", 2)
        self.sizes = _check_sizes(sizes, self.n_target)
        self.distances, self.method = np.asarray(distances, dtype=np.float64), method
        if self.distances.ndim != 2 or self.distances.shape[0] != self.sizes.size:
            raise ValueError(
                f"distances must have shape ({self.sizes.size}, n_repeats), one row per size; got "
                f"{self.distances.shape}."
            )

    @classmethod
    def from_predictions(
        cls,
        estimator: PriorEstimator,
        y_proba: ArrayLike,
        *,
        sizes: Sequence[int] | None = None,
        n_repeats: int = 10,
        random_state: int | np.random.Generator | None = 0,
        tolerance: float = 0.05,
        ax: "Axes | None" = None,
    ) -> Self:
        """Estimate on random subsets of the target, and plot.

        Parameters
        ----------
        estimator : PriorEstimator
            A fitted estimator.
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities on the target.
        sizes : sequence of int, optional
            Numbers of rows of the subsets, each less than n_samples; by default eight sizes, up to
            a quarter of the rows.
        n_repeats : int, default=10
            Number of subsets of each size. By default, they have about five times as many rows as
            the target in total, and take about five times as long.
        random_state : None, int or Generator, default=0
        tolerance : float, default=0.05
            The L1 error for which the plot states the number of rows needed.
        ax : matplotlib Axes, optional
            Axes to plot on; by default those of a new pyplot figure.
        """
        full = estimator.estimate(y_proba)
        rows = in_class_order(check_proba(y_proba), full.classes)
        n_target = check_count(rows.shape[0], "the number of rows of y_proba", 4)
        chosen = _default_sizes(n_target) if sizes is None else _check_sizes(sizes, n_target)
        check_count(n_repeats, "n_repeats")
        rng = as_generator(random_state)
        distances = np.zeros((chosen.size, n_repeats))
        with warnings.catch_warnings():
            # the full estimate has said it already, and once is enough
            warnings.simplefilter("ignore", PriorShiftWarning)
            warnings.simplefilter("ignore", ConvergenceWarning)
            for cell in np.ndindex(*distances.shape):
                subset = rng.choice(n_target, chosen[cell[0]], replace=False, shuffle=False)
                priors = estimator.estimate(rows[subset]).priors
                distances[cell] = np.abs(priors - full.priors).sum()
        display = cls(chosen, distances, n_target, method=full.method)
        return display.plot(ax, tolerance=tolerance)

    @property
    def median(self) -> Vector:
        """Median distance at each size."""
        return np.median(self.distances, axis=1)

    @property
    def scale(self) -> float:
        """The c of the law above, from the larger sizes."""
        large = self.sizes >= FITTED * self.sizes.max()
        unit = np.sqrt(1 / self.sizes - 1 / self.n_target)
        return float(np.median(self.median[large] / unit[large]))

    def samples_needed(self, tolerance: float = 0.05) -> float:
        """Return the number of rows for an L1 error of `tolerance` from sampling the target."""
        return float(np.ceil((self.scale / check_positive(tolerance, "tolerance")) ** 2))

    def figsize(self) -> tuple[float, float]:
        """Return the inches a figure needs."""
        return WIDTH, 4.4

    def plot(self, ax: "Axes | None" = None, *, tolerance: float = 0.05) -> Self:
        """Plot median and band of the distances, and the error to expect with more rows.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        tolerance : float, default=0.05
            The L1 error for which the plot states the number of rows needed.
        """
        needed = self.samples_needed(tolerance)
        ax = self._axes(ax, self.figsize())
        lower, upper = np.quantile(self.distances, BAND, axis=1)
        ax.fill_between(
            self.sizes,
            lower,
            upper,
            color=BLUE,
            alpha=0.25,
            lw=0,
            label=f"{BAND[1] - BAND[0]:.0%} of the subsets",
        )
        ax.plot(self.sizes, self.median, "o-", color=BLUE, label="median distance")
        ends = np.array([max(FITTED * self.sizes.max(), self.sizes.min()), self.n_target])
        if 0 < needed <= 10 * self.n_target:
            ends[1] = max(ends[1], needed)
            ax.plot([needed], [tolerance], "D", color=VERMILLION, ms=7, label="samples needed")
        ax.plot(
            ends,
            self.scale / np.sqrt(ends),
            "--",
            color=VERMILLION,
            label="error to expect",
        )
        self._label(ax, needed, tolerance)
        return self

    def frame(self, backend: Backend = "pandas") -> Any:
        """Return one row per size, as a frame of the named library."""
        lower, upper = np.quantile(self.distances, BAND, axis=1)
        columns = {
            "n_samples": self.sizes,
            "median_distance": self.median,
            "lower": lower,
            "upper": upper,
            "expected_error": self.scale / np.sqrt(self.sizes),
        }
        return make_frame(columns, backend)

    def _label(self, ax: "Axes", needed: float, tolerance: float) -> None:
        ax.set_xscale("log")
        if self.distances.any():
            ax.set_yscale("log")
            _plain_ticks(ax.yaxis, "{:g}")
        else:  # an estimate that never moves has nothing to take the log of
            ax.set_ylim(0, 2 * tolerance)
        _plain_ticks(ax.xaxis, "{:,.0f}")
        ax.set_xlabel("target samples")
        ax.set_ylabel("L1 distance of priors")
        ax.grid(alpha=0.3)
        ax.legend(frameon=False, fontsize="small")
        bare(ax, "bottom", "left")
        write_title(
            ax, f"How the estimate{by(self.method)} settles", self._summary(needed, tolerance)
        )

    def _summary(self, needed: float, tolerance: float) -> str:
        if not self.distances.any():
            return "every subset gives the same priors"
        at_hand = self.scale / np.sqrt(self.n_target)
        return (
            f"L1 error to expect at {self.n_target:,} samples: {at_hand:.2g}; "
            f"{tolerance:g} needs about {_round(needed):,}"
        )


def _plain_ticks(axis: "Axis", form: str) -> None:
    """Write 1, 2, 5, 10 and so on (1, 10, 100 of many) as numbers along a logarithmic axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = axis.get_view_interval()
    near = high <= MAX_SPAN * low
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)) if near else LogLocator(numticks=6))
    axis.set_major_formatter(FuncFormatter(lambda value, _: form.format(value)))
    axis.set_minor_locator(NullLocator())


def _round(number: float) -> int:
    """Round to two digits: it is not known any better."""
    return int(float(f"{number:.1e}"))


def _default_sizes(n_target: int) -> Indices:
    smallest = max(1, min(50, n_target // 16))
    sizes = np.geomspace(smallest, n_target // 4, 8)
    return np.unique(sizes.round().astype(np.intp))


def _check_sizes(sizes: Any, n_target: int) -> Indices:
    values = np.atleast_1d(np.asarray(sizes))
    if values.dtype.kind not in "iu" or values.ndim != 1 or not values.size:
        raise ValueError(f"sizes must be whole numbers of rows; got {sizes!r}.")
    if values.min() < 1 or values.max() >= n_target:
        raise ValueError(
            f"sizes must be at least 1 and less than the {n_target} rows of the target; got "
            f"{values.min()} to {values.max()}."
        )
    return np.unique(values).astype(np.intp)
