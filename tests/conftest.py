"""Simulated classifiers whose truth is known."""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from numpy.typing import NDArray
from scipy.sparse import csr_array

import priorshift as ps
from priorshift import counts as statistics
from priorshift.border import SparseTable, TopK, sparse
from priorshift.estimators import bounds, data
from priorshift.solvers import _maximise

Array = NDArray[np.float64]

# A test does not fail because the machine is slow, or busy with something else.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@dataclass(frozen=True)
class Simulation:
    """A Gaussian mixture and its exact posterior under `source_priors`: no miscalibration."""

    means: Array
    source_priors: Array

    def draw(
        self, priors: Array, n: int, rng: np.random.Generator
    ) -> tuple[Array, NDArray[np.intp]]:
        """Draw samples that follow `priors`; return their source posteriors and labels."""
        y = rng.choice(priors.size, n, p=priors)
        x = self.means[y] + rng.standard_normal((n, self.means.shape[1]))
        z = x @ self.means.T - 0.5 * (self.means**2).sum(axis=1) + np.log(self.source_priors)
        z -= z.max(axis=1, keepdims=True)
        proba = np.exp(z)
        return proba / proba.sum(axis=1, keepdims=True), y


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave slow tests and those of lab out of coverage, which slows them down several times.

    Of those of lab, the ports of what was released test solvers of the library.
    """
    for item in items:
        of_lab = item.nodeid.startswith("tests/lab") and "test_released" not in item.nodeid
        if of_lab or item.get_closest_marker("slow"):
            item.add_marker("no_cover")


@pytest.fixture
def simulate() -> Callable[..., Simulation]:
    """Make a simulation with K classes; `spread` sets how well they are told apart."""

    def make(K: int, *, spread: float = 1.5, dim: int = 4, seed: int = 0) -> Simulation:
        rng = np.random.default_rng(seed)
        priors = 0.5 / K + 0.5 * rng.dirichlet(np.ones(K))
        return Simulation(spread * rng.standard_normal((K, dim)), priors)

    return make


@pytest.fixture
def blank_figures(monkeypatch):
    """Leave a report's figures blank: they take most of its time, and its words need none.

    Pages that a module or session shares are made before this fixture, with their figures.
    """
    from priorshift.report import _figures

    monkeypatch.setattr(_figures, "draw_svg", lambda *_, **__: "<svg></svg>")


@pytest.fixture
def rng() -> np.random.Generator:
    """Seed every test alike."""
    return np.random.default_rng(20_231)


# Sparse predictions beside the arrays that they stand for

N_CLASSES = 12


def sparse_rows(n, K, rng, listed=4, noise=1.5):
    """Draw labels, and posteriors that list a few classes around the true one."""
    y = np.concatenate([np.arange(K), rng.integers(0, K, n - K)])
    offset = rng.integers(0, listed, n)
    ids = (y[:, None] - offset[:, None] + np.arange(listed)) % K
    scores = rng.standard_normal((n, listed))
    scores[np.arange(n), offset] += noise
    scores = np.exp(noise * scores)
    return ids, scores / scores.sum(axis=1, keepdims=True), y


def dense_of(ids, scores, K, *, spread=False):
    """Write the same rows in full, the plain way."""
    n, listed = ids.shape
    rest = (1 - scores.sum(axis=1)) / (K - listed) if spread else np.zeros(n)
    dense = np.repeat(rest[:, None], K, axis=1)
    np.put_along_axis(dense, ids, scores, axis=1)
    return dense


@pytest.fixture(params=["csr", "spread", "drop"])
def wide(request, rng):
    """Validation and target, sparse in one of three ways, and as arrays."""
    K, kind = N_CLASSES, request.param
    ids, scores, y = sparse_rows(900, K, rng)
    if kind == "csr":
        dense = dense_of(ids, scores, K)
        make = csr_array
    else:
        scores = 0.9 * scores
        spread = kind == "spread"
        dense = dense_of(ids, scores if spread else scores / 0.9, K, spread=spread)
    held, target = slice(0, 400), slice(400, None)
    if kind == "csr":
        val, new = make(dense[held]), make(dense[target])
    else:
        val = TopK(ids[held], scores[held], K, rest=kind)
        new = TopK(ids[target], scores[target], K, rest=kind)
    return SimpleNamespace(
        kind=kind, K=K, y=y[held], val=val, new=new, dense_val=dense[held], dense_new=dense[target]
    )


@pytest.fixture
def nothing_dense(monkeypatch):
    """Let every attempt to make sparse rows an array fail."""

    def refuse(*_, **__):
        raise AssertionError("a sparse block was made dense")

    monkeypatch.setattr(SparseTable, "toarray", refuse)


@pytest.fixture
def many_classes(monkeypatch):
    """Take more than 5 classes for very many, so that nothing of classes by classes is formed."""
    for module in (sparse, statistics, data, bounds):
        monkeypatch.setattr(module, "DENSE_CLASSES", 5)
    monkeypatch.setattr(_maximise, "MANY_CLASSES", 5)
    assert not hasattr(ps, "DENSE_CLASSES")
