"""Displays of class shares: before and after, by group, by method, over time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.spatial.distance import cdist

from priorshift._typing import Indices, Labels, Mask, Vector
from priorshift.adapt import prior_ratio, total_variation
from priorshift.border import NO_PRIOR, check_priors
from priorshift.estimators import PriorEstimate, traits_of
from priorshift.groups import GroupEstimates
from priorshift.monitor import MonitorHistory, PriorMonitor
from priorshift.plotting.style import (
    BLUE,
    GREY,
    SERIES_COLOURS,
    VERMILLION,
    WIDTH,
    Display,
    bare,
    by,
    farthest,
    frame_rows,
    ink,
    label_time,
    literally,
    name_ends,
    positions,
    series_style,
    share_axis,
    thinned_steps,
    times,
    write_beside,
    write_head,
    write_title,
)
from priorshift.text import NOTHING, brief, movers, plural, short_percent, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from priorshift.assessment import Assessment


@dataclass(eq=False, repr=False)
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
    >>> PriorsDisplay([0.2, 0.8], [0.5, 0.5], ["cat", "dog"]).summary()
    '1 of 2 classes gained, 1 lost; total variation 30%'
    """

    priors: Vector
    source_priors: Vector
    classes: Labels
    interval: Vector | None = None
    unseen_classes: tuple[Any, ...] = ()
    method: str | None = None

    MAX_CLASSES = 20

    @classmethod
    def from_estimate(
        cls, estimate: "PriorEstimate | Assessment", *, ax: "Axes | None" = None
    ) -> Self:
        """Plot an estimate.

        Parameters
        ----------
        estimate : PriorEstimate or Assessment
            Its `interval` is shown if it has one; of an assessment, the shares to report.
        ax : matplotlib Axes, optional
            Axes to plot on; by default those of a new pyplot figure.
        """
        return cls._of(getattr(estimate, "shares_to_report", estimate)).plot(ax)

    def figsize(self) -> tuple[float, float]:
        """Return the inches a figure needs."""
        return WIDTH, 1.5 + 0.26 * min(self.priors.size, self.MAX_CLASSES)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Plot the classes that moved most, at most 20, with gains above losses.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to plot on; by default those of a new pyplot figure.
        """
        rows = self.movers()
        ax = self._axes(ax)
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
        starred = {str(label) for label in self.unseen_classes}
        names = [shorten(c) + (" *" if str(c) in starred else "") for c in self.classes[rows]]
        frame_rows(ax, names, "class prior" + ("   (* class not in validation)" * bool(starred)))
        ratio = prior_ratio(self.priors, self.source_priors)
        known = self.source_priors > NO_PRIOR
        write_beside(ax, [times(ratio[k]) if known[k] else "new" for k in rows])
        write_head(ax, f"Class priors{by(self.method)}", self.summary())
        return self

    def movers(self) -> Indices:
        """Return the positions of the classes that moved most, from largest gain to loss."""
        change = self.priors - self.source_priors
        chosen = farthest(np.abs(change), self.MAX_CLASSES)
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


@dataclass(eq=False, repr=False)
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
    >>> priors = [[0.2, 0.8], [0.6, 0.4]]
    >>> GroupsDisplay(priors, ["north", "south"], ["cat", "dog"], [0.4, 0.6]).summary()
    '2 groups, 2 classes; median total variation from pooled 20%'
    """

    priors: Vector
    groups: Labels
    classes: Labels
    pooled: Vector
    n: Indices | None = None
    interval: Vector | None = None
    method: str | None = None

    MAX_GROUPS, MAX_CLASSES = 20, 4
    """Beyond these, the groups that moved most are drawn, and the classes that vary most."""

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
        return cls._of(estimates, pooled=estimates.pooled.priors).plot(ax)

    def figsize(self) -> tuple[float, float]:
        """Return the inches a figure needs."""
        row = max(0.26, 0.09 * min(self.classes.size, self.MAX_CLASSES))
        return WIDTH, 1.6 + row * min(self.groups.size, self.MAX_GROUPS)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Plot the 20 groups that moved most, in order, with the four classes that vary most.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        """
        rows, columns = self.movers(), self.varying()
        ax = self._axes(ax)
        for at, k in enumerate(columns):
            style = series_style(at)
            # side by side
            offset = 0.0 if columns.size == 1 else 0.3 * (2 * at / (columns.size - 1) - 1)
            y = np.arange(rows.size) + offset
            ax.axvline(self.pooled[k], color=style["color"], lw=1, ls=":", alpha=0.8)
            if self.interval is not None:
                lower, upper = self.interval[rows, k].T
                ax.hlines(y, lower, upper, colors=style["color"], lw=1.5, alpha=0.6)
            label = shorten(self.classes[k], 12)
            ax.plot(self.priors[rows, k], y, ls="none", ms=5, clip_on=False, label=label, **style)
        names = [shorten(group, 18) for group in self.groups[rows]]
        frame_rows(ax, names, "class prior   (dotted: pooled)", parted=True)
        if self.n is not None:
            write_beside(ax, [f"n = {int(n):,}" for n in self.n[rows]])
        write_head(ax, f"Class priors of groups{by(self.method)}", self.summary())
        return self

    def movers(self) -> Indices:
        """Return the positions of the groups farthest from the pooled priors, in order."""
        return farthest(total_variation(self.priors, self.pooled), self.MAX_GROUPS)

    def varying(self) -> Indices:
        """Return the positions of the classes that differ most between groups, in order."""
        return farthest(np.abs(self.priors - self.pooled).mean(axis=0), self.MAX_CLASSES)

    def summary(self) -> str:
        """Summarise all groups, and which of them are shown."""
        G, K = self.priors.shape
        middle = short_percent(float(np.median(total_variation(self.priors, self.pooled))))
        text = f"{plural(G, 'group')}, {K:,} classes; median total variation from pooled {middle}"
        shown = []
        if self.MAX_GROUPS < G:
            shown.append(f"the {self.MAX_GROUPS:,} groups that moved most")
        if self.MAX_CLASSES < K:
            shown.append(f"the {self.MAX_CLASSES:,} classes that vary most")
        return f"{text}\nshown: {', '.join(shown)}" if shown else text


@dataclass(eq=False, repr=False)
class ComparisonDisplay(Display):
    r"""Show whether methods agree: one row per class, one marker per method.

    The title names the two methods whose priors are furthest apart, by the share of samples that
    they put into different classes, :math:`\tfrac12 \sum_k |p_k - p'_k|`. The true priors, if
    given, appear as lines.

    Parameters
    ----------
    priors : array-like of shape (n_methods, n_classes)
    methods : sequence of str
        Names of the methods.
    classes : array-like of shape (n_classes,)
        Class names.
    truth : array-like of shape (n_classes,) or mapping, optional
        True priors of the target.

    Examples
    --------
    >>> from priorshift.plotting import ComparisonDisplay
    >>> priors = [[0.25, 0.75], [0.5, 0.5]]
    >>> ComparisonDisplay(priors, ["em", "cm"], ["cat", "dog"]).distances
    array([[0.  , 0.25],
           [0.25, 0.  ]])
    """

    priors: Vector
    methods: Sequence[str]
    classes: Labels
    truth: Vector | None = None

    MAX_CLASSES, MAX_DOTS = 12, 60
    """Beyond these, the classes on which methods differ most are drawn."""

    @classmethod
    def from_estimates(
        cls,
        estimates: Any,
        *,
        truth: Any = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Plot estimates of the same target by several methods.

        Parameters
        ----------
        estimates : mapping from str to PriorEstimate, or Comparison
            Estimates by name.
        truth : array-like of shape (n_classes,) or mapping, optional
            True priors of the target.
        ax : matplotlib Axes, optional
            Axes to plot on; by default those of a new pyplot figure.
        """
        estimates = getattr(estimates, "estimates", estimates)
        if not isinstance(estimates, Mapping) or not estimates:
            raise ValueError(
                "estimates must map names to at least one estimate, such as "
                f'{{"em": shift}}, or be what compare returns; got {brief(estimates)}.'
            )
        classes, first = next(iter(estimates.values())).classes, next(iter(estimates))
        for name, estimate in estimates.items():
            if estimate.classes.tolist() != classes.tolist():
                raise ValueError(
                    f"{name!r} and {first!r} have different classes, or another order of them; "
                    "make all estimates from the same data with the same classes=."
                )
        priors = np.array([estimate.priors for estimate in estimates.values()])
        known = None if truth is None else check_priors(truth, classes, "truth")
        return cls(priors, tuple(estimates), classes, known).plot(ax)

    @property
    def distances(self) -> Vector:
        """Total variation distance between every two methods."""
        return 0.5 * cdist(self.priors, self.priors, "cityblock")

    def figsize(self) -> tuple[float, float]:
        """Return the inches a figure needs."""
        n = len(self.methods) + (self.truth is not None)
        return WIDTH, 1.2 + max(self.disputed().size * max(0.3, 0.11 * n), 0.22 * n)

    def disputed(self) -> Indices:
        """Return all classes in order; of many, those on which methods differ most come first."""
        most = min(self.MAX_CLASSES, max(3, self.MAX_DOTS // len(self.methods)))
        if self.classes.size <= most:
            return np.arange(self.classes.size)
        judged = self._estimating() or [0]
        known = self.priors[judged]
        if self.truth is not None:
            known = np.vstack([self.truth, known])
        return movers(np.ptp(known, axis=0), most)

    def _estimating(self) -> list[int]:
        """Return the methods that look at the target, unlike `na`."""
        return [m for m, name in enumerate(self.methods) if traits_of(name).outputs != "ignored"]

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Plot priors by class and method; of many classes, those on which methods differ most.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        """
        ax = self._axes(ax)
        rows, n_methods = self.disputed(), len(self.methods)
        y = np.arange(rows.size)
        if self.truth is not None:
            ax.vlines(self.truth[rows], y - 0.45, y + 0.45, colors=ink(), lw=2, label="truth")
        offsets = np.linspace(-0.32, 0.32, n_methods) if n_methods > 1 else np.zeros(1)
        for m, name in enumerate(self.methods):
            x, style = self.priors[m, rows], series_style(m)
            ax.plot(x, y + offsets[m], ls="", ms=6, clip_on=False, label=shorten(name), **style)
        frame_rows(ax, [shorten(label) for label in self.classes[rows]], "class prior", parted=True)
        legend = ax.legend(
            loc="upper left", bbox_to_anchor=(1, 1), frameon=False, borderaxespad=0.2
        )
        literally(legend)
        told = f"{plural(n_methods, 'method')}, {plural(self.classes.size, 'class', 'classes')}"
        if rows.size < self.classes.size:
            told += f"; the {rows.size} on which methods differ most"
        judged = self._estimating()
        if len(judged) > 1:
            distances = self.distances[np.ix_(judged, judged)]
            pair = np.unravel_index(np.argmax(distances), distances.shape)
            one, other = (shorten(self.methods[judged[m]]) for m in pair)
            told += f"\nfurthest apart: {one} and {other}, by {short_percent(distances[pair])}"
        write_title(ax, "Agreement of methods", told)
        return self


@dataclass(eq=False, repr=False)
class MonitorDisplay(Display):
    """Show class priors over time, one line per class, with the alarms.

    A circle at the left, in the colour of its class, marks the source prior, if known.

    Parameters
    ----------
    priors : array-like of shape (n_steps, n_classes)
        Estimated priors at each step.
    source_priors : array-like of shape (n_classes,) or None
    classes : array-like of shape (n_classes,)
        Class names.
    time : sequence of length n_steps
        Time of each step: numbers, or dates as ISO text.
    raised, alarm : ndarray of bool of shape (n_steps,)
        Steps at which an alarm was raised, and at which one is on.
    numbered : bool, default=False
        Whether times are only the numbers of the steps.
    method : str, optional
        Name of the estimator, for the title.

    """

    priors: Vector
    source_priors: Vector | None
    classes: Labels
    time: tuple[Any, ...]
    raised: Mask
    alarm: Mask
    numbered: bool = False
    method: str | None = None

    MAX_CLASSES = 8

    @classmethod
    def from_monitor(
        cls, monitor: PriorMonitor | MonitorHistory, *, ax: "Axes | None" = None
    ) -> Self:
        """Plot what a monitor has seen.

        Parameters
        ----------
        monitor : PriorMonitor or MonitorHistory
        ax : matplotlib Axes, optional
            Axes to plot on; by default those of a new pyplot figure.
        """
        return cls.of_history(monitor).plot(ax)

    @classmethod
    def of_history(cls, monitor: PriorMonitor | MonitorHistory) -> Self:
        """Read the numbers of a monitor, without drawing."""
        history = monitor.history if isinstance(monitor, PriorMonitor) else monitor
        known = all(when is not None for when in history.time)
        time = history.time if known else tuple(history.index.tolist())
        return cls._of(history, time=time, numbered=not known)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Plot the classes that moved most, at most eight.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        """
        chosen = self.movers()
        ax = self._axes(ax)
        when = positions(self.time)
        shown, start = thinned_steps(when.size), self.source_priors
        for at, k in enumerate(chosen):
            ax.plot(
                when[shown],
                self.priors[shown, k],
                ls="-" if at < len(SERIES_COLOURS) else "--",
                markevery=[-1],
                ms=6,
                clip_on=False,
                **series_style(at),
            )
        highest = float(self.priors[:, chosen].max())
        if start is not None:
            ax.scatter(
                [when[0]] * chosen.size,
                start[chosen],
                s=36,
                marker="o",
                facecolors="none",
                edgecolors=[series_style(at)["color"] for at in range(chosen.size)],
                linewidths=1.5,
                clip_on=False,
                label="source",
            )
            highest = max(highest, float(start[chosen].max()))
        ax.set_ylim(0, 1.08 * highest)
        if self.raised.any():
            top = ax.get_xaxis_transform()
            ax.vlines(
                when[self.raised], 0, 1, transform=top, colors=VERMILLION, lw=1.2, ls=(0, (4, 3))
            )
            ax.plot(
                when[self.raised],
                np.full(int(self.raised.sum()), 0.98),  # the legend stands above 1
                ls="none",
                marker="v",
                color=VERMILLION,
                ms=8,
                transform=top,
                clip_on=False,
                label="alarm raised",
            )
        label = "alarm stands"
        edges = np.flatnonzero(np.diff(np.concatenate([[0], self.alarm.astype(int), [0]])))
        for first, end in edges.reshape(-1, 2):
            ax.axvspan(when[first], when[end - 1], color=VERMILLION, alpha=0.12, lw=0, label=label)
            label = f"_{label}"  # one entry of the legend for all of them
        names = [shorten(label) for label in self.classes[chosen]]
        name_ends(ax, names, when[-1], self.priors[-1, chosen])
        share_axis(ax.yaxis)
        ax.set_ylabel("class prior")
        label_time(ax, self.time, numbered=self.numbered)
        ax.grid(axis="y", alpha=0.3)
        ax.set_axisbelow(True)
        bare(ax, "bottom")
        write_head(ax, f"Class priors over time{by(self.method)}", self.summary())
        return self

    def movers(self) -> Indices:
        """Return the positions of the classes farthest from the source at some step, in order.

        Where the source is not known, those farthest from where they began.
        """
        start = self.priors[0] if self.source_priors is None else self.source_priors
        return farthest(np.abs(self.priors - start).max(axis=0), self.MAX_CLASSES)

    def summary(self) -> str:
        """Summarise the number of steps and alarms, and what is not shown."""
        n_steps, n_alarms = self.priors.shape[0], int(self.raised.sum())
        text = f"{plural(n_steps, 'step')}, {plural(n_alarms, 'alarm') if n_alarms else 'no alarm'}"
        if self.source_priors is not None:
            distance = float(total_variation(self.priors[-1], self.source_priors))
            text += f"; total variation at the end {short_percent(distance)}"
        hidden = self.classes.size - min(self.classes.size, self.MAX_CLASSES)
        return text + (f"\nnot shown: {hidden:,} classes that moved less" if hidden else "")
