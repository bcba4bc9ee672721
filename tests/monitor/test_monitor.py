"""PriorMonitor: estimates, steps, history, and what it refuses."""

import pickle
from datetime import date
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import priorshift as ps
from priorshift.monitor import PriorMonitor, _monitor, describe
from priorshift.report import render_monitor_report

SOURCE, TARGET = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
CLASSES = ["ant", "bee", "cow"]


@pytest.fixture
def world(simulate, rng):
    simulation = simulate(3)

    def draw(priors, n):
        return simulation.draw(priors, n, rng)

    return draw


@pytest.fixture
def validation(world):
    y_proba, y = world(SOURCE, 800)
    return y_proba, np.array(CLASSES)[y]


def fitted(validation, estimator=None, **parameters):
    return PriorMonitor(estimator, **parameters).fit(*validation, classes=CLASSES)


def test_a_shift_is_followed_and_an_alarm_raised_once(world, validation):
    monitor = fitted(validation, random_state=0)
    steps = [monitor.update(world(SOURCE, 200)[0], time=t) for t in range(10)]
    assert not any(step.alarm for step in steps)
    np.testing.assert_allclose(steps[-1].priors, SOURCE, atol=0.06)
    steps = [monitor.update(world(TARGET, 200)[0], time=t) for t in range(10, 20)]
    assert sum(step.raised for step in steps) == 1
    assert steps[-1].alarm
    assert monitor.alarm_
    assert steps[-1].p_value <= 0.05
    np.testing.assert_allclose(steps[-1].priors, TARGET, atol=0.06)
    assert "alarm" in repr(steps[-1])


@pytest.mark.parametrize("name", ["scm-l", "cm-l", "scm-m", "rlls"])
def test_a_window_of_everything_is_one_estimate_of_all_rows(name, world, validation):
    batches = [world(TARGET, n)[0] for n in (30, 80, 50)]
    estimator = ps.get_estimator(name)
    monitor = fitted(validation, estimator, online="window", window=3)
    for batch in batches:
        step = monitor.update(batch)
    whole = estimator.fit(*validation, classes=CLASSES).estimate(np.concatenate(batches))
    np.testing.assert_allclose(step.priors, whole.priors, atol=1e-9)
    assert step.estimate.n_target == 160
    assert step.estimate.status == whole.status


def test_a_batch_is_adapted_to_the_estimate_of_its_step(world, validation):
    monitor, batch = fitted(validation), world(TARGET, 60)[0]
    step = monitor.update(batch)
    expected = ps.adapt_proba(batch, monitor.source_priors_, step.priors)
    np.testing.assert_allclose(step.y_proba, expected)
    assert monitor.update(batch, adapt=False).y_proba is None


def test_any_way_can_be_asked_for_at_any_time(world, validation):
    batches = [world(TARGET, 100)[0] for _ in range(6)]
    monitors = {way: fitted(validation, online=way, window=2, half_life=1.0) for way in (
        "flh-ftl", "window", "exponential"
    )}  # fmt: skip
    for monitor in monitors.values():
        for batch in batches:
            step = monitor.update(batch)
        for way, other in monitors.items():
            if other.n_batches_ == monitor.n_batches_:
                np.testing.assert_array_equal(monitor.estimate(way).priors, other.estimate().priors)
        np.testing.assert_array_equal(monitor.estimate().priors, step.priors)


def test_binary_frames_and_names_are_understood(rng):
    y = rng.integers(2, size=300)
    p = np.clip(0.7 * y + 0.15 + 0.1 * rng.standard_normal(300), 0, 1)
    monitor = PriorMonitor().fit(p, y)
    assert monitor.update(p[:50]).y_proba.shape == (50,)
    frame = pd.DataFrame({"no": 1 - p, "yes": p})
    named = PriorMonitor().fit(frame, np.array(["no", "yes"])[y])
    one = named.update(frame[["yes", "no"]].head(50))
    np.testing.assert_array_equal(one.priors, monitor.estimate().priors)


