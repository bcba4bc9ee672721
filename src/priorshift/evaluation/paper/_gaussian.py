r"""Supplementary D: confusion matrices of two Gaussian classes, where the truth is known.

.. math:: x \mid Y=0 \sim N(-2, 2^2), \quad x \mid Y=1 \sim N(2, 2^2), \quad
    f(x) = \frac1{1 + e^{-(ax + b)}}

with equal priors. The posterior has a = 1, b = 0; an overconfident classifier a = 2, b = 0; a third
is fitted to four samples. A classifier that decides at t has the true confusion matrix
:math:`C_{1|j} = P(x > t \mid Y=j)`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from priorshift._typing import Indices, Vector
from priorshift.statistics import Confusion, Decision

MEANS, DEVIATION = np.array([-2.0, 2.0]), 2.0
SIZES = (5, 10, 20, 50, 100, 200, 500, 1000)
N_TRIALS = 50
SHOWN_SIZE = 50
"""Validation samples behind the matrices that are shown."""


@dataclass(frozen=True)
class Logistic:
    """A classifier `1 / (1 + exp(-(a x + b)))`."""

    name: str
    a: float
    b: float = 0.0

    def predict_proba(self, x: Vector) -> Vector:
        """Return the probabilities of both classes."""
        positive = 1 / (1 + np.exp(-(self.a * x + self.b)))
        return np.column_stack([1 - positive, positive])

    @property
    def threshold(self) -> float:
        """Where the decision changes."""
        return -self.b / self.a

    def true_confusion(self) -> Vector:
        """Return C, known since the classes are."""
        below = ndtr((self.threshold - MEANS) / DEVIATION)
        return np.array([below, 1 - below])


@dataclass(frozen=True, eq=False)
class ConfusionStudy:
    """How far estimated confusion matrices are from the true one.

    Attributes
    ----------
    classifier : Logistic
    sizes : tuple of int
        Validation samples.
    distances : dict
        By kind of decision, the mean sum of absolute differences at each size.
    estimated : dict
        By kind of decision, the matrix from `SHOWN_SIZE` samples.
    """

    classifier: Logistic
    sizes: tuple[int, ...]
    distances: dict[Decision, Vector]
    estimated: dict[Decision, Vector]


def classifiers(random_state: int = 0) -> tuple[Logistic, Logistic, Logistic]:
    """Return the supplement's three: trained on four samples, overconfident, calibrated."""
    from sklearn.linear_model import LogisticRegression  # slow to import, and of use here only

    x, y = draw(4, np.random.default_rng(random_state))
    fitted = LogisticRegression().fit(x[:, None], y)
    trained = Logistic(
        "trained on 4 samples", float(fitted.coef_[0, 0]), float(fitted.intercept_[0])
    )
    return trained, Logistic("overconfident", 2.0), Logistic("calibrated", 1.0)


def draw(n: int, rng: np.random.Generator) -> tuple[Vector, Indices]:
    """Draw samples that hold both classes."""
    y = np.concatenate([[0, 1], rng.integers(0, 2, n - 2)]).astype(np.intp)
    return rng.normal(MEANS[y], DEVIATION), y


def run_gaussian(
    *, sizes: Sequence[int] = SIZES, n_trials: int = N_TRIALS, random_state: int = 0
) -> tuple[ConfusionStudy, ...]:
    """Compare hard and soft confusion matrices with the truth, for each of the classifiers."""
    return tuple(
        _study(classifier, tuple(sizes), n_trials, random_state)
        for classifier in classifiers(random_state)
    )


def _study(
    classifier: Logistic, sizes: tuple[int, ...], n_trials: int, random_state: int
) -> ConfusionStudy:
    truth = classifier.true_confusion()
    kinds: tuple[Decision, ...] = ("hard", "soft")
    distances = {kind: np.zeros(len(sizes)) for kind in kinds}
    for at, size in enumerate(sizes):
        rng = np.random.default_rng([random_state, size])
        for _ in range(n_trials):
            found = _estimate(classifier, size, rng)
            for kind in kinds:
                distances[kind][at] += np.abs(found[kind] - truth).sum() / n_trials
    shown = _estimate(classifier, SHOWN_SIZE, np.random.default_rng(random_state))
    return ConfusionStudy(classifier, sizes, distances, shown)


def _estimate(classifier: Logistic, size: int, rng: np.random.Generator) -> dict[Decision, Vector]:
    x, y = draw(size, rng)
    y_proba = classifier.predict_proba(x)
    kinds: tuple[Decision, ...] = ("hard", "soft")
    return {k: Confusion.from_arrays(y_proba, y, decision=k).conditional for k in kinds}
