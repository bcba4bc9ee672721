"""A simulated shift of 4 classes, and a model that is too sure of itself."""

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

SOURCE, TARGET = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, 0.2, 0.3, 0.4])


@pytest.fixture
def target_priors():
    """The priors that `data` is shifted to."""
    return TARGET


@pytest.fixture
def data(simulate, rng):
    """Validation and its labels, target and its labels, and the priors of training."""
    simulation = simulate(4, spread=1.5)
    y_proba_val, y_val = simulation.draw(SOURCE, 700, rng)
    y_proba, y = simulation.draw(TARGET, 900, rng)
    return y_proba_val, y_val, y_proba, y, simulation.source_priors


@pytest.fixture
def too_sure():
    """Return what sharpens probabilities by a temperature."""

    def sharpen(y_proba, temperature=0.4):
        return softmax(log_softmax(np.log(y_proba), axis=1) / temperature, axis=1)

    return sharpen
