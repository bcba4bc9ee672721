"""The certified solver on a zoo of problems: always certified, and never below another solver."""

import numpy as np
import pytest

from priorshift.border import ArrayTable
from priorshift.solvers import Mixture, _interior_point, _maximise, _mixture, maximise

POSTERIOR_TOL = 0.01
CONFUSION_TOL = 1e-6


def check(solution, plain, tol):
    """Certified, on the simplex, and all it says of itself is true by plain formulas."""
    p = solution.value
    rounding = 1e-13 * plain.total
    assert solution.status == "certified"
    assert 0 <= solution.gap <= tol
    assert p.min() >= 0
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert plain.gap(p) <= tol + rounding
    assert solution.gap == pytest.approx(plain.gap(p), abs=1e-9 * tol + rounding)
    assert solution.objective == pytest.approx(plain.objective(p), rel=1e-12, abs=rounding)


# Confusion-matrix problems


@pytest.fixture
def confusion_problem(zoo, naive):
    """Draw a problem by the names of its parts; `total` rescales its counts."""

    def draw(kind, counts, alpha, K, total=1000.0):
        rng = zoo.seeded(kind, counts, alpha, K)
        C = zoo.confusion(kind, K, rng)
        weights = zoo.counts(counts, C, rng) * (total / 1000)
        return naive(C, weights, zoo.hyperprior(alpha, K, rng))

    return draw


def solve(plain, tol=CONFUSION_TOL, **options):
    problem = Mixture(plain.A, weights=plain.weights, alpha=plain.alpha)
    return maximise(problem, tol=tol, **options)


def test_zoo_is_certified_and_reaches_scipys_maximum(confusion_problem, parts):
    for K in (2, 10):
        plain = confusion_problem(*parts, K)
        solution = solve(plain)
        check(solution, plain, CONFUSION_TOL)
        assert solution.n_iter <= 30
        assert solution.objective >= plain.scipy_maximum() - 1e-6


@pytest.mark.slow
def test_zoo_of_100_classes(confusion_problem, zoo, kind):
    alpha = ("1", "3", "vector")[zoo.number(kind) % 3]
    plain = confusion_problem(kind, "model", alpha, 100)
    solution = solve(plain)
    check(solution, plain, CONFUSION_TOL)
    assert solution.n_iter <= 40
    assert solution.objective >= plain.scipy_maximum(max_iter=50) - 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("K", "kind", "alpha"),
    [
        (250, "singular", "3"),
        (250, "sparse", "1"),
        (250, "flat", "vector"),
        (500, "near-duplicate", "1"),
        (1000, "diagonal", "3"),
    ],
)
def test_many_classes_are_certified_and_reach_scipys_maximum(confusion_problem, K, kind, alpha):
    plain = confusion_problem(kind, "model", alpha, K)
    solution = solve(plain)
    check(solution, plain, CONFUSION_TOL)
    assert solution.n_iter <= 40
    assert solution.objective >= plain.softmax_maximum() - 1e-6


def test_the_papers_example_is_solved_exactly(naive):
    plain = naive(np.array([[0.8, 0.2], [0.2, 0.8]]), np.array([7.0, 0.0]))
    np.testing.assert_array_equal(solve(plain).value, [1.0, 0.0])


def test_tiny_and_huge_totals(confusion_problem, parts):
    for total in (1e-3, 1e7):
        plain = confusion_problem(*parts, 7, total)
        check(solve(plain), plain, CONFUSION_TOL)


def test_a_class_that_alone_explains_a_row_is_not_rounded_to_zero(naive):
    """Although its weight is less than the tolerance could ever notice."""
    plain = naive(np.eye(2), np.array([9.971e-4, 2.9e-6]))
    solution = solve(plain)
    check(solution, plain, CONFUSION_TOL)
    assert np.isfinite(solution.objective)


