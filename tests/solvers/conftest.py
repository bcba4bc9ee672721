"""A zoo of confusion matrices and counts, and the mixture problem in its plainest form."""

import zlib
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from priorshift.solvers import Mixture, Mixtures

KINDS = [
    "random",
    "diagonal",
    "singular",
    "rank-1",
    "permutation",
    "near-duplicate",
    "duplicate",
    "flat",
    "sparse",
    "zeros and ones",
    "wide range",
]
COUNTS = ["model", "sparse", "one decision", "unrelated"]
HYPERPRIORS = ["1", "3", "vector"]
ZOO = [
    (kind, counts, HYPERPRIORS[(i + j) % 3])
    for i, kind in enumerate(KINDS)
    for j, counts in enumerate(COUNTS)
]
"""Problems in which each kind of matrix, of counts and of hyper-prior meets each of the others."""


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    """Name each kind of confusion matrix in turn, unless a test chooses its own."""
    return request.param


@pytest.fixture(params=COUNTS)
def counts(request) -> str:
    """Name each kind of counts in turn."""
    return request.param


@pytest.fixture(params=ZOO, ids="-".join)
def parts(request) -> tuple[str, str, str]:
    """Name the parts of each problem of the zoo in turn."""
    return request.param


@pytest.fixture(params=HYPERPRIORS)
def alpha(request) -> str:
    """Name each kind of hyper-prior in turn."""
    return request.param


def seeded(*parts: object) -> np.random.Generator:
    """Seed by the names of what is drawn."""
    return np.random.default_rng(zlib.crc32(repr(parts).encode()))


