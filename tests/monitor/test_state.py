"""Saved and restored: the same to the last bit, or a clear refusal."""

import copy
import dataclasses
import json
import os
import re
import stat

import numpy as np
import pytest

import priorshift as ps
from priorshift.files import array_from_json, array_to_json, sign, verify, write_json
from priorshift.monitor import PriorMonitor

SAVED = [name for name in ps.available_estimators() if ps.get_estimator(name).fit_is_counts]

OF_COUNTS = {"cm", "scm", "cm-l", "scm-l", "cm-m", "scm-m", "bbse", "bbse-s", "rlls"}

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


def test_methods_of_counts_are_saved():
    assert set(SAVED) >= OF_COUNTS


@pytest.mark.parametrize("name", SAVED)
def test_a_restored_monitor_goes_on_bit_by_bit(name, simulate, rng, tmp_path):
    monitor, draw = begun(simulate, rng, ps.get_estimator(name))
    assert monitor.save(tmp_path / "state.json") == tmp_path / "state.json"
    other = PriorMonitor.load(tmp_path / "state.json")
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
    ],
    ids=["default", "priors"],
)
@pytest.mark.parametrize("estimator", [None, ps.SCMM(alpha=np.array([1.0, 2.0, 3.0])), ps.CML()])
def test_parameters_and_sources_survive(given, estimator, simulate, rng, tmp_path):
    parameters = {"online": "exponential", "window": 20, "half_life": 9.0}
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
    monitor.save(tmp_path / "a.json")
    other = PriorMonitor.load(tmp_path / "a.json")
    assert other.alarm_
    for one in (monitor, other):
        one.acknowledge()
    batch = draw()
    monitor.update(batch)
    other.update(batch)
    again = PriorMonitor.load(other.save(tmp_path / "b.json"))
    for _ in range(5):
        batch = draw()
        assert_same(monitor.update(batch), again.update(batch))


def test_a_monitor_without_batches_is_saved_too(simulate, rng, tmp_path):
    monitor, draw = begun(simulate, rng, n_batches=0)
    other = PriorMonitor.load(monitor.save(tmp_path / "state.json"))
    batch = draw()
    assert_same(monitor.update(batch), other.update(batch))


def contents(path):
    return verify(json.loads(path.read_text()))


def rewrite(path, content):
    """Write a file by hand, with a true checksum."""
    path.write_text(write_json(sign(content)))


def is_array(value):
    return isinstance(value, dict) and set(value) == {"dtype", "shape", "bytes"}


def leaves(value, path=()):
    """Yield the paths to all values of a nested document; an array is one value."""
    yield path
    if isinstance(value, dict | list) and not is_array(value):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def arrays_of(content):
    return [path for path in leaves(content) if is_array(at(content, path))]


def edited(content, path, value):
    content = copy.deepcopy(content)
    at(content, path[:-1])[path[-1]] = value
    return content


def test_other_versions_are_refused(simulate, rng, tmp_path):
    monitor, _ = begun(simulate, rng)
    path = monitor.save(tmp_path / "state.json")
    rewrite(path, contents(path) | {"version": 99, "priorshift_version": "7.0"})
    with pytest.raises(
        ValueError, match=r"version 99, written by priorshift 7\.0.*reads version 4"
    ):
        PriorMonitor.load(path)


def test_a_file_without_checksum_is_refused_whatever_version_it_names(simulate, rng, tmp_path):
    monitor, _ = begun(simulate, rng)
    path = monitor.save(tmp_path / "state.json")
    document = json.loads(path.read_text())
    del document["checksum"]
    for version in (0, 1, 2):
        path.write_text(json.dumps(document | {"version": version}))
        with pytest.raises(ValueError, match="damaged or was edited: it has no checksum"):
            PriorMonitor.load(path)


@pytest.mark.skipif(os.name != "posix", reason="needs links and modes")
def test_links_are_not_followed(simulate, rng, tmp_path):
    monitor, _ = begun(simulate, rng)
    path, link = monitor.save(tmp_path / "state.json"), tmp_path / "link.json"
    link.symlink_to(path)
    before = path.read_bytes()
    monitor.acknowledge()
    for act in (monitor.save, PriorMonitor.load):
        with pytest.raises(ValueError, match="is a link, which is not followed"):
            act(link)
    assert path.read_bytes() == before
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="is a pipe or a device"):
        PriorMonitor.load(tmp_path / "pipe")
    with pytest.raises(ValueError, match="is a folder"):
        PriorMonitor.load(tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="needs links and modes")