def test_strong_and_weak_hyperpriors_side_by_side(naive, zoo):
    """Alphas of all sizes, some exactly 1: the corrector alone gets stuck here."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        C = zoo.confusion("flat", 10, rng)
        excess = 10.0 ** rng.uniform(-8, 4, 10) * (rng.random(10) < 0.5)
        plain = naive(C, 1e7 * rng.dirichlet(np.ones(10)), 1 + excess)
        solution = solve(plain)
        check(solution, plain, CONFUSION_TOL)
        assert solution.n_iter <= 40


def test_an_unreachable_tolerance_ends_soon_and_honestly(confusion_problem):
    """Only luck in rounding brings the gap to 0."""
    ends = set()
    for K in range(10, 20):
        plain = confusion_problem("diagonal", "unrelated", "vector", K, total=1e12)
        solution = solve(plain, tol=1e-9)
        assert solution.gap <= 1e-14 * plain.total
        assert solution.status == ("certified" if solution.gap <= 1e-9 else "not_converged")
        assert solution.n_iter <= 100
        ends.add(solution.status)
    assert "not_converged" in ends


# What must change nothing


@pytest.mark.parametrize("alpha", ["1", "vector"])
class TestInvariances:
    K = 8

    @pytest.fixture
    def plain(self, naive, zoo, rng, alpha):
        C = zoo.confusion("diagonal", self.K, rng)
        A = np.vstack([C, C[:3] ** 2])
        return naive(A, rng.uniform(10, 200, 11), zoo.hyperprior(alpha, self.K, rng))

    @staticmethod
    def same(plain, changed, constant=0.0, order=slice(None)):
        one, other = solve(plain, tol=1e-9), solve(changed, tol=1e-9)
        assert other.status == "certified"
        assert other.objective == pytest.approx(one.objective + constant, abs=1e-8)
        np.testing.assert_allclose(other.value, one.value[order], atol=1e-6)

    def test_order_of_classes(self, naive, plain, rng):
        order = rng.permutation(self.K)
        alpha = np.broadcast_to(plain.alpha, self.K)[order]
        self.same(plain, naive(plain.A[:, order], plain.weights, alpha), order=order)

    def test_order_of_rows(self, naive, plain, rng):
        order = rng.permutation(11)
        self.same(plain, naive(plain.A[order], plain.weights[order], plain.alpha))

    @pytest.mark.parametrize("magnitude", [3, 100])
    def test_scale_of_rows(self, naive, plain, rng, magnitude):
        factor = 10.0 ** rng.uniform(-magnitude, magnitude, 11)
        changed = naive(factor[:, None] * plain.A, plain.weights, plain.alpha)
        self.same(plain, changed, constant=plain.weights @ np.log(factor))

    def test_repeated_rows_are_weights(self, naive, plain, rng):
        times = rng.integers(1, 30, 11)
        weighted = naive(plain.A, times.astype(float), plain.alpha)
        ones = np.ones(times.sum())
        self.same(weighted, naive(np.repeat(plain.A, times, axis=0), ones, plain.alpha))

    def test_a_row_in_two_halves(self, naive, plain):
        A, weights = np.vstack([plain.A, plain.A[:1]]), np.append(plain.weights, 0.0)
        weights[[0, -1]] = plain.weights[0] / 2
        self.same(plain, naive(A, weights, plain.alpha))


# Posterior problems


@pytest.fixture
def posterior_problem(simulate, naive):
    """Simulate posteriors of a known dtype; return the problem and its plain form."""

    def draw(K, n, *, spread, target="dirichlet", dtype=np.float64, alpha=1.0, seed=0):
        rng = np.random.default_rng([K, n, seed])
        simulation = simulate(K, spread=spread, dim=8)
        priors = {
            "dirichlet": rng.dirichlet(np.ones(K)),
            "uniform": np.full(K, 1 / K),
            "sparse": rng.dirichlet(np.full(K, 0.1)),
        }[target]
        A = simulation.draw(priors, n, rng)[0].astype(dtype)
        problem = Mixture(A, scale=1 / simulation.source_priors, alpha=alpha)
        return problem, naive(A.astype(np.float64) / simulation.source_priors, 1.0, alpha)

    return draw


@pytest.fixture
def route(monkeypatch):
    """Record the rows of every Hessian, and thereby whether Newton's method ran, and how."""
    rows = []
    original = Mixture.hessian

    def recorded(self, p, n_rows=None, slope=None):
        rows.append(self.A.shape[0] if n_rows is None else n_rows)
        return original(self, p, n_rows, slope)

    monkeypatch.setattr(Mixture, "hessian", recorded)
    return rows


