"""Simulated posteriors that are exactly calibrated: a Gaussian mixture and its own Bayes rule."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Task:
    """Validation and target predictions of one simulated classifier."""

    y_proba_val: np.ndarray
    y_val: np.ndarray
    y_proba: np.ndarray
    y: np.ndarray
    source_priors: np.ndarray
    target_priors: np.ndarray

    @property
    def accuracy(self) -> float:
        """Accuracy on the target before adaptation."""
        return float((self.y_proba.argmax(axis=1) == self.y).mean())


def simulate(
    n_classes: int,
    n_val: int,
    n_target: int,
    *,
    target: str = "uniform",
    strength: float = 1.0,
    seed: int = 0,
) -> Task:
    """Draw class means in sqrt(4 K) dimensions; validation balanced, source long-tailed.

    `strength` scales the distance between classes: 1 gives accuracies of .5 to .8, 0.4 a weak
    classifier. The target is "uniform" or "sparse" (Dirichlet 0.3).
    """
    rng = np.random.default_rng(seed)
    dim = round(np.sqrt(4 * n_classes))
    means = strength * 1.6 * rng.standard_normal((n_classes, dim)) / dim**0.25
    source = 100.0 ** (-np.arange(n_classes) / (n_classes - 1))
    source /= source.sum()
    uniform = np.full(n_classes, 1 / n_classes)
    priors = uniform if target == "uniform" else rng.dirichlet(np.full(n_classes, 0.3))
    y_proba_val, y_val = _draw(means, source, uniform, n_val, rng)
    y_proba, y = _draw(means, source, priors, n_target, rng)
    return Task(y_proba_val, y_val, y_proba, y, source, priors)


def _draw(means, source, priors, n, rng):  # type: ignore[no-untyped-def]
    """Draw float32 posteriors in blocks."""
    y = rng.choice(priors.size, n, p=priors)
    proba = np.empty((n, priors.size), np.float32)
    bias = np.log(source) - 0.5 * (means**2).sum(axis=1)
    for rows in np.array_split(np.arange(n), 1 + n * priors.size // 10**6):
        z = (means[y[rows]] + rng.standard_normal((rows.size, means.shape[1]))) @ means.T + bias
        z -= z.max(axis=1, keepdims=True)
        np.exp(z, out=z)
        proba[rows] = z / z.sum(axis=1, keepdims=True)
    return proba, y
