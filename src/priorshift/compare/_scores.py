"""Score adapted predictions and estimated priors against labels."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from priorshift._results import refuse_nan
from priorshift._typing import Floats, Indices, Vector
from priorshift.adapt import cheapest
from priorshift.border import (
    Block,
    Predictions,
    Rows,
    check_priors,
    check_proba,
    dense,
    encode_labels,
    in_class_order,
    map_reduce,
    read_labels,
)
from priorshift.estimators import PriorEstimate


@dataclass(frozen=True)
class Scores:
    """Hold the quality of adapted predictions and of the priors they were adapted to.

    Attributes
    ----------
    accuracy : float
        Share of correct decisions.
    balanced_accuracy : float
        Mean recall over the classes that occur in the target.
    log_loss : float
        Mean of -log(probability of the true class), in nats. As in scikit-learn, probabilities
        are at least the smallest step of float64.
    l1_error : float or None
        Sum over classes of `abs(estimated - true prior)`, from 0 (perfect) to 2 (worst). None for
        a method that used the labels.
    cost : float or None
        Mean cost of the decisions of least expected cost; None where errors have no costs.
    """

    accuracy: float
    balanced_accuracy: float
    log_loss: float
    l1_error: float | None
    cost: float | None = None

    def __post_init__(self) -> None:
        refuse_nan(self)


def score(y_proba: ArrayLike, y: ArrayLike, priors: Any, *, classes: ArrayLike) -> Scores:
    r"""Score adapted predictions and estimated priors against labels.

    Parameters
    ----------
    y_proba : array-like of shape (n_samples, n_classes)
        Adapted probabilities.
    y : array-like of shape (n_samples,)
        The target's labels.
    priors : array-like of shape (n_classes,) or mapping
        Priors estimated for the target.
    classes : array-like of shape (n_classes,)
        Class names in the order of the columns.

    Examples
    --------
    >>> from priorshift.compare import score
    >>> score([[0.8, 0.2], [0.4, 0.6]], [0, 1], [0.6, 0.4], classes=[0, 1])
    Scores(accuracy=1.0, balanced_accuracy=1.0, log_loss=0.366..., l1_error=0.199..., cost=None)
    """
    names = read_labels(classes, name="classes")
    values = in_class_order(check_proba(y_proba, classes=names), names)
    index = encode_labels(read_labels(y, values.shape[0]), names)
    estimated = check_priors(priors, names, "priors")
    hits, loss, _ = _judged(values, index, None)
    return _scores(hits, loss, index, estimated)


def score_adapted(
    estimate: PriorEstimate, rows: Rows, index: Indices, costs: Vector | None = None
) -> Scores:
    """Adapt clean rows and score them against true column numbers, block by block."""
    hits, loss, paid = map_reduce(_AdaptedBlock(estimate, index, costs), dense(rows))
    found = _scores(hits, loss, index, estimate.priors)
    return found if costs is None else replace(found, cost=paid / index.size)


@dataclass(frozen=True)
class _AdaptedBlock:
    """Adapt a block of rows, and count its hits, its loss and its cost."""

    estimate: PriorEstimate
    index: Indices
    costs: Vector | None

    def __call__(self, block: Block, rows: slice) -> tuple[Vector, float, float]:
        adapted = self.estimate.adapt(Predictions.from_checked(block))
        return _judged(adapted, self.index[rows], self.costs)


def _judged(values: Floats, index: Indices, costs: Vector | None) -> tuple[Vector, float, float]:
    """Count correct decisions per class, sum -log(probability of the true class), and costs."""
    n_classes = values.shape[1]
    hits = np.bincount(index[values.argmax(axis=1) == index], minlength=n_classes)
    of_truth = values[np.arange(index.size), index].astype(np.float64)
    loss = -np.log(of_truth.clip(min=np.finfo(np.float64).eps)).sum()
    paid = 0.0 if costs is None else float(costs[index, cheapest(values, costs)].sum())
    return hits.astype(np.float64), float(loss), paid


def _scores(hits: Vector, loss: float, index: Indices, priors: Vector) -> Scores:
    counts = np.bincount(index, minlength=priors.size)
    present = counts > 0
    return Scores(
        accuracy=float(hits.sum() / index.size),
        balanced_accuracy=float((hits[present] / counts[present]).mean()),
        log_loss=float(loss / index.size),
        l1_error=float(np.abs(priors - counts / index.size).sum()),
    )
