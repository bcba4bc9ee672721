"""Small data in every format, and a runner of the command."""

import csv
import json
from dataclasses import dataclass
from functools import partial
from importlib.resources import files as resources

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from priorshift.cli import main
from priorshift.cli._data import Data
from priorshift.cli._options import DEFAULT_METHOD

CLASSES = ("ant", "bee", "cow")


@dataclass(frozen=True)
class Drawn:
    """Predictions on validation and target, with labels that are class names."""

    classes: np.ndarray
    y_proba_val: np.ndarray
    y_val: np.ndarray
    y_proba: np.ndarray
    y: np.ndarray


@pytest.fixture(autouse=True)
def one_method(monkeypatch):
    """Let commands take SCM-L by default: quick, and easy to compare with."""
    for command in map(partial(main.get_command, None), main.list_commands(None)):
        for option in command.params:
            if option.name == "method" and option.default == DEFAULT_METHOD:
                monkeypatch.setattr(option, "default", "scm-l")


@pytest.fixture
def verdict():
    """Keep the verdict in a test among others that are without."""


@pytest.fixture
def no_verdict(request, monkeypatch):
    """Leave out the verdict, which takes far longer than all else: for tests of files."""
    if "verdict" in request.fixturenames:
        return
    assess = Data.assess

    def only_in_assess(data, method):
        asked = click.get_current_context().command.name == "assess"
        return assess(data, method) if asked else None

    monkeypatch.setattr(Data, "assess", only_in_assess)
    monkeypatch.setattr(Data, "verdicts", lambda data: None)


@pytest.fixture
def run():
    """Run the command in this process; stdout and stderr are kept apart."""

    def invoke(*arguments, **options):
        try:
            runner = CliRunner(mix_stderr=False)
        except TypeError:  # click 8.2 keeps them apart always
            runner = CliRunner()
        return runner.invoke(main, [str(word) for word in arguments], **options)

    return invoke


@pytest.fixture
def ok(run):
    """Run the command, which must succeed; return what it printed."""

    def invoke(*arguments, **options):
        result = run(*arguments, **options)
        assert result.exit_code == 0, result.stderr
        return result

    return invoke


@pytest.fixture
def ask(ok, schema):
    """Run the command with --json; return the document, which follows the schema."""

    def invoke(*arguments, **options):
        document = json.loads(ok(*arguments, "--json", **options).stdout)
        schema.validate(document)
        return document

    return invoke


@pytest.fixture(scope="session")
def schema():
    """Return what tells whether a document follows the schema of the output."""
    path = resources("priorshift").joinpath("schemas/output-2.schema.json")
    return Draft202012Validator(json.loads(path.read_text(encoding="utf-8")))


@pytest.fixture
def refuse(run):
    """Run the command, which must fail with this code and one line; return the line."""

    def invoke(code, *arguments, **options):
        result = run(*arguments, **options)
        assert result.exit_code == code, (result.stdout, result.stderr)
        assert result.stdout == ""
        assert "Traceback" not in result.stderr
        *_, line = result.stderr.strip().splitlines()
        assert line.startswith("Error: ")
        return line.removeprefix("Error: ")

    return invoke


@pytest.fixture
def data(simulate, rng):
    world = simulate(3)
    classes = np.array(CLASSES)
    y_proba_val, y_val = world.draw(world.source_priors, 300, rng)
    y_proba, y = world.draw(np.array([0.6, 0.3, 0.1]), 200, rng)
    return Drawn(classes, y_proba_val, classes[y_val], y_proba, classes[y])


@pytest.fixture
def write(tmp_path):
    """Write predictions by the suffix of a name; return the path."""

    def to_file(name, y_proba, labels=None, classes=CLASSES, label_column=None, **more):
        path = tmp_path / name
        y_proba = np.asarray(y_proba)
        if path.suffix == ".npy":
            np.save(path, y_proba)
        elif path.suffix == ".npz":
            arrays = {"y_proba": y_proba} | more
            if labels is not None:
                arrays[label_column or "y"] = labels
            if classes is not None:
                arrays["classes"] = np.asarray(classes)
            np.savez(path, **arrays)
        else:
            columns = {}
            if labels is not None:
                columns[label_column or "label"] = np.asarray(labels).tolist()
            columns |= {name: list(values) for name, values in more.items()}
            columns |= dict(zip(map(str, classes), y_proba.T.tolist(), strict=True))
            _write_table(path, columns)
        return path

    return to_file


def _write_table(path, columns):
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    elif path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
    else:
        table = pa.table(columns)
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)


@pytest.fixture
def files(data, write):
    """Validation and target as CSV, the target without labels."""
    return (
        write("validation.csv", data.y_proba_val, data.y_val),
        write("target.csv", data.y_proba),
    )


@pytest.fixture
def both(files):
    """The options that name these files."""
    return "--validation", files[0], "--target", files[1]
