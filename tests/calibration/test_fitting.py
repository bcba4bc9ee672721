"""The likelihood, its derivatives and its fits, against finite differences and SciPy."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_softmax

from priorshift.calibration import RIDGE_GRID, fitting
from priorshift.calibration.fitting import (
    Objective,
    Penalty,
    fit_chosen,
    fit_map,
    fit_path,
    fit_temperature,
)
from priorshift.calibration.likelihood import (
    IMPOSSIBLE,
    LabelLikelihood,
    ScoreMap,
    by_fold,
)

K = 4
every_family = pytest.mark.parametrize("family", ["bcts", "vs", "ms"])


def simulate(n=300, n_classes=K, seed=0, n_seen=None):
    rng = np.random.default_rng(seed)
    z = log_softmax(2 * rng.normal(size=(n, n_classes)), axis=1)
    slope = 0.6 * np.eye(n_classes) + 0.1 * rng.normal(size=(n_classes, n_classes))
    y = np.argmax(z @ slope + rng.gumbel(size=z.shape), axis=1) % (n_seen or n_classes)
    return z, y, rng.uniform(0.5, 2, size=n), 0.3 * rng.normal(size=n_classes)


def likelihood_of(z, y, weight, offset, dtype=np.float64):
    return LabelLikelihood(np.ascontiguousarray(z.T, dtype=dtype), y, weight, offset)


def random_map(family, rng, n_classes=K):
    slope = np.full(n_classes, 0.7)
    if family != "bcts":
        slope = slope + 0.2 * rng.normal(size=n_classes)
    if family == "ms":
        slope = np.diag(slope) + 0.1 * rng.normal(size=(n_classes, n_classes))
    return ScoreMap(slope, 0.5 * rng.normal(size=n_classes))


def parameters(family, at):
    """Write the parameters anew: that of one slope is a logarithm."""
    slope = np.log(at.slope[:1]) if family == "bcts" else at.slope.ravel()
    return np.concatenate([slope, at.bias])


def map_of(family, theta, n_classes=K):
    """Write what `parameters` leads back to."""
    slope, bias = theta[:-n_classes], theta[-n_classes:]
    if family == "bcts":
        slope = np.full(n_classes, np.exp(slope[0]))
    return ScoreMap(slope.reshape(-1, n_classes) if family == "ms" else slope, bias)


def nats(at, z, y, weight, offset):
    """Write the likelihood anew, from SciPy's log-softmax."""
    scores = z @ at.slope if at.slope.ndim == 2 else z * at.slope
    return weight @ -log_softmax(scores + at.bias + offset, axis=1)[np.arange(y.size), y]


def penalised(at, data, penalty):
    """Write the objective anew."""
    slope = np.diag(at.slope) if at.slope.ndim == 1 else at.slope
    mean = max(np.trace(slope) / at.bias.size, 1e-6)
    uneven = slope - mean * np.eye(at.bias.size)
    value = penalty.bias * at.bias @ at.bias + penalty.slope * (uneven**2).sum()
    return nats(at, *data) + (value + penalty.temperature * np.log(mean) ** 2) / 2


def in_parameters(family, gradient, at):
    """Write the chain rule anew."""
    slope = gradient.slope.ravel()
    if family == "bcts":
        slope = np.array([slope.sum() * at.slope[0]])
    return np.concatenate([slope, gradient.bias])


# Derivatives


@every_family
def test_value_and_gradient_of_the_likelihood(family):
    data = simulate()
    likelihood, at = likelihood_of(*data), random_map(family, np.random.default_rng(1))
    theta = parameters(family, at)
    value, gradient = likelihood.value_and_gradient(at)
    assert value == pytest.approx(nats(at, *data), rel=1e-12)
    assert likelihood.value(at) == pytest.approx(value, rel=1e-12)
    expected = approx_fprime(theta, lambda t: nats(map_of(family, t, K), *data), 1e-7)
    np.testing.assert_allclose(in_parameters(family, gradient, at), expected, rtol=1e-4, atol=1e-3)


