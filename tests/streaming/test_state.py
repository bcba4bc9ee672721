"""Saved and restored: the same to the last bit, or a clear refusal."""

import json

import numpy as np
import pytest

import priorshift as ps
from priorshift.streaming import PriorMonitor
from priorshift.streaming._saved_estimator import SAVED

SOURCE, TARGET = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])


def begun(simulate, rng, estimator=None, n_batches=7, given=None, **parameters):
    world = simulate(3)
    y_proba, y = world.draw(SOURCE, 500, rng)
    monitor = PriorMonitor(estimator, random_state=3, **parameters)
    monitor.fit(y_proba, np.array(["a", "b", "c"])[y], **(given or {}))
    for t in range(n_batches):
        monitor.update(world.draw(TARGET if t > 3 else SOURCE, 90, rng)[0], time=f"day {t}")
    return monitor, lambda: world.draw(TARGET, 80, rng)[0]


def assert_same(one, other):
    assert one.to_dict() == other.to_dict()
    np.testing.assert_array_equal(one.y_proba, other.y_proba)


@pytest.mark.parametrize("name", SAVED)
def test_a_restored_monitor_goes_on_bit_by_bit(name, simulate, rng, tmp_path):
    monitor, draw = begun(simulate, rng, ps.get_estimator(name))
    assert monitor.save(tmp_path / "state.npz") == tmp_path / "state.npz"
    other = PriorMonitor.load(tmp_path / "state.npz")
    assert other.history.to_frame().equals(monitor.history.to_frame())
    for _ in range(12):
        batch = draw()
        assert_same(monitor.update(batch), other.update(batch))
    for way in ("flh-ftl", "window", "exponential"):
        one, two = monitor.estimate(way), other.estimate(way)
        np.testing.assert_array_equal(one.priors, two.priors)
        assert one.to_dict() == two.to_dict()


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"source_priors": [0.45, 0.33, 0.22]},
        {"source_label_priors": {"a": 0.1, "b": 0.2, "c": 0.7}},
    ],
    ids=["default", "priors", "labels"],
)
@pytest.mark.parametrize("estimator", [None, ps.SCMM(alpha=np.array([1.0, 2.0, 3.0])), ps.CML()])
def test_parameters_and_sources_survive(given, estimator, simulate, rng, tmp_path):
    parameters = {"online": "exponential", "window": 200, "half_life": 90, "unit": "rows"}
    monitor, draw = begun(simulate, rng, estimator, given=given, **parameters)
    other = PriorMonitor.load(monitor.save(tmp_path / "state"))
    assert {k: v for k, v in other.get_params(deep=False).items() if k in parameters} == parameters
    np.testing.assert_array_equal(other.source_priors_, monitor.source_priors_)
    assert other.estimator_.source_priors_from_ == monitor.estimator_.source_priors_from_
    batch = draw()
    assert_same(monitor.update(batch), other.update(batch))


def test_alarms_and_acknowledgements_survive(simulate, rng, tmp_path):
    monitor, draw = begun(simulate, rng, n_batches=20)
    assert monitor.alarm_
    monitor.save(tmp_path / "a.npz")
    other = PriorMonitor.load(tmp_path / "a.npz")
    assert other.alarm_
    for one in (monitor, other):
        one.acknowledge()
    batch = draw()
    monitor.update(batch)
    other.update(batch)
    again = PriorMonitor.load(other.save(tmp_path / "b.npz"))
    for _ in range(5):
        batch = draw()
        assert_same(monitor.update(batch), again.update(batch))


def test_a_monitor_without_batches_is_saved_too(simulate, rng, tmp_path):
    monitor, draw = begun(simulate, rng, n_batches=0)
    other = PriorMonitor.load(monitor.save(tmp_path / "state.npz"))
    batch = draw()
    assert_same(monitor.update(batch), other.update(batch))


def rewrite(path, **changes):
    with np.load(path) as archive:
        arrays = dict(archive)
    header = json.loads(str(arrays["header"]))
    arrays["header"] = np.array(json.dumps({**header, **changes}))
    np.savez(path, **arrays)


def test_other_versions_are_refused(simulate, rng, tmp_path):
    monitor, _ = begun(simulate, rng)
    path = monitor.save(tmp_path / "state.npz")
    rewrite(path, version=99, priorshift_version="7.0")
    with pytest.raises(
        ValueError, match=r"version 99, written by priorshift 7\.0.*reads version 1"
    ):
        PriorMonitor.load(path)


def test_files_that_are_no_monitor_are_refused(simulate, rng, tmp_path):
    path = tmp_path / "other.npz"
    np.savez(path, y_proba=np.eye(2))
    with pytest.raises(ValueError, match="is not a saved monitor"):
        PriorMonitor.load(path)
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match="is not a saved monitor"):
        PriorMonitor.load(path)
    np.savez(path, header=np.array([{"format": "priorshift monitor"}], dtype=object))
    with pytest.raises(ValueError, match="is not a saved monitor"):
        PriorMonitor.load(path)
    monitor, _ = begun(simulate, rng)
    monitor.save(path)
    rewrite(path, alarm={})
    with pytest.raises(ValueError, match="is not a whole monitor"):
        PriorMonitor.load(path)


def test_a_failed_save_leaves_the_old_file(simulate, rng, tmp_path, monkeypatch):
    monitor, draw = begun(simulate, rng)
    path = monitor.save(tmp_path / "state.npz")
    before = path.read_bytes()
    monitor.update(draw())

    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match="disk full"):
        monitor.save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["state.npz"]


def test_methods_that_are_more_than_counts_cannot_be_saved(simulate, rng, tmp_path):
    monitor, _ = begun(simulate, rng, ps.ShrunkSCML())
    with pytest.raises(ValueError, match=r"ShrunkSCML cannot be saved.*Use one of cm, scm"):
        monitor.save(tmp_path / "state.npz")
