"""ELSA and GLS against independent implementations, known limits and simulated truth."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import root

import priorshift as ps
from priorshift.estimators import (
    ELSA,
    GLS,
)
from priorshift.estimators.least_squares import solve_in_rounds
from priorshift.solvers import evident_variance, shrunk_least_squares

# ELSA


def elsa_by_root_search(y_proba_val, y_val, y_proba):
    """Solve all equations at once, the row weights included, for the first K - 1 ratios."""
    n, m, K = len(y_val), len(y_proba), y_proba.shape[1]
    p, pi = np.bincount(y_val, minlength=K) / n, n / (n + m)

    def equations(free):
        w = np.append(free, (1 - p[:-1] @ free) / p[-1])

        def b(f):
            h = 1 / (f @ w**2 / pi + f @ w / (1 - pi))
            return h[:, None] * (f - p)[:, :-1]

        source = (b(y_proba_val) * w[y_val, None]).sum(axis=0) / pi
        return (source - b(y_proba).sum(axis=0) / (1 - pi)) / (n + m)

    found = root(equations, np.ones(K - 1), tol=1e-12)
    assert found.success
    return np.append(found.x, (1 - p[:-1] @ found.x) / p[-1]) * p


def test_elsa_solves_its_equations(data):
    y_proba_val, y_val, y_proba, *_ = data
    shift = ELSA(tol=1e-10, max_iter=100).fit(y_proba_val, y_val).estimate(y_proba)
    assert shift.status == "stationary"
    np.testing.assert_allclose(
        shift.priors, elsa_by_root_search(y_proba_val, y_val, y_proba), atol=1e-8
    )
    np.testing.assert_allclose(shift.raw, shift.priors, atol=1e-8)


def test_the_first_round_of_elsa_is_the_inverted_soft_confusion_matrix(data):
    y_proba_val, y_val, y_proba, *_ = data
    with pytest.warns(ps.ConvergenceWarning, match="elsa has not settled after 1 rounds"):
        shift = ELSA(max_iter=1).fit(y_proba_val, y_val).estimate(y_proba)
    inverted = ps.SCM().fit(y_proba_val, y_val).estimate(y_proba)
    np.testing.assert_allclose(shift.priors, inverted.priors, atol=1e-10)
    assert shift.status == "not_converged"
    assert shift.gap is None


def test_elsa_clips_and_keeps_what_it_clipped(simulate, rng):
    simulation = simulate(4, spread=1.5)
    y_proba_val, y_val = simulation.draw(np.full(4, 0.25), 2000, rng)
    y_proba, _ = simulation.draw(np.array([1.0, 0, 0, 0]), 2000, rng)
    est = ELSA(max_iter=200).fit(y_proba_val, y_val)
    with pytest.warns(ps.PriorShiftWarning, match="elsa found .* negative entr"):
        shift = est.estimate(y_proba)
    assert shift.raw.min() < 0
    assert shift.raw.sum() == pytest.approx(1)
    clipped = np.maximum(shift.raw, 0)
    np.testing.assert_allclose(shift.priors, clipped / clipped.sum(), atol=1e-9)


@pytest.mark.filterwarnings("ignore::priorshift.ConvergenceWarning")
def test_elsa_is_feasible_where_validation_is_too_small(simulate):
    """Five rows per class: equations that explode are solved on the simplex, with a warning."""
    truth, infeasible, errors = np.array([0.92, 0.06, 0.02]), 0, {"elsa": [], "clipped": []}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        simulation = simulate(3, spread=0.8, seed=seed)
        parts = [simulation.draw(np.eye(3)[k], 5, rng) for k in range(3)]
        y_proba_val, y_val = (np.concatenate(part) for part in zip(*parts, strict=True))
        y_proba, _ = simulation.draw(truth, 1000, rng)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            shift = ELSA().fit(y_proba_val, y_val).estimate(y_proba)
        assert shift.priors.sum() == pytest.approx(1)
        assert shift.priors.min() >= 0
        far = np.minimum(shift.raw, 0).sum() < -0.1
        infeasible += far
        warned = any("validation is too small for elsa" in str(one.message) for one in said)
        assert warned or not far
        clipped = np.maximum(shift.raw, 0) / np.maximum(shift.raw, 0).sum()
        errors["elsa"].append(np.abs(shift.priors - truth).sum())
        errors["clipped"].append(np.abs(clipped - truth).sum())
    assert infeasible > 10
    assert np.mean(errors["elsa"]) < np.mean(errors["clipped"])


def test_elsa_knows_its_standard_error(simulate):
    """The warning is about the spread that repeated validation sets show."""
    simulation, truth, raw, told = simulate(3, spread=1.0), np.array([0.5, 0.3, 0.2]), [], []
    y_proba, _ = simulation.draw(truth, 50_000, np.random.default_rng(0))
    for seed in range(80):
        y_proba_val, y_val = simulation.draw(np.full(3, 1 / 3), 300, np.random.default_rng(seed))
        elsa = ELSA(max_iter=30).fit(y_proba_val, y_val)
        target = elsa._seen_target(y_proba, "elsa")
        _, found, _, error, *_ = solve_in_rounds(elsa._labelled_rows(), target, 1e-4, 30)
        raw.append(found)
        told.append(error)
    assert np.mean(told) == pytest.approx(np.std(raw, axis=0).max(), rel=0.35)


def test_elsa_is_more_precise_than_scm_on_calibrated_outputs(simulate):
    simulation = simulate(3, spread=0.8, seed=1)
    target, errors = np.array([0.6, 0.3, 0.1]), {"elsa": [], "scm": []}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        y_proba_val, y_val = simulation.draw(simulation.source_priors, 2000, rng)
        y_proba, _ = simulation.draw(target, 2000, rng)
        for est in (ELSA(), ps.SCM()):
            found = est.fit(y_proba_val, y_val).estimate(y_proba).priors
            errors[est.name].append(np.sum((found - target) ** 2))
    assert np.mean(errors["elsa"]) < 0.95 * np.mean(errors["scm"])


@pytest.mark.filterwarnings("ignore:predictions on validation contradict")
def test_elsa_beats_em_where_outputs_are_not_calibrated(simulate, rng, too_sure, target_priors):
    simulation = simulate(4, spread=1.2)
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 4000, rng)
    y_proba, _ = simulation.draw(target_priors, 4000, rng)
    wrong_val, wrong = too_sure(y_proba_val, 0.3), too_sure(y_proba, 0.3)
    em = ps.EM().fit(wrong_val, y_val).estimate(wrong)
    shift = ELSA().fit(wrong_val, y_val).estimate(wrong)
    wrong, error = (np.abs(found.priors - target_priors).sum() for found in (em, shift))
    assert error < 0.5 * wrong
    assert error < 0.1


# GLS


def gls_covariance(y_proba_val, y_val, y_proba, p):
    within = [np.cov(y_proba_val[y_val == k].T) for k in range(p.size)]
    n = np.bincount(y_val)
    m, K = y_proba.shape
    one_more = (np.eye(K) / K - 1 / K**2) / m**2
    of_validation = sum(p[k] ** 2 * within[k] / n[k] for k in range(K))
    return np.cov(y_proba.T) / m + of_validation + one_more


def gls_by_cvxpy(y_proba_val, y_val, y_proba, guess, variance):
    K = guess.size
    C = np.column_stack([y_proba_val[y_val == k].mean(axis=0) for k in range(K)])
    q, p = y_proba.mean(axis=0), guess
    spread = (guess + 1 / K) / 2
    for _ in range(2):
        Sigma = gls_covariance(y_proba_val, y_val, y_proba, p)
        weight = np.linalg.pinv(Sigma, rcond=1e-9, hermitian=True)
        x = cp.Variable(K)
        cost = cp.quad_form(q - C @ x, cp.psd_wrap(weight))
        if np.isfinite(variance):
            cost += cp.sum(cp.square(x - guess) / spread) / variance
        problem = cp.Problem(cp.Minimize(cost), [x >= 0, cp.sum(x) == 1])
        problem.solve(solver="CLARABEL")
        p = np.maximum(x.value, 0)
    return p


@pytest.mark.parametrize("shrinkage", [0, 1.0, 1e3])
@pytest.mark.parametrize("target", [[0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 0.5, 0.5]])
def test_gls_by_cvxpy(simulate, rng, shrinkage, target):
    simulation = simulate(4, spread=0.8)
    y_proba_val, y_val = simulation.draw(np.array([0.4, 0.3, 0.2, 0.1]), 200, rng)
    y_proba, _ = simulation.draw(np.array(target), 150, rng)
    guess = np.array([0.4, 0.3, 0.2, 0.1])
    est = GLS(shrinkage=shrinkage).fit(y_proba_val, y_val, source_label_priors=guess)
    shift = est.estimate(y_proba)
    variance = 1 / shrinkage if shrinkage else np.inf
    expected = gls_by_cvxpy(y_proba_val, y_val, y_proba, guess, variance)
    np.testing.assert_allclose(shift.priors, expected, atol=1e-4)
    assert shift.status == "certified"


def test_gls_without_shrinkage_is_scm_inside_the_simplex(data):
    y_proba_val, y_val, y_proba, *_ = data
    inverted = ps.SCM().fit(y_proba_val, y_val).estimate(y_proba)
    assert inverted.raw.min() > 0
    shift = GLS(shrinkage=0).fit(y_proba_val, y_val).estimate(y_proba)
    np.testing.assert_allclose(shift.priors, inverted.priors, atol=1e-5)


def test_the_variance_is_the_likeliest(rng):
    """Against the density of the moments themselves, written with SciPy."""
    from scipy.stats import multivariate_normal

    K, guess = 5, np.full(5, 0.2)
    C = 0.6 * np.eye(K) + 0.08
    factor = rng.normal(size=(K, K)) - 0.0
    factor -= factor.mean(axis=0)
    Sigma = 1e-4 * factor @ factor.T
    q = C @ np.array([0.4, 0.3, 0.1, 0.1, 0.1])
    found = evident_variance(C, q, Sigma, guess, guess)
    D = np.diag(guess) - np.outer(guess, guess)

    def density(variance):
        total = (Sigma + variance * C @ D @ C.T)[:-1, :-1]
        return multivariate_normal(np.zeros(K - 1), total).logpdf((q - C @ guess)[:-1])

    grid = np.logspace(-6, 2, 2000)
    best = grid[np.argmax([density(variance) for variance in grid])]
    assert found == pytest.approx(best, rel=0.15)
    assert evident_variance(C, C @ guess, Sigma, guess, guess) == 0


def test_no_evidence_of_shift_returns_the_source_priors(simulate, rng):
    simulation = simulate(6, spread=1.0)
    source = simulation.source_priors
    errors = {"gls": [], "scm-l": []}
    for _ in range(10):
        y_proba_val, y_val = simulation.draw(source, 300, rng)
        y_proba, _ = simulation.draw(source, 300, rng)
        for est in (GLS(), ps.SCML()):
            found = est.fit(y_proba_val, y_val, source_label_priors=source).estimate(y_proba)
            errors[est.name].append(np.abs(found.priors - source).sum())
    assert np.mean(errors["gls"]) < 0.5 * np.mean(errors["scm-l"])
    assert min(errors["gls"]) < 1e-12  # variance 0: exactly the source priors
    exact = shrunk_least_squares(
        np.eye(2), np.ones(2) / 2, np.eye(2), source[:2], source[:2], 0, tol=1
    )
    assert exact.status == "direct"


def test_gls_without_evidence_leaves_predictions_alone(data, target_priors):
    """Also where mean predictions and labels of the source differ."""
    y_proba_val, y_val, *_ = data
    labels = np.bincount(y_val) / y_val.size
    est = GLS().fit(y_proba_val, y_val, source_label_priors=labels, source_priors=target_priors)
    shift = est.estimate(y_proba_val)
    np.testing.assert_array_equal(shift.priors, labels)
    assert np.abs(shift.ratio - 1).max() > 0.5
    assert shift.strength == 0
    np.testing.assert_allclose(shift.adapt(y_proba_val), y_proba_val)


def test_gls_where_classes_of_the_target_are_missing_and_outputs_sure(simulate, rng):
    """Nothing varies in their moments, which must not weigh without bound."""
    simulation = simulate(60, spread=4.0)
    y_proba_val, y_val = simulation.draw(np.full(60, 1 / 60), 1800, rng)
    target = np.repeat([1 / 20, 0.0], [20, 40])
    y_proba, _ = simulation.draw(target, 3000, rng)
    shift = GLS().fit(y_proba_val, y_val, source_priors=simulation.source_priors).estimate(y_proba)
    assert shift.status == "certified"
    assert np.abs(shift.priors - target).sum() < 0.15


def test_gls_where_a_class_has_one_sample(data):
    y_proba_val, y_val, y_proba, *_ = data
    once = np.flatnonzero(y_val == 2)[:1]
    rows = np.concatenate([np.flatnonzero(y_val != 2), once])
    shift = GLS().fit(y_proba_val[rows], y_val[rows], classes=range(4)).estimate(y_proba)
    assert shift.status in ("certified", "direct")
    assert np.isfinite(shift.priors).all()
