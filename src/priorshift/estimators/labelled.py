r"""Class shares where some target rows have labels: PPI, EM with labels, and how many to ask for.

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

`SemiSupervisedEM` supposes prior shift instead, and counts known labels as what they are.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, gammaln, ndtri

from priorshift._typing import Vector
from priorshift.border import (
    Block,
    Rows,
    Table,
    as_array,
    check_choice,
    check_level,
    check_number,
    check_priors,
    check_square,
    map_reduce,
    take_rows,
)
from priorshift.calibration import FAMILIES
from priorshift.counts import Confusion
from priorshift.estimators.base import PriorEstimator
from priorshift.estimators.data import (
    MOST_CELLS,
    Evidence,
    TargetLabels,
    posterior_problem,
)
from priorshift.estimators.em import CalibratedEM
from priorshift.estimators.references import ANGELOPOULOS, SAERENS
from priorshift.estimators.result import PriorEstimate
from priorshift.exceptions import argument
from priorshift.intervals import (
    IntervalRequest,
    PriorInterval,
    bootstrap_interval,
    poisson_weights,
    refute_calibration,
)
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

    def _learn(self, evidence: Evidence) -> dict[str, Any]:
        if evidence.predicted is not None or evidence.source_priors is not None:
            return super()._learn(evidence)
        if evidence.source_label_priors is not None:
            raise ValueError(
                f"{argument('source_label_priors')} need a validation set. Give "
                f"{argument('source_priors')} instead."
            )
        return {"source_priors_": None, "source_priors_from_": "unknown"}

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
        weight = None if self.weight is None else check_number(self.weight, "weight", 1)
        raw, bounds = correct_shares(y_proba, labels, weight, request)
        priors = project_simplex(raw)
        found = self._result(priors, Solution(priors, "direct"), y_proba.shape[0], raw=raw)
        if request is None:
            return found
        lower, upper, error = bounds
        interval = PriorInterval.around(priors, lower, upper, error, "prediction-powered")
        return found.with_interval(interval, request)


class _Sums(NamedTuple):
    """Weighted sums over labelled rows, per class: of 1, y, f, f^2 and y f."""

    one: float
    y: Vector
    f: Vector
    ff: Vector
    yf: Vector

    def squares(self, weight: Vector, other: _Sums) -> Vector:
        r"""Return the sum of :math:`(a - \bar a)^2` for :math:`a = y - \lambda f`.

        The mean is that under other weights of rows.
        """
        mean, total = (other.y - weight * other.f) / other.one, self.y - weight * self.f
        square = self.y - 2 * weight * self.yf + weight**2 * self.ff
        return square - 2 * mean * total + mean**2 * self.one


def correct_shares(
    values: Rows, labels: TargetLabels, given: float | None, request: IntervalRequest | None
) -> tuple[Vector, Any]:
    r"""Return the shares, not yet on the simplex; lower and upper bounds, and standard errors.

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

    which is 0 where weights are equal. `given` is lambda, if it is given.
    """
    rows, y, weight = labels
    f = np.asarray(take_rows(values, rows), np.float64)
    total, square = map_reduce(_moments, values, exact=True)
    (N, K), n = values.shape, y.size
    weight = np.ones(n) if weight is None else weight
    weight = weight * (N / weight.sum())
    of_truth = f[np.arange(n), y]

    def add_up(weight: Vector) -> _Sums:
        counts: Any = np.bincount(y, weight, K)
        of_own: Any = np.bincount(y, weight * of_truth, K)
        squares = np.einsum("i,ij,ij->j", weight, f, f)
        return _Sums(float(weight.sum()), counts, weight @ f, squares, of_own)

    sums, others = add_up(weight), N - n
    best = np.full(K, given if given and others else 0.0)  # 0 where all rows are labelled
    if given is None and others:
        covariance = sums.yf / N - sums.y * sums.f / N**2
        spread = (square - total**2 / N) / (N - 1)
        varies = spread > np.finfo(np.float64).eps * square / N  # or every row is predicted alike
        best = np.divide(covariance, (1 + n / others) * spread, out=best, where=varies)
        best = best.clip(0.0, 1.0)
    raw = (sums.y - best * sums.f) / N
    variance = sums.squares(best, sums) / (N * n)
    residual = best  # lambda as the difference estimator has it
    if others:
        mean, second = (total - n / N * sums.f) / others, (square - n / N * sums.ff) / others
        raw += best * mean
        variance += best**2 * np.maximum(second - mean**2, 0.0) / others
        residual = best * N / others
    if request is None:
        return raw, None
    excess = weight * (weight - N / n)  # what a row counts for beyond one of equal weight
    variance += add_up(excess).squares(residual, sums) / N**2
    if request.estimand == "sample":  # that of the labels themselves does not count
        variance -= sums.y / N * (1 - sums.y / N) / N
    variance = np.maximum(variance, 0.0)
    # labels may not have come up where rows weigh much: the other way round
    missed = add_up(weight / N * excess)
    missed = missed._replace(y=missed.one - missed.y, yf=missed.f - missed.yf)
    squares = np.maximum(missed.squares(residual, sums), 0.0)
    reach = request.z(K)
    half = reach * np.sqrt(variance + reach**2 / 2 * squares / N**2)
    # the exact interval where there are few labels
    size = N**2 / float(weight @ weight)  # labels of equal weight
    count = sums.y / N * size
    few = np.minimum(count, size - count) < FEW_LABELS - 1e-9
    share = (count + 0.5) / (size + 1)  # no label at all is no proof of none
    error = np.sqrt(np.where(few, np.maximum(variance, share * (1 - share) / size), variance))
    exact = exact_bounds(count, size, request.level(K))
    lower, upper = np.where(few, exact, [raw - half, raw + half])
    return raw, (lower, upper, error)


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
    C: Any = None
    weights: Any = None  # of each class
    if isinstance(confusion, Confusion):
        C = np.where(confusion.seen, confusion.conditional, 0.0)
        weights = confusion.class_weights
    elif confusion is not None:
        counts = check_square(confusion, "confusion")
        weights = counts.sum(axis=0)
        if not (weights > 0).all():
            raise ValueError(
                "confusion must hold counts or shares, with something in every column: rows are "
                "decisions, columns true classes."
            )
        C = counts / weights
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
    if (p[C.sum(axis=0) == 0] > 0).any():
        raise ValueError(
            "confusion has no sample of some class that has a prior, so nothing says how it is "
            "decided; leave confusion out, or add samples of every class."
        )
    # the variance of what decisions leave unexplained, at the best weight
    q = C @ p
    covariance, variance = p * (C.diagonal() - q), q * (1 - q)
    best = np.divide(covariance, variance, out=np.zeros_like(p), where=variance > 0).clip(0, 1)
    left = np.maximum(p * (1 - p) - 2 * best * covariance + best**2 * variance, 0.0)
    return LabelsNeeded(alone, min(alone, _needed(p, left, width, level)))


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


# Prior shift with labels


class SemiSupervisedEM(PriorEstimator):
    r"""EM with a partly labelled target: known labels count as what they are.

    With :math:`n_k` labelled samples of class k, and the other samples i unlabelled, it maximises

    .. math:: \lambda \sum_i \log \sum_k \frac{f_k(x_i)}{p_{T,k}} p_k + \sum_k n_k \log p_k

    to a certificate: the mixture problem with :math:`\alpha_k = 1 + n_k`. Without labels it is EM,
    and without unlabelled samples it returns the label frequencies. Choose the samples to label at
    random from the target: not by class, not by confidence. Intervals resample labelled and
    unlabelled samples; they take source priors and calibrator as exact.

    EM trusts outputs to be calibrated. Where a labelled validation set refutes that, outputs are
    calibrated first. Where the labels of the target contradict what EM finds without them,
    unlabelled samples count for less (:math:`\lambda < 1`).

    Parameters
    ----------
    calibrator : {"auto", "bcts", "ts", "vs"} or None, default="auto"
        How to calibrate on the validation set given to `fit`: see `CalibratedEM`. "auto" is "bcts"
        where validation refutes that outputs are calibrated, and None where it does not. Without a
        labelled validation set nothing is calibrated.
    unlabelled_weight : float in [0, 1] or "auto", default="auto"
        :math:`\lambda`, what an unlabelled sample counts for beside a labelled one. "auto" is the
        largest power of 1/2 under which the known labels are not much less likely than under the
        best one.
    tol : float, default=0.01
        Duality gap in nats to reach.
    max_iter : int, default=1000
        Most passes over the target.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> y_proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.9, 0.1], [0.2, 0.8]])
    >>> em = ps.SemiSupervisedEM().fit(source_priors=[0.5, 0.5])
    >>> em.estimate(y_proba).priors.round(2)
    array([0.9, 0.1])
    >>> em.estimate(y_proba, y_target=[0, 1, None, None]).priors.round(2)
    array([0.53, 0.47])
    """

    name = "em-labels"
    summary = (
        "maximises the likelihood of the predicted probabilities and of the labels that are known"
    )
    reference = SAERENS
    outputs = "trusted"
    target_labels = "used"

    def __init__(
        self,
        *,
        calibrator: Literal["auto", "bcts", "ts", "vs"] | None = "auto",
        unlabelled_weight: float | Literal["auto"] = "auto",
        tol: float = 0.01,
        max_iter: int = 1000,
    ) -> None:
        self.calibrator, self.unlabelled_weight = calibrator, unlabelled_weight
        self.tol, self.max_iter = tol, max_iter

    @property
    def _keeps_rows(self) -> bool:  # type: ignore[override]
        """Whether `fit` keeps validation row by row: to calibrate on it."""
        return self.calibrator is not None

    def _learn(self, evidence: Evidence) -> dict[str, Any]:
        rows = evidence.rows
        if self.calibrator is not None:
            check_choice(self.calibrator, ("auto", *FAMILIES), "calibrator")
        learned = super()._learn(evidence) | {"_calibrated": None}
        if self.calibrator is None or rows is None or rows.y is None:
            return learned
        known = rows.y_proba, rows.y, rows.sample_weight, evidence.best_labels
        if self.calibrator == "auto" and refute_calibration(*known) is None:
            return learned
        name: Any = "bcts" if self.calibrator == "auto" else self.calibrator
        calibrated = CalibratedEM(calibrator=name, tol=self.tol, max_iter=self.max_iter)
        calibrated._settle(evidence.count(rows, "soft"))
        return learned | {"_calibrated": calibrated, "_denominator": calibrated.source_priors_}

    def _warn_of_mismatch(self, evidence: Evidence) -> None:
        if self._calibrated is None:
            super()._warn_of_mismatch(evidence)

    def _estimate_labelled(
        self, y_proba: Rows, labels: TargetLabels, request: IntervalRequest | None
    ) -> PriorEstimate:
        if labels.weight is not None:
            raise ValueError(
                "SemiSupervisedEM takes all rows to have had the same chance of a label; leave "
                "out sample_weight, or use PPI."
            )
        if request is not None and (
            request.method not in ("auto", "bootstrap") or request.estimand == "sample"
        ):
            raise ValueError(
                f"with {argument('y_target')} SemiSupervisedEM has intervals by bootstrap only, "
                "and of the population's share; leave out "
                f"{argument('interval_method')} and estimand."
            )
        counts = np.bincount(labels.y, minlength=self.classes_.size).astype(np.float64)
        n_labels, (n, K) = labels.rows.size, y_proba.shape
        rows: Rows | None = y_proba
        if n_labels == n:
            rows = None
        elif n_labels:
            if isinstance(y_proba, Table) and (n - n_labels) * K > MOST_CELLS:
                raise ValueError(
                    f"SemiSupervisedEM needs the {n - n_labels:,} rows without a label in memory, "
                    "which are too many; use PPI, which goes through any number of them, or give "
                    f"fewer rows (up to {MOST_CELLS // K:,})."
                )
            rows = take_rows(y_proba, np.delete(np.arange(n), labels.rows))
        if rows is not None and self._calibrated is not None:
            rows = self._calibrated._calibrated(rows)
        solution = self._solution(rows, counts)
        found = self._result(solution.value, solution, n)
        found = found if self._calibrated is None else self._calibrated._explained(found)
        if request is None:
            return found

        # labelled and unlabelled rows are drawn each among themselves; source and calibrator stay
        def replicate(rng: np.random.Generator) -> Vector:
            drawn = rng.multinomial(n_labels, counts / n_labels).astype(np.float64)
            times = None if rows is None else poisson_weights(rows.shape[0], rng)
            return self._solution(rows, drawn, times).value

        bounds = bootstrap_interval(replicate, found.priors, found.priors, found.n_target, request)
        return found.with_interval(bounds, request)

    def _estimate(self, y_proba: Rows) -> PriorEstimate:
        nothing = np.zeros(0, dtype=np.intp)
        return self._estimate_labelled(y_proba, TargetLabels(nothing, nothing, None), None)

    def _interval(
        self, y_proba: Rows, found: PriorEstimate, request: IntervalRequest
    ) -> PriorInterval:
        """Bound the priors without labels: as `CalibratedEM` does, or by resampling."""
        if self._calibrated is not None:
            return self._calibrated._interval(y_proba, found, request)
        plain = copy(self)
        plain.calibrator = None  # whether to calibrate is not asked anew for every resample
        return super(SemiSupervisedEM, plain)._interval(y_proba, found, request)

    def _solution(self, rows: Rows | None, counts: Vector, times: Vector | None = None) -> Solution:
        """Weigh unlabelled rows, each of them `times`, as the labels allow, and maximise."""
        source, weight, passes = self._denominator, self.unlabelled_weight, 0
        if isinstance(weight, str):
            check_choice(weight, ("auto",), "unlabelled_weight")
        else:
            weight = check_number(weight, "unlabelled_weight", 1)
        if not counts.any():
            weight = 1.0
        elif rows is not None and isinstance(weight, str):
            alone = self._maximise(posterior_problem(rows, source), source)
            weight, passes = weight_of_unlabelled(counts, alone.value, rows.shape[0]), alone.n_iter
        if rows is None or weight == 0:  # nothing but labels
            return Solution(counts / counts.sum(), "direct")
        weights = times
        if weight != 1:
            weights = float(weight) * (np.ones(rows.shape[0]) if times is None else times)
        solution = self._maximise(posterior_problem(rows, source, 1 + counts, weights), source)
        return replace(solution, n_iter=solution.n_iter + passes)


def weight_of_unlabelled(counts: Vector, priors: Vector, n_unlabelled: int) -> float:
    r"""Return what an unlabelled row may count for, given labels of the same target.

    If n unlabelled rows lead to the priors p, they are worth a Dirichlet distribution
    :math:`\mathrm{Dir}(\lambda n p + 1/2)`, under which the labels have a likelihood. The weight is
    the largest that is not much less likely than the best.

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.array([70.0, 30.0])
    >>> weight_of_unlabelled(labels, np.array([0.7, 0.3]), 1000)
    1.0
    >>> weight_of_unlabelled(labels, np.array([0.3, 0.7]), 1000)
    0.0078125
    """
    weights = np.append(0.5 ** np.arange(12), 0.0)
    a = weights[:, None] * n_unlabelled * priors + 0.5
    total = a.sum(axis=1)
    nats = gammaln(total) - gammaln(total + counts.sum())
    nats += (gammaln(a + counts) - gammaln(a)).sum(axis=1)
    # labels may be less likely by 2 nats than under the best weight
    return float(weights[np.argmax(nats >= nats.max() - 2.0)])
