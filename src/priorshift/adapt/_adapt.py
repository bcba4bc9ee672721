r"""Adapt predictions to known class priors, or re-train for them.

Re-training is the alternative to adapting predictions (section sampling_strategies of the paper):
train with the class shares of the target, either by weighting samples with

.. math:: w_i = p_E(y_i) / p_N(y_i), \qquad p_N(k) = N_k / N,

or by drawing rows of each class in proportion to its prior. What a classifier was trained with is
computed here as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from priorshift._typing import Indices, Labels, Vector
from priorshift.border import (
    NO_PRIOR,
    Predictions,
    SparseTable,
    apply_to,
    as_generator,
    as_mapping,
    check_classes,
    check_count,
    check_number,
    check_outputs,
    check_priors,
    check_proba,
    check_rounded,
    check_sample_weight,
    check_source_mass,
    encode_labels,
    like_input,
    ordered,
    read_labels,
    row_blocks,
    settle_classes,
)
from priorshift.counts import DecisionCounts
from priorshift.exceptions import KeptRowsWarning, warn_user

RandomState = int | np.random.Generator | None


def adapt_proba(
    y_proba: ArrayLike,
    source_priors: Any,
    target_priors: Any,
    *,
    from_logits: bool = False,
    strength: float = 1.0,
    classes: ArrayLike | None = None,
) -> Any:
    r"""Adapt predicted probabilities from source priors to known target priors.

    .. math:: \text{adapted}_k \propto \text{y\_proba}_k\,
        (\text{target}_k / \text{source}_k)^{\text{strength}}

    Parameters
    ----------
    y_proba : array-like of shape (n_samples, n_classes) or (n_samples,)
        Predicted probabilities. If 1-D, the probability of the second, positive class. Columns of a
        frame are matched by name to `classes`, or to priors given as a mapping.
    source_priors : array-like of shape (n_classes,), mapping from class to prior, or float
        Class priors the classifier was trained with. With 1-D `y_proba`, a single number is the
        prior of the positive class.
    target_priors : array-like of shape (n_classes,), mapping from class to prior, or float
        Class priors to adapt to.
    from_logits : bool, default=False
        Whether `y_proba` contains logits or log-probabilities. This is never guessed.
    strength : float in [0, 1], default=1
        How far to adapt: 0 leaves predictions unchanged, 1 adapts them fully.
    classes : array-like of shape (n_classes,), optional
        Class names in the order of the columns.

    Returns
    -------
    ndarray of the shape of `y_proba`, float32 where that is, else float64
        Adapted probabilities, with rows that sum to 1. The type follows the input: a frame (with
        its index, column order and other columns), a sparse matrix, a `TopK` if its rest is spread,
        or a tensor on the same device. If all classes of a row have a prior of 0, the row keeps its
        original probabilities, with a warning.

    Examples
    --------
    A classifier was trained on balanced classes and is used on data with 10 % positives:

    >>> import numpy as np
    >>> import priorshift as ps
    >>> ps.adapt_proba(np.array([[0.5, 0.5], [0.1, 0.9]]), [0.5, 0.5], [0.9, 0.1])
    array([[0.9, 0.1],
           [0.5, 0.5]])
    >>> ps.adapt_proba(np.array([0.5, 0.9]), 0.5, 0.1)
    array([0.1, 0.5])
    """

    def adapt(y_proba: Any) -> Any:
        predictions = check_outputs(
            y_proba,
            from_proba=not from_logits,
            sparse=True,
            classes=classes_named(classes, target_priors, source_priors),
        )
        names = settle_classes(predictions, classes=classes)
        source = check_priors(source_priors, names, "source_priors")
        target = check_priors(target_priors, names, "target_priors")
        factor = prior_ratio(target, source) ** check_number(strength, "strength", 1)
        return adapt_predictions(predictions, names, source, factor, from_logits=from_logits)

    return apply_to(adapt, y_proba)


def adapt_predictions(
    predictions: Predictions,
    classes: Labels,
    source_priors: Vector,
    factor: Vector,
    *,
    from_logits: bool,
    calibration: Any = None,
    origin: str = "given",
    codes: Indices | None = None,
) -> Any:
    """Calibrate checked predictions, multiply them by a factor per class, and normalise them.

    What comes back is of the kind that was given. With `codes`, `factor` has one row per group.
    """
    values = ordered(predictions, classes).values
    check_source_mass(source_priors, values, classes, from_logits=from_logits, origin=origin)
    if calibration is not None:
        values = calibration.apply(values, from_logits=from_logits)
        from_logits = False
    adapted = reweight(values, factor, from_logits=from_logits, codes=codes)
    return like_input(predictions, adapted, classes)


def renormalise(y_proba: ArrayLike, *, classes: ArrayLike | None = None) -> Any:
    r"""Divide rows by their sums: probabilities that were rounded, or are percent.

    .. math:: \frac{p_{ik}}{\sum_j p_{ij}}

    Parameters
    ----------
    y_proba : array-like of shape (n_samples, n_classes)
        Rows that sum to 1, or to 100, up to rounding to two decimals. Others are refused: they may
        hold a column that is no class, or scores that are no probabilities.
    classes : array-like of shape (n_classes,), optional
        Classes of a frame that has other columns as well; these are kept as they are.

    Returns
    -------
    ndarray of the shape of `y_proba`, or a frame for a frame
        Rows that sum to 1.

    Examples
    --------
    >>> import priorshift as ps
    >>> ps.renormalise([[0.33, 0.33, 0.33], [0.5, 0.25, 0.25]])
    array([[0.33333333, 0.33333333, 0.33333333],
           [0.5       , 0.25      , 0.25      ]])
    >>> ps.renormalise([[60, 40], [25, 75]])
    array([[0.6 , 0.4 ],
           [0.25, 0.75]])
    """
    read = check_rounded(y_proba, classes=classes)
    return read.values if read.origin is None else read.origin.with_numbers(read.values)


def priors_from_labels(
    y: ArrayLike, *, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
) -> Vector:
    r"""Estimate the training priors by label frequencies, :math:`p^N_k = N_k / N`.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Training labels.
    classes : array-like of shape (n_classes,), optional
        Class names in the desired order; by default the sorted labels.
    sample_weight : array-like of shape (n_samples,), optional

    Returns
    -------
    ndarray of shape (n_classes,)
        Shares of the classes, in the order of `classes`.

    Examples
    --------
    >>> import priorshift as ps
    >>> ps.priors_from_labels(["cat", "dog", "cat", "cat"])
    array([0.75, 0.25])
    """
    labels = read_labels(y)
    names = np.unique(labels) if classes is None else check_classes(classes)
    index = encode_labels(labels, names)
    weight = check_sample_weight(sample_weight, index.size)
    counts = np.bincount(index, weights=weight, minlength=names.size)
    return counts / counts.sum()


def priors_from_predictions(
    y_proba: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> Vector:
    r"""Estimate the training priors by the mean prediction on the training set, :math:`p^f`.

    According to the paper (its Table 1), these are a better denominator of the ratio than label
    frequencies: the outputs reflect the class balance that the classifier learned, which may differ
    from that of its labels.

    Parameters
    ----------
    y_proba : array-like of shape (n_samples, n_classes)
        Predictions on the training set.
    sample_weight : array-like of shape (n_samples,), optional
        Weight of each prediction.

    Returns
    -------
    ndarray of shape (n_classes,)
        The mean prediction per class.

    Examples
    --------
    >>> import priorshift as ps
    >>> ps.priors_from_predictions([[0.9, 0.1], [0.7, 0.3]])
    array([0.8, 0.2])
    """
    values = check_proba(y_proba, tables=True).values
    weight = check_sample_weight(sample_weight, values.shape[0])
    return DecisionCounts.from_arrays(values, decision="soft", sample_weight=weight).frequencies


def prior_ratio(target_priors: Vector, source_priors: Vector) -> Vector:
    """Return target / source, and 0 for a class with a source prior of 0."""
    had = source_priors > NO_PRIOR
    return np.divide(target_priors, source_priors, out=np.zeros_like(source_priors), where=had)


def total_variation(priors: Vector, others: Vector) -> Vector:
    r"""Return the share of cases that would have to change class, the last axis being classes.

    .. math:: \tfrac12 \sum_k |p_k - q_k|

    Examples
    --------
    >>> import numpy as np
    >>> float(total_variation(np.array([0.5, 0.5]), np.array([0.8, 0.2])).round(3))
    0.3
    """
    return np.asarray(0.5 * np.abs(priors - others).sum(axis=-1))


def reweight(
    values: Any, ratio: Vector, *, from_logits: bool = False, codes: Indices | None = None
) -> Any:
    """Multiply clean predictions by the ratio and normalise rows, in blocks.

    With `codes`, `ratio` has one row per group, and row i is multiplied by ``ratio[codes[i]]``.
    """
    n_kept = 0
    if isinstance(values, SparseTable):
        adapted, n_kept = values.scaled(ratio)
    elif codes is None and not from_logits and (ratio == 1).all():
        adapted = values.copy()  # what is left alone stays as it is, to the last digit
    else:
        adapted = np.empty_like(values)
        with np.errstate(divide="ignore"):
            factor = np.log(ratio) if from_logits else ratio
        for rows in row_blocks(values.shape[0], values.shape[1]):
            block = values[rows].astype(np.float64)
            scale = factor if codes is None else factor[codes[rows]]
            if from_logits:
                lost = np.isneginf((block + scale).max(axis=1))
                block += np.where(lost[:, None], 0.0, scale) if lost.any() else scale
                with np.errstate(over="ignore"):  # logits may lie further apart than floats reach
                    block -= block.max(axis=1, keepdims=True)
                np.exp(block, out=block)
                block /= block.sum(axis=1, keepdims=True)
            else:
                sums = block @ scale if codes is None else np.einsum("ik,ik->i", block, scale)
                lost = sums == 0
                if lost.any():
                    scale = np.where(lost[:, None], 1.0, scale)
                    sums[lost] = block[lost].sum(axis=1)
                block *= scale
                block /= sums[:, None]
            n_kept += int(np.count_nonzero(lost))  # rows that would lose all their mass
            adapted[rows] = block
    if n_kept:
        warn_user(KeptRowsWarning(n_kept, values.shape[0]))
    return adapted


def classes_named(classes: Any, target_priors: Any, source_priors: Any) -> Any:
    """Return the classes that a call names, if it does: by `classes`, or as keys of priors."""
    if classes is not None:
        return classes
    named = {"target_priors": target_priors, "source_priors": source_priors}
    keys = (as_mapping(given, name) for name, given in named.items())
    return next((list(given) for given in keys if isinstance(given, Mapping)), None)


# Re-training


def sample_weights(y: ArrayLike, target_priors: Any, *, classes: ArrayLike | None = None) -> Vector:
    """Weight training samples so that their classes follow the target priors.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Training labels.
    target_priors : array-like of shape (n_classes,) or mapping from class to prior
        Class priors to train with.
    classes : array-like of shape (n_classes,), optional
        Class names in the order of `target_priors`; by default the sorted labels.

    Returns
    -------
    ndarray of shape (n_samples,)
        Weights with mean 1. Pass them as `sample_weight` to the `fit` of a classifier.

    Examples
    --------
    >>> import priorshift as ps
    >>> ps.sample_weights(["cat", "cat", "cat", "dog"], {"cat": 0.5, "dog": 0.5}).round(3)
    array([0.667, 0.667, 0.667, 2.   ])
    """
    index, priors = _check(y, target_priors, classes)
    counts = np.bincount(index, minlength=priors.size)
    return (index.size * priors / np.maximum(counts, 1))[index]


def sample_indices(
    y: ArrayLike,
    target_priors: Any,
    n_samples: int | None = None,
    *,
    classes: ArrayLike | None = None,
    random_state: RandomState = None,
) -> Indices:
    """Draw samples so that their classes follow the target priors, without replacement if possible.

    The number of rows per class is multinomial. Rows repeat only if a class has fewer rows than are
    drawn from it. In that case, all its rows appear equally often, give or take one.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels.
    target_priors : array-like of shape (n_classes,) or mapping from class to prior
        Class priors of the drawn rows.
    n_samples : int, optional
        Number of rows to draw; by default the number of labels.
    classes : array-like of shape (n_classes,), optional
        Class names in the order of `target_priors`; by default the sorted labels.
    random_state : None, int or numpy.random.Generator, optional

    Returns
    -------
    ndarray of shape (n_samples,)
        Row numbers in random order.

    Examples
    --------
    >>> import numpy as np
    >>> import priorshift as ps
    >>> y = np.repeat([0, 1], [900, 100])
    >>> drawn = ps.sample_indices(y, [0.5, 0.5], 10_000, random_state=0)
    >>> bool(abs(y[drawn].mean() - 0.5) < 0.02)
    True
    >>> few = ps.sample_indices(y, [0.5, 0.5], 150, random_state=0)
    >>> np.unique(few).size  # both classes have rows enough: none repeats
    150
    """
    index, priors = _check(y, target_priors, classes)
    n_drawn = index.size if n_samples is None else check_count(n_samples, "n_samples")
    rng = as_generator(random_state)
    wanted = rng.multinomial(n_drawn, priors / priors.sum())
    shuffled = rng.permutation(index.size)
    by_class = shuffled[np.argsort(index[shuffled], kind="stable")]
    label, size = index[by_class], np.bincount(index, minlength=priors.size)
    rank = np.arange(index.size) - (np.cumsum(size) - size)[label]
    times = wanted[label] // size[label] + (rank < wanted[label] % size[label])
    return rng.permutation(np.repeat(by_class, times))


def _check(y: ArrayLike, target_priors: Any, classes: Any) -> tuple[Indices, Vector]:
    labels = read_labels(y)
    names = np.unique(labels) if classes is None else check_classes(classes)
    index = encode_labels(labels, names)
    priors = check_priors(target_priors, names, "target_priors")
    empty = np.flatnonzero((np.bincount(index, minlength=names.size) == 0) & (priors > 0))
    if empty.size:
        raise ValueError(
            f"target_priors asks for class {names[empty[0]].item()!r} (position {empty[0]}), but y "
            "has no sample of it; collect some, or set its prior to 0."
        )
    return index, priors