@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_the_mode_of_a_state_is_kept(mode, simulate, rng, tmp_path):
    monitor, _ = begun(simulate, rng)
    path = monitor.save(tmp_path / "state.json")
    path.chmod(mode)
    monitor.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_files_that_are_no_monitor_are_refused(tmp_path):
    path = tmp_path / "other.npz"
    np.savez(path, y_proba=np.eye(2))
    with pytest.raises(ValueError, match="is not a saved monitor"):
        PriorMonitor.load(path)
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match="is not a saved monitor"):
        PriorMonitor.load(path)
    path.write_text("[" * 100_000)
    with pytest.raises(ValueError, match="is not a saved monitor"):
        PriorMonitor.load(path)
    with pytest.raises(FileNotFoundError):
        PriorMonitor.load(tmp_path / "none.json")


def test_entries_that_are_no_arrays_are_refused(simulate, rng, tmp_path):
    """The document is signed, and each of its arrays in turn is something else."""
    monitor, _ = begun(simulate, rng)
    path = monitor.save(tmp_path / "state.json")
    content = contents(path)
    broken = [None, "no array", {}, {"dtype": "O", "shape": [1], "bytes": "AAAAAAAAAAA="}]
    broken += [{"dtype": "<f8", "shape": [2**60], "bytes": ""}, {"dtype": "<f8", "shape": 3}]
    for number, array in enumerate(arrays_of(content)):
        rewrite(path, edited(content, array, broken[number % len(broken)]))
        with pytest.raises(ValueError, match=re.escape(str(path))):
            PriorMonitor.load(path)


def test_damaged_files_are_refused_or_say_the_same(simulate, rng, tmp_path):
    monitor, _ = begun(simulate, rng)
    path = monitor.save(tmp_path / "state.json")
    whole, said = path.read_bytes(), contents(path)
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole[: rng.integers(len(whole)) if rng.random() < 0.2 else None])
        for at in rng.integers(len(damaged), size=rng.integers(1, 4)) if damaged else ():
            damaged[at] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            found = PriorMonitor.load(path)
        except ValueError as error:
            assert re.search("not a saved monitor|damaged", str(error))  # noqa: PT017
            refused += 1
        else:  # blanks are not looked at
            found.save(path)
            np.testing.assert_equal(contents(path), said)
    assert refused > 180


ODD_VALUES = [None, True, -1, 0, 1e308, 10**30, "", "x", [], {}, [[1]], -0.5]
ODD_NUMBERS = [np.nan, np.inf, -1, 0, 1e308, 5e-324]


def spoiled(content, rng):
    """Spoil one array in one of many ways, or leave it out."""
    paths = arrays_of(content)
    path = paths[rng.integers(len(paths))]
    array = array_from_json(at(content, path)).copy()
    way = rng.integers(5)
    if way == 0 and array.size and array.dtype.kind == "f":
        array.flat[rng.integers(array.size)] = rng.choice(ODD_NUMBERS)
    elif way == 1 and array.size and array.dtype.kind == "i":
        array.flat[rng.integers(array.size)] = rng.choice([-1, 0, 3, 2**62])
    elif way == 2:
        array = array[..., :-1] if array.ndim else array[None]
    elif way == 3:
        array = np.zeros(array.shape, rng.choice(["U4", "f2", "i1", "M8[D]", "f8", "?"]))
    else:
        content = copy.deepcopy(content)
        del at(content, path[:-1])[path[-1]]
        return content
    return edited(content, path, array_to_json(array))


def assert_sound(path, batch):
    """A monitor is refused in a sentence, or goes on to finite numbers."""
    try:
        monitor = PriorMonitor.load(path)
    except ValueError as error:
        assert str(path) in str(error)  # noqa: PT017
        return 0
    step = monitor.update(batch)
    assert np.isfinite(step.priors).all()
    assert np.isfinite([step.log_e_value, step.p_value]).all()
    assert monitor.history.to_frame() is not None
    monitor.acknowledge()
    return 1


