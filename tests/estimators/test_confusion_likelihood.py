"""JointLikelihood and ShrunkSCML against brute force, by hand and on simulated truth."""

import numpy as np
import pytest
from scipy.optimize import brute, minimize
from scipy.special import xlogy

import priorshift as ps
from priorshift.estimators import (
    JointLikelihood,
    ShrunkSCML,
)
from priorshift.solvers import maximise_jointly

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


def test_strength_goes_with_calibration_and_size(simulate, too_sure):
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


@pytest.mark.filterwarnings("ignore:predictions on validation contradict")
def test_joint_beats_em_where_outputs_are_not_calibrated(simulate, rng, too_sure, target_priors):
    simulation = simulate(4, spread=1.2)
    y_proba_val, y_val = simulation.draw(simulation.source_priors, 4000, rng)
    y_proba, _ = simulation.draw(target_priors, 4000, rng)
    wrong_val, wrong = too_sure(y_proba_val, 0.3), too_sure(y_proba, 0.3)
    em = ps.EM().fit(wrong_val, y_val).estimate(wrong)
    shift = JointLikelihood().fit(wrong_val, y_val).estimate(wrong)
    wrong, error = (np.abs(found.priors - target_priors).sum() for found in (em, shift))
    assert error < 0.5 * wrong
    assert error < 0.1
