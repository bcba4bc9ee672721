"""The one rule: numbers in, verdict out."""

import numpy as np
import pytest

from priorshift.verdict import (
    AMPLIFIED,
    CAUTION,
    SURE,
    WELL,
    WORTH,
    Gain,
    Kind,
    Promise,
    judge,
    judge_gain,
    take_best,
)

UP, DOWN, NONE = Gain(0.05, 0.01), Gain(-0.05, 0.01), Gain(0.0, 0.001)
HELPS = Promise(UP, UP, UP, UP)
HINGES = Promise(DOWN, DOWN, UP, UP)
IDLE = Promise(NONE, NONE, NONE, NONE)
EXPLAINED = Kind(0.97, 0.9, 1.0, 1.5)
HALF = Kind(0.5, 0.4, 0.6, 1.5)
UNCHANGED = Kind(None, 0.0, 1.0, 1.0)


def rule(calibrate, adapt, kind, **more):
    return judge({"calibrate": calibrate, "adapt": adapt}, kind, **({"shifted": True} | more))


@pytest.mark.parametrize(
    ("calibrate", "adapt", "kind", "shifted", "expected"),
    [
        (IDLE, HINGES, EXPLAINED, True, ("adapt", "adapt", "helps")),
        (IDLE, HINGES, HALF, True, ("unclear", "none", "more_changed")),
        # bounds that reach further leave in doubt whether anything else changed
        (IDLE, HINGES, Kind(0.81, 0.48, 1.0, 1.5), True, ("unclear", "none", "hinges")),
        (IDLE, HINGES, EXPLAINED._replace(amplification=3.0), True, ("unclear", "none", "hinges")),
        (IDLE, HINGES, EXPLAINED._replace(low=0.3), True, ("unclear", "none", "hinges")),
        (IDLE, Promise(DOWN, DOWN, DOWN, UP), EXPLAINED, True, ("unclear", "none", "hinges")),
        (IDLE, IDLE, EXPLAINED, True, ("leave", "none", "no_gain")),
        (IDLE, IDLE, UNCHANGED, False, ("leave", "none", "no_shift")),
        # calibrating pays under every reading, or need not under one that is ruled out
        (HELPS, IDLE, HALF, True, ("adapt", "calibrate", "calibrate")),
        (HELPS, IDLE, UNCHANGED, False, ("adapt", "calibrate", "calibrate")),
        (Promise(UP, UP, UP, DOWN), IDLE, HALF, True, ("adapt", "calibrate", "calibrate")),
        (Promise(UP, UP, UP, DOWN), HINGES, EXPLAINED, True, ("adapt", "adapt", "helps")),
        (Promise(UP, DOWN, UP, UP), HINGES, HALF, True, ("unclear", "none", "more_changed")),
        (Promise(DOWN, UP, UP, UP), HINGES, HALF, True, ("unclear", "none", "more_changed")),
    ],
)
def test_without_labels_or_history(calibrate, adapt, kind, shifted, expected):
    assert rule(calibrate, adapt, kind, shifted=shifted)[:3] == expected


def test_its_borders_are_its_constants():
    def verdict(explained=WELL, amplified=AMPLIFIED, gain=0.05):
        promise = HINGES._replace(prior=Gain(gain, 0.01))
        return rule(IDLE, promise, Kind(explained, 0.8, 1.0, amplified)).verdict

    assert verdict() == "adapt"
    assert verdict(explained=WELL - 1e-9) == "unclear"
    assert verdict(amplified=AMPLIFIED + 1e-9) == "unclear"
    assert verdict(gain=CAUTION * 0.01 + 1e-9) == "adapt"
    assert verdict(gain=CAUTION * 0.01 - 1e-9) == "unclear"

    def calibrates(gain):
        return rule(Promise(*[Gain(gain, 0.01)] * 4), IDLE, EXPLAINED).action

    assert calibrates(CAUTION * 0.01 + 1e-9) == "calibrate"
    assert calibrates(CAUTION * 0.01 - 1e-9) == "none"


def test_of_two_that_hold_the_one_that_gains_more_over_both_readings():
    more = Promise(DOWN, Gain(0.04, 0.01), UP, Gain(0.2, 0.01))
    assert rule(HELPS, more, EXPLAINED).action == "adapt"
    less = Promise(DOWN, Gain(-0.12, 0.01), UP, Gain(0.2, 0.01))
    assert rule(HELPS, less, EXPLAINED).action == "calibrate"


def test_calibrating_is_done_while_adapting_is_unclear():
    much = Promise(DOWN, DOWN, UP, Gain(0.3, 0.02))
    found = rule(HELPS, much, EXPLAINED._replace(amplification=5.0))
    assert found[:3] == ("unclear", "calibrate", "calibrate_first")


def test_labels_decide_and_are_averaged_with_both_readings_by_precision():
    prior = HINGES.read(EXPLAINED.explained / 2, 0.02)
    measured = Gain(0.04, 0.03)
    found = rule(IDLE, HINGES, EXPLAINED, measured={"calibrate": NONE, "adapt": measured})
    weights = 1 / np.array([prior.error, measured.error]) ** 2
    assert found.gain.mean == pytest.approx(weights @ [prior.mean, measured.mean] / weights.sum())
    assert found.gain.error == pytest.approx(weights.sum() ** -0.5)
    assert rule(IDLE, HELPS, EXPLAINED, measured={"adapt": DOWN}).why == "labels_leave"
    assert rule(IDLE, HINGES, HALF, measured={"adapt": Gain(0.1, 0.01)}).why == "labels_adapt"


