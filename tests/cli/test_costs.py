"""What adapting is to improve, on the command line: --costs and --goal."""

import json

import numpy as np
import pytest

import priorshift as ps

TABLE = "true,ant,bee,cow\ncow,40,40,0\nant,0,1,1\nbee,1,0,1\n"
MATRIX = np.array([[0, 1, 1], [1, 0, 1], [40, 40, 0.0]])


@pytest.fixture
def costs(request, tmp_path):
    kind = getattr(request, "param", "json")
    path = tmp_path / f"costs.{kind}"
    pairs = {"cow": {"ant": 40, "bee": 40}}
    path.write_text(TABLE if kind == "csv" else json.dumps(pairs), encoding="utf-8")
    return path


def test_the_verdict_rests_on_costs(data, both, costs, ask, ok):
    answer = ask("assess", *both, "--costs", costs, "--method", "auto")
    found = ps.assess(
        data.y_proba_val, data.y_val, data.y_proba, classes=data.classes, costs=MATRIX
    )
    assert answer["goal"] == "cost"
    assert answer["verdict"] == found.verdict
    assert answer["gain"]["value"] == pytest.approx(found.gain.value)
    assert "cost" in ok("assess", *both, "--costs", costs, "--method", "auto").stdout


@pytest.mark.usefixtures("no_verdict")
@pytest.mark.parametrize("costs", ["csv", "json"], indirect=True)
def test_auto_decides_by_costs(both, costs, ask):
    answer = ask("estimate", *both, "--costs", costs, "--method", "auto")
    assert answer["decision"]["goal"] == "cost"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("c.json", "[1, 2]", "does not hold costs"),
        ("c.json", '{"ant": {"yak": 1}}', "yak"),
        ("c.csv", "true,ant\nant,0,1\n", "does not hold costs"),
        ("c.csv", "true,ant\nant,much\n", "must be a finite number"),
    ],
)
def test_a_file_that_is_no_table_of_costs(both, tmp_path, refuse, name, text, said):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert said in refuse(1, "assess", *both, "--costs", path)


@pytest.mark.usefixtures("no_verdict")
def test_an_adapter_carries_the_costs(data, both, costs, ask, tmp_path):
    """The decisions that adapt counts as changed are those of least cost."""
    path, output = tmp_path / "adapter.json", tmp_path / "o.csv"
    ask("estimate", *both, "--costs", costs, "--save-adapter", path)
    adapter = ps.Adapter.from_json(path)
    np.testing.assert_array_equal(adapter.costs, MATRIX)
    before = ps.decide(data.y_proba, MATRIX)
    after = ps.decide(adapter(data.y_proba), MATRIX)
    plain = np.count_nonzero(adapter(data.y_proba).argmax(axis=1) != data.y_proba.argmax(axis=1))
    changed = np.count_nonzero(before != after)
    assert changed != plain
    by_costs = ask("adapt", *both, "--costs", costs, "--output", output)
    assert by_costs["n_changed"] == changed
    carried = ask("adapt", "--target", both[3], "--adapter", path, "--output", output)
    assert carried["n_changed"] == changed


@pytest.mark.usefixtures("no_verdict")
def test_logits_are_decided_by_costs_as_probabilities_are(data, write, costs, ask, tmp_path):
    logits = [np.log(one) + 3 for one in (data.y_proba_val, data.y_proba)]
    files = write("v.csv", logits[0], data.y_val), write("t.csv", logits[1])
    named = ("--validation", files[0], "--target", files[1], "--logits", "--costs", costs)
    found = ask("adapt", *named, "--output", tmp_path / "o.csv")
    fitted = ps.SCML().fit(data.y_proba_val, data.y_val, classes=data.classes)
    after = ps.decide(fitted.adapt(data.y_proba), MATRIX)
    assert found["n_changed"] == np.count_nonzero(ps.decide(data.y_proba, MATRIX) != after)


@pytest.mark.parametrize("goal", ["balanced_accuracy", "log_loss"])
def test_the_verdict_rests_on_the_goal(data, both, goal, ask):
    answer = ask("assess", *both, "--goal", goal, "--method", "auto")
    found = ps.assess(data.y_proba_val, data.y_val, data.y_proba, classes=data.classes, goal=goal)
    assert answer["goal"] == goal
    assert answer["verdict"] == found.verdict
    assert answer["gain"]["value"] == pytest.approx(found.gain.value)
    assert answer["estimate"]["decision"]["goal"] == goal


@pytest.mark.usefixtures("blank_figures")
def test_every_command_with_a_verdict_takes_a_goal(data, files, both, write, ask, ok, tmp_path):
    labelled = write("labelled.csv", data.y_proba, data.y)
    named = ("--validation", files[0], "--target", labelled, "--goal", "log_loss")
    answer = ask("estimate", *named, "--method", "auto")
    assert answer["decision"]["goal"] == "log_loss"
    adapted = ask("adapt", *named, "--method", "auto", "--output", tmp_path / "o.csv")
    assert adapted["decision"]["goal"] == "log_loss"
    compared = ask("compare", *named, "--method", "na", "--method", "em")
    assert "has the least log loss" in compared["conclusion"]
    ok("report", *both, "--goal", "log_loss", "--output", tmp_path / "r.html")
    assert "log loss" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_compare_shows_costs(data, files, write, costs, ask, ok):
    named = ("--validation", files[0], "--target", write("l.csv", data.y_proba, data.y))
    chosen = ("--method", "na", "--method", "em", "--costs", costs)
    answer = ask("compare", *named, *chosen)
    index = np.searchsorted(data.classes, data.y)
    paid = MATRIX[index, ps.decide(data.y_proba, MATRIX)].mean()
    assert answer["methods"][0]["scores"]["cost"] == pytest.approx(paid)
    assert "cost" in ok("compare", *named, *chosen).stdout


def test_a_goal_and_costs_exclude_one_another(both, costs, refuse, tmp_path):
    line = refuse(2, "assess", *both, "--costs", costs, "--goal", "log_loss")
    assert "leave out --goal log_loss, or --costs" in line
    assert "'profit'" in refuse(2, "assess", *both, "--goal", "profit")
    adapter = tmp_path / "a.json"
    ps.Adapter(["ant", "bee", "cow"], [0.2, 0.3, 0.5], [0.5, 0.3, 0.2]).to_json(adapter)
    line = refuse(2, "adapt", "--target", both[3], "--adapter", adapter, "--goal", "log_loss")
    assert line.endswith("leave out --goal.")