@every_family
def test_parameters_and_maps_are_inverse(family):
    at = random_map(family, np.random.default_rng(0))
    objective = Objective(likelihood_of(*simulate()), family, Penalty(1.0, 1.0), at)
    np.testing.assert_array_equal(objective.parameters(at), parameters(family, at))
    again = objective.map_at(np.zeros(objective.parameters(at).size), parameters(family, at))
    np.testing.assert_allclose(again.slope, at.slope)
    np.testing.assert_allclose(again.bias, at.bias)


@every_family
@pytest.mark.parametrize(("seen", "dense"), [(K, False), (K - 1, True)])
def test_gradient_of_the_objective(monkeypatch, family, seen, dense):
    if not dense:
        monkeypatch.setattr(fitting, "DENSE_PARAMETERS", 0)
        monkeypatch.setattr(fitting, "MATRIX_PARAMETERS", 0)
    data, rng = simulate(60, n_seen=seen), np.random.default_rng(3)
    near = ScoreMap(np.full(K, 0.8), np.zeros(K))
    likelihood = likelihood_of(*data)
    objective = Objective(likelihood, family, Penalty(7.0, 2.0, 1.0), near)
    origin = objective.parameters(near)
    omega = rng.normal(size=origin.size)
    value, gradient = objective(omega, origin, likelihood)
    expected = approx_fprime(omega, lambda at: objective(at, origin, likelihood)[0], 1e-6)
    assert np.abs(gradient).max() > 0.01
    np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-3)
    at = objective.map_at(omega, origin)
    assert value == pytest.approx(penalised(at, data, objective.penalty), rel=1e-10)
    none, halves = likelihood.on([]), (slice(0, 20), slice(20, 60))
    split = [objective(omega, origin, likelihood.on([half]))[1] for half in halves]
    np.testing.assert_allclose(sum(split) - objective(omega, origin, none)[1], gradient, atol=1e-9)
    if seen < K:  # no step moves a class that was not seen
        assert at.bias[K - 1] == 0
        slope = at.slope[..., K - 1]
        kept = near.slope if family != "ms" else 0.8 * np.eye(K)
        if family != "bcts":
            np.testing.assert_array_equal(slope, kept[..., K - 1])


def hessian_of(family, at, data, step=1e-5):
    """Difference the analytic gradient, which is tested against values above."""
    likelihood, theta = likelihood_of(*data), parameters(family, at)

    def gradient(of):
        near = map_of(family, of, K)
        return in_parameters(family, likelihood.value_and_gradient(near)[1], near)

    rows = [
        (gradient(theta + step * e) - gradient(theta - step * e)) / (2 * step)
        for e in np.eye(theta.size)
    ]
    return np.array(rows), gradient(theta)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@every_family
def test_curvature_is_the_hessian(family, dtype):
    data, at = simulate(), random_map(family, np.random.default_rng(2))
    expected, gradient = hessian_of(family, at, data)
    if family == "bcts":  # the logarithm bends by the gradient too, which is left out
        expected[0, 0] -= gradient[0]
    likelihood = likelihood_of(*data, dtype=dtype)
    loose = {"rtol": 1e-4, "atol": 1e-4 if dtype is np.float64 else 1e-2}
    if family == "ms":
        np.testing.assert_allclose(likelihood.curvature_of_matrix(at), expected, **loose)
        return
    np.testing.assert_allclose(likelihood.curvature(at, family), expected, **loose)
    diagonal, mixed = likelihood.diagonal(at, family)
    np.testing.assert_allclose(diagonal, np.diag(expected), **loose)
    between = np.diag(expected[:K, K:]) if family == "vs" else 0
    np.testing.assert_allclose(mixed, between, **loose)


def test_derivatives_along_a_shared_slope():
    data = simulate()
    likelihood, zeros, step = likelihood_of(*data), np.zeros(K), 1e-4
    values = [nats(ScoreMap(np.full(K, 0.7 + by), zeros), *data) for by in (-step, 0, step)]
    value, first, second = likelihood.along_slope(ScoreMap(np.full(K, 0.7), zeros))
    assert value == pytest.approx(values[1], rel=1e-12)
    assert first == pytest.approx((values[2] - values[0]) / (2 * step), rel=1e-5)
    assert second == pytest.approx((values[2] - 2 * values[1] + values[0]) / step**2, rel=1e-3)