def test_history_is_what_the_steps_were(world, validation, monkeypatch):
    monkeypatch.setattr(_monitor, "MAX_HISTORY", 4)
    monitor = fitted(validation)
    steps = [monitor.update(world(SOURCE, 50)[0], time=date(2026, 1, t + 1)) for t in range(6)]
    history = monitor.history
    assert len(history) == 4
    assert history.index.tolist() == [2, 3, 4, 5]
    assert history.time == ("2026-01-03", "2026-01-04", "2026-01-05", "2026-01-06")
    np.testing.assert_array_equal(history.priors, [step.priors for step in steps[2:]])
    frame = history.to_frame()
    np.testing.assert_array_equal(frame["prior:bee"], history.priors[:, 1])
    expected = 0.5 * np.abs(history.priors - monitor.source_priors_).sum(axis=1)
    np.testing.assert_array_equal(frame["total_variation"], expected)
    assert history.to_frame("polars").shape == frame.shape
    assert "4 steps of 200 rows" in repr(history)


def test_a_step_goes_into_json(world, validation):
    step = fitted(validation).update(world(SOURCE, 50)[0], time=np.datetime64("2026-01-01"))
    found = step.to_dict()
    assert list(found["priors"]) == CLASSES
    assert found["time"] == "2026-01-01"
    assert found["alarm"] is False
    assert found["n_samples"] == 50


def test_acknowledging_ends_the_alarm_and_keeps_the_estimate(world, validation):
    monitor = fitted(validation, random_state=1)
    for _ in range(12):
        step = monitor.update(world(TARGET, 200)[0])
    assert step.alarm
    before = monitor.estimate().priors
    assert monitor.acknowledge() is monitor
    assert not monitor.alarm_
    np.testing.assert_array_equal(monitor.estimate().priors, before)
    for _ in range(10):
        step = monitor.update(world(TARGET, 200)[0])
    assert not step.alarm
    for _ in range(4):
        step = monitor.update(world(SOURCE, 200)[0])
    assert step.alarm


def test_validation_says_what_is_normal(world):
    monitor = PriorMonitor(random_state=0).fit(*world(np.full(3, 1 / 3), 3000))
    for _ in range(15):
        monitor.update(world(SOURCE, 200)[0])
    assert monitor.alarm_


def test_few_rows_of_validation_are_warned_of(world):
    with pytest.warns(UserWarning, match="alarms rest on 40 validation rows"):
        PriorMonitor(random_state=0).fit(*world(SOURCE, 40))


def test_alarms_count_decisions_on_validation_however_they_are_given(world):
    (y_proba, y), batch = world(SOURCE, 300), world(TARGET, 100)[0]
    by_proba = PriorMonitor(ps.CML(), random_state=0).fit(y_proba, y).update(batch)
    decided = PriorMonitor(ps.CML(), random_state=0).fit(y_pred=y_proba.argmax(axis=1), y=y)
    assert by_proba.log_e_value == decided.update(y_pred=batch.argmax(axis=1)).log_e_value


def test_the_same_seed_gives_the_same_evidence(world, validation):
    batch = world(SOURCE, 100)[0]
    values = [fitted(validation, random_state=7).update(batch).log_e_value for _ in range(2)]
    assert values[0] == values[1]
    other = fitted(validation, random_state=np.random.default_rng(8)).update(batch)
    assert other.log_e_value != values[0]


def test_it_is_an_estimator_of_scikit_learn(validation):
    monitor = PriorMonitor(ps.CML(tol=1e-5), window=3)
    assert monitor.get_params()["estimator__tol"] == 1e-5
    copy = clone(monitor).set_params(window=4)
    assert copy.window == 4
    with pytest.raises(NotFittedError):
        copy.update(validation[0])
    copy.fit(*validation)
    assert not hasattr(monitor.estimator, "classes_")
    assert copy.n_features_in_ == 3


