"""Diagnose an estimate: from validation rows, the estimate, and target rows."""

import numpy as np
from numpy.typing import ArrayLike

from priorshift._validation import Predictions, check_choice, check_level
from priorshift.diagnostics._accuracy import expected_score
from priorshift.diagnostics._confusable import confusable_pairs
from priorshift.diagnostics._resampling import resample
from priorshift.diagnostics._result import Diagnostics
from priorshift.estimators import PriorEstimate
from priorshift.shift_test import read_samples
from priorshift.solvers import condition_number
from priorshift.statistics import Decision


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

    Returns
    -------
    Diagnostics

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
