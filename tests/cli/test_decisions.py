"""Decisions in a column of a file, without probabilities: --predicted-column."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import priorshift as ps
from priorshift.cli import main

pytestmark = pytest.mark.usefixtures("no_verdict")

VERDICTS = np.array(["bad", "fair", "good"])
JUDGE = np.array([[0.8, 0.1, 0.05], [0.15, 0.8, 0.15], [0.05, 0.1, 0.8]])
WRITERS = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "parquet": lambda frame, path: frame.to_parquet(path),
    "arrow": lambda frame, path: frame.to_feather(path),
}


def judged(priors, n, rng):
    y = rng.choice(3, n, p=priors)
    verdict = (rng.random(n)[:, None] > np.cumsum(JUDGE.T[y], axis=1)).sum(axis=1)
    return pd.DataFrame({"verdict": VERDICTS[verdict], "label": VERDICTS[y], "score": 0.5})


@pytest.fixture
def frames():
    rng = np.random.default_rng(0)
    target = judged([0.1, 0.6, 0.3], 2000, rng).drop(columns="label")
    target["site"] = np.where(np.arange(2000) < 1000, "north", "south")
    target["day"] = np.arange(2000) // 500
    return judged([0.3, 0.4, 0.3], 400, rng), target


@pytest.fixture(params=list(WRITERS))
def files(request, frames, tmp_path):
    for name, frame in zip(("validation", "target"), frames, strict=True):
        WRITERS[request.param](frame, tmp_path / f"{name}.{request.param}")
    return [
        *("--validation", str(tmp_path / f"validation.{request.param}")),
        *("--target", str(tmp_path / f"target.{request.param}")),
        *("--predicted-column", "verdict"),
    ]


@pytest.fixture
def csv(frames, tmp_path):
    for name, frame in zip(("validation", "target"), frames, strict=True):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    paths = {name: str(tmp_path / f"{name}.csv") for name in ("validation", "target")}
    return ["--validation", paths["validation"], "--target", paths["target"]]


def run(*arguments):
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.usefixtures("verdict")
def test_estimate(files, frames):
    validation, target = frames
    done = run("estimate", *files, "--confidence-level", "0.95", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    fitted = ps.CML().fit(y_pred=validation["verdict"], y=validation["label"])
    expected = fitted.estimate(y_pred=target["verdict"], confidence_level=0.95)
    assert found["method"] == "cm-l"
    assert found["verdict"] == "leave"
    assert list(found["priors"].values()) == pytest.approx(expected.priors.tolist())
    assert np.array(list(found["interval"].values())) == pytest.approx(expected.interval)


def test_every_command_takes_them(csv, tmp_path):
    decided = [*csv, "--predicted-column", "verdict"]
    for command in (
        ["assess", *decided],
        ["compare", *decided],
        ["test", *decided],
        ["groups", *decided, "--group-column", "site", "--method", "cm-l"],
        ["monitor", *decided, "--time-column", "day", "--state", str(tmp_path / "state.npz")],
        ["report", *decided, "--output", str(tmp_path / "report.html")],
    ):
        done = run(*command)
        assert done.exit_code == 0, (command[0], done.output)
        assert "Traceback" not in done.output
    page = (tmp_path / "report.html").read_text()
    assert "your decisions stay as they are" in page


def test_a_monitor_goes_on_from_its_state(csv, frames, tmp_path):
    state = str(tmp_path / "state.npz")
    decided = [*csv, "--predicted-column", "verdict", "--time-column", "day"]
    assert run("monitor", *decided, "--state", state).exit_code == 0
    frames[1].assign(day=9).to_csv(tmp_path / "later.csv", index=False)
    later = ["--target", str(tmp_path / "later.csv"), "--predicted-column", "verdict"]
    done = run("monitor", *later, "--time-column", "day", "--state", state, "--json")
    assert done.exit_code == 0, done.output
    assert ps.PriorMonitor.load(state).n_batches_ == 5


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--predicted-column", "nothing"], "has no column 'nothing'"),
        (["--predicted-column", "verdict", "--method", "em"], "decisions (y_pred) suffice for cm"),
        (["--predicted-column", "verdict", "--logits"], "for decisions without probabilities"),
    ],
)
def test_errors_say_what_to_do(csv, more, said):
    done = run("estimate", *csv, *more)
    assert done.exit_code in (1, 2)
    assert said in " ".join(done.output.split())


def test_decisions_are_not_adapted(csv):
    done = run("adapt", *csv, "--predicted-column", "verdict")
    assert done.exit_code == 2
    assert "cannot be adapted" in done.output


def test_without_validation_there_is_nothing_to_learn_from(csv):
    done = run("estimate", *csv[2:], "--predicted-column", "verdict")
    assert done.exit_code == 2
    assert "need --validation" in done.output


def test_a_verdict_of_the_target_that_validation_lacks_is_named(csv, frames, tmp_path):
    frames[1].replace({"verdict": {"bad": "awful"}}).to_csv(tmp_path / "target.csv", index=False)
    done = run("estimate", *csv, "--predicted-column", "verdict")
    assert done.exit_code == 1
    assert "'awful'" in done.output


def test_a_verdict_of_no_class_is_compared_and_planned_with(tmp_path):
    """Nobody labels "unsure": methods are compared by target labels all the same."""
    rng, paths = np.random.default_rng(0), []
    for name, share in (("validation", 0.5), ("target", 0.7)):
        y = np.where(rng.random(400) < share, "pass", "fail")
        verdict = np.where(rng.random(400) < 0.2, "unsure", y)
        frame = pd.DataFrame({"verdict": verdict, "label": y})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        paths += [f"--{name}", str(tmp_path / f"{name}.csv")]
    decided = ["--predicted-column", "verdict", "--target-label-column", "label"]
    found = run("compare", *paths, *decided)
    assert found.exit_code == 0, found.output
    planned = run("plan", *paths[:2], "--predicted-column", "verdict", "--width", "0.05")
    assert planned.exit_code == 0, planned.output