def test_factors_are_covariance_and_products():
    data = simulate()
    z, y, weight, offset = data
    at = random_map("ms", np.random.default_rng(2))
    covariance, products = likelihood_of(*data).factors(at)
    proba = np.exp(log_softmax(z @ at.slope + at.bias + offset, axis=1))
    by_row = [w * (np.diag(p) - np.outer(p, p)) for w, p in zip(weight, proba, strict=True)]
    np.testing.assert_allclose(covariance, sum(by_row) / weight.sum(), rtol=1e-10)
    features = np.column_stack([z, np.ones(y.size)])
    np.testing.assert_allclose(products, (features.T * weight) @ features, rtol=1e-10)


def test_factors_are_the_hessian_where_rows_are_alike():
    """Without outputs that differ the Kronecker product is no approximation."""
    z = np.tile(log_softmax([1.0, 0, -1, 2]), (50, 1))
    data = (z, np.arange(50) % K, np.ones(50), np.zeros(K))
    at = random_map("ms", np.random.default_rng(2))
    covariance, products = likelihood_of(*data).factors(at)
    expected, _ = hessian_of("ms", at, data)
    np.testing.assert_allclose(np.kron(products, covariance), expected, rtol=1e-4, atol=1e-4)


def test_the_likelihood_of_parts_adds_up():
    data = simulate()
    whole, at = likelihood_of(*data), random_map("vs", np.random.default_rng(0))
    parts = [slice(0, 100), slice(100, 250), slice(250, 300)]
    assert sum(whole.on([p]).value(at) for p in parts) == pytest.approx(whole.value(at))
    assert whole.on(parts).value(at) == pytest.approx(whole.value(at))
    assert sum(whole.on([p]).total for p in parts) == pytest.approx(whole.total)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_impossible_class_has_no_part(dtype):
    z, y, weight, offset = simulate(n_seen=K - 1)
    z[:, K - 1] += 1e40 if dtype is np.float64 else 1e5  # however sure the outputs are of it
    without = likelihood_of(z[:, : K - 1], y, weight, offset[: K - 1], dtype)
    offset[K - 1] = IMPOSSIBLE
    likelihood, at = likelihood_of(z, y, weight, offset, dtype), np.full(K, 0.5)
    value, gradient = likelihood.value_and_gradient(ScoreMap(at, np.zeros(K)))
    assert value == pytest.approx(without.value(ScoreMap(at[1:], np.zeros(K - 1))), rel=1e-5)
    assert gradient.slope[K - 1] == gradient.bias[K - 1] == 0
    assert np.isfinite(gradient.slope).all()


# Fits


def fitted_to(likelihood, family, penalty, start, gtol=1e-6):
    return fit_map(Objective(likelihood, family, penalty, start), likelihood, start, gtol, 1000)


@pytest.mark.parametrize("seed", range(3))
@every_family
def test_a_fit_agrees_with_bfgs_on_numerical_gradients(family, seed):
    data, penalty = simulate(200, 3, seed), Penalty(2.0, 3.0, 1.0)
    start = ScoreMap(np.ones(3), np.zeros(3))
    fitted = fitted_to(likelihood_of(*data), family, penalty, start, 1e-8)
    begin = parameters(family, start._replace(slope=np.eye(3) if family == "ms" else start.slope))

    def plain(theta):
        at = map_of(family, theta, 3)
        return penalised(at._replace(bias=at.bias - at.bias.mean()), data, penalty)

    oracle = minimize(plain, begin, method="BFGS", options={"gtol": 1e-3})
    assert penalised(fitted.map, data, penalty) == pytest.approx(oracle.fun, abs=1e-5)
    expected = map_of(family, oracle.x, 3)
    np.testing.assert_allclose(fitted.map.slope, expected.slope, atol=2e-3)
    np.testing.assert_allclose(fitted.map.bias, expected.bias - expected.bias.mean(), atol=2e-3)
    assert not fitted.trouble


