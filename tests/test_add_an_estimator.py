"""A stranger adds a method: the guide's own file, in a process of its own and as a package."""

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

import priorshift as ps
from lab.paper.outputs import (
    StoredOutputs,
)
from lab.paper.tables import (
    run_table,
)
from priorshift.compare import compare
from priorshift.estimators import registry

GUIDE = Path(__file__).parents[1] / "docs" / "guides" / "add-an-estimator.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def folder(tmp_path, rng):
    """The guide's file beside small data."""
    (tmp_path / "ridge.py").write_text(blocks("python")[0], encoding="utf-8")
    y = rng.integers(3, size=120)
    y_proba = 0.7 * np.eye(3)[y] + 0.3 * rng.dirichlet(np.ones(3), y.size)
    for name, rows in {"validation": slice(60), "target": slice(60, None)}.items():
        np.savez(tmp_path / f"{name}.npz", y_proba=y_proba[rows], y=y[rows])
    logits = np.log(y_proba)
    np.savez(
        tmp_path / "outputs.npz",
        **{f"{part}_logits": logits for part in ("train", "val", "test")},
        **{f"{part}_y": y for part in ("train", "val", "test")},
    )
    return tmp_path


@pytest.fixture
def ridge(monkeypatch):
    """The guide's class in this process, forgotten afterwards."""
    monkeypatch.setattr(registry, "_ESTIMATORS", dict(registry._ESTIMATORS))
    space = {"__name__": "ridge"}
    exec(blocks("python")[0], space)
    return space["RidgeSCM"]


def run(folder, *words, **environment):
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


# In one file


def test_the_guides_file_is_a_row_of_compare(folder, monkeypatch, capsys):
    monkeypatch.setattr(registry, "_ESTIMATORS", dict(registry._ESTIMATORS))
    monkeypatch.chdir(folder)
    words = "compare validation.npz target.npz --method scm --method scm-ridge"
    monkeypatch.setattr(sys, "argv", ["ridge.py", *words.split()])
    with pytest.raises(SystemExit) as end:
        runpy.run_path("ridge.py", run_name="__main__")
    assert not end.value.code
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed if "direct" in line] == ["scm", "scm-ridge"]


def test_the_guides_file_is_a_column_of_the_benchmark(folder):
    commands = [shlex.split(line) for line in blocks("shell")[0].splitlines()]
    (words,) = [words for words in commands if "lab.benchmark()" in words[2]]
    places = [str(folder), str(GUIDE.parents[2]), os.environ.get("PYTHONPATH", "")]
    found = run(folder, *words[1:], PYTHONPATH=os.pathsep.join(places))
    assert found.returncode == 0, found.stderr
    assert "| SCM-RIDGE |" in found.stdout.splitlines()[2]


def test_in_python_importing_it_is_enough(folder):
    found = run(folder, "-c", blocks("python")[2])
    assert found.returncode == 0, found.stderr


def test_a_subclass_needs_no_more_than_its_difference(ridge, rng):
    space = {"ps": ps, "__name__": "patient"}
    exec(blocks("python")[1], space)
    y = rng.integers(3, size=300)
    y_proba = 0.6 * np.eye(3)[y] + 0.4 * rng.dirichlet(np.ones(3), y.size)
    found = ps.get_estimator("scm-l-patient").fit(y_proba, y).estimate(y_proba[y < 2])
    assert found.gap <= 1e-9
    np.testing.assert_allclose(
        found.priors, ps.SCML(tol=1e-9).fit(y_proba, y).estimate(y_proba[y < 2]).priors, atol=1e-6
    )


def test_it_runs_beside_all_methods(ridge, rng):
    y = rng.integers(3, size=300)
    y_proba = 0.7 * np.eye(3)[y] + 0.1
    found = compare(y_proba, y, y_proba, y)
    assert found.results[-1].method == "scm-ridge"
    assert found.results[-1].scores.l1_error < 0.01


def test_it_is_a_column_of_the_papers_tables(ridge, folder):
    table = run_table(
        "table2", [StoredOutputs.load(folder / "outputs.npz")], n_seeds=1, methods=["scm-ridge"]
    )
    assert table.methods[-2:] == ("scm-ridge", "oracle")
    assert all("scm-ridge" in found for _, found in table.rows())


def test_it_is_what_it_says(ridge, rng):
    y = rng.integers(3, size=300)
    y_proba = 0.6 * np.eye(3)[y] + 0.4 * rng.dirichlet(np.ones(3), y.size)
    target = y_proba[y < 2]
    given = {"source_priors": np.full(3, 1 / 3)}
    tiny, none, huge = (
        ridge(ridge=strength).fit(y_proba, y, **given).estimate(target).priors
        for strength in (1e-12, 0.0, 1e9)
    )
    np.testing.assert_allclose(tiny, none, atol=1e-6)
    np.testing.assert_allclose(huge, given["source_priors"], atol=1e-6)
    assert clone(ridge(ridge=0.5)).ridge == 0.5
    interval = ridge().fit(y_proba, y).estimate(target, 0.9, random_state=0, n_resamples=20)
    assert (interval.interval[:, 0] <= interval.priors).all()


