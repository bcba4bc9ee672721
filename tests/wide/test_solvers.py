"""The mixture problem and linear systems of very many classes, against dense solvers."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import priorshift as ps
from priorshift.execution import SparseBlock, SparseTable
from priorshift.solvers import Mixture, _certified, _matrix_free, maximise
from priorshift.solvers import _linear as linear
from priorshift.solvers._certified import leap, matrix_free
from priorshift.solvers._matrix_free import conjugate_gradients


def problem_of(rng, n=600, K=30, alpha=1.0, weights=None, base=True, dtype=np.float64):
    """Return the same problem sparse and dense."""
    dense = rng.random((n, K)) * (rng.random((n, K)) < 0.15)
    dense[np.arange(n), rng.integers(0, K, n)] += 1
    spread = rng.random(n) * 0.02 if base else None
    block = SparseBlock(csr_array(dense.astype(dtype)), spread)
    scale = 0.5 + rng.random(K)
    full = block.toarray()
    A = block if weights is not None else SparseTable(block)
    one = Mixture.of(A, scale=scale, alpha=alpha, weights=weights)
    return one, Mixture.of(full, scale=scale, alpha=alpha, weights=weights)


@pytest.mark.parametrize("alpha", [1.0, 3.0])
@pytest.mark.parametrize("base", [True, False])
@pytest.mark.parametrize("sampled", [True, False])
def test_matrix_free_steps_end_where_dense_ones_do(alpha, base, sampled, rng, monkeypatch):
    sparse, dense = problem_of(rng, alpha=alpha, base=base)
    if sampled:
        monkeypatch.setattr("priorshift.solvers._mixture.MIN_ROWS", 1)
        monkeypatch.setattr("priorshift.solvers._mixture.ROWS_PER_CLASS", 6)
        monkeypatch.setattr("priorshift.solvers._mixture.FEW_CLASSES", 2)
    start = np.full(30, 1 / 30)
    point, n_iter = matrix_free(sparse, start, 1e-8, 500)
    exact = maximise(dense, tol=1e-10)
    p = point.p / point.p.sum()
    assert point.gap <= 1e-8
    assert n_iter < 100
    assert p == pytest.approx(exact.value, abs=1e-5)
    assert dense.objective(p, dense.evaluate(p)[0]) >= exact.objective - 1e-8


def test_weights_of_rows_count_as_repeated_rows(rng):
    weights = rng.integers(0, 4, 600).astype(float)
    sparse, dense = problem_of(rng, weights=weights)
    assert isinstance(sparse.A, SparseTable)
    assert sparse.A.shape[0] == np.count_nonzero(weights)
    assert sparse.total == dense.total == weights.sum()
    p = rng.dirichlet(np.ones(30))
    for one, other in zip(sparse.evaluate(p), dense.evaluate(p), strict=True):
        assert one == pytest.approx(other, rel=1e-12)


def test_impossible_rows_of_a_sparse_matrix_are_left_out_and_counted():
    rows = SparseBlock(csr_array(np.array([[1.0, 0.0], [0.0, 0.0], [0.5, 0.5]])))
    problem = Mixture.of(rows, weights=np.array([2.0, 3.0, 1.0]))
    assert (problem.impossible, problem.total, problem.A.shape) == (3.0, 3.0, (2, 2))
    likelihood, _ = problem.evaluate(np.array([0.5, 0.5]))
    assert likelihood == pytest.approx(3 * np.log(0.5))


def test_leaps_never_lower_the_likelihood_of_an_em_step(rng):
    sparse, _ = problem_of(rng)
    p = rng.dirichlet(np.full(30, 0.1))
    p = np.maximum(p, 1e-6) / np.maximum(p, 1e-6).sum()
    value, plain = -np.inf, p
    for n_leaps in range(1, 5):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_certified, "LEAPS", n_leaps)
            point, n_iter = leap(sparse, p, 1e-12, 1000)
        assert point.likelihood >= value
        assert 2 * n_leaps + 1 <= n_iter <= 3 * n_leaps + 1
        value = point.likelihood
        for _ in range(2):
            plain = plain * sparse.evaluate(plain)[1] / sparse.total
        assert value >= sparse.evaluate(plain)[0] - 1e-9
    assert point.p.sum() == pytest.approx(1.0)


def test_it_ends_when_told_to_with_a_true_gap(rng, monkeypatch):
    monkeypatch.setattr("priorshift.solvers._certified.MANY_CLASSES", 5)
    sparse, dense = problem_of(rng, dtype=np.float32)
    for max_iter in (1, 2, 5, 14):
        solution = maximise(sparse, tol=1e-12, max_iter=max_iter)
        assert solution.status == "not_converged"
        assert solution.n_iter <= max_iter + 2
        gradient = dense.evaluate(solution.value)[1]
        assert solution.gap == pytest.approx(gradient.max() - dense.total, rel=1e-4, abs=1e-4)


def test_conjugate_gradients_solve_and_stop(rng):
    M = rng.random((20, 20))
    M = M @ M.T + np.eye(20)
    b = rng.standard_normal(20)
    x = conjugate_gradients(lambda v: M @ v, b, accuracy=1e-12)
    assert x == pytest.approx(np.linalg.solve(M, b), abs=1e-9)
    few = conjugate_gradients(lambda v: M @ v, b, accuracy=1e-12, most=2)
    assert np.linalg.norm(M @ few - b) < np.linalg.norm(b)
    assert np.array_equal(conjugate_gradients(lambda v: -v, b), b)  # not definite: straight ahead
    assert np.array_equal(conjugate_gradients(lambda v: v, np.zeros(3)), np.zeros(3))


def test_what_gradients_teach_is_met_exactly(rng):
    operator = _matrix_free.Operator(
        SparseBlock(csr_array(rng.random((9, 4)))), np.ones(4), total=2.0
    )
    v, x = rng.standard_normal(4), rng.standard_normal(4)
    plain = operator @ x
    operator.correct(v, 0.5)
    assert operator @ x == pytest.approx(plain + 0.5 * (v @ x) * v)
    assert operator.diagonal == pytest.approx(1 + 0.5 * v**2)


# Linear systems


def matrix(rng, kind, K=40):
    """Draw a sparse matrix, with a rest of rank one or without."""
    dense = random_array((K, K), density=0.1, rng=rng).toarray() + np.diag(1 + rng.random(K))
    if kind == "singular":
        dense[:, 3] = dense[:, 5]
    if kind == "empty row":
        dense[7] = 0
    block = SparseBlock(csr_array(dense))
    if kind == "spread":
        block = SparseBlock(block.csr, rng.random(K), rng.random(K))
    return block


@pytest.mark.parametrize("kind", ["plain", "spread"])
@pytest.mark.parametrize("full", [False, True])
def test_systems_are_solved_as_dense_ones(kind, full, rng, monkeypatch):
    M = matrix(rng, kind)
    q = rng.random(40)
    if full:
        monkeypatch.setattr(linear, "MOST_SCORES", 0)
    assert linear.solve_sparse(M, q) == pytest.approx(np.linalg.solve(M.toarray(), q), abs=1e-9)
    condition = linear.sparse_condition(M)
    true = np.linalg.cond(M.toarray(), None if full else 1)
    assert (1 if full else 0.3 * true) <= condition <= 1.001 * true


@pytest.mark.parametrize("kind", ["singular", "empty row"])
def test_singular_systems_get_the_solution_of_the_pseudo_inverse(kind, rng):
    M, q = matrix(rng, kind), rng.random(40)
    assert linear.sparse_condition(M) == np.inf
    expected = np.linalg.pinv(M.toarray()) @ q
    assert linear.solve_sparse(M, q) == pytest.approx(expected, abs=1e-7)


def test_systems_that_are_not_square_are_least_squares(rng):
    M, q = matrix(rng, "spread")[:, np.arange(30)], rng.random(40)
    expected = np.linalg.lstsq(M.toarray(), q, rcond=None)[0]
    assert linear.solve_sparse(M, q) == pytest.approx(expected, abs=1e-9)
    assert linear.sparse_condition(M[np.arange(20)]) == np.inf


def test_steps_that_run_out_are_told(rng, monkeypatch):
    monkeypatch.setattr(linear, "MOST_STEPS", 2)
    monkeypatch.setattr(linear, "MOST_SCORES", 0)
    with pytest.warns(ps.ConvergenceWarning, match="not solved after 2 steps"):
        linear.solve_sparse(matrix(rng, "plain"), rng.random(40))


def test_a_singular_confusion_matrix_is_warned_of(rng, monkeypatch):
    from priorshift import statistics
    from priorshift.estimators import base

    for module in (statistics, base):
        monkeypatch.setattr(module, "DENSE_CLASSES", 2)
    rows = csr_array(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]))
    est = ps.CM().fit(rows, [0, 1, 2])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        shift = est.estimate(rows)
    assert any("singular" in str(one.message) for one in caught)
    assert shift.condition_number == np.inf
    assert shift.priors == pytest.approx([1 / 3, 1 / 3, 1 / 3])


@pytest.mark.parametrize("prior", [1e-9, 1e-12, 1e-25])
def test_a_source_prior_that_the_rest_would_drown_is_refused(prior):
    """Class 1 is listed with next to nothing: its share of the rest cancels, times 1 / prior."""
    rng = np.random.default_rng(0)
    ids = np.array([[1, *rng.permutation([0, 2, 3, 4])[:2]] for _ in range(60)])
    scores = rng.dirichlet(np.full(4, 0.2), 60)[:, :3]
    scores[:, 0] *= 1e-12
    best = ps.TopK(ids, scores, 5, rest="spread")
    source = np.array([0.25, prior, 0.25, 0.25, 0.25])
    em = ps.EM().fit(source_priors=source / source.sum())
    if prior < 1e-10:
        with pytest.raises(ValueError, match=r"for class 1 .* loses .* rest='drop'"):
            em.estimate(best)
        assert em.estimate(best.toarray()).status == "certified"
    else:
        np.testing.assert_allclose(
            em.estimate(best).priors, em.estimate(best.toarray()).priors, atol=1e-4
        )


def test_a_rest_that_was_adapted_drowns_larger_source_priors():
    """Its trend has the factor 1 / prior already; to estimate again would square it."""
    listed = csr_array(np.array([[0, 1], [0, 1], [1, 1e-20], [0, 1e-30], [1, 0], [0, 0.5]]))
    em = ps.EM().fit(source_priors=[1 - 1e-9, 1e-9])
    best = ps.TopK.from_csr(listed, rest="spread")
    shift = em.estimate(best)
    adapted = shift.adapt(best)
    with pytest.raises(ValueError, match=r"for class 1 .* loses .* rest='drop'"):
        em.estimate(adapted)
    assert np.isfinite(em.estimate(adapted.toarray()).priors).all()
    mild = ps.EM().fit(source_priors=[0.9, 0.1])
    again = mild.estimate(mild.estimate(best).adapt(best))
    assert again.status == "certified"
