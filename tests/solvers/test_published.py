"""The paper's optimisers, step by step against loops that spell its formulas out."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import brentq, minimize

from priorshift.solvers import (
    Mixture,
    expectation_maximisation,
    gradient_ascent,
    maximise,
)
from priorshift.solvers._published import (
    FLOOR,
    L2_THRESHOLD,
    LEARNING_RATES,
    N_STEPS,
    released_ascent,
    released_lbfgs,
)


@pytest.fixture
def posteriors(simulate, rng):
    """Posteriors of 500 target samples, and the source priors they were made with."""
    simulation = simulate(4, spread=1.0)
    y_proba, _ = simulation.draw(np.array([0.6, 0.3, 0.1, 0.0]), 500, rng)
    return y_proba, simulation.source_priors


def paper_em(y_proba, source, alpha, threshold, max_steps):
    """Saerens' E-step and M-step, the latter with the counts of a Dirichlet hyper-prior."""
    p, steps, moved = np.full(source.size, 1 / source.size), 0, np.inf
    while steps < max_steps and moved >= threshold:
        adapted = y_proba * (p / source)
        adapted /= adapted.sum(axis=1, keepdims=True)
        expected = adapted.sum(axis=0) + alpha - 1
        new = expected / expected.sum()
        moved, p, steps = np.sqrt(((new - p) ** 2).sum()), new, steps + 1
    return p, steps


@pytest.mark.parametrize("alpha", [1.0, 3.0])
@pytest.mark.parametrize("max_steps", [3, 1000])
def test_em_stops_by_the_papers_rule(posteriors, alpha, max_steps):
    y_proba, source = posteriors
    p, steps = paper_em(y_proba, source, alpha, 0.001, max_steps)
    assert steps == 3 or 3 < steps < 1000
    problem = Mixture(y_proba, scale=1 / source, alpha=alpha)
    start = np.full(source.size, 1 / source.size)
    found = expectation_maximisation(problem, start, tol=0.01, n_steps=max_steps)
    assert L2_THRESHOLD == 0.001
    assert found.n_iter == steps
    np.testing.assert_allclose(found.value, p, rtol=1e-12)


def project(v, floor=FLOOR):
    """Project onto the simplex with entries of at least `floor`, by root search."""
    theta = brentq(lambda t: np.maximum(v - t, floor).sum() - 1, v.min() - 1, v.max(), xtol=1e-15)
    return np.maximum(v - theta, floor)


@pytest.mark.parametrize("rate", [1e-3, 0.1, 1.0])
def test_gradient_ascent_takes_the_papers_steps(zoo, naive, rng, alpha, rate):
    C = zoo.confusion("diagonal", 6, rng)
    n = zoo.counts("sparse", C, rng)
    alpha = zoo.hyperprior(alpha, 6, rng)
    plain, problem = naive(C, n, alpha), Mixture(C, weights=n, alpha=alpha)
    p = start = rng.dirichlet(np.ones(6))
    for steps in range(1, 8):
        p = project(p + rate * plain.gradient(p) / plain.total)
        found = gradient_ascent(problem, start, tol=1e-6, n_steps=steps, learning_rates=(rate,))
        assert found.n_iter == steps
        np.testing.assert_allclose(found.value, p, rtol=1e-6, atol=1e-9)


def test_gradient_ascent_keeps_the_best_learning_rate(zoo, naive, rng):
    C = zoo.confusion("diagonal", 10, rng)
    n = zoo.counts("model", C, rng)
    plain, problem, start = naive(C, n), Mixture(C, weights=n), np.full(10, 0.1)
    single = {
        rate: gradient_ascent(problem, start, tol=1e-6, n_steps=40, learning_rates=(rate,))
        for rate in LEARNING_RATES
    }
    values = {rate: plain.objective(solution.value) for rate, solution in single.items()}
    best = max(values, key=values.get)
    assert best not in (min(LEARNING_RATES), max(LEARNING_RATES)) or len(set(values.values())) > 1
    together = gradient_ascent(problem, start, tol=1e-6, n_steps=40)
    np.testing.assert_allclose(together.value, single[best].value, rtol=1e-12)
    assert together.objective == pytest.approx(values[best], rel=1e-12)


