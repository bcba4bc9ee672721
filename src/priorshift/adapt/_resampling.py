r"""Re-train for new class priors, with sample weights or by resampling the training data.

This is the alternative to adapting predictions (section sampling_strategies of the paper): train
with the class shares of the target, either by weighting samples with

.. math:: w_i = p_E(y_i) / p_N(y_i), \qquad p_N(k) = N_k / N,

or by drawing rows of each class in proportion to its prior.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from priorshift._typing import Indices, Vector
from priorshift.border import (
    as_generator,
    check_count,
    check_priors,
    classes_of_labels,
    encode_labels,
    read_labels,
)

RandomState = int | np.random.Generator | None


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
    names = classes_of_labels(labels, classes)
    index = encode_labels(labels, names)
    priors = check_priors(target_priors, names, "target_priors")
    empty = np.flatnonzero((np.bincount(index, minlength=names.size) == 0) & (priors > 0))
    if empty.size:
        raise ValueError(
            f"target_priors asks for class {names[empty[0]].item()!r} (position {empty[0]}), but y "
            "has no sample of it; collect some, or set its prior to 0."
        )
    return index, priors
