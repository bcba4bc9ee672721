"""The mixture problem's value, derivatives and certificate, against plain formulas."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.sparse import csr_array

from priorshift.border import ArrayTable, SparseTable, threads
from priorshift.solvers import Mixture, Solution, _mixture, maximise
from priorshift.solvers._mixture import Mixtures, factorise


def draw(rng, n=60, K=5):
    """Rows with zeros, weights with zeros, and a scale of each column."""
    A = rng.dirichlet(np.ones(K), n) * (rng.random((n, K)) < 0.8)
    A[:, 0] += 0.01
    weights = rng.integers(0, 4, n).astype(float)
    return A, weights, rng.uniform(0.5, 20, K), rng.dirichlet(np.ones(K))


def evaluate(problem, p, *, exact=True):
    point = problem.at(p, exact=exact)
    return point.objective, point.gradient


@pytest.mark.parametrize("weighted", [False, True])
def test_value_and_gradient_are_the_formulas(zoo, naive, rng, alpha, weighted):
    A, weights, scale, p = draw(rng)
    alpha = zoo.hyperprior(alpha, p.size, rng)
    plain = naive(A * scale, weights if weighted else 1.0, alpha)
    problem = Mixture(A, scale=scale, weights=weights if weighted else None, alpha=alpha)
    value, gradient = evaluate(problem, p)
    assert value == pytest.approx(plain.objective(p), rel=1e-13)
    np.testing.assert_allclose(gradient, plain.gradient(p), rtol=1e-13)
    assert problem.total == pytest.approx(plain.total, rel=1e-14)
    assert problem.at(p).gap == pytest.approx(plain.gap(p), rel=1e-12)
    numeric = approx_fprime(p, lambda x: evaluate(problem, x)[0], 1e-7)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-3)


def test_scale_multiplies_columns(rng):
    A, weights, scale, p = draw(rng)
    scaled, multiplied = (
        Mixture(A, scale=scale, weights=weights),
        Mixture(A * scale, weights=weights),
    )
    for mine, theirs in zip(evaluate(scaled, p), evaluate(multiplied, p), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-13)
    np.testing.assert_allclose(scaled.hessian(p, 60), multiplied.hessian(p, 60), rtol=1e-12)


def test_rows_without_weight_take_no_part(rng):
    A, weights, _, p = draw(rng)
    kept = weights > 0
    assert 0 < kept.sum() < kept.size
    whole, part = Mixture(A, weights=weights), Mixture(A[kept], weights=weights[kept])
    assert whole.A.shape == part.A.shape
    assert evaluate(whole, p)[0] == evaluate(part, p)[0]
    assert whole.impossible == 0


@pytest.mark.parametrize("weighted", [False, True])
def test_impossible_rows_are_counted_and_left_out(rng, weighted):
    A, weights, scale, p = draw(rng)
    weights += 1
    A[:3] = 0
    A[3] = np.eye(p.size)[1]
    scale[1] = 0  # row 3 has mass only where the scale is 0
    problem = Mixture(A, scale=scale, weights=weights if weighted else None)
    assert problem.impossible == (weights[:4].sum() if weighted else 4)
    assert problem.A.shape[0] == A.shape[0] - 4
    assert problem.total == (weights[4:].sum() if weighted else A.shape[0] - 4)
    assert np.isfinite(evaluate(problem, p)[0])


def test_a_row_that_p_rules_out_makes_the_value_minus_infinity():
    problem = Mixture(np.eye(3)[[0, 1, 1, 2]])
    point = problem.at(np.array([0.5, 0.5, 0.0]))
    assert point.objective == -np.inf
    assert point.gap == np.inf


def test_a_class_without_hyperprior_may_be_at_zero():
    problem = Mixture(np.array([[0.5, 0.5], [0.9, 0.1]]), alpha=np.array([3.0, 1.0]))
    value, gradient = evaluate(problem, np.array([1.0, 0.0]))
    assert value == pytest.approx(np.log(0.5) + np.log(0.9))
    np.testing.assert_allclose(gradient, [4.0, 1 + 1 / 9])


@pytest.mark.parametrize("serial", [True, False], ids=["serial", "threads"])
def test_float32_rows_are_summed_in_float64(monkeypatch, rng, serial):
    monkeypatch.setattr(threads, "SERIAL_WORK", np.inf if serial else 0)
    A = rng.dirichlet(np.ones(3), 50_000).astype(np.float32)
    p = rng.dirichlet(np.ones(3))
    single, double = Mixture(A), Mixture(A.astype(np.float64))
    for mine, theirs in zip(evaluate(single, p), evaluate(double, p), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    for mine, theirs in zip(evaluate(single, p, exact=False), evaluate(double, p), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3)


# The Hessian


@pytest.mark.parametrize("weighted", [False, True])
def test_hessian_is_the_derivative_of_the_gradient(rng, weighted):
    A, weights, scale, p = draw(rng)
    problem = Mixture(A, scale=scale, weights=weights if weighted else None)
    numeric = approx_fprime(p, lambda x: -problem.evaluate(x)[1], 1e-7)
    np.testing.assert_allclose(problem.hessian(p, A.shape[0]), numeric, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sample_of_rows_is_enough_for_the_hessian(rng, dtype):
    """Also when a class is rare or a row heavy: a plain sample would lose them."""
    n, K = 20_000, 6
    A = rng.dirichlet(np.full(K, 0.3), n)
    A[:-20, -1] = 1e-6
    A[-20:, -1] = 5
    A, p = A.astype(dtype), np.append(np.full(K - 1, 0.2 * (1 - 1e-3)), 1e-3)
    weights = np.where(np.arange(n) < 20, 100.0, rng.uniform(0.5, 2, n))
    problem = Mixture(A, weights=weights)
    metric = np.sqrt(np.outer(p, p)) / problem.total
    full = problem.hessian(p, n) * metric
    errors = [
        np.linalg.norm(problem.hessian(p, n_rows) * metric - full, 2) / np.linalg.norm(full, 2)
        for n_rows in (1000, 8000)
    ]
    assert errors[0] < 0.1
    assert errors[1] < 0.03
    np.testing.assert_array_equal(problem.hessian(p, 1000), problem.hessian(p, 1000))


# The certificate


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 1.001, 3.0]))
def test_no_point_is_better_than_the_certificate_allows(seed, alpha):
    rng = np.random.default_rng(seed)
    n, K = rng.integers(1, 12), rng.integers(2, 7)
    A = rng.random((n, K)) * (rng.random((n, K)) < 0.7) + 1e-3
    problem = Mixture(A, weights=rng.gamma(0.3, 1, n) + 1e-6, alpha=alpha)
    p, *others = rng.dirichlet(np.full(K, rng.choice([0.3, 1, 10])), 30) + 1e-9
    p /= p.sum()
    point = problem.at(p)
    value, gap = point.objective, point.gap
    assert gap >= -1e-12 * problem.total
    for other in [*others, *np.eye(K)]:
        assert evaluate(problem, other / other.sum())[0] - value <= gap + 1e-9


def test_a_gap_without_a_bound_is_none():
    judged = Solution.judged(np.full(2, 0.5), np.inf, 1e-6, 3, 0.0)
    assert judged.status == "not_converged"
    assert judged.gap is None


def test_without_any_row_the_start_or_the_hyper_prior_is_the_answer():
    nothing, start = np.zeros((3, 2)), np.array([0.3, 0.7])
    plain = maximise(Mixture(nothing), tol=1e-6, start=start)
    assert plain.status == "direct"
    np.testing.assert_allclose(plain.value, start)
    pulled = maximise(Mixture(nothing, alpha=np.array([2.0, 4.0])), tol=1e-6, start=start)
    np.testing.assert_allclose(pulled.value, [0.25, 0.75])


def test_rows_whose_likelihood_would_underflow_are_as_good_as_0():
    A = np.array([[0.9, 0.1], [0.2, 0.8], [5e-324, 5e-324]])
    problem = Mixture(A, weights=np.array([3.0, 1.0, 2.0]))
    assert problem.impossible == 2
    assert maximise(problem, tol=1e-6).status == "certified"


def test_a_hessian_has_no_nan_from_classes_that_are_hidden():
    """A row's large probability of a class of scale 0 counts for nothing."""
    A = np.array([[1e-159, 1.0, 0.0], [0.5, 0.2, 0.3]])
    problem = Mixture(A, scale=np.array([2.0, 0.0, 1.0]))
    p = np.array([0.5, 0.2, 0.3])
    scaled = A * problem.scale
    expected = (scaled / (scaled @ p)[:, None]).T @ (scaled / (scaled @ p)[:, None])
    np.testing.assert_allclose(problem.hessian(p), expected)