STRENGTHS = pytest.mark.parametrize("spread", [0.3, 2.0], ids=["weak", "strong"])
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@STRENGTHS
@pytest.mark.parametrize(
    ("K", "n", "target", "dtype"),
    [
        (2, 2000, "dirichlet", np.float32),
        (2, 2000, "uniform", np.float64),
        (10, 6000, "uniform", np.float32),
        (10, 6000, "sparse", np.float64),
        (100, 4500, "sparse", np.float32),
        (100, 4500, "dirichlet", np.float64),
    ],
)
def test_posteriors_are_certified_in_double_precision(
    posterior_problem, K, n, target, spread, dtype
):
    problem, plain = posterior_problem(K, n, spread=spread, target=target, dtype=dtype)
    solution = maximise(problem, tol=POSTERIOR_TOL)
    check(solution, plain, POSTERIOR_TOL)
    assert solution.n_iter <= 60
    em = plain.em(np.full(K, 1 / K), 100)
    assert solution.objective >= plain.objective(em) - POSTERIOR_TOL


@pytest.mark.slow
@STRENGTHS
def test_posteriors_of_365_classes(posterior_problem, spread):
    problem, plain = posterior_problem(365, 8000, spread=spread, dtype=np.float32)
    solution = maximise(problem, tol=POSTERIOR_TOL)
    check(solution, plain, POSTERIOR_TOL)
    assert solution.n_iter <= 80
    em = plain.em(np.full(365, 1 / 365), 40)
    assert solution.objective >= plain.objective(em) - POSTERIOR_TOL


@pytest.mark.parametrize(("dtype", "alpha"), [(np.float32, 1.0), (np.float64, 3.0)])
class TestRoutes:
    K, n = 80, 6000

    def solve(self, posterior_problem, dtype, alpha, spread, tol=POSTERIOR_TOL):
        problem, plain = posterior_problem(self.K, self.n, spread=spread, dtype=dtype, alpha=alpha)
        solution = maximise(problem, tol=tol)
        check(solution, plain, tol)
        return solution

    def test_em_alone(self, posterior_problem, route, dtype, alpha):
        self.solve(posterior_problem, dtype, alpha, spread=8.0)
        assert route == []

    def test_newton_with_a_sample_of_rows(self, posterior_problem, route, dtype, alpha):
        self.solve(posterior_problem, dtype, alpha, spread=0.5)
        assert route
        assert max(route) < self.n

    def test_newton_with_all_rows(self, monkeypatch, posterior_problem, route, dtype, alpha):
        monkeypatch.setattr(_maximise, "MIN_ROWS", self.n)
        self.solve(posterior_problem, dtype, alpha, spread=0.5)
        assert set(route) == {self.n}

    def test_newton_whose_sample_must_grow(
        self, monkeypatch, posterior_problem, route, dtype, alpha
    ):
        monkeypatch.setattr(_maximise, "MIN_ROWS", 10)
        monkeypatch.setattr(_maximise, "ROWS_PER_CLASS", 0.25)
        self.solve(posterior_problem, dtype, alpha, spread=0.5, tol=1e-4)
        assert route[0] == self.K // 4
        assert max(route) >= 2 * route[0]

    def test_single_precision_that_makes_no_progress(
        self, monkeypatch, posterior_problem, dtype, alpha
    ):
        """Double precision must take over although the gap never looks small."""
        original = Mixture.evaluate

        def noisy(self, p, *, exact=True):
            likelihood, gradient = original(self, p, exact=exact)
            return likelihood, gradient if exact else gradient * (1 + 1e-3 * np.sin(1e9 * p))

        monkeypatch.setattr(Mixture, "evaluate", noisy)
        assert self.solve(posterior_problem, dtype, alpha, spread=0.5).n_iter <= 100


