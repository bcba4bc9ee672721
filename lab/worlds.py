"""Simulated classifiers: Gaussian classes, whose posteriors are known exactly."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

import priorshift as ps
from lab.shifts import long_tail as tail
from lab.shifts import shuffled_by_class

MOST_ROWS = 2000
"""Rows of a target, unless a cell says otherwise."""


def softmax(logits: np.ndarray) -> np.ndarray:
    """Turn logits into probabilities."""
    z = logits - logits.max(axis=1, keepdims=True)
    np.exp(z, out=z)
    return z / z.sum(axis=1, keepdims=True)


def outputs(
    means: np.ndarray,
    y: np.ndarray,
    rng: np.random.Generator,
    slope: float = 1.0,
    bias: np.ndarray | float = 0.0,
) -> np.ndarray:
    """Draw rows of these classes, and return the outputs of a model of them.

    They are exact posteriors where the slope is 1 and the bias the logarithm of the priors that the
    model was trained under; a slope above 1 makes them too sure.
    """
    x = means[y] + rng.standard_normal((y.size, means.shape[1]))
    return softmax(slope * (x @ means.T - 0.5 * (means**2).sum(axis=1)) + bias)


@dataclass(frozen=True)
class Task:
    """Validation and target of one classifier; labels are columns."""

    y_proba_val: np.ndarray
    y_val: np.ndarray
    y_proba: np.ndarray
    y: np.ndarray
    priors: np.ndarray
    """True priors of the target."""
    source_priors: np.ndarray | None = None
    """What outputs are calibrated under, where that is known."""

    @property
    def classes(self) -> np.ndarray:
        """Classes by number: a small validation set may lack some."""
        return np.arange(self.priors.size)

    def fit(self, method: str, *, given: bool = False) -> ps.PriorEstimator:
        """Fit a method, with source priors if `given` and known."""
        known = {"source_priors": self.source_priors} if given else {}
        estimator = ps.get_estimator(method)
        return estimator.fit(self.y_proba_val, self.y_val, classes=self.classes, **known)


# Many classes, float32, a long-tailed source: for speed and memory


def class_means(n_classes: int, rng: np.random.Generator, strength: float = 1.0) -> np.ndarray:
    """Draw means in sqrt(4 K) dimensions; a strength of 1 gives accuracies of .5 to .8."""
    dim = round(np.sqrt(4 * n_classes))
    return strength * 1.6 * rng.standard_normal((n_classes, dim)) / dim**0.25


def draw(
    means: np.ndarray, source: np.ndarray, y: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the posteriors of rows of these classes in float32, drawn in blocks."""
    bias = np.log(source)
    blocks = np.array_split(y, 1 + y.size * source.size // 10**6)
    return np.concatenate([outputs(means, b, rng, bias=bias).astype(np.float32) for b in blocks])


def simulate(
    n_classes: int,
    n_val: int,
    n_target: int,
    *,
    target: str = "uniform",
    strength: float = 1.0,
    seed: int = 0,
) -> Task:
    """Draw a balanced validation set and a target, "uniform" or "sparse" (Dirichlet 0.3)."""
    rng = np.random.default_rng(seed)
    means = class_means(n_classes, rng, strength)
    source, uniform = tail(n_classes, 100.0), np.full(n_classes, 1 / n_classes)
    priors = uniform if target == "uniform" else rng.dirichlet(np.full(n_classes, 0.3))
    y_val = rng.choice(n_classes, n_val, p=uniform)
    y_proba_val = draw(means, source, y_val, rng)
    y = rng.choice(n_classes, n_target, p=priors)
    return Task(y_proba_val, y_val, draw(means, source, y, rng), y, priors, source)


# Replicates, to check what tests and intervals promise


@dataclass(frozen=True)
class Simulated:
    """Replicates of a simulated classifier that was trained on equal shares."""

    name: str
    K: int
    accuracy: float
    priors: np.ndarray
    per_class: int
    n_target: int = MOST_ROWS
    slope: float = 1.0
    bias: float = 0.0

    def tasks(self, n: int) -> Iterator[Task]:
        """Yield replicates."""
        means, uniform = means_of(self.K, self.accuracy), np.full(self.K, 1 / self.K)
        for seed in range(n):
            rng = np.random.default_rng([seed, self.K, 7])
            bias = self.bias * rng.standard_normal(self.K)
            y_val = np.repeat(np.arange(self.K), self.per_class)
            y = rng.choice(self.K, self.n_target, p=self.priors)
            parts = (outputs(means, labels, rng, self.slope, bias) for labels in (y_val, y))
            yield Task(next(parts), y_val, next(parts), y, self.priors, uniform)


def means_of(K: int, accuracy: float) -> np.ndarray:
    """Return class means at the scale that makes the classifier that accurate."""
    if K == 2:
        return np.array([[1.0], [-1.0]]) * ndtri(accuracy)
    means = np.random.default_rng(1).standard_normal((K, max(2, round(np.sqrt(4 * K)))))
    y, low, high = np.repeat(np.arange(K), max(4000 // K, 40)), 0.1, 8.0
    for _ in range(15):
        middle = 0.5 * (low + high)
        right = (outputs(middle * means, y, np.random.default_rng(2)).argmax(axis=1) == y).mean()
        low, high = (middle, high) if right < accuracy else (low, middle)
    return middle * means


@dataclass(frozen=True)
class Resplit:
    """Replicates of real outputs: some rows per class validate, the target is drawn from the rest.

    The target is long-tailed ("tail"), as the pool is ("none"), or half of the classes have more
    and half less, by a total variation of 0.2 ("moved"). No row is drawn twice.
    """

    name: str
    pool: tuple[np.ndarray, np.ndarray]
    per_class: int
    shift: str = "tail"
    n_target: int = MOST_ROWS

    @property
    def K(self) -> int:  # noqa: N802 - as everywhere
        """Number of classes."""
        return self.pool[0].shape[1]

    def tasks(self, n: int) -> Iterator[Task]:
        """Yield replicates."""
        (y_proba, y), K = self.pool, self.K
        sizes = np.bincount(y, minlength=K)
        held = np.minimum(self.per_class, sizes // 2)
        left = sizes - held
        rank = np.arange(y.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        for seed in range(n):
            rng = np.random.default_rng([seed, K, y.size])
            rows = shuffled_by_class(y, rng)
            validates = rank < held[y[rows]]
            priors = self.target_priors(left / left.sum(), rng)
            # as many rows as no class runs short of
            most = min(self.n_target, int(0.8 * (left / priors).min()))
            wanted = np.minimum(rng.multinomial(most, priors), left)
            drawn = ~validates & (rank < (held + wanted)[y[rows]])
            parts = [(y_proba[rows[part]], y[rows[part]]) for part in (validates, drawn)]
            yield Task(*parts[0], *parts[1], priors)

    def target_priors(self, own: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the class shares of one target."""
        if self.shift == "none":
            return own
        if self.shift == "moved":
            return moved(rng.permutation(own))
        return rng.permutation(tail(self.K, 30))


def moved(priors: np.ndarray, by: float = 0.2) -> np.ndarray:
    """Make every other class more common and the others less, by a total variation of `by`."""
    up = np.arange(priors.size) % 2 == 0
    return priors * np.where(up, 1 + by / priors[up].sum(), 1 - by / priors[~up].sum())
