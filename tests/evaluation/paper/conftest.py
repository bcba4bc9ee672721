"""Outputs of a classifier whose posterior is known: class means on a simplex, Gaussian noise."""

import numpy as np
import pytest

from priorshift.evaluation.paper import StoredOutputs, distribution

K = 5


@pytest.fixture(scope="session")
def make_outputs():
    def make(source="LT", n_train=3000, n_val=1000, n_test=3000, seed=0, retrained=False):
        rng = np.random.default_rng(seed)
        trained = distribution(source, K)

        def part(n, priors):
            y = rng.choice(K, n, p=priors)
            x = 2.0 * np.eye(K)[y] + rng.normal(size=(n, K))
            return 2.0 * x + np.log(
                trained
            ), y  # the log-posterior of this model, but for a constant

        test = part(n_test, np.full(K, 1 / K))
        return StoredOutputs.of(
            "toy",
            train=part(n_train, trained),
            val=part(n_val, np.full(K, 1 / K)),
            test=test,
            retrained=(test[0] - np.log(trained), test[1]) if retrained else None,
        )

    return make