@DTYPES
@STRENGTHS
@pytest.mark.parametrize("max_iter", [1, 4, 12])
def test_out_of_iterations_the_gap_is_still_true(posterior_problem, max_iter, spread, dtype):
    """In single precision the last gap seen may be wrong by more than the tolerance."""
    for K, n in ((3, 5000), (80, 5000)):
        problem, plain = posterior_problem(K, n, spread=spread, dtype=dtype)
        for tol in (0.01, 1e-9):
            solution = maximise(problem, tol=tol, max_iter=max_iter)
            assert solution.gap == pytest.approx(max(plain.gap(solution.value), 0), abs=1e-8)
            assert solution.status == ("certified" if solution.gap <= tol else "not_converged")
            assert solution.n_iter <= max_iter + _interior_point.MAX_TRIES + 1


@pytest.mark.parametrize(("K", "n"), [(5, 300), (80, 5000)])
def test_any_start_will_do(posterior_problem, K, n):
    """A class that starts at 0 must be able to come back."""
    problem, plain = posterior_problem(K, n, spread=2.0)
    rng = np.random.default_rng(0)
    best = maximise(problem, tol=1e-6).objective
    for start in (np.eye(K)[0], np.repeat([0.0, 1.0], [K - 2, 2]) / 2, rng.dirichlet(np.ones(K))):
        for alpha in (1.0, 3.0):
            changed = Mixture(problem.A, scale=problem.scale, alpha=alpha)
            solution = maximise(changed, tol=POSTERIOR_TOL, start=start)
            check(solution, type(plain)(plain.A, 1.0, alpha), POSTERIOR_TOL)
            assert alpha != 1 or solution.objective >= best - POSTERIOR_TOL