def test_a_batch_that_is_refused_changes_nothing(world, validation):
    monitor = fitted(validation, random_state=0)
    first, second = world(SOURCE, 100)[0], world(SOURCE, 100)[0]
    twin = fitted(validation, random_state=0)
    for one in (monitor, twin):
        one.update(first)
    with pytest.raises(ValueError, match="NaN"):
        monitor.update(np.full((4, 3), np.nan))
    with pytest.raises(ValueError, match="time must be"):
        monitor.update(second, time=object())
    one, other = monitor.update(second), twin.update(second)
    assert one.to_dict() == other.to_dict()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"online": "never"}, "online must be one of"),
        ({"window": 0}, "window must be a whole number"),
        ({"half_life": -1}, "half_life must be a finite number above 0"),
        ({"alarm_level": 1}, "alarm_level must be above 0 and below 1"),
    ],
)
def test_bad_parameters_are_refused(parameters, message, validation):
    with pytest.raises(ValueError, match=message):
        fitted(validation, **parameters)


def test_methods_that_need_rows_are_refused(validation):
    with pytest.raises(ValueError, match="EM needs the rows of the target"):
        fitted(validation, ps.EM())


def test_a_class_that_validation_lacks_is_refused(validation):
    y_proba, y = validation
    keep = y != "cow"
    with pytest.raises(ValueError, match=r"no sample of class 'cow'.*add validation samples"):
        PriorMonitor().fit(y_proba[keep], y[keep], classes=CLASSES)


def test_an_estimate_needs_a_batch(validation):
    with pytest.raises(ValueError, match="there is no batch yet"):
        fitted(validation).estimate()


@pytest.mark.parametrize(("p_value", "said"), [(0.034, "p = 0.034"), (0.0, "p < 1e-300")])
def test_a_p_value_is_never_written_as_zero(p_value, said):
    step = SimpleNamespace(raised=True, alarm=True, p_value=p_value)
    assert describe(step) == f"alarm, {said}"


# Known error rates instead of validation


RATES = {
    "exact": ps.Confusion.from_rates(sensitivity=0.9, specificity=0.95),
    "measured": ps.Confusion.from_rates(
        sensitivity=0.9, specificity=0.95, n_positive=100, n_negative=200
    ),
    "counts": ps.Confusion.from_counts([[190, 10], [10, 90]], classes=["well", "ill"]),
}


def results(share, n, rng):
    """Return results of a test with these rates, as positions."""
    ill = rng.random(n) < share
    return (rng.random(n) < np.where(ill, 0.9, 0.05)).astype(int)


@pytest.mark.parametrize("known", list(RATES))
def test_known_rates_take_the_place_of_validation(known, tmp_path):
    rng = np.random.default_rng(3)
    confusion = RATES[known]
    monitor = ps.PriorMonitor(online="exponential", half_life=1, random_state=0)
    monitor.fit(confusion=confusion)
    assert monitor.source_priors_ is None
    names = monitor.classes_
    path = tmp_path / "monitor.npz"
    for day in range(12):
        batch = results(0.05 if day < 6 else 0.4, 300, rng)
        step = monitor.update(y_pred=names[batch], time=day)
        if day == 7:
            again = ps.PriorMonitor.load(monitor.save(path))
    assert step.alarm
    raised = np.flatnonzero(monitor.history.raised)
    assert raised.size == 1
    assert raised[0] >= 6  # the stream is compared with its own past
    assert step.priors[1] == pytest.approx(0.4, abs=0.1)
    assert "total_variation" not in monitor.history.to_frame().columns
    # the saved one continues exactly where it was, and knows as little of the source
    assert again.source_priors_ is None
    assert again.estimate().source_priors is None
    assert again.history.priors.tolist() == monitor.history.priors[:8].tolist()
    rng = np.random.default_rng(3)
    batches = [results(0.05 if day < 6 else 0.4, 300, rng) for day in range(12)]
    for batch in batches[8:]:
        last = again.update(y_pred=names[batch])
    assert last.priors.tolist() == step.priors.tolist()
    assert last.log_e_value == step.log_e_value


def test_known_rates_and_source_priors_adapt_batches():
    y_proba = np.array([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.8, 0.2]])
    given = {"confusion": RATES["exact"]}
    monitor = ps.PriorMonitor().fit(**given)
    assert monitor.update(y_proba).y_proba is None  # nothing says what to adapt from
    monitor = ps.PriorMonitor().fit(**given, source_priors=[0.5, 0.5])
    step = monitor.update(y_proba)
    expected = ps.adapt_proba(y_proba, [0.5, 0.5], step.priors)
    np.testing.assert_allclose(step.y_proba, expected)