@every_family
def test_float32_ends_where_float64_does(family):
    data, start = simulate(500), ScoreMap(np.ones(K), np.zeros(K))
    fits = []
    for dtype in (np.float64, np.float32):
        likelihood = likelihood_of(*data, dtype)
        fits.append(fitted_to(likelihood, family, Penalty(1.0, 1.0), start, 1e-3))
    np.testing.assert_allclose(fits[1].map.slope, fits[0].map.slope, atol=1e-3)
    np.testing.assert_allclose(fits[1].map.bias, fits[0].map.bias, atol=1e-3)
    assert not fits[1].trouble


@pytest.mark.parametrize(
    ("family", "limit"),
    [
        ("bcts", "DENSE_PARAMETERS"),
        ("vs", "DENSE_PARAMETERS"),
        ("ms", "MATRIX_PARAMETERS"),
    ],
)
def test_other_metrics_end_where_the_hessian_does(monkeypatch, family, limit):
    data, start, penalty = simulate(500), ScoreMap(np.ones(K), np.zeros(K)), Penalty(0.1, 0.1, 1.0)
    likelihood = likelihood_of(*data)
    dense = fitted_to(likelihood, family, penalty, start)
    monkeypatch.setattr(fitting, limit, 0)
    assert not isinstance(Objective(likelihood, family, penalty, start).metric, np.ndarray)
    other = fitted_to(likelihood, family, penalty, start)
    np.testing.assert_allclose(other.map.slope, dense.map.slope, atol=1e-4)
    np.testing.assert_allclose(other.map.bias, dense.map.bias, atol=1e-4)


@every_family
def test_the_hessian_with_its_penalty_is_the_identity_at_the_optimum(family):
    """There a step against the gradient is Newton's, under every penalty of a path."""
    data, start = simulate(500), ScoreMap(np.ones(K), np.zeros(K))
    likelihood, penalty = likelihood_of(*data), Penalty(5.0, 5.0, 1.0)
    first = Objective(likelihood, family, Penalty(30.0, 30.0, 1.0), start)
    best = fit_map(first, likelihood, start, 1e-6, 1000).map
    objective = Objective(likelihood, family, penalty, best)
    for near in (objective, Objective(likelihood, family, penalty, best, first.curvature)):
        origin = near.parameters(fit_map(near, likelihood, best, 1e-8, 1000).map)
        step = np.random.default_rng(0).normal(size=origin.size) * 1e-3
        moved = near.parameters(near.map_at(step, origin)) - origin  # as far as it is identified
        step = np.linalg.solve(near.metric, moved)
        change = near(step, origin, likelihood)[1] - near(-step, origin, likelihood)[1]
        rough = 0.2 if family == "ms" or near is objective else 0.6
        assert np.linalg.norm(change / 2 - step) < rough * np.linalg.norm(step)


def test_a_strong_penalty_leaves_a_temperature():
    data = simulate(500)
    likelihood = likelihood_of(*data)
    start = fit_temperature(likelihood, prior=1.0).map
    for family in ("vs", "ms"):
        found = fitted_to(likelihood, family, Penalty(1e9, 1e9, 1.0), start, 1e-3).map
        slope = found.slope if family == "vs" else np.diag(found.slope)
        np.testing.assert_allclose(slope, start.slope, atol=1e-3)
        np.testing.assert_allclose(found.bias, 0, atol=1e-3)


def test_a_prior_on_the_temperature_stops_certainty():
    z = log_softmax(3 * np.eye(3)[np.arange(9) % 3], axis=1)
    likelihood = likelihood_of(z, np.arange(9) % 3, np.ones(9), np.zeros(3))
    slope = fit_temperature(likelihood, prior=1.0).map.slope[0]
    values = [
        nats(ScoreMap(np.full(3, s), np.zeros(3)), z, np.arange(9) % 3, np.ones(9), np.zeros(3))
        + np.log(s) ** 2 / 2
        for s in (0.99 * slope, slope, 1.01 * slope)
    ]
    assert values[1] == min(values)
    assert fit_temperature(likelihood).map.slope[0] > 5 * slope


def test_the_start_of_a_temperature_does_not_matter():
    likelihood = likelihood_of(*simulate())
    slopes = [fit_temperature(likelihood, start=start).map.slope[0] for start in (0.01, 1, 100)]
    np.testing.assert_allclose(slopes, slopes[1], rtol=1e-4)


