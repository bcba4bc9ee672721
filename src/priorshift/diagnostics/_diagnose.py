r"""Diagnose an estimate, from validation rows, the estimate and target rows.

Confusable classes: for classes a and b the decisions differ by :math:`\Delta = E[f_a - f_b \mid a]
- E[f_a - f_b \mid b]`, which is 0 where the columns of C agree on them. A pair is confusable if
Delta is not significantly above 0, given how many samples of both there are.
"""

import numpy as np
from numpy.typing import ArrayLike

from priorshift._typing import Floats, Indices, Mask, Vector
from priorshift._validation import Predictions, check_choice, check_level
from priorshift.diagnostics._accuracy import expected_score, resample
from priorshift.diagnostics._result import Diagnostics
from priorshift.estimators import PriorEstimate
from priorshift.shift_test import read_samples
from priorshift.solvers import condition_number
from priorshift.statistics import Confusion, Decision

Z = 1.96
LEAST_GAP = 0.01
"""A difference below a point is none, however sure."""


def confusable_pairs(
    y_proba: Floats, y: Indices, first: Confusion | None = None
) -> list[tuple[int, int]]:
    """Return pairs of class indices, the least told apart first; `first` is C if it is known.

    Examples
    --------
    >>> import numpy as np
    >>> y_proba = np.array([[0.5, 0.4, 0.1], [0.4, 0.5, 0.1]] * 4 + [[0.1, 0.1, 0.8]] * 4)
    >>> confusable_pairs(y_proba, np.repeat([0, 1, 2], 4))
    [(0, 1)]
    """
    first = first or Confusion.from_arrays(y_proba, y, decision="soft")
    C = first.conditional
    second = _means(y_proba.astype(np.float64) ** 2, y)
    own = y_proba[np.arange(y.size), y].astype(np.float64)
    crossed = _means(y_proba, y, own)  # E[f_j f_k | k]
    own_mean, own_square = np.diagonal(C), np.diagonal(second)
    n = first.class_weights
    # Var(f_k - f_j | k), entry [j, k]
    moment = own_square - 2 * crossed + second
    variance = np.maximum(moment - (own_mean - C) ** 2, 0.0)
    spread = variance / np.maximum(n - 1, 1)
    gap = (own_mean - C) + (own_mean - C).T
    noise = np.sqrt(spread + spread.T)
    return _ordered(gap, noise, first.seen)


def _means(values: Floats, y: Indices, weight: Vector | None = None) -> Vector:
    """Return the mean of weighted rows by class, as columns."""
    sums = Confusion.from_arrays(values, y, decision="soft", sample_weight=weight).counts
    return sums / np.maximum(np.bincount(y, minlength=values.shape[1]), 1)


def _ordered(gap: Vector, noise: Vector, seen: Mask) -> list[tuple[int, int]]:
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
    decision: Decision = "soft",
    confidence_level: float = 0.95,
) -> Diagnostics:
    """Say what an estimate is worth: conditioning, confusable classes, expected accuracy.

    Parameters
    ----------
    y_proba_val : array-like of shape (n_val, n_classes) or (n_val,)
        Predicted probabilities on validation.
    y_val : array-like of shape (n_val,)
        Validation labels.
    y_proba_target : array-like of shape (n_target, n_classes) or (n_target,)
        Predicted probabilities on the target.
    estimate : PriorEstimate
        What to judge. Its standard errors, if it has any, say how far resampled priors are from
        it; otherwise the moments of validation and target do.
    classes : array-like of shape (n_classes,), optional
        Class names in the order of the columns; by default those of the estimate.
    decision : {"soft", "hard"}, default="soft"
        Confusion matrix to judge.
    confidence_level : float, default=0.95
        Of the intervals of expected accuracy.

    Examples
    --------
    >>> import priorshift as ps
    >>> from priorshift.diagnostics import diagnose
    >>> data = ps.datasets.load_fashion_lt()
    >>> known = {"source_priors": data.source_priors, "classes": data.classes}
    >>> shift = ps.SCML().fit(data.y_proba_val, data.y_val, **known).estimate(data.y_proba_target)
    >>> found = diagnose(data.y_proba_val, data.y_val, data.y_proba_target, shift)
    >>> found.accuracy_gain.low > 0
    True
    """
    check_choice(decision, ("soft", "hard"), "decision")
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
    resampled = resample(estimate, priors, *rows, samples.counted("soft"))
    known = (priors, resampled.covariance, confidence_level)
    optimism = resampled.optimism
    C = samples.confusion(decision)[:, seen]
    pairs = confusable_pairs(samples.y_proba_val, y, samples.counted("soft"))
    label = samples.classes.tolist()
    return Diagnostics(
        method=estimate.method,
        n_val=samples.n_val,
        n_target=samples.n_target,
        smallest_singular_value=float(np.linalg.svd(C, compute_uv=False)[-1]),
        condition_number=condition_number(C),
        effective_sample_size=samples.effective_size(priors),
        confusable=tuple((label[a], label[b]) for a, b in pairs),
        unseen_classes=tuple(samples.classes[~seen].tolist()),
        accuracy_before=expected_score(before, y, *known, (0.0, 1.0)),
        accuracy_after=expected_score(after, y, *known, (0.0, 1.0), optimism),
        accuracy_gain=expected_score(after - before, y, *known, (-1.0, 1.0), optimism),
        confidence_level=confidence_level,
        priors_exact=not estimate.n_target,
    )
