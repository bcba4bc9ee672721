"""EM, MAP, CM-L, SCM-L, CM-M, SCM-M: the maximum, its certificate, and the paper's solvers."""

import numpy as np
import pytest
from scipy.optimize import minimize

import priorshift as ps

pytestmark = pytest.mark.filterwarnings("ignore:.*validation was never taken for")

METHODS = ["em", "map", "cm-l", "scm-l", "cm-m", "scm-m"]


def log_posterior(p, A, weights, alpha):
    with np.errstate(divide="ignore", invalid="ignore"):
        prior = (alpha - 1) * np.log(p).sum() if alpha != 1 else 0.0
        return weights @ np.log(A @ p) + prior


def data_of(name, y_proba_val, y_val, y_proba, source):
    """Build the rows and weights of a method as METHODS.md's table says, with plain loops."""
    K = source.size
    if name in ("em", "map"):
        return y_proba / source, np.ones(len(y_proba)), 1.0 if name == "em" else 3.0
    decide = (lambda P: P) if name.startswith("s") else (lambda P: np.eye(K)[P.argmax(axis=1)])
    A = np.column_stack([decide(y_proba_val)[y_val == k].mean(axis=0) for k in range(K)])
    weights = decide(y_proba).sum(axis=0)
    possible = A.sum(axis=1) > 0
    return A[possible], weights[possible], 1.0 if name.endswith("l") else 3.0


def slsqp(A, weights, alpha):
    """Maximise by SciPy, from the uniform distribution."""
    K = A.shape[1]
    T = weights.sum()

    def negative(p):
        gradient = A.T @ (weights / (A @ p)) + (alpha - 1) / p
        return -log_posterior(p, A, weights, alpha) / T, -gradient / T

    result = minimize(
        negative,
        np.full(K, 1 / K),
        jac=True,
        method="SLSQP",
        bounds=[(1e-12, 1)] * K,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": lambda p: np.ones(K)},
        options={"maxiter": 500, "ftol": 1e-14},
    )
    p = np.maximum(result.x, 1e-12)
    return p / p.sum()


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("K", "spread"), [(2, 2.0), (10, 0.4), (40, 2.0)])
def test_certified_maximum_is_at_least_scipys(simulate, rng, name, K, spread):
    simulation = simulate(K, spread=spread)
    y_proba_val, y_val = simulation.draw(np.full(K, 1 / K), 40 * K, rng)
    y_proba, _ = simulation.draw(rng.dirichlet(np.full(K, 0.5)), 1000, rng)
    source = simulation.source_priors
    shift = ps.get_estimator(name).fit(y_proba_val, y_val, source_priors=source).estimate(y_proba)
    A, weights, alpha = data_of(name, y_proba_val, y_val, y_proba, source)
    tol = ps.get_estimator(name).tol
    ours = log_posterior(shift.priors, A, weights, alpha)
    assert shift.status == "certified"
    assert 0 <= shift.gap <= tol
    assert ours >= log_posterior(slsqp(A, weights, alpha), A, weights, alpha) - tol
    assert shift.objective == pytest.approx(ours, abs=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_paper_solver_reports_its_true_gap_without_a_warning(simulate, rng, name):
    simulation = simulate(8)
    y_proba_val, y_val = simulation.draw(np.full(8, 1 / 8), 400, rng)
    y_proba, _ = simulation.draw(rng.dirichlet(np.full(8, 0.5)), 800, rng)
    source = simulation.source_priors
    fit = {"source_priors": source}
    paper = ps.get_estimator(name, solver="paper").fit(y_proba_val, y_val, **fit).estimate(y_proba)
    best = ps.get_estimator(name, tol=1e-9).fit(y_proba_val, y_val, **fit).estimate(y_proba)
    A, weights, alpha = data_of(name, y_proba_val, y_val, y_proba, source)
    gradient = A.T @ (weights / (A @ paper.priors)) + (alpha - 1) / paper.priors
    assert paper.gap == pytest.approx(gradient.max() - paper.priors @ gradient, rel=1e-6, abs=1e-9)
    assert best.objective - paper.objective <= paper.gap + 1e-9
    assert best.objective >= paper.objective - 1e-9
    assert (paper.status == "certified") == (paper.gap <= ps.get_estimator(name).tol)


def test_gradient_ascent_and_em_reach_similar_likelihoods(simulate, rng):
    simulation = simulate(5)
    y_proba, _ = simulation.draw(rng.dirichlet(np.ones(5)), 2000, rng)
    values = {
        solver: ps.EM(solver=solver).fit(source_priors=simulation.source_priors).estimate(y_proba)
        for solver in ("certified", "paper", "gradient")
    }
    assert values["certified"].objective >= values["paper"].objective - 0.01
    assert values["certified"].objective >= values["gradient"].objective - 0.01
    np.testing.assert_allclose(values["gradient"].priors, values["paper"].priors, atol=0.05)


def test_sparse_hyperprior_is_stationary_and_sparser(simulate, rng):
    simulation = simulate(10, spread=0.6)
    y_proba, _ = simulation.draw(np.eye(10)[0] * 0.9 + 0.01, 300, rng)
    em = ps.EM(tol=1e-6).fit(source_priors=simulation.source_priors).estimate(y_proba)
    sparse = ps.MAP(alpha=0.2).fit(source_priors=simulation.source_priors).estimate(y_proba)
    assert sparse.status == "stationary"
    assert sparse.gap is None
    assert np.count_nonzero(sparse.priors > 1e-6) < np.count_nonzero(em.priors > 1e-6)


def test_vector_hyperprior_pulls_its_class(simulate, rng):
    simulation = simulate(4)
    y_proba, _ = simulation.draw(np.full(4, 0.25), 50, rng)
    estimator = ps.MAP(alpha=[100.0, 1, 1, 1]).fit(source_priors=simulation.source_priors)
    flat = ps.MAP(alpha=1.0).fit(source_priors=simulation.source_priors)
    assert estimator.estimate(y_proba).priors[0] > flat.estimate(y_proba).priors[0] + 0.2


def test_too_few_passes_warn_and_say_so(simulate, rng):
    simulation = simulate(30, spread=0.3)
    y_proba, _ = simulation.draw(rng.dirichlet(np.ones(30)), 5000, rng)
    em = ps.EM(max_iter=3).fit(source_priors=simulation.source_priors)
    with pytest.warns(ps.ConvergenceWarning, match="raise max_iter"):
        shift = em.estimate(y_proba)
    assert shift.status == "not_converged"
    assert shift.gap > 0.01


def test_decisions_never_seen_on_validation_are_reported():
    y_proba_val = np.eye(3)[[0, 1, 0, 1]]  # nothing was ever taken for class 2
    cml = ps.CML().fit(
        y_proba_val, [0, 1, 2, 1], classes=[0, 1, 2], source_priors=np.full(3, 1 / 3)
    )
    with pytest.warns(ps.PriorShiftWarning, match="25.00% of the target's decisions"):
        shift = cml.estimate(np.eye(3)[[0, 0, 1, 2]])
    assert shift.status == "certified"
    with pytest.raises(ValueError, match="larger validation set"):
        cml.estimate(np.eye(3)[[2, 2]])


@pytest.mark.parametrize("n", [1, 3, 200])
@pytest.mark.parametrize("kind", [ps.MAP, ps.CMM])
def test_the_papers_ascent_takes_alpha_below_1(kind, n, rng):
    y_val = np.arange(60) % 4
    y_proba_val = 0.4 * np.eye(4)[y_val] + 0.6 * rng.dirichlet(np.ones(4), 60)
    est = kind(alpha=0.5, solver="paper").fit(y_proba_val, y_val)
    shift = est.estimate(rng.dirichlet(np.ones(4), n))
    assert shift.priors.sum() == pytest.approx(1)
    assert (shift.priors >= 0).all()
    assert (shift.status, shift.gap) == ("not_converged", None)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [ps.EM, ps.MAP])