@pytest.mark.filterwarnings("ignore::priorshift.PriorShiftWarning")
@pytest.mark.filterwarnings("ignore::priorshift.ConvergenceWarning")
@pytest.mark.parametrize("n_batches", [0, 7])
def test_edited_files_are_refused_or_sound(n_batches, simulate, rng, tmp_path):
    monitor, draw = begun(simulate, rng, n_batches=n_batches)
    path, batch = monitor.save(tmp_path / "state.json"), draw()
    content, sound = contents(path), 0
    for leaf in list(leaves(content))[1:]:
        value = ODD_VALUES[rng.integers(len(ODD_VALUES))]
        rewrite(path, edited(content, leaf, value))
        sound += assert_sound(path, batch)
    for _ in range(60):
        rewrite(path, spoiled(content, rng))
        sound += assert_sound(path, batch)
    assert sound  # that some edits do no harm shows that not all is refused


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (
            ("estimator", "arrays", "soft.class_weights"),
            array_to_json(np.array([5e-324, 100, 100])),
        ),
        (("estimator", "arrays", "soft.counts"), array_to_json(np.ones(3))),
        (("estimator", "counts"), []),
    ],
)
def test_fits_that_would_overflow_or_not_fit_are_refused(path, value, simulate, rng, tmp_path):
    monitor, _ = begun(simulate, rng)
    file = monitor.save(tmp_path / "state.json")
    rewrite(file, edited(contents(file), path, value))
    with pytest.raises(ValueError, match="is not a whole monitor"):
        PriorMonitor.load(file)


def test_what_could_not_be_read_again_is_not_written(simulate, rng, tmp_path):
    monitor, _ = begun(simulate, rng)
    monitor._alarm = dataclasses.replace(monitor._alarm, largest=np.inf)
    with pytest.raises(ValueError, match=r"cannot be saved: 'alarm\.largest' is not a finite"):
        monitor.save(tmp_path / "state.json")
    assert not list(tmp_path.iterdir())


def test_a_failed_save_leaves_the_old_file(simulate, rng, tmp_path, monkeypatch):
    monitor, draw = begun(simulate, rng)
    path = monitor.save(tmp_path / "state.json")
    before = path.read_bytes()
    monitor.update(draw())

    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        monitor.save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["state.json"]


def test_methods_that_are_more_than_counts_cannot_be_saved(simulate, rng, tmp_path):
    monitor, _ = begun(simulate, rng, ps.ShrunkSCML())
    with pytest.raises(ValueError, match=r"ShrunkSCML cannot be saved.*such as SCM-L"):
        monitor.save(tmp_path / "state.json")


@pytest.mark.filterwarnings("ignore::priorshift.PriorShiftWarning")
def test_a_fit_of_numbers_too_small_to_divide_by_is_not_written(rng, tmp_path):
    y = rng.permutation(np.arange(300) % 3)
    y_proba = 0.7 * np.eye(3)[y] + 0.1
    y_proba[:, 2] = 1e-301
    y_proba /= y_proba.sum(axis=1, keepdims=True)
    monitor = PriorMonitor(ps.BBSE()).fit(y_proba, y)
    with pytest.raises(ValueError, match=r"cannot be saved: '.* that are 0 or at least"):
        monitor.save(tmp_path / "state.json")


@pytest.mark.parametrize("names", [[-1, 1, 3], [2.0**60, -0.5, 7.0]])
def test_names_of_classes_may_be_any_numbers(names, simulate, rng, tmp_path):
    y_proba, y = simulate(3).draw(SOURCE, 300, rng)
    monitor = PriorMonitor().fit(y_proba, np.array(names)[y], classes=names)
    monitor.update(y_proba)
    file = monitor.save(tmp_path / "state.json")
    assert PriorMonitor.load(file).history.classes.tolist() == names
    rewrite(file, edited(contents(file), ("history", "classes"), array_to_json(np.arange(3))))
    with pytest.raises(ValueError, match="is not a whole monitor"):
        PriorMonitor.load(file)


@pytest.mark.parametrize("half_life", [np.int64(3), np.float32(2.5)])
def test_parameters_may_be_numbers_of_numpy(half_life, simulate, rng, tmp_path):
    monitor, draw = begun(simulate, rng, online="exponential", half_life=half_life)
    other = PriorMonitor.load(monitor.save(tmp_path / "state.json"))
    batch = draw()
    assert_same(monitor.update(batch), other.update(batch))
