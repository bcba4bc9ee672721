"""The cost of decisions at every prevalence, before and after adapting."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from priorshift._results import Backend, make_frame
from priorshift._typing import Labels, Vector
from priorshift.adapt import cheapest, check_costs, prior_ratio
from priorshift.border import (
    check_priors,
    row_blocks,
    some,
)
from priorshift.plotting._samples import read_labelled
from priorshift.plotting.style import (
    BLUE,
    VERMILLION,
    WIDTH,
    Display,
    bare,
    share_axis,
    write_title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_PREVALENCES = 101


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
    source : float, optional
        Its share in the training data.

    Examples
    --------
    >>> from priorshift.plotting import CostDisplay
    >>> display = CostDisplay([0.0, 0.5, 1.0], [0.1, 0.3, 0.5], [0.0, 0.3, 0.0], "ill", source=0.5)
    >>> display.saved.round(2)
    array([0.1, 0. , 0.5])
    """

    def __init__(
        self,
        prevalence: ArrayLike,
        before: ArrayLike,
        after: ArrayLike,
        name: str,
        *,
        source: float | None = None,
    ) -> None:
        values = (np.asarray(one, dtype=np.float64) for one in (prevalence, before, after))
        self.prevalence, self.before, self.after = values
        if not self.prevalence.shape == self.before.shape == self.after.shape:
            raise ValueError("prevalence, before and after must have one number per point each.")
        self.name, self.source = name, source

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        y_proba: ArrayLike,
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
        y, y_proba
            Labels and predicted probabilities of validation; every class must occur.
        costs : array-like of shape (n_classes, n_classes) or mapping, optional
            As for `priorshift.decide`; by default every error costs 1.
        positive_class : object, optional
            The class whose prevalence varies; by default the last.
        source_priors : array-like of shape (n_classes,) or mapping, optional
            Priors the classifier was trained with; by default the mean prediction.
        classes, ax
            As for `ConfusionDisplay.from_predictions`.
        """
        rows, index, names = read_labelled(y_proba, y, classes)
        size = np.bincount(index, minlength=names.size)
        if not size.all():
            raise ValueError(
                f"validation has no row of class {some(names[size == 0].tolist())}, so nothing "
                "says what decisions on it cost; add such rows."
            )
        source = rows.mean(axis=0) if source_priors is None else source_priors
        source = check_priors(source, names, "source_priors")
        k = _position(positive_class, names)
        matrix = check_costs(costs, names, names.size)
        stakes = 1 - np.eye(names.size) if matrix is None else matrix
        prevalence = np.linspace(0, 1, N_PREVALENCES)
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
        after = [cost(p, p) for p in priors]
        line = (1 - prevalence) * before[0] + prevalence * before[1]
        return cls(prevalence, line, after, str(names[k]), source=float(source[k])).plot(ax)

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
        ax = self._axes(ax, self.figsize())
        ax.plot(self.prevalence, self.before, "--", color=VERMILLION, label="unadapted")
        ax.plot(self.prevalence, self.after, color=BLUE, label="adapted")
        ax.fill_between(self.prevalence, self.after, self.before, color=BLUE, alpha=0.12, lw=0)
        if self.source is not None:
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

    def frame(self, backend: Backend = "pandas") -> Any:
        """Return one row per prevalence, as a frame of the named library."""
        columns = {"prevalence": self.prevalence, "before": self.before, "after": self.after}
        return make_frame(columns, backend)


def _position(positive_class: Any, names: Labels) -> int:
    if positive_class is None:
        return names.size - 1
    found = [k for k, name in enumerate(names.tolist()) if str(name) == str(positive_class)]
    if not found:
        raise ValueError(
            f"positive_class={positive_class!r} is no class; the classes are "
            f"{some(names.tolist())}."
        )
    return found[0]
