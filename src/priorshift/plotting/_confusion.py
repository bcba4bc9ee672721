"""The confusion matrix, as a heat map."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from priorshift._results import Backend, make_frame
from priorshift._typing import Indices, Mask, Vector
from priorshift.border import (
    check_choice,
    check_classes,
)
from priorshift.counts import Confusion, Decision
from priorshift.plotting._samples import read_labelled
from priorshift.plotting.style import (
    GREY,
    WIDTH,
    Display,
    bare,
    draw_heatmap,
    thinned,
    write_cells,
    write_title,
)
from priorshift.solvers import condition_number
from priorshift.text import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 4
"""Classes up to which cells are large."""

MAX_TEXTS = 12
"""Classes up to which cells hold numbers."""

MAX_NAMES = 30
"""Classes up to which all are named on the axes."""

MAX_CHARACTERS = 36
"""Of all names along the lower axis, each as long as the longest; beyond it they are turned."""

MAX_CELLS = 200
"""Cells a side; more would be smaller than a pixel, so classes are grouped."""


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
    seen : array-like of shape (n_classes,), optional
        Which classes have samples; the columns of the others are hatched. By default, all classes
        whose column does not sum to 0.
    decision : {"hard", "soft"}, default="hard"
        Whether decisions are the most probable class, or the probabilities themselves.

    Attributes
    ----------
    ax_, figure_, im_ : Axes, Figure and AxesImage
        Set by `plot`.

    Examples
    --------
    >>> from priorshift.plotting import ConfusionDisplay
    >>> display = ConfusionDisplay([[0.8, 0.2], [0.2, 0.8]], ["cat", "dog"])
    >>> round(display.condition_number, 3)
    1.667
    """

    def __init__(
        self,
        conditional: ArrayLike,
        classes: ArrayLike,
        *,
        seen: ArrayLike | None = None,
        decision: Decision = "hard",
    ) -> None:
        check_choice(decision, ("hard", "soft"), "decision")
        self.conditional, self.decision = _check_conditional(conditional), decision
        self.classes = check_classes(classes, self.conditional.shape[1])
        has_samples: Mask = self.conditional.max(axis=0) > 0
        self.seen: Mask = has_samples if seen is None else np.asarray(seen, dtype=bool)
        if self.seen.shape != has_samples.shape or not self.seen.any():
            raise ValueError(
                f"seen must say for each of {has_samples.size} classes whether it has samples, "
                f"and one must have some; got shape {self.seen.shape}."
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
        """Plot the confusion matrix of a labelled validation set.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Labels.
        y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
            Predicted probabilities; 1-D is the probability of the second class.
        classes : array-like of shape (n_classes,), optional
            Class names in the order of the columns; by default the column names of a frame, or the
            sorted labels.
        ax : matplotlib Axes, optional
            Axes to plot on; by default those of a new pyplot figure.
        """
        values, codes, names = read_labelled(y_proba, y, classes)
        confusion = Confusion.from_arrays(values, codes, decision="hard")
        return cls.from_confusion(confusion, names, ax=ax)

    @classmethod
    def from_confusion(
        cls, confusion: Confusion, classes: ArrayLike, *, ax: "Axes | None" = None
    ) -> Self:
        """Plot a confusion matrix, such as the `confusion_` of a fitted estimator."""
        display = cls(
            confusion.conditional, classes, seen=confusion.seen, decision=confusion.decision
        )
        return display.plot(ax)

    @property
    def condition_number(self) -> float:
        """Condition number over the classes seen: the larger, the more noise is amplified."""
        return condition_number(self.conditional[:, self.seen])

    def figsize(self) -> tuple[float, float]:
        """Return the inches a figure needs."""
        if self.classes.size > FEW:
            return WIDTH, WIDTH - 1.2
        return 6.0, 4.8 if _fit_side_by_side(self._names()[1]) else 5.6

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Plot the matrix, with numbers if they fit.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        """
        ax = self._axes(ax, self.figsize(), "compressed")
        cells, group = pool(self.conditional, self.seen, MAX_CELLS)
        self.im_ = draw_heatmap(ax, cells, largest=1.0, label="share of the true class")
        if self.classes.size <= MAX_TEXTS:
            texts = np.where(np.isnan(cells), "", np.char.mod("%.0f", 100 * np.nan_to_num(cells)))
            write_cells(ax, self.im_, texts, fontsize=12 if self.classes.size <= FEW else 9)
        self._hatch_unseen(ax, np.isnan(cells[0]))
        self._label(ax, group)
        return self

    def frame(self, backend: Backend = "pandas") -> Any:
        """Return one row per cell (decision, class, share), as a frame of the named library."""
        K = self.classes.size
        columns = {
            "decision": np.repeat(self.classes, K),
            "true_class": np.tile(self.classes, K),
            "share": np.where(self.seen, self.conditional, np.nan).ravel(),
        }
        return make_frame(columns, backend)

    def _hatch_unseen(self, ax: "Axes", unseen: Mask) -> None:
        """Hatch the columns of classes without samples, all as one artist."""
        if not unseen.any():
            return
        ax.broken_barh(
            [(k - 0.5, 1) for k in np.flatnonzero(unseen)],
            (-0.5, unseen.size),
            facecolor="none",
            edgecolor=GREY,
            linewidth=0,
            hatch="////",
            label="not in validation",
        )

    def _names(self) -> tuple[Indices, list[str]]:
        """Return which classes the axes name, and how."""
        K = self.classes.size
        at = np.arange(K) if K <= MAX_NAMES else thinned(K, 12)
        longest = 16 if K <= MAX_TEXTS or K > MAX_NAMES else 12
        return at, [shorten(label, longest) for label in self.classes[at]]

    def _label(self, ax: "Axes", group: int) -> None:
        K = self.classes.size
        at, names = self._names()
        places = (at + 0.5) / group - 0.5
        rotation = 0 if _fit_side_by_side(names) else 90
        ax.set_xticks(places, names, rotation=rotation, parse_math=False)
        ax.set_yticks(places, names, parse_math=False)
        ax.set_xlabel("true class")
        ax.set_ylabel(f"decision ({self.decision})")
        small = 8 if MAX_TEXTS < K <= MAX_NAMES else None
        ax.tick_params(length=0 if K <= MAX_NAMES else 3, labelsize=small)
        bare(ax)
        notes = [f"condition number {self.condition_number:.3g}"]
        if K <= MAX_TEXTS:
            notes.append("numbers in %")
        if group > 1:
            notes.append(f"a cell is {group} x {group} classes")
        if not self.seen.all():
            # in a group, those that were not seen may hide behind those that were
            hatched = " (hatched)" if group == 1 else ""
            notes[-1] += f"\n{int((~self.seen).sum()):,} not in validation{hatched}"
        write_title(ax, "Confusion matrix", "; ".join(notes))


def _fit_side_by_side(names: list[str]) -> bool:
    return max(map(len, names)) * len(names) <= MAX_CHARACTERS


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


def _check_conditional(conditional: ArrayLike) -> Vector:
    values = np.asarray(conditional, dtype=np.float64)
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        raise ValueError(
            f"conditional must be square, decisions by true classes; got shape {values.shape}."
        )
    total = values.sum(axis=0)
    bad = np.flatnonzero(~(np.isclose(total, 1, atol=1e-3) | (total == 0)) | (values < 0).any(0))
    if bad.size:
        raise ValueError(
            f"the columns of conditional must be distributions, or 0 for a class without samples; "
            f"column {bad[0]} sums to {total[bad[0]]:.6g}. Divide each column of counts by its sum."
        )
    return values