def corner(name, n, K, rng):
    """Posteriors at the edge of what is possible."""
    A = rng.dirichlet(np.ones(K), n)
    if name == "one-hot":
        return np.eye(K)[rng.integers(0, K, n)]
    if name == "one-hot, half of the classes":
        return np.eye(K)[rng.integers(0, K // 2, n)]
    if name == "some one-hot":
        return np.where(rng.random((n, 1)) < 0.5, np.eye(K)[rng.integers(0, K, n)], A)
    if name == "columns of zeros":
        A[:, K // 2 :] = 0
    if name == "conflicting rows":
        return np.eye(K)[np.arange(n) % 2]
    if name == "overconfident":
        A = np.exp(60 * (np.log(A) - np.log(A.max(axis=1, keepdims=True)))) + 1e-30
    if name == "uninformative":
        return np.full((n, K), 1 / K)
    if name == "one rare row":
        A = 1e-9 * A
        A[:, 0] = 1
        A[0] = np.eye(K)[-1]
    return A / A.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("K", "n", "dtype"),
    [(2, 1, np.float64), (2, 300, np.float32), (50, 3, np.float32), (80, 5000, np.float64)],
)
@pytest.mark.parametrize(
    "name",
    [
        "one-hot",
        "one-hot, half of the classes",
        "some one-hot",
        "columns of zeros",
        "conflicting rows",
        "overconfident",
        "uninformative",
        "one rare row",
    ],
)
def test_corners_are_certified(naive, rng, name, K, n, dtype):
    A = corner(name, n, K, rng).astype(dtype)
    scales = [np.ones(K), np.append(np.ones(K - 1), 1e8), 10.0 ** rng.uniform(0, 12, K)]
    for scale in scales:  # source priors of nearly 0
        for alpha in (1.0, 3.0):
            solution = maximise(Mixture(A, scale=scale, alpha=alpha), tol=POSTERIOR_TOL)
            check(solution, naive(A.astype(np.float64) * scale, 1.0, alpha), POSTERIOR_TOL)
            assert solution.n_iter <= 60


# alpha < 1


@pytest.mark.parametrize("alpha", [0.95, 0.5, "mixed"])
def test_sparse_hyperpriors_end_at_a_fixed_point(naive, zoo, rng, alpha):
    alpha = rng.uniform(0.2, 2, 6) if alpha == "mixed" else alpha
    C = zoo.confusion("diagonal", 6, rng)
    weights = 300 * (C @ np.array([0.5, 0.3, 0.2, 0, 0, 0])) + rng.uniform(0, 0.5, 6)
    solution = maximise(Mixture(C, weights=weights, alpha=alpha), tol=1e-6, max_iter=20_000)
    assert solution.status == "stationary"
    assert solution.gap is None
    p, used = solution.value, solution.value > 0
    assert p.sum() == pytest.approx(1, abs=1e-12)
    counts = p * naive(C, weights).gradient(p) + np.broadcast_to(alpha, 6) - 1
    assert (counts[used] > 0).all()
    np.testing.assert_allclose(counts[used] / counts[used].sum(), p[used], atol=1e-8)


def test_a_sparse_hyperprior_on_few_data_keeps_someone(rng):
    """No class has an expected count of 1 - alpha at first: not all of them may leave."""
    A = rng.dirichlet(np.full(40, 5.0), 10)
    solution = maximise(Mixture(A, alpha=0.3), tol=0.01)
    assert solution.status == "stationary"
    assert solution.value.sum() == pytest.approx(1)
    assert solution.value.min() >= 0


def test_a_row_may_leave_with_the_class_that_explains_it():
    weights = np.array([5.0, 3.0, 0.2])
    solution = maximise(Mixture(np.eye(3), weights=weights, alpha=0.5), tol=1e-6)
    np.testing.assert_allclose(solution.value, [4.5 / 7, 2.5 / 7, 0])
    assert solution.status == "stationary"


def test_a_sparse_hyperprior_may_run_out_of_iterations(rng):
    problem = Mixture(rng.dirichlet(np.ones(4), 50), alpha=0.9)
    solution = maximise(problem, tol=1e-6, max_iter=2)
    assert (solution.status, solution.gap, solution.n_iter) == ("not_converged", None, 2)


def test_newtons_matrix_may_be_singular_up_to_rounding(rng):
    B = rng.standard_normal((2, 30))
    H = B.T @ B  # of rank 2, with eigenvalues slightly below 0
    assert np.linalg.eigvalsh(H).min() < 0
    b = H @ rng.standard_normal(30)
    np.testing.assert_allclose(H @ _mixture.factorise(H, np.zeros(30))(b), b, atol=1e-6)


def test_a_lopsided_start_does_not_lead_in_circles():
    """Mehrotra's corrector alone cycles here, at a gap of 1.1 nats."""
    C = np.array(
        [
            [0.78817003, 0.48680081, 0.43041548, 0.14537755, 0.56478208],
            [0.15679417, 0.48611756, 0.04861193, 0.02616651, 0.33318034],
            [0.04716491, 0.01471798, 0.43926102, 0.16866211, 0.07328054],
            [0.00194344, 0.00431666, 0.07293333, 0.65746745, 0.00526727],
            [0.00592745, 0.00804699, 0.00877823, 0.00232638, 0.02348977],
        ]
    )
    counts = np.array([45.0, 17.0, 42.0, 102.0, 2.0])
    start = np.array([0.6, 0.25, 0.1, 0.04, 0.01])
    solution = maximise(Mixture(C, weights=counts), tol=1e-6, start=start)
    assert solution.status == "certified"


def test_a_matrix_spoilt_by_rounding_leaves_its_diagonal():
    """Off-diagonals beyond any ridge: there is a step all the same, and no failure."""
    H = np.array([[-1.0, 1e40], [1e40, 1.0]])
    solve = _mixture.factorise(H, np.array([2.0, 3.0]))
    np.testing.assert_allclose(solve(np.array([2.0, 4.0])), [1.0, 1.0])


def test_what_hardly_shrinks_allows_a_full_step():
    assert _interior_point.reach(np.ones(2), np.array([-5e-324, 1.0])) == 1.0


@STRENGTHS
@pytest.mark.parametrize(("alpha", "dtype"), [(1.0, np.float32), (3.0, np.float64)])
def test_few_classes_take_few_of_newtons_steps(posterior_problem, route, spread, alpha, dtype):
    """A Hessian costs several passes, and small targets come by the hundred."""
    problem, plain = posterior_problem(20, 1000, spread=spread, dtype=dtype, alpha=alpha)
    solution = maximise(problem, tol=POSTERIOR_TOL)
    check(solution, plain, POSTERIOR_TOL)
    assert len(route) <= 6
    assert solution.n_iter <= 25


@pytest.mark.parametrize("alpha", [1.0, 3.0])
def test_the_interior_point_takes_over_where_newtons_steps_fail(
    monkeypatch, posterior_problem, alpha
):
    monkeypatch.setattr(_maximise, "factorise", lambda H, d: np.zeros_like)  # leads nowhere
    problem, plain = posterior_problem(20, 1000, spread=0.5, alpha=alpha)
    check(maximise(problem, tol=1e-6), plain, 1e-6)


def test_an_old_hessian_is_used_again_where_it_converges(posterior_problem, route, monkeypatch):
    """It certifies the same with fewer of them; with few classes each step has its own."""
    problem, plain = posterior_problem(100, 2000, spread=0.5)
    check(maximise(problem, tol=1e-6), plain, 1e-6)
    kept = len(route)
    monkeypatch.setattr(_maximise, "MOST_KEPT", 0)
    check(maximise(problem, tol=1e-6), plain, 1e-6)
    assert kept < len(route) - kept


# How much it costs: no more passes and Hessians than it took when these were written down


@pytest.mark.parametrize(
    ("K", "n", "spread", "dtype", "alpha", "tol", "n_passes", "n_hessians"),
    [
        (2, 400, 1.0, np.float64, 1.0, 0.01, 7, 1),
        (10, 1000, 0.5, np.float32, 1.0, 0.01, 16, 3),
        (10, 1000, 0.5, np.float64, 3.0, 1e-6, 14, 2),
        (50, 2000, 0.5, np.float64, 1.0, 1e-6, 20, 8),
        (70, 4500, 0.5, np.float32, 1.0, 0.01, 16, 2),
        (70, 4500, 0.5, np.float64, 1.0, 1e-4, 18, 2),
        (70, 4500, 0.5, np.float64, 3.0, 1e-4, 14, 2),
        (70, 4500, 2.0, np.float32, 1.0, 0.01, 15, 1),
        (70, 4500, 3.0, np.float64, 1.0, 0.01, 7, 0),
        (70, 4500, 8.0, np.float32, 1.0, 0.01, 4, 0),
    ],
)
def test_posteriors_take_few_passes(
    posterior_problem, route, passes, K, n, spread, dtype, alpha, tol, n_passes, n_hessians
):
    problem, plain = posterior_problem(K, n, spread=spread, dtype=dtype, alpha=alpha)
    solution = maximise(problem, tol=tol)
    check(solution, plain, tol)
    assert len(passes) <= solution.n_iter <= len(passes) + 1
    assert solution.n_iter <= n_passes + 1
    assert len(route) <= n_hessians + 1
    if dtype == np.float64:
        assert len({p.tobytes() for _, p, _ in passes}) == len(passes)  # no point twice
    else:  # single precision is enough for most of the way
        assert 2 * sum(not exact for *_, exact in passes) >= len(passes)


@pytest.mark.parametrize(("alpha", "dtype"), [(1.0, np.float32), (3.0, np.float64)])
def test_very_many_rows_are_solved_from_a_sample_of_them(
    posterior_problem, passes, route, alpha, dtype
):
    problem, plain = posterior_problem(4, 70_000, spread=0.5, dtype=dtype, alpha=alpha)
    solution = maximise(problem, tol=POSTERIOR_TOL)
    check(solution, plain, POSTERIOR_TOL)
    assert route  # Hessians, but none of all rows
    assert max(route) < 10_000
    assert sum(of is problem for of, *_ in passes) <= 7


def test_a_sample_that_misleads_only_costs_time(posterior_problem, naive, passes):
    """The rows it takes, every eighth, are of one class alone."""
    A = posterior_problem(4, 70_000, spread=0.5)[0].A.copy()
    A[::8] = [0.97, 0.01, 0.01, 0.01]
    problem = Mixture(A)
    solution = maximise(problem, tol=POSTERIOR_TOL)
    check(solution, naive(A, 1.0, 1.0), POSTERIOR_TOL)
    assert sum(of is problem for of, *_ in passes) <= 25


class DearTable(ArrayTable):
    """An array whose passes are counted, as if a cluster made them."""

    dear, n_passes = True, 0

    def map_parts(self, *of):
        self.n_passes += 1
        return super().map_parts(*of)


@pytest.mark.parametrize(
    ("alpha", "dtype", "misleads", "most"),
    [
        (1.0, np.float32, False, 5),
        (3.0, np.float64, False, 5),
        (1.0, np.float64, True, 11),
    ],
)
def test_dear_passes_are_few(posterior_problem, naive, alpha, dtype, misleads, most):
    """One for the sample, three with derivatives, and perhaps one that leaves classes at 0."""
    A = posterior_problem(4, 70_000, spread=0.5, dtype=dtype)[0].A.copy()
    if misleads:
        A[::8] = [0.97, 0.01, 0.01, 0.01]
    scale, table = np.array([1.0, 2.0, 1e8, 0.5]), DearTable(A)
    solution = maximise(Mixture(table, scale=scale, alpha=alpha), tol=1e-4)
    check(solution, naive(A.astype(np.float64) * scale, 1.0, alpha), 1e-4)
    assert table.n_passes <= most


@pytest.mark.parametrize("max_iter", range(1, 12))
def test_out_of_dear_passes_the_gap_is_still_true(posterior_problem, naive, max_iter):
    A = posterior_problem(4, 70_000, spread=0.5)[0].A.copy()
    A[::8] = [0.97, 0.01, 0.01, 0.01]
    solution = maximise(Mixture(DearTable(A)), tol=1e-6, max_iter=max_iter)
    assert solution.n_iter <= max_iter + 2
    assert solution.gap == pytest.approx(naive(A, 1.0, 1.0).gap(solution.value), abs=1e-6)


def test_rows_without_a_class_are_passed_over_where_passes_are_dear(rng, naive):
    A = rng.dirichlet(np.ones(4), 70_000)
    A[::5] = np.eye(4)[2]
    scale, table = np.array([1.0, 2.0, 0.0, 0.5]), DearTable(A)
    solution = maximise(Mixture(table, scale=scale), tol=1e-4, start=np.array([1, 1, 0, 1]) / 3)
    kept = (A * scale)[A[:, 2] < 1]
    check(solution, naive(kept, 1.0, 1.0), 1e-4)
    assert table.n_passes <= 7


def test_a_pass_for_both_derivatives_finds_what_two_find(posterior_problem):
    problem, _ = posterior_problem(4, 3000, spread=0.5, alpha=3.0)
    p = np.full(4, 0.25)
    point, H = problem.curved_at(p)
    for found, expected in zip((*point, H), (*problem.at(p), problem.hessian(p)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_loose_tolerance_leaves_some_class():
    A = np.random.default_rng(17).dirichlet(np.full(20, 5.0), 192)[149:]
    found = maximise(Mixture(A, scale=np.full(20, 20.0)), tol=10.0, start=np.full(20, 0.05))
    assert found.value.sum() == pytest.approx(1)
    assert found.gap <= 10
