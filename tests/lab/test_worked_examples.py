"""The paper's worked examples, as known answers."""

import numpy as np
import pytest

import priorshift as ps

# 10 samples a class, of which 8 are decided rightly: C = [[.8, .2], [.2, .8]]
Y_VAL = np.repeat([0, 1], 10)
PROBA_VAL = np.eye(2)[np.repeat([0, 1, 0, 1], [8, 2, 2, 8])]
# every target sample is decided for class 0: q = (1, 0)
PROBA_TARGET = np.eye(2)[[0] * 5]


@pytest.mark.parametrize("cls", [ps.CM, ps.SCM])
def test_inconsistent_estimates_give_negative_priors(cls):
    with pytest.warns(ps.PriorShiftWarning, match="negative entr.*-0.333 for class 1"):
        shift = cls().fit(PROBA_VAL, Y_VAL).estimate(PROBA_TARGET)
    np.testing.assert_allclose(shift.raw, [4 / 3, -1 / 3], rtol=1e-12)
    np.testing.assert_array_equal(shift.priors, [1, 0])
    assert shift.status == "direct"
    assert shift.gap is None
    assert shift.condition_number == pytest.approx(5 / 3)


@pytest.mark.parametrize("cls", [ps.BBSE, ps.BBSES])
def test_inconsistent_estimates_give_negative_ratios(cls):
    with pytest.warns(ps.PriorShiftWarning, match="negative"):
        shift = cls().fit(PROBA_VAL, Y_VAL).estimate(PROBA_TARGET)
    np.testing.assert_allclose(shift.raw, [8 / 3, -2 / 3], rtol=1e-12)
    np.testing.assert_allclose(shift.ratio, [2, 0], rtol=1e-12)


@pytest.mark.parametrize("cls", [ps.BBSE, ps.BBSES])
def test_constrained_ratio_stays_a_ratio(cls):
    shift = cls(constrained=True).fit(PROBA_VAL, Y_VAL).estimate(PROBA_TARGET)
    np.testing.assert_allclose(shift.ratio, [2, 0], atol=1e-7)
    assert shift.status == "certified"


@pytest.mark.parametrize("cls", [ps.CML, ps.SCML])
def test_likelihood_finds_the_vertex_exactly(cls):
    shift = cls().fit(PROBA_VAL, Y_VAL).estimate(PROBA_TARGET)
    np.testing.assert_array_equal(shift.priors, [1, 0])
    assert shift.status == "certified"
    assert shift.gap <= 1e-6


@pytest.mark.parametrize("cls", [ps.CMM, ps.SCMM])
def test_hyperprior_keeps_off_the_vertex(cls):
    """The maximum of n log(.8 p + .2 (1 - p)) + 2 log p + 2 log(1 - p), by its own derivative."""
    shift = cls(alpha=3).fit(PROBA_VAL, Y_VAL).estimate(PROBA_TARGET)
    p = shift.priors[0]
    assert 5 * 0.6 / (0.2 + 0.6 * p) + 2 / p - 2 / (1 - p) == pytest.approx(0, abs=1e-4)


def test_paper_solver_of_the_paper_agrees_to_its_accuracy():
    shift = ps.CML(solver="paper").fit(PROBA_VAL, Y_VAL).estimate(PROBA_TARGET)
    np.testing.assert_allclose(shift.priors, [1, 0], atol=1e-6)


def test_bbse_paper_mode_keeps_negative_ratios():
    bbse = ps.BBSE(solver="paper").fit(PROBA_VAL, Y_VAL)
    shift = bbse.estimate(PROBA_TARGET)
    np.testing.assert_allclose(shift.ratio, [8 / 3, -2 / 3], rtol=1e-12)
    adapted = shift.adapt([[0.1, 0.9], [0.5, 0.5]])
    expected = np.array([[0.1 * 8 / 3, -0.9 * 2 / 3], [0.5 * 8 / 3, -0.5 * 2 / 3]])
    np.testing.assert_allclose(adapted, expected / expected.sum(axis=1, keepdims=True))
