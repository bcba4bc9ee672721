"""A classifier, and a target whose groups have priors of their own."""

from dataclasses import dataclass

import numpy as np
import pytest

import priorshift as ps


@dataclass(frozen=True)
class Grouped:
    """Validation, and target rows with their groups; `truth` holds the priors of each group."""

    source_priors: np.ndarray
    y_proba_val: np.ndarray
    y_val: np.ndarray
    y_proba: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    truth: np.ndarray

    def fit(self, name, **params):
        est = ps.get_estimator(name, **params)
        return est.fit(self.y_proba_val, self.y_val, source_priors=self.source_priors)


@pytest.fixture
def grouped(simulate):
    """Draw groups of the given sizes from Dirichlet(concentration * mean) priors."""

    def make(K=4, sizes=(80, 5, 200, 1, 40), concentration=8.0, seed=0, n_val=100):
        rng = np.random.default_rng(seed)
        world = simulate(K, seed=seed)
        y_proba_val, y_val = [], []
        for k in range(K):
            proba, y = world.draw(np.eye(K)[k], n_val, rng)
            y_proba_val.append(proba)
            y_val.append(y)
        mean = rng.dirichlet(np.full(K, 3.0))
        G = len(sizes)
        if np.isinf(concentration):
            truth = np.tile(mean, (G, 1))
        else:
            truth = rng.dirichlet(concentration * mean, G)
        drawn = [world.draw(p, n, rng) for p, n in zip(truth, sizes, strict=True)]
        y_proba, y = (np.concatenate(part) for part in zip(*drawn, strict=True))
        groups = np.repeat(np.arange(G), sizes)
        order = rng.permutation(groups.size)
        return Grouped(
            world.source_priors,
            np.concatenate(y_proba_val),
            np.concatenate(y_val),
            y_proba[order],
            y[order],
            groups[order],
            truth,
        )

    return make