def test_gradient_ascent_takes_1000_steps_or_comes_to_rest(posteriors):
    y_proba, source = posteriors
    problem, start = Mixture(y_proba, scale=1 / source), source
    assert N_STEPS == 1000
    slow = gradient_ascent(problem, start, tol=1e-9, learning_rates=(1e-6,))
    assert slow.n_iter == 1000
    resting = gradient_ascent(problem, start, tol=1e-9, threshold=1e-3, learning_rates=(0.1,))
    assert 1 < resting.n_iter < 1000
    before, after = (
        gradient_ascent(problem, start, tol=1e-9, n_steps=n_steps, learning_rates=(0.1,)).value
        for n_steps in (resting.n_iter - 1, resting.n_iter)
    )
    np.testing.assert_array_equal(resting.value, after)
    assert np.linalg.norm(after - before) < 1e-3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("alpha", [1.0, 3.0])
@pytest.mark.parametrize("solve", [expectation_maximisation, gradient_ascent])
def test_the_gap_is_true_and_the_certified_solver_no_worse(posteriors, naive, solve, alpha, dtype):
    y_proba, source = posteriors
    y_proba = y_proba.astype(dtype)
    plain = naive(y_proba.astype(float) / source, 1.0, alpha)
    problem = Mixture(y_proba, scale=1 / source, alpha=alpha)
    best = maximise(problem, tol=1e-9)
    for tol in (1e-6, 1e3):
        found = solve(problem, source, tol=tol, n_steps=30)
        assert found.value.min() >= 0
        assert found.value.sum() == pytest.approx(1, abs=1e-6)
        assert found.gap == pytest.approx(plain.gap(found.value), abs=1e-8)
        assert found.objective == pytest.approx(plain.objective(found.value), rel=1e-12)
        assert found.status == ("certified" if found.gap <= tol else "not_converged")
        assert found.objective <= best.objective + 1e-9
        assert best.objective - found.objective <= found.gap


@pytest.mark.parametrize("solve", [expectation_maximisation, gradient_ascent])
def test_there_is_no_gap_where_the_problem_is_not_concave(posteriors, solve):
    y_proba, source = posteriors
    found = solve(Mixture(y_proba, scale=1 / source, alpha=0.9), source, tol=1e3)
    assert found.gap is None
    assert found.status == "not_converged"
    assert np.isfinite(found.value).all()


@pytest.mark.parametrize("n", [1, 2, 4])
def test_an_ascent_with_alpha_below_1_does_not_turn_round(n):
    """T = n + K (alpha - 1) is 0 or less, yet the way is up: as far as SciPy gets, or farther."""
    A = np.array([[0.7, 0.2, 0.1, 0.1], [0.3, 0.4, 0.2, 0.1]])[np.arange(n) % 2]
    problem = Mixture(A, alpha=0.5)
    assert problem.total == n - 2
    start = np.array([0.1, 0.2, 0.3, 0.4])
    found = gradient_ascent(problem, start, tol=1e-6)
    p = found.value
    assert p.sum() == pytest.approx(1)
    assert (p >= 0).all()
    assert found.status == "not_converged"
    assert found.gap is None

    def objective(p):
        p = np.maximum(p, 1e-8)
        return float(np.log(A @ p).sum() - 0.5 * np.log(p).sum())

    assert objective(p) > objective(start)
    ends = minimize(
        lambda p: -objective(p),
        start,
        bounds=[(1e-8, 1)] * 4,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
    )
    assert objective(p) >= objective(ends.x / ends.x.sum()) - 1e-3


