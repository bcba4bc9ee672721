"""Simulated classifiers whose truth is known."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from numpy.typing import NDArray

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
    """Leave slow tests out of coverage, which slows them down by half: quick ones cover all."""
    for item in items:
        if item.get_closest_marker("slow"):
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

    monkeypatch.setattr(_figures, "_draw", lambda *_, **__: "<svg></svg>")


@pytest.fixture
def rng() -> np.random.Generator:
    """Seed every test alike."""
    return np.random.default_rng(20_231)