def test_a_hessian_in_float32_holds_rows_whose_likelihood_float32_cannot_divide_by():
    A = np.array([[1e-41, 1.0], [0.5, 0.5], [1e-22, 1.0]], np.float32)
    p, scale = np.array([0.3, 0.7]), np.array([1.0, 0.0])
    found = Mixture(A, scale=scale).hessian(p)
    np.testing.assert_allclose(found, [[3 / 0.3**2, 0.0], [0.0, 0.0]], rtol=1e-6)


def test_an_infinite_entry_of_a_hessian_leaves_a_step():
    """A row that is next to impossible overflows; the step is then that of the diagonal alone."""
    step = factorise(np.array([[np.inf, 1.0], [1.0, 2.0]]), np.ones(2))(np.ones(2))
    np.testing.assert_allclose(step, [0, 1 / 3])


@pytest.mark.parametrize("shared", [True, False])
def test_rows_next_to_impossible_warn_of_nothing(shared):
    """A mixture that underflows has no finite Hessian, which no gap certifies."""
    A = np.array([[1e-200, 0.0], [0.5, 0.5]])
    many = Mixtures(A if shared else A[None], np.ones((1, 2)))
    _, slope = many.evaluate(np.array([[1e-200, 1.0]]))
    assert not np.isfinite(many.hessian(np.array([[1e-200, 1.0]]))).all()
    assert slope.shape == (1, 2)