# Without a fold


def folded(n=400, n_classes=K, seed=0):
    z, y, weight, offset = simulate(n, n_classes, seed)
    order, folds = by_fold(y, 5, True, 0)
    return likelihood_of(z[order], y[order], weight[order], offset), folds


def from_scratch(likelihood, family, penalty, start, folds, fold):
    rows = np.concatenate([np.arange(f.start, f.stop) for f in folds if f is not fold])
    alone = LabelLikelihood(
        likelihood.z[:, rows], likelihood.y[rows], likelihood.weight[rows], likelihood.offset
    )
    return fitted_to(alone, family, penalty, start, 1e-8).map


@pytest.mark.parametrize("exact", [True, False])
@every_family
def test_maps_without_a_fold_are_those_of_fits_from_scratch(family, exact):
    likelihood, folds = folded()
    start = fit_temperature(likelihood).map
    ridges, more = (100.0, 10.0, 1.0), {"spread": 1.0, "temperature": 1.0}
    paths = fit_path(likelihood, family, start, ridges, folds, gtol=1e-5, exact=exact, **more)
    for ridge, path in zip(ridges, paths, strict=True):
        penalty = Penalty(ridge, ridge, 1.0)
        assert path.penalty == penalty
        whole = fitted_to(likelihood, family, penalty, start, 1e-8).map
        np.testing.assert_allclose(path.fitted.map.slope, whole.slope, atol=1e-4)
        for fold, found in zip(folds, path.folds, strict=True):
            expected = from_scratch(likelihood, family, penalty, start, folds, fold)
            if exact or family == "ms":
                np.testing.assert_allclose(found.slope, expected.slope, atol=1e-4)
                np.testing.assert_allclose(found.bias, expected.bias, atol=1e-4)
            else:  # two steps gain most of what there is to gain
                rest = [slice(0, fold.start), slice(fold.stop, likelihood.y.size)]
                rows = np.concatenate([np.arange(likelihood.y.size)[part] for part in rest])
                data = likelihood.z.T, likelihood.y, likelihood.weight
                outside = *(one[rows] for one in data), likelihood.offset
                best, near, before = (
                    penalised(at, outside, penalty) for at in (expected, found, whole)
                )
                assert near - best < 0.25 * (before - best) + 1e-6


def test_a_class_that_only_a_fold_has_is_left_alone_without_it():
    likelihood, folds = folded()
    likelihood.y[likelihood.y == 2] = 0
    likelihood.y[0] = 2
    start = fit_temperature(likelihood).map
    paths = fit_path(likelihood, "vs", start, [0.01], folds, gtol=1e-4, exact=True)
    maps = next(paths).folds
    assert maps[0].bias[2] == 0
    assert maps[0].slope[2] == start.slope[2]
    assert all(at.bias[2] != 0 for at in maps[1:])


def test_the_ridge_chosen_is_the_one_of_least_loss_out_of_fold():
    likelihood, folds = folded(200, seed=4)
    start = fit_temperature(likelihood).map
    _, chosen, without = fit_chosen(likelihood, "vs", RIDGE_GRID, folds, gtol=1e-3)
    losses = {
        ridge: sum(
            likelihood.on([fold]).value(
                from_scratch(likelihood, "vs", Penalty(ridge), start, folds, fold)
            )
            for fold in folds
        )
        for ridge in RIDGE_GRID
    }
    assert losses[chosen] < min(losses.values()) + 0.05
    for fold, at in zip(folds, without, strict=True):
        expected = from_scratch(likelihood, "vs", Penalty(chosen), start, folds, fold)
        np.testing.assert_allclose(at.bias, expected.bias, atol=0.01)


def test_a_ridge_path_without_folds_or_with_one():
    likelihood, _ = folded(50)
    start = fit_temperature(likelihood).map
    for folds in ((), (slice(0, 50),)):
        path = next(fit_path(likelihood, "bcts", start, [1.0], folds, gtol=1e-4))
        assert len(path.folds) == len(folds)
        assert all(np.isfinite(at.bias).all() for at in path.folds)