def test_tiny_source_priors_are_no_matter_for_numpy(kind, dtype):
    """NumPy's warnings are errors here. In float32, squares of 1e-29 are 0."""
    rng = np.random.default_rng(0)
    K = 100
    y_proba = rng.dirichlet(np.full(K, 0.3), 6000).astype(dtype)
    y_proba /= y_proba.sum(axis=1, keepdims=True)
    source = 10.0 ** -rng.uniform(0, 29, K)
    shift = kind().fit(source_priors=source / source.sum()).estimate(y_proba)
    assert shift.status == "certified"
    assert shift.priors.sum() == pytest.approx(1)
    rows = y_proba.astype(np.float64) / shift.source_priors
    excess = getattr(kind(), "alpha", 1.0) - 1
    gradient = (rows / (rows @ shift.priors)[:, None]).sum(axis=0)
    gradient += np.divide(excess, shift.priors, out=np.zeros(K), where=shift.priors > 0)
    assert gradient.max() - 6000 - K * excess <= 0.011


@pytest.mark.parametrize("level", [None, 0.95])
@pytest.mark.parametrize("source", [[1e-25, 0.5, 0.5], [1e-29, 1e-20, 1.0]])
def test_tiny_source_priors_have_intervals(source, level):
    em = ps.EM().fit(source_priors=np.array(source) / np.sum(source))
    shift = em.estimate(np.tile([[0.2, 0.3, 0.5], [0.1, 0.2, 0.7]], (20, 1)), level)
    np.testing.assert_allclose(shift.priors, [1, 0, 0], atol=1e-9)
    if level:
        assert shift.interval[0, 0] > 0.8


def test_a_hyper_prior_below_1_takes_rows_that_are_next_to_certain():
    y_proba = np.full((8, 10), 5e-324)
    y_proba[:, -1] = 1.0
    found = ps.MAP(alpha=0.5).fit(source_priors=np.full(10, 0.1)).estimate(y_proba)
    assert found.status == "stationary"
    np.testing.assert_allclose(found.priors, np.eye(10)[-1], atol=1e-12)
