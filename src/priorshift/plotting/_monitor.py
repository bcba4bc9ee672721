"""Priors over time, with alarms."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from priorshift._results import Backend, make_frame
from priorshift._typing import Indices, Mask, Vector
from priorshift.adapt import total_variation
from priorshift.border import check_classes, check_priors
from priorshift.monitor import MonitorHistory, PriorMonitor
from priorshift.plotting.style import (
    SERIES_COLOURS,
    VERMILLION,
    WIDTH,
    Display,
    bare,
    by,
    farthest,
    label_time,
    name_ends,
    positions,
    runs,
    series_style,
    share_axis,
    thinned_steps,
    write_head,
)
from priorshift.text import short_percent, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_CLASSES = 8


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
    time : sequence of length n_steps, optional
        Time of each step: numbers, or dates as ISO text. By default, steps are numbered.
    raised : array-like of bool of shape (n_steps,), optional
        Steps at which an alarm was raised.
    alarm : array-like of bool of shape (n_steps,), optional
        Steps at which an alarm is on.
    method : str, optional
        Name of the estimator, for the title.

    Examples
    --------
    >>> from priorshift.plotting import MonitorDisplay
    >>> display = MonitorDisplay([[0.5, 0.5], [0.2, 0.8]], [0.5, 0.5], ["cat", "dog"])
    >>> display.frame("polars")["prior:dog"].to_list()
    [0.5, 0.8]
    """

    def __init__(
        self,
        priors: ArrayLike,
        source_priors: ArrayLike | None,
        classes: ArrayLike,
        *,
        time: Any = None,
        raised: ArrayLike | None = None,
        alarm: ArrayLike | None = None,
        method: str | None = None,
    ) -> None:
        self.priors = _check_steps(priors)
        n_steps, K = self.priors.shape
        self.classes = check_classes(classes, K)
        self.source_priors = (
            None
            if source_priors is None
            else check_priors(source_priors, self.classes, "source_priors")
        )
        self.numbered = time is None
        self.time = tuple(range(n_steps)) if time is None else tuple(time)
        if len(self.time) != n_steps:
            raise ValueError(
                f"time must have {n_steps} entries, one per step; got {len(self.time)}."
            )
        self.raised = _check_flags(raised, n_steps, "raised")
        self.alarm = self.raised if alarm is None else _check_flags(alarm, n_steps, "alarm")
        self.method = method

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
        display = cls(
            history.priors,
            history.source_priors,
            history.classes,
            time=history.time if known else None,
            raised=history.raised,
            alarm=history.alarm,
            method=history.method,
        )
        if not known:
            display.time = tuple(history.index.tolist())
        return display

    def figsize(self) -> tuple[float, float]:
        """Return the inches a figure needs."""
        return WIDTH, 4.4

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Plot the classes that moved most, at most eight.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        """
        chosen = self.movers()
        ax = self._axes(ax, self.figsize())
        when = positions(self.time)
        self._draw_lines(ax, when, chosen)
        self._draw_alarms(ax, when)
        names = [shorten(label) for label in self.classes[chosen]]
        name_ends(ax, names, when[-1], self.priors[-1, chosen])
        self._label(ax)
        return self

    def frame(self, backend: Backend = "pandas") -> Any:
        """Return one row per step, as a frame of the named library."""
        columns: dict[str, Any] = {
            "time": list(self.time),
            "alarm": self.alarm,
            "raised": self.raised,
        }
        names = [f"prior:{name}" for name in self.classes.tolist()]
        return make_frame(columns | dict(zip(names, self.priors.T, strict=True)), backend)

    def movers(self) -> Indices:
        """Return the positions of the classes farthest from the source at some step, in order.

        Where the source is not known, those farthest from where they began.
        """
        start = self.priors[0] if self.source_priors is None else self.source_priors
        return farthest(np.abs(self.priors - start).max(axis=0), MAX_CLASSES)

    def summary(self) -> str:
        """Summarise the number of steps and alarms, and what is not shown."""
        n_steps, n_alarms = self.priors.shape[0], int(self.raised.sum())
        alarms = "no alarm" if not n_alarms else f"{n_alarms} alarm{'s' if n_alarms > 1 else ''}"
        steps = "1 step" if n_steps == 1 else f"{n_steps:,} steps"
        text = f"{steps}, {alarms}"
        if self.source_priors is not None:
            distance = float(total_variation(self.priors[-1], self.source_priors))
            text += f"; total variation at the end {short_percent(distance)}"
        hidden = self.classes.size - min(self.classes.size, MAX_CLASSES)
        return text + (f"\nnot shown: {hidden:,} classes that moved less" if hidden else "")

    def _draw_lines(self, ax: "Axes", when: NDArray[Any], chosen: Indices) -> None:
        shown = thinned_steps(when.size)
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
        ax.set_ylim(0, 1.08 * float(self.priors[:, chosen].max()))
        if self.source_priors is None:
            return
        colours = [series_style(at)["color"] for at in range(chosen.size)]
        ax.scatter(
            [when[0]] * chosen.size,
            self.source_priors[chosen],
            s=36,
            marker="o",
            facecolors="none",
            edgecolors=colours,
            linewidths=1.5,
            clip_on=False,
            label="source",
        )
        highest = max(self.priors[:, chosen].max(), self.source_priors[chosen].max())
        ax.set_ylim(0, 1.08 * float(highest))

    def _draw_alarms(self, ax: "Axes", when: NDArray[Any]) -> None:
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
        for first, last in runs(self.alarm):
            ax.axvspan(when[first], when[last], color=VERMILLION, alpha=0.12, lw=0, label=label)
            label = f"_{label}"  # one entry of the legend for all of them

    def _label(self, ax: "Axes") -> None:
        share_axis(ax.yaxis)
        ax.set_ylabel("class prior")
        label_time(ax, self.time, numbered=self.numbered)
        ax.grid(axis="y", alpha=0.3)
        ax.set_axisbelow(True)
        bare(ax, "bottom")
        write_head(ax, f"Class priors over time{by(self.method)}", self.summary())


def _check_steps(priors: ArrayLike) -> Vector:
    values = np.asarray(priors, dtype=np.float64)
    if values.ndim != 2 or not values.size or not np.isfinite(values).all():
        raise ValueError(
            f"priors must be finite, of shape (n_steps, n_classes), with at least one step; got "
            f"shape {values.shape}."
        )
    return values


def _check_flags(flags: ArrayLike | None, n_steps: int, name: str) -> Mask:
    values = np.zeros(n_steps, dtype=bool) if flags is None else np.asarray(flags, dtype=bool)
    if values.shape != (n_steps,):
        raise ValueError(
            f"{name} must have {n_steps} entries, one per step; got shape {values.shape}."
        )
    return values
