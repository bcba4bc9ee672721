"""The laboratory needs documented names only, and its old import paths still work."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from priorshift import reproduction

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "src" / "priorshift" / "reproduction").glob("*.py"))
REFERENCE = (ROOT / "docs" / "api" / "index.rst").read_text(encoding="utf-8")

TRAINING = [
    *("LOADERS", "N_VAL", "PUBLISHED", "RECIPES", "ArrayImages", "FileImages", "ImageData"),
    *("Images", "Plan", "PublishedCheck", "Recipe", "check_published", "load_images"),
    *("load_published", "require_torch", "source_counts", "split", "train_classifier"),
]
PAPER = [
    *("EXPERIMENTS", "IMBALANCES", "SUPPLEMENT", "TABLES", "WITHOUT_DATA", "ConfusionStudy"),
    *("Inconsistency", "Part", "Record", "RunTime", "Setting", "Stage", "StoredOutputs", "Trial"),
    *("distribution", "draw_trial", "largest_sample", "long_tailed_counts", "run_convergence"),
    *("run_experiment", "run_gaussian", "run_inconsistent", "run_samples", "run_table"),
    *("run_tables", "Table"),
]


def documented():
    """Return the names that the reference lists, with their modules."""
    module, names = "", set()
    for line in REFERENCE.splitlines():
        if found := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif found := re.fullmatch(r"   (\w+)", line):
            names.add(f"{module}.{found[1]}")
    return names | set(re.findall(r"`(priorshift\.[\w.]+)`", REFERENCE))


def imported(path):
    """Return what a file imports from the rest of priorshift."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        else:
            continue
        for name in found:
            if name.split(".")[0] == "priorshift" and not name.startswith(reproduction.__name__):
                yield name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_laboratory_imports_documented_names_only(path):
    unknown = set(imported(path)) - documented() - {"priorshift.__version__"}
    assert not unknown


def test_the_laboratory_uses_the_library():
    found = {name for path in FILES for name in imported(path)}
    assert {"priorshift.get_estimator", "priorshift.files.atomic_file"} <= found


@pytest.mark.parametrize(
    ("module", "name"),
    [("priorshift.training", name) for name in TRAINING]
    + [("priorshift.compare.paper", name) for name in PAPER],
)
def test_old_imports_work_and_name_the_new_place(module, name):
    new = {"Table": "ResultTable"}.get(name, name)
    message = (
        rf"{re.escape(module)}\.{name} has moved; import {new} from priorshift\.reproduction "
        r"instead\. The old name will be removed in priorshift 0\.3\.$"
    )
    with pytest.warns(FutureWarning, match=message) as warned:
        found = getattr(importlib.import_module(module), name)
    assert found is getattr(reproduction, new)
    assert [warning.filename for warning in warned] == [__file__]


@pytest.mark.parametrize("module", ["priorshift.training", "priorshift.compare.paper"])
def test_old_modules_have_no_other_names(module):
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'other'"):
        importlib.import_module(module).other  # noqa: B018


def test_the_laboratory_is_imported_when_it_is_needed():
    code = (
        "import sys, priorshift; priorshift.EM; import priorshift.cli; "
        "assert 'priorshift.reproduction' not in sys.modules; "
        "assert priorshift.cli.main.get_command(None, 'benchmark').name == 'benchmark'; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