def test_a_monitor_of_known_rates_says_what_it_cannot_use():
    known = RATES["exact"]
    with pytest.raises(ValueError, match="takes the place of a validation set; leave out y_proba"):
        ps.PriorMonitor().fit([[0.5, 0.5]], confusion=known)
    with pytest.raises(ValueError, match="needs predicted probabilities"):
        ps.PriorMonitor(ps.SCML()).fit(confusion=known)
    monitor = ps.PriorMonitor().fit(confusion=known)
    monitor.update(y_pred=[0, 1, 0])
    with pytest.raises(ValueError, match="give source_priors to the monitor's fit"):
        render_monitor_report(monitor)
    figure = ps.plotting.MonitorDisplay.from_monitor(monitor)
    assert "total variation" not in figure.summary()
    assert figure.ax_.get_ylim()[1] > 0


def test_a_batch_has_an_estimate_of_its_own(world, validation):
    """The followed shares lag behind a change; those of the batch alone do not."""
    monitor = fitted(validation, online="window", window=10)
    for _ in range(9):
        monitor.update(world(SOURCE, 400)[0])
    batch = world(TARGET, 400)[0]
    step = monitor.update(batch)
    alone = monitor.estimator_.estimate(batch)
    np.testing.assert_allclose(step.own_priors, alone.priors, atol=1e-6)
    np.testing.assert_allclose(monitor.history.own_priors[-1], step.own_priors, atol=1e-6)
    lag, own = (np.abs(one - TARGET).sum() for one in (step.priors, step.own_priors))
    assert lag > 2 * own
    assert step.to_dict()["own_priors"]["bee"] == step.own_priors[1]
    in_frame = monitor.history.to_frame()["own_prior:bee"].iloc[-1]
    assert in_frame == monitor.history.own_priors[-1, 1]


@pytest.mark.parametrize("method", [ps.SCML, ps.CML, ps.CM, ps.BBSE])
def test_estimates_of_batches_alone_wait_until_somebody_asks(world, validation, method):
    """Each update solves once; what is asked for later is what `estimate_counts` would say."""
    monitor = fitted(validation, estimator=method())
    batches = [world(SOURCE, 300)[0] for _ in range(4)]
    solved, original = [], monitor.estimator_.estimate_counts
    monitor.estimator_.estimate_counts = lambda counts: solved.append(counts) or original(counts)
    steps = [monitor.update(batch) for batch in batches]
    assert len(solved) == len(steps)
    decision = monitor.estimator_.confusion_.decision
    expected = [
        original(ps.DecisionCounts.from_arrays(batch, decision=decision)).priors
        for batch in batches
    ]
    np.testing.assert_array_equal(steps[1].own_priors, expected[1])
    found = monitor.history.own_priors
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_array_equal(monitor.history.own_priors, found)
    assert len(solved) == len(steps) + 1  # those of a history are solved together
    del monitor.estimator_.estimate_counts
    kept = pickle.loads(pickle.dumps(steps[2]))
    np.testing.assert_array_equal(kept.own_priors, expected[2])
    assert kept._solve_own is None  # it holds the rows of validation


def test_a_batch_that_says_nothing_alone_is_refused_at_once():
    """Not later, when the history could no longer be read."""
    y_pred, y = np.repeat([0, 1, 0, 1], [800, 200, 200, 800]), np.repeat([0, 1, 2], [950, 950, 100])
    monitor = PriorMonitor().fit(y_pred=y_pred, y=y, classes=[0, 1, 2])
    monitor.update(y_pred=[0, 1, 0])
    refused = pytest.raises(ValueError, match="none of the target's decisions ever occurs")
    with pytest.warns(ps.PriorShiftWarning, match="are left out of the likelihood"), refused:
        monitor.update(y_pred=[2, 2])
    assert monitor.n_batches_ == 1
    assert monitor.history.own_priors.shape == (1, 3)
