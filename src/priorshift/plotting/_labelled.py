"""Displays of labelled predictions: confusion matrix, calibration, and what decisions cost."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from priorshift._typing import Floats, Indices, Labels, Mask, Vector
from priorshift.adapt import cheapest, check_costs, prior_ratio
from priorshift.border import (
    check_classes,
    check_priors,
    read_labelled,
    row_blocks,
    some,
)
from priorshift.counts import Confusion, Decision
from priorshift.intervals import wilson_bounds
from priorshift.plotting.style import (
    BLUE,
    GREY,
    VERMILLION,
    WIDTH,
    Display,
    bare,
    ink,
    share_axis,
    write_head,
    write_title,
)
from priorshift.solvers import condition_number
from priorshift.text import short_percent, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class ConfusionDisplay(Display):
    r"""Show how the samples of each class are classified.

    .. math:: C_{ik} = P(\text{decision } i \mid \text{class } k)

    Columns are true classes and sum to 1; rows are decisions.

    Parameters
    ----------
    conditional : array-like of shape (n_classes, n_classes)
        C, with columns that sum to 1.
    classes : array-like of shape (n_classes,)
        Class names.
    seen : array-like of shape (n_classes,)
        Which classes have samples; the columns of the others are hatched.
    decision : {"hard", "soft"}, default="hard"
        Whether decisions are the most probable class, or the probabilities themselves.

    Attributes
    ----------
    ax_, figure_, im_ : Axes, Figure and AxesImage
        Set by `plot`.

    """

    conditional: Vector
    classes: Labels
    seen: Mask
    decision: Decision = "hard"

    FEW, MAX_TEXTS, MAX_NAMES = 4, 12, 30
    """Classes up to which cells are large, cells hold numbers, and all are named on the axes."""

    MAX_CELLS = 200
    """Cells a side; more would be smaller than a pixel, so classes are grouped."""

    @classmethod
    def from_predictions(
        cls,
        y_proba: ArrayLike,
        y: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Plot the confusion matrix of a labelled validation set.

        Parameters
        ----------
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities; 1-D is the probability of the second class.
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like of shape (n_classes,), optional
            Class names in the order of the columns; by default the column names of a frame, or the
            sorted labels.
        ax : matplotlib Axes, optional
            Axes to plot on; by default those of a new pyplot figure.
        """
        names, rows, codes = read_labelled(y_proba, y, classes)
        confusion = Confusion.from_arrays(rows.values, codes, decision="hard")
        return cls.from_confusion(confusion, names, ax=ax)

    @classmethod
    def from_confusion(
        cls, confusion: Confusion, classes: ArrayLike, *, ax: "Axes | None" = None
    ) -> Self:
        """Plot a confusion matrix, such as the `confusion_` of a fitted estimator."""
        names = check_classes(classes, confusion.counts.shape[1])
        return cls(confusion.conditional, names, confusion.seen, confusion.decision).plot(ax)

    @property
    def condition_number(self) -> float:
        """Condition number over the classes seen: the larger, the more noise is amplified."""
        return condition_number(self.conditional[:, self.seen])

    def figsize(self) -> tuple[float, float]:
        """Return the inches a figure needs."""
        if self.classes.size > self.FEW:
            return WIDTH, WIDTH - 1.2
        return 6.0, 4.8 if _fit_side_by_side(self._names()[1]) else 5.6

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Plot the matrix, with numbers if they fit.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        """
        ax = self._axes(ax, "compressed")
        from matplotlib.colors import PowerNorm

        cells, group = pool(self.conditional, self.seen, self.MAX_CELLS)
        K = self.classes.size
        # cividis reads alike with and without colour vision, and on light and dark pages; the
        # square root spreads small shares
        self.im_ = ax.imshow(
            np.ma.masked_invalid(cells),
            cmap="cividis",
            norm=PowerNorm(0.5, vmin=0.0, vmax=1.0),
            interpolation="none",
            aspect="equal",
        )
        bar = ax.figure.colorbar(
            self.im_, ax=ax, fraction=0.046, pad=0.03, label="share of the true class"
        )
        share_axis(bar.ax.yaxis)
        bar.outline.set_visible(False)
        if K <= self.MAX_TEXTS:
            for (row, column), share in np.ndenumerate(cells):
                if not np.isnan(share):  # the end of the colour map that stands out
                    colour = self.im_.cmap(0.0 if np.sqrt(share) > 0.5 else 1.0)
                    known: dict[str, Any] = {"fontsize": 12 if K <= self.FEW else 9}
                    known |= {"ha": "center", "va": "center", "color": colour}
                    ax.text(column, row, f"{100 * share:.0f}", **known)
        unseen = np.isnan(cells[0])
        if unseen.any():
            ax.broken_barh(
                [(k - 0.5, 1) for k in np.flatnonzero(unseen)],
                (-0.5, unseen.size),
                facecolor="none",
                edgecolor=GREY,
                linewidth=0,
                hatch="////",
                label="not in validation",
            )
        at, names = self._names()
        places = (at + 0.5) / group - 0.5
        rotation = 0 if _fit_side_by_side(names) else 90
        ax.set_xticks(places, names, rotation=rotation, parse_math=False)
        ax.set_yticks(places, names, parse_math=False)
        ax.set_xlabel("true class")
        ax.set_ylabel(f"decision ({self.decision})")
        small = 8 if self.MAX_TEXTS < K <= self.MAX_NAMES else None
        ax.tick_params(length=0 if K <= self.MAX_NAMES else 3, labelsize=small)
        bare(ax)
        notes = [f"condition number {self.condition_number:.3g}"]
        if K <= self.MAX_TEXTS:
            notes.append("numbers in %")
        if group > 1:
            notes.append(f"a cell is {group} x {group} classes")
        if not self.seen.all():
            # in a group, those that were not seen may hide behind those that were
            hatched = " (hatched)" if group == 1 else ""
            notes[-1] += f"\n{int((~self.seen).sum()):,} not in validation{hatched}"
        write_title(ax, "Confusion matrix", "; ".join(notes))
        return self

    def _names(self) -> tuple[Indices, list[str]]:
        """Return which classes the axes name, and how."""
        K = self.classes.size
        at = np.arange(K)
        if K > self.MAX_NAMES:  # at a round step, twelve at most
            steps = np.outer(10 ** np.arange(int(np.log10(K)) + 2), [1, 2, 5]).ravel()
            at = np.arange(0, K, steps[np.searchsorted(steps * 12, K)])
        longest = 16 if K <= self.MAX_TEXTS or K > self.MAX_NAMES else 12
        return at, [shorten(label, longest) for label in self.classes[at]]


def _fit_side_by_side(names: list[str]) -> bool:
    return max(map(len, names)) * len(names) <= 36  # turned if they are longer


def pool(conditional: Vector, seen: Mask, most: int) -> tuple[Vector, int]:
    """Merge neighbouring classes until there are at most `most`; return the cells and group size.

    A cell of the result is the chance that a sample of the group's classes, all of them alike,
    gets a decision of the other group; NaN where no class of the group was seen.
    """
    K = seen.size
    group = -(-K // most)
    starts = np.arange(0, K, group)
    sums = np.add.reduceat(np.add.reduceat(conditional * seen, starts, axis=0), starts, axis=1)
    n_seen = np.add.reduceat(seen.astype(np.float64), starts)
    return np.divide(sums, n_seen, out=np.full_like(sums, np.nan), where=n_seen > 0), group


HISTOGRAM_EDGES = np.linspace(0, 1, 41)


@dataclass(eq=False, repr=False)
class ReliabilityDisplay(Display):
    r"""Show how often predictions with a confidence of, for example, 80 % are right.

    For each bin of confidence (the largest probability of a row), the plot shows the share of
    correct predictions with its 95 % Wilson interval, and a histogram of confidence below. The
    expected calibration error weights the bins by their number of samples,

    .. math:: \text{ECE} = \sum_b \frac{n_b}{n} |\text{accuracy}_b - \text{confidence}_b|.

    Parameters
    ----------
    rows : ndarray of shape (n_bins,)
        Rows of each bin; none is empty.
    confidence, accuracy : ndarray of shape (n_bins,)
        Mean confidence, and share of right decisions.
    histogram : ndarray of shape (40,)
        Rows by confidence, in bins of equal width from 0 to 1.
    n_classes : int
        Confidence is never below 1 / n_classes.

    Attributes
    ----------
    ax_, figure_ : Axes and Figure
        Set by `plot`.

    Examples
    --------
    >>> import numpy as np
    >>> y_proba = np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.3, 0.7]])
    >>> round(ReliabilityDisplay.of(y_proba, np.array([0, 1, 1, 1]), n_bins=2).error, 3)
    0.175
    """

    rows: Indices
    confidence: Vector
    accuracy: Vector
    histogram: Indices
    n_classes: int

    LEVEL = 0.95
    STRIP = 0.3
    """Height of the histogram's strip below the diagram, as a share of the diagram's."""

    @classmethod
    def from_predictions(
        cls,
        y_proba: ArrayLike,
        y: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Plot the reliability of labelled predictions.

        Parameters
        ----------
        y_proba, y, classes, ax
            As for `ConfusionDisplay.from_predictions`.
        """
        _, rows, codes = read_labelled(y_proba, y, classes)
        return cls.of(rows.values, codes).plot(ax)

    @classmethod
    def of(cls, y_proba: Floats, y: Indices, *, n_bins: int = 10) -> Self:
        """Count clean probabilities with labels given as column indices, without drawing."""
        confidence = y_proba.max(axis=1).astype(np.float64)
        # bins of about equally many rows; equal confidences stay together
        edges = np.quantile(confidence, np.linspace(0, 1, n_bins + 1)[1:-1])
        bins = np.searchsorted(np.unique(edges), confidence, side="right")
        rows = np.bincount(bins)
        used = rows > 0
        sums = (np.bincount(bins, what)[used] for what in (confidence, y_proba.argmax(axis=1) == y))
        mean_confidence, accuracy = (total / rows[used] for total in sums)
        histogram = np.histogram(confidence.clip(0, 1), HISTOGRAM_EDGES)[0]
        return cls(rows[used], mean_confidence, accuracy, histogram, y_proba.shape[1])

    @property
    def error(self) -> float:
        """Expected calibration error."""
        return float(np.average(np.abs(self.accuracy - self.confidence), weights=self.rows))

    @property
    def interval(self) -> Vector:
        """Wilson interval of each bin's accuracy, shape (n_bins, 2)."""
        z = float(ndtri(0.5 + self.LEVEL / 2))
        bounds = wilson_bounds(self.accuracy, self.rows, z)
        return np.column_stack(bounds).clip(0, 1)

    def figsize(self) -> tuple[float, float]:
        """Return the inches a figure needs."""
        return 5.2, 5.8

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Plot the diagram, with the histogram as a strip at the bottom.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        """
        ax = self._axes(ax)
        lowest = np.floor(10 / self.n_classes) / 10
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
            label=f"bins of equal count, {self.LEVEL:.0%} interval",
        )
        ax.set_xlim(lowest, 1.01)
        ax.set_ylim(-self.STRIP, 1.02)
        ax.set_yticks(np.linspace(0, 1, 6))
        share_axis(ax.xaxis)
        share_axis(ax.yaxis)
        ax.set_xlabel("confidence")
        ax.set_ylabel("share of right predictions", y=(0.5 + self.STRIP) / (1.02 + self.STRIP))
        ax.grid(alpha=0.3)
        bare(ax, "bottom")
        # rows by confidence, below 0 of the diagram, where nothing else is
        most = int(self.histogram.max())
        heights = 0.8 * self.STRIP * self.histogram / max(most, 1) - self.STRIP
        ax.stairs(heights, HISTOGRAM_EDGES, baseline=-self.STRIP, fill=True, color=GREY)
        ax.annotate(
            f"samples, up to {most:,} per bar",
            (0, 0),
            xycoords=("axes fraction", "data"),
            xytext=(4, -2),
            textcoords="offset points",
            va="top",
            fontsize="small",
            color=ink(),
        )
        accuracy, confidence = (
            float(np.average(of, weights=self.rows)) for of in (self.accuracy, self.confidence)
        )
        write_head(
            ax,
            f"Reliability: calibration error {short_percent(self.error)}",
            f"accuracy {short_percent(accuracy)}, mean confidence {short_percent(confidence)}, "
            f"{int(self.rows.sum()):,} samples",
        )
        return self


@dataclass(eq=False, repr=False)
class CostDisplay(Display):
    r"""Show the expected cost per case against the prevalence of one class, before and after.

    Under prior shift, the mean cost of a decision rule on each class does not change. If
    :math:`c_k` is the mean cost on validation rows of class k, the expected cost at priors p is
    :math:`\sum_k p_k c_k`. Decisions from unadapted predictions are the same at every prevalence;
    decisions from adapted predictions depend on it. The other classes keep their proportions.

    Parameters
    ----------
    prevalence : array-like of shape (n_points,)
        Shares of the class.
    before, after : array-like of shape (n_points,)
        Expected cost per case, with unadapted and with adapted predictions.
    name : str
        The class.
    source : float
        Its share in the training data.

    """

    prevalence: Vector
    before: Vector
    after: Vector
    name: str
    source: float

    @classmethod
    def from_predictions(
        cls,
        y_proba: ArrayLike,
        y: ArrayLike,
        costs: Any = None,
        *,
        positive_class: Any = None,
        source_priors: Any = None,
        classes: ArrayLike | None = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Work out the costs from labelled validation predictions, and plot.

        Parameters
        ----------
        y_proba, y
            Predicted probabilities and labels of validation; every class must occur.
        costs : array-like of shape (n_classes, n_classes) or mapping, optional
            As for `priorshift.decide`; by default every error costs 1.
        positive_class : object, optional
            The class whose prevalence varies; by default the last.
        source_priors : array-like of shape (n_classes,) or mapping, optional
            Priors the classifier was trained with; by default the mean prediction.
        classes, ax
            As for `ConfusionDisplay.from_predictions`.
        """
        names, read, index = read_labelled(y_proba, y, classes)
        rows = read.values
        size = np.bincount(index, minlength=names.size)
        if not size.all():
            raise ValueError(
                f"validation has no row of class {some(names[size == 0].tolist())}, so nothing "
                "says what decisions on it cost; add such rows."
            )
        source = rows.mean(axis=0) if source_priors is None else source_priors
        source = check_priors(source, names, "source_priors")
        known = list(map(str, names.tolist()))
        if positive_class is not None and str(positive_class) not in known:
            raise ValueError(
                f"positive_class={positive_class!r} is no class; the classes are "
                f"{some(names.tolist())}."
            )
        k = names.size - 1 if positive_class is None else known.index(str(positive_class))
        matrix = check_costs(costs, names, names.size)
        stakes = 1 - np.eye(names.size) if matrix is None else matrix
        prevalence = np.linspace(0, 1, 101)
        others = np.where(np.arange(names.size) == k, 0.0, source)
        others /= max(others.sum(), np.finfo(np.float64).tiny)
        priors = np.outer(1 - prevalence, others)
        priors[:, k] += prevalence

        def cost(p: Vector, at: Vector) -> float:
            ratio, total = prior_ratio(p, source), np.zeros(names.size)
            for part in row_blocks(*rows.shape):
                decided = cheapest(rows[part] * ratio, matrix)
                total += np.bincount(index[part], stakes[index[part], decided], names.size)
            return float(at @ (total / size))

        before = [cost(source, p) for p in priors[[0, -1]]]  # the same rule: linear in prevalence
        after = np.array([cost(p, p) for p in priors])
        line = (1 - prevalence) * before[0] + prevalence * before[1]
        return cls(prevalence, line, after, str(names[k]), float(source[k])).plot(ax)

    @property
    def saved(self) -> Vector:
        """Savings per case from adapting, at each prevalence."""
        return self.before - self.after

    def figsize(self) -> tuple[float, float]:
        """Return the inches a figure needs."""
        return WIDTH, 4.2

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Plot both costs, and mark the prevalence in the training data.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        self
        """
        ax = self._axes(ax)
        ax.plot(self.prevalence, self.before, "--", color=VERMILLION, label="unadapted")
        ax.plot(self.prevalence, self.after, color=BLUE, label="adapted")
        ax.fill_between(self.prevalence, self.after, self.before, color=BLUE, alpha=0.12, lw=0)
        ax.axvline(self.source, color="0.5", lw=1, ls=":", label="in training")
        share_axis(ax.xaxis)
        ax.set_xlim(0, 1)
        ax.set_ylim(bottom=min(0.0, float(self.after.min())))
        ax.set_xlabel(f"prevalence of {self.name}")
        ax.set_ylabel("expected cost per case")
        ax.grid(alpha=0.3)
        ax.legend(frameon=False, fontsize="small")
        bare(ax, "bottom", "left")
        most = int(self.saved.argmax())
        write_title(
            ax,
            "What decisions cost",
            f"adapting saves most at {self.prevalence[most]:.0%}: {self.saved[most]:.2g} per case",
        )
        return self
