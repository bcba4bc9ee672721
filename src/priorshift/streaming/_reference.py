"""Whom the stream is compared with: validation, at the balance of the source's labels."""

import numpy as np
from scipy.stats import binom

from priorshift._typing import Indices, Labels, Vector
from priorshift._validation import some
from priorshift.exceptions import PriorShiftWarning, warn_user
from priorshift.statistics import Confusion

SHORT = 1e-6
"""Chance, at most, that a class has fewer rows than the draw wants of it."""

FEW_ROWS = 50
"""Reference rows below which next to nothing can be noticed."""


def source_decisions(
    confusion: Confusion,
    label_priors: Vector | None,
    classes: Labels,
    rng: np.random.Generator,
) -> Vector:
    """Return the decisions of a sample that is drawn as the source was.

    Without `label_priors` that is validation itself. With them it is a part of validation, drawn
    without replacement: labels by those priors, and rows of each label at random. Weighting rows
    instead would leave no sample whose noise is known.

    Parameters
    ----------
    confusion : Confusion
        Of hard decisions on validation, unweighted.
    label_priors : ndarray of shape (n_classes,) or None
    classes : ndarray of shape (n_classes,)
    rng : numpy.random.Generator
    """
    if label_priors is None:
        drawn = confusion.counts.sum(axis=1)
    else:
        wanted = rng.multinomial(_largest_sample(confusion, label_priors), label_priors)
        drawn = _draw_by_class(confusion.counts, wanted, rng)
    if drawn.sum() < FEW_ROWS:
        scarce = classes[np.argmin(_rows_for(confusion, label_priors))].item()
        why = "" if label_priors is None else f" (class {some([scarce])} is the scarcest)"
        warn_user(
            f"alarms rest on {drawn.sum():.0f} validation rows drawn as the source was{why}: only "
            "large shifts will be noticed. Use a larger validation set.",
            PriorShiftWarning,
        )
    return drawn


def _draw_by_class(counts: Vector, wanted: Indices, rng: np.random.Generator) -> Vector:
    """Count the decisions of so many rows of each class, drawn without replacement."""
    K = wanted.size
    by_class = counts.T.ravel().astype(np.intp)  # all decisions of class 0, then of class 1, ...
    label, decision = np.divmod(np.repeat(np.arange(K * K), by_class), K)
    order = np.lexsort((rng.random(label.size), label))
    first = np.searchsorted(label, np.arange(K))
    chosen = order[np.arange(label.size) - first[label] < wanted[label]]
    return np.bincount(decision[chosen], minlength=K).astype(np.float64)


def _largest_sample(confusion: Confusion, priors: Vector) -> int:
    """Return how many labels can be drawn by `priors` with hardly a chance that rows run out."""
    rows = confusion.class_weights
    low, high = 0, int(rows.sum())
    while low < high:
        middle = (low + high + 1) // 2
        if binom.sf(rows, middle, priors).sum() <= SHORT:
            low = middle
        else:
            high = middle - 1
    return low


def _rows_for(confusion: Confusion, priors: Vector | None) -> Vector:
    """Return for how large a sample each class has rows."""
    if priors is None:
        return confusion.class_weights
    rows = confusion.class_weights
    return np.divide(rows, priors, out=np.full_like(rows, np.inf), where=priors > 0)
