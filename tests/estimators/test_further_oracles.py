"""Further estimators against independent implementations, known limits and simulated truth."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import brute, minimize, root
from scipy.special import log_softmax, softmax, xlogy

import priorshift as ps
from priorshift.estimators import (
    ELSA,
    GLS,
    MAPLS,
    JointLikelihood,
    SemiSupervisedEM,
    ShrunkSCML,
)
from priorshift.estimators.elsa import _Equations
from priorshift.solvers import evident_variance, maximise_jointly, shrunk_least_squares

TARGET = np.array([0.1, 0.2, 0.3, 0.4])


@pytest.fixture
def data(simulate, rng):
    simulation = simulate(4, spread=1.5)
    y_proba_val, y_val = simulation.draw(np.array([0.4, 0.3, 0.2, 0.1]), 700, rng)
    y_proba, y = simulation.draw(TARGET, 900, rng)
    return y_proba_val, y_val, y_proba, y, simulation.source_priors


def too_sure(y_proba, temperature=0.4):
    return softmax(log_softmax(np.log(y_proba), axis=1) / temperature, axis=1)


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
        rounds = _Equations.of(elsa._validation_rows(), elsa._seen_target(y_proba, "elsa")).solve(
            1e-4, 30
        )
        raw.append(rounds.raw)
        told.append(rounds.error)
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


# MAPLS


def mapls_by_iteration(y_proba, source, weight, n_steps=4000):
    K = source.size
    q = source.copy()
    for _ in range(n_steps):
        adapted = y_proba * q / source
        adapted /= adapted.sum(axis=1, keepdims=True)
        q = weight * adapted.mean(axis=0) + (1 - weight) / K
    return q


def kl(p, q):
    return float((xlogy(p, p) - p * np.log(q)).sum())


@pytest.mark.parametrize("weight", [0.9, 0.5, 0.05])
def test_mapls_is_the_fixed_point_of_its_iteration(data, weight):
    *_, y_proba, _, source = data
    shift = MAPLS(data_weight=weight, tol=1e-10).fit(source_priors=source).estimate(y_proba)
    assert shift.status == "certified"
    np.testing.assert_allclose(shift.priors, mapls_by_iteration(y_proba, source, weight), atol=1e-8)


def test_mapls_chooses_its_weight_by_the_published_rule(data):
    *_, y_proba, _, source = data
    em = mapls_by_iteration(y_proba, source, 1.0)
    uniform = np.full(4, 0.25)

    def conf(d, lam):
        gamma = (1 / (1 - lam) - 1) / 0.5
        return gamma * d / (1 + gamma * d)

    trust = 1 - conf(kl(source, uniform), 0.2)
    weight = 0.9 * conf(kl(em, uniform), trust) + 0.1 * (1 - conf(kl(em, source), trust))
    assert 0.1 < weight < 0.95
    shift = MAPLS(tol=1e-10).fit(source_priors=source).estimate(y_proba)
    np.testing.assert_allclose(shift.priors, mapls_by_iteration(y_proba, source, weight), atol=1e-7)


def test_mapls_at_its_ends(data):
    *_, y_proba, _, source = data
    em = ps.EM(tol=1e-9).fit(source_priors=source).estimate(y_proba)
    whole = MAPLS(data_weight=1, tol=1e-9).fit(source_priors=source).estimate(y_proba)
    np.testing.assert_allclose(whole.priors, em.priors, atol=1e-9)
    nothing = MAPLS(data_weight=0).fit(source_priors=source).estimate(y_proba)
    np.testing.assert_array_equal(nothing.priors, np.full(4, 0.25))
    assert nothing.status == "direct"


def test_mapls_with_an_exactly_balanced_source(data):
    *_, y_proba, _, _ = data
    balanced = np.full(4, 0.25)
    shift = MAPLS(tol=1e-9).fit(source_priors=balanced).estimate(y_proba)
    np.testing.assert_allclose(shift.priors, mapls_by_iteration(y_proba, balanced, 0.9), atol=1e-7)
    flat = MAPLS().fit(source_priors=[0.5, 0.5]).estimate(np.array([[0.5, 0.5]]))
    np.testing.assert_allclose(flat.priors, [0.5, 0.5], atol=1e-6)


def test_mapls_gains_where_the_target_is_near_equal_priors(simulate):
    simulation, errors = simulate(20, spread=0.6, seed=2), {"mapls": [], "em": []}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        y_proba, _ = simulation.draw(np.full(20, 0.05), 500, rng)
        for est in (MAPLS(), ps.EM()):
            found = est.fit(source_priors=simulation.source_priors).estimate(y_proba).priors
            errors[est.name].append(np.abs(found - 0.05).sum())
    assert np.mean(errors["mapls"]) < 0.8 * np.mean(errors["em"])


# EM with labels


def test_labels_enter_the_likelihood(data, rng):
    """Maximise the joint likelihood of labelled and unlabelled samples by SLSQP."""
    *_, y_proba, y, source = data
    labelled = rng.random(y.size) < 0.1
    counts = np.bincount(y[labelled], minlength=4)
    a = y_proba[~labelled] / source

    def loss(p):
        return -(np.log(a @ p).sum() + counts @ np.log(p)) / y.size

    bounds, total = [(1e-9, 1)] * 4, {"type": "eq", "fun": lambda p: p.sum() - 1}
    found = minimize(loss, source, bounds=bounds, constraints=[total], options={"ftol": 1e-14})
    marked = np.where(labelled, y, -1)
    est = SemiSupervisedEM(tol=1e-9).fit(source_priors=source)
    shift = est.estimate(y_proba, y_target=marked, unlabelled=-1)
    np.testing.assert_allclose(shift.priors, found.x, atol=1e-5)
    assert shift.status == "certified"
    assert shift.n_target == y.size


def test_all_labels_are_label_frequencies_and_none_are_em(data):
    *_, y_proba, y, source = data
    est = SemiSupervisedEM().fit(source_priors=source)
    whole = est.estimate(y_proba, y_target=y)
    np.testing.assert_allclose(whole.priors, np.bincount(y) / y.size)
    assert whole.status == "direct"
    em = ps.EM().fit(source_priors=source).estimate(y_proba)
    for shift in (est.estimate(y_proba), est.estimate(y_proba, y_target=[None] * y.size)):
        np.testing.assert_array_equal(shift.priors, em.priors)
        assert shift.gap == em.gap


def test_a_few_labels_beat_none_where_outputs_are_not_calibrated(data, rng):
    *_, y_proba, y, source = data
    wrong = too_sure(y_proba, 0.2)
    est = SemiSupervisedEM().fit(source_priors=source)
    marked = np.where(rng.random(y.size) < 0.2, y, -1)
    with_labels = est.estimate(wrong, y_target=marked, unlabelled=-1).priors
    without = est.estimate(wrong).priors
    truth = np.bincount(y) / y.size
    assert np.abs(with_labels - truth).sum() < 0.9 * np.abs(without - truth).sum()


def test_calibrated_em_with_labels_beats_moments_without(data, rng):
    """Where outputs are too sure, 20 % labels must not make an estimate worse than SCM-L's."""
    y_proba_val, y_val, y_proba, y, _ = data
    wrong_val, wrong = too_sure(y_proba_val, 0.2), too_sure(y_proba, 0.2)
    marked = np.where(rng.random(y.size) < 0.2, y, -1)
    truth = np.bincount(y) / y.size
    shift = SemiSupervisedEM().fit(wrong_val, y_val).estimate(wrong, y_target=marked, unlabelled=-1)
    assert shift.calibrator is not None
    trusting = SemiSupervisedEM(calibrator=None, unlabelled_weight=1.0).fit(wrong_val, y_val)
    errors = [
        np.abs(found.priors - truth).sum()
        for found in (
            shift,
            ps.SCML().fit(wrong_val, y_val).estimate(wrong),
            trusting.estimate(wrong, y_target=marked, unlabelled=-1),
        )
    ]
    assert errors[0] < errors[1]
    assert errors[0] < 0.5 * errors[2]


