"""A core install says what to install, and runs the commands that README begins with."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pandas as pd
import pytest

import priorshift as ps
from priorshift.exceptions import EXTRAS

ROOT = Path(__file__).parent.parent


def bare(requirement):
    return re.split(r"[<>=~! ;]", requirement)[0]


def test_the_packages_are_those_of_the_extras():
    with (ROOT / "pyproject.toml").open("rb") as stream:
        extras = tomllib.load(stream)["project"]["optional-dependencies"]
    for name, packages in EXTRAS.items():
        assert list(packages) == [bare(requirement) for requirement in extras[name]]


@pytest.fixture
def shift():
    return ps.EM().fit(source_priors=[0.5, 0.5]).estimate([[0.9, 0.1], [0.3, 0.7]])


@pytest.mark.parametrize(
    ("package", "backend", "command"),
    [
        ("narwhals", "pandas", "narwhals, which is not installed: pip install narwhals pyarrow"),
        ("polars", "polars", "polars, which is not installed: pip install polars narwhals"),
        ("pandas", "pandas", "pandas, which is not installed: pip install pandas narwhals"),
        ("pyarrow", "pyarrow", "pyarrow, which is not installed: pip install narwhals pyarrow"),
    ],
)
def test_frames(monkeypatch, shift, package, backend, command):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"a frame needs {command}"):
        shift.to_frame(backend)


def test_the_sampler_of_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.data", None)
    monkeypatch.delitem(sys.modules, "priorshift.torch_sampler", raising=False)
    with pytest.raises(ImportError, match=r"PriorSampler needs torch, .*: pip install torch$"):
        import priorshift.torch_sampler  # noqa: F401


BLOCKED = """
import json, sys

class Absent:
    names = {"pandas", "polars", "pyarrow", "matplotlib", "jinja2", "torch", "dask"}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from click.testing import CliRunner
from priorshift.cli import main

done = [CliRunner().invoke(main, command.split()) for command in sys.argv[1:]]
print(json.dumps([(each.exit_code, each.output) for each in done]))
"""


def core(folder, *commands):
    """Run commands as on a core install: the packages of the extras cannot be imported.

    Except narwhals, which scikit-learn itself may need.
    """
    words = [sys.executable, "-c", BLOCKED, *commands]
    return json.loads(subprocess.check_output(words, cwd=folder, text=True))


@pytest.mark.slow
def test_the_first_commands_of_the_readme_run_on_a_core_install(tmp_path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    recipe = text[text.index("### Command line") :]
    commands = re.findall(r"^priorshift (.*?)(?:\s+#.*)?$", recipe, re.M)
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    refused = ["report validation.csv target.csv", "check t.parquet"]
    *done, report, check = core(tmp_path, *commands[:3], *refused)
    assert [code for code, _ in done] == [0, 0, 0], done
    assert (tmp_path / "adapted.csv").exists()
    assert report[0] == check[0] == 1
    assert "a report needs jinja2, which is not installed: pip install jinja2" in report[1]
    assert "t.parquet needs pyarrow, which is not installed: pip install narwhals" in check[1]


def test_frames_in_need_narwhals(monkeypatch, shift):
    monkeypatch.setitem(sys.modules, "narwhals", None)
    with pytest.raises(ValueError, match="y_proba is a frame, which needs narwhals"):
        shift.adapt(pd.DataFrame({"0": [0.5], "1": [0.5]}))