@pytest.mark.parametrize("n_steps", [1, 5])
def test_the_released_calibration_takes_as_many_steps_as_told(n_steps):
    """Downhill on |theta - 1|^2, and gradients add up, as nothing sets them to zero."""
    asked = []

    def evaluate(theta):
        asked.append(theta)
        return np.float32(((theta - 1) ** 2).sum()), np.float32(2) * (theta - np.float32(1))

    theta, taken = released_lbfgs(evaluate, np.zeros(2, np.float32), n_steps)
    assert taken == n_steps == len(asked)
    first = 1e-4 / 4  # the rate over the sum of the gradient, 2 and 2
    points = [*asked, theta]
    np.testing.assert_allclose(points[1], 2 * first, rtol=1e-5)
    assert all((after > before).all() for before, after in pairwise(points))


@pytest.mark.parametrize("halved_every", [None, 3])
@pytest.mark.parametrize("alpha", [1.0, np.array([1.0, 3.0, 1.0, 2.0])], ids=["1", "vector"])
@pytest.mark.parametrize("floor", [0.0, 0.05])
def test_the_released_ascent_halves_its_rate(posteriors, naive, alpha, halved_every, floor):
    y_proba, source = posteriors
    plain = naive(y_proba / source)
    problem = Mixture(y_proba, scale=1 / source, alpha=alpha)
    p, rate = source, 0.1
    for step in range(8):
        slope = plain.gradient(p) + (alpha - 1) / np.maximum(p, floor)
        p = project(p + rate * slope / len(y_proba), floor=0.0)
        found = released_ascent(
            problem,
            source,
            tol=1e-6,
            learning_rate=0.1,
            n_steps=step + 1,
            halved_every=halved_every,
            floor=floor,
        )
        assert found.n_iter == step + 1
        np.testing.assert_allclose(found.value, p, atol=1e-9)
        rate = rate / 2 if halved_every and (step + 1) % halved_every == 0 else rate


def test_the_released_ascent_ends_above_0_where_the_hyper_prior_says_so():
    """Rows speak for class 0 alone: others reach 0, but those with an alpha above 1 may not."""
    A, start = np.tile([0.9, 0.05, 0.05], (100, 1)), np.full(3, 1 / 3)
    free = Mixture(A, alpha=np.array([2.0, 1.0, 1.0]))
    held = Mixture(A, alpha=np.array([1.0, 1.0, 1.01]))
    options = {"tol": 1e-6, "learning_rate": 10.0, "n_steps": 1}
    np.testing.assert_array_equal(released_ascent(free, start, **options).value, [1, 0, 0])
    np.testing.assert_array_equal(released_ascent(held, start, **options).value, start)


def bfgs(memory, K):
    """Write the inverse Hessian of BFGS out, from the scale that the last step suggests."""
    s, y = memory[-1] if memory else (np.ones(K), np.ones(K))
    inverse = (s @ y) / (y @ y) * np.eye(K)
    for s, y in memory:
        turn = np.eye(K) - np.outer(s, y) / (s @ y)
        inverse = turn @ inverse @ turn.T + np.outer(s, s) / (s @ y)
    return inverse


def test_the_released_calibration_is_bfgs_with_gradients_that_add_up():
    """In double precision, against matrices that are written out."""
    curvature, asked = np.array([2.0, 10.0, 300.0]), []

    def evaluate(theta):
        asked.append(theta)
        away = theta - 1
        return 0.5 * curvature @ away**2 + 0.1 * (away**4).sum(), curvature * away + 0.4 * away**3

    theta, taken = released_lbfgs(evaluate, np.zeros(3), 12)
    assert taken == 12
    points = [*asked, theta]
    gradients = np.cumsum([evaluate(point)[1] for point in points], axis=0)
    memory = []
    for i in range(12):
        g, rate = gradients[i], 1e-4 if i else 1e-4 / np.abs(gradients[0]).sum()
        expected = -rate * bfgs(memory, 3) @ g
        np.testing.assert_allclose(points[i + 1] - points[i], expected, rtol=1e-4)
        pair = points[i + 1] - points[i], gradients[i + 1] - g
        memory += [pair] if pair[0] @ pair[1] > 1e-10 else []
    assert len(memory) > 2