def test_calibrated_without_labels_is_calibrated_em(data):
    y_proba_val, y_val, y_proba, _, _ = data
    wrong_val, wrong = too_sure(y_proba_val, 0.2), too_sure(y_proba, 0.2)
    partly = SemiSupervisedEM(calibrator="bcts").fit(wrong_val, y_val)
    em = ps.CalibratedEM().fit(wrong_val, y_val).estimate(wrong, 0.9)
    found = partly.estimate(wrong, 0.9)
    np.testing.assert_array_equal(found.priors, em.priors)
    np.testing.assert_array_equal(found.source_priors, em.source_priors)
    np.testing.assert_array_equal(found.adapt(wrong), em.adapt(wrong))
    np.testing.assert_array_equal(found.interval, em.interval)


def test_outputs_that_validation_does_not_refute_stay_as_they_are(data):
    y_proba_val, y_val, y_proba, _, source = data
    given = {"source_priors": source}
    shift = SemiSupervisedEM().fit(y_proba_val, y_val, **given).estimate(y_proba)
    assert shift.calibrator is None
    em = ps.EM().fit(y_proba_val, y_val, **given).estimate(y_proba)
    np.testing.assert_array_equal(shift.priors, em.priors)


def test_weight_of_unlabelled_rows(data, rng):
    """Weight 0 leaves labels; half of it is undone by giving rows twice; agreement leaves 1."""
    *_, y_proba, y, source = data
    marked = np.where(rng.random(y.size) < 0.1, y, -1)
    counts = np.bincount(y[marked >= 0], minlength=4)

    def estimate(weight, rows=y_proba, labels=marked):
        est = SemiSupervisedEM(unlabelled_weight=weight, tol=1e-9).fit(source_priors=source)
        return est.estimate(rows, y_target=labels, unlabelled=-1)

    np.testing.assert_allclose(estimate(0).priors, counts / counts.sum())
    assert estimate(0).status == "direct"
    # all labels and twice the unlabelled rows at half the weight
    twice = np.concatenate([y_proba, y_proba[marked < 0]])
    labels = np.concatenate([marked, np.full((marked < 0).sum(), -1)])
    np.testing.assert_allclose(estimate(0.5, twice, labels).priors, estimate(1.0).priors, atol=1e-6)
    np.testing.assert_allclose(estimate("auto").priors, estimate(1.0).priors, atol=1e-12)
    backwards = estimate("auto", y_proba[:, ::-1]).priors  # labels contradict these outputs
    assert np.abs(backwards - counts / counts.sum()).sum() < 0.1


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"calibrator": "best"}, "calibrator"),
        ({"unlabelled_weight": 2}, "unlabelled_weight"),
        ({"unlabelled_weight": "much"}, "unlabelled_weight"),
    ],
)
def test_bad_parameters_of_em_with_labels_are_named(data, params, match):
    y_proba_val, y_val, y_proba, y, _ = data
    labels = np.where(np.arange(y.size) % 5, -1, y)
    with pytest.raises(ValueError, match=match):
        SemiSupervisedEM(**params).fit(y_proba_val, y_val).estimate(
            y_proba, y_target=labels, unlabelled=-1
        )