def test_labels_that_leave_nothing_open_are_exact():
    exact = Gain(0.001, 0.0)
    found = rule(IDLE, HINGES, HALF, measured={"calibrate": Gain(0.0, 0.0), "adapt": exact})
    assert found.gain == exact
    assert found.verdict == "adapt"


def test_history_decides_where_there_are_no_labels():
    past = {"calibrate": Gain(0.02, 0.01), "adapt": Gain(-0.1, 0.01)}
    assert rule(IDLE, HELPS, EXPLAINED, past=past)[:3] == (
        "adapt",
        "calibrate",
        "history_calibrate",
    )
    worse = {"calibrate": DOWN, "adapt": DOWN}
    assert rule(HELPS, HELPS, EXPLAINED, past=worse).verdict == "leave"
    unsure = {"calibrate": Gain(0.0, 0.02), "adapt": Gain(SURE * 0.02 - 1e-9, 0.02)}
    assert rule(HELPS, HELPS, EXPLAINED, past=unsure)[:2] == ("unclear", "none")
    labels = {"adapt": Gain(0.2, 0.01)}
    assert rule(IDLE, HELPS, EXPLAINED, past=worse, measured=labels).why == "labels_adapt"


def test_the_users_word_makes_prior_shift_the_only_reading():
    assert rule(IDLE, HINGES, HALF, assumed=True)[:2] == ("adapt", "adapt")
    assert rule(IDLE, HINGES, HALF, assumed=True).gain == UP
    assert rule(IDLE, Promise(UP, UP, UP, DOWN), EXPLAINED, assumed=True).verdict == "leave"


@pytest.mark.parametrize("obstacle", ["unknown_class", "no_information", "columns_swapped"])
def test_an_obstacle_is_never_adapted_over(obstacle):
    found = rule(HELPS, HELPS, EXPLAINED, measured={"adapt": UP}, obstacle=obstacle)
    assert found[:3] == ("unclear", "none", obstacle)


def test_verdicts_scale_with_the_goal():
    """Costs ten times as large, and a point worth ten times as much: the same verdicts."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        gains = rng.normal(0, 0.03, (2, 4)), rng.gamma(1, 0.02, (2, 4))
        kind = Kind(rng.uniform(0.5, 1), 0.7, 1.0, rng.uniform(1, 3))

        def scaled(factor, gains=gains):
            return (
                Promise(*map(Gain, factor * mean, factor * error))
                for mean, error in zip(*gains, strict=True)
            )

        labels = {"adapt": Gain(0.02, 0.02)} if rng.random() < 0.5 else None
        ten = labels and {"adapt": Gain(0.2, 0.2)}
        one = rule(*scaled(1.0), kind, measured=labels)
        assert one[:3] == rule(*scaled(10.0), kind, measured=ten, worth=10 * WORTH)[:3]


def test_a_reading_is_the_mixture_of_two():
    """Mean and variance of a gain that is drawn from either reading."""
    promise = Promise(NONE, Gain(-0.02, 0.03), NONE, Gain(0.06, 0.01))
    for weight in (0.0, 0.3, 1.0):
        means, errors = np.array([promise.covariate, promise.prior]).T
        mean = np.average(means, weights=[1 - weight, weight])
        second = np.average(errors**2 + means**2, weights=[1 - weight, weight])
        found = promise.read(weight, 0.02)
        assert found.mean == pytest.approx(mean)
        assert found.error == pytest.approx(np.sqrt(second - mean**2 + 0.02**2))


def test_the_users_word_and_no_shift():
    assert rule(IDLE, IDLE, HALF, assumed=True, shifted=False).why == "no_shift"
    assert rule(IDLE, IDLE, HALF, assumed=True, shifted=True).why == "assumed_leave"
    assert rule(IDLE, HINGES, HALF, assumed=True, shifted=False).action == "adapt"


def test_calibrating_comes_first_only_if_adapting_may_gain_much_more():
    unsure = EXPLAINED._replace(amplification=5.0)

    def why(least, kind=unsure):
        return rule(HELPS, Promise(DOWN, DOWN, UP, Gain(least + CAUTION * 0.01, 0.01)), kind).why

    assert why(UP.mean + WORTH + 1e-9) == "calibrate_first"
    assert why(UP.mean + WORTH - 1e-9) == "calibrate"
    assert why(0.3, HALF) == "calibrate"  # prior shift is ruled out


@pytest.mark.parametrize(
    ("mean", "error", "shifted", "expected"),
    [
        (0.05, 0.01, True, ("adapt", "adapt", "helps")),
        (0.05, 0.01, False, ("adapt", "adapt", "helps")),
        (0.005, 0.001, True, ("adapt", "adapt", "helps")),
        (0.005, 0.001, False, ("leave", "none", "no_shift")),
        (-0.05, 0.01, True, ("leave", "none", "no_gain")),
        (0.0, 0.9 * WORTH / SURE, True, ("leave", "none", "no_gain")),
        (0.0, 1.1 * WORTH / SURE, True, ("unclear", "none", "unsure")),
        (0.02, 0.05, True, ("unclear", "none", "unsure")),
    ],
)
def test_a_gain_under_prior_shift(mean, error, shifted, expected):
    assert judge_gain(Gain(mean, error), shifted=shifted)[:3] == expected


@pytest.mark.parametrize(("mean", "verdict"), [(0.12 * WORTH, "adapt"), (0.08 * WORTH, "leave")])
def test_a_sure_gain_of_next_to_nothing_changes_nothing(mean, verdict):
    gains = {"adapt": Gain(-0.1, 0.01), "calibrate": Gain(mean, 1e-6)}
    assert take_best(gains, CAUTION, "labels", WORTH).verdict == verdict