# In the library

METHOD = '''"""A method of its own."""

from priorshift.estimators.confusion_likelihood import SCML


class HalfSCML(SCML):
    """Estimate as SCML does, by another name."""

    name = "half"
    summary = "is here for a test"
'''
IMPORT = "from priorshift.estimators.inversion import "


def test_a_method_is_one_file_and_its_name_in_the_registry(folder):
    """Then it is a public name, an estimator by name, and a choice of the command line."""
    library = folder / "library" / "priorshift"
    shutil.copytree(Path(ps.__file__).parent, library)
    (library / "estimators" / "half.py").write_text(METHOD, encoding="utf-8")
    listed = library / "estimators" / "registry.py"
    text = listed.read_text(encoding="utf-8")
    assert text.count(IMPORT) == text.count('    "Auto",\n') == 1
    text = text.replace(IMPORT, f"from priorshift.estimators.half import HalfSCML\n{IMPORT}")
    text = text.replace('    "Auto",\n', '    "Auto",\n    "HalfSCML",\n')
    listed.write_text(text, encoding="utf-8")
    asked = (
        "import priorshift as ps, priorshift.estimators as e;"
        "print(ps.__file__);"
        "print(ps.HalfSCML is e.HalfSCML is type(ps.get_estimator('half')));"
        "print('HalfSCML' in ps.__all__, ps.available_estimators()[1:3]);"
        "print(e.traits_of('half').summary);"
        "from priorshift.cli import main;"
        "main('estimate validation.npz target.npz --method half --json'.split())"
    )
    found = run(folder, "-c", asked, PYTHONPATH=str(folder / "library"))
    assert found.returncode == 0, found.stderr
    *said, document = found.stdout.split("\n", 4)
    assert said == [
        str(library / "__init__.py"),
        "True",
        "True ['auto', 'half']",
        "is here for a test",
    ]
    assert json.loads(document)["method"] == "half"


# As a package


def test_an_installed_package_needs_no_import(folder):
    about = folder / "ridge-0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: ridge\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text(
        re.sub(r'project\.entry-points\."(.*?)"', r"\1", blocks("toml")[0]).replace('"', "")
    )
    found = run(
        folder,
        *("-c", "import priorshift as ps; print(ps.get_estimator('scm-ridge'))"),
        PYTHONPATH=os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]),
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == "RidgeSCM()"


def test_a_broken_package_is_named_and_left_out(monkeypatch):
    def load():
        raise ImportError("no module named 'gone'")

    point = SimpleNamespace(name="gone", value="gone:Gone", load=load)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    registry._load_entry_points.cache_clear()
    with pytest.warns(ps.PriorShiftWarning, match="'gone' of gone:Gone is left out: no module"):
        assert "scm-l" in ps.available_estimators()
    assert "scm-l" in ps.available_estimators()  # and it is told but once


# What is refused


def test_a_taken_name_is_refused(ridge):
    with pytest.raises(ValueError, match=r"'em' is taken by priorshift.*\.EM"):
        ps.register_estimator(type("Mine", (ps.EM,), {"name": "em"}))
    assert type(ps.get_estimator("em")) is ps.EM


def test_a_class_defined_anew_takes_its_own_place(ridge):
    again = type("RidgeSCM", (ps.PriorEstimator,), {"name": "scm-ridge", "__module__": "ridge"})
    ps.register_estimator(again)
    assert type(ps.get_estimator("scm-ridge")) is again


@pytest.mark.parametrize("name", [None, "", "Two Words", "UPPER", 3])
def test_a_name_must_be_one_to_type(name):
    body = {} if name is None else {"name": name}
    with pytest.raises(ValueError, match="Mine needs a name of its own"):
        ps.register_estimator(type("Mine", (ps.EM,), body))


@pytest.mark.parametrize("thing", [3, dict, "em"])
def test_only_estimators_are_registered(thing):
    with pytest.raises(ValueError, match="subclass of PriorEstimator"):
        ps.register_estimator(thing)


@pytest.mark.parametrize(
    ("returned", "said"),
    [(np.ones(3) / 3, "_estimate must return an estimate, such as self._result"), (None, "0 th")],
)
def test_a_method_that_fails_is_a_row_and_the_others_go_on(monkeypatch, rng, returned, said):
    monkeypatch.setattr(registry, "_ESTIMATORS", dict(registry._ESTIMATORS))

    @ps.register_estimator
    class Own(ps.PriorEstimator):
        """Returns what it should not."""

        name, summary = "own", "returns what it should not"

        def _estimate(self, y_proba):
            if returned is None:
                raise IndexError("no 0 th row")
            return returned

    y = rng.integers(3, size=90)
    y_proba = 0.7 * np.eye(3)[y] + 0.3 * rng.dirichlet(np.ones(3), y.size)
    failed, other = compare(y_proba, y, y_proba, methods=["own", "scm-l"]).results
    assert said in failed.error
    assert other.error is None
    if returned is not None:
        with pytest.raises(ValueError, match=said):
            Own().fit(y_proba, y).estimate(y_proba)