@pytest.mark.parametrize(
    ("classes", "y_target", "unlabelled"),
    [
        (["a", "b"], ["a", None, "b", float("nan")], None),
        (["a", "b"], np.array(["a", "", "b", ""]), ""),
        ([0, 1], [0.0, np.nan, 1.0, np.nan], None),
        ([0, 1], np.array([0, -1, 1, -1]), -1),
        ([-1, 1], [-1, None, 1, None], None),
    ],
)
def test_unknown_labels_are_marked_in_many_ways(classes, y_target, unlabelled):
    y_proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.2, 0.8]])
    est = SemiSupervisedEM(tol=1e-9).fit(source_priors=[0.5, 0.5], classes=classes)
    found = est.estimate(y_proba, y_target=y_target, unlabelled=unlabelled)
    # one label of each class, and two rows: (1.5, 0.4 / 0.6) and (0.25, 4) up to scale
    grid = np.linspace(1e-6, 1 - 1e-6, 200_001)
    values = np.log(grid * (1 - grid) * (0.2 * grid + 0.4) * (0.8 - 0.6 * grid))
    assert found.priors[0] == pytest.approx(grid[np.argmax(values)], abs=1e-4)
    np.testing.assert_array_equal(
        est.adapt(y_proba, y_target=y_target, unlabelled=unlabelled), found.adapt(y_proba)
    )


def test_missing_labels_of_pandas():
    import pandas as pd

    y_proba = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]])
    est = SemiSupervisedEM().fit(source_priors=[0.5, 0.5])
    column = pd.Series([0, pd.NA, 1], dtype="Int64")
    plain = est.estimate(y_proba, y_target=[0, None, 1])
    np.testing.assert_array_equal(est.estimate(y_proba, y_target=column).priors, plain.priors)


