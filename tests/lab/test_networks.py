"""Outputs of networks in little space: nothing that a table shows may change."""

import csv
import json

import numpy as np
import pytest
from scipy.special import softmax

from lab.paper import runs as networks
from lab.paper.outputs import (
    StoredOutputs,
)


@pytest.fixture
def trained(tmp_path, rng):
    """A finished network where `python -m lab train` would have put it."""
    plan = networks.NETWORKS[0].plan(1)
    folder = networks.folder_of(plan, tmp_path / "trained")
    folder.mkdir(parents=True)

    def part(n):
        return 8 * rng.normal(size=(n, 10)).astype(np.float32), rng.integers(0, 10, n)

    outputs = StoredOutputs.of(
        plan.name, train=part(50), val=part(30), test=part(4000), retrained=None
    )
    outputs.save(folder / f"{plan.name}.npz")
    epoch = {"epoch": 1, "learning_rate": 0.1, "loss": 1.0, "accuracy": 0.5, "seconds": 90.0}
    record = {
        "dataset": plan.dataset,
        "source": "LT",
        "seed": 1,
        "train_counts": [30, 20],
        "network": "small",
        "epochs": 200,
        "retrained_for": None,
        "history": [[epoch], [epoch]],
        "accuracy": {"train": 0.9, "val": 0.8, "test": 0.7},
        "versions": {"torch": "2.0"},
    }
    (folder / f"{plan.name}.json").write_text(json.dumps(record), encoding="utf-8")
    return folder / f"{plan.name}.npz"


def test_stored_outputs_decide_as_the_network_did(trained, tmp_path):
    small = tmp_path / "small-1.npz"
    networks.store(trained, small)
    before, after = StoredOutputs.load(trained), StoredOutputs.load(small)
    with np.load(small) as file:
        assert {file[f"{part}_logits"].dtype for part in ("train", "val", "test")} == {
            np.dtype(np.float16)
        }
    assert small.stat().st_size < 0.5 * trained.stat().st_size
    assert after.test.logits.dtype == np.float32  # what is calculated with
    for part in ("train", "val", "test"):
        one, other = getattr(before, part), getattr(after, part)
        np.testing.assert_array_equal(one.y, other.y)
        np.testing.assert_array_equal(one.logits.argmax(axis=1), other.logits.argmax(axis=1))
        np.testing.assert_allclose(
            softmax(other.logits, axis=1), softmax(one.logits, axis=1), atol=2e-3
        )
    assert after.retrained is None


def test_finished_networks_are_found_and_listed(trained, tmp_path, monkeypatch, capsys):
    output = tmp_path / "outputs"
    arguments = ["--trained", tmp_path / "trained", "--output", output]
    monkeypatch.setattr("sys.argv", ["networks", *map(str, arguments)])
    networks.main()
    assert sorted(path.name for path in output.iterdir()) == [
        f"{trained.stem}-1.npz",
        "networks.csv",
    ]
    (row,) = csv.DictReader((output / "networks.csv").read_text("utf-8").splitlines())
    assert (row["file"], row["minutes"], row["train_images"]) == (
        f"{trained.stem}-1.npz",
        "3.0",
        "50",
    )
    assert (row["test"], row["retrained"], row["label_noise"]) == ("0.7", "", "0.0")
    assert capsys.readouterr().out == (output / "networks.csv").read_text("utf-8")


def test_without_images_nothing_is_listed_or_written(run, tmp_path):
    found = run("networks", "--trained", tmp_path / "none", "--output", tmp_path)
    assert found.exit_code == 1
    assert "name the images by --fashion-mnist and --cifar-10" in found.stderr
    assert not (tmp_path / "networks.csv").exists()


def test_a_wrong_name_is_refused(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["networks", "--only", "mnist"])
    with pytest.raises(SystemExit):
        networks.main()
    assert "invalid choice: 'mnist'" in capsys.readouterr().err
