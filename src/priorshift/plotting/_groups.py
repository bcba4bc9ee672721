"""Priors of groups: one line per group, one column of dots per class."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from priorshift._results import Backend, make_frame
from priorshift._typing import Indices, Vector
from priorshift.adapt import total_variation
from priorshift.border import check_classes, check_priors
from priorshift.groups import GroupEstimates, read_groups
from priorshift.plotting.style import (
    WIDTH,
    Display,
    by,
    farthest,
    frame_rows,
    series_style,
    write_beside,
    write_head,
)
from priorshift.text import short_percent, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_GROUPS = 20
MAX_CLASSES = 4
"""Beyond these, the groups that moved most are drawn, and the classes that vary most."""

LONGEST = 12
"""Characters of a class name in the legend, whose classes share one row."""


class GroupsDisplay(Display):
    """Show how class priors differ between groups, one row per group.

    Parameters
    ----------
    priors : array-like of shape (n_groups, n_classes)
        Target priors of each group.
    groups : array-like of shape (n_groups,)
        Group labels.
    classes : array-like of shape (n_classes,)
        Class names.
    pooled : array-like of shape (n_classes,)
        Priors that small groups are pooled towards, shown as one line per class.
    n : array-like of shape (n_groups,), optional
        Number of rows in each group, shown next to it.
    interval : array-like of shape (n_groups, n_classes, 2), optional
        Lower and upper bounds.
    method : str, optional
        Name of the estimator, for the title.

    Examples
    --------
    >>> from priorshift.plotting import GroupsDisplay
    >>> display = GroupsDisplay([[0.2, 0.8], [0.6, 0.4]], ["n", "s"], ["cat", "dog"], [0.4, 0.6])
    >>> display.frame("polars")["prior"].to_list()
    [0.2, 0.8, 0.6, 0.4]
    """

    def __init__(
        self,
        priors: ArrayLike,
        groups: ArrayLike,
        classes: ArrayLike,
        pooled: ArrayLike,
        *,
        n: ArrayLike | None = None,
        interval: ArrayLike | None = None,
        method: str | None = None,
    ) -> None:
        self.groups = read_groups(groups)
        self.classes = check_classes(classes, np.size(pooled))
        check_priors(pooled, self.classes, "pooled")
        self.pooled = np.asarray(pooled, dtype=np.float64)
        shape = (self.groups.size, self.classes.size)
        self.priors = _of_shape(priors, shape, "priors")
        self.interval = None if interval is None else _of_shape(interval, (*shape, 2), "interval")
        self.n = None if n is None else np.asarray(n)
        self.method = method

    @classmethod
    def from_estimates(cls, estimates: GroupEstimates, *, ax: "Axes | None" = None) -> Self:
        """Plot the estimates of groups.

        Parameters
        ----------
        estimates : GroupEstimates
            Its `interval` is shown if it has one.
        ax : matplotlib Axes, optional
            Axes to plot on; by default those of a new pyplot figure.
        """
        display = cls(
            estimates.priors,
            estimates.groups,
            estimates.classes,
            estimates.pooled.priors,
            n=estimates.n,
            interval=estimates.interval,
            method=estimates.method,
        )
        return display.plot(ax)

    def figsize(self) -> tuple[float, float]:
        """Return the inches a figure needs."""
        row = max(0.26, 0.09 * min(self.classes.size, MAX_CLASSES))
        return WIDTH, 1.6 + row * min(self.groups.size, MAX_GROUPS)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Plot the 20 groups that moved most, in order, with the four classes that vary most.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        """
        rows, columns = self.movers(), self.varying()
        ax = self._axes(ax, self.figsize())
        for at, k in enumerate(columns):
            self._draw_class(ax, rows, int(k), at, columns.size)
        self._label(ax, rows)
        return self

    def frame(self, backend: Backend = "pandas") -> Any:
        """Return one row per group and class, as a frame of the named library."""
        G, K = self.priors.shape
        columns = {
            "group": np.repeat(self.groups, K),
            "class": np.tile(self.classes, G),
            "prior": self.priors.ravel(),
            "pooled_prior": np.tile(self.pooled, G),
        }
        if self.n is not None:
            columns["n"] = np.repeat(self.n, K)
        if self.interval is not None:
            lower, upper = self.interval[..., 0], self.interval[..., 1]
            columns |= {"lower": lower.ravel(), "upper": upper.ravel()}
        return make_frame(columns, backend)

    def movers(self) -> Indices:
        """Return the positions of the groups farthest from the pooled priors, in order."""
        return farthest(self._distance(), MAX_GROUPS)

    def varying(self) -> Indices:
        """Return the positions of the classes that differ most between groups, in order."""
        return farthest(np.abs(self.priors - self.pooled).mean(axis=0), MAX_CLASSES)

    def summary(self) -> str:
        """Summarise all groups, and which of them are shown."""
        G, K = self.priors.shape
        middle = short_percent(float(np.median(self._distance())))
        text = (
            f"{G:,} {'group' if G == 1 else 'groups'}, {K:,} classes; "
            f"median total variation from pooled {middle}"
        )
        shown = [f"the {MAX_GROUPS:,} groups that moved most"] if MAX_GROUPS < G else []
        shown += [f"the {MAX_CLASSES:,} classes that vary most"] if MAX_CLASSES < K else []
        return f"{text}\nshown: {', '.join(shown)}" if shown else text

    def _distance(self) -> Vector:
        return total_variation(self.priors, self.pooled)

    def _draw_class(self, ax: "Axes", rows: Indices, k: int, at: int, n_drawn: int) -> None:
        style = series_style(at)
        offset = 0.0 if n_drawn == 1 else 0.3 * (2 * at / (n_drawn - 1) - 1)  # side by side
        y = np.arange(rows.size) + offset
        ax.axvline(self.pooled[k], color=style["color"], lw=1, ls=":", alpha=0.8)
        if self.interval is not None:
            lower, upper = self.interval[rows, k].T
            ax.hlines(y, lower, upper, colors=style["color"], lw=1.5, alpha=0.6)
        label = shorten(self.classes[k], LONGEST)
        ax.plot(self.priors[rows, k], y, ls="none", ms=5, clip_on=False, label=label, **style)

    def _label(self, ax: "Axes", rows: Indices) -> None:
        names = [shorten(group, 18) for group in self.groups[rows]]
        frame_rows(ax, names, "class prior   (dotted: pooled)", parted=True)
        if self.n is not None:
            write_beside(ax, [f"n = {int(n):,}" for n in self.n[rows]])
        write_head(ax, f"Class priors of groups{by(self.method)}", self.summary())


def _of_shape(values: ArrayLike, shape: tuple[int, ...], name: str) -> Vector:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(
            f"{name} has shape {array.shape} where {shape} is needed: groups first, then classes."
        )
    return array