def test_bad_labels_are_named():
    y_proba = np.array([[0.9, 0.1], [0.6, 0.4]])
    est = SemiSupervisedEM().fit(source_priors=[0.5, 0.5])
    with pytest.raises(ValueError, match=r"y_target has shape \(1,\) but there are 2 rows"):
        est.estimate(y_proba, y_target=[0])
    with pytest.raises(ValueError, match=r"labelled part of y_target has a label outside .* -1"):
        est.estimate(y_proba, y_target=[0, -1])
    with pytest.raises(ValueError, match="there is no interval with y_target"):
        est.estimate(y_proba, y_target=[0, None], confidence_level=0.9)


# Joint likelihood and shrunk confusion matrices


def joint_by_brute_force(V, n):
    """Maximise over p and both columns of C, K = 2: a grid, then Nelder and Mead."""

    def loss(theta):
        p, a, b = theta
        if min(theta) < 0 or max(theta) > 1:
            return np.inf
        C = np.array([[a, b], [1 - a, 1 - b]])
        return -(xlogy(n, C @ [p, 1 - p]).sum() + xlogy(V, C).sum())

    start = brute(loss, [(1e-3, 1 - 1e-3)] * 3, Ns=25, finish=None)
    options = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 10_000}
    return minimize(loss, start, method="Nelder-Mead", options=options).x


@pytest.mark.parametrize(
    ("V", "n"),
    [
        ([[8.0, 2.0], [2.0, 8.0]], [30.0, 20.0]),
        ([[8.0, 2.0], [2.0, 8.0]], [58.0, 2.0]),  # more of decision 0 than any p explains
        ([[5.0, 1.0], [1.0, 3.0]], [1.0, 40.0]),
        ([[30.0, 4.0], [10.0, 5.0]], [7.0, 9.0]),
    ],
)
def test_joint_likelihood_by_brute_force(V, n):
    V, n = np.array(V), np.array(n)
    C, solution = maximise_jointly(
        V, n, np.ones(2), tol=1e-8, max_iter=20_000, start=np.full(2, 0.5)
    )
    p, a, b = joint_by_brute_force(V, n)
    assert solution.status == "stationary"
    assert solution.value[0] == pytest.approx(p, abs=2e-4)
    if 0 < solution.value[0] < 1:
        np.testing.assert_allclose(C[0], [a, b], atol=2e-4)
    expected = xlogy(n, C @ solution.value).sum() + xlogy(V, C).sum()
    assert solution.objective == pytest.approx(expected)


def test_every_step_of_the_joint_likelihood_climbs(rng):
    V, n = rng.integers(0, 5, (6, 6)) + 8.0 * np.eye(6), rng.integers(1, 80, 6).astype(float)
    objectives = [
        maximise_jointly(V, n, np.ones(6), tol=1e-12, max_iter=k, start=np.full(6, 1 / 6))[1]
        for k in (1, 2, 4, 8, 16, 64)
    ]
    values = [solution.objective for solution in objectives]
    assert np.all(np.diff(values) >= -1e-9)
    assert values[-1] > values[0]


def test_joint_is_cm_inside_the_simplex_and_cm_l_with_much_validation(data):
    y_proba_val, y_val, y_proba, *_ = data
    joint = JointLikelihood(shrinkage=0).fit(y_proba_val, y_val).estimate(y_proba)
    cm = ps.CM().fit(y_proba_val, y_val).estimate(y_proba)
    assert cm.raw.min() > 0
    np.testing.assert_allclose(joint.priors, cm.priors, atol=1e-6)
    # a target outside what C allows moves C, the less the more validation samples there are
    far = np.eye(4)[np.repeat([0, 1, 2, 3], [240, 4, 1, 155])]
    cml = ps.CML().fit(y_proba_val, y_val).estimate(far).priors
    moved = []
    for times in (1.0, 100.0, 1e6):
        est = JointLikelihood(shrinkage=0, tol=1e-7)
        est.fit(y_proba_val, y_val, sample_weight=np.full(y_val.size, times))
        moved.append(np.abs(est.estimate(far).priors - cml).sum())
    assert moved[0] > 10 * moved[1] > 100 * moved[2]
    assert moved[2] < 1e-5


