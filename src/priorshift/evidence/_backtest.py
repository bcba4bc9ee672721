r"""Backtest: what calibrating and adapting would have gained on labelled groups of the past.

Each group (a month, a site, a customer) is taken for the target once, and a method is fitted to
other groups: to earlier ones only where groups are in order, to all others otherwise. Its labels
then tell what each action gained, and how far both readings of the class shares were off. Groups
differ more than rows do, so the mean gain over J groups is bounded by Student's t,

.. math:: \bar g \pm t_{J - 1} \sqrt{\frac{1}{J (J - 1)} \sum_j (g_j - \bar g)^2}.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from re import fullmatch
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from priorshift._results import Backend, make_frame
from priorshift._typing import Indices, Labels, Vector
from priorshift.adapt import IN_POINTS, Aim, Goal, GoalName
from priorshift.border import Predictions, as_generator, read_groups, read_labelled, some
from priorshift.estimators import PriorEstimator, as_estimator
from priorshift.evidence._actions import Strata, act, fit_mean, measure_gains, rows_that_differ
from priorshift.exceptions import require
from priorshift.text import plain
from priorshift.verdict import SURE, WORTH, Action, Gain, Ruling, Verdict, take_best
from priorshift.words import say_backtest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST_ROWS = 100
"""Rows below which a group is pooled with its neighbours."""

FEWEST_GROUPS = 4
"""Groups below which there is no verdict."""

MOST_ROWS = 6000
"""Rows of other groups that a method is fitted to; a random part of more."""


READINGS = "prior_shift", "calibrated_mean", "unchanged"
"""Of the class shares: by the estimate, by the calibrated mean, and as they were before."""


class PastGroup(NamedTuple):
    """A group of the past as a target: its name, rows, what actions gained, how readings erred.

    `errors` are shares less the truth, by each of the `READINGS`; `moved` is how far the estimate
    moved them (total variation).
    """

    name: str
    n: int
    gains: dict[Action, float]
    errors: Vector
    moved: float

    @property
    def off(self) -> Vector:
        """How far each reading was off, in shares of all cases."""
        return np.asarray(np.abs(self.errors).sum(axis=1) / 2)


@dataclass(frozen=True, eq=False, repr=False)
class Backtest:
    """What would have helped in the past; frozen, picklable, without sample rows.

    Attributes
    ----------
    groups : tuple of PastGroup
        One per group that was taken for a target.
    n_groups : int
        Groups in all, after small ones were pooled.
    ordered : bool
        Whether each group was predicted from earlier ones only.
    goal : str
        What gains are in: 0.05 of accuracy is 5 points.
    scale : float
        What an error costs on average.
    """

    groups: tuple[PastGroup, ...]
    n_groups: int
    ordered: bool
    goal: Aim = "accuracy"
    scale: float = 1.0

    @property
    def gained(self) -> dict[Action, Vector]:
        """What each action gained, group by group."""
        actions: tuple[Action, ...] = ("calibrate", "adapt")
        return {of: np.array([group.gains[of] for group in self.groups]) for of in actions}

    @property
    def gains(self) -> dict[Action, Gain] | None:
        """Mean gain of each action; `SURE` of its errors bound it, one-sided at 95 %.

        None where groups are too few for a verdict.
        """
        J = len(self.groups)
        if self.n_groups < FEWEST_GROUPS or J < 2:
            return None
        reach = float(stdtrit(J - 1, 0.95)) / SURE / np.sqrt(J)
        return {
            action: Gain(float(gains.mean()), float(gains.std(ddof=1)) * reach)
            for action, gains in self.gained.items()
        }

    @property
    def ruling(self) -> Ruling | None:
        """What history alone says; None where groups are too few."""
        gains = self.gains
        return None if gains is None else take_best(gains, SURE, "history", WORTH * self.scale)

    @property
    def verdict(self) -> Verdict | None:
        """What to do, by history alone; None where groups are too few."""
        return None if self.ruling is None else self.ruling.verdict

    @property
    def off(self) -> dict[str, float]:
        """How far readings of the shares were off on average, in shares of all cases."""
        mean = np.mean([group.off for group in self.groups], axis=0).tolist()
        return dict(zip(READINGS, mean, strict=True))

    @property
    def sentence(self) -> str:
        """All of it in one sentence."""
        mean = {action: float(gains.mean()) for action, gains in self.gained.items()}
        sizes = len(self.groups), self.n_groups, FEWEST_GROUPS
        return say_backtest(*sizes, self.goal, mean, self.off)

    def weights(self) -> Vector:
        """Return weights of the readings: prior shift, mean, unchanged; by past squared errors."""
        off = np.mean([group.off for group in self.groups], axis=0)
        weight = 1 / np.maximum(off, 1e-4) ** 2
        return np.asarray(weight / weight.sum())

    def spread(self, level: float) -> Vector:
        """Return how far weighted readings are off per class, at a level, by Student's t."""
        errors = np.array([self.weights() @ group.errors for group in self.groups])
        J = len(errors)
        reach = float(stdtrit(J, (1 + level) / 2)) * np.sqrt(1 + 1 / J)
        return np.asarray(reach * np.sqrt((errors**2).mean(axis=0)))

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return one row per group, as a frame of the named library."""
        return make_frame(self.columns(), backend)

    def columns(self) -> dict[str, list[Any]]:
        """Return the columns of `to_frame`, by name."""
        off = np.array([group.off for group in self.groups])
        return {
            "group": [group.name for group in self.groups],
            "n": [group.n for group in self.groups],
            **{f"gain_{action}": gains.tolist() for action, gains in self.gained.items()},
            **dict(zip(map("off_{}".format, READINGS), off.T.tolist(), strict=True)),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON."""
        columns = self.columns()
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        gains = {
            action: {"mean": gain.mean, "low": gain.less(SURE), "high": gain.less(-SURE)}
            for action, gain in (self.gains or {}).items()
        }
        return {
            "verdict": self.verdict,
            "action": None if self.ruling is None else self.ruling.action,
            "sentence": self.sentence,
            "ordered": self.ordered,
            "n_groups": self.n_groups,
            "goal": self.goal,
            "gains": gains or None,
            "off": self.off,
            "groups": plain(rows),
        }

    def __repr__(self) -> str:
        """Show the sentence; `to_frame` has a row per group."""
        return self.sentence

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot what calibrating and adapting gained on each group, with Matplotlib."""
        if ax is None:
            require("a plot", "plot", "matplotlib.pyplot")
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(figsize=(7, 0.5 + 0.4 * len(self.groups)), layout="constrained")
        at = np.arange(len(self.groups))
        factor, unit = (100, "points") if self.goal in IN_POINTS else (1, self.goal)
        colours: dict[Action, str] = {"adapt": "#0072B2", "calibrate": "#E69F00"}
        for shift, (action, colour) in zip((-0.2, 0.2), colours.items(), strict=True):
            gains, label = factor * self.gained[action], f"{action.removesuffix('e')}ing"
            ax.barh(at + shift, gains, 0.4, color=colour, label=label)
        ax.axvline(0, color="0.3", linewidth=0.8)
        ax.set_yticks(at, [group.name for group in self.groups])
        ax.invert_yaxis()
        ax.set_xlabel(f"gain ({unit})")
        ax.legend(frameon=False)
        return ax


def backtest(
    y_proba: ArrayLike,
    y: ArrayLike,
    groups: ArrayLike,
    *,
    classes: ArrayLike | None = None,
    method: str | PriorEstimator = "auto",
    source_priors: Any = None,
    costs: Any = None,
    goal: GoalName = "accuracy",
    ordered: bool | None = None,
    random_state: int | np.random.Generator | None = None,
) -> Backtest:
    """Say what adapting and calibrating would have gained on labelled groups of the past.

    Parameters
    ----------
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities of labelled history.
    y : array-like of shape (n_samples,)
        Its labels.
    groups : array-like of shape (n_samples,)
        The month, site, customer or other group of each row. Groups below 100 rows are pooled with
        their neighbours; fewer than 4 give no verdict.
    classes : array-like of shape (n_classes,), optional
        Class names in the order of the columns.
    method : str or PriorEstimator, default="auto"
        How to estimate the priors.
    source_priors : array-like of shape (n_classes,) or mapping, optional
        Priors the classifier was trained under.
    costs, goal
        As for `assess`: what gains are in.
    ordered : bool, optional
        Whether groups have an order, so that each is predicted from earlier ones only. By default
        numbers and dates have one, and names do not.
    random_state : None, int or numpy.random.Generator, optional
        For folds; None gives the same ones every time.

    Returns
    -------
    Backtest

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> rng = np.random.default_rng(0)
    >>> month = np.repeat(np.arange(6), 400)
    >>> y = (rng.uniform(size=2400) < np.array([0.5, 0.2, 0.8, 0.3, 0.7, 0.1])[month]).astype(int)
    >>> score = 1 / (1 + np.exp(-rng.normal(2 * y - 1)))
    >>> past = ps.backtest(score, y, month, random_state=0)
    >>> past.verdict
    'adapt'
    """
    names, rows, labels = read_labelled(y_proba, y, classes)
    return replay(
        rows,
        labels,
        name_groups(groups, labels.size, ordered),
        names,
        method,
        Goal.of(costs, goal, names),
        random_state,
        source_priors=source_priors,
    )


def replay(
    rows: Predictions,
    y: Indices,
    grouped: tuple[Indices, list[str], bool],
    classes: Labels,
    method: str | PriorEstimator,
    goal: Goal,
    random_state: Any,
    **given: Any,
) -> Backtest:
    """Take each group, as `name_groups` returns them, for a target; labels are numbers."""
    groups, group_names = _pool(*grouped[:2])
    in_time, values = grouped[2], rows.values
    if len(group_names) < 2:
        raise ValueError(
            f"groups must make at least two of {FEWEST_ROWS} rows; all {y.size} rows make one. Add "
            "rows, or leave groups out."
        )
    found = []
    rng = as_generator(0 if random_state is None else random_state)
    for group in range(int(in_time), len(group_names)):
        here = np.flatnonzero(groups == group)
        others = np.flatnonzero(groups < group if in_time else groups != group)
        if others.size > MOST_ROWS:
            others = np.sort(rng.choice(others, MOST_ROWS, replace=False))
        estimator = as_estimator(method)
        past, target = (Predictions.from_checked(values[part]) for part in (others, here))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is odd about a part is not news about the whole
            fitted = estimator.fit(past, classes[y[others]], classes=classes, **given)
            estimate = fitted.estimate(target)
            mean = fit_mean(fitted, classes, past, classes[y[others]], **given).estimate(target)
            actions = act(estimate, mean, target.values)
        aim = goal.at(estimate.priors)
        strata = Strata(rows_that_differ(aim, actions), np.arange(here.size), y[here])
        gains = {action: gain.mean for action, gain in measure_gains(aim, actions, strata).items()}
        readings = np.array([estimate.priors, mean.priors, mean.source_priors])
        errors = readings - np.bincount(y[here], minlength=classes.size) / here.size
        moved = float(np.abs(readings[0] - readings[2]).sum() / 2)
        found.append(PastGroup(group_names[group], here.size, gains, errors, moved))
    return Backtest(tuple(found), len(group_names), in_time, goal.name, goal.cost_of_error())


def name_groups(
    groups: Any, n: int, ordered: bool | None, name: str = "groups"
) -> tuple[Indices, list[str], bool]:
    """Check groups; return them as numbers, their names, and whether they have an order."""
    names, encoded = np.unique(read_groups(groups, n, name), return_inverse=True)
    if names.size < 2:
        raise ValueError(f"{name} must be at least two; got {some(names.tolist())} alone.")
    # numbers and dates, or months or years, sort as such
    shown = [f"{of:g}" if names.dtype.kind == "f" else str(of) for of in names.tolist()]
    dated = all(fullmatch(r"\d{4}([-/]\d{1,2}){0,2}([ T].*)?", of) for of in shown)
    in_time = names.dtype.kind in "iuf" or dated
    return encoded.astype(np.intp), shown, in_time if ordered is None else bool(ordered)


def _pool(groups: Indices, names: list[str]) -> tuple[Indices, list[str]]:
    """Pool groups below 100 rows with the next ones, and a last one with those before it."""
    size = np.bincount(groups, minlength=len(names))
    parts: list[list[int]] = [[]]
    for group in range(len(names)):
        if parts[-1] and size[parts[-1]].sum() >= FEWEST_ROWS:
            parts.append([])
        parts[-1].append(group)
    if len(parts) > 1 and size[parts[-1]].sum() < FEWEST_ROWS:
        last = parts.pop()
        parts[-1] += last
    pooled = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    called = [
        names[part[0]] if len(part) == 1 else f"{names[part[0]]} to {names[part[-1]]}"
        for part in parts
    ]
    return pooled[groups], called
