"""The laboratory needs documented names only, and its commands can be listed without extras."""

import ast
import re
import subprocess
import sys
from pathlib import Path

from lab.__main__ import COMMANDS, main

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "lab").rglob("*.py"))
REFERENCE = (ROOT / "docs" / "api" / "index.rst").read_text(encoding="utf-8")


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
    """Return what a file imports from priorshift."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        else:
            continue
        yield from (name for name in found if name.split(".")[0] == "priorshift")


def test_the_laboratory_imports_documented_names_only():
    found = {(path.name, name) for path in FILES for name in imported(path)}
    assert {"priorshift.get_estimator", "priorshift.files.atomic_file"} <= {n for _, n in found}
    allowed = documented() | {"priorshift", "priorshift.__version__", "priorshift.cli.main"}
    assert [one for one in found if one[1] not in allowed] == []


def test_every_command_has_a_module_with_a_docstring():
    for name, (module, what) in COMMANDS.items():
        path = ROOT / "lab" / f"{module.replace('.', '/')}.py"
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert (name if name in ("benchmark", "train") else "main") in functions
        assert f"python -m lab {name}" in path.read_text(encoding="utf-8")
        assert what


def test_help_lists_the_commands_and_imports_nothing():
    code = (
        "import sys, runpy; sys.argv = ['lab', '--help']\n"
        "try: runpy.run_module('lab', run_name='__main__')\n"
        "except SystemExit as end: assert not end.code\n"
        "assert 'numpy' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    )
    assert all(f"\n  {name} " in done.stdout for name in COMMANDS)


def test_a_command_that_is_not_there_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["lab", "nope"])
    assert main() == "there is no command 'nope'."
    assert "benchmark" in capsys.readouterr().out


def test_a_failure_is_one_sentence(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["lab", "train", "--dataset", "cifar-10", "--data", "."])
    assert str(main()).startswith("Error: ")


def test_a_missing_package_is_named_with_the_environment_that_has_it(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["lab", "exports"])
    monkeypatch.setitem(sys.modules, "lab.exports", None)
    assert "`make .venv-extras/.stamp` makes an environment that has it" in str(main())
