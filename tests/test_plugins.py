"""A subclass of every method works wherever the method itself does, and says the same."""

import re
import warnings

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.sparse import csr_array

import priorshift as ps
from priorshift.cli import main
from priorshift.compare import compare
from priorshift.estimators import registry
from priorshift.solvers import Solution
from tests.methods import ROADS

K = 3


@pytest.fixture(params=ROADS)
def pair(request, monkeypatch):
    """The class of a method, and a stranger's subclass of it that changes nothing but the name."""
    monkeypatch.setattr(registry, "_ESTIMATORS", dict(registry._ESTIMATORS))
    parent = type(ps.get_estimator(request.param))
    plugin = type("Plugged", (parent,), {"name": f"plugged-{parent.name}"})
    return parent, ps.register_estimator(plugin)


@pytest.fixture
def data(simulate):
    """Validation and target rows of one classifier."""
    rng, world = np.random.default_rng(0), simulate(K)
    y_proba_val, y_val = world.draw(np.array([0.4, 0.4, 0.2]), 150, rng)
    y_proba, y = world.draw(np.array([0.2, 0.3, 0.5]), 120, rng)
    return {"y_proba_val": y_proba_val, "y_val": y_val, "y_proba": y_proba, "y": y}


def outcome(call, *arguments):
    """Return what a call gives, or the message of its ValueError, with one name for the class."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            return call(*arguments)
        except ValueError as error:
            return str(error)


def unnamed(text, parent):
    """Return text with the names of the subclass replaced by those of its parent."""
    return text.replace("Plugged", parent.__name__).replace("plugged-", "")


def assert_same(pair, call):
    """Let parent and subclass do the same, and compare arrays, or what both refuse with."""
    parent, plugin = pair
    theirs, mine = outcome(call, parent), outcome(call, plugin)
    if isinstance(theirs, str):
        assert isinstance(mine, str), theirs
        assert unnamed(mine, parent) == theirs
        return None
    assert not isinstance(mine, str), mine
    for one, other in zip(theirs, mine, strict=True):
        np.testing.assert_array_equal(one, other)
    return mine


def fitted(cls, data, **more):
    params = {"random_state": 0} if "random_state" in cls._get_param_names() else {}
    return cls(**params).fit(data["y_proba_val"], data["y_val"], **more)


def test_traits_are_inherited(pair):
    parent, plugin = (cls() for cls in pair)
    own = {"name", "__module__", "__doc__"}
    traits = [name for name in dir(ps.PriorEstimator) if not name.startswith("_")]
    assert {"batch", "summary", "outputs", "fit_is_counts"} <= set(traits)
    for trait in set(traits) - own:
        value = getattr(type(parent), trait)
        if not callable(value):
            assert getattr(plugin, trait, None) == getattr(parent, trait, None), trait
    assert plugin.summary  # every first-class method says what it does


def test_estimates(pair, data):
    found = assert_same(
        pair,
        lambda cls: (
            fitted(cls, data).estimate(data["y_proba"]).priors,
            fitted(cls, data).adapt(data["y_proba"]),
        ),
    )
    assert found is not None


def test_sparse_rows(pair, data):
    def estimate(cls):
        est = cls().fit(csr_array(data["y_proba_val"]), data["y_val"])
        return (est.estimate(csr_array(data["y_proba"])).priors,)

    assert assert_same(pair, estimate) is not None


@pytest.mark.slow
def test_sparse_rows_of_very_many_classes(pair):
    """More classes than any dense matrix of classes by classes may have."""
    rng, many, n = np.random.default_rng(0), 2500, 2 * 2500
    y = np.arange(n) % many
    columns = np.stack([y, (y + 1 + rng.integers(3, size=n)) % many], axis=1)
    rows = csr_array(
        (np.tile([0.8, 0.2], n), columns.ravel(), np.arange(0, 2 * n + 1, 2)), shape=(n, many)
    )

    def estimate(cls):
        est = cls().fit(rows, y, classes=np.arange(many))
        return (est.estimate(rows[: n // 2]).priors,)

    found = assert_same(pair, estimate)
    assert (found is not None) == pair[0]()._wide


@pytest.mark.parametrize("pooling", ["auto", None])
def test_groups(pair, data, pooling):
    groups = np.repeat(["north", "south", "west"], [60, 50, 10])

    def estimate(cls):
        found = ps.estimate_groups(fitted(cls, data), data["y_proba"], groups, pooling=pooling)
        return found.priors, found.weight, found.adapt(data["y_proba"], groups)

    found = assert_same(pair, estimate)
    assert (found is not None) == (pooling is None or pair[0]().batch is not None)


def test_groups_from_counts(pair, data):
    groups = np.repeat(["north", "south", "west"], [60, 50, 10])

    def estimate(cls):
        est = fitted(cls, data)
        decision = est.confusion_.decision if est.counts_suffice else "soft"
        counts = ps.GroupCounts.from_arrays(data["y_proba"], groups, decision=decision)
        found = ps.estimate_groups(est, counts, confidence_level=0.9)
        return found.priors, found.weight, found.interval

    found = assert_same(pair, estimate)
    traits = pair[0]()
    assert (found is not None) == (traits.counts_suffice and traits.batch is not None)


def test_a_monitor_is_saved_and_goes_on(pair, data, tmp_path):
    batches = np.split(data["y_proba"], 4)

    def follow(cls):
        monitor = ps.PriorMonitor(cls(), random_state=0).fit(data["y_proba_val"], data["y_val"])
        for batch in batches[:3]:
            monitor.update(batch)
        path = monitor.save(tmp_path / f"{cls.__name__}.npz")
        restored = ps.PriorMonitor.load(path)
        assert type(restored.estimator_) is cls
        one, other = (each.update(batches[3]) for each in (monitor, restored))
        np.testing.assert_array_equal(one.priors, other.priors)
        return one.priors, one.log_e_value, one.y_proba, monitor.history.priors

    found = assert_same(pair, follow)
    assert (found is not None) == pair[0]().fit_is_counts


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["auto", "bootstrap"])
def test_intervals(pair, data, kind):
    def estimate(cls):
        shift = fitted(cls, data).estimate(
            data["y_proba"], 0.9, random_state=0, interval_method=kind, n_resamples=20
        )
        return shift.interval, shift.standard_error

    found = assert_same(pair, estimate)
    assert (found is not None) != (pair[0].outputs == "ignored")


def test_compare(pair, data):
    arrays = data["y_proba_val"], data["y_val"], data["y_proba"], data["y"]

    def score(cls):
        (result,) = compare(*arrays, methods=[cls.name]).results
        scores = result.scores
        return result.estimate.priors, scores.accuracy, scores.log_loss, scores.l1_error

    assert assert_same(pair, score) is not None


def words(html):
    """Return the visible text of a page, without the time it was written at."""
    body = re.sub(r"(?s)<(script|style).*?</\1>", " ", re.sub("</?span[^>]*>", "", html))
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))
    return re.sub(r"\d\d:\d\d:\d\d", "", text)


@pytest.mark.slow
@pytest.mark.usefixtures("blank_figures")
def test_reports_say_the_same(pair, data, tmp_path):
    def write(cls):
        est = fitted(cls, data)
        path = est.estimate(data["y_proba"]).report(
            tmp_path / f"{cls.__name__}.html",
            y_proba_val=data["y_proba_val"],
            y_val=data["y_val"],
            y_proba_target=data["y_proba"],
        )
        return (words(path.read_text(encoding="utf-8")),)

    parent, plugin = pair
    (theirs,), (mine,) = outcome(write, parent), outcome(write, plugin)
    assert plugin.summary in mine
    # what a reader may type names every method but Auto, which is the default
    named = re.compile(r",? ?method=[^,)]*| --method \S+")
    assert named.sub("", unnamed(mine, parent)) == named.sub("", theirs)


@pytest.fixture
def files(data, tmp_path):
    """The data as files."""
    paths = tmp_path / "validation.npz", tmp_path / "target.npz"
    np.savez(paths[0], y_proba=data["y_proba_val"], y=data["y_val"])
    site = np.repeat(["north", "south", "west"], [60, 50, 10])
    np.savez(paths[1], y_proba=data["y_proba"], site=site)
    return "--validation", str(paths[0]), "--target", str(paths[1])


def run(*arguments):
    return CliRunner().invoke(main, [str(word) for word in arguments], catch_exceptions=False)


COMMANDS = {
    "compare": (),
    "groups": ("--group-column", "site"),
    "monitor": ("--every", "30"),
}


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_line(pair, files, command):
    parent, plugin = pair
    said = [
        run(command, *files, "--method", cls.name, *COMMANDS[command], "--json")
        for cls in (parent, plugin)
    ]
    assert said[0].exit_code == said[1].exit_code, said[1].stderr
    traits = parent()
    usable = {"groups": traits.batch is not None, "monitor": traits.fit_is_counts}
    assert (said[1].exit_code == 0) == usable.get(command, True), said[1].stderr
    if said[1].exit_code == 0:
        theirs, mine = (re.sub(r'"seconds": [^,]*', "", one.stdout) for one in said)
        # "EM says": a stranger's method is called by its own name
        assert unnamed(mine, parent).lower() == theirs.lower()


# What a subclass changes is what it gets


def test_a_subclass_that_finds_priors_in_its_own_way_is_asked_for_them(data, monkeypatch, tmp_path):
    class Half(ps.SCML):
        name = "half"

        def _estimate_counts(self, target):
            found = super()._estimate_counts(target)
            mixed = 0.5 * (found.priors + self.source_priors_)
            return self._result(mixed, Solution(mixed, "direct"), target)

    monkeypatch.setattr(registry, "_ESTIMATORS", dict(registry._ESTIMATORS))
    ps.register_estimator(Half)
    half, groups = fitted(Half, data), np.arange(120) % 2
    found = ps.estimate_groups(half, data["y_proba"], groups, pooling=None)
    for g in range(2):
        alone = half.estimate(data["y_proba"][groups == g])
        np.testing.assert_array_equal(found.priors[g], alone.priors)
    with pytest.raises(ValueError, match=r"Half\(\) cannot pool groups"):
        ps.estimate_groups(half, data["y_proba"], groups)
    monitor = ps.PriorMonitor(Half()).fit(data["y_proba_val"], data["y_val"])
    monitor.update(data["y_proba"])
    restored = ps.PriorMonitor.load(monitor.save(tmp_path / "half.npz"))
    np.testing.assert_array_equal(restored.estimate().priors, monitor.estimate().priors)
    del registry._ESTIMATORS["half"]
    with pytest.raises(ValueError, match="method 'half' is not registered here; import"):
        ps.PriorMonitor.load(tmp_path / "half.npz")


def test_a_fit_that_is_more_than_counts_is_not_saved_in_part(data, monkeypatch, tmp_path):
    class Counted(ps.SCML):
        name = "counted"

        def fit(self, *arguments, **options):
            super().fit(*arguments, **options)
            self.moved_ = np.ones(K)
            return self

    monitor = ps.PriorMonitor(Counted()).fit(data["y_proba_val"], data["y_val"])
    with pytest.raises(ValueError, match=r"register_estimator\(Counted\)"):
        monitor.save(tmp_path / "state.npz")
    monkeypatch.setattr(registry, "_ESTIMATORS", dict(registry._ESTIMATORS))
    ps.register_estimator(Counted)
    with pytest.raises(ValueError, match=r"its fit also sets 'moved_'"):
        monitor.save(tmp_path / "state.npz")
    assert not (tmp_path / "state.npz").exists()


def test_a_parameter_that_json_cannot_hold_is_refused(data, monkeypatch, tmp_path):
    class Odd(ps.SCML):
        name = "odd"

        def __init__(self, *, how=print, tol=1e-6, max_iter=1000, solver="certified"):
            super().__init__(tol=tol, max_iter=max_iter, solver=solver)
            self.how = how

    monkeypatch.setattr(registry, "_ESTIMATORS", dict(registry._ESTIMATORS))
    ps.register_estimator(Odd)
    monitor = ps.PriorMonitor(Odd()).fit(data["y_proba_val"], data["y_val"])
    with pytest.raises(ValueError, match=r"cannot be saved: .* not JSON serializable"):
        monitor.save(tmp_path / "state.npz")
