r"""Diagnose an estimate without labels of the target.

Confusable classes: for classes a and b the decisions differ by :math:`\Delta = E[f_a - f_b \mid a]
- E[f_a - f_b \mid b]`, which is 0 where the columns of C agree on them. A pair is confusable if
Delta is not significantly above 0, given how many samples of both there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from priorshift._typing import Floats, Indices, Vector
from priorshift.border import Predictions, check_level, check_priors, some
from priorshift.counts import Confusion
from priorshift.estimators import PriorEstimate, get_estimator
from priorshift.evidence._accuracy import Expected, expected_score, resample
from priorshift.evidence._results import Finding
from priorshift.evidence._samples import read_samples
from priorshift.solvers import singular_range
from priorshift.text import points

FEW_ROWS = 30
"""Effective validation rows below which an estimate rests on little."""

LARGE_CONDITION = 50.0


Z = 1.96
LEAST_GAP = 0.01
"""A difference below a point is none, however sure."""


@dataclass(frozen=True, repr=False)
class Diagnostics(Finding):
    """How far an estimate can be trusted; frozen and picklable, without sample rows.

    Attributes
    ----------
    method : str
        Name of the estimator.
    n_val, n_target : int
        Rows of validation and target.
    smallest_singular_value, condition_number : float
        Of the confusion matrix C: noise of the decisions is multiplied by up to one over the
        smallest singular value.
    effective_sample_size : float
        How many rows validation is worth when it is re-weighted to the estimated priors, 1 /
        sum(p_k^2 / n_k).
    confusable : tuple of (class, class)
        Pairs whose decisions validation cannot tell apart: only the sum of their priors is known.
    unseen_classes : tuple
        Classes that validation lacks.
    accuracy_before, accuracy_after, accuracy_gain : Expected
        On the target, without its labels: sum(p_k acc_k) with the accuracy of each class on
        validation, before and after adaptation, and their difference. The optimism of the
        estimate, which both sets the rule and scores it, is subtracted. Where the method itself
        says what it expects to gain, as Auto does, that is the gain, and `accuracy_after` is
        `accuracy_before` plus it.
    confidence_level : float
        Of the intervals.
    priors_exact : bool
        Whether the intervals take the priors as exact, because they rest on no target rows.
    """

    method: str
    n_val: int
    n_target: int
    smallest_singular_value: float
    condition_number: float
    effective_sample_size: float
    confusable: tuple[tuple[Any, Any], ...]
    unseen_classes: tuple[Any, ...]
    accuracy_before: Expected
    accuracy_after: Expected
    accuracy_gain: Expected
    confidence_level: float
    priors_exact: bool

    also = ("words",)

    @property
    def words(self) -> tuple[str, ...]:
        """What a person should know of the numbers; whether to adapt is for `assess` to say."""
        said = []
        if self.priors_exact:
            said.append("The intervals take the target's priors as exact: they were given.")
        if not np.isfinite(self.condition_number):
            said.append("The confusion matrix is singular: some priors are not identified.")
        elif self.condition_number > LARGE_CONDITION:
            said.append(
                f"The confusion matrix is ill-conditioned ({self.condition_number:.3g}): a "
                "little noise in the decisions moves the estimate a lot."
            )
        if self.effective_sample_size < FEW_ROWS:
            said.append(
                f"At these priors validation is worth {self.effective_sample_size:.1f} rows of "
                f"{self.n_val}: the estimate rests on few samples."
            )
        if self.confusable:
            pairs = [f"{one} and {other}" for one, other in self.confusable]
            said.append(f"Validation cannot tell apart: {some(pairs, 5)}.")
        if self.unseen_classes:
            said.append(f"Not in validation, and left out: {some(self.unseen_classes)}.")
        return tuple(said)

    def _rows(self) -> list[tuple[str, str]]:
        gain = self.accuracy_gain
        span = f"{points(gain.low)} to {points(gain.high)}"
        return [
            ("expected accuracy before", str(self.accuracy_before)),
            ("expected accuracy after", str(self.accuracy_after)),
            ("expected gain", f"{points(gain.value)} points ({span})"),
            ("smallest singular value", f"{self.smallest_singular_value:.3g}"),
            ("condition number", f"{self.condition_number:.3g}"),
            ("effective validation rows", f"{self.effective_sample_size:.1f} of {self.n_val}"),
            ("confusable pairs", str(len(self.confusable))),
        ]

    def _words(self) -> tuple[str, ...]:
        return (f"The estimate is by {self.method}.", *self.words)


def confusable_pairs(
    y_proba: Floats, y: Indices, first: Confusion | None = None
) -> list[tuple[int, int]]:
    """Return pairs of class indices, the hardest to tell apart first; `first` is C if it is known.

    Examples
    --------
    >>> import numpy as np
    >>> y_proba = np.array([[0.5, 0.4, 0.1], [0.4, 0.5, 0.1]] * 4 + [[0.1, 0.1, 0.8]] * 4)
    >>> confusable_pairs(y_proba, np.repeat([0, 1, 2], 4))
    [(0, 1)]
    """
    first = first or Confusion.from_arrays(y_proba, y, decision="soft")
    C = first.conditional
    n = first.class_weights

    def means(values: Floats, weight: Vector | None = None) -> Vector:
        sums = Confusion.from_arrays(values, y, decision="soft", sample_weight=weight).counts
        return sums / np.maximum(n, 1)

    second = means(y_proba.astype(np.float64) ** 2)
    crossed = means(y_proba, y_proba[np.arange(y.size), y].astype(np.float64))  # E[f_j f_k | k]
    own_mean, own_square = np.diagonal(C), np.diagonal(second)
    # Var(f_k - f_j | k), entry [j, k]
    moment = own_square - 2 * crossed + second
    variance = np.maximum(moment - (own_mean - C) ** 2, 0.0)
    spread = variance / np.maximum(n - 1, 1)
    gap = (own_mean - C) + (own_mean - C).T
    noise, seen = np.sqrt(spread + spread.T), first.seen
    close = (gap <= np.maximum(Z * noise, LEAST_GAP)) & seen & seen[:, None]
    a, b = np.nonzero(np.triu(close, 1))
    order = np.argsort(gap[a, b], kind="stable")
    return list(zip(a[order].tolist(), b[order].tolist(), strict=True))


def diagnose(
    y_proba_val: ArrayLike,
    y_val: ArrayLike,
    y_proba_target: ArrayLike,
    estimate: PriorEstimate,
    *,
    classes: ArrayLike | None = None,
    confidence_level: float = 0.95,
) -> Diagnostics:
    """Judge an estimate: conditioning, confusable classes, expected accuracy.

    Parameters
    ----------
    y_proba_val, y_val, y_proba_target
        As for `priorshift.detect_shift`.
    estimate : PriorEstimate
        What to judge. Its standard errors, if it has any, say how far resampled priors are from
        it; otherwise the mean decisions on validation and target do.
    classes : array-like of shape (n_classes,), optional
        Class names in the order of the columns; by default those of the estimate.
    confidence_level : float, default=0.95
        Of the intervals of expected accuracy.

    Examples
    --------
    >>> import priorshift as ps
    >>> from priorshift.evidence import diagnose
    >>> data = ps.datasets.load_fashion_lt()
    >>> *validation, target = data.y_proba_val, data.y_val, data.y_proba_target
    >>> shift = ps.SCML().fit(*validation, classes=data.classes).estimate(target)
    >>> diagnose(*validation, target, shift).accuracy_gain.low > 0
    True
    """
    confidence_level = check_level(confidence_level, "confidence_level")
    if not isinstance(estimate, PriorEstimate):
        raise ValueError(
            "estimate must be a PriorEstimate, as estimate() of an estimator returns; got "
            f"{type(estimate).__name__}."
        )
    names = estimate.classes if classes is None else classes
    samples = read_samples(y_proba_val, y_val, y_proba_target, names)
    if samples.classes.tolist() != estimate.classes.tolist():
        raise ValueError("classes must be those of the estimate, in its order.")
    seen = samples.class_counts > 0
    priors = np.where(seen, estimate.priors, 0.0)
    if not priors.any():
        raise ValueError("validation has no sample of any class that the estimate gives a share.")
    priors /= priors.sum()
    y = samples.y_val
    before = (samples.y_proba_val.argmax(axis=1) == y).astype(np.float64)
    adapted = estimate.adapt(Predictions.from_checked(samples.y_proba_val))
    after = (adapted.argmax(axis=1) == y).astype(np.float64)
    rows = samples.y_proba_val, y, samples.y_proba_target
    resampled = resample(estimate, priors, *rows, samples.confusion)
    known = (priors, resampled.covariance, confidence_level)
    optimism = resampled.optimism
    expected_before = expected_score(before, y, *known, (0.0, 1.0))
    expected_after = expected_score(after, y, *known, (0.0, 1.0), optimism)
    gain = expected_score(after - before, y, *known, (-1.0, 1.0), optimism)
    own = estimate.decision
    if own is not None and own["goal"] == "accuracy":
        gain = Expected.of(
            own["expected_gain"], own["expected_gain_se"], confidence_level, (-1.0, 1.0)
        )
        expected_after = expected_after.moved_to(expected_before.value + gain.value, (0.0, 1.0))
    largest, smallest = singular_range(samples.C[:, seen])
    pairs = confusable_pairs(samples.y_proba_val, y, samples.confusion)
    label = samples.classes.tolist()
    return Diagnostics(
        method=estimate.method,
        n_val=samples.n_val,
        n_target=samples.n_target,
        smallest_singular_value=smallest,
        condition_number=largest / smallest if smallest else np.inf,
        effective_sample_size=samples.effective_size(priors),
        confusable=tuple((label[a], label[b]) for a, b in pairs),
        unseen_classes=tuple(samples.classes[~seen].tolist()),
        accuracy_before=expected_before,
        accuracy_after=expected_after,
        accuracy_gain=gain,
        confidence_level=confidence_level,
        priors_exact=not estimate.n_target,
    )


def expected_accuracy(
    y_proba_val: ArrayLike,
    y_val: ArrayLike,
    y_proba_target: ArrayLike,
    priors: Any = None,
    *,
    classes: ArrayLike | None = None,
    confidence_level: float = 0.95,
) -> Expected:
    r"""Return the accuracy to expect on the target, without its labels.

    Under prior shift, accuracy on each class is the same on validation and target:

    .. math:: \text{accuracy} = \sum_k p_k\,\text{acc}_k

    To know what adapting does to it, adapt the predictions on validation and pass those.

    Parameters
    ----------
    y_proba_val, y_val, y_proba_target
        As for `priorshift.detect_shift`.
    priors : array-like of shape (n_classes,), mapping or PriorEstimate, optional
        The target's priors. By default Auto estimates them. The interval includes the noise of an
        estimate, and takes other priors as exact.
    classes : array-like of shape (n_classes,), optional
        Class names in the order of the columns.
    confidence_level : float, default=0.95
        Of the interval.

    Returns
    -------
    Expected
        `value`, `low` and `high`.

    Examples
    --------
    >>> import priorshift as ps
    >>> data = ps.datasets.load_fashion_lt()
    >>> rows = data.y_proba_val, data.y_val, data.y_proba_target
    >>> found = ps.expected_accuracy(*rows, classes=data.classes)
    >>> truth = (data.classes[data.y_proba_target.argmax(axis=1)] == data.y_target).mean()
    >>> bool(found.low < truth < found.high)
    True
    """
    confidence_level = check_level(confidence_level, "confidence_level")
    samples = read_samples(y_proba_val, y_val, y_proba_target, classes)
    K, y, seen = samples.classes.size, samples.y_val, samples.class_counts > 0
    if priors is None:
        fitted = get_estimator("auto").fit(
            Predictions.from_checked(samples.y_proba_val),
            samples.classes[y],
            classes=samples.classes,
        )
        target = Predictions.from_checked(samples.y_proba_target)
        priors = fitted.estimate(target, confidence_level)
    estimate = priors if isinstance(priors, PriorEstimate) else None
    shares = check_priors(
        priors if estimate is None else estimate.priors, samples.classes, "priors"
    )
    shares = np.where(seen, shares, 0.0)
    if not shares.any():
        raise ValueError("validation has no sample of any class that priors give a share.")
    shares, covariance = shares / shares.sum(), np.zeros((K, K))
    if estimate is not None:
        covariance = resample(
            estimate, shares, samples.y_proba_val, y, samples.y_proba_target
        ).covariance
    right = (samples.y_proba_val.argmax(axis=1) == y).astype(np.float64)
    return expected_score(right, y, shares, covariance, confidence_level, (0.0, 1.0))
