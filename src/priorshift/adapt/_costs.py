r"""Make decisions when errors have different costs, and measure what adapting saves.

With costs C (rows are true classes, columns are decisions), decision d for a row with probabilities
p has the expected cost

.. math:: \mathrm{E}\, C_d = \sum_k p_k C_{kd},

and the best decision minimises it. Abstaining, if allowed, has a cost too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from priorshift._typing import Floats, Indices, Labels, Vector
from priorshift.border import (
    Block,
    as_array,
    as_float,
    check_choice,
    check_classes,
    check_numbers,
    check_proba,
    dense,
    map_reduce,
    some,
)
from priorshift.exceptions import argument
from priorshift.text import brief

REJECTED = -1
"""The column number of a row that is not decided."""

TIED = 1e-12
"""Expected costs that differ by less, as a share of the largest cost, are the same."""

MOST_COST = 1e100
"""Costs that can be squared and summed without overflow."""

GoalName = Literal["accuracy", "balanced_accuracy", "log_loss"]
Aim = Literal["accuracy", "balanced_accuracy", "log_loss", "cost"]
"""What a gain is in."""

GOALS: tuple[GoalName, ...] = ("accuracy", "balanced_accuracy", "log_loss")

GOAL_WORDS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "log_loss": "log loss",
    "cost": "the expected cost per case",
}
"""Goals in sentences."""

IN_POINTS = ("accuracy", "balanced_accuracy")
"""Goals that are a share to increase, rather than a cost to reduce."""

LEAST_PROBABILITY = float(np.finfo(np.float32).eps)
"""Below it, a probability counts as this in a log loss."""


def binary_cut(costs: Floats | None = None) -> float | None:
    r"""Return from which probability on the second of two classes is decided for.

    Where both decisions cost the same in expectation: with what a false alarm and a miss cost more
    than the right decision, :math:`c_{01}` and :math:`c_{10}`,

    .. math:: t = \frac{c_{01}}{c_{01} + c_{10}},

    one half without costs. None where one decision is never dearer.
    """
    if costs is None:
        return 0.5
    alarm, miss = (float(costs[k, 1 - k] - costs[k, k]) for k in (0, 1))
    return alarm / (alarm + miss) if alarm > 0 and miss > 0 else None


def decide(
    y_proba: ArrayLike,
    costs: Any = None,
    classes: ArrayLike | None = None,
    reject: float | None = None,
) -> NDArray[Any]:
    r"""Choose the class with the lowest expected cost for each row.

    .. math:: \hat d = \operatorname*{argmin}_d \sum_k p_k C_{kd}

    Ties go to the most probable class. Adapt the probabilities first, because they weight the
    costs.

    Parameters
    ----------
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Probabilities. If 1-D, the probability of the second class.
    costs : array-like of shape (n_classes, n_decisions) or mapping, optional
        Rows are true classes, columns are decisions. A mapping such as
        ``{("sick", "healthy"): 10}``, or nested ``{"sick": {"healthy": 10}}`` as in JSON, sets the
        cost of calling a sick person healthy; other errors cost 1, and correct decisions 0. By
        default every error costs 1.
    classes : array-like of shape (n_classes,), optional
        Names of the columns; by default the column names of a frame.
    reject : float, optional
        Cost of abstaining. A row is rejected if its best decision has a higher expected cost.

    Returns
    -------
    ndarray of shape (n_samples,)
        Class per row, or None for rejected rows. Without class names, the column number, or -1.

    Examples
    --------
    >>> import priorshift as ps
    >>> risk = [0.02, 0.2, 0.4, 0.9]
    >>> ps.decide(risk, {("ill", "well"): 10}, classes=["well", "ill"])
    array(['well', 'ill', 'ill', 'ill'], dtype='<U4')
    >>> ps.decide(risk, reject=0.3)
    array([ 0,  0, -1,  1])
    """
    predictions = check_proba(y_proba, tables=True, classes=classes)
    rows, n_columns = predictions.values, predictions.shape[1]
    names = predictions.names if classes is None else classes
    named = None if names is None else check_classes(names, n_columns)
    matrix = check_costs(costs, named, n_columns)
    if reject is not None:
        reject = _finite(reject, "reject")
    decided = map_reduce(partial(_decide, matrix, reject), dense(rows), exact=True)
    index: Indices = np.concatenate(decided)
    if named is None or (matrix is not None and matrix.shape[1] != n_columns):
        return index
    if reject is None:
        return named[index]
    found = named.astype(object)[np.maximum(index, 0)]
    found[index == REJECTED] = None
    return found


def check_costs(costs: Any, classes: Labels | None, n_classes: int) -> Vector | None:
    """Check costs; return them as a matrix, or None where every error costs 1."""
    if costs is None:
        return None
    if isinstance(costs, Mapping):
        names = list(range(n_classes)) if classes is None else classes.tolist()
        place, matrix = {str(name): k for k, name in enumerate(names)}, 1.0 - np.eye(n_classes)
        pairs: dict[Any, Any] = {}
        for key, value in costs.items():
            if isinstance(value, Mapping):
                pairs |= {(key, decision): cost for decision, cost in value.items()}
            else:
                pairs[key] = value
        for pair, cost in pairs.items():
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ValueError(
                    f"costs as a mapping have keys (true class, decision); got {brief(pair)}. "
                    "Write {('sick', 'healthy'): 10}, or {'sick': {'healthy': 10}}."
                )
            if unknown := [name for name in pair if str(name) not in place]:
                raise ValueError(
                    f"costs name the class {some(unknown)}, but the classes are {some(names)}; use "
                    f"these names, or give others: {argument('class_columns', 'classes=')}."
                )
            true, decided = (place[str(name)] for name in pair)
            matrix[true, decided] = _finite(cost, f"costs[{brief(pair)}]")
        return matrix
    shape = as_array(costs, "costs").shape
    n_decisions = shape[1] if len(shape) == 2 else n_classes
    meaning = "a row per true class and a column per decision"
    matrix = check_numbers(costs, ((n_classes, n_decisions),), "costs", meaning)
    if np.abs(matrix).max(initial=0.0) > MOST_COST:
        raise ValueError(f"costs must be up to {MOST_COST:g}; count them in a larger unit.")
    return matrix.copy()


def _finite(value: Any, name: str) -> float:
    try:
        number = as_float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not abs(number) <= MOST_COST:
        raise ValueError(
            f"{name} must be a finite number, up to {MOST_COST:g}; got {brief(value)}."
        )
    return number


def _decide(costs: Vector | None, reject: float | None, block: Block, _: slice) -> list[Indices]:
    """Decide for a block of rows."""
    index = cheapest(block, costs)
    if reject is not None:
        chosen = np.take_along_axis(_expected(block, costs), index[:, None], axis=1)[:, 0]
        scale = 1.0 if costs is None else np.abs(costs).max(initial=0.0)
        index[chosen > reject + TIED * scale] = REJECTED
    return [index]


def _expected(y_proba: Any, costs: Vector | None) -> Vector:
    """Return the expected cost of every decision on every row."""
    if costs is None:
        return np.asarray(y_proba.sum(axis=1, keepdims=True) - y_proba)
    return np.asarray(y_proba @ costs)


def cheapest(y_proba: Any, costs: Vector | None) -> Indices:
    """Return the decision of least expected cost for every row; of several, the most probable."""
    if costs is None:
        return np.asarray(y_proba.argmax(axis=1))
    expected = _expected(y_proba, costs)
    least = expected.min(axis=1, keepdims=True)
    tied = expected <= least + TIED * np.abs(costs).max(initial=0.0)
    if costs.shape[0] != costs.shape[1]:
        return np.asarray(tied.argmax(axis=1))
    return np.asarray(np.where(tied, y_proba, -1.0).argmax(axis=1))


@dataclass(frozen=True)
class Goal:
    """What adapting is to improve, and by how much a changed decision does.

    Attributes
    ----------
    name : {"accuracy", "balanced_accuracy", "log_loss", "cost"}
    costs : ndarray of shape (K, K) or None
        Decisions are those of least expected cost; None decides for the most probable class.
    stakes : ndarray of shape (K, K) or None
        What decisions are judged by, rows true classes; None is 1 for every error.
    """

    name: Aim
    costs: Vector | None = None
    stakes: Vector | None = None

    @classmethod
    def of(cls, costs: Any, goal: Any, classes: Labels) -> Goal:
        """Check what the user asked for."""
        check_choice(goal, GOALS, "goal")
        if costs is None:
            return cls(goal)
        if goal != "accuracy":
            raise ValueError(
                f"give costs or goal={goal!r}, not both: costs already define the goal."
            )
        matrix = check_costs(costs, classes, classes.size)
        assert matrix is not None
        if matrix.shape[1] != classes.size:
            raise ValueError(
                f"costs need one column per class here ({classes.size}); got {matrix.shape[1]}."
            )
        return cls("cost", matrix, matrix)

    def at(self, priors: Vector) -> Goal:
        """Return the goal with its stakes at these priors of the target.

        Balanced accuracy is accuracy where an error on class k weighs :math:`1 / (K p_k)`.
        """
        if self.name != "balanced_accuracy":
            return self
        weight = 1 / (priors.size * np.maximum(priors, 1e-12))
        return replace(self, stakes=(1 - np.eye(priors.size)) * weight[:, None])

    def cost_of_error(self, priors: Vector | None = None) -> float:
        """Return the average cost of an error at these priors: 1 if all errors cost the same.

        By default classes are equally frequent.
        """
        if self.costs is None:
            return 1.0
        excess = np.abs(self.costs - self.costs.diagonal()[:, None]).sum(axis=1)
        mean = excess.mean() if priors is None else priors @ excess
        return float(mean / max(excess.size - 1, 1)) or 1.0

    def decide(self, y_proba: Any) -> Indices:
        """Return the column chosen for each row."""
        return cheapest(y_proba, self.costs)

    def scores(self, y: Indices, y_proba: Any) -> Vector:
        """Return each row's score: 1 for a right decision, or what it costs, or its log loss."""
        if self.name == "log_loss":
            of_truth = np.maximum(y_proba[np.arange(y.size), y], LEAST_PROBABILITY)
            return -np.log(np.asarray(of_truth, dtype=np.float64))
        decided = self.decide(y_proba)
        if self.costs is None:
            return np.equal(decided, y).astype(np.float64)
        return np.asarray(self.costs[y, decided])

    @property
    def bounds(self) -> tuple[float, float]:
        """Least and largest score that a row can have."""
        if self.costs is not None:
            return float(self.costs.min()), float(self.costs.max())
        return 0.0, 1.0 if self.name in IN_POINTS else -float(np.log(LEAST_PROBABILITY))

    def saved(self, y: Indices, before: Indices, after: Indices) -> Vector:
        """Return what new decisions save on rows of known class."""
        if self.stakes is None:
            return np.subtract(after == y, before == y, dtype=np.float64)
        return np.asarray(self.stakes[y, before] - self.stakes[y, after])

    def savings(self, before: Indices, after: Indices, n_classes: int) -> Vector:
        """Return what new decisions save if each class is the true one, (n_rows, K)."""
        if self.stakes is not None:
            return np.asarray((self.stakes[:, before] - self.stakes[:, after]).T)
        saved, at = np.zeros((before.size, n_classes)), np.arange(before.size)
        saved[at, after] += 1.0
        saved[at, before] -= 1.0
        return saved


def log_savings(before: Any, after: Any) -> Vector:
    """Return the nats of log loss that new probabilities save, cell by cell."""
    before, after = (np.maximum(one, LEAST_PROBABILITY) for one in (before, after))
    return np.asarray(np.log(after) - np.log(before), dtype=np.float64)
