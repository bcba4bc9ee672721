"""Validation sets and targets to check promises on: simulated classifiers, and real outputs.

Simulated classes are Gaussian, so outputs are exactly calibrated; a slope of 3 makes them too sure,
and a bias per class makes them prefer some classes. Real outputs are split anew in every replicate,
without replacement: some rows per class validate, and the target is drawn from the rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import ndtri

import priorshift as ps

MOST_ROWS = 2000
"""Rows of a target, unless a cell says otherwise."""

Pool = tuple[np.ndarray, np.ndarray]
"""Outputs and labels."""


@dataclass(frozen=True)
class Task:
    """Validation and target of one replicate."""

    y_proba_val: np.ndarray
    y_val: np.ndarray
    y_proba: np.ndarray
    y: np.ndarray
    priors: np.ndarray
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
        y_proba = outputs(middle * means, y, np.random.default_rng(2))
        right = (y_proba.argmax(axis=1) == y).mean()
        low, high = (middle, high) if right < accuracy else (low, middle)
    return middle * means


def outputs(
    means: np.ndarray,
    y: np.ndarray,
    rng: np.random.Generator,
    slope: float = 1.0,
    bias: np.ndarray | float = 0.0,
) -> np.ndarray:
    """Draw the outputs of rows with these labels."""
    x = means[y] + rng.standard_normal((y.size, means.shape[1]))
    return softmax(slope * (x @ means.T - 0.5 * (means**2).sum(axis=1)) + bias)


@dataclass(frozen=True)
class Resplit:
    """Replicates of real outputs.

    The target is long-tailed ("tail"), as the pool is ("none"), or half of the classes have more
    and half less, by a total variation of 0.2 ("moved").
    """

    name: str
    pool: Pool
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
            rows = rng.permutation(y.size)
            rows = rows[np.argsort(y[rows], kind="stable")]
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


def tail(K: int, imbalance: float) -> np.ndarray:
    """Return exponentially falling shares."""
    shares = imbalance ** (-np.arange(K) / (K - 1))
    return shares / shares.sum()


def moved(priors: np.ndarray, by: float = 0.2) -> np.ndarray:
    """Make every other class more common and the others less, by a total variation of `by`."""
    up = np.arange(priors.size) % 2 == 0
    return priors * np.where(up, 1 + by / priors[up].sum(), 1 - by / priors[~up].sum())


def softmax(logits: np.ndarray) -> np.ndarray:
    """Turn logits into probabilities."""
    z = logits - logits.max(axis=1, keepdims=True)
    np.exp(z, out=z)
    return z / z.sum(axis=1, keepdims=True)


def read_pools(data: Path) -> dict[str, Pool]:
    """Read the real outputs that no constant of a promise was chosen on, by name."""
    found = {}
    for name, file in ZOO.items():
        with np.load(data / file) as z:
            kept = ("val", "test") if "train_y" in z else ("val",)  # else another model tests
            parts = [(z[f"{part}_proba"], z[f"{part}_y"]) for part in kept]
        y_proba, y = (np.concatenate(part) for part in zip(*parts, strict=True))
        found[name] = y_proba.astype(np.float64), y.astype(int)
    with np.load(data / "cifar10lt_logits_4nets.npz") as z:
        logits, y = z["resnet110__test_logits"], z["resnet110__test_y"]
    found["CIFAR-10-LT resnet110"] = softmax(logits.astype(np.float64)), y.astype(int)
    return {name: (f / f.sum(axis=1, keepdims=True), y) for name, (f, y) in found.items()}


ZOO = {
    "ring, naive Bayes": "zoo/ring_lt_nb.npz",
    "satimage, random forest": "zoo/satimage_nat_rf.npz",
    "optdigits, naive Bayes": "zoo/optdigits_lt_nb.npz",
    "letter": "uci/letter.npz",
}
