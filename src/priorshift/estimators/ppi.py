r"""Class shares from a few target labels and many predictions, and how many labels to ask for.

Prediction-powered inference (PPI) supposes nothing of the shift, of the classifier or of its
calibration. Predictions f of the rows without a label say what the share of class k is, up to a
bias; the labelled rows, drawn from the same target, say what that bias is. With n labelled rows,
m others and a weight :math:`\lambda_k`,

.. math:: \hat\theta_k = \lambda_k \bar f_k^{\,\text{others}} + \overline{(1\{y = k\} -
          \lambda_k f_k)}^{\,\text{labelled}}, \qquad
          \operatorname{Var} \hat\theta_k = \frac{\lambda_k^2 \operatorname{Var} f_k}{m} +
          \frac{\operatorname{Var}(1\{y = k\} - \lambda_k f_k)}{n}.

The weight that makes the variance smallest,

.. math:: \lambda_k = \frac{\operatorname{Cov}(1\{y = k\}, f_k)}{(1 + n / m)
          \operatorname{Var} f_k} \in [0, 1],

is 0 where predictions say nothing, which leaves the labels alone (PPI++).
"""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, ndtri

from priorshift._typing import Labels, Vector
from priorshift.border import (
    Block,
    Rows,
    as_array,
    check_fraction,
    check_level,
    check_priors,
    classes_of_labels,
    map_reduce,
    take_rows,
)
from priorshift.counts import Confusion
from priorshift.estimators.base import PriorEstimator
from priorshift.estimators.counts import Given, TargetLabels, ValidationCounts
from priorshift.estimators.references import ANGELOPOULOS
from priorshift.estimators.result import PriorEstimate
from priorshift.exceptions import argument
from priorshift.intervals import IntervalRequest, PriorInterval
from priorshift.solvers import Solution, project_simplex

LEAST_WIDTH = 1e-6
"""Narrower intervals need more labels than anybody has: 4e12 of them."""

FEW_LABELS = 10
"""Labels of a class, or of all others, below which its interval is the exact binomial one."""


class PPI(PriorEstimator):
    r"""Estimate shares from a few labels and all predictions of the target, under any shift.

    Prediction-powered inference: the mean prediction, corrected by what the labelled rows show of
    its bias. It is the one method here that needs labels of the target, and the one that assumes
    nothing else: not that only the class balance changed, not that outputs are calibrated. Choose
    the rows to label at random from the target, or say in `sample_weight` how you chose them.

    For n labelled rows and m others, per class k,

    .. math:: \hat\theta_k = \lambda_k \bar f_k^{\,\text{others}} + \overline{(1\{y = k\} -
              \lambda_k f_k)}^{\,\text{labelled}}

    f are the predicted probabilities as you give them: calibrate or adapt them first if you can,
    because the better they predict the labels, the narrower the interval. The result is the
    nearest point on the simplex; `raw` keeps :math:`\hat\theta`. A class with fewer than 10 labels
    gets the exact binomial interval of its labels alone.

    Parameters
    ----------
    weight : float in [0, 1], optional
        :math:`\lambda` of every class. 1 is PPI as first proposed, 0 uses the labels alone. By
        default each class has the weight of least variance (PPI++).

    References
    ----------
    Angelopoulos, Bates, Fannjiang, Jordan and Zrnic: Prediction-powered inference. Science, 2023.
    Angelopoulos, Duchi and Zrnic: PPI++: Efficient prediction-powered inference. 2023.

    Examples
    --------
    A judge calls 4 of 10 rows spam. Of four rows with a label, the judge was wrong once:

    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_pred = np.array(["ham", "spam"])[[0, 0, 1, 1, 0, 0, 0, 0, 1, 1]]
    >>> y_target = ["ham", "ham", "spam", "ham", None, None, None, None, None, None]
    >>> ppi = ps.PPI(weight=1).fit(classes=["ham", "spam"])
    >>> shift = ppi.estimate(y_pred=y_pred, y_target=y_target, confidence_level=0.95)
    >>> shift.priors.round(3)
    array([0.917, 0.083])
    >>> shift.ratio is None  # nothing is known of the source
    True
    """

    name = "ppi"
    summary = (
        "corrects the mean prediction by what the labelled rows of the target show of its bias"
    )
    reference = ANGELOPOULOS
    target_labels = "required"

    def __init__(self, *, weight: float | None = None) -> None:
        self.weight = weight

    def _classes_without_rows(self, source_priors: Any, classes: ArrayLike | None) -> Labels:
        if source_priors is None and classes is not None:
            return classes_of_labels(np.zeros(0), classes)
        if source_priors is None:
            raise ValueError(
                "PPI needs the names of the classes in the order of the columns: "
                "fit(classes=[...])."
            )
        return super()._classes_without_rows(source_priors, classes)

    def _sources(self, counts: ValidationCounts | None, given: Given) -> tuple[Any, str]:
        if counts is not None or given.source_priors is not None:
            return super()._sources(counts, given)
        if given.source_label_priors is not None:
            raise ValueError(
                f"{argument('source_label_priors')} need a validation set. Give "
                f"{argument('source_priors')} instead."
            )
        return None, "unknown"

    def partial_fit(self, *_: Any, **__: Any) -> Self:
        """Refuse: there is nothing to learn from validation."""
        raise ValueError("PPI learns nothing from validation; use fit(classes=[...]).")

    def _estimate_labelled(
        self, y_proba: Rows, labels: TargetLabels, request: IntervalRequest | None
    ) -> PriorEstimate:
        if not labels.rows.size:
            raise ValueError(
                "PPI needs labels of some rows of the target: estimate(y_proba, y_target=...), "
                "with None where a label is unknown. Without any, use a method such as Auto."
            )
        if request is not None and request.method not in ("auto", "asymptotic"):
            raise ValueError(
                f"PPI has an interval of its own, not a {request.method} one; leave out "
                f"{argument('interval_method')}."
            )
        weight = None if self.weight is None else check_fraction(self.weight, "weight")
        labelled = _Labelled(y_proba, labels)
        lam = labelled.weights(weight)
        raw = labelled.shares(lam)
        priors = project_simplex(raw)
        found = self._result(priors, Solution(priors, "direct"), labelled.n_rows, raw=raw)
        if request is None:
            return found
        return found.with_interval(labelled.interval(raw, priors, lam, request), request)


