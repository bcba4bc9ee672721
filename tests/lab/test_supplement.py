"""Supplementary D: two Gaussians, N(-2, 2) and N(2, 2), standard deviation 2, equal priors."""

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

import priorshift as ps

TRUE_CONFUSION = np.array([[0.841, 0.159], [0.159, 0.841]])
N_TRIALS = 50


def sample(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw a set that holds both classes."""
    y = np.concatenate([[0, 1], rng.integers(0, 2, n - 2)])
    return rng.normal(np.where(y == 1, 2.0, -2.0), 2.0), y


def predict(x: np.ndarray, a: float, b: float = 0.0) -> np.ndarray:
    positive = 1 / (1 + np.exp(-(a * x + b)))
    return np.column_stack([1 - positive, positive])


def true_confusion(threshold: float) -> np.ndarray:
    below = norm.cdf(threshold, loc=[-2.0, 2.0], scale=2.0)
    return np.array([below, 1 - below])


def distance(a: float, n: int, decision: str, b: float = 0.0) -> float:
    """Mean sum of absolute differences from the truth, over 50 trials."""
    rng = np.random.default_rng(0)
    total = 0.0
    for _ in range(N_TRIALS):
        x, y = sample(n, rng)
        confusion = ps.Confusion.from_arrays(predict(x, a, b), y, decision=decision)
        total += np.abs(confusion.conditional - true_confusion(-b / a)).sum()
    return total / N_TRIALS


def test_true_confusion_matrix():
    np.testing.assert_allclose(true_confusion(0.0), TRUE_CONFUSION, atol=5e-4)


@pytest.mark.parametrize("a", [1.0, 2.0])
def test_hard_estimate_converges(a):
    distances = [distance(a, n, "hard") for n in (20, 200, 2000, 20_000)]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 0.02


@pytest.mark.parametrize(("a", "plateau"), [(1.0, 0.265), (2.0, 0.087)])
def test_soft_estimate_stops_at_a_plateau(a, plateau):
    assert distance(a, 20_000, "soft") == pytest.approx(plateau, abs=0.01)


@pytest.mark.parametrize("a", [1.0, 2.0])
@pytest.mark.parametrize("n", [5, 10, 20])
def test_soft_estimate_is_nearer_with_few_samples(a, n):
    assert distance(a, n, "soft") < distance(a, n, "hard")


def test_classifier_trained_on_four_samples():
    rng = np.random.default_rng(1)
    x, y = sample(4, rng)
    model = LogisticRegression().fit(x[:, None], y)
    a, b = float(model.coef_[0, 0]), float(model.intercept_[0])
    assert a > 0
    assert distance(a, 20_000, "hard", b) < 0.02
    # its soft matrix converges too, but to E[f(x) | y], not to the decisions' probabilities
    x, y = sample(200_000, rng)
    soft = ps.Confusion.from_arrays(predict(x, a, b), y, decision="soft").conditional
    grid = np.linspace(-14, 14, 20_001)
    positive = predict(grid, a, b)[:, 1]
    expected = [trapezoid(positive * norm.pdf(grid, loc, 2.0), grid) for loc in (-2.0, 2.0)]
    np.testing.assert_allclose(soft[1], expected, atol=5e-3)
