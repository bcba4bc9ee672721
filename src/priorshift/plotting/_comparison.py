"""Priors from several methods, and the distances between them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist

from priorshift._results import Backend, make_frame
from priorshift._typing import Indices, Labels, Vector
from priorshift.border import check_choice, check_classes, check_priors, some
from priorshift.estimators import PriorEstimate, traits_of
from priorshift.plotting.style import (
    WIDTH,
    Display,
    bare,
    draw_heatmap,
    frame_rows,
    ink,
    literally,
    series_style,
    write_cells,
    write_title,
)
from priorshift.text import movers, short_percent, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Kind = Literal["auto", "priors", "distance"]

MAX_DOTS = 60
"""Number of dots that readers can distinguish; beyond it, "auto" shows distances."""

MAX_CLASSES = 12

FAR_APART = 0.25
"""A distance up to this never gets the brightest colour: methods that agree look similar."""

ROOM = 22
"""Points that a cell with a number is wide at least."""


class ComparisonDisplay(Display):
    r"""Show whether methods agree.

    With few methods and classes, it shows the priors themselves: one row per class, one marker per
    method. With many, it shows the total variation distance between every two methods,

    .. math:: \tfrac12 \sum_k |p_k - p'_k|,

    the share of samples that the two methods put into different classes. The true priors, if
    given, appear as a line or as an additional method.

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

    def __init__(
        self,
        priors: ArrayLike,
        methods: Sequence[str],
        classes: ArrayLike,
        *,
        truth: Any = None,
    ) -> None:
        self.priors = np.asarray(priors, dtype=np.float64)
        self.methods = tuple(map(str, methods))
        if self.priors.ndim != 2 or self.priors.shape[0] != len(self.methods) or not self.methods:
            raise ValueError(
                f"priors must have one row for each of {len(self.methods)} methods, and there "
                f"must be at least one; got shape {self.priors.shape}."
            )
        self.classes = check_classes(classes, self.priors.shape[1])
        self.truth = None if truth is None else check_priors(truth, self.classes, "truth")

    @classmethod
    def from_estimates(
        cls,
        estimates: Mapping[str, PriorEstimate],
        *,
        truth: Any = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Plot estimates of the same target by several methods.

        Parameters
        ----------
        estimates : mapping from str to PriorEstimate
            By name, such as the `estimates` of a `Comparison`.
        truth : array-like of shape (n_classes,) or mapping, optional
            True priors of the target.
        ax : matplotlib Axes, optional
            Axes to plot on; by default those of a new pyplot figure.
        """
        if not estimates:
            raise ValueError("estimates is empty; give at least one.")
        classes = next(iter(estimates.values())).classes
        priors = [_in_order(name, estimate, classes) for name, estimate in estimates.items()]
        return cls(priors, tuple(estimates), classes, truth=truth).plot(ax)

    @property
    def distances(self) -> Vector:
        """Total variation distance between every two methods."""
        return 0.5 * cdist(self.priors, self.priors, "cityblock")

    def frame(self, backend: Backend = "pandas") -> Any:
        """Return one row per method and class, as a frame of the named library."""
        n_methods = len(self.methods)
        columns = {
            "method": np.repeat(self.methods, self.classes.size),
            "class": np.tile(self.classes, n_methods),
            "prior": self.priors.ravel(),
        }
        if self.truth is not None:
            columns["truth"] = np.tile(self.truth, n_methods)
        return make_frame(columns, backend)

    def figsize(self, kind: Kind = "auto") -> tuple[float, float]:
        """Return the inches a figure needs."""
        n_methods = len(self.methods) + (self.truth is not None)
        if self._resolve(kind) == "distance":
            side = 2.6 + 0.36 * n_methods
            return max(side + 0.6, 4.5), max(side, 3.6)
        n_rows = min(self.classes.size, MAX_CLASSES)
        return WIDTH, 1.2 + max(n_rows * max(0.3, 0.11 * n_methods), 0.22 * n_methods)

    def plot(self, ax: "Axes | None" = None, *, kind: Kind = "auto") -> Self:
        """Plot priors by class and method, or distances between methods.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        kind : {"auto", "priors", "distance"}, default="auto"
            "auto" plots priors if there are at most 60 of them; of more than 12 classes, those on
            which the methods differ most.
        """
        check_choice(kind, ("auto", "priors", "distance"), "kind")
        figsize = self.figsize(kind)
        if self._resolve(kind) == "distance":
            ax = self._axes(ax, figsize, "compressed")
            self._draw_distances(ax)
        else:
            ax = self._axes(ax, figsize)
            self._draw_priors(ax, self._disputed())
        return self

    def _resolve(self, kind: Kind) -> Kind:
        return (
            ("priors" if self.priors.size <= MAX_DOTS else "distance") if kind == "auto" else kind
        )

    def _disputed(self) -> Indices:
        """Return the classes to draw: all in order, or those whose priors differ most."""
        if self.classes.size <= MAX_CLASSES:
            return np.arange(self.classes.size)
        return movers(np.ptp(self._with_truth()[1], axis=0), MAX_CLASSES)

    def _with_truth(self) -> tuple[list[str], Vector]:
        """Return names and priors of the methods, the truth first if it is known."""
        if self.truth is None:
            return list(self.methods), self.priors
        return ["truth", *self.methods], np.vstack([self.truth, self.priors])

    def _draw_priors(self, ax: "Axes", rows: Indices) -> None:
        y, n_methods = np.arange(rows.size), len(self.methods)
        if self.truth is not None:
            ax.vlines(self.truth[rows], y - 0.45, y + 0.45, colors=ink(), lw=2, label="truth")
        offsets = np.linspace(-0.32, 0.32, n_methods) if n_methods > 1 else np.zeros(1)
        for m, name in enumerate(self.methods):
            style = series_style(m)
            ax.plot(
                self.priors[m, rows],
                y + offsets[m],
                ls="",
                ms=6,
                clip_on=False,
                label=shorten(name),
                **style,
            )
        frame_rows(ax, [shorten(label) for label in self.classes[rows]], "class prior", parted=True)
        legend = ax.legend(
            loc="upper left", bbox_to_anchor=(1, 1), frameon=False, borderaxespad=0.2
        )
        literally(legend)
        shown = f"; the {rows.size} on which methods differ most"
        self._write_title(ax, shown if rows.size < self.classes.size else "")

    def _draw_distances(self, ax: "Axes") -> None:
        """Draw every two methods' distance, nearest to the truth (or to all others) first."""
        names, priors = self._with_truth()
        distances = 0.5 * cdist(priors, priors, "cityblock")
        nearness = distances.mean(axis=0) if self.truth is None else distances[0]
        order = np.argsort(nearness, kind="stable")
        if self.truth is not None:  # a method may be right
            order = np.concatenate([[0], order[order != 0]])
        cells = distances[np.ix_(order, order)]
        np.fill_diagonal(cells, np.nan)
        largest = max(float(np.nanmax(cells, initial=0.0)), FAR_APART)
        image = draw_heatmap(ax, cells, largest=largest, label="total variation distance")
        legible = _points_wide(ax) >= ROOM * order.size
        if legible:
            texts = np.where(np.isnan(cells), "", np.char.mod("%.1f", 100 * np.nan_to_num(cells)))
            write_cells(ax, image, texts, fontsize=8)
        shown = [shorten(names[m], 14) for m in order]
        ax.set_xticks(np.arange(order.size), shown, rotation=90, parse_math=False)
        ax.set_yticks(np.arange(order.size), shown, parse_math=False)
        ax.tick_params(length=0)
        bare(ax)
        self._write_title(ax, "; numbers in %" if legible else "")

    def _write_title(self, ax: "Axes", more: str) -> None:
        """Name the two methods that differ most, of those that estimate anything."""
        plural = "s" if len(self.methods) > 1 else ""
        title = f"{len(self.methods)} method{plural}, {self.classes.size:,} classes{more}"
        judged = [m for m, name in enumerate(self.methods) if traits_of(name).outputs != "ignored"]
        if len(judged) > 1:
            distances = self.distances[np.ix_(judged, judged)]
            pair = np.unravel_index(np.argmax(distances), distances.shape)
            one, other = (shorten(self.methods[judged[m]]) for m in pair)
            title += f"\nfurthest apart: {one} and {other}, by {short_percent(distances[pair])}"
        write_title(ax, "Agreement of methods", title)


def _points_wide(ax: "Axes") -> float:
    return float(72 * ax.bbox.width / ax.figure.dpi)


def _in_order(name: str, estimate: PriorEstimate, classes: Labels) -> Vector:
    """Return an estimate's priors in the order of `classes`."""
    if estimate.classes.tolist() == classes.tolist():
        return estimate.priors
    by_name = dict(zip(map(str, estimate.classes.tolist()), estimate.priors, strict=True))
    if set(by_name) != set(map(str, classes.tolist())):
        raise ValueError(
            f"estimates must be of the same classes: {name!r} has "
            f"{some(estimate.classes.tolist())}, the first has {some(classes.tolist())}."
        )
    return np.array([by_name[str(label)] for label in classes.tolist()])
