"""The Dirichlet posterior, against conjugacy and against integration on a grid."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln

from priorshift.solvers import Mixture, dirichlet_posterior, maximise


def dirichlet_multinomial(counts, alpha):
    """Log marginal likelihood of one sequence of draws with these counts."""
    total = gammaln(alpha.sum()) - gammaln(alpha.sum() + counts.sum())
    return total + (gammaln(alpha + counts) - gammaln(alpha)).sum()


def test_classes_that_are_seen_plainly_give_the_conjugate_posterior(rng):
    y = rng.integers(4, size=200)
    alpha = np.array([0.5, 1.0, 2.0, 7.0])
    counts = np.bincount(y, minlength=4)
    found = dirichlet_posterior(Mixture(np.eye(4)[y]), alpha, tol=1e-10, max_iter=1000)
    np.testing.assert_allclose(found.alpha, alpha + counts, rtol=1e-9)
    assert found.log_marginal == pytest.approx(dirichlet_multinomial(counts, alpha))
    assert found.converged


def test_tempering_counts_rows_for_less(rng):
    y = rng.integers(3, size=90)
    found = dirichlet_posterior(Mixture(np.eye(3)[y]), np.ones(3), tempering=0.5)
    np.testing.assert_allclose(found.alpha, 1 + np.bincount(y, minlength=3) / 2, rtol=1e-9)


def test_two_classes_agree_with_integration(rng):
    x = rng.normal(np.where(rng.random(150) < 0.8, 1.5, -1.5))
    rows = np.column_stack([np.exp(-((x - 1.5) ** 2) / 2), np.exp(-((x + 1.5) ** 2) / 2)])

    def likelihood(p):
        return np.exp(np.log(rows @ [p, 1 - p]).sum() - at_best)

    at_best = np.log(rows @ maximise(Mixture(rows), tol=1e-9).value).sum()
    evidence = quad(likelihood, 0, 1, points=[0.8])[0]
    mean = quad(lambda p: p * likelihood(p), 0, 1, points=[0.8])[0] / evidence
    found = dirichlet_posterior(Mixture(rows), np.ones(2), tol=1e-10, max_iter=1000)
    assert found.alpha[0] / found.alpha.sum() == pytest.approx(mean, abs=0.005)
    exact = np.log(evidence) + at_best
    assert exact - 0.5 < found.log_marginal <= exact + 1e-9


def test_a_strong_prior_holds_the_mean_at_its_centre(rng):
    rows = rng.dirichlet(np.ones(3), 50)
    centre = np.array([0.7, 0.2, 0.1])
    found = dirichlet_posterior(Mixture(rows), 1e6 * centre)
    np.testing.assert_allclose(found.alpha / found.alpha.sum(), centre, atol=1e-4)


def test_running_out_of_steps_is_said(rng):
    rows = rng.dirichlet(np.ones(5), 400)
    found = dirichlet_posterior(Mixture(rows), np.full(5, 0.1), tol=1e-12, max_iter=2)
    assert not found.converged


def test_no_rows_leave_the_prior():
    """Here the only row is impossible, as its class has no scale."""
    alpha = np.array([1.0, 3.0])
    found = dirichlet_posterior(Mixture(np.eye(2)[:1], scale=np.array([0.0, 1.0])), alpha)
    np.testing.assert_array_equal(found.alpha, alpha)
    assert found.log_marginal == 0
    assert found.converged


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_class_that_the_prior_all_but_excludes_takes_the_rows_that_only_it_explains(dtype):
    """Its E[log p] is -1e12 at the start, and the rows are what they are."""
    rows, alpha = np.eye(2, dtype=dtype)[[0, 1, 1]], np.array([1.0, 1e-12])
    found = dirichlet_posterior(Mixture(rows), alpha, start=np.array([1.0, 0.0]))
    np.testing.assert_allclose(found.alpha, [2, 2], rtol=1e-6)
    assert np.isfinite(found.log_marginal)


@pytest.mark.parametrize("max_iter", [1, 4, 60])
def test_iterations_are_passes_over_the_rows(rng, passes, max_iter):
    problem = Mixture(rng.dirichlet(np.full(3, 0.3), 200))
    found = dirichlet_posterior(problem, np.ones(3), max_iter=max_iter)
    assert found.n_iter == len(passes) <= max_iter + 1
    assert found.converged == (max_iter == 60)
