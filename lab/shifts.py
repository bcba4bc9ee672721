"""Shifts simulated on labelled outputs: targets drawn from a pool under other class priors."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from priorshift import PriorEstimator, get_estimator, priors_from_predictions

SHIFTS = ("none", "uniform", "lt100", "lt100rev", "lt10perm", "dir0.3", "dir3")
"""The shifts that `shifted_tasks` simulates; `target_priors` explains them."""


@dataclass(frozen=True, eq=False)
class ShiftTask:
    """Hold validation and target predictions of one simulated shift; labels are column numbers.

    Attributes
    ----------
    family : str
        Name of the classifier.
    shift : str
        How the target priors were chosen, one of `SHIFTS`.
    y_proba_val, y_val : ndarray
        Validation.
    y_proba_target, y_target : ndarray
        Target; use its labels for scoring only.
    source_priors, source_label_priors : ndarray of shape (n_classes,)
        Mean prediction and label frequencies of the training set.
    """

    family: str
    shift: str
    y_proba_val: np.ndarray
    y_val: np.ndarray
    y_proba_target: np.ndarray
    y_target: np.ndarray
    source_priors: np.ndarray
    source_label_priors: np.ndarray

    @property
    def name(self) -> str:
        """Unique name of the task."""
        sizes = f"n{self.y_target.size}/v{self.y_val.size}"
        return f"{self.family}/{self.shift}/{sizes}"

    @property
    def given(self) -> Mapping[str, Any]:
        """Arguments of `PriorEstimator.fit` besides the data."""
        return {
            "source_priors": self.source_priors,
            "source_label_priors": self.source_label_priors,
            "classes": np.arange(self.source_priors.size),
        }


def seeded(method: str) -> PriorEstimator:
    """Make a method by its name, Auto with a seed."""
    return get_estimator(method, **({"random_state": 0} if method == "auto" else {}))


def long_tail(n_classes: int, imbalance: float) -> np.ndarray:
    """Return priors that fall geometrically; the first is `imbalance` times the last.

    Examples
    --------
    >>> from lab.shifts import long_tail
    >>> long_tail(3, 4.0).round(3)
    array([0.571, 0.286, 0.143])
    """
    priors = imbalance ** (-np.arange(n_classes) / (n_classes - 1))
    return priors / priors.sum()


def target_priors(source: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return the target priors of every shift.

    No shift; uniform; long-tailed 100:1 in the order of the classes and in reverse; long-tailed
    10:1 in a random order; draws from Dirichlet distributions with concentration 0.3 (sparse) and
    3 (dense).
    """
    K = source.size
    return {
        "none": source,
        "uniform": np.full(K, 1 / K),
        "lt100": long_tail(K, 100.0),
        "lt100rev": long_tail(K, 100.0)[::-1].copy(),
        "lt10perm": long_tail(K, 10.0)[rng.permutation(K)],
        "dir0.3": rng.dirichlet(np.full(K, 0.3)),
        "dir3": rng.dirichlet(np.full(K, 3.0)),
    }


def shifted_tasks(
    family: str,
    validation: tuple[np.ndarray, np.ndarray],
    pool: tuple[np.ndarray, np.ndarray],
    *,
    train: tuple[np.ndarray, np.ndarray] | None = None,
    sizes: Sequence[int] = (4000, 500),
    val_caps: Sequence[int | None] = (None, 10),
    random_state: int = 0,
) -> Iterator[ShiftTask]:
    """Draw targets from a labelled pool under each of `SHIFTS`.

    Parameters
    ----------
    family : str
        Name of the classifier.
    validation, pool, train : tuple of (y_proba, y)
        Predictions, with labels as column numbers 0..K-1. Without `train`, validation is assumed to
        have the class shares of the training set.
    sizes : sequence of int
        Number of rows of the targets.
    val_caps : sequence of int or None
        Largest number of validation rows per class; None uses all rows.
    random_state : int

    Yields
    ------
    ShiftTask

    Examples
    --------
    >>> import numpy as np
    >>> from lab.shifts import shifted_tasks
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=600)
    >>> y_proba = 0.7 * np.eye(3)[y] + 0.1
    >>> tasks = list(shifted_tasks("toy", (y_proba, y), (y_proba, y), sizes=[100]))
    >>> len(tasks), tasks[0].name
    (14, 'toy/none/n100/v600')
    """
    y_proba_val, y_val = validation
    y_proba_pool, y_pool = pool
    K = y_proba_val.shape[1]
    rng = np.random.default_rng([random_state, K, y_pool.size])
    y_proba_train, y_train = (y_proba_val, y_val) if train is None else train
    source = np.maximum(priors_from_predictions(y_proba_train), 1e-6)
    source, label_priors = source / source.sum(), np.bincount(y_train, minlength=K) / y_train.size
    available = np.bincount(y_pool, minlength=K) > 0
    for cap in val_caps:
        kept = slice(None) if cap is None else rank_in_class(y_val, rng) < cap
        for shift, priors in target_priors(label_priors, rng).items():
            possible = np.where(available, priors, 0.0)
            for size in sizes:
                rows = draw_rows(y_pool, possible / possible.sum(), size, rng)
                yield ShiftTask(
                    family,
                    shift,
                    y_proba_val[kept],
                    y_val[kept],
                    y_proba_pool[rows],
                    y_pool[rows],
                    source,
                    label_priors,
                )


def draw_rows(y: np.ndarray, priors: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw rows whose labels follow `priors`, without replacement if there are enough rows."""
    wanted = rng.multinomial(size, priors)
    parts = []
    for k in np.flatnonzero(wanted):
        rows = np.flatnonzero(y == k)
        parts.append(rng.choice(rows, wanted[k], replace=wanted[k] > rows.size))
    return rng.permutation(np.concatenate(parts))


def shuffled_by_class(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return all rows, class by class, in random order within each."""
    order = rng.permutation(y.size)
    return order[np.argsort(y[order], kind="stable")]


def rank_in_class(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the place of every row in a random order of its class, from 0."""
    counts, rank = np.bincount(y), np.empty(y.size, int)
    rank[shuffled_by_class(y, rng)] = np.arange(y.size) - np.repeat(
        counts.cumsum() - counts, counts
    )
    return rank
