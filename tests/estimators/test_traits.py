"""What a method is lives on its class, so that a stranger's subclass works on every surface."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array

import priorshift as ps
from priorshift.estimators import registry, traits_of
from priorshift.evaluation import compare
from priorshift.report import write_report

BASES = [type(ps.get_estimator(name)) for name in ps.available_estimators()]
WIDE = [cls for cls in BASES if cls().wide]
every_family = pytest.mark.parametrize("base", BASES, ids=lambda cls: cls.name)


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch):
    """Forget what a test registers."""
    monkeypatch.setattr(registry, "_ESTIMATORS", dict(registry._ESTIMATORS))


@pytest.fixture(autouse=True)
def _quiet():
    """Small samples warn; here only what is possible counts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.PriorShiftWarning)
        warnings.simplefilter("ignore", ps.ConvergenceWarning)
        yield


@pytest.fixture
def data(rng):
    """Validation, its labels, and a target of three classes."""
    y, y_target = rng.integers(3, size=240), rng.choice(3, 200, p=[0.6, 0.3, 0.1])
    y_proba, target = (
        0.7 * np.eye(3)[labels] + 0.3 * rng.dirichlet(np.ones(3), labels.size)
        for labels in (y, y_target)
    )
    return y_proba, y, target


def registered(base):
    """A stranger's subclass, known by a name of its own and otherwise as it was."""
    return ps.register_estimator(type("Stranger", (base,), {"name": "stranger"}))


# Surfaces


@every_family
def test_a_subclass_is_a_row_of_compare(base, data):
    registered(base)
    found = compare(*data, methods=[base.name, "stranger"])
    own, inherited = found.results
    assert inherited.error is None
    np.testing.assert_array_equal(inherited.estimate.priors, own.estimate.priors)
    assert (inherited.agreement is None) == (own.agreement is None)


@every_family
def test_a_subclass_has_the_same_interval_or_refusal(base, data):
    y_proba, y, target = data
    options = {"confidence_level": 0.9, "random_state": 0, "n_resamples": 10}
    answers = []
    for cls in (base, registered(base)):
        try:
            answers.append(cls().fit(y_proba, y).estimate(target, **options).interval)
        except ValueError as refusal:
            answers.append(str(refusal).replace(cls.__name__, ""))
    np.testing.assert_array_equal(answers[1], answers[0])


@every_family
def test_a_subclass_estimates_groups_as_its_base_does(base, data):
    y_proba, y, target = data
    groups = np.arange(target.shape[0]) % 3
    own, inherited = (
        estimate_groups_or_refusal(cls().fit(y_proba, y), target, groups)
        for cls in (base, registered(base))
    )
    np.testing.assert_array_equal(inherited, own)


def estimate_groups_or_refusal(estimator, target, groups):
    try:
        return ps.estimate_groups(estimator, target, groups).priors
    except ValueError as refusal:
        return str(refusal).replace(type(estimator).__name__, "")


@every_family
def test_a_subclass_is_monitored_and_saved_as_its_base_is(base, data, tmp_path):
    y_proba, y, target = data
    saved = []
    for cls in (base, registered(base)):
        try:
            monitor = ps.PriorMonitor(cls(), random_state=0).fit(y_proba, y)
            monitor.update(target[:100])
            monitor.save(tmp_path / "monitor.json")
        except ValueError as refusal:
            saved.append(str(refusal).replace(cls.__name__, ""))
            continue
        again = ps.PriorMonitor.load(tmp_path / "monitor.json")
        assert type(again.estimator) is cls
        saved.append(again.update(target[100:]).priors)
    np.testing.assert_array_equal(saved[1], saved[0])
    assert isinstance(saved[0], np.ndarray) == base().fit_is_counts


@pytest.mark.parametrize("base", WIDE, ids=lambda cls: cls.name)
def test_a_subclass_takes_sparse_predictions_of_very_many_classes(base, rng):
    K = 2500
    y = np.arange(2 * K) % K
    wrong = rng.integers(K, size=y.size)
    rows = np.tile(np.arange(y.size), 2)
    values = np.repeat([0.75, 0.25], y.size)
    y_proba = csr_array((values, (rows, np.concatenate([y, wrong]))), shape=(y.size, K))
    priors = registered(base)().fit(y_proba, y).estimate(y_proba[:200]).priors
    assert priors.shape == (K,)
    assert priors.sum() == pytest.approx(1)


@every_family
def test_a_report_says_of_a_subclass_what_it_says_of_the_method(base, data, tmp_path):
    y_proba, y, target = data
    shift = registered(base)().fit(y_proba, y).estimate(target)
    path = write_report(
        tmp_path / "report.html", shift, y_proba_val=y_proba, y_val=y, y_proba_target=target
    )
    text = path.read_text(encoding="utf-8")
    assert base.summary in text
    assert base.reference.url in text


STRANGERS = """
import json, sys
import priorshift as ps
for name in ps.available_estimators():
    base = type(ps.get_estimator(name))
    ps.register_estimator(type("Stranger", (base,), {"name": f"my-{name}"}))

from click.testing import CliRunner
from priorshift.cli import main


for name in ps.available_estimators():
    if name.startswith("my-"):
        words = [*sys.argv[1:], "--method", name, "--json"]
        found = CliRunner().invoke(main, words)
        assert found.exit_code == 0, (name, found.output)
        assert json.loads(found.stdout)["method"] == name
        print(name)
"""


def test_a_subclass_is_a_choice_of_the_command_line(data, tmp_path):
    y_proba, y, target = data
    np.savez(tmp_path / "validation.npz", y_proba=y_proba, y=y)
    np.savez(tmp_path / "target.npz", y_proba=target)
    files = ["--validation", "validation.npz", "--target", "target.npz"]
    found = subprocess.run(
        [sys.executable, "-c", STRANGERS, "estimate", *files],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == [f"my-{cls.name}" for cls in BASES]


# Traits


@every_family
def test_every_method_says_what_it_is(base):
    method = traits_of(base.name)
    assert type(method) is base
    assert method.summary
    assert not method.summary.endswith(".")
    assert method.reference.url.startswith("https://")
    assert not method.wide or method.takes_sparse
    assert not method.fit_is_counts or method.counts_suffice


@every_family
def test_traits_are_inherited(base):
    stranger = registered(base)
    assert stranger.batch == base.batch
    assert traits_of("stranger").wide == base().wide
    assert traits_of("stranger").summary == base.summary


def test_a_subclass_that_finds_priors_in_another_way_is_not_batched_as_its_base_is():
    class Other(ps.SCML):
        def _solve(self, target):
            return super()._solve(target)

    class Batched(Other):
        batch = "likelihood"

    assert Other.batch is None
    assert Batched.batch == "likelihood"


def test_results_under_another_name_find_their_method():
    assert type(traits_of("em-vs")) is ps.CalibratedEM


def test_a_name_that_is_no_method_has_plain_traits():
    assert type(traits_of("known")) is ps.PriorEstimator
    assert traits_of("known").reference is None


def test_sparse_rows_are_refused_by_name_of_the_parameters_that_need_matrices():
    assert ps.BBSE().wide
    assert not ps.BBSE(constrained=True).wide
