"""The one rule: numbers in, verdict out."""

import numpy as np
import pytest

from priorshift.verdict import CAUTION, SURE, WORTH, Gain, judge, labels_to_settle


@pytest.mark.parametrize(
    ("mean", "error", "shifted", "expected"),
    [
        (0.05, 0.02, True, ("adapt", "adapt", "helps")),
        (0.05, 0.02, False, ("adapt", "adapt", "helps")),
        (0.009, 0.001, True, ("adapt", "adapt", "helps")),
        (0.009, 0.001, False, ("leave", "none", "no_shift")),  # not worth it
        (0.05, 0.05, True, ("unclear", "none", "unsure")),
        (0.05, 0.05, False, ("leave", "none", "no_shift")),
        (0.0, 0.005, True, ("leave", "none", "no_gain")),
        (-0.2, 0.05, True, ("leave", "none", "no_gain")),
        (0.0, 0.01, True, ("unclear", "none", "unsure")),
    ],
)
def test_the_rule(mean, error, shifted, expected):
    assert judge(Gain(mean, error), shifted=shifted)[:3] == expected


def test_its_borders_are_its_constants():
    error = 0.02
    assert judge(Gain(CAUTION * error + 1e-9, error), shifted=True).verdict == "adapt"
    assert judge(Gain(CAUTION * error - 1e-9, error), shifted=True).verdict == "unclear"
    low = WORTH - SURE * error
    assert judge(Gain(low - 1e-9, error), shifted=True).verdict == "leave"
    assert judge(Gain(low + 1e-9, error), shifted=True).verdict == "unclear"


def test_doubt_adds_to_the_error_and_is_named_where_it_is_the_larger():
    assert judge(Gain(0.05, 0.01), shifted=True, doubt=0.02).gain.error == np.hypot(0.01, 0.02)
    assert judge(Gain(0.05, 0.01), shifted=True, doubt=0.2).why == "more_changed"
    assert judge(Gain(0.05, 0.1), shifted=True, doubt=0.05).why == "unsure"


def test_expectation_and_measurement_are_averaged_by_precision():
    found = judge(Gain(0.1, 0.03), shifted=True, doubt=0.04, measured=Gain(0.02, 0.02)).gain
    weights = 1 / np.array([0.05, 0.02]) ** 2
    assert found.mean == pytest.approx(weights @ [0.1, 0.02] / weights.sum())
    assert found.error == pytest.approx(weights.sum() ** -0.5)


def test_labels_overrule_an_expectation():
    expected = Gain(0.1, 0.03)
    assert judge(expected, shifted=True).verdict == "adapt"
    assert judge(expected, shifted=True, measured=Gain(-0.05, 0.01)).verdict == "leave"


@pytest.mark.parametrize("obstacle", ["unknown_class", "no_information", "columns_swapped"])
def test_an_obstacle_is_never_adapted_over(obstacle):
    found = judge(Gain(0.5, 0.001), shifted=True, measured=Gain(0.5, 0.001), obstacle=obstacle)
    assert found[:3] == ("unclear", "none", obstacle)


def test_verdicts_scale_with_the_goal():
    """Costs ten times as large, and a point worth ten times as much: the same verdicts."""
    rng = np.random.default_rng(0)
    for mean, error in zip(rng.normal(0, 0.03, 200), rng.gamma(1, 0.02, 200), strict=True):
        for shifted in (True, False):
            one = judge(Gain(mean, error), shifted=shifted)
            ten = judge(Gain(10 * mean, 10 * error), shifted=shifted, worth=10 * WORTH)
            assert one[:3] == ten[:3]


def test_fewer_labels_settle_a_larger_gain():
    assert labels_to_settle(0.02, 0.1) > labels_to_settle(0.04, 0.1) > labels_to_settle(0.5, 0.1)
    assert labels_to_settle(0.0, 0.1) == labels_to_settle(WORTH, 0.1)
    assert labels_to_settle(0.9, 0.01) == 30
