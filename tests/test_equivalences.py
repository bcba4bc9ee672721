"""What must be equal, whatever the data: methods that coincide, and changes that change nothing."""

import numpy as np
import pytest

import priorshift as ps

CONFUSION_METHODS = ["cm", "scm", "cm-l", "scm-l", "cm-m", "scm-m", "bbse", "bbse-s", "rlls"]
ALL_METHODS = ps.available_estimators()
POSTERIOR = ["em", "map", "mapls", "em-labels", "em-bcts"]  # certified to a gap of 0.01 nats
SHRUNK = ["map", "cm-m", "scm-m", "auto", "mapls", "elsa", "joint", "gls"]
# a clipped inversion warns, and rightly so: these tests are about the numbers
pytestmark = pytest.mark.filterwarnings("ignore::priorshift.PriorShiftWarning")


@pytest.fixture
def data(simulate, rng):
    simulation = simulate(6)
    target = rng.dirichlet(np.ones(6))
    y_proba_val, y_val = simulation.draw(np.full(6, 1 / 6), 600, rng)
    y_proba, _ = simulation.draw(target, 900, rng)
    return y_proba_val, y_val, y_proba, simulation.source_priors


def estimate(name, y_proba_val, y_val, y_proba, source, **fit):
    return (
        ps.get_estimator(name)
        .fit(y_proba_val, y_val, source_priors=source, **fit)
        .estimate(y_proba)
    )


def test_map_with_flat_hyperprior_is_em(data):
    *_, y_proba, source = data
    em = ps.EM(tol=1e-9).fit(source_priors=source).estimate(y_proba)
    flat = ps.MAP(alpha=1.0, tol=1e-9).fit(source_priors=source).estimate(y_proba)
    np.testing.assert_allclose(flat.priors, em.priors, atol=1e-9)


@pytest.mark.parametrize(
    ("inversion", "likelihood"), [(ps.CM, ps.CML), (ps.SCM, ps.SCML)], ids=["hard", "soft"]
)
def test_likelihood_is_inversion_inside_the_simplex(simulate, rng, inversion, likelihood):
    simulation = simulate(5, spread=2.0)
    y_proba_val, y_val = simulation.draw(np.full(5, 0.2), 5000, rng)
    y_proba, _ = simulation.draw(np.full(5, 0.2), 5000, rng)
    inverted = inversion().fit(y_proba_val, y_val).estimate(y_proba)
    assert inverted.raw.min() > 0
    maximised = likelihood(tol=1e-10).fit(y_proba_val, y_val).estimate(y_proba)
    np.testing.assert_allclose(maximised.priors, inverted.priors, atol=1e-7)


@pytest.mark.parametrize(("ratio", "inversion"), [("bbse", "cm"), ("bbse-s", "scm")])
def test_clipped_bbse_is_clipped_inversion(data, ratio, inversion):
    of_ratio, of_priors = estimate(ratio, *data), estimate(inversion, *data)
    np.testing.assert_allclose(of_ratio.priors, of_priors.priors, atol=1e-10)
    np.testing.assert_allclose(of_ratio.raw * data[-1], of_priors.raw, atol=1e-10)


def test_rlls_without_penalty_is_nonnegative_least_squares(data):
    from scipy.optimize import nnls

    y_proba_val, y_val, y_proba, source = data
    rlls = ps.RLLS(regularization=1e-6).fit(y_proba_val, y_val, source_priors=source)
    J = rlls.confusion_.joint(source)
    q = np.bincount(y_proba.argmax(axis=1), minlength=6) / len(y_proba)
    np.testing.assert_allclose(rlls.estimate(y_proba).raw, nnls(J, q)[0], atol=1e-3)