class _Sums(NamedTuple):
    """Weighted sums over labelled rows, per class: of 1, y, f, f^2 and y f."""

    one: float
    y: Vector
    f: Vector
    ff: Vector
    yf: Vector

    def squares(self, weight: Vector, other: "_Sums") -> Vector:
        r"""Return the sum of :math:`(a - \bar a)^2` for :math:`a = y - \lambda f`.

        The mean is that under other weights of rows.
        """
        mean, total = (other.y - weight * other.f) / other.one, self.y - weight * self.f
        square = self.y - 2 * weight * self.yf + weight**2 * self.ff
        return square - 2 * mean * total + mean**2 * self.one


class _Labelled:
    r"""All that PPI needs of a target: sums over its labelled rows, and over all rows.

    Rows that were chosen with unequal probability have weights w, which add up to all N rows. What
    the others look like follows from the mean of all rows and that of the labelled ones, as these
    stand for the target; where weights are equal it is simply the mean of the others. The variance
    then has one part more,

    .. math:: N^{-2} \sum_i w_i (w_i - N / n)\, e_i^2

    with e the residual of the difference estimator of survey sampling. A label that is rare among
    rows of large weight may not have come up at all, and the estimated variance then lacks it.
    The interval therefore counts :math:`z^2 / 2` labels more, drawn from the target, that came out
    the other way, as Agresti and Coull (1998) do for a binomial share: with e' their residuals, it
    adds

    .. math:: \frac{z^2}{2} N^{-2} \sum_i \frac{w_i}{N} w_i (w_i - N / n)\, e_i'^2,

    which is 0 where weights are equal.
    """

    def __init__(self, values: Rows, labels: TargetLabels) -> None:
        rows, self.y, weight = labels
        weight = np.ones(rows.size) if weight is None else weight
        self.f = np.asarray(take_rows(values, rows), np.float64)
        self.moments = map_reduce(_moments, values, exact=True)
        self.n_rows, self.n = values.shape[0], self.y.size
        self.n_others = self.n_rows - self.n
        self.weight = weight * (self.n_rows / weight.sum())
        # what a row counts for beyond one of equal weight
        self.excess = self.weight * (self.weight - self.n_rows / self.n)
        self.sums = self._summed(self.weight)

    def _summed(self, weight: Vector) -> _Sums:
        K, own = self.f.shape[1], np.take_along_axis(self.f, self.y[:, None], axis=1)[:, 0]
        return _Sums(
            float(weight.sum()),
            np.bincount(self.y, weight, K).astype(np.float64),
            weight @ self.f,
            np.einsum("i,ij,ij->j", weight, self.f, self.f),
            np.bincount(self.y, weight * own, K).astype(np.float64),
        )

    @property
    def others(self) -> tuple[Vector, Vector]:
        """Mean and variance of predictions where there is no label."""
        part = self.n / self.n_rows
        total, square = self.moments - part * np.array([self.sums.f, self.sums.ff])
        mean = total / self.n_others
        return mean, np.maximum(square / self.n_others - mean**2, 0.0)

    def weights(self, given: float | None) -> Vector:
        """Return the weights of least variance, or the one that is given.

        They are 0 where there are no rows but labelled ones.
        """
        if given is not None or not self.n_others:
            return np.full(self.f.shape[1], given if given and self.n_others else 0.0)
        sums, N = self.sums, self.n_rows
        covariance = sums.yf / N - sums.y * sums.f / N**2
        total, square = self.moments
        variance = (square - total**2 / N) / (N - 1)
        least = (1 + self.n / self.n_others) * variance
        spread = variance > np.finfo(np.float64).eps * square / N  # or every row is predicted alike
        weight = np.divide(covariance, least, out=np.zeros_like(least), where=spread)
        return weight.clip(0.0, 1.0)

    def shares(self, weight: Vector) -> Vector:
        """Return the shares, not yet on the simplex."""
        labelled = (self.sums.y - weight * self.sums.f) / self.n_rows
        return labelled + weight * self.others[0] if self.n_others else labelled

    def variance(self, weight: Vector, request: IntervalRequest) -> Vector:
        """Return the variance of the shares."""
        N, n = self.n_rows, self.n
        found = self.sums.squares(weight, self.sums) / (N * n)
        if self.n_others:
            found += weight**2 * self.others[1] / self.n_others
        found += self._summed(self.excess).squares(self._scale(weight), self.sums) / N**2
        if request.estimand == "sample":  # that of the labels themselves does not count
            share = self.sums.y / N
            found -= share * (1 - share) / N
        return np.maximum(found, 0.0)

    def _scale(self, weight: Vector) -> Vector:
        """Return the weights as the difference estimator has them."""
        return weight * self.n_rows / self.n_others if self.n_others else weight

    def interval(
        self, raw: Vector, priors: Vector, weight: Vector, request: IntervalRequest
    ) -> PriorInterval:
        """Bound the shares by their variance, or exactly where there are few labels."""
        reach = request.z(raw.size)
        variance = self.variance(weight, request)
        # labels may not have come up where rows weigh much: the other way round
        missed = self._summed(self.weight / self.n_rows * self.excess)
        missed = missed._replace(y=missed.one - missed.y, yf=missed.f - missed.yf)
        squares = np.maximum(missed.squares(self._scale(weight), self.sums), 0.0)
        half = reach * np.sqrt(variance + reach**2 / 2 * squares / self.n_rows**2)
        error = np.sqrt(variance)
        size = self.n_rows**2 / float(self.weight @ self.weight)  # labels of equal weight
        count = self.sums.y / self.n_rows * size
        few = np.minimum(count, size - count) < FEW_LABELS - 1e-9
        exact = exact_bounds(count, size, request.level(raw.size))
        share = (count + 0.5) / (size + 1)  # no label at all is no proof of none
        error = np.where(few, np.maximum(error, np.sqrt(share * (1 - share) / size)), error)
        lower, upper = np.where(few, exact, [raw - half, raw + half])
        return PriorInterval.around(priors, lower, upper, error, "prediction-powered")


