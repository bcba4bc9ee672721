"""The table of promises: what it draws, how it sums up, and that every item has its rows."""

import numpy as np
import pytest

from lab import coverage
from lab.worlds import Resplit, Simulated, moved, tail


def test_a_pool_is_split_without_repeats():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), [100, 200, 50, 80])
    pool = rng.dirichlet(np.ones(4), y.size), y
    for shift in ("tail", "none", "moved"):
        for task in Resplit("pool", pool, 20, shift).tasks(3):
            np.testing.assert_array_equal(np.bincount(task.y_val), [20] * 4)
            rows = np.concatenate([task.y_proba_val, task.y_proba])
            assert np.unique(rows, axis=0).shape[0] == rows.shape[0]
            assert task.priors.sum() == pytest.approx(1)
            assert task.y.size > 30
            at = {row.tobytes(): label for row, label in zip(*pool, strict=True)}
            assert [at[row.tobytes()] for row in task.y_proba] == task.y.tolist()


def test_simulated_outputs_are_calibrated_and_as_accurate_as_asked():
    cell = Simulated("plain", 4, 0.8, tail(4, 3), 2000)
    task = next(cell.tasks(1))
    y_proba, y = task.y_proba_val, task.y_val
    assert (y_proba.argmax(axis=1) == y).mean() == pytest.approx(0.8, abs=0.03)
    for low in (0.5, 0.7, 0.9):
        some = (y_proba > low - 0.1) & (y_proba < low + 0.1)
        assert np.eye(4)[y][some].mean() == pytest.approx(y_proba[some].mean(), abs=0.03)


def test_shares_move_by_the_distance_asked_for():
    priors = np.array([0.4, 0.3, 0.2, 0.1])
    assert np.abs(moved(priors) - priors).sum() / 2 == pytest.approx(0.2)
    assert moved(priors).sum() == pytest.approx(1)


def test_values_are_summed_up_by_kind():
    assert coverage.summary([1.0, None, 3.0]) == (2.0, 1.0)
    classes = [np.array([100.0, 0.0]), np.array([100.0, 100.0])]
    assert coverage.summary(classes) == (50.0, 50.0)  # of the class covered least
    pairs = [(2.0, 1.0), (4.0, 3.0)]
    mean, error = coverage.summary(pairs)
    assert mean == 1.5
    assert error == pytest.approx(np.std([2 - 1.5, 4 - 4.5], ddof=1) / np.sqrt(2) / 2)
    assert coverage.shown("covers, %", [None]) == "-"
    assert coverage.shown("covers, %", [100.0, 0.0, None]) == "50.0 ± 50.0 (2 runs)"


def test_every_item_has_its_rows(capsys):
    coverage.main(["--simulated", "1", "--real", "0"])
    out, err = capsys.readouterr()
    lines = [line.split(" | ") for line in out.splitlines() if line.startswith("| ")][1:]
    assert {line[0] for line in lines} == {f"| {number}" for number in range(1, 13)}
    assert all("nan" not in line[-1] for line in lines)
    assert "item 12" in err
