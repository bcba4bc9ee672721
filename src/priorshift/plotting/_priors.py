"""Priors before and after, as dumbbells."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from priorshift._results import Backend, make_frame
from priorshift._typing import Indices, Vector
from priorshift.adapt import prior_ratio, total_variation
from priorshift.border import NO_PRIOR, check_classes, check_priors
from priorshift.estimators import PriorEstimate
from priorshift.plotting.style import (
    BLUE,
    GREY,
    VERMILLION,
    WIDTH,
    Display,
    by,
    farthest,
    frame_rows,
    ink,
    times,
    write_beside,
    write_head,
)
from priorshift.text import NOTHING, short_percent, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_CLASSES = 20


class PriorsDisplay(Display):
    """Show how class priors moved from source to target, one row per class.

    Parameters
    ----------
    priors : array-like of shape (n_classes,)
        Target priors.
    source_priors : array-like of shape (n_classes,)
    classes : array-like of shape (n_classes,)
        Class names.
    interval : array-like of shape (n_classes, 2), optional
        Lower and upper bounds of the target priors.
    unseen_classes : tuple, default=()
        Classes without validation samples; their names are marked with a star.
    method : str, optional
        Name of the estimator, for the title.

    Examples
    --------
    >>> from priorshift.plotting import PriorsDisplay
    >>> display = PriorsDisplay([0.2, 0.8], [0.5, 0.5], ["cat", "dog"])
    >>> display.frame("polars")["ratio"].to_list()
    [0.4, 1.6]
    """

    def __init__(
        self,
        priors: ArrayLike,
        source_priors: ArrayLike,
        classes: ArrayLike,
        *,
        interval: ArrayLike | None = None,
        unseen_classes: tuple[Any, ...] = (),
        method: str | None = None,
    ) -> None:
        self.classes = check_classes(classes, np.size(priors))
        check_priors(priors, self.classes, "priors")
        check_priors(source_priors, self.classes, "source_priors")
        self.priors = np.asarray(priors, dtype=np.float64)
        self.source_priors = np.asarray(source_priors, dtype=np.float64)
        self.interval = None if interval is None else _check_interval(interval, self.priors.size)
        self.unseen_classes, self.method = unseen_classes, method

    @classmethod
    def from_estimate(cls, estimate: PriorEstimate, *, ax: "Axes | None" = None) -> Self:
        """Plot an estimate.

        Parameters
        ----------
        estimate : PriorEstimate
            Its `interval` is shown if it has one.
        ax : matplotlib Axes, optional
            Axes to plot on; by default those of a new pyplot figure.
        """
        display = cls(
            estimate.priors,
            estimate.source_priors,
            estimate.classes,
            interval=estimate.interval,
            unseen_classes=estimate.unseen_classes,
            method=estimate.method,
        )
        return display.plot(ax)

    def figsize(self) -> tuple[float, float]:
        """Return the inches a figure needs."""
        return WIDTH, 1.5 + 0.26 * min(self.priors.size, MAX_CLASSES)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Plot the classes that moved most, at most 20, with gains above losses.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to plot on; by default those of a new pyplot figure.
        """
        rows = self.movers()
        ax = self._axes(ax, self.figsize())
        self._draw_rows(ax, rows)
        self._label(ax, rows)
        return self

    def frame(self, backend: Backend = "pandas") -> Any:
        """Return one row per class, in class order, as a frame of the named library."""
        columns = {
            "class": self.classes,
            "source_prior": self.source_priors,
            "prior": self.priors,
            "change": self.priors - self.source_priors,
            "ratio": prior_ratio(self.priors, self.source_priors),
        }
        if self.interval is not None:
            columns |= {"lower": self.interval[:, 0], "upper": self.interval[:, 1]}
        return make_frame(columns, backend)

    def movers(self) -> Indices:
        """Return the positions of the classes that moved most, from largest gain to loss."""
        change = self.priors - self.source_priors
        chosen = farthest(np.abs(change), MAX_CLASSES)
        return chosen[np.argsort(-change[chosen], kind="stable")]

    def summary(self) -> str:
        """Summarise the changes over all classes."""
        change = self.priors - self.source_priors
        gained, lost = int((change > NOTHING).sum()), int((change < -NOTHING).sum())
        moved = float(total_variation(self.priors, self.source_priors))
        text = (
            f"{gained:,} of {change.size:,} classes gained, {lost:,} lost; "
            f"total variation {short_percent(moved)}"
        )
        others = np.setdiff1d(np.arange(change.size), self.movers())
        if others.size:
            before, after = self.source_priors[others].sum(), self.priors[others].sum()
            text += (
                f"\nnot shown: {others.size:,} that moved less, "
                f"{short_percent(before)} before and {short_percent(after)} after"
            )
        return text

    def _draw_rows(self, ax: "Axes", rows: Indices) -> None:
        y = np.arange(rows.size)
        before, after = self.source_priors[rows], self.priors[rows]
        change = after - before
        gains, losses = change > NOTHING, change < -NOTHING
        colours = np.where(gains, BLUE, VERMILLION).tolist()
        if self.interval is not None:
            lower, upper = self.interval[rows].T
            ax.hlines(y, lower, upper, colors=ink(), lw=7, alpha=0.2, label="interval")
        ax.hlines(y, before, after, colors=colours, lw=2)
        ax.plot(before, y, "o", mfc="none", mec=ink(), ms=6, mew=1.3, clip_on=False, label="source")
        for which, marker, size, colour, label in (
            (gains, ">", 8, BLUE, "target (gained)"),
            (losses, "<", 8, VERMILLION, "target (lost)"),
            (~(gains | losses), "o", 4, GREY, "unmoved"),
        ):
            if which.any():
                x = after[which]
                ax.plot(x, y[which], marker, color=colour, ms=size, clip_on=False, label=label)

    def _label(self, ax: "Axes", rows: Indices) -> None:
        starred = {str(label) for label in self.unseen_classes}
        names = [shorten(c) + (" *" if str(c) in starred else "") for c in self.classes[rows]]
        frame_rows(ax, names, "class prior" + ("   (* class not in validation)" * bool(starred)))
        ratio = prior_ratio(self.priors, self.source_priors)
        known = self.source_priors > NO_PRIOR
        write_beside(ax, [times(ratio[k]) if known[k] else "new" for k in rows])
        write_head(ax, f"Class priors{by(self.method)}", self.summary())


def _check_interval(interval: ArrayLike, n_classes: int) -> Vector:
    bounds = np.asarray(interval, dtype=np.float64)
    if bounds.shape != (n_classes, 2) or not (bounds[:, 0] <= bounds[:, 1]).all():
        raise ValueError(
            f"interval must have a lower and an upper bound per class, shape ({n_classes}, 2); got "
            f"shape {bounds.shape}, or a lower bound above its upper one."
        )
    return bounds