def hidden_problem(rng, kind):
    """Return a problem with rows that are impossible at its scale, in a table, and the array's."""
    A, scale, p = rng.dirichlet(np.ones(4), 80), np.array([2.0, 0.0, 1.0, 0.5]), np.full(4, 0.25)
    A[::7] = [0.0, 1.0, 0.0, 0.0]
    table = SparseTable(csr_array(A)) if kind == "sparse" else ArrayTable(A)
    return Mixture(table, scale=scale), Mixture(A, scale=scale), p


@pytest.mark.parametrize("kind", ["sparse", "array"])
def test_impossible_rows_of_a_table_count_for_nothing(kind, rng):
    table, array, p = hidden_problem(rng, kind)
    assert table.impossible == array.impossible == 12
    assert table.total == array.total == 68
    for one, other in zip(table.at(p), array.at(p), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    np.testing.assert_allclose(table.hessian(p), array.hessian(p), rtol=1e-12)
    slope = array.at(p).slope
    if kind == "sparse":
        rows = table.hessian_rows(p, table.A.shape[0], slope).toarray()
        np.testing.assert_allclose(rows.T @ rows, array.hessian(p), rtol=1e-12)


@pytest.mark.parametrize("kind", ["sparse", "array"])
def test_a_sample_of_a_tables_rows_is_that_of_an_array(kind, rng):
    table, array, p = hidden_problem(rng, kind)
    slope = array.at(p).slope
    whole = array.hessian(p)
    sampled = table.hessian(p, 40, slope)
    assert np.abs(sampled - whole).max() < 0.3 * whole.max()
    assert not np.array_equal(sampled, whole)
    np.testing.assert_allclose(table.hessian(p, 40), sampled)
    np.testing.assert_array_equal(table.hessian(p, 80, slope), table.hessian(p))


def test_a_start_on_the_boundary_is_moved_inside(passes):
    """A class at 0 could never come back; elsewhere the start is the first point."""
    problem = Mixture(np.array([[0.2, 0.8], [0.5, 0.5]]))
    for start, first in (([1.0, 0.0], [1 / 1.0005, 5e-4 / 1.0005]), ([0.25, 0.75], [0.25, 0.75])):
        passes.clear()
        maximise(problem, tol=1e-6, start=np.array(start))
        np.testing.assert_allclose(passes[0][1], first)


def test_blocks_are_small_beside_data_but_a_square_matrix_is_one():
    usual, large = _mixture.USUAL_BLOCK_BYTES, _mixture.LARGEST_BLOCK_BYTES
    assert Mixture(np.ones((700, 350))).block_bytes == large
    assert Mixture(np.ones((13, 6))).block_bytes == large  # it is small itself

    def of_bytes(size):
        A = np.broadcast_to(np.float32(1), (size // 64, 8))  # a view
        return Mixture(A).block_bytes

    assert [of_bytes(usual), of_bytes(3 * usual)] == [large, usual // 4]
    assert [of_bytes(12 * usual), of_bytes(16 * usual)] == [usual, usual]
    assert of_bytes(4 * large) == large // 8


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_solving_takes_a_quarter_of_the_data(rng, dtype):
    A = rng.dirichlet(np.full(10, 0.3), 10_000).astype(dtype)
    maximise(Mixture(A), tol=0.01)  # what is imported late is not counted
    tracemalloc.start()
    maximise(Mixture(A), tol=0.01)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most <= A.nbytes / 4


def test_multiples_of_the_golden_ratio_fill_the_unit_interval():
    ratio = _mixture.GOLDEN_RATIO
    assert ratio == pytest.approx(1 / (1 + ratio))