def _moments(block: Block, rows: slice) -> Vector:  # noqa: ARG001
    """Return the sums of predictions and of their squares."""
    return np.array([block.sum(axis=0), np.einsum("ij,ij->j", block, block)])


def exact_bounds(count: Any, size: float, level: float) -> tuple[Vector, Vector]:
    """Return the exact binomial interval (Clopper and Pearson, 1934) of counts among `size`.

    Counts need not be whole, as for weighted labels (Korn and Graubard, 1998).

    Examples
    --------
    >>> import numpy as np
    >>> [bound.round(4).tolist() for bound in exact_bounds(np.array([0.0, 3.0]), 10, 0.95)]
    [[0.0, 0.0667], [0.3085, 0.6525]]
    """
    count = np.asarray(count, np.float64)
    tail = (1 - level) / 2
    rest = np.maximum(size - count, 0.0)
    lower = np.where(count > 0, betaincinv(np.maximum(count, 1e-300), rest + 1, tail), 0.0)
    upper = np.where(rest > 0, betaincinv(count + 1, np.maximum(rest, 1e-300), 1 - tail), 1.0)
    return lower, upper


# How many labels


class LabelsNeeded(int):
    """How many labels to ask for: an int, and how many fewer with predictions.

    Attributes
    ----------
    with_predictions : int or None
        Labels that PPI needs for the same width, if a confusion matrix was given.
    """

    with_predictions: int | None

    def __new__(cls, labels: int, with_predictions: int | None = None) -> Self:
        """Wrap the numbers."""
        found = super().__new__(cls, labels)
        found.with_predictions = with_predictions
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep both numbers when pickled."""
        return type(self), (int(self), self.with_predictions)


def labels_needed(
    *,
    width: float,
    confidence_level: float = 0.95,
    priors: Any = None,
    confusion: Confusion | ArrayLike | None = None,
) -> LabelsNeeded:
    r"""Return how many labels of the target make every class's interval this narrow.

    Labels alone bound a share p by :math:`\pm z \sqrt{p (1 - p) / n}`. With a classifier's
    decisions on many more rows, PPI replaces the variance :math:`p (1 - p)` by that of
    :math:`1\{y = k\} - \lambda_k 1\{\text{decided } k\}`. Where fewer than 10 labels of a class
    are to be expected, the exact binomial interval counts.

    Parameters
    ----------
    width : float in (0, 1)
        Full width of the interval in the widest class: 0.04 is plus or minus 2 points.
    confidence_level : float, default=0.95
    priors : array-like of shape (n_classes,) or mapping, optional
        What the shares are about. By default those of `confusion`, or without it the worst case,
        1/2.
    confusion : Confusion or array-like of shape (n_classes, n_classes), optional
        How the classifier decides: rows are decisions, columns true classes, as shares or counts.
        From soft decisions `with_predictions` is an upper bound.

    Returns
    -------
    LabelsNeeded
        An int, with `with_predictions` for PPI with very many rows without a label.

    Examples
    --------
    >>> import priorshift as ps
    >>> ps.labels_needed(width=0.04)
    2401
    >>> found = ps.labels_needed(width=0.04, priors=[0.7, 0.3], confusion=[[0.9, 0.2], [0.1, 0.8]])
    >>> found, found.with_predictions
    (2017, 1047)
    """
    width = check_level(width, "width")
    if width < LEAST_WIDTH:
        raise ValueError(f"width must be at least {LEAST_WIDTH:g}; got {width:g}.")
    level = check_level(confidence_level, "confidence_level")
    C, weights = _decided(confusion)
    if priors is None:
        p = np.array([0.5]) if weights is None else weights / weights.sum()
    else:
        given = priors if hasattr(priors, "keys") else as_array(priors, "priors")
        names = np.array(list(priors)) if hasattr(priors, "keys") else np.arange(np.size(given))
        p = check_priors(given, names, "priors")
    alone = _needed(p, p * (1 - p), width, level)
    if C is None:
        return LabelsNeeded(alone)
    if C.shape[0] != p.size:
        raise ValueError(
            f"confusion is of {C.shape[0]} classes but priors of {p.size}; give one prior per "
            "class, in the order of its columns."
        )
    return LabelsNeeded(alone, min(alone, _needed(p, _residual_variance(C, p), width, level)))


def _decided(confusion: Any) -> tuple[Vector | None, Vector | None]:
    """Return how each class is decided (columns add up to 1), and the weight of each class."""
    if confusion is None:
        return None, None
    if isinstance(confusion, Confusion):
        if not confusion.seen.all():
            raise ValueError(
                "confusion has no sample of some class, so nothing says how it is decided; leave "
                "confusion out, or add samples of every class."
            )
        return np.asarray(confusion.conditional), confusion.class_weights
    counts = as_array(confusion, "confusion")
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1] or counts.dtype.kind not in "iuf":
        raise ValueError(
            f"confusion must be a square matrix of numbers, one column per true class; got shape "
            f"{counts.shape} and type {counts.dtype}."
        )
    counts = counts.astype(np.float64)
    total = counts.sum(axis=0)
    if not np.isfinite(counts).all() or (counts < 0).any() or not (total > 0).all():
        raise ValueError(
            "confusion must hold finite counts or shares of at least 0, with something in every "
            "column: rows are decisions, columns true classes."
        )
    return counts / total, total


def _residual_variance(C: Vector, p: Vector) -> Vector:
    """Return the variance of what decisions leave unexplained, at the best weight."""
    q = C @ p
    covariance = p * (C.diagonal() - q)
    variance = q * (1 - q)
    best = np.divide(covariance, variance, out=np.zeros_like(p), where=variance > 0).clip(0, 1)
    left = p * (1 - p) - 2 * best * covariance + best**2 * variance
    return np.maximum(left, 0.0)


def _needed(p: Vector, variance: Vector, width: float, level: float) -> int:
    """Return the least n at which no class has a wider interval: they narrow with n."""
    reach = 2 * float(ndtri((1 + level) / 2))
    rare = np.minimum(p, 1 - p)

    def widest(n: float) -> float:
        lower, upper = exact_bounds(n * p, n, level)
        few = n * rare < FEW_LABELS
        return float(np.where(few, upper - lower, reach * np.sqrt(variance / n)).max())

    low, high = 0, 1
    while widest(high) > width:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if widest(middle) > width else (low, middle)
    return high
