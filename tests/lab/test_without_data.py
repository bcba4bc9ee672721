"""Commands whose data are absent end with a sentence, and print no empty table."""

import pytest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("quality --part zoo --data absent", "zoo needs stored outputs"),
        ("quality --part natural --data absent", "natural needs stored outputs"),
        ("quality --part uci --data absent", "uci needs stored outputs"),
        ("reproduction --data absent --only cifar100lt", "cifar100lt needs stored outputs"),
        ("reproduction --data absent --runs absent", "nothing to reproduce in absent"),
        ("reproduction --only nobody", "--only knows CIFAR"),
        ("applications --data absent --only web known", "known needs stored outputs"),
        ("applications --runs absent --only web", "absent has none: see --runs"),
        ("summary absent", "absent has no tables: `python -m lab reproduction`"),
        ("networks --trained absent --output outputs", "no finished network in absent"),
        ("coverage --data absent", "coverage without --real 0 needs stored outputs"),
        ("conformal --data absent", "conformal needs stored outputs"),
        ("leaderboard --data absent", "leaderboard needs stored outputs"),
        ("data --folder absent", "`make data` downloads it"),
        ("data --originals absent", "absent has none of adult.data, bank-full.csv"),
        ("fashion-lt --images absent", "dataset-fashion-mnist"),
        ("train --dataset list --data .", "train.txt is missing"),
    ],
)
def test_commands_without_their_data(run, tmp_path, monkeypatch, arguments, message):
    if arguments.startswith("train"):
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    found = run(*arguments.split())
    assert found.exit_code == 1
    assert message.lower() in found.stderr.lower()
    assert "|" not in found.stdout
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    "command", ["quality --part natural", "quality --part uci", "leaderboard", "coverage"]
)
def test_a_part_of_the_data_is_not_enough(run, tmp_path, command):
    (tmp_path / "zoo").mkdir()
    (tmp_path / "zoo" / "ring_lt_nb.npz").touch()
    found = run(*command.split(), "--data", tmp_path)
    assert found.exit_code == 1
    assert f"there are none in {tmp_path}" in found.stderr
    assert found.stdout == ""


def test_what_is_absent_is_left_out_aloud(run, tmp_path):
    """Nobody asked for it by name."""
    found = run("applications", "--data", tmp_path / "absent")
    assert found.exit_code == 0
    assert "is absent: only the part 'web' is run" in found.stderr
    assert "| BCTS |" in found.stdout