def test_joint_says_when_it_was_stopped(rng):
    V, n = np.array([[5.0, 1, 2], [1, 3, 1], [0, 1, 4]]), np.array([90.0, 2.0, 8.0])
    decisions, y_val = (
        np.repeat(index.ravel(), V.ravel().astype(int)) for index in np.indices((3, 3))
    )
    est = JointLikelihood(shrinkage=0, max_iter=2, tol=1e-9).fit(np.eye(3)[decisions], y_val)
    target = np.eye(3)[np.repeat([0, 1, 2], n.astype(int))]
    with pytest.warns(ps.ConvergenceWarning, match="joint has not come to rest after 2 steps"):
        shift = est.estimate(target)
    assert shift.status == "not_converged"
    assert est.set_params(max_iter=5000).estimate(target).status == "stationary"


@pytest.mark.parametrize("kind", [ShrunkSCML, JointLikelihood])
def test_model_columns_by_hand(kind):
    y_proba_val = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    est = kind(shrinkage=4).fit(y_proba_val, [0, 0, 1])
    decided = y_proba_val if kind is ShrunkSCML else np.array([[1.0, 0], [1, 0], [0, 1]])
    expected = np.column_stack(
        [sum(f[k] * d for f, d in zip(y_proba_val, decided, strict=True)) for k in range(2)]
    )
    np.testing.assert_allclose(est.model_confusion_, expected / y_proba_val.sum(axis=0))
    assert est.shrinkage_ == 4


def test_model_columns_follow_the_source_balance(simulate, rng):
    """Of calibrated outputs they are the confusion matrix, whatever validation's balance."""
    simulation = simulate(4, spread=1.2)
    y_proba_val, y_val = simulation.draw(np.array([0.1, 0.1, 0.1, 0.7]), 40_000, rng)
    est = ShrunkSCML(shrinkage=1).fit(y_proba_val, y_val, source_priors=simulation.source_priors)
    np.testing.assert_allclose(est.model_confusion_, est.confusion_.conditional, atol=0.02)


def test_without_shrinkage_it_is_scm_l(data):
    y_proba_val, y_val, y_proba, *_ = data
    shrunk = ShrunkSCML(shrinkage=0).fit(y_proba_val, y_val).estimate(y_proba)
    plain = ps.SCML().fit(y_proba_val, y_val).estimate(y_proba)
    np.testing.assert_array_equal(shrunk.priors, plain.priors)


def test_strength_goes_with_calibration_and_size(simulate):
    """Few calibrated rows are shrunk, many miscalibrated ones are not."""
    simulation = simulate(10, spread=1.0)
    uniform, errors = np.full(10, 0.1), {"scm-l-shrunk": [], "scm-l": []}
    source = {"source_priors": simulation.source_priors, "classes": range(10)}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        target = rng.dirichlet(np.full(10, 2.0))
        few, y_few = simulation.draw(uniform, 100, rng)
        y_proba, _ = simulation.draw(target, 4000, rng)
        for est in (ShrunkSCML(), ps.SCML()):
            found = est.fit(few, y_few, **source).estimate(y_proba).priors
            errors[est.name].append(np.abs(found - target).sum())
            assert getattr(est, "shrinkage_", 20) >= 20
    assert np.mean(errors["scm-l-shrunk"]) < 0.8 * np.mean(errors["scm-l"])
    many, y_many = simulation.draw(uniform, 8000, rng)
    assert ShrunkSCML().fit(too_sure(many), y_many, **source).shrinkage_ <= 20


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


def test_gls_without_evidence_leaves_predictions_alone(data):
    """Also where mean predictions and labels of the source differ."""
    y_proba_val, y_val, *_ = data
    labels = np.bincount(y_val) / y_val.size
    est = GLS().fit(y_proba_val, y_val, source_label_priors=labels, source_priors=TARGET)
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


# Outputs that are not calibrated


@pytest.mark.filterwarnings("ignore:predictions on validation contradict")
@pytest.mark.parametrize("est", [ELSA(), JointLikelihood()], ids=repr)
def test_they_beat_em_where_outputs_are_not_calibrated(simulate, rng, est):
    simulation = simulate(4, spread=1.2)
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 4000, rng)
    y_proba, _ = simulation.draw(TARGET, 4000, rng)
    wrong_val, wrong = too_sure(y_proba_val, 0.3), too_sure(y_proba, 0.3)
    em = ps.EM().fit(wrong_val, y_val).estimate(wrong)
    shift = est.fit(wrong_val, y_val).estimate(wrong)
    assert np.abs(shift.priors - TARGET).sum() < 0.5 * np.abs(em.priors - TARGET).sum()
    assert np.abs(shift.priors - TARGET).sum() < 0.1