def confusion(kind: str, K: int, rng: np.random.Generator) -> np.ndarray:
    """Draw C[i, k] = P(decision i | class k) of a kind that is hard in its own way."""
    C = rng.dirichlet(np.ones(K), K).T
    diagonal = 0.7 * np.eye(K) + 0.3 * C
    twins = np.arange(K) // 2 * 2  # classes 0 and 1, 2 and 3, ... share a column
    if kind == "random":
        return C
    if kind == "diagonal":
        return diagonal
    if kind == "singular":
        return np.column_stack([C[:, 1:], C[:, 1:].mean(axis=1)])
    if kind == "rank-1":
        return np.tile(C[:, :1], K)
    if kind == "permutation":
        return np.eye(K)[rng.permutation(K)]
    if kind == "duplicate":
        return diagonal[:, twins]
    if kind == "near-duplicate":
        C = diagonal[:, twins] + 1e-9 * rng.random((K, K))
    if kind == "flat":
        C = 1 + 1e-3 * rng.random((K, K))
    if kind == "sparse":
        C = 0.3 * np.eye(K) + rng.random((K, K)) * (rng.random((K, K)) < 3 / K)
    if kind == "zeros and ones":
        return np.eye(K)[:, np.arange(K) // 2]
    if kind == "wide range":
        C = 10.0 ** rng.uniform(-12, 0, (K, K))
    return C / C.sum(axis=0)


def draw_counts(kind: str, C: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw 1000 decisions, all of them possible under C."""
    K = C.shape[1]
    p = {"model": np.ones(K), "sparse": np.full(K, 0.1)}.get(kind)
    if p is not None:
        q = C @ rng.dirichlet(p)
    elif kind == "one decision":
        q = np.eye(K)[C.sum(axis=1).argmax()]
    else:  # "unrelated" to any p
        q = rng.dirichlet(np.ones(K)) * (C.sum(axis=1) > 0)
    return rng.multinomial(1000, q / q.sum()).astype(float)


def hyperprior(kind: str, K: int, rng: np.random.Generator) -> float | np.ndarray:
    """Make alpha: a number, or a "vector" of which half is exactly 1."""
    return 1 + rng.uniform(0, 3, K) * (np.arange(K) % 2) if kind == "vector" else float(kind)


@dataclass(frozen=True)
class Naive:
    """f, its gradient and its certificate, straight from their formulas."""

    A: np.ndarray
    weights: np.ndarray | float = 1.0
    alpha: np.ndarray | float = 1.0

    @property
    def total(self) -> float:
        n, K = self.A.shape
        excess = np.broadcast_to(np.asarray(self.alpha) - 1, K).sum()
        return float(np.broadcast_to(self.weights, n).sum() + excess)

    def objective(self, p: np.ndarray) -> float:
        n, K = self.A.shape
        weights, excess = np.broadcast_to(self.weights, n), np.broadcast_to(self.alpha, K) - 1.0
        rows, classes = weights > 0, excess != 0
        with np.errstate(divide="ignore"):
            likelihood = weights[rows] @ np.log(self.A[rows] @ p)
            return float(likelihood + excess[classes] @ np.log(p[classes]))

    def gradient(self, p: np.ndarray) -> np.ndarray:
        n, K = self.A.shape
        weights, excess = np.broadcast_to(self.weights, n), np.broadcast_to(self.alpha, K) - 1.0
        rows = slice(None) if weights.all() else weights > 0
        slope = self.A[rows].T @ (weights[rows] / (self.A[rows] @ p))
        return slope + np.divide(excess, p, out=np.zeros(K), where=excess != 0)

    def gap(self, p: np.ndarray) -> float:
        return float(self.gradient(p).max() - self.total)

    def em(self, p: np.ndarray, n_steps: int) -> np.ndarray:
        for _ in range(n_steps):
            p = p * self.gradient(p) / self.total
        return p / p.sum()

    def scipy_maximum(self, max_iter: int = 300) -> float:
        """Return the best objective that SLSQP finds."""
        K = self.A.shape[1]
        start = np.full(K, 1 / K)
        found = minimize(
            lambda p: (-self.objective(p) / self.total, -self.gradient(p) / self.total),
            start,
            jac=True,
            method="SLSQP",
            bounds=[(1e-10, 1)] * K,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like},
            options={"maxiter": max_iter, "ftol": 1e-14},
        )
        p = np.clip(found.x, 1e-10, 1)
        return max(self.objective(p / p.sum()), self.objective(start))

    def softmax_maximum(self) -> float:
        """Return the best objective of L-BFGS in p = softmax(theta): for too many for SLSQP."""

        def negative(theta: np.ndarray) -> tuple[float, np.ndarray]:
            p = np.maximum(np.exp(theta - theta.max()), 1e-300)
            p /= p.sum()
            slope = p * self.gradient(p)
            return -self.objective(p) / self.total, -(slope - p * slope.sum()) / self.total

        options = {"maxiter": 3000, "maxfun": 5000, "gtol": 1e-12, "ftol": 1e-15}
        start = np.zeros(self.A.shape[1])
        found = minimize(negative, start, jac=True, method="L-BFGS-B", options=options)
        return -float(found.fun) * self.total


@pytest.fixture(scope="module", autouse=True)
def quiet_blas():
    """Keep BLAS threads from spinning: they make the oracles many times slower."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture
def passes(monkeypatch):
    """Record all passes over the data: the problem, the point, and whether it was exact."""
    found = []
    for kind in (Mixture, Mixtures):

        def recorded(self, p, *, exact=True, original=kind.evaluate):
            found.append((self, p, exact))
            return original(self, p, exact=exact)

        monkeypatch.setattr(kind, "evaluate", recorded)
    return found


@pytest.fixture(scope="session")
def zoo() -> SimpleNamespace:
    """Give access to the problems, by the names of their kinds."""
    return SimpleNamespace(
        confusion=confusion,
        counts=draw_counts,
        hyperprior=hyperprior,
        seeded=seeded,
        number=lambda kind, counts="model": KINDS.index(kind) + COUNTS.index(counts),
    )


@pytest.fixture(scope="session")
def naive() -> type[Naive]:
    """Give access to the plain formulas."""
    return Naive