@pytest.mark.parametrize("name", ALL_METHODS)
def test_class_permutation_permutes_the_answer(data, rng, name):
    y_proba_val, y_val, y_proba, source = data
    order = rng.permutation(6)
    plain = estimate(name, *data)
    permuted = estimate(
        name, y_proba_val[:, order], y_val, y_proba[:, order], source[order], classes=order
    )
    tol = 1e-3 if name in POSTERIOR else 1e-6  # as far as a gap of 0.01 nats allows
    tol = 1e-4 if name == "auto" else tol  # as far as its calibrators are fitted
    np.testing.assert_allclose(permuted.priors, plain.priors[order], atol=tol)


@pytest.mark.parametrize("name", CONFUSION_METHODS)
def test_repeated_validation_rows_are_weights(data, rng, name):
    y_proba_val, y_val, y_proba, source = data
    times = rng.integers(0, 4, y_val.size)
    if name == "rlls":  # its bound counts samples, which repeated rows do change
        ps_rlls = ps.RLLS(regularization=1e-6)
        weighted = ps_rlls.fit(y_proba_val, y_val, source_priors=source, sample_weight=times)
        a = weighted.estimate(y_proba).priors
        repeated = ps.RLLS(regularization=1e-6).fit(
            y_proba_val.repeat(times, axis=0), y_val.repeat(times), source_priors=source
        )
        np.testing.assert_allclose(a, repeated.estimate(y_proba).priors, atol=1e-6)
        return
    weighted = estimate(name, *data, sample_weight=times)
    repeated = estimate(
        name, y_proba_val.repeat(times, axis=0), y_val.repeat(times), y_proba, source
    )
    np.testing.assert_allclose(weighted.priors, repeated.priors, atol=1e-6)


@pytest.mark.parametrize("name", ALL_METHODS)
def test_order_and_repetition_of_target_rows_change_nothing(data, rng, name):
    y_proba_val, y_val, y_proba, source = data
    plain = estimate(name, *data)
    shuffled = estimate(name, y_proba_val, y_val, rng.permutation(y_proba), source)
    tol = 1e-3 if name in POSTERIOR else 1e-6
    np.testing.assert_allclose(shuffled.priors, plain.priors, atol=tol)
    if name not in SHRUNK:  # a hyper-prior weighs less against more data
        doubled = estimate(name, y_proba_val, y_val, np.tile(y_proba, (2, 1)), source)
        np.testing.assert_allclose(doubled.priors, plain.priors, atol=tol)


@pytest.mark.parametrize("name", ALL_METHODS)
def test_single_precision_gives_the_same_answer(data, name):
    y_proba_val, y_val, y_proba, source = data
    double = estimate(name, *data)
    single = estimate(
        name, y_proba_val.astype(np.float32), y_val, y_proba.astype(np.float32), source
    )
    np.testing.assert_allclose(single.priors, double.priors, atol=1e-3)
    assert single.priors.dtype == np.float64


@pytest.mark.parametrize("name", ALL_METHODS)
def test_names_of_classes_do_not_matter(data, name):
    y_proba_val, y_val, y_proba, source = data
    names = np.array(["f", "a", "é", "b c", "0", "Z"])
    named = estimate(name, y_proba_val, names[y_val], y_proba, source, classes=names)
    np.testing.assert_array_equal(named.priors, estimate(name, *data).priors)
    assert named.classes.tolist() == names.tolist()


@pytest.mark.parametrize("name", ALL_METHODS)
def test_balance_of_validation_does_not_matter(simulate, rng, name):
    """Conditional confusion matrices do not depend on it, given the source priors."""
    simulation = simulate(4, spread=2.0)
    target = np.array([0.4, 0.3, 0.2, 0.1])
    y_proba, _ = simulation.draw(target, 8000, rng)
    priors = []
    for balance in (np.full(4, 0.25), np.array([0.1, 0.2, 0.3, 0.4])):
        y_proba_val, y_val = simulation.draw(balance, 8000, rng)
        priors.append(estimate(name, y_proba_val, y_val, y_proba, simulation.source_priors).priors)
    np.testing.assert_allclose(priors[0], priors[1], atol=0.03)
